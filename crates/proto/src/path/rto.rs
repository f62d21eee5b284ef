//! The retransmission timeout of a path (RFC 9260 §6.3.1, §6.3.3 E2).

use core::time::Duration;

use crate::config::RtoConfig;

/// Smoothed round-trip time, its variation and the timeout that follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Rto {
    srtt: Option<Duration>,
    rttvar: Duration,
    current: Duration,
    min: Duration,
    max: Duration,
}

impl Rto {
    pub(crate) fn new(config: &RtoConfig) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            current: config.initial,
            min: config.min,
            max: config.max,
        }
    }

    pub(crate) fn current(&self) -> Duration {
        self.current
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(crate) fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// C2 to C7: RTO.Alpha is 1/8, RTO.Beta 1/4. Ends a back-off.
    pub(crate) fn on_sample(&mut self, rtt: Duration) {
        let srtt = match self.srtt {
            None => {
                self.rttvar = rtt / 2;
                rtt
            }
            Some(srtt) => {
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(rtt)) / 4;
                (srtt * 7 + rtt) / 8
            }
        };
        // C4 and G1: a variation of zero would make a timeout of one round trip exactly.
        let variation = self.rttvar.max(Duration::from_micros(250));
        self.srtt = Some(srtt);
        self.current = (srtt + variation * 4).clamp(self.min, self.max);
    }

    /// E2: doubles the timeout, at most to `RTO.Max`.
    pub(crate) fn back_off(&mut self) {
        self.current = (self.current * 2).min(self.max);
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
        let mut rto = Rto::new(&RtoConfig {
            initial: ms(1000),
            min: ms(10),
            max: ms(60_000),
        });
        assert_eq!(rto.current(), ms(1000));
        rto.on_sample(ms(100));
        assert_eq!(
            (rto.srtt(), rto.rttvar(), rto.current()),
            (Some(ms(100)), ms(50), ms(300))
        );
        rto.on_sample(ms(180));
        assert_eq!(rto.rttvar(), Duration::from_micros(57_500));
        assert_eq!(rto.srtt(), Some(ms(110)));
        assert_eq!(rto.current(), ms(340));
    }

    #[test]
    fn backs_off_to_the_maximum_and_recovers_with_a_sample() {
        let mut rto = Rto::new(&RtoConfig {
            initial: ms(1000),
            min: ms(1000),
            max: ms(3000),
        });
        rto.back_off();
        assert_eq!(rto.current(), ms(2000));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.current(), ms(3000));
        rto.on_sample(ms(5));
        assert_eq!(rto.current(), ms(1000));
    }
}
