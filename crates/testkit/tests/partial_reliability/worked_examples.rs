//! The two bursts of Rajiullah and Brunstrom (*Optimizing PR-SCTP Performance using NR-SACKs*, figs. 5 and 6), in round trips
//! from the detection of the loss to the acknowledgement that covers the burst.
//!
//! The count follows RFC 3758: fig. 5 takes 2 round trips and 1 with NR-SACK, fig. 6 takes 3 and 2. The paper says "two less"
//! because it counts one exchange more. In its caption to fig. 6 the point passes 18; 17 is enough.

use anabranch_proto::Reliability::{self, Reliable};

use anabranch_testkit::fixture::{ALL, FULL, Fixture, NEVER_AGAIN, config};

/// A peer that has received some TSNs and reports all of them as non-renegable.
struct Receiver {
    has: Vec<bool>,
}

impl Receiver {
    /// The first `count` TSNs except these.
    fn without(count: usize, lost: &[usize]) -> Self {
        let has = (0..count).map(|number| !lost.contains(&number));
        Self { has: has.collect() }
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
        fixture.nr_sack(count as u32, &[], &blocks);
    }
}

/// Sends the messages, of which `lost` are lost. Counts the round trips after the loss was detected.
fn round_trips(messages: &[Reliability], lost: &[usize], past_nonrenegable: bool) -> u32 {
    let mut config = config();
    config.nr_sack.forward_past_nonrenegable = past_nonrenegable;
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(messages, FULL);
    fixture.sent();
    // Three missing reports: the last three packets are acknowledged one by one.
    for arrived in messages.len() - 2..=messages.len() {
        let mut receiver = Receiver::without(messages.len(), lost);
        receiver.has.truncate(arrived);
        receiver.acknowledge(&mut fixture);
    }
    let mut receiver = Receiver::without(messages.len(), lost);
    (1..)
        .find(|_| receiver.round_trip(&mut fixture))
        .expect("it ends")
}

// A → 0 1 2(lost) 3 4(lost) 5 6 7, each message sent only once
// existing:  A → FORWARD-TSN 2 → Z   A ← cumulative 3 ← Z   A → FORWARD-TSN 4 → Z   A ← cumulative 7 ← Z
// NR-SACK:   A → FORWARD-TSN 4 → Z   A ← cumulative 7 ← Z
/// Fig. 5, loss that is not contiguous: gap-acknowledged chunks between the losses stop the point unless they are
/// non-renegable.
#[test]
fn fig_5_two_round_trips_become_one() {
    let messages = [NEVER_AGAIN; 8];
    assert_eq!(round_trips(&messages, &[2, 4], false), 2);
    assert_eq!(round_trips(&messages, &[2, 4], true), 1);
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
    assert_eq!(round_trips(&messages, &lost, false), 3);
    assert_eq!(round_trips(&messages, &lost, true), 2);
}
