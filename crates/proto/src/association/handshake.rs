//! Setting up from the initiating side (RFC 9260 §5.1), and what both sides' set-up shares.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, CookieEcho, ErrorChunk, InitAck, padded};
use anabranch_wire::{Tsn, VerificationTag};
use bytes::Bytes;

use super::shutdown::Ending;
use super::state::{SetUp, State};
use super::{Association, Capabilities, Identity, PeerWindow};
use crate::config::Config;
use crate::control::ControlQueue;
use crate::event::{CloseReason, EndpointEvent, Event};
use crate::extension::ControlSources;
use crate::inbound::Inbound;
use crate::message::AbandonPolicy;
use crate::negotiation::{
    CookieMint, InitFields, InitRefusal, Negotiated, PeerInit, StateCookie, TieTags, first_tsn,
    init_parameters,
};
use crate::path::{HeartbeatInfo, PathId, PathState, Paths};
use crate::random::Random;
use crate::receive::Receiver;
use crate::recovery::AckOutcome;
use crate::send::SendQueue;
use crate::stats::Counters;
use crate::time::Timestamp;

/// Times that a stale cookie is renewed before set-up fails (§5.2.6).
const MOST_STALE: u32 = 2;

/// What the parts of an association are made from.
pub(crate) struct Blueprint {
    pub(crate) config: Arc<Config>,
    pub(crate) random: Random,
    pub(crate) mint: CookieMint,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) local_address: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
}

impl Association {
    fn new(now: Timestamp, mut plan: Blueprint, local_tag: VerificationTag, local_initial_tsn: Tsn) -> Self {
        let tie_tags = TieTags::new(&mut plan.random);
        Self {
            identity: Identity {
                local_port: plan.local_port,
                remote_port: plan.remote_port,
                local_tag,
                peer_tag: VerificationTag(0),
                tie_tags,
                local_initial_tsn,
            },
            state: State::Closed,
            initiated: false,
            capabilities: Capabilities::default(),
            abandon_policy: AbandonPolicy::default(),
            sources: ControlSources::new(&plan.config),
            paths: Paths::new(plan.local_address, plan.remote, &plan.config, now),
            queue: SendQueue::new(plan.config.streams.outbound, plan.config.scheduler),
            send_limit: plan.config.buffers.send,
            outstanding: Association::no_outstanding(local_initial_tsn, &plan.config),
            peer_window: PeerWindow::default(),
            receiver: Receiver::new(Tsn(0), 0, &plan.config),
            control: ControlQueue::default(),
            timers: super::Timers::default(),
            shutdown_path: PathId(0),
            ending: Ending::default(),
            error_count: 0,
            notices: super::Notices::new(),
            counters: Counters::default(),
            outcome: AckOutcome::default(),
            ack_blocks: Default::default(),
            mint: plan.mint,
            random: plan.random,
            config: plan.config,
        }
    }

    /// ASSOCIATE (§11.1.2): sends INIT and waits.
    pub(crate) fn initiate(now: Timestamp, mut plan: Blueprint, local_tag: VerificationTag) -> Self {
        let initial_tsn = first_tsn(&plan.config, &mut plan.random);
        let mut association = Self::new(now, plan, local_tag, initial_tsn);
        let config = &association.config;
        let init = InitFields::own(config, local_tag, initial_tsn).init(init_parameters(config, None));
        association.initiated = true;
        association.state = State::CookieWait(Box::new(SetUp {
            init,
            cookie: Bytes::new(),
            unrecognized: Vec::new(),
            repeats: 0,
            stale: 0,
        }));
        association.send_set_up_chunk(now);
        association
    }

    /// A peer returned a valid cookie of ours and there is no association with it yet (§5.1 D).
    pub(crate) fn from_cookie(now: Timestamp, plan: Blueprint, cookie: &StateCookie) -> Self {
        let mut association = Self::new(now, plan, cookie.local_tag, cookie.local_initial_tsn);
        association.adopt(now, &cookie.negotiated());
        association.become_established(now);
        association
    }

    /// Answers a COOKIE ECHO where it came from (§6.4), with a heartbeat if that address is not confirmed yet (§5.4).
    pub(super) fn send_cookie_ack(&mut self, now: Timestamp, inbound: &Inbound) {
        let path = self.paths.find(inbound.local, inbound.remote.ip());
        let path = path.unwrap_or(PathId(0));
        self.control.push(path, Chunk::CookieAck);
        if self.paths.path(path).state == PathState::Unconfirmed {
            self.send_heartbeat(now, path);
        }
    }

    /// Gives every part of the association what set-up has negotiated. If data has left already, as beside a COOKIE ECHO that
    /// was stale, it goes on as it began: in the same kind of chunk.
    pub(super) fn adopt(&mut self, now: Timestamp, negotiated: &Negotiated<'_>) {
        let mut capabilities = negotiated.capabilities;
        if !self.outstanding.is_empty() && capabilities.data_format() != self.queue.format() {
            capabilities = self.capabilities;
        }
        let format = capabilities.data_format();
        self.identity.peer_tag = negotiated.peer_tag;
        self.capabilities = capabilities;
        self.peer_window = PeerWindow::new(negotiated.peer_rwnd);
        self.receiver
            .reset(negotiated.peer_initial_tsn, negotiated.inbound_streams);
        if capabilities.has(Capabilities::NR_SACK) {
            self.receiver.use_nr_sack();
        }
        if format.interleaves() {
            self.receiver.use_interleaving(&self.config.buffers);
        }
        if format.numbers_transmissions() {
            self.receiver.acknowledge_by_transmission();
            self.outstanding
                .name_transmissions(self.config.multipath.eca.time_rule);
        }
        if capabilities.has(Capabilities::PARTIAL_RELIABILITY) {
            self.abandon_policy = AbandonPolicy::Partial;
            let distance = self.config.partial_reliability.selective_forward_tsn;
            if let Some(distance) = distance.filter(|_| capabilities.has(Capabilities::SELECTIVE_FORWARD_TSN))
            {
                self.sources.notices.enable(distance, format);
            }
        } else {
            self.abandon_policy = AbandonPolicy::Never;
        }
        self.sources.forward.set_format(format);
        self.queue.set_format(format);
        for unsent in self.queue.set_stream_count(negotiated.outbound_streams) {
            self.tell_unsent(unsent);
        }
        for address in self
            .paths
            .add_peer_addresses(now, &self.config, negotiated.addresses)
        {
            self.notices
                .tell_endpoint(EndpointEvent::PeerAddressAdded(address));
        }
    }

    /// Where the next INIT or COOKIE ECHO goes: an INIT to the address that the application named, a COOKIE ECHO to
    /// another address of the peer each time if a heartbeat fits beside it (§5.4).
    fn set_up_path(&self) -> PathId {
        let State::CookieEchoed(set_up) = &self.state else {
            return PathId(0);
        };
        let path = PathId((set_up.repeats as usize % self.paths.len()) as u8);
        let room = self.paths.path(path).pmtu.max_data();
        let fits = padded(CHUNK_HEADER_LEN + set_up.cookie.len()) + HeartbeatInfo::CHUNK_LEN <= room;
        if fits { path } else { PathId(0) }
    }

    /// Sends INIT or COOKIE ECHO and starts T1-init or T1-cookie.
    pub(super) fn send_set_up_chunk(&mut self, now: Timestamp) {
        let chunk = match &self.state {
            State::CookieWait(set_up) => Chunk::Init(set_up.init.clone()),
            State::CookieEchoed(set_up) => Chunk::CookieEcho(CookieEcho {
                cookie: set_up.cookie.clone(),
            }),
            _ => return,
        };
        let path = self.set_up_path();
        let errors = match &self.state {
            State::CookieEchoed(set_up) if !set_up.unrecognized.is_empty() => {
                let causes = set_up
                    .unrecognized
                    .iter()
                    .cloned()
                    .map(Cause::UnrecognizedParameters);
                Some(Chunk::Error(ErrorChunk {
                    causes: Causes::from_causes(&causes.collect::<Vec<_>>()),
                }))
            }
            _ => None,
        };
        self.control.clear_chunks();
        self.control.push(path, chunk);
        if path != PathId(0) {
            self.send_heartbeat(now, path);
        } else if let Some(errors) = errors {
            self.control.push(path, errors);
        }
        self.timers.control = Some(now + self.paths.path(path).rto.current());
    }

    /// T1-init or T1-cookie expired (§5.1, §6.3.3).
    pub(super) fn on_set_up_timeout(&mut self, now: Timestamp) {
        let limit = self.config.retransmissions.max_init_retransmits;
        let path = self.set_up_path();
        let (State::CookieWait(set_up) | State::CookieEchoed(set_up)) = &mut self.state else {
            return;
        };
        if set_up.repeats >= limit {
            self.close(CloseReason::SetUpTimedOut);
            return;
        }
        set_up.repeats += 1;
        let path = self.paths.path_mut(path);
        path.rto.back_off();
        path.try_other_port();
        self.send_set_up_chunk(now);
    }

    /// An INIT ACK came (§5.1 C).
    pub(super) fn on_init_ack(
        &mut self,
        now: Timestamp,
        inbound: &Inbound,
        from: PathId,
        init_ack: &InitAck,
    ) {
        // Anywhere but in COOKIE-WAIT it is old or doubled (§5.2.3).
        if !matches!(self.state, State::CookieWait(_)) {
            return;
        }
        let (peer, cookie) = match PeerInit::of_init_ack(init_ack, &self.config) {
            Ok(accepted) => accepted,
            // Tag 0: the association is destroyed, and nobody can be told under that tag (§3.3.3).
            Err(InitRefusal::Silent) => {
                self.close(CloseReason::ProtocolViolation(
                    "an INIT ACK has the Initiate Tag 0",
                ));
                return;
            }
            Err(InitRefusal::Abort(cause)) => {
                self.identity.peer_tag = init_ack.initiate_tag;
                self.abort_with(
                    cause,
                    CloseReason::ProtocolViolation("the INIT ACK cannot be accepted"),
                );
                return;
            }
        };
        self.paths.adopt_local_address(&self.config, inbound);
        self.adopt(now, &peer.negotiated(&self.config));
        let previous = core::mem::replace(&mut self.state, State::Closed);
        if let State::CookieWait(mut set_up) = previous {
            set_up.cookie = cookie;
            set_up.unrecognized = peer.unrecognized;
            set_up.repeats = 0;
            self.state = State::CookieEchoed(set_up);
        }
        self.paths.last_arrival = from;
        self.send_set_up_chunk(now);
    }

    /// A COOKIE ACK came (§5.1 E); in any other state than COOKIE-ECHOED it says nothing (§5.2.5).
    pub(super) fn on_cookie_ack(&mut self, now: Timestamp) {
        if matches!(self.state, State::CookieEchoed(_)) {
            self.become_established(now);
        }
    }

    /// COMMUNICATION UP: the first path is confirmed, being the application's choice or where the INIT ACK went to; the
    /// others are probed (§5.4).
    pub(super) fn become_established(&mut self, now: Timestamp) {
        let previous = core::mem::replace(&mut self.state, State::Established);
        self.timers.control = None;
        self.error_count = 0;
        self.control
            .retain(|chunk| !matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_)));
        self.notices.tell(Event::Established {
            outbound_streams: self.queue.stream_count(),
            inbound_streams: self.receiver.inbound_streams(),
        });
        self.on_path_answered(PathId(0));
        for index in 0..self.paths.len() {
            let path = PathId(index as u8);
            if self.paths.path(path).state == PathState::Unconfirmed {
                let heartbeat = &mut self.paths.path_mut(path).heartbeat;
                // The one that went with a COOKIE ECHO has its own time to be answered.
                if heartbeat.pending.is_none() {
                    heartbeat.due = Some(now);
                }
            } else {
                self.schedule_heartbeat(now, path);
            }
        }
        if previous.is_setting_up() {
            self.on_set_up_complete(now);
        }
    }

    /// The peer says that the cookie it was sent is too old (§5.2.6): a new INIT asks for one that lives longer by the
    /// time that the exchange took, and no more than a second beyond.
    pub(super) fn on_stale_cookie(&mut self, now: Timestamp, staleness_us: u32) {
        match &self.state {
            State::CookieEchoed(set_up) if set_up.stale >= MOST_STALE => {
                self.close(CloseReason::StaleCookie);
                return;
            }
            State::CookieEchoed(_) => {}
            _ => return,
        }
        let State::CookieEchoed(mut set_up) = core::mem::replace(&mut self.state, State::Closed) else {
            return;
        };
        let wanted = Duration::from_micros(staleness_us.into()).min(Duration::from_secs(60));
        let more = wanted + Duration::from_secs(1);
        set_up.stale += 1;
        set_up.repeats = 0;
        let increment_ms = u32::try_from(more.as_millis()).unwrap_or(u32::MAX);
        set_up.init.parameters = init_parameters(&self.config, Some(increment_ms));
        // What was sent with the old cookie was never taken.
        self.identity.peer_tag = VerificationTag(0);
        self.requeue_outstanding();
        self.state = State::CookieWait(set_up);
        self.send_set_up_chunk(now);
    }
}
