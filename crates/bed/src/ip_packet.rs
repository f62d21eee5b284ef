//! An IP packet as a TUN device delivers it: the fields that a link needs (RFC 791, RFC 8200).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_netsim::{Ecn, FiveTuple, Generator, LinkPacket, read_ip_ecn, set_ip_ecn};

/// The length without options (RFC 791 §3.1).
const IPV4_HEADER: usize = 20;
/// The length without extension headers (RFC 8200 §3).
const IPV6_HEADER: usize = 40;
const DONT_FRAGMENT: u8 = 0x40;
/// TCP, UDP and SCTP: their headers begin with the ports.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// A packet inside the bed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IpPacket(pub(crate) Vec<u8>);

impl IpPacket {
    fn version(&self) -> u8 {
        self.0.first().map_or(0, |byte| byte >> 4)
    }

    /// The length of the IP header, at most that of the packet.
    fn header_len(&self) -> usize {
        let len = match self.version() {
            4 => (usize::from(self.0[0] & 0x0f) * 4).max(IPV4_HEADER),
            6 => IPV6_HEADER,
            _ => 0,
        };
        len.min(self.0.len())
    }

    /// Source, destination, protocol, and whether the transport header follows the IP header.
    fn ends(&self) -> Option<(IpAddr, IpAddr, u8, bool)> {
        match self.version() {
            4 => {
                let header = self.0.first_chunk::<IPV4_HEADER>()?;
                let address = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|byte| header[at + byte])).into();
                // All fragments of a packet must belong to one flow, and only the first has ports. So fragments count as packets without
                // ports.
                let whole = header[6] & 0x3f == 0 && header[7] == 0;
                Some((address(12), address(16), header[9], whole))
            }
            6 => {
                let header = self.0.first_chunk::<IPV6_HEADER>()?;
                let address = |at: usize| {
                    <[u8; 16]>::try_from(&header[at..at + 16]).map(|ip| Ipv6Addr::from(ip).into())
                };
                Some((address(8).ok()?, address(24).ok()?, header[6], true))
            }
            _ => None,
        }
    }
}

impl LinkPacket for IpPacket {
    fn wire_len(&self) -> usize {
        self.0.len()
    }

    /// A router may fragment IPv4 packets without the DF flag, and no others.
    fn may_fragment(&self) -> bool {
        self.version() == 4 && self.0.get(6).is_some_and(|flags| flags & DONT_FRAGMENT == 0)
    }

    fn ecn(&self) -> Ecn {
        read_ip_ecn(&self.0)
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        set_ip_ecn(&mut self.0, ecn);
    }

    /// The ports of TCP, UDP and SCTP. With an IPv6 extension header, the ports are not read.
    fn five_tuple(&self) -> Option<FiveTuple> {
        let (source, destination, protocol, whole) = self.ends()?;
        let transport = match whole && WITH_PORTS.contains(&protocol) {
            true => &self.0[self.header_len()..],
            false => &[],
        };
        Some(FiveTuple::new(source, destination, protocol, transport))
    }

    /// As in the simulator, the IP header stays intact: a corrupted packet still reaches its destination.
    fn corrupt(&mut self, random: &mut Generator) {
        let mut payload = self.0.split_off(self.header_len());
        if !payload.is_empty() {
            payload.corrupt(random);
        }
        self.0.append(&mut payload);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_netsim::write_ip_packet;

    use super::*;

    fn packet(from: &str, to: &str) -> IpPacket {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let mut bytes = Vec::new();
        write_ip_packet(&mut bytes, address(from), address(to), 0, &[7; 100]);
        IpPacket(bytes)
    }

    #[test]
    fn only_ipv4_without_df_may_be_fragmented() {
        let mut v4 = packet("10.0.0.1:1", "10.0.0.2:2");
        assert!(!v4.may_fragment());
        v4.0[6] = 0;
        assert!(v4.may_fragment());
        assert!(!packet("[fd77::1]:1", "[fd77::2]:2").may_fragment());
        assert!(!IpPacket(vec![0x45]).may_fragment());
        assert!(!IpPacket(Vec::new()).may_fragment());
    }

    #[test]
    fn the_flow_is_read_from_the_headers() {
        for [from, to] in [["10.0.0.1:1", "10.0.0.2:2"], ["[fd77::1]:1", "[fd77::2]:2"]] {
            let expected = FiveTuple {
                source: from.parse().unwrap(),
                destination: to.parse().unwrap(),
                protocol: 17,
            };
            assert_eq!(packet(from, to).five_tuple(), Some(expected));
        }
        let mut fragment = packet("10.0.0.1:1", "10.0.0.2:2");
        fragment.0[6] = 0x20;
        let ports = fragment
            .five_tuple()
            .map(|flow| (flow.source.port(), flow.destination.port()));
        assert_eq!(ports, Some((0, 0)), "later fragments of the packet have no ports");
        assert_eq!(IpPacket(vec![0x45; 19]).five_tuple(), None);
    }

    #[test]
    fn the_codepoint_is_that_of_the_header() {
        for mut packet in [
            packet("10.0.0.1:1", "10.0.0.2:2"),
            packet("[fd77::1]:1", "[fd77::2]:2"),
        ] {
            assert_eq!(packet.ecn(), Ecn::NotEct);
            packet.set_ecn(Ecn::Ce);
            assert_eq!(packet.ecn(), Ecn::Ce);
        }
    }

    #[test]
    fn corruption_spares_the_header() {
        let mut random = Generator::of_process(1, "corrupt");
        let whole = [
            (packet("10.0.0.1:1", "10.0.0.2:2"), 20),
            (packet("[fd77::1]:1", "[fd77::2]:2"), 40),
        ];
        for (packet, header) in whole {
            for _ in 0..200 {
                let mut damaged = packet.clone();
                damaged.corrupt(&mut random);
                assert_eq!(damaged.0[..header], packet.0[..header]);
                assert_ne!(damaged.0[header..], packet.0[header..]);
                assert_eq!(damaged.0.len(), packet.0.len());
            }
        }
        let mut only_a_header = IpPacket(packet("10.0.0.1:1", "10.0.0.2:2").0[..20].to_vec());
        only_a_header.corrupt(&mut random);
        assert_eq!(only_a_header.0.len(), 20);
    }
}
