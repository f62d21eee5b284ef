//! Two to eight paths with independent loss, reordering and outages: what is reliable arrives once and in order, and no path's
//! losses reduce another's window.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy};
use anabranch_testkit::{Ledger, Setup, Side};
use proptest::collection::vec;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
struct Line {
    delay: u32,
    kbit: u64,
    loss: f64,
    reorder: f64,
    /// When it goes down, and for how long, in milliseconds.
    outage: Option<(u64, u64)>,
}

fn line() -> impl Strategy<Value = Line> {
    (
        0_u32..150,
        200_u64..10_000,
        prop_oneof![Just(0.0), 0.0..0.1],
        prop_oneof![Just(0.0), 0.0..0.1],
        proptest::option::of((0_u64..3000, 100_u64..4000)),
    )
        .prop_map(|(delay, kbit, loss, reorder, outage)| Line {
            delay,
            kbit,
            loss,
            reorder,
            outage,
        })
}

fn scheduler() -> impl Strategy<Value = PathScheduler> {
    prop_oneof![
        Just(PathScheduler::EarliestDeliveryFirst),
        Just(PathScheduler::LowestRttFirst),
        Just(PathScheduler::RoundRobin)
    ]
}

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
        Just(CoupledControl::Lia),
        Just(CoupledControl::ResourcePooling)
    ]
}

fn config(scheduler: PathScheduler, policy: RetransmissionPolicy, congestion: CoupledControl) -> Config {
    let mut config = Config::default();
    config.multipath.mode = MultipathMode::Cmt;
    config.multipath.scheduler = scheduler;
    config.multipath.retransmission = policy;
    config.multipath.congestion = congestion;
    config.retransmissions.association_max_retrans = 10_000;
    config
}

fn setup(seed: u64, lines: &[Line], config: Config) -> Setup {
    let setup = lines.iter().fold(Setup::new(seed), |setup, line| {
        let link = LinkConfig::default()
            .with_delay(line.delay * MS)
            .with_rate(line.kbit * 1000)
            .with_loss(LossModel::bernoulli(line.loss))
            .with_reorder(Probability::new(line.reorder), 40 * MS);
        setup.path(link)
    });
    setup.config(config).captured(false)
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
        let mut ledgers = Side::BOTH.map(|side| Ledger::new(seed ^ side as u64));
        for side in Side::BOTH {
            let parcels: Vec<_> = (0..150).map(|_| ledgers[side as usize].random_parcel(4, 3000)).collect();
            pair.post(side, parcels);
        }
        // Outages begin and end as they come.
        let mut changes: Vec<(u64, usize, bool)> = Vec::new();
        for (path, line) in lines.iter().enumerate() {
            if let Some((from, long)) = line.outage {
                changes.extend([(from, path, true), (from + long, path, false)]);
            }
        }
        changes.sort_unstable();
        let mut at = 0;
        for (when, path, down) in changes {
            pair.run_ms(when - at);
            at = when;
            pair.cut(path, down);
        }
        let done = |pair: &mut anabranch_testkit::Pair| {
            Side::BOTH.into_iter().all(|side| {
                let stats = pair.association(side).stats();
                stats.queued_bytes + stats.outstanding_bytes == 0
            })
        };
        let limit = pair.now() + Duration::from_secs(1800);
        prop_assert!(pair.run_to(limit, done), "not all was acknowledged");
        pair.run_ms(1000);
        for side in Side::BOTH {
            let ledger = &mut ledgers[side as usize];
            for message in pair.messages(side.other()) {
                ledger.check(&message).expect("once and in order");
            }
            ledger.check_complete().expect("all of it");
        }
    }

    /// Uncoupled, the paths without losses never have their windows cut.
    #[test]
    fn no_paths_losses_reduce_anothers_window(
        seed in any::<u64>(),
        lines in vec((0_u32..100, 500_u64..5000), 2..=8),
        lossy in any::<prop::sample::Index>(),
        scheduler in scheduler(),
        policy in policy(),
    ) {
        let lossy = lossy.index(lines.len());
        let lines: Vec<_> = lines
            .into_iter()
            .enumerate()
            .map(|(index, (delay, kbit))| Line {
                delay,
                kbit,
                loss: if index == lossy { 0.1 } else { 0.0 },
                reorder: 0.0,
                outage: None,
            })
            .collect();
        let mut pair = setup(seed, &lines, config(scheduler, policy, CoupledControl::Uncoupled))
            // Idle paths lose what they had, whatever happens on the others.
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
