//! Delivery rates of a path (draft-ietf-ccwg-bbr §4.1): each packet records how much the path had delivered when it was sent. Its
//! acknowledgement then shows how fast the path has delivered since.

use core::time::Duration;
use std::collections::VecDeque;

use super::flight::SendNo;
use crate::controller::{LostPacket, RateSample};
use crate::time::Timestamp;

/// The peer's timestamps count whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// A packet in flight, and the state of the path when it was sent.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    /// Its first transmission; its last one precedes the first transmission of the next packet.
    first: SendNo,
    sent_at: Timestamp,
    delivered: u64,
    delivered_at: Timestamp,
    /// When the packet was sent whose acknowledgement was the newest then.
    first_sent_at: Timestamp,
    flight: usize,
    lost: u64,
    application_limited: bool,
}

/// The delivery rate of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateSampler {
    packets: VecDeque<Snapshot>,
    /// Total bytes delivered, and total bytes declared lost.
    delivered: u64,
    lost: u64,
    delivered_at: Timestamp,
    first_sent_at: Timestamp,
    /// The sender ran out of data: packets are marked as application-limited until this many bytes are delivered or lost. Decision: the
    /// draft counts delivered bytes only; if most packets are lost, it would mark packets for many round trips.
    limited_until: u64,
}

impl RateSampler {
    /// A packet with `bytes` of DATA chunks was sent, from the transmission `first` on; with it `flight` bytes are in flight.
    pub(crate) fn on_sent(&mut self, now: Timestamp, first: SendNo, bytes: usize, flight: usize) {
        if flight <= bytes {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        self.packets.push_back(Snapshot {
            first,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            flight,
            lost: self.lost,
            application_limited: self.limited_until > 0,
        });
    }

    /// The sender has no data although the window has space; `flight` bytes are in flight.
    pub(crate) fn on_application_limited(&mut self, flight: usize) {
        self.limited_until = (self.delivered + self.lost + flight as u64).max(1);
    }

    fn find(&self, no: SendNo) -> Option<&Snapshot> {
        let behind = self.packets.partition_point(|packet| packet.first <= no);
        self.packets.get(behind.checked_sub(1)?)
    }

    /// `bytes` were acknowledged; `newest` is the newest of their transmissions that certainly arrived. `least_rtt` is the minimum RTT of
    /// the path. If acknowledgements return on several paths, `earliest` is when this one would have arrived by the fastest of them, to a
    /// millisecond. Returns the delivery rate; `None` if it was measured over less than a round trip.
    pub(crate) fn on_acknowledged(
        &mut self,
        now: Timestamp,
        earliest: Option<Timestamp>,
        bytes: usize,
        newest: Option<SendNo>,
        least_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        self.delivered += bytes as u64;
        self.delivered_at = earliest.map_or(now, |earliest| earliest.max(self.delivered_at));
        if self.delivered + self.lost > self.limited_until {
            self.limited_until = 0;
        }
        let packet = *self.find(newest?)?;
        self.first_sent_at = packet.sent_at;
        let sending = packet.sent_at.saturating_duration_since(packet.first_sent_at);
        let arriving = self.delivered_at.saturating_duration_since(packet.delivered_at);
        let interval = sending.max(arriving);
        let rounded = earliest.map_or(interval, |_| interval + ROUNDING);
        if least_rtt.is_some_and(|least| rounded < least) || interval.is_zero() {
            return None;
        }
        Some(RateSample {
            delivered: self.delivered - packet.delivered,
            interval,
            application_limited: packet.application_limited,
            rtt: Some(now.saturating_duration_since(packet.sent_at)),
            flight_when_sent: packet.flight,
            lost: self.lost - packet.lost,
            delivered_before: packet.delivered,
            total_delivered: self.delivered,
        })
    }

    /// The transmission `no`, with `bytes`, was declared lost; returns its packet.
    pub(crate) fn on_lost(&mut self, now: Timestamp, no: SendNo, bytes: usize) -> Option<LostPacket> {
        self.lost += bytes as u64;
        let packet = self.find(no)?;
        Some(LostPacket {
            now,
            bytes,
            flight_when_sent: packet.flight,
            lost_since: self.lost - packet.lost,
            application_limited: packet.application_limited,
        })
    }

    /// No transmission before `earliest` is in flight.
    pub(crate) fn forget_before(&mut self, earliest: SendNo) {
        while self.packets.get(1).is_some_and(|next| next.first <= earliest) {
            self.packets.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Packets of one transmission and 1,000 bytes, one each millisecond, acknowledged 40 ms later.
    fn steady(sampler: &mut RateSampler) -> Option<RateSample> {
        let mut sample = None;
        for ms in 0..100 {
            if let Some(no) = u64::checked_sub(ms, 40) {
                sample =
                    sampler.on_acknowledged(at(ms), None, 1000, Some(no), Some(Duration::from_millis(40)));
                sampler.forget_before(no + 1);
            }
            sampler.on_sent(at(ms), ms, 1000, 1000 * (ms.min(40) as usize + 1));
        }
        sample
    }

    #[test]
    fn a_steady_flow_shows_its_rate() {
        let mut sampler = RateSampler::default();
        let sample = steady(&mut sampler).expect("a sample");
        assert_eq!(sample.interval, Duration::from_millis(40));
        assert!((sample.rate() - 1e6).abs() < 1.0, "{}", sample.rate());
        assert_eq!(sample.total_delivered - sample.delivered_before, sample.delivered);
        assert!(sampler.packets.len() <= 41, "what is acknowledged is forgotten");
    }

    #[test]
    fn acknowledgements_that_come_at_once_show_no_more_than_was_sent() {
        let mut sampler = RateSampler::default();
        for ms in 0..50 {
            if ms == 48 {
                sampler.on_acknowledged(at(48), None, 1000, Some(0), None);
            }
            sampler.on_sent(at(ms), ms, 1000, 1000 * (ms as usize + 1));
        }
        let sample = sampler.on_acknowledged(at(60), None, 49_000, Some(49), None);
        assert!(sample.expect("a sample").rate() <= 1e6 + 1.0, "{sample:?}");
    }

    #[test]
    fn packets_after_a_lack_of_data_are_marked_until_a_round_trip_has_passed() {
        let mut sampler = RateSampler::default();
        sampler.on_sent(at(0), 0, 1000, 1000);
        sampler.on_application_limited(1000);
        sampler.on_sent(at(5), 1, 1000, 2000);
        let first = sampler.on_acknowledged(at(40), None, 1000, Some(0), None);
        assert!(!first.expect("a sample").application_limited, "it left before");
        let second = sampler.on_acknowledged(at(45), None, 1000, Some(1), None);
        assert!(second.expect("a sample").application_limited);
        assert_eq!(sampler.limited_until, 0);
    }

    #[test]
    fn a_lost_flight_ends_the_marks_too() {
        let mut sampler = RateSampler::default();
        (0..10).for_each(|no| sampler.on_sent(at(no), no, 1000, 1000 * (no as usize + 1)));
        sampler.on_application_limited(10_000);
        let lost = (0..9).filter_map(|no| sampler.on_lost(at(40), no, 1000));
        assert_eq!(lost.count(), 9);
        sampler.on_acknowledged(at(49), None, 1000, Some(9), None);
        sampler.on_sent(at(50), 10, 1000, 1000);
        let marked = sampler.on_acknowledged(at(90), None, 1000, Some(10), None);
        assert!(
            marked.expect("a sample").application_limited,
            "the flight was not behind yet"
        );
        sampler.on_sent(at(91), 11, 1000, 1000);
        let after = sampler.on_acknowledged(at(131), None, 1000, Some(11), None);
        assert!(!after.expect("a sample").application_limited);
    }

    #[test]
    fn a_sample_of_less_than_a_round_trip_tells_no_rate() {
        let mut sampler = RateSampler::default();
        sampler.on_sent(at(0), 0, 1000, 1000);
        let least = Some(Duration::from_millis(40));
        assert_eq!(sampler.on_acknowledged(at(39), None, 1000, Some(0), least), None);
        sampler.on_sent(at(40), 1, 1000, 1000);
        assert!(
            sampler
                .on_acknowledged(at(80), None, 1000, Some(1), least)
                .is_some()
        );
    }

    #[test]
    fn a_pause_lowers_no_rate() {
        let mut sampler = RateSampler::default();
        steady(&mut sampler);
        sampler.on_acknowledged(at(140), None, 40_000, Some(99), None);
        sampler.on_sent(at(9000), 100, 1000, 1000);
        let sample = sampler.on_acknowledged(at(9040), None, 1000, Some(100), None);
        assert_eq!(sample.expect("a sample").interval, Duration::from_millis(40));
    }

    #[test]
    fn losses_are_counted_from_the_sending_of_each_packet() {
        let mut sampler = RateSampler::default();
        (0..3).for_each(|no| sampler.on_sent(at(no), no, 1000, 1000 * (no as usize + 1)));
        let first = sampler.on_lost(at(50), 0, 1000).expect("it is known");
        let second = sampler.on_lost(at(50), 1, 1000).expect("it is known");
        assert_eq!((first.lost_since, first.flight_when_sent), (1000, 1000));
        assert_eq!((second.lost_since, second.flight_when_sent), (2000, 2000));
    }

    /// Two packets leave each millisecond and one arrives. The first fifty acknowledgements take a way back that is 30 ms longer, so that the
    /// next ones overtake the last of them. Returns the highest rate, if acknowledgements tell when they left or not.
    fn highest_over_two_ways(tells: bool) -> f64 {
        let mut sampler = RateSampler::default();
        let acknowledgements = (0..200).map(|no| {
            let fast = 40 + no;
            (if no < 50 { fast + 30 } else { fast }, fast, no)
        });
        let mut acknowledgements: Vec<(u64, u64, u64)> = acknowledgements.collect();
        acknowledgements.sort_unstable();
        let (mut highest, mut told, mut sent) = (0f64, 0, 0);
        for (arrives, fast, no) in acknowledgements {
            while sent < 200 && sent / 2 <= arrives {
                let flight = 1000 * (sent + 1 - told) as usize;
                sampler.on_sent(at(sent / 2), sent, 1000, flight);
                sent += 1;
            }
            if no < told {
                continue;
            }
            let bytes = 1000 * (no + 1 - told) as usize;
            told = no + 1;
            let (earliest, least) = (tells.then(|| at(fast)), Some(Duration::from_millis(40)));
            let sample = sampler.on_acknowledged(at(arrives), earliest, bytes, Some(no), least);
            highest = highest.max(sample.map_or(0.0, |sample| sample.rate()));
        }
        highest
    }

    #[test]
    fn another_way_back_shows_no_higher_rate() {
        let (told, untold) = (highest_over_two_ways(true), highest_over_two_ways(false));
        assert!((told - 1e6).abs() < 5e4, "{told}");
        assert!(untold > 1.1 * told, "{untold}");
    }
}
