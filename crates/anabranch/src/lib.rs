//! SCTP (RFC 9260) for tokio programs: associations of many streams that carry messages, over UDP (RFC 6951)
//! without any privilege, or directly over IP where the program may.
//!
//! **Nothing is encrypted**: whoever sees the packets reads the messages.
//!
//! A client that says hello and prints the answer, and the server that echoes it:
//!
//! ```
//! use anabranch::{Association, Endpoint, StreamId};
//!
//! async fn client(server: std::net::SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
//!     let endpoint = Endpoint::bind("127.0.0.1:0").await?;
//!     let association = endpoint.connect(server, 7).await?;
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
//!     endpoint.listen(7)?;
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
//! * [`Endpoint`] binds a socket, connects and accepts; [`EndpointBuilder`] has all the choices.
//! * [`Association`] sends and receives messages, each with a stream, a payload protocol identifier, and in order or
//!   not. Sending waits while the buffer is full; what is not received keeps the peer from sending more.
//! * A message need not be tried for ever: [`SendOptions::reliability`] gives it a lifetime, a number of retransmissions
//!   or a priority, and [`Association::next_event`] tells which were given up ([`Event::Abandoned`]).
//!   [`SendOptions::early_discard`] and [`SendOptions::discard_notice`] make that fast.
//! * [`Config`] has every setting of the protocol, with RFC 9260's names, units and defaults.

mod association;
mod builder;
mod capture;
mod driver;
mod endpoint;
mod error;
mod error_queue;
mod message;
mod pool;
mod scheduling;
mod senders;
mod socket;

pub use anabranch_netsim::{LinkConfig, LinkConfigError, LinkStats};
pub use anabranch_proto::controller;
pub use anabranch_proto::wire::chunk::OwnChunkTypes;
pub use anabranch_proto::{
    AckRouting, CoupledControl, EcaConfig, MultipathConfig, MultipathMode, PathScheduler,
    RetransmissionPolicy,
};
pub use anabranch_proto::{
    AssociationState, AssociationStats, BufferConfig, CloseReason, Config, ConfigError, ConnectOptions,
    Counters, DiscardNotice, EcnPathStats, EcnState, Event, Extensions, HeartbeatConfig, InterleavingConfig,
    MessageId, MessagePart, NrSackConfig, PartialReliabilityConfig, PathId, PathPair, PathRequestError,
    PathState, PathStats, Payload, Ppid, RecoveryRules, Reliability, RetransmissionConfig, RtoConfig,
    SackConfig, SchedulerKind, SchedulingError, SendOptions, StreamConfig, StreamId, StreamStats, T3Restart,
    Undelivered,
};
pub use association::Association;
pub use builder::EndpointBuilder;
pub use bytes::Bytes;
pub use endpoint::Endpoint;
pub use error::{BindError, ConnectError, Explained, ListenError, RecvError, SendError, ShutdownError};
pub use message::Message;
pub use socket::Transport;

/// The UDP port on which SCTP over UDP is expected (RFC 6951 §4.1).
pub const DEFAULT_UDP_PORT: u16 = 9899;
