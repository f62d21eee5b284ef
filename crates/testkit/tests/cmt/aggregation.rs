//! How much of several paths one association gets.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler};
use anabranch_testkit::{Bulk, Setup, with_buffers};

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

fn begin(seed: u64, links: &[LinkConfig], config: Config) -> Bulk {
    let back = LinkConfig {
        loss: Default::default(),
        ..LinkConfig::default()
    };
    let setup = links.iter().fold(Setup::new(seed), |setup, there| {
        setup.path_of(there.clone(), back.clone().with_delay(there.delay))
    });
    Bulk::new(setup.config(config))
}

/// Equal disjoint paths of 10 Mbit/s and 40 ms without loss: 95 % of the summed capacity for user data, after slow start, with
/// buffers of twice the summed bandwidth-delay product, uncoupled and coupled by RFC 6356. Resource pooling takes half of all
/// windows from the path that lost, which four paths feel most: what it gets is printed.
#[test]
fn equal_paths_add_up() {
    // Messages of 1,000 bytes: so much of a packet of IP, UDP and SCTP is user data.
    let capacity = 10.0 * 1000.0 / (1000.0 + 16.0 + 12.0 + 8.0 + 20.0);
    for count in [2, 3, 4] {
        let buffers = 2 * count * 10_000_000 / 8 * 40 / 1000;
        for congestion in [
            CoupledControl::Uncoupled,
            CoupledControl::Lia,
            CoupledControl::ResourcePooling,
        ] {
            for scheduler in [PathScheduler::EarliestDeliveryFirst, PathScheduler::RoundRobin] {
                let links = vec![link("rate=10mbit,delay=20ms,queue=50p"); count];
                let mut bulk = begin(1, &links, multipath(buffers, scheduler, congestion));
                bulk.run_for(10 * SECOND);
                let share = bulk.run_for(30 * SECOND) / (capacity * count as f64);
                println!("{count} paths, {congestion:?}, {scheduler:?}: {share:.3}");
                let pooled = congestion == CoupledControl::ResourcePooling;
                let least = if pooled { 0.5 } else { 0.95 };
                assert!(
                    share >= least,
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

/// On the paper's three paths, uncoupled, 95 % of what three associations alone on those paths get, at equal seeds.
#[test]
fn the_papers_three_paths_add_up() {
    const SEEDS: u64 = 4;
    for loss in [3, 15] {
        let links = three_paths(loss);
        let buffers = 1 << 20;
        let run = |links: &[LinkConfig], config: &Config| {
            let each = (0..SEEDS).map(|seed| begin(seed, links, config.clone()).run_for(100 * SECOND));
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
