//! Association set-up, the four-way handshake (RFC 9260 §5.1): INIT and COOKIE ECHO with T1-init and T1-cookie; adoption of the negotiated
//! values; stale cookies (§5.2.6).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_wire::chunk::{Chunk, CookieEcho, InitAck};
use anabranch_wire::{Tsn, VerificationTag};

use super::authentication::tell_authentication;
use super::ending::Ending;
use super::failover::on_paths_added;
use super::identity::Identity;
use super::ports::tell_ports;
use super::protection::{adopt_protection, why_unprotected};
use super::set_up::SetUp;
use super::stall::Stall;
use super::{Association, Capabilities, State};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::config::Config;
use crate::control::ControlQueue;
use crate::event::{EndpointEvent, Event};
use crate::extension::auth::{Authentication, CookieAdmission, offer};
use crate::extension::dynamic_addresses::DynamicAddresses;
use crate::extension::protection::{self, Protection};
use crate::extension::reconfiguration::Reconfiguration;
use crate::inbound::Inbound;
use crate::negotiation::{
    CookieMint, InitFields, InitGuard, InitRefusal, Negotiated, PeerInit, StateCookie, TieTags, first_tsn,
    init_parameters,
};
use crate::path::{PathId, PathState, Paths};
use crate::random::Random;
use crate::receive::Receiver;
use crate::stats::Counters;
use crate::time::Timestamp;
use crate::trace::Trace;
use crate::transmit::Sender;

/// How many times a stale cookie is renewed before set-up fails (§5.2.6).
const MOST_STALE: u32 = 2;

/// The values from which a new association is built.
pub(crate) struct Blueprint {
    pub(crate) config: Arc<Config>,
    pub(crate) random: Random,
    pub(crate) mint: CookieMint,
    /// Proves the INIT, if this endpoint sends one.
    pub(crate) guard: Option<Arc<dyn InitGuard>>,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) local_address: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
}

impl Blueprint {
    /// Builds an association in state CLOSED with its own tag and Initial TSN.
    fn build(mut self, now: Timestamp, local_tag: VerificationTag, local_initial_tsn: Tsn) -> Association {
        if self.config.lists_several_paths()
            && let Some(config) = self.config.of_several_paths()
        {
            self.config = Arc::new(config);
        }
        let tie_tags = TieTags::new(&mut self.random);
        let authentication = offer(&self.config, || self.random.bytes());
        let protection = match &self.config.protection {
            Some(config) => {
                let own = protection::offer(config, self.random.next_u32());
                Protection::new(own, config.replay_window)
            }
            None => Protection::default(),
        };
        Association {
            identity: Identity {
                local_port: self.local_port,
                remote_port: self.remote_port,
                local_tag,
                peer_tag: VerificationTag(0),
                tie_tags,
                local_initial_tsn,
            },
            state: State::Closed,
            initiated: false,
            capabilities: Capabilities::default(),
            authentication: Authentication::new(&self.config, authentication),
            protection,
            addresses: DynamicAddresses::default(),
            adaptation_layer: None,
            paths: Paths::new(
                self.local_address,
                self.remote,
                &self.config,
                now,
                u64::from(local_tag.0),
            ),
            sender: Sender::new(local_initial_tsn, &self.config),
            receiver: Receiver::new(Tsn(0), 0, &self.config),
            control: ControlQueue::default(),
            ending: Ending::new(&self.config),
            stall: Stall::default(),
            reconfiguration: Reconfiguration::new(
                false,
                &self.config,
                false,
                local_initial_tsn,
                local_initial_tsn,
            ),
            error_count: 0,
            notices: super::Notices::new(),
            counters: Counters::default(),
            stepped_at: now,
            exhausted: None,
            trace: Trace::default(),
            mint: self.mint,
            random: self.random,
            config: self.config,
        }
    }
}

impl Association {
    /// ASSOCIATE (§11.1.2): sends INIT and waits.
    pub(crate) fn initiate(now: Timestamp, mut plan: Blueprint, local_tag: VerificationTag) -> Self {
        let initial_tsn = first_tsn(&plan.config, &mut plan.random);
        let guard = plan.guard.take();
        let mut association = plan.build(now, local_tag, initial_tsn);
        let config = &association.config;
        let (authentication, protection) = (&association.authentication, &association.protection);
        let parameters = init_parameters(config, authentication.own(), protection.own(), None);
        let init = InitFields::own(config, local_tag, initial_tsn).init(parameters);
        association.initiated = true;
        association.state = State::CookieWait(Box::new(SetUp::new(init, guard, config)));
        association.send_set_up_chunk(now);
        association
    }

    /// A peer returned a valid cookie of this endpoint and no association with it exists yet (§5.1 D): answers the packet that brought the
    /// cookie, and handles the chunks bundled after it. `admission` says how far the packet is authenticated.
    pub(crate) fn accept(
        now: Timestamp,
        plan: Blueprint,
        cookie: &StateCookie,
        inbound: &Inbound,
        admission: CookieAdmission,
    ) -> Self {
        let mut association = plan.build(now, cookie.local_tag, cookie.local_initial_tsn);
        association.step(now, |it| {
            it.adopt(now, &cookie.negotiated());
            it.become_established(now);
            it.counters.packets_received += 1;
            it.paths.on_arrival(inbound);
            it.send_cookie_ack(now, inbound);
            let authenticated = admission == CookieAdmission::Authenticated;
            it.counters.packets_verified += u64::from(authenticated);
            // Nothing is bundled with a COOKIE ECHO in clear that the peer would not retransmit.
            if !it.protection.is_on() {
                it.authentication.begin_packet(authenticated);
                it.on_chunks(now, inbound, 1 + usize::from(authenticated));
                it.authentication.end_packet();
            }
        });
        association
    }

    /// Sends a COOKIE ACK to the source of the COOKIE ECHO (§6.4), with a heartbeat if that address is not confirmed yet (§5.4).
    pub(super) fn send_cookie_ack(&mut self, now: Timestamp, inbound: &Inbound) {
        let path = self.paths.find(inbound.local, inbound.remote);
        let path = path.unwrap_or(PathId(0));
        self.control.push(path, Chunk::CookieAck);
        if self.paths.path(path).state == PathState::Unconfirmed {
            self.send_heartbeat(now, path);
        }
    }

    /// Gives every part of the association the values negotiated at set-up. If data was sent before, with a COOKIE ECHO that was
    /// stale, data continues in the same chunk type.
    pub(super) fn adopt(&mut self, now: Timestamp, negotiated: &Negotiated<'_>) {
        let mut capabilities = negotiated.capabilities;
        if !self.sender.outstanding.is_empty() && capabilities.data_format() != self.sender.queue.format() {
            capabilities = self.capabilities;
        }
        let format = capabilities.data_format();
        self.identity.peer_tag = negotiated.peer_tag;
        self.capabilities = capabilities;
        self.authentication.adopt(negotiated.authentication);
        adopt_protection(self, negotiated);
        self.adaptation_layer = negotiated.adaptation_layer;
        self.paths.set_by_port(capabilities.has(Capabilities::PORT_PAIRS));
        self.adopt_addresses(negotiated);
        self.receiver
            .reset(negotiated.peer_initial_tsn, negotiated.inbound_streams);
        // Before set-up is complete, no stream has begun.
        if !self.state.may(permit::SET_UP) {
            self.receiver.tell_reset();
        }
        if self.protection.is_on() {
            self.receiver.divert_key_management();
        }
        if capabilities.has(Capabilities::NR_SACK) {
            self.receiver.use_nr_sack();
        }
        if format.interleaves() {
            self.receiver.use_interleaving(&self.config.buffers);
        }
        if capabilities.has(Capabilities::REPAIR) {
            self.receiver.use_repair();
        }
        if format.numbers_transmissions() {
            self.receiver.acknowledge_by_transmission();
        }
        self.reconfiguration = Reconfiguration::new(
            capabilities.has(Capabilities::RECONFIGURATION),
            &self.config,
            !capabilities.has(Capabilities::ECA),
            self.identity.local_initial_tsn,
            negotiated.peer_initial_tsn,
        );
        let unsent = self.sending(now, |sender, cx| sender.adopt(cx, capabilities, negotiated));
        for undelivered in unsent {
            self.notices.tell(Event::Undelivered(undelivered));
        }
        for address in self
            .paths
            .add_peer_addresses(now, &self.config, negotiated.addresses)
        {
            self.notices
                .tell_endpoint(EndpointEvent::PeerAddressAdded(address));
        }
        // The peer knows the addresses that this endpoint listed: each has a path at least, though the peer may have one address alone.
        self.paths
            .add_pairs(now, &self.config, &self.config.local_addresses);
        on_paths_added(self, now);
        tell_ports(self);
    }

    /// Sends INIT or COOKIE ECHO and starts T1-init or T1-cookie. An INIT goes to the address that the application named.
    pub(super) fn send_set_up_chunk(&mut self, now: Timestamp) {
        self.control.clear_chunks();
        match &mut self.state {
            State::CookieWait(set_up) => {
                let init = Chunk::Init(set_up.init.clone());
                let path = self.paths.path(PathId(0));
                set_up.request.send(now, init, path, &mut self.control);
            }
            State::CookieEchoed(echoed) => {
                let id = echoed.path(&self.paths, self.authentication.signer());
                let cookie = echoed.cookie.clone();
                let echo = Chunk::CookieEcho(CookieEcho { cookie });
                let path = self.paths.path(id);
                echoed.request.send(now, echo, path, &mut self.control);
                if id != PathId(0) {
                    if let Some(requests) = self.addresses.requests_mut() {
                        requests.forget_set_up();
                    }
                    self.send_heartbeat(now, id);
                } else if let Some(errors) = echoed.errors() {
                    self.control.push(id, errors);
                }
            }
            _ => {}
        }
    }

    /// An INIT ACK arrived (§5.1 C).
    pub(super) fn on_init_ack(&mut self, now: Timestamp, inbound: &Inbound, init_ack: &InitAck) {
        // In any other state the INIT ACK is old or a duplicate (§5.2.3).
        if !matches!(self.state, State::CookieWait(_)) {
            return;
        }
        let (peer, cookie) = match PeerInit::of_init_ack(init_ack, &self.config) {
            Ok(accepted) => accepted,
            // Tag 0: the association is destroyed, and an ABORT cannot be sent under that tag (§3.3.3).
            Err(InitRefusal::Silent) => {
                self.close(CloseReason::ProtocolViolation(
                    "an INIT ACK has the Initiate Tag 0",
                ));
                return;
            }
            Err(InitRefusal::Abort(cause)) => {
                self.identity.peer_tag = init_ack.initiate_tag;
                let reason = why_unprotected(&cause)
                    .unwrap_or(CloseReason::ProtocolViolation("the INIT ACK cannot be accepted"));
                self.abort_with(cause, reason);
                return;
            }
        };
        self.paths.answered_at(inbound, &self.config);
        let from = self.paths.find(inbound.local, inbound.remote);
        self.paths.adopt_local_address(&self.config, inbound);
        self.adopt(now, &peer.negotiated(&self.config));
        if let State::CookieWait(set_up) = core::mem::replace(&mut self.state, State::Closed) {
            let echoed = set_up.echo(cookie, peer.unrecognized, &self.config);
            self.state = State::CookieEchoed(Box::new(echoed));
        }
        self.paths.last_arrival = from.unwrap_or(PathId(0));
        self.send_set_up_chunk(now);
    }

    /// COMMUNICATION UP: the first path is confirmed, because the application named its address or the INIT ACK went there; the other
    /// paths are probed (§5.4).
    pub(super) fn become_established(&mut self, now: Timestamp) {
        let previous = core::mem::replace(&mut self.state, State::Established);
        self.ending.on_activity(now);
        self.error_count = 0;
        self.control
            .retain(|chunk| !matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_)));
        self.notices.tell(Event::Established {
            outbound_streams: self.sender.queue.stream_count(),
            inbound_streams: self.receiver.inbound_streams(),
        });
        if self.protection.complete_restart() {
            self.notices.tell(Event::Protected);
        }
        tell_authentication(self);
        if let Some(code_point) = self.adaptation_layer {
            self.notices.tell(Event::AdaptationLayer(code_point));
        }
        self.on_path_answered(PathId(0));
        for index in 0..self.paths.len() {
            let path = PathId(index as u8);
            if self.paths.path(path).state == PathState::Unconfirmed {
                let heartbeat = &mut self.paths.path_mut(path).heartbeat;
                // A heartbeat that was sent with the COOKIE ECHO keeps its own timeout.
                if heartbeat.pending.is_none() {
                    heartbeat.due = Some(now);
                }
            } else {
                let path = self.paths.path_mut(path);
                path.schedule_heartbeat(now, &mut self.random);
            }
        }
        self.advance_addresses(now);
        if previous.may(permit::SET_UP) {
            self.ending.on_set_up_complete(now, self.sender.buffer.bytes());
        }
    }

    /// The peer reports that the cookie is stale (§5.2.6).
    pub(super) fn on_stale_cookie(&mut self, now: Timestamp, staleness_us: u32) {
        match &self.state {
            State::CookieEchoed(echoed) if echoed.stale >= MOST_STALE => {
                self.close(CloseReason::StaleCookie);
                return;
            }
            State::CookieEchoed(_) => {}
            _ => return,
        }
        if let State::CookieEchoed(echoed) = core::mem::replace(&mut self.state, State::Closed) {
            let own = (self.authentication.own(), self.protection.own());
            let set_up = echoed.on_stale(staleness_us, &self.config, own.0, own.1);
            self.state = State::CookieWait(Box::new(set_up));
        }
        self.protection.on_stale_cookie();
        // The peer discarded the data that was bundled with the stale cookie.
        self.identity.peer_tag = VerificationTag(0);
        self.sending(now, Sender::requeue_outstanding);
        self.send_set_up_chunk(now);
    }
}
