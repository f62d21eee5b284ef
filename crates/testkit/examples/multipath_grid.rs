//! Compares concurrent multipath transfer over two unequal paths with the better path alone, with the same buffers, on a grid
//! of rates, delays and buffers, for each path scheduler. `cargo run --release -p anabranch-testkit --example multipath_grid`.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler};
use anabranch_testkit::{Bulk, with_buffers};

/// Mbit/s, one-way delay in milliseconds.
type Link = (f64, u64);

fn link((rate, delay): Link) -> LinkConfig {
    format!("rate={}kbit,delay={delay}ms,queue=50p", (rate * 1000.0) as u64)
        .parse()
        .expect("a link")
}

fn goodput(links: &[Link], config: &Config, seconds: u64) -> f64 {
    let links: Vec<_> = links.iter().map(|one| link(*one)).collect();
    let mut bulk = Bulk::over(7, &links, config);
    // Set-up uses the first path. The second path is used as soon as a heartbeat has confirmed it.
    bulk.run_for(Duration::from_secs(3));
    bulk.run_for(Duration::from_secs(seconds))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let seconds = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(60);
    let coupled = match arguments.get(2).map(String::as_str) {
        Some("uncoupled") => CoupledControl::Uncoupled,
        Some("rp") => CoupledControl::ResourcePooling,
        _ => CoupledControl::Lia,
    };
    println!(
        "{:>5} {:>5} {:>6}  {:>7} {:>7}  {:>6} {:>6} {:>6}",
        "rate", "delay", "KiB", "fast", "slow", "edf", "rtt", "rr"
    );
    let mut worst = [f64::MAX; 3];
    for rate in [1.0, 2.0, 5.0, 10.0, 20.0] {
        for delay in [1.0, 2.0, 5.0, 10.0, 20.0, 0.05, 0.2] {
            for kib in [64, 128, 256, 1024] {
                let config = with_buffers(kib << 10);
                // The first path has 10 Mbit/s and 10 ms. The second path has a lower rate and a longer delay, by these
                // factors.
                let first = (10.0, if delay < 1.0 { (10.0 / delay) as u64 } else { 10 });
                let second = (10.0 / rate, if delay < 1.0 { 10 } else { (10.0 * delay) as u64 });
                let alone = [
                    goodput(&[first], &config, seconds),
                    goodput(&[second], &config, seconds),
                ];
                let best = alone[0].max(alone[1]);
                let schedulers = [
                    PathScheduler::EarliestDeliveryFirst,
                    PathScheduler::LowestRttFirst,
                    PathScheduler::RoundRobin,
                ];
                let ratios = schedulers.map(|scheduler| {
                    let mut config = config.clone();
                    config.multipath.mode = MultipathMode::Cmt;
                    config.multipath.scheduler = scheduler;
                    config.multipath.congestion = coupled;
                    goodput(&[first, second], &config, seconds) / best
                });
                let mark = if ratios[0] < 0.95 { "  <" } else { "" };
                println!(
                    "{rate:>5} {delay:>5} {kib:>6}  {:>7.3} {:>7.3}  {:>6.3} {:>6.3} {:>6.3}{mark}",
                    alone[0], alone[1], ratios[0], ratios[1], ratios[2]
                );
                for (worst, ratio) in worst.iter_mut().zip(ratios) {
                    *worst = worst.min(ratio);
                }
            }
        }
    }
    println!("worst: {worst:.3?}");
}
