//! The errors of each operation of this crate; their texts name the remedy. The core handles the peer's protocol errors; such
//! an error can at worst end an association with a [`CloseReason`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use anabranch_proto::{CloseReason, ConfigError, StreamId};

use crate::path_source::PathSourceError;

/// Why an endpoint could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A setting is out of its range.
    #[error("invalid configuration: {0}")]
    Config(#[from] ConfigError),
    /// The name of the local address could not be resolved, or it has no address.
    #[error("the local address cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The operating system refused the socket.
    #[error("cannot bind {address}: {source}; choose a free port and an address of this machine")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A socket cannot be bound to the network interface.
    #[error("cannot use the network interface {interface:?}: {source}; `ip link` lists the interfaces")]
    Interface {
        /// The name of the interface.
        interface: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// No path can begin where [`EndpointBuilder::bind_paths`](crate::EndpointBuilder::bind_paths) was told.
    #[error(transparent)]
    Path(#[from] PathSourceError),
    /// An endpoint that follows the addresses of the host is bound to one of them.
    #[error(
        "to watch interfaces, bind an unspecified address such as 0.0.0.0 and not {0}, which the host may lose"
    )]
    WatchesBound(SocketAddr),
    /// The system does not report changes of interfaces.
    #[error("changes of network interfaces cannot be watched: {0}; this works on Linux only")]
    Watch(#[source] io::Error),
    /// The program may not open raw sockets.
    #[error(
        "cannot open a raw IP socket (protocol 132) on {0} without root or CAP_NET_RAW: grant one of them, or use UDP"
    )]
    RawNotPermitted(SocketAddr),
    /// The file of the capture could not be created.
    #[error(
        "cannot write the capture to {path:?}: {source}; choose a file in an existing, writable directory"
    )]
    Capture {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An option needs a socket of the system ([`EndpointBuilder::bind_socket`](crate::EndpointBuilder::bind_socket)).
    #[error("the option {0} needs a socket of the system; leave it out, or use `bind`")]
    GivenSocket(&'static str),
    /// The addresses of several given sockets do not fit together
    /// ([`EndpointBuilder::bind_sockets`](crate::EndpointBuilder::bind_sockets)).
    #[error(
        "the socket on {0} does not fit: of several sockets, each needs an address of its own, and all need one port"
    )]
    GivenSockets(SocketAddr),
    /// A setting is not possible with DTLS.
    #[cfg(feature = "dtls")]
    #[error("not with DTLS: {0}")]
    Dtls(DtlsLimit),
    /// Silence to strangers ([`EndpointBuilder::silent_to_strangers`](crate::EndpointBuilder::silent_to_strangers)) needs peers that are
    /// known by public keys.
    #[cfg(feature = "tls")]
    #[error("silence to strangers needs `secure` with the public keys of the peers")]
    SilenceNeedsKeys,
    /// The qlog file cannot be written ([`EndpointBuilder::qlog`](crate::EndpointBuilder::qlog)).
    #[cfg(feature = "qlog")]
    #[error(
        "cannot write the qlog file {path:?}: {source}; choose a file in an existing, writable directory"
    )]
    Qlog {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The thread of a blocking endpoint could not be started.
    #[error("the endpoint's thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// The operating system gave no random numbers. Without them verification tags and cookies would be predictable.
    #[error("the operating system gave no random numbers: {0}")]
    Random(String),
}

/// Why an endpoint cannot listen on a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// SCTP port 0 is reserved.
    #[error("SCTP port 0 cannot be listened on: choose 1 to 65535")]
    PortZero,
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind a new one")]
    Closed,
}

/// Why no association was set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name could not be resolved.
    #[error("the remote address cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// The name resolved to no address that this endpoint's sockets can reach.
    #[error(
        "no remote address has the IP version of this endpoint's sockets: bind an IPv4 or IPv6 address to match"
    )]
    NoAddress,
    /// The request itself is invalid.
    #[error(transparent)]
    Invalid(#[from] anabranch_proto::ConnectError),
    /// A setting of this association is out of its range.
    #[error("invalid configuration: {0}")]
    Config(#[from] ConfigError),
    /// The endpoint is closed.
    #[error("the endpoint is closed: bind a new one")]
    Closed,
    /// The peer did not answer.
    #[error(
        "{remote} does not answer for SCTP port {port}: check that the listener runs, and its address and UDP port"
    )]
    TimedOut {
        /// The remote address and UDP port.
        remote: SocketAddr,
        /// The SCTP port.
        port: u16,
    },
    /// An ICMP message reported that the remote host does not receive SCTP: the UDP port is closed (RFC 6951 §5.5), or, over
    /// raw IP, the host does not support SCTP. Only an ICMP message that quotes this side's INIT counts. Linux only; on other
    /// systems, and without an ICMP message, the error is [`ConnectError::TimedOut`].
    #[error("{}: check that the listener runs there, and its address and UDP port", CloseReason::ProtocolUnreachable { remote: *remote })]
    ProtocolUnreachable {
        /// The remote address and UDP port.
        remote: SocketAddr,
    },
    /// No packet was sent: the operating system refused to send.
    #[error("cannot send to {remote}: {source}")]
    Unsent {
        /// The remote address and UDP port.
        remote: SocketAddr,
        /// The last error of the operating system.
        source: io::Error,
    },
    /// The DTLS connection to the peer failed.
    #[cfg(feature = "dtls")]
    #[error("no DTLS connection to {remote}: {reason}")]
    Dtls {
        /// The remote address and UDP port.
        remote: SocketAddr,
        /// Why.
        reason: anabranch_dtls::DtlsError,
    },
    /// A setting of this association is not possible with DTLS.
    #[cfg(feature = "dtls")]
    #[error("not with DTLS: {0}")]
    DtlsLimit(DtlsLimit),
    /// The peer aborted the setup, or the setup failed.
    #[error("{remote} did not set up an association on SCTP port {port}: {reason}")]
    Refused {
        /// The remote address and UDP port.
        remote: SocketAddr,
        /// The SCTP port.
        port: u16,
        /// The reason of the failure.
        reason: CloseReason,
    },
}

/// A setting that is not possible with DTLS.
#[cfg(feature = "dtls")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DtlsLimit {
    /// An association over DTLS has one path (RFC 8261 §6.1).
    #[error(
        "an association over DTLS has one path; bind one address, and list none in `Config::local_addresses`"
    )]
    SeveralAddresses,
    /// The address of a DTLS connection does not change.
    #[error("an association over DTLS keeps its address; remove `Config::dynamic_addresses`")]
    DynamicAddresses,
    /// Several paths at once.
    #[error("an association over DTLS has one path; remove `Config::multipath`")]
    Multipath,
    /// DTLS needs UDP.
    #[error("DTLS needs UDP; choose `Transport::Udp`")]
    RawIp,
}

/// Why a message was not accepted for sending. On such an error, no part of the message was accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer is full (`try_send` only: `send` waits).
    #[error("the send buffer is full: await send, or try again later")]
    BufferFull,
    /// The message cannot be sent: it is too large or empty, the stream does not exist, or a message in parts is open on the
    /// stream.
    #[error(transparent)]
    Message(anabranch_proto::SendError),
    /// This side or the peer has begun a shutdown; no more messages can be sent.
    #[error("the association is shutting down: no more messages can be sent")]
    ShuttingDown,
    /// The association is over.
    #[error("the association is over: {0}")]
    Closed(CloseReason),
}

/// Why a message cannot be received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// A message exceeds the limit of `recv`. The rest of the message is dropped; the next call returns the next message.
    #[error(
        "a message on stream {stream} is larger than {limit} bytes: use recv_part, or raise EndpointBuilder::max_joined_message"
    )]
    TooLarge {
        /// The stream of the message.
        stream: StreamId,
        /// The limit in bytes.
        limit: usize,
    },
    /// The association ended without a graceful shutdown.
    #[error("the association is over: {0}")]
    Closed(CloseReason),
}

/// An association that ended without a graceful shutdown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the association did not shut down gracefully: {0}")]
pub struct ShutdownError(pub CloseReason);
