//! The congestion window (RFC 5681 §3.1, §4.1), in bytes.

use super::config::TcpConfig;

/// The window and where its slow start ends.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Bytes that may be outstanding.
    pub(super) size: u64,
    /// Where slow start ends.
    pub(super) ssthresh: u64,
    /// Bytes acknowledged towards the next growth, if bytes are counted.
    credit: u64,
    mss: u64,
    initial: u64,
    byte_counting: bool,
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
        }
    }

    /// Grows by an acknowledgement of so many new bytes.
    pub(super) fn grow(&mut self, acked: u64) {
        let mss = self.mss;
        if self.size < self.ssthresh {
            self.size += acked.min(if self.byte_counting { 2 * mss } else { mss });
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

    /// Something of `flight` bytes was lost: half of it is where slow start ends (equation 4).
    pub(super) fn lose(&mut self, flight: u64) {
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.credit = 0;
    }

    /// One segment, after a timeout (§3.1).
    pub(super) fn collapse(&mut self) {
        self.size = self.mss;
        self.credit = 0;
    }

    /// Nothing was sent for a timeout's length (§4.1).
    pub(super) fn restart(&mut self) {
        self.size = self.size.min(self.initial);
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        by_acks.grow(2000);
        by_acks.grow(500);
        assert_eq!(by_acks.size, 3000 + 1000 + 500);
        let mut by_bytes = window(true);
        by_bytes.grow(2000);
        by_bytes.grow(9000);
        assert_eq!(by_bytes.size, 3000 + 2000 + 2000);
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_a_window() {
        for (byte_counting, acked) in [(true, 2000), (false, 1000)] {
            let mut window = window(byte_counting);
            window.lose(20_000);
            window.size = window.ssthresh;
            for _ in 0..10_000 / acked {
                window.grow(acked);
            }
            // Per acknowledgement it is a little less, because the window grows meanwhile.
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
}
