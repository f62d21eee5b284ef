//! Datagrams, and the values that describe them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use anabranch_proto as proto;
use bytes::Bytes;

/// The role of an endpoint in the set-up of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Side {
    /// It sent the INIT.
    #[default]
    Client = 0,
    /// It answered the INIT.
    Server = 1,
}

impl Side {
    /// Whether it sent the INIT.
    #[must_use]
    pub fn is_client(self) -> bool {
        self == Self::Client
    }

    /// Whether it answered the INIT.
    #[must_use]
    pub fn is_server(self) -> bool {
        self == Self::Server
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::ops::Not for Side {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The ECN codepoint of a packet that is ECN-capable (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EcnCodepoint {
    /// ECT(0).
    Ect0 = 0b10,
    /// ECT(1).
    Ect1 = 0b01,
    /// Congestion experienced.
    Ce = 0b11,
}

impl EcnCodepoint {
    /// The codepoint of these two bits; `None` if the packet is not ECN-capable.
    #[must_use]
    pub fn from_bits(bits: u8) -> Option<Self> {
        match proto::EcnCodepoint::from_bits(bits) {
            proto::EcnCodepoint::NotEct => None,
            proto::EcnCodepoint::Ect0 => Some(Self::Ect0),
            proto::EcnCodepoint::Ect1 => Some(Self::Ect1),
            proto::EcnCodepoint::Ce => Some(Self::Ce),
        }
    }

    /// The core's codepoint.
    pub(crate) fn to_core(ecn: Option<Self>) -> proto::EcnCodepoint {
        proto::EcnCodepoint::from_bits(ecn.map_or(0, |ecn| ecn as u8))
    }
}

/// The content of a [`Transmit`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// SCTP packets.
    RawEncode(Vec<Bytes>),
}

/// Packets to be sent to one destination.
#[derive(Debug)]
pub struct Transmit {
    /// The time of the call that returned them.
    pub now: Instant,
    /// The destination.
    pub remote: SocketAddr,
    /// The ECN codepoint of the packets.
    pub ecn: Option<EcnCodepoint>,
    /// The address from which they leave; `None` if the system chooses it.
    pub local_ip: Option<IpAddr>,
    /// The packets.
    pub payload: Payload,
}
