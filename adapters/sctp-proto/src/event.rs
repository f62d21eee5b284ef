//! The events of associations and streams, and those that endpoints and associations exchange.

use std::time::Instant;

use anabranch_proto as proto;
use proto::Inbound;

use crate::error::AssociationError;

/// The number of a stream.
pub type StreamId = u16;

/// An event of an association.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The association is established.
    Connected,
    /// The association ended before it was established.
    HandshakeFailed {
        /// Why.
        reason: AssociationError,
    },
    /// The association has ended. Messages that have arrived can still be read.
    AssociationLost {
        /// Why.
        reason: AssociationError,
    },
    /// An event of a stream.
    Stream(StreamEvent),
    /// A stream was removed: its last statistics.
    DataChannelStatsFinal(DataChannelStats),
}

/// An event of a stream.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened the stream.
    Opened {
        /// The stream.
        id: StreamId,
    },
    /// The stream has something to read, perhaps a part of a message alone.
    Readable {
        /// The stream.
        id: StreamId,
    },
    /// Never sent, because a stream always takes messages: see [`StreamEvent::BufferedAmountLow`].
    Writable {
        /// The stream.
        id: StreamId,
    },
    /// The peer reset the stream, all its messages were read, and the stream is removed.
    Finished {
        /// The stream.
        id: StreamId,
    },
    /// The stream was reset in both directions: its number is free.
    ResetComplete {
        /// The stream.
        id: StreamId,
    },
    /// The peer did not perform the reset of the stream.
    ResetFailed {
        /// The stream.
        id: StreamId,
        /// Why.
        reason: StreamResetError,
    },
    /// Never sent: SCTP has no message by which a peer asks for it.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The cause.
        error_code: ErrorCauseCode,
    },
    /// The buffered amount fell to its low threshold or below.
    BufferedAmountLow {
        /// The stream.
        id: StreamId,
    },
    /// The buffered amount reached its high threshold.
    BufferedAmountHigh {
        /// The stream.
        id: StreamId,
    },
}

/// The code of an error cause (RFC 9260 §3.3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCauseCode(pub u16);

/// Why a stream was not reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamResetError {
    /// The peer denied it, also when asked again.
    #[error("the peer denied the reset of the stream")]
    Denied,
    /// The peer does not support stream resets, or answered with another error.
    #[error("the peer does not support the reset of streams, or answered with an error")]
    Failed,
}

/// Messages of a stream since it was opened: those of RFC 8831 without the announcements of channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataChannelStats {
    /// The stream.
    pub stream_identifier: StreamId,
    /// How many streams the association had before it.
    pub generation: u64,
    /// Messages given to this side to be sent.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages read.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
}

/// A datagram for an association: [`crate::Association::handle_event`].
#[derive(Debug)]
pub struct AssociationEvent {
    pub(crate) now: Instant,
    pub(crate) packet: Inbound,
}

/// An event of an association for its endpoint: [`crate::Endpoint::handle_event`].
#[derive(Debug)]
pub struct EndpointEvent(pub(crate) proto::EndpointEvent);

impl EndpointEvent {
    /// The event of an association that the caller drops before its end.
    #[must_use]
    pub fn drained() -> Self {
        Self(proto::EndpointEvent::Closed)
    }

    /// Whether this is the last event of its association.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        matches!(
            self.0,
            proto::EndpointEvent::Closed | proto::EndpointEvent::ShutDown { .. }
        )
    }
}
