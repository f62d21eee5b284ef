//! Requests, results and events of stream reconfiguration (RFC 6525), as the application sees them.

use anabranch_wire::StreamId;

/// All streams of a direction, or some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamSelection {
    /// All streams.
    All,
    /// These streams; not empty.
    Listed(Vec<StreamId>),
}

impl StreamSelection {
    /// These streams.
    pub fn listed<S: Into<StreamId>>(streams: impl IntoIterator<Item = S>) -> Self {
        Self::Listed(streams.into_iter().map(Into::into).collect())
    }

    /// Whether a stream is selected.
    #[must_use]
    pub fn contains(&self, stream: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::Listed(streams) => streams.contains(&stream),
        }
    }
}

/// Whose streams to reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetDirection {
    /// The streams from this endpoint to the peer (Outgoing SSN Reset Request, RFC 6525 §4.1).
    Outgoing,
    /// The streams from the peer to this endpoint: the peer is asked to reset them (Incoming SSN Reset Request, RFC 6525 §4.2).
    Incoming,
    /// Both.
    Both,
}

/// A request that the application made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigurationRequest {
    /// Reset of outgoing streams.
    ResetOutgoing,
    /// Reset of incoming streams. If the peer accepts, its own reset follows: [`ReconfigurationEvent::InboundReset`].
    ResetIncoming,
    /// Reset of all TSNs and SSNs.
    ResetAssociation,
    /// More outgoing streams.
    AddOutgoing,
    /// More incoming streams. If the peer accepts, it adds them: [`ReconfigurationEvent::StreamsAdded`].
    AddIncoming,
}

/// The peer's answer to a request (RFC 6525 §4.4, table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconfigurationResult {
    /// 0: nothing was left to do.
    NothingToDo,
    /// 1: performed.
    Performed,
    /// 2: the peer denied the request.
    Denied,
    /// 3: a stream does not exist.
    WrongSsn,
    /// 4: the peer has a request of its own in progress. The request may be made again.
    AlreadyInProgress,
    /// 5: the peer expected another request sequence number.
    BadSequenceNumber,
    /// Above 6: an answer that has no meaning.
    Failed(u32),
}

impl ReconfigurationResult {
    pub(crate) fn from_wire(result: u32) -> Self {
        match result {
            0 => Self::NothingToDo,
            1 => Self::Performed,
            2 => Self::Denied,
            3 => Self::WrongSsn,
            4 => Self::AlreadyInProgress,
            5 => Self::BadSequenceNumber,
            other => Self::Failed(other),
        }
    }

    /// Whether the peer performed the request, or had nothing to do.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::NothingToDo | Self::Performed)
    }
}

/// A change of the streams (RFC 6525 §6.1). A restart of the peer and the end of the association drop a request without an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconfigurationEvent {
    /// The peer reset these of its streams to this endpoint. Messages of these streams whose number ([`crate::MessagePart::message`]) is
    /// below `first_message` were sent before the reset, the others after it.
    InboundReset {
        /// The streams.
        streams: StreamSelection,
        /// The number of the first message after the reset.
        first_message: u64,
    },
    /// These streams to the peer were reset because the peer asked for it. Messages given to `send` from then on begin with SSN 0.
    OutboundReset {
        /// The streams.
        streams: StreamSelection,
    },
    /// TSNs and SSNs of both directions were reset, at the request of either endpoint.
    AssociationReset {
        /// The number of the first message after the reset, as in [`ReconfigurationEvent::InboundReset`].
        first_message: u64,
    },
    /// The number of streams grew.
    StreamsAdded {
        /// Streams to the peer now.
        outbound_streams: u16,
        /// Streams from the peer now.
        inbound_streams: u16,
    },
    /// The peer answered a request of this endpoint's application.
    Answered {
        /// The request.
        request: ReconfigurationRequest,
        /// The answer.
        result: ReconfigurationResult,
    },
}

/// Why a request was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReconfigurationError {
    /// Set-up is not complete yet.
    #[error("the association is not set up yet: wait until it is established")]
    NotEstablished,
    /// The association is shutting down, or has ended.
    #[error("the association is shutting down or closed")]
    Closed,
    /// The peer does not support stream reconfiguration, or this endpoint does not offer it (RFC 6525 §5.1.1).
    #[error("stream reconfiguration was not negotiated with the peer: both endpoints must offer it")]
    NotSupported,
    /// Another request waits for its answer: at most one may be in flight (RFC 6525 §5.1.1). Its event
    /// [`ReconfigurationEvent::Answered`] tells when the next may be made.
    #[error("another request waits for its answer: try again after the event `Answered`")]
    InProgress,
    /// A listed stream does not exist.
    #[error("stream {0} does not exist")]
    InvalidStream(StreamId),
    /// The list of streams is empty, or the number of streams to add is 0.
    #[error("the request names no stream")]
    Empty,
    /// More streams are listed than one packet holds.
    #[error("at most {limit} streams fit a request: make several requests, or reset all streams")]
    TooManyStreams {
        /// The most streams of a request.
        limit: usize,
    },
    /// There would be more than 65,535 streams of a direction, or more inbound streams than `Config::streams.max_inbound`.
    #[error(
        "an association cannot have so many streams: at most 65,535 in each direction, and inbound `streams.max_inbound`"
    )]
    TooManyAdded,
    /// A reset of the TSNs is not possible with ECA-SCTP, or the last one was less than 30 s ago (RFC 6525 §5.1.4).
    #[error(
        "the TSNs cannot be reset now: wait 30 s after the last reset; with ECA-SCTP they are never reset"
    )]
    AssociationReset,
}
