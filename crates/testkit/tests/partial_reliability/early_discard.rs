//! Early discard: a chunk that must not be retransmitted is abandoned at its first missing report (Basto and Freitas), and when it counts as
//! a loss.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::Reliability::{Lifetime, Reliable, Retransmissions};
use anabranch_proto::{
    Config, CoupledControl, DiscardReduction, MultipathMode, RecoveryRules, SendOptions, StreamId,
};
use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, NEVER_AGAIN, config};
use anabranch_testkit::{Setup, Side, with};
use anabranch_wire::chunk::kind;

/// The settings of the fixture, with early discard.
fn early() -> Config {
    let mut config = config();
    config.partial_reliability.early_discard = true;
    config
}

fn at_the_first_report() -> Config {
    let mut config = early();
    config.recovery = config
        .recovery
        .early_discard_reduces(DiscardReduction::FirstReport);
    config
}

/// Lets the round trip of the association be this long: one message is acknowledged.
fn measure(fixture: &mut Fixture, round_trip: Duration) {
    fixture.send(&[Reliable], FULL);
    fixture.script.advance(round_trip);
    fixture.nr_sack(1, &[], &[]);
    fixture.sent();
}

// A → DATA 0 (lost), 1 … 4;  A ← one missing report;  A → FORWARD-TSN 0 → Z;  A ← two more;  A reduces its window
/// The first missing report abandons the chunk; the third counts as a loss, as without early discard, and two losses of a window count once.
#[test]
fn the_first_report_discards_and_the_third_reduces() {
    let mut fixture = Fixture::new(early(), &ALL);
    fixture.send(
        &[NEVER_AGAIN, Reliable, NEVER_AGAIN, Reliable, Reliable, Reliable],
        FULL,
    );
    fixture.sent();
    let before = (fixture.cwnd(), fixture.path().flight_size);
    fixture.report_one_by_one(0, 1, 1);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    assert_eq!((fixture.counters().early_discards, fixture.cwnd()), (1, before.0));
    assert!(
        fixture.path().flight_size > before.1 / 2,
        "the chunk is still in flight"
    );
    fixture.nr_sack(0, &[], &[(1, 1), (3, 3)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:2)"], "1 is non-renegable");
    assert_eq!((fixture.counters().early_discards, fixture.cwnd()), (2, before.0));
    fixture.nr_sack(0, &[], &[(1, 1), (3, 4)]);
    assert_eq!(
        (fixture.counters().early_discards, fixture.cwnd()),
        (2, before.0 / 2)
    );
    fixture.nr_sack(0, &[], &[(1, 1), (3, 5)]);
    assert_eq!(
        (fixture.counters().fast_recoveries, fixture.cwnd()),
        (1, before.0 / 2)
    );
    assert_eq!(fixture.path().flight_size, 0);
}

/// The paper's rule: the first missing report reduces the window at once.
#[test]
fn a_reduction_at_the_first_report() {
    let mut fixture = Fixture::new(at_the_first_report(), &ALL);
    fixture.send(&[NEVER_AGAIN, Reliable, NEVER_AGAIN, Reliable, Reliable], FULL);
    fixture.sent();
    let before = fixture.cwnd();
    fixture.report_one_by_one(0, 1, 1);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    assert_eq!(
        (fixture.counters().early_discards, fixture.cwnd()),
        (1, before / 2)
    );
    // The second loss of the window: one congestion signal for both.
    fixture.nr_sack(2, &[], &[(3, 3)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:2)"]);
    assert_eq!(
        (fixture.counters().early_discards, fixture.cwnd()),
        (2, before / 2)
    );
    assert_eq!(fixture.counters().fast_recoveries, 1);
}

// A → DATA 1 (lost), 2;  A ← one missing report;  A → FORWARD-TSN 1 → Z;  A ← NR-SACK 2 after a round trip
/// A chunk that the receiver skips before the reports suffice is a loss all the same: nothing else would ever report it.
#[test]
fn a_skipped_chunk_is_a_loss() {
    for recovery in [RecoveryRules::RFC9260, RecoveryRules::RACK] {
        let mut fixture = Fixture::new(with(early(), |config| config.recovery = recovery), &ALL);
        measure(&mut fixture, 40 * MS);
        fixture.send(&[NEVER_AGAIN, Reliable], FULL);
        fixture.sent();
        let before = fixture.cwnd();
        fixture.script.advance(40 * MS);
        fixture.nr_sack(1, &[], &[(2, 2)]);
        assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"]);
        assert_eq!(fixture.cwnd(), before);
        // RACK would count the chunk after a quarter of a round trip.
        fixture.script.advance(5 * MS);
        assert_eq!(fixture.cwnd(), before);
        fixture.script.advance(35 * MS);
        fixture.nr_sack(3, &[], &[]);
        assert_eq!(fixture.counters().fast_recoveries, 1, "{recovery:?}");
        assert!(fixture.cwnd() < before, "{recovery:?}");
    }
}

// A → DATA 1 (late), 2;  A ← one missing report;  A → FORWARD-TSN 1 → Z;  A ← NR-SACK 2 at once, or with the duplicate 1
/// A chunk that was late and not lost costs nothing: an acknowledgement that comes too soon to answer the FORWARD-TSN shows it, and so does a
/// duplicate TSN.
#[test]
fn a_late_chunk_is_no_loss() {
    for (wait, duplicate) in [(5, false), (40, true)] {
        for recovery in [RecoveryRules::RFC9260, RecoveryRules::RACK] {
            let mut fixture = Fixture::new(with(early(), |config| config.recovery = recovery), &ALL);
            measure(&mut fixture, 40 * MS);
            fixture.send(&[NEVER_AGAIN, Reliable], FULL);
            fixture.sent();
            let before = fixture.cwnd();
            fixture.script.advance(40 * MS);
            fixture.nr_sack(1, &[], &[(2, 2)]);
            assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"]);
            fixture.script.advance(wait * MS);
            let list: &[u32] = if duplicate { &[1] } else { &[] };
            fixture.sack_with_duplicates(3, list);
            fixture.script.advance(Duration::from_secs(2));
            assert!(fixture.cwnd() >= before, "{wait} ms, {recovery:?}");
            assert_eq!(fixture.path().flight_size, 0);
        }
    }
}

// A → DATA 1 (late), 2;  A ← one missing report;  A: the reordering timer;  A ← NR-SACK of 1, or the duplicate 1
/// RACK counted the discarded chunk as lost, and then it comes: the reduction is undone, as for any other chunk (RFC 3708).
#[test]
fn the_reduction_for_a_late_chunk_is_undone() {
    for told in [false, true] {
        let mut fixture = Fixture::new(
            with(early(), |config| config.recovery = RecoveryRules::RACK),
            &ALL,
        );
        measure(&mut fixture, 40 * MS);
        fixture.send(&[NEVER_AGAIN, Reliable], FULL);
        fixture.sent();
        let before = fixture.cwnd();
        fixture.script.advance(40 * MS);
        fixture.nr_sack(1, &[], &[(2, 2)]);
        assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"]);
        fixture.script.advance(15 * MS);
        assert_eq!(
            (
                fixture.counters().early_discards,
                fixture.counters().fast_recoveries
            ),
            (1, 1)
        );
        if told {
            // The FORWARD-TSN came first, then the chunk: a duplicate.
            fixture.script.advance(40 * MS);
            fixture.sack_with_duplicates(3, &[1]);
        } else {
            fixture.nr_sack(3, &[], &[]);
        }
        assert_eq!(fixture.counters().reductions_undone, 1, "{told}");
        assert!(fixture.cwnd() >= before, "{told}");
    }
}

// A → DATA 1 (lost), 2 … 4;  A ← three missing reports;  A → DATA 1 (lost), 5;  A ← 5;  A → FORWARD-TSN 1 → Z
/// At a reliability level of 1 the first missing report of the retransmission discards, and it comes from a chunk that left later. The loss
/// belongs to the same recovery.
#[test]
fn the_first_report_of_the_last_retransmission_discards() {
    for recovery in [RecoveryRules::RFC9260, RecoveryRules::RACK] {
        let mut fixture = Fixture::new(with(early(), |config| config.recovery = recovery), &ALL);
        measure(&mut fixture, 40 * MS);
        fixture.send(
            &[Retransmissions(1), Reliable, Reliable, Reliable, Reliable],
            FULL,
        );
        fixture.sent();
        fixture.script.advance(40 * MS);
        for last in 2..=4 {
            fixture.nr_sack(1, &[], &[(2, last)]);
        }
        assert_eq!(fixture.sent(), ["DATA 1"], "{recovery:?}");
        assert_eq!(fixture.counters().early_discards, 0);
        // A report from a chunk that left before the retransmission.
        fixture.script.advance(5 * MS);
        fixture.nr_sack(1, &[], &[(2, 5)]);
        assert_eq!(
            (fixture.sent(), fixture.counters().early_discards),
            (vec![], 0),
            "{recovery:?}"
        );
        fixture.send(&[Reliable], FULL);
        assert_eq!(fixture.sent(), ["DATA 6"]);
        fixture.script.advance(40 * MS);
        fixture.nr_sack(1, &[], &[(2, 6)]);
        assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"], "{recovery:?}");
        assert_eq!(fixture.counters().early_discards, 1, "{recovery:?}");
        assert_eq!(fixture.abandoned(), [(1, true)]);
        // RACK waits for a quarter of a round trip.
        fixture.script.advance(20 * MS);
        assert_eq!(
            (fixture.counters().timeouts, fixture.path().flight_size),
            (0, 0),
            "{recovery:?}"
        );
    }
}

// A → DATA 0 (lost), 1 (late);  T3;  A → DATA 0;  A ← 1
/// An original that left before the retransmission does not report it missing, also after T3-rtx.
#[test]
fn a_late_original_does_not_report_a_retransmission() {
    let mut fixture = Fixture::new(early(), &ALL);
    fixture.send(&[Retransmissions(1), Reliable], FULL);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1"]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["DATA 0"]);
    fixture.nr_sack(0, &[], &[(1, 1)]);
    assert_eq!((fixture.sent(), fixture.counters().early_discards), (vec![], 0));
}

// A → I-DATA 0 (lost), 1;  A ← one missing report;  A → I-FORWARD-TSN 0
/// With interleaving, I-FORWARD-TSN passes a discarded chunk at once, if no other fragment of its message may come.
#[test]
fn interleaved_messages_are_passed() {
    let mut config = early();
    config.interleaving.offer = true;
    let kinds = [&ALL[..], &[kind::I_DATA, kind::I_FORWARD_TSN]].concat();
    let mut fixture = Fixture::new(config.clone(), &kinds);
    fixture.send(&[NEVER_AGAIN, Reliable], 1000);
    fixture.sent();
    fixture.report_one_by_one(0, 1, 1);
    assert_eq!(fixture.sent(), ["I-FORWARD-TSN 0 (0:0)"]);

    let mut fixture = Fixture::new(config, &kinds);
    fixture.send(&[NEVER_AGAIN], 2000);
    fixture.send(&[Reliable; 3], 1000);
    assert_eq!(fixture.sent().len(), 5);
    fixture.report_one_by_one(0, 2, 3);
    assert_eq!((fixture.sent(), fixture.counters().early_discards), (vec![], 2));
    fixture.nr_sack(0, &[], &[(2, 4)]);
    assert_eq!(fixture.sent(), ["I-FORWARD-TSN 1 (0:0)"]);
}

/// At every reliability level, with missing reports and with RACK, on one path and on several, losses of the last transmission are discarded
/// early, and nearly nothing waits for T3-rtx.
#[test]
fn every_level_discards_early() {
    for recovery in [RecoveryRules::RFC9260, RecoveryRules::RACK] {
        for mode in [MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Eca] {
            for level in 0..3 {
                let mut config = anabranch_testkit::quiet();
                config.recovery = recovery;
                config.partial_reliability.offer = true;
                config.partial_reliability.early_discard = true;
                config.multipath.mode = mode;
                config.multipath.congestion = CoupledControl::Uncoupled;
                let link = LinkConfig::default().with_rate(4_000_000).with_delay(20 * MS);
                let links = if mode == MultipathMode::Off { 1 } else { 2 };
                let setup = (0..links).fold(Setup::new(1), |setup, _| {
                    setup.path(link.clone().with_loss(LossModel::bernoulli(0.1)))
                });
                let mut pair = setup.config(config).connect();
                let options = SendOptions::default().reliability(Retransmissions(level));
                for _ in 0..100 {
                    for _ in 0..20 {
                        pair.send_with(Side::A, 0, vec![7; 1000], options);
                    }
                    pair.run_ms(200);
                }
                pair.run_ms(20_000);
                let counters = pair.association(Side::A).counters();
                let context = format!("{recovery:?}, {mode:?}, level {level}: {counters:#?}");
                assert!(counters.early_discards > 0, "{context}");
                assert_eq!(
                    pair.association(Side::A).stats().outstanding_bytes,
                    0,
                    "{context}"
                );
            }
        }
    }
}

/// Early discard concerns only chunks that must not be retransmitted. A reliable chunk is lost after three missing reports.
#[test]
fn reliable_chunks_are_spared() {
    let config = early();
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(
        &[
            Reliable,
            Retransmissions(1),
            Lifetime(1000 * MS),
            Reliable,
            Reliable,
        ],
        FULL,
    );
    fixture.sent();
    fixture.report_one_by_one(0, 3, 4);
    assert_eq!((fixture.sent(), fixture.counters().early_discards), (vec![], 0));
}

// A → DATA 0 (lost), 1 (lost), 2;  A ← one missing report;  A → FORWARD-TSN of the message with early discard → Z
/// A message can set whether it is discarded early. Otherwise the association's setting is used.
#[test]
fn for_single_messages() {
    for (first, second, usual, told) in [
        (Some(true), Some(false), false, &["FORWARD-TSN 0 (0:0)"][..]),
        (Some(true), None, false, &["FORWARD-TSN 0 (0:0)"]),
        (None, Some(false), true, &["FORWARD-TSN 0 (0:0)"]),
        (Some(true), None, true, &["FORWARD-TSN 1 (0:1)"]),
        (None, None, false, &[]),
    ] {
        let mut config = at_the_first_report();
        config.partial_reliability.early_discard = usual;
        let mut fixture = Fixture::new(config, &ALL);
        for early_discard in [first, second, None] {
            fixture.script.act(|association, now| {
                let options = SendOptions::default()
                    .reliability(NEVER_AGAIN)
                    .early_discard(early_discard);
                let message = vec![7; FULL].into();
                association
                    .send(now, StreamId(0), message, options)
                    .expect("send");
            });
        }
        fixture.sent();
        let before = fixture.cwnd();
        fixture.report_one_by_one(0, 2, 2);
        assert_eq!(fixture.sent(), told, "{first:?}, {second:?}, {usual}");
        assert_eq!(fixture.counters().fast_recoveries, u64::from(!told.is_empty()));
        assert_eq!(
            fixture.cwnd() < before,
            !told.is_empty(),
            "it is a loss all the same"
        );
    }
}

/// Like FreeBSD: chunks dropped at the first missing report do not count as lost. For comparison only.
#[test]
fn without_a_reduction() {
    let mut config = early();
    config.recovery = config.recovery.early_discard_reduces(DiscardReduction::Never);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[NEVER_AGAIN, Reliable], FULL);
    fixture.sent();
    let before = fixture.cwnd();
    fixture.report_one_by_one(0, 1, 1);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    assert_eq!(fixture.cwnd(), before);
}

// A → DATA 0 (late), 1;  A ← missing report;  A → FORWARD-TSN 0 → Z;  A ← SACK of 0, which arrived late ← Z
/// Safe condition 7, and A2: an abandoned chunk that arrives late is acknowledged, and does not increase the window.
#[test]
fn an_abandoned_chunk_arrives_late() {
    let config = at_the_first_report();
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[NEVER_AGAIN, Reliable], FULL);
    fixture.report_one_by_one(0, 1, 1);
    let cut = fixture.cwnd();
    fixture.nr_sack(2, &[], &[]);
    let stats = fixture.script.association().stats();
    assert_eq!((stats.outstanding_bytes, stats.paths[0].flight_size), (0, 0));
    assert_eq!(fixture.cwnd(), cut);
    assert_eq!(fixture.counters().retransmissions_fast, 0);

    // A window that is full does not grow either.
    let mut config = early();
    config.recovery = config.recovery.early_discard_reduces(DiscardReduction::Never);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.send(&[Reliable; 41], FULL);
    fixture.nr_sack(0, &[], &[(1, 1)]);
    let (cwnd, stats) = (fixture.cwnd(), fixture.script.association().stats());
    assert!(stats.paths[0].flight_size >= cwnd, "the window is full");
    fixture.nr_sack(2, &[], &[]);
    assert_eq!(fixture.cwnd(), cwnd);
}

// A → DATA 0 (lost), 1 … 39;  A ← missing report;  A → FORWARD-TSN 0, DATA 40, 41 (window full) → Z;  A ← NR-SACK 2 ← Z
/// A2: a cumulative TSN ack that passes abandoned chunks does not increase the window, even if the window is full.
#[test]
fn passed_chunks_do_not_grow_the_window() {
    let mut config = early();
    config.recovery = config.recovery.early_discard_reduces(DiscardReduction::Never);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.send(&[Reliable; 41], FULL);
    fixture.nr_sack(0, &[], &[(1, 1)]);
    let stats = fixture.script.association().stats();
    let (cwnd, flight) = (stats.paths[0].cwnd, stats.paths[0].flight_size);
    assert_eq!(
        (stats.queued_bytes, flight >= cwnd),
        (0, true),
        "the window is full"
    );
    fixture.nr_sack(2, &[], &[]);
    assert_eq!(fixture.cwnd(), cwnd);
}
