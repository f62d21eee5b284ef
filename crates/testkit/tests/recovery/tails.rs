//! The end of a flight: tail loss probes (RFC 8985 §7), T3-rtx with F-RTO (RFC 5682) and reductions that prove spurious (RFC 3708), with
//! hand-made packets. The packets of each test are drawn. TSNs count from the sender's initial TSN, which is 0.

use anabranch_proto::Reliability::{self, Reliable};
use anabranch_proto::controller::CongestionControl;
use anabranch_proto::{Config, RecoveryRules};
use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, NEVER_AGAIN, config};
use anabranch_testkit::with;

fn rack() -> Config {
    with(config(), |config| config.recovery = RecoveryRules::RACK)
}

/// DATA 0 was sent and acknowledged: the path has an RTT of 40 ms.
fn begun(config: Config) -> Fixture {
    let mut fixture = Fixture::new(config, &ALL);
    measure(&mut fixture, 0, 40);
    fixture
}

/// Sends DATA `tsn`, and acknowledges it after some milliseconds.
fn measure(fixture: &mut Fixture, tsn: u32, millis: u32) {
    fixture.send(&[Reliable], FULL);
    assert_eq!(fixture.sent(), [format!("DATA {tsn}")]);
    fixture.script.advance(millis * MS);
    fixture.sack(tsn + 1, &[]);
}

fn sent(fixture: &mut Fixture, messages: &[Reliability], len: usize) -> Vec<String> {
    fixture.send(messages, len);
    fixture.sent()
}

/// The packets that leave when the next timer expires.
fn at_timeout(fixture: &mut Fixture) -> Vec<String> {
    fixture.script.advance_to_timeout();
    fixture.sent()
}

/// T3-rtx expirations and tail loss probes.
fn timers(fixture: &Fixture) -> (u64, u64) {
    let counters = fixture.counters();
    (counters.timeouts, counters.tail_loss_probes)
}

// A → DATA 1, DATA 2, DATA 3 (sent once) → lost
// A → DATA 2 → Z
/// RFC 8985 §7.3 with RFC 3758: the probe is the newest chunk that may be retransmitted.
#[test]
fn a_probe_is_the_newest_chunk_that_may_be_retransmitted() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[Reliable, Reliable, NEVER_AGAIN], FULL);
    assert_eq!(at_timeout(&mut fixture), ["DATA 2"]);
    assert_eq!((timers(&fixture), fixture.path().chunks_lost), ((0, 1), 0));
}

// A → DATA 1, 2, 3 (sent once) → lost
// A → FORWARD-TSN 3 → Z
/// If no chunk may be retransmitted, FORWARD-TSN is the probe, and the chunks count as lost.
#[test]
fn a_forward_tsn_is_the_probe_if_nothing_may_be_retransmitted() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[NEVER_AGAIN; 3], FULL);
    assert_eq!(at_timeout(&mut fixture), ["FORWARD-TSN 3 (0:3)"]);
    assert_eq!(timers(&fixture), (0, 1));
    let path = fixture.path();
    assert_eq!(
        (path.flight_size, path.chunks_lost, path.fast_recoveries),
        (0, 3, 1)
    );
}

// A → DATA 1, 2, 3 (sent once) → lost
// A → FORWARD-TSN 3 → Z
// A → DATA 4 and later, as many as the reduced window lets out
/// Nothing is in flight and nothing is retransmitted: recovery, and proportional rate reduction, do not begin.
#[test]
fn no_recovery_begins_with_nothing_to_recover() {
    let mut config = rack();
    config.congestion_control = CongestionControl::Cubic;
    let mut fixture = begun(config);
    sent(&mut fixture, &[NEVER_AGAIN; 3], FULL);
    at_timeout(&mut fixture);
    fixture.send(&[Reliable; 40], FULL);
    fixture.script.advance(39 * MS);
    let packets = fixture.sent().len();
    let window = fixture.path().cwnd / (FULL + 16);
    assert!(window >= 10 && packets >= window, "{packets} of {window}");
}

// A → DATA 0 (sent once), DATA 1 → lost; T3
// A → DATA 1 → Z
/// RFC 5682: T3-rtx retransmits the first chunk that may be retransmitted.
#[test]
fn t3_retransmits_the_first_chunk_that_may_be() {
    let mut fixture = Fixture::new(rack(), &ALL);
    sent(&mut fixture, &[NEVER_AGAIN, Reliable, Reliable], FULL);
    assert_eq!(at_timeout(&mut fixture), ["DATA 1"]);
    assert_eq!(timers(&fixture), (1, 0));
}

// A → DATA 0, 1 (sent once) → lost; T3
// A → FORWARD-TSN 1 → Z
/// If there is no such chunk, everything is lost.
#[test]
fn t3_loses_everything_if_nothing_may_be_retransmitted() {
    let mut fixture = Fixture::new(rack(), &ALL);
    sent(&mut fixture, &[NEVER_AGAIN; 2], FULL);
    assert_eq!(at_timeout(&mut fixture), ["FORWARD-TSN 1 (0:1)"]);
    assert_eq!((timers(&fixture), fixture.path().flight_size), ((1, 0), 0));
}

// A → DATA 1, 2 → lost; A → DATA 2 (probe) → lost; T3; A → DATA 1 → Z
// A ← SACK 1; A → DATA 2 (F-RTO) → Z; A ← SACK 2
/// One reduction in a recovery episode: the loss that the probe of F-RTO repairs belongs to the timeout.
#[test]
fn a_probe_after_a_timeout_reduces_nothing() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[Reliable; 2], FULL);
    assert_eq!(at_timeout(&mut fixture), ["DATA 2"]);
    assert_eq!(at_timeout(&mut fixture), ["DATA 1"]);
    assert_eq!(timers(&fixture), (1, 1));
    let threshold = fixture.path().ssthresh;
    fixture.script.advance(40 * MS);
    fixture.sack(2, &[]);
    assert_eq!(fixture.sent(), ["DATA 2"]);
    fixture.script.advance(40 * MS);
    fixture.sack(3, &[]);
    let path = fixture.path();
    assert_eq!((path.ssthresh, path.fast_recoveries), (threshold, 0));
}

// A → DATA 1 … 6; A ← SACK 0, gaps 2–6; A → DATA 1 (lost or late); A → DATA 1 (probe)
// A ← SACK 6, duplicate 1
/// RFC 3708 §3: the duplicate may be the probe's. It does not show that DATA 1 was not lost.
#[test]
fn a_duplicate_of_a_probe_undoes_nothing() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[Reliable; 6], FULL);
    fixture.script.advance(40 * MS);
    fixture.sack(1, &[(2, 6)]);
    assert_eq!(fixture.sent(), ["DATA 1"]);
    let reduced = fixture.path().cwnd;
    assert_eq!(at_timeout(&mut fixture), ["DATA 1"]);
    fixture.script.advance(40 * MS);
    fixture.sack_with_duplicates(7, &[1]);
    assert_eq!(fixture.counters().reductions_undone, 0);
    assert!(fixture.path().cwnd <= reduced + FULL + 16);
}

// A → DATA 1 … 40; A ← SACK 0, gaps 38–40; A → DATA 1 …, as the window allows
// A ← SACK 40, duplicates: all that were retransmitted
/// RFC 3708: a chunk that arrives before its retransmission was not lost either. All losses are disproved: the reduction is undone.
#[test]
fn a_loss_is_disproved_before_its_retransmission() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[Reliable; 40], FULL);
    fixture.script.advance(40 * MS);
    fixture.sack(1, &[(38, 40)]);
    let retransmitted = fixture.sent().len() as u32;
    assert!((1..37).contains(&retransmitted), "{retransmitted}");
    assert_eq!(fixture.path().chunks_lost, 37);
    fixture.script.advance(MS);
    let duplicates: Vec<u32> = (1..=retransmitted).collect();
    fixture.sack_with_duplicates(41, &duplicates);
    assert_eq!(fixture.counters().reductions_undone, 1);
}

// A → DATA 1 → lost; probe → lost; T3; A → DATA 1 → lost
// A → DATA 1 (probe) → Z
/// RFC 8985 §7.2: after T3-rtx a probe may leave again.
#[test]
fn a_probe_follows_the_retransmission_of_a_lone_chunk() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[Reliable], FULL);
    for expected in [(0, 1), (1, 1), (1, 2)] {
        assert_eq!(at_timeout(&mut fixture), ["DATA 1"]);
        assert_eq!(timers(&fixture), expected);
    }
}

// A → DATA 1 (sent once) → lost; A → FORWARD-TSN 1 → Z; A ← SACK 1
// A → DATA 2 → lost; A → DATA 2 (probe) → Z
/// The answer to a FORWARD-TSN ends the wait for T3-rtx, as the answer to data does.
#[test]
fn a_probe_may_follow_a_forward_tsn() {
    let mut fixture = begun(rack());
    sent(&mut fixture, &[NEVER_AGAIN], FULL);
    assert_eq!(at_timeout(&mut fixture), ["FORWARD-TSN 1 (0:1)"]);
    fixture.script.advance(40 * MS);
    fixture.sack(2, &[]);
    sent(&mut fixture, &[Reliable], FULL);
    assert_eq!(at_timeout(&mut fixture), ["DATA 2"]);
    assert_eq!(timers(&fixture), (0, 2));
}

// A → DATA 0 … 7, each acknowledged after 700 ms
// A → DATA 8 → lost; A → DATA 8 (probe) after an RTO of 1 s, not after two RTTs
/// RFC 8985 §7.2: the probe leaves when T3-rtx would expire, if that is sooner. T3-rtx waits for its answer.
#[test]
fn a_probe_leaves_before_t3() {
    let mut fixture = Fixture::new(rack(), &ALL);
    (0..8).for_each(|tsn| measure(&mut fixture, tsn, 700));
    assert!(fixture.path().rto < 1100 * MS, "{:?}", fixture.path().rto);
    sent(&mut fixture, &[Reliable], FULL);
    assert_eq!(fixture.script.advance_to_timeout(), fixture.path().rto);
    assert_eq!(
        (fixture.sent(), timers(&fixture)),
        (vec!["DATA 8".to_owned()], (0, 1))
    );
    assert!(fixture.script.advance_to_timeout() >= 700 * MS);
    assert_eq!(timers(&fixture), (1, 1));
}

// A → DATA 1 (100 bytes) → lost; DATA 2 (100 bytes) waits (Nagle)
// A → DATA 1, 2 → Z
/// New data is the probe only if it may leave: otherwise the newest chunk is retransmitted.
#[test]
fn a_probe_does_not_wait_for_nagle() {
    let mut config = rack();
    config.no_delay = false;
    let mut fixture = begun(config);
    assert_eq!(sent(&mut fixture, &[Reliable; 2], 100), ["DATA 1"]);
    assert_eq!(at_timeout(&mut fixture), ["DATA 1, DATA 2"]);
    assert_eq!(timers(&fixture), (0, 1));
}

// A → DATA 1 … n, which fill the window → lost; A ← DATA
// A → SACK → Z, which leaves no space for the chunk of the probe; A → DATA n + 1 → Z
/// A packet without data is not the probe.
#[test]
fn a_sack_is_not_the_probe() {
    let mut fixture = begun(rack());
    let in_flight = sent(&mut fixture, &[Reliable; 90], FULL).len();
    assert!(in_flight < 80, "{in_flight}");
    // The first DATA is acknowledged at once; the SACK of the next one waits for data.
    for ssn in 0..2 {
        let data = fixture.script.data(0, ssn, vec![1; 10]);
        fixture.script.send(&[data]);
    }
    assert_eq!(fixture.sent().len(), 1);
    let packets = at_timeout(&mut fixture);
    assert_eq!(timers(&fixture), (0, 1));
    assert_eq!(packets.len(), 2, "{packets:?}");
    assert_eq!(packets[1], format!("DATA {}", in_flight + 1));
}

// A → DATA 0, 1;  A ← SACK 0;  A → DATA 2, 3;  A ← SACK 0, gap 3: DATA 1 is lost, and DATA 2 belongs to its message
// A → FORWARD-TSN 2;  A ← SACK 3;  A → DATA 4 … 7;  A ← SACK 3, gaps 5–7
/// A chunk that FORWARD-TSN passed need not have arrived: RACK does not take it for reordered, and three later packets still show a loss at
/// once. The small packet of the FORWARD-TSN may be faster than the packets that measured the round trip.
#[test]
fn a_skipped_chunk_is_no_sign_of_reordering() {
    let mut config = rack();
    config.initial_window = Some(2);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Reliable], FULL);
    fixture.send(&[NEVER_AGAIN], 2 * FULL);
    fixture.send(&[Reliable], FULL);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1"]);
    fixture.script.advance(40 * MS);
    fixture.sack(1, &[]);
    assert_eq!(fixture.sent(), ["DATA 2", "DATA 3"]);
    fixture.script.advance(40 * MS);
    fixture.sack(1, &[(3, 3)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:1)"]);
    fixture.script.advance(36 * MS);
    fixture.sack(4, &[]);
    fixture.script.advance(1000 * MS);
    assert_eq!(sent(&mut fixture, &[Reliable; 4], FULL).len(), 4);
    fixture.script.advance(40 * MS);
    fixture.sack(4, &[(5, 7)]);
    assert_eq!(fixture.sent(), ["DATA 4"]);
}
