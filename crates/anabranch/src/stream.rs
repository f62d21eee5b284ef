//! The handle of one stream.

mod io;
mod options;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anabranch_proto::{
    CloseReason, Event, MessageId, MessagePart, Ppid, ReconfigurationError, Reliability, ResetDirection,
    SchedulingError, SendOptions, StreamId, StreamItem, StreamSelection, StreamStats, Timestamp,
};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::association::Association;
use crate::driver::State;
use crate::error::{RecvError, SendError};
use crate::into_message::IntoMessage;
use crate::message::{Message, Next};
use crate::receipt::Receipt;
pub use io::ByteStream;
pub(crate) use options::option_methods;

/// One stream of an association: [`Association::stream`], [`Association::accept_stream`]. A stream has two directions, and each endpoint numbers
/// its outbound streams from 0, so that a handle sends on the outbound stream and receives from the inbound stream of its number. Cheap to clone;
/// each clone has its own options.
///
/// ```no_run
/// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let positions = association.stream(1).unordered(true).lifetime(Duration::from_millis(100));
/// let orders = association.stream(2);
/// positions.send([1, 2, 3]).await?;
/// orders.send("hold").await?;
/// if let Some(answer) = orders.recv().await? {
///     println!("{answer:?}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Receiving
///
/// From the first call of a method that receives, the messages of the stream come to its handles and no longer to [`Association::recv`]; this
/// holds for messages that have already arrived. When the last handle that received is dropped, they come to [`Association::recv`] again.
/// All streams of an association share one receive window: a stream that nobody reads finally stops the others.
///
/// # As other interfaces
///
/// With the feature `futures`, which is on by default, a handle is a stream (`futures_core::Stream`) of messages and a sink
/// (`futures_sink::Sink`). [`StreamHandle::into_byte_stream`] makes it a
/// [`tokio::io::AsyncRead`] and [`tokio::io::AsyncWrite`].
pub struct StreamHandle {
    association: Association,
    id: StreamId,
    pub(crate) options: SendOptions,
    /// Set by the first call that receives; shared by the clones.
    reader: Arc<OnceLock<Reader>>,
    /// Set by the first call that asks for events; shared by the clones.
    events: Arc<OnceLock<EventReader>>,
    /// For the interfaces in `io`.
    receiving: Pending<Result<Option<Message>, RecvError>>,
    sending: Pending<Result<MessageId, SendError>>,
    resetting: Pending<Result<(), ReconfigurationError>>,
}

/// A future that is polled again and again until it is ready.
type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send + Sync>>>;

/// The messages of the stream come to handles as long as this lives.
struct Reader {
    association: Association,
    id: StreamId,
    readable: Arc<Notify>,
}

impl Reader {
    fn new(association: &Association, id: StreamId) -> Self {
        let readable = association.shared().with(|state, now| {
            let (first, readable) = state.readers.enter(id);
            if first {
                state.core.stream(now, id).set_separate(true);
            }
            readable
        });
        Self {
            association: association.clone(),
            id,
            readable,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let id = self.id;
        // An earlier panic in the association's code must not panic the task that drops the handle.
        let _ = self.association.shared().try_with(|state, now| {
            if state.readers.leave(id) {
                state.core.stream(now, id).set_separate(false);
            }
        });
    }
}

/// The events of the stream come to handles as long as this lives.
struct EventReader {
    association: Association,
    id: StreamId,
}

impl EventReader {
    fn new(association: &Association, id: StreamId) -> Self {
        association.shared().with(|state, _| state.events.enter(id));
        Self {
            association: association.clone(),
            id,
        }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let id = self.id;
        let shared = self.association.shared();
        let _ = shared.try_with(|state, _| state.events.leave(id));
        // A task that waits for the association's events may find them now.
        shared.changed.notify_waiters();
    }
}

impl Clone for StreamHandle {
    fn clone(&self) -> Self {
        Self {
            association: self.association.clone(),
            id: self.id,
            options: self.options,
            reader: Arc::clone(&self.reader),
            events: Arc::clone(&self.events),
            receiving: None,
            sending: None,
            resetting: None,
        }
    }
}

impl fmt::Debug for StreamHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamHandle")
            .field("id", &self.id)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Association {
    /// The handle of a stream: messages are sent with its options, and received from this stream alone.
    pub fn stream(&self, id: impl Into<StreamId>) -> StreamHandle {
        StreamHandle {
            association: self.clone(),
            id: id.into(),
            options: SendOptions::default(),
            reader: Arc::default(),
            events: Arc::default(),
            receiving: None,
            sending: None,
            resetting: None,
        }
    }

    /// The next stream on which the peer has begun to send and that no handle reads; `None` when the association has ended. From the first call
    /// on, all messages come to the handles of their streams, and none to [`Association::recv`]. If the last handle of an accepted stream
    /// is dropped, the peer's next message opens the stream again. Cancel safe.
    pub async fn accept_stream(&self) -> Option<StreamHandle> {
        let take = |state: &mut State, now| {
            // Streams on which messages wait already are told as events: this wakes `changed`, and the next round takes them.
            state.core.separate_new_streams(now, true);
            state.readers.take_opened()
        };
        loop {
            let mut changed = pin!(self.shared().changed.notified());
            changed.as_mut().enable();
            let closed = self.close_reason().is_some();
            if let Some(id) = self.shared().with(take) {
                let handle = self.stream(id);
                handle.reader();
                return Some(handle);
            }
            if closed {
                return None;
            }
            changed.await;
        }
    }
}

option_methods!(StreamHandle, options);

impl StreamHandle {
    /// The number of the stream.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The association of the stream.
    #[must_use]
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// The options of this handle.
    #[must_use]
    pub fn options(&self) -> SendOptions {
        self.options
    }

    /// Sets the priority of the stream for all its handles, as [`Association::set_stream_priority`]: 0, the default, is the highest.
    ///
    /// # Errors
    /// The stream does not exist, or the scheduler of the association has no priorities.
    pub fn set_priority(&self, priority: u16) -> Result<(), SchedulingError> {
        self.association.set_stream_priority(self.id, priority)
    }

    /// Sends a message with the options of this handle. Waits while the stream has no room in the send buffer, for which no other stream is
    /// responsible. Cancel safe: the message is accepted as a whole or not at all.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(&self, message: impl IntoMessage) -> Result<MessageId, SendError> {
        self.association.send_with(self.id, message, self.options).await
    }

    /// Sends a message with other options.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_with(
        &self,
        message: impl IntoMessage,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        self.association.send_with(self.id, message, options).await
    }

    /// As [`StreamHandle::send`], and the receipt tells what becomes of the message: acknowledged, abandoned or failed.
    ///
    /// ```no_run
    /// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let shots = association.stream(1).deadline(Duration::from_millis(100));
    /// let receipt = shots.send_with_receipt("fire").await?;
    /// if !receipt.delivered().await.is_acknowledged() {
    ///     println!("the shot came too late");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_with_receipt(&self, message: impl IntoMessage) -> Result<Receipt, SendError> {
        let message = message.into_message();
        self.association
            .send_confirmed(self.id, message, self.options)
            .await
    }

    /// Sends a message if the stream has room, without waiting.
    ///
    /// # Errors
    /// See [`SendError`]: [`SendError::BufferFull`] if the stream has no room or another task waits for it.
    pub fn try_send(&self, message: impl IntoMessage) -> Result<MessageId, SendError> {
        self.try_send_with(message, self.options)
    }

    /// As [`StreamHandle::try_send`], with other options.
    ///
    /// # Errors
    /// See [`StreamHandle::try_send`].
    pub fn try_send_with(
        &self,
        message: impl IntoMessage,
        options: SendOptions,
    ) -> Result<MessageId, SendError> {
        self.association.try_send_with(self.id, message, options)
    }

    /// Sends a part of a message; see [`Association::send_part`].
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send_part(&self, part: impl IntoMessage, end: bool) -> Result<MessageId, SendError> {
        self.association.send_part(self.id, part, self.options, end).await
    }

    /// Bytes of user data that were sent on this stream and have not left yet: the buffered amount, as of a WebRTC data channel.
    #[must_use]
    pub fn buffered_amount(&self) -> usize {
        self.association.buffered_amount(self.id)
    }

    /// Waits until the buffered amount is at most `threshold` bytes. Returns at once if it is.
    ///
    /// # Errors
    /// [`SendError::Message`] if the stream does not exist, [`SendError::Closed`] if the association
    /// ended without a graceful shutdown.
    pub async fn buffered_amount_low(&self, threshold: usize) -> Result<(), SendError> {
        loop {
            let notice = self.association.shared().with(|state, now| {
                match &state.closed {
                    None | Some(CloseReason::Shutdown) => {}
                    Some(reason) => return Err(SendError::Closed(reason.clone())),
                }
                if state.core.buffered_amount(self.id) <= threshold {
                    return Ok(None);
                }
                let (highest, notice) = state.readers.await_low(self.id, threshold);
                let mut stream = state.core.stream(now, self.id);
                stream
                    .set_buffered_amount_low_threshold(Some(highest))
                    .map_err(SendError::Message)?;
                Ok(Some(notice))
            })?;
            match notice {
                None => return Ok(()),
                Some(notice) => notice.notified().await,
            }
        }
    }

    /// The next event of a message of this stream: it was abandoned, was not delivered, or, if its options ask for it, was acknowledged. `None`
    /// when the association has ended and all events are read. From the first call on, the events of the stream come to its handles and no
    /// longer to [`Association::next_event`]; this holds for events that wait already. [`Event::Missed`] says how many were dropped, because
    /// nobody read them. Cancel safe.
    ///
    /// ```no_run
    /// # async fn example(association: anabranch::Association) {
    /// use anabranch::Event;
    ///
    /// let positions = association.stream(1);
    /// while let Some(event) = positions.next_event().await {
    ///     if let Event::Abandoned(position) = event {
    ///         println!("position {} expired", position.context);
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn next_event(&self) -> Option<Event> {
        self.events
            .get_or_init(|| EventReader::new(&self.association, self.id));
        self.association.next_event_of(Some(self.id)).await
    }

    /// Counters of the outbound stream.
    #[must_use]
    pub fn stats(&self) -> StreamStats {
        self.association.stream_stats(self.id)
    }

    /// Resets the outbound stream (RFC 6525): the peer's handle reads the messages sent before and then the end, `None`. Messages sent later
    /// begin the stream again. Waits while another request waits for its answer; [`Association::next_event`] has the answer to this one.
    ///
    /// # Errors
    /// See [`ReconfigurationError`]: above all, the peer must support it.
    pub async fn reset(&self) -> Result<(), ReconfigurationError> {
        loop {
            let mut changed = pin!(self.association.shared().changed.notified());
            changed.as_mut().enable();
            let streams = StreamSelection::listed([self.id]);
            match self.association.reset_streams(streams, ResetDirection::Outgoing) {
                Err(ReconfigurationError::InProgress) => changed.await,
                answer => return answer,
            }
        }
    }

    /// The next whole message of this stream. `None` if the peer reset the stream (RFC 6525) or restarted, or when the association was shut
    /// down gracefully, after all earlier messages were returned. After a reset, the next call waits for messages of the stream's next use.
    /// Cancel safe.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub async fn recv(&self) -> Result<Option<Message>, RecvError> {
        let limit = self.association.shared().hub.limits.max_joined_message;
        self.when_readable(|state, now, id| state.next_message_of(id, now, limit))
            .await
    }

    /// The next whole message, or the next part of a message, as [`Association::recv_part`]; otherwise as [`StreamHandle::recv`].
    ///
    /// # Errors
    /// [`RecvError::Closed`].
    pub async fn recv_part(&self) -> Result<Option<MessagePart>, RecvError> {
        self.when_readable(|state, now, id| match state.core.stream(now, id).recv() {
            None => Next::Nothing,
            Some(StreamItem::Reset) => Next::End,
            Some(StreamItem::Part(part)) => Next::One(Ok(part)),
        })
        .await
    }

    /// The next whole message if it has arrived, without waiting; otherwise as [`StreamHandle::recv`].
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn try_recv(&self) -> Result<Option<Message>, RecvError> {
        self.reader();
        let limit = self.association.shared().hub.limits.max_joined_message;
        let taken = self
            .association
            .shared()
            .with(|state, now| state.next_message_of(self.id, now, limit));
        match taken {
            Next::One(message) => message.map(Some),
            Next::End | Next::Nothing => Ok(None),
        }
    }

    fn reader(&self) -> &Reader {
        self.reader
            .get_or_init(|| Reader::new(&self.association, self.id))
    }

    async fn when_readable<T>(
        &self,
        mut take: impl FnMut(&mut State, Timestamp, StreamId) -> Next<T>,
    ) -> Result<Option<T>, RecvError> {
        tokio::task::consume_budget().await;
        let reader = self.reader();
        loop {
            let mut readable = pin!(reader.readable.notified());
            readable.as_mut().enable();
            // Read before `take`: messages that arrived before the end can then be taken now.
            let closed = self.association.close_reason();
            match self
                .association
                .shared()
                .with(|state, now| take(state, now, self.id))
            {
                Next::One(answer) => return answer.map(Some),
                Next::End => return Ok(None),
                Next::Nothing => {}
            }
            match closed {
                None => {}
                Some(CloseReason::Shutdown) => return Ok(None),
                Some(reason) => return Err(RecvError::Closed(reason)),
            }
            readable.await;
        }
    }

    fn send_later(&self, message: Bytes) -> Pending<Result<MessageId, SendError>> {
        let (association, id, options) = (self.association.clone(), self.id, self.options);
        Some(Box::pin(async move {
            association.send_with(id, message, options).await
        }))
    }

    fn reset_later(&self) -> Pending<Result<(), ReconfigurationError>> {
        let handle = self.clone();
        Some(Box::pin(async move { handle.reset().await }))
    }

    fn recv_later(&self) -> Pending<Result<Option<Message>, RecvError>> {
        let handle = self.clone();
        Some(Box::pin(async move { handle.recv().await }))
    }
}
