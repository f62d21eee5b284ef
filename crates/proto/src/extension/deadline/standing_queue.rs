//! Whether a queue stands at the bottleneck of a path.

use core::time::Duration;

use crate::path::WindowedMinimum;
use crate::time::Timestamp;

/// A queue stands if it did not run empty for so long.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// The least number of round-trip times in an interval: a few may be long by chance.
const LEAST_SAMPLES: u32 = 4;
/// The shortest and the longest queue that counts, as a time. In between, a quarter of the round-trip time does.
const BOUNDS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(25));
/// The round-trip time without a queue is the least of the last one or two times so many seconds: routes change.
const MEMORY_SECONDS: u64 = 10;

/// The least round-trip times of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandingQueue {
    /// Of this interval, which has so many samples and ends then.
    now: Option<Duration>,
    samples: u32,
    ends: Timestamp,
    least: WindowedMinimum<MEMORY_SECONDS>,
    stands: bool,
}

impl StandingQueue {
    /// A transmission was acknowledged after this time. `own` is the queue that less urgent data of the sender may make.
    pub(crate) fn on_sample(&mut self, now: Timestamp, round_trip: Duration, own: Duration) {
        self.least.on_sample(now, round_trip);
        self.now = Some(self.now.map_or(round_trip, |least| least.min(round_trip)));
        self.samples += 1;
        if now < self.ends || self.samples < LEAST_SAMPLES {
            return;
        }
        let (Some(least), Some(recent)) = (self.least.get(), self.now.take()) else {
            return;
        };
        let bound = (least / 4).clamp(BOUNDS.0, BOUNDS.1);
        self.stands = recent > least + bound + own;
        self.samples = 0;
        self.ends = now + INTERVAL;
    }

    /// Whether the queue did not run empty in the last complete interval.
    pub(crate) fn stands(&self) -> bool {
        self.stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Whether a queue stands after samples of these lengths, 10 ms apart, again and again.
    fn stands(samples: &[u32], own: Duration) -> bool {
        let mut queue = StandingQueue::default();
        let mut at = Timestamp::ZERO;
        for sample in [&[80], samples]
            .concat()
            .iter()
            .chain(samples.iter().cycle().take(60))
        {
            at += 10 * MS;
            queue.on_sample(at, *sample * MS, own);
        }
        queue.stands()
    }

    #[test]
    fn a_queue_that_never_runs_empty_stands() {
        assert!(stands(&[101], Duration::ZERO) && !stands(&[100], Duration::ZERO));
        assert!(
            !stands(&[80, 200, 150, 170], Duration::ZERO),
            "the round-trip time varies"
        );
        assert!(
            !stands(&[110], 20 * MS) && stands(&[130], 20 * MS),
            "less urgent data waits"
        );
    }

    #[test]
    fn a_longer_route_is_no_queue_for_long() {
        let mut queue = StandingQueue::default();
        let stands: Vec<_> = (0..2_500)
            .map(|tick| {
                let round_trip = if tick < 500 { 50 } else { 90 };
                queue.on_sample(Timestamp::from_millis(10 * tick), round_trip * MS, Duration::ZERO);
                queue.stands()
            })
            .collect();
        assert!(!stands[499] && stands[600] && !stands[2_400]);
    }
}
