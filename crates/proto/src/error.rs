//! Errors of the caller, one type for each operation. Errors of the peer are answered by the protocol and reported as an
//! [`crate::Event`].

use anabranch_wire::StreamId;

use crate::config::SchedulerKind;

/// Why `send` did not accept a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stream has filled its share of the send buffer; call again after [`crate::Event::Writable`].
    #[error("the send buffer is full: wait until the stream is writable")]
    BufferFull,
    /// The message is larger than `Config::buffers.max_message`.
    #[error(
        "a message of {size} bytes is larger than the limit of {limit}: send it in parts, or raise `buffers.max_message`"
    )]
    TooLarge {
        /// Length of the message in bytes.
        size: usize,
        /// `Config::buffers.max_message`.
        limit: usize,
    },
    /// SCTP has no empty messages (RFC 9260 §3.3.1).
    #[error("a message must have at least one byte")]
    Empty,
    /// The stream does not exist: fewer streams were negotiated.
    #[error("stream {stream} does not exist: the association has {streams} outbound streams")]
    InvalidStream {
        /// The stream asked for.
        stream: StreamId,
        /// Outbound streams negotiated.
        streams: u16,
    },
    /// The stream has a message that was begun with `send_part` and has not ended yet.
    #[error("stream {0} has an unfinished message: end it with send_part first")]
    MessageOpen(StreamId),
    /// The options name a path that does not exist.
    #[error("there is no path {0}: choose one that the statistics of the association list, or none")]
    UnknownPath(u8),
    /// The packets of the association are going to be encrypted, and no keys are installed yet.
    #[error("the association is not protected yet: wait for the event Protected")]
    NotProtected,
    /// The payload protocol identifier 4242 on stream 0 is that of key management.
    #[error(
        "messages of stream 0 with the payload protocol identifier 4242 are for key management: choose another one"
    )]
    KeyManagement,
    /// The association is shutting down, or has ended.
    #[error("the association takes no more messages: it is shutting down or closed")]
    Closed,
}

/// Why a key was not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Packets of the association are not protected.
    #[error("DTLS chunks were not negotiated")]
    NotNegotiated,
    /// Epochs begin at 3, and follow each other.
    #[error("the next key has the epoch {expected}")]
    Epoch {
        /// The epoch of the next key.
        expected: u64,
    },
    /// One of the endpoints keeps no restart keys, or the set-up of the association has gone on too far for a restart.
    #[error("the association cannot be restarted with restart keys")]
    NoRestart,
}

/// Why a stream's priority or weight was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulingError {
    /// The stream does not exist: fewer streams were negotiated.
    #[error("stream {stream} does not exist: the association has {streams} outbound streams")]
    InvalidStream {
        /// The stream asked for.
        stream: StreamId,
        /// Outbound streams negotiated.
        streams: u16,
    },
    /// Only [`SchedulerKind::Priority`] has priorities.
    #[error("the scheduler {0:?} knows no priorities: choose Priority first")]
    NoPriorities(SchedulerKind),
    /// Only [`SchedulerKind::WeightedFairQueueing`] has weights.
    #[error("the scheduler {0:?} knows no weights: choose WeightedFairQueueing first")]
    NoWeights(SchedulerKind),
    /// A weight is at least 1.
    #[error("a weight must be at least 1")]
    ZeroWeight,
}

/// Why the local addresses of an association were not changed (RFC 5061).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The association is not established, or one of the endpoints does not offer dynamic addresses: `Config::dynamic_addresses`.
    #[error(
        "dynamic addresses are not negotiated, or the association is not established: both endpoints need dynamic_addresses"
    )]
    NotNegotiated,
    /// The address cannot belong to a host.
    #[error("{0} is not the address of a host")]
    NotUnicast(std::net::IpAddr),
    /// The endpoint does not have this address.
    #[error("{0} is not an address of this endpoint")]
    Unknown(std::net::IpAddr),
    /// An endpoint has at least one address (RFC 5061 §5.3 F5).
    #[error("an association needs at least one local address: add another one first")]
    Last,
    /// An endpoint has at most 16 addresses.
    #[error("an association has at most 16 local addresses: remove one first")]
    TooMany,
}

/// Why a key for authenticated chunks (RFC 4895) was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationKeyError {
    /// The settings do not ask for authentication: `Config::authentication`.
    #[error("the settings of this association do not offer authentication: set `Config::authentication`")]
    NotOffered,
    /// There is no key with this identifier.
    #[error("there is no shared key {0}: add it first")]
    Unknown(u16),
    /// The active key cannot be removed: make another key active first.
    #[error("shared key {0} is active: make another key active before you remove it")]
    Active(u16),
    /// An association has at most 64 keys.
    #[error("an association has at most 64 shared keys: remove one first")]
    TooMany,
    /// A secret has at most 1,024 bytes.
    #[error("a shared key of {0} bytes is longer than 1,024 bytes")]
    TooLong(usize),
}

/// Why an association could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// An SCTP port must not be 0.
    #[error("SCTP port 0 cannot be connected to: choose 1 to 65535")]
    PortZero,
    /// The remote address is unspecified, multicast or broadcast.
    #[error("{0} is not an address of one host")]
    InvalidAddress(std::net::IpAddr),
    /// There is already an association between these addresses and ports.
    #[error(
        "there is already an association with {0} on these SCTP ports: choose another local port, or none"
    )]
    Exists(std::net::SocketAddr),
    /// A setting given for this association is out of range.
    #[error(transparent)]
    Config(crate::config::ConfigError),
    /// No local SCTP port of the dynamic range is free.
    #[error("no local SCTP port is free: end an association first")]
    NoFreePort,
}

/// Why an endpoint could not be created or cannot listen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// An SCTP port must not be 0.
    #[error("SCTP port 0 cannot be listened on: choose 1 to 65535")]
    PortZero,
}

/// Why a request about a path was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathRequestError {
    /// No such path.
    #[error("there is no path {0}: choose one that the statistics of the association list")]
    Unknown(u8),
    /// The path's address has not been confirmed yet (RFC 9260 §5.4).
    #[error("path {0} is not confirmed yet: wait until the peer has answered a heartbeat there")]
    Unconfirmed(u8),
    /// A setting of the path is out of range.
    #[error(transparent)]
    Settings(#[from] crate::config::ConfigError),
}
