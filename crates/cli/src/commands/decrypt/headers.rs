//! The headers around the SCTP packets of a capture: link layer, IP and UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_netsim::write_ip_packet;

const UDP: u8 = 17;
const SCTP: u8 = 132;

/// An SCTP packet within a captured one.
#[derive(Debug)]
pub(super) struct Carried<'a> {
    link: &'a [u8],
    /// With port 0 directly over IP.
    source: SocketAddr,
    destination: SocketAddr,
    traffic_class: u8,
    pub(super) sctp: &'a [u8],
}

impl<'a> Carried<'a> {
    /// Finds the payload of UDP or the SCTP packet in a packet of this link type (<https://www.tcpdump.org/linktypes.html>). `None` if
    /// there is none, or a fragment of one only.
    pub(super) fn of(link_type: u16, packet: &'a [u8]) -> Option<Self> {
        let (link, ip) = packet.split_at_checked(link_len(link_type, packet)?)?;
        let first = *ip.first()?;
        let (from, to, traffic_class, protocol, body): (IpAddr, IpAddr, _, _, _) = match first >> 4 {
            4 => {
                let (header, total) = (usize::from(first & 15) * 4, usize::from(word(ip, 2)?));
                // More fragments, or not the first one (RFC 791).
                if header < 20 || word(ip, 6)? & 0x3fff != 0 {
                    return None;
                }
                let address = |at: usize| Some(Ipv4Addr::from(*ip.get(at..)?.first_chunk::<4>()?).into());
                (
                    address(12)?,
                    address(16)?,
                    *ip.get(1)?,
                    *ip.get(9)?,
                    ip.get(header..total)?,
                )
            }
            6 => {
                let end = 40 + usize::from(word(ip, 4)?);
                let address = |at: usize| Some(Ipv6Addr::from(*ip.get(at..)?.first_chunk::<16>()?).into());
                let class = (word(ip, 0)? >> 4) as u8;
                (address(8)?, address(24)?, class, *ip.get(6)?, ip.get(40..end)?)
            }
            _ => return None,
        };
        let (ports, sctp) = match protocol {
            UDP => {
                let len = usize::from(word(body, 4)?);
                ((word(body, 0)?, word(body, 2)?), body.get(8..len)?)
            }
            SCTP => ((0, 0), body),
            _ => return None,
        };
        Some(Self {
            link,
            source: SocketAddr::new(from, ports.0),
            destination: SocketAddr::new(to, ports.1),
            traffic_class,
            sctp,
        })
    }

    /// Whether the SCTP packet is directly in IP.
    pub(super) fn is_raw(&self) -> bool {
        self.source.port() == 0 && self.destination.port() == 0
    }

    /// The captured packet with another SCTP packet in it. The headers of IP and UDP are made again.
    pub(super) fn with(&self, sctp: &[u8]) -> Vec<u8> {
        let mut packet = self.link.to_vec();
        write_ip_packet(
            &mut packet,
            self.source,
            self.destination,
            self.traffic_class,
            sctp,
        );
        packet
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The bytes before the IP header.
fn link_len(link_type: u16, packet: &[u8]) -> Option<usize> {
    Some(match link_type {
        // Raw IP, of either version.
        101 | 228 | 229 => 0,
        // Ethernet; 802.1Q and 802.1ad tags have 4 bytes.
        1 => {
            let mut at = 12;
            while matches!(word(packet, at)?, 0x8100 | 0x88a8) {
                at += 4;
            }
            matches!(word(packet, at)?, 0x0800 | 0x86dd).then_some(at + 2)?
        }
        // The loopback of BSD and macOS.
        0 | 108 => 4,
        // `tcpdump -i any` on Linux, both forms.
        113 => 16,
        276 => 20,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(source: &str, destination: &str) -> Vec<u8> {
        let mut packet = Vec::new();
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        write_ip_packet(&mut packet, source, destination, 0xb9, b"the SCTP packet");
        packet
    }

    #[test]
    fn packets_are_found_and_replaced_in_every_link_layer() {
        let vlan = [&[1; 12][..], &[0x81, 0, 0, 5, 0x08, 0]].concat();
        let ethernet = [&[1; 12][..], &[0x86, 0xdd]].concat();
        for (link_type, link, from, to) in [
            (101, vec![], "10.0.0.1:9899", "10.0.0.2:7"),
            (228, vec![], "10.0.0.1:0", "10.0.0.2:0"),
            (1, vlan, "10.0.0.1:9899", "10.0.0.2:7"),
            (1, ethernet, "[fd00::1]:9899", "[fd00::2]:7"),
            (113, vec![9; 16], "10.0.0.1:9899", "10.0.0.2:7"),
            (276, vec![9; 20], "[fd00::1]:0", "[fd00::2]:0"),
            (108, vec![2, 0, 0, 0], "10.0.0.1:9899", "10.0.0.2:7"),
        ] {
            let mut packet = [&link[..], &ip(from, to)].concat();
            // Ethernet pads short packets.
            packet.extend_from_slice(&[0; 6]);
            let found = Carried::of(link_type, &packet).unwrap();
            assert_eq!(found.sctp, b"the SCTP packet");
            assert_eq!(found.is_raw(), from.ends_with(":0"));
            assert_eq!(found.with(found.sctp), packet[..packet.len() - 6], "{link_type}");
        }
    }

    #[test]
    fn other_packets_are_not_found() {
        let good = ip("10.0.0.1:9899", "10.0.0.2:7");
        assert!(Carried::of(9, &good).is_none(), "a link type that is not known");
        for len in 0..good.len() {
            assert!(Carried::of(101, &good[..len]).is_none(), "{len}");
        }
        for (at, value) in [(0, 0x15), (0, 0x41), (6, 0x20), (7, 1), (9, 6)] {
            let mut other = good.clone();
            other[at] = value;
            assert!(Carried::of(101, &other).is_none(), "{at} {value}");
        }
    }
}
