//! The path's MTU, what fits a packet of it (RFC 9260 §7.3, PMDCS and AMDCS of §1.6), and the search for a larger one
//! (RFC 8899; §6.2 there for SCTP). The search sends probes and is told what became of them; data never waits for it.

use core::time::Duration;

use anabranch_wire::packet::COMMON_HEADER_LEN;

use crate::config::Config;
use crate::time::Timestamp;

const IPV4_HEADER_LEN: u16 = 20;
const IPV6_HEADER_LEN: u16 = 40;
const UDP_HEADER_LEN: u16 = 8;

/// The least that IPv4 hosts must take (RFC 791), and so the least a report of the network is believed.
const SMALLEST: u16 = 576;

/// Sizes worth a probe, in order: tunnels of all kinds, Ethernet, jumbo frames, and the largest IP packet.
const SIZES: [u16; 14] = [
    1280, 1400, 1420, 1440, 1464, 1480, 1492, 1500, 2304, 4352, 9000, 16_384, 32_768, 65_535,
];

/// `MAX_PROBES` (RFC 8899 §5.1.2): probes of one size, unanswered, after which it is taken for too large.
const MAX_PROBES: u8 = 3;

/// `PMTU_RAISE_TIMER` (RFC 8899 §5.1.1): after this a size that was too large is tried again.
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// Packets of the full size that must leave before a search begins: without them a larger size is of no use.
const FULL_PACKETS: u8 = 4;

/// Timeouts of data in a row after which large packets are suspected to vanish (RFC 8899 §4.3).
const BLACK_HOLE_TIMEOUTS: u32 = 2;

/// The largest IP packet of a path, and the headers below SCTP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pmtu {
    mtu: u16,
    below: u16,
    /// `BASE_PLPMTU` and `MAX_PLPMTU` (RFC 8899 §5.1.2).
    base: u16,
    limit: u16,
    /// Sizes from here on were too large, until that time.
    ceiling: Option<(u16, Timestamp)>,
    probe: Option<Probe>,
    /// When the search goes on: a probe leaves then, or the one under way counts as lost.
    due: Option<Timestamp>,
    full_packets: u8,
}

/// A probe under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    nonce: u64,
    sent: u8,
}

impl Pmtu {
    pub(crate) fn new(config: &Config, ipv6: bool) -> Self {
        let ip = if ipv6 { IPV6_HEADER_LEN } else { IPV4_HEADER_LEN };
        let below = ip
            + if config.udp_encapsulation {
                UDP_HEADER_LEN
            } else {
                0
            };
        Self {
            mtu: config.path_mtu,
            below,
            base: config.path_mtu,
            limit: config.path_mtu_limit,
            ceiling: None,
            probe: None,
            due: None,
            full_packets: 0,
        }
    }

    pub(crate) fn current(self) -> u16 {
        self.mtu
    }

    /// The largest SCTP packet, a multiple of 4.
    pub(crate) fn max_packet(self) -> usize {
        self.packet_len(self.mtu)
    }

    /// PMDCS: the largest DATA chunk, its header included.
    pub(crate) fn max_data(self) -> usize {
        self.max_packet() - COMMON_HEADER_LEN
    }

    fn packet_len(self, mtu: u16) -> usize {
        usize::from(mtu - self.below) & !3
    }
}

/// The search.
impl Pmtu {
    /// When [`Pmtu::next_probe`] is to be asked.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Whether [`Pmtu::on_full_packet`] wants to be told: there is a larger size to search for, and no search yet.
    pub(crate) fn counts_full_packets(&self) -> bool {
        self.due.is_none() && self.probe.is_none() && self.mtu < self.limit
    }

    /// A packet left which the next chunk no longer fitted: enough of them begin the search.
    pub(crate) fn on_full_packet(&mut self, now: Timestamp) {
        if !self.counts_full_packets() {
            return;
        }
        self.full_packets = self.full_packets.saturating_add(1);
        if self.full_packets >= FULL_PACKETS && self.next_size(now).is_some() {
            self.due = Some(now);
        }
    }

    /// The size that comes next.
    fn next_size(&mut self, now: Timestamp) -> Option<u16> {
        self.ceiling = self.ceiling.filter(|(_, until)| now < *until);
        let below = self
            .ceiling
            .map_or(u16::MAX, |(size, _)| size - 1)
            .min(self.limit);
        let sizes = SIZES.into_iter().chain([self.limit]);
        sizes.filter(|size| *size > self.mtu && *size <= below).min()
    }

    /// The search is due at `now`: the length of the SCTP packet to probe with, if one is to be sent, marked with
    /// `nonce`. Without an answer it counts as lost after `patience`.
    pub(crate) fn next_probe(&mut self, now: Timestamp, nonce: u64, patience: Duration) -> Option<usize> {
        let sent = match self.probe.take() {
            Some(lost) if lost.sent >= MAX_PROBES => {
                self.give_up(now, lost.size);
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
        self.due = Some(now + patience);
        Some(self.packet_len(size))
    }

    /// A size is too large for now.
    fn give_up(&mut self, now: Timestamp, size: u16) {
        self.probe = None;
        self.due = None;
        self.full_packets = 0;
        self.ceiling = Some((size, now + RAISE_AFTER));
    }

    /// A probe with this nonce was answered; true if it is the one under way, and the path so large now.
    pub(crate) fn on_answer(&mut self, now: Timestamp, nonce: u64) -> bool {
        let Some(probe) = self.probe.take_if(|probe| probe.nonce == nonce) else {
            return false;
        };
        self.mtu = probe.size;
        self.due = self.next_size(now).map(|_| now);
        true
    }

    /// This side's system said that a packet was too large, and perhaps what would fit. While a probe is under way it
    /// speaks of that.
    pub(crate) fn on_too_large(&mut self, now: Timestamp, mtu: Option<u16>) {
        if let Some(probe) = self.probe {
            self.give_up(now, probe.size);
            self.due = self.next_size(now).map(|_| now);
            return;
        }
        let guess = if self.mtu > self.base { self.base } else { SMALLEST };
        let told = mtu.filter(|mtu| *mtu >= SMALLEST).unwrap_or(guess);
        self.shrink(now, told);
    }

    /// Data timed out, for the `in_a_row`th time; true if large packets seem to vanish: the size is the base again.
    pub(crate) fn on_timeout(&mut self, now: Timestamp, in_a_row: u32) -> bool {
        let suspect = in_a_row >= BLACK_HOLE_TIMEOUTS && self.mtu > self.base;
        if suspect {
            self.shrink(now, self.base);
        }
        suspect
    }

    fn shrink(&mut self, now: Timestamp, to: u16) {
        if to < self.mtu {
            let was = self.mtu;
            self.mtu = to;
            self.give_up(now, was);
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

    /// Searches on a path of `real` bytes; answers how many probes it took.
    fn search(pmtu: &mut Pmtu, now: Timestamp, real: u16) -> u32 {
        (0..FULL_PACKETS).for_each(|_| pmtu.on_full_packet(now));
        let mut probes = 0;
        let mut at = now;
        while let Some(due) = pmtu.due() {
            at = at.max(due);
            let Some(len) = pmtu.next_probe(at, probes.into(), Duration::from_secs(1)) else {
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
        (1..FULL_PACKETS).for_each(|_| pmtu.on_full_packet(Timestamp::ZERO));
        assert_eq!(pmtu.due(), None);
    }

    #[test]
    fn what_was_too_large_is_tried_again_much_later() {
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
        assert!(!pmtu.on_timeout(now, 3), "there is nothing below the base");
    }

    #[test]
    fn the_system_speaks_of_the_probe_while_there_is_one() {
        let now = Timestamp::from_millis(5);
        let mut pmtu = pmtu(9000);
        (0..FULL_PACKETS).for_each(|_| pmtu.on_full_packet(now));
        assert_eq!(pmtu.next_probe(now, 7, Duration::from_secs(1)), Some(1400 - 28));
        pmtu.on_too_large(now, None);
        assert_eq!((pmtu.current(), pmtu.due()), (1280, None));
        pmtu.on_too_large(now, None);
        assert_eq!(pmtu.current(), SMALLEST);
    }
}
