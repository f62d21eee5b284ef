//! Delays of messages, and their percentiles, in bounded memory.

use std::time::Duration;

use serde_json::{Value, json};

/// Limit of samples. When it is reached, every second sample is dropped, and from then on only every second (fourth, …) delay
/// is kept.
const MAX_SAMPLES: usize = 1 << 18;

/// A collection of delays.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    samples: Vec<Duration>,
    most: usize,
    /// One of `stride` delays is kept.
    stride: u64,
    count: u64,
    min: Duration,
    max: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            samples: Vec::new(),
            most: MAX_SAMPLES,
            stride: 1,
            count: 0,
            min: Duration::MAX,
            max: Duration::ZERO,
        }
    }
}

/// The percentiles of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) min: Duration,
    pub(crate) median: Duration,
    pub(crate) p90: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Delays {
    /// One of `count` collections that share the limit of samples.
    pub(crate) fn one_of(count: usize) -> Self {
        Self {
            most: MAX_SAMPLES / count.max(1),
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, delay: Duration) {
        (self.min, self.max) = (self.min.min(delay), self.max.max(delay));
        if self.count.is_multiple_of(self.stride) {
            if self.samples.len() >= self.most {
                let mut index = 0;
                self.samples.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.samples.push(delay);
        }
        self.count += 1;
    }

    /// `None` without delays.
    pub(crate) fn summary(&self) -> Option<Summary> {
        if self.samples.is_empty() {
            return None;
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        // Nearest rank: the smallest sample such that at least this percentage of the samples is not larger.
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        Some(Summary {
            min: self.min,
            median: rank(50),
            p90: rank(90),
            p99: rank(99),
            max: self.max,
        })
    }
}

impl Summary {
    /// The percentiles in milliseconds, for `--json`.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "min_ms": millis(self.min),
            "median_ms": millis(self.median),
            "p90_ms": millis(self.p90),
            "p99_ms": millis(self.p99),
            "max_ms": millis(self.max),
        })
    }

    /// Reads what [`Summary::to_json`] writes; `None` if it is something else.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let read = |name: &str| {
            let seconds = value.get(name)?.as_f64()? / 1000.0;
            Duration::try_from_secs_f64(seconds).ok()
        };
        Some(Self {
            min: read("min_ms")?,
            median: read("median_ms")?,
            p90: read("p90_ms")?,
            p99: read("p99_ms")?,
            max: read("max_ms")?,
        })
    }
}

/// A duration in milliseconds, with a resolution of 1 µs.
pub(crate) fn millis(delay: Duration) -> f64 {
    delay.as_micros() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let mut delays = Delays::default();
        assert_eq!(delays.summary(), None);
        (1..=200)
            .rev()
            .for_each(|n| delays.push(Duration::from_millis(n)));
        let summary = delays.summary().unwrap();
        let shown =
            [summary.min, summary.median, summary.p90, summary.p99, summary.max].map(|d| d.as_millis());
        assert_eq!(shown, [1, 100, 180, 198, 200]);
        assert_eq!(Summary::from_json(&summary.to_json()), Some(summary));
    }

    #[test]
    fn many_samples_are_thinned_out_and_extremes_kept() {
        let mut delays = Delays::default();
        let many = 5 * MAX_SAMPLES as u64;
        (0..many).for_each(|n| delays.push(Duration::from_nanos(n)));
        assert!(delays.samples.len() <= MAX_SAMPLES);
        let summary = delays.summary().unwrap();
        assert_eq!(summary.max, Duration::from_nanos(many - 1));
        let error = summary.median.as_nanos().abs_diff(u128::from(many / 2));
        assert!(error < u128::from(many / 100), "the median is {error} off");
    }
}
