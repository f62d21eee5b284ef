//! The losses of Rajiullah and Brunstrom (*Optimizing PR-SCTP Performance using NR-SACKs*, figs. 1, 5 and 6), in round trips
//! from the detection of the loss to the acknowledgement that covers the burst.
//!
//! The count follows RFC 3758: fig. 1 takes 2 round trips where plain SCTP takes 1, fig. 5 takes 2 round trips and 1 with
//! NR-SACK, fig. 6 takes 3 and 2. For fig. 6 the paper says "two less", probably because it counts one exchange more. In its
//! section IV-B, FORWARD-TSN goes up to message 5 (fig. 5) and above 18 (fig. 6), past the chunks that NR-SACK marked. Ours ends
//! at the last abandoned TSN, 4 and 16. The receiver has the marked chunks, so the effect is the same.

use anabranch_proto::Reliability::{self, Reliable};

use anabranch_testkit::fixture::{ALL, FULL, Fixture, NEVER_AGAIN, config};

/// The protocol of both endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// SCTP without partial reliability and with SACK: every message is reliable.
    Plain,
    /// PR-SCTP whose FORWARD-TSN stops in front of received chunks.
    Existing,
    /// PR-SCTP whose FORWARD-TSN passes non-renegable chunks.
    NrSack,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Plain, Protocol::Existing, Protocol::NrSack];

/// A peer that has received some TSNs. It reports them as non-renegable, except with plain SCTP.
struct Receiver {
    protocol: Protocol,
    has: Vec<bool>,
}

impl Receiver {
    /// The first `count` TSNs except these.
    fn without(protocol: Protocol, count: usize, lost: &[usize]) -> Self {
        let has = (0..count).map(|number| !lost.contains(&number));
        Self {
            protocol,
            has: has.collect(),
        }
    }

    /// The packets of a round trip arrive, and one acknowledgement answers them. Returns whether it covers all TSNs.
    fn round_trip(&mut self, fixture: &mut Fixture) -> bool {
        for packet in fixture.sent() {
            for chunk in packet.split(", ") {
                let words: Vec<&str> = chunk.split(' ').collect();
                let number: usize = words[1].parse().expect("a number");
                match words[0] {
                    "DATA" => self.has[number] = true,
                    "FORWARD-TSN" => self.has[..=number].fill(true),
                    other => panic!("{other}"),
                }
            }
        }
        self.acknowledge(fixture);
        self.has.iter().all(|has| *has)
    }

    fn acknowledge(&self, fixture: &mut Fixture) {
        let count = self.has.iter().take_while(|has| **has).count();
        let mut blocks: Vec<(u32, u32)> = Vec::new();
        for number in (count..self.has.len()).filter(|number| self.has[*number]) {
            let number = number as u32;
            match blocks.last_mut() {
                Some(block) if block.1 + 1 == number => block.1 = number,
                _ => blocks.push((number, number)),
            }
        }
        match self.protocol {
            Protocol::Plain => fixture.sack(count as u32, &blocks),
            Protocol::Existing | Protocol::NrSack => fixture.nr_sack(count as u32, &[], &blocks),
        }
    }
}

/// Sends the messages, of which `lost` are lost. Counts the round trips after the loss was detected.
fn round_trips(protocol: Protocol, messages: &[Reliability], lost: &[usize]) -> u32 {
    let mut config = config();
    config.nr_sack.forward_past_nonrenegable = protocol == Protocol::NrSack;
    let mut fixture = match protocol {
        Protocol::Plain => Fixture::new(config, &[]),
        Protocol::Existing | Protocol::NrSack => Fixture::new(config, &ALL),
    };
    match protocol {
        Protocol::Plain => fixture.send(&vec![Reliable; messages.len()], FULL),
        Protocol::Existing | Protocol::NrSack => fixture.send(messages, FULL),
    }
    fixture.sent();
    // Three missing reports: the last three packets are acknowledged one by one.
    for arrived in messages.len() - 2..=messages.len() {
        let mut receiver = Receiver::without(protocol, messages.len(), lost);
        receiver.has.truncate(arrived);
        receiver.acknowledge(&mut fixture);
    }
    let mut receiver = Receiver::without(protocol, messages.len(), lost);
    (1..)
        .find(|_| receiver.round_trip(&mut fixture))
        .expect("it ends")
}

/// The round trips with plain SCTP, with the existing FORWARD-TSN, and with NR-SACK. Messages in `reliable` are reliable, the others are
/// sent only once. Three messages after the lost ones arrive.
fn of_all(reliable: &[usize], lost: &[usize]) -> [u32; 3] {
    let count = lost.last().expect("a loss") + 4;
    let messages: Vec<Reliability> = (0..count)
        .map(|number| {
            if reliable.contains(&number) {
                Reliable
            } else {
                NEVER_AGAIN
            }
        })
        .collect();
    PROTOCOLS.map(|protocol| round_trips(protocol, &messages, lost))
}

// A → 0 1; 2 3 4 lost, 3 reliable; 5 6 7 arrive
// SCTP:     A → 2 3 4 → Z
// PR-SCTP:  A → FORWARD-TSN 2 with 3 → Z   A ← cumulative 3 ← Z   A → FORWARD-TSN 4 → Z
/// Fig. 1a, three messages lost in sequence: the reliable one in the middle stops the point for a round trip, also with
/// NR-SACK, because the receiver does not have it. Three unreliable messages take one FORWARD-TSN.
#[test]
fn fig_1a_three_lost_messages_take_a_round_trip_more_than_plain_sctp() {
    assert_eq!(of_all(&[3], &[2, 3, 4]), [1, 2, 2]);
    assert_eq!(of_all(&[], &[2, 3, 4]), [1, 1, 1]);
}

// A → 0 1 2(lost) 3 4(lost) 5 6 7
// SCTP:      A → 2 4 → Z
// existing:  A → FORWARD-TSN 2 → Z   A ← cumulative 3 ← Z   A → FORWARD-TSN 4 → Z
/// Fig. 1b, a received message between two lost ones: FORWARD-TSN stops in front of it, unless it is non-renegable.
#[test]
fn fig_1b_a_received_message_takes_a_round_trip_more_than_plain_sctp() {
    assert_eq!(of_all(&[], &[2, 4]), [1, 2, 1]);
}

/// §III-A: the delay grows with the number of messages lost in sequence. Every second message is reliable, as in figs. 1a and 6.
#[test]
fn the_existing_point_takes_a_round_trip_for_each_reliable_message_of_a_burst() {
    for (count, existing, nr_sack) in [(1, 1, 1), (3, 2, 2), (5, 3, 2), (7, 4, 2), (9, 5, 2), (15, 8, 2)] {
        let lost: Vec<usize> = (2..2 + count).collect();
        let reliable: Vec<usize> = lost.iter().copied().skip(1).step_by(2).collect();
        assert_eq!(of_all(&reliable, &lost), [1, existing, nr_sack], "{count} lost");
    }
}

/// §III-A: the delay grows with the number of losses that are not in sequence.
#[test]
fn the_existing_point_takes_a_round_trip_for_each_hole() {
    for holes in 1..=8 {
        let lost: Vec<usize> = (0..holes).map(|hole| 2 + 2 * hole).collect();
        assert_eq!(of_all(&[], &lost), [1, holes as u32, 1], "{holes} holes");
    }
}

// A → 0 1 2(lost) 3 4(lost) 5 6 7, each message sent only once
// existing:  A → FORWARD-TSN 2 → Z   A ← cumulative 3 ← Z   A → FORWARD-TSN 4 → Z   A ← cumulative 7 ← Z
// NR-SACK:   A → FORWARD-TSN 4 → Z   A ← cumulative 7 ← Z
/// Fig. 5, loss that is not contiguous: gap-acknowledged chunks between the losses stop the point unless they are
/// non-renegable.
#[test]
fn fig_5_two_round_trips_become_one() {
    let messages = [NEVER_AGAIN; 8];
    assert_eq!(round_trips(Protocol::Existing, &messages, &[2, 4]), 2);
    assert_eq!(round_trips(Protocol::NrSack, &messages, &[2, 4]), 1);
}

// A → 11 important; 12 to 17 lost, 13, 15 and 17 important → Z; 18 and on arrive
// existing:  FORWARD-TSN 12 with 13, 15, 17; then FORWARD-TSN 14; then FORWARD-TSN 16
// NR-SACK:   FORWARD-TSN 12 with 13, 15, 17; then FORWARD-TSN 16
/// Fig. 6, a mixed burst: each important message stops the point for a round trip unless it is non-renegable.
#[test]
fn fig_6_three_round_trips_become_two() {
    let mut messages = [NEVER_AGAIN; 22];
    for important in [11, 13, 15, 17] {
        messages[important] = Reliable;
    }
    let lost = [12, 13, 14, 15, 16, 17];
    assert_eq!(round_trips(Protocol::Existing, &messages, &lost), 3);
    assert_eq!(round_trips(Protocol::NrSack, &messages, &lost), 2);
}
