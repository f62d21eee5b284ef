//! Selective forward TSN, the sender's rules (Basto and Freitas, extension (b)).

use core::time::Duration;

use anabranch_proto::Reliability::{Lifetime, Reliable, Retransmissions};
use anabranch_proto::{DiscardNotice, SendOptions, StreamId};

use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, NEVER_AGAIN, config};

/// User data that fills a packet together with a notice.
const BESIDE: usize = FULL - 12;

fn fixture(distance: u32) -> Fixture {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(distance);
    Fixture::new(config, &ALL)
}

// A → DATA 0;  A → NOTICE 0, DATA 1;  A → NOTICE 1, DATA 2
/// The packet after a message has a notice that the message will not be retransmitted.
#[test]
fn the_next_packet_has_a_notice_of_the_one_before() {
    let mut fixture = fixture(1);
    fixture.send(&[NEVER_AGAIN; 3], BESIDE);
    assert_eq!(
        fixture.sent(),
        ["DATA 0", "NOTICE 0 (0:0), DATA 1", "NOTICE 1 (0:1), DATA 2"]
    );
    assert_eq!(fixture.counters().selective_notices_sent, 2);
}

/// With a distance of three packets.
#[test]
fn at_a_distance() {
    let mut fixture = fixture(3);
    fixture.send(&[NEVER_AGAIN; 5], BESIDE);
    assert_eq!(
        fixture.sent(),
        [
            "DATA 0",
            "DATA 1",
            "DATA 2",
            "NOTICE 0 (0:0), DATA 3",
            "NOTICE 1 (0:1), DATA 4"
        ]
    );
}

/// Notices wait for at most half the window, and none waits when the window closes: the last packet that may leave has all of
/// them.
#[test]
fn flushed_as_the_window_closes() {
    let mut config = config();
    config.initial_window = Some(4);
    config.partial_reliability.selective_forward_tsn = Some(9);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[NEVER_AGAIN; 6], 1100);
    assert_eq!(
        fixture.sent(),
        [
            "DATA 0",
            "DATA 1",
            "NOTICE 0 (0:0), DATA 2",
            "NOTICE 1 (0:1), DATA 3",
            "NOTICE 2 (0:2), NOTICE 3 (0:3), DATA 4"
        ]
    );
}

/// Notices exist only for the last transmission of ordered messages: the last retransmission, or a lifetime that ends before a
/// loss could be detected.
#[test]
fn only_of_the_last_transmission_of_an_ordered_message() {
    let mut fixture = fixture(1);
    fixture.send_on(0, BESIDE, Retransmissions(1), false);
    fixture.send_on(0, BESIDE, Reliable, false);
    fixture.send_on(0, BESIDE, NEVER_AGAIN, true);
    fixture.send_on(0, BESIDE, Lifetime(Duration::from_secs(9)), false);
    fixture.send_on(0, BESIDE, NEVER_AGAIN, false);
    fixture.send_on(0, BESIDE, Reliable, false);
    let sent = fixture.sent();
    assert_eq!(sent[..5], ["DATA 0", "DATA 1", "DATA 2", "DATA 3", "DATA 4"]);
    assert_eq!(sent[5], "NOTICE 4 (0:3), DATA 5");
}

/// There is no notice of a chunk that is known to have arrived.
#[test]
fn not_of_chunks_that_arrived() {
    let mut fixture = fixture(1);
    fixture.send(&[NEVER_AGAIN], BESIDE);
    fixture.nr_sack(1, &[], &[]);
    fixture.send(&[NEVER_AGAIN], BESIDE);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1"]);
}

/// There is no notice of a chunk that arrived behind a gap.
#[test]
fn not_of_chunks_that_arrived_behind_a_gap() {
    let mut fixture = fixture(1);
    fixture.send(&[Reliable, NEVER_AGAIN], BESIDE);
    fixture.nr_sack(0, &[], &[(1, 1)]);
    fixture.send(&[Reliable], BESIDE);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1", "DATA 2"]);
}

// A → DATA 0 (B) → Z;  A → NOTICE 0, DATA 1 (E) → Z;  A → NOTICE 1, DATA 2 → Z
/// Each fragment has its own notice: if any of them is lost, the message stays incomplete.
#[test]
fn one_for_each_fragment() {
    let mut fixture = fixture(1);
    fixture.send(&[NEVER_AGAIN], 2 * BESIDE);
    fixture.send(&[Reliable], BESIDE);
    assert_eq!(
        fixture.sent(),
        ["DATA 0", "NOTICE 0 (0:0), DATA 1", "NOTICE 1 (0:0), DATA 2"]
    );
}

/// With a lifetime, a fragment has a notice if it leaves so late that its loss would be known only after the lifetime.
#[test]
fn of_fragments_in_their_last_transmission() {
    let mut config = config();
    config.initial_window = Some(2);
    config.partial_reliability.selective_forward_tsn = Some(1);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Lifetime(60 * MS)], 6 * BESIDE);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1", "DATA 2"]);
    fixture.script.advance(40 * MS);
    fixture.nr_sack(3, &[], &[]);
    assert_eq!(
        fixture.sent(),
        ["DATA 3", "NOTICE 3 (0:0), DATA 4", "NOTICE 4 (0:0), DATA 5"]
    );
}

/// Fragments are shorter by a notice, so that full packets have space for one.
#[test]
fn packets_leave_room_for_a_notice() {
    let mut fixture = fixture(1);
    fixture.send(&[NEVER_AGAIN], 3 * BESIDE);
    assert_eq!(
        fixture.sent(),
        ["DATA 0", "NOTICE 0 (0:0), DATA 1", "NOTICE 1 (0:0), DATA 2"]
    );
}

fn send_with(fixture: &mut Fixture, notice: Option<DiscardNotice>) {
    fixture.script.act(|association, now| {
        let options = SendOptions::default()
            .reliability(NEVER_AGAIN)
            .discard_notice(notice);
        let message = vec![7; BESIDE].into();
        association
            .send(now, StreamId(0), message, options)
            .expect("send");
    });
}

// A → DATA 0, 1;  A → NOTICE of the messages with notices, DATA 2 → Z
/// A message can set whether it has notices. Otherwise the association's setting is used.
#[test]
fn notices_for_single_messages() {
    for usual in [DiscardNotice::Never, DiscardNotice::WithData] {
        let mut config = config();
        config.partial_reliability.selective_forward_tsn = Some(1);
        config.partial_reliability.discard_notice = usual;
        let mut fixture = Fixture::new(config, &ALL);
        send_with(&mut fixture, Some(DiscardNotice::Never));
        send_with(&mut fixture, Some(DiscardNotice::WithData));
        send_with(&mut fixture, None);
        send_with(&mut fixture, None);
        let sent = fixture.sent();
        assert_eq!(sent[..3], ["DATA 0", "DATA 1", "NOTICE 1 (0:1), DATA 2"]);
        let third = match usual {
            DiscardNotice::Never => "DATA 3",
            _ => "NOTICE 2 (0:2), DATA 3",
        };
        assert_eq!(sent[3], third);
    }
}

// A → DATA 0 → Z;  A → NOTICE 0, DATA 1 → Z;  A → NOTICE 1, DATA 2 (window full) → Z;  A → NOTICE 2 → Z
// A ← SACK 2 ← Z;  A → DATA 3 → Z
/// If the window allows no data, a notice leaves alone, if the message asks for that, and only once.
#[test]
fn alone_when_the_window_is_full() {
    for (notice, packets) in [(DiscardNotice::Alone, 4), (DiscardNotice::WithData, 3)] {
        let mut config = config();
        config.initial_window = Some(2);
        config.partial_reliability.selective_forward_tsn = Some(1);
        let mut fixture = Fixture::new(config, &ALL);
        for _ in 0..4 {
            send_with(&mut fixture, Some(notice));
        }
        let all = [
            "DATA 0",
            "NOTICE 0 (0:0), DATA 1",
            "NOTICE 1 (0:1), DATA 2",
            "NOTICE 2 (0:2)",
        ];
        assert_eq!(fixture.sent(), all[..packets]);
        fixture.nr_sack(3, &[], &[]);
        assert_eq!(fixture.sent(), ["DATA 3"]);
    }
}

/// If the window is open, no notice leaves alone: the next message carries it.
#[test]
fn not_alone_while_the_window_is_open() {
    let mut fixture = fixture(1);
    send_with(&mut fixture, Some(DiscardNotice::Alone));
    assert_eq!(fixture.sent(), ["DATA 0"]);
    send_with(&mut fixture, Some(DiscardNotice::Alone));
    assert_eq!(fixture.sent(), ["NOTICE 0 (0:0), DATA 1"]);
}

// A → DATA 0 (window of one packet) → Z;  A → NOTICE 0 → Z;  A ← SACK 0 ← Z
/// Card E1 of the experiments: with a window of one packet, after T3-rtx, there is no packet to carry a notice.
#[test]
fn alone_after_a_timeout() {
    let mut config = config();
    config.initial_window = Some(2);
    config.partial_reliability.selective_forward_tsn = Some(1);
    let mut fixture = Fixture::new(config, &ALL);
    for _ in 0..4 {
        send_with(&mut fixture, Some(DiscardNotice::Alone));
    }
    fixture.sent();
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (0:2), DATA 3", "NOTICE 3 (0:3)"]);
}

/// A peer that does not list notices gets none, and packets are full.
#[test]
fn a_peer_without_notices_gets_none() {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(1);
    let mut fixture = Fixture::new(config, &ALL[..2]);
    fixture.send(&[NEVER_AGAIN; 2], FULL);
    assert_eq!(fixture.sent(), ["DATA 0", "DATA 1"]);
}
