//! A discrete-event network for running SCTP in virtual time.
//!
//! Like the protocol's core, this crate has no socket, clock or thread. [`Network`] advances virtual time from event to event. Its nodes
//! ([`Host`], [`Router`], or a [`Node`] of the caller's) exchange real bytes over [`Link`]s with rate, delay, jitter, queue, loss,
//! reordering, duplication and corruption. One seed determines a run: every random process has its own generator ([`Generator`]), and a
//! stated rule orders events at equal times ([`EventQueue`]).
//!
//! [`Lockstep`] has two ends without a network, to measure what the protocol costs.
//!
//! TCP provides cross traffic for SCTP ([`TcpSource`], [`TcpSink`]), usually on a [`Dumbbell`].
//!
//! [`Link`] and [`PcapngWriter`] also work with real sockets, because the caller passes the time to both.

mod aqm;
mod dumbbell;
mod ecn;
mod event_queue;
mod flow;
mod host;
mod ip;
mod link;
mod link_config;
mod lockstep;
mod loss;
mod network;
mod packet;
mod pcapng;
mod queue;
mod random;
mod rate_trace;
mod tcp;
mod trace;
pub mod units;

pub use aqm::{Aqm, CoDelConfig, FqCoDelConfig};
pub use dumbbell::{Dumbbell, DumbbellPair};
pub use ecn::{Ecn, EcnCounts};
pub use event_queue::EventQueue;
pub use flow::FiveTuple;
pub use host::{Application, Host, HostApi};
pub use ip::{read_ecn as read_ip_ecn, set_ecn as set_ip_ecn, write_packet as write_ip_packet};
pub use link::{Fate, Link, LinkPacket, LinkStats, LossCause};
pub use link_config::{LinkConfig, LinkConfigError, Reorder};
pub use lockstep::{Arena, Lockstep, LockstepError};
pub use loss::LossModel;
pub use network::{LinkId, Network, Node, NodeId, Route, Router};
pub use packet::{Packet, Payload};
pub use pcapng::{InterfaceId, PcapngWriter};
pub use queue::{MarkThreshold, QueueLimit};
pub use random::{Generator, Probability};
pub use rate_trace::RateTrace;
pub use tcp::{
    Recovery, SackBlocks, Segment, SynOptions, TcpConfig, TcpCongestionControl, TcpSink, TcpSinkStats,
    TcpSource, TcpStats, Traffic,
};
pub use trace::{Record, describe};
