//! The times and lengths of messages, as endless iterators for a [`super::Source`].

use std::time::Duration;

use anabranch_netsim::{Generator, Probability};
use anabranch_proto::Timestamp;

use super::{IMPORTANT, NORMAL, Submission};

/// The lengths of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// All messages have this length in bytes, at least 1.
    Fixed(usize),
    /// A normal distribution with this mean and standard deviation in bytes; no length is below 1.
    Normal(f64, f64),
}

impl Sizes {
    /// Draws a length.
    pub(crate) fn draw(self, random: &mut Generator) -> usize {
        match self {
            Self::Fixed(len) => len,
            Self::Normal(mean, deviation) => {
                // One of the two values of the Box-Muller transform.
                let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.fraction()).cos();
                (mean + deviation * normal).round().max(1.0) as usize
            }
        }
    }
}

/// A Poisson process of messages. Each message is important with a fixed probability, and normal otherwise. Times, lengths and importance
/// come from separate random generators, so a change of one leaves the others as they were.
#[derive(Clone, Debug)]
pub struct Poisson {
    interval: Duration,
    sizes: Sizes,
    important: Probability,
    next: Timestamp,
    arrivals: Generator,
    lengths: Generator,
    coins: Generator,
}

impl Poisson {
    /// The process from `start` on, with `interval` as the mean time between messages.
    #[must_use]
    pub fn new(
        seed: u64,
        start: Timestamp,
        interval: Duration,
        sizes: Sizes,
        important: Probability,
    ) -> Self {
        Self {
            interval,
            sizes,
            important,
            next: start,
            arrivals: Generator::of_process(seed, "arrivals"),
            lengths: Generator::of_process(seed, "message sizes"),
            coins: Generator::of_process(seed, "important messages"),
        }
    }
}

impl Iterator for Poisson {
    type Item = Submission;

    fn next(&mut self) -> Option<Submission> {
        self.next += self.interval.mul_f64(-(1.0 - self.arrivals.fraction()).ln());
        // Draw even if the probability is 0 or 1, so that message n has the same draw for every probability.
        let is_important = self.coins.fraction() < self.important.as_f64();
        Some(Submission {
            at: self.next,
            len: self.sizes.draw(&mut self.lengths),
            class: if is_important { IMPORTANT } else { NORMAL },
        })
    }
}

/// Messages of one length and class at a regular interval, such as a chat or a medium with a constant rate.
#[derive(Clone, Copy, Debug)]
pub struct Regular {
    next: Timestamp,
    interval: Duration,
    len: usize,
    class: usize,
}

impl Regular {
    /// Messages of `len` bytes every `interval`. The first one comes within one interval after `start`, at a random time that depends on
    /// the seed and the class.
    #[must_use]
    pub fn new(seed: u64, start: Timestamp, interval: Duration, len: usize, class: usize) -> Self {
        let phase = Generator::of_process(seed, &format!("phase of class {class}")).fraction();
        Self {
            next: start + interval.mul_f64(phase),
            interval,
            len,
            class,
        }
    }

    /// Messages of `len` bytes at this rate in bits per second.
    #[must_use]
    pub fn at_rate(seed: u64, start: Timestamp, bits_per_second: f64, len: usize, class: usize) -> Self {
        let interval = Duration::from_secs_f64(len as f64 * 8.0 / bits_per_second);
        Self::new(seed, start, interval, len, class)
    }
}

impl Iterator for Regular {
    type Item = Submission;

    fn next(&mut self) -> Option<Submission> {
        let at = self.next;
        self.next += self.interval;
        Some(Submission {
            at,
            len: self.len,
            class: self.class,
        })
    }
}

/// The messages of two schedules in order of time. Of two messages at the same time, that of the first schedule comes first.
pub fn merged(
    first: impl Iterator<Item = Submission>,
    second: impl Iterator<Item = Submission>,
) -> impl Iterator<Item = Submission> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(one), Some(other)) if other.at < one.at => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{deviation, mean};

    const START: Timestamp = Timestamp::from_millis(15_000);

    fn poisson(seed: u64, sizes: Sizes, important: f64) -> Vec<Submission> {
        let interval = Duration::from_millis(1);
        Poisson::new(seed, START, interval, sizes, important.into())
            .take(20_000)
            .collect()
    }

    #[test]
    fn intervals_are_exponential() {
        let messages = poisson(1, Sizes::Fixed(72), 0.5);
        let times = std::iter::once(START).chain(messages.iter().map(|message| message.at));
        let times: Vec<f64> = times.map(Timestamp::as_secs_f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) * 1e3).collect();
        assert!((mean(&gaps) - 1.0).abs() < 0.03, "{}", mean(&gaps));
        assert!((deviation(&gaps, 0) - 1.0).abs() < 0.03);
        let long = gaps.iter().filter(|gap| **gap > 3.0).count() as f64 / gaps.len() as f64;
        assert!((long - (-3.0_f64).exp()).abs() < 0.005, "{long}");
    }

    #[test]
    fn sizes_are_normal_and_never_empty() {
        let lengths = |sizes| -> Vec<f64> {
            let messages = poisson(1, sizes, 0.5);
            messages.iter().map(|message| message.len as f64).collect()
        };
        let wide = lengths(Sizes::Normal(72.0, 14.4));
        assert!((mean(&wide) - 72.0).abs() < 0.5);
        assert!((deviation(&wide, 0) - 14.4).abs() < 0.3);
        let clamped = lengths(Sizes::Normal(1.0, 5.0));
        assert!(clamped.iter().all(|len| *len >= 1.0));
        assert!(lengths(Sizes::Fixed(72)).iter().all(|len| *len == 72.0));
    }

    #[test]
    fn each_process_is_its_own() {
        let half = poisson(7, Sizes::Fixed(72), 0.5);
        let share = half.iter().filter(|message| message.class == IMPORTANT).count();
        assert!((9_800..10_200).contains(&share), "{share}");
        let tenth = poisson(7, Sizes::Normal(716.0, 100.0), 0.1);
        assert!(half.iter().zip(&tenth).all(|(a, b)| a.at == b.at), "equal times");
        let still_important = half
            .iter()
            .zip(&tenth)
            .all(|(half, tenth)| tenth.class == NORMAL || half.class == IMPORTANT);
        assert!(still_important, "a larger share only adds important messages");
        assert_ne!(poisson(8, Sizes::Fixed(72), 0.5)[0].at, half[0].at);
    }

    #[test]
    fn regular_messages_begin_at_a_random_time() {
        let interval = Duration::from_secs(30);
        let times: Vec<Timestamp> = Regular::new(3, START, interval, 30, 0)
            .take(3)
            .map(|m| m.at)
            .collect();
        assert!(times[0] >= START && times[0] < START + interval);
        assert_eq!(times[1], times[0] + interval);
        assert_eq!(times[2], times[1] + interval);
        let others = [(4, 0), (3, 1)].map(|(seed, class)| Regular::new(seed, START, interval, 30, class));
        for mut other in others {
            assert_ne!(
                other.next().unwrap().at,
                times[0],
                "each seed and each class is its own"
            );
        }
    }

    #[test]
    fn schedules_merge_in_order_of_time() {
        let second = Duration::from_secs(1);
        let chat = Regular::new(3, START, 10 * second, 30, 0);
        let bulk = Regular::at_rate(3, START, 8000.0, 1000, 1);
        let both: Vec<Submission> = merged(chat.take(5), bulk).take(55).collect();
        assert!(both.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert_eq!(both.iter().filter(|message| message.class == 0).count(), 5);
        let last = both.last().unwrap();
        assert!(last.at < START + 51 * second, "{last:?}");
    }
}
