//! HyStart++ (RFC 9406): ends the first slow start when the RTT rises, before the queue of the bottleneck overflows.
//!
//! Slow start turns into conservative slow start (CSS), which grows by a quarter. After five round trips in CSS, slow start ends. If
//! the RTT falls below the RTT that began CSS, slow start resumes.
//!
//! Deviation: if a sender does not use its window, it does not enter CSS, and round trips in CSS that begin meanwhile do not count.
//! RFC 9406 §4.3 lets such a sender oscillate between both phases; with many samples in a round trip that could end slow start with a
//! small window.

use core::time::Duration;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// The state of HyStart++ for one path.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct HyStart {
    /// `None` in standard slow start.
    css: Option<Conservative>,
    /// The least RTT of the last round trip, if one was measured.
    last_round: Option<Duration>,
    this_round: Option<Duration>,
    /// RTT samples of this round trip.
    samples: u32,
}

/// Conservative slow start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Conservative {
    /// The minimum RTT of the round trip in which CSS began.
    baseline: Duration,
    /// Round trips that ended in CSS, including the one in which it began.
    rounds: u32,
}

impl HyStart {
    /// A round trip begins; `used` if the sender uses its window. Returns whether slow start ends.
    pub(super) fn on_round(&mut self, used: bool) -> bool {
        self.last_round = self.this_round.take();
        self.samples = 0;
        let Some(css) = &mut self.css else {
            return false;
        };
        css.rounds += u32::from(used);
        css.rounds >= CSS_ROUNDS
    }

    /// The divisor of the bytes acknowledged, by which the window then grows.
    #[inline]
    pub(super) fn divisor(&self) -> f64 {
        match self.css {
            Some(_) => CSS_GROWTH_DIVISOR,
            None => 1.0,
        }
    }

    /// An acknowledgement measured the RTT; `used` if the sender uses its window.
    pub(super) fn on_rtt(&mut self, rtt: Duration, used: bool) {
        let least = self.this_round.map_or(rtt, |least| least.min(rtt));
        self.this_round = Some(least);
        self.samples = self.samples.saturating_add(1);
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match (self.css, self.last_round) {
            (Some(css), _) if least < css.baseline => self.css = None,
            (None, Some(last)) if used && least >= last.saturating_add(threshold(last)) => {
                self.css = Some(Conservative {
                    baseline: least,
                    rounds: 0,
                });
            }
            _ => {}
        }
    }
}

/// How much the RTT must rise to end standard slow start.
fn threshold(last_round: Duration) -> Duration {
    (last_round / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A round trip with eight samples.
    fn round(hystart: &mut HyStart, rtt: Duration) -> bool {
        let over = hystart.on_round(true);
        for _ in 0..8 {
            hystart.on_rtt(rtt, true);
        }
        over
    }

    fn conservative(hystart: &HyStart) -> bool {
        hystart.divisor() > 1.0
    }

    #[test]
    fn an_eighth_of_the_rtt_within_4_and_16_ms_begins_conservative_slow_start() {
        let micros = Duration::from_micros;
        let cases = [
            (8000, 4000),
            (32_000, 4000),
            (40_000, 5000),
            (100_000, 12_500),
            (128_000, 16_000),
            (400_000, 16_000),
        ];
        for (last, rise) in cases {
            for (rise, begins) in [(rise - 1, false), (rise, true)] {
                let mut hystart = HyStart::default();
                round(&mut hystart, micros(last));
                round(&mut hystart, micros(last + rise));
                assert_eq!(conservative(&hystart), begins, "{last} µs, {rise} µs more");
            }
        }
    }

    #[test]
    fn it_takes_eight_samples() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40));
        hystart.on_round(true);
        for _ in 0..7 {
            hystart.on_rtt(ms(60), true);
        }
        assert!(!conservative(&hystart));
        hystart.on_rtt(ms(60), true);
        assert!(conservative(&hystart));
    }

    #[test]
    fn it_takes_the_least_rtt_and_a_round_trip_before() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(100));
        assert!(!conservative(&hystart), "nothing to compare with");
        hystart.on_round(true);
        hystart.on_rtt(ms(105), true);
        for _ in 0..20 {
            hystart.on_rtt(ms(200), true);
        }
        assert!(!conservative(&hystart), "the least RTT rose by 5 ms");
    }

    #[test]
    fn five_round_trips_end_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40));
        assert!(!round(&mut hystart, ms(50)));
        assert!(conservative(&hystart));
        for _ in 0..4 {
            assert!(!round(&mut hystart, ms(50)));
        }
        assert!(hystart.on_round(true), "the one in which it began counts");
    }

    #[test]
    fn a_lower_rtt_resumes_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40));
        round(&mut hystart, ms(50));
        round(&mut hystart, ms(50));
        assert!(conservative(&hystart));
        hystart.on_round(true);
        for _ in 0..7 {
            hystart.on_rtt(ms(49), true);
        }
        assert!(conservative(&hystart), "seven samples are too few");
        hystart.on_rtt(ms(49), true);
        assert!(!conservative(&hystart));
        // The last round trip is 49 ms now: 6.125 ms more are needed.
        round(&mut hystart, ms(55));
        assert!(!conservative(&hystart));
        round(&mut hystart, ms(62));
        assert!(conservative(&hystart));
        for _ in 0..4 {
            assert!(!round(&mut hystart, ms(62)), "the count begins anew");
        }
    }

    #[test]
    fn an_unused_window_ends_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40));
        hystart.on_round(false);
        for _ in 0..20 {
            hystart.on_rtt(ms(80), false);
        }
        assert!(!conservative(&hystart));
        let mut hystart = HyStart::default();
        round(&mut hystart, ms(40));
        round(&mut hystart, ms(80));
        for _ in 0..20 {
            assert!(!hystart.on_round(false));
        }
        assert!(conservative(&hystart));
    }
}
