//! Error causes: the content of ABORT and ERROR chunks (RFC 9260 §3.3.10).
//!
//! ```text
//! |          Cause Code           |         Cause Length          |
//! |                   Cause-Specific Information                  |
//! ```

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::chunk::{pad, padded};
use crate::reader::Reader;
use crate::types::{StreamId, Tsn};

const HEADER_LEN: usize = 4;

/// The codes of draft-ietf-tsvwg-sctp-dtls-chunk §4.3, which IANA has still to confirm.
mod protection {
    pub(super) const MISSING: u16 = 100;
    pub(super) const NO_COMMON_METHOD: u16 = 101;
    pub(super) const TIE_BREAKER: u16 = 102;
    pub(super) const ROLES: u16 = 103;
}

/// Why an error cause cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CauseError {
    /// The length field is smaller than the cause's header or larger than the rest of the chunk.
    #[error("an error cause claims {claimed} bytes where {left} are left")]
    Length {
        /// Length in bytes that the length field states.
        claimed: usize,
        /// Bytes left in the chunk.
        left: usize,
    },
    /// The cause code is known, but the content does not have the form of this cause.
    #[error("an error cause of code {code} has a length that its content does not fit")]
    Content {
        /// The cause code.
        code: u16,
    },
}

/// A list of error causes, as encoded in a chunk.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Causes(Bytes);

/// The causes, and not their bytes: a program whose `main` returns an error prints it so.
impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for cause in self.iter() {
            match cause {
                Ok(cause) => list.entry(&cause),
                Err(error) => list.entry(&error),
            };
        }
        list.finish()
    }
}

impl Causes {
    /// An empty list.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// Takes these bytes as an encoded list, without checking them.
    #[must_use]
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Encodes a list of these causes.
    #[must_use]
    pub fn from_causes(causes: &[Cause]) -> Self {
        let mut bytes = Vec::new();
        for cause in causes {
            pad(&mut bytes, 0);
            cause.encode(&mut bytes);
        }
        Self(bytes.into())
    }

    /// The encoded list.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The causes in order. The iterator ends after the first cause whose length is wrong.
    pub fn iter(&self) -> impl Iterator<Item = Result<Cause, CauseError>> + use<> {
        CauseIter { rest: self.0.clone() }
    }
}

struct CauseIter {
    rest: Bytes,
}

impl Iterator for CauseIter {
    type Item = Result<Cause, CauseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.rest.len();
        if left == 0 {
            return None;
        }
        let claimed = if left < HEADER_LEN {
            left
        } else {
            usize::from(u16::from_be_bytes([self.rest[2], self.rest[3]]))
        };
        if left < HEADER_LEN || claimed < HEADER_LEN || claimed > left {
            self.rest = Bytes::new();
            return Some(Err(CauseError::Length { claimed, left }));
        }
        let whole = self.rest.split_to(padded(claimed).min(left));
        let code = u16::from_be_bytes([whole[0], whole[1]]);
        let value = whole.slice(HEADER_LEN..claimed);
        Some(Cause::read(code, value).ok_or(CauseError::Content { code }))
    }
}

/// An error cause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// 1: a DATA chunk names a stream that does not exist (§3.3.10.1).
    InvalidStreamIdentifier {
        /// The stream.
        stream: StreamId,
    },
    /// 2: mandatory parameters are missing; their types (§3.3.10.2).
    MissingMandatoryParameter(Vec<u16>),
    /// 3: the cookie is too old (§3.3.10.3).
    StaleCookie {
        /// Microseconds since the cookie expired.
        staleness_us: u32,
    },
    /// 4: the sender of the cause lacks memory or another resource (§3.3.10.4).
    OutOfResource,
    /// 5: an address that cannot be used; the whole address parameter (§3.3.10.5).
    UnresolvableAddress(Bytes),
    /// 6: a chunk of an unrecognized type; the whole chunk (§3.3.10.6).
    UnrecognizedChunkType(Bytes),
    /// 7: a parameter of INIT or INIT ACK has a value that is not allowed (§3.3.10.7).
    InvalidMandatoryParameter,
    /// 8: unrecognized parameters of an INIT ACK, with their headers (§3.3.10.8).
    UnrecognizedParameters(Bytes),
    /// 9: a DATA chunk without user data (§3.3.10.9).
    NoUserData {
        /// The chunk's TSN.
        tsn: Tsn,
    },
    /// 10: a COOKIE ECHO arrived in state SHUTDOWN-ACK-SENT (§3.3.10.10).
    CookieReceivedWhileShuttingDown,
    /// 11: a restart used addresses that the association did not have before; their address parameters (§3.3.10.11).
    RestartWithNewAddresses(Bytes),
    /// 12: the application aborted; its reason, opaque to SCTP (§3.3.10.12).
    UserInitiatedAbort(Bytes),
    /// 13: another violation of the protocol; a description (§3.3.10.13).
    ProtocolViolation(Bytes),
    /// 100: this endpoint requires DTLS chunks, and the peer does not support them (draft-ietf-tsvwg-sctp-dtls-chunk §4.3.1).
    MissingDtlsSupport,
    /// 101: the endpoints have no key management method in common (draft-ietf-tsvwg-sctp-dtls-chunk §4.3.2).
    NoCommonKeyManagement,
    /// 102: both endpoints chose the same tie breaker (draft-ietf-tsvwg-sctp-dtls-chunk §4.3.3).
    TieBreakerCollision,
    /// 103: the endpoints cannot take different roles (draft-ietf-tsvwg-sctp-dtls-chunk §4.3.4).
    IncompatibleKeyManagementRoles,
    /// 0x00A0: an ASCONF asked to delete the last address; its parameter with the header (RFC 5061 §4.3.1).
    DeleteLastAddress(Bytes),
    /// 0x00A1: there are not enough resources for the request of an ASCONF; its parameter with the header (RFC 5061 §4.3.2).
    ResourceShortage(Bytes),
    /// 0x00A2: an ASCONF asked to delete the source address of its packet; its parameter with the header (RFC 5061 §4.3.3).
    DeleteSourceAddress(Bytes),
    /// 0x00A3: an ASCONF-ACK answers no ASCONF (RFC 5061 §4.3.4).
    IllegalAsconfAck(Bytes),
    /// 0x00A4: the sender of an ASCONF may not make this request; its parameter with the header (RFC 5061 §4.3.5).
    NoAuthorization(Bytes),
    /// 0x0105: the authentication algorithm is not supported (RFC 4895 §4.1).
    UnsupportedHmac {
        /// The HMAC identifier.
        hmac_id: u16,
    },
    /// A cause with a code that this list does not have.
    Unknown {
        /// The cause code.
        code: u16,
        /// The cause-specific information.
        value: Bytes,
    },
}

impl Cause {
    /// The cause code.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier { .. } => 1,
            Self::MissingMandatoryParameter(_) => 2,
            Self::StaleCookie { .. } => 3,
            Self::OutOfResource => 4,
            Self::UnresolvableAddress(_) => 5,
            Self::UnrecognizedChunkType(_) => 6,
            Self::InvalidMandatoryParameter => 7,
            Self::UnrecognizedParameters(_) => 8,
            Self::NoUserData { .. } => 9,
            Self::CookieReceivedWhileShuttingDown => 10,
            Self::RestartWithNewAddresses(_) => 11,
            Self::UserInitiatedAbort(_) => 12,
            Self::ProtocolViolation(_) => 13,
            Self::MissingDtlsSupport => protection::MISSING,
            Self::NoCommonKeyManagement => protection::NO_COMMON_METHOD,
            Self::TieBreakerCollision => protection::TIE_BREAKER,
            Self::IncompatibleKeyManagementRoles => protection::ROLES,
            Self::DeleteLastAddress(_) => 0x00A0,
            Self::ResourceShortage(_) => 0x00A1,
            Self::DeleteSourceAddress(_) => 0x00A2,
            Self::IllegalAsconfAck(_) => 0x00A3,
            Self::NoAuthorization(_) => 0x00A4,
            Self::UnsupportedHmac { .. } => 0x0105,
            Self::Unknown { code, .. } => *code,
        }
    }

    fn read(code: u16, value: Bytes) -> Option<Self> {
        let mut reader = Reader::new(value.clone());
        let cause = match code {
            1 => {
                let (stream, _reserved) = (StreamId(reader.u16()?), reader.u16()?);
                Self::InvalidStreamIdentifier { stream }
            }
            2 => {
                let count = reader.u32()?;
                let list = reader.rest();
                let fits = u32::try_from(list.len() / 2) == Ok(count) && list.len().is_multiple_of(2);
                let kinds = list
                    .chunks_exact(2)
                    .map(|entry| u16::from_be_bytes([entry[0], entry[1]]));
                return fits.then(|| Self::MissingMandatoryParameter(kinds.collect()));
            }
            3 => Self::StaleCookie {
                staleness_us: reader.u32()?,
            },
            4 => Self::OutOfResource,
            5 => return Some(Self::UnresolvableAddress(value)),
            6 => return Some(Self::UnrecognizedChunkType(value)),
            7 => Self::InvalidMandatoryParameter,
            8 => return Some(Self::UnrecognizedParameters(value)),
            9 => Self::NoUserData {
                tsn: Tsn(reader.u32()?),
            },
            10 => Self::CookieReceivedWhileShuttingDown,
            11 => return Some(Self::RestartWithNewAddresses(value)),
            12 => return Some(Self::UserInitiatedAbort(value)),
            13 => return Some(Self::ProtocolViolation(value)),
            protection::MISSING => Self::MissingDtlsSupport,
            protection::NO_COMMON_METHOD => Self::NoCommonKeyManagement,
            protection::TIE_BREAKER => Self::TieBreakerCollision,
            protection::ROLES => Self::IncompatibleKeyManagementRoles,
            0x00A0 => return Some(Self::DeleteLastAddress(value)),
            0x00A1 => return Some(Self::ResourceShortage(value)),
            0x00A2 => return Some(Self::DeleteSourceAddress(value)),
            0x00A3 => return Some(Self::IllegalAsconfAck(value)),
            0x00A4 => return Some(Self::NoAuthorization(value)),
            0x0105 => Self::UnsupportedHmac {
                hmac_id: reader.u16()?,
            },
            _ => return Some(Self::Unknown { code, value }),
        };
        reader.is_empty().then_some(cause)
    }

    /// Appends the cause, without padding. Content that does not fit a chunk is truncated at its end.
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.code().to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        match self {
            Self::InvalidStreamIdentifier { stream } => {
                out.extend_from_slice(&stream.0.to_be_bytes());
                out.extend_from_slice(&[0; 2]);
            }
            Self::MissingMandatoryParameter(kinds) => {
                out.extend_from_slice(&(kinds.len() as u32).to_be_bytes());
                kinds
                    .iter()
                    .for_each(|kind| out.extend_from_slice(&kind.to_be_bytes()));
            }
            Self::StaleCookie { staleness_us: number } | Self::NoUserData { tsn: Tsn(number) } => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::UnsupportedHmac { hmac_id } => out.extend_from_slice(&hmac_id.to_be_bytes()),
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognizedChunkType(bytes)
            | Self::UnrecognizedParameters(bytes)
            | Self::RestartWithNewAddresses(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::DeleteLastAddress(bytes)
            | Self::ResourceShortage(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::IllegalAsconfAck(bytes)
            | Self::NoAuthorization(bytes)
            | Self::Unknown { value: bytes, .. } => {
                out.extend_from_slice(&bytes[..bytes.len().min(usize::from(u16::MAX) - 64)]);
            }
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieReceivedWhileShuttingDown
            | Self::MissingDtlsSupport
            | Self::NoCommonKeyManagement
            | Self::TieBreakerCollision
            | Self::IncompatibleKeyManagementRoles => {}
        }
        let len = (out.len() - start) as u16;
        out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;

    #[test]
    fn every_cause_is_read_as_it_was_written() {
        let bytes = Bytes::from_static(b"\0\x05\0\x08\x0A\0\0\x01");
        let all = vec![
            Cause::InvalidStreamIdentifier { stream: StreamId(9) },
            Cause::MissingMandatoryParameter(vec![7]),
            Cause::StaleCookie {
                staleness_us: 1_000_000,
            },
            Cause::OutOfResource,
            Cause::UnresolvableAddress(bytes.clone()),
            Cause::UnrecognizedChunkType(Bytes::from_static(b"\x7F\0\0\x05!")),
            Cause::InvalidMandatoryParameter,
            Cause::UnrecognizedParameters(bytes.clone()),
            Cause::NoUserData { tsn: Tsn(77) },
            Cause::CookieReceivedWhileShuttingDown,
            Cause::RestartWithNewAddresses(bytes.clone()),
            Cause::UserInitiatedAbort(Bytes::from_static(b"enough")),
            Cause::ProtocolViolation(Bytes::from_static(b"why")),
            Cause::DeleteLastAddress(bytes.clone()),
            Cause::ResourceShortage(bytes.clone()),
            Cause::DeleteSourceAddress(bytes.clone()),
            Cause::IllegalAsconfAck(Bytes::new()),
            Cause::NoAuthorization(bytes.clone()),
            Cause::UnsupportedHmac { hmac_id: 2 },
            Cause::MissingDtlsSupport,
            Cause::NoCommonKeyManagement,
            Cause::TieBreakerCollision,
            Cause::IncompatibleKeyManagementRoles,
            Cause::Unknown {
                code: 0x00A5,
                value: bytes,
            },
        ];
        let list = Causes::from_causes(&all);
        assert_eq!(list.iter().collect::<Result<Vec<_>, _>>().unwrap(), all);
        for len in 0..list.as_bytes().len() {
            let _ = Causes::from_bytes(list.as_bytes().slice(..len)).iter().count();
        }
        let codes: Vec<_> = all.iter().map(Cause::code).collect();
        assert_eq!(codes[..13], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
        assert_eq!(codes[13..19], [0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0x0105]);
        assert_eq!(codes[19..23], [100, 101, 102, 103]);
        let told = Causes::from_causes(&[Cause::UserInitiatedAbort("bye".into())]);
        assert_eq!(format!("{told:?}"), "[UserInitiatedAbort(b\"bye\")]");
        let hmac = Causes::from_causes(&[Cause::UnsupportedHmac { hmac_id: 2 }]);
        assert_eq!(hmac.as_bytes()[..], [1, 5, 0, 6, 0, 2]);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for bytes in [
            &[0, 1, 0, 6, 0, 1][..],
            &[0, 4, 0, 5, 0],
            &[0, 100, 0, 5, 0],
            &[0, 2, 0, 10, 0, 0, 0, 2, 0, 7],
            &[1, 5, 0, 5, 0],
            &[1, 5, 0, 8, 0, 1, 0, 0],
        ] {
            let cause = Causes::from_bytes(Bytes::copy_from_slice(bytes))
                .iter()
                .next()
                .unwrap();
            assert!(matches!(cause, Err(CauseError::Content { .. })), "{bytes:?}");
        }
        let short = Causes::from_bytes(Bytes::from_static(&[0, 4, 0, 9]));
        assert_eq!(
            short.iter().next(),
            Some(Err(CauseError::Length { claimed: 9, left: 4 }))
        );
    }
}
