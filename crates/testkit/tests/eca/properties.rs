//! Any two to eight paths, with losses, reordering and outages of their own.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, Probability};
use anabranch_proto::{AckRouting, Config, MultipathMode, PathScheduler, RetransmissionPolicy};
use anabranch_testkit::{Ledger, Pair, Setup, Side};
use proptest::collection::vec;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
struct Line {
    delay: u32,
    kbit: u64,
    loss: f64,
    /// Of acknowledgements and data the other way.
    back_loss: f64,
    reorder: f64,
    /// When it is down, in milliseconds since data began.
    outage: Option<(u64, u64)>,
}

fn line() -> impl Strategy<Value = Line> {
    let loss = || prop_oneof![Just(0.0), 0.0..0.15_f64];
    let outage = prop_oneof![Just(None), (0_u64..2000, 100_u64..3000).prop_map(Some)];
    let reorder = prop_oneof![Just(0.0), 0.0..0.1_f64];
    (0_u32..150, 200_u64..5000, loss(), loss(), reorder, outage).prop_map(
        |(delay, kbit, loss, back_loss, reorder, outage)| Line {
            delay,
            kbit,
            loss,
            back_loss,
            reorder,
            outage,
        },
    )
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

/// What goes beside ECA-SCTP.
#[derive(Clone, Copy, Debug)]
struct Beside {
    interleaving: bool,
    nr_sack: bool,
    may_renege: bool,
    missing_reports: u8,
    forward_psn: bool,
    reschedule: bool,
    window: u32,
}

fn beside() -> impl Strategy<Value = Beside> {
    let window = prop_oneof![Just(6000_u32), Just(65_536), Just(1 << 20)];
    (any::<[bool; 5]>(), 1_u8..=4, window).prop_map(|(bits, missing_reports, window)| Beside {
        interleaving: bits[0],
        nr_sack: bits[1],
        may_renege: bits[2],
        missing_reports,
        forward_psn: bits[3],
        reschedule: bits[4],
        window,
    })
}

fn config(scheduler: PathScheduler, policy: RetransmissionPolicy, routing: AckRouting) -> Config {
    let mut config = Config::default();
    config.multipath.mode = MultipathMode::Eca;
    config.multipath.scheduler = scheduler;
    config.multipath.retransmission = policy;
    config.multipath.eca.ack_routing = routing;
    config.retransmissions.association_max_retrans = 10_000;
    config
}

fn setup(seed: u64, lines: &[Line], config: Config) -> Setup {
    let setup = lines.iter().fold(Setup::new(seed), |setup, line| {
        let link = |loss: f64| {
            LinkConfig::default()
                .with_delay(line.delay * MS)
                .with_rate(line.kbit * 1000)
                .with_loss(LossModel::bernoulli(loss))
                .with_reorder(Probability::new(line.reorder), 40 * MS)
        };
        setup.path_of(link(line.loss), link(line.back_loss))
    });
    setup.config(config).captured(false)
}

fn is_done(pair: &mut Pair) -> bool {
    Side::BOTH.into_iter().all(|side| {
        let stats = pair.association(side).stats();
        stats.queued_bytes + stats.outstanding_bytes == 0
    })
}

/// Lets the outages begin and end as they come.
fn live_through(pair: &mut Pair, lines: &[Line]) {
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
                config.recovery.missing_reports = beside.missing_reports;
                config.multipath.eca.forward_psn = beside.forward_psn;
                config.multipath.reschedule = beside.reschedule;
                config.buffers.receive = beside.window;
            })
            .connect();
        for side in Side::BOTH {
            let extensions = pair.association(side).stats().extensions;
            prop_assert!(extensions.eca && extensions.interleaving == beside.interleaving);
        }
        let mut ledgers = Side::BOTH.map(|side| Ledger::new(seed ^ side as u64));
        for side in Side::BOTH {
            let parcels: Vec<_> = (0..150).map(|_| ledgers[side as usize].random_parcel(4, 3000)).collect();
            pair.post(side, parcels);
        }
        live_through(&mut pair, &lines);
        let limit = pair.now() + Duration::from_secs(1800);
        prop_assert!(pair.run_to(limit, is_done), "not all was acknowledged");
        pair.run_ms(1000);
        for side in Side::BOTH {
            let ledger = &mut ledgers[side as usize];
            for message in pair.messages(side.other()) {
                ledger.check(&message).expect("once and in order");
            }
            ledger.check_complete().expect("all of it");
        }
    }
}
