//! Two endpoints over one or two paths. The input selects which packets the paths drop, duplicate, delay and damage. Then the paths work
//! again: every message must arrive once and in order, and the association must shut down.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{
    AckRouting, Association, AssociationId, CloseReason, Config, MultipathMode, PathScheduler, Reliability,
    SchedulerKind, Timestamp, Tsn,
};
use anabranch_testkit::{Ledger, Parcel};
use bytes::Bytes;

use crate::input::{Input, extend, reliability};
use crate::node::Node;

const PORT: u16 = 5000;
const UDP_PORT: u16 = 9899;
/// Default one-way delay.
const DELAY: Duration = Duration::from_millis(10);
/// The longest time that the rest may take after the paths work again: several timeouts with backoff.
const HEALED_LIMIT: Duration = Duration::from_secs(1800);
/// The most messages of one input, and the most bytes of messages on each side: with small windows each message takes many packets.
const MOST_MESSAGES: usize = 100;
const MOST_BYTES: usize = 100_000;

/// A datagram in transit. The earliest arrival comes first; datagrams with equal arrival times keep the order of sending.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: Timestamp,
    number: u64,
    to: usize,
    destination: IpAddr,
    source: SocketAddr,
    datagram: Bytes,
}

struct Side {
    node: Node,
    id: Option<AssociationId>,
    sent: Ledger,
    backlog: VecDeque<Parcel>,
    /// Bytes that the input may still send.
    left: usize,
}

struct World<'a> {
    sides: [Side; 2],
    now: Timestamp,
    in_transit: BinaryHeap<Reverse<Flight>>,
    number: u64,
    /// The fates of the next datagrams; each takes one or two bytes.
    fates: Input<'a>,
    /// Whether a path drops all packets.
    cut: [bool; 2],
    paths: u8,
    /// Whether both sides are set up.
    began: bool,
    /// Whether messages may be abandoned.
    expendable: bool,
}

fn address(side: usize, path: usize) -> IpAddr {
    IpAddr::from([10, path as u8, 0, side as u8 + 1])
}

fn config(input: &mut Input<'_>, side: usize, paths: u8) -> Config {
    let mut config = Config::default();
    extend(
        &mut config,
        input.last().rotate_left(side as u32 * 2) | input.last() & 0x80,
    );
    let (first, second) = (input.u8(), input.u8());
    config.rto.min = Duration::from_millis([100, 1000][usize::from(first & 1)]);
    config.rto.max = Duration::from_secs([2, 60][usize::from(first >> 1 & 1)]);
    config.buffers.receive = [1500, 4000, 65_536, 1 << 20][usize::from(first >> 2 & 3)];
    config.buffers.send = [1, 10_000, 65_536, 1 << 20][usize::from(first >> 4 & 3)];
    config.buffers.partial_delivery_point = [1000, 256 << 10][usize::from(first >> 7)];
    config.path_mtu = [576, 1280, 1500, 9000][usize::from(second & 3)];
    config.no_delay = second & 4 == 0;
    config.max_burst = [4, 1][usize::from(second >> 3 & 1)];
    config.sack.frequency = [2, 1, 4, 2][usize::from(second >> 4 & 3)];
    config.initial_tsn = (second & 0x40 != 0).then_some(Tsn(u32::MAX - 3));
    config.scheduler =
        [SchedulerKind::FirstComeFirstServed, SchedulerKind::RoundRobin][usize::from(second >> 7)];
    config.heartbeat.interval = Some(Duration::from_secs(5));
    // The association itself must survive the impairments.
    config.retransmissions.association_max_retrans = 10_000;
    config.retransmissions.max_init_retransmits = 10_000;
    config.shutdown_guard = Some(HEALED_LIMIT);
    // After about eight minutes, a Stale Cookie error could no longer be sent for a cookie, and a peer that continues to retransmit it
    // would not succeed.
    config.cookie_lifetime = Duration::from_secs(1_000_000);
    if paths > 1 && second & 0x30 == 0x30 {
        config.multipath.mode = [MultipathMode::Cmt, MultipathMode::Eca][usize::from(input.last() >> 6 & 1)];
        config.multipath.scheduler =
            [PathScheduler::EarliestDeliveryFirst, PathScheduler::RoundRobin][usize::from(first & 1)];
        config.multipath.reschedule = first & 2 == 0;
        config.multipath.split_send_buffer = first & 4 == 0;
        config.multipath.eca.ack_routing =
            [AckRouting::Measured, AckRouting::EveryPath][usize::from(first >> 3 & 1)];
        config.recovery = config.recovery.missing_reports([3, 1][usize::from(first >> 5 & 1)]);
    }
    if paths > 1 {
        config.local_addresses = (0..usize::from(paths)).map(|path| address(side, path)).collect();
    }
    config
}

impl<'a> World<'a> {
    fn new(input: &mut Input<'a>) -> Self {
        let expendable = input.last() & 0xc0 == 0xc0;
        let paths = 1 + (input.u8() & 1);
        let sides = [0, 1].map(|side| Side {
            node: Node::new(config(input, side, paths), side as u8 + 1, PORT),
            id: None,
            sent: Ledger::new(side as u64),
            backlog: VecDeque::new(),
            left: MOST_BYTES,
        });
        // The shorter part of the rest selects the actions, the longer part the fates of the packets.
        let len = input.0.len() / 3;
        let commands = input.take(len);
        let fates = Input(core::mem::replace(&mut input.0, commands));
        Self {
            sides,
            now: Timestamp::from_millis(1000),
            in_transit: BinaryHeap::new(),
            number: 0,
            fates,
            cut: [false; 2],
            paths,
            began: false,
            expendable,
        }
    }

    /// Puts the datagrams of one side in transit.
    fn carry(&mut self, from: usize) {
        for sent in core::mem::take(&mut self.sides[from].node.sent) {
            let IpAddr::V4(destination) = sent.destination.ip() else {
                unreachable!("only IPv4 is used")
            };
            let path = usize::from(destination.octets()[1]);
            if self.cut[path] {
                continue;
            }
            let (mut delay, mut copies, mut datagram) = (DELAY, 1, sent.datagram);
            if !self.fates.is_empty() {
                match self.fates.u8() {
                    0..128 => {}
                    128..168 => copies = 0,
                    168..184 => copies = 2,
                    184..224 => delay += Duration::from_millis(u64::from(self.fates.u8()) * 4),
                    224..232 => delay += Duration::from_millis(u64::from(self.fates.u8()) * 400),
                    _ => datagram = damaged(&datagram, self.fates.u16()),
                }
            }
            for copy in 0..copies {
                self.number += 1;
                self.in_transit.push(Reverse(Flight {
                    at: self.now + delay * (1 + copy),
                    number: self.number,
                    to: 1 - from,
                    destination: sent.destination.ip(),
                    source: SocketAddr::new(sent.source.unwrap_or(address(from, path)), UDP_PORT),
                    datagram: datagram.clone(),
                }));
            }
        }
    }

    /// The time of the next event.
    fn next_event(&self) -> Option<Timestamp> {
        let timeouts = self.sides.iter().filter_map(|side| side.node.poll_timeout());
        timeouts
            .chain(self.in_transit.peek().map(|Reverse(flight)| flight.at))
            .min()
    }

    /// Handles one arriving datagram or the timeouts that are due, if they come before `limit`.
    fn step(&mut self, limit: Timestamp) -> bool {
        let Some(next) = self.next_event().filter(|next| *next <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.now = self.now.max(next);
        if self
            .in_transit
            .peek()
            .is_some_and(|Reverse(flight)| flight.at <= self.now)
            && let Some(Reverse(flight)) = self.in_transit.pop()
        {
            let node = &mut self.sides[flight.to].node;
            node.handle_datagram(self.now, flight.destination, flight.source, flight.datagram);
        } else {
            self.sides
                .iter_mut()
                .for_each(|side| side.node.handle_timeout(self.now));
        }
        self.settle();
        true
    }

    /// Called after each step: sends backlogs as the buffers allow, checks the messages that were read, and takes outgoing packets.
    fn settle(&mut self) {
        if !self.began && self.sides.iter().all(|side| !side.node.associations.is_empty()) {
            self.began = true;
        }
        for from in [0, 1] {
            let side = &mut self.sides[from];
            side.id = side.node.newest();
            while let (Some(parcel), Some(id)) = (side.backlog.front(), side.id) {
                let message = (parcel.stream, parcel.bytes.clone(), parcel.options);
                if !side.node.send(self.now, id, message, None) {
                    break;
                }
                side.backlog.pop_front();
            }
            side.node.check();
            self.carry(from);
            let messages: Vec<_> = self.sides[from].node.messages().collect();
            for message in messages {
                let ledger = &mut self.sides[1 - from].sent;
                ledger
                    .check(&message)
                    .unwrap_or_else(|violation| panic!("{violation}"));
            }
        }
    }

    fn run_for(&mut self, duration: Duration) {
        let limit = self.now + duration;
        while self.step(limit) {}
    }

    fn command(&mut self, input: &mut Input<'_>) {
        let command = input.u8();
        let from = usize::from(command >> 7);
        match command & 15 {
            0..7 => {
                let bits = input.u8();
                let len = [1, 60, 1000, 5000, 20_000, 1, 300, 1460][usize::from(bits & 7)];
                let len = len + usize::from(input.u8());
                let count = [1, 1, 5, 20][usize::from(command >> 5 & 3)];
                let side = &mut self.sides[from];
                for _ in 0..count {
                    if side.sent.sent() < MOST_MESSAGES && len <= side.left {
                        side.left -= len;
                        let mut parcel = side.sent.parcel(u16::from(bits >> 3 & 3), len, bits & 0x20 != 0);
                        let reliability = reliability(if self.expendable {
                            bits >> 6 | command & 0x70 | 4
                        } else {
                            0
                        });
                        if reliability != Reliability::Reliable {
                            parcel = side.sent.expend(parcel, reliability);
                        }
                        side.backlog.push_back(parcel);
                    }
                }
            }
            7..12 => self.run_for(Duration::from_millis(u64::from(input.u8()) * 8)),
            12 => self.run_for(Duration::from_millis(u64::from(input.u8()) * 500)),
            13 => self.cut[usize::from(command >> 6 & 1)] ^= true,
            14 => {
                let side = &mut self.sides[from].node;
                side.talker.reading ^= true;
                self.read(from);
            }
            _ => {
                let (now, side) = (self.now, &mut self.sides[from]);
                if let Some(id) = side.id {
                    let path = anabranch_proto::PathId(command >> 6 & 1);
                    side.node
                        .act(now, id, |association| drop(association.set_primary_path(path)));
                }
            }
        }
        self.settle();
    }

    /// Reads the available messages, if this side reads.
    fn read(&mut self, side: usize) {
        let (now, side) = (self.now, &mut self.sides[side]);
        if let Some(id) = side.id {
            side.node.act(now, id, |_| {});
        }
    }

    fn heal(&mut self) {
        self.fates = Input(&[]);
        self.cut = [false; 2];
        for side in [0, 1] {
            self.sides[side].node.talker.reading = true;
            self.read(side);
        }
        self.settle();
        let limit = self.now + HEALED_LIMIT;
        while !self.is_done() {
            assert!(
                self.step(limit),
                "healed, but at {} {}",
                self.now,
                self.complaint()
            );
        }
    }

    fn is_done(&self) -> bool {
        let idle = |association: &Association| {
            let stats = association.stats();
            stats.queued_bytes + stats.outstanding_bytes == 0
        };
        self.began
            && self.sides.iter().all(|side| {
                side.backlog.is_empty()
                    && side.sent.check_complete().is_ok()
                    && side
                        .node
                        .associations
                        .values()
                        .all(|association| idle(association))
            })
    }

    fn complaint(&self) -> String {
        let complaints = self.sides.iter().map(|side| match side.sent.check_complete() {
            Ok(()) => "nothing is missing".to_owned(),
            Err(violation) => violation.to_string(),
        });
        complaints.collect::<Vec<_>>().join("; ")
    }

    /// A graceful shutdown.
    fn end(&mut self) {
        let (now, side) = (self.now, &mut self.sides[0]);
        let id = side.id.expect("it is set up");
        side.node.act(now, id, |association| association.shutdown(now));
        self.settle();
        let limit = self.now + HEALED_LIMIT;
        while self.sides.iter().any(|side| !side.node.associations.is_empty()) {
            assert!(self.step(limit), "the shutdown does not end");
        }
        for side in &self.sides {
            assert_eq!(side.node.ended, [CloseReason::Shutdown]);
        }
    }
}

/// The datagram with one changed bit, which the checksum detects.
fn damaged(datagram: &Bytes, at: u16) -> Bytes {
    let mut bytes = datagram.to_vec();
    let bit = usize::from(at) % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes.into()
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut world = World::new(&mut input);
    let remote = SocketAddr::new(address(1, 0), UDP_PORT);
    assert!(world.paths <= 2);
    world.sides[0].node.connect(world.now, remote, PORT);
    world.settle();
    while !input.is_empty() {
        world.command(&mut input);
    }
    world.heal();
    world.end();
}
