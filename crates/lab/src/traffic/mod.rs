//! What the hosts of an experiment do: sources of messages, and a sink.
//!
//! A message is known by its number, which counts from 0 in the order of submission and travels as the payload protocol
//! identifier: it is in every chunk, fits messages of one byte, and costs nothing. The count begins far above the identifiers that
//! are registered, so that nobody who looks into a capture takes the zeros of a message for a protocol.

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

/// The identifier of a message.
#[must_use]
pub fn ppid_of(number: usize) -> Ppid {
    Ppid(FIRST_PPID + number as u32)
}

/// The message of an identifier.
#[must_use]
pub fn message_of(ppid: Ppid) -> u32 {
    ppid.0.wrapping_sub(FIRST_PPID)
}

/// A message given to `send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// When.
    pub at: Timestamp,
    /// Its length in bytes, at least 1.
    pub len: usize,
    /// Which of its source's classes it is of.
    pub class: usize,
}

/// The class of important messages, where there are two.
pub const IMPORTANT: usize = 0;
/// The class of normal messages, where there are two.
pub const NORMAL: usize = 1;

/// The time of each message by number; later times of the same message do not count.
#[derive(Clone, Debug, Default)]
pub struct FirstTimes(Vec<Option<Timestamp>>);

impl FirstTimes {
    /// Notes a time of a message.
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
