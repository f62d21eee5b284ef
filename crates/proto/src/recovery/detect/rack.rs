//! RACK, recent acknowledgement (RFC 8985 §6), for one path: a transmission is lost if a later transmission arrived, and a round-trip time
//! and a *reordering window* have passed since it left.
//!
//! RFC 8985 speaks of segments and sequence numbers. Here a segment is a transmission in the path's [`Flight`]. Transmissions are
//! numbered in the order of sending, so that "sent after" compares numbers. The deadlines of transmissions in flight rise with their
//! numbers. So the lost ones are a prefix of the flight, and a search ends at the first transmission that is not lost.

use core::time::Duration;

use super::evidence::Evidence;
use crate::path::{Flight, SendNo, Sending};
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// Later packets that declare a loss at once while no reordering was seen (RFC 8985 §6.2 step 4; DupThresh of RFC 5681).
const DUP_THRESH: usize = 3;

/// Recovery episodes after which a widened reordering window returns to its default (RFC 8985 §6.2 step 4).
const PERSIST: u8 = 16;

/// The most retransmissions that a search visits once a chunk was not listed. Without this limit a peer could make the sender visit the
/// whole flight for each SACK.
const MOST_UNLISTED: usize = 100;

/// The most quarters of the minimum RTT in the reordering window; the smoothed RTT is usually the smaller bound.
const MOST_QUARTERS: u32 = 64;

/// The width of the reordering window, in quarters of the minimum RTT.
#[derive(Clone, Copy, Debug)]
struct Width {
    quarters: u32,
    /// Duplicates of transmissions below this number have widened the window already: once a round trip.
    widened: SendNo,
    /// Recovery episodes until the width returns to its default.
    persist: u8,
}

/// The values that are fixed while one acknowledgement is handled.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    now: Timestamp,
    least_rtt: Option<Duration>,
    recovering: bool,
    /// [`Rack::highest`] before the acknowledgement.
    highest: SendNo,
    /// The packet of the newest transmission, if that is an original and this acknowledgement told of it.
    packet: Option<SendNo>,
}

/// The RACK state of one path.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    moment: Moment,
    /// The newest transmission that arrived (`RACK.end_seq`), plus one; 0 before any arrived.
    newest: SendNo,
    /// The round-trip time of that transmission (`RACK.rtt`).
    rtt: Duration,
    /// The highest original transmission that arrived (`RACK.fack`), plus one.
    highest: SendNo,
    /// The latest packets that arrived, by the numbers of their first transmissions, in ascending order.
    packets: [Option<SendNo>; DUP_THRESH],
    /// The acknowledgement of the retransmission after a timeout came too early, and no original transmission was acknowledged since. If
    /// the acknowledgement of the next packet comes too early as well, the path became faster; nothing else would measure the lower RTT.
    early: bool,
    /// An original transmission arrived after a later transmission: the path reorders packets.
    reordered: bool,
    /// The highest chunk that the latest acknowledgement would list. It is unknown whether chunks above have arrived.
    listed_to: ExtendedTsn,
    width: Width,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            moment: Moment::default(),
            newest: 0,
            rtt: Duration::ZERO,
            highest: 0,
            packets: [None; DUP_THRESH],
            early: false,
            reordered: false,
            listed_to: ExtendedTsn::MAX,
            width: Width {
                quarters: 1,
                widened: 0,
                persist: 0,
            },
        }
    }
}

impl Rack {
    /// Called before an acknowledgement, or the reordering timer, is handled.
    pub(crate) fn begin(&mut self, now: Timestamp, least_rtt: Option<Duration>, recovering: bool) {
        self.moment = Moment {
            now,
            least_rtt,
            recovering,
            highest: self.highest,
            packet: None,
        };
    }

    /// The transmission `no` is acknowledged. Returns whether this transmission itself arrived, as far as can be known. If a retransmission
    /// is acknowledged sooner than one round-trip time after it left, an earlier transmission arrived and the retransmission was spurious
    /// (§6.2 step 2). The minimum RTT used here is an eighth shorter than in RFC 8985, because a small packet is faster than the packet
    /// that measured the minimum.
    #[inline]
    pub(crate) fn on_acknowledged(&mut self, no: SendNo, sending: &Sending, evidence: Evidence) -> bool {
        // The next original in the same packet has the same RTT, and tells nothing else that is new.
        if no == self.newest && self.moment.packet == Some(sending.packet) && !sending.is_retransmission() {
            self.newest = no + 1;
            self.highest = self.highest.max(no + 1);
            return true;
        }
        self.learn(no, sending, evidence)
    }

    fn learn(&mut self, no: SendNo, sending: &Sending, evidence: Evidence) -> bool {
        let rtt = self.moment.now.saturating_duration_since(sending.sent_at);
        if sending.is_retransmission() && evidence != Evidence::Named {
            let early = self.moment.least_rtt.is_some_and(|least| rtt < least - least / 8);
            let faster = evidence == Evidence::Asked && self.early;
            if early && !faster {
                self.early |= evidence == Evidence::Uncertain;
                return false;
            }
            // Without a measured RTT, an acknowledgement of an earlier transmission looks the same.
            if evidence == Evidence::Uncertain || self.moment.least_rtt.is_none() {
                return true;
            }
        } else if !sending.is_retransmission() {
            // §6.2 step 1: the path gets this RTT only after losses were searched, and may have no measurement before.
            let least = self.moment.least_rtt.map_or(rtt, |least| least.min(rtt));
            self.moment.least_rtt = Some(least);
            self.early = false;
            self.reordered |= no + 1 < self.moment.highest;
            self.highest = self.highest.max(no + 1);
        }
        if no >= self.newest {
            self.newest = no + 1;
            self.rtt = rtt;
            self.moment.packet = (!sending.is_retransmission()).then_some(sending.packet);
        }
        self.note_packet(sending.packet);
        true
    }

    fn note_packet(&mut self, packet: SendNo) {
        if self.packets.contains(&Some(packet)) || self.packets[0].is_some_and(|lowest| packet < lowest) {
            return;
        }
        self.packets[0] = Some(packet);
        self.packets.sort_unstable();
    }

    /// The transmission `no` was declared lost, and had arrived: the reordering window widens by a quarter, once a round trip.
    pub(crate) fn on_spurious(&mut self, no: SendNo, flight: &Flight) {
        self.early = false;
        self.reordered = true;
        if no >= self.width.widened {
            self.width.quarters = (self.width.quarters + 1).min(MOST_QUARTERS);
            self.width.widened = flight.next();
        }
        self.width.persist = PERSIST;
    }

    /// The path has other addresses: it may reorder packets differently.
    pub(crate) fn forget_reordering(&mut self) {
        let Self { width, reordered, .. } = Self::default();
        (self.width, self.reordered, self.early) = (width, reordered, false);
    }

    /// The acknowledgement being handled would list chunks up to this one.
    pub(crate) fn on_listed(&mut self, listed_to: ExtendedTsn) {
        self.listed_to = listed_to;
    }

    /// A recovery episode ended.
    pub(crate) fn on_recovered(&mut self) {
        self.width.persist = self.width.persist.saturating_sub(1);
        if self.width.persist == 0 {
            self.width.quarters = 1;
        }
    }

    /// Transmissions below this number were overtaken.
    pub(crate) fn overtaken_below(&self) -> SendNo {
        self.newest.saturating_sub(1)
    }

    /// When an overtaken transmission is declared lost.
    fn deadline(&self, sending: &Sending, smoothed: Option<Duration>) -> Timestamp {
        sending.sent_at + self.rtt + self.reordering_window(sending.packet, smoothed)
    }

    /// The reordering window (§6.2 step 4).
    fn reordering_window(&self, packet: SendNo, smoothed: Option<Duration>) -> Duration {
        let enough = self.packets[0].is_some_and(|third| packet < third);
        if !self.reordered && (self.moment.recovering || enough) {
            return Duration::ZERO;
        }
        let quarter = self.moment.least_rtt.unwrap_or_default() / 4;
        let window = quarter * self.width.quarters;
        smoothed.map_or(window, |most| window.min(most))
    }

    /// The first overtaken transmission in flight from `from` on whose chunk the acknowledgement would list if it had arrived.
    fn candidate<'a>(&self, from: SendNo, flight: &'a Flight) -> Option<(SendNo, &'a Sending)> {
        let is_listed = |sending: &Sending| sending.tsn <= self.listed_to;
        let is_candidate = |(_, sending): &(SendNo, &Sending)| sending.is_open() && is_listed(sending);
        // Chunks are first sent in the order of TSNs: after the first one that would not be listed, only retransmissions would.
        let mut unlisted = 0;
        let original = flight
            .range(from)
            .take_while(|(_, sending)| {
                unlisted += usize::from(!is_listed(sending));
                is_listed(sending) || (sending.is_retransmission() && unlisted <= MOST_UNLISTED)
            })
            .find(is_candidate);
        let retransmission = if unlisted > 0 {
            let mut later = flight.retransmissions(from).take(MOST_UNLISTED);
            later.find(is_candidate)
        } else {
            None
        };
        let first = [original, retransmission]
            .into_iter()
            .flatten()
            .min_by_key(|(no, _)| *no);
        first.filter(|(no, _)| *no < self.overtaken_below())
    }

    /// When the next overtaken transmission in flight is declared lost.
    pub(crate) fn due(&self, flight: &Flight, smoothed: Option<Duration>) -> Option<Timestamp> {
        let (_, sending) = self.candidate(flight.earliest(), flight)?;
        Some(self.deadline(sending, smoothed))
    }

    /// The first transmission in flight from `from` on that is lost now.
    pub(crate) fn next_lost(
        &self,
        from: SendNo,
        flight: &Flight,
        smoothed: Option<Duration>,
    ) -> Option<(SendNo, ExtendedTsn)> {
        let (no, sending) = self.candidate(from, flight)?;
        let is_lost = self.deadline(sending, smoothed) <= self.moment.now;
        is_lost.then_some((no, sending.tsn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Fate;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// A path of 40 ms, and packets of one chunk sent each millisecond from 0 on.
    struct Bench {
        rack: Rack,
        flight: Flight,
    }

    impl Bench {
        fn new(count: u64) -> Self {
            let mut bench = Self {
                rack: Rack::default(),
                flight: Flight::default(),
            };
            (0..count).for_each(|no| bench.send(no, false, no));
            bench
        }

        fn send(&mut self, tsn: u64, retransmission: bool, millis: u64) {
            self.flight.begin_packet();
            self.flight.push(tsn, retransmission, at(millis), 100, 80);
        }

        /// An acknowledgement of these transmissions; returns those that are declared lost then.
        fn ack(&mut self, millis: u64, sendings: &[SendNo]) -> Vec<SendNo> {
            self.rack.begin(at(millis), Some(ms(40)), false);
            self.flight.begin();
            for no in sendings {
                let sending = *self.flight.get(*no).expect("it is kept");
                self.rack.on_acknowledged(*no, &sending, Evidence::LastSending);
                self.flight.acknowledge(*no, 100, 80);
            }
            self.flight.settle();
            self.lost()
        }

        fn lost(&mut self) -> Vec<SendNo> {
            let mut lost = Vec::new();
            let mut from = self.flight.earliest();
            while let Some((no, _)) = self.rack.next_lost(from, &self.flight, Some(ms(40))) {
                lost.push(no);
                self.flight.close(no, Fate::Closed, 100, 80);
                from = no + 1;
            }
            self.flight.settle();
            lost
        }

        fn due(&self) -> Option<Timestamp> {
            self.rack.due(&self.flight, Some(ms(40)))
        }
    }

    #[test]
    fn the_third_later_packet_makes_a_loss_at_once() {
        let mut bench = Bench::new(6);
        assert_eq!(bench.ack(41, &[1]), []);
        assert_eq!(bench.ack(42, &[2]), []);
        assert_eq!(bench.ack(43, &[3]), [0]);
    }

    #[test]
    fn one_later_packet_makes_a_loss_after_a_quarter_of_a_round_trip() {
        let mut bench = Bench::new(2);
        assert_eq!(bench.due(), None, "nothing was overtaken");
        assert_eq!(bench.ack(41, &[1]), []);
        assert_eq!(bench.due(), Some(at(40 + 10)));
        bench.rack.begin(at(49), Some(ms(40)), false);
        assert_eq!(bench.lost(), []);
        bench.rack.begin(at(50), Some(ms(40)), false);
        assert_eq!(bench.lost(), [0]);
    }

    /// RFC 8985 §6.2 step 1 comes before step 4: the very first acknowledgement measures the RTT that its reordering window uses.
    #[test]
    fn the_first_acknowledgement_has_a_reordering_window_too() {
        let mut bench = Bench::new(2);
        bench.rack.begin(at(41), None, false);
        bench.flight.begin();
        let sending = *bench.flight.get(1).expect("it is kept");
        bench.rack.on_acknowledged(1, &sending, Evidence::LastSending);
        bench.flight.acknowledge(1, 100, 80);
        assert_eq!(bench.lost(), []);
        assert_eq!(bench.due(), Some(at(40 + 10)));
    }

    #[test]
    fn a_lost_retransmission_is_found_by_what_left_after_it() {
        let mut bench = Bench::new(4);
        bench.ack(41, &[1]);
        bench.ack(42, &[2]);
        assert_eq!(bench.ack(43, &[3]), [0]);
        bench.send(0, true, 43);
        bench.send(9, false, 44);
        assert_eq!(bench.ack(84, &[5]), []);
        bench.rack.begin(at(93), Some(ms(40)), false);
        assert_eq!(bench.lost(), [4]);
    }

    #[test]
    fn one_acknowledgement_of_several_packets_gives_the_rtt_of_the_newest() {
        let mut bench = Bench::new(3);
        // A second chunk in the last packet.
        bench.flight.push(3, false, at(2), 100, 80);
        assert_eq!(bench.ack(50, &[0, 1, 2, 3]), []);
        assert_eq!((bench.rack.overtaken_below(), bench.rack.rtt), (3, ms(48)));
        assert_eq!((bench.rack.newest, bench.rack.highest), (4, 4));
        assert_eq!(bench.rack.packets, [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn the_acknowledgement_of_an_earlier_transmission_moves_no_clock() {
        let mut bench = Bench::new(2);
        bench.flight.close(0, Fate::Closed, 100, 80);
        bench.flight.settle();
        bench.send(0, true, 60);
        bench.rack.begin(at(70), Some(ms(40)), false);
        let sending = *bench.flight.get(2).expect("the retransmission");
        assert!(
            !bench.rack.on_acknowledged(2, &sending, Evidence::LastSending),
            "after 10 ms"
        );
        assert_eq!(bench.rack.overtaken_below(), 0);
        assert!(
            !bench.rack.on_acknowledged(2, &sending, Evidence::Asked),
            "no timeout before"
        );
        assert!(!bench.rack.on_acknowledged(2, &sending, Evidence::Uncertain));
        assert!(!bench.rack.on_acknowledged(2, &sending, Evidence::LastSending));
        assert!(
            bench.rack.clone().on_acknowledged(2, &sending, Evidence::Asked),
            "the path became faster"
        );
        bench.rack.begin(at(100), Some(ms(40)), false);
        assert!(bench.rack.on_acknowledged(2, &sending, Evidence::LastSending));
        assert_eq!(bench.rack.overtaken_below(), 2);
    }

    #[test]
    fn before_an_rtt_was_measured_a_retransmission_moves_no_clock() {
        let mut bench = Bench::new(1);
        bench.send(0, true, 60);
        let sending = *bench.flight.get(1).expect("the retransmission");
        for (least, moved) in [(None, 0), (Some(ms(40)), 1)] {
            bench.rack.begin(at(110), least, false);
            assert!(bench.rack.on_acknowledged(1, &sending, Evidence::LastSending));
            assert_eq!(bench.rack.overtaken_below(), moved);
        }
    }

    #[test]
    fn where_packets_are_reordered_three_later_ones_prove_nothing() {
        let mut bench = Bench::new(8);
        bench.ack(41, &[1]);
        assert_eq!(bench.ack(42, &[0]), [], "late");
        assert!(bench.rack.reordered);
        assert_eq!(bench.ack(46, &[3, 4, 5, 6]), []);
        assert_eq!(bench.due(), Some(at(2 + 40 + 10)));
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_trip_and_not_for_ever() {
        let mut bench = Bench::new(4);
        let width = |bench: &Bench| bench.rack.reordering_window(0, Some(ms(40)));
        bench.rack.begin(at(1), Some(ms(40)), false);
        for no in 0..2 {
            bench.rack.on_spurious(no, &bench.flight);
        }
        assert_eq!(width(&bench), ms(20));
        (4..8).for_each(|no| bench.send(no, false, no));
        for no in [4, 8, 12, 16] {
            bench.rack.on_spurious(no, &bench.flight);
            bench.send(no, false, no);
            (0..3).for_each(|_| bench.send(no, false, no));
        }
        assert_eq!(width(&bench), ms(40), "at most the smoothed RTT");
        (0..PERSIST).for_each(|_| bench.rack.on_recovered());
        assert_eq!(width(&bench), ms(10));
    }

    #[test]
    fn chunks_that_would_not_be_listed_are_not_missing() {
        let mut bench = Bench::new(8);
        bench.send(0, true, 50);
        bench.send(1, true, 50);
        bench.send(8, false, 51);
        bench.rack.on_listed(3);
        assert_eq!(bench.ack(100, &[0, 2, 8, 10]), [1, 3], "not 4 to 7");
        assert_eq!(
            bench.due(),
            Some(at(50 + 49 + 10)),
            "of the second retransmission"
        );
        bench.rack.on_listed(5);
        assert_eq!(bench.due(), Some(at(4 + 49 + 10)));
    }

    /// A lost retransmission of chunk 0, behind these chunks that would not be listed, each of them sent once or twice.
    fn lost_behind(unlisted: u64, twice: bool) -> Vec<SendNo> {
        let mut bench = Bench::new(1 + unlisted);
        if twice {
            (1..=unlisted).for_each(|tsn| bench.send(tsn, true, unlisted));
        }
        bench.send(0, true, 1 + unlisted);
        let next = bench.flight.next();
        (0..4).for_each(|_| bench.send(1 + unlisted, false, 2 + unlisted));
        bench.flight.close(0, Fate::Closed, 100, 80);
        bench.rack.on_listed(0);
        bench.ack(2 * unlisted + 100, &[next + 1, next + 2, next + 3])
    }

    #[test]
    fn a_lost_retransmission_is_found_behind_any_number_of_new_chunks() {
        assert_eq!(lost_behind(100 * MOST_UNLISTED as u64, false), [10_001]);
    }

    #[test]
    fn a_search_among_retransmissions_that_would_not_be_listed_ends() {
        let most = MOST_UNLISTED as u64;
        assert_eq!(lost_behind(most - 1, true), [2 * most - 1]);
        assert_eq!(lost_behind(most, true), []);
    }

    #[test]
    fn in_recovery_one_later_packet_is_enough() {
        let mut bench = Bench::new(2);
        bench.ack(41, &[1]);
        bench.rack.begin(at(41), Some(ms(40)), true);
        assert_eq!(bench.lost(), [0]);
    }

    #[test]
    fn the_newest_packet_that_arrived_is_the_clock() {
        let mut bench = Bench::new(4);
        bench.ack(43, &[3]);
        bench.ack(60, &[1]);
        assert_eq!(bench.rack.overtaken_below(), 3);
        assert_eq!(bench.rack.rtt, ms(40));
    }

    #[test]
    fn packets_are_counted_and_not_chunks() {
        let mut bench = Bench::new(1);
        bench.flight.begin_packet();
        (1..5).for_each(|tsn| {
            bench.flight.push(tsn, false, at(1), 100, 80);
        });
        assert_eq!(bench.ack(41, &[1, 2, 3, 4]), []);
        assert_eq!(bench.due(), Some(at(50)));
    }
}
