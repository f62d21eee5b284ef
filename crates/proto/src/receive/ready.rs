//! The entries that the application can read: one queue for all streams, and a queue of its own for each stream that the application reads
//! separately.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use anabranch_wire::{StreamId, Tsn};

use super::held::Held;
use super::interleaved::Key;
use crate::journal::Journal;
use crate::seq::ExtendedTsn;
use crate::trace_event::TraceKind;

/// An empty queue keeps memory for so many entries at most.
const KEPT: usize = 64;

/// An entry that the application can read.
#[derive(Debug)]
pub(super) enum Ready {
    Message(Held),
    /// With interleaving (RFC 8260): a message that is delivered in parts. When the application reads it, it gets the fragments that have
    /// arrived.
    Grown(Key),
    /// The peer reset the stream (RFC 6525): earlier messages are before this entry. Only in the queue of a single stream.
    Reset,
}

impl Ready {
    fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Message(held) => Some(held.part.stream),
            Self::Grown(key) => Some(key.stream()),
            Self::Reset => None,
        }
    }
}

/// The queue of a stream that is read separately.
#[derive(Debug, Default)]
struct Separate {
    entries: VecDeque<Ready>,
    /// Whether the application was told that it can be read, and has not read it out since.
    told: bool,
}

/// The news about streams that are read separately, for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamNews {
    /// The peer began to send on a stream, and the application wants such streams to be separate.
    Opened(StreamId),
    /// A stream can be read.
    Readable(StreamId),
}

/// Everything that the application can read.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    common: VecDeque<Ready>,
    separate: BTreeMap<StreamId, Separate>,
    /// Messages in the queues of separate streams.
    apart: usize,
    /// Whether a stream becomes separate when a message of it arrives.
    separates_new: bool,
    news: Vec<StreamNews>,
    /// The messages of key management, if packets are protected: they are not for the application.
    keys: Option<VecDeque<Held>>,
    /// Whether [`ReadyQueue::push`] has more to do than to add an entry to the common queue.
    sorts: bool,
    /// Trace events of the receiver.
    journal: Journal,
}

impl ReadyQueue {
    /// Adds an entry.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Ready) {
        if self.sorts {
            self.note_delivered(&entry);
            self.sort(entry);
        } else {
            self.common.push_back(entry);
        }
    }

    fn choose(&mut self) {
        self.sorts = !self.is_one_queue() || self.journal.is_on() || self.keys.is_some();
    }

    /// Keeps messages of key management apart from now on.
    pub(super) fn divert_key_management(&mut self) {
        self.keys.get_or_insert_default();
        self.choose();
    }

    /// Whether a message of key management can be read.
    pub(super) fn has_key_management(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| !keys.is_empty())
    }

    /// The next message of key management.
    pub(super) fn pop_key_management(&mut self) -> Option<Held> {
        self.keys.as_mut()?.pop_front()
    }

    /// Whether trace events are recorded.
    pub(super) fn is_traced(&self) -> bool {
        self.journal.is_on()
    }

    /// Starts or stops recording trace events.
    pub(super) fn trace(&mut self, on: bool) {
        self.journal.set(on);
        self.choose();
    }

    /// The trace events since the last call.
    pub(super) fn take_trace(&mut self) -> Vec<TraceKind> {
        self.journal.take()
    }

    fn note_delivered(&mut self, entry: &Ready) {
        if let Ready::Message(held) = entry {
            let (part, first) = (&held.part, held.first);
            self.journal.note(|| TraceKind::MessageDelivered {
                stream: part.stream,
                tsn: (first > 0 && !part.truncated).then_some(Tsn(first as u32)),
                bytes: part.payload.len(),
                blocked: Duration::ZERO,
            });
        }
    }

    /// A complete message, whose first TSN is `tsn`, waits for its turn while `missing` is the lowest missing TSN.
    pub(super) fn note_blocked(&mut self, stream: StreamId, tsn: ExtendedTsn, missing: ExtendedTsn) {
        self.journal.note(|| TraceKind::MessageBlocked {
            stream,
            tsn: Tsn(tsn as u32),
            missing: Tsn(missing as u32),
        });
    }

    /// Puts an entry into the queue of its stream, or into the common one.
    fn sort(&mut self, entry: Ready) {
        let entry = match (entry, &mut self.keys) {
            (Ready::Message(held), Some(keys)) if held.is_key_management() => {
                keys.push_back(held);
                return;
            }
            (entry, _) => entry,
        };
        let Some(stream) = entry.stream() else { return };
        if !self.open(stream) {
            self.common.push_back(entry);
        } else if let Some(separate) = self.separate.get_mut(&stream) {
            // Many streams may have one entry each.
            let entries = &mut separate.entries;
            entries.reserve_exact(usize::from(entries.is_empty()));
            entries.push_back(entry);
            self.apart += 1;
            if !core::mem::replace(&mut separate.told, true) {
                self.news.push(StreamNews::Readable(stream));
            }
        }
    }

    /// Data of this stream can be read. Returns whether the stream is separate, possibly from now on.
    pub(super) fn open(&mut self, stream: StreamId) -> bool {
        if self.separate.contains_key(&stream) {
            return true;
        }
        if self.separates_new {
            self.separate.insert(stream, Separate::default());
            self.news.push(StreamNews::Opened(stream));
        }
        self.separates_new
    }

    /// Data of a separate stream can be read that is not in its queue.
    pub(super) fn tell_readable(&mut self, stream: StreamId) {
        if let Some(separate) = self.separate.get_mut(&stream)
            && !core::mem::replace(&mut separate.told, true)
        {
            self.news.push(StreamNews::Readable(stream));
        }
    }

    /// The peer reset a stream.
    pub(super) fn on_reset(&mut self, stream: StreamId) {
        if let Some(separate) = self.separate.get_mut(&stream)
            // Resets without messages between them are one, so that a peer cannot fill the queue with them.
            && !matches!(separate.entries.back(), Some(Ready::Reset))
        {
            separate.entries.push_back(Ready::Reset);
            self.tell_readable(stream);
        }
    }

    /// The peer reset all streams, or restarted.
    pub(super) fn on_reset_of_all(&mut self) {
        let streams: Vec<_> = self.separate.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.on_reset(stream));
    }

    pub(super) fn is_separate(&self, stream: StreamId) -> bool {
        self.separate.contains_key(&stream)
    }

    /// This stream is read separately from now on; its entries are taken from the common queue.
    pub(super) fn separate(&mut self, stream: StreamId) {
        self.separate.entry(stream).or_default();
        self.choose();
        self.sort_common();
    }

    /// This stream is no longer read separately; its entries go to the end of the common queue.
    pub(super) fn unite(&mut self, stream: StreamId) {
        self.news.retain(
            |news| !matches!(news, StreamNews::Opened(id) | StreamNews::Readable(id) if *id == stream),
        );
        let entries = self.separate.remove(&stream).unwrap_or_default().entries;
        self.choose();
        for entry in entries.into_iter().filter(|entry| entry.stream().is_some()) {
            self.apart -= 1;
            self.common.push_back(entry);
        }
        if self.separates_new {
            self.sort_common();
        }
    }

    /// Whether streams become separate when a message of them arrives, or waits already.
    pub(super) fn separate_new(&mut self, on: bool) {
        self.separates_new = on;
        self.choose();
        if on {
            self.sort_common();
        }
    }

    fn sort_common(&mut self) {
        for mut entry in core::mem::take(&mut self.common) {
            // Messages of one datagram may now be read in another order.
            if let Ready::Message(held) = &mut entry {
                held.copy();
            }
            self.sort(entry);
        }
    }

    /// Whether all entries are in the common queue.
    #[inline]
    pub(super) fn is_one_queue(&self) -> bool {
        self.separate.is_empty() && !self.separates_new
    }

    /// If the last entry is this message, it no longer counts its datagram: returns the bytes.
    #[inline]
    pub(super) fn leave_datagram(&mut self, message: u64) -> Option<usize> {
        match self.common.back_mut()? {
            Ready::Message(held) if held.part.message == message => Some(held.leave_datagram()),
            _ => None,
        }
    }

    pub(super) fn pop(&mut self) -> Option<Ready> {
        let entry = self.common.pop_front();
        if self.common.is_empty() {
            self.common.shrink_to(KEPT);
        }
        entry
    }

    pub(super) fn pop_of(&mut self, stream: StreamId) -> Option<Ready> {
        let entry = self.separate.get_mut(&stream)?.entries.pop_front()?;
        self.apart -= usize::from(entry.stream().is_some());
        Some(entry)
    }

    /// The next entry of a separate stream.
    pub(super) fn front_of(&self, stream: StreamId) -> Option<&Ready> {
        self.separate.get(&stream)?.entries.front()
    }

    /// Puts back an entry that has more to read.
    pub(super) fn push_front(&mut self, key: Key) {
        let entry = Ready::Grown(key);
        match self.separate.get_mut(&key.stream()) {
            Some(separate) => {
                separate.entries.push_front(entry);
                self.apart += 1;
            }
            None => self.common.push_front(entry),
        }
    }

    /// The queue of a separate stream was read out.
    pub(super) fn on_read_out(&mut self, stream: StreamId) {
        if let Some(separate) = self.separate.get_mut(&stream) {
            separate.told = false;
            separate.entries.shrink_to(0);
        }
    }

    /// Whether the common queue has entries.
    pub(super) fn is_readable(&self) -> bool {
        !self.common.is_empty()
    }

    /// Whether any queue has messages.
    pub(super) fn has_any(&self) -> bool {
        self.is_readable() || self.apart > 0
    }

    /// Replaces each entry by those that `change` makes of it.
    pub(super) fn replace(&mut self, mut change: impl FnMut(Ready, &mut VecDeque<Ready>)) {
        for entry in core::mem::take(&mut self.common) {
            change(entry, &mut self.common);
        }
        self.apart = 0;
        for Separate { entries, .. } in self.separate.values_mut() {
            for entry in core::mem::take(entries) {
                change(entry, entries);
            }
            let messages = entries.iter().filter(|entry| entry.stream().is_some());
            self.apart += messages.count();
        }
    }

    /// Whether there is news that was not taken.
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    pub(super) fn take_news(&mut self) -> impl Iterator<Item = StreamNews> {
        self.news.drain(..)
    }
}
