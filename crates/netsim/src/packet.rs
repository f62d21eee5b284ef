//! Packets on the links: an IP packet with an SCTP packet in it, directly or in UDP (RFC 6951), or with a TCP segment.

use std::net::{IpAddr, SocketAddr};

use anabranch_proto::Dscp;
use bytes::Bytes;

use crate::ecn::Ecn;
use crate::flow::FiveTuple;
use crate::ip;
use crate::link::LinkPacket;
use crate::random::Generator;
use crate::tcp::Segment;

/// A packet on the simulated network. Of the headers around the payload, only addresses and length are modelled. `ip.rs` writes the
/// headers for captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address and port of UDP (0 without encapsulation) or TCP. If the address is unspecified, the node's routing fills it in.
    pub source: SocketAddr,
    /// Destination address and port of UDP (0 without encapsulation) or TCP.
    pub destination: SocketAddr,
    /// The content of the IP packet.
    pub payload: Payload,
    /// Whether IP may fragment the packet if it exceeds a link's MTU; otherwise the link loses it.
    pub may_fragment: bool,
    /// ECN codepoint (RFC 3168); a queue may change it to CE.
    pub ecn: Ecn,
    /// Differentiated Services codepoint (RFC 2474). Simulated queues do not look at it.
    pub dscp: Dscp,
}

/// The content of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// An SCTP packet: the bytes that the core wrote.
    Sctp(Bytes),
    /// A TCP segment, which is cross traffic: only its fields. A capture encodes them.
    Tcp(Segment),
}

impl Payload {
    /// Length in bytes, including TCP's header.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Sctp(packet) => packet.len(),
            Self::Tcp(segment) => segment.wire_len(),
        }
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The SCTP packet; empty if the payload is not SCTP.
    #[must_use]
    pub fn sctp(&self) -> &[u8] {
        match self {
            Self::Sctp(packet) => packet,
            Self::Tcp(_) => &[],
        }
    }

    /// The SCTP packet; empty if the payload is not SCTP.
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

    /// Appends the IP packet with all headers and correct checksums.
    pub(crate) fn write(&self, buffer: &mut Vec<u8>) {
        let (from, to, class) = (self.source, self.destination, self.dscp.octet(self.ecn));
        match &self.payload {
            Payload::Sctp(packet) => ip::write_packet(buffer, from, to, class, packet),
            Payload::Tcp(segment) => segment.write_packet(buffer, from, to, class),
        }
    }
}

impl LinkPacket for Packet {
    fn wire_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    fn may_fragment(&self) -> bool {
        self.may_fragment
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// The ports are those of TCP, of UDP, or of SCTP directly over IP.
    fn five_tuple(&self) -> Option<FiveTuple> {
        let (source, destination) = (self.source, self.destination);
        let tuple = |protocol| FiveTuple {
            source,
            destination,
            protocol,
        };
        Some(match &self.payload {
            Payload::Tcp(_) => tuple(ip::PROTOCOL_TCP),
            Payload::Sctp(_) if destination.port() != 0 => tuple(ip::PROTOCOL_UDP),
            Payload::Sctp(packet) => FiveTuple::new(source.ip(), destination.ip(), ip::PROTOCOL_SCTP, packet),
        })
    }

    /// Damages the payload; damage to the IP header would only lose the packet. TCP's checksum is assumed to detect all damage.
    fn corrupt(&mut self, random: &mut Generator) {
        match &mut self.payload {
            Payload::Sctp(packet) => packet.corrupt(random),
            Payload::Tcp(segment) => segment.damaged = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_told_apart_by_the_ports_of_their_own_protocol() {
        let packet = |ports: (u16, u16), payload| Packet {
            source: SocketAddr::new([10, 0, 0, 1].into(), ports.0),
            destination: SocketAddr::new([10, 0, 0, 2].into(), ports.1),
            payload,
            may_fragment: false,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        };
        let sctp = || Payload::from(vec![0x13, 0x88, 0x13, 0x89, 0, 0, 0, 0]);
        let ends = |packet: Packet| {
            let tuple = packet.five_tuple().unwrap();
            (tuple.source.port(), tuple.destination.port(), tuple.protocol)
        };
        assert_eq!(ends(packet((0, 0), sctp())), (5000, 5001, 132));
        assert_eq!(ends(packet((9899, 9899), sctp())), (9899, 9899, 17));
        assert_eq!(
            ends(packet((7, 80), Payload::Tcp(Segment::default()))),
            (7, 80, 6)
        );
    }
}
