//! The three paths of Kim, Seo and Song (*ECA-SCTP*): the goodput of all three together, and of each path alone.
//! `cargo run --release -p anabranch-testkit --example multipath_three`.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy};
use anabranch_testkit::{Bulk, with_buffers};

fn paths(loss: f64) -> [LinkConfig; 3] {
    [
        "rate=2mbit,delay=50ms,queue=50p,loss=0.1%",
        "rate=1600kbit,delay=80ms,queue=50p,loss=1%",
        &format!("rate=800kbit,delay=160ms,queue=50p,loss={loss}%"),
    ]
    .map(|text| text.parse().expect("a link"))
}

fn goodput(links: &[LinkConfig], config: &Config, seconds: u64) -> f64 {
    let seeds = 4;
    let run = |seed| Bulk::over(seed, links, config).run_for(Duration::from_secs(seconds));
    (0..seeds).map(run).sum::<f64>() / seeds as f64
}

fn main() {
    let seconds = 100;
    for kib in [64, 192, 1024] {
        for loss in [3.0, 5.0, 10.0, 15.0] {
            let links = paths(loss);
            let config = with_buffers(kib << 10);
            let alone: Vec<f64> = links
                .iter()
                .map(|link| goodput(core::slice::from_ref(link), &config, seconds))
                .collect();
            let sum: f64 = alone.iter().sum();
            print!("{kib:>5} KiB {loss:>3} %: alone {alone:.2?}, sum {sum:.2}; together");
            for (name, coupled, scheduler) in [
                (
                    "uncoupled",
                    CoupledControl::Uncoupled,
                    PathScheduler::EarliestDeliveryFirst,
                ),
                (
                    "grouped",
                    CoupledControl::Grouped,
                    PathScheduler::EarliestDeliveryFirst,
                ),
                ("LIA", CoupledControl::Lia, PathScheduler::EarliestDeliveryFirst),
                (
                    "RP",
                    CoupledControl::ResourcePooling,
                    PathScheduler::EarliestDeliveryFirst,
                ),
                (
                    "rr uncoupled",
                    CoupledControl::Uncoupled,
                    PathScheduler::RoundRobin,
                ),
            ] {
                let mut config = config.clone();
                config.multipath.mode = MultipathMode::Cmt;
                config.multipath.congestion = coupled;
                config.multipath.scheduler = scheduler;
                print!(" {name} {:.2}", goodput(&links, &config, seconds));
            }
            println!();
            if kib == 192 {
                for policy in [
                    RetransmissionPolicy::SamePath,
                    RetransmissionPolicy::LargestSsthresh,
                    RetransmissionPolicy::LargestCwnd,
                    RetransmissionPolicy::LowestLoss,
                    RetransmissionPolicy::SmallestRtt,
                    RetransmissionPolicy::EarliestDelivery,
                ] {
                    let mut config = config.clone();
                    config.multipath.mode = MultipathMode::Cmt;
                    config.multipath.congestion = CoupledControl::Uncoupled;
                    config.multipath.retransmission = policy;
                    println!("    {policy:?} {:.2}", goodput(&links, &config, seconds));
                }
            }
        }
    }
}
