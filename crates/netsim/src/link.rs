//! One direction of a link: a queue, a rate, a delay, and what goes wrong on the way.
//!
//! A `Link` is told the time and asked for packets; it has no clock. The simulator drives it in virtual time and a
//! program in front of a socket drives it in real time: it is the same object.
//!
//! A packet's way, in this order:
//! 1. Its fate is drawn when it comes: every process that is configured draws once for every packet, from its own
//!    generator, so that the same packet meets the same luck whatever the other processes do.
//! 2. A link that is down, or whose queue refuses it, loses it at once.
//! 3. It leaves when those before it have left and its own bits are sent at the link's rate. What is lost on the
//!    way, or damaged, or doubled has taken its place in the queue and its time on the link.
//! 4. It arrives a delay later, with jitter but in order; a late packet (reordering) leaves the order.
//!
//! Everything is known when a packet comes, so the only thing a link waits for is the next arrival. If its queue is managed
//! ([`Aqm`](crate::Aqm)), which packet leaves next is decided when the link is free: then a link waits for that, too.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use anabranch_proto::Timestamp;

use crate::aqm::{Aqm, Discipline, Service, Waiting};
use crate::link_config::LinkConfig;
use crate::loss::LossState;
use crate::queue::Queue;
use crate::random::Generator;
use crate::units::nanos;

mod packet;
mod report;

pub use packet::LinkPacket;
pub(crate) use packet::mark_ce;
pub use report::{Fate, LinkStats, LossCause};

/// The generators of a link, one for each process.
#[derive(Clone, Debug)]
struct Processes {
    loss: Generator,
    ect_loss: Generator,
    jitter: Generator,
    reorder: Generator,
    duplicate: Generator,
    corrupt: Generator,
}

/// One direction of a link. See the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct Link<P> {
    config: LinkConfig,
    random: Processes,
    loss: LossState,
    queue: Queue,
    /// The packets that wait in a managed queue.
    waiting: Discipline<P>,
    /// Of the hash by which a managed queue tells flows apart.
    perturbation: u64,
    down: bool,
    /// When the last packet taken has been sent.
    idle_at: Timestamp,
    /// The part of a nanosecond, in units of 1 / rate, by which `idle_at` is rounded down: without it a fast link
    /// would be a little too fast.
    idle_remainder: u64,
    /// The latest arrival among those in order.
    last_arrival: Timestamp,
    in_order: VecDeque<(Timestamp, P)>,
    /// Late packets by arrival and turn.
    late: BTreeMap<(Timestamp, u64), P>,
    late_turn: u64,
    /// Bytes of `in_order` and `late`.
    sent_bytes: u64,
    stats: LinkStats,
}

impl<P: LinkPacket> Link<P> {
    /// A link whose luck is drawn from `seed` and `label`: each link of a run needs a label of its own.
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
            last_arrival: Timestamp::ZERO,
            in_order: VecDeque::new(),
            late: BTreeMap::new(),
            late_turn: 0,
            sent_bytes: 0,
            stats: LinkStats::default(),
        }
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes its settings for the packets to come; those already taken arrive when they would have. Packets that wait in a managed
    /// queue are managed by the new settings; if these have no management, or no rate, they leave in the order in which they came.
    pub fn set_config(&mut self, config: LinkConfig) {
        let aqm = config.aqm;
        let waiting = if aqm != self.config.aqm || config.rate.is_none() {
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

    /// Whether packets wait until the link is free, and are judged then. A link without a rate is always free.
    fn is_managed(&self) -> bool {
        self.config.aqm != Aqm::None && self.config.rate.is_some()
    }

    /// Whether it is down.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// Takes it down, so that it loses every packet it is given, or up again. What it had taken still arrives.
    pub fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Bytes in the queue at `now`, the packet in transmission included.
    #[must_use]
    pub fn queued_bytes(&mut self, now: Timestamp) -> u64 {
        self.serve(now);
        self.queue.settle(now);
        self.held_bytes()
    }

    /// Packets taken that have not arrived yet, copies included.
    #[must_use]
    pub fn in_transit(&self) -> usize {
        self.in_order.len() + self.late.len() + self.waiting.packets() as usize
    }

    /// Their bytes.
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

    /// Takes a packet at `now`, and tells what will become of it.
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

    /// Puts a packet into a managed queue; false if it was dropped at once.
    fn wait(&mut self, now: Timestamp, waiting: Waiting<P>) -> bool {
        let (index, len) = (waiting.index, waiting.len);
        self.waiting.enqueue(waiting);
        let mut is_there = true;
        // Only a queue that makes room has taken more than fits.
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

    /// Sends the packets of a managed queue that have begun to leave by `now`.
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

    /// The next packet that has arrived by `now`, in order of arrival, and when it did.
    pub fn poll_arrival(&mut self, now: Timestamp) -> Option<(Timestamp, P)> {
        self.serve(now);
        let arrival = self.next_arrival()?;
        self.poll(now).map(|packet| (arrival, packet))
    }

    /// When to poll next, if a packet is under way: the next packet arrives, or a managed queue sends its next packet, and then
    /// there may be none to poll yet.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        let departure = (self.waiting.packets() > 0).then_some(self.idle_at);
        match (departure, self.next_arrival()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// When the next of the packets sent arrives.
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
        // How a packet is damaged draws more numbers, from the same generator: no other process has them.
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

    /// Sends a packet that begins to leave at `now`, or as soon as those before it have left; with its fate and its delay.
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

    /// Puts a packet in the queue; when its last bit will have left.
    fn transmit(&mut self, now: Timestamp, len: u64) -> Timestamp {
        let Some(rate) = self.config.rate else { return now };
        if self.idle_at < now {
            self.idle_at = now;
            self.idle_remainder = 0;
        }
        let work = len * 8 * 1_000_000_000 + self.idle_remainder;
        self.idle_remainder = work % rate;
        self.idle_at.0 = self.idle_at.0.saturating_add(work / rate);
        self.queue.push(self.idle_at, len);
        let stay = self.idle_at.0 - now.0;
        self.stats.queue_byte_nanos += u128::from(len) * u128::from(stay);
        self.note_queue();
        self.idle_at
    }

    /// Notes how much the queue holds, if that is more than ever.
    fn note_queue(&mut self) {
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.held_bytes());
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(self.held_packets());
    }

    /// Puts a packet on its way.
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

/// What a managed queue has to know when a packet is taken from it.
fn service<'a>(config: &LinkConfig, stats: &'a mut LinkStats, now: Timestamp) -> Service<'a> {
    Service {
        now,
        mtu: config.mtu.into(),
        stats,
    }
}

const _: fn() = || {
    // A link crosses threads: the real-time program hands it to a task.
    fn sendable<T: Send>() {}
    sendable::<Link<Vec<u8>>>();
};

#[cfg(test)]
mod tests;
