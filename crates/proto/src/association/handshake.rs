//! Setting up from the initiating side (RFC 9260 §5.1), and what both sides' set-up shares.

use core::cmp::Reverse;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{CHUNK_HEADER_LEN, Chunk, CookieEcho, ErrorChunk, Init, InitAck, padded};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use anabranch_wire::{Tsn, VerificationTag};
use bytes::Bytes;

use super::peer_init::{self, InitFields, InitRefusal, PeerInit};
use super::shutdown::Ending;
use super::state::{SetUp, State};
use super::{Association, Capabilities, Identity};
use crate::config::Config;
use crate::endpoint::{CookieMint, Inbound, StateCookie, TieTags};
use crate::event::{CloseReason, EndpointEvent, Event};
use crate::extension::ControlSources;
use crate::message::AbandonPolicy;
use crate::path::{HeartbeatInfo, PathId, PathState, Paths};
use crate::random::Random;
use crate::receive::Receiver;
use crate::recovery::AckOutcome;
use crate::send::SendQueue;
use crate::stats::Counters;
use crate::time::Timestamp;

/// Times that a stale cookie is renewed before set-up fails (§5.2.6).
const MOST_STALE: u32 = 2;

/// The first TSN of this side (§3.3.2).
pub(crate) fn first_tsn(config: &Config, random: &mut Random) -> Tsn {
    config.initial_tsn.unwrap_or_else(|| Tsn(random.next_u32()))
}

/// How long a new cookie lives: what the peer asks for, at most twice `Valid.Cookie.Life` (§5.2.6).
fn cookie_lifetime(mint: &CookieMint, asked: Duration) -> Duration {
    mint.lifetime() + asked.min(mint.lifetime())
}

/// The parameters of an INIT: padded (RFC 4820 §4), so that the answer, which goes to an address that nobody has
/// vouched for, need not be larger than it. It has room for a cookie and for as many addresses as this side lists.
fn init_parameters(config: &Config, preservative: Option<u32>) -> Parameters {
    let mut parameters = own_parameters(config, Capabilities::offered(config));
    if let Some(increment_ms) = preservative {
        parameters = parameters.push(&Parameter::CookiePreservative { increment_ms });
    }
    // The cookie holds the address that the INIT came from, of whichever family, beside those that are listed.
    let unlisted = [IpAddr::from([0; 16])];
    let room = StateCookie::len_with(config.local_addresses.iter().chain(&unlisted));
    parameters
        .push(&Parameter::Padding(vec![0; room].into()))
        .finish()
}

/// The parameters that INIT and INIT ACK share: this side's addresses, if it lists any (§5.1.2), and
/// what it offers; in an INIT ACK only that of it which the peer offers too, so that no answer is the larger for nothing.
fn own_parameters(config: &Config, offered: Capabilities) -> ParametersBuilder {
    let mut parameters = ParametersBuilder::new();
    for address in &config.local_addresses {
        parameters = parameters.push(&match address {
            IpAddr::V4(ip) => Parameter::Ipv4(*ip),
            IpAddr::V6(ip) => Parameter::Ipv6(*ip),
        });
    }
    offered.push_parameters(parameters, config.chunk_types)
}

/// The INIT ACK that answers the INIT of `peer` in `inbound` (§5.1.3, §5.2.1, §5.2.2), with `own` as this side's
/// fields. Its cookie is all that is kept.
pub(crate) fn answer_init(
    now: Timestamp,
    config: &Config,
    mint: &mut CookieMint,
    inbound: &Inbound,
    peer: &PeerInit,
    own: InitFields,
    tie_tags: Option<TieTags>,
) -> Chunk {
    let remote = inbound.remote.ip();
    let mut addresses = vec![remote];
    addresses.extend(peer.addresses.iter().filter(|address| **address != remote));
    addresses.truncate(config.max_paths);
    let cookie = StateCookie {
        created: now,
        lifetime: cookie_lifetime(mint, peer.preservative),
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
        addresses,
    };
    let mut parameters =
        own_parameters(config, peer.capabilities).push(&Parameter::StateCookie(mint.mint(now, &cookie)));
    for parameter in &peer.unrecognized {
        parameters = parameters.push(&Parameter::UnrecognizedParameter(parameter.clone()));
    }
    Chunk::InitAck(InitAck {
        initiate_tag: own.tag,
        a_rwnd: own.a_rwnd,
        outbound_streams: own.outbound_streams,
        inbound_streams: own.inbound_streams,
        initial_tsn: own.initial_tsn,
        parameters: parameters.finish(),
    })
}

/// The local address from which packets go to this address of the peer's: the one that is told to be for it; else the listed
/// one that shares most leading bits with it, on the same subnet if there is one; of several, the one with the fewest paths,
/// in the order in which they are listed. If none that is listed reaches it, the one that set-up used: the peer knows no other
/// (§5.1.2), and would answer whatever came from another with an ABORT (§8.4).
fn local_address_for(
    config: &Config,
    remote: IpAddr,
    set_up: Option<IpAddr>,
    in_use: impl Fn(IpAddr) -> usize,
) -> Option<IpAddr> {
    if let Some(local) = config.paired_with(remote) {
        return Some(local);
    }
    let own = config.local_addresses.iter().copied();
    let candidates =
        own.filter_map(|local| Some((local, Reverse(common_bits(local, remote)?), in_use(local))));
    let best = candidates.min_by_key(|(_, common, in_use)| (*common, *in_use));
    best.map(|(local, ..)| local)
        .or_else(|| set_up.filter(|local| common_bits(*local, remote).is_some()))
}

/// Leading bits that two addresses share; `None` if packets cannot go from one to the other: they are of two versions of IP,
/// or one of them alone is link-local (RFC 4007 §9).
fn common_bits(local: IpAddr, remote: IpAddr) -> Option<u32> {
    match (local, remote) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) if a.is_unicast_link_local() == b.is_unicast_link_local() => {
            Some((a.to_bits() ^ b.to_bits()).leading_zeros())
        }
        _ => None,
    }
}

/// The local address of the first path, to `remote`, where the packet that completed set-up is `inbound`: the one it came to,
/// if it came from there.
pub(crate) fn set_up_address(config: &Config, inbound: &Inbound, remote: IpAddr) -> Option<IpAddr> {
    if remote == inbound.remote.ip() {
        return inbound.local;
    }
    local_address_for(config, remote, inbound.local, |_| 0)
}

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
            peer_window: super::PeerWindow::default(),
            receiver: Receiver::new(Tsn(0), 0, &plan.config),
            control: super::ControlQueue::default(),
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
        let init = Init {
            initiate_tag: local_tag,
            a_rwnd: config.buffers.receive,
            outbound_streams: config.streams.outbound,
            inbound_streams: config.streams.max_inbound,
            initial_tsn,
            parameters: init_parameters(config, None),
        };
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
        association.adopt_cookie(now, cookie);
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

    /// Takes the peer's side of an association from a cookie.
    pub(super) fn adopt_cookie(&mut self, now: Timestamp, cookie: &StateCookie) {
        self.identity.peer_tag = cookie.peer_tag;
        self.peer_window = super::PeerWindow::new(cookie.peer_rwnd);
        self.receiver
            .reset(cookie.peer_initial_tsn, cookie.inbound_streams);
        self.adopt_capabilities(cookie.capabilities);
        self.adopt_streams(cookie.outbound_streams);
        self.add_peer_addresses(now, &cookie.addresses);
    }

    fn adopt_streams(&mut self, count: u16) {
        for unsent in self.queue.set_stream_count(count) {
            self.tell_unsent(unsent);
        }
    }

    /// What completes set-up came to an address that the peer knows this side by. Where none are listed it is the only one.
    pub(super) fn adopt_local_address(&mut self, inbound: &Inbound) {
        let listed = !self.config.local_addresses.is_empty();
        for path in self
            .paths
            .iter_mut()
            .filter(|path| !listed || path.local.is_none())
        {
            let local = set_up_address(&self.config, inbound, path.remote.ip());
            path.local = local.or(path.local);
        }
    }

    /// Adds a path for each further address of the peer (§5.1.2 C) that a local address goes with.
    pub(super) fn add_peer_addresses(&mut self, now: Timestamp, addresses: &[IpAddr]) {
        let first = self.paths.path(PathId(0));
        let (set_up, first) = (first.local, first.remote);
        for address in addresses {
            let in_use = |local| self.paths.iter().filter(|path| path.local == Some(local)).count();
            let local = local_address_for(&self.config, *address, set_up, in_use);
            // The UDP port is that of the first path, and the interface too, for a link-local address.
            let mut remote = first;
            remote.set_ip(*address);
            if self.paths.add(local, remote, &self.config, now).is_some() {
                self.notices
                    .tell_endpoint(EndpointEvent::PeerAddressAdded(remote));
            }
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
        let fields = InitFields {
            tag: init_ack.initiate_tag,
            a_rwnd: init_ack.a_rwnd,
            outbound_streams: init_ack.outbound_streams,
            inbound_streams: init_ack.inbound_streams,
            initial_tsn: init_ack.initial_tsn,
        };
        let peer = match peer_init::read(fields, &init_ack.parameters, &self.config) {
            Ok(peer) => peer,
            // Tag 0: the association is destroyed, and nobody can be told under that tag (§3.3.3).
            Err(InitRefusal::Silent) => {
                self.close(CloseReason::ProtocolViolation(
                    "an INIT ACK has the Initiate Tag 0",
                ));
                return;
            }
            Err(InitRefusal::Abort(cause)) => {
                self.refuse_init_ack(fields.tag, cause);
                return;
            }
        };
        let Some(cookie) = peer.cookie.clone() else {
            self.refuse_init_ack(fields.tag, Cause::MissingMandatoryParameter(vec![7]));
            return;
        };
        self.identity.peer_tag = fields.tag;
        self.peer_window = super::PeerWindow::new(fields.a_rwnd);
        self.receiver.reset(
            fields.initial_tsn,
            self.config.streams.max_inbound.min(fields.outbound_streams),
        );
        self.adopt_capabilities(peer.capabilities);
        self.adopt_streams(self.config.streams.outbound.min(fields.inbound_streams));
        self.adopt_local_address(inbound);
        self.add_peer_addresses(now, &peer.addresses);
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

    fn refuse_init_ack(&mut self, tag: VerificationTag, cause: Cause) {
        self.identity.peer_tag = tag;
        self.abort_with(
            cause,
            CloseReason::ProtocolViolation("the INIT ACK cannot be accepted"),
        );
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

    /// The own parameters again, as a restart or a collision answers with them.
    pub(super) fn own_fields(&self, tag: VerificationTag, initial_tsn: Tsn) -> InitFields {
        InitFields {
            tag,
            a_rwnd: self.config.buffers.receive,
            outbound_streams: self.config.streams.outbound,
            inbound_streams: self.config.streams.max_inbound,
            initial_tsn,
        }
    }
}
