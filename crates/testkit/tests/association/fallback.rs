//! A peer that supports fewer extensions: both hosts use only the extensions that both support, with loss and in both
//! directions.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{Config, Counters, Reliability, SendOptions};
use anabranch_testkit::{Ledger, Setup, Side, Violation};

/// Sends messages of all kinds in both directions, with extensions of Z turned off. Returns the counters of A and Z.
fn run(seed: u64, restrict: fn(Config) -> Config) -> [Counters; 2] {
    let link = LinkConfig::default()
        .with_delay(Duration::from_millis(15))
        .with_rate(5_000_000)
        .with_queue(QueueLimit::Bytes(60_000))
        .with_loss(LossModel::bernoulli(0.03));
    let mut full = Config::default();
    full.partial_reliability.early_discard = true;
    full.partial_reliability.selective_forward_tsn = Some(1);
    let mut pair = Setup::new(seed)
        .path(link)
        .configs(full.clone(), restrict(full))
        .captured(seed < 2)
        .connect();
    let mut ledgers = Side::BOTH.map(|side| Ledger::new(seed * 2 + side as u64).with_expendable(2));
    for side in Side::BOTH {
        let ledger = &mut ledgers[side as usize];
        let parcels: Vec<_> = (0..200).map(|_| ledger.random_parcel(8, 30_000)).collect();
        pair.post(side, parcels);
    }
    let limit = pair.now() + Duration::from_secs(600);
    let done = |pair: &mut anabranch_testkit::Pair| {
        for side in Side::BOTH {
            for message in pair.messages(side) {
                if let Err(violation) = ledgers[side.other() as usize].check(&message) {
                    panic!("seed {seed}: {violation}");
                }
            }
        }
        let missing = |ledger: &Ledger| matches!(ledger.check_complete(), Err(Violation::Missing { .. }));
        !ledgers.iter().any(missing)
            && Side::BOTH.into_iter().all(|side| {
                let stats = pair.association(side).stats();
                stats.queued_bytes + stats.outstanding_bytes == 0 && pair.talker(side).backlog.is_empty()
            })
    };
    assert!(pair.run_to(limit, done), "seed {seed}: it is not over");
    Side::BOTH.map(|side| *pair.association(side).counters())
}

fn sum(runs: impl Iterator<Item = [Counters; 2]>, of: fn(&Counters) -> u64) -> u64 {
    runs.map(|counters| counters.iter().map(of).sum::<u64>()).sum()
}

/// RFC 9260 without extensions: a message that was sent once is reliable, an unsent message still expires, and no chunk of an
/// extension is sent.
#[test]
fn with_a_peer_that_offers_nothing() {
    for seed in 0..20 {
        for counters in run(seed, Config::without_extensions) {
            assert_eq!(
                (
                    counters.forward_tsns_sent,
                    counters.selective_notices_sent,
                    counters.abandoned_sent
                ),
                (0, 0, 0),
                "seed {seed}"
            );
            assert_eq!(
                (counters.freed_early_bytes, counters.early_discards),
                (0, 0),
                "seed {seed}"
            );
        }
    }
    let unsent = sum(
        (0..20).map(|seed| run(seed, Config::without_extensions)),
        |counters| counters.abandoned_unsent,
    );
    assert!(unsent > 0, "unsent messages expire");
}

/// RFC 3758 without NR-SACK.
#[test]
fn with_a_peer_without_nr_sack() {
    let restrict = |mut config: Config| {
        config.nr_sack.offer = false;
        config
    };
    let runs = || (0..20).map(|seed| run(seed, restrict));
    assert!(sum(runs(), |counters| counters.forward_tsns_received) > 0);
    assert_eq!(sum(runs(), |counters| counters.freed_early_bytes), 0);
}

/// NR-SACK without RFC 3758.
#[test]
fn with_a_peer_without_partial_reliability() {
    let restrict = |mut config: Config| {
        config.partial_reliability.offer = false;
        config
    };
    let runs = || (0..20).map(|seed| run(seed, restrict));
    assert_eq!(sum(runs(), |counters| counters.forward_tsns_sent), 0);
    assert!(sum(runs(), |counters| counters.freed_early_bytes) > 0);
}

/// Experimental chunk types with other numbers: both hosts need the same numbers.
#[test]
fn with_a_peer_whose_experimental_chunks_have_other_numbers() {
    let moved = |config: &mut Config| config.chunk_types.selective_forward_tsn = 170;
    let negotiated = |both: bool| {
        let full = |config: &mut Config| config.partial_reliability.selective_forward_tsn = Some(1);
        let setup = Setup::new(1).path(LinkConfig::default()).adjust_both(full);
        let setup = if both {
            setup.adjust_both(moved)
        } else {
            setup.adjust(Side::A, moved)
        };
        let mut pair = setup.connect();
        for _ in 0..20 {
            let options = SendOptions::default().reliability(Reliability::Retransmissions(0));
            pair.send_with(Side::A, 0, vec![1; 1000], options);
        }
        pair.run_ms(500);
        let taken = pair.association(Side::Z).counters().selective_notices_received;
        let extensions = Side::BOTH.map(|side| pair.association(side).stats().extensions);
        assert_eq!(extensions[0], extensions[1]);
        assert!(extensions[0].partial_reliability && extensions[0].nr_sack);
        (extensions[0].selective_forward_tsn, taken > 0)
    };
    assert_eq!(negotiated(true), (true, true));
    assert_eq!(negotiated(false), (false, false));
}

/// All extensions except selective forward TSN.
#[test]
fn with_a_peer_without_selective_forward_tsn() {
    let restrict = |mut config: Config| {
        config.partial_reliability.selective_forward_tsn = None;
        config
    };
    let runs = || (0..20).map(|seed| run(seed, restrict));
    assert_eq!(sum(runs(), |counters| counters.selective_notices_sent), 0);
    assert!(sum(runs(), |counters| counters.forward_tsns_received) > 0);
}
