//! The errors that calls return, and the reasons why associations end.

use std::net::SocketAddr;

use anabranch_proto::CloseReason;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This crate cannot do it.
    #[error("not supported")]
    ErrUnimplemented,
    /// The stream exists already.
    #[error("the stream exists already")]
    ErrStreamAlreadyExist,
    /// A former stream with this identifier is being reset.
    #[error("a former stream with this identifier is being reset")]
    ErrStreamResetPending,
    /// The association has no stream with this identifier.
    #[error("the association has too few streams for this identifier")]
    ErrStreamCreateFailed,
    /// There is no such stream.
    #[error("there is no such stream")]
    ErrStreamNotExisted,
    /// The stream is closed in this direction.
    #[error("the stream is closed")]
    ErrStreamClosed,
    /// A stream can be reset only while the association is established.
    #[error("a stream can be reset only while the association is established")]
    ErrResetPacketInStateNotExist,
    /// A shutdown needs an established association.
    #[error("the association is not established")]
    ErrShutdownNonEstablished,
    /// The peer did not answer the INIT.
    #[error("the peer did not answer the INIT or the COOKIE ECHO")]
    ErrHandshakeInitAck,
    /// The association ended during its set-up for another reason.
    #[error("the set-up failed")]
    ErrAssociationInitFailed,
    /// The message is longer than the peer accepts.
    #[error("the message is longer than the peer accepts")]
    ErrOutboundPacketTooLarge,
    /// The peer sent a message that is longer than this endpoint accepts.
    #[error("the peer sent a message that is longer than the limit")]
    ErrInboundPacketTooLarge,
    /// The buffer is shorter than the message.
    #[error("the buffer is shorter than the message")]
    ErrShortBuffer,
    /// Another error, for layers above.
    #[error("{0}")]
    Other(String),
}

/// Why an association ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AssociationError {
    /// The set-up failed.
    #[error("{0}")]
    HandshakeFailed(#[from] Error),
    /// The peer violated the protocol.
    #[error("the peer violated the protocol")]
    TransportError,
    /// The peer began more messages than the receive buffer holds, and ended none.
    #[error("incomplete messages filled the receive buffer")]
    ReceiveBufferExhausted,
    /// A graceful shutdown.
    #[error("the association was shut down")]
    AssociationClosed,
    /// The peer aborted the association.
    #[error("the peer aborted the association")]
    ApplicationClosed,
    /// The peer restarted, and has forgotten the streams.
    #[error("the peer restarted")]
    Reset,
    /// The peer stopped answering.
    #[error("the peer stopped answering")]
    TimedOut,
    /// This side closed the association.
    #[error("this side closed the association")]
    LocallyClosed,
}

impl AssociationError {
    pub(crate) fn of(reason: &CloseReason, was_connected: bool) -> Self {
        match reason {
            CloseReason::SetUpTimedOut => Error::ErrHandshakeInitAck.into(),
            CloseReason::Aborted => Self::LocallyClosed,
            _ if !was_connected => Error::ErrAssociationInitFailed.into(),
            CloseReason::Shutdown => Self::AssociationClosed,
            CloseReason::AbortedByPeer(_) => Self::ApplicationClosed,
            CloseReason::Unreachable | CloseReason::ShutdownTimedOut => Self::TimedOut,
            _ => Self::TransportError,
        }
    }
}

/// Why [`crate::Endpoint::connect`] failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The port of the address is 0.
    #[error("the address {0} has no port")]
    InvalidRemoteAddress(SocketAddr),
    /// An SCTP port is 0.
    #[error("an SCTP port must not be 0")]
    InvalidSctpPort,
    /// The association was to begin with SNAP.
    #[error(transparent)]
    Snap(#[from] SnapError),
    /// The core refused.
    #[error(transparent)]
    Core(#[from] anabranch_proto::ConnectError),
}

/// Why an association cannot begin with SNAP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapError {
    /// Anabranch sets up each association by the handshake of SCTP.
    #[error("SNAP is not supported: set up the association without it")]
    NotSupported,
}
