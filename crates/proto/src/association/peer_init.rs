//! Reading a peer's INIT or INIT ACK (RFC 9260 §3.3.2, §3.3.3, §5.1.1, §5.1.2): the same rules for a stateless answer
//! and for an association.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{UnknownAction, padded};
use anabranch_wire::parameter::{HEADER_LEN, Parameter, Parameters, unknown_parameter_action};
use anabranch_wire::{Tsn, VerificationTag};
use bytes::Bytes;

use super::capabilities::Capabilities;
use crate::config::Config;

/// The fixed fields that INIT and INIT ACK share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InitFields {
    pub(crate) tag: VerificationTag,
    pub(crate) a_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: Tsn,
}

/// What a peer offers.
#[derive(Clone, Debug)]
pub(crate) struct PeerInit {
    pub(crate) fields: InitFields,
    /// The addresses it lists, without the one the packet came from.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) capabilities: Capabilities,
    /// INIT ACK only.
    pub(crate) cookie: Option<Bytes>,
    /// How much longer it wants its cookie to live (§3.3.2.1.3).
    pub(crate) preservative: Duration,
    /// Parameters that are to be reported, whole.
    pub(crate) unrecognized: Vec<Bytes>,
}

/// The answer to an INIT or INIT ACK that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InitRefusal {
    /// Discarded without a word.
    Silent,
    /// Answered with an ABORT that carries this cause.
    Abort(Cause),
}

/// `a_rwnd` may not be smaller (§3.3.2).
const LEAST_RWND: u32 = 1500;

/// Addresses of one peer that are looked at; further ones are ignored.
pub(crate) const MOST_ADDRESSES: usize = 64;

/// Bytes of reports about unrecognized parameters, each with its own header, so that the packet with them stays small: what
/// would be more is not said (§12.4 allows it).
const MOST_REPORTED: usize = 512;

/// Reads the parameters, of which this side knows the extensions that it offers itself. Those after one
/// that says to stop are not looked at (§3.2.1).
pub(crate) fn read(
    fields: InitFields,
    parameters: &Parameters,
    config: &Config,
) -> Result<PeerInit, InitRefusal> {
    let own = Capabilities::offered(config);
    if fields.tag.0 == 0 {
        return Err(InitRefusal::Silent);
    }
    if fields.outbound_streams == 0 || fields.inbound_streams == 0 || fields.a_rwnd < LEAST_RWND {
        return Err(InitRefusal::Abort(Cause::InvalidMandatoryParameter));
    }
    let mut peer = PeerInit {
        fields,
        addresses: Vec::new(),
        capabilities: Capabilities::default(),
        cookie: None,
        preservative: Duration::ZERO,
        unrecognized: Vec::new(),
    };
    for raw in parameters.iter() {
        let malformed = || InitRefusal::Abort(Cause::ProtocolViolation(Bytes::from_static(b"parameter")));
        let raw = raw.map_err(|_| malformed())?;
        match Parameter::decode(raw.clone()).map_err(|_| malformed())? {
            Parameter::Ipv4(ip) => peer.add_address(ip.into()),
            Parameter::Ipv6(ip) => peer.add_address(ip.into()),
            Parameter::StateCookie(cookie) => peer.cookie = Some(cookie),
            Parameter::CookiePreservative { increment_ms } => {
                peer.preservative = Duration::from_millis(increment_ms.into());
            }
            Parameter::HostName(_) => {
                return Err(InitRefusal::Abort(Cause::UnresolvableAddress(raw.whole())));
            }
            Parameter::SupportedExtensions(types) => {
                let offered = Capabilities::from_chunk_types(&types, config.chunk_types).and(own);
                peer.capabilities = peer.capabilities.with(offered);
            }
            Parameter::ForwardTsnSupported if own.has(Capabilities::PARTIAL_RELIABILITY) => {
                peer.capabilities = peer.capabilities.with(Capabilities::PARTIAL_RELIABILITY);
            }
            Parameter::SupportedAddressTypes(_)
            | Parameter::UnrecognizedParameter(_)
            | Parameter::HeartbeatInfo(_) => {}
            // What this side does not speak is unknown to it, even where the name of it is known.
            _ => match unknown_parameter_action(raw.kind) {
                UnknownAction::Discard { report } => {
                    if report {
                        peer.report(raw.whole());
                    }
                    break;
                }
                UnknownAction::Skip { report } => {
                    if report {
                        peer.report(raw.whole());
                    }
                }
            },
        }
    }
    peer.capabilities = peer.capabilities.settled();
    Ok(peer)
}

impl PeerInit {
    fn report(&mut self, parameter: Bytes) {
        let len = |parameter: &Bytes| HEADER_LEN + padded(parameter.len());
        let before: usize = self.unrecognized.iter().map(len).sum();
        if before + len(&parameter) <= MOST_REPORTED {
            self.unrecognized.push(parameter);
        }
    }

    fn add_address(&mut self, address: IpAddr) {
        let address = address.to_canonical();
        if is_unicast(address) && !self.addresses.contains(&address) && self.addresses.len() < MOST_ADDRESSES
        {
            self.addresses.push(address);
        }
    }
}

/// Whether one host can be meant (§8.4 rule 1).
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(ip) if ip.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}
