//! Writes IPv4, IPv6 and UDP headers around SCTP packets, and IP headers around other packets, for captures (RFC 791, RFC 8200, RFC 768,
//! RFC 6951).

use std::net::{IpAddr, SocketAddr};

use crate::ecn::Ecn;

pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const PROTOCOL_SCTP: u8 = 132;
const HOP_LIMIT: u8 = 64;

/// Appends to `buffer` an IP packet that carries `payload` from `source` to `destination`. If both ports are 0, SCTP is carried directly
/// over IP as protocol 132, else in UDP. The Traffic Class (in IPv4 the Type of Service) has the DSCP and the ECN codepoint. If the addresses have different families, the packet is IPv6.
pub fn write_packet(
    buffer: &mut Vec<u8>,
    source: SocketAddr,
    destination: SocketAddr,
    traffic_class: u8,
    payload: &[u8],
) {
    let in_udp = source.port() != 0 || destination.port() != 0;
    let len = payload.len() + if in_udp { 8 } else { 0 };
    let protocol = if in_udp { PROTOCOL_UDP } else { PROTOCOL_SCTP };
    let pseudo_header_sum = write_header(
        buffer,
        (source.ip(), destination.ip()),
        traffic_class,
        protocol,
        len,
    );
    if in_udp {
        let mut header = [0; 8];
        header[..2].copy_from_slice(&source.port().to_be_bytes());
        header[2..4].copy_from_slice(&destination.port().to_be_bytes());
        header[4..6].copy_from_slice(&length(len).to_be_bytes());
        let total = pseudo_header_sum + sum(&header) + sum(payload);
        // 0 means "no checksum", so a checksum of 0 is sent as 0xffff (RFC 768).
        let checksum = match fold(total) {
            0 => u16::MAX,
            checksum => checksum,
        };
        header[6..].copy_from_slice(&checksum.to_be_bytes());
        buffer.extend_from_slice(&header);
    }
    buffer.extend_from_slice(payload);
}

/// Appends the header of an IP packet that carries `len` bytes of a protocol. Returns the sum of the pseudo header, with which the
/// checksums of UDP and TCP begin.
pub(crate) fn write_header(
    buffer: &mut Vec<u8>,
    (source, destination): (IpAddr, IpAddr),
    traffic_class: u8,
    protocol: u8,
    len: usize,
) -> u64 {
    let addresses_sum = match (source.to_canonical(), destination.to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            write_ipv4(buffer, from.octets(), to.octets(), traffic_class, protocol, len);
            sum(&from.octets()) + sum(&to.octets())
        }
        (from, to) => {
            let (from, to) = (as_ipv6(from), as_ipv6(to));
            write_ipv6(buffer, from, to, traffic_class, protocol, len);
            sum(&from) + sum(&to)
        }
    };
    addresses_sum + u64::from(protocol) + len as u64
}

fn write_ipv4(buffer: &mut Vec<u8>, from: [u8; 4], to: [u8; 4], traffic_class: u8, protocol: u8, len: usize) {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[1] = traffic_class;
    header[2..4].copy_from_slice(&length(20 + len).to_be_bytes());
    header[6] = 0x40; // Don't fragment.
    header[8] = HOP_LIMIT;
    header[9] = protocol;
    header[12..16].copy_from_slice(&from);
    header[16..].copy_from_slice(&to);
    let checksum = fold(sum(&header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    buffer.extend_from_slice(&header);
}

fn write_ipv6(
    buffer: &mut Vec<u8>,
    from: [u8; 16],
    to: [u8; 16],
    traffic_class: u8,
    protocol: u8,
    len: usize,
) {
    // The Traffic Class is between the version and the Flow Label.
    buffer.extend_from_slice(&[0x60 | traffic_class >> 4, traffic_class << 4, 0, 0]);
    buffer.extend_from_slice(&length(len).to_be_bytes());
    buffer.extend_from_slice(&[protocol, HOP_LIMIT]);
    buffer.extend_from_slice(&from);
    buffer.extend_from_slice(&to);
}

/// The ECN codepoint in the header of an IP packet; Not-ECT if the bytes are not an IP packet.
#[must_use]
pub fn read_ecn(packet: &[u8]) -> Ecn {
    match *packet {
        [first, octet, ..] if first >> 4 == 4 => Ecn::from_bits(octet),
        [first, octet, ..] if first >> 4 == 6 => Ecn::from_bits(octet >> 4),
        _ => Ecn::NotEct,
    }
}

/// Sets the ECN codepoint in the header of an IP packet and updates the checksum of an IPv4 header (RFC 1624). Does nothing if the bytes
/// are not an IP packet.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => {
            let old = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] = packet[1] & !3 | ecn.bits();
            let new = u16::from_be_bytes([packet[0], packet[1]]);
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            // RFC 1624 equation 3: HC' = ~(~HC + ~m + m').
            let updated = fold(u64::from(!checksum) + u64::from(!old) + u64::from(new));
            packet[10..12].copy_from_slice(&updated.to_be_bytes());
        }
        Some(6) if packet.len() >= 2 => packet[1] = packet[1] & !0x30 | ecn.bits() << 4,
        _ => {}
    }
}

fn as_ipv6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// A length field. A length that exceeds the field (no packet of this project does) is written as 65,535.
fn length(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The sum of the 16-bit words (RFC 1071), not yet folded.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u64::from(low)))
        .sum()
}

/// The checksum (RFC 1071) of a sum of words.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let mut buffer = Vec::new();
        write_packet(
            &mut buffer,
            source.parse().unwrap(),
            destination.parse().unwrap(),
            0,
            payload,
        );
        buffer
    }

    #[test]
    fn sctp_in_ipv4() {
        let packet = written("10.0.0.1:0", "10.0.0.2:0", b"payload!");
        assert_eq!(packet.len(), 28);
        assert_eq!((packet[0], packet[9], &packet[2..4]), (0x45, 132, &[0, 28][..]));
        assert_eq!(
            fold(sum(&packet[..20])),
            0,
            "a header with its checksum sums to all ones"
        );
        assert_eq!(&packet[20..], b"payload!");
    }

    #[test]
    fn sctp_in_udp_in_ipv6() {
        let packet = written("[fd00::1]:9899", "[fd00::2]:9899", b"odd");
        assert_eq!(packet.len(), 40 + 8 + 3);
        assert_eq!((packet[0], packet[6], &packet[4..6]), (0x60, 17, &[0, 11][..]));
        let with_checksum = sum(&packet[8..40]) + 17 + 11 + sum(&packet[40..]);
        assert_eq!(fold(with_checksum), 0);
    }

    #[test]
    fn families_meet_in_ipv6() {
        let packet = written("10.0.0.1:1", "[fd00::2]:2", b"x");
        assert_eq!(packet[0] >> 4, 6);
        let mapped = written("[::ffff:10.0.0.1]:1", "10.0.0.2:2", b"x");
        assert_eq!(mapped[0] >> 4, 4, "mapped addresses are IPv4");
    }

    #[test]
    fn a_codepoint_is_written_read_and_changed_under_a_right_checksum() {
        for (from, to) in [("10.0.0.1:0", "10.0.0.2:0"), ("[fd00::1]:0", "[fd00::2]:0")] {
            for ecn in Ecn::ALL {
                let mut packet = Vec::new();
                write_packet(
                    &mut packet,
                    from.parse().unwrap(),
                    to.parse().unwrap(),
                    0xb8 | ecn.bits(),
                    b"data",
                );
                assert_eq!(read_ecn(&packet), ecn);
                for changed in Ecn::ALL {
                    let mut packet = packet.clone();
                    set_ecn(&mut packet, changed);
                    let mut expected = Vec::new();
                    write_packet(
                        &mut expected,
                        from.parse().unwrap(),
                        to.parse().unwrap(),
                        0xb8 | changed.bits(),
                        b"data",
                    );
                    assert_eq!(packet, expected, "{ecn:?} to {changed:?}");
                    assert!(packet[0] >> 4 == 6 || fold(sum(&packet[..20])) == 0);
                }
            }
        }
    }

    #[test]
    fn the_rest_of_the_octet_stays() {
        let mut v4 = written("10.0.0.1:0", "10.0.0.2:0", b"");
        v4[1] = 0xb8; // Expedited forwarding.
        set_ecn(&mut v4, Ecn::Ce);
        assert_eq!((v4[1], read_ecn(&v4)), (0xbb, Ecn::Ce));
        let mut v6 = [0x6b, 0x8f, 0xff, 0xff];
        set_ecn(&mut v6, Ecn::Ect0);
        assert_eq!((v6, read_ecn(&v6)), ([0x6b, 0xaf, 0xff, 0xff], Ecn::Ect0));
        for mut other in [vec![], vec![0x45], vec![0x60], vec![0x10; 40]] {
            let before = other.clone();
            set_ecn(&mut other, Ecn::Ce);
            assert_eq!((other, read_ecn(&before)), (before.clone(), Ecn::NotEct));
        }
    }
}
