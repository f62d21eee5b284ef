//! The receiver's rules, with the packets drawn: A is a hand-made peer with two paths, Z receives. `3 (1:2)` is TSN 3 in
//! transmission 2 of path 1. For each path a COOP-SACK has the last transmission up to which none is missing, and blocks.

use anabranch_proto::Config;
use anabranch_wire::chunk::{AckPolicy, Chunk};

use super::fixture::{ECA, Fixture, config};

const LAST: AckPolicy = AckPolicy::LastArrival;
const FIRST_RANK: AckPolicy = AckPolicy::Ranked(1);
const SECOND_RANK: AckPolicy = AckPolicy::Ranked(2);

fn fixture() -> Fixture {
    Fixture::new(config(), &ECA)
}

/// TSN 0 of a message on each path, acknowledged. The first data of an association is acknowledged at once.
fn begun(policies: [AckPolicy; 2]) -> Fixture {
    let mut fixture = fixture();
    fixture.e_data(0, policies[0], &[(0, (0, 0))]);
    fixture.e_data(1, policies[1], &[(1, (1, 0))]);
    fixture.pass(200);
    fixture.sent();
    fixture
}

/// The acknowledgements that left, without the cumulative TSN.
fn acks(fixture: &mut Fixture) -> Vec<String> {
    let sent = fixture.sent();
    sent.iter()
        .map(|packet| {
            let (path, rest) = packet.split_once(" COOP-SACK ").expect("a COOP-SACK");
            let (_, reports) = rest.split_once(' ').expect("a TSN");
            format!("{path} {reports}")
        })
        .collect()
}

// A → 4 (1:1), 2 (0:1), 5 (1:2), 3 (0:2) → Z
// A ← COOP-SACK every second packet ← Z
/// Rule 5: reordering between paths makes no gap, and every second packet is acknowledged, on the path of the last packet.
#[test]
fn reordering_between_paths_is_no_gap() {
    let mut fixture = begun([LAST, LAST]);
    fixture.e_data(1, LAST, &[(4, (1, 1))]);
    assert_eq!(acks(&mut fixture), [""; 0]);
    fixture.e_data(0, LAST, &[(2, (0, 1))]);
    assert_eq!(acks(&mut fixture), ["0 0:1 1:1"]);
    fixture.e_data(0, LAST, &[(3, (0, 2))]);
    assert_eq!(acks(&mut fixture), [""; 0]);
    fixture.pass(199);
    assert_eq!(acks(&mut fixture), [""; 0]);
    fixture.pass(1);
    assert_eq!(acks(&mut fixture), ["0 0:2 1:1"], "or after 200 ms");
}

// A → 2 (0:1) ✗, 3 (0:2), 4 (0:3) → Z;  A ← COOP-SACK 0:0+2-2; 0:0+2-3 ← Z;  A → 5 (1:1) → Z
/// Rule 5: while a path has a gap, each of its packets is acknowledged at once. Packets of other paths are not.
#[test]
fn a_gap_of_a_path_is_reported_at_once() {
    let mut fixture = begun([LAST, LAST]);
    fixture.e_data(0, LAST, &[(3, (0, 2))]);
    assert_eq!(acks(&mut fixture), ["0 0:0+2-2 1:0"]);
    fixture.e_data(0, LAST, &[(4, (0, 3))]);
    assert_eq!(acks(&mut fixture), ["0 0:0+2-3 1:0"]);
    fixture.e_data(1, LAST, &[(5, (1, 1))]);
    assert_eq!(acks(&mut fixture), [""; 0], "path 1 has no gap");
    // The packet that closes the gap is acknowledged at once, too.
    fixture.e_data(0, LAST, &[(2, (0, 1))]);
    assert_eq!(acks(&mut fixture), ["0 0:3 1:1"]);
}

// A → 2 (0:1) ✗, 3 (0:2) → Z;  A ← COOP-SACK by path 1 ← Z
/// Rule 5: a gap is reported on the best ranked path without a gap. Other acknowledgements return on the path of the last
/// packet.
#[test]
fn gaps_are_reported_on_the_best_path_without_a_gap() {
    let mut fixture = begun([SECOND_RANK, FIRST_RANK]);
    fixture.e_data(0, SECOND_RANK, &[(2, (0, 1))]);
    fixture.e_data(0, SECOND_RANK, &[(3, (0, 2))]);
    assert_eq!(
        acks(&mut fixture),
        ["0 0:2 1:0"],
        "no gap: by the last packet's path"
    );
    fixture.e_data(0, SECOND_RANK, &[(5, (0, 4))]);
    assert_eq!(acks(&mut fixture), ["1 0:2+2-2 1:0"]);
    // Path 1 has a gap too. Then path 1 is used, as both have gaps and path 1 has the better rank.
    fixture.e_data(1, FIRST_RANK, &[(9, (1, 4))]);
    assert_eq!(acks(&mut fixture), ["1 0:2+2-2 1:0+4-4"]);
    // Path 0 has no gap any more.
    fixture.forward_psn(0, 4);
    fixture.e_data(1, FIRST_RANK, &[(10, (1, 5))]);
    assert_eq!(acks(&mut fixture), ["0 0:4 1:0+4-5"]);
}

/// PS 000: a gap is reported on the path of the last packet.
#[test]
fn last_arrival() {
    let mut fixture = begun([LAST, LAST]);
    fixture.e_data(0, LAST, &[(3, (0, 2))]);
    fixture.e_data(1, LAST, &[(5, (1, 2))]);
    assert_eq!(acks(&mut fixture), ["0 0:0+2-2 1:0", "1 0:0+2-2 1:0+2-2"]);
}

// A → 2 (0:1), 3 (0:2) → Z;  A ← COOP-SACK by path 0; the same by path 1 ← Z
/// PS 001: a copy of each acknowledgement on every path, also without a gap.
#[test]
fn copies_on_every_path() {
    let every = AckPolicy::EveryPath;
    let mut fixture = begun([every, every]);
    fixture.e_data(0, every, &[(2, (0, 1))]);
    fixture.e_data(0, every, &[(3, (0, 2))]);
    assert_eq!(acks(&mut fixture), ["0 0:2 1:0", "1 0:2 1:0"]);
    fixture.e_data(1, every, &[(9, (1, 5))]);
    assert_eq!(acks(&mut fixture), ["1 0:2 1:0+5-5", "0 0:2 1:0+5-5"]);
}

/// PS 100: a gap is reported on any path without a gap.
#[test]
fn unranked() {
    let unranked = AckPolicy::Unranked;
    let mut fixture = begun([unranked, unranked]);
    fixture.e_data(0, unranked, &[(3, (0, 2))]);
    assert_eq!(acks(&mut fixture), ["1 0:0+2-2 1:0"]);
    fixture.e_data(1, unranked, &[(5, (1, 1)), (6, (1, 2))]);
    assert_eq!(acks(&mut fixture), [""; 0]);
}

// A → 2 (0:1), 2 (1:1) → Z;  A ← COOP-SACK … dup 1:1 ← Z;  A → 3 (0:2), 4 (0:3) → Z;  A ← COOP-SACK, no more of it ← Z
/// Rule 6: a duplicate is reported once and at once, by the number of the transmission that brought it.
#[test]
fn duplicates_are_reported_once() {
    let mut fixture = begun([LAST, LAST]);
    fixture.e_data(0, LAST, &[(2, (0, 1))]);
    fixture.e_data(1, LAST, &[(2, (1, 1))]);
    assert_eq!(acks(&mut fixture), ["1 0:1 1:1 dup 1:1"]);
    fixture.e_data(0, LAST, &[(3, (0, 2))]);
    fixture.e_data(0, LAST, &[(4, (0, 3))]);
    assert_eq!(acks(&mut fixture), ["0 0:3 1:1"]);
    assert_eq!(fixture.counters().duplicates_received, 1);
}

// A → 3 (0:2), FORWARD-PSN 0:1 → Z;  A → 2 (0:1), late → Z
/// Rule 4: FORWARD-PSN closes a gap, and an old FORWARD-PSN changes nothing. A chunk that arrives late in a passed transmission
/// is still received: only its TSN decides whether it is a duplicate.
#[test]
fn a_passed_transmission_may_still_arrive() {
    let mut fixture = begun([LAST, LAST]);
    fixture.e_data(0, LAST, &[(3, (0, 2))]);
    fixture.forward_psn(0, 1);
    fixture.e_data(0, LAST, &[(4, (0, 3))]);
    assert_eq!(
        acks(&mut fixture),
        ["0 0:0+2-2 1:0"],
        "one is due with the next packet"
    );
    for old in [0, 1, 0x00ff_ffff] {
        fixture.forward_psn(0, old);
    }
    // A number further ahead than data can be, and a path that does not exist.
    fixture.forward_psn(0, 90_000);
    fixture.forward_psn(9, 3);
    let read = fixture.counters().messages_received;
    fixture.e_data(0, LAST, &[(2, (0, 1))]);
    assert_eq!(acks(&mut fixture), ["0 0:3 1:0"]);
    assert_eq!(fixture.counters().messages_received, read + 1);
    assert_eq!(fixture.counters().duplicates_received, 0);
    assert_eq!(fixture.counters().forward_psns_received, 6);
}

/// Rule 9: the acknowledgement states the share of the window of each path.
#[test]
fn shares_of_the_window() {
    let mut fixture = fixture();
    fixture.e_data(0, LAST, &[(0, (0, 0))]);
    fixture.e_data(1, LAST, &[(1, (1, 0))]);
    fixture.pass(200);
    let mut shares = Vec::new();
    while let Some(answer) = fixture.script.next_answer() {
        for chunk in answer.chunks {
            if let Chunk::CoopSack(sack) = chunk {
                shares.push(
                    sack.paths
                        .iter()
                        .map(|path| path.rwnd * sack.paths.len() as u32)
                        .sum::<u32>()
                        / sack.a_rwnd,
                );
            }
        }
    }
    assert_eq!(shares, [1, 2]);
}

/// Numbers wrap at 24 bits.
#[test]
fn numbers_wrap() {
    let mut fixture = fixture();
    let mut number = 0;
    fixture.e_data(0, LAST, &[(0, (0, number))]);
    // The receiver follows a sender that abandons a window at a time.
    while number < 0x00ff_ffff {
        number = (number + 65_000).min(0x00ff_ffff);
        fixture.forward_psn(0, number);
    }
    fixture.sent();
    fixture.e_data(0, LAST, &[(1, (0, 0))]);
    fixture.e_data(0, LAST, &[(2, (0, 2))]);
    assert_eq!(acks(&mut fixture), ["0 0:0+2-2"]);
}

/// Data of more paths than the limit is dropped and not acknowledged. So is data whose transmission number no acknowledgement
/// could list.
#[test]
fn what_cannot_be_named_is_dropped() {
    let mut fixture = fixture();
    for path in 0..64 {
        fixture.e_data(0, LAST, &[(u32::from(path), (path, 0))]);
    }
    fixture.e_data(0, LAST, &[(64, (64, 0))]);
    fixture.e_data(0, LAST, &[(65, (0, 65_536))]);
    assert_eq!(fixture.counters().dropped_no_room, 2);
    fixture.e_data(0, LAST, &[(66, (0, 65_535))]);
    assert_eq!(fixture.counters().dropped_no_room, 2);
    fixture.pass(200);
    let last = fixture.sent().pop().expect("an acknowledgement");
    let tsn = fixture.script.tsn.plus(63).0;
    assert!(last.contains(&format!("COOP-SACK {tsn} ")), "{last}");
}

/// The receiver keeps at most 8,192 blocks of transmissions. A transmission that would begin another block is not reported as
/// received.
#[test]
fn gaps_are_bounded() {
    const MOST: u32 = 8192;
    let mut fixture = fixture();
    fixture.e_data(0, LAST, &[(0, (0, 0))]);
    // One message again and again, in every second transmission.
    for number in 1..=MOST + 1 {
        fixture.e_data(0, LAST, &[(0, (0, 2 * number))]);
    }
    fixture.forward_psn(0, 2 * MOST - 1);
    fixture.sent();
    fixture.e_data(0, LAST, &[(0, (0, 1))]);
    let [told] = &acks(&mut fixture)[..] else {
        panic!("an acknowledgement")
    };
    assert!(told.starts_with(&format!("0 0:{} dup", 2 * MOST)), "{told}");
    fixture.e_data(0, LAST, &[(0, (0, 2 * MOST + 2))]);
    let [told] = &acks(&mut fixture)[..] else {
        panic!("an acknowledgement")
    };
    assert!(told.starts_with(&format!("0 0:{}+2-2 dup", 2 * MOST)), "{told}");
}

/// With any number of gaps, an acknowledgement fits a packet and has blocks of each path.
#[test]
fn acknowledgements_fit_packets() {
    let mut fixture = begun([LAST, LAST]);
    for number in 1..2000 {
        fixture.e_data(
            (number % 2) as usize,
            LAST,
            &[(1 + number, ((number % 2) as u8, 2 * number))],
        );
    }
    let mut blocks = Vec::new();
    while let Some(answer) = fixture.script.next_answer() {
        let [Chunk::CoopSack(sack)] = &answer.chunks[..] else {
            panic!("a COOP-SACK")
        };
        blocks = sack.paths.iter().map(|path| path.gap_ack_blocks.len()).collect();
    }
    // 1,280 less IP, UDP, SCTP and the fixed fields.
    let room = (1280 - 20 - 8 - 12 - 20 - 2 * 12) / 4;
    assert_eq!(blocks.iter().sum::<usize>(), room, "{blocks:?}");
    assert!(blocks.iter().all(|count| *count >= room / 2), "{blocks:?}");
}

/// Rule 12: a receiver that never reneges reports all chunks as non-renegable. A receiver that may renege lists the chunks that
/// it might drop, and the missing ones between them.
#[test]
fn renegable_chunks_are_listed() {
    for may_renege in [false, true] {
        let change = |config: &mut Config| {
            config.nr_sack.offer = true;
            config.nr_sack.may_renege = may_renege;
        };
        let mut config = config();
        change(&mut config);
        let kinds = [&ECA[..], &[anabranch_wire::chunk::kind::NR_SACK]].concat();
        let mut fixture = Fixture::new(config, &kinds);
        fixture.e_data(0, LAST, &[(0, (0, 0))]);
        fixture.e_data(0, LAST, &[(2, (0, 2))]);
        let mut listed = Vec::new();
        while let Some(answer) = fixture.script.next_answer() {
            for chunk in answer.chunks {
                if let Chunk::CoopSack(sack) = chunk {
                    let blocks = sack.renegable.expect("something is promised");
                    listed = blocks.iter().map(|block| (block.start, block.end)).collect();
                }
            }
        }
        // The message is unordered and was delivered, so the receiver cannot renege on it.
        let expected = if may_renege {
            vec![(1, 1), (3, 65_535)]
        } else {
            vec![]
        };
        assert_eq!(listed, expected);
    }
}
