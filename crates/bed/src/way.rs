//! One direction of a path: a link, a limit on the bytes that it holds, and its counters.

use std::time::Duration;

use anabranch_netsim::{Link, LinkConfig, LinkStats};
use anabranch_proto::Timestamp;

use crate::ip_packet::IpPacket;
use crate::lateness::Lateness;

/// The limit on bytes in flight in one direction. Without it, a link without a rate or a queue limit would hold any amount. The limit is
/// one second at 1 Gbit/s.
const MOST_IN_TRANSIT: usize = 128 << 20;

/// The approximate memory of a packet besides its bytes.
const KEEPING: usize = 100;

/// The counters of one direction of a path since the bed was made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WayCounters {
    /// The link's counters: packets and bytes offered and delivered, losses by cause, the largest queue.
    pub link: LinkStats,
    /// Bytes in the link's queue now, with the packet in transmission.
    pub queue_bytes: u64,
    /// Packets dropped before the link because the bed would have held more than 128 MiB.
    pub lost_full: u64,
    /// Packets that the link delivered but the kernel refused.
    pub lost_refused: u64,
    /// Packets that the kernel dropped before the bed could read them.
    pub lost_before: u64,
    /// The delay between the time that the link decided and the delivery of each packet.
    pub lateness: Lateness,
    /// The times of the first and the last delivery, since the bed was made.
    pub handed_over: Option<(Duration, Duration)>,
}

impl WayCounters {
    /// Packets lost for any cause.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.link.lost() + self.lost_full + self.lost_refused + self.lost_before
    }
}

/// See the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct Way {
    link: Link<IpPacket>,
    lost_full: u64,
    lost_refused: u64,
    lateness: Lateness,
    handed_over: Option<(Timestamp, Timestamp)>,
}

impl Way {
    pub(crate) fn new(config: LinkConfig, seed: u64, label: &str) -> Self {
        Self {
            link: Link::new(config, seed, label),
            lost_full: 0,
            lost_refused: 0,
            lateness: Lateness::default(),
            handed_over: None,
        }
    }

    /// Packets in flight, with the memory that each needs besides its bytes.
    fn held(&self) -> usize {
        let bytes = usize::try_from(self.link.bytes_in_transit()).unwrap_or(usize::MAX);
        bytes.saturating_add(self.link.in_transit() * KEEPING)
    }

    /// Accepts a packet from the sending device.
    pub(crate) fn enqueue(&mut self, now: Timestamp, packet: &[u8]) {
        // The link keeps a packet that it will lose in its queue until the packet would have left.
        let queued = usize::try_from(self.link.queued_bytes(now)).unwrap_or(usize::MAX);
        if self.held().max(queued) + packet.len() > MOST_IN_TRANSIT {
            self.lost_full += 1;
            return;
        }
        self.link.enqueue(now, IpPacket(packet.to_vec()));
    }

    /// Passes a due packet to `taker`, which returns whether it could take the packet. Returns false if no packet is due.
    pub(crate) fn hand_over(&mut self, now: Timestamp, taker: impl FnOnce(&[u8]) -> bool) -> bool {
        let Some((due, packet)) = self.link.poll_arrival(now) else {
            return false;
        };
        self.lateness.record(now.saturating_duration_since(due));
        self.handed_over = Some((self.handed_over.map_or(now, |(first, _)| first), now));
        self.lost_refused += u64::from(!taker(&packet.0));
        true
    }

    /// The time when the next packet is due, or when the link's queue sends its next packet.
    pub(crate) fn next_event(&self) -> Option<Timestamp> {
        self.link.next_event()
    }

    /// The counters so far, without the packets that the kernel dropped before the bed.
    pub(crate) fn counters(&mut self, now: Timestamp) -> WayCounters {
        let since_start = |time: Timestamp| time.saturating_duration_since(Timestamp::ZERO);
        WayCounters {
            link: *self.link.stats(),
            queue_bytes: self.link.queued_bytes(now),
            lost_full: self.lost_full,
            lost_refused: self.lost_refused,
            lost_before: 0,
            lateness: self.lateness.clone(),
            handed_over: self
                .handed_over
                .map(|(first, last)| (since_start(first), since_start(last))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_handed_over_when_they_are_due_and_lateness_is_counted() {
        let mut way = Way::new("rate=10mbit,delay=40ms".parse().unwrap(), 1, "test");
        way.enqueue(Timestamp::ZERO, &[0x45; 1250]);
        way.enqueue(Timestamp::ZERO, &[0x45; 1250]);
        assert_eq!(way.next_event(), Some(Timestamp::from_millis(41)));
        assert!(!way.hand_over(Timestamp::from_millis(40), |_| panic!("the packet is not due")));
        assert!(way.hand_over(Timestamp::from_millis(41), |packet| packet.len() == 1250));
        assert!(way.hand_over(Timestamp::from_millis(45), |_| false));
        assert!(!way.hand_over(Timestamp::from_millis(99), |_| panic!("there is no packet")));
        let counters = way.counters(Timestamp::from_millis(99));
        assert_eq!(counters.lateness.max(), Duration::from_millis(3));
        assert_eq!((counters.lost_refused, counters.lost()), (1, 1));
        let (first, last) = counters.handed_over.unwrap();
        assert_eq!(last - first, Duration::from_millis(4));
        assert_eq!((counters.link.delivered, counters.queue_bytes), (2, 0));
        assert_eq!(counters.link.queue_max_bytes, 2500);
    }

    /// Twice the rate is offered for two seconds. Packets are delivered as in real time: late, and several at once.
    #[test]
    fn a_managed_queue_drops_in_real_time_as_in_virtual_time() {
        let mut way = Way::new("rate=10mbit,delay=1ms,aqm=codel".parse().unwrap(), 1, "test");
        let mut packet = [0x45; 1250];
        packet[1] = 0; // Not-ECT.
        let mut taken = 0;
        for number in 0..4000 {
            let now = Timestamp::from_millis(number / 2);
            way.enqueue(now, &packet);
            if number % 7 == 0 {
                while way.hand_over(now, |_| true) {
                    taken += 1;
                }
            }
        }
        while let Some(at) = way.next_event() {
            taken += u64::from(way.hand_over(at, |_| true));
        }
        let counters = way.counters(Timestamp::from_millis(9999));
        assert!(counters.link.lost_aqm > 50, "{counters:?}");
        assert_eq!(counters.link.offered, taken + counters.lost());
        assert!(counters.lateness.max() <= Duration::from_millis(4));
        assert_eq!((counters.queue_bytes, way.held()), (0, 0));
    }

    /// Adds packets of this length until the limit refuses one.
    fn fill(link: &str, len: usize) -> Way {
        let mut way = Way::new(link.parse().unwrap(), 1, "test");
        let packet = vec![0x45; len];
        while way.lost_full == 0 {
            way.enqueue(Timestamp::ZERO, &packet);
        }
        way
    }

    #[test]
    fn a_link_without_limits_still_has_a_byte_limit() {
        let mut way = fill("delay=10s,duplicate=100%,mtu=65535", 60_000);
        assert!(way.held() <= MOST_IN_TRANSIT + 61_000 && way.held() > MOST_IN_TRANSIT - 61_000);
        while way.hand_over(Timestamp::from_millis(10_000), |_| true) {}
        assert_eq!(way.held(), 0);
        let small = fill("delay=10s", 20);
        assert!(small.link.in_transit() <= MOST_IN_TRANSIT / KEEPING);
        let lost = fill("rate=1bit,loss=100%,mtu=65535", 60_000);
        assert!(lost.held() == 0 && lost.link.stats().lost_model <= (MOST_IN_TRANSIT / 60_000) as u64);
    }
}
