//! The send queue: messages that wait for their first transmission, whole and without TSN; fragmentation (RFC 9260 §6.1, §6.5, §6.9).
//!
//! A fragment gets its stream sequence number, and from `outstanding` its TSN, only when it is sent.

mod hold;
mod outbound_stream;
mod queued_message;
mod reset;
mod scheduling;

use anabranch_wire::{Ppid, StreamId};
use bytes::Bytes;

use super::buffer::Shortage;
use super::data_format::{DataFormat, MessageNumbers};
use super::perishable::{Importance, Perishable};
use super::scheduler::{Accepted, StreamScheduler};
use crate::config::SchedulerKind;
use crate::error::SendError;
use crate::message::{Copies, Haste, Persistence};
use crate::message::{Fragment, UnsentMessage};
use crate::message::{MessageId, SendOptions};
use crate::paged::Paged;
use crate::path_id::PathId;
use crate::stats::StreamStats;
use crate::time::Timestamp;
use hold::Hold;
use outbound_stream::{OutboundStream, Spare};
use queued_message::Message;

/// The queued messages of all streams.
#[derive(Debug)]
pub(crate) struct SendQueue {
    streams: Paged<Option<Box<OutboundStream>>>,
    stream_count: u16,
    scheduler: StreamScheduler,
    /// A stream whose message has begun, so that its fragments must follow each other (§6.9). `None` with interleaving, where each stream
    /// may have a message that has begun.
    locked: Option<StreamId>,
    format: DataFormat,
    next_message: u64,
    bytes: usize,
    messages: usize,
    /// The parts in which these messages were given and that were not sent.
    parts: usize,
    /// How many of the messages name a path.
    directed: usize,
    perishable: Perishable,
    /// The streams that are being reset, if there are any (RFC 6525 §5.1.2 A1).
    hold: Option<Hold>,
    /// The streams whose messages were numbered since the last reset of all streams: each is in the list once. No others are visited when
    /// the peer asks for a reset of all streams, however often it asks.
    numbered: Vec<StreamId>,
    /// Streams whose buffered amount has fallen to their threshold.
    low: Vec<StreamId>,
    spare: Spare,
}

/// The message of the next fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) message: MessageId,
    pub(crate) stream: StreamId,
    pub(crate) persistence: Persistence,
    /// Bytes of user data that were not sent and are known.
    pub(crate) bytes: usize,
    /// Whether a part of it was sent.
    pub(crate) begun: bool,
}

impl SendQueue {
    pub(crate) fn new(stream_count: u16, scheduler: SchedulerKind) -> Self {
        Self {
            streams: Paged::default(),
            stream_count,
            scheduler: StreamScheduler::new(scheduler),
            locked: None,
            format: DataFormat::Data,
            next_message: 0,
            bytes: 0,
            messages: 0,
            parts: 0,
            directed: 0,
            perishable: Perishable::default(),
            hold: None,
            numbered: Vec::new(),
            low: Vec::new(),
            spare: Spare::default(),
        }
    }

    /// The number of outbound streams.
    pub(crate) fn stream_count(&self) -> u16 {
        self.stream_count
    }

    /// The peer accepts this many streams. Messages queued for other streams are removed and returned.
    pub(crate) fn set_stream_count(&mut self, count: u16) -> Vec<UnsentMessage> {
        self.stream_count = count;
        self.drop_all_from(StreamId(count))
    }

    /// Sets the negotiated data format: with I-DATA, fragments of several messages may alternate (RFC 8260).
    pub(crate) fn set_format(&mut self, format: DataFormat) {
        self.format = format;
    }

    /// Bytes of user data queued on a stream.
    pub(crate) fn buffered_amount(&self, stream: StreamId) -> usize {
        self.stream(stream).map_or(0, |stream| stream.stats.queued_bytes)
    }

    pub(crate) fn set_buffered_amount_low_threshold(
        &mut self,
        stream: StreamId,
        threshold: Option<usize>,
    ) -> Result<(), SendError> {
        self.check(stream)?;
        self.streams.touch(stream).get_or_insert_default().low_threshold = threshold;
        Ok(())
    }

    /// Whether the buffered amount of a stream has fallen to its threshold.
    pub(crate) fn has_low(&self) -> bool {
        !self.low.is_empty()
    }

    /// The streams whose buffered amount has fallen to their threshold since the last call.
    pub(crate) fn take_low(&mut self) -> impl Iterator<Item = StreamId> {
        self.low.drain(..)
    }

    /// Refuses a stream that does not exist.
    fn check(&self, stream: StreamId) -> Result<(), SendError> {
        let streams = self.stream_count;
        if stream.0 >= streams {
            return Err(SendError::InvalidStream { stream, streams });
        }
        Ok(())
    }

    /// Bytes of user data queued.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The parts in which the queued messages were given and that were not sent: at least one for each message.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// Whether the queue is empty. A message that has begun and not ended is still queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    pub(crate) fn format(&self) -> DataFormat {
        self.format
    }

    fn stream(&self, id: StreamId) -> Option<&OutboundStream> {
        self.streams.at(id)?.as_deref()
    }

    fn stream_mut(&mut self, id: StreamId) -> Option<&mut OutboundStream> {
        self.streams.at_mut(id)?.as_deref_mut()
    }

    /// Whether [`SendQueue::push`] accepts a message, or a part of one, of this length.
    ///
    /// # Errors
    /// Those of `push`.
    pub(crate) fn check_push(
        &self,
        stream: StreamId,
        size: usize,
        is_part: bool,
        end: bool,
    ) -> Result<(), SendError> {
        self.check(stream)?;
        let state = self.stream(stream);
        let open = state.is_some_and(OutboundStream::is_open);
        let dropping = state.is_some_and(|state| state.dropping.is_some());
        if (open || dropping) && !is_part {
            return Err(SendError::MessageOpen(stream));
        }
        let may_be_empty = dropping || (open && end);
        if size == 0 && !may_be_empty {
            return Err(SendError::Empty);
        }
        Ok(())
    }

    /// Queues a message, its first part, or a further part.
    pub(crate) fn push(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        part: Bytes,
        options: &SendOptions,
        is_part: bool,
        end: bool,
    ) -> Result<MessageId, SendError> {
        self.check_push(stream, part.len(), is_part, end)?;
        let next_message = MessageId(self.next_message);
        let size = part.len();
        let state = self.streams.touch(stream).get_or_insert_default();
        if let Some(dropped) = state.dropping {
            state.dropping = Some(dropped).filter(|_| !end);
            return Ok(dropped);
        }
        if let Some(message) = state.messages.back_mut().filter(|message| !message.complete) {
            self.parts += usize::from(message.push(part));
            message.complete = end;
            let id = message.id;
            state.on_queued(size);
            self.bytes += size;
            self.scheduler.on_part(stream);
            return Ok(id);
        }
        let message = Message::new(next_message, now, options, part, end);
        let persistence = message.persistence;
        let held = self
            .hold
            .as_mut()
            .is_some_and(|hold| hold.takes(stream, state.held, &state.messages));
        state.push(message, size, &mut self.spare);
        if options.deadline.is_some() || self.scheduler.has_dues() {
            self.scheduler.set_due(stream, state.due());
        }
        if !held {
            self.scheduler.on_message(stream, next_message);
        }
        self.note_persistence(persistence, next_message, stream, true);
        self.next_message += 1;
        self.messages += 1;
        self.parts += 1;
        if options.path.is_some() {
            self.directed += 1;
        }
        self.bytes += size;
        Ok(next_message)
    }

    /// Whether a queued message names a path.
    #[inline(always)]
    pub(crate) fn has_directed(&self) -> bool {
        self.directed > 0
    }

    /// The path that the message of the next fragment names.
    pub(crate) fn next_destination(&self) -> Option<PathId> {
        self.stream(self.next_stream()?)?.messages.front()?.path
    }

    /// When the message of the next fragment is abandoned, and its copies.
    pub(crate) fn next_persistence(&self) -> Option<(Persistence, Copies)> {
        let message = self.stream(self.next_stream()?)?.messages.front()?;
        Some((message.persistence, message.haste.copies))
    }

    fn next_stream(&self) -> Option<StreamId> {
        self.locked.or_else(|| self.scheduler.peek())
    }

    /// The priority class of a stream; 0 where there are no classes.
    pub(crate) fn class(&self, stream: StreamId) -> u16 {
        self.scheduler.class(stream)
    }

    /// The priority classes of the streams, the most urgent first.
    pub(crate) fn classes(&self) -> impl Iterator<Item = u16> {
        self.scheduler.classes()
    }

    /// Whether the next fragment, with at most `limit` bytes of user data, is of a reliable message, and another one follows it.
    pub(crate) fn next_is_divided(&self, limit: usize) -> bool {
        let next = self
            .next_stream()
            .and_then(|stream| self.stream(stream)?.messages.front());
        next.is_some_and(|message| {
            message.persistence == Persistence::Reliable && message.next_len(usize::MAX) > limit
        })
    }

    /// The priority class of the next fragment; 0, the most urgent, where there are no classes.
    pub(crate) fn next_class(&self) -> u16 {
        self.next_stream()
            .map_or(0, |stream| self.scheduler.class(stream))
    }

    /// The class of the most urgent message that waits, although a message that has begun is finished before it.
    pub(crate) fn most_urgent_class(&self) -> u16 {
        let class = |stream| self.scheduler.class(stream);
        self.next_class().min(self.scheduler.peek().map_or(0, class))
    }

    /// Bytes of user data in the next fragment, at most `limit`. `None` if nothing can be sent: the queue is empty, or a message that has
    /// begun waits for its next part.
    #[inline(always)]
    pub(crate) fn peek(&mut self, limit: usize) -> Option<usize> {
        let message = self.stream(self.next_stream()?)?.messages.front()?;
        if message.is_held_back(limit) {
            return self.peek_further(limit);
        }
        Some(message.next_len(limit))
    }

    /// The same if the first message must wait for a part.
    #[cold]
    fn peek_further(&mut self, limit: usize) -> Option<usize> {
        loop {
            let id = self.next_stream()?;
            let message = self.stream(id)?.messages.front()?;
            if !message.is_held_back(limit) {
                return Some(message.next_len(limit));
            }
            if self.locked.is_some() || !self.scheduler.park(id) {
                return None;
            }
        }
    }

    /// Removes and returns the next fragment, of `len` bytes as returned by `peek`.
    #[inline]
    pub(crate) fn take(&mut self, now: Timestamp, len: usize) -> Option<Fragment> {
        let id = self.next_stream()?;
        let format = self.format;
        let interleaves = format.interleaves();
        let stream = self.streams.at_mut(id)?.as_deref_mut()?;
        let message = stream.messages.front_mut()?;
        let fsn = message.fragments;
        message.fragments = fsn.wrapping_add(1);
        let beginning = !message.begun;
        message.begun = true;
        let before = message.parts();
        let payload = message.take(len);
        let ending = message.complete && message.first.is_empty();
        let parts = if ending { 0 } else { message.parts() };
        self.parts -= before - parts;
        let unordered = message.unordered;
        let fragment = Fragment {
            wire_len: format.wire_len(payload.len()) as u32,
            payload,
            message: message.id,
            context: message.context,
            stream: id,
            sequence: format.number(&stream.next, unordered),
            fsn,
            ppid: message.ppid,
            unordered,
            beginning,
            ending,
            repair: false,
            immediate: message.immediate && ending,
            confirm: message.confirm,
            persistence: message.persistence,
            haste: message.haste,
        };
        let id_of_it = message.id;
        let queued_at = message.queued_at;
        let is_directed = message.path.is_some();
        if stream.on_left(len) {
            self.low.push(id);
        }
        self.bytes -= len;
        if ending {
            stream.on_sent(now, queued_at);
            self.directed -= usize::from(is_directed);
            if stream.count(format, unordered) {
                self.numbered.push(id);
            }
            stream.messages.pop_front();
            self.messages -= 1;
            stream.on_message_left(&mut self.spare);
            if self.scheduler.has_dues() {
                self.scheduler.set_due(id, stream.due());
            }
        }
        self.locked = Some(id).filter(|_| !ending && !interleaves);
        let accepted = Accepted {
            message: id_of_it,
            bytes: len,
            ended: ending,
            interleaves,
            more: match &self.hold {
                None => !stream.messages.is_empty(),
                Some(hold) => hold.unheld(stream.held, &stream.messages) > 0,
            },
        };
        self.scheduler.accept(id, accepted);
        // A message that has begun is not abandoned for others any more. It may still expire until all of it was sent.
        let leaves = match fragment.persistence {
            Persistence::Reliable => false,
            Persistence::Priority(_) => beginning || ending,
            Persistence::Until(_) | Persistence::Retransmissions(_) => ending,
        };
        if leaves {
            self.note_persistence(fragment.persistence, id_of_it, id, false);
        }
        Some(fragment)
    }

    /// Adds a message to those that may be abandoned while queued, or removes it.
    #[inline]
    fn note_persistence(
        &mut self,
        persistence: Persistence,
        message: MessageId,
        stream: StreamId,
        waits: bool,
    ) {
        if !matches!(persistence, Persistence::Reliable) {
            let class = self.scheduler.class(stream);
            self.perishable.note(persistence, class, message, stream, waits);
        }
    }

    /// The message of the next fragment.
    pub(crate) fn head(&self) -> Option<Head> {
        let stream = self.next_stream()?;
        let message = self.stream(stream)?.messages.front()?;
        Some(Head {
            message: message.id,
            stream,
            persistence: message.persistence,
            bytes: message.size(),
            begun: message.begun,
        })
    }

    /// When the next message expires: it may still leave at exactly that time.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.perishable.next_deadline()
    }

    /// Removes and returns a message whose lifetime is over. A message that has begun is removed only if `begun`.
    pub(crate) fn take_expired(&mut self, now: Timestamp, begun: bool) -> Option<UnsentMessage> {
        while let Some((message, stream)) = self.perishable.pop_expired(now) {
            let is_begun = self.message(stream, message).is_some_and(|message| message.begun);
            if begun || !is_begun {
                return self.drop_message(stream, message);
            }
        }
        None
    }

    /// Removes and returns the messages to be abandoned for a message of this persistence on `stream`, the least important first: messages
    /// of the stream itself until the shortage `own` is over or, if they do not suffice, of any streams until `all` is over. If neither
    /// suffices, removes none.
    pub(crate) fn make_room(
        &mut self,
        [own, all]: [Option<Shortage<'_>>; 2],
        stream: StreamId,
        newcomer: Persistence,
    ) -> Vec<UnsentMessage> {
        let newcomer = Importance::new(self.scheduler.class(stream), newcomer);
        let victims = own
            .and_then(|own| self.victims(newcomer, own, |of| of == stream))
            .or_else(|| self.victims(newcomer, all?, |_| true));
        let mut drop = |(message, stream)| self.drop_message(stream, message);
        victims.into_iter().flatten().filter_map(&mut drop).collect()
    }

    /// The messages of such streams that end the shortage together.
    fn victims(
        &self,
        newcomer: Importance,
        mut shortage: Shortage<'_>,
        of: impl Fn(StreamId) -> bool,
    ) -> Option<Vec<(MessageId, StreamId)>> {
        let mut victims = Vec::new();
        for (message, stream) in self
            .perishable
            .victims(newcomer)
            .filter(|(_, stream)| of(*stream))
        {
            if shortage.is_over() {
                break;
            }
            let size = self.message(stream, message).map_or(0, Message::size);
            shortage.drop_message(stream, size);
            victims.push((message, stream));
        }
        shortage.is_over().then_some(victims)
    }

    fn message(&self, stream: StreamId, id: MessageId) -> Option<&Message> {
        let stream = self.stream(stream)?;
        let at = stream
            .messages
            .binary_search_by_key(&id, |message| message.id)
            .ok()?;
        stream.messages.get(at)
    }

    /// Removes and returns one message.
    pub(crate) fn drop_message(&mut self, stream: StreamId, id: MessageId) -> Option<UnsentMessage> {
        let state = self.stream_mut(stream)?;
        let at = state
            .messages
            .binary_search_by_key(&id, |message| message.id)
            .ok()?;
        let message = state.messages.remove(at)?;
        self.forget(stream, &message)
    }

    /// Updates the state of a stream after a message was removed that will never be sent completely.
    fn forget(&mut self, id: StreamId, message: &Message) -> Option<UnsentMessage> {
        self.note_persistence(message.persistence, message.id, id, false);
        let size = message.size();
        self.bytes -= size;
        self.messages -= 1;
        self.parts -= message.parts();
        self.directed -= usize::from(message.path.is_some());
        let stream = self.streams.at_mut(id)?.as_deref_mut()?;
        if stream.on_left(size) {
            self.low.push(id);
        }
        stream.on_message_left(&mut self.spare);
        if self.scheduler.has_dues() {
            self.scheduler.set_due(id, stream.due());
        }
        if !message.complete {
            stream.dropping = Some(message.id);
        }
        let left = match &mut self.hold {
            None => stream.messages.len(),
            Some(hold) => {
                hold.forget(stream.held, message.id);
                hold.unheld(stream.held, &stream.messages)
            }
        };
        let unordered = message.unordered;
        let unsent = message.unsent(id, self.format.number(&stream.next, unordered));
        if message.begun {
            if stream.count(self.format, unordered) {
                self.numbered.push(id);
            }
            self.locked = self.locked.filter(|locked| *locked != id);
        }
        self.scheduler.on_abandoned(id, message.id, left);
        Some(unsent)
    }

    /// The end of a message that was abandoned after a part of it was sent: it takes a TSN and is never sent.
    pub(crate) fn end_of(&self, unsent: UnsentMessage) -> Fragment {
        Fragment {
            payload: Bytes::new(),
            message: unsent.message,
            context: unsent.context,
            stream: unsent.stream,
            sequence: unsent.sequence,
            fsn: 0,
            ppid: Ppid(0),
            unordered: unsent.unordered,
            beginning: false,
            ending: true,
            repair: false,
            immediate: false,
            confirm: false,
            persistence: Persistence::Reliable,
            haste: Haste::default(),
            wire_len: 0,
        }
    }

    /// Removes all messages of this stream and of those with higher numbers.
    fn drop_all_from(&mut self, first: StreamId) -> Vec<UnsentMessage> {
        let mut dropped = Vec::new();
        for (id, stream) in self.streams.iter_mut() {
            if let Some(stream) = stream.as_mut().filter(|_| id >= first) {
                dropped.extend(
                    core::mem::take(&mut stream.messages)
                        .into_iter()
                        .map(|message| (id, message)),
                );
            }
        }
        let mut forget = |(id, message)| self.forget(id, &message);
        dropped.drain(..).filter_map(&mut forget).collect()
    }

    /// Whether a message of this stream waits for a part: its end may still be given during a shutdown.
    pub(crate) fn has_open(&self, id: StreamId) -> bool {
        self.stream(id)
            .is_some_and(|stream| stream.is_open() || stream.dropping.is_some())
    }

    /// Removes and returns everything, when the association ends or restarts; stream sequence numbers begin again.
    pub(crate) fn drain(&mut self) -> Vec<UnsentMessage> {
        let mut dropped = self.drop_all_from(StreamId(0));
        dropped.sort_unstable_by_key(|unsent| unsent.message);
        for stream in self.streams.iter_mut().filter_map(|(_, stream)| stream.as_mut()) {
            stream.restart();
        }
        self.numbered.clear();
        self.hold = None;
        self.scheduler.clear();
        dropped
    }

    pub(crate) fn stream_stats(&self, id: StreamId) -> StreamStats {
        self.stream(id).map(|stream| stream.stats).unwrap_or_default()
    }

    /// Completely sent messages were acknowledged: the stream of each, and when its end was first sent.
    pub(crate) fn on_arrived(&mut self, now: Timestamp, arrived: &[(StreamId, Timestamp)]) {
        for of_stream in arrived.chunk_by(|(one, _), (next, _)| one == next) {
            if let Some(stream) = self.stream_mut(of_stream[0].0) {
                stream.on_arrived(now, of_stream);
            }
        }
    }

    /// A packet is full, or no more data is available for it.
    pub(crate) fn on_packet(&mut self) {
        self.scheduler.on_packet();
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn the_deadline_of_the_first_message_counts() {
        let mut queue = SendQueue::new(3, SchedulerKind::Priority);
        let now = Timestamp::ZERO;
        let push = |queue: &mut SendQueue, stream, millis| {
            let options = SendOptions::default().deadline(Duration::from_millis(millis));
            let message = Bytes::from_static(b"urgent");
            let pushed = queue.push(now, StreamId(stream), message, &options, false, true);
            pushed.expect("there is room")
        };
        push(&mut queue, 0, 10);
        push(&mut queue, 0, 500);
        push(&mut queue, 1, 100);
        let dropped = push(&mut queue, 2, 50);
        push(&mut queue, 2, 200);
        queue.drop_message(StreamId(2), dropped);
        let streams = core::iter::from_fn(|| {
            let len = queue.peek(1000)?;
            queue.take(now, len)
        });
        let streams: Vec<u16> = streams.map(|fragment| fragment.stream.0).collect();
        assert_eq!(streams, [0, 1, 2, 0]);
    }

    #[test]
    fn an_urgent_message_lends_its_class_to_the_one_before_it() {
        let (urgent, file) = (StreamId(0), StreamId(1));
        let mut queue = SendQueue::new(2, SchedulerKind::Priority);
        queue.set_priorities(file, file, 1);
        let now = Timestamp::ZERO;
        let push = |queue: &mut SendQueue, stream| {
            let message = Bytes::from(vec![7; 3000]);
            let pushed = queue.push(now, stream, message, &SendOptions::default(), false, true);
            pushed.expect("there is room");
        };
        push(&mut queue, file);
        let len = queue.peek(1000).expect("a message waits");
        queue.take(now, len).expect("it was peeked");
        assert_eq!((queue.next_class(), queue.most_urgent_class()), (1, 1));
        push(&mut queue, urgent);
        assert_eq!((queue.next_class(), queue.most_urgent_class()), (1, 0));
    }
}
