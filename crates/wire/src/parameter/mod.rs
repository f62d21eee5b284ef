//! Parameters of INIT, INIT ACK, HEARTBEAT, ASCONF and RE-CONFIG (RFC 9260 §3.2.1), the content of each kind in a file
//! for those that belong together.
//!
//! ```text
//! |          Parameter Type       |       Parameter Length        |
//! |                       Parameter Value                         |
//! ```

mod address;
mod list;
mod reconfiguration;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use crate::cause::Causes;
use crate::chunk::{UnknownAction, pad, padded};
use crate::reader::Reader;
pub(crate) use crate::tlv::HEADER_LEN;
use crate::tlv::{put, split_first};
use crate::types::{StreamId, Tsn};

/// Parameter types.
pub mod kind {
    /// RFC 9260 §3.3.5.
    pub const HEARTBEAT_INFO: u16 = 1;
    /// RFC 9260 §3.3.2.1.1.
    pub const IPV4: u16 = 5;
    /// RFC 9260 §3.3.2.1.2.
    pub const IPV6: u16 = 6;
    /// RFC 9260 §3.3.3.1.1.
    pub const STATE_COOKIE: u16 = 7;
    /// RFC 9260 §3.3.3.1.2.
    pub const UNRECOGNIZED_PARAMETER: u16 = 8;
    /// RFC 9260 §3.3.2.1.3.
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    /// RFC 9260 §3.3.2.1.4: deprecated.
    pub const HOST_NAME: u16 = 11;
    /// RFC 9260 §3.3.2.1.5.
    pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    /// RFC 6525 §4.1.
    pub const OUTGOING_SSN_RESET: u16 = 13;
    /// RFC 6525 §4.2.
    pub const INCOMING_SSN_RESET: u16 = 14;
    /// RFC 6525 §4.3.
    pub const SSN_TSN_RESET: u16 = 15;
    /// RFC 6525 §4.4.
    pub const RE_CONFIG_RESPONSE: u16 = 16;
    /// RFC 6525 §4.5.
    pub const ADD_OUTGOING_STREAMS: u16 = 17;
    /// RFC 6525 §4.6.
    pub const ADD_INCOMING_STREAMS: u16 = 18;
    /// RFC 9260 §3.3.2 (reserved there for ECN).
    pub const ECN_CAPABLE: u16 = 0x8000;
    /// RFC 9653 §4.
    pub const ZERO_CHECKSUM_ACCEPTABLE: u16 = 0x8001;
    /// RFC 4895 §3.1.
    pub const RANDOM: u16 = 0x8002;
    /// RFC 4895 §3.2.
    pub const CHUNK_LIST: u16 = 0x8003;
    /// RFC 4895 §3.3.
    pub const REQUESTED_HMACS: u16 = 0x8004;
    /// RFC 5061 §4.2.7.
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    /// RFC 3758 §3.1.
    pub const FORWARD_TSN_SUPPORTED: u16 = 0xC000;
    /// RFC 5061 §4.2.1.
    pub const ADD_IP: u16 = 0xC001;
    /// RFC 5061 §4.2.2.
    pub const DELETE_IP: u16 = 0xC002;
    /// RFC 5061 §4.2.3.
    pub const ERROR_CAUSE_INDICATION: u16 = 0xC003;
    /// RFC 5061 §4.2.4.
    pub const SET_PRIMARY: u16 = 0xC004;
    /// RFC 5061 §4.2.5.
    pub const SUCCESS_INDICATION: u16 = 0xC005;
    /// RFC 5061 §4.2.6.
    pub const ADAPTATION_LAYER: u16 = 0xC006;
}

/// What is done with a parameter of an unknown type: its two highest bits tell (§3.2.1).
#[must_use]
pub const fn unknown_parameter_action(kind: u16) -> UnknownAction {
    UnknownAction::from_bits((kind >> 14) as u8)
}

/// Why bytes are no parameter, or a parameter of a known type cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A parameter claims fewer bytes than its header has, or more than are there; what follows cannot be found.
    #[error("a parameter has an impossible length where {left} bytes are left")]
    Framing {
        /// Bytes left in the list.
        left: usize,
    },
    /// The content is longer or shorter than the type says, or not of a kind that it allows.
    #[error("a parameter of type {kind:#06x} has a content that its type does not allow")]
    Content {
        /// The parameter type.
        kind: u16,
    },
}

/// A list of parameters, each read when it is asked for. Equal lists have equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Parameters(Bytes);

impl Parameters {
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// A list without parameters.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// The parameters in order; ends after the first error.
    #[must_use]
    pub fn iter(&self) -> ParameterIter {
        ParameterIter { rest: self.0.clone() }
    }

    /// The list as it is on the wire: all parameters but the last are padded.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

/// The parameters of a list.
#[derive(Clone, Debug)]
pub struct ParameterIter {
    rest: Bytes,
}

impl Iterator for ParameterIter {
    type Item = Result<RawParameter, ParameterError>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.rest.len();
        if left == 0 {
            return None;
        }
        let Some((kind, whole)) = split_first(&mut self.rest) else {
            self.rest = Bytes::new();
            return Some(Err(ParameterError::Framing { left }));
        };
        Some(Ok(RawParameter { kind, whole }))
    }
}

/// Collects parameters.
#[derive(Clone, Debug, Default)]
pub struct ParametersBuilder(Vec<u8>);

impl ParametersBuilder {
    /// Begins an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a parameter of at most 65,535 bytes. The one before it is padded; the last one is not (§3.2).
    #[must_use]
    pub fn push(mut self, parameter: &Parameter) -> Self {
        pad(&mut self.0, 0);
        parameter.encode_unpadded(&mut self.0);
        self
    }

    /// The list.
    #[must_use]
    pub fn finish(self) -> Parameters {
        Parameters(self.0.into())
    }
}

/// A parameter whose length is possible and whose content was not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawParameter {
    /// The parameter type; see [`kind`].
    pub kind: u16,
    whole: Bytes,
}

impl RawParameter {
    /// The content, without header and padding.
    #[must_use]
    pub fn value(&self) -> Bytes {
        self.whole.slice(HEADER_LEN..)
    }

    /// The parameter with its header, without padding.
    #[must_use]
    pub fn whole(&self) -> Bytes {
        self.whole.clone()
    }
}

/// A parameter of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// What the sender of a HEARTBEAT put in, for itself.
    HeartbeatInfo(Bytes),
    /// An address of the sender.
    Ipv4(Ipv4Addr),
    /// An address of the sender.
    Ipv6(Ipv6Addr),
    /// What the sender of an INIT ACK wants to have back.
    StateCookie(Bytes),
    /// A whole parameter of the INIT that was not understood.
    UnrecognizedParameter(Bytes),
    /// Asks for a cookie that lives longer.
    CookiePreservative {
        /// By how many milliseconds.
        increment_ms: u32,
    },
    /// The name of the sender: deprecated, never to be sent.
    HostName(Bytes),
    /// Types of the address parameters that the sender takes.
    SupportedAddressTypes(Vec<u16>),
    /// Asks to begin the numbering of the sender's streams anew.
    OutgoingSsnReset {
        /// Numbers the request.
        request: u32,
        /// The request of the peer that this answers.
        response: u32,
        /// The last TSN the sender assigned.
        last_assigned_tsn: Tsn,
        /// The streams, all if empty.
        streams: Vec<StreamId>,
    },
    /// Asks the peer to begin the numbering of its streams anew.
    IncomingSsnReset {
        /// Numbers the request.
        request: u32,
        /// The streams, all if empty.
        streams: Vec<StreamId>,
    },
    /// Asks to begin all numbering anew.
    SsnTsnReset {
        /// Numbers the request.
        request: u32,
    },
    /// Answers a request for re-configuration.
    ReConfigResponse {
        /// The number of the request.
        sequence: u32,
        /// How it went: RFC 6525 §4.4, table 3.
        result: u32,
        /// The next TSN of the answer's sender, then that of its receiver, after an SSN/TSN reset.
        next_tsns: Option<(Tsn, Tsn)>,
    },
    /// Announces more streams to the peer.
    AddOutgoingStreams {
        /// Numbers the request.
        request: u32,
        /// How many.
        count: u16,
    },
    /// Asks the peer for more streams from it.
    AddIncomingStreams {
        /// Numbers the request.
        request: u32,
        /// How many.
        count: u16,
    },
    /// The sender understands ECNE and CWR.
    EcnCapable,
    /// The sender takes packets with a zero checksum (RFC 9653).
    ZeroChecksumAcceptable {
        /// The error detection method that makes up for it: 1 is DTLS.
        method: u32,
    },
    /// The random number for the keys of RFC 4895.
    Random(Bytes),
    /// Chunk types that the sender takes only authenticated.
    ChunkList(Vec<u8>),
    /// Authentication algorithms that the sender takes, best first.
    RequestedHmacs(Vec<u16>),
    /// Chunk types of extensions that the sender understands.
    SupportedExtensions(Vec<u8>),
    /// The sender understands FORWARD-TSN.
    ForwardTsnSupported,
    /// Asks to add an address.
    AddIp {
        /// Given back in the answer.
        correlation_id: u32,
        /// The address; unspecified: the packet's source.
        address: IpAddr,
    },
    /// Asks to remove an address.
    DeleteIp {
        /// Given back in the answer.
        correlation_id: u32,
        /// The address; unspecified: all but the packet's source.
        address: IpAddr,
    },
    /// Answers a request that failed.
    ErrorCauseIndication {
        /// As in the request.
        correlation_id: u32,
        /// Why.
        causes: Causes,
    },
    /// Asks to send to an address in the first place.
    SetPrimary {
        /// Given back in the answer.
        correlation_id: u32,
        /// The address; unspecified: the packet's source.
        address: IpAddr,
    },
    /// Answers a request that was fulfilled.
    SuccessIndication {
        /// As in the request.
        correlation_id: u32,
    },
    /// For the application's protocols.
    AdaptationLayer(u32),
    /// A parameter of a type that is not known here.
    Unknown(RawParameter),
}

impl Parameter {
    /// Reads the content of a parameter.
    ///
    /// # Errors
    /// The type is known and the content does not fit it.
    pub fn decode(raw: RawParameter) -> Result<Self, ParameterError> {
        let kind = raw.kind;
        Self::read(raw).ok_or(ParameterError::Content { kind })
    }

    fn read(raw: RawParameter) -> Option<Self> {
        let mut reader = Reader::new(raw.value());
        let parameter = match raw.kind {
            kind::HEARTBEAT_INFO => return Some(Self::HeartbeatInfo(reader.rest())),
            kind::STATE_COOKIE => return Some(Self::StateCookie(reader.rest())),
            kind::UNRECOGNIZED_PARAMETER => return Some(Self::UnrecognizedParameter(reader.rest())),
            kind::HOST_NAME => return Some(Self::HostName(reader.rest())),
            kind::RANDOM => return Some(Self::Random(reader.rest())),
            kind::IPV4 | kind::IPV6 => match address::read_value(raw.kind, &mut reader)? {
                IpAddr::V4(ip) => Self::Ipv4(ip),
                IpAddr::V6(ip) => Self::Ipv6(ip),
            },
            kind::COOKIE_PRESERVATIVE => Self::CookiePreservative {
                increment_ms: reader.u32()?,
            },
            kind::SUPPORTED_ADDRESS_TYPES => Self::SupportedAddressTypes(list::read_u16s(&mut reader)?),
            kind::OUTGOING_SSN_RESET..=kind::ADD_INCOMING_STREAMS => {
                reconfiguration::read(raw.kind, &mut reader)?
            }
            kind::ECN_CAPABLE => Self::EcnCapable,
            kind::ZERO_CHECKSUM_ACCEPTABLE => Self::ZeroChecksumAcceptable {
                method: reader.u32()?,
            },
            kind::CHUNK_LIST => return Some(Self::ChunkList(reader.rest().to_vec())),
            kind::REQUESTED_HMACS => Self::RequestedHmacs(list::read_u16s(&mut reader)?),
            kind::SUPPORTED_EXTENSIONS => return Some(Self::SupportedExtensions(reader.rest().to_vec())),
            kind::FORWARD_TSN_SUPPORTED => Self::ForwardTsnSupported,
            kind::ADD_IP | kind::DELETE_IP | kind::SET_PRIMARY => {
                address::read_request(raw.kind, &mut reader)?
            }
            kind::ERROR_CAUSE_INDICATION => {
                let correlation_id = reader.u32()?;
                let causes = Causes::from_bytes(reader.rest());
                return Some(Self::ErrorCauseIndication {
                    correlation_id,
                    causes,
                });
            }
            kind::SUCCESS_INDICATION => Self::SuccessIndication {
                correlation_id: reader.u32()?,
            },
            kind::ADAPTATION_LAYER => Self::AdaptationLayer(reader.u32()?),
            _ => return Some(Self::Unknown(raw)),
        };
        reader.is_empty().then_some(parameter)
    }

    /// The parameter type; see [`kind`].
    #[must_use]
    pub fn kind(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => kind::HEARTBEAT_INFO,
            Self::Ipv4(_) => kind::IPV4,
            Self::Ipv6(_) => kind::IPV6,
            Self::StateCookie(_) => kind::STATE_COOKIE,
            Self::UnrecognizedParameter(_) => kind::UNRECOGNIZED_PARAMETER,
            Self::CookiePreservative { .. } => kind::COOKIE_PRESERVATIVE,
            Self::HostName(_) => kind::HOST_NAME,
            Self::SupportedAddressTypes(_) => kind::SUPPORTED_ADDRESS_TYPES,
            Self::OutgoingSsnReset { .. } => kind::OUTGOING_SSN_RESET,
            Self::IncomingSsnReset { .. } => kind::INCOMING_SSN_RESET,
            Self::SsnTsnReset { .. } => kind::SSN_TSN_RESET,
            Self::ReConfigResponse { .. } => kind::RE_CONFIG_RESPONSE,
            Self::AddOutgoingStreams { .. } => kind::ADD_OUTGOING_STREAMS,
            Self::AddIncomingStreams { .. } => kind::ADD_INCOMING_STREAMS,
            Self::EcnCapable => kind::ECN_CAPABLE,
            Self::ZeroChecksumAcceptable { .. } => kind::ZERO_CHECKSUM_ACCEPTABLE,
            Self::Random(_) => kind::RANDOM,
            Self::ChunkList(_) => kind::CHUNK_LIST,
            Self::RequestedHmacs(_) => kind::REQUESTED_HMACS,
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
            Self::ForwardTsnSupported => kind::FORWARD_TSN_SUPPORTED,
            Self::AddIp { .. } => kind::ADD_IP,
            Self::DeleteIp { .. } => kind::DELETE_IP,
            Self::ErrorCauseIndication { .. } => kind::ERROR_CAUSE_INDICATION,
            Self::SetPrimary { .. } => kind::SET_PRIMARY,
            Self::SuccessIndication { .. } => kind::SUCCESS_INDICATION,
            Self::AdaptationLayer(_) => kind::ADAPTATION_LAYER,
            Self::Unknown(raw) => raw.kind,
        }
    }

    /// Bytes with header and padding.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        padded(HEADER_LEN + self.value_len())
    }

    fn value_len(&self) -> usize {
        match self {
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognizedParameter(bytes)
            | Self::HostName(bytes)
            | Self::Random(bytes) => bytes.len(),
            Self::ChunkList(kinds) | Self::SupportedExtensions(kinds) => kinds.len(),
            Self::SupportedAddressTypes(numbers) | Self::RequestedHmacs(numbers) => 2 * numbers.len(),
            Self::OutgoingSsnReset { streams, .. } => 12 + 2 * streams.len(),
            Self::IncomingSsnReset { streams, .. } => 4 + 2 * streams.len(),
            Self::ReConfigResponse { next_tsns, .. } => 8 + next_tsns.map_or(0, |_| 8),
            Self::AddOutgoingStreams { .. } | Self::AddIncomingStreams { .. } => 8,
            Self::EcnCapable | Self::ForwardTsnSupported => 0,
            Self::Ipv6(_) => 16,
            Self::Ipv4(_)
            | Self::CookiePreservative { .. }
            | Self::SsnTsnReset { .. }
            | Self::ZeroChecksumAcceptable { .. }
            | Self::SuccessIndication { .. }
            | Self::AdaptationLayer(_) => 4,
            Self::AddIp { address, .. }
            | Self::DeleteIp { address, .. }
            | Self::SetPrimary { address, .. } => 4 + HEADER_LEN + if address.is_ipv4() { 4 } else { 16 },
            Self::ErrorCauseIndication { causes, .. } => 4 + causes.as_bytes().len(),
            Self::Unknown(raw) => raw.whole.len() - HEADER_LEN,
        }
    }

    /// Appends the parameter, at most 65,535 bytes, and its padding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.encode_unpadded(out);
        pad(out, start);
    }

    pub(crate) fn encode_unpadded(&self, out: &mut Vec<u8>) {
        put(out, self.kind(), |out| self.encode_value(out));
    }

    fn encode_value(&self, out: &mut Vec<u8>) {
        match self {
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognizedParameter(bytes)
            | Self::HostName(bytes)
            | Self::Random(bytes) => out.extend_from_slice(bytes),
            Self::ChunkList(kinds) | Self::SupportedExtensions(kinds) => out.extend_from_slice(kinds),
            Self::SupportedAddressTypes(numbers) | Self::RequestedHmacs(numbers) => {
                list::put_u16s(out, numbers)
            }
            Self::Ipv4(ip) => out.extend_from_slice(&ip.octets()),
            Self::Ipv6(ip) => out.extend_from_slice(&ip.octets()),
            Self::EcnCapable | Self::ForwardTsnSupported => {}
            Self::CookiePreservative { increment_ms: number }
            | Self::ZeroChecksumAcceptable { method: number }
            | Self::SuccessIndication {
                correlation_id: number,
            }
            | Self::AdaptationLayer(number) => out.extend_from_slice(&number.to_be_bytes()),
            Self::AddIp {
                correlation_id,
                address,
            }
            | Self::DeleteIp {
                correlation_id,
                address,
            }
            | Self::SetPrimary {
                correlation_id,
                address,
            } => address::put_request(out, *correlation_id, *address),
            Self::ErrorCauseIndication {
                correlation_id,
                causes,
            } => {
                out.extend_from_slice(&correlation_id.to_be_bytes());
                out.extend_from_slice(causes.as_bytes());
            }
            Self::OutgoingSsnReset { .. }
            | Self::IncomingSsnReset { .. }
            | Self::SsnTsnReset { .. }
            | Self::ReConfigResponse { .. }
            | Self::AddOutgoingStreams { .. }
            | Self::AddIncomingStreams { .. } => reconfiguration::put_value(out, self),
            Self::Unknown(raw) => out.extend_from_slice(&raw.whole[HEADER_LEN..]),
        }
    }
}

#[cfg(test)]
mod tests;
