//! An IP packet as a TUN device gives it: what a link has to know of it (RFC 791, RFC 8200).

use anabranch_netsim::{Generator, LinkPacket};

/// RFC 791 §3.1.
const IPV4_HEADER: usize = 20;
/// RFC 8200 §3.
const IPV6_HEADER: usize = 40;
const DONT_FRAGMENT: u8 = 0x40;

/// A packet on its way through the bed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IpPacket(pub(crate) Vec<u8>);

impl IpPacket {
    fn version(&self) -> u8 {
        self.0.first().map_or(0, |byte| byte >> 4)
    }

    /// Bytes of the IP header, as far as they are there.
    fn header_len(&self) -> usize {
        let len = match self.version() {
            4 => (usize::from(self.0[0] & 0x0f) * 4).max(IPV4_HEADER),
            6 => IPV6_HEADER,
            _ => 0,
        };
        len.min(self.0.len())
    }
}

impl LinkPacket for IpPacket {
    fn wire_len(&self) -> usize {
        self.0.len()
    }

    /// A router may cut up IPv4 without "don't fragment", and nothing else.
    fn may_fragment(&self) -> bool {
        self.version() == 4 && self.0.get(6).is_some_and(|flags| flags & DONT_FRAGMENT == 0)
    }

    /// As in the simulator, the IP header stays whole: what comes damaged comes to the right place.
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
        write_ip_packet(&mut bytes, address(from), address(to), &[7; 100]);
        IpPacket(bytes)
    }

    #[test]
    fn who_may_cut_it_up() {
        let mut v4 = packet("10.0.0.1:1", "10.0.0.2:2");
        assert!(!v4.may_fragment());
        v4.0[6] = 0;
        assert!(v4.may_fragment());
        assert!(!packet("[fd77::1]:1", "[fd77::2]:2").may_fragment());
        assert!(!IpPacket(vec![0x45]).may_fragment());
        assert!(!IpPacket(Vec::new()).may_fragment());
    }

    #[test]
    fn damage_spares_the_header() {
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
