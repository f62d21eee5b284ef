//! Random runs with an attacker. A and Z set up an association, exchange messages, restart and shut down while a third host, M,
//! attacks. M guesses ports and spoofs addresses. Where M can read the packets of A and Z, it also replays any of them at any
//! time: unchanged, from its own address, from another UDP port, or back to its sender. A and Z never have a path to M, no
//! association is shared by M and the peer, all messages arrive, and the associations end with a graceful shutdown. M does not
//! forge packets from tags that it read: an attacker that reads a verification tag can write a valid ABORT. For the same reason M replays no
//! ABORT that the network lost: with the right tag it ends the association (RFC 9260 §8.5.1 B).
//!
//! `ATTACKER_SEEDS=100..200` (or one number) chooses the seeds; a failure prints the command that runs it again.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anabranch_netsim::{Ecn, Generator, LinkConfig, LossModel, Node, NodeId, Packet};
use anabranch_proto::{
    AssociationId, AssociationState as State, CloseReason, Config, ConnectOptions, Dscp,
    DynamicAddressConfig, Event, Failover, MultipathMode, PathState, Timestamp, Tsn, VerificationTag,
};
use anabranch_testkit::{
    Ledger, PORT, Pair, Seeds, Setup, Side, ToyGuard, Violation, packet_of, protect, sack, shutdown_chunk,
    state_cookie,
};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Abort, Chunk, CookieEcho, Data, ErrorChunk, Heartbeat, HeartbeatAck, Init, InitAck, ShutdownComplete,
    kind,
};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use anabranch_wire::{Ppid, Ssn, StreamId};
use bytes::Bytes;

/// Seeds that run in CI.
const SEEDS: Range<u64> = 0..1000;

const FAILED_ONCE: [u64; 17] = [
    8_543, 9_003, 12_341, 14_279, 22_693, 22_698, 22_811, 43_452, 50_950, 59_566, 66_762, 67_903, 72_335,
    86_879, 87_754, 97_615, 99_451,
];

const REPEATED: Seeds = Seeds {
    variable: "ATTACKER_SEEDS",
    binary: "attacker_swarm",
};

/// Events that the runs must reach together.
const MUST_REACH: [&str; 10] = [
    "M off the path",
    "M reads",
    "M's own",
    "camping",
    "restart",
    "both begin",
    "several paths",
    "port pairs",
    "protected packets",
    "silence",
];

const M: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 66, 0, 1));
const UDP_PORT: u16 = 9899;
/// Virtual time that the run may take after M has stopped.
const LIMIT: Duration = Duration::from_secs(900);
/// Packets and timeouts in one step; more of them are an endless loop of answers.
const MOST_EVENTS: u64 = 20_000;
/// Cookies that M keeps for associations of its own.
const MOST_COOKIES: usize = 60;
/// Packets that M keeps.
const MEMORY: usize = 1000;

#[test]
fn seeds_that_failed_once() {
    FAILED_ONCE.into_iter().for_each(|seed| {
        run(seed);
    });
}

#[test]
fn an_attacker_is_never_the_peer() {
    let seeds = REPEATED.chosen(SEEDS);
    let coverage = REPEATED.run(seeds.clone(), run);
    if seeds == SEEDS {
        for what in MUST_REACH {
            assert!(coverage.contains_key(what), "no seed reached {what}");
        }
    }
}

/// One run. It panics if a rule is violated, and returns the events that it reached.
fn run(seed: u64) -> Vec<&'static str> {
    let mut story = Story::begin(seed);
    for _ in 0..story.random.below(20) {
        story.step();
    }
    story.set_up();
    story.transfer();
    // A protected association is not restarted.
    if story.random.below(3) == 0 && !story.is_protected {
        story.restart();
        story.transfer();
    }
    story.end();
    story.reached
}

/// M's host: it sends the packets that it is given, and keeps the packets that it receives.
#[derive(Default)]
struct Attacker {
    outgoing: VecDeque<Packet>,
    received: Vec<Packet>,
}

impl Node for Attacker {
    fn handle_packet(&mut self, _: Timestamp, packet: Packet) {
        self.received.push(packet);
    }

    fn handle_timeout(&mut self, _: Timestamp) {}

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Packet> {
        self.outgoing.pop_front()
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}

struct Story {
    seed: u64,
    random: Generator,
    pair: Pair,
    m: NodeId,
    /// Whether M reads the packets of A and Z.
    reads: bool,
    /// The packets that M has read.
    seen: Vec<Packet>,
    looked: Timestamp,
    /// Cookies that M was given for its own address, with the tags that go with them.
    cookies: Vec<(VerificationTag, Bytes)>,
    /// The newest associations that A and Z have with M.
    tags: [VerificationTag; 2],
    /// The time at which M stops.
    until: Timestamp,
    /// A's SCTP port.
    port: u16,
    both: bool,
    /// Whether A and Z protect their packets.
    is_protected: bool,
    /// Whether A and Z answer nobody who does not know their secret.
    is_silent: bool,
    /// The association that was started last.
    begun: Option<AssociationId>,
    /// The association that A and Z have with each other.
    ids: Option<[AssociationId; 2]>,
    sent: [Ledger; 2],
    reached: Vec<&'static str>,
}

fn pick<T: Copy>(random: &mut Generator, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn millis(random: &mut Generator, from: u64, to: u64) -> Duration {
    Duration::from_millis(from + random.below(to - from + 1))
}

fn random_config(random: &mut Generator) -> Config {
    let mut config = Config::default();
    config.rto.max = Duration::from_secs(pick(random, &[2, 10]));
    config.heartbeat.interval = Some(millis(random, 500, 5_000));
    config.buffers.receive = pick(random, &[20_000, 1 << 20]);
    config.multipath.mode = pick(
        random,
        &[MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Eca],
    );
    config.interleaving.offer = random.below(4) == 0;
    config.retransmissions.failover = pick(random, &[Failover::Rfc9260, Failover::Fast]);
    config.retransmissions.association_max_retrans = 30;
    config
}

fn random_link(random: &mut Generator) -> LinkConfig {
    let link = LinkConfig::default()
        .with_delay(millis(random, 1, 60))
        .with_rate(10_000_000);
    match random.below(2) {
        0 => link,
        _ => link.with_loss(LossModel::bernoulli(random.fraction() * 0.05)),
    }
}

fn chunks_of(packet: &SctpPacket) -> Vec<Chunk> {
    let raw = packet.chunks().map_while(Result::ok);
    raw.filter_map(|raw| Chunk::decode(raw).ok()).collect()
}

fn is_abort(packet: &Packet) -> bool {
    let parsed = SctpPacket::parse(packet.payload.clone().into_sctp());
    parsed.is_ok_and(|packet| packet.chunks().flatten().any(|raw| raw.kind == kind::ABORT))
}

impl Story {
    fn begin(seed: u64) -> Self {
        let mut random = Generator::of_process(seed, "attacker");
        let mut config = random_config(&mut random);
        // A generator of its own leaves the other choices of a seed as they are.
        let pairs = Generator::of_process(seed, "port pairs").below(2) == 0;
        config.dynamic_addresses = pairs.then(DynamicAddressConfig::default);
        let is_protected = Generator::of_process(seed, "protection").below(4) == 0;
        if is_protected {
            protect(&mut config);
        }
        let paths = 1 + random.below(2) as usize;
        let setup = (0..paths).fold(Setup::new(seed).config(config), |setup, _| {
            setup.path_of(random_link(&mut random), random_link(&mut random))
        });
        let mut pair = setup.build();
        pair.network.keep_records(2 * MEMORY);
        let m = pair.network.add_node("M", &[M], Attacker::default());
        let near = LinkConfig::default().with_delay(millis(&mut random, 0, 40));
        for side in Side::BOTH {
            for address in pair.addresses(side).to_vec() {
                let node = pair.node(side);
                pair.network
                    .connect((m, M), (node, address), near.clone(), near.clone());
            }
        }
        let reads = random.below(2) == 0;
        let both = random.below(4) == 0;
        let mut story = Self {
            seed,
            until: Timestamp::from_millis(5_000 + random.below(60_000)),
            random,
            pair,
            m,
            reads,
            seen: Vec::new(),
            looked: Timestamp::ZERO,
            cookies: Vec::new(),
            tags: [VerificationTag(0); 2],
            port: if both { PORT } else { 50_000 },
            both,
            is_protected,
            is_silent: Generator::of_process(seed, "silence").below(4) == 0,
            begun: None,
            ids: None,
            sent: [Ledger::new(2 * seed), Ledger::new(2 * seed + 1)],
            reached: Vec::new(),
        };
        if both {
            story.pair.listen(Side::A);
        }
        Side::BOTH.into_iter().for_each(|side| story.prepare(side));
        story.reach(if reads { "M reads" } else { "M off the path" });
        if paths > 1 {
            story.reach("several paths");
        }
        if pairs {
            story.reach("port pairs");
        }
        if is_protected {
            story.reach("protected packets");
        }
        if story.is_silent {
            story.reach("silence");
        }
        story
    }

    /// Prepares a host that has no state yet.
    fn prepare(&mut self, side: Side) {
        let peers = self.pair.addresses(side.other()).to_vec();
        self.pair.talker(side).peers = Some(peers);
        if self.is_silent {
            let guard = Arc::new(ToyGuard(self.seed as u32));
            self.pair.host_mut(side).endpoint_mut().set_init_guard(guard);
        }
    }

    fn reach(&mut self, what: &'static str) {
        if !self.reached.contains(&what) {
            self.reached.push(what);
        }
    }
}

/// A and Z.
impl Story {
    /// Starts an association from one host or from both at once, until A and Z have one.
    fn set_up(&mut self) {
        if self.both {
            self.begin_from(Side::Z);
            self.reach("both begin");
        }
        self.begin_from(Side::A);
        self.wait_established(Side::A);
    }

    fn begin_from(&mut self, side: Side) {
        let (now, remote) = (self.pair.now(), self.pair.remote(side, 0));
        let (local_port, port) = self.ports_of(side);
        let options = ConnectOptions::default().local_port(Some(local_port));
        // If M has an association that lists the peer's address, the host tries again later.
        let begun = self.pair.host_mut(side).connect(now, remote, port, options);
        self.begun = begun.ok();
        if let Some(id) = self.begun {
            self.pair.use_association(side, id);
        }
    }

    fn ports_of(&self, side: Side) -> (u16, u16) {
        match side {
            Side::A => (self.port, PORT),
            Side::Z => (PORT, self.port),
        }
    }

    /// Runs until A and Z are in the same association. If its set-up failed, `side` starts another one.
    fn wait_established(&mut self, side: Side) {
        let limit = self.until.max(self.pair.now()) + LIMIT;
        self.ids = None;
        while self.ids.is_none() {
            assert!(
                self.pair.now() < limit,
                "seed {}: set-up was not completed",
                self.seed
            );
            self.step();
            self.ids = self.mutual();
            let begun = self.begun.and_then(|id| self.pair.host(side).association(id));
            let over = begun.is_none_or(|association| association.state() == State::Closed);
            if self.ids.is_none() && over {
                self.begin_from(side);
            }
        }
        for (side, id) in Side::BOTH.into_iter().zip(self.ids.expect("just seen")) {
            self.pair.use_association(side, id);
        }
    }

    /// The association that A and Z have with each other, found by the tags of both.
    fn mutual(&self) -> Option<[AssociationId; 2]> {
        let established = |side: Side| {
            let host = self.pair.host(side);
            host.association_ids().filter_map(move |id| {
                let association = host.association(id)?;
                (association.state() == State::Established).then(|| (id, association.tags()))
            })
        };
        let mut both = established(Side::A).flat_map(|(a, (own, peer))| {
            established(Side::Z)
                .filter(move |(_, tags)| *tags == (peer, own))
                .map(move |(z, _)| [a, z])
        });
        both.next()
    }

    /// Sends messages in both directions, all of which arrive.
    fn transfer(&mut self) {
        let restarts = Side::BOTH.map(|side| self.pair.association(side).counters().restarts);
        for side in Side::BOTH {
            let count = self.random.below(30);
            let ledger = &mut self.sent[side as usize];
            let parcels: Vec<_> = (0..count).map(|_| ledger.random_parcel(8, 20_000)).collect();
            self.pair.post(side, parcels);
        }
        let limit = self.until.max(self.pair.now()) + LIMIT;
        let missing = |ledger: &Ledger| matches!(ledger.check_complete(), Err(Violation::Missing { .. }));
        while self.sent.iter().any(missing) {
            assert!(
                self.pair.now() < limit,
                "seed {}: {:?}, A {:?}, Z {:?}",
                self.seed,
                self.sent.iter().map(Ledger::check_complete).collect::<Vec<_>>(),
                self.pair.state(Side::A),
                self.pair.state(Side::Z),
            );
            self.step();
        }
        let after = Side::BOTH.map(|side| self.pair.association(side).counters().restarts);
        assert_eq!(restarts, after, "seed {}: nobody restarted", self.seed);
    }

    /// One host loses all state and sets up again. Both start new ledgers.
    fn restart(&mut self) {
        let side = pick(&mut self.random, &Side::BOTH);
        let survivor = side.other();
        self.pair.reboot(side);
        // The surviving host may have lost its association by then. It uses the next one.
        let port = self.ports_of(survivor).0;
        let endpoint = self.pair.host_mut(survivor).endpoint_mut();
        endpoint.listen(port).expect("not port 0");
        self.prepare(side);
        self.until = self.pair.now() + millis(&mut self.random, 5_000, 40_000);
        self.begin_from(side);
        self.wait_established(side);
        let fresh = 2 * self.seed + 1_000_000;
        self.sent = [Ledger::new(fresh), Ledger::new(fresh + 1)];
        self.reach("restart");
    }

    /// A graceful shutdown, started by one host or both.
    fn end(&mut self) {
        self.until = self.pair.now() + millis(&mut self.random, 0, 15_000);
        let sides = pick(&mut self.random, &[&[Side::A][..], &[Side::Z], &Side::BOTH]);
        for side in sides {
            self.pair.shutdown(*side);
        }
        let limit = self.until + LIMIT;
        while Side::BOTH
            .iter()
            .any(|side| self.pair.state(*side) != Some(State::Closed))
        {
            assert!(
                self.pair.now() < limit,
                "seed {}: the shutdown did not end",
                self.seed
            );
            self.step();
        }
        for (side, id) in Side::BOTH.into_iter().zip(self.ids.expect("there was one")) {
            let events = &self.pair.talker(side).events;
            let mut ends = events
                .iter()
                .filter(|(_, of, event)| *of == id && matches!(event, Event::Closed(_)));
            let end = ends.next().map(|(_, _, event)| event);
            assert_eq!(
                end,
                Some(&Event::Closed(CloseReason::Shutdown)),
                "seed {}, {side:?}",
                self.seed
            );
        }
    }

    /// Lets time pass, lets M act, and checks the rules.
    fn step(&mut self) {
        let pause = millis(&mut self.random, 1, 200);
        let before = self.pair.network.events_handled();
        let end = self.pair.now() + pause;
        // Packets that answer each other without end would stop the clock.
        self.pair.run_to(end, |pair| {
            assert!(
                pair.network.events_handled() - before < MOST_EVENTS,
                "packets answer packets for ever"
            );
            false
        });
        self.watch();
        self.answer();
        if self.pair.now() < self.until {
            for _ in 0..self.random.below(5) {
                self.attack();
            }
        }
        self.check();
    }

    fn check(&mut self) {
        for side in Side::BOTH {
            for message in self.pair.messages(side) {
                if let Err(violation) = self.sent[side.other() as usize].check(&message) {
                    panic!("seed {}: {violation}", self.seed);
                }
            }
            let own = self.ids.map(|ids| ids[side as usize]);
            let [own_addresses, peer] = [side, side.other()].map(|side| self.pair.addresses(side));
            let host = self.pair.host(side);
            let mut camps = false;
            for id in host.association_ids() {
                let paths = host.association(id).expect("it is there").stats().paths;
                let leads_to_m = paths.iter().any(|path| path.remote.ip() == M);
                assert!(
                    !leads_to_m || own != Some(id),
                    "seed {}: {side:?} has a path to M",
                    self.seed
                );
                for path in &paths {
                    let remote = path.remote.ip();
                    // A replayed INIT lists the addresses of the host itself, and an INIT may list any (RFC 9260 §5.4). They stay
                    // unconfirmed, as those of the peer do.
                    let reflected = leads_to_m && own_addresses.contains(&remote);
                    assert!(
                        remote == M || peer.contains(&remote) || reflected,
                        "seed {}: {remote}",
                        self.seed
                    );
                    let confirmed = matches!(path.state, PathState::Active | PathState::PotentiallyFailed);
                    assert!(
                        !(leads_to_m && confirmed && remote != M),
                        "seed {}: {side:?} takes M for {remote}",
                        self.seed
                    );
                }
                camps |= leads_to_m && paths.len() > 1;
            }
            if camps {
                self.reach("camping");
            }
            self.forget_what_is_over(side);
        }
    }
}

impl Story {
    /// Removes M's associations that have ended.
    fn forget_what_is_over(&mut self, side: Side) {
        let (used, own) = (self.pair.id(side), self.ids.map(|ids| ids[side as usize]));
        let host = self.pair.host_mut(side);
        let over = |id: &AssociationId| {
            let state = host.association(*id).map(|association| association.state());
            Some(*id) != used && Some(*id) != own && state == Some(State::Closed)
        };
        let over: Vec<_> = host.association_ids().filter(over).collect();
        over.into_iter().for_each(|id| host.forget(id));
    }
}

/// M.
impl Story {
    fn attacker(&mut self) -> &mut Attacker {
        self.pair.network.node_mut(self.m)
    }

    /// Reads the packets that A and Z exchanged since the last call.
    fn watch(&mut self) {
        let now = self.pair.now();
        if self.reads {
            let paths = self.pair.addresses(Side::A).len();
            let links: Vec<_> = (0..paths)
                .flat_map(|path| <[_; 2]>::from(self.pair.links(path)))
                .collect();
            let records = self.pair.network.records();
            let new = records.filter(|record| {
                let lost_abort = record.fate.lost.is_some() && is_abort(&record.packet);
                record.at > self.looked && links.contains(&record.link) && !lost_abort
            });
            self.seen.extend(new.map(|record| record.packet.clone()));
            while self.seen.len() > MEMORY {
                let forgotten = self.random.below(MEMORY as u64) as usize;
                self.seen.swap_remove(forgotten);
            }
        }
        self.looked = now;
    }

    fn send_from(&mut self, source: SocketAddr, destination: SocketAddr, payload: impl Into<Bytes>) {
        let payload = payload.into().into();
        self.attacker().outgoing.push_back(Packet {
            source,
            destination,
            payload,
            may_fragment: true,
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
        });
    }

    /// Sends chunks to a host under the ports of A and Z, from M's or from the peer's address.
    fn send(&mut self, to: Side, spoofed: bool, tag: VerificationTag, chunks: &[Chunk]) {
        let (destination_port, source_port) = self.ports_of(to);
        let header = CommonHeader {
            source_port,
            destination_port,
            verification_tag: tag,
        };
        let from = if spoofed { self.address_of(to.other()) } else { M };
        let (source, destination) = (SocketAddr::new(from, UDP_PORT), self.address_of(to));
        let destination = SocketAddr::new(destination, UDP_PORT);
        self.send_from(source, destination, packet_of(header, chunks));
    }

    fn address_of(&mut self, side: Side) -> IpAddr {
        let addresses = self.pair.addresses(side).to_vec();
        pick(&mut self.random, &addresses)
    }

    /// Some addresses of that host, and M's.
    fn claims(&mut self, side: Side) -> ParametersBuilder {
        let mut addresses = self.pair.addresses(side).to_vec();
        addresses.push(M);
        let mut claims = ParametersBuilder::new();
        for address in addresses {
            if self.random.below(3) > 0
                && let IpAddr::V4(ip) = address
            {
                claims = claims.push(&Parameter::Ipv4(ip));
            }
        }
        claims
    }

    fn init(&mut self, to: Side) -> Init {
        let parameters: Parameters = self.claims(to.other()).finish();
        Init {
            initiate_tag: VerificationTag(1 + self.random.below(1 << 31) as u32),
            a_rwnd: 100_000,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: Tsn(self.random.below(1 << 32) as u32),
            parameters,
        }
    }

    /// Like the INIT, with a cookie made up by M.
    fn init_ack(&mut self, to: Side) -> InitAck {
        let claims = self.claims(to.other());
        let cookie = Parameter::StateCookie(Bytes::from_static(b"M's cookie"));
        let init = self.init(to);
        InitAck {
            initiate_tag: init.initiate_tag,
            a_rwnd: init.a_rwnd,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn,
            parameters: claims.push(&cookie).finish(),
        }
    }

    /// Answers the packets that M received as a peer would.
    fn answer(&mut self) {
        let received = core::mem::take(&mut self.attacker().received);
        // What M replays may be an INIT of a host that knows the secret.
        let answered = self.is_silent && !self.reads && !received.is_empty();
        assert!(!answered, "seed {}: M got {received:?}", self.seed);
        for packet in received {
            let side = Side::BOTH
                .into_iter()
                .find(|side| self.pair.addresses(*side).contains(&packet.source.ip()));
            let Some(from) = side else { continue };
            let parsed = SctpPacket::parse(packet.payload.into_sctp()).expect("their packets are right");
            for chunk in chunks_of(&parsed) {
                self.answer_to(from, chunk);
            }
        }
    }

    fn answer_to(&mut self, from: Side, chunk: Chunk) {
        let tag = self.tags[from as usize];
        match chunk {
            Chunk::Data(_) | Chunk::IData(_) | Chunk::EData(_) | Chunk::EIData(_) => {
                panic!("seed {}: M was sent data by {from:?}", self.seed)
            }
            Chunk::Init(init) => {
                self.tags[from as usize] = init.initiate_tag;
                let ack = self.init_ack(from);
                self.send(from, false, init.initiate_tag, &[Chunk::InitAck(ack)]);
            }
            Chunk::InitAck(ack) => {
                let tag = ack.initiate_tag;
                self.tags[from as usize] = tag;
                let cookie = state_cookie(&ack);
                self.cookies.push((tag, cookie.clone()));
                // With the tag of a host that waits for an INIT ACK, M would be its peer.
                let ack = self.init_ack(from);
                self.send(from, false, tag, &[Chunk::InitAck(ack)]);
                if self.cookies.len() < MOST_COOKIES && self.random.below(4) > 0 {
                    self.reach("M's own");
                    self.send(from, false, tag, &[Chunk::CookieEcho(CookieEcho { cookie })]);
                }
            }
            Chunk::CookieEcho(_) => self.send(from, false, tag, &[Chunk::CookieAck]),
            Chunk::Heartbeat(heartbeat) => {
                let info = heartbeat.info().expect("a Heartbeat Info");
                self.send(from, false, tag, &[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
            }
            Chunk::Shutdown(_) => self.send(from, false, tag, &[Chunk::ShutdownAck]),
            _ => {}
        }
    }

    fn attack(&mut self) {
        let to = pick(&mut self.random, &Side::BOTH);
        let spoofed = self.random.below(3) == 0;
        match self.random.below(if self.reads { 12 } else { 6 }) {
            0 | 1 => {
                let init = self.init(to);
                self.send(to, spoofed, VerificationTag(0), &[Chunk::Init(init)]);
            }
            2 => {
                let (tag, chunk) = (self.guess(), self.guessed_chunk(to));
                self.send(to, spoofed, tag, &[chunk]);
            }
            3 => {
                for _ in 0..20 {
                    let init = self.init(to);
                    self.send(to, spoofed, VerificationTag(0), &[Chunk::Init(init)]);
                }
            }
            4 if !self.cookies.is_empty() => {
                let at = self.random.below(self.cookies.len() as u64) as usize;
                let (tag, cookie) = self.cookies[at].clone();
                self.send(to, spoofed, tag, &[Chunk::CookieEcho(CookieEcho { cookie })]);
            }
            5 => {
                // An attack on M's own association.
                let (tag, chunk) = (self.tags[to as usize], self.guessed_chunk(to));
                self.send(to, false, tag, &[chunk]);
            }
            _ => self.replay(),
        }
    }

    fn guess(&mut self) -> VerificationTag {
        VerificationTag(self.random.below(1 << 32) as u32)
    }

    fn guessed_chunk(&mut self, to: Side) -> Chunk {
        let tsn = Tsn(self.random.below(1 << 32) as u32);
        let reflected_tag = self.random.below(2) == 0;
        match self.random.below(11) {
            0 => Chunk::Abort(Abort {
                reflected_tag,
                causes: Causes::empty(),
            }),
            1 => shutdown_chunk(tsn),
            2 => Chunk::ShutdownAck,
            3 => Chunk::ShutdownComplete(ShutdownComplete { reflected_tag }),
            4 => Chunk::CookieAck,
            5 => Chunk::Error(ErrorChunk {
                causes: Causes::from_causes(&[Cause::StaleCookie { staleness_us: 9 }]),
            }),
            6 => sack(tsn),
            7 => Chunk::InitAck(self.init_ack(to)),
            8 => Chunk::Heartbeat(Heartbeat {
                tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
            }),
            9 => Chunk::CookieEcho(CookieEcho {
                cookie: vec![1; 80].into(),
            }),
            _ => Chunk::Data(Data {
                tsn,
                stream: StreamId(0),
                ssn: Ssn(0),
                ppid: Ppid(0),
                unordered: false,
                beginning: true,
                ending: true,
                immediate: false,
                payload: "of M".into(),
            }),
        }
    }

    /// Replays a packet of A or Z: unchanged, from M's address, or back to its sender.
    fn replay(&mut self) {
        if self.seen.is_empty() {
            return;
        }
        // The newest packets are the most useful ones.
        let count = self.seen.len() as u64;
        let back = if self.random.below(2) == 0 {
            count.min(8)
        } else {
            count
        };
        let at = count - 1 - self.random.below(back);
        let Packet {
            mut source,
            mut destination,
            payload,
            ..
        } = self.seen[at as usize].clone();
        match self.random.below(6) {
            0 | 1 => source.set_ip(M),
            2 => {
                (destination, source) = (source, destination);
                source.set_ip(M);
            }
            3 => source.set_port(1 + self.random.below(65_535) as u16),
            _ => {}
        }
        self.send_from(source, destination, payload.into_sctp());
    }
}
