//! The retransmission timeout (RFC 6298).

use core::time::Duration;

use super::config::TcpConfig;

/// Timeout before the first measurement (§2.1).
const INITIAL: Duration = Duration::from_secs(1);
/// Timeout if the SYN had to be retransmitted (§5.7).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// The clock's granularity (§2.2): one tick of the timestamps.
const GRANULARITY: Duration = Duration::from_millis(1);

/// The smoothed round-trip time, and the timeout computed from it.
#[derive(Clone, Debug)]
pub(super) struct Rto {
    smoothed: Option<Duration>,
    variation: Duration,
    /// The timeout without bounds and backoff.
    timeout: Duration,
    /// Consecutive timeouts; each doubles the timeout (§5.5).
    backoff: u32,
    min: Duration,
    max: Duration,
}

impl Rto {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            timeout: INITIAL,
            backoff: 0,
            min: config.min_rto,
            max: config.max_rto.max(config.min_rto),
        }
    }

    /// Adds a measurement (§2.2, §2.3), which also ends the backoff.
    pub(super) fn measure(&mut self, round_trip: Duration) {
        let smoothed = match self.smoothed {
            None => {
                self.variation = round_trip / 2;
                round_trip
            }
            Some(smoothed) => {
                self.variation = self.variation * 3 / 4 + smoothed.abs_diff(round_trip) / 4;
                smoothed * 7 / 8 + round_trip / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.timeout = smoothed + GRANULARITY.max(self.variation * 4);
        self.backoff = 0;
    }

    /// The timer has expired (§5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Data is sent for the first time after a SYN that was retransmitted, so that it gave no measurement.
    pub(super) fn begin_after_lost_syn(&mut self) {
        self.timeout = AFTER_LOST_SYN;
        self.backoff = 0;
    }

    /// The smoothed round-trip time; `None` before the first measurement.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The timeout.
    pub(super) fn timeout(&self) -> Duration {
        let base = self.timeout.clamp(self.min, self.max);
        base.saturating_mul(1_u32.checked_shl(self.backoff).unwrap_or(u32::MAX))
            .min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn measurements_give_the_timeout_of_section_2() {
        let config = TcpConfig {
            min_rto: 10 * MS,
            ..TcpConfig::default()
        };
        let mut rto = Rto::new(&config);
        assert_eq!(rto.timeout(), 1000 * MS);
        rto.measure(100 * MS);
        assert_eq!(rto.timeout(), 300 * MS, "SRTT + 4 * SRTT / 2");
        rto.measure(180 * MS);
        assert_eq!(rto.smoothed(), Some(110 * MS));
        // The variation is 3/4 of 50 ms plus 1/4 of 80 ms.
        assert_eq!(rto.timeout(), 110 * MS + 4 * Duration::from_micros(57_500));
    }

    #[test]
    fn the_bounds_hold_and_backoff_doubles_until_a_measurement() {
        let mut rto = Rto::new(&TcpConfig::default());
        rto.measure(10 * MS);
        assert_eq!(rto.timeout(), 1000 * MS);
        rto.back_off();
        assert_eq!(rto.timeout(), 2000 * MS);
        for _ in 0..40 {
            rto.back_off();
        }
        assert_eq!(rto.timeout(), 60_000 * MS);
        rto.measure(10 * MS);
        assert_eq!(rto.timeout(), 1000 * MS);
    }
}
