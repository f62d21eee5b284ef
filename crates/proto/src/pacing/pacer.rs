//! The pacer, a token bucket: packets leave at the rate that the congestion controller gives, in batches of its quantum.
//!
//! A batch may be as long as the quantum, so that segmentation offload can be used. Then nothing leaves until there are tokens for
//! another batch. Tokens accumulate while a timer is late, but not during a pause.

use core::time::Duration;

use crate::controller::Pace;
use crate::time::Timestamp;

/// How late a timer may be without lowering the rate.
const LATENESS: Duration = Duration::from_millis(2);

/// The tokens of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes that may leave; negative if the last batch was longer than allowed.
    tokens: f64,
    /// When `tokens` was last updated; `None` before the first packet.
    counted: Option<Timestamp>,
    /// A batch is complete: nothing leaves until there are tokens for the next one.
    rests: bool,
}

impl Pacer {
    fn tokens(&self, now: Timestamp, pace: &Pace) -> f64 {
        let most = pace.quantum as f64 + pace.rate * LATENESS.as_secs_f64();
        match self.counted {
            None => most,
            Some(at) => {
                let elapsed = now.saturating_duration_since(at).as_secs_f64();
                (self.tokens + pace.rate * elapsed).min(most)
            }
        }
    }

    /// Whether the next packet may have to wait: otherwise it need not be asked at which rate.
    #[inline(always)]
    pub(crate) fn rests(&self) -> bool {
        self.rests
    }

    /// When the next packet may leave, if not now.
    pub(crate) fn waits_until(&self, now: Timestamp, pace: &Pace) -> Option<Timestamp> {
        let tokens = self.tokens(now, pace);
        // Less than a byte may be missing because of rounding in the last wait.
        if !self.rests || tokens > pace.quantum as f64 - 1.0 {
            return None;
        }
        let seconds = (pace.quantum as f64 - tokens) / pace.rate.max(1.0);
        let nanos = (seconds * 1e9).ceil().clamp(1.0, 60e9);
        Some(now + Duration::from_nanos(nanos as u64))
    }

    /// A packet of `bytes` left. `pace` is asked for the first packet at each time only: the others of a batch need no new tokens.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Timestamp, bytes: usize, pace: impl FnOnce() -> Option<Pace>) {
        if self.counted != Some(now) {
            let Some(pace) = pace() else {
                return;
            };
            self.tokens = self.tokens(now, &pace);
            self.counted = Some(now);
        }
        self.tokens -= bytes as f64;
        self.rests = self.tokens < 1.0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any packets and calls: in no interval leaves more than the rate gives in it, plus a batch, the tokens of a late timer and a
        /// packet. If the pacer names a time, it is in the future, and a packet may leave then.
        #[test]
        fn no_interval_has_more_than_its_share(
            rate in 1e3_f64..1e9,
            quantum in 1_usize..100_000,
            packets in vec((1_usize..9000, 0_u64..3_000_000), 1..100),
        ) {
            let pace = Pace { rate, quantum };
            let (mut pacer, mut now) = (Pacer::default(), Timestamp::from_millis(1));
            let mut sent: Vec<(Timestamp, usize)> = Vec::new();
            for (bytes, nanos) in packets {
                now += Duration::from_nanos(nanos);
                if let Some(next) = pacer.waits_until(now, &pace) {
                    prop_assert!(next > now);
                    if nanos % 2 == 0 {
                        continue;
                    }
                    // A minute is the longest wait; the rest is waited for in another step.
                    now = next;
                    while let Some(next) = pacer.waits_until(now, &pace) {
                        prop_assert!(next.saturating_duration_since(now) > Duration::from_nanos(1));
                        now = next;
                    }
                }
                pacer.on_sent(now, bytes, || Some(pace));
                sent.push((now, bytes));
            }
            for (first, (from, _)) in sent.iter().enumerate() {
                let mut sum = 0;
                for (until, bytes) in &sent[first..] {
                    sum += bytes;
                    let time = until.saturating_duration_since(*from) + LATENESS;
                    let earned = rate * time.as_secs_f64() + quantum as f64;
                    prop_assert!(sum as f64 <= earned + *bytes as f64 + 2.0, "{} of {}", sum, earned);
                }
            }
        }
    }

    /// Sends packets of 1,000 bytes for a second, and polls late by this time; returns the bytes sent and the longest batch.
    fn run(pace: &Pace, late: Duration) -> (usize, usize) {
        let (mut pacer, mut now) = (Pacer::default(), Timestamp::ZERO);
        let (mut sent, mut longest) = (0, 0);
        while now < Timestamp::from_millis(1000) {
            let mut batch = 0;
            let next = loop {
                match pacer.waits_until(now, pace) {
                    Some(next) => break next,
                    None => {
                        pacer.on_sent(now, 1000, || Some(*pace));
                        batch += 1000;
                    }
                }
            };
            (sent, longest) = (sent + batch, longest.max(batch));
            now = next + late;
        }
        (sent, longest)
    }

    #[test]
    fn the_rate_is_kept_even_if_timers_are_late() {
        for (rate, quantum) in [(50e3, 1000), (1e6, 2000), (125e6, 64_000)] {
            let pace = Pace { rate, quantum };
            let (sent, longest) = run(&pace, Duration::ZERO);
            let most = quantum as f64 + rate * LATENESS.as_secs_f64();
            assert!((sent as f64 - rate).abs() <= most + 1000.0, "{rate}: {sent}");
            assert!(longest as f64 <= most + 1000.0, "{rate}: {longest}");
            let (late, _) = run(&pace, Duration::from_millis(1));
            assert!(late as f64 >= 0.95 * rate, "{rate}: {late}");
        }
    }

    #[test]
    fn a_batch_is_followed_by_a_rest() {
        let pace = Pace {
            rate: 1e6,
            quantum: 10_000,
        };
        let mut pacer = Pacer::default();
        for _ in 0..12 {
            pacer.on_sent(Timestamp::ZERO, 1000, || Some(pace));
        }
        let next = pacer.waits_until(Timestamp::ZERO, &pace);
        assert_eq!(next, Some(Timestamp::from_millis(10)));
        assert!(pacer.waits_until(Timestamp::from_millis(5), &pace).is_some());
        assert_eq!(pacer.waits_until(Timestamp::from_millis(10), &pace), None);
    }

    #[test]
    fn a_pause_earns_no_more_than_a_batch_and_two_milliseconds() {
        let pace = Pace {
            rate: 50e3,
            quantum: 1000,
        };
        let mut pacer = Pacer::default();
        pacer.on_sent(Timestamp::ZERO, 1000, || Some(pace));
        let later = Timestamp::from_millis(60_000);
        assert!((pacer.tokens(later, &pace) - 1100.0).abs() < 1.0);
    }
}
