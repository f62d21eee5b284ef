//! Streams whose messages have no channel yet: the application may still open a negotiated channel.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_proto::Timestamp;

/// How long messages wait for their channel.
const WAIT: Duration = Duration::from_secs(10);

/// The streams, each with the time until which its messages wait.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed {
    until: BTreeMap<u16, Timestamp>,
    by_time: BTreeSet<(Timestamp, u16)>,
}

impl Unclaimed {
    /// A stream has a message and no channel. Later messages do not prolong the wait.
    pub(crate) fn insert(&mut self, now: Timestamp, stream: u16) {
        let until = now + WAIT;
        if *self.until.entry(stream).or_insert(until) == until {
            self.by_time.insert((until, stream));
        }
    }

    /// The stream has a channel, or no messages any more.
    pub(crate) fn remove(&mut self, stream: u16) {
        if let Some(until) = self.until.remove(&stream) {
            self.by_time.remove(&(until, stream));
        }
    }

    /// The time of the next stream.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(until, _)| *until)
    }

    /// Takes out a stream whose time is over.
    pub(crate) fn expired(&mut self, now: Timestamp) -> Option<u16> {
        let (until, stream) = *self.by_time.first()?;
        (until <= now).then(|| self.remove(stream))?;
        Some(stream)
    }
}
