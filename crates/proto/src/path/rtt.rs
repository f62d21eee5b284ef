//! The round-trip time of a path and the retransmission timeout that follows from it (RFC 9260 §6.3.1, §6.3.3 E2).
//!
//! Before the first measurement the RTT is unknown, and no default replaces it: [`Rtt::smoothed`] is `None`. A caller that has to wait for
//! about a round-trip time all the same uses [`Rtt::smoothed_or_rto`].

use core::time::Duration;

use crate::config::RtoConfig;
use crate::time::Timestamp;

/// The smoothed RTT, its variation, and the RTO.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    rttvar: Duration,
    rto: Duration,
    min: Duration,
    max: Duration,
    least: WindowedMinimum<LEAST_RTT_SECONDS>,
    /// Chunks sent before this time give no RTT sample: one sample each round trip (§6.3.1 C4).
    measured_until: Timestamp,
}

impl Rtt {
    pub(crate) fn new(config: &RtoConfig) -> Self {
        Self {
            smoothed: None,
            rttvar: Duration::ZERO,
            rto: config.initial,
            min: config.min,
            max: config.max,
            least: WindowedMinimum::default(),
            measured_until: Timestamp::ZERO,
        }
    }

    /// The bounds of the timeout change. A timeout that nothing was measured for begins anew.
    pub(crate) fn set_bounds(&mut self, config: &RtoConfig) {
        (self.min, self.max) = (config.min, config.max);
        self.rto = match self.smoothed {
            None => config.initial,
            Some(_) => self.unbounded_rto().clamp(self.min, self.max),
        };
    }

    /// The retransmission timeout, back-off included.
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }

    /// The RTO as measured, without its bounds and back-off; before the first measurement the RTO itself.
    pub(crate) fn unbounded_rto(&self) -> Duration {
        // C4 and G1: with a variation of zero the timeout would be exactly one round-trip time.
        let variation = self.rttvar.max(Duration::from_micros(250));
        self.smoothed
            .map_or(self.rto, |smoothed| smoothed + variation * 4)
    }

    /// The smoothed round-trip time; `None` while it is unknown.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The smoothed round-trip time, or the longer RTO while it is unknown.
    pub(crate) fn smoothed_or_rto(&self) -> Duration {
        self.smoothed.unwrap_or(self.rto)
    }

    /// The minimum RTT of the last minutes; `None` before the first measurement.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.least.get()
    }

    /// A chunk that was sent only once (Karn's algorithm, C5), at `sent_at`, is acknowledged.
    pub(crate) fn on_acknowledged(&mut self, now: Timestamp, sent_at: Timestamp) {
        self.least.on_sample(now, now.saturating_duration_since(sent_at));
        if sent_at >= self.measured_until {
            self.on_sample(now.saturating_duration_since(sent_at));
            self.measured_until = now;
        }
    }

    pub(crate) fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// C2 to C7: RTO.Alpha is 1/8, RTO.Beta 1/4. Ends the back-off.
    pub(crate) fn on_sample(&mut self, rtt: Duration) {
        let srtt = match self.smoothed {
            None => {
                self.rttvar = rtt / 2;
                rtt
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(rtt)) / 4;
                (srtt * 7 + rtt) / 8
            }
        };
        self.smoothed = Some(srtt);
        self.rto = self.unbounded_rto().clamp(self.min, self.max);
    }

    /// E2: doubles the timeout, at most to `RTO.Max`.
    pub(crate) fn back_off(&mut self) {
        self.rto = (self.rto * 2).min(self.max);
    }
}

/// The window of the least RTT: RFC 8985 §6.2 step 1 asks for a windowed minimum, so that a higher RTT of the path is noticed.
pub(crate) const LEAST_RTT_SECONDS: u64 = 150;

/// The minimum of a window of so many seconds to twice that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowedMinimum<const SECONDS: u64> {
    /// The minimum in this period, and in the period before.
    current: Option<Duration>,
    before: Option<Duration>,
    /// When this period ends.
    ends: Timestamp,
}

impl<const SECONDS: u64> WindowedMinimum<SECONDS> {
    pub(crate) fn on_sample(&mut self, now: Timestamp, sample: Duration) {
        if now >= self.ends {
            self.before = self.current.take();
            self.ends = now + Duration::from_secs(SECONDS);
        }
        if self.current.is_none_or(|least| sample < least) {
            self.current = Some(sample);
        }
    }

    pub(crate) fn get(&self) -> Option<Duration> {
        match (self.current, self.before) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn follows_the_rfc_formulae() {
        let mut rtt = Rtt::new(&RtoConfig {
            initial: ms(1000),
            min: ms(10),
            max: ms(60_000),
        });
        assert_eq!(rtt.rto(), ms(1000));
        rtt.on_sample(ms(100));
        assert_eq!(
            (rtt.smoothed(), rtt.rttvar(), rtt.rto()),
            (Some(ms(100)), ms(50), ms(300))
        );
        rtt.on_sample(ms(180));
        assert_eq!(rtt.rttvar(), Duration::from_micros(57_500));
        assert_eq!(rtt.smoothed(), Some(ms(110)));
        assert_eq!(rtt.rto(), ms(340));
    }

    #[test]
    fn the_least_rtt_is_forgotten_after_minutes() {
        let mut rtt = Rtt::new(&crate::config::Config::default().rto);
        let sample = |rtt: &mut Rtt, second: u64, millis: u64| {
            let now = Timestamp::from_millis(1000 * second);
            rtt.on_acknowledged(now + ms(millis), now);
            rtt.min()
        };
        assert_eq!(rtt.min(), None);
        assert_eq!(sample(&mut rtt, 0, 40), Some(ms(40)));
        assert_eq!(sample(&mut rtt, 1, 50), Some(ms(40)));
        assert_eq!(sample(&mut rtt, 151, 60), Some(ms(40)), "of the period before");
        assert_eq!(sample(&mut rtt, 302, 70), Some(ms(60)));
    }

    #[test]
    fn backs_off_to_the_maximum_and_recovers_with_a_sample() {
        let mut rtt = Rtt::new(&RtoConfig {
            initial: ms(1000),
            min: ms(1000),
            max: ms(3000),
        });
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(2000));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(3000));
        rtt.on_sample(ms(5));
        assert_eq!(rtt.rto(), ms(1000));
    }
}
