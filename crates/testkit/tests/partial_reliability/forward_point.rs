//! The Advanced.Peer.Ack.Point, and when FORWARD-TSNs report it (RFC 3758 §3.5 C1 to C5, F2 to F4; the safe conditions of the
//! experiments). *The point* below is the Advanced.Peer.Ack.Point.

use anabranch_proto::Reliability::{self, Reliable};

use anabranch_wire::chunk::kind;

use anabranch_testkit::fixture::{FULL, Fixture, MS, NEVER_AGAIN, config};

/// Sends messages, of which those with these numbers may be abandoned. The peer has received all but `lost`, and reports these
/// missing until they are found lost.
fn burst(fixture: &mut Fixture, count: usize, abandoned: &[usize], lost: core::ops::RangeInclusive<u32>) {
    let messages: Vec<Reliability> = (0..count)
        .map(|number| {
            if abandoned.contains(&number) {
                NEVER_AGAIN
            } else {
                Reliable
            }
        })
        .collect();
    fixture.send(&messages, 1000);
    fixture.sent();
    fixture.report_one_by_one(*lost.start(), lost.end() + 1, lost.end() + 3);
}

// 102 acked, 103 and 104 abandoned, 105 not, 106 acked: RFC 3758's own example, here 2, 3, 4, 5
/// C1 and C2: the point stops before a chunk that is not abandoned.
#[test]
fn the_example_of_the_rfc() {
    let mut fixture = Fixture::usual();
    burst(&mut fixture, 9, &[3, 4], 3..=5);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 4 (0:4), DATA 5"]);
}

// A → DATA 0 (lost); T3; A → FORWARD-TSN 0;  DATA 1 acknowledged;  A → DATA 2 (lost); T3; A → FORWARD-TSN 2
/// C1: the point is never behind the cumulative TSN ack.
#[test]
fn the_point_follows_the_acknowledgements() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.script.advance_to_timeout();
    fixture.nr_sack(1, &[], &[]);
    fixture.send(&[Reliable], FULL);
    fixture.nr_sack(2, &[], &[]);
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.sent();
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:2)"]);
}

// 0 lost and abandoned, 1 gap-acknowledged, 2 lost and abandoned, 3 and later ones acknowledged
/// Safe condition 1: a renegable gap ack block never lets the point pass, a non-renegable one does.
#[test]
fn only_non_renegable_chunks_are_passed() {
    for (non_renegable, expected) in [(false, "FORWARD-TSN 0 (0:0)"), (true, "FORWARD-TSN 2 (0:2)")] {
        let mut fixture = Fixture::usual();
        fixture.send(&[NEVER_AGAIN; 6], FULL);
        fixture.sent();
        for last in 3..=5 {
            let blocks = [(1, 1), (3, last)];
            let (renegable, kept): (&[_], &[_]) = if non_renegable {
                (&[], &blocks)
            } else {
                (&blocks, &[])
            };
            fixture.nr_sack(0, renegable, kept);
        }
        assert_eq!(fixture.sent(), [expected]);
    }
}

// as above, but the SACK that makes 2 lost does not list 1
/// Safe condition 2: a non-renegable chunk stays non-renegable. It is not retransmitted, and the point passes it.
#[test]
fn non_renegable_stays_non_renegable() {
    let mut fixture = Fixture::usual();
    fixture.send(
        &[NEVER_AGAIN, Reliable, NEVER_AGAIN, Reliable, Reliable, Reliable],
        FULL,
    );
    fixture.sent();
    fixture.nr_sack(0, &[], &[(1, 1), (3, 3)]);
    fixture.nr_sack(0, &[], &[(3, 4)]);
    fixture.nr_sack(0, &[], &[(3, 5)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:2)"]);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:2)"], "1 is not retransmitted");
    assert_eq!(fixture.counters().reneged, 0);
}

// 0 abandoned; 1 (B) non-renegable, 2 (E) of the same reliable message lost; 3 abandoned
/// Safe condition 3: the point passes whole messages only. A FORWARD-TSN that ended within a message would make the receiver
/// drop its fragments.
#[test]
fn a_message_is_passed_whole() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.send(&[Reliable], 2000);
    fixture.send(&[NEVER_AGAIN, Reliable, Reliable, Reliable], FULL);
    fixture.sent();
    for last in 4..=6 {
        fixture.nr_sack(0, &[], &[(1, 1), (4, last)]);
    }
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0), DATA 2"]);
    fixture.nr_sack(1, &[], &[(1, 2), (4, 6)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 3 (0:2)"]);
}

// 0 abandoned, 1 to 5 non-renegable
/// Safe condition 4: the point is the last abandoned TSN, not a non-renegable TSN after it. Without abandoned chunks there is
/// no FORWARD-TSN.
#[test]
fn the_point_is_the_last_abandoned_tsn() {
    let mut fixture = Fixture::usual();
    burst(&mut fixture, 6, &[0], 0..=0);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    let mut fixture = Fixture::usual();
    burst(&mut fixture, 6, &[], 0..=0);
    assert_eq!(fixture.sent(), ["DATA 0"]);
    assert_eq!(fixture.counters().forward_tsns_sent, 0);
}

/// Safe condition 5, C4: the highest abandoned ordered message of each stream is listed. Unordered messages and messages whose
/// chunks are non-renegable are not.
#[test]
fn streams_are_listed_for_abandoned_messages_in_order() {
    let mut fixture = Fixture::usual();
    fixture.send_on(1, FULL, NEVER_AGAIN, false);
    fixture.send_on(1, FULL, NEVER_AGAIN, false);
    fixture.send_on(2, FULL, NEVER_AGAIN, true);
    fixture.send_on(3, FULL, Reliable, false);
    fixture.send_on(4, FULL, NEVER_AGAIN, false);
    fixture.send(&[Reliable; 3], FULL);
    fixture.sent();
    for last in 5..=7 {
        fixture.nr_sack(0, &[], &[(3, 3), (5, last)]);
    }
    assert_eq!(fixture.sent(), ["FORWARD-TSN 4 (1:1 4:0)"]);
}

/// C4, safe condition 8: a FORWARD-TSN fits a packet. Of 400 streams 308 fit a packet of 1,240 bytes. The other streams are
/// listed after the acknowledgement.
#[test]
fn a_forward_tsn_fits_a_packet() {
    let mut config = config();
    config.streams.outbound = 400;
    let mut fixture = Fixture::with_streams(config, 400);
    for stream in 0..400 {
        fixture.send_on(stream, 80, NEVER_AGAIN, false);
    }
    fixture.send_on(0, 80, Reliable, false);
    fixture.sent();
    fixture.script.advance_to_timeout();
    let sent = fixture.sent();
    let listed = sent[0].matches(':').count();
    assert!(
        sent[0].starts_with(&format!("FORWARD-TSN {} ", listed - 1)),
        "{}",
        sent[0]
    );
    assert_eq!(listed, 308);
    fixture.nr_sack(308, &[], &[]);
    let sent = fixture.sent();
    assert!(sent[0].starts_with("FORWARD-TSN 399 (308:0 "), "{}", sent[0]);
}

// A → FORWARD-TSN 0 (lost);  A ← SACK, SACK, SACK ← Z;  A → FORWARD-TSN 0 → Z
/// F2: a FORWARD-TSN is not sent with every acknowledgement, but again after three acknowledgements below the point.
#[test]
fn sent_again_after_three_acknowledgements() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.send(&[Reliable; 9], FULL);
    fixture.sent();
    fixture.report_one_by_one(0, 1, 3);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    fixture.nr_sack(0, &[], &[(1, 4)]);
    fixture.nr_sack(0, &[], &[(1, 5)]);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.nr_sack(0, &[], &[(1, 6)]);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
}

// A → FORWARD-TSN 1;  A ← SACK, SACK, SACK ← Z, all sent before it arrived;  100 ms later three more;  A → FORWARD-TSN 1
/// F2: acknowledgements within the first RTT left before the FORWARD-TSN could arrive, and do not count.
#[test]
fn not_retransmitted_within_a_round_trip() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliable], FULL);
    fixture.script.advance(100 * MS);
    fixture.nr_sack(1, &[], &[]);
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.send(&[Reliable; 9], FULL);
    fixture.sent();
    fixture.report_one_by_one(1, 2, 4);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"]);
    fixture.report_one_by_one(1, 5, 7);
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.script.advance(100 * MS);
    fixture.report_one_by_one(1, 5, 7);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"]);
}

// A → DATA 0 (lost); T3; A → FORWARD-TSN 0 (lost); its timer, doubled each time; A → FORWARD-TSN 0 → Z
/// C5: until the receiver has acknowledged the point a timer runs, also with no data in flight. Its expiry does not reduce the
/// window, because no data was lost.
#[test]
fn retransmitted_by_its_timer() {
    let mut fixture = Fixture::usual();
    fixture.send(&[NEVER_AGAIN], FULL);
    fixture.sent();
    let first = fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
    let window = |fixture: &Fixture| {
        let path = &fixture.script.association().stats().paths[0];
        (path.cwnd, path.ssthresh, path.timeouts)
    };
    let after_the_loss = window(&fixture);
    for errors in 2..5 {
        assert_eq!(fixture.script.advance_to_timeout(), (1 << (errors - 1)) * first);
        assert_eq!(fixture.sent(), ["FORWARD-TSN 0 (0:0)"]);
        assert_eq!(window(&fixture), after_the_loss);
        assert_eq!(fixture.script.association().stats().paths[0].error_count, errors);
    }
    fixture.nr_sack(1, &[], &[]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
    assert!(
        fixture.script.association().poll_timeout().is_none(),
        "no timer is left"
    );
}

/// F4: an acknowledgement is old if it is behind the last cumulative TSN ack, not if it is behind the point.
#[test]
fn acknowledgements_behind_the_point_are_not_stale() {
    let mut fixture = Fixture::usual();
    burst(&mut fixture, 8, &[0, 1], 0..=1);
    assert_eq!(fixture.sent(), ["FORWARD-TSN 1 (0:1)"]);
    fixture.nr_sack(0, &[], &[(2, 5)]);
    assert_eq!(fixture.counters().sacks_stale, 0);
    assert_eq!(
        fixture.script.association().stats().paths[0].flight_size,
        2 * 1016
    );
}

/// Non-renegable data is freed at once. The TSNs are kept until the cumulative TSN ack passes them.
#[test]
fn non_renegable_data_is_freed() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliable; 10], FULL);
    fixture.nr_sack(0, &[(1, 2)], &[(3, 9)]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 3 * FULL);
    assert_eq!(fixture.counters().freed_early_bytes, 7 * FULL as u64);
    fixture.nr_sack(10, &[], &[]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
}

/// A SACK of the base protocol is accepted from a peer that uses NR-SACK.
#[test]
fn a_sack_among_nr_sacks() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliable; 4], FULL);
    fixture.sack(1, &[(2, 3)]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 3 * FULL);
    fixture.sack(4, &[]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
}

/// An NR-SACK that was not negotiated is a chunk of an unknown type, which is discarded with the rest of the packet.
#[test]
fn an_nr_sack_that_was_not_negotiated() {
    let mut fixture = Fixture::new(config(), &[kind::FORWARD_TSN]);
    fixture.send(&[Reliable; 2], FULL);
    fixture.nr_sack(2, &[], &[]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 2 * FULL);
    fixture.sack(2, &[]);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
}

// A → DATA 0 … 4 → Z;  A ← NR-SACK: 1 and 2 arrived, non-renegable ← Z;  A ← NR-SACK or SACK: 3 arrived ← Z
/// Safe condition 2: an acknowledgement contradicts an earlier one if it omits a chunk that was non-renegable. This is an error
/// of the peer. It is counted, and the chunks stay acknowledged.
#[test]
fn a_contradiction_is_counted() {
    for plain in [false, true] {
        let mut fixture = Fixture::usual();
        fixture.send(&[Reliable; 5], FULL);
        fixture.sent();
        fixture.nr_sack(0, &[], &[(1, 2)]);
        let flight = |fixture: &Fixture| fixture.script.association().stats().paths[0].flight_size;
        let before = flight(&fixture);
        if plain {
            fixture.sack(0, &[(3, 3)]);
        } else {
            fixture.nr_sack(0, &[], &[(2, 3)]);
        }
        let counters = fixture.counters();
        assert_eq!((counters.nr_sack_contradictions, counters.reneged), (1, 0));
        assert_eq!(flight(&fixture), before - (FULL + 16));
        assert_eq!(fixture.sent(), [""; 0], "nothing is retransmitted");
    }
}

// A → DATA 0 … 4 → Z;  A ← NR-SACK: 1 … 3 arrived, non-renegable ← Z;  A ← NR-SACK: 1 arrived, late ← Z;  A ← NR-SACK 3 ← Z
/// An old acknowledgement contradicts nothing. Nor does an acknowledgement whose cumulative TSN ack covers the omitted chunks,
/// or which lists them as renegable.
#[test]
fn an_old_acknowledgement_is_no_contradiction() {
    let mut fixture = Fixture::usual();
    fixture.send(&[Reliable; 5], FULL);
    fixture.nr_sack(0, &[], &[(1, 3)]);
    fixture.nr_sack(0, &[], &[(1, 1)]);
    fixture.nr_sack(0, &[(1, 4)], &[]);
    fixture.nr_sack(4, &[], &[]);
    assert_eq!(fixture.counters().nr_sack_contradictions, 0);
}
