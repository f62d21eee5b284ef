//! What tells flows apart: the 5-tuple (RFC 8290 §4.1.1).

use std::net::{IpAddr, SocketAddr};

/// Addresses, ports and protocol of a packet. Packets with equal ones are of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiveTuple {
    /// Where from; port 0 if the protocol has none.
    pub source: SocketAddr,
    /// Where to; port 0 if the protocol has none.
    pub destination: SocketAddr,
    /// The protocol number in the IP header: 6 for TCP, 17 for UDP, 132 for SCTP.
    pub protocol: u8,
}

impl FiveTuple {
    /// The 5-tuple of addresses, and the ports with which the headers of TCP, UDP and SCTP alike begin, source first.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8, transport: &[u8]) -> Self {
        let port = |at: usize| match transport.get(at..at + 2) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => 0,
        };
        Self {
            source: SocketAddr::new(source, port(0)),
            destination: SocketAddr::new(destination, port(2)),
            protocol,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(source: &str, destination: &str, protocol: u8) -> FiveTuple {
        FiveTuple {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol,
        }
    }

    #[test]
    fn ports_are_those_that_the_transport_header_begins_with() {
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        let sctp = FiveTuple::new(addresses[0], addresses[1], 132, &[0x13, 0x88, 0, 80, 9, 9]);
        assert_eq!(sctp, tuple("10.0.0.1:5000", "10.0.0.2:80", 132));
        let none = FiveTuple::new(addresses[0], addresses[1], 1, &[8]);
        assert_eq!(none, tuple("10.0.0.1:0", "10.0.0.2:0", 1));
    }
}
