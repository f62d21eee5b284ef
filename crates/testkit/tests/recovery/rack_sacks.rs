//! RACK-TLP and F-RTO (RFC 8985, RFC 5682) with hand-made SACKs, with the packets of each test drawn.

use core::time::Duration;

use anabranch_proto::controller::CongestionControl;
use anabranch_proto::{Config, RecoveryRules};
use anabranch_testkit::{Script, with};

use crate::sacks::{FULL, PMDCS, counters, established, path, quiet, sack, send, sent, sent_flat};

const MS: Duration = Duration::from_millis(1);

fn rack(congestion_control: CongestionControl) -> Config {
    with(quiet(), |config| {
        config.recovery = RecoveryRules::RACK;
        config.congestion_control = congestion_control;
    })
}

/// A full window of more than 20 packets with an RTT of 10 ms: returns the first TSN that is not acknowledged, and the window.
fn in_flight(script: &mut Script) -> (u32, usize) {
    send(script, 120, FULL);
    let (mut acked, mut next) = (0, 0);
    while path(script).cwnd <= 20 * PMDCS {
        let more = sent_flat(script);
        next = more.last().map_or(next, |last| last + 1);
        script.advance(10 * MS);
        acked = (acked + 2).min(next);
        let ack = sack(script, acked, &[], &[]);
        script.send(&[ack]);
    }
    for _ in 0..20 {
        sent_flat(script);
        script.advance(MS);
    }
    (acked, path(script).cwnd)
}

/// Lets the tail loss probe leave and T3-rtx expire; returns the retransmitted TSNs.
fn time_out(script: &mut Script) -> Vec<Vec<u32>> {
    let before = counters(script).timeouts;
    while counters(script).timeouts == before {
        sent_flat(script);
        script.advance_to_timeout();
    }
    sent(script)
}

// A → DATA 0 1 → Z
// A ← SACK gap 1 ← Z after 40 ms
// A → DATA 0 → Z 10 ms later
/// RFC 8985 §6.3: the reordering timer detects a loss without a further acknowledgement.
#[test]
fn the_reordering_timer_finds_a_loss() {
    let mut script = established(rack(CongestionControl::Rfc9260));
    send(&mut script, 2, FULL);
    assert_eq!(sent_flat(&mut script), [0, 1]);
    script.advance(40 * MS);
    let ack = sack(&script, 0, &[(2, 2)], &[]);
    script.send(&[ack]);
    assert!(sent(&mut script).is_empty());
    assert_eq!(script.advance_to_timeout(), 10 * MS);
    assert_eq!(sent(&mut script), [[0]]);
}

// A → DATA 0 … n → Z
// A → DATA n + 1 → Z after two RTTs, though the window is full
// A: T3-rtx expires an RTO after DATA 0 … n
/// RFC 8985 §7.3: a probe is new data. T3-rtx is not restarted, as with all new data (RFC 9260 §6.3.2 R1).
#[test]
fn a_probe_is_new_data_if_there_is_any() {
    let mut script = established(rack(CongestionControl::Rfc9260));
    in_flight(&mut script);
    let newest = counters(&script).data_chunks_sent as u32;
    let until_probe = script.advance_to_timeout();
    assert_eq!(counters(&script).tail_loss_probes, 1);
    assert_eq!(sent(&mut script), [[newest]]);
    let rto = path(&script).rto;
    let after = script.advance_to_timeout();
    assert!(
        after > rto / 2 && until_probe + after <= rto,
        "{until_probe:?}, {after:?}"
    );
    assert_eq!(
        (counters(&script).timeouts, counters(&script).tail_loss_probes),
        (1, 1)
    );
}

// A → DATA 0 … n → Z
// A: T3-rtx expires
// A → DATA 0 → Z, though its packet has space for the new data that waits
/// §6.1 B: beyond the window, T3-rtx lets only one retransmission leave.
#[test]
fn no_new_data_beyond_the_window() {
    let mut script = established(rack(CongestionControl::Rfc9260));
    send(&mut script, 4, 100);
    send(&mut script, 60, 100);
    let before: u32 = sent_flat(&mut script).len() as u32;
    assert!(before < 64, "the window keeps some back");
    let again = time_out(&mut script);
    assert_eq!(again, [[0]], "of {before}");
    assert!(path(&script).flight_size > path(&script).cwnd);
}

// A → DATA 0 … n → Z
// A: T3-rtx expires
// A → DATA 0 → Z
// A ← SACK gaps 2–5 ← Z: these were late, and 1 is lost
/// RFC 5682 §3.1, RFC 8985: first the timeout is undone, then the loss reduces the window once.
#[test]
fn a_loss_after_a_spurious_timeout_reduces_the_restored_window() {
    for (control, share) in [(CongestionControl::Rfc9260, 0.5), (CongestionControl::Cubic, 0.7)] {
        let mut script = established(rack(control));
        let (acked, before) = in_flight(&mut script);
        time_out(&mut script);
        assert_eq!(path(&script).cwnd, PMDCS);
        script.advance(2 * MS);
        let ack = sack(&script, acked, &[(3, 6)], &[]);
        script.send(&[ack]);
        assert_eq!(
            (counters(&script).reductions_undone, path(&script).fast_recoveries),
            (1, 1)
        );
        let least = (before as f64 * share) as usize;
        let after = path(&script).cwnd;
        assert!((least..=least + 5 * PMDCS).contains(&after), "{before} {after}");
    }
}

// A → DATA 0 … n → Z
// A: T3-rtx expires
// A → DATA 0 → Z
// A ← SACK 0 and gaps of later packets ← Z: most of the flight was lost
/// One reduction in a recovery episode: the losses that RACK finds after T3-rtx belong to the timeout.
#[test]
fn the_losses_of_a_timeout_reduce_the_window_once() {
    for (control, share) in [(CongestionControl::Rfc9260, 0.5), (CongestionControl::Cubic, 0.7)] {
        let mut script = established(rack(control));
        let (acked, before) = in_flight(&mut script);
        time_out(&mut script);
        let threshold = path(&script).ssthresh;
        assert!(
            threshold.abs_diff((before as f64 * share) as usize) <= 2,
            "{before} {threshold}"
        );
        // The packet that F-RTO sends arrives. Its acknowledgement shows that the other packets are lost.
        script.advance(10 * MS);
        let ack = sack(&script, acked + 1, &[], &[]);
        script.send(&[ack]);
        let asked = sent_flat(&mut script).into_iter().max().expect("a packet");
        script.advance(10 * MS);
        let offset = (asked - acked) as u16;
        let ack = sack(&script, acked + 1, &[(offset, offset)], &[]);
        script.send(&[ack]);
        let path = path(&script);
        assert!(path.chunks_lost > 5, "{path:?}");
        assert_eq!((path.ssthresh, path.fast_recoveries), (threshold, 0));
    }
}
