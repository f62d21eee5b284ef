use anabranch_netsim::{LossModel, QueueLimit};
use anabranch_proto::{CloseReason, LowerLayer};

use super::*;
use crate::ledger::Ledger;

const MS: Duration = Duration::from_millis(1);

fn lossy() -> LinkConfig {
    LinkConfig::default()
        .with_rate(20_000_000)
        .with_delay(10 * MS)
        .with_jitter(2 * MS)
        .with_queue(QueueLimit::Bytes(64 << 10))
        .with_loss(LossModel::bernoulli(0.02))
        .with_reorder(0.01, 5 * MS)
        .with_duplicate(0.01)
        .with_corrupt(0.01)
}

/// Sends messages in both directions and checks them.
fn exchange(pair: &mut Pair, messages: usize, max_len: usize) {
    let mut ledgers = Side::BOTH.map(|side| Ledger::new(pair.network.seed() + side as u64));
    for side in Side::BOTH {
        let parcels: Vec<_> = (0..messages)
            .map(|_| ledgers[side as usize].random_parcel(8, max_len))
            .collect();
        pair.post(side, parcels);
    }
    let limit = pair.now() + Duration::from_secs(3600);
    pair.run_to(limit, |pair| {
        Side::BOTH.into_iter().all(|side| {
            let ledger = &mut ledgers[side as usize];
            for message in pair.messages(side.other()) {
                ledger.check(&message).unwrap();
            }
            ledger.arrived() == messages
        })
    });
    for ledger in &ledgers {
        ledger.check_complete().unwrap();
    }
}

#[test]
fn a_message_each_way() {
    let mut pair = Setup::new(1).connect();
    pair.send(Side::A, 3, "from A");
    pair.send(Side::Z, 4, "from Z");
    pair.run_ms(100);
    for (side, stream, text) in [(Side::Z, 3, "from A"), (Side::A, 4, "from Z")] {
        let messages = pair.messages(side);
        assert_eq!(messages.len(), 1);
        assert_eq!(
            (messages[0].stream, &messages[0].bytes[..]),
            (StreamId(stream), text.as_bytes())
        );
    }
    assert!(
        pair.draw().contains("A → Z  10.0.0.2    I-DATA"),
        "{}",
        pair.draw()
    );
}

#[test]
fn a_shutdown_ends_both_sides() {
    let mut pair = Setup::new(1).connect();
    pair.shutdown(Side::A);
    pair.run_ms(1000);
    for side in Side::BOTH {
        assert!(
            pair.events(side).contains(&Event::Closed(CloseReason::Shutdown)),
            "{side:?}"
        );
    }
}

#[test]
fn every_impairment_is_survived() {
    let mut pair = Setup::new(2).path(lossy()).connect();
    exchange(&mut pair, 300, 20_000);
    let stats = *pair.network.link_stats(pair.links(0).0);
    assert!(stats.lost_model > 0 && stats.corrupted > 0 && stats.duplicated > 0 && stats.reordered > 0);
}

#[test]
fn three_paths_and_ipv6_and_no_udp() {
    let setup = Setup::new(3).path(lossy()).path(lossy()).path(lossy()).ipv6();
    let mut pair = setup
        .adjust_both(|config| config.lower_layer = LowerLayer::Ip)
        .connect();
    exchange(&mut pair, 100, 5_000);
    assert_eq!(pair.association(Side::A).stats().paths.len(), 3);
    assert_eq!(pair.network.unroutable(), 0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut pair = Setup::new(seed).path(lossy()).connect();
        exchange(&mut pair, 50, 5_000);
        (pair.now(), pair.draw(), *pair.network.link_stats(pair.links(0).0))
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).1, run(6).1);
}

#[test]
fn a_side_that_does_not_read_fills_its_window() {
    let mut pair = Setup::new(1).connect();
    pair.set_reading(Side::Z, false);
    let mut ledger = Ledger::new(1);
    pair.post(
        Side::A,
        (0..40)
            .map(|_| ledger.parcel(0, 100_000, false))
            .collect::<Vec<_>>(),
    );
    pair.run_ms(20_000);
    assert!(pair.messages(Side::Z).is_empty());
    assert!(pair.association(Side::Z).stats().a_rwnd < 100_000);
    assert!(!pair.talker(Side::A).backlog.is_empty());
    pair.set_reading(Side::Z, true);
    pair.run_ms(60_000);
    for message in pair.messages(Side::Z) {
        ledger.check(&message).unwrap();
    }
    ledger.check_complete().unwrap();
}
