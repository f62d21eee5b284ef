//! What crosses the links: an IP packet with an SCTP packet in it, directly or in UDP (RFC 6951).

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::link::LinkPacket;
use crate::random::Generator;

/// A packet on the simulated network. The payload is the real bytes that the core made; of the headers around it
/// only addresses and length matter, and [`crate::ip`] writes them when a capture wants to see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where from: address and UDP port, 0 without encapsulation. An unspecified address is filled in by the
    /// node's routing.
    pub source: SocketAddr,
    /// Where to: address and UDP port, 0 without encapsulation.
    pub destination: SocketAddr,
    /// The SCTP packet.
    pub payload: Bytes,
    /// Whether IP may cut it up where it is too large for a link; otherwise it is lost there.
    pub may_fragment: bool,
}

impl Packet {
    /// Bytes of IP and UDP headers around the payload.
    #[must_use]
    pub fn header_len(&self) -> usize {
        let ip = match self.destination.ip() {
            IpAddr::V4(_) => 20,
            IpAddr::V6(_) => 40,
        };
        ip + if self.destination.port() == 0 { 0 } else { 8 }
    }
}

impl LinkPacket for Packet {
    fn wire_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }

    /// Damages the payload: a damaged IP header would only be lost.
    fn corrupt(&mut self, random: &mut Generator) {
        self.payload.corrupt(random);
    }
}
