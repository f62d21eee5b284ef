//! The handle of an association: sending, receiving, events and the end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use anabranch_proto::{
    AssociationState, AssociationStats, CloseReason, Event, MessageId, MessagePart, PathId, PathRequestError,
    PathSettings, ReconfigurationError, ResetDirection, SendError as CoreError, SendOptions, StreamId,
    StreamSelection, StreamStats, Timestamp,
};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::driver::{Shared, State};
use crate::dscp;
use crate::error::{RecvError, SendError, ShutdownError};
use crate::into_message::IntoMessage;
use crate::message::Message;
use crate::receipt::Receipt;
use crate::senders::Place;

/// An association: a two-way connection with many streams of messages. Cheap to clone. Every method takes `&self`, so
/// that some tasks can send while others receive.
///
/// Dropping the last handle returns at once and shuts the association down gracefully in the background: sent messages
/// still arrive, received messages are dropped. The association ends within the time limit of [`Association::shutdown`],
/// which does the same and returns when the association has ended. [`Association::abort`] ends it at once.
///
/// If the protocol code of an association panics, this association ends with [`CloseReason::InternalError`], and all other
/// associations continue. A panic during a method call unwinds in the calling task.
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
        self.shared.abandon();
    }
}

/// A task that waits for room in the send buffer.
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

/// Gives a message to the core, for a task that waits at `place` or has just called. Tasks before it in the queue of its stream take
/// free room first. If there is none, only the core knows whether abandoning a message of lower priority makes room.
fn give<R>(
    state: &mut State,
    now: Timestamp,
    stream: StreamId,
    place: Option<Place>,
    work: impl FnOnce(&mut State, Timestamp) -> Result<R, CoreError>,
) -> Result<R, SendError> {
    let behind = match place {
        Some(place) => !state.senders.is_next(place),
        None => state.senders.has_any(stream),
    };
    if behind && state.core.has_room(stream) {
        state.senders.wake_next(stream);
        return Err(SendError::BufferFull);
    }
    match work(state, now) {
        Ok(sent) => {
            state.dry = false;
            Ok(sent)
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

    /// Sends an ordered message on a stream. Waits while the send buffer is full; see [`Association::send_with`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
    ) -> Result<MessageId, SendError> {
        self.send_with(stream, message, SendOptions::default()).await
    }

    /// Sends a message on a stream with options: a payload protocol identifier, unordered delivery, a context for events,
    /// and partial reliability ([`Reliability`](crate::Reliability)). Returns when the message is in the send buffer
    /// (`Config::buffers.send`); while the buffer is full, it waits. [`Association::drained`] waits for the acknowledgement.
    /// Cancel safe: the message is accepted as a whole or not at all.
    ///
    /// The tasks that wait on one stream are served in the order of their calls, so that a task that sends in a loop does not starve the
    /// others. A stream that has filled its share of the send buffer delays no other stream.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_with(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        let (stream, message) = (stream.into(), message.into_message());
        self.when_room(stream, |state, now| {
            state.core.send(now, stream, message.clone(), options)
        })
        .await
    }

    /// As [`Association::send`], and the receipt tells what becomes of the message: acknowledged, abandoned or failed. A receipt of a message
    /// with options comes from the handle of the stream: [`StreamHandle::send_with_receipt`](crate::StreamHandle::send_with_receipt).
    ///
    /// ```no_run
    /// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
    /// let receipt = association.send_with_receipt(1, "hold").await?;
    /// println!("{}", receipt.delivered().await);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_with_receipt(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
    ) -> Result<Receipt, SendError> {
        self.send_confirmed(stream.into(), message.into_message(), SendOptions::default())
            .await
    }

    /// Sends a message whose acknowledgement is told to its receipt.
    pub(crate) async fn send_confirmed(
        &self,
        stream: StreamId,
        message: Bytes,
        options: SendOptions,
    ) -> Result<Receipt, SendError> {
        let options = options.confirm(true);
        self.when_room(stream, |state, now| {
            let id = state.core.send(now, stream, message.clone(), options)?;
            Ok(state.receipts.issue(id))
        })
        .await
    }

    /// Sends an ordered message without waiting, if the stream has room in the send buffer and no other task waits for it.
    ///
    /// # Errors
    /// See [`SendError`]: [`SendError::BufferFull`] if the stream has no room or another task waits for it.
    pub fn try_send(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
    ) -> Result<MessageId, SendError> {
        self.try_send_with(stream, message, SendOptions::default())
    }

    /// As [`Association::try_send`], with the options of [`Association::send_with`].
    ///
    /// # Errors
    /// See [`Association::try_send`].
    pub fn try_send_with(
        &self,
        stream: impl Into<StreamId>,
        message: impl IntoMessage,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        let (stream, message) = (stream.into(), message.into_message());
        let work = |state: &mut State, now| state.core.send(now, stream, message, options);
        self.shared()
            .with_later(|state, now| give(state, now, stream, None, work))
    }

    /// Sends a part of a message on a stream: the first part begins the message, the part with `end` ends it. A message
    /// can thus be larger than memory. Until the message has ended, its stream accepts no other message; other streams
    /// do. The options of the first part apply to the whole message.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_part(
        &self,
        stream: impl Into<StreamId>,
        part: impl IntoMessage,
        options: SendOptions,
        end: bool,
    ) -> Result<MessageId, SendError> {
        let (stream, part) = (stream.into(), part.into_message());
        self.when_room(stream, |state, now| {
            state.core.send_part(now, stream, part.clone(), options, end)
        })
        .await
    }

    /// Gives a message or a part to the core when the send buffer has room and this task is the next in the queue.
    async fn when_room<R>(
        &self,
        stream: StreamId,
        mut work: impl FnMut(&mut State, Timestamp) -> Result<R, CoreError>,
    ) -> Result<R, SendError> {
        // Without this call, a task that sends in a loop would never let other tasks run.
        tokio::task::consume_budget().await;
        let mut waiting: Option<Waiting<'_>> = None;
        loop {
            let attempt = |state: &mut State, now| {
                let place = waiting.as_ref().map(|waiting| waiting.place);
                let answer = give(state, now, stream, place, &mut work);
                let full = matches!(answer, Err(SendError::BufferFull));
                let entered = (full && place.is_none()).then(|| state.senders.enter(stream));
                (answer, entered)
            };
            let (answer, entered) = self.shared().with_later(attempt);
            if !matches!(answer, Err(SendError::BufferFull)) {
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

    /// The next whole message; `None` when the association was shut down gracefully and all messages are read. Messages
    /// that are delivered in parts (see `Config::buffers.partial_delivery_point`) are joined, up to
    /// [`EndpointBuilder::max_joined_message`](crate::EndpointBuilder::max_joined_message); use
    /// [`Association::recv_part`] for larger messages. Unread messages fill the receive window, and the peer then stops
    /// sending. Cancel safe.
    ///
    /// Messages that the sender abandoned (RFC 3758) are never returned, not even if a part had arrived.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub async fn recv(&self) -> Result<Option<Message>, RecvError> {
        let limit = self.shared().hub.limits.max_joined_message;
        self.when_readable(|state, now| state.next_message(now, limit).transpose())
            .await
    }

    /// The next whole message, or the next part of a message; `None` when the association was shut down gracefully and
    /// all messages are read. The parts of a message arrive in order. Messages of other streams may arrive between them:
    /// [`MessagePart::message`] identifies the message of a part. A message that its sender abandons half-way ends with an
    /// empty part with [`MessagePart::truncated`]. Use either this method or [`Association::recv`]. Cancel safe.
    ///
    /// # Errors
    /// [`RecvError::Closed`].
    pub async fn recv_part(&self) -> Result<Option<MessagePart>, RecvError> {
        self.when_readable(|state, now| Ok(state.core.recv(now))).await
    }

    /// The next whole message if it has arrived, without waiting; otherwise like [`Association::recv`].
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

    /// `None` if nothing has arrived yet and the association has not ended.
    fn take_or_end<T>(
        &self,
        take: impl FnMut(&mut State, Timestamp) -> Result<Option<T>, RecvError>,
    ) -> Option<Result<Option<T>, RecvError>> {
        // Read before `take`: messages that arrived before the end can then be taken now.
        let closed = self.shared().read(|state| state.closed.clone());
        match (self.shared().with(take), closed) {
            (Ok(None), None) => None,
            (Ok(None), Some(CloseReason::Shutdown)) => Some(Ok(None)),
            (Ok(None), Some(reason)) => Some(Err(RecvError::Closed(reason))),
            (taken, _) => Some(taken),
        }
    }

    /// Waits until the peer has acknowledged every sent message, or the message is abandoned by its
    /// [`Reliability`](crate::Reliability). There is no time limit while the peer answers, because the peer may keep its
    /// receive window closed.
    ///
    /// # Errors
    /// The association ended earlier without a graceful shutdown.
    pub async fn drained(&self) -> Result<(), ShutdownError> {
        self.when_changed(|state| match (&state.closed, state.dry) {
            (_, true) => Some(Ok(())),
            (Some(CloseReason::Shutdown), _) => Some(Ok(())),
            (Some(reason), _) => Some(Err(ShutdownError(reason.clone()))),
            (None, false) => None,
        })
        .await
    }

    /// The next event: a path changed, a message was not delivered or was abandoned ([`Event::Abandoned`], with its id, its
    /// context and whether any chunk of it was sent), the peer restarted, shut down or sent an ERROR, streams were reset or added
    /// ([`Event::Reconfiguration`]). `None` when the
    /// association has ended and all events are read. Events that other methods report ([`Event::Established`], `Readable`,
    /// `Writable`, `Dry`, `Closed`) are not returned. The association keeps the last 16,384 events, and the first 64 KiB of
    /// the peer's ERRORs; [`Event::Missed`] says how many it dropped. [`Association::stats`] also counts abandoned messages. Cancel safe.
    /// [`StreamHandle::next_event`](crate::StreamHandle::next_event) has the events of one stream.
    pub async fn next_event(&self) -> Option<Event> {
        self.next_event_of(None).await
    }

    /// The next event of the association, or of a stream whose events a handle reads.
    pub(crate) async fn next_event_of(&self, stream: Option<StreamId>) -> Option<Event> {
        loop {
            let mut changed = pin!(self.shared().changed.notified());
            changed.as_mut().enable();
            let (event, closed) = self
                .shared()
                .with(|state, _| (state.events.pop(stream), state.closed.is_some()));
            if event.is_some() || closed {
                return event;
            }
            changed.await;
        }
    }

    /// Resets streams (RFC 6525): their message numbers begin again, and the application that receives on them is told. Messages sent
    /// before are delivered first; messages sent afterwards wait until the peer has answered. The answer is an event,
    /// [`ReconfigurationEvent::Answered`](crate::ReconfigurationEvent::Answered); a reset by the peer is
    /// [`ReconfigurationEvent::InboundReset`](crate::ReconfigurationEvent::InboundReset).
    ///
    /// ```no_run
    /// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{ResetDirection, StreamSelection};
    ///
    /// association.reset_streams(StreamSelection::listed([3, 4]), ResetDirection::Outgoing)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ReconfigurationError`]: above all, one request at a time may wait for its answer.
    pub fn reset_streams(
        &self,
        streams: StreamSelection,
        direction: ResetDirection,
    ) -> Result<(), ReconfigurationError> {
        self.shared()
            .with(|state, now| state.core.reconfigure(now).reset_streams(streams, direction))
    }

    /// Adds streams (RFC 6525): `outgoing` to the peer, and asks the peer to add `incoming` in the other direction. They may be used after
    /// the event [`ReconfigurationEvent::StreamsAdded`](crate::ReconfigurationEvent::StreamsAdded).
    ///
    /// # Errors
    /// See [`ReconfigurationError`].
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigurationError> {
        self.shared()
            .with(|state, now| state.core.reconfigure(now).add_streams(outgoing, incoming))
    }

    /// Resets the TSNs and all message numbers of both directions (RFC 6525 §5.1.4), when nothing is outstanding any more. At most once in
    /// 30 s.
    ///
    /// # Errors
    /// See [`ReconfigurationError`].
    pub fn reset_association(&self) -> Result<(), ReconfigurationError> {
        self.shared()
            .with(|state, now| state.core.reconfigure(now).reset_association())
    }

    /// Shuts the association down gracefully (SHUTDOWN, RFC 9260 §9.2): accepts no more messages, and returns when each
    /// side has acknowledged all data of the other. Another task can receive messages meanwhile, and afterwards. If the
    /// peer's data does not fit the receive window and is not read, the shutdown waits until `Config::shutdown_guard`.
    ///
    /// The time limit is `Config::shutdown_guard` (T5-shutdown-guard, 5 s by default). It starts with the call, and again whenever the peer
    /// has acknowledged another 200 bytes for each of its seconds, or all data. When it expires, the association is aborted, and the
    /// error is [`CloseReason::ShutdownTimedOut`]. If the peer may pause longer, or has much to send itself, wait for
    /// [`Association::drained`] or receive its messages before the call. Dropping the future does not cancel the shutdown.
    ///
    /// # Errors
    /// The association ended in another way.
    pub async fn shutdown(&self) -> Result<(), ShutdownError> {
        self.shared().with(|state, now| state.core.shutdown(now));
        match self.closed().await {
            CloseReason::Shutdown => Ok(()),
            reason => Err(ShutdownError(reason)),
        }
    }

    /// Ends the association at once (ABORT, RFC 9260 §9.1): undelivered messages are lost. The peer's application gets at
    /// most 1,024 bytes of `reason`.
    pub fn abort(&self, reason: impl Into<Bytes>) {
        let reason = reason.into();
        self.shared().with(|state, now| state.core.abort(now, reason));
    }

    /// Waits until the association has ended, and returns the reason.
    pub async fn closed(&self) -> CloseReason {
        self.when_changed(|state| state.closed.clone()).await
    }

    /// The reason why the association ended; `None` before the end.
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

    /// The fingerprint of the peer's certificate, if the endpoint encrypts with DTLS ([`EndpointBuilder::dtls`](crate::EndpointBuilder::dtls)).
    /// It is that of the first packet from the peer, and never changes: packets with another certificate are not the peer's.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn peer_fingerprint(&self) -> Option<anabranch_dtls::Fingerprint> {
        self.shared().bond.certificate()
    }

    /// The certificate or public key that the peer showed, if the endpoint encrypts in DTLS chunks
    /// ([`EndpointBuilder::secure`](crate::EndpointBuilder::secure)). It does not change while the association lasts.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn peer_identity(&self) -> Option<anabranch_tls::PeerIdentity> {
        self.shared()
            .read(|state| state.keys.as_ref().and_then(|keys| keys.peer().cloned()))
    }

    /// The operating system's last error in sending to the peer, if no packet was sent since.
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

    /// Counters and state variables of the association and its paths.
    #[must_use]
    pub fn stats(&self) -> AssociationStats {
        self.shared().read(|state| state.core.stats())
    }

    /// Bytes of user data that were given to `send` on this stream and not sent yet: the buffered amount, as of a WebRTC data channel.
    #[must_use]
    pub fn buffered_amount(&self, stream: impl Into<StreamId>) -> usize {
        let stream = stream.into();
        self.shared().read(|state| state.core.buffered_amount(stream))
    }

    /// Counters of an outbound stream; zero if no message was sent on it.
    #[must_use]
    pub fn stream_stats(&self, stream: impl Into<StreamId>) -> StreamStats {
        let stream = stream.into();
        self.shared().read(|state| state.core.stream_stats(stream))
    }

    /// The state of the association (RFC 9260 §4).
    #[must_use]
    pub fn state(&self) -> AssociationState {
        self.shared().read(|state| state.core.state())
    }

    /// The number of outbound streams, which are numbered from 0.
    #[must_use]
    pub fn outbound_streams(&self) -> u16 {
        self.shared().read(|state| state.core.outbound_streams())
    }

    /// The peer's address and UDP port on the primary path.
    #[must_use]
    pub fn remote_addr(&self) -> SocketAddr {
        self.shared().read(|state| state.core.remote_address())
    }

    /// The local and the remote SCTP port.
    #[must_use]
    pub fn ports(&self) -> (u16, u16) {
        self.shared().read(|state| state.core.ports())
    }

    /// Makes this path the primary path: new data uses it from now on while it is active.
    ///
    /// # Errors
    /// The path does not exist, or its address is not confirmed.
    pub fn set_primary_path(&self, path: PathId) -> Result<(), PathRequestError> {
        self.shared().with(|state, _| state.core.set_primary_path(path))
    }

    /// Changes settings of one path (RFC 6458 §8.1.12): heartbeats, path MTU, maximum retransmissions, DSCP. [`Association::stats`] has the settings
    /// in use.
    ///
    /// ```no_run
    /// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{PathHeartbeats, PathId, PathMtu, PathSettings};
    /// use std::time::Duration;
    ///
    /// let settings = PathSettings::default()
    ///     .heartbeats(PathHeartbeats::Every(Duration::from_secs(5)))
    ///     .path_mtu(PathMtu::Fixed(1400))
    ///     .max_retrans(2);
    /// association.set_path(PathId(1), &settings)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The path does not exist, or a setting is out of range.
    pub fn set_path(&self, path: PathId, settings: &PathSettings) -> Result<(), PathRequestError> {
        dscp::check(settings.dscp.unwrap_or_default())?;
        self.shared()
            .with(|state, now| state.core.set_path(now, path, settings))
    }

    /// Sends a HEARTBEAT on this path now; [`Association::stats`] shows the measured round-trip time.
    ///
    /// # Errors
    /// The path does not exist.
    pub fn request_heartbeat(&self, path: PathId) -> Result<(), PathRequestError> {
        self.shared()
            .with(|state, now| state.core.request_heartbeat(now, path))
    }
}
