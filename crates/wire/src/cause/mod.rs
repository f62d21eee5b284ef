//! Error causes of ABORT, ERROR and ASCONF-ACK (RFC 9260 §3.3.10, RFC 4895 §4.2, RFC 5061 §4.3).
//!
//! ```text
//! |           Cause Code          |       Cause Length            |
//! |                    Cause-Specific Information                 |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use crate::chunk::pad;
use crate::reader::Reader;
use crate::tlv::{HEADER_LEN, put, split_first};
use crate::types::{StreamId, Tsn};

/// Cause codes.
pub mod code {
    /// RFC 9260 §3.3.10.1.
    pub const INVALID_STREAM_IDENTIFIER: u16 = 1;
    /// RFC 9260 §3.3.10.2.
    pub const MISSING_MANDATORY_PARAMETER: u16 = 2;
    /// RFC 9260 §3.3.10.3.
    pub const STALE_COOKIE: u16 = 3;
    /// RFC 9260 §3.3.10.4.
    pub const OUT_OF_RESOURCE: u16 = 4;
    /// RFC 9260 §3.3.10.5.
    pub const UNRESOLVABLE_ADDRESS: u16 = 5;
    /// RFC 9260 §3.3.10.6.
    pub const UNRECOGNIZED_CHUNK_TYPE: u16 = 6;
    /// RFC 9260 §3.3.10.7.
    pub const INVALID_MANDATORY_PARAMETER: u16 = 7;
    /// RFC 9260 §3.3.10.8.
    pub const UNRECOGNIZED_PARAMETERS: u16 = 8;
    /// RFC 9260 §3.3.10.9.
    pub const NO_USER_DATA: u16 = 9;
    /// RFC 9260 §3.3.10.10.
    pub const COOKIE_RECEIVED_WHILE_SHUTTING_DOWN: u16 = 10;
    /// RFC 9260 §3.3.10.11.
    pub const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
    /// RFC 9260 §3.3.10.12.
    pub const USER_INITIATED_ABORT: u16 = 12;
    /// RFC 9260 §3.3.10.13.
    pub const PROTOCOL_VIOLATION: u16 = 13;
    /// RFC 5061 §4.3.1.
    pub const DELETE_LAST_ADDRESS: u16 = 0x00A0;
    /// RFC 5061 §4.3.2.
    pub const OPERATION_REFUSED: u16 = 0x00A1;
    /// RFC 5061 §4.3.3.
    pub const DELETE_SOURCE_ADDRESS: u16 = 0x00A2;
    /// RFC 5061 §4.3.4.
    pub const ILLEGAL_ASCONF_ACK: u16 = 0x00A3;
    /// RFC 5061 §4.3.5.
    pub const NO_AUTHORIZATION: u16 = 0x00A4;
    /// RFC 4895 §4.2.
    pub const UNSUPPORTED_HMAC: u16 = 0x0105;
}

/// Why bytes are no error cause, or a cause of a known code cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CauseError {
    /// A cause claims fewer bytes than its header has, or more than are there; what follows cannot be found.
    #[error("an error cause has an impossible length where {left} bytes are left")]
    Framing {
        /// Bytes left in the list.
        left: usize,
    },
    /// The information is longer or shorter than the code says.
    #[error("an error cause of code {code} has information that its code does not allow")]
    Content {
        /// The cause code.
        code: u16,
    },
}

/// A list of error causes, each read when it is asked for. Equal lists have equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Causes(Bytes);

impl Causes {
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// A list without causes.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// A list of these, which together fit a chunk of 65,535 bytes. All but the last are padded.
    #[must_use]
    pub fn from_causes(causes: &[Cause]) -> Self {
        let mut bytes = Vec::new();
        for cause in causes {
            pad(&mut bytes, 0);
            put(&mut bytes, cause.code(), |out| cause.encode_information(out));
        }
        Self(bytes.into())
    }

    /// The causes in order. One whose information does not fit its code is an error among others; a length that is
    /// impossible ends the list.
    #[must_use]
    pub fn iter(&self) -> CauseIter {
        CauseIter { rest: self.0.clone() }
    }

    /// The list as it is on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

/// The causes of a list.
#[derive(Clone, Debug)]
pub struct CauseIter {
    rest: Bytes,
}

impl Iterator for CauseIter {
    type Item = Result<Cause, CauseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.rest.len();
        if left == 0 {
            return None;
        }
        let Some((code, whole)) = split_first(&mut self.rest) else {
            self.rest = Bytes::new();
            return Some(Err(CauseError::Framing { left }));
        };
        Some(Cause::read(code, whole.slice(HEADER_LEN..)).ok_or(CauseError::Content { code }))
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A DATA chunk for a stream that does not exist.
    InvalidStreamIdentifier {
        /// The stream.
        stream: StreamId,
    },
    /// An INIT or INIT ACK lacks parameters of these types.
    MissingMandatoryParameter(Vec<u16>),
    /// The state cookie came too late.
    StaleCookie {
        /// By how many microseconds.
        staleness_us: u32,
    },
    /// The sender lacks memory or the like.
    OutOfResource,
    /// An address parameter, whole, that cannot be used.
    UnresolvableAddress(Bytes),
    /// A chunk, whole, of a type that is not known.
    UnrecognizedChunkType(Bytes),
    /// A field of an INIT or INIT ACK has a value that is not allowed.
    InvalidMandatoryParameter,
    /// Parameters of the INIT ACK, whole, that were not understood.
    UnrecognizedParameters(Bytes),
    /// A DATA chunk without data.
    NoUserData {
        /// Its TSN.
        tsn: Tsn,
    },
    /// A COOKIE ECHO came in SHUTDOWN-ACK-SENT.
    CookieReceivedWhileShuttingDown,
    /// The address parameters, whole, that an INIT added to an association that exists.
    RestartWithNewAddresses(Bytes),
    /// The application ended the association, and says this.
    UserInitiatedAbort(Bytes),
    /// The peer broke a rule that has no cause of its own; words about it.
    ProtocolViolation(Bytes),
    /// The request, whole, would delete the last address.
    DeleteLastAddress(Bytes),
    /// The request, whole, needs more than there is.
    OperationRefused(Bytes),
    /// The request, whole, would delete the address it came from.
    DeleteSourceAddress(Bytes),
    /// An ASCONF-ACK that nothing asked for.
    IllegalAsconfAck,
    /// The request, whole, is not allowed.
    NoAuthorization(Bytes),
    /// An AUTH chunk with an algorithm that was not offered.
    UnsupportedHmac {
        /// The algorithm.
        hmac_id: u16,
    },
    /// A cause of a code that is not known here.
    Unknown {
        /// The cause code.
        code: u16,
        /// The information, without header.
        value: Bytes,
    },
}

impl Cause {
    fn read(code: u16, value: Bytes) -> Option<Self> {
        let mut reader = Reader::new(value);
        let cause = match code {
            code::INVALID_STREAM_IDENTIFIER => {
                let stream = StreamId(reader.u16()?);
                let _reserved = reader.u16()?;
                Self::InvalidStreamIdentifier { stream }
            }
            code::MISSING_MANDATORY_PARAMETER => {
                let count = usize::try_from(reader.u32()?).ok()?;
                let kinds = reader.bytes(count.checked_mul(2)?)?;
                let kinds = kinds
                    .chunks_exact(2)
                    .map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
                Self::MissingMandatoryParameter(kinds.collect())
            }
            code::STALE_COOKIE => Self::StaleCookie {
                staleness_us: reader.u32()?,
            },
            code::OUT_OF_RESOURCE => Self::OutOfResource,
            code::UNRESOLVABLE_ADDRESS => return Some(Self::UnresolvableAddress(reader.rest())),
            code::UNRECOGNIZED_CHUNK_TYPE => return Some(Self::UnrecognizedChunkType(reader.rest())),
            code::INVALID_MANDATORY_PARAMETER => Self::InvalidMandatoryParameter,
            code::UNRECOGNIZED_PARAMETERS => return Some(Self::UnrecognizedParameters(reader.rest())),
            code::NO_USER_DATA => Self::NoUserData {
                tsn: Tsn(reader.u32()?),
            },
            code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => Self::CookieReceivedWhileShuttingDown,
            code::RESTART_WITH_NEW_ADDRESSES => return Some(Self::RestartWithNewAddresses(reader.rest())),
            code::USER_INITIATED_ABORT => return Some(Self::UserInitiatedAbort(reader.rest())),
            code::PROTOCOL_VIOLATION => return Some(Self::ProtocolViolation(reader.rest())),
            code::DELETE_LAST_ADDRESS => return Some(Self::DeleteLastAddress(reader.rest())),
            code::OPERATION_REFUSED => return Some(Self::OperationRefused(reader.rest())),
            code::DELETE_SOURCE_ADDRESS => return Some(Self::DeleteSourceAddress(reader.rest())),
            code::ILLEGAL_ASCONF_ACK => Self::IllegalAsconfAck,
            code::NO_AUTHORIZATION => return Some(Self::NoAuthorization(reader.rest())),
            code::UNSUPPORTED_HMAC => Self::UnsupportedHmac {
                hmac_id: reader.u16()?,
            },
            _ => {
                return Some(Self::Unknown {
                    code,
                    value: reader.rest(),
                });
            }
        };
        reader.is_empty().then_some(cause)
    }

    /// The cause code; see [`code`](mod@code).
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier { .. } => code::INVALID_STREAM_IDENTIFIER,
            Self::MissingMandatoryParameter(_) => code::MISSING_MANDATORY_PARAMETER,
            Self::StaleCookie { .. } => code::STALE_COOKIE,
            Self::OutOfResource => code::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => code::UNRESOLVABLE_ADDRESS,
            Self::UnrecognizedChunkType(_) => code::UNRECOGNIZED_CHUNK_TYPE,
            Self::InvalidMandatoryParameter => code::INVALID_MANDATORY_PARAMETER,
            Self::UnrecognizedParameters(_) => code::UNRECOGNIZED_PARAMETERS,
            Self::NoUserData { .. } => code::NO_USER_DATA,
            Self::CookieReceivedWhileShuttingDown => code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN,
            Self::RestartWithNewAddresses(_) => code::RESTART_WITH_NEW_ADDRESSES,
            Self::UserInitiatedAbort(_) => code::USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => code::PROTOCOL_VIOLATION,
            Self::DeleteLastAddress(_) => code::DELETE_LAST_ADDRESS,
            Self::OperationRefused(_) => code::OPERATION_REFUSED,
            Self::DeleteSourceAddress(_) => code::DELETE_SOURCE_ADDRESS,
            Self::IllegalAsconfAck => code::ILLEGAL_ASCONF_ACK,
            Self::NoAuthorization(_) => code::NO_AUTHORIZATION,
            Self::UnsupportedHmac { .. } => code::UNSUPPORTED_HMAC,
            Self::Unknown { code, .. } => *code,
        }
    }

    fn encode_information(&self, out: &mut Vec<u8>) {
        match self {
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieReceivedWhileShuttingDown
            | Self::IllegalAsconfAck => {}
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
            | Self::OperationRefused(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::NoAuthorization(bytes)
            | Self::Unknown { value: bytes, .. } => out.extend_from_slice(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
