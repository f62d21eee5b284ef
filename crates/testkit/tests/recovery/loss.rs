//! Loss recovery and congestion control (RFC 9260 §6.3 and §7.2) with hand-made SACKs, with the packets of each test drawn.

use core::time::Duration;

use anabranch_proto::{AssociationState, CloseReason, Event, PathError, PathId, Tsn};
use anabranch_testkit::Script;
use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, Data};

use crate::sacks::{FULL, PMDCS, counters, established, path, quiet, sack, send, sent, sent_flat};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// An association whose window grew above `cwnd` by slow start, with data waiting; returns the number of the first TSN that is
/// not acknowledged, and of the first TSN that was not sent.
fn grown(script: &mut Script, cwnd: usize) -> (u32, u32) {
    send(script, 400, FULL);
    let (mut acked, mut next) = (0, 0);
    while path(script).cwnd <= cwnd {
        next = sent_flat(script).last().map_or(next, |last| last + 1);
        acked = (acked + 2).min(next);
        let ack = sack(script, acked, &[], &[]);
        script.send(&[ack]);
    }
    next = sent_flat(script).last().map_or(next, |last| last + 1);
    (acked, next)
}

/// Acknowledges all TSNs up to `end`, one packet at a time.
fn acked_one_by_one(script: &mut Script, from: u32, end: u32) {
    for acked in from + 1..=end {
        let ack = sack(script, acked, &[], &[]);
        script.send(&[ack]);
    }
    assert_eq!(script.association().stats().outstanding_bytes, 0);
}

// A → DATA → (lost), again after 1 s, 2 s, 4 s
/// §6.3.3 E1 and E2, §7.2.3: each timeout reduces the window to one packet and doubles the RTO.
#[test]
fn t3_doubles_the_rto_and_reduces_the_window() {
    let mut script = established(quiet());
    send(&mut script, 1, 100);
    assert_eq!(sent(&mut script), [[0]]);
    for wait in [1, 2, 4] {
        assert_eq!(script.advance_to_timeout(), wait * SECOND);
        assert_eq!(sent(&mut script), [[0]]);
        assert_eq!(path(&script).rto, 2 * wait * SECOND);
    }
    let now = path(&script);
    assert_eq!((now.cwnd, now.ssthresh, now.error_count), (PMDCS, 4 * PMDCS, 3));
    assert_eq!(
        (
            counters(&script).timeouts,
            counters(&script).retransmissions_timeout
        ),
        (3, 3)
    );
    let ack = sack(&script, 1, &[], &[]);
    script.send(&[ack]);
    assert_eq!(path(&script).error_count, 0, "§8.2: an answer clears the counter");
}

// A → DATA → (lost)
// A → DATA (T3-rtx) → Z
// A ← SACK ← Z
/// §6.3.1 C5: a retransmitted chunk gives no RTT sample, and the backed-off RTO stays until another chunk gives one.
#[test]
fn karn_takes_no_sample_from_a_retransmission() {
    let mut script = established(quiet());
    let before = path(&script).srtt;
    send(&mut script, 1, 100);
    script.advance(1010 * MS);
    let ack = sack(&script, 1, &[], &[]);
    script.send(&[ack]);
    assert_eq!((path(&script).srtt, path(&script).rto), (before, 2 * SECOND));
    send(&mut script, 1, 100);
    script.advance(300 * MS);
    let ack = sack(&script, 2, &[], &[]);
    script.send(&[ack]);
    assert_ne!(path(&script).srtt, before);
    assert!(path(&script).rto < 2 * SECOND, "a sample ends the back-off");
}

// A → DATA → Z
// A ← SACK (after 300 ms) ← Z
// A → DATA → Z
// A ← SACK (after 100 ms) ← Z
/// §6.3.1 C2 and C3: the first RTT sample and the next.
#[test]
fn rto_follows_the_samples() {
    let mut config = quiet();
    config.rto.min = 10 * MS;
    let mut script = established(config);
    assert_eq!(
        path(&script).srtt,
        None,
        "the side that did not begin has no sample yet"
    );
    let expected = [(300, 300_000, 150_000), (100, 275_000, 162_500)];
    for (number, (rtt, srtt, rttvar)) in (1..).zip(expected) {
        send(&mut script, 1, 100);
        script.advance(rtt * MS);
        let ack = sack(&script, number, &[], &[]);
        script.send(&[ack]);
        let (srtt, rttvar) = (Duration::from_micros(srtt), Duration::from_micros(rttvar));
        let now = path(&script);
        assert_eq!(
            (now.srtt, now.rttvar, now.rto),
            (Some(srtt), rttvar, srtt + 4 * rttvar)
        );
    }
}

// A → DATA 0, DATA 1 → Z
// A ← SACK 0 (after 600 ms) ← Z
// A → DATA 1 (T3-rtx, counted from the SACK) → Z
/// §6.3.2 R2 and R3: acknowledging the earliest chunk restarts T3-rtx, acknowledging all chunks stops it.
#[test]
fn t3_restarts_with_the_earliest_and_stops_with_the_last() {
    let mut script = established(quiet());
    send(&mut script, 2, FULL);
    assert_eq!(sent(&mut script), [[0], [1]]);
    script.advance(600 * MS);
    let ack = sack(&script, 1, &[], &[]);
    script.send(&[ack]);
    let rto = path(&script).rto;
    assert_eq!(script.advance_to_timeout(), rto);
    assert_eq!(sent(&mut script), [[1]]);
    let ack = sack(&script, 2, &[], &[]);
    script.send(&[ack]);
    script.advance(600 * SECOND);
    script.expect_silence();
    assert_eq!(counters(&script).timeouts, 1);
}

// A → DATA 0 … n → Z
// A: T3-rtx expires
// A → DATA 0 → Z, nothing more until it is acknowledged
/// §6.3.3 E3, §7.2.1: one packet in flight after a timeout.
#[test]
fn one_packet_in_flight_after_t3() {
    let mut script = established(quiet());
    let (acked, _) = grown(&mut script, 8 * PMDCS);
    script.advance_to_timeout();
    assert_eq!(sent(&mut script), [[acked]]);
    assert_eq!((path(&script).cwnd, path(&script).flight_size), (PMDCS, PMDCS));
    let ack = sack(&script, acked + 1, &[], &[]);
    script.send(&[ack]);
    let next = sent_flat(&mut script);
    assert_eq!(
        next.first(),
        Some(&(acked + 1)),
        "retransmissions continue in order"
    );
    assert!(next.len() <= 2, "slow start from one packet: {next:?}");
}

// A → DATA 0 1 2 3 → Z (0 is lost)
// A ← SACK gaps 1, 1–2, 1–3 ← Z
// A → DATA 0 at the third → Z
/// §7.2.4: three missing reports, not two; one fast retransmit for a chunk.
#[test]
fn fast_retransmit_once_after_three_missing_reports() {
    let mut script = established(quiet());
    send(&mut script, 4, FULL);
    assert_eq!(sent(&mut script).len(), 4);
    for (last, repeated) in [(2, vec![]), (3, vec![]), (4, vec![0])] {
        let ack = sack(&script, 0, &[(2, last)], &[]);
        script.send(&[ack]);
        assert_eq!(sent_flat(&mut script), repeated, "a block up to {last}");
    }
    send(&mut script, 3, FULL);
    assert_eq!(sent_flat(&mut script), [4, 5, 6]);
    for last in [5, 6, 7] {
        let ack = sack(&script, 0, &[(2, last)], &[]);
        script.send(&[ack]);
        assert_eq!(sent_flat(&mut script), [], "step 5: no second fast retransmit");
    }
    assert_eq!(counters(&script).retransmissions_fast, 1);
    assert_eq!(counters(&script).fast_recoveries, 1);
}

// A → DATA 0 1 2 → Z
// A ← SACK gap 1, three times the same ← Z
/// §7.2.4, HTNA: a SACK that newly acknowledges no chunk makes no missing report.
#[test]
fn repeated_sacks_are_no_missing_reports() {
    let mut script = established(quiet());
    send(&mut script, 3, FULL);
    sent(&mut script);
    for _ in 0..5 {
        let ack = sack(&script, 0, &[(2, 2)], &[]);
        script.send(&[ack]);
        script.expect_silence();
    }
    assert_eq!(counters(&script).retransmissions_fast, 0);
}

// A → DATA a … → Z (a and a+2 are lost)
// A ← SACKs that report a three times, then a+2 ← Z
// A → DATA a, then DATA a+2 → Z with one window reduction
// A ← SACK of all that was sent before ← Z
/// §7.2.4: fast recovery reduces the window once, keeps cwnd meanwhile, and ends at the recovery exit point.
#[test]
fn one_reduction_a_window() {
    let mut script = established(quiet());
    let (acked, next) = grown(&mut script, 12 * PMDCS);
    assert!(next - acked >= 8);
    let before = path(&script).cwnd;
    let mut repeats = Vec::new();
    let end = (next - acked) as u16;
    let mut patterns = vec![vec![(2, 2)], vec![(2, 2), (4, 4)]];
    patterns.extend((5..=end).map(|last| vec![(2, 2), (4, last)]));
    for blocks in &patterns {
        let ack = sack(&script, acked, blocks, &[]);
        script.send(&[ack]);
        let flight = path(&script).flight_size;
        let found: Vec<_> = sent_flat(&mut script)
            .into_iter()
            .filter(|&tsn| tsn < next)
            .collect();
        // Step 3 lets the first packet out in any window. The next packet waits until the window allows it.
        assert!(repeats.is_empty() || found.is_empty() || flight < before / 2 + PMDCS);
        repeats.extend(found);
    }
    assert_eq!(repeats, [acked, acked + 2]);
    let now = path(&script);
    assert_eq!((now.cwnd, now.ssthresh), (before / 2, before / 2));
    assert_eq!(counters(&script).fast_recoveries, 1);
    // The partial acknowledgement does not let the window grow. The acknowledgement of all chunks ends recovery.
    let ack = sack(&script, acked + 2, &[(2, end - 2)], &[]);
    script.send(&[ack]);
    assert_eq!(path(&script).cwnd, before / 2);
    let fresh = sent_flat(&mut script)
        .last()
        .map_or(next, |last| last + 1)
        .max(next);
    // The exit point is the highest TSN outstanding when recovery began. New data had left by then.
    let ack = sack(&script, fresh, &[], &[]);
    script.send(&[ack]);
    let last = sent_flat(&mut script).last().map_or(fresh, |last| last + 1);
    assert!(last > fresh + 4, "data flows again: {fresh} to {last}");
    for end in 2..5 {
        let ack = sack(&script, fresh, &[(2, end)], &[]);
        script.send(&[ack]);
    }
    assert_eq!(counters(&script).fast_recoveries, 2, "a later loss is a new one");
}

// A → DATA 0 1 2 3 → Z
// A ← SACK 0–1 ← Z
/// §7.2.1: slow start grows by the acknowledged bytes, at most PMDCS, and only if the window was full.
#[test]
fn slow_start() {
    let mut script = established(quiet());
    let initial = path(&script).cwnd;
    assert_eq!(initial, 4404);
    send(&mut script, 1, 100);
    let ack = sack(&script, 1, &[], &[]);
    script.send(&[ack]);
    assert_eq!(path(&script).cwnd, initial, "not fully used");
    send(&mut script, 10, FULL);
    assert!(path(&script).flight_size >= initial);
    let ack = sack(&script, 3, &[], &[]);
    script.send(&[ack]);
    assert_eq!(path(&script).cwnd, initial + PMDCS);
}

// A: T3-rtx, ssthresh is 4 PMDCS; then SACKs of one packet each
/// §7.2.2: above ssthresh a whole window must be acknowledged for a growth by one PMDCS.
#[test]
fn congestion_avoidance() {
    let mut script = established(quiet());
    let (mut acked, _) = grown(&mut script, 8 * PMDCS);
    script.advance_to_timeout();
    while path(&script).cwnd <= path(&script).ssthresh {
        acked += 1;
        let ack = sack(&script, acked, &[], &[]);
        script.send(&[ack]);
    }
    // From one increase of the window to the next.
    let step = |script: &mut Script, acked: &mut u32| {
        let cwnd = path(script).cwnd;
        let mut bytes = 0;
        while path(script).cwnd == cwnd {
            *acked += 1;
            bytes += PMDCS;
            let ack = sack(script, *acked, &[], &[]);
            script.send(&[ack]);
            assert!(bytes < 3 * cwnd, "the window does not grow");
        }
        assert_eq!(path(script).cwnd, cwnd + PMDCS);
        (cwnd, bytes)
    };
    step(&mut script, &mut acked);
    let (cwnd, bytes) = step(&mut script, &mut acked);
    assert!(
        bytes.abs_diff(cwnd) <= PMDCS,
        "{bytes} bytes for a window of {cwnd}"
    );
}

// A, with a large window and nothing in flight → DATA (Max.Burst packets) → Z
// A ← SACK ← Z; a minute without data
/// §6.1 D: Max.Burst; §7.2.1: an idle path's window shrinks.
#[test]
fn max_burst() {
    let mut script = established(quiet());
    let (acked, _) = grown(&mut script, 12 * PMDCS);
    let count = 400;
    acked_one_by_one(&mut script, acked, count);
    sent(&mut script);
    script.advance(10 * MS);
    send(&mut script, 20, FULL);
    // Four packets: the bytes that the last SACK allowed in addition have expired.
    let burst: Vec<_> = (count..count + 4).map(|tsn| vec![tsn]).collect();
    assert_eq!(sent(&mut script), burst);
    // §7.2.1: after a long pause the window is four packets again.
    assert!(path(&script).cwnd > 12 * PMDCS);
    acked_one_by_one(&mut script, count, count + 20);
    script.advance(60 * SECOND);
    send(&mut script, 1, FULL);
    assert_eq!(path(&script).cwnd, 4 * PMDCS);
}

// A → DATA 0 1 2 → Z
// A ← SACK gap 1–2 ← Z
// A ← SACK without gaps ← Z
// A → DATA 0 1 2 (T3-rtx) → Z
/// §6.2.1 D iv, §6.3.2 R4: a receiver may renege on gap-acknowledged chunks, which are then retransmitted.
#[test]
fn a_reneging_receiver() {
    let mut script = established(quiet());
    send(&mut script, 3, 300);
    sent(&mut script);
    for blocks in [&[(2, 3)][..], &[]] {
        let ack = sack(&script, 0, blocks, &[]);
        script.send(&[ack]);
    }
    assert!(counters(&script).reneged > 0);
    assert_eq!(path(&script).flight_size, 3 * 316);
    script.advance_to_timeout();
    assert_eq!(sent_flat(&mut script), [0, 1, 2]);
}

// A → DATA 0 → Z
// A ← SACK 0–1 ← Z
// A → ABORT (Protocol Violation) → Z
/// §6.2.1: a SACK of a TSN that was never sent.
#[test]
fn a_sack_of_a_tsn_never_sent() {
    let mut script = established(quiet());
    send(&mut script, 1, 100);
    sent(&mut script);
    let ack = sack(&script, 2, &[], &[]);
    script.send(&[ack]);
    let Chunk::Abort(abort) = script.expect_chunk() else {
        panic!("ABORT")
    };
    assert!(matches!(
        abort.causes.iter().next(),
        Some(Ok(Cause::ProtocolViolation(_)))
    ));
    let events = script.events();
    assert!(
        matches!(
            events.last(),
            Some(Event::Closed(CloseReason::ProtocolViolation(_)))
        ),
        "{events:?}"
    );
}

// A → DATA 0 1 2 → Z
// A ← SACK 0–1 ← Z
// A ← SACK 0 (late) ← Z
/// §6.2.1 D i: an older SACK changes nothing.
#[test]
fn a_stale_sack_is_ignored() {
    let mut script = established(quiet());
    send(&mut script, 3, FULL);
    sent(&mut script);
    let ack = sack(&script, 2, &[], &[]);
    script.send(&[ack]);
    let before = script.association().stats();
    let ack = sack(&script, 1, &[(2, 2)], &[]);
    script.send(&[ack]);
    let after = script.association().stats();
    assert_eq!(after.counters.sacks_stale, 1);
    assert_eq!(
        (after.paths, after.outstanding_bytes),
        (before.paths, before.outstanding_bytes)
    );
    assert_eq!(script.association().state(), AssociationState::Established);
}

// A → DATA 0 → Z (its SACK is lost)
// A → DATA 0 (T3-rtx) → Z
// A ← SACK 0, duplicate 0 ← Z
/// §6.2: the duplicate TSN shows that the retransmission was spurious.
#[test]
fn a_spurious_retransmission_is_counted() {
    let mut script = established(quiet());
    send(&mut script, 1, 100);
    script.advance_to_timeout();
    let ack = sack(&script, 1, &[], &[0]);
    script.send(&[ack]);
    assert_eq!(counters(&script).retransmissions_spurious, 1);
}

// A → DATA 0 (1,224 bytes) → too large
// A → DATA 0 (the same, alone) → Z
// A → DATA 1, 2 … (smaller) → Z
/// §6.9, §7.3: a chunk that has its TSN is not fragmented again. It leaves alone, and new chunks fit the smaller path MTU.
#[test]
fn the_pmtu_shrinks() {
    let mut script = established(quiet());
    send(&mut script, 1, FULL);
    sent(&mut script);
    script.act(|association, now| {
        association.handle_path_error(now, PathId(0), PathError::TooLarge(Some(700)));
    });
    send(&mut script, 1, 1000);
    let sizes = |script: &mut Script| -> Vec<(Tsn, usize)> {
        core::iter::from_fn(|| script.next_answer())
            .flat_map(|answer| answer.data().cloned().collect::<Vec<Data>>())
            .map(|data| (data.tsn, data.payload.len()))
            .collect()
    };
    let first = script.endpoint_tsn;
    let room = ((700 - 28) & !3) - 12 - 16;
    assert_eq!(
        sizes(&mut script),
        [(first.plus(1), room), (first.plus(2), 1000 - room)]
    );
    script.advance_to_timeout();
    let repeat = script.expect();
    assert_eq!(repeat.chunks.len(), 1, "alone");
    let Chunk::Data(data) = &repeat.chunks[0] else {
        panic!("DATA")
    };
    assert_eq!((data.tsn, data.payload.len()), (first, FULL));
}
