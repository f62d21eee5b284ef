//! Addresses: those of INIT (RFC 9260 §3.3.2.1.1, §3.3.2.1.2) and requests to change them (RFC 5061 §4.2).
//!
//! ```text
//! |        Type = 5, 6            |      Length = 8, 20           |
//! |                 IPv4 Address, IPv6 Address                    |
//!
//! |   Type = 0xC001, 2, 4         |    Length = Variable          |
//! |               ASCONF-Request Correlation ID                   |
//! |                       Address Parameter                       |
//! ```

use alloc::vec::Vec;
use core::net::IpAddr;

use super::{Parameter, kind};
use crate::reader::Reader;
use crate::tlv;

/// Reads the content of an address parameter of this type.
pub(super) fn read_value(parameter_kind: u16, reader: &mut Reader) -> Option<IpAddr> {
    match parameter_kind {
        kind::IPV4 => reader.array::<4>().map(IpAddr::from),
        kind::IPV6 => reader.array::<16>().map(IpAddr::from),
        _ => None,
    }
}

/// Reads a request about an address; what is left is for the caller to refuse.
pub(super) fn read_request(request_kind: u16, reader: &mut Reader) -> Option<Parameter> {
    let correlation_id = reader.u32()?;
    let address_kind = reader.u16()?;
    let claimed = usize::from(reader.u16()?);
    let before = reader.len();
    let address = read_value(address_kind, reader)?;
    if claimed != tlv::HEADER_LEN + before - reader.len() {
        return None;
    }
    match request_kind {
        kind::ADD_IP => Some(Parameter::AddIp {
            correlation_id,
            address,
        }),
        kind::DELETE_IP => Some(Parameter::DeleteIp {
            correlation_id,
            address,
        }),
        kind::SET_PRIMARY => Some(Parameter::SetPrimary {
            correlation_id,
            address,
        }),
        _ => None,
    }
}

/// Appends the content of a request about an address.
pub(super) fn put_request(out: &mut Vec<u8>, correlation_id: u32, address: IpAddr) {
    out.extend_from_slice(&correlation_id.to_be_bytes());
    match address {
        IpAddr::V4(ip) => tlv::put(out, kind::IPV4, |out| out.extend_from_slice(&ip.octets())),
        IpAddr::V6(ip) => tlv::put(out, kind::IPV6, |out| out.extend_from_slice(&ip.octets())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn addresses_round_trip() {
        check(
            &[0, 5, 0, 8, 192, 0, 2, 1],
            &Parameter::Ipv4([192, 0, 2, 1].into()),
        );
        let mut six = [0; 20];
        six[..4].copy_from_slice(&[0, 6, 0, 20]);
        six[19] = 1;
        check(&six, &Parameter::Ipv6([0, 0, 0, 0, 0, 0, 0, 1].into()));
        check_refused(&[0, 5, 0, 9, 192, 0, 2, 1, 7]);
    }

    #[test]
    fn the_examples_of_rfc_5061_round_trip() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut bytes = [0xC0, 1, 0, 16, 1, 2, 0x34, 0x74, 0, 5, 0, 8, 0xC0, 0, 2, 1];
        check(
            &bytes,
            &Parameter::AddIp {
                correlation_id: 0x0102_3474,
                address,
            },
        );
        (bytes[1], bytes[7]) = (2, 0x76);
        check(
            &bytes,
            &Parameter::DeleteIp {
                correlation_id: 0x0102_3476,
                address,
            },
        );
        (bytes[1], bytes[7]) = (4, 0x79);
        check(
            &bytes,
            &Parameter::SetPrimary {
                correlation_id: 0x0102_3479,
                address,
            },
        );
        bytes[11] = 9;
        check_refused(&bytes);
        (bytes[9], bytes[11]) = (7, 8);
        check_refused(&bytes);
    }
}
