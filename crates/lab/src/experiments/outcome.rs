//! What became of the messages of a class, as its application sees it.

use anabranch_proto::Timestamp;

use super::pair::Pair;
use crate::statistics::{mean, quantile};

/// The messages of a class that were submitted within a time.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// From submission to delivery, in seconds, of those that were delivered; by submission.
    delays: Vec<f64>,
    submitted: usize,
}

impl Outcome {
    /// Of a class, submitted from one time to another. The network should have run on for as long as the last may take.
    pub(crate) fn of(pair: &Pair, class: usize, (from, to): (Timestamp, Timestamp)) -> Self {
        let messages = pair.source().submitted().iter().enumerate();
        let messages =
            messages.filter(|(_, message)| message.class == class && (from..to).contains(&message.at));
        let mut outcome = Self {
            delays: Vec::new(),
            submitted: 0,
        };
        for (number, message) in messages {
            outcome.submitted += 1;
            let delivered = pair.sink().delivered().of(number);
            let delay = delivered.map(|at| at.saturating_duration_since(message.at).as_secs_f64());
            outcome.delays.extend(delay);
        }
        outcome
    }

    /// The share that was delivered within so many seconds. Not a number if none was submitted.
    pub(crate) fn within(&self, seconds: f64) -> f64 {
        let in_time = self.delays.iter().filter(|delay| **delay <= seconds).count();
        in_time as f64 / self.submitted as f64
    }

    /// The share that was delivered.
    pub(crate) fn delivered(&self) -> f64 {
        self.within(f64::INFINITY)
    }

    /// The mean delay of what was delivered, in seconds.
    pub(crate) fn mean_delay(&self) -> f64 {
        mean(&self.delays)
    }

    /// The delay that this share of what was delivered does not exceed, in seconds.
    pub(crate) fn delay_of(&self, share: f64) -> f64 {
        quantile(&self.delays, share)
    }
}

/// User data of a class that was delivered from one time to another, in Mbit/s.
pub(crate) fn goodput(pair: &Pair, class: usize, (from, to): (Timestamp, Timestamp)) -> f64 {
    let submitted = pair.source().submitted();
    let deliveries = pair.sink().deliveries().iter();
    let delivered = deliveries.filter(|(at, _)| (from..to).contains(at));
    let messages = delivered.map(|(_, number)| submitted[*number as usize]);
    let bytes: usize = messages
        .filter(|message| message.class == class)
        .map(|message| message.len)
        .sum();
    bytes as f64 * 8e-6 / to.saturating_duration_since(from).as_secs_f64()
}
