//! The handle of an association: messages in, messages out, and its end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use anabranch_proto::{
    AssociationState, AssociationStats, CloseReason, Event, MessageId, MessagePart, PathId, PathRequestError,
    SendError as CoreError, SendOptions, StreamId, StreamStats, Timestamp,
};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::driver::association::{Shared, State};
use crate::error::{RecvError, SendError, ShutdownError};
use crate::message::Message;
use crate::senders::Place;

/// An association: a two-way connection of many streams that carry messages. Cheap to clone; every method takes
/// `&self`, so that some tasks may send while others receive.
///
/// When the last handle is dropped the association is shut down in order in the background: what was sent still
/// arrives, what comes is dropped. Dropping it returns at once; the association is over within the bound of
/// [`Association::shutdown`], which does the same and tells when it is done. [`Association::abort`] ends it at once.
///
/// If the code of an association panics, the association is over ([`CloseReason::InternalError`]), and every other one goes
/// on. A call that panicked itself unwinds in the task that made it.
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
        // Whoever drops it has nothing to do with a panic in its code.
        let _ = self.shared.try_with(|state, now| {
            state.abandoned = true;
            if state.established {
                state.core.shutdown(now);
            } else if state.closed.is_none() {
                state.core.abort(now, Bytes::from_static(b"given up"));
            }
        });
    }
}

/// A sender that waits for room.
struct Waiting<'a> {
    shared: &'a Shared,
    place: Place,
    notice: Arc<Notify>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.let_go(self.place);
    }
}

/// Gives a message to the core, for a sender that stands at `place` or has just come. Room is for those that stand before
/// it; without room, the core alone knows whether a message that gives way makes some.
fn give(
    state: &mut State,
    now: Timestamp,
    stream: StreamId,
    place: Option<Place>,
    work: impl FnOnce(&mut State, Timestamp) -> Result<MessageId, CoreError>,
) -> Result<MessageId, SendError> {
    let behind = match place {
        Some(place) => !state.senders.is_next(place),
        None => state.senders.has_before(state.core.stream_priority(stream)),
    };
    if behind && state.core.has_room() {
        state.senders.wake_next();
        return Err(SendError::BufferFull);
    }
    match work(state, now) {
        Ok(id) => {
            state.dry = false;
            Ok(id)
        }
        Err(CoreError::BufferFull) => Err(SendError::BufferFull),
        Err(CoreError::Closed) => match &state.closed {
            Some(reason) => Err(SendError::Closed(reason.clone())),
            None => Err(SendError::ShuttingDown),
        },
        Err(error) => Err(SendError::Message(error)),
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
    /// Several tasks that wait are served by the priority of their streams
    /// ([`Association::set_stream_priority`], as it was when they began to wait), and by equal priority in the order in which
    /// they came: a task that sends in a loop takes no more than its turns.
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
        self.when_room(stream, |state, now| {
            state.core.send(now, stream, message.clone(), options)
        })
        .await
    }

    /// Sends a message if there is room in the send buffer that no task waits for whose stream is as urgent.
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
        let work = |state: &mut State, now| state.core.send(now, stream, message, options);
        self.shared()
            .with_later(|state, now| give(state, now, stream, None, work))
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
        self.when_room(stream, |state, now| {
            state.core.send_part(now, stream, part.clone(), options, end)
        })
        .await
    }

    /// Gives a message, or a part of one, when it is its sender's turn and there is room.
    async fn when_room(
        &self,
        stream: StreamId,
        mut work: impl FnMut(&mut State, Timestamp) -> Result<MessageId, CoreError>,
    ) -> Result<MessageId, SendError> {
        // Without it a task that sends in a loop would never let others run.
        tokio::task::consume_budget().await;
        let mut waiting: Option<Waiting<'_>> = None;
        loop {
            let attempt = |state: &mut State, now| {
                let place = waiting.as_ref().map(|waiting| waiting.place);
                let answer = give(state, now, stream, place, &mut work);
                let entered = (answer == Err(SendError::BufferFull) && place.is_none())
                    .then(|| state.senders.enter(state.core.stream_priority(stream)));
                (answer, entered)
            };
            let (answer, entered) = self.shared().with_later(attempt);
            if answer != Err(SendError::BufferFull) {
                return answer;
            }
            if let Some((place, notice)) = entered {
                let shared = self.shared();
                waiting = Some(Waiting {
                    shared,
                    place,
                    notice,
                });
            }
            if let Some(waiting) = &waiting {
                waiting.notice.notified().await;
            }
        }
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
        mut take: impl FnMut(&mut State, Timestamp) -> Result<Option<T>, RecvError>,
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
        take: impl FnMut(&mut State, Timestamp) -> Result<Option<T>, RecvError>,
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
    /// [`Reliability`](crate::Reliability) says. As long as the peer answers, that has no bound: it may keep its receive window
    /// closed.
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
    /// Returns within `Config::shutdown_guard` (T5-shutdown-guard, 5 · `RTO.Max` = 300 s by default), which begins with the call,
    /// and anew whenever the peer has acknowledged 64 KiB more, or all: then the association is aborted, and the error is
    /// [`CloseReason::ShutdownTimedOut`]. Dropping the future does not take the shutdown back.
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
