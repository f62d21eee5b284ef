//! The receiver: reassembly by stream, U flag and MID, order of delivery, limits, I-FORWARD-TSN (RFC 8260 §2.2.3, §2.3.1).

use anabranch_proto::{Config, MessagePart, StreamId};
use anabranch_testkit::fixture::Fixture;
use anabranch_wire::chunk::{Chunk, IForwardTsn, MessageNumber, SelectiveForwardTsn, SkippedMessage};
use anabranch_wire::{Mid, Tsn};

use crate::{arrive, begin, begin_with, config, delivered, i_data};

/// The peer's I-FORWARD-TSN to the TSN before `count`, with the messages "stream:MID", u for unordered.
fn forward(fixture: &mut Fixture, first: Tsn, count: u32, places: &[&str]) {
    let skipped = places.iter().map(|place| {
        let (stream, mid) = place.split_once(':').expect("stream:MID");
        SkippedMessage {
            stream: StreamId(stream.parse().expect("a stream")),
            unordered: mid.starts_with('u'),
            mid: Mid(mid.trim_start_matches('u').parse().expect("an MID")),
        }
    });
    let chunk = Chunk::IForwardTsn(IForwardTsn::new(first.plus(count).minus(1), skipped));
    fixture.script.send(&[chunk]);
}

/// The last acknowledgement: the number of TSNs acknowledged in sequence, and the renegable blocks.
fn told(fixture: &mut Fixture, first: Tsn) -> (u32, Vec<(u32, u32)>) {
    let mut last = None;
    while let Some(answer) = fixture.script.next_answer() {
        for chunk in answer.chunks {
            if let Chunk::NrSack(sack) = chunk {
                last = Some(sack);
            }
        }
    }
    let sack = last.expect("an NR-SACK");
    let count = sack.cumulative_tsn_ack.next().distance_from(first);
    let number = |offset: u16| count + u32::from(offset) - 1;
    let blocks = sack.renegable.iter();
    (
        count,
        blocks
            .map(|block| (number(block.start), number(block.end)))
            .collect(),
    )
}

fn held(fixture: &Fixture) -> usize {
    fixture.script.association().stats().unread_bytes
}

/// Settings with partial delivery from 1,000 bytes on.
fn in_parts() -> Config {
    let mut config = config();
    config.buffers.partial_delivery_point = 1000;
    config
}

// A ← I-DATA 0 (0:0.0b), 1 (1:0.0b), 2 (2:0.0be), 3 (1:0.1e), 4 (0:0.1e) ← Z
/// §2.2.3: fragments of several messages are interleaved.
#[test]
fn fragments_of_several_messages_are_reassembled() {
    let (mut fixture, first) = begin();
    let places = ["0:0.0b", "1:0.0b", "2:0.0be", "1:0.1e", "0:0.1e"];
    arrive(&mut fixture, first, 0, &places, 50);
    assert_eq!(delivered(&mut fixture), ["2:0", "1:0", "0:0"]);
    assert_eq!(held(&fixture), 0);
}

// A ← I-DATA 0 (0:0.2), 1 (0:0.3e), 2 (0:0.0b), 3 (0:0.1) ← Z
/// §2.2.3: FSNs give the order of fragments. TSNs do not.
#[test]
fn fragments_are_ordered_by_fsn() {
    let (mut fixture, first) = begin();
    arrive(&mut fixture, first, 0, &["0:0.2", "0:0.3e", "0:0.0b", "0:0.1"], 3);
    let messages = fixture.script.messages();
    let [message] = &messages[..] else {
        panic!("one message, not {messages:?}")
    };
    assert_eq!(&message.bytes[..], [0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3]);
}

// A ← I-DATA 0 (0:1.0be), 1 (0:2.0b), 2 (0:u1.0be), 3 (0:2.1e), 4 (0:0.0be) ← Z
/// §2.1: MIDs give the order of ordered messages, in any order of arrival. Unordered messages have their own MIDs.
#[test]
fn order_by_mid() {
    let (mut fixture, first) = begin();
    arrive(
        &mut fixture,
        first,
        0,
        &["0:1.0be", "0:2.0b", "0:u1.0be", "0:2.1e"],
        9,
    );
    assert_eq!(delivered(&mut fixture), ["0:u1"]);
    arrive(&mut fixture, first, 4, &["0:0.0be"], 9);
    assert_eq!(delivered(&mut fixture), ["0:0", "0:1", "0:2"]);
    // A chunk of a delivered message is late: it is acknowledged and dropped.
    arrive(&mut fixture, first, 5, &["0:1.0be", "0:2.5"], 9);
    assert_eq!((delivered(&mut fixture).len(), held(&fixture)), (0, 0));
    assert_eq!(fixture.counters().late_messages, 2);
}

// A ← two fragments that contradict each other ← Z;  A → ABORT (Protocol Violation) → Z
#[test]
fn contradictions_end_the_association() {
    let cases = [
        ["0:0.0b", "0:0.0b"],
        ["0:0.0b", "0:0.0be"],
        ["0:u0.0b", "0:u0.0be"],
        ["0:0.1", "0:0.1e"],
        ["0:0.1e", "0:0.2"],
        ["0:0.2", "0:0.1e"],
        ["0:0.1e", "0:0.2e"],
        ["0:0.0b", "0:0.0"],
    ];
    for case in cases {
        let (mut fixture, first) = begin();
        arrive(&mut fixture, first, 0, &case[..1], 9);
        fixture.script.skip_answers();
        assert_eq!(fixture.script.events(), [], "{case:?}");
        arrive(&mut fixture, first, 1, &case[1..], 9);
        assert!(
            matches!(fixture.script.expect_chunk(), Chunk::Abort(_)),
            "{case:?}"
        );
    }
}

// A ← I-DATA (0:0.0b), (1:0.0b), (2:u0.0b), each 600 bytes; the same streams again ← Z
/// RFC 8260 §4 and RFC 6458 §8.1.20: large messages of several streams are delivered in parts at the same time, each part with
/// the number of its message.
#[test]
fn large_messages_of_several_streams_at_once() {
    let (mut fixture, first) = begin_with(in_parts());
    arrive(&mut fixture, first, 0, &["0:0.0b", "1:0.0b", "2:u0.0b"], 600);
    assert_eq!(fixture.script.talker().unfinished(), 0);
    arrive(&mut fixture, first, 3, &["0:0.1", "1:0.1", "2:u0.1"], 600);
    assert_eq!(fixture.script.talker().unfinished(), 3, "all in parts");
    assert_eq!(held(&fixture), 0);
    arrive(&mut fixture, first, 6, &["2:u0.2e", "0:0.2e", "1:0.2e"], 600);
    assert_eq!(delivered(&mut fixture), ["2:u0", "0:0", "1:0"]);
    assert_eq!(fixture.script.talker().unfinished(), 0);
}

// A ← I-DATA (0:0.0b), (1:0.0b), … of twenty streams, none large, the window full ← Z
/// Many incomplete messages fill the window as one large message does. Their parts are delivered too, so that the window does
/// not stay closed.
#[test]
fn many_beginnings_never_close_the_window() {
    let mut config = config();
    config.buffers.receive = 20_000;
    config.streams.max_inbound = 100;
    let mut fixture = Fixture::new(config, &crate::ALL);
    let first = fixture.script.tsn;
    for number in 0..100 {
        let place = format!(
            "{}:0.{}{}",
            number % 10,
            number / 10,
            if number < 10 { "b" } else { "" }
        );
        fixture.script.send(&[i_data(first, number, &place, 900)]);
    }
    assert_eq!(fixture.counters().dropped_no_room, 0);
    assert!(held(&fixture) < 10_000, "{}", held(&fixture));
    let places: Vec<_> = (0..10).map(|stream| format!("{stream}:0.10e")).collect();
    let places: Vec<_> = places.iter().map(String::as_str).collect();
    arrive(&mut fixture, first, 100, &places, 900);
    assert_eq!(delivered(&mut fixture).len(), 10);
}

// A ← I-DATA (0:1.0b), (0:2.0b), … 65,536 messages of one stream, the first of them missing ← Z
/// A peer that begins messages and ends none meets the limit of memory: each message counts 515 bytes.
#[test]
fn a_peer_that_begins_messages_and_ends_none() {
    let mut config = in_parts();
    config.buffers.receive = 20_000;
    let most = (3 * 20_000 + (48 << 10)) / 515 + 1;
    for kind in ["", "u"] {
        let (mut fixture, first) = begin_with(config.clone());
        for number in 0..65_536 {
            let place = format!("0:{kind}{}.0b", number + 1);
            fixture.script.send(&[i_data(first, number, &place, 3)]);
        }
        assert!(held(&fixture) <= most * 3, "{kind} {}", held(&fixture));
        assert!(held(&fixture) >= (most - 3) * 3, "{kind} {}", held(&fixture));
        // Of the unordered messages one is delivered in parts, and no other before its end.
        assert_eq!(fixture.script.talker().unfinished(), kind.len());
        assert!(fixture.counters().dropped_no_room > 65_000);
    }
}

// A ← I-DATA 0 (0:0.0be), 2 (0:2.0b), 3 (0:3.0be) ← Z;  A ← I-FORWARD-TSN 2 (0:2) ← Z;  A ← I-DATA 4 (0:2.1e) ← Z
/// §2.3.1: a listed message is dropped if it is incomplete, and so are its later fragments. The messages after it are
/// delivered.
#[test]
fn skipped_ordered_messages() {
    let (mut fixture, first) = begin();
    for (number, place) in [(0, "0:0.0be"), (2, "0:2.0b"), (3, "0:3.0be")] {
        arrive(&mut fixture, first, number, &[place], 50);
    }
    assert_eq!(delivered(&mut fixture), ["0:0"]);
    forward(&mut fixture, first, 3, &["0:2"]);
    assert_eq!(
        (delivered(&mut fixture), held(&fixture)),
        (vec!["0:3".to_owned()], 0)
    );
    arrive(&mut fixture, first, 4, &["0:2.1e", "0:4.0be"], 50);
    assert_eq!(delivered(&mut fixture), ["0:4"]);
    assert_eq!(fixture.counters().late_messages, 1);
}

// A ← I-DATA 1 (0:u0.0b), 3 (0:u1.0b), 4 (0:0.0b) ← Z;  A ← I-FORWARD-TSN 2 (0:u0) ← Z;  the rest of all three
/// §2.3.1: unordered messages are listed too. Only listed messages are dropped; another message with a passed TSN continues.
#[test]
fn skipped_unordered_messages() {
    let (mut fixture, first) = begin();
    for (number, place) in [(1, "0:u0.0b"), (3, "0:u1.0b"), (4, "0:0.0b")] {
        arrive(&mut fixture, first, number, &[place], 50);
    }
    forward(&mut fixture, first, 3, &["0:u0"]);
    assert_eq!(held(&fixture), 100);
    arrive(&mut fixture, first, 5, &["0:u0.1e", "0:u1.1e", "0:0.1e"], 50);
    assert_eq!(delivered(&mut fixture), ["0:u1", "0:0"]);
    assert_eq!(held(&fixture), 0);
}

/// A message whose parts were delivered ends in a truncated part with the data that was not read before.
#[test]
fn partially_delivered_messages_are_truncated() {
    let (mut fixture, first) = begin_with(in_parts());
    arrive(&mut fixture, first, 0, &["0:0.0b", "1:u0.0b", "1:u0.3"], 1000);
    assert_eq!(fixture.script.talker().unfinished(), 2);
    fixture.script.talker().reading = false;
    arrive(&mut fixture, first, 3, &["0:0.1", "0:1.0be"], 500);
    forward(&mut fixture, first, 6, &["0:0", "1:u0"]);
    assert_eq!(held(&fixture), 1000, "what can be read, and what follows");
    let parts = fixture.script.act(|association, now| {
        let parts = core::iter::from_fn(|| association.recv(now));
        let name = |part: MessagePart| {
            (
                part.stream.0,
                part.ppid.0,
                part.payload.len(),
                part.truncated,
                part.ending,
            )
        };
        parts.map(name).collect::<Vec<_>>()
    });
    let expected = [
        (0, 0, 500, false, false),
        (0, 0, 0, true, true),
        (0, 1, 500, false, true),
        (1, 0, 0, true, true),
    ];
    assert_eq!(parts, expected);
    assert_eq!(held(&fixture), 0);
}

/// An old I-FORWARD-TSN changes nothing. One that is too far ahead, or names streams that do not exist, is refused like such
/// DATA.
#[test]
fn old_and_invalid_i_forward_tsns() {
    let (mut fixture, first) = begin();
    arrive(&mut fixture, first, 0, &["0:0.0be", "0:1.0b"], 50);
    delivered(&mut fixture);
    fixture.script.skip_answers();
    forward(&mut fixture, first, 2, &["0:1"]);
    assert!(
        matches!(fixture.script.expect_chunk(), Chunk::NrSack(_)),
        "answered at once"
    );
    arrive(&mut fixture, first, 2, &["0:1.1e"], 50);
    assert_eq!(delivered(&mut fixture), ["0:1"]);
    forward(&mut fixture, first, 5, &["99:7"]);
    arrive(&mut fixture, first, 5, &["0:2.0be"], 50);
    assert_eq!(delivered(&mut fixture), ["0:2"]);
    fixture.script.skip_answers();
    forward(&mut fixture, first, 70_000, &[]);
    assert!(matches!(fixture.script.expect_chunk(), Chunk::Abort(_)));
}

// A ← I-DATA 1 (0:1.0be), 3 (0:3.0be) ← Z;  A ← notice 2 (0:2), 0 (0:0) ← Z
/// A selective forward TSN names a message by its MID. It moves the delivery point and acknowledges nothing.
#[test]
fn a_notice_moves_the_delivery_point() {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(1);
    let (mut fixture, first) = begin_with(config);
    let notice = |number, mid| {
        Chunk::SelectiveForwardTsn(SelectiveForwardTsn {
            tsn: first.plus(number),
            stream: StreamId(0),
            number: MessageNumber::Mid(Mid(mid)),
        })
    };
    for (number, place) in [(1, "0:1.0be"), (3, "0:3.0be"), (5, "0:4.1e")] {
        arrive(&mut fixture, first, number, &[place], 50);
    }
    fixture.script.send(&[notice(2, 2)]);
    assert_eq!(delivered(&mut fixture), [""; 0]);
    fixture.script.send(&[notice(0, 0)]);
    assert_eq!(delivered(&mut fixture), ["0:1", "0:3"]);
    // The later fragments of a partially received message are dropped.
    fixture.script.send(&[notice(4, 4)]);
    assert_eq!(held(&fixture), 0);
    arrive(&mut fixture, first, 6, &["0:5.0be"], 50);
    assert_eq!(delivered(&mut fixture), ["0:5"]);
    assert_eq!(fixture.counters().selective_notices_received, 3);
}

/// Messages named by notices are remembered until their turn, one for each 64 bytes of the receive buffer.
#[test]
fn notices_that_are_remembered() {
    let mut config = in_parts();
    config.buffers.receive = 40 * 64;
    config.partial_reliability.selective_forward_tsn = Some(1);
    let (mut fixture, first) = begin_with(config);
    for mid in 1..100 {
        let chunk = SelectiveForwardTsn {
            tsn: first.plus(1),
            stream: StreamId(0),
            number: MessageNumber::Mid(Mid(mid)),
        };
        fixture.script.send(&[Chunk::SelectiveForwardTsn(chunk)]);
    }
    arrive(&mut fixture, first, 0, &["0:0.0be"], 9);
    arrive(&mut fixture, first, 2, &["0:100.0be", "0:41.0be"], 9);
    assert_eq!(delivered(&mut fixture), ["0:0", "0:41"]);
}

// A ← I-DATA 1 (0:0.1), 2 (0:0.2), 3 (0:0.3), 4 (0:0.4): the buffer is full ← Z;  A → NR-SACK, 1 to 4 renegable → Z
// A ← I-DATA 0 (0:0.0b) ← Z;  A → NR-SACK 3 → Z
/// The receiver reneges fragment by fragment, the highest TSN first. NR-SACKs list renegable and non-renegable chunks apart.
#[test]
fn reneging() {
    let mut config = config();
    config.nr_sack.may_renege = true;
    config.buffers.receive = 4000;
    let (mut fixture, first) = begin_with(config);
    arrive(
        &mut fixture,
        first,
        1,
        &["0:0.1", "0:0.2", "0:0.3", "0:0.4"],
        1000,
    );
    assert_eq!(told(&mut fixture, first), (0, vec![(1, 4)]));
    arrive(&mut fixture, first, 0, &["0:0.0b"], 1000);
    assert_eq!(fixture.counters().chunks_reneged, 1);
    assert_eq!(told(&mut fixture, first), (4, vec![]));
    arrive(&mut fixture, first, 4, &["0:0.4e"], 1000);
    assert_eq!(delivered(&mut fixture), ["0:0"]);
    assert_eq!(held(&fixture), 0);
}
