//! The delivery of a class's messages, as the application sees it.

use anabranch_proto::Timestamp;

use super::pair::Pair;
use crate::statistics::{mean, quantile};
use crate::traffic::{Sink, Submission};

/// The messages of a class that were submitted in an interval of time.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The delays from submission to delivery in seconds, for the delivered messages in order of submission.
    delays: Vec<f64>,
    submitted: usize,
}

impl Outcome {
    /// The messages of a class submitted between `from` and `to`. The network must have run on until the last ones can be delivered.
    pub(crate) fn of(pair: &Pair, class: usize, span: (Timestamp, Timestamp)) -> Self {
        Self::of_messages(pair.source().submitted(), pair.sink(), class, span)
    }

    /// The same from the messages that a source submitted and the sink of the other host.
    pub(crate) fn of_messages(
        submitted: &[Submission],
        sink: &Sink,
        class: usize,
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        let messages = submitted.iter().enumerate();
        let messages =
            messages.filter(|(_, message)| message.class == class && (from..to).contains(&message.at));
        let mut outcome = Self {
            delays: Vec::new(),
            submitted: 0,
        };
        for (number, message) in messages {
            outcome.submitted += 1;
            let delivered = sink.delivered().of(number);
            let delay = delivered.map(|at| at.saturating_duration_since(message.at).as_secs_f64());
            outcome.delays.extend(delay);
        }
        outcome
    }

    /// The share of the messages delivered within `seconds`. NaN if none was submitted.
    pub(crate) fn within(&self, seconds: f64) -> f64 {
        let in_time = self.delays.iter().filter(|delay| **delay <= seconds).count();
        in_time as f64 / self.submitted as f64
    }

    /// The share of the messages that were delivered.
    pub(crate) fn delivered(&self) -> f64 {
        self.within(f64::INFINITY)
    }

    /// The mean delay of the delivered messages, in seconds.
    pub(crate) fn mean_delay(&self) -> f64 {
        mean(&self.delays)
    }

    /// The delay that this share of the delivered messages does not exceed, in seconds.
    pub(crate) fn delay_of(&self, share: f64) -> f64 {
        quantile(&self.delays, share)
    }
}

/// The goodput of a class between two times, in Mbit/s.
pub(crate) fn goodput(pair: &Pair, class: usize, span: (Timestamp, Timestamp)) -> f64 {
    goodput_of(pair.source().submitted(), pair.sink(), class, span)
}

/// The same from the messages that a source submitted and the sink of the other host.
pub(crate) fn goodput_of(
    submitted: &[Submission],
    sink: &Sink,
    class: usize,
    (from, to): (Timestamp, Timestamp),
) -> f64 {
    let deliveries = sink.deliveries().iter();
    let delivered = deliveries.filter(|(at, _)| (from..to).contains(at));
    let messages = delivered.map(|(_, number)| submitted[*number as usize]);
    let bytes: usize = messages
        .filter(|message| message.class == class)
        .map(|message| message.len)
        .sum();
    bytes as f64 * 8e-6 / to.saturating_duration_since(from).as_secs_f64()
}
