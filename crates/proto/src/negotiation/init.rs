//! INIT and INIT ACK: their fields and parameters (RFC 9260 §3.3.2, §3.3.3, §5.1.1, §5.1.2), read and written by the same code for a
//! stateless answer and for an association.

use core::ops::ControlFlow;
use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, Init, InitAck, UnknownAction, padded};
use anabranch_wire::parameter::{
    AddressAction, HEADER_LEN, KeyManagement, Parameter, Parameters, ParametersBuilder, RawParameter,
    unknown_parameter_action,
};
use anabranch_wire::{Tsn, VerificationTag};
use bytes::Bytes;

use super::capabilities::{Capabilities, ERROR_DETECTION_DTLS};
use super::cookie::{CookieMint, StateCookie, TieTags};
use super::negotiated::{MOST_ADDRESSES, Negotiated};
use crate::config::{AddressTypes, Config};
use crate::extension::auth::{AuthParameters, KeyExchange, ParameterReader};
use crate::extension::protection::{self, KeyParameters, check_peer};
use crate::inbound::Inbound;
use crate::random::Random;
use crate::time::Timestamp;

/// The fixed fields that INIT and INIT ACK share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InitFields {
    pub(crate) tag: VerificationTag,
    pub(crate) a_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: Tsn,
}

/// The INIT or INIT ACK of a peer.
#[derive(Clone, Debug)]
pub(crate) struct PeerInit {
    pub(crate) fields: InitFields,
    /// The addresses that it lists, without the source address of the packet.
    pub(crate) addresses: Vec<IpAddr>,
    /// The types of addresses that it says it supports (§3.3.2.1.5).
    address_types: AddressTypes,
    pub(crate) capabilities: Capabilities,
    /// Its parameters of authentication, if this endpoint offers it as well.
    pub(crate) authentication: Option<AuthParameters>,
    /// Its parameter of key management. Of several only the first counts.
    pub(crate) key_management: Option<KeyManagement>,
    /// Its Adaptation Code Point (RFC 5061 §4.2.6).
    pub(crate) adaptation_layer: Option<u32>,
    /// The state cookie, in an INIT ACK only.
    pub(crate) cookie: Option<Bytes>,
    /// How much longer its cookie is to live (Cookie Preservative, §3.3.2.1.3).
    pub(crate) preservative: Duration,
    /// Unrecognized parameters to be reported, complete.
    pub(crate) unrecognized: Vec<Bytes>,
}

/// The answer to an INIT or INIT ACK that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InitRefusal {
    /// Discarded without an answer.
    Silent,
    /// Answered with an ABORT that carries this cause.
    Abort(Cause),
}

/// The type of the parameter State Cookie (§3.3.3.1), as a cause names it.
const STATE_COOKIE: u16 = 7;

/// The smallest valid `a_rwnd` in bytes (§3.3.2).
const LEAST_RWND: u32 = 1500;

/// The most bytes of reports about unrecognized parameters, each with a header, so that the packet with them stays small. Further
/// parameters are not reported (§12.4 allows it).
const MOST_REPORTED: usize = 512;

impl InitFields {
    /// The fields of this endpoint.
    pub(crate) fn own(config: &Config, tag: VerificationTag, initial_tsn: Tsn) -> Self {
        Self {
            tag,
            a_rwnd: config.buffers.receive,
            outbound_streams: config.streams.outbound,
            inbound_streams: config.streams.max_inbound,
            initial_tsn,
        }
    }

    /// An INIT with these fields.
    pub(crate) fn init(self, parameters: Parameters) -> Init {
        Init {
            initiate_tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            initial_tsn: self.initial_tsn,
            parameters,
        }
    }

    /// An INIT ACK with these fields.
    fn init_ack(self, parameters: Parameters) -> InitAck {
        InitAck {
            initiate_tag: self.tag,
            a_rwnd: self.a_rwnd,
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            initial_tsn: self.initial_tsn,
            parameters,
        }
    }
}

impl PeerInit {
    pub(crate) fn of_init(init: &Init, config: &Config) -> Result<Self, InitRefusal> {
        let fields = InitFields {
            tag: init.initiate_tag,
            a_rwnd: init.a_rwnd,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn,
        };
        Self::read(fields, &init.parameters, config)
    }

    /// Reads an INIT ACK, which must have a cookie.
    pub(crate) fn of_init_ack(init_ack: &InitAck, config: &Config) -> Result<(Self, Bytes), InitRefusal> {
        let fields = InitFields {
            tag: init_ack.initiate_tag,
            a_rwnd: init_ack.a_rwnd,
            outbound_streams: init_ack.outbound_streams,
            inbound_streams: init_ack.inbound_streams,
            initial_tsn: init_ack.initial_tsn,
        };
        let mut peer = Self::read(fields, &init_ack.parameters, config)?;
        match peer.cookie.take() {
            Some(cookie) => Ok((peer, cookie)),
            None => Err(InitRefusal::Abort(Cause::MissingMandatoryParameter(vec![
                STATE_COOKIE,
            ]))),
        }
    }

    /// The values negotiated, if this is an INIT ACK.
    pub(crate) fn negotiated(&self, config: &Config) -> Negotiated<'_> {
        Negotiated {
            peer_tag: self.fields.tag,
            peer_rwnd: self.fields.a_rwnd,
            peer_initial_tsn: self.fields.initial_tsn,
            outbound_streams: config.streams.outbound.min(self.fields.inbound_streams),
            inbound_streams: config.streams.max_inbound.min(self.fields.outbound_streams),
            capabilities: self.capabilities,
            authentication: self.authentication.as_ref().map(|peer| KeyExchange {
                local_random: None,
                peer,
            }),
            protection: self
                .key_management
                .as_ref()
                .map(|peer| KeyParameters { own: None, peer }),
            adaptation_layer: self.adaptation_layer,
            addresses: &self.addresses,
        }
    }

    /// The types of addresses that a peer which sent its INIT from this address supports: those that it lists, and those that it uses
    /// itself (§5.1.2).
    fn supported_types(&self, remote: IpAddr) -> AddressTypes {
        let used = self.addresses.iter().chain([&remote]);
        used.fold(self.address_types, |types, address| types.with(*address))
    }

    fn new(fields: InitFields) -> Self {
        Self {
            fields,
            addresses: Vec::new(),
            address_types: AddressTypes::BOTH,
            capabilities: Capabilities::default(),
            authentication: None,
            key_management: None,
            adaptation_layer: None,
            cookie: None,
            preservative: Duration::ZERO,
            unrecognized: Vec::new(),
        }
    }

    /// Reads the parameters. Only the extensions that this endpoint offers itself are known. If an unknown parameter's type says so, the
    /// parameters after it are skipped (§3.2.1).
    fn read(fields: InitFields, parameters: &Parameters, config: &Config) -> Result<Self, InitRefusal> {
        let own = Capabilities::offered(config);
        if fields.tag.0 == 0 {
            return Err(InitRefusal::Silent);
        }
        if fields.outbound_streams == 0 || fields.inbound_streams == 0 || fields.a_rwnd < LEAST_RWND {
            return Err(InitRefusal::Abort(Cause::InvalidMandatoryParameter));
        }
        let mut peer = Self::new(fields);
        let mut authentication = ParameterReader::default();
        for raw in parameters.iter() {
            let malformed = || InitRefusal::Abort(Cause::ProtocolViolation(Bytes::from_static(b"parameter")));
            let raw = raw.map_err(|_| malformed())?;
            let parameter = Parameter::decode(raw.clone()).map_err(|_| malformed())?;
            if let Some(offered) = Capabilities::of_parameter(&parameter).filter(|one| own.has(*one)) {
                peer.capabilities = peer.capabilities.with(offered);
                continue;
            }
            match parameter {
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
                Parameter::ZeroChecksumAcceptable { method } if own.has(Capabilities::ZERO_CHECKSUM) => {
                    if method == ERROR_DETECTION_DTLS {
                        peer.capabilities = peer.capabilities.with(Capabilities::ZERO_CHECKSUM);
                    }
                }
                parameter @ (Parameter::Random(_)
                | Parameter::ChunkList(_)
                | Parameter::RequestedHmacs(_))
                    if own.has(Capabilities::AUTHENTICATION) =>
                {
                    authentication.take(parameter);
                }
                Parameter::KeyManagement(parameter) => {
                    peer.key_management.get_or_insert(parameter);
                }
                Parameter::AdaptationLayer(code_point) => {
                    peer.adaptation_layer = Some(code_point);
                    peer.capabilities = peer.capabilities.with(Capabilities::ADAPTATION_LAYER);
                }
                // The peer's wish for the primary path is not signed here; it can ask again with an ASCONF (RFC 5061 §6).
                Parameter::Address {
                    action: AddressAction::SetPrimary,
                    ..
                } if own.has(Capabilities::DYNAMIC_ADDRESSES) => {}
                Parameter::SupportedAddressTypes(types) => peer.address_types = AddressTypes::of_list(&types),
                Parameter::UnrecognizedParameter(_) | Parameter::HeartbeatInfo(_) => {}
                // A parameter of an extension that this endpoint does not support is unknown, even if it could be read.
                _ => {
                    if peer.on_unknown(&raw).is_break() {
                        break;
                    }
                }
            }
        }
        peer.adopt_authentication(authentication, config)?;
        peer.adopt_protection(config)?;
        peer.capabilities = peer.capabilities.settled();
        Ok(peer)
    }

    /// A parameter of unknown type: its two highest bits say what to do (§3.2.1). Returns whether later parameters are read.
    fn on_unknown(&mut self, raw: &RawParameter) -> ControlFlow<()> {
        let (report, stops) = match unknown_parameter_action(raw.kind) {
            UnknownAction::Discard { report } => (report, true),
            UnknownAction::Skip { report } => (report, false),
        };
        if report {
            self.report(raw.whole());
        }
        match stops {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Adopts the peer's parameters of authentication (RFC 4895 §6.1). Without them, this endpoint may have to refuse the association.
    fn adopt_authentication(&mut self, reader: ParameterReader, config: &Config) -> Result<(), InitRefusal> {
        let missing = reader.missing();
        let violation = |what: &'static str| {
            InitRefusal::Abort(Cause::ProtocolViolation(Bytes::from_static(what.as_bytes())))
        };
        self.authentication = reader.finish().map_err(violation)?;
        let offered = config.offered_authentication();
        let required = offered.is_some_and(|own| own.required);
        if self.authentication.is_some() {
            self.capabilities = self.capabilities.with(Capabilities::AUTHENTICATION);
        } else if required {
            return Err(InitRefusal::Abort(Cause::MissingMandatoryParameter(missing)));
        }
        // A peer with DTLS chunks does not list AUTH (draft-ietf-tsvwg-sctp-dtls-chunk §3.2).
        let listed = self.capabilities.has(Capabilities::DYNAMIC_ADDRESSES) && self.key_management.is_none();
        if listed && !self.capabilities.has(Capabilities::AUTHENTICATION) {
            // RFC 5061 §4.2.7: such a peer must be refused.
            return Err(violation("ASCONF is listed without AUTH"));
        }
        Ok(())
    }

    /// Adopts the peer's parameter of key management, and refuses a peer that this endpoint could not exchange protected packets with
    /// (draft-ietf-tsvwg-sctp-dtls-chunk §5.1, strict mode). An endpoint without protection ignores the parameter, as its type demands.
    fn adopt_protection(&mut self, config: &Config) -> Result<(), InitRefusal> {
        match &config.protection {
            Some(own) => {
                check_peer(own, self.key_management.as_ref()).map_err(InitRefusal::Abort)?;
                self.capabilities = self.capabilities.with(Capabilities::PROTECTION);
            }
            None => self.key_management = None,
        }
        Ok(())
    }

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

/// The Initial TSN of this endpoint (§3.3.2).
pub(crate) fn first_tsn(config: &Config, random: &mut Random) -> Tsn {
    config.initial_tsn.unwrap_or_else(|| Tsn(random.next_u32()))
}

/// The parameters of an INIT. It is padded (RFC 4820 §4) so that the answer, which goes to an unproved address, need not be larger. The
/// padding reserves space for a cookie and for as many addresses as this endpoint lists.
pub(crate) fn init_parameters(
    config: &Config,
    authentication: Option<&AuthParameters>,
    key_management: Option<&KeyManagement>,
    preservative: Option<u32>,
) -> Parameters {
    let addresses = config.local_addresses.iter();
    let keys = (authentication, key_management);
    let mut parameters = own_parameters(config, addresses, Capabilities::offered(config), keys);
    if let Some(increment_ms) = preservative {
        parameters = parameters.push(&Parameter::CookiePreservative { increment_ms });
    }
    // A receiver that does not know this parameter ignores what follows it (§3.2.1), so that it stands behind the others. A receiver that
    // even refuses the INIT also refuses one that lists addresses.
    let lists = !config.local_addresses.is_empty();
    if let Some(types) = config.address_types.list().filter(|_| lists) {
        parameters = parameters.push(&Parameter::SupportedAddressTypes(types));
    }
    // The cookie has the source address of the INIT, of either address family, in addition to the listed addresses.
    let unlisted = [IpAddr::from([0; 16])];
    let mut room = StateCookie::len_with(config.local_addresses.iter().chain(&unlisted));
    room += authentication.map_or(0, StateCookie::len_for);
    room += key_management.map_or(0, protection::cookie_len);
    parameters
        .push(&Parameter::Padding(vec![0; room].into()))
        .finish()
}

/// The parameters that INIT and INIT ACK share: this endpoint's addresses, if it lists any (§5.1.2), and its extensions: in an INIT those
/// that it offers, in an INIT ACK only those that the peer offers too, which keeps it short.
fn own_parameters<'a>(
    config: &Config,
    addresses: impl Iterator<Item = &'a IpAddr>,
    offered: Capabilities,
    (authentication, key_management): (Option<&AuthParameters>, Option<&KeyManagement>),
) -> ParametersBuilder {
    let mut parameters = ParametersBuilder::new();
    for address in addresses {
        parameters = parameters.push(&match address {
            IpAddr::V4(ip) => Parameter::Ipv4(*ip),
            IpAddr::V6(ip) => Parameter::Ipv6(*ip),
        });
    }
    let mut parameters = offered.push_parameters(parameters, config.chunk_types);
    // An endpoint accepts zero checksums independently of its peer (RFC 9653 §5.1).
    if config.lower_layer.detects_errors() {
        parameters = parameters.push(&Parameter::ZeroChecksumAcceptable {
            method: ERROR_DETECTION_DTLS,
        });
    }
    if let Some(code_point) = config.adaptation_layer {
        parameters = parameters.push(&Parameter::AdaptationLayer(code_point));
    }
    if let Some(parameter) = key_management {
        parameters = parameters.push(&Parameter::KeyManagement(parameter.clone()));
    }
    match authentication.filter(|_| offered.has(Capabilities::AUTHENTICATION)) {
        Some(own) => own.push(parameters),
        None => parameters,
    }
}

/// The fields and parameters of this endpoint's INIT ACK.
pub(crate) struct OwnInit {
    pub(crate) fields: InitFields,
    pub(crate) authentication: Option<AuthParameters>,
    pub(crate) key_management: Option<KeyManagement>,
}

/// The INIT ACK that answers the INIT of `peer` in `inbound` (§5.1.3, §5.2.1, §5.2.2). The endpoint keeps no state: all of it is in the cookie.
pub(crate) fn answer_init(
    now: Timestamp,
    config: &Config,
    mint: &mut CookieMint,
    inbound: &Inbound,
    peer: &PeerInit,
    own_init: OwnInit,
    tie_tags: Option<TieTags>,
) -> Chunk {
    let OwnInit {
        fields: own,
        authentication,
        key_management,
    } = own_init;
    let remote = inbound.remote.ip();
    let mut addresses = vec![remote];
    addresses.extend(peer.addresses.iter().filter(|address| **address != remote));
    addresses.truncate(config.most_paths());
    let cookie = StateCookie {
        created: now,
        lifetime: mint.lifetime_for(peer.preservative),
        local_port: inbound.packet.header.destination_port,
        remote_port: inbound.packet.header.source_port,
        local_tag: own.tag,
        peer_tag: peer.fields.tag,
        local_initial_tsn: own.initial_tsn,
        peer_initial_tsn: peer.fields.initial_tsn,
        peer_rwnd: peer.fields.a_rwnd,
        outbound_streams: own.outbound_streams.min(peer.fields.inbound_streams),
        inbound_streams: own.inbound_streams.min(peer.fields.outbound_streams),
        tie_tags,
        capabilities: peer.capabilities,
        authentication: authentication
            .as_ref()
            .zip(peer.authentication.clone())
            .map(|(own, peer)| (own.random, peer)),
        protection: key_management
            .clone()
            .zip(peer.key_management.clone())
            .map(|(own, peer)| protection::KeyExchange { own, peer }),
        adaptation_layer: peer.adaptation_layer,
        addresses,
    };
    let types = peer.supported_types(remote);
    let own_addresses = config.local_addresses.iter().filter(|own| types.has(**own));
    let keys = (authentication.as_ref(), key_management.as_ref());
    let mut parameters = own_parameters(config, own_addresses, peer.capabilities, keys)
        .push(&Parameter::StateCookie(mint.mint(now, &cookie)));
    for parameter in &peer.unrecognized {
        parameters = parameters.push(&Parameter::UnrecognizedParameter(parameter.clone()));
    }
    Chunk::InitAck(own.init_ack(parameters.finish()))
}

/// Whether an address can belong to a single host (§8.4 rule 1).
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(ip) if ip.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}
