//! Messages of the application: those that it sends and those that it reads (RFC 9260 §11.1).

use anabranch_wire::StreamId;
use bytes::Bytes;

use super::deadlines::serve_deadline;
use super::{Association, tracing};
use crate::association_state::permit;
use crate::error::SendError;
use crate::extension::protection::{KEY_MANAGEMENT_PPID, KEY_STREAM};
use crate::message::{MessageId, MessagePart, Persistence, SendOptions};
use crate::time::Timestamp;

/// Whether a user message may be sent on an association whose packets are protected.
fn check_protected(is_pending: bool, stream: StreamId, options: &SendOptions) -> Result<(), SendError> {
    if is_pending {
        return Err(SendError::NotProtected);
    }
    if stream == KEY_STREAM && options.ppid == KEY_MANAGEMENT_PPID {
        return Err(SendError::KeyManagement);
    }
    Ok(())
}

impl Association {
    /// Gives a whole message to a stream. Messages are accepted in any state before a shutdown; before set-up is complete they wait.
    ///
    /// # Errors
    /// See [`SendError`]; the message was not accepted then.
    pub fn send(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        message: Bytes,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        self.step(now, |it| {
            it.accept_message(now, stream, message, options, false, true)
        })
    }

    /// Gives a part of a message to a stream (explicit end of record, RFC 6458 §8.1.26). The first part begins the message, the part with
    /// `end` ends it. The options of the first part count. Until the message has ended, later messages of the
    /// stream wait. With first come, first served, or once a fragment has left without message interleaving, the messages of all streams
    /// wait. A message that has begun may be ended during a shutdown, which waits for its end.
    ///
    /// # Errors
    /// See [`SendError`]; the part was not accepted then. The last part may be empty unless it is the only one.
    pub fn send_part(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        part: Bytes,
        options: SendOptions,
        end: bool,
    ) -> Result<MessageId, SendError> {
        self.step(now, |it| it.accept_message(now, stream, part, options, true, end))
    }

    fn accept_message(
        &mut self,
        now: Timestamp,
        stream: StreamId,
        message: Bytes,
        mut options: SendOptions,
        is_part: bool,
        end: bool,
    ) -> Result<MessageId, SendError> {
        let takes = self.state.may(permit::BEGIN_MESSAGES) && !self.ending.is_asked();
        let ends_one = is_part && self.state.may(permit::END_MESSAGES) && self.sender.queue.has_open(stream);
        if !(takes || ends_one) {
            return Err(SendError::Closed);
        }
        if self.protection.is_on() {
            check_protected(self.protection.is_pending(), stream, &options)?;
        }
        let limit = self.config.buffers.max_message;
        if message.len() > limit {
            return Err(SendError::TooLarge {
                size: message.len(),
                limit,
            });
        }
        if let Some(path) = options.path.filter(|path| !self.paths.has(*path)) {
            return Err(SendError::UnknownPath(path.0));
        }
        let len = message.len();
        self.sender.queue.check_push(stream, len, is_part, end)?;
        if options.deadline.is_some() {
            serve_deadline(self, now, stream);
        }
        // Nothing is wrong with the message: only now may other messages be abandoned for it.
        let full = len > 0 && !self.sender.has_room(stream, len);
        let persistence = Persistence::new(&options, now);
        if full
            && !self.sending(now, |sender, cx| {
                sender.make_room_for(cx, stream, len, persistence)
            })
        {
            self.sender.refuse(stream, len);
            return Err(SendError::BufferFull);
        }
        let before = self.sender.queue.bytes();
        options.complete(&self.config.partial_reliability);
        let id = self
            .sender
            .queue
            .push(now, stream, message, &options, is_part, end)?;
        // A part of a message that was dropped meanwhile is dropped too.
        let added = self.sender.queue.bytes() - before;
        self.sender.count(stream, added);
        self.ending.on_more(added);
        self.ending.on_activity(now);
        if end {
            self.counters.messages_sent += 1;
        }
        if self.trace.is_on() {
            tracing::queued(self, now, id, stream, (added, end));
        }
        if !self.sender.is_empty() {
            self.notices.on_data();
        }
        Ok(id)
    }

    /// Whether [`Association::send`] accepts a short message on this stream. A message that is longer than the free memory of the send
    /// buffer may have to wait until another such message has left ([`crate::BufferConfig::send`]).
    #[must_use]
    pub fn has_room(&self, stream: StreamId) -> bool {
        self.sender.has_room(stream, 1)
    }

    /// Bytes of user data that were given to [`Association::send`] on this stream and not sent yet, as the buffered amount of a WebRTC data
    /// channel.
    #[must_use]
    pub fn buffered_amount(&self, stream: StreamId) -> usize {
        self.sender.queue.buffered_amount(stream)
    }

    /// The next message, or part of a message, if there is one. Reading opens the receive window, so drain the association afterwards.
    pub fn recv(&mut self, now: Timestamp) -> Option<MessagePart> {
        let part = self.receiver.recv(now);
        match &part {
            Some(part) => self.on_read(now, part.ending),
            None => self.notices.on_read_out(),
        }
        part
    }

    /// The application read a message, or a part of one that is its end only if `ending`.
    pub(super) fn on_read(&mut self, now: Timestamp, ending: bool) {
        self.counters.messages_received += u64::from(ending);
        if self.receiver.window_update_due() {
            self.step(now, |it| it.receiver.force_ack());
        }
    }

    /// Whether each stream on which the peer sends, and that is not read separately yet, is read separately from its next message on, which
    /// [`crate::Event::StreamOpened`] tells. Default false.
    pub fn separate_new_streams(&mut self, now: Timestamp, on: bool) {
        self.step(now, |it| it.receiver.separate_new(on));
    }
}
