//! Abandoned messages: when the sender abandons a message, and the effect on the congestion window (RFC 3758 §3.5 A1 to A5, F5;
//! RFC 7496; safe condition 6 of the experiments).

use core::time::Duration;

use anabranch_proto::Reliability::{self, Lifetime, Priority, Reliable, Retransmissions};
use anabranch_proto::{MessageId, SendError, SendOptions, StreamId};
use anabranch_testkit::{Script, with};
use anabranch_wire::chunk::kind;
use anabranch_wire::parameter::Parameter;

use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, NEVER_AGAIN, config};

// A → INIT (Forward-TSN-Supported, lists FORWARD-TSN and NR-SACK)
// A → DATA 0 (lost), again after T3: the peer listed nothing
/// RFC 3758 §3.3.2: a peer that does not support FORWARD-TSN gets none, and a message to be sent once is reliable.
#[test]
fn a_peer_without_forward_tsn_gets_everything() {
    for config in [
        config(),
        with(anabranch_testkit::quiet(), |config| config.path_mtu = 1280),
    ] {
        let mut fixture = Fixture::new(config, &[]);
        fixture.send(&[NEVER_AGAIN], FULL);
        assert_eq!(fixture.sent(), ["DATA 0"]);
        fixture.script.advance_to_timeout();
        assert_eq!(fixture.sent(), ["DATA 0"]);
        fixture.sack(1, &[]);
        assert_eq!(
            (fixture.abandoned(), fixture.counters().forward_tsns_sent),
            (vec![], 0)
        );
    }
}

/// RFC 3758 §3.1 and RFC 5061 §4.2.7: INIT also offers FORWARD-TSN by its own parameter, for peers that know only that
/// parameter.
#[test]
fn forward_tsn_is_offered_in_init() {
    let mut script = Script::new(config(), 1);
    let offered = script.connect().parameters;
    let offered: Vec<Parameter> = offered
        .iter()
        .filter_map(|raw| Parameter::decode(raw.expect("whole")).ok())
        .filter(|one| {
            matches!(
                one,
                Parameter::SupportedExtensions(_) | Parameter::ForwardTsnSupported
            )
        })
        .collect();
    let types = Parameter::SupportedExtensions(vec![kind::FORWARD_TSN, kind::NR_SACK].into());
    assert_eq!(offered, [types, Parameter::ForwardTsnSupported]);
}

// A → DATA 0, 1 (lost); T3-rtx; A → DATA 0 → Z
/// A lifetime that ends after the largest timestamp, or at it, never ends.
#[test]
fn a_lifetime_without_end() {
    let mut fixture = Fixture::usual();
    for lifetime in [Duration::MAX, Duration::from_nanos(u64::MAX)] {
        fixture.send(&[Lifetime(lifetime)], FULL);
    }
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1"]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["DATA 0"]);
    fixture.sack(2, &[]);
    assert_eq!(
        (fixture.abandoned(), fixture.counters().forward_tsns_sent),
        (vec![], 0)
    );
}

// A → DATA 0 (lost); T3; A → FORWARD-TSN 0 → Z
/// A5: no retransmissions are left at T3-rtx. The application is told that the message was sent.
#[test]
fn no_retransmission_is_left_at_t3() {
    let mut fixture = Fixture::usual();
    let id = fixture.send_on(3, FULL, NEVER_AGAIN, false);
    assert_eq!(fixture.sent(), ["DATA 0"]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (3:0)"]);
    assert_eq!(fixture.abandoned(), [(id.0, true)]);
    assert_eq!(
        fixture.script.association().stats().outstanding_bytes,
        0,
        "A2: it is not kept"
    );
    fixture.nr_sack(1, &[], &[]);
    assert_eq!(fixture.counters().abandoned_sent, 1);
}

// A → DATA 0 (lost); T3; A → DATA 0 (lost); T3; A → FORWARD-TSN 0 → Z
/// RFC 7496 §3.1: one retransmission, and not a second one.
#[test]
fn retransmissions_are_counted() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Retransmissions(1)], FULL);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 0"]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
}

// A → DATA 0 …(lifetime ends)… A ← SACK 0 ← Z
/// Safe condition 6: expiry alone changes nothing for a chunk in flight. There is no FORWARD-TSN, and the bytes in flight stay.
#[test]
fn expiry_in_flight_changes_nothing() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Lifetime(20 * MS)], FULL);
    let flight = fixture.script.association().stats().paths[0].flight_size;
    fixture.sent();
    fixture.script.advance(100 * MS);
    let stats = fixture.script.association().stats();
    assert_eq!(stats.paths[0].flight_size, flight);
    fixture.nr_sack(1, &[], &[]);
    assert_eq!(fixture.sent(), [""; 0]);
    assert_eq!(
        (fixture.abandoned(), fixture.counters().forward_tsns_sent),
        (vec![], 0)
    );
}

// A → DATA 0 (lost), 1, 2, 3; 4 …(lifetime ends)…;  A ← three missing reports of 0 ← Z;  A → FORWARD-TSN 0 → Z
/// Safe condition 6: the Advanced.Peer.Ack.Point does not pass an expired chunk in flight.
#[test]
fn expiry_in_flight_stops_the_point() {
    let mut fixture = Fixture::usual();
    fixture.send(
        &[NEVER_AGAIN, Reliable, Reliable, Reliable, Lifetime(20 * MS)],
        FULL,
    );
    fixture.sent();
    fixture.script.advance(50 * MS);
    fixture.report_one_by_one(0, 1, 3);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    assert_eq!(fixture.abandoned(), [(0, true)]);
}

// A → DATA 0 (lost), 1, 2, 3;  (0 expires);  A ← three missing reports;  A → FORWARD-TSN 0 → Z
/// A message that has expired when it is found lost is not retransmitted by fast retransmit. F5: the window is reduced as for
/// any loss.
#[test]
fn found_lost_after_its_lifetime() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Lifetime(20 * MS), Reliable, Reliable, Reliable], FULL);
    fixture.sent();
    let before = fixture.cwnd();
    fixture.script.advance(50 * MS);
    fixture.report_one_by_one(0, 1, 2);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.report_one_by_one(0, 1, 3);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    assert_eq!(fixture.cwnd(), before / 2);
    assert_eq!(fixture.counters().fast_recoveries, 1);
}

// A → DATA 0 … 39 (window full); message 40 expires in the queue; message 41 takes its TSN
/// Expiry never starts a transmission. An unsent message is dropped at once: it takes no TSN, and its buffer space is free.
#[test]
fn unsent_messages_are_dropped_when_they_expire() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliable; 40], FULL);
    assert_eq!(fixture.sent().len(), 40);
    let stale = fixture.send_on(0, FULL, Lifetime(30 * MS), false);
    fixture.send(&[Reliable], FULL);
    assert_eq!(fixture.script.association().stats().queued_bytes, 2 * FULL);
    fixture.script.advance(30 * MS);
    assert_eq!(
        fixture.abandoned(),
        [],
        "at the end of its lifetime it may still leave"
    );
    fixture.script.advance(MS);
    assert_eq!(fixture.abandoned(), [(stale.0, false)]);
    assert_eq!(fixture.script.association().stats().queued_bytes, FULL);
    fixture.nr_sack(40, &[], &[]);
    assert_eq!(fixture.sent(), ["DATA 40"]);
    assert_eq!(fixture.counters().abandoned_unsent, 1);
}

/// The same with `discard_unsent` off, like the stack of the first paper: the message is sent once, however late.
#[test]
fn unsent_messages_are_sent_once_without_discard_unsent() {
    let mut config = config();
    config.partial_reliability.discard_unsent = false;
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Reliable; 40], FULL);
    fixture.send(&[Lifetime(30 * MS)], FULL);
    fixture.sent();
    fixture.script.advance(100 * MS);
    fixture.nr_sack(40, &[], &[]);
    assert_eq!(fixture.sent(), ["DATA 40"]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 40 (0:40)"]);
}

// A → DATA 0 (B), 1, 2 (E) of one message, 1 lost; A → FORWARD-TSN 2 → Z
/// A3: all fragments of a message are abandoned, also those that arrived.
#[test]
fn a_message_is_abandoned_whole() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], 3 * FULL);
    fixture.send(&[Reliable; 3], FULL);
    fixture.sent();
    fixture.nr_sack(1, &[], &[(2, 3)]);
    fixture.nr_sack(1, &[], &[(2, 4)]);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.nr_sack(1, &[], &[(2, 5)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:0)"]);
    assert_eq!(fixture.abandoned(), [(0, true)], "told once");
}

// A → DATA 0 (lost), 1 (B), 2 (lost), 3 (E), 4, 5, 6;  A ← SACK 1, 3 … 6, renegable;  A → FORWARD-TSN 3 → Z
/// A3: the fragments before the lost one are abandoned too.
#[test]
fn abandoned_whole_from_its_first_fragment() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.send(&[NEVER_AGAIN], 3 * FULL);
    fixture.send(&[Reliable; 3], FULL);
    fixture.sent();
    for last in 4..=6 {
        fixture.nr_sack(0, &[(1, 1), (3, last)], &[]);
    }
    assert_eq!(fixture.sent(), ["FORWARD-TSN 3 (0:1)"]);
    assert_eq!(fixture.abandoned(), [(0, true), (1, true)]);
}

// A → DATA 0 (B), 1 … (window full), the rest waits;  it expires;  TSN 40 is its end, never sent;  A → FORWARD-TSN 40
// A → DATA 41 (B E)
/// A half-sent message that is abandoned ends in a TSN that is never sent, so that the next message does not follow a middle
/// fragment.
#[test]
fn a_half_sent_message_ends_in_a_tsn_never_sent() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Lifetime(30 * MS)], 60 * FULL);
    fixture.send(&[Reliable], FULL);
    assert_eq!(fixture.sent().len(), 40);
    fixture.script.advance(31 * MS);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 40 (0:0)"]);
    assert_eq!(fixture.abandoned(), [(0, true)]);
    assert_eq!(fixture.script.association().stats().queued_bytes, FULL);
    fixture.nr_sack(41, &[], &[]);
    assert_eq!(fixture.sent(), ["DATA 41"]);
    assert_eq!(
        fixture.script.association().stats().paths[0].flight_size,
        FULL + 16
    );
}

/// The half-sent message keeps its number in its stream: the next message has the next number.
#[test]
fn a_half_sent_message_keeps_its_number() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Lifetime(30 * MS)], 60 * FULL);
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.script.advance(31 * MS);
    fixture.nr_sack(41, &[], &[]);
    fixture.sent();
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 41 (0:1)"]);
}

// A → DATA 0 (B), 1 … 39, the rest waits;  it expires;  A → FORWARD-TSN 40 (lost);  T3;  A → FORWARD-TSN 40 → Z
/// The chunks of the message in flight are kept until T3-rtx and not retransmitted.
#[test]
fn half_sent_and_lost_at_t3() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Lifetime(30 * MS)], 60 * FULL);
    fixture.script.advance(31 * MS);
    fixture.sent();
    let stats = fixture.script.association().stats();
    assert_eq!(
        (stats.outstanding_bytes, stats.paths[0].flight_size),
        (40 * FULL, 40 * (FULL + 16))
    );
    fixture.script.advance_to_timeout();
    let stats = fixture.script.association().stats();
    assert_eq!((stats.outstanding_bytes, stats.paths[0].flight_size), (0, 0));
    assert_eq!(fixture.sent(), ["FORWARD-TSN 40 (0:0)"]);
}

// A → DATA 0 (B, lost), 1, 2, 3 … (window full), the rest waits;  A ← three missing reports, which let 40 and 41 leave ← Z
// A → FORWARD-TSN 42, the end that is never sent → Z
/// If a fragment is found lost, the unsent rest of its message is abandoned.
#[test]
fn a_lost_fragment_ends_the_unsent_rest() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], 60 * FULL);
    assert_eq!(fixture.sent().len(), 40);
    fixture.report_one_by_one(0, 1, 3);
    assert_eq!(fixture.sent(), ["DATA 40", "DATA 41", "FORWARD-TSN 42 (0:0)"]);
    assert_eq!(fixture.script.association().stats().queued_bytes, 0);
    assert_eq!(fixture.abandoned(), [(0, true)]);
}

/// If the peer does not support FORWARD-TSN, a half-sent message is sent to its end.
#[test]
fn half_sent_to_a_peer_without_forward_tsn() {
    let mut fixture = Fixture::new(config(), &[]);
    fixture.send(&[Lifetime(30 * MS)], 42 * FULL);
    assert_eq!(fixture.sent().len(), 40);
    fixture.script.advance(31 * MS);
    assert_eq!((fixture.sent(), fixture.abandoned()), (vec![], vec![]));
    fixture.sack(40, &[]);
    assert_eq!(fixture.sent(), ["DATA 40", "DATA 41"]);
}

/// A window of two packets, full with the beginning of an expired message: TSN 2 ends the message, and a FORWARD-TSN has left.
/// Reliable data waits.
fn half_sent_in_a_small_window() -> (Fixture, usize) {
    let mut config = config();
    config.initial_window = Some(2);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Lifetime(30 * MS)], 60 * FULL);
    fixture.send(&[Reliable], 60 * FULL);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1"]);
    fixture.script.advance(31 * MS);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:0)"]);
    let cwnd = fixture.cwnd();
    (fixture, cwnd)
}

// A → DATA 0 (B), 1 (window full);  the message expires;  A → FORWARD-TSN 2 → Z;  A ← NR-SACK 1, then NR-SACK 2 ← Z
/// A chunk in flight counts as acknowledged data even if its message was abandoned. If the acknowledgement cannot be caused by
/// the FORWARD-TSN, the chunk has arrived and increases the window (RFC 9260 §7.2.1). The skipped TSN does not.
#[test]
fn arrival_of_half_sent_chunks_grows_the_window() {
    let (mut fixture, cwnd) = half_sent_in_a_small_window();
    fixture.nr_sack(2, &[], &[]);
    assert_eq!(fixture.cwnd(), cwnd + FULL + 16);
    assert_eq!(fixture.sent(), ["DATA 3", "DATA 4", "DATA 5"]);
    fixture.nr_sack(3, &[], &[]);
    assert_eq!(fixture.cwnd(), cwnd + FULL + 16);
}

// A → DATA 0 (B, lost), 1 (window full);  the message expires;  A → FORWARD-TSN 2 → Z;  A ← NR-SACK, 1 arrived ← Z
/// A gap ack block reports an arrival too: it gives an RTT sample and resets the error counter.
#[test]
fn arrival_of_half_sent_chunks_is_an_rtt_sample() {
    let (mut fixture, _) = half_sent_in_a_small_window();
    let srtt = |fixture: &Fixture| fixture.script.association().stats().paths[0].srtt;
    let before = srtt(&fixture);
    fixture.nr_sack(0, &[], &[(1, 1)]);
    assert!(srtt(&fixture) > before);
}

// A → DATA 0 (B), 1 (window full);  the message expires;  A → FORWARD-TSN 2 → Z;  A ← NR-SACK 2 ← Z
/// If the FORWARD-TSN may have caused the acknowledgement, the arrival of the chunks is unknown (RFC 3758 §3.5 A2).
#[test]
fn chunks_that_may_be_skipped_do_not_grow_the_window() {
    let (mut fixture, cwnd) = half_sent_in_a_small_window();
    let srtt = |fixture: &Fixture| fixture.script.association().stats().paths[0].srtt;
    let before = srtt(&fixture);
    fixture.nr_sack(3, &[], &[]);
    assert_eq!((fixture.cwnd(), srtt(&fixture)), (cwnd, before));
    assert_eq!(fixture.sent(), ["DATA 3", "DATA 4"]);
}

// A → DATA 0 (B), 1; the message expires;  A → FORWARD-TSN 2 (lost);  T3;  A → FORWARD-TSN 2 (lost), DATA 3 (I) → Z
// A ← NR-SACK, 3 arrived ← Z;  A → DATA 4 (I) → Z
/// RFC 7053 §5.1: with a window of one packet the receiver's delayed acknowledgement would stop the path. If a lifetime ends
/// meanwhile, its FORWARD-TSN would hide whether the packet arrived.
#[test]
fn a_window_of_one_packet_asks_for_an_acknowledgement_at_once() {
    for (reliability, asks) in [
        (Lifetime(5000 * MS), true),
        (NEVER_AGAIN, true),
        (Reliable, false),
    ] {
        let mut config = config();
        config.initial_window = Some(2);
        let mut fixture = Fixture::new(config, &ALL);
        fixture.send(&[Lifetime(30 * MS)], 60 * FULL);
        fixture.script.advance(31 * MS);
        fixture.script.advance_to_timeout();
        fixture.sent();
        let asked = |fixture: &mut Fixture| {
            let packets = core::iter::from_fn(|| fixture.script.next_answer()).collect::<Vec<_>>();
            let data = packets.iter().flat_map(|packet| packet.data());
            data.map(|data| data.immediate).collect::<Vec<_>>()
        };
        fixture.send(&[reliability], 60 * FULL);
        assert_eq!(asked(&mut fixture), [true], "the first one after T3-rtx");
        fixture.nr_sack(0, &[], &[(3, 3)]);
        assert_eq!(fixture.cwnd(), FULL + 16);
        assert_eq!(asked(&mut fixture), [asks], "{reliability:?}");
    }
}

// A → DATA 0 (B), 1 …; the message expires;  A ← NR-SACK, 3 and 4 arrived ← Z;  A ← NR-SACK 40 ← Z
/// Safe condition 7: the same for chunks behind a gap that were in flight when their message was abandoned.
#[test]
fn an_abandoned_chunk_arrives_behind_a_gap() {
    let arrived: &[_] = &[(3, 4)];
    for (renegable, non_renegable) in [(&[][..], arrived), (arrived, &[][..])] {
        let mut fixture = Fixture::usual();
        fixture.send(&[Lifetime(30 * MS)], 60 * FULL);
        fixture.script.advance(31 * MS);
        fixture.nr_sack(0, renegable, non_renegable);
        let stats = fixture.script.association().stats();
        assert_eq!(stats.paths[0].flight_size, 38 * (FULL + 16));
        fixture.nr_sack(41, &[], &[]);
        let stats = fixture.script.association().stats();
        assert_eq!((stats.outstanding_bytes, stats.paths[0].flight_size), (0, 0));
        assert_eq!(fixture.counters().reneged, 0);
    }
}

// A → 0 … 3 lost and declared lost; only 0 fits the reduced window; 1 to 3 expire before they are retransmitted
// A → DATA 0 (lost); T3; A → FORWARD-TSN 0 → Z;  A ← SACK 0 ← Z;  and so on, more often than Association.Max.Retrans
/// A peer that acknowledges skipped TSNs is reachable: the association continues, though no data ever arrives.
#[test]
fn a_peer_that_acknowledges_skipped_tsns_is_reachable() {
    let mut config = config();
    config.retransmissions.association_max_retrans = 4;
    let mut fixture = Fixture::new(config, &ALL);
    for number in 0..12 {
        fixture.send(&[NEVER_AGAIN], FULL);
        fixture.script.advance_to_timeout();
        fixture.nr_sack(number + 1, &[], &[]);
    }
    assert_eq!(fixture.counters().forward_tsns_sent, 12);
    assert_eq!(
        fixture.script.association().state(),
        anabranch_proto::AssociationState::Established
    );
}

/// No message is retransmitted after its lifetime, whatever declared it lost before.
#[test]
fn expiry_while_waiting_for_retransmission() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Lifetime(1500 * MS); 4], FULL);
    fixture.send(&[Reliable; 36], FULL);
    fixture.sent();
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["DATA 0"], "one packet after T3");
    fixture.script.advance(600 * MS);
    fixture.nr_sack(1, &[], &[]);
    let sent = fixture.sent().join(", ");
    assert!(sent.starts_with("FORWARD-TSN 3 (0:3), DATA 4"), "{sent}");
    assert_eq!(fixture.abandoned(), [(1, true), (2, true), (3, true)]);
}

/// Sends another message on stream 2.
fn offer(fixture: &mut Fixture, reliability: Reliability) -> Result<MessageId, SendError> {
    fixture.script.act(|association, now| {
        let options = SendOptions::default().reliability(reliability);
        association.send(now, StreamId(2), vec![7; FULL].into(), options)
    })
}

/// RFC 7496 §3.2: if the send buffer is full, the least important unsent message is dropped, of several the oldest. For a new
/// message that is less important than all of them, none is dropped.
#[test]
fn the_least_important_message_is_dropped() {
    let mut config = config();
    config.buffers.send = 42 * FULL;
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Reliable; 40], FULL);
    let low = fixture.send_on(0, FULL, Priority(9), false);
    let high = fixture.send_on(1, FULL, Priority(1), false);
    assert_eq!(offer(&mut fixture, Priority(9)), Err(SendError::BufferFull));
    assert!(offer(&mut fixture, Priority(5)).is_ok());
    assert_eq!(fixture.abandoned(), [(low.0, false)]);
    assert!(offer(&mut fixture, Reliable).is_ok());
    assert_eq!(fixture.abandoned().len(), 1, "5 goes before 1");
    assert!(offer(&mut fixture, Lifetime(MS)).is_ok());
    assert_eq!(fixture.abandoned(), [(high.0, false)]);
    assert_eq!(
        offer(&mut fixture, Reliable),
        Err(SendError::BufferFull),
        "what is sent does not give way"
    );
}

/// RFC 7496 §3.2: if dropping all less important messages does not free enough space, none is dropped.
#[test]
fn nothing_is_dropped_in_vain() {
    let mut config = config();
    config.buffers.send = 42 * FULL;
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Reliable; 40], FULL);
    fixture.send(&[Priority(9)], 10);
    fixture.send(&[Reliable], 3 * FULL);
    assert_eq!(offer(&mut fixture, Reliable), Err(SendError::BufferFull));
    assert_eq!(fixture.abandoned(), []);
}

/// RFC 7496 §3.2: a message that has begun to leave is not dropped.
#[test]
fn a_half_sent_message_is_not_dropped() {
    let mut config = config();
    config.buffers.send = 42 * FULL;
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Priority(9)], 50 * FULL);
    assert_eq!(fixture.sent().len(), 40);
    assert_eq!(offer(&mut fixture, Reliable), Err(SendError::BufferFull));
    assert_eq!(fixture.abandoned(), []);
}

/// A message that the application sends in parts expires: its later parts are dropped, and the next message begins with its
/// first part.
#[test]
fn parts_of_an_expired_message() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliable; 40], FULL);
    fixture.sent();
    let part = |fixture: &mut Fixture, end| {
        fixture.script.act(|association, now| {
            let options = SendOptions::default().reliability(Lifetime(10 * MS));
            association
                .send_part(now, StreamId(0), vec![1; 100].into(), options, end)
                .expect("a part")
        })
    };
    let id = part(&mut fixture, false);
    fixture.script.advance(20 * MS);
    assert_eq!(fixture.abandoned(), [(id.0, false)]);
    assert_eq!(part(&mut fixture, false), id);
    assert_eq!(part(&mut fixture, true), id);
    assert_eq!(fixture.script.association().stats().queued_bytes, 0);
    assert_ne!(part(&mut fixture, true), id);
}
