//! Extended FORWARD-TSN: abandoned chunks above chunks that the receiver waits for (after Rajiullah and Brunstrom).

use anabranch_proto::Reliability::{self, Reliable};
use anabranch_proto::wire::chunk::{Chunk, Data, ExtendedForwardTsn, GapAckBlock, experimental_kind, kind};
use anabranch_proto::{Ppid, RecoveryRules, StreamId};
use anabranch_testkit::fixture::{Fixture, MS, NEVER_AGAIN, config};
use anabranch_wire::{Ssn, Tsn};

const KINDS: [u8; 3] = [
    kind::FORWARD_TSN,
    kind::NR_SACK,
    experimental_kind::EXTENDED_FORWARD_TSN,
];

/// Eight messages fill a packet.
const LEN: usize = 128;

fn fixture(offers: bool, kinds: &[u8]) -> Fixture {
    let mut config = config();
    config.nr_sack.forward_past_nonrenegable = false;
    config.partial_reliability.extended_forward_tsn = offers;
    Fixture::new(config, kinds)
}

fn send(fixture: &mut Fixture, messages: &[Reliability]) {
    for reliability in messages {
        fixture.send_on(0, LEN, *reliability, true);
    }
    fixture.sent();
}

// A → 0 1; 2 3 4 lost, 3 reliable; 5 6 7 arrive
// A → FORWARD-TSN 2, EXTENDED 4, DATA 3 → Z   A ← cumulative 7 ← Z
/// Fig. 1a of the paper: the receiver learns of both abandoned messages in the packet of the retransmission, so that recovery takes one
/// round trip, as without partial reliability.
#[test]
fn a_mixed_burst_takes_one_round_trip() {
    let mut fixture = fixture(true, &KINDS);
    let mut messages = [NEVER_AGAIN; 8];
    messages[3] = Reliable;
    send(&mut fixture, &messages);
    for last in 5..8 {
        fixture.nr_sack(2, &[], &[(5, last)]);
    }
    let repairs = fixture.sent();
    assert_eq!(repairs, ["FORWARD-TSN 2 (), EXTENDED 4-4, DATA 3"]);
    assert_eq!(fixture.counters().extended_forwards_sent, 1);
    fixture.nr_sack(8, &[], &[]);
    assert_eq!(fixture.sent(), [""; 0]);
}

// A → 0 1 2(lost) 3 4(lost) 5 6 7, each sent only once
// A → FORWARD-TSN 2, EXTENDED 4 → Z
/// Fig. 1b: a received message between two lost ones.
#[test]
fn a_received_message_between_losses() {
    let mut fixture = fixture(true, &KINDS);
    send(&mut fixture, &[NEVER_AGAIN; 8]);
    for last in 5..8 {
        fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
    }
    assert_eq!(fixture.sent(), ["FORWARD-TSN 2 (), EXTENDED 4-4"]);
}

/// Without the peer's offer, without this endpoint's, and for ordered messages there is only FORWARD-TSN.
#[test]
fn only_if_both_offer_it_and_only_unordered_messages() {
    for (offers, kinds, unordered) in [
        (false, &KINDS[..], true),
        (true, &KINDS[..2], true),
        (true, &KINDS[..], false),
    ] {
        let mut fixture = fixture(offers, kinds);
        for _ in 0..8 {
            fixture.send_on(0, LEN, NEVER_AGAIN, unordered);
        }
        fixture.sent();
        for last in 5..8 {
            fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
        }
        let sent = fixture.sent().join(", ");
        assert!(sent.starts_with("FORWARD-TSN 2"), "{sent}");
        assert_eq!(fixture.counters().extended_forwards_sent, 0, "{sent}");
    }
}

/// A chunk that is listed and then acknowledged may have been skipped: it opens no window, and it reports nothing missing.
#[test]
fn a_skipped_chunk_proves_nothing() {
    let mut fixture = fixture(true, &KINDS);
    let mut messages = [NEVER_AGAIN; 8];
    messages[2] = Reliable;
    send(&mut fixture, &messages);
    for last in 5..8 {
        fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
    }
    assert_eq!(fixture.sent(), ["EXTENDED 4-4, DATA 2"]);
    let (before, spurious) = (fixture.cwnd(), fixture.counters().retransmissions_spurious);
    fixture.nr_sack(2, &[], &[(3, 7)]);
    assert_eq!(fixture.cwnd(), before);
    assert_eq!(fixture.counters().retransmissions_spurious, spurious);
    assert_eq!(fixture.sent(), [""; 0]);
}

// A → 2 (late), 4 (lost, never again);  A → EXTENDED 4, DATA 2;  A ← everything, with the duplicate 2
/// The loss of a listed chunk stays a loss, whatever is acknowledged later: the window's reduction is undone if all losses of an episode
/// are disproved, and the acknowledgement of this one proves nothing.
#[test]
fn an_announced_discard_stays_a_loss() {
    for by_gap in [false, true] {
        let mut config = config();
        config.recovery = RecoveryRules::RACK;
        config.nr_sack.forward_past_nonrenegable = false;
        config.partial_reliability.extended_forward_tsn = true;
        let mut fixture = Fixture::new(config, &KINDS);
        let mut messages = [NEVER_AGAIN; 8];
        messages[2] = Reliable;
        send(&mut fixture, &messages);
        fixture.script.advance(40 * MS);
        fixture.nr_sack(2, &[], &[(3, 3), (5, 7)]);
        fixture.script.advance(15 * MS);
        assert_eq!(fixture.sent(), ["EXTENDED 4-4, DATA 2"]);
        assert_eq!(fixture.counters().fast_recoveries, 1);
        fixture.script.advance(40 * MS);
        if by_gap {
            fixture.nr_sack(2, &[], &[(3, 7)]);
        }
        fixture.sack_with_duplicates(8, &[2]);
        assert_eq!(
            fixture.counters().reductions_undone,
            0,
            "by a gap ack block: {by_gap}"
        );
    }
}

/// If acknowledgements later than a round trip still leave the listed chunks out, the sender lists them again.
#[test]
fn listed_again_after_three_acknowledgements() {
    let mut fixture = fixture(true, &KINDS);
    let mut messages = [NEVER_AGAIN; 12];
    messages[2] = Reliable;
    send(&mut fixture, &messages);
    for last in 5..8 {
        fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
    }
    assert_eq!(fixture.sent(), ["EXTENDED 4-4, DATA 2"]);
    fixture.script.advance(300 * MS);
    for last in 8..10 {
        fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
        assert_eq!(fixture.sent(), [""; 0]);
    }
    fixture.nr_sack(2, &[], &[(3, 3), (5, 10)]);
    assert_eq!(fixture.sent(), ["EXTENDED 4-4"]);
}

/// Acknowledgements within a round trip may have been sent before the list arrived.
#[test]
fn a_burst_of_acknowledgements_does_not_repeat_the_list() {
    let mut fixture = fixture(true, &KINDS);
    let mut messages = [NEVER_AGAIN; 12];
    messages[2] = Reliable;
    send(&mut fixture, &messages);
    fixture.script.advance(100 * MS);
    for last in 5..8 {
        fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
    }
    assert_eq!(fixture.sent(), ["EXTENDED 4-4, DATA 2"]);
    for last in 8..12 {
        fixture.nr_sack(2, &[], &[(3, 3), (5, last)]);
    }
    assert_eq!(fixture.sent(), [""; 0]);
}

fn data(first: Tsn, number: u32) -> Chunk {
    Chunk::Data(Data {
        tsn: first.plus(number),
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: Ppid(number),
        unordered: true,
        beginning: true,
        ending: true,
        immediate: false,
        payload: vec![7; 9].into(),
    })
}

/// An extended FORWARD-TSN whose offsets count from the TSN before the first.
fn extended(first: Tsn, blocks: &[(u16, u16)]) -> Chunk {
    let blocks = blocks.iter().map(|&(start, end)| GapAckBlock { start, end });
    Chunk::ExtendedForwardTsn(ExtendedForwardTsn::new(first.minus(1), blocks))
}

/// The last acknowledgement: the number of TSNs acknowledged in sequence, and the offsets of its blocks from the first TSN, from 1 on.
fn acknowledged(fixture: &mut Fixture, first: Tsn) -> (u32, Vec<(u32, u32)>) {
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
    let blocks = sack.nonrenegable.iter();
    let blocks = blocks.map(|block| (count + u32::from(block.start), count + u32::from(block.end)));
    (count, blocks.collect())
}

// A ← DATA 1, 4 ← Z;  A ← EXTENDED 2 ← Z;  A → NR-SACK: 0 and 3 are missing → Z;  A ← DATA 0, 3 ← Z;  A → NR-SACK 4 → Z
/// The receiver acknowledges listed chunks as non-renegable, and its cumulative TSN passes them when the chunk below them arrives.
#[test]
fn the_receiver_acknowledges_listed_chunks() {
    let mut fixture = fixture(true, &KINDS);
    let first = fixture.script.tsn;
    fixture.script.send(&[data(first, 1), data(first, 4)]);
    fixture.script.send(&[extended(first, &[(3, 3)])]);
    assert_eq!(acknowledged(&mut fixture, first), (0, vec![(2, 3), (5, 5)]));
    fixture.script.send(&[data(first, 0)]);
    assert_eq!(acknowledged(&mut fixture, first), (3, vec![(5, 5)]));
    fixture.script.send(&[data(first, 3)]);
    fixture.script.advance(200 * MS);
    assert_eq!(acknowledged(&mut fixture, first), (5, vec![]));
    let delivered = fixture.script.messages();
    let delivered: Vec<u32> = delivered.iter().map(|message| message.ppid.0).collect();
    assert_eq!(delivered, [1, 4, 0, 3]);
    assert_eq!(fixture.counters().extended_forwards_received, 1);
}

/// Blocks of TSNs that have passed, that are reversed, or that a gap ack block could not report move nothing. A hostile peer cannot make the
/// receiver hold more than a few hundred runs.
#[test]
fn blocks_of_a_hostile_peer() {
    let mut fixture = fixture(true, &KINDS);
    let first = fixture.script.tsn;
    fixture.script.send(&[data(first, 0), data(first, 1)]);
    let far = ExtendedForwardTsn::new(
        first.plus(60_000),
        [GapAckBlock {
            start: 9_000,
            end: 9_001,
        }],
    );
    fixture.script.send(&[
        extended(first, &[(1, 2), (9, 5), (0, 0)]),
        Chunk::ExtendedForwardTsn(far),
    ]);
    assert_eq!(acknowledged(&mut fixture, first), (2, vec![]));
    for packet in 0..10_u16 {
        let blocks: Vec<(u16, u16)> = (0..100)
            .map(|block| 10 + 2 * (100 * packet + block))
            .map(|offset| (offset, offset))
            .collect();
        fixture.script.send(&[extended(first, &blocks)]);
    }
    let (count, blocks) = acknowledged(&mut fixture, first);
    assert_eq!((count, blocks.len()), (2, 256));
}
