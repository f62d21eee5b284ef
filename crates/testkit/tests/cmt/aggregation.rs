//! The share of the summed capacity of several paths that one association reaches with concurrent multipath transfer.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler};
use anabranch_testkit::{Bulk, with_buffers};

const SECOND: Duration = Duration::from_secs(1);

fn multipath(buffers: usize, scheduler: PathScheduler, congestion: CoupledControl) -> Config {
    let mut config = with_buffers(buffers);
    config.multipath.mode = MultipathMode::Cmt;
    config.multipath.scheduler = scheduler;
    config.multipath.congestion = congestion;
    config
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a link")
}

/// Equal disjoint paths of 10 Mbit/s and 40 ms on which nothing is lost, queues included: 95 % of the summed capacity for user
/// data, after slow start, with buffers of twice the summed bandwidth-delay product.
#[test]
fn equal_paths_add_up() {
    // In messages of 1,000 bytes, this share of a packet of IP, UDP and SCTP is user data.
    let capacity = 10.0 * 1000.0 / (1000.0 + 16.0 + 12.0 + 8.0 + 20.0);
    for count in [2, 3, 4] {
        let buffers = 2 * count * 10_000_000 / 8 * 40 / 1000;
        for congestion in [
            CoupledControl::Uncoupled,
            CoupledControl::Grouped,
            CoupledControl::Lia,
            CoupledControl::ResourcePooling,
        ] {
            for scheduler in [PathScheduler::EarliestDeliveryFirst, PathScheduler::RoundRobin] {
                let links = vec![link("rate=10mbit,delay=20ms"); count];
                let mut bulk = Bulk::over(1, &links, &multipath(buffers, scheduler, congestion));
                bulk.run_for(5 * SECOND);
                let share = bulk.run_for(5 * SECOND) / (capacity * count as f64);
                println!("{count} paths, {congestion:?}, {scheduler:?}: {share:.3}");
                assert!(
                    share >= 0.95,
                    "{count} paths, {congestion:?}, {scheduler:?}: {share:.3}"
                );
            }
        }
    }
}

/// The three paths of Kim, Seo and Song (*ECA-SCTP*), the third with these losses in percent.
fn three_paths(loss: u32) -> [LinkConfig; 3] {
    [
        link("rate=2mbit,delay=50ms,queue=50p,loss=0.1%"),
        link("rate=1600kbit,delay=80ms,queue=50p,loss=1%"),
        link(&format!("rate=800kbit,delay=160ms,queue=50p,loss={loss}%")),
    ]
}

/// On the paper's three paths without coupling: 95 % of the summed goodput of three associations, each alone on one path, with
/// the same seeds.
#[test]
fn the_papers_three_paths_add_up() {
    const SEEDS: u64 = 4;
    for loss in [3, 15] {
        let links = three_paths(loss);
        let buffers = 1 << 20;
        let run = |links: &[LinkConfig], config: &Config| {
            let each = (0..SEEDS).map(|seed| Bulk::over(seed, links, config).run_for(100 * SECOND));
            each.sum::<f64>() / SEEDS as f64
        };
        let alone: f64 = links
            .iter()
            .map(|one| run(core::slice::from_ref(one), &with_buffers(buffers)))
            .sum();
        let together = run(
            &links,
            &multipath(
                buffers,
                PathScheduler::EarliestDeliveryFirst,
                CoupledControl::Uncoupled,
            ),
        );
        println!("{loss} %: {together:.2} Mbit/s uncoupled, {alone:.2} alone in sum");
        assert!(
            together >= 0.95 * alone,
            "{loss} %: {together:.2} Mbit/s together, {alone:.2} alone"
        );
    }
}

/// Disjoint paths that lose packets at random, with the settings that are the default, and with BBR: 90 % of the sum of each alone.
#[test]
fn lossy_paths_add_up_by_default() {
    let links = [
        link("rate=10mbit,delay=20ms,queue=50p,loss=1%"),
        link("rate=10mbit,delay=20ms,queue=50p,loss=3%"),
    ];
    for control in [
        CongestionControl::Automatic,
        CongestionControl::Bbr(BbrConfig::default()),
    ] {
        let mut config = Config::default();
        config.congestion_control = control;
        config.path_mtu = 1500;
        config.path_mtu_limit = 1500;
        let run = |links: &[LinkConfig], config: &Config| {
            let each = (0..3).map(|seed| Bulk::over(seed, links, config).run_for(60 * SECOND));
            each.sum::<f64>() / 3.0
        };
        let each = links.each_ref().map(core::slice::from_ref);
        let alone: f64 = each.map(|one| run(one, &config)).iter().sum();
        config.multipath.mode = MultipathMode::Cmt;
        let together = run(&links, &config);
        println!(
            "{:?}: {together:.2} of {alone:.2} Mbit/s",
            config.congestion_control
        );
        assert!(together >= 0.9 * alone, "{together:.2} of {alone:.2} Mbit/s");
    }
}

/// With the default settings for several paths, no cell of a grid of rates, delays and buffers gets less than 0.95 times the
/// goodput of the better path alone with the same buffers. `examples/multipath_grid.rs` prints a finer grid and the other
/// schedulers.
#[test]
fn a_slow_path_costs_nothing() {
    // The second path has a lower rate and a longer delay, by these factors, or the first path has the longer delay.
    for rate in [1, 5, 20] {
        for (first_delay, second_delay) in [(10, 10), (10, 50), (10, 200), (50, 10), (200, 10)] {
            let links = [
                link(&format!("rate=10mbit,delay={first_delay}ms,queue=50p")),
                link(&format!(
                    "rate={}kbit,delay={second_delay}ms,queue=50p",
                    10_000 / rate
                )),
            ];
            for buffers in [64 << 10, 256 << 10] {
                let run = |links: &[LinkConfig], config: &Config| {
                    let mut bulk = Bulk::over(7, links, config);
                    // Set-up uses the first path. The second path is used as soon as a heartbeat has confirmed it.
                    bulk.run_for(3 * SECOND);
                    bulk.run_for(8 * SECOND)
                };
                let alone = links
                    .each_ref()
                    .map(|one| run(core::slice::from_ref(one), &with_buffers(buffers)));
                let mut config = with_buffers(buffers);
                config.multipath.mode = MultipathMode::Cmt;
                let together = run(&links, &config);
                let ratio = together / alone[0].max(alone[1]);
                println!(
                    "1:{rate}, {first_delay} and {second_delay} ms, {buffers} bytes: {together:.2} Mbit/s, {alone:.2?} alone: {ratio:.3}"
                );
                assert!(
                    ratio >= 0.95,
                    "1:{rate}, {first_delay} and {second_delay} ms, {buffers} bytes: {ratio:.3}"
                );
            }
        }
    }
}
