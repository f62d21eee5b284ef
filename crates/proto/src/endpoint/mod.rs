//! The endpoint: which association a packet belongs to, and the answer if there is none: set-up without state (RFC 9260 §5.1) and
//! out-of-the-blue packets (§8.4, §8.5).

mod admission;
mod association_id;
mod ended;
mod table;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Chunk, Dtls, ErrorChunk, Init, kind};
use anabranch_wire::packet::Packet;
use bytes::Bytes;

use crate::association::{Association, Blueprint};
use crate::config::Config;
use crate::control::{answer_after_end, answer_out_of_the_blue, refuse, reply};
use crate::ecn::EcnCodepoint;
use crate::error::{ConnectError, EndpointError};
use crate::event::{EndpointEvent, Reply};
use crate::extension::auth::{CookieAdmission, admit_cookie, offer};
use crate::extension::protection;
use crate::icmp::IcmpMessage;
use crate::inbound::Inbound;
use crate::negotiation::{
    CookieError, CookieMint, InitFields, InitGuard, InitRefusal, OwnInit, PeerInit, StateCookie, answer_init,
    first_tsn, is_proved, is_unicast,
};
use crate::path::set_up_address;
use crate::random::Random;
use crate::setters::setters;
use crate::time::Timestamp;
use admission::AcceptFilter;
pub use admission::{Admission, Candidate};
pub use association_id::AssociationId;
use ended::Ended;
use table::{Peer, Table};

/// Options of an association for [`Endpoint::connect`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The local SCTP port; `None` takes a random free one.
    pub local_port: Option<u16>,
    /// The local address to use; `None` takes that of `Config::path_pairs`, or leaves the choice to routing if no pair matches.
    pub local_address: Option<IpAddr>,
    /// Settings of this association; `None` takes those of the endpoint.
    pub config: Option<Config>,
}

setters!(ConnectOptions {
    local_port: impl Into<Option<u16>>,
    local_address: impl Into<Option<IpAddr>>,
    config: impl Into<Option<Config>>,
});

/// The result of [`Endpoint::handle_datagram`]: the next action of the driver.
#[derive(Debug)]
#[must_use]
pub enum Handling {
    /// Nothing: the packet was dropped, or is handled completely.
    Done,
    /// Send this answer. The endpoint keeps no state for it.
    Reply(Reply),
    /// Pass the packet to [`Association::handle_packet`] of this association.
    Deliver(AssociationId, Inbound),
    /// A peer set up this association: keep it under this id, and drain it.
    Accept(AssociationId, Box<Association>),
}

/// An endpoint: it has SCTP ports and routes packets to associations. It does not own the associations: a driver may run each
/// of them on another thread.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    random: Random,
    mint: CookieMint,
    listening: BTreeSet<u16>,
    filter: Option<AcceptFilter>,
    guard: Option<Arc<dyn InitGuard>>,
    table: Table,
    ended: Ended,
    next_id: u64,
}

impl Endpoint {
    /// Creates an endpoint with these settings. `seed` is its only source of randomness: take it from the operating system, or fix it in a
    /// simulation.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(config: Config, seed: [u8; 32]) -> Result<Self, EndpointError> {
        config.validate()?;
        let mut random = Random::from_seed(seed);
        let mint = CookieMint::new(random.bytes(), config.cookie_lifetime);
        Ok(Self {
            // A peer retransmits after RTO.Max at the latest. While its cookie is valid, a COOKIE ECHO could set up the association again.
            ended: Ended::new(config.rto.max.max(mint.longest_lifetime())),
            mint,
            config: Arc::new(config),
            random,
            listening: BTreeSet::new(),
            filter: None,
            guard: None,
            table: Table::default(),
            next_id: 0,
        })
    }

    /// The settings of associations that peers set up, and of those that have no settings of their own.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Accepts associations on this local SCTP port from now on.
    ///
    /// # Errors
    /// Port 0.
    pub fn listen(&mut self, port: u16) -> Result<(), EndpointError> {
        if port == 0 {
            return Err(EndpointError::PortZero);
        }
        self.listening.insert(port);
        Ok(())
    }

    /// Lists these addresses in the INIT and INIT ACK of further associations, if the settings list any (`Config::local_addresses`).
    pub fn set_local_addresses(&mut self, addresses: &[IpAddr]) {
        self.config = self.config.with_local_addresses(addresses).into();
    }

    /// From now on, this function decides about each association that a peer sets up, before the association takes memory. It must not
    /// block. It is not asked about a restart of an association, nor in the collision of two set-ups (RFC 9260 §5.2).
    pub fn set_accept_filter(&mut self, filter: impl Fn(&Candidate) -> Admission + Send + Sync + 'static) {
        self.filter = Some(AcceptFilter::new(filter));
    }

    /// From now on, each INIT of this endpoint has a proof of this guard, and the endpoint is silent to strangers: it drops an INIT without a
    /// right proof, and other packets without an association. The guard must not block.
    pub fn set_init_guard(&mut self, guard: Arc<dyn InitGuard>) {
        self.guard = Some(guard);
    }

    /// Accepts no further associations on this port.
    pub fn stop_listening(&mut self, port: u16) {
        self.listening.remove(&port);
    }

    /// The number of associations that have not ended.
    #[must_use]
    pub fn association_count(&self) -> usize {
        self.table.len()
    }

    /// Whether an association with this tag ended by a graceful shutdown a short time ago. The endpoint still answers its peer, so a
    /// driver that leaves some packets to other programs passes packets with such a tag to this endpoint.
    #[must_use]
    pub fn ended_in_order(&self, tag: VerificationTag) -> bool {
        self.ended.was_shut_down(tag)
    }

    /// Begins an association with the endpoint at `remote` (address and UDP port; port 0 without encapsulation) and
    /// SCTP port `remote_port`. Drain the association to send the INIT.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        remote_port: u16,
        options: ConnectOptions,
    ) -> Result<(AssociationId, Box<Association>), ConnectError> {
        let remote = canonical(remote);
        if remote_port == 0 || options.local_port == Some(0) {
            return Err(ConnectError::PortZero);
        }
        if !is_unicast(remote.ip()) {
            return Err(ConnectError::InvalidAddress(remote.ip()));
        }
        let config = match options.config {
            Some(config) => {
                config.validate().map_err(ConnectError::Config)?;
                Arc::new(config)
            }
            None => self.config.clone(),
        };
        let local_port = match options.local_port {
            Some(port) => port,
            None => self
                .free_port(remote.ip(), remote_port)
                .ok_or(ConnectError::NoFreePort)?,
        };
        let peer = Peer {
            local_port,
            address: remote.ip(),
            remote_port,
        };
        if self.table.has_peer(&peer) {
            return Err(ConnectError::Exists(remote));
        }
        let local_tag = self.fresh_tag();
        let local_address = options.local_address.or_else(|| config.paired_with(remote.ip()));
        let plan = Blueprint {
            config,
            random: self.random.fork(),
            mint: self.mint.clone(),
            guard: self.guard.clone(),
            local_port,
            remote_port,
            local_address,
            remote,
        };
        let id = self.register(&plan.config, local_tag, peer, remote.port());
        Ok((id, Box::new(Association::initiate(now, plan, local_tag))))
    }

    /// Handles a datagram that arrived from `remote` (address and UDP port; 0 without encapsulation) at the address `local`, if known. The
    /// datagram is the SCTP packet without IP and UDP headers. `ecn` is the codepoint in its IP header; it is used only if ECN was
    /// negotiated ([`Config::ecn`]).
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        local: Option<IpAddr>,
        remote: SocketAddr,
        datagram: Bytes,
        ecn: EcnCodepoint,
    ) -> Handling {
        let remote = canonical(remote);
        let local = local.map(|ip| ip.to_canonical());
        // Packets that are damaged or not SCTP, or with an address that is not unicast, are not answered (§6.8, §8.4 rule 1).
        let Some(packet) = self.parse(datagram) else {
            return Handling::Done;
        };
        let unicast = is_unicast(remote.ip()) && local.is_none_or(is_unicast);
        if !unicast || packet.header.source_port == 0 || packet.header.destination_port == 0 {
            return Handling::Done;
        }
        self.handle_inbound(
            now,
            Inbound {
                packet,
                local,
                remote,
                ecn,
            },
        )
    }

    /// A packet whose checksum is right, or zero if its association accepts that (RFC 9653 §5.3).
    fn parse(&self, datagram: Bytes) -> Option<Packet> {
        let packet = Packet::parse_or_zero_checksum(datagram.clone()).ok()?;
        let (tag, of_endpoint) = (
            packet.header.verification_tag,
            self.config.lower_layer.detects_errors(),
        );
        let accepts = || self.table.accepts_zero_checksum(tag).unwrap_or(of_endpoint);
        if packet.has_zero_checksum() && !accepts() {
            return Packet::parse(datagram).ok();
        }
        Some(packet)
    }

    /// Routes a packet again that [`Endpoint::handle_datagram`] routed to an association which has ended since. It may belong to the next
    /// association with this peer, for example an INIT that arrived right after an ABORT. Pass the events of the ended association to this
    /// endpoint first.
    pub fn handle_inbound(&mut self, now: Timestamp, inbound: Inbound) -> Handling {
        if self.is_strange(&inbound) {
            return Handling::Done;
        }
        match self.route(&inbound) {
            Some(id) => Handling::Deliver(id, inbound),
            None => self.handle_unrouted(now, &inbound),
        }
    }

    /// The answer to a packet that [`Endpoint::handle_datagram`] routed to an association, although the layer below SCTP knows that another
    /// peer than that of the association sent it, as DTLS knows by the certificate (RFC 8261). An INIT, which would restart the association,
    /// is refused with an ABORT; other packets have no answer.
    #[must_use]
    pub fn refuse_other_peer(&self, inbound: &Inbound) -> Option<Reply> {
        let reason =
            Bytes::from_static(b"an association of another certificate has this address and these ports");
        match Chunk::decode(inbound.leading()?) {
            Ok(Chunk::Init(init)) if inbound.is_lone_init() && init.initiate_tag.0 != 0 => Some(refuse(
                inbound,
                init.initiate_tag,
                &[Cause::UserInitiatedAbort(reason)],
            )),
            _ => None,
        }
    }

    /// The association that an ICMP message is about, by the ports and the destination of the packet that it quotes
    /// (RFC 9260 §10, ICMP5); `None` if there is none. Pass the message to [`Association::handle_icmp`], which verifies the quoted packet.
    #[must_use]
    pub fn route_icmp(&self, message: &IcmpMessage) -> Option<AssociationId> {
        let header = message.header()?;
        let peer = Peer {
            local_port: header.source_port,
            address: message.destination.ip().to_canonical(),
            remote_port: header.destination_port,
        };
        self.table.by_peer(&peer, message.destination.port())
    }

    /// The association of a packet: the one with its tag, these ports and that address, otherwise the one with that address (§8.5 allows
    /// some packets to have other tags). Set-up chunks from another UDP port than that association's are from another peer behind the same
    /// address translator, or from the same peer after a restart there. In neither case may they end an association that works.
    fn route(&mut self, inbound: &Inbound) -> Option<AssociationId> {
        let header = inbound.packet.header;
        let peer = Peer::of(inbound);
        let udp_port = inbound.remote.port();
        let tag = header.verification_tag;
        // An INIT ACK does not change the UDP port of its peer: if another host returned it from another port, the INIT with which the peer
        // sets up the same association would begin a second one. The packet that ends the set-up changes the port.
        let is_init_ack = || {
            inbound
                .leading()
                .is_some_and(|first| first.kind == kind::INIT_ACK)
        };
        if let Some(id) = self.table.by_tag(tag, &peer, udp_port, is_init_ack) {
            return Some(id);
        }
        let first = inbound.leading()?;
        // A restart takes the tag under which its COOKIE ECHO comes (§5.2.4 A): it must not be the tag of another association.
        // With restart keys, the COOKIE ECHO is in a DTLS chunk.
        let is_restart =
            first.kind == kind::DTLS && Dtls::is_restart(&first) && !self.table.has_tag_at_ports(tag, &peer);
        if (first.kind == kind::COOKIE_ECHO || is_restart) && self.has_tag(tag) {
            return None;
        }
        if let Some(id) = self.table.by_peer(&peer, udp_port) {
            return Some(id);
        }
        // RFC 5061 §5.2 D2: an ASCONF may come from an address that its association does not know yet. It is authenticated, so its tag
        // is enough, whatever address it names.
        // The same holds for a DTLS chunk, in which the ASCONF may be.
        if matches!(first.kind, kind::ASCONF | kind::DTLS)
            && let Some(id) = self.table.by_tag_at_ports(tag, &peer)
        {
            return Some(id);
        }
        if self.table.has_peer(&peer) && !matches!(first.kind, kind::INIT | kind::COOKIE_ECHO) {
            return self.table.by_lone_peer(&peer);
        }
        self.route_by_listed_address(inbound, peer)
    }

    /// §5.1.2 D: an INIT or INIT ACK belongs to the association of any address that it lists.
    fn route_by_listed_address(&self, inbound: &Inbound, peer: Peer) -> Option<AssociationId> {
        use anabranch_wire::parameter::Parameter;
        let first = inbound.packet.chunks().next()?.ok()?;
        if first.kind != kind::INIT && first.kind != kind::INIT_ACK {
            return None;
        }
        let parameters = match Chunk::decode(first).ok()? {
            Chunk::Init(init) => init.parameters,
            Chunk::InitAck(init_ack) => init_ack.parameters,
            _ => return None,
        };
        parameters.iter().map_while(Result::ok).take(64).find_map(|raw| {
            let address = match Parameter::decode(raw).ok()? {
                Parameter::Ipv4(ip) => ip.into(),
                Parameter::Ipv6(ip) => ip.into(),
                _ => return None,
            };
            self.table
                .by_peer(&Peer { address, ..peer }, inbound.remote.port())
        })
    }

    /// A packet without an association: set-up, or out of the blue (§8.4).
    fn handle_unrouted(&mut self, now: Timestamp, inbound: &Inbound) -> Handling {
        let Some(first) = inbound.leading() else {
            return Handling::Done;
        };
        // §8.4 rule 2 applies before the other rules.
        if inbound.contains(kind::ABORT) {
            return Handling::Done;
        }
        match Chunk::decode(first) {
            Ok(Chunk::Init(init)) if inbound.is_lone_init() => self.handle_init(now, inbound, &init),
            Ok(Chunk::CookieEcho(echo)) => self.handle_cookie_echo(now, inbound, &echo.cookie),
            _ => {
                let tag = inbound.packet.header.verification_tag;
                // The packet has the tag of an association: an ABORT would end an association at the peer that is alive here. The peer has
                // more addresses than it listed, or than this endpoint keeps.
                if self.table.has_tag_at_ports(tag, &Peer::of(inbound)) {
                    return Handling::Done;
                }
                let answer = match self.ended.peer_tag(now, tag, &Peer::of(inbound)) {
                    Some(peer_tag) => answer_after_end(inbound, peer_tag),
                    None if self.guard.is_some() => None,
                    None => answer_out_of_the_blue(inbound),
                };
                answer.map_or(Handling::Done, Handling::Reply)
            }
        }
    }

    /// Whether a packet has an INIT without the proof that the guard asks for.
    fn is_strange(&self, inbound: &Inbound) -> bool {
        let Some(guard) = self.guard.as_deref() else {
            return false;
        };
        let mut inits = inbound.chunks().filter(|raw| raw.kind == kind::INIT);
        inits.any(|raw| !is_proved(guard, raw))
    }

    fn listens(&self, inbound: &Inbound) -> bool {
        self.listening.contains(&inbound.packet.header.destination_port)
    }

    /// Answers an INIT without keeping state (§5.1 B).
    fn handle_init(&mut self, now: Timestamp, inbound: &Inbound, init: &Init) -> Handling {
        let tag = init.initiate_tag;
        let peer = match PeerInit::of_init(init, &self.config) {
            Ok(peer) => peer,
            Err(InitRefusal::Silent) => return Handling::Done,
            Err(InitRefusal::Abort(cause)) => return Handling::Reply(refuse(inbound, tag, &[cause])),
        };
        if !self.listens(inbound) {
            return Handling::Reply(refuse(inbound, tag, &[]));
        }
        let own_tag = self.fresh_tag();
        let fields = InitFields::own(&self.config, own_tag, first_tsn(&self.config, &mut self.random));
        let protection = self.config.protection.as_ref().zip(peer.key_management.as_ref());
        let own = OwnInit {
            fields,
            authentication: offer(&self.config, || self.random.bytes()),
            key_management: protection
                .map(|(config, peer)| protection::answer(config, peer, self.random.next_u32())),
        };
        let init_ack = answer_init(now, &self.config, &mut self.mint, inbound, &peer, own, None);
        Handling::Reply(reply(inbound, tag, &[init_ack]))
    }

    /// A cookie came back: if it is valid, an association begins (§5.1.5).
    fn handle_cookie_echo(&mut self, now: Timestamp, inbound: &Inbound, cookie: &Bytes) -> Handling {
        let admits =
            |cookie: &StateCookie| admit_cookie(&self.config, cookie.negotiated().authentication, inbound);
        let (cookie, admission) = match self.mint.open(now, inbound.packet.header, cookie) {
            Ok(cookie) => {
                let admission = admits(&cookie);
                (cookie, admission)
            }
            Err(CookieError::Forged) => return Handling::Done,
            Err(CookieError::Stale { cookie, .. }) if admits(&cookie) == CookieAdmission::Refused => {
                return Handling::Done;
            }
            Err(CookieError::Stale { staleness_us, cookie }) => {
                let causes = Causes::from_causes(&[Cause::StaleCookie { staleness_us }]);
                let error = Chunk::Error(ErrorChunk { causes });
                return Handling::Reply(reply(inbound, cookie.peer_tag, &[error]));
            }
        };
        let listed = cookie.addresses.contains(&inbound.remote.ip());
        if !listed || admission == CookieAdmission::Refused {
            return Handling::Done;
        }
        if self.has_tag(cookie.local_tag) {
            return self.answer_used_cookie(inbound, &cookie);
        }
        // The port is not listened on any more since the INIT.
        if !self.listens(inbound) {
            return Handling::Reply(refuse(inbound, cookie.peer_tag, &[]));
        }
        let remote = cookie.confirmed(inbound.remote);
        if let Some(filter) = &self.filter {
            let count = self.association_count();
            match filter.admits(&Candidate::new(
                remote,
                cookie.remote_port,
                cookie.local_port,
                count,
            )) {
                Admission::Accept => {}
                Admission::Refuse => {
                    let causes = [Cause::OutOfResource];
                    return Handling::Reply(refuse(inbound, cookie.peer_tag, &causes));
                }
                Admission::Ignore => return Handling::Done,
            }
        }
        let peer = Peer {
            local_port: cookie.local_port,
            address: remote.ip(),
            remote_port: cookie.remote_port,
        };
        let config = self.config.clone();
        let id = self.register(&config, cookie.local_tag, peer, remote.port());
        let plan = Blueprint {
            config,
            random: self.random.fork(),
            mint: self.mint.clone(),
            guard: None,
            local_port: cookie.local_port,
            remote_port: cookie.remote_port,
            local_address: set_up_address(&self.config, inbound, remote.ip()),
            remote,
        };
        let association = Association::accept(now, plan, &cookie, inbound, admission);
        Handling::Accept(id, Box::new(association))
    }

    /// The answer to a cookie that has set up an association before: a new association has a new tag (§5.3.1). A peer that waits for its
    /// COOKIE ACK may have missed the ABORT that ended the association, and is told again.
    fn answer_used_cookie(&self, inbound: &Inbound, cookie: &StateCookie) -> Handling {
        let tag = cookie.local_tag;
        let is_over = !self.table.has_tag(tag) && !self.ended.was_shut_down(tag);
        if is_over && !self.table.has_peer(&Peer::of(inbound)) {
            return Handling::Reply(refuse(inbound, cookie.peer_tag, &[]));
        }
        Handling::Done
    }

    /// Handles an event of an association of this endpoint.
    pub fn handle_event(&mut self, now: Timestamp, id: AssociationId, event: EndpointEvent) {
        match event {
            EndpointEvent::PeerRestarted { local_tag, remote } => {
                let former = self.table.restart(id, local_tag, remote.ip(), remote.port());
                former.into_iter().for_each(|tag| self.ended.retire(now, tag));
            }
            EndpointEvent::PeerAddressAdded(address) => {
                self.table.add_address(id, address.ip(), address.port())
            }
            EndpointEvent::PeerAddressRemoved(address) => self.table.remove_address(id, address),
            EndpointEvent::PeerPorts(remotes) => self.table.set_ports(id, &remotes),
            EndpointEvent::PeerAddressDenied(address) => self.table.release_address(id, address.ip()),
            EndpointEvent::Closed => {
                if let Some((tag, _)) = self.table.remove(id) {
                    self.ended.retire(now, tag);
                }
            }
            EndpointEvent::ShutDown { peer_tag } => {
                if let Some((tag, peers)) = self.table.remove(id) {
                    self.ended.on_shutdown(now, tag, peers, peer_tag);
                }
            }
        }
    }

    fn register(
        &mut self,
        config: &Config,
        tag: VerificationTag,
        peer: Peer,
        udp_port: u16,
    ) -> AssociationId {
        let id = AssociationId(self.next_id);
        self.next_id += 1;
        self.table
            .insert(id, tag, (peer, udp_port), config.lower_layer.detects_errors());
        id
    }

    /// Whether an association of this endpoint has this tag, or had it a short time ago.
    fn has_tag(&self, tag: VerificationTag) -> bool {
        self.table.has_tag(tag) || self.ended.has_tag(tag)
    }

    /// A tag that no association of this endpoint has.
    fn fresh_tag(&mut self) -> VerificationTag {
        loop {
            let tag = VerificationTag(self.random.nonzero_u32());
            if !self.has_tag(tag) {
                return tag;
            }
        }
    }

    /// A random free local port of the dynamic range. Random, so that clients behind one address translator have different ports.
    fn free_port(&mut self, address: IpAddr, remote_port: u16) -> Option<u16> {
        const FIRST: u32 = 49_152;
        const COUNT: u32 = 65_536 - FIRST;
        let start = self.random.next_u32() % COUNT;
        (0..COUNT)
            .map(|step| (FIRST + (start + step) % COUNT) as u16)
            .find(|port| {
                let peer = Peer {
                    local_port: *port,
                    address,
                    remote_port,
                };
                !self.listening.contains(port) && !self.table.has_peer(&peer)
            })
    }
}

/// Replaces an IPv4-mapped IPv6 address by the IPv4 address; a link-local address keeps its interface.
fn canonical(mut remote: SocketAddr) -> SocketAddr {
    remote.set_ip(remote.ip().to_canonical());
    remote
}
