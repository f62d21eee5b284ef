//! Identifies flows by the 5-tuple (RFC 8290 §4.1.1).

use std::net::{IpAddr, SocketAddr};

/// Addresses, ports and protocol of a packet. Packets with equal 5-tuples belong to one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiveTuple {
    /// Source address and port; port 0 if the protocol has none.
    pub source: SocketAddr,
    /// Destination address and port; port 0 if the protocol has none.
    pub destination: SocketAddr,
    /// The protocol number in the IP header: 6 for TCP, 17 for UDP, 132 for SCTP.
    pub protocol: u8,
}

impl FiveTuple {
    /// The 5-tuple with these addresses. The ports are read from `transport`: the headers of TCP, UDP and SCTP all begin with the source
    /// port and the destination port.
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

    /// A hash that depends on the perturbation and is the same in every build.
    pub(crate) fn hash(&self, perturbation: u64) -> u64 {
        let mut hash = mix(perturbation);
        let mut add = |word: u64| hash = mix(hash ^ word);
        for end in [self.source, self.destination] {
            match end.ip() {
                IpAddr::V4(address) => add(u64::from(u32::from(address))),
                IpAddr::V6(address) => {
                    let bits = u128::from(address);
                    add((bits >> 64) as u64);
                    add(bits as u64);
                }
            }
            add(u64::from(end.port()));
        }
        add(u64::from(self.protocol));
        hash
    }
}

/// Spreads each bit over all bits (the finalizer of SplitMix64: Steele, Lea and Flood 2014).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
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
    fn every_part_and_the_perturbation_change_the_hash() {
        let one = tuple("10.0.0.1:1", "10.0.0.2:2", 6);
        assert_eq!(one.hash(7), one.hash(7));
        for other in [
            tuple("10.0.0.9:1", "10.0.0.2:2", 6),
            tuple("10.0.0.1:9", "10.0.0.2:2", 6),
            tuple("10.0.0.1:1", "10.0.0.9:2", 6),
            tuple("10.0.0.1:1", "10.0.0.2:9", 6),
            tuple("10.0.0.1:1", "10.0.0.2:2", 17),
            tuple("10.0.0.2:2", "10.0.0.1:1", 6),
        ] {
            assert_ne!(one.hash(7), other.hash(7), "{other:?}");
        }
        assert_ne!(one.hash(7), one.hash(8));
        let v6 = |last: &str| tuple(&format!("[fd00::{last}]:1"), "[fd00::2]:2", 6);
        assert_ne!(v6("1").hash(7), v6("9").hash(7));
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
