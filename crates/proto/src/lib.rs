//! SCTP (RFC 9260) without clock, socket or thread: the same inputs always give the same outputs, byte for byte.
//!
//! The driver, which is the program that uses this crate, owns time and packets. It passes each datagram to
//! [`Endpoint::handle_datagram`], which answers what to do with the datagram, and keeps the [`Association`]s that result.
//!
//! # The contract
//!
//! Change an association once, then poll it until it says when to come back. Each method that changes an association (a packet, a timeout,
//! a call of the application) is one *step*: when it returns, all consequences have happened, for example the end of a shutdown that waited
//! for the message that the step abandoned. After each step the driver calls in this order:
//!
//! 1. [`Association::poll_transmit`] until `None`: send each batch;
//! 2. [`Association::poll_endpoint_event`] until `None`: pass each event to [`Endpoint::handle_event`];
//! 3. [`Association::poll_event`] until `None`, and [`Association::recv`] whenever the application wants messages;
//! 4. [`Association::poll_timeout`]: call [`Association::handle_timeout`] when that time has come, or earlier if there is another step.
//!
//! Several steps at the same time may share these polls. [`Association::poll_transmit`] is a step too, because the sender abandons messages
//! there; after it has returned `None`, it has nothing to send at this time until the next step.
//!
//! The core does not know what carries its packets: UDP, IP, DTLS, or anything else that moves datagrams. Three facts of that layer are inputs.
//! [`Config::lower_layer`] says how many bytes it adds to each packet, and whether it detects errors itself. The last argument of [`Association::poll_transmit`] is the number of packets that
//! it sends in one call (segmentation offload). [`Association::handle_path_error`] tells its errors, for example that a connection below has ended.
//!
//! Methods named `handle_` take input from outside, methods named `poll_` return output. Every method that may start a timer takes the
//! current time as `now`. The others happen at the time of the last step.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "settings for experiments are public with the feature `experiments` alone"
)]

mod association;
mod association_state;
mod close_reason;
mod config;
mod congestion;
mod control;
pub mod controller;
mod dscp;
mod ecn;
mod endpoint;
mod error;
mod event;
mod extension;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod icmp;
mod inbound;
mod journal;
mod message;
mod negotiation;
mod pacing;
mod paged;
mod path;
mod path_id;
mod random;
mod receive;
mod reconfiguration;
mod recovery;
mod send;
mod seq;
mod setters;
mod stats;
mod time;
mod trace;
mod trace_event;
mod transmit;

pub use anabranch_wire as wire;
pub use anabranch_wire::{Ppid, StreamId, Tsn, VerificationTag};
pub use association::{
    Association, AuthenticationKeys, BurstLimit, KeyManager, LocalAddresses, Reconfigure, Stream,
};
pub use association_state::AssociationState;
pub use close_reason::CloseReason;
pub use config::{
    AckRouting, AddressForm, AddressTypes, AuthenticationConfig, BufferConfig, Config, ConfigError,
    CoupledControl, DiscardNotice, DiscardReduction, DynamicAddressConfig, EcaConfig, Failover,
    HeartbeatConfig, HmacAlgorithm, InterleavingConfig, LossDetection, LowerLayer, MultipathConfig,
    MultipathMode, NrSackConfig, PartialReliabilityConfig, PathHeartbeats, PathMtu, PathPair, PathScheduler,
    PathSettings, ProtectionConfig, ReconfigurationConfig, RecoveryRules, RetransmissionConfig,
    RetransmissionPolicy, RtoConfig, SackConfig, SchedulerKind, SharedKey, StreamConfig, T3Restart,
};
pub use dscp::{Dscp, DscpError};
pub use ecn::{EcnCodepoint, EcnState};
pub use endpoint::{Admission, AssociationId, Candidate, ConnectOptions, Endpoint, Handling};
pub use error::{
    AddressError, AuthenticationKeyError, ConnectError, EndpointError, KeyError, PathRequestError,
    SchedulingError, SendError,
};
pub use event::{
    Acknowledged, AddressEvent, AuthenticationEvent, EndpointEvent, Event, PathError, Reply, Undelivered,
};
pub use extension::protection::{Agreement, FIRST_EPOCH, KeyLimits, KeyRole, KeyUsage, RecordKey};
pub use icmp::{IcmpKind, IcmpMessage};
pub use inbound::Inbound;
pub use message::{
    KEY_MANAGEMENT_PPID, MessageId, MessagePart, NextItem, Payload, Reliability, SendOptions, StreamItem,
};
pub use negotiation::InitGuard;
pub use path_id::{PathId, PathState};
pub use reconfiguration::{
    ReconfigurationError, ReconfigurationEvent, ReconfigurationRequest, ReconfigurationResult,
    ResetDirection, StreamSelection,
};
pub use stats::{
    AssociationStats, AuthenticationStats, Counters, EcnPathStats, Extensions, PathStats, ProtectionStats,
    StreamStats,
};
pub use time::Timestamp;
pub use trace_event::{
    AbandonReason, Blocked, CopyWait, LossRule, PathMetrics, TraceChunk, TraceEvent, TraceKind, TraceLevel,
    TsnRange,
};
pub use transmit::Transmit;
