//! Messages that wait for their first transmission, whole and without a TSN (RFC 9260 §6.1, §6.5, §6.9).
//!
//! A fragment gets its stream sequence number, and its TSN from `outstanding`, only when it leaves.

use core::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use anabranch_wire::{Ppid, StreamId};
use bytes::Bytes;

use super::abandonment::Persistence;
use super::data_format::DataFormat;
use super::scheduler::StreamScheduler;
use crate::config::SchedulerKind;
use crate::error::SendError;
use crate::event::Undelivered;
use crate::message::{MessageId, SendOptions};
use crate::stats::StreamStats;
use crate::time::Timestamp;

/// A piece of a message that fits a packet.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) payload: Bytes,
    pub(crate) message: MessageId,
    pub(crate) context: u64,
    pub(crate) stream: StreamId,
    /// SSN of an ordered message; 0 of an unordered one.
    pub(crate) sequence: u32,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    pub(crate) immediate: bool,
    /// When it is given up.
    pub(crate) persistence: Persistence,
    /// Bytes in a packet, with chunk header and padding.
    wire_len: u32,
}

impl Fragment {
    /// Bytes in a packet, with chunk header and padding: what windows of congestion control count (§1.6).
    pub(crate) fn wire_len(&self) -> usize {
        self.wire_len as usize
    }

    /// What its application is told if its message is never acknowledged.
    pub(crate) fn undelivered(&self) -> Undelivered {
        Undelivered {
            message: self.message,
            stream: self.stream,
            context: self.context,
            sent: true,
        }
    }
}

/// A message that never left whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsentMessage {
    pub(crate) message: MessageId,
    pub(crate) stream: StreamId,
    pub(crate) context: u64,
    /// Whether a part of it was sent.
    pub(crate) begun: bool,
    /// If so, as [`Fragment`] has them.
    pub(crate) unordered: bool,
    pub(crate) sequence: u32,
}

impl UnsentMessage {
    /// What its application is told.
    pub(crate) fn undelivered(&self) -> Undelivered {
        Undelivered {
            message: self.message,
            stream: self.stream,
            context: self.context,
            sent: self.begun,
        }
    }
}

#[derive(Debug)]
struct Message {
    id: MessageId,
    options: SendOptions,
    persistence: Persistence,
    queued_at: Timestamp,
    /// What is to be sent next, and what follows it: only messages given in parts have more than one piece.
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// No part is to follow.
    complete: bool,
    /// A fragment has left.
    begun: bool,
}

impl Message {
    fn size(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    fn unsent(&self, stream: StreamId, next_sequence: u32) -> UnsentMessage {
        UnsentMessage {
            unordered: self.options.unordered,
            sequence: if self.options.unordered { 0 } else { next_sequence },
            message: self.id,
            stream,
            context: self.options.context,
            begun: self.begun,
        }
    }
}

#[derive(Debug, Default)]
struct OutboundStream {
    messages: VecDeque<Message>,
    /// A message was dropped while its parts were still being given: what follows of it is dropped too.
    dropping: Option<MessageId>,
    next_sequence: u32,
    stats: StreamStats,
}

/// The messages of all streams that wait.
#[derive(Debug)]
pub(crate) struct SendQueue {
    /// By stream identifier, as far as used.
    streams: Vec<Option<Box<OutboundStream>>>,
    stream_count: u16,
    scheduler: StreamScheduler,
    /// A message whose fragments must follow each other without another's between (§6.9).
    locked: Option<StreamId>,
    format: DataFormat,
    next_message: u64,
    bytes: usize,
    messages: usize,
    /// Messages that are given up at a time, with that time.
    deadlines: BTreeSet<(Timestamp, MessageId, StreamId)>,
    /// Messages that give way to others, the least important and oldest first.
    yielding: BTreeSet<(Reverse<u32>, MessageId, StreamId)>,
}

impl SendQueue {
    pub(crate) fn new(stream_count: u16, scheduler: SchedulerKind) -> Self {
        Self {
            streams: Vec::new(),
            stream_count,
            scheduler: StreamScheduler::new(scheduler),
            locked: None,
            format: DataFormat::Data,
            next_message: 0,
            bytes: 0,
            messages: 0,
            deadlines: BTreeSet::new(),
            yielding: BTreeSet::new(),
        }
    }

    /// Streams to the peer.
    pub(crate) fn stream_count(&self) -> u16 {
        self.stream_count
    }

    /// The peer accepts this many streams. Messages that wait for others are dropped and answered.
    pub(crate) fn set_stream_count(&mut self, count: u16) -> Vec<UnsentMessage> {
        self.stream_count = count;
        let beyond = usize::from(count)..self.streams.len().max(usize::from(count));
        beyond
            .flat_map(|id| self.drop_messages(StreamId(id as u16), |_| true))
            .collect()
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits: a message that is begun and not ended counts as waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    pub(crate) fn format(&self) -> DataFormat {
        self.format
    }

    fn stream_mut(&mut self, id: StreamId) -> &mut OutboundStream {
        let index = usize::from(id.0);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        self.streams[index].get_or_insert_default()
    }

    /// Queues a message, or its first part, or a further one.
    pub(crate) fn push(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        part: Bytes,
        options: SendOptions,
        is_part: bool,
        end: bool,
    ) -> Result<MessageId, SendError> {
        if stream.0 >= self.stream_count {
            return Err(SendError::InvalidStream {
                stream,
                streams: self.stream_count,
            });
        }
        let next_message = MessageId(self.next_message);
        let size = part.len();
        let persistence = Persistence::new(options.reliability, now);
        let state = self.stream_mut(stream);
        if let Some(dropped) = state.dropping {
            if !is_part {
                return Err(SendError::MessageOpen(stream));
            }
            state.dropping = Some(dropped).filter(|_| !end);
            return Ok(dropped);
        }
        let open = state.messages.back_mut().filter(|message| !message.complete);
        match (open, is_part) {
            (Some(_), false) => return Err(SendError::MessageOpen(stream)),
            (Some(message), true) => {
                if size == 0 && !end {
                    return Err(SendError::Empty);
                }
                if message.first.is_empty() {
                    message.first = part;
                } else if size > 0 {
                    message.rest.push_back(part);
                }
                message.complete = end;
                let id = message.id;
                state.stats.bytes += size as u64;
                state.stats.queued_bytes += size;
                self.bytes += size;
                return Ok(id);
            }
            (None, _) if size == 0 => return Err(SendError::Empty),
            (None, _) => {}
        }
        let was_empty = state.messages.is_empty();
        state.messages.push_back(Message {
            id: next_message,
            options,
            persistence,
            queued_at: now,
            first: part,
            rest: VecDeque::new(),
            complete: end,
            begun: false,
        });
        state.stats.messages += 1;
        state.stats.bytes += size as u64;
        state.stats.queued_bytes += size;
        state.stats.queued_messages += 1;
        self.scheduler.on_message(stream, was_empty);
        self.note_persistence(persistence, next_message, stream, true);
        self.next_message += 1;
        self.messages += 1;
        self.bytes += size;
        Ok(next_message)
    }

    fn next_stream(&self) -> Option<StreamId> {
        self.locked.or_else(|| self.scheduler.peek())
    }

    /// Bytes of user data in the next fragment, at most `limit`; `None` when nothing can leave: nothing waits, or a
    /// message in the middle waits for its next part.
    pub(crate) fn peek(&self, limit: usize) -> Option<usize> {
        let stream = self.streams.get(usize::from(self.next_stream()?.0))?.as_ref()?;
        let message = stream.messages.front()?;
        // An ending part may be empty; the fragment before it is held back until it is known to be the last.
        let held_back = !message.complete && message.rest.is_empty() && message.first.len() <= limit;
        if held_back {
            None
        } else {
            Some(message.first.len().min(limit))
        }
    }

    /// Takes the next fragment of `len` bytes, as peeked.
    pub(crate) fn take(&mut self, now: Timestamp, len: usize) -> Option<Fragment> {
        let id = self.next_stream()?;
        let format = self.format;
        let stream = self.streams.get_mut(usize::from(id.0))?.as_mut()?;
        let message = stream.messages.front_mut()?;
        let beginning = !message.begun;
        message.begun = true;
        let payload = message.first.split_to(len);
        if message.first.is_empty()
            && let Some(next) = message.rest.pop_front()
        {
            message.first = next;
        }
        let ending = message.complete && message.first.is_empty();
        let options = message.options;
        let fragment = Fragment {
            wire_len: format.wire_len(payload.len()) as u32,
            payload,
            message: message.id,
            context: options.context,
            stream: id,
            sequence: if options.unordered {
                0
            } else {
                stream.next_sequence
            },
            ppid: options.ppid,
            unordered: options.unordered,
            beginning,
            ending,
            immediate: options.immediate && ending,
            persistence: message.persistence,
        };
        let id_of_it = message.id;
        stream.stats.queued_bytes -= len;
        self.bytes -= len;
        self.locked = Some(id);
        if ending {
            let waited = now.saturating_duration_since(message.queued_at);
            stream.stats.queue_delay_total += waited;
            stream.stats.queue_delay_max = stream.stats.queue_delay_max.max(waited);
            stream.stats.queued_messages -= 1;
            if !options.unordered {
                stream.next_sequence = u32::from((stream.next_sequence as u16).wrapping_add(1));
            }
            stream.messages.pop_front();
            let more = !stream.messages.is_empty();
            self.messages -= 1;
            self.locked = None;
            self.scheduler.on_message_sent(more);
        }
        // Once begun it no longer gives way; it may still expire until it has left whole.
        let leaves = matches!(fragment.persistence, Persistence::Priority(_)) && beginning || ending;
        if leaves {
            self.note_persistence(fragment.persistence, id_of_it, id, false);
        }
        Some(fragment)
    }

    /// Enters a message among those that may be dropped while they wait, or takes it out.
    fn note_persistence(
        &mut self,
        persistence: Persistence,
        message: MessageId,
        stream: StreamId,
        waits: bool,
    ) {
        match persistence {
            Persistence::Until(deadline) => {
                note(&mut self.deadlines, (deadline, message, stream), waits);
            }
            Persistence::Priority(priority) => {
                note(&mut self.yielding, (Reverse(priority), message, stream), waits);
            }
            Persistence::Reliable | Persistence::Retransmissions(_) => {}
        }
    }

    /// When the next message expires: it may leave at that very time, and no later.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, ..)| *deadline)
    }

    /// Takes out a message whose lifetime is over, if any; of one that is begun, only if `begun` says so.
    pub(crate) fn take_expired(&mut self, now: Timestamp, begun: bool) -> Option<UnsentMessage> {
        while let Some(&(deadline, message, stream)) = self.deadlines.first()
            && deadline < now
        {
            self.deadlines.pop_first();
            let is_begun = self.message(stream, message).is_some_and(|message| message.begun);
            if begun || !is_begun {
                return self.drop_message(stream, message);
            }
        }
        None
    }

    /// Takes out messages that give way to one of `bytes` and this persistence, least important first, if they make
    /// enough room; else none.
    pub(crate) fn make_room(&mut self, bytes: usize, newcomer: Persistence) -> Vec<UnsentMessage> {
        let less_important =
            |priority: u32| !matches!(newcomer, Persistence::Priority(own) if own >= priority);
        let mut victims = Vec::new();
        let mut freed = 0;
        for &(Reverse(priority), message, stream) in &self.yielding {
            if freed >= bytes || !less_important(priority) {
                break;
            }
            freed += self.message(stream, message).map_or(0, Message::size);
            victims.push((stream, message));
        }
        if freed < bytes {
            return Vec::new();
        }
        let mut drop = |(stream, message)| self.drop_message(stream, message);
        victims.drain(..).filter_map(&mut drop).collect()
    }

    fn message(&self, stream: StreamId, id: MessageId) -> Option<&Message> {
        let stream = self.streams.get(usize::from(stream.0))?.as_ref()?;
        let at = stream
            .messages
            .binary_search_by_key(&id, |message| message.id)
            .ok()?;
        stream.messages.get(at)
    }

    /// Takes out one message.
    pub(crate) fn drop_message(&mut self, stream: StreamId, id: MessageId) -> Option<UnsentMessage> {
        let state = self.streams.get_mut(usize::from(stream.0))?.as_mut()?;
        let at = state
            .messages
            .binary_search_by_key(&id, |message| message.id)
            .ok()?;
        let message = state.messages.remove(at)?;
        Some(self.forget(stream, &message))
    }

    /// The message is out of its stream's queue, and never leaves whole.
    fn forget(&mut self, id: StreamId, message: &Message) -> UnsentMessage {
        self.note_persistence(message.persistence, message.id, id, false);
        let size = message.size();
        self.bytes -= size;
        self.messages -= 1;
        let stream = self.stream_mut(id);
        stream.stats.queued_bytes -= size;
        stream.stats.queued_messages -= 1;
        if !message.complete {
            stream.dropping = Some(message.id);
        }
        let left = stream.messages.len();
        let unsent = message.unsent(id, stream.next_sequence);
        if message.begun {
            if !message.options.unordered {
                stream.next_sequence = u32::from((stream.next_sequence as u16).wrapping_add(1));
            }
            self.locked = None;
        }
        self.scheduler.on_abandoned(id, left);
        unsent
    }

    /// The end of a message that was given up half-sent: it takes a TSN and is never sent.
    pub(crate) fn end_of(&self, unsent: UnsentMessage) -> Fragment {
        Fragment {
            payload: Bytes::new(),
            message: unsent.message,
            context: unsent.context,
            stream: unsent.stream,
            sequence: unsent.sequence,
            ppid: Ppid(0),
            unordered: unsent.unordered,
            beginning: false,
            ending: true,
            immediate: false,
            persistence: Persistence::Reliable,
            wire_len: 0,
        }
    }

    /// Takes out the messages of a stream that `which` picks.
    fn drop_messages(&mut self, id: StreamId, which: impl Fn(&Message) -> bool) -> Vec<UnsentMessage> {
        let Some(Some(stream)) = self.streams.get_mut(usize::from(id.0)) else {
            return Vec::new();
        };
        let (dropped, kept) = core::mem::take(&mut stream.messages)
            .into_iter()
            .partition::<Vec<_>, _>(which);
        stream.messages = kept.into();
        dropped.iter().map(|message| self.forget(id, message)).collect()
    }

    /// Whether a message of this stream waits for a part: the end of it may still be given during a shutdown.
    pub(crate) fn has_open(&self, id: StreamId) -> bool {
        let stream = self.streams.get(usize::from(id.0)).and_then(Option::as_ref);
        stream
            .and_then(|stream| stream.messages.back())
            .is_some_and(|message| !message.complete)
            || stream.is_some_and(|stream| stream.dropping.is_some())
    }

    /// Everything that waits, as the association ends or restarts; stream sequence numbers begin anew.
    pub(crate) fn drain(&mut self) -> Vec<UnsentMessage> {
        let streams = 0..self.streams.len();
        let mut dropped: Vec<_> = streams
            .flat_map(|id| self.drop_messages(StreamId(id as u16), |_| true))
            .collect();
        dropped.sort_unstable_by_key(|unsent| unsent.message);
        for stream in self.streams.iter_mut().flatten() {
            stream.next_sequence = 0;
            stream.dropping = None;
        }
        self.scheduler.clear();
        dropped
    }

    pub(crate) fn stream_stats(&self, id: StreamId) -> StreamStats {
        match self.streams.get(usize::from(id.0)) {
            Some(Some(stream)) => stream.stats,
            _ => StreamStats::default(),
        }
    }
}

fn note<T: Ord>(set: &mut BTreeSet<T>, entry: T, present: bool) {
    if present {
        set.insert(entry);
    } else {
        set.remove(&entry);
    }
}
