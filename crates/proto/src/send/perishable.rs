//! Messages that may be dropped while they wait: when their lifetime is over (RFC 3758 §4.1), or when the send buffer is full
//! and what is more important needs the room (RFC 7496 §3.2).
//!
//! The stream's class and the message's own priority agree so: first the least urgent class gives way, and within a class the
//! message of the highest number, the oldest of several. A message gives way only to one of a more urgent class, or of its
//! own class with a lower number or none. So bulk data never takes the room of the chat, whatever its messages are marked.

use core::cmp::Reverse;
use std::collections::BTreeSet;

use anabranch_wire::StreamId;

use crate::message::MessageId;
use crate::message::Persistence;
use crate::time::Timestamp;

/// The stream's class, then the message's own number; without one it is more important than any of its class. Lower is more
/// important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Importance {
    class: u16,
    own: Option<u32>,
}

impl Importance {
    pub(super) fn new(class: u16, persistence: Persistence) -> Self {
        let own = match persistence {
            Persistence::Priority(priority) => Some(priority),
            _ => None,
        };
        Self { class, own }
    }
}

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Perishable {
    /// Messages that are given up at a time, with that time.
    deadlines: BTreeSet<(Timestamp, MessageId, StreamId)>,
    /// Messages that give way to others, the least important and oldest first.
    yielding: BTreeSet<(Reverse<Importance>, MessageId, StreamId)>,
}

impl Perishable {
    /// Enters a message, or takes it out; `class` is its stream's.
    pub(super) fn note(
        &mut self,
        persistence: Persistence,
        class: u16,
        message: MessageId,
        stream: StreamId,
        waits: bool,
    ) {
        match persistence {
            Persistence::Until(deadline) => note(&mut self.deadlines, (deadline, message, stream), waits),
            Persistence::Priority(_) => {
                let importance = Reverse(Importance::new(class, persistence));
                note(&mut self.yielding, (importance, message, stream), waits);
            }
            Persistence::Reliable | Persistence::Retransmissions(_) => {}
        }
    }

    /// Whether any gives way, and so the classes of streams matter here.
    pub(super) fn any_yields(&self) -> bool {
        !self.yielding.is_empty()
    }

    /// Takes out all that give way.
    pub(super) fn take_yielding(
        &mut self,
    ) -> impl Iterator<Item = (Persistence, MessageId, StreamId)> + use<> {
        let yielding = core::mem::take(&mut self.yielding);
        yielding
            .into_iter()
            .map(|(Reverse(importance), message, stream)| {
                let own = importance
                    .own
                    .map_or(Persistence::Reliable, Persistence::Priority);
                (own, message, stream)
            })
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, ..)| *deadline)
    }

    /// Takes out the next message whose deadline is over.
    pub(super) fn pop_expired(&mut self, now: Timestamp) -> Option<(MessageId, StreamId)> {
        self.next_deadline().filter(|deadline| *deadline < now)?;
        let (_, message, stream) = self.deadlines.pop_first()?;
        Some((message, stream))
    }

    /// What gives way to a newcomer, the first to go first.
    pub(super) fn victims(&self, newcomer: Importance) -> impl Iterator<Item = (MessageId, StreamId)> {
        let less_important = move |one: &&(Reverse<Importance>, _, _)| one.0.0 > newcomer;
        let victims = self.yielding.iter().take_while(less_important);
        victims.map(|(_, message, stream)| (*message, *stream))
    }
}

fn note<T: Ord>(set: &mut BTreeSet<T>, entry: T, present: bool) {
    if present {
        set.insert(entry);
    } else {
        set.remove(&entry);
    }
}
