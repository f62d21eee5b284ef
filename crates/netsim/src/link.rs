//! [`Link`]: one direction of a link.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use anabranch_proto::Timestamp;

use crate::aqm::{Aqm, Discipline, Service, Waiting};
use crate::link_config::LinkConfig;
use crate::loss::LossState;
use crate::queue::Queue;
use crate::random::Generator;
use crate::rate_trace::Opportunity;
use crate::units::nanos;

mod packet;
mod report;

pub use packet::LinkPacket;
pub(crate) use packet::mark_ce;
pub use report::{Fate, LinkStats, LossCause};

/// The link's random generators, one for each process.
#[derive(Clone, Debug)]
struct Processes {
    loss: Generator,
    ect_loss: Generator,
    jitter: Generator,
    reorder: Generator,
    duplicate: Generator,
    corrupt: Generator,
}

/// One direction of a link: a queue, a rate, a delay, and impairments.
///
/// A `Link` has no clock: the caller passes the time and polls for packets. The simulator drives it in virtual time; a program in front of
/// a real socket drives the same type in real time.
///
/// A packet passes these steps in this order:
/// 1. Its fate is drawn when it comes. Every configured random process draws once for every packet, from its own generator. The draws of
///    one process therefore do not depend on the other processes.
/// 2. A link that is down, or a queue that refuses the packet, loses it at once.
/// 3. It leaves after the packets before it, once its own bits have been sent at the link's rate. A packet that the link loses,
///    damages or duplicates has taken its place in the queue and its time on the link.
/// 4. It arrives after the delay, with jitter but in order. A late packet (reordering) leaves the order.
///
/// Without queue management, everything is known when a packet comes, so the link waits only for the next arrival. A managed queue
/// ([`Aqm`]) decides which packet leaves next when the link is free, so the link waits for this moment, too.
#[derive(Clone, Debug)]
pub struct Link<P> {
    config: LinkConfig,
    random: Processes,
    loss: LossState,
    queue: Queue,
    /// The packets that wait in a managed queue.
    waiting: Discipline<P>,
    /// Perturbation of the hash by which a managed queue tells flows apart.
    perturbation: u64,
    down: bool,
    /// When the last bit of the last accepted packet will have been sent.
    idle_at: Timestamp,
    /// The fraction of a nanosecond, in units of 1 / rate, by which `idle_at` is rounded down. Without it a fast link would be slightly too
    /// fast.
    idle_remainder: u64,
    /// With a variable rate: the next opportunity to carry data.
    opportunity: Opportunity,
    /// The latest arrival time of the packets in order.
    last_arrival: Timestamp,
    in_order: VecDeque<(Timestamp, P)>,
    /// Late packets by arrival time and sequence number.
    late: BTreeMap<(Timestamp, u64), P>,
    late_turn: u64,
    /// Bytes of `in_order` and `late`.
    sent_bytes: u64,
    stats: LinkStats,
}

impl<P: LinkPacket> Link<P> {
    /// A link whose random numbers depend on `seed` and `label`. Each link of a run needs its own label.
    #[must_use]
    pub fn new(config: LinkConfig, seed: u64, label: &str) -> Self {
        let process = |name: &str| Generator::of_process(seed, &format!("{label}/{name}"));
        let perturbation = process("flows").next_u64();
        Self {
            waiting: Discipline::new(config.aqm, perturbation),
            perturbation,
            config,
            random: Processes {
                loss: process("loss"),
                ect_loss: process("ect-loss"),
                jitter: process("jitter"),
                reorder: process("reorder"),
                duplicate: process("duplicate"),
                corrupt: process("corrupt"),
            },
            loss: LossState::default(),
            queue: Queue::default(),
            down: false,
            idle_at: Timestamp::ZERO,
            idle_remainder: 0,
            opportunity: Opportunity::default(),
            last_arrival: Timestamp::ZERO,
            in_order: VecDeque::new(),
            late: BTreeMap::new(),
            late_turn: 0,
            sent_bytes: 0,
            stats: LinkStats::default(),
        }
    }

    /// The link's settings.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes the settings for later packets. Packets already accepted arrive as they would have, except those that wait in a managed
    /// queue: the new settings manage them. If the new settings have no queue management or no rate, these packets leave in the order in
    /// which they came.
    pub fn set_config(&mut self, config: LinkConfig) {
        let aqm = config.aqm;
        let waiting = if aqm != self.config.aqm || !config.has_rate() {
            self.waiting.take_all()
        } else {
            Vec::new()
        };
        if config.loss != self.config.loss {
            self.loss = LossState::default();
        }
        if config.rate != self.config.rate {
            self.idle_remainder = 0;
        }
        if config.trace != self.config.trace {
            self.opportunity = Opportunity::default();
        }
        if aqm != self.config.aqm {
            self.waiting = Discipline::new(aqm, self.perturbation);
        }
        self.config = config;
        for waiting in waiting {
            if self.is_managed() {
                self.waiting.enqueue(waiting);
            } else {
                self.stats.queue_byte_nanos += u128::from(waiting.len)
                    * self.idle_at.saturating_duration_since(waiting.since).as_nanos();
                self.send(self.idle_at, waiting.packet, (waiting.fate, waiting.delay));
            }
        }
    }

    /// Whether packets wait until the link is free, so that the queue decides then. A link without a rate is always free.
    fn is_managed(&self) -> bool {
        self.config.aqm != Aqm::None && self.config.has_rate()
    }

    /// Whether the link is down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// Takes the link down, so that it loses every packet it is given, or up again. Packets already accepted still arrive.
    pub fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    /// The link's counters so far.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Bytes in the queue at `now`, including the packet in transmission.
    #[must_use]
    pub fn queued_bytes(&mut self, now: Timestamp) -> u64 {
        self.serve(now);
        self.queue.settle(now);
        self.held_bytes()
    }

    /// Accepted packets, including copies, that have not arrived yet.
    #[must_use]
    pub fn in_transit(&self) -> usize {
        self.in_order.len() + self.late.len() + self.waiting.packets() as usize
    }

    /// Bytes of the packets in transit.
    #[must_use]
    pub fn bytes_in_transit(&self) -> u64 {
        self.sent_bytes + self.waiting.bytes()
    }

    fn held_bytes(&self) -> u64 {
        self.queue.bytes() + self.waiting.bytes()
    }

    fn held_packets(&self) -> u64 {
        self.queue.packets() + self.waiting.packets()
    }

    /// Accepts or loses a packet at `now`; returns its fate.
    pub fn enqueue(&mut self, now: Timestamp, mut packet: P) -> Fate {
        let len = packet.wire_len() as u64;
        let index = self.stats.offered;
        self.stats.offered += 1;
        self.stats.offered_bytes += len;

        let mut fate = self.draw_fate(now, index);
        if packet.ecn().is_capable() && self.random.ect_loss.chance(self.config.ect_loss) {
            fate = Fate {
                lost: Some(LossCause::Model),
                ..Fate::default()
            };
        }
        let delay = self.draw_jitter();
        self.serve(now);
        self.queue.settle(now);
        let (bytes, packets) = (self.held_bytes(), self.held_packets());
        let fits = self.waiting.makes_room() || self.config.queue.admits(bytes, packets, len);
        let refused = if self.down {
            Some(LossCause::Down)
        } else if len > self.config.mtu.into() && !packet.may_fragment() {
            Some(LossCause::TooLarge)
        } else if fits {
            None
        } else {
            Some(LossCause::Queue)
        };
        if refused.is_some() {
            fate = Fate {
                lost: refused,
                ..Fate::default()
            };
            self.count(fate);
            return fate;
        }
        let threshold = self.config.ecn_mark;
        fate.marked =
            threshold.is_some_and(|threshold| threshold.is_exceeded(bytes, packets)) && mark_ce(&mut packet);
        if !self.is_managed() {
            self.send(now, packet, (fate, delay));
            return fate;
        }
        let waiting = Waiting {
            packet,
            len,
            since: now,
            index,
            fate,
            delay,
        };
        if !self.wait(now, waiting) {
            fate = Fate {
                lost: Some(LossCause::Queue),
                ..Fate::default()
            };
        }
        fate
    }

    /// Puts a packet into a managed queue; returns false if the queue drops it at once.
    fn wait(&mut self, now: Timestamp, waiting: Waiting<P>) -> bool {
        let (index, len) = (waiting.index, waiting.len);
        self.waiting.enqueue(waiting);
        let mut is_there = true;
        // Only a queue that drops packets it holds has accepted more than its limit.
        while is_there
            && !self
                .config
                .queue
                .admits(self.held_bytes() - len, self.held_packets() - 1, len)
        {
            let mut service = service(&self.config, &mut self.stats, now);
            is_there = !self.waiting.drop_from_longest(index, &mut service);
        }
        self.note_queue();
        if self.idle_at < now {
            self.idle_at = now;
            self.idle_remainder = 0;
        }
        self.serve(now);
        is_there
    }

    /// Starts the transmission of every packet in the managed queue whose time has come by `now`.
    #[inline]
    fn serve(&mut self, now: Timestamp) {
        if matches!(self.waiting, Discipline::None) {
            return;
        }
        while self.idle_at <= now {
            let at = self.idle_at;
            let mut service = service(&self.config, &mut self.stats, at);
            let Some(waiting) = self.waiting.dequeue(&mut service) else {
                return;
            };
            self.queue.settle(at);
            self.send(at, waiting.packet, (waiting.fate, waiting.delay));
        }
    }

    /// The next packet that has arrived by `now`, in order of arrival.
    pub fn poll(&mut self, now: Timestamp) -> Option<P> {
        self.serve(now);
        let arrival = self.next_arrival().filter(|&arrival| arrival <= now)?;
        let packet = match self.in_order.front() {
            // At equal times the packet in order comes first.
            Some((time, _)) if *time == arrival => self.in_order.pop_front()?.1,
            _ => self.late.pop_first()?.1,
        };
        let len = packet.wire_len() as u64;
        self.stats.delivered += 1;
        self.stats.delivered_bytes += len;
        self.sent_bytes -= len;
        Some(packet)
    }

    /// Like [`Self::poll`], with the packet's arrival time.
    pub fn poll_arrival(&mut self, now: Timestamp) -> Option<(Timestamp, P)> {
        self.serve(now);
        let arrival = self.next_arrival()?;
        self.poll(now).map(|packet| (arrival, packet))
    }

    /// When to poll next; `None` if no packet is in transit. At that time the next packet arrives, or a managed queue starts its next
    /// transmission. In the second case there may be no packet to poll yet.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        let departure = (self.waiting.packets() > 0).then_some(self.idle_at);
        match (departure, self.next_arrival()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next arrival time of the packets already sent.
    fn next_arrival(&self) -> Option<Timestamp> {
        let in_order = self.in_order.front().map(|(arrival, _)| *arrival);
        let late = self.late.first_key_value().map(|((arrival, _), _)| *arrival);
        match (in_order, late) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn draw_fate(&mut self, now: Timestamp, index: u64) -> Fate {
        let lost = self
            .loss
            .loses(&self.config.loss, now, index, &mut self.random.loss);
        let late = self.random.reorder.chance(self.config.reorder.probability);
        let duplicated = self.random.duplicate.chance(self.config.duplicate);
        // The corruption of a packet draws further numbers from the same generator, which no other process uses.
        let corrupted = self.random.corrupt.chance(self.config.corrupt);
        if lost {
            Fate {
                lost: Some(LossCause::Model),
                ..Fate::default()
            }
        } else {
            Fate {
                lost: None,
                duplicated,
                corrupted,
                late,
                marked: false,
            }
        }
    }

    /// The delay of the next packet.
    fn draw_jitter(&mut self) -> Duration {
        let (delay, jitter) = (nanos(self.config.delay), nanos(self.config.jitter));
        if jitter == 0 {
            return self.config.delay;
        }
        let offset = self
            .random
            .jitter
            .below(jitter.saturating_mul(2).saturating_add(1));
        Duration::from_nanos(delay.saturating_add(offset).saturating_sub(jitter))
    }

    /// Sends a packet with this fate and delay. Its transmission begins at `now`, or when the packets before it have left.
    #[inline]
    fn send(&mut self, now: Timestamp, mut packet: P, (fate, delay): (Fate, Duration)) {
        let departure = self.transmit(now, packet.wire_len() as u64);
        self.count(fate);
        if fate.lost.is_some() {
            return;
        }
        if fate.corrupted {
            packet.corrupt(&mut self.random.corrupt);
        }
        let arrival = departure + delay;
        if fate.duplicated {
            self.carry(arrival, fate.late, packet.clone());
        }
        self.carry(arrival, fate.late, packet);
    }

    /// Puts a packet in the queue; returns when its last bit will have left.
    fn transmit(&mut self, now: Timestamp, len: u64) -> Timestamp {
        if !self.config.has_rate() {
            return now;
        }
        if self.idle_at < now {
            self.idle_at = now;
            self.idle_remainder = 0;
        }
        match (&self.config.trace, self.config.rate) {
            (Some(trace), _) => self.idle_at = self.opportunity.carry(trace, self.idle_at, len),
            (None, Some(rate)) => {
                let work = len * 8 * 1_000_000_000 + self.idle_remainder;
                self.idle_remainder = work % rate;
                self.idle_at.0 = self.idle_at.0.saturating_add(work / rate);
            }
            (None, None) => {}
        }
        self.queue.push(self.idle_at, len);
        let stay = self.idle_at.0 - now.0;
        self.stats.queue_byte_nanos += u128::from(len) * u128::from(stay);
        self.note_queue();
        self.idle_at
    }

    /// Updates the queue's maximum.
    fn note_queue(&mut self) {
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.held_bytes());
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(self.held_packets());
    }

    /// Puts a sent packet in transit, to arrive at this time.
    fn carry(&mut self, arrival: Timestamp, late: bool, packet: P) {
        self.sent_bytes += packet.wire_len() as u64;
        if late {
            self.late_turn += 1;
            self.late.insert(
                (arrival + self.config.reorder.extra_delay, self.late_turn),
                packet,
            );
        } else {
            self.last_arrival = self.last_arrival.max(arrival);
            self.in_order.push_back((self.last_arrival, packet));
        }
    }

    fn count(&mut self, fate: Fate) {
        match fate.lost {
            Some(LossCause::Queue) => self.stats.lost_queue += 1,
            Some(LossCause::Model) => self.stats.lost_model += 1,
            Some(LossCause::Down) => self.stats.lost_down += 1,
            Some(LossCause::TooLarge) => self.stats.lost_too_large += 1,
            None => {}
        }
        self.stats.duplicated += u64::from(fate.duplicated);
        self.stats.corrupted += u64::from(fate.corrupted);
        self.stats.reordered += u64::from(fate.late);
        self.stats.marked += u64::from(fate.marked);
    }
}

/// The data that a managed queue needs when a packet leaves it.
fn service<'a>(config: &LinkConfig, stats: &'a mut LinkStats, now: Timestamp) -> Service<'a> {
    Service {
        now,
        mtu: config.mtu.into(),
        stats,
    }
}

const _: fn() = || {
    // A link must be `Send`: the real-time program passes it to a task.
    fn sendable<T: Send>() {}
    sendable::<Link<Vec<u8>>>();
};

#[cfg(test)]
mod tests;
