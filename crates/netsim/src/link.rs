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
//! Everything is known when a packet comes, so the only thing a link waits for is the next arrival.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use anabranch_proto::Timestamp;
use bytes::Bytes;

use crate::link_config::LinkConfig;
use crate::loss::LossState;
use crate::queue::Queue;
use crate::random::Generator;
use crate::units::nanos;

/// What a link carries.
pub trait LinkPacket: Clone {
    /// Its length in bytes where the link is: what takes time and room.
    fn wire_len(&self) -> usize;

    /// Whether it passes a link with a smaller MTU, in pieces; they share its fate.
    fn may_fragment(&self) -> bool {
        true
    }

    /// Changes some of its bits, as a bad line would; must not change other copies of it.
    fn corrupt(&mut self, random: &mut Generator);
}

impl LinkPacket for Vec<u8> {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn corrupt(&mut self, random: &mut Generator) {
        flip_bits(self, random);
    }
}

impl LinkPacket for Bytes {
    fn wire_len(&self) -> usize {
        self.len()
    }

    fn corrupt(&mut self, random: &mut Generator) {
        let mut copy = self.to_vec();
        flip_bits(&mut copy, random);
        *self = copy.into();
    }
}

/// Flips one to three bits. A CRC-32C finds any three wrong bits in packets of these sizes, so that a damaged
/// packet is never taken for a good one and runs stay checkable.
fn flip_bits(bytes: &mut [u8], random: &mut Generator) {
    let flips = 1 + random.below(3);
    let mut flipped = [u64::MAX; 3];
    for i in 0..flips as usize {
        let bit = random.below(bytes.len() as u64 * 8);
        // The same bit twice would undo itself.
        if flipped.contains(&bit) || bytes.is_empty() {
            continue;
        }
        flipped[i] = bit;
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossCause {
    /// The queue refused it.
    Queue,
    /// The loss model took it.
    Model,
    /// The link was down.
    Down,
    /// It was larger than the link's MTU.
    TooLarge,
}

/// What became of a packet given to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fate {
    /// Set if it does not arrive.
    pub lost: Option<LossCause>,
    /// It arrives twice.
    pub duplicated: bool,
    /// It arrives damaged.
    pub corrupted: bool,
    /// It arrives late, out of order.
    pub late: bool,
}

/// What a link did since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkStats {
    /// Packets given to it.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that came out of it, copies included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets that the queue refused.
    pub lost_queue: u64,
    /// Packets that the loss model took.
    pub lost_model: u64,
    /// Packets lost because the link was down.
    pub lost_down: u64,
    /// Packets larger than the link's MTU.
    pub lost_too_large: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets made late.
    pub reordered: u64,
    /// The most bytes that were in the queue at a time, the packet in transmission included.
    pub queue_max_bytes: u64,
    /// The most packets likewise.
    pub queue_max_packets: u64,
    /// Bytes in the queue summed over time, in byte nanoseconds, the packet in transmission included. A packet counts
    /// when it is taken, for all the time until it will have left.
    pub queue_byte_nanos: u128,
}

impl LinkStats {
    /// Bytes in the queue, on average over `elapsed` since the link was made; 0 for no time.
    #[must_use]
    pub fn queue_mean_bytes(&self, elapsed: Duration) -> f64 {
        match elapsed.as_nanos() {
            0 => 0.0,
            nanos => self.queue_byte_nanos as f64 / nanos as f64,
        }
    }

    /// Packets lost, whatever the cause.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_queue + self.lost_model + self.lost_down + self.lost_too_large
    }
}

/// The generators of a link, one for each process.
#[derive(Clone, Debug)]
struct Processes {
    loss: Generator,
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
    stats: LinkStats,
}

impl<P: LinkPacket> Link<P> {
    /// A link whose luck is drawn from `seed` and `label`: each link of a run needs a label of its own.
    #[must_use]
    pub fn new(config: LinkConfig, seed: u64, label: &str) -> Self {
        let process = |name: &str| Generator::of_process(seed, &format!("{label}/{name}"));
        Self {
            config,
            random: Processes {
                loss: process("loss"),
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
            stats: LinkStats::default(),
        }
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes its settings for the packets to come; those already taken arrive when they would have.
    pub fn set_config(&mut self, config: LinkConfig) {
        if config.loss != self.config.loss {
            self.loss = LossState::default();
        }
        if config.rate != self.config.rate {
            self.idle_remainder = 0;
        }
        self.config = config;
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
        self.queue.settle(now);
        self.queue.bytes()
    }

    /// Packets taken that have not arrived yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// Takes a packet at `now`, and tells what will become of it.
    pub fn enqueue(&mut self, now: Timestamp, mut packet: P) -> Fate {
        let len = packet.wire_len() as u64;
        let index = self.stats.offered;
        self.stats.offered += 1;
        self.stats.offered_bytes += len;

        let mut fate = self.draw_fate(now, index);
        let jitter = self.draw_jitter();
        self.queue.settle(now);
        if self.down {
            fate = Fate {
                lost: Some(LossCause::Down),
                ..Fate::default()
            };
        } else if len > self.config.mtu.into() && !packet.may_fragment() {
            fate = Fate {
                lost: Some(LossCause::TooLarge),
                ..Fate::default()
            };
        } else if !self.queue.admits(self.config.queue, len) {
            fate = Fate {
                lost: Some(LossCause::Queue),
                ..Fate::default()
            };
        }
        if matches!(
            fate.lost,
            Some(LossCause::Down | LossCause::Queue | LossCause::TooLarge)
        ) {
            self.count(fate);
            return fate;
        }
        let departure = self.transmit(now, len);
        self.count(fate);
        if fate.lost.is_some() {
            return fate;
        }
        if fate.corrupted {
            packet.corrupt(&mut self.random.corrupt);
        }
        let arrival = departure + jitter;
        if fate.duplicated {
            self.carry(arrival, fate.late, packet.clone());
        }
        self.carry(arrival, fate.late, packet);
        fate
    }

    /// The next packet that has arrived by `now`, in order of arrival.
    pub fn poll(&mut self, now: Timestamp) -> Option<P> {
        let arrival = self.next_event().filter(|&arrival| arrival <= now)?;
        let packet = match self.in_order.front() {
            // At equal times the packet in order comes first.
            Some((time, _)) if *time == arrival => self.in_order.pop_front()?.1,
            _ => self.late.pop_first()?.1,
        };
        self.stats.delivered += 1;
        self.stats.delivered_bytes += packet.wire_len() as u64;
        Some(packet)
    }

    /// When the next packet arrives, if one is under way.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
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
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.queue.bytes());
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(self.queue.packets());
        self.idle_at
    }

    /// Puts a packet on its way.
    fn carry(&mut self, arrival: Timestamp, late: bool, packet: P) {
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
    }
}

const _: fn() = || {
    // A link crosses threads: the real-time program hands it to a task.
    fn sendable<T: Send>() {}
    sendable::<Link<Bytes>>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::LossModel;
    use crate::queue::QueueLimit;

    const MS: Duration = Duration::from_millis(1);

    fn packet(number: u32, len: usize) -> Bytes {
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes.into()
    }

    /// All arrivals with their times.
    fn drain(link: &mut Link<Bytes>) -> Vec<(Timestamp, u32)> {
        let mut arrivals = Vec::new();
        while let Some(at) = link.next_event() {
            while let Some(packet) = link.poll(at) {
                arrivals.push((at, u32::from_be_bytes(packet[..4].try_into().unwrap())));
            }
        }
        arrivals
    }

    #[test]
    fn rate_and_delay_are_kept_to_the_nanosecond() {
        let config = LinkConfig::default().with_rate(10_000_000).with_delay(40 * MS);
        let mut link = Link::new(config, 1, "x");
        for number in 0..3 {
            link.enqueue(Timestamp::from_millis(1), packet(number, 1250));
        }
        // 1,250 bytes at 10 Mbit/s take 1 ms each.
        let expected: Vec<_> = (0..3)
            .map(|i| (Timestamp::from_millis(42 + u64::from(i)), i))
            .collect();
        assert_eq!(link.next_event(), Some(Timestamp::from_millis(42)));
        assert_eq!(link.poll(Timestamp(41_999_999)), None);
        assert_eq!(drain(&mut link), expected);
    }

    #[test]
    fn a_rate_that_divides_nothing_is_still_exact_in_the_long_run() {
        let mut link = Link::new(LinkConfig::default().with_rate(7_000_000_000), 1, "x");
        for number in 0..100_000 {
            link.enqueue(Timestamp::ZERO, packet(number, 1500));
        }
        let (last, _) = *drain(&mut link).last().unwrap();
        assert_eq!(last.0, 100_000 * 1500 * 8 / 7);
    }

    #[test]
    fn the_queue_drops_its_tail_and_empties_with_time() {
        let config = LinkConfig::default()
            .with_rate(8_000_000)
            .with_queue(QueueLimit::Bytes(3000));
        let mut link = Link::new(config, 1, "x");
        let fates: Vec<_> = (0..5)
            .map(|n| link.enqueue(Timestamp::ZERO, packet(n, 1000)).lost)
            .collect();
        assert_eq!(
            fates,
            [None, None, None, Some(LossCause::Queue), Some(LossCause::Queue)]
        );
        assert_eq!(link.queued_bytes(Timestamp::ZERO), 3000);
        // One packet has left after 1 ms.
        assert_eq!(
            link.enqueue(Timestamp::from_millis(1), packet(5, 1000)).lost,
            None
        );
        let numbers: Vec<_> = drain(&mut link).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [0, 1, 2, 5]);
        let stats = *link.stats();
        assert_eq!((stats.offered, stats.delivered, stats.lost_queue), (6, 4, 2));
        assert_eq!((stats.queue_max_bytes, stats.queue_max_packets), (3000, 3));
        // Stays of 1, 2, 3 and 3 ms.
        assert_eq!(stats.queue_mean_bytes(4 * MS), 2250.0);
    }

    #[test]
    fn jitter_spreads_the_delay_and_keeps_the_order() {
        let config = LinkConfig::default().with_delay(10 * MS).with_jitter(4 * MS);
        let mut link = Link::new(config, 5, "x");
        let mut delays = Vec::new();
        for number in 0..5_000 {
            // Far enough apart that the order never holds a packet back.
            let sent = Timestamp::from_millis(u64::from(number) * 20);
            link.enqueue(sent, packet(number, 100));
            delays.push(
                drain(&mut link)[0]
                    .0
                    .saturating_duration_since(sent)
                    .as_secs_f64()
                    * 1e3,
            );
        }
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let (least, most) = delays
            .iter()
            .fold((f64::MAX, 0.0_f64), |(a, b), &d| (a.min(d), b.max(d)));
        assert!((mean - 10.0).abs() < 0.1 && (6.0..6.1).contains(&least) && (13.9..=14.0).contains(&most));

        for number in 0..1000 {
            link.enqueue(
                Timestamp::from_millis(1_000_000) + MS / 10 * number,
                packet(number, 100),
            );
        }
        let arrivals = drain(&mut link);
        assert!(arrivals.is_sorted(), "jitter must not reorder");
        assert!(arrivals.iter().map(|&(_, number)| number).eq(0..1000));
    }

    #[test]
    fn late_packets_are_overtaken_by_their_extra_delay() {
        let config = LinkConfig::default().with_delay(MS).with_reorder(0.1, 5 * MS);
        let mut link = Link::new(config, 5, "x");
        let late: Vec<_> = (0..10_000_u32)
            .filter(|&n| {
                link.enqueue(Timestamp::from_millis(u64::from(n)), packet(n, 100))
                    .late
            })
            .collect();
        assert!((900..1100).contains(&late.len()), "{}", late.len());
        for (at, number) in drain(&mut link) {
            let extra = if late.contains(&number) { 6 } else { 1 };
            assert_eq!(at, Timestamp::from_millis(u64::from(number) + extra));
        }
        assert_eq!(link.stats().reordered, late.len() as u64);
    }

    #[test]
    fn duplicates_and_damage_come_as_often_as_said() {
        let config = LinkConfig::default().with_duplicate(0.02).with_corrupt(0.03);
        let mut link = Link::new(config, 5, "x");
        let original = Bytes::from(vec![0xa5; 64]);
        let (mut damaged, mut arrived) = (0, 0);
        for _ in 0..20_000 {
            let fate = link.enqueue(Timestamp::ZERO, original.clone());
            let copies: Vec<_> = core::iter::from_fn(|| link.poll(Timestamp::ZERO)).collect();
            assert_eq!(copies.len(), 1 + usize::from(fate.duplicated));
            arrived += copies.len();
            for copy in &copies {
                let wrong: u32 = copy
                    .iter()
                    .zip(&original)
                    .map(|(a, b)| (a ^ b).count_ones())
                    .sum();
                assert_eq!(fate.corrupted, (1..=3).contains(&wrong));
            }
            damaged += usize::from(fate.corrupted);
        }
        assert!(
            original.iter().all(|&byte| byte == 0xa5),
            "the sender's copy is untouched"
        );
        assert!((20_340..20_460).contains(&arrived), "{arrived}");
        assert!((540..660).contains(&damaged), "{damaged}");
    }

    #[test]
    fn a_link_that_is_down_loses_what_it_is_given_and_delivers_what_it_had() {
        let mut link = Link::new(LinkConfig::default().with_delay(MS), 1, "x");
        link.enqueue(Timestamp::ZERO, packet(1, 100));
        link.set_down(true);
        assert_eq!(
            link.enqueue(Timestamp::ZERO, packet(2, 100)).lost,
            Some(LossCause::Down)
        );
        link.set_down(false);
        link.enqueue(Timestamp::ZERO, packet(3, 100));
        assert!(drain(&mut link).into_iter().map(|(_, number)| number).eq([1, 3]));
        assert_eq!(link.stats().lost(), 1);
    }

    #[test]
    fn one_process_does_not_disturb_another() {
        let lossy = LinkConfig::default().with_loss(LossModel::bernoulli(0.1));
        let run = |config: LinkConfig| -> Vec<bool> {
            let mut link = Link::new(config, 9, "x");
            (0..2000)
                .map(|n| link.enqueue(Timestamp::ZERO, packet(n, 100)).lost.is_some())
                .collect()
        };
        let with_everything = lossy
            .clone()
            .with_jitter(MS)
            .with_duplicate(0.3)
            .with_reorder(0.3, MS)
            .with_corrupt(0.3);
        assert_eq!(run(lossy), run(with_everything));
    }

    #[test]
    fn lost_packets_take_their_time_on_the_link() {
        let config = LinkConfig::default()
            .with_rate(8_000_000)
            .with_loss(LossModel::Script(vec![0]));
        let mut link = Link::new(config, 1, "x");
        assert_eq!(
            link.enqueue(Timestamp::ZERO, packet(0, 1000)).lost,
            Some(LossCause::Model)
        );
        link.enqueue(Timestamp::ZERO, packet(1, 1000));
        assert_eq!(drain(&mut link), [(Timestamp::from_millis(2), 1)]);
    }
}
