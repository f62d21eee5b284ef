//! The handle of an association: messages in, messages out, and its end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use anabranch_proto::{
    AssociationState, AssociationStats, CloseReason, Event, MessageId, MessagePart, PathId, PathRequestError,
    SendOptions, StreamId, StreamStats,
};
use bytes::Bytes;

use crate::driver::association::{Shared, State};
use crate::error::{RecvError, SendError, ShutdownError};
use crate::message::Message;

/// An association: a two-way connection of many streams that carry messages. Cheap to clone; every method takes
/// `&self`, so that some tasks may send while others receive.
///
/// When the last handle is dropped the association is shut down in order in the background: what was sent still
/// arrives, what comes is dropped. [`Association::shutdown`] does the same and tells when it is done;
/// [`Association::abort`] ends it at once.
#[derive(Clone, Debug)]
pub struct Association {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(|state, now| {
            state.abandoned = true;
            if state.established {
                state.core.shutdown(now);
            } else if state.closed.is_none() {
                state.core.abort(now, Bytes::from_static(b"given up"));
            }
        });
    }
}

impl Association {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Sends a message, ordered, on a stream. Waits while the send buffer is full; see [`Association::send_with`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, stream: StreamId, message: impl Into<Bytes>) -> Result<MessageId, SendError> {
        self.send_with(stream, message, SendOptions::default()).await
    }

    /// Sends a message on a stream: with a payload protocol identifier, unordered, with a context of your own, given up
    /// after some time or some losses ([`Reliability`](crate::Reliability)). Returns when the message is in the send buffer (`Config::buffers.send`), which is the back-pressure; see
    /// [`Association::drained`] for when all of it has arrived. Cancel safe: a message is taken whole or not at all.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_with(
        &self,
        stream: StreamId,
        message: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        let message = message.into();
        self.when_writable(|| self.try_send(stream, message.clone(), options))
            .await
    }

    /// Sends a message if there is room in the send buffer.
    ///
    /// # Errors
    /// See [`SendError`]: `BufferFull` if there is none.
    pub fn try_send(
        &self,
        stream: StreamId,
        message: impl Into<Bytes>,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        let message = message.into();
        self.give(|state, now| state.core.send(now, stream, message, options))
    }

    /// Sends a part of a message on a stream: the first one begins the message, the one with `end` ends it. So a
    /// message may be longer than memory. Until it is ended the stream takes nothing else; other streams do. The
    /// options are those given with the first part.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_part(
        &self,
        stream: StreamId,
        part: impl Into<Bytes>,
        options: SendOptions,
        end: bool,
    ) -> Result<MessageId, SendError> {
        let part = part.into();
        self.when_writable(|| {
            let part = part.clone();
            self.give(|state, now| state.core.send_part(now, stream, part, options, end))
        })
        .await
    }

    fn give(
        &self,
        work: impl FnOnce(&mut State, anabranch_proto::Timestamp) -> Result<MessageId, anabranch_proto::SendError>,
    ) -> Result<MessageId, SendError> {
        use anabranch_proto::SendError as Core;
        self.shared().with_later(|state, now| match work(state, now) {
            Ok(id) => {
                state.dry = false;
                Ok(id)
            }
            Err(Core::BufferFull) => Err(SendError::BufferFull),
            Err(Core::Closed) => match &state.closed {
                Some(reason) => Err(SendError::Closed(reason.clone())),
                None => Err(SendError::ShuttingDown),
            },
            Err(error) => Err(SendError::Message(error)),
        })
    }

    async fn when_writable(
        &self,
        mut attempt: impl FnMut() -> Result<MessageId, SendError>,
    ) -> Result<MessageId, SendError> {
        // Without it a task that sends in a loop would never let others run.
        tokio::task::consume_budget().await;
        let mut answer = attempt();
        while answer == Err(SendError::BufferFull) {
            let mut writable = pin!(self.shared().writable.notified());
            writable.as_mut().enable();
            answer = attempt();
            if answer == Err(SendError::BufferFull) {
                writable.await;
            }
        }
        answer
    }

    /// The next whole message; `None` when the association has ended in order and all is read. Messages that come in
    /// parts (see `Config::buffers.partial_delivery_point`) are joined, up to
    /// [`EndpointBuilder::max_joined_message`](crate::EndpointBuilder::max_joined_message); for larger ones there is
    /// [`Association::recv_part`]. What is not received keeps the peer from sending more. Cancel safe.
    ///
    /// Of messages that their sender gave up (RFC 3758) nothing is told, not even of one that had begun to come in parts:
    /// what is handed over is whole.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub async fn recv(&self) -> Result<Option<Message>, RecvError> {
        let limit = self.shared().hub.limits.max_joined_message;
        self.when_readable(|state, now| state.next_message(now, limit).transpose())
            .await
    }

    /// The next whole message, or the next part of one; `None` when the association has ended in order and all is
    /// read. Parts of one message come in order, and other streams' messages may come between them:
    /// [`MessagePart::message`] tells them apart. A message that its sender gives up half-way ends in an empty part with
    /// [`MessagePart::truncated`]. Use either this or [`Association::recv`]. Cancel safe.
    ///
    /// # Errors
    /// [`RecvError::Closed`].
    pub async fn recv_part(&self) -> Result<Option<MessagePart>, RecvError> {
        self.when_readable(|state, now| Ok(state.core.recv(now))).await
    }

    /// A whole message, if one is there; otherwise like [`Association::recv`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn try_recv(&self) -> Result<Option<Message>, RecvError> {
        let limit = self.shared().hub.limits.max_joined_message;
        self.shared()
            .with(|state, now| state.next_message(now, limit).transpose())
    }

    async fn when_readable<T>(
        &self,
        mut take: impl FnMut(&mut State, anabranch_proto::Timestamp) -> Result<Option<T>, RecvError>,
    ) -> Result<Option<T>, RecvError> {
        tokio::task::consume_budget().await;
        if let Some(answer) = self.take_or_end(&mut take) {
            return answer;
        }
        loop {
            let mut readable = pin!(self.shared().readable.notified());
            readable.as_mut().enable();
            if let Some(answer) = self.take_or_end(&mut take) {
                return answer;
            }
            readable.await;
        }
    }

    /// `None`: there is nothing, and more may come.
    fn take_or_end<T>(
        &self,
        take: impl FnMut(&mut State, anabranch_proto::Timestamp) -> Result<Option<T>, RecvError>,
    ) -> Option<Result<Option<T>, RecvError>> {
        // Asked first: what came before the end is there to be taken now.
        let closed = self.shared().read(|state| state.closed.clone());
        match (self.shared().with(take), closed) {
            (Ok(None), None) => None,
            (Ok(None), Some(CloseReason::Shutdown)) => Some(Ok(None)),
            (Ok(None), Some(reason)) => Some(Err(RecvError::Closed(reason))),
            (taken, _) => Some(taken),
        }
    }

    /// Waits until all that was sent is acknowledged by the peer, or given up as its
    /// [`Reliability`](crate::Reliability) says.
    ///
    /// # Errors
    /// The association ended before, and not in order.
    pub async fn drained(&self) -> Result<(), ShutdownError> {
        self.when_changed(|state| match (&state.closed, state.dry) {
            (_, true) => Some(Ok(())),
            (Some(CloseReason::Shutdown), _) => Some(Ok(())),
            (Some(reason), _) => Some(Err(ShutdownError(reason.clone()))),
            (None, false) => None,
        })
        .await
    }

    /// The next event: a path changed, a message was not delivered or was given up ([`Event::Abandoned`], with its id, its
    /// context and whether any of it was sent), the peer restarted, shut down or sent an ERROR. `None` when the association is over and all are told. What the other methods tell
    /// ([`Event::Established`], `Readable`, `Writable`, `Dry`, `Closed`) does not come here. The last 16,384 events are kept for
    /// whoever asks, and of the peer's ERRORs the first 64 KiB; how many messages were given up is in
    /// [`Association::stats`] too. Cancel safe.
    pub async fn next_event(&self) -> Option<Event> {
        loop {
            let mut changed = pin!(self.shared().changed.notified());
            changed.as_mut().enable();
            let (event, closed) = self
                .shared()
                .with(|state, _| (state.events.pop(), state.closed.is_some()));
            if event.is_some() || closed {
                return event;
            }
            changed.await;
        }
    }

    /// Ends the association in order (SHUTDOWN, RFC 9260 §9.2): takes no more messages, and returns when the peer has
    /// acknowledged all, and this side all of the peer's. Messages from the peer can be received meanwhile, by
    /// another task, and afterwards; a peer that sends more than fits the window, and is not read, holds up the end
    /// until `Config::shutdown_guard`.
    ///
    /// # Errors
    /// The association ended otherwise.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.shared().with(|state, now| state.core.shutdown(now));
        match self.closed().await {
            CloseReason::Shutdown => Ok(()),
            reason => Err(ShutdownError(reason)),
        }
    }

    /// Ends the association at once (ABORT, RFC 9260 §9.1): what is not delivered is lost. At most 1,024 bytes of
    /// `reason` are told to the peer's application.
    pub fn abort(&self, reason: impl Into<Bytes>) {
        let reason = reason.into();
        self.shared().with(|state, now| state.core.abort(now, reason));
    }

    /// Waits until the association is over, and tells how it ended.
    pub async fn closed(&self) -> CloseReason {
        self.when_changed(|state| state.closed.clone()).await
    }

    /// How the association ended; `None` while it has not.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared().read(|state| state.closed.clone())
    }

    pub(crate) async fn established(&self) -> Result<(), CloseReason> {
        self.when_changed(|state| match (&state.closed, state.established) {
            (_, true) => Some(Ok(())),
            (Some(reason), false) => Some(Err(reason.clone())),
            (None, false) => None,
        })
        .await
    }

    /// Why the system sends nothing to there, if it sent nothing since.
    pub(crate) fn refused(&self) -> Option<std::io::Error> {
        self.shared().with(|state, _| state.refused.take())
    }

    async fn when_changed<R>(&self, answer: impl Fn(&State) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.shared().changed.notified());
            changed.as_mut().enable();
            if let Some(answer) = self.shared().read(&answer) {
                return answer;
            }
            changed.await;
        }
    }

    /// Counters and readings of the association and its paths.
    #[must_use]
    pub fn stats(&self) -> AssociationStats {
        self.shared().read(|state| state.core.stats())
    }

    /// Readings of one outbound stream; zero if nothing was sent on it.
    #[must_use]
    pub fn stream_stats(&self, stream: StreamId) -> StreamStats {
        self.shared().read(|state| state.core.stream_stats(stream))
    }

    /// The state of RFC 9260 §4 that it is in.
    #[must_use]
    pub fn state(&self) -> AssociationState {
        self.shared().read(|state| state.core.state())
    }

    /// Streams to the peer, numbered from 0.
    #[must_use]
    pub fn outbound_streams(&self) -> u16 {
        self.shared().read(|state| state.core.outbound_streams())
    }

    /// Address and UDP port of the peer, on the primary path.
    #[must_use]
    pub fn remote_addr(&self) -> SocketAddr {
        self.shared().read(|state| state.core.remote_address())
    }

    /// Local and remote SCTP port.
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        self.shared().read(|state| state.core.ports())
    }

    /// Sends new data on this path from now on, while it is active.
    ///
    /// # Errors
    /// There is no such path, or it is not confirmed.
    pub fn set_primary_path(&self, path: PathId) -> Result<(), PathRequestError> {
        self.shared().with(|state, _| state.core.set_primary_path(path))
    }

    /// Sends a heartbeat on this path now; [`Association::stats`] shows the round-trip time it measured.
    ///
    /// # Errors
    /// There is no such path.
    pub fn request_heartbeat(&self, path: PathId) -> Result<(), PathRequestError> {
        self.shared()
            .with(|state, now| state.core.request_heartbeat(now, path))
    }
}
