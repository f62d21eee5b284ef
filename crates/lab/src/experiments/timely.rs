//! Messages that are useful for a limited time: those of the comparison with other transports, and how many are delivered in time.

use std::time::Duration;

use anabranch_netsim::Generator;
use anabranch_proto::Timestamp;

use crate::experiment::{Metric, metric};
use crate::stage::Record;
use crate::statistics::quantile;
use crate::traffic::{Regular, Submission};

/// The metrics of [`delivery`].
pub(super) const DELIVERY: [Metric; 4] = [
    metric("in_time", "%", "messages delivered within their deadline"),
    metric("delivered", "%", "messages delivered, late ones included"),
    metric(
        "delay_50",
        "ms",
        "submission to delivery, median of the delivered messages",
    ),
    metric(
        "delay_99",
        "ms",
        "submission to delivery, 99 % quantile of the delivered messages",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Game,
    Telephony,
    Video,
    Control,
}

impl Traffic {
    pub(super) const ALL: [Self; 4] = [Self::Game, Self::Telephony, Self::Video, Self::Control];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Game => "game",
            Self::Telephony => "telephony",
            Self::Video => "video",
            Self::Control => "control",
        }
    }

    /// Messages a second.
    pub(super) fn rate(self) -> u32 {
        match self {
            Self::Game => 60,
            Self::Telephony => 50,
            Self::Video => 30,
            Self::Control => 10,
        }
    }

    /// The time within which a message is useful.
    pub(super) fn deadline(self) -> Duration {
        Duration::from_millis(match self {
            Self::Game => 100,
            Self::Telephony => 150,
            Self::Video => 200,
            Self::Control => 500,
        })
    }

    pub(super) fn schedule(self, seed: u64, begin: Timestamp) -> Box<dyn Iterator<Item = Submission> + Send> {
        let regular = |len| {
            let interval = Duration::from_secs(1) / self.rate();
            Regular::new(seed, begin, interval, len, 0)
        };
        match self {
            Self::Game => Box::new(regular(100)),
            Self::Telephony => Box::new(regular(160)),
            Self::Control => Box::new(regular(64)),
            Self::Video => {
                let mut random = Generator::of_process(seed, "frames");
                let frame = move |(number, frame): (usize, Submission)| {
                    let usual = (4 << 10) + random.below(8 << 10) as usize;
                    let is_key = number % 60 == 30;
                    let len = if is_key { 40 << 10 } else { usual };
                    Submission { len, ..frame }
                };
                Box::new(regular(1).enumerate().map(frame))
            }
        }
    }
}

/// The numbers of [`DELIVERY`] for class 0, of `messages` in all.
pub(super) fn delivery(traffic: Traffic, record: &Record, messages: f64) -> [f64; 4] {
    let delay = |number: usize| {
        let delivered = record.delivered.of(number)?;
        let at = record.submitted[number].at;
        Some(delivered.saturating_duration_since(at).as_secs_f64())
    };
    let delays: Vec<f64> = record.counted(0).filter_map(delay).collect();
    let deadline = traffic.deadline().as_secs_f64();
    let in_time = delays.iter().filter(|delay| **delay <= deadline).count();
    [
        100.0 * in_time as f64 / messages,
        100.0 * delays.len() as f64 / messages,
        1e3 * quantile(&delays, 0.5),
        1e3 * quantile(&delays, 0.99),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_video_has_two_megabits_a_second() {
        let frames: Vec<Submission> = Traffic::Video
            .schedule(1, Timestamp::ZERO)
            .take(30 * 60)
            .collect();
        let bytes: usize = frames.iter().map(|frame| frame.len).sum();
        let rate = bytes as f64 * 8e-6 / 60.0;
        assert!((2.0..2.2).contains(&rate), "{rate} Mbit/s");
        let keys = frames.iter().filter(|frame| frame.len == 40 << 10).count();
        assert_eq!(keys, 30);
    }
}
