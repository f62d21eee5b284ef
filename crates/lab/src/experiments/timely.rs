//! Messages that are useful for a limited time: those of the comparison with other transports.

use std::time::Duration;

use anabranch_netsim::Generator;
use anabranch_proto::Timestamp;

use crate::traffic::{Regular, Submission};

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
