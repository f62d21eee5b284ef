//! The receiver (RFC 3758 §3.6): it skips abandoned TSNs, delivers the messages after them, and acknowledges.

use anabranch_proto::wire::chunk::{Chunk, Data, GapAckBlock, MessageNumber, SelectiveForwardTsn, kind};
use anabranch_proto::{Ppid, StreamId};
use anabranch_testkit::Script;
use anabranch_wire::{Ssn, Tsn};

use anabranch_testkit::fixture::{ALL, Fixture, MS, config};

/// The peer's chunk number `number`, counted from its initial TSN.
fn data(first: Tsn, number: u32, stream: u16, ssn: u16, flags: &str, len: usize) -> Chunk {
    Chunk::Data(Data {
        tsn: first.plus(number),
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        ppid: Ppid(number),
        unordered: flags.contains('U'),
        beginning: flags.contains('B'),
        ending: flags.contains('E'),
        immediate: false,
        payload: vec![number as u8; len].into(),
    })
}

/// The payload protocol identifiers of the delivered messages: the number of the last chunk of each, or of the first. They are
/// equal for messages of one chunk.
fn delivered(script: &mut Script) -> Vec<u32> {
    script.messages().iter().map(|message| message.ppid.0).collect()
}

/// The last acknowledgement: the number of TSNs acknowledged in sequence, and the non-renegable blocks.
fn acknowledged(script: &mut Script, first: Tsn) -> (u32, Vec<(u32, u32)>) {
    let mut last = None;
    while let Some(answer) = script.next_answer() {
        for chunk in answer.chunks {
            if let Chunk::NrSack(sack) = chunk {
                assert_eq!(sack.renegable.iter().count(), 0, "all blocks are non-renegable");
                last = Some(sack);
            }
        }
    }
    let sack = last.expect("an NR-SACK");
    let count = sack.cumulative_tsn_ack.next().distance_from(first);
    let number = |offset: u16| count + u32::from(offset) - 1;
    let blocks = sack.nonrenegable.iter();
    let blocks = blocks.map(|GapAckBlock { start, end }| (number(start), number(end)));
    (count, blocks.collect())
}

fn begin() -> (Fixture, Tsn) {
    let fixture = Fixture::usual();
    let first = fixture.script.tsn;
    (fixture, first)
}

// A ← DATA 0, 3, 4 ← Z;  A ← FORWARD-TSN 2 (0:2) ← Z;  A → NR-SACK 4 → Z
/// The cumulative TSN moves over skipped TSNs and over chunks that arrived behind them. Messages that waited are delivered.
#[test]
fn messages_after_a_skipped_tsn_are_delivered() {
    let (mut fixture, first) = begin();
    for (number, ssn) in [(0, 0), (3, 3), (4, 4)] {
        fixture.script.send(&[data(first, number, 0, ssn, "BE", 9)]);
    }
    assert_eq!(delivered(&mut fixture.script), [0]);
    assert_eq!(acknowledged(&mut fixture.script, first), (1, vec![(3, 4)]));
    fixture.forward(first, 3, &[(0, 2)]);
    assert_eq!(delivered(&mut fixture.script), [3, 4]);
    fixture.script.advance(200 * MS);
    assert_eq!(acknowledged(&mut fixture.script, first), (5, vec![]));
}

// A ← DATA 0, 2 (SSN 1), 4 (SSN 3) ← Z;  A ← FORWARD-TSN 3 (0:2) ← Z
/// Messages before the listed one are delivered too, in order: they were complete.
#[test]
fn messages_before_the_listed_one_are_delivered() {
    let (mut fixture, first) = begin();
    for (number, ssn) in [(0, 0), (2, 2), (4, 4)] {
        fixture.script.send(&[data(first, number, 0, ssn, "BE", 9)]);
    }
    delivered(&mut fixture.script);
    fixture.forward(first, 4, &[(0, 3)]);
    assert_eq!(delivered(&mut fixture.script), [2, 4]);
}

/// An old FORWARD-TSN is acknowledged at once, because the first acknowledgement may be lost, and changes nothing.
#[test]
fn an_old_forward_tsn() {
    let (mut fixture, first) = begin();
    // The first DATA is acknowledged at once, then every second packet.
    for number in 0..3 {
        fixture
            .script
            .send(&[data(first, number, 0, number as u16, "BE", 9)]);
    }
    fixture.script.skip_answers();
    fixture.forward(first, 1, &[(0, 7)]);
    assert_eq!(acknowledged(&mut fixture.script, first), (3, vec![]));
    fixture.script.send(&[data(first, 3, 0, 3, "BE", 9)]);
    assert_eq!(
        delivered(&mut fixture.script),
        [0, 1, 2, 3],
        "the list of an old one is not looked at"
    );
}

/// A skipped TSN that arrives later is a duplicate.
#[test]
fn a_skipped_tsn_arrives_late() {
    let (mut fixture, first) = begin();
    fixture.forward(first, 2, &[(0, 1)]);
    fixture.script.send(&[data(first, 1, 0, 1, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0; 0]);
    assert_eq!(fixture.counters().duplicates_received, 1);
}

// A ← DATA 0 (B) 1 of stream 0; 3 (B) of stream 1 ← Z;  A ← FORWARD-TSN 2 (0:0) ← Z;  A ← DATA 4 (E) of stream 1 ← Z
/// The fragments of a message that misses a skipped TSN are dropped, and their buffer space is free. Other messages continue.
#[test]
fn incomplete_messages_are_dropped() {
    let (mut fixture, first) = begin();
    let free = fixture.script.association().stats().a_rwnd;
    fixture.script.send(&[data(first, 0, 0, 0, "B", 900)]);
    fixture.script.send(&[data(first, 1, 0, 0, "", 900)]);
    fixture.script.send(&[data(first, 3, 1, 0, "B", 900)]);
    fixture.forward(first, 3, &[(0, 0)]);
    assert_eq!(fixture.script.association().stats().a_rwnd, free - 900);
    fixture.script.send(&[data(first, 4, 1, 0, "E", 900)]);
    assert_eq!(delivered(&mut fixture.script), [3]);
    assert_eq!(fixture.script.association().stats().unread_bytes, 0);
}

// A ← FORWARD-TSN 1 ← Z;  A ← DATA 3 ("", late), 2 (""), 4 (E), 5 (B E) ← Z
/// Fragments beyond the point, of a message whose beginning was skipped, are acknowledged and dropped.
#[test]
fn the_rest_of_a_skipped_message() {
    let (mut fixture, first) = begin();
    let free = fixture.script.association().stats().a_rwnd;
    fixture.forward(first, 2, &[(0, 0)]);
    for (number, ssn, flags) in [(3, 0, ""), (2, 0, ""), (4, 0, "E"), (5, 1, "BE")] {
        fixture.script.send(&[data(first, number, 0, ssn, flags, 900)]);
    }
    assert_eq!(delivered(&mut fixture.script), [5]);
    assert_eq!(acknowledged(&mut fixture.script, first), (6, vec![]));
    assert_eq!(fixture.script.association().stats().a_rwnd, free);
}

// A ← DATA 1 (SSN 0, B) ← Z;  A ← FORWARD-TSN 0 (0:0) ← Z;  A ← DATA 2 (SSN 0, E) ← Z
/// A sender that lists a message it did not abandon, as usrsctp does for non-renegable messages, does not make the receiver
/// drop fragments that have yet to arrive.
#[test]
fn an_incomplete_message_is_not_skipped() {
    let (mut fixture, first) = begin();
    fixture.script.send(&[data(first, 1, 0, 0, "B", 900)]);
    fixture.forward(first, 1, &[(0, 0)]);
    fixture.script.send(&[data(first, 2, 0, 0, "E", 900)]);
    assert_eq!(delivered(&mut fixture.script), [1]);
    assert_eq!(fixture.counters().late_messages, 0);
}

// A ← DATA 3 (SSN 0, B) ← Z;  A ← FORWARD-TSN 0 (0:0) ← Z;  A ← DATA 1, 2, 4 (SSN 0, E) ← Z
/// The same for a message beyond the point with TSNs missing before it: usrsctp lists such messages, too.
#[test]
fn an_incomplete_message_beyond_the_point_is_not_skipped() {
    let (mut fixture, first) = begin();
    fixture.script.send(&[data(first, 3, 0, 0, "B", 900)]);
    fixture.forward(first, 1, &[(0, 0)]);
    for number in 1..3 {
        fixture
            .script
            .send(&[data(first, number, 1, number as u16 - 1, "BE", 9)]);
    }
    fixture.script.send(&[data(first, 4, 0, 0, "E", 900)]);
    assert_eq!(delivered(&mut fixture.script), [1, 2, 3]);
    assert_eq!(fixture.counters().late_messages, 0);
}

/// A message whose parts were delivered ends in a truncated part.
#[test]
fn a_partially_delivered_message_is_truncated() {
    let mut config = config();
    config.buffers.partial_delivery_point = 1000;
    let mut fixture = Fixture::new(config, &ALL);
    let first = fixture.script.tsn;
    for number in 0..2 {
        fixture
            .script
            .send(&[data(first, number, 0, 0, if number == 0 { "B" } else { "" }, 900)]);
    }
    assert_eq!(fixture.script.talker().unfinished(), 1, "handed over in parts");
    fixture.forward(first, 3, &[(0, 0)]);
    assert_eq!(fixture.script.talker().unfinished(), 0);
    assert_eq!(delivered(&mut fixture.script), [0; 0]);
    fixture.script.send(&[data(first, 3, 0, 1, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [3]);
}

/// After a truncated message the next large message is delivered in parts too.
#[test]
fn after_a_truncated_message_comes_another() {
    let mut config = config();
    config.buffers.partial_delivery_point = 1000;
    let mut fixture = Fixture::new(config, &ALL);
    let first = fixture.script.tsn;
    for (number, ssn, flags) in [(0, 0, "B"), (1, 0, "")] {
        fixture.script.send(&[data(first, number, 0, ssn, flags, 900)]);
    }
    fixture.forward(first, 3, &[(0, 0)]);
    assert_eq!(fixture.script.talker().unfinished(), 0);
    for (number, ssn, flags) in [(3, 1, "B"), (4, 1, "")] {
        fixture.script.send(&[data(first, number, 0, ssn, flags, 900)]);
    }
    assert_eq!(fixture.script.talker().unfinished(), 1);
}

// A ← DATA 0, 1 ← Z;  A ← FORWARD-TSN 2 (0:0) ← Z;  A ← DATA 3 (SSN 2) ← Z
/// A FORWARD-TSN that lists an old SSN of a stream does not change the stream.
#[test]
fn a_forward_tsn_that_lists_delivered_messages() {
    let (mut fixture, first) = begin();
    for number in 0..2 {
        fixture
            .script
            .send(&[data(first, number, 0, number as u16, "BE", 9)]);
    }
    fixture.forward(first, 3, &[(0, 0)]);
    fixture.script.send(&[data(first, 3, 0, 2, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0, 1, 3]);
}

/// A peer that does not list NR-SACK gets SACKs, though FORWARD-TSN is used.
#[test]
fn a_peer_without_nr_sack_gets_sacks() {
    let mut fixture = Fixture::new(config(), &[kind::FORWARD_TSN]);
    let first = fixture.script.tsn;
    fixture.script.send(&[data(first, 1, 0, 1, "BE", 9)]);
    let Chunk::Sack(sack) = fixture.script.expect_chunk() else {
        panic!("a SACK")
    };
    assert_eq!(sack.gap_ack_blocks.iter().count(), 1);
    fixture.forward(first, 1, &[(0, 0)]);
    assert_eq!(delivered(&mut fixture.script), [1]);
}

/// A FORWARD-TSN further ahead than the range of gap ack blocks is a protocol violation.
#[test]
fn a_forward_tsn_too_far_ahead_is_a_violation() {
    let (mut fixture, first) = begin();
    fixture.forward(first, 65_535, &[]);
    fixture.script.advance(200 * MS);
    assert_eq!(acknowledged(&mut fixture.script, first), (65_535, vec![]));
    fixture.forward(first, 65_535 + 65_536, &[]);
    let Some(Chunk::Abort(_)) = fixture.script.next_answer().map(|answer| answer.only()) else {
        panic!("ABORT")
    };
}

/// RFC 3758 §3.3.1: an endpoint that did not offer FORWARD-TSN reports it as unknown.
#[test]
fn a_forward_tsn_that_was_not_negotiated() {
    let mut fixture = Fixture::new(anabranch_testkit::quiet(), &ALL);
    let first = fixture.script.tsn;
    fixture.forward(first, 3, &[]);
    let answer = fixture.script.expect_chunk();
    assert!(matches!(answer, Chunk::Error(_)), "{answer:?}");
    fixture.script.send(&[data(first, 0, 0, 0, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0], "nothing was skipped");
}

/// RFC 9260 §3.2: and it does not look into the chunk, which may have another form in another extension.
#[test]
fn a_chunk_that_was_not_negotiated_is_not_read() {
    let mut fixture = Fixture::new(anabranch_testkit::quiet(), &ALL);
    let script = &mut fixture.script;
    let packet = script.packet_of_bytes(script.endpoint_tag, &[kind::FORWARD_TSN, 0, 0, 4]);
    script.send_raw(packet);
    let answer = fixture.script.expect_chunk();
    assert!(matches!(answer, Chunk::Error(_)), "{answer:?}");
}

fn notice(first: Tsn, number: u32, stream: u16, ssn: u16) -> Chunk {
    Chunk::SelectiveForwardTsn(SelectiveForwardTsn {
        tsn: first.plus(number),
        stream: StreamId(stream),
        number: MessageNumber::Ssn(Ssn(ssn)),
    })
}

fn begin_selective() -> (Fixture, Tsn) {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(1);
    let fixture = Fixture::new(config, &ALL);
    let first = fixture.script.tsn;
    (fixture, first)
}

// A ← DATA 0 (lost), NOTICE 0 + DATA 1 ← Z;  A → NR-SACK: 0 is missing → Z
/// A notice moves only the delivery point: the next message is delivered, and acknowledgements still report the loss.
#[test]
fn a_notice_delivers_and_acknowledges_nothing() {
    let (mut fixture, first) = begin_selective();
    fixture
        .script
        .send(&[notice(first, 0, 0, 0), data(first, 1, 0, 1, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [1]);
    assert_eq!(acknowledged(&mut fixture.script, first), (0, vec![(1, 1)]));
    // The original was only late: its message is passed by now.
    fixture.script.send(&[data(first, 0, 0, 0, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0; 0]);
    assert_eq!(fixture.counters().late_messages, 1);
    assert_eq!(acknowledged(&mut fixture.script, first), (2, vec![]));
}

// A ← DATA 0 (B), 1, 2 (E) of one message, one of them lost ← Z;  A ← NOTICE of that one, DATA 3 ← Z;  A → NR-SACK → Z
/// If any fragment is missing, the stream continues without its message. Acknowledgements still report the loss.
#[test]
fn a_notice_of_any_fragment() {
    for lost in 0..3 {
        let (mut fixture, first) = begin_selective();
        for (number, flags) in [(0, "B"), (1, ""), (2, "E")] {
            if number != lost {
                fixture.script.send(&[data(first, number, 0, 0, flags, 9)]);
            }
        }
        fixture
            .script
            .send(&[notice(first, lost, 0, 0), data(first, 3, 0, 1, "BE", 9)]);
        assert_eq!(delivered(&mut fixture.script), [3]);
        let (count, _) = acknowledged(&mut fixture.script, first);
        assert_eq!(count, lost);
        // The other notices change nothing, and neither does the same notice again.
        fixture.script.send(&[notice(first, lost, 0, 0)]);
        fixture.script.send(&[data(first, 4, 0, 2, "BE", 9)]);
        assert_eq!(delivered(&mut fixture.script), [4]);
    }
}

// 0 lost and reliable, 1 lost, NOTICE 1, DATA 2
/// A notice of a message that is not the next one is remembered until its turn.
#[test]
fn a_notice_waits_for_its_turn() {
    let (mut fixture, first) = begin_selective();
    fixture
        .script
        .send(&[notice(first, 1, 0, 1), data(first, 2, 0, 2, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0; 0]);
    fixture.script.send(&[data(first, 0, 0, 0, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0, 2]);
}

// A ← DATA 0 (B), 1 ← Z, read in parts;  A ← NOTICE 2 ← Z;  A ← DATA 2 (E, only late) ← Z
/// A notice of a message that is being read in parts is ignored until a FORWARD-TSN, because the end may only be late.
#[test]
fn a_notice_of_a_message_that_is_being_read() {
    let mut config = config();
    config.partial_reliability.selective_forward_tsn = Some(1);
    config.buffers.partial_delivery_point = 1000;
    let mut fixture = Fixture::new(config, &ALL);
    let first = fixture.script.tsn;
    for (number, flags) in [(0, "B"), (1, "")] {
        fixture.script.send(&[data(first, number, 0, 0, flags, 900)]);
    }
    assert_eq!(fixture.script.talker().unfinished(), 1);
    fixture.script.send(&[notice(first, 2, 0, 0)]);
    fixture.script.send(&[data(first, 2, 0, 0, "E", 900)]);
    assert_eq!(delivered(&mut fixture.script), [0]);
}

/// Notices of received messages, duplicate notices, and notices of past or impossible messages have no effect.
#[test]
fn notices_without_effect() {
    let (mut fixture, first) = begin_selective();
    fixture.script.send(&[data(first, 0, 0, 0, "BE", 9)]);
    let idle = [
        notice(first, 0, 0, 1),
        notice(first, 1, 0, 9),
        notice(first, 70_000, 0, 1),
        notice(first, 1, 9_999, 1),
    ];
    fixture.script.send(&idle);
    fixture
        .script
        .send(&[notice(first, 1, 0, 1), notice(first, 1, 0, 1)]);
    fixture.script.send(&[data(first, 2, 0, 2, "BE", 9)]);
    assert_eq!(delivered(&mut fixture.script), [0, 2]);
}

// buffer of 3,000 bytes: A ← DATA 1, 2, 3 (1,000 bytes each) ← Z;  A ← DATA 0 ← Z
/// A receiver that may renege lists renegable chunks, drops the highest TSN when the lowest gap is filled, and accepts it again
/// later.
#[test]
fn reneging_under_memory_pressure() {
    let mut config = config();
    config.buffers.receive = 3_000;
    config.nr_sack.may_renege = true;
    let mut fixture = Fixture::new(config, &ALL);
    let first = fixture.script.tsn;
    fixture.script.send(&[data(first, 1, 0, 1, "BE", 1000)]);
    fixture.script.send(&[data(first, 2, 1, 0, "BE", 900)]);
    fixture.script.send(&[data(first, 3, 0, 2, "BE", 1000)]);
    let mut last = None;
    while let Some(answer) = fixture.script.next_answer() {
        last = answer.chunks.into_iter().next_back();
    }
    let Some(Chunk::NrSack(sack)) = last else {
        panic!("NR-SACK")
    };
    let pairs = |blocks: &anabranch_wire::chunk::GapAckBlocks| {
        blocks
            .iter()
            .map(|block| (block.start, block.end))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        pairs(&sack.renegable),
        [(2, 2), (4, 4)],
        "those that wait for their turn"
    );
    assert_eq!(pairs(&sack.nonrenegable), [(3, 3)], "delivered");
    fixture.script.send(&[data(first, 0, 0, 0, "BE", 1500)]);
    assert_eq!(fixture.counters().chunks_reneged, 1);
    assert_eq!(delivered(&mut fixture.script), [2, 0, 1]);
    assert_eq!(
        acknowledged(&mut fixture.script, first),
        (3, vec![]),
        "3 was dropped"
    );
    fixture.script.send(&[data(first, 3, 0, 2, "BE", 1000)]);
    assert_eq!(delivered(&mut fixture.script), [3]);
}
