//! The applications on the hosts of an experiment: sources of messages, and a sink.
//!
//! A message is identified by its number, which counts from 0 in the order of submission. The number travels as the payload protocol
//! identifier, which is in every chunk, also works for messages of one byte, and costs no bytes. The first identifier lies far above the
//! registered ones, so that no packet analyser mistakes the zeros of a message for a known protocol.

mod both_ways;
mod schedule;
mod sink;
mod source;

use anabranch_proto::{Ppid, Timestamp};

pub(crate) use both_ways::BothWays;
pub use schedule::{Poisson, Regular, Sizes, merged};
pub use sink::Sink;
pub use source::{Class, Source};

/// The identifier of the first message.
const FIRST_PPID: u32 = 0x4000_0000;

/// The payload protocol identifier of a message.
#[must_use]
pub fn ppid_of(number: usize) -> Ppid {
    Ppid(FIRST_PPID + number as u32)
}

/// The number of the message with this payload protocol identifier.
#[must_use]
pub fn message_of(ppid: Ppid) -> u32 {
    ppid.0.wrapping_sub(FIRST_PPID)
}

/// A message that an application passes to `send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The time of the call.
    pub at: Timestamp,
    /// The length in bytes, at least 1.
    pub len: usize,
    /// The class of the source that the message belongs to.
    pub class: usize,
}

/// The class of important messages, in experiments with two classes.
pub const IMPORTANT: usize = 0;
/// The class of normal messages, in experiments with two classes.
pub const NORMAL: usize = 1;

/// The first time noted for each message, by number.
#[derive(Clone, Debug, Default)]
pub struct FirstTimes(Vec<Option<Timestamp>>);

impl FirstTimes {
    /// Notes a time of a message, unless an earlier time is noted.
    pub fn note(&mut self, number: u32, at: Timestamp) {
        let place = number as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        self.0[place].get_or_insert(at);
    }

    /// The first time of a message, if there was one.
    #[must_use]
    pub fn of(&self, number: usize) -> Option<Timestamp> {
        self.0.get(number).copied().flatten()
    }
}
