//! The content of parameters (RFC 9260 §3.3.2.1, §3.3.3.1, and the extensions).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use super::key_management::{self, KeyManagement};
use super::{HEADER_LEN, ParameterError, Parameters, RawParameter, StreamList};
use crate::reader::Reader;
use crate::types::Tsn;

/// A parameter of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// 1: information that the peer returns in a HEARTBEAT ACK (RFC 9260 §3.3.5).
    HeartbeatInfo(Bytes),
    /// 5: an address of the sender (§3.3.2.1.1).
    Ipv4(Ipv4Addr),
    /// 6: an address of the sender (§3.3.2.1.2).
    Ipv6(Ipv6Addr),
    /// 7: the state cookie (§3.3.3.1.1).
    StateCookie(Bytes),
    /// 8: a parameter that the peer did not recognize, with its header (§3.3.3.1.2).
    UnrecognizedParameter(Bytes),
    /// 9: asks for a longer cookie lifetime (§3.3.2.1.3).
    CookiePreservative {
        /// Increase of the lifetime in milliseconds.
        increment_ms: u32,
    },
    /// 11: a host name; deprecated (§3.3.2.1.4).
    HostName(Bytes),
    /// 12: parameter types of the addresses that the sender supports (§3.3.2.1.5).
    SupportedAddressTypes(Vec<u16>),
    /// 13: requests a reset of the sender's outgoing streams (RFC 6525 §4.1).
    OutgoingReset {
        /// Sequence number of the request.
        request: u32,
        /// Sequence number of the request that this one answers.
        response: u32,
        /// The last TSN assigned before the reset.
        last_tsn: Tsn,
        /// The streams; an empty list stands for all.
        streams: StreamList,
    },
    /// 14: requests that the peer resets its outgoing streams (RFC 6525 §4.2).
    IncomingReset {
        /// Sequence number of the request.
        request: u32,
        /// The streams; an empty list stands for all.
        streams: StreamList,
    },
    /// 15: requests that all TSNs and SSNs begin again (RFC 6525 §4.3).
    TsnReset {
        /// Sequence number of the request.
        request: u32,
    },
    /// 16: response to a request (RFC 6525 §4.4).
    ReConfigResponse {
        /// Sequence number of the request.
        sequence: u32,
        /// 0 nothing to do, 1 performed, 2 denied, 3 wrong SSN, 4 another request in progress, 5 bad sequence number, 6 in progress.
        result: u32,
        /// After a TSN reset: the next TSN of the responder, then that of the requester.
        next_tsns: Option<(Tsn, Tsn)>,
    },
    /// 17: requests more outgoing streams for the sender (RFC 6525 §4.5).
    AddOutgoing {
        /// Sequence number of the request.
        request: u32,
        /// Number of streams to add.
        count: u16,
    },
    /// 18: requests that the peer adds outgoing streams (RFC 6525 §4.6).
    AddIncoming {
        /// Sequence number of the request.
        request: u32,
        /// Number of streams to add.
        count: u16,
    },
    /// 0x8000: the sender supports ECN (draft-stewart-tsvwg-sctpecn).
    EcnCapable,
    /// 0x8001: the sender accepts a zero checksum if this alternate error detection method is in use (RFC 9653 §4).
    ZeroChecksumAcceptable {
        /// Error detection method identifier; 1 is DTLS.
        method: u32,
    },
    /// 0x8002: a random number, from which keys are derived (RFC 4895 §3.1).
    Random(Bytes),
    /// 0x8003: chunk types that the sender requires to be authenticated (RFC 4895 §3.2).
    ChunkList(Bytes),
    /// 0x8004: HMAC identifiers that the sender supports, in order of preference (RFC 4895 §3.3).
    RequestedHmacs(Vec<u16>),
    /// 0x8005: padding without meaning (RFC 4820 §4).
    Padding(Bytes),
    /// 0x8006: how the keys of DTLS chunks may be agreed (draft-ietf-tsvwg-sctp-dtls-chunk §4.1).
    KeyManagement(KeyManagement),
    /// 0x8008: chunk types that the sender supports (RFC 5061 §4.2.7).
    SupportedExtensions(Bytes),
    /// 0xC000: the sender supports FORWARD-TSN (RFC 3758 §3.1).
    ForwardTsnSupported,
    /// 0xC001, 0xC002, 0xC004: requests to add, delete or prefer an address (RFC 5061 §4.2).
    Address {
        /// The requested change.
        action: AddressAction,
        /// Correlation ID, which the response returns.
        correlation: u32,
        /// The address; the unspecified address stands for the source address of the packet, or for all addresses but that one
        /// (§4.2.1, §4.2.2, §4.2.4).
        address: IpAddr,
    },
    /// 0xC003: the peer rejected a request (RFC 5061 §4.2.3).
    AsconfError {
        /// Correlation ID of the request.
        correlation: u32,
        /// Encoded error causes.
        causes: Bytes,
    },
    /// 0xC005: the peer performed a request (RFC 5061 §4.2.5).
    AsconfSuccess {
        /// Correlation ID of the request.
        correlation: u32,
    },
    /// 0xC006: adaptation code point, for the layer above (RFC 5061 §4.2.6).
    AdaptationLayer(u32),
    /// 0x9A01, experimental: the sender tells paths to one address of the peer apart by the UDP port.
    PortPairsSupported,
    /// 0x9A03, experimental: the sender repairs messages from I-DATA chunks with the bit R ([`crate::chunk::IData::repair`]).
    RepairSupported,
    /// 0x9A02, experimental: hashes of the INIT, which only a sender can make that knows a public key of the receiver.
    KnownKeys(Bytes),
    /// 0xDA01, 0xDA02, experimental: requests for the pair of addresses that an earlier request added.
    Pair {
        /// The requested change.
        action: PairAction,
        /// Correlation ID, which the response returns.
        correlation: u32,
        /// Correlation ID of the request that added the pair; 0 names the pair that set-up used.
        pair: u32,
    },
    /// A parameter of a type that this crate does not know.
    Unknown(RawParameter),
}

/// A requested change of a pair of addresses (experimental).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairAction {
    /// 0xDA01: the source address and UDP port of the packet replace those of the pair.
    Renew,
    /// 0xDA02: delete the pair.
    Delete,
}

impl PairAction {
    const fn kind(self) -> u16 {
        match self {
            Self::Renew => 0xDA01,
            Self::Delete => 0xDA02,
        }
    }
}

/// A requested change of addresses (RFC 5061 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAction {
    /// 0xC001: add the address.
    Add,
    /// 0xC002: delete the address.
    Delete,
    /// 0xC004: make the address the primary destination.
    SetPrimary,
}

impl AddressAction {
    const fn kind(self) -> u16 {
        match self {
            Self::Add => 0xC001,
            Self::Delete => 0xC002,
            Self::SetPrimary => 0xC004,
        }
    }
}

impl Parameter {
    /// The parameter type.
    #[must_use]
    pub fn kind(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => 1,
            Self::Ipv4(_) => 5,
            Self::Ipv6(_) => 6,
            Self::StateCookie(_) => 7,
            Self::UnrecognizedParameter(_) => 8,
            Self::CookiePreservative { .. } => 9,
            Self::HostName(_) => 11,
            Self::SupportedAddressTypes(_) => 12,
            Self::OutgoingReset { .. } => 13,
            Self::IncomingReset { .. } => 14,
            Self::TsnReset { .. } => 15,
            Self::ReConfigResponse { .. } => 16,
            Self::AddOutgoing { .. } => 17,
            Self::AddIncoming { .. } => 18,
            Self::EcnCapable => 0x8000,
            Self::ZeroChecksumAcceptable { .. } => 0x8001,
            Self::Random(_) => 0x8002,
            Self::ChunkList(_) => 0x8003,
            Self::RequestedHmacs(_) => 0x8004,
            Self::Padding(_) => 0x8005,
            Self::KeyManagement(_) => key_management::KIND,
            Self::SupportedExtensions(_) => 0x8008,
            Self::ForwardTsnSupported => 0xC000,
            Self::Address { action, .. } => action.kind(),
            Self::AsconfError { .. } => 0xC003,
            Self::AsconfSuccess { .. } => 0xC005,
            Self::AdaptationLayer(_) => 0xC006,
            Self::PortPairsSupported => 0x9A01,
            Self::RepairSupported => 0x9A03,
            Self::KnownKeys(_) => 0x9A02,
            Self::Pair { action, .. } => action.kind(),
            Self::Unknown(raw) => raw.kind,
        }
    }

    /// Decodes a parameter.
    ///
    /// # Errors
    /// The type is known, but the content does not have the form of this type.
    pub fn decode(raw: RawParameter) -> Result<Self, ParameterError> {
        let kind = raw.kind;
        Self::read(raw).ok_or(ParameterError::Content { kind })
    }

    fn read(raw: RawParameter) -> Option<Self> {
        let value = raw.value();
        let mut reader = Reader::new(value.clone());
        let parameter = match raw.kind {
            1 => return Some(Self::HeartbeatInfo(value)),
            7 => return Some(Self::StateCookie(value)),
            8 => return Some(Self::UnrecognizedParameter(value)),
            11 => return Some(Self::HostName(value)),
            12 => return read_u16s(&value).map(Self::SupportedAddressTypes),
            0x8002 => return Some(Self::Random(value)),
            0x8003 => return Some(Self::ChunkList(value)),
            0x8004 => return read_u16s(&value).map(Self::RequestedHmacs),
            0x8005 => return Some(Self::Padding(value)),
            key_management::KIND => return KeyManagement::from_value(value).map(Self::KeyManagement),
            0x8008 => return Some(Self::SupportedExtensions(value)),
            0x9A02 => return Some(Self::KnownKeys(value)),
            13 => {
                let (request, response, last_tsn) = (reader.u32()?, reader.u32()?, Tsn(reader.u32()?));
                let streams = StreamList::from_bytes(reader.rest())?;
                return Some(Self::OutgoingReset {
                    request,
                    response,
                    last_tsn,
                    streams,
                });
            }
            14 => {
                let request = reader.u32()?;
                return Some(Self::IncomingReset {
                    request,
                    streams: StreamList::from_bytes(reader.rest())?,
                });
            }
            0xC001 | 0xC002 | 0xC004 => {
                let action = match raw.kind {
                    0xC001 => AddressAction::Add,
                    0xC002 => AddressAction::Delete,
                    _ => AddressAction::SetPrimary,
                };
                return Some(Self::Address {
                    action,
                    correlation: reader.u32()?,
                    address: read_address(reader.rest())?,
                });
            }
            0xC003 => {
                return Some(Self::AsconfError {
                    correlation: reader.u32()?,
                    causes: reader.rest(),
                });
            }
            5 => Self::Ipv4(Ipv4Addr::from(reader.u32()?)),
            6 => Self::Ipv6(Ipv6Addr::from(<[u8; 16]>::try_from(&reader.bytes(16)?[..]).ok()?)),
            9 => Self::CookiePreservative {
                increment_ms: reader.u32()?,
            },
            15 => Self::TsnReset {
                request: reader.u32()?,
            },
            16 => {
                let (sequence, result) = (reader.u32()?, reader.u32()?);
                let next_tsns = if reader.is_empty() {
                    None
                } else {
                    Some((Tsn(reader.u32()?), Tsn(reader.u32()?)))
                };
                Self::ReConfigResponse {
                    sequence,
                    result,
                    next_tsns,
                }
            }
            17 | 18 => {
                let (request, count, _reserved) = (reader.u32()?, reader.u16()?, reader.u16()?);
                if raw.kind == 17 {
                    Self::AddOutgoing { request, count }
                } else {
                    Self::AddIncoming { request, count }
                }
            }
            0x8000 => Self::EcnCapable,
            0x8001 => Self::ZeroChecksumAcceptable {
                method: reader.u32()?,
            },
            0xC000 => Self::ForwardTsnSupported,
            0xC005 => Self::AsconfSuccess {
                correlation: reader.u32()?,
            },
            0xC006 => Self::AdaptationLayer(reader.u32()?),
            0x9A01 => Self::PortPairsSupported,
            0x9A03 => Self::RepairSupported,
            0xDA01 | 0xDA02 => Self::Pair {
                action: if raw.kind == 0xDA01 {
                    PairAction::Renew
                } else {
                    PairAction::Delete
                },
                correlation: reader.u32()?,
                pair: reader.u32()?,
            },
            _ => return Some(Self::Unknown(raw)),
        };
        reader.is_empty().then_some(parameter)
    }

    /// Appends the encoded parameter, without padding.
    pub(crate) fn encode_unpadded(&self, out: &mut Vec<u8>) {
        if let Self::Unknown(raw) = self {
            out.extend_from_slice(&raw.whole());
            return;
        }
        let start = out.len();
        out.extend_from_slice(&self.kind().to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        self.put_value(out);
        let len = out.len() - start;
        debug_assert!(
            len <= usize::from(u16::MAX) && len >= HEADER_LEN,
            "a parameter fits a packet"
        );
        out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
    }

    fn put_value(&self, out: &mut Vec<u8>) {
        let mut put_u32 = |number: u32| out.extend_from_slice(&number.to_be_bytes());
        match self {
            Self::Ipv4(ip) => put_u32(ip.to_bits()),
            Self::Ipv6(ip) => out.extend_from_slice(&ip.octets()),
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognizedParameter(bytes)
            | Self::HostName(bytes)
            | Self::Random(bytes)
            | Self::ChunkList(bytes)
            | Self::Padding(bytes)
            | Self::SupportedExtensions(bytes)
            | Self::KnownKeys(bytes) => out.extend_from_slice(bytes),
            Self::KeyManagement(parameter) => out.extend_from_slice(parameter.value()),
            Self::SupportedAddressTypes(numbers) | Self::RequestedHmacs(numbers) => {
                numbers
                    .iter()
                    .for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
            }
            Self::CookiePreservative { increment_ms: number }
            | Self::TsnReset { request: number }
            | Self::ZeroChecksumAcceptable { method: number }
            | Self::AsconfSuccess { correlation: number }
            | Self::AdaptationLayer(number) => put_u32(*number),
            Self::OutgoingReset {
                request,
                response,
                last_tsn,
                streams,
            } => {
                [*request, *response, last_tsn.0].into_iter().for_each(put_u32);
                out.extend_from_slice(streams.as_bytes());
            }
            Self::IncomingReset { request, streams } => {
                put_u32(*request);
                out.extend_from_slice(streams.as_bytes());
            }
            Self::ReConfigResponse {
                sequence,
                result,
                next_tsns,
            } => {
                put_u32(*sequence);
                put_u32(*result);
                if let Some((own, peers)) = next_tsns {
                    put_u32(own.0);
                    put_u32(peers.0);
                }
            }
            Self::AddOutgoing { request, count } | Self::AddIncoming { request, count } => {
                put_u32(*request);
                put_u32(u32::from(*count) << 16);
            }
            Self::Address {
                correlation, address, ..
            } => {
                put_u32(*correlation);
                match address {
                    IpAddr::V4(ip) => Self::Ipv4(*ip),
                    IpAddr::V6(ip) => Self::Ipv6(*ip),
                }
                .encode_unpadded(out);
            }
            Self::AsconfError { correlation, causes } => {
                put_u32(*correlation);
                out.extend_from_slice(causes);
            }
            Self::Pair {
                correlation, pair, ..
            } => [*correlation, *pair].into_iter().for_each(put_u32),
            Self::EcnCapable
            | Self::ForwardTsnSupported
            | Self::PortPairsSupported
            | Self::RepairSupported
            | Self::Unknown(_) => {}
        }
    }
}

/// An IPv4 or IPv6 address parameter that fills `value` (RFC 5061 §4.2.1).
fn read_address(value: Bytes) -> Option<IpAddr> {
    let len = value.len();
    let raw = Parameters::from_bytes(value).iter().next()?.ok()?;
    match (raw.whole().len() == len).then(|| Parameter::read(raw))?? {
        Parameter::Ipv4(ip) => Some(ip.into()),
        Parameter::Ipv6(ip) => Some(ip.into()),
        _ => None,
    }
}

fn read_u16s(value: &Bytes) -> Option<Vec<u16>> {
    let whole = value.len().is_multiple_of(2);
    whole.then(|| {
        value
            .chunks_exact(2)
            .map(|entry| u16::from_be_bytes([entry[0], entry[1]]))
            .collect()
    })
}

#[cfg(test)]
mod tests;
