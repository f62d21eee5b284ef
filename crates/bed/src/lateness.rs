//! The delay between a packet's due time and its delivery, as a histogram of fixed size.

use std::time::Duration;

/// The bed's timing goal: 99 of 100 packets are delivered no later than this after the time that the link decided.
pub const HELD_WITHIN: Duration = Duration::from_millis(1);

/// Steps in each doubling: a quantile is exact to one sixteenth.
const STEPS: usize = 16;
/// The number of doublings, from 1 ns to more than an hour.
const DOUBLINGS: usize = 43;

/// Durations, counted by size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            counts: vec![0; STEPS * DOUBLINGS],
            count: 0,
            max: Duration::ZERO,
        }
    }
}

impl Lateness {
    /// Counts a packet that was late by `late`.
    pub(crate) fn record(&mut self, late: Duration) {
        self.counts[step(late)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Packets counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest duration; zero before the first packet.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The duration that this share of the packets, from 0 to 1, did not exceed. The result is at most one sixteenth above the true value,
    /// and never above [`max`](Self::max). Zero before the first packet.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return upper_end(index).min(self.max);
            }
        }
        self.max
    }

    /// Whether the bed met its goal: 99 of 100 packets within [`HELD_WITHIN`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.quantile(0.99) <= HELD_WITHIN
    }
}

/// The index of a duration: one index for each nanosecond below [`STEPS`], then [`STEPS`] indices for each doubling.
fn step(late: Duration) -> usize {
    let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let exponent = nanos.ilog2();
    let within = (nanos >> (exponent - STEPS.ilog2())) as usize - STEPS;
    let doubling = (exponent - STEPS.ilog2() + 1) as usize;
    (doubling * STEPS + within).min(STEPS * DOUBLINGS - 1)
}

/// The longest duration of an index.
fn upper_end(index: usize) -> Duration {
    if index < STEPS {
        return Duration::from_nanos(index as u64);
    }
    let (doubling, within) = (index / STEPS - 1, index % STEPS);
    let next = (STEPS + within + 1) as u64;
    Duration::from_nanos((next << doubling) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_at_most_a_sixteenth_below_the_end_of_its_index() {
        for nanos in (0..2_000).chain((1..4_000).map(|n| n * n * 104_729)) {
            let late = Duration::from_nanos(nanos);
            let end = upper_end(step(late));
            assert!(late <= end && end <= late + late / 16, "{late:?} {end:?}");
        }
        assert_eq!(step(Duration::MAX), STEPS * DOUBLINGS - 1);
    }

    #[test]
    fn quantiles_and_the_timing_goal() {
        let mut lateness = Lateness::default();
        assert_eq!(
            (lateness.quantile(0.99), lateness.is_held()),
            (Duration::ZERO, true)
        );
        for _ in 0..990 {
            lateness.record(Duration::from_micros(100));
        }
        for _ in 0..10 {
            lateness.record(Duration::from_millis(5));
        }
        assert!(lateness.is_held(), "99 of 100 are in time");
        assert!(lateness.quantile(0.5) <= Duration::from_micros(107));
        let mut one_more = Lateness::default();
        one_more.record(Duration::from_millis(6));
        lateness.merge(&one_more);
        assert!(!lateness.is_held());
        assert!(lateness.quantile(0.99) >= Duration::from_millis(5));
        assert_eq!(
            (lateness.count(), lateness.max()),
            (1001, Duration::from_millis(6))
        );
        assert_eq!(lateness.quantile(1.0), lateness.max());
    }
}
