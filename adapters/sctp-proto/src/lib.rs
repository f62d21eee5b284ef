//! Anabranch with the interface of the crate `sctp-proto` 0.10, for programs that are built on it, above all on `str0m`. The README says what
//! differs from `sctp-proto`.
//!
//! As with `sctp-proto`, the caller owns time and packets. It passes datagrams to [`Endpoint::handle`], and after each call that changes an
//! association it takes what [`Endpoint::poll_transmit`], [`Association::poll_transmit`] and [`Association::poll`] return, until `None`.
//! Calls without a time happen at the time of the last call that had one, and a message written happens at the time of the next one.
//!
//! [`set_default_transport`] sets the settings of Anabranch for callers that a program cannot reach, as the one in `str0m`.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod association;
mod clock;
mod config;
mod endpoint;
mod error;
mod event;
mod message;
mod packet;
mod resets;
mod stream;

pub use anabranch_proto;
pub use association::Association;
pub use config::{
    ClientConfig, DEFAULT_SCTP_PORT, EndpointConfig, ServerConfig, TransportConfig, generate_snap_token,
    set_default_transport,
};
pub use endpoint::{AssociationHandle, DatagramEvent, Endpoint};
pub use error::{AssociationError, ConnectError, Error, SnapError};
pub use event::{
    AssociationEvent, DataChannelStats, EndpointEvent, ErrorCauseCode, Event, StreamEvent, StreamId,
    StreamResetError,
};
pub use message::{Chunk, Chunks, PayloadProtocolIdentifier};
pub use packet::{EcnCodepoint, Payload, Side, Transmit};
pub use stream::{ReliabilityType, Stream};
