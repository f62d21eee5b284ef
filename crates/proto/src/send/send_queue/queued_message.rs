//! A message that waits for its first transmission, in one part or in several.

use std::collections::VecDeque;

use anabranch_wire::{Ppid, StreamId};
use bytes::Bytes;

use crate::message::{Copies, Haste, MessageId, PPID_LEN, Persistence, SendOptions, UnsentMessage};
use crate::path_id::PathId;
use crate::time::Timestamp;

/// The parts after the one that is being sent.
#[derive(Debug, Default)]
struct Parts(VecDeque<Bytes>);

/// A queued message, or its rest. Most messages have a single part; the struct is small because messages are moved often.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: MessageId,
    pub(super) queued_at: Timestamp,
    pub(super) persistence: Persistence,
    pub(super) haste: Haste,
    pub(super) context: u64,
    pub(super) ppid: Ppid,
    pub(super) unordered: bool,
    pub(super) immediate: bool,
    pub(super) confirm: bool,
    /// The path that the application named.
    pub(super) path: Option<PathId>,
    /// Whether the last part was given.
    pub(super) complete: bool,
    /// Whether a fragment was sent.
    pub(super) begun: bool,
    /// The FSN of the next fragment.
    pub(super) fragments: u32,
    /// The data to be sent next. Data after it exists only for messages given in parts.
    pub(super) first: Bytes,
    rest: Option<Box<Parts>>,
}

impl Message {
    pub(super) fn new(
        id: MessageId,
        now: Timestamp,
        options: &SendOptions,
        first: Bytes,
        complete: bool,
    ) -> Self {
        Self {
            id,
            queued_at: now,
            persistence: Persistence::new(options, now),
            haste: Haste::new(options, first.len()),
            context: options.context,
            ppid: options.ppid,
            unordered: options.unordered,
            immediate: options.immediate || options.deadline.is_some(),
            confirm: options.confirm,
            path: options.path,
            complete,
            begun: false,
            fragments: 0,
            first,
            rest: None,
        }
    }

    /// Its deadline, if it was given one. A lifetime (RFC 3758) is no deadline.
    #[inline]
    pub(super) fn due(&self) -> Option<Timestamp> {
        match (self.persistence, self.haste.copies) {
            (Persistence::Until(due), Copies::ForDeadline(_)) => Some(due),
            _ => None,
        }
    }

    pub(super) fn size(&self) -> usize {
        let rest = self.rest.iter().flat_map(|rest| &rest.0);
        self.first.len() + rest.map(Bytes::len).sum::<usize>()
    }

    /// Bytes of user data in the next fragment, at most `limit`.
    #[inline(always)]
    pub(super) fn next_len(&self, limit: usize) -> usize {
        let len = self.first.len();
        if len <= limit {
            len
        } else {
            self.fragment_len(limit)
        }
    }

    /// The first fragment of a message with a deadline is shorter: its repair chunks need room for the PPID.
    fn fragment_len(&self, limit: usize) -> usize {
        match self.haste.copies {
            Copies::ForDeadline(_) if !self.begun => limit - PPID_LEN,
            _ => limit,
        }
    }

    /// The number of parts that were not sent, at least 1.
    pub(super) fn parts(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.0.len())
    }

    /// Adds the next part, which may be empty. Returns whether there is a part more.
    pub(super) fn push(&mut self, part: Bytes) -> bool {
        if self.first.is_empty() {
            self.first = part;
            return false;
        }
        let adds = !part.is_empty();
        if adds {
            self.rest.get_or_insert_default().0.push_back(part);
        }
        adds
    }

    /// Whether its next fragment, of at most `limit` bytes, must wait for another part. The last part may be empty, and before a fragment
    /// is sent it must be known whether it is the last.
    pub(super) fn is_held_back(&self, limit: usize) -> bool {
        let has_rest = || self.rest.as_ref().is_some_and(|rest| !rest.0.is_empty());
        !self.complete && self.first.len() <= limit && !has_rest()
    }

    /// Removes and returns the first `len` bytes, which belong to one part.
    pub(super) fn take(&mut self, len: usize) -> Bytes {
        if len < self.first.len() {
            return self.first.split_to(len);
        }
        let next = self.rest.as_mut().and_then(|rest| rest.0.pop_front());
        core::mem::replace(&mut self.first, next.unwrap_or_default())
    }

    pub(super) fn unsent(&self, stream: StreamId, number: u32) -> UnsentMessage {
        UnsentMessage {
            unordered: self.unordered,
            sequence: number,
            message: self.id,
            stream,
            context: self.context,
            size: self.size(),
            begun: self.begun,
        }
    }
}
