//! What crosses the links: an IP packet with an SCTP packet in it, directly or in UDP (RFC 6951), or a TCP segment.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::link::LinkPacket;
use crate::random::Generator;
use crate::tcp::Segment;

/// A packet on the simulated network. Of the headers around the payload only addresses and length matter, and
/// [`crate::ip`] writes them when a capture wants to see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where from: address and port of UDP (0 without encapsulation) or TCP. An unspecified address is filled in by
    /// the node's routing.
    pub source: SocketAddr,
    /// Where to: address and port of UDP (0 without encapsulation) or TCP.
    pub destination: SocketAddr,
    /// What the IP packet carries.
    pub payload: Payload,
    /// Whether IP may cut it up where it is too large for a link; otherwise it is lost there.
    pub may_fragment: bool,
}

/// What an IP packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// An SCTP packet: the real bytes that the core made.
    Sctp(Bytes),
    /// A segment of TCP, which is cross traffic: its fields, from which its bytes are made when a capture wants them.
    Tcp(Segment),
}

impl Payload {
    /// Its length in bytes, TCP's header included.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Sctp(packet) => packet.len(),
            Self::Tcp(segment) => segment.wire_len(),
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The SCTP packet; empty if it is none.
    #[must_use]
    pub fn sctp(&self) -> &[u8] {
        match self {
            Self::Sctp(packet) => packet,
            Self::Tcp(_) => &[],
        }
    }

    /// The SCTP packet; empty if it is none.
    #[must_use]
    pub fn into_sctp(self) -> Bytes {
        match self {
            Self::Sctp(packet) => packet,
            Self::Tcp(_) => Bytes::new(),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Payload {
    fn from(packet: T) -> Self {
        Self::Sctp(packet.into())
    }
}

impl Packet {
    /// Bytes of IP and UDP headers around the payload.
    #[must_use]
    pub fn header_len(&self) -> usize {
        let ip = match self.destination.ip() {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        };
        let in_udp = matches!(self.payload, Payload::Sctp(_)) && self.destination.port() != 0;
        ip + if in_udp { 8 } else { 0 }
    }
}

impl LinkPacket for Packet {
    fn wire_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }

    /// Damages the payload: a damaged IP header would only be lost. TCP's checksum is taken to find all damage.
    fn corrupt(&mut self, random: &mut Generator) {
        match &mut self.payload {
            Payload::Sctp(packet) => packet.corrupt(random),
            Payload::Tcp(segment) => segment.damaged = true,
        }
    }
}
