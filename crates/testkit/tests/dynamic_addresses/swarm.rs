//! Random runs of a client with several networks, behind one public address or behind several, and an attacker that reads its packets. The
//! client adds and removes networks, routers restart, and networks fail. The attacker has no key. It sends recorded packets from other
//! ports of the client's address, from its own address, and unchanged. No path of the server ever leads to a place that the client did not
//! have, and none from one network to another. Where the attacker's packets come from, at most three times their bytes go.
//!
//! `PAIRS_SEEDS=100..200` (or one number) chooses the seeds; a failure prints the command that runs it again.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use anabranch_netsim::{Generator, Packet};
use anabranch_proto::{AddressEvent, MultipathMode, PathState};
use anabranch_testkit::{Seeds, with};
use anabranch_wire::chunk::kind;

use super::fixture::*;
use super::pairs::{expect_all, multipath};

/// Seeds that run in CI.
const SEEDS: Range<u64> = 0..300;

const REPEATED: Seeds = Seeds {
    variable: "PAIRS_SEEDS",
    binary: "dynamic_addresses",
};

/// Events that the runs must reach together.
const MUST_REACH: [&str; 7] = [
    "one public address",
    "several public addresses",
    "two routers restart",
    "a network fails",
    "a recorded request",
    "three paths",
    "a candidate",
];

const ATTACKER: IpAddr = ip([10, 66, 0, 6]);
const ALL: [IpAddr; 3] = [WIFI, MOBILE, CABLE];

#[test]
fn an_attacker_adds_and_moves_no_pair() {
    let seeds = REPEATED.chosen(SEEDS);
    let coverage = REPEATED.run(seeds.clone(), run);
    if seeds == SEEDS {
        for what in MUST_REACH {
            assert!(coverage.contains_key(what), "no seed reached {what}");
        }
    }
}

struct Story {
    random: Generator,
    roaming: Roaming,
    networks: Vec<IpAddr>,
    /// The network of each path of the server.
    of: BTreeMap<u8, IpAddr>,
    /// How many address events of the server, and packets, were looked at.
    looked: (usize, usize),
    /// For each place that only the attacker had: the bytes from there, and the bytes to it.
    bytes: BTreeMap<SocketAddr, (usize, usize)>,
    reached: Vec<&'static str>,
}

fn run(seed: u64) -> Vec<&'static str> {
    let mut story = Story::begin(seed);
    for _ in 0..60 {
        story.step();
    }
    story.end();
    story.reached
}

impl Story {
    fn begin(seed: u64) -> Self {
        let mut random = Generator::of_process(seed, "pairs");
        let modes = [MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Eca];
        let config = with(multipath(modes[random.below(3) as usize]), |config| {
            config.retransmissions.association_max_retrans = 30;
            config.heartbeat.interval = Some(Duration::from_secs(1 + random.below(10)));
        });
        let mut roaming = Roaming::new([config.clone(), config], seed).behind_translator();
        let one_address = random.below(3) > 0;
        if one_address {
            roaming = roaming.at_one_address();
        }
        let mut roaming = roaming.connect();
        roaming.move_to(&ALL[..2], true);
        roaming.run(500 * MS);
        let mut story = Self {
            random,
            roaming,
            networks: ALL[..2].to_vec(),
            of: BTreeMap::new(),
            looked: (0, 0),
            bytes: BTreeMap::new(),
            reached: Vec::new(),
        };
        story.reach(if one_address {
            "one public address"
        } else {
            "several public addresses"
        });
        story.check();
        story
    }

    fn reach(&mut self, what: &'static str) {
        if !self.reached.contains(&what) {
            self.reached.push(what);
        }
    }

    /// At least two of the three networks: a port of the only path follows each packet (RFC 6951 §5.4).
    fn some(&mut self) -> Vec<IpAddr> {
        let without = self.random.below(4) as usize;
        let left = ALL.iter().enumerate().filter(|(place, _)| *place != without);
        left.map(|(_, network)| *network).collect()
    }

    fn step(&mut self) {
        for end in [End::Client, End::Server] {
            for _ in 0..self.random.below(6) {
                self.roaming.send(end, 1000);
            }
        }
        match self.random.below(12) {
            0 => {
                self.networks = self.some();
                let networks = self.networks.clone();
                self.roaming.move_to(&networks, true);
            }
            1 => {
                let restarted = self.some();
                self.roaming.restart_routers(&restarted);
                self.reach("two routers restart");
            }
            2 => {
                let restarted = ALL[self.random.below(3) as usize];
                self.roaming.restart_routers(&[restarted]);
            }
            3 => {
                let until = self.roaming.now + Duration::from_millis(self.random.below(5000));
                let network = ALL[self.random.below(3) as usize];
                self.roaming.lose_from(network, until);
                self.reach("a network fails");
            }
            _ => {}
        }
        for _ in 0..self.random.below(4) {
            self.attack();
            self.check();
        }
        let pause = Duration::from_millis(1 + self.random.below(500));
        self.roaming.run(pause);
        self.check();
    }

    /// A packet that reached the server arrives again, from another source or unchanged.
    fn attack(&mut self) {
        let recorded = &self.roaming.delivered;
        let late = self.random.below(recorded.len() as u64) as usize;
        let recent = recorded.len() - 1 - self.random.below(20).min(recorded.len() as u64 - 1) as usize;
        let place = if self.random.below(2) == 0 { late } else { recent };
        let mut packet = recorded[place].clone();
        let is_request = kinds(&packet).contains(&kind::ASCONF);
        match self.random.below(3) {
            0 => packet.source.set_port(50_000 + self.random.below(4) as u16),
            1 => packet.source.set_ip(ATTACKER),
            _ => {}
        }
        if is_request {
            self.reach("a recorded request");
        }
        if self.roaming.network_of(packet.source).is_none() {
            self.bytes.entry(packet.source).or_default().0 += len(&packet);
        }
        self.roaming.inject(End::Server, packet);
    }

    fn check(&mut self) {
        let (events, sent) = self.looked;
        let told = self.roaming.address_events(End::Server);
        for event in &told[events..] {
            match event {
                AddressEvent::PeerAdded { path, .. } | AddressEvent::PeerPairRemoved { path, .. } => {
                    self.of.remove(&path.0);
                }
                _ => {}
            }
        }
        let paths = self.roaming.association(End::Server).stats().paths;
        assert!(paths.len() <= 8, "{paths:?}");
        if paths.len() == 3 {
            self.reach("three paths");
        }
        for path in &paths {
            let network = self.roaming.network_of(path.remote);
            let network = network.unwrap_or_else(|| panic!("{}\n{}", path.remote, self.roaming.tail()));
            let before = *self.of.entry(path.id.0).or_insert(network);
            assert_eq!(before, network, "{told:?} {paths:?}\n{}", self.roaming.tail());
        }
        let news = self.roaming.sent[sent..].to_vec();
        for (_, end, packet) in &news {
            if *end == End::Server && self.roaming.network_of(packet.destination).is_none() {
                self.reach("a candidate");
                self.bytes.entry(packet.destination).or_default().1 += len(packet);
            }
        }
        for (place, (from, to)) in &self.bytes {
            assert!(
                *to <= 3 * from,
                "{place}: {to} bytes for {from}\n{}",
                self.roaming.tail()
            );
        }
        self.looked = (told.len(), self.roaming.sent.len());
    }

    /// All networks work, and the attacker stops: each has a path, and all messages arrive.
    fn end(&mut self) {
        self.roaming.move_to(&ALL, true);
        self.roaming.lose_from(WIFI, self.roaming.now);
        for _ in 0..120 {
            self.roaming.send(End::Client, 1000);
            self.roaming.send(End::Server, 1000);
            self.roaming.run(1000 * MS);
            self.check();
        }
        let paths = self.roaming.association(End::Server).stats().paths;
        for network in ALL {
            let public = self.roaming.public(network);
            let is_it = |state: PathState| state == PathState::Active;
            let mut active = paths.iter().filter(|path| is_it(path.state));
            assert!(
                active.any(|path| Some(path.remote) == public),
                "{network} {public:?} {paths:?}\n{}",
                self.roaming.tail()
            );
        }
        expect_all(&mut self.roaming);
    }
}

fn len(packet: &Packet) -> usize {
    packet.payload.clone().into_sctp().len()
}
