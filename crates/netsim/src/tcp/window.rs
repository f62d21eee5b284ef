//! The congestion window (RFC 5681 §3.1, §4.1; RFC 9438 with CUBIC), in bytes.

use core::time::Duration;

use anabranch_proto::Timestamp;

use super::config::{TcpConfig, TcpCongestionControl};
use super::cubic::{Acked, Cubic};
use super::hystart::HyStart;

/// The congestion window and the slow start threshold.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Bytes that may be outstanding.
    pub(super) size: u64,
    /// Slow start threshold in bytes.
    pub(super) ssthresh: u64,
    /// Acknowledged bytes that count towards the next growth, with byte counting.
    credit: u64,
    mss: u64,
    initial: u64,
    byte_counting: bool,
    cubic: Option<Cubic>,
    /// Fraction of a byte by which CUBIC's window is larger than `size`.
    fraction: f64,
    /// Set during the first slow start, if HyStart++ is on.
    hystart: Option<HyStart>,
}

impl Window {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let mss = config.segment_len();
        let initial = mss * u64::from(config.initial_window.max(1));
        Self {
            size: initial,
            ssthresh: config.initial_ssthresh,
            credit: 0,
            mss,
            initial,
            byte_counting: config.byte_counting,
            cubic: (config.congestion_control == TcpCongestionControl::Cubic).then(|| Cubic::new(config)),
            fraction: 0.0,
            hystart: config.hystart.then(HyStart::default),
        }
    }

    /// A segment is sent for the first time; `end` is the sequence number after its last byte.
    pub(super) fn handle_sent(&mut self, now: Timestamp, end: u64) {
        if let Some(hystart) = &mut self.hystart {
            hystart.handle_sent(now, end);
        }
    }

    /// All data below `ack` is acknowledged, and `next` is the next sequence number to send: HyStart++ measures the round-trip time.
    pub(super) fn handle_ack(&mut self, now: Timestamp, ack: u64, next: u64) {
        let hystart = self.hystart.as_mut();
        if hystart.is_some_and(|hystart| hystart.handle_ack(now, ack, next)) {
            self.ssthresh = self.size;
        }
        if self.size >= self.ssthresh {
            self.hystart = None;
        }
    }

    /// The window is not used: this time does not count for CUBIC.
    pub(super) fn pause(&mut self, now: Timestamp) {
        if let Some(cubic) = &mut self.cubic {
            cubic.pause(now);
        }
    }

    /// Grows after an acknowledgement of `acked` new bytes, if the window is used.
    pub(super) fn grow(&mut self, now: Timestamp, acked: u64, round_trip: Duration) {
        let mss = self.mss;
        if let (Some(hystart), true) = (&self.hystart, self.size < self.ssthresh) {
            self.size += hystart.growth(acked, mss);
        } else if self.size < self.ssthresh {
            self.size += acked.min(if self.byte_counting { 2 * mss } else { mss });
        } else if let Some(cubic) = &mut self.cubic {
            let acked = Acked {
                now,
                segments: acked as f64 / mss as f64,
                round_trip,
                counts_segments: self.byte_counting,
            };
            let cwnd = (self.size as f64 + self.fraction) / mss as f64;
            let bytes = cubic.grow(cwnd, acked) * mss as f64;
            self.size = bytes as u64;
            self.fraction = bytes.fract();
        } else if !self.byte_counting {
            self.size += (mss * mss / self.size).max(1);
        } else {
            self.credit += acked;
            if self.credit >= self.size {
                self.credit -= self.size;
                self.size += mss;
            }
        }
    }

    /// Handles a loss with `flight` bytes outstanding: the slow start threshold becomes half of `flight` (RFC 5681 equation 4), or seven
    /// tenths with CUBIC.
    pub(super) fn lose(&mut self, flight: u64) {
        let mss = self.mss as f64;
        self.ssthresh = match &mut self.cubic {
            Some(cubic) => (cubic.lose(self.size as f64 / mss, flight as f64 / mss) * mss) as u64,
            None => (flight / 2).max(2 * self.mss),
        };
        self.end_growth();
    }

    /// The window is about to change for a reason other than an acknowledgement.
    fn end_growth(&mut self) {
        self.credit = 0;
        self.fraction = 0.0;
        self.hystart = None;
    }

    /// One segment, after a timeout (§3.1).
    pub(super) fn collapse(&mut self) {
        self.size = self.mss;
        self.end_growth();
        if let Some(cubic) = &mut self.cubic {
            cubic.time_out();
        }
    }

    /// Nothing was sent for the length of a retransmission timeout (§4.1).
    pub(super) fn restart(&mut self) {
        self.size = self.size.min(self.initial);
        self.end_growth();
        if let Some(cubic) = &mut self.cubic {
            cubic.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::ZERO;
    const RTT: Duration = Duration::from_millis(100);

    fn window(byte_counting: bool) -> Window {
        Window::new(&TcpConfig {
            mss: 1000,
            byte_counting,
            ..TcpConfig::default()
        })
    }

    #[test]
    fn slow_start_adds_a_segment_an_acknowledgement_or_two_where_bytes_count() {
        let mut by_acks = window(false);
        by_acks.grow(NOW, 2000, RTT);
        by_acks.grow(NOW, 500, RTT);
        assert_eq!(by_acks.size, 3000 + 1000 + 500);
        let mut by_bytes = window(true);
        by_bytes.grow(NOW, 2000, RTT);
        by_bytes.grow(NOW, 9000, RTT);
        assert_eq!(by_bytes.size, 3000 + 2000 + 2000);
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_a_window() {
        for (byte_counting, acked) in [(true, 2000), (false, 1000)] {
            let mut window = window(byte_counting);
            window.lose(20_000);
            window.size = window.ssthresh;
            for _ in 0..10_000 / acked {
                window.grow(NOW, acked, RTT);
            }
            // The growth per acknowledgement is slightly less, because the window grows meanwhile.
            assert!((10_950..=11_000).contains(&window.size), "{}", window.size);
        }
    }

    #[test]
    fn losses_halve_what_was_outstanding_down_to_two_segments() {
        let mut window = window(false);
        window.lose(9000);
        assert_eq!(window.ssthresh, 4500);
        window.lose(1000);
        assert_eq!(window.ssthresh, 2000);
        window.collapse();
        assert_eq!(window.size, 1000);
        window.size = 50_000;
        window.restart();
        assert_eq!(window.size, 3000);
    }

    #[test]
    fn cubic_reduces_by_three_tenths_and_grows_in_bytes() {
        let mut window = Window::new(&TcpConfig {
            mss: 1000,
            byte_counting: true,
            ..TcpConfig::default().with_cubic()
        });
        window.size = 100_000;
        window.lose(100_000);
        window.size = window.ssthresh;
        assert_eq!(window.size, 70_000);
        let mut now = Timestamp::from_millis(1000);
        for _ in 0..1000 {
            now += RTT / 35;
            window.grow(now, 2000, RTT);
        }
        // After 2.86 s: 0.4 (2.86 - 4.217)^3 + 100 segments.
        assert!((98_800..99_600).contains(&window.size), "{}", window.size);
        window.lose(1000);
        assert_eq!(window.ssthresh, 2000);
        window.collapse();
        assert_eq!(window.size, 1000);
    }

    #[test]
    fn the_end_of_hystart_is_the_threshold() {
        let mut window = Window::new(&TcpConfig {
            mss: 1000,
            ..TcpConfig::default().with_cubic()
        });
        let (mut end, mut now) = (0, 0);
        // Each round-trip time is 20 ms longer than the one before.
        for round in 0..10_u64 {
            let first = end;
            for _ in 0..10 {
                end += 1000;
                window.handle_sent(Timestamp::from_millis(now), end);
            }
            now += 100 + 20 * round;
            for segment in 1..=10 {
                if window.size < window.ssthresh {
                    window.grow(Timestamp::from_millis(now), 1000, RTT);
                }
                // Before the last acknowledgement of this round comes, the segments of the next round have been sent.
                let next = if segment == 10 { end + 10_000 } else { end };
                window.handle_ack(Timestamp::from_millis(now), first + segment * 1000, next);
            }
        }
        // 3 segments; two rounds of slow start, up to the eighth measurement of the second round; then a quarter of this growth, up to the
        // end of the fifth round of CSS.
        assert_eq!(window.size, 3000 + 18_000 + 42 * 250);
        assert_eq!(window.ssthresh, window.size);
        assert!(window.hystart.is_none());
    }
}
