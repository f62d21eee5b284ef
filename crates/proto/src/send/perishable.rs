//! Queued messages that may be abandoned: when their lifetime is over (RFC 3758 §4.1), or when the send buffer is full and a more
//! important message needs the memory (RFC 7496 §3.2).
//!
//! The stream's priority class and the message's own priority are combined as follows. Messages of the least urgent class are abandoned
//! first, and within a class the message with the highest number, the oldest of several. A message is abandoned only for a message of a
//! more urgent class, or of its own class with a lower number or none. So bulk data never displaces messages of a more urgent class,
//! whatever their own priorities.

use core::cmp::Reverse;
use std::collections::BTreeSet;

use anabranch_wire::StreamId;

use crate::message::MessageId;
use crate::message::Persistence;
use crate::time::Timestamp;

/// The class of the stream, then the priority of the message. Without a priority the message is more important than all others of its
/// class. Lower is more important.
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

/// The queued messages that may be abandoned.
#[derive(Debug, Default)]
pub(super) struct Perishable {
    /// Messages with a lifetime, by their deadline.
    deadlines: BTreeSet<(Timestamp, MessageId, StreamId)>,
    /// Messages with a priority, the least important and oldest first.
    yielding: BTreeSet<(Reverse<Importance>, MessageId, StreamId)>,
}

impl Perishable {
    /// Adds a message or removes it; `class` is that of its stream.
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

    /// Whether there are messages with a priority, so that the classes of streams matter here.
    pub(super) fn any_yields(&self) -> bool {
        !self.yielding.is_empty()
    }

    /// Removes and returns all messages with a priority.
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

    /// Removes the next message whose deadline has passed.
    pub(super) fn pop_expired(&mut self, now: Timestamp) -> Option<(MessageId, StreamId)> {
        self.next_deadline().filter(|deadline| *deadline < now)?;
        let (_, message, stream) = self.deadlines.pop_first()?;
        Some((message, stream))
    }

    /// The messages to abandon for a newcomer, in this order.
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
