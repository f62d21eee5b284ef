//! Compares sent and received messages: no reliable message is lost, none is delivered twice or changed, and each stream is in
//! order.
//!
//! A message's payload protocol identifier is its number, so a message of one byte or an unordered message can be identified.
//! The bytes of a message follow from the seed and the number, so the ledger stores no content.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fmt;

use anabranch_netsim::Generator;
use anabranch_proto::{Ppid, Reliability, SendOptions, StreamId};
use bytes::Bytes;

use crate::talker::Message;

/// The first payload protocol identifier. It is far from the registered ones, whose payload Wireshark would try to decode.
const FIRST_PPID: u32 = 0x4100_0000;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Its stream.
    pub stream: StreamId,
    /// Its bytes.
    pub bytes: Bytes,
    /// Its number as payload protocol identifier, and whether it is ordered.
    pub options: SendOptions,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    stream: StreamId,
    unordered: bool,
    len: usize,
    /// Whether the sender may abandon the message.
    expendable: bool,
    arrived: bool,
}

/// A rule that an arrival violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No message with this number was sent.
    Unknown(u32),
    /// The message arrived before.
    Twice(u32),
    /// The bytes, the stream or the U flag differ from those of the sent message.
    Changed(u32),
    /// An ordered message overtook one that was sent earlier on the same stream.
    Overtaken {
        /// The message that arrived.
        arrived: u32,
        /// The message that should have arrived first.
        before: u32,
    },
    /// Messages that never arrived.
    Missing {
        /// The first of them.
        first: u32,
        /// Their number.
        count: usize,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "message {number} was never sent"),
            Self::Twice(number) => write!(f, "message {number} arrived twice"),
            Self::Changed(number) => write!(f, "message {number} is not what was sent"),
            Self::Overtaken { arrived, before } => {
                write!(f, "message {arrived} arrived before {before} of the same stream")
            }
            Self::Missing { first, count } => write!(f, "{count} messages did not arrive, {first} the first"),
        }
    }
}

impl std::error::Error for Violation {}

/// One direction of an association.
#[derive(Clone, Debug)]
pub struct Ledger {
    seed: u64,
    random: Generator,
    entries: Vec<Entry>,
    arrived: usize,
    /// One in this many random messages may be abandoned; 0 for none.
    expendable: u64,
    /// The last ordered message that arrived on each stream.
    last: BTreeMap<StreamId, u32>,
}

impl Ledger {
    /// A ledger without messages. Sizes, streams and bytes follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Generator::of_process(seed, "ledger"),
            entries: Vec::new(),
            arrived: 0,
            expendable: 0,
            last: BTreeMap::new(),
        }
    }

    /// Makes one in `every` random messages one that the sender may abandon, by a random reliability; two in five get early copies.
    #[must_use]
    pub fn with_expendable(mut self, every: u64) -> Self {
        self.expendable = every;
        self
    }

    /// Records a message of this length as sent, and returns it.
    pub fn parcel(&mut self, stream: u16, len: usize, unordered: bool) -> Parcel {
        let number = self.entries.len() as u32;
        let stream = StreamId(stream);
        self.entries.push(Entry {
            stream,
            unordered,
            len,
            expendable: false,
            arrived: false,
        });
        let options = SendOptions::default()
            .ppid(Ppid(FIRST_PPID + number))
            .unordered(unordered);
        Parcel {
            stream,
            bytes: content(self.seed, number, len),
            options,
        }
    }

    /// Records a message of random length as sent, and returns it. Most are small; the maximum is `max_len`. The stream is a
    /// random one of `streams`, and about every eighth message is unordered.
    pub fn random_parcel(&mut self, streams: u16, max_len: usize) -> Parcel {
        let stream = self.random.below(u64::from(streams)) as u16;
        let unordered = self.random.below(8) == 0;
        let bits = u64::from(max_len.max(1).ilog2()) + 1;
        let bound = 1_u64 << self.random.below(bits + 1);
        let len = 1 + self.random.below(bound.min(max_len as u64)) as usize;
        let mut parcel = self.parcel(stream, len, unordered);
        if self.expendable > 0 {
            // Without another random number, so that each seed keeps its messages.
            parcel.options.early_copies = [0, 0, 0, 1, 3][self.entries.len() % 5];
        }
        if self.expendable == 0 || self.random.below(self.expendable) > 0 {
            return parcel;
        }
        let number = self.random.below(3);
        let has_deadline = unordered && self.entries.len().is_multiple_of(2);
        let reliability = match self.random.below(4) {
            0 => Reliability::Lifetime(Duration::from_millis(self.random.below(100))),
            1 => Reliability::Lifetime(Duration::from_millis(self.random.below(20_000))),
            2 => Reliability::Retransmissions(number as u32),
            _ => Reliability::Priority(number as u32),
        };
        if let (true, Reliability::Lifetime(lifetime)) = (has_deadline, reliability) {
            parcel.options.deadline = Some(lifetime);
        }
        self.expend(parcel, reliability)
    }

    /// Sets how the sender may abandon the message recorded last.
    ///
    /// # Panics
    /// If no message was recorded.
    pub fn expend(&mut self, mut parcel: Parcel, reliability: Reliability) -> Parcel {
        parcel.options.reliability = reliability;
        self.entries.last_mut().expect("a message was entered").expendable = true;
        parcel
    }

    /// Removes the last message, which could not be sent.
    pub fn retract(&mut self) {
        self.entries.pop();
    }

    /// The number of messages recorded as sent.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.entries.len()
    }

    /// The number of the message with this payload protocol identifier.
    #[must_use]
    pub fn number(ppid: Ppid) -> u32 {
        ppid.0.wrapping_sub(FIRST_PPID)
    }

    /// The number of messages that arrived.
    #[must_use]
    pub fn arrived(&self) -> usize {
        self.arrived
    }

    /// Records an arrival.
    ///
    /// # Errors
    /// The rule that the arrival violates.
    pub fn check(&mut self, message: &Message) -> Result<(), Violation> {
        let number = Self::number(message.ppid);
        let Some(entry) = self.entries.get(number as usize).copied() else {
            return Err(Violation::Unknown(number));
        };
        if entry.arrived {
            return Err(Violation::Twice(number));
        }
        let same = (entry.stream, entry.unordered, entry.len)
            == (message.stream, message.unordered, message.bytes.len());
        if !same || content(self.seed, number, entry.len) != message.bytes {
            return Err(Violation::Changed(number));
        }
        self.entries[number as usize].arrived = true;
        self.arrived += 1;
        if entry.unordered {
            return Ok(());
        }
        if let Some(last) = self
            .last
            .insert(entry.stream, number)
            .filter(|last| *last > number)
        {
            return Err(Violation::Overtaken {
                arrived: last,
                before: number,
            });
        }
        // The message before has nearly always arrived, so this loop looks at few entries.
        let earlier = self.entries[..number as usize].iter().enumerate().rev();
        let mut same_stream = earlier.filter(|(_, other)| other.stream == entry.stream && !other.unordered);
        match same_stream.find(|(_, other)| other.arrived || !other.expendable) {
            Some((before, other)) if !other.arrived => Err(Violation::Overtaken {
                arrived: number,
                before: before as u32,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that every message that the sender may not abandon has arrived.
    ///
    /// # Errors
    /// The missing messages.
    pub fn check_complete(&self) -> Result<(), Violation> {
        let missing = |entry: &&Entry| !entry.arrived && !entry.expendable;
        match self.entries.iter().position(|entry| missing(&entry)) {
            Some(first) => Err(Violation::Missing {
                first: first as u32,
                count: self.entries.iter().filter(missing).count(),
            }),
            None => Ok(()),
        }
    }
}

/// The bytes of a message: a xorshift sequence from the seed and the number, fast enough for gigabytes.
fn content(seed: u64, number: u32, len: usize) -> Bytes {
    let mut state =
        (seed ^ (u64::from(number) << 32 | u64::from(number))).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use anabranch_proto::Timestamp;

    use super::*;

    fn arrival(parcel: &Parcel) -> Message {
        Message {
            at: Timestamp::ZERO,
            stream: parcel.stream,
            ppid: parcel.options.ppid,
            unordered: parcel.options.unordered,
            bytes: parcel.bytes.clone(),
        }
    }

    #[test]
    fn arrivals_in_order_pass() {
        let mut ledger = Ledger::new(1);
        let parcels: Vec<_> = (0..200).map(|_| ledger.random_parcel(4, 5000)).collect();
        assert!(
            parcels
                .iter()
                .all(|parcel| (1..=5000).contains(&parcel.bytes.len()))
        );
        assert!(parcels.iter().any(|parcel| parcel.bytes.len() > 2500));
        assert_eq!(
            ledger.check_complete(),
            Err(Violation::Missing { first: 0, count: 200 })
        );
        for parcel in &parcels {
            assert_eq!(ledger.check(&arrival(parcel)), Ok(()));
        }
        assert_eq!(ledger.check_complete(), Ok(()));
    }

    #[test]
    fn each_violation_is_found() {
        let mut ledger = Ledger::new(1);
        let first = ledger.parcel(0, 10, false);
        let second = ledger.parcel(0, 10, false);
        let unordered = ledger.parcel(0, 10, true);
        let other_stream = ledger.parcel(1, 10, false);
        assert_eq!(ledger.check(&arrival(&unordered)), Ok(()));
        assert_eq!(ledger.check(&arrival(&other_stream)), Ok(()));
        assert_eq!(ledger.check(&arrival(&unordered)), Err(Violation::Twice(2)));
        assert_eq!(
            ledger.check(&arrival(&second)),
            Err(Violation::Overtaken {
                arrived: 1,
                before: 0
            })
        );
        let changed = Message {
            bytes: Bytes::from_static(b"other text"),
            ..arrival(&first)
        };
        assert_eq!(ledger.check(&changed), Err(Violation::Changed(0)));
        let unknown = Message {
            ppid: Ppid(FIRST_PPID + 9),
            ..arrival(&first)
        };
        assert_eq!(ledger.check(&unknown), Err(Violation::Unknown(9)));
        assert_eq!(
            ledger.check_complete(),
            Err(Violation::Missing { first: 0, count: 1 })
        );
    }
}
