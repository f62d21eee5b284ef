//! The network between the endpoints: one or two paths of equal delay, each with a queue before a link, and rules for single packets.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::event::Reply;
use crate::time::Timestamp;
use crate::transmit::Transmit;

pub(super) const PORT: u16 = 5000;
const UDP_PORT: u16 = 9899;

/// The delay in one direction, without queues.
const DELAYS: [Duration; 4] = [
    Duration::from_micros(500),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(150),
];

/// The rate from A to Z in bytes per second; the first is unlimited.
const RATES: [u64; 4] = [u64::MAX, 1_000_000, 200_000, 50_000];

/// The largest IP packet in bytes, unless the input sets another size.
const LARGEST: usize = 1500;

/// The most packets in the queue of a link.
const QUEUE: u64 = 30;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    Lost,
    Late(Duration),
    Twice,
}

/// A datagram in transit: the receiving endpoint, its source, its destination address.
type Arrival = (usize, SocketAddr, IpAddr, Bytes);

pub(super) struct Network {
    pub(super) paths: u8,
    delay: Duration,
    rate: u64,
    /// Until when the links from A are busy.
    busy: [Timestamp; 2],
    in_transit: BinaryHeap<Reverse<(Timestamp, u64, Arrival)>>,
    count: u64,
    rules: [VecDeque<Fate>; 2],
    /// Additional delay of all packets.
    pub(super) extra: Duration,
    /// Larger packets that must not be fragmented are lost.
    pub(super) mtu: usize,
    /// Paths that lose all packets, one bit each.
    pub(super) cut: u8,
}

impl Network {
    pub(super) fn new(bits: u8) -> Self {
        Self {
            paths: 1,
            delay: DELAYS[usize::from(bits & 3)],
            rate: RATES[usize::from(bits >> 2 & 3)],
            busy: [Timestamp::ZERO; 2],
            in_transit: BinaryHeap::new(),
            count: 0,
            rules: [VecDeque::new(), VecDeque::new()],
            extra: Duration::ZERO,
            mtu: LARGEST,
            cut: 0,
        }
    }

    /// The minimum round-trip time.
    pub(super) fn round_trip(&self) -> Duration {
        2 * self.delay
    }

    pub(super) fn address(side: usize, path: usize) -> IpAddr {
        IpAddr::from([10, path as u8, 0, side as u8 + 1])
    }

    pub(super) fn remote(side: usize, path: usize) -> SocketAddr {
        SocketAddr::new(Self::address(side, path), UDP_PORT)
    }

    /// Sets the fate of the next eight packets from an endpoint, for each bit of the mask.
    pub(super) fn rule(&mut self, from: usize, mask: u8, fate: Fate) {
        let rules = &mut self.rules[from];
        rules.extend((0..8).map(|bit| if mask >> bit & 1 != 0 { fate } else { Fate::Arrives }));
    }

    pub(super) fn heal(&mut self) {
        self.rules.iter_mut().for_each(VecDeque::clear);
        self.extra = Duration::ZERO;
        (self.mtu, self.cut) = (LARGEST, 0);
    }

    /// An endpoint sends a packet. Returns whether it will arrive.
    pub(super) fn carry(
        &mut self,
        now: Timestamp,
        from: usize,
        transmit: &Transmit,
        datagram: Bytes,
    ) -> bool {
        let IpAddr::V4(destination) = transmit.destination.ip() else {
            unreachable!("only IPv4 is used")
        };
        let path = usize::from(destination.octets()[1]);
        let too_large = datagram.len() + 28 > self.mtu && !transmit.may_fragment;
        let fate = self.rules[from].pop_front().unwrap_or(Fate::Arrives);
        let mut at = now;
        if from == 0 && self.rate != u64::MAX {
            let service = Duration::from_nanos(datagram.len() as u64 * 1_000_000_000 / self.rate);
            let waits = self.busy[path].saturating_duration_since(now);
            if waits > service * QUEUE as u32 {
                return false;
            }
            self.busy[path] = self.busy[path].max(now) + service;
            at = self.busy[path];
        }
        if fate == Fate::Lost || too_large || self.cut >> path & 1 != 0 {
            return false;
        }
        at = at + self.delay + self.extra;
        if let Fate::Late(late) = fate {
            at += late;
        }
        let source = SocketAddr::new(transmit.source.unwrap_or(Self::address(from, path)), UDP_PORT);
        let arrival = (1 - from, source, transmit.destination.ip(), datagram);
        if fate == Fate::Twice {
            self.put(at + self.delay, arrival.clone());
        }
        self.put(at, arrival);
        true
    }

    /// An answer of the endpoint during set-up.
    pub(super) fn reply(&mut self, now: Timestamp, from: usize, reply: &Reply) {
        let source = SocketAddr::new(reply.source.unwrap_or(Self::address(from, 0)), UDP_PORT);
        let arrival = (1 - from, source, reply.destination.ip(), reply.packet.clone());
        self.put(now + self.delay, arrival);
    }

    fn put(&mut self, at: Timestamp, arrival: Arrival) {
        self.count += 1;
        self.in_transit.push(Reverse((at, self.count, arrival)));
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.in_transit.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes and returns the next datagram that arrives now.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Arrival> {
        self.next().filter(|at| *at <= now)?;
        self.in_transit.pop().map(|Reverse((.., arrival))| arrival)
    }
}
