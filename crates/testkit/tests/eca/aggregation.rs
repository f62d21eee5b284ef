//! The share of the summed capacity of several paths that one association reaches with ECA-SCTP.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy};
use anabranch_testkit::{Bulk, Side, with_buffers};

const SECOND: Duration = Duration::from_secs(1);

fn config(buffers: usize, scheduler: PathScheduler) -> Config {
    let mut config = with_buffers(buffers);
    config.multipath.mode = MultipathMode::Eca;
    config.multipath.scheduler = scheduler;
    config.multipath.congestion = CoupledControl::Uncoupled;
    config
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a link")
}

/// Equal disjoint paths of 10 Mbit/s and 40 ms on which nothing is lost: 95 % of the summed capacity for user data.
#[test]
fn equal_paths_add_up() {
    // In messages of 1,000 bytes, this share of a packet of IP, UDP and SCTP is user data.
    let capacity = 10.0 * 1000.0 / (1000.0 + 20.0 + 12.0 + 8.0 + 20.0);
    for count in [2, 3, 4] {
        let buffers = 2 * count * 10_000_000 / 8 * 40 / 1000;
        for scheduler in [PathScheduler::EarliestDeliveryFirst, PathScheduler::RoundRobin] {
            let links = vec![link("rate=10mbit,delay=20ms"); count];
            let mut bulk = Bulk::over(1, &links, &config(buffers, scheduler));
            bulk.run_for(5 * SECOND);
            let share = bulk.run_for(5 * SECOND) / (capacity * count as f64);
            let stats = bulk.pair.association(Side::A).stats();
            assert!(stats.extensions.eca);
            println!("{count} paths, {scheduler:?}: {share:.3}");
            let repeats = stats.counters.retransmissions_fast + stats.counters.retransmissions_timeout;
            assert_eq!(repeats, 0, "nothing is lost");
            assert!(share >= 0.95, "{count} paths, {scheduler:?}: {share:.3}");
        }
    }
}

/// The three paths of the paper, the third with these losses in percent.
fn three_paths(loss: u32) -> [LinkConfig; 3] {
    [
        link("rate=2mbit,delay=50ms,queue=50p,loss=0.1%"),
        link("rate=1600kbit,delay=80ms,queue=50p,loss=1%"),
        link(&format!("rate=800kbit,delay=160ms,queue=50p,loss={loss}%")),
    ]
}

/// On the paper's three paths ECA-SCTP reaches the goodput of concurrent multipath transfer with the same loss rules. Gap
/// blocks stay few, because FORWARD-PSN closes the gaps that retransmissions on other paths leave. Nearly no chunk waits for
/// T3-rtx.
#[test]
fn the_papers_three_paths() {
    const SEEDS: u64 = 2;
    for (loss, buffers) in [(3, 64 << 10), (15, 64 << 10), (15, 192 << 10)] {
        let run = |change: fn(&mut Config)| {
            let (mut goodput, mut blocks, mut timeouts) = (0.0, 0.0, 0);
            for seed in 0..SEEDS {
                let mut config = config(buffers, PathScheduler::RoundRobin);
                config.multipath.retransmission = RetransmissionPolicy::SmallestRtt;
                change(&mut config);
                let mut bulk = Bulk::over(seed, &three_paths(loss), &config);
                goodput += bulk.run_for(100 * SECOND) / SEEDS as f64;
                let received = bulk.pair.association(Side::Z).counters();
                blocks += received.gap_blocks_sent as f64 / received.sacks_sent as f64 / SEEDS as f64;
                timeouts += bulk.pair.association(Side::A).counters().timeouts;
            }
            (goodput, blocks, timeouts)
        };
        let (eca, blocks, timeouts) = run(|_| {});
        let (cmt, more_blocks, _) = run(|config| {
            config.multipath.mode = MultipathMode::Cmt;
            config.multipath.time_rule = true;
        });
        println!(
            "{loss} %, {buffers} bytes: {eca:.2} and {cmt:.2} Mbit/s, {blocks:.2} and {more_blocks:.2} gap blocks"
        );
        assert!(
            eca >= 0.88 * cmt,
            "{loss} %, {buffers} bytes: {eca:.2} of {cmt:.2} Mbit/s"
        );
        assert!(blocks < 2.0, "{loss} %, {buffers} bytes: {blocks:.2} gap blocks");
        assert!(
            timeouts <= 4 * SEEDS,
            "{loss} %, {buffers} bytes: {timeouts} timeouts"
        );
    }
}
