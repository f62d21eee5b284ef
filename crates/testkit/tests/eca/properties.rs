//! Two to eight paths with independent losses, reordering and outages: reliable messages arrive once and in order, a loss on
//! one path reduces no other path's window, there are no spurious retransmissions, and no transfer stalls.

use core::time::Duration;

use anabranch_proto::{
    AckRouting, Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy,
};
use anabranch_testkit::{Bulk, Ledger, Side};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::lines::{Line, both_ways, busy_line, line, scheduler, setup};

const MS: Duration = Duration::from_millis(1);

/// Bulk transfers of each kind.
const CASES: u32 = 12;

fn policy() -> impl Strategy<Value = RetransmissionPolicy> {
    prop_oneof![
        Just(RetransmissionPolicy::SamePath),
        Just(RetransmissionPolicy::SmallestRtt),
        Just(RetransmissionPolicy::EarliestDelivery)
    ]
}

fn routing() -> impl Strategy<Value = AckRouting> {
    prop_oneof![
        Just(AckRouting::Measured),
        Just(AckRouting::LastArrival),
        Just(AckRouting::EveryPath),
        Just(AckRouting::Unranked),
        Just(AckRouting::Ranked)
    ]
}

/// Extensions used together with ECA-SCTP.
#[derive(Clone, Copy, Debug)]
struct Beside {
    interleaving: bool,
    nr_sack: bool,
    may_renege: bool,
    missing_reports: u8,
    forward_psn: bool,
    reschedule: bool,
    /// One message in this many may be abandoned; 0 for none.
    expendable: u64,
    window: u32,
}

fn beside() -> impl Strategy<Value = Beside> {
    let window = prop_oneof![Just(6000_u32), Just(65_536), Just(1 << 20)];
    (any::<[bool; 6]>(), 1_u8..=4, window).prop_map(|(bits, missing_reports, window)| Beside {
        interleaving: bits[0],
        nr_sack: bits[1],
        may_renege: bits[2],
        missing_reports,
        forward_psn: bits[3],
        reschedule: bits[4],
        expendable: if bits[5] { 3 } else { 0 },
        window,
    })
}

fn config(scheduler: PathScheduler, policy: RetransmissionPolicy, routing: AckRouting) -> Config {
    let mut config = Config::rfc9260();
    config.multipath.mode = MultipathMode::Eca;
    config.multipath.scheduler = scheduler;
    config.multipath.retransmission = policy;
    config.multipath.eca.ack_routing = routing;
    config.retransmissions.association_max_retrans = 10_000;
    config
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(
        seed in any::<u64>(),
        lines in vec(line(), 2..=8),
        scheduler in scheduler(),
        policy in policy(),
        routing in routing(),
        beside in beside(),
    ) {
        let mut pair = setup(seed, &lines, config(scheduler, policy, routing))
            .adjust_both(|config| {
                config.interleaving.offer = beside.interleaving;
                config.nr_sack.offer = beside.nr_sack;
                config.nr_sack.may_renege = beside.may_renege;
                config.recovery = config.recovery.missing_reports(beside.missing_reports);
                config.multipath.eca.forward_psn = beside.forward_psn;
                config.multipath.reschedule = beside.reschedule;
                config.buffers.receive = beside.window;
            })
            .connect();
        for side in Side::BOTH {
            let extensions = pair.association(side).stats().extensions;
            prop_assert!(extensions.eca && extensions.interleaving == beside.interleaving);
        }
        let ledgers =
            Side::BOTH.map(|side| Ledger::new(seed ^ side as u64).with_expendable(beside.expendable));
        // Non-renegable chunks are no longer in the send buffer, but may be held there for a FORWARD-TSN that passes others.
        both_ways(&mut pair, &lines, ledgers, 300_000);
    }
}

fn bulk(seed: u64, lines: &[Line], config: Config, change: impl Fn(&mut Config)) -> Bulk {
    let setup = setup(seed, lines, config).adjust_both(|config| {
        config.multipath.congestion = CoupledControl::Uncoupled;
        config.buffers.growth = 1;
        // An idle path loses its window growth, whatever happens on the other paths.
        config.heartbeat.interval = Some(Duration::from_secs(3600));
        change(config);
    });
    Bulk::new(setup)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        // Statements that hold for nearly all cases are checked on the same cases each time.
        rng_seed: RngSeed::Fixed(4),
        ..ProptestConfig::default()
    })]

    /// Without coupling, the windows of paths without losses are never reduced.
    #[test]
    fn losses_reduce_the_window_of_their_path_only(
        seed in any::<u64>(),
        lines in vec(busy_line(0.0), 2..=8),
        lossy in any::<prop::sample::Index>(),
        scheduler in scheduler(),
        policy in policy(),
        routing in routing(),
    ) {
        let lossy = lossy.index(lines.len());
        let mut lines = lines;
        lines[lossy].loss = 0.1;
        let mut bulk = bulk(seed, &lines, config(scheduler, policy, routing), |_| {});
        bulk.run_for(5000 * MS);
        for (index, path) in bulk.pair.association(Side::A).stats().paths.iter().enumerate() {
            if index != lossy {
                prop_assert_eq!((path.fast_recoveries, path.timeouts), (0, 0), "path {}", index);
            }
        }
    }

    /// Without losses there are no retransmissions, on any paths and with any loss rules.
    #[test]
    fn without_losses_no_retransmissions(
        seed in any::<u64>(),
        lines in vec(busy_line(0.0), 2..=8),
        scheduler in scheduler(),
        routing in routing(),
        beside in beside(),
    ) {
        let policy = RetransmissionPolicy::SmallestRtt;
        let mut bulk = bulk(seed, &lines, config(scheduler, policy, routing), |config| {
            config.recovery = config.recovery.missing_reports(beside.missing_reports);
            config.interleaving.offer = beside.interleaving;
            config.buffers.receive = beside.window.max(20_000);
        });
        bulk.run_for(5000 * MS);
        let counters = bulk.pair.association(Side::A).counters();
        prop_assert!(counters.data_chunks_sent > 100);
        prop_assert_eq!((counters.retransmissions_fast, counters.timeouts), (0, 0));
        let received = bulk.pair.association(Side::Z).counters();
        prop_assert_eq!(received.gap_blocks_sent, 0);
    }

    /// With any losses, gaps stay few and no chunk waits long.
    #[test]
    fn gaps_are_closed_and_nothing_stalls(
        seed in any::<u64>(),
        lines in vec(busy_line(0.15), 2..=8),
        scheduler in scheduler(),
        routing in routing(),
        interleaving in any::<bool>(),
    ) {
        let policy = RetransmissionPolicy::SmallestRtt;
        let mut bulk = bulk(seed, &lines, config(scheduler, policy, routing), |config| {
            config.interleaving.offer = interleaving;
            config.buffers.receive = 192 << 10;
        });
        bulk.run_for(20_000 * MS);
        let received = bulk.pair.association(Side::Z).counters();
        let blocks = received.gap_blocks_sent as f64 / received.sacks_sent as f64;
        prop_assert!(blocks < 2.0 * lines.len() as f64, "{} blocks an acknowledgement", blocks);
        prop_assert!(bulk.sink().longest_pause < 6000 * MS, "{:?}", bulk.sink().longest_pause);
    }
}
