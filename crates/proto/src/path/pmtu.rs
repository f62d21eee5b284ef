//! The path MTU, the sizes that fit a packet (RFC 9260 §7.3; PMDCS and AMDCS of §1.3), and path MTU discovery (PLPMTUD, RFC 8899; §6.2
//! there for SCTP). Discovery sends probes and learns their fate; data never waits for it.

use core::time::Duration;

use anabranch_wire::packet::COMMON_HEADER_LEN;

use crate::config::{Config, MOST_RECORD};
use crate::time::Timestamp;

const IPV4_HEADER_LEN: u16 = 20;
const IPV6_HEADER_LEN: u16 = 40;

/// The smallest packet that IPv4 hosts must accept (RFC 791). Reports of a smaller MTU are ignored.
const SMALLEST: u16 = 576;

/// The minimum MTU of IPv6 links (RFC 8200 §5).
const SMALLEST_IPV6: u16 = 1280;

/// Sizes to probe, in order: slow links, tunnels of all kinds, Ethernet, jumbo frames, and the largest IP packet.
const SIZES: [u16; 17] = [
    768, 1024, 1200, 1280, 1400, 1420, 1440, 1464, 1480, 1492, 1500, 2304, 4352, 9000, 16_384, 32_768, 65_535,
];

/// `MAX_PROBES` (RFC 8899 §5.1.2): after this many unanswered probes a size counts as too large.
const MAX_PROBES: u8 = 3;

/// `PROBE_TIMER` (RFC 8899 §5.1.1): a probe without an answer is lost after this time, or after the RTO if that is longer. RFC 8899 wants
/// more than 15 s, so that a path with a long queue does not seem to have a small MTU.
const PROBE_TIMER: Duration = Duration::from_secs(16);

/// `PMTU_RAISE_TIMER` (RFC 8899 §5.1.1): after this time a size that was too large is probed again.
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// Full packets that must be sent before discovery begins: a larger size is of no use to a sender without full packets.
const FULL_PACKETS: u8 = 4;

/// Consecutive timeouts of data after which a black hole is suspected for packets of the current size (RFC 8899 §4.3). The size then
/// becomes the base; after as many more timeouts it becomes the minimum.
const BLACK_HOLE_TIMEOUTS: u32 = 2;

/// The path MTU (largest IP packet) and the length of the headers below SCTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pmtu {
    mtu: u16,
    below: u16,
    /// `MIN_PLPMTU`, `BASE_PLPMTU` and `MAX_PLPMTU` (RFC 8899 §5.1.2).
    least: u16,
    base: u16,
    limit: u16,
    /// Sizes from here on were too large; they are not probed until that time.
    ceiling: Option<(u16, Timestamp)>,
    probe: Option<Probe>,
    /// When discovery continues: a probe is sent then, or the probe in flight counts as lost.
    due: Option<Timestamp>,
    full_packets: u8,
    /// Data timed out, and nobody knows whether its size was the reason: the size to probe is the current one.
    doubted: bool,
}

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    nonce: u64,
    sent: u8,
}

impl Pmtu {
    pub(crate) fn new(config: &Config, ipv6: bool) -> Self {
        let ip = if ipv6 { IPV6_HEADER_LEN } else { IPV4_HEADER_LEN };
        let below = ip + config.lower_layer.header_len() + config.protection_overhead();
        let limit = match config.protection {
            Some(_) => config
                .path_mtu_limit
                .min(below + COMMON_HEADER_LEN as u16 + MOST_RECORD),
            None => config.path_mtu_limit,
        };
        let base = config.path_mtu.min(limit);
        let least = if ipv6 { SMALLEST_IPV6 } else { SMALLEST };
        Self {
            mtu: base,
            below,
            least: least.min(base),
            base,
            limit,
            ceiling: None,
            probe: None,
            due: None,
            full_packets: 0,
            doubted: false,
        }
    }

    /// This path with packets of this size, without discovery.
    pub(crate) fn fixed(self, size: u16) -> Self {
        Self {
            mtu: size,
            below: self.below,
            least: self.least.min(size),
            base: size,
            limit: size,
            ceiling: None,
            probe: None,
            due: None,
            full_packets: 0,
            doubted: false,
        }
    }

    /// Whether a larger size may be probed.
    pub(crate) fn is_discovered(self) -> bool {
        self.limit > self.base
    }

    pub(crate) fn current(self) -> u16 {
        self.mtu
    }

    /// The largest SCTP packet in bytes, a multiple of 4.
    pub(crate) fn max_packet(self) -> usize {
        self.packet_len(self.mtu)
    }

    /// PMDCS: the largest DATA chunk in bytes, its header included.
    pub(crate) fn max_data(self) -> usize {
        self.max_packet() - COMMON_HEADER_LEN
    }

    fn packet_len(self, mtu: u16) -> usize {
        usize::from(mtu - self.below) & !3
    }
}

/// Path MTU discovery.
impl Pmtu {
    /// When [`Pmtu::next_probe`] is to be called.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Whether to call [`Pmtu::on_full_packet`]: there is a larger size to probe, and discovery has not begun.
    pub(crate) fn counts_full_packets(&self) -> bool {
        self.due.is_none() && self.probe.is_none() && self.mtu < self.limit
    }

    /// A full packet was sent: the next chunk no longer fitted. Enough of them begin path MTU discovery. Returns whether a probe is
    /// due now.
    pub(crate) fn on_full_packet(&mut self, now: Timestamp) -> bool {
        if !self.counts_full_packets() {
            return false;
        }
        self.full_packets = self.full_packets.saturating_add(1);
        let begins = self.full_packets >= FULL_PACKETS && self.next_size(now).is_some();
        if begins {
            self.due = Some(now);
        }
        begins
    }

    /// The next size to probe. Below the base it is the base itself (RFC 8899 §5.2, BASE): most likely the packets that timed out were lost
    /// for another reason than their size.
    fn next_size(&mut self, now: Timestamp) -> Option<u16> {
        if self.doubted {
            return Some(self.mtu);
        }
        self.ceiling = self.ceiling.filter(|(_, until)| now < *until);
        let below = self
            .ceiling
            .map_or(u16::MAX, |(size, _)| size - 1)
            .min(self.limit);
        if self.mtu < self.base && self.base <= below {
            return Some(self.base);
        }
        let sizes = SIZES.into_iter().chain([self.limit]);
        sizes.filter(|size| *size > self.mtu && *size <= below).min()
    }

    /// Discovery continues at `now`. Returns the length of the SCTP packet to probe with, if a probe is to be sent, marked with `nonce`. An
    /// unanswered probe counts as lost after `PROBE_TIMER`, or after the RTO if that is longer. If the path does not answer data
    /// either, the loss of a probe proves nothing about its size, unless the probe has the size of that data.
    pub(crate) fn next_probe(
        &mut self,
        now: Timestamp,
        nonce: u64,
        rto: Duration,
        data_answered: bool,
    ) -> Option<usize> {
        let sent = match self.probe.take() {
            Some(_) if !data_answered && !self.doubted => 0,
            Some(lost) if lost.sent >= MAX_PROBES => {
                self.set_ceiling(now, lost.size);
                0
            }
            Some(lost) => lost.sent,
            None => 0,
        };
        self.due = None;
        let size = self.next_size(now)?;
        self.probe = Some(Probe {
            size,
            nonce,
            sent: sent + 1,
        });
        self.due = Some(now + PROBE_TIMER.max(rto));
        Some(self.packet_len(size))
    }

    /// Packets of this size are lost: sizes from here on are probed again in ten minutes (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
    fn set_ceiling(&mut self, now: Timestamp, size: u16) {
        self.probe = None;
        self.due = None;
        self.doubted = false;
        self.full_packets = 0;
        self.ceiling = Some((size, now + RAISE_AFTER));
    }

    /// A probe with this nonce was answered; returns true if it was the probe in flight, whose size is now the path MTU.
    pub(crate) fn on_answer(&mut self, now: Timestamp, nonce: u64) -> bool {
        let Some(probe) = self.probe.take_if(|probe| probe.nonce == nonce) else {
            return false;
        };
        self.mtu = probe.size;
        self.doubted = false;
        self.due = self.next_size(now).map(|_| now);
        true
    }

    /// The local system reported that a packet was too large, and perhaps which size would fit. If a probe is in flight, the report is
    /// about the probe. A probe of the current size stands for data.
    pub(crate) fn on_too_large(&mut self, now: Timestamp, mtu: Option<u16>) {
        if let Some(probe) = self.probe.filter(|_| !self.doubted) {
            self.set_ceiling(now, probe.size);
            self.due = self.next_size(now).map(|_| now);
            return;
        }
        let guess = if self.mtu > self.base {
            self.base
        } else {
            self.least
        };
        let told = mtu.filter(|mtu| *mtu >= self.least).unwrap_or(guess);
        self.shrink(now, told);
    }

    /// Data timed out for the `in_a_row`th consecutive time. Returns true if a black hole is assumed: the size becomes the base; if it is
    /// the base already, the minimum, and a probe of the base size is due at once (RFC 8899 §5.2, BASE and ERROR).
    pub(crate) fn on_timeout(&mut self, now: Timestamp, in_a_row: u32) -> bool {
        let suspected = self.suspects_black_hole(in_a_row);
        if suspected {
            self.leave_black_hole(now);
        }
        suspected
    }

    /// As [`Pmtu::on_timeout`], but perhaps the peer dropped the data, because its window is closed. Instead of assuming a black hole, probes
    /// of the current size find out (RFC 8899 §4.3, §5.2: confirmation of the current size).
    pub(crate) fn on_doubtful_timeout(&mut self, now: Timestamp, in_a_row: u32) {
        if self.suspects_black_hole(in_a_row) && !self.doubted {
            self.doubted = true;
            self.probe = None;
            self.due = Some(now);
        }
    }

    /// Discovery continues. Returns true if all probes of the current size are lost: the size becomes smaller, as in [`Pmtu::on_timeout`].
    pub(crate) fn finds_black_hole(&mut self, now: Timestamp) -> bool {
        let found = self.doubted && self.probe.is_some_and(|probe| probe.sent >= MAX_PROBES);
        if found {
            self.leave_black_hole(now);
        }
        found
    }

    fn suspects_black_hole(&self, in_a_row: u32) -> bool {
        // If no larger size may be probed, a size below the base would never be raised again.
        let smallest = if self.is_discovered() {
            self.least
        } else {
            self.base
        };
        in_a_row.is_multiple_of(BLACK_HOLE_TIMEOUTS) && self.mtu > smallest
    }

    fn leave_black_hole(&mut self, now: Timestamp) {
        if self.mtu > self.base {
            self.shrink(now, self.base);
        } else {
            self.mtu = self.least;
            self.full_packets = 0;
            self.ask_for_base(now);
        }
    }

    /// Data was acknowledged after timeouts: if no probe has shown yet whether packets of the base size pass, a probe is due at once.
    pub(crate) fn on_answered_again(&mut self, now: Timestamp) {
        if self.mtu < self.base && self.ceiling.is_none() {
            self.ask_for_base(now);
        }
    }

    fn ask_for_base(&mut self, now: Timestamp) {
        self.ceiling = None;
        self.probe = None;
        self.doubted = false;
        self.due = Some(now);
    }

    fn shrink(&mut self, now: Timestamp, to: u16) {
        if to < self.mtu {
            let was = self.mtu;
            self.mtu = to;
            self.set_ceiling(now, was);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmtu(limit: u16) -> Pmtu {
        let config = Config {
            path_mtu_limit: limit,
            ..Config::default()
        };
        Pmtu::new(&config, false)
    }

    /// Runs discovery on a path of `real` bytes; returns the number of probes.
    fn search(pmtu: &mut Pmtu, now: Timestamp, real: u16) -> u32 {
        (0..FULL_PACKETS).for_each(|_| {
            pmtu.on_full_packet(now);
        });
        let mut probes = 0;
        let mut at = now;
        while let Some(due) = pmtu.due() {
            at = at.max(due);
            let Some(len) = pmtu.next_probe(at, probes.into(), Duration::from_secs(1), true) else {
                break;
            };
            if len + 28 <= usize::from(real) {
                assert!(pmtu.on_answer(at, probes.into()));
            }
            probes += 1;
        }
        probes
    }

    #[test]
    fn the_search_finds_what_passes() {
        let now = Timestamp::from_millis(5);
        for (real, found) in [
            (1280, 1280),
            (1420, 1420),
            (1450, 1440),
            (1500, 1500),
            (9000, 9000),
            (65_535, 65_535),
        ] {
            let mut pmtu = pmtu(65_535);
            search(&mut pmtu, now, real);
            assert_eq!(pmtu.current(), found, "{real}");
            assert_eq!(pmtu.max_packet(), usize::from(found - 28) & !3);
        }
    }

    #[test]
    fn a_limit_is_kept_and_reached() {
        let now = Timestamp::from_millis(5);
        for limit in [1280, 1300, 1400, 8000] {
            let mut pmtu = pmtu(limit);
            search(&mut pmtu, now, u16::MAX);
            assert_eq!(pmtu.current(), limit);
        }
    }

    #[test]
    fn nothing_is_sought_without_full_packets() {
        let mut pmtu = pmtu(65_535);
        (1..FULL_PACKETS).for_each(|_| {
            pmtu.on_full_packet(Timestamp::ZERO);
        });
        assert_eq!(pmtu.due(), None);
    }

    #[test]
    fn a_size_that_was_too_large_is_probed_again_much_later() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(1500);
        assert_eq!(search(&mut pmtu, now, 1400), 1 + u32::from(MAX_PROBES));
        assert_eq!(search(&mut pmtu, now + Duration::from_secs(500), 1500), 0);
        search(&mut pmtu, now + Duration::from_secs(700), 1500);
        assert_eq!(pmtu.current(), 1500);
    }

    #[test]
    fn a_path_that_shrinks_is_searched_anew_below() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(9000);
        search(&mut pmtu, now, 1500);
        assert!(!pmtu.on_timeout(now, 1));
        assert!(pmtu.on_timeout(now, 2));
        assert_eq!(pmtu.current(), 1280);
        search(&mut pmtu, now, 1400);
        assert_eq!(pmtu.current(), 1400);
        assert!(pmtu.on_timeout(now, 2), "from 1400 to the base");
        assert_eq!(pmtu.current(), 1280);
    }

    #[test]
    fn a_path_below_the_base_is_searched_from_the_minimum() {
        let now = Timestamp::from_millis(5);
        for (real, found) in [(1500, 1500), (1200, 1200), (1000, 768), (600, 576)] {
            let mut pmtu = pmtu(1500);
            assert!(!pmtu.on_timeout(now, 1));
            assert!(pmtu.on_timeout(now, 2), "from the base to the minimum");
            assert_eq!(pmtu.current(), SMALLEST);
            assert!(!pmtu.on_timeout(now, 4), "there is nothing below the minimum");
            search(&mut pmtu, now, real);
            assert_eq!(pmtu.current(), found, "on a path of {real}");
        }
    }

    #[test]
    fn nothing_is_below_the_base_of_ipv6() {
        let mut pmtu = Pmtu::new(&Config::default(), true);
        assert!(!pmtu.on_timeout(Timestamp::ZERO, 2));
        assert_eq!((pmtu.current(), pmtu.due()), (1280, None));
    }

    #[test]
    fn a_path_that_answers_nothing_is_not_taken_for_narrow() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(1500);
        assert!(pmtu.on_timeout(now, 2));
        let mut at = now;
        for nonce in 0..20 {
            at = at.max(pmtu.due().expect("a probe is due"));
            let probe = pmtu.next_probe(at, nonce, Duration::from_secs(1), false);
            assert_eq!(probe, Some(1280 - 28));
        }
        pmtu.on_answered_again(at);
        assert_eq!(pmtu.due(), Some(at), "asked at once");
        search(&mut pmtu, at, 1500);
        assert_eq!(pmtu.current(), 1500);
    }

    /// Data of the current size times out twice, and the peer may have dropped it. Returns the probes that follow, on a path of `real` bytes.
    fn doubt(pmtu: &mut Pmtu, mut at: Timestamp, real: u16) -> u8 {
        pmtu.on_doubtful_timeout(at, 1);
        assert_eq!(pmtu.due(), None, "one timeout is no reason for doubt");
        pmtu.on_doubtful_timeout(at, 2);
        for probes in 0.. {
            let Some(due) = pmtu.due() else { return probes };
            at = at.max(due);
            if pmtu.finds_black_hole(at) {
                return probes;
            }
            let nonce = 100 + u64::from(probes);
            let len = pmtu.next_probe(at, nonce, Duration::from_secs(1), false);
            assert_eq!(len, Some(pmtu.max_packet()), "of the current size");
            pmtu.on_doubtful_timeout(at, 4);
            if pmtu.current() <= real {
                assert!(pmtu.on_answer(at, nonce));
            }
        }
        unreachable!()
    }

    #[test]
    fn a_size_in_doubt_stays_if_a_probe_is_answered() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(9000);
        search(&mut pmtu, now, 9000);
        assert_eq!(doubt(&mut pmtu, now, 9000), 1);
        assert_eq!(pmtu.current(), 9000);
    }

    #[test]
    fn a_size_in_doubt_is_left_after_three_lost_probes() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(9000);
        search(&mut pmtu, now, 9000);
        assert_eq!(doubt(&mut pmtu, now, 1500), MAX_PROBES);
        assert_eq!((pmtu.current(), pmtu.due()), (1280, None));
        assert_eq!(doubt(&mut pmtu, now, 1000), MAX_PROBES);
        assert_eq!(pmtu.current(), SMALLEST, "from the base to the minimum");
        pmtu.on_doubtful_timeout(now, 2);
        let probe = pmtu.next_probe(now, 9, Duration::from_secs(1), true);
        assert_eq!(
            probe,
            Some(1280 - 28),
            "nothing is below the minimum, so nothing is in doubt"
        );
    }

    #[test]
    fn the_system_speaks_of_data_while_its_size_is_in_doubt() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(9000);
        search(&mut pmtu, now, 9000);
        pmtu.on_doubtful_timeout(now, 2);
        assert!(pmtu.next_probe(now, 7, Duration::from_secs(1), false).is_some());
        pmtu.on_too_large(now, Some(1500));
        assert_eq!((pmtu.current(), pmtu.due()), (1500, None));
        assert!(!pmtu.finds_black_hole(now));
    }

    #[test]
    fn a_probe_has_more_than_fifteen_seconds() {
        let now = Timestamp::from_millis(5);
        for (rto, wait) in [(200, 16_000), (1000, 16_000), (60_000, 60_000)] {
            let mut pmtu = pmtu(1500);
            (0..FULL_PACKETS).for_each(|_| {
                pmtu.on_full_packet(now);
            });
            let rto = Duration::from_millis(rto);
            assert!(pmtu.next_probe(now, 7, rto, true).is_some());
            assert_eq!(pmtu.due(), Some(now + Duration::from_millis(wait)));
        }
    }

    #[test]
    fn the_system_speaks_of_the_probe_while_there_is_one() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(9000);
        (0..FULL_PACKETS).for_each(|_| {
            pmtu.on_full_packet(now);
        });
        assert_eq!(
            pmtu.next_probe(now, 7, Duration::from_secs(1), true),
            Some(1400 - 28)
        );
        pmtu.on_too_large(now, None);
        assert_eq!((pmtu.current(), pmtu.due()), (1280, None));
        pmtu.on_too_large(now, None);
        assert_eq!(pmtu.current(), SMALLEST);
    }
}
