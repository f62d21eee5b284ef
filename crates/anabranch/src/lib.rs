//! SCTP (RFC 9260) for tokio programs: associations with many streams of messages, over UDP (RFC 6951) without any
//! privilege, or directly over IP with root or `CAP_NET_RAW`.
//!
//! [`Endpoint::server`] and [`Endpoint::client`] encrypt, and so does every endpoint with [`EndpointBuilder::secure`]. **Other endpoints do
//! not: anyone who sees the packets can read them.**
//!
//! A client that sends *hello* and checks the answer, and a server that echoes every message:
//!
//! ```
//! use anabranch::{Association, Endpoint, StreamId};
//!
//! async fn client(server: std::net::SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
//!     let endpoint = Endpoint::bind("127.0.0.1:0").await?;
//!     let association = endpoint.connect(server).await?;
//!     association.send(StreamId(0), "hello").await?;
//!     let answer = association.recv().await?.ok_or("no answer")?;
//!     assert_eq!(answer.into_bytes(), "hello");
//!     association.shutdown().await?;
//!     Ok(())
//! }
//!
//! async fn echo(association: Association) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     while let Some(message) = association.recv().await? {
//!         let (stream, options) = (message.stream, message.options());
//!         association.send_with(stream, message.into_bytes(), options).await?;
//!     }
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let endpoint = Endpoint::bind("127.0.0.1:0").await?;
//!     endpoint.listen()?;
//!     let address = endpoint.local_addr();
//!     tokio::spawn(async move {
//!         while let Some(association) = endpoint.accept().await {
//!             tokio::spawn(echo(association));
//!         }
//!     });
//!     client(address).await
//! }
//! ```
//!
//! * [`Endpoint`] binds a socket, connects and accepts; [`EndpointBuilder`] has all its options.
//! * [`Association`] sends and receives messages; [`StreamHandle`] those of one stream. Each message has a stream and a payload protocol identifier, and is
//!   ordered or unordered. Sending waits while the send buffer is full. Unread messages fill the receive window, and
//!   the peer then stops sending.
//! * A message can be partially reliable (RFC 3758): [`SendOptions::reliability`] gives it a lifetime, a limit of
//!   retransmissions or a priority, and [`Association::next_event`] reports abandoned messages ([`Event::Abandoned`]).
//!   [`SendOptions::early_discard`] and [`SendOptions::discard_notice`] shorten the delay that losses cause.
//! * [`Association::send_with_receipt`] and [`StreamHandle::send_with_receipt`] tell what becomes of one message.
//! * [`blocking`] has the same interface for programs without an async runtime.
//! * [`EndpointBuilder::bind_socket`] takes any [`DatagramSocket`] in place of a socket of the system.
//! * Cargo features: `futures` (default) makes [`StreamHandle`] a stream and a sink; `tls` (default) encrypts the packets of every path;
//!   `dtls` encrypts for WebRTC peers; `link` emulates slow and lossy links in front of the sockets; `capture` writes captures of packets;
//!   `qlog` writes files of trace events; `metrics` counts trace events with the crate `metrics`; `experiments` makes the settings public
//!   that only researchers change.
//! * [`Config`] has the settings of the protocol, with the names, units and defaults of RFC 9260.

mod association;
mod authentication;
pub mod blocking;
mod builder;
#[cfg(feature = "capture")]
mod capture;
#[cfg(not(feature = "capture"))]
#[path = "no_capture.rs"]
mod capture;
mod datagram;
mod datagram_socket;
mod driver;
mod dscp;
mod endpoint;
mod error;
mod error_queue;
mod failed_handshake;
mod interfaces;
mod into_message;
#[cfg(feature = "link")]
mod linked_socket;
mod local_addresses;
mod lock;
mod message;
mod observe;
mod offload_socket;
mod path_source;
mod pool;
mod readers;
mod receipt;
#[cfg(any(feature = "capture", feature = "qlog"))]
mod record_file;
#[cfg(any(target_os = "android", target_os = "linux"))]
mod routes;
mod scheduling;
#[cfg(feature = "tls")]
mod secure_endpoint;
mod senders;
mod socket;
mod stream;
mod system_socket;

#[cfg(feature = "dtls")]
pub use anabranch_dtls::{
    Certificate, CertificateError, DtlsConfig, DtlsError, Fingerprint, FingerprintError, Trust,
};
#[cfg(feature = "link")]
pub use anabranch_netsim::{LinkConfig, LinkConfigError, LinkStats};
#[cfg(feature = "experiments")]
pub use anabranch_proto::T3Restart;
pub use anabranch_proto::controller;
pub use anabranch_proto::wire::chunk::ExperimentalChunkTypes;
pub use anabranch_proto::{
    AckRouting, CoupledControl, EcaConfig, MultipathConfig, MultipathMode, PathScheduler,
    RetransmissionPolicy,
};
pub use anabranch_proto::{
    Acknowledged, Admission, AssociationState, AssociationStats, BufferConfig, Candidate, CloseReason,
    Config, ConfigError, ConnectOptions, Counters, DiscardNotice, Dscp, DscpError, EcnCodepoint,
    EcnPathStats, EcnState, Event, Extensions, Failover, HeartbeatConfig, InterleavingConfig, LossDetection,
    LowerLayer, MessageId, MessagePart, NrSackConfig, PartialReliabilityConfig, PathHeartbeats, PathId,
    PathMtu, PathPair, PathRequestError, PathSettings, PathState, PathStats, Payload, Ppid, ProtectionStats,
    ReconfigurationConfig, ReconfigurationError, ReconfigurationEvent, ReconfigurationRequest,
    ReconfigurationResult, RecoveryRules, Reliability, ResetDirection, RetransmissionConfig, RtoConfig,
    SackConfig, SchedulerKind, SchedulingError, SendOptions, StreamConfig, StreamId, StreamSelection,
    StreamStats, Timestamp, Undelivered,
};
pub use anabranch_proto::{
    AddressError, AddressEvent, AddressForm, AddressTypes, AuthenticationConfig, AuthenticationEvent,
    AuthenticationKeyError, AuthenticationStats, DynamicAddressConfig, HmacAlgorithm, SharedKey,
};
#[cfg(feature = "tls")]
pub use anabranch_tls::{
    AcceptedKeys, Decryptor, Fingerprint as TlsFingerprint, Identity, IdentityError, KeyFileError, KeyLog,
    KeyLogError, LoggedKey, Opened as OpenedPacket, PeerIdentity, PublicKey, RestartDirectory, SecretKey,
    SettingsError, ShownIdentity, TlsSettings, Trust as TlsTrust, read_key_log, read_public_keys,
};
pub use association::Association;
pub use builder::EndpointBuilder;
pub use bytes::Bytes;
pub use datagram::Transport;
pub use datagram_socket::{DatagramSocket, Readiness, Received, Transmit};
pub use endpoint::Endpoint;
#[cfg(feature = "dtls")]
pub use error::DtlsLimit;
pub use error::{BindError, ConnectError, ListenError, RecvError, SendError, ShutdownError};
pub use failed_handshake::FailedHandshake;
pub use interfaces::host_addresses;
pub use into_message::IntoMessage;
#[cfg(feature = "link")]
pub use linked_socket::LinkedSocket;
pub use message::Message;
pub use offload_socket::OffloadSocket;
pub use path_source::{PathSource, PathSourceError};
pub use receipt::{Delivery, Receipt};
pub use stream::{ByteStream, StreamHandle};

/// The registered UDP port of SCTP over UDP (RFC 6951 §4.1).
pub const DEFAULT_UDP_PORT: u16 = 9899;

/// The SCTP port of [`Endpoint::connect`] and [`Endpoint::listen`], and of the command `anabranch`. The UDP port leads to the program; the SCTP
/// port inside the packets names one of the program's services. Programs with one service need no other port.
pub const DEFAULT_SCTP_PORT: u16 = 7;
