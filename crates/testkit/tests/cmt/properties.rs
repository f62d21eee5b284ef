//! Two to eight paths with independent loss, reordering and outages: reliable messages arrive once and in order, and a loss on
//! one path reduces no other path's window.

use core::time::Duration;

use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy};
use anabranch_testkit::{Ledger, Side};
use proptest::collection::vec;
use proptest::prelude::*;

use super::lines::{both_ways, busy_line, line, scheduler, setup};

fn policy() -> impl Strategy<Value = RetransmissionPolicy> {
    prop_oneof![
        Just(RetransmissionPolicy::SamePath),
        Just(RetransmissionPolicy::LargestSsthresh),
        Just(RetransmissionPolicy::LargestCwnd),
        Just(RetransmissionPolicy::LowestLoss),
        Just(RetransmissionPolicy::SmallestRtt),
        Just(RetransmissionPolicy::EarliestDelivery)
    ]
}

fn congestion() -> impl Strategy<Value = CoupledControl> {
    prop_oneof![
        Just(CoupledControl::Uncoupled),
        Just(CoupledControl::Grouped),
        Just(CoupledControl::Lia),
        Just(CoupledControl::ResourcePooling)
    ]
}

fn config(scheduler: PathScheduler, policy: RetransmissionPolicy, congestion: CoupledControl) -> Config {
    let mut config = Config::rfc9260();
    config.multipath.mode = MultipathMode::Cmt;
    config.multipath.scheduler = scheduler;
    config.multipath.retransmission = policy;
    config.multipath.congestion = congestion;
    config.retransmissions.association_max_retrans = 10_000;
    config
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(
        seed in any::<u64>(),
        lines in vec(line(), 2..=8),
        scheduler in scheduler(),
        policy in policy(),
        congestion in congestion(),
        window in prop_oneof![Just(6000_u32), Just(65_536), Just(1 << 20)],
        reschedule in any::<bool>(),
    ) {
        let mut pair = setup(seed, &lines, config(scheduler, policy, congestion))
            .adjust_both(|config| {
                config.buffers.receive = window;
                config.multipath.reschedule = reschedule;
            })
            .connect();
        let ledgers = Side::BOTH.map(|side| Ledger::new(seed ^ side as u64));
        both_ways(&mut pair, &lines, ledgers, 1000);
    }

    /// Without coupling, the windows of paths without losses are never reduced.
    #[test]
    fn losses_reduce_the_window_of_their_path_only(
        seed in any::<u64>(),
        mut lines in vec(busy_line(0.0), 2..=8),
        lossy in any::<prop::sample::Index>(),
        scheduler in scheduler(),
        policy in policy(),
    ) {
        let lossy = lossy.index(lines.len());
        lines[lossy].loss = 0.1;
        let mut pair = setup(seed, &lines, config(scheduler, policy, CoupledControl::Uncoupled))
            // An idle path loses its window growth, whatever happens on the other paths.
            .adjust_both(|config| config.heartbeat.interval = Some(Duration::from_secs(3600)))
            .connect();
        pair.run_ms(2000);
        let mut ledger = Ledger::new(seed);
        let parcels: Vec<_> = (0..600).map(|_| ledger.parcel(0, 1200, false)).collect();
        pair.post(Side::A, parcels);
        for _ in 0..100 {
            pair.run_ms(50);
            for (index, path) in pair.association(Side::A).stats().paths.iter().enumerate() {
                if index != lossy {
                    prop_assert_eq!((path.fast_recoveries, path.timeouts), (0, 0), "path {}", index);
                }
            }
        }
    }
}
