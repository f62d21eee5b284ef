//! When a sender has data.

use core::time::Duration;

use anabranch_proto::Timestamp;

use super::sender::Sender;
use crate::random::Generator;

/// What a sender has to send. Means are of exponential distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Traffic {
    /// Data without end.
    #[default]
    Greedy,
    /// Data without end for a while, then none for a while, and again.
    OnOff {
        /// The mean length of the first.
        mean_on: Duration,
        /// The mean length of the second.
        mean_off: Duration,
    },
    /// Some bytes at once, as a file; when all are acknowledged a pause, and again.
    Bursts {
        /// The mean size; each has at least one byte.
        mean_bytes: u64,
        /// The mean pause.
        mean_pause: Duration,
    },
}

/// Traffic under way.
#[derive(Clone, Debug)]
pub(super) struct Source {
    traffic: Traffic,
    random: Generator,
    on: bool,
    /// When something changes next.
    pub(super) next: Option<Timestamp>,
}

impl Source {
    pub(super) fn new(traffic: Traffic, start: Timestamp, random: Generator) -> Self {
        Self {
            traffic,
            random,
            on: false,
            next: Some(start),
        }
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Timestamp, sender: &mut Sender) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        sender.open();
        self.on = !self.on;
        self.next = match self.traffic {
            Traffic::Greedy => {
                sender.write(u64::MAX);
                None
            }
            Traffic::OnOff { mean_on, .. } if self.on => {
                sender.write(u64::MAX);
                Some(self.after(now, mean_on))
            }
            Traffic::OnOff { mean_off, .. } => {
                sender.withdraw();
                Some(self.after(now, mean_off))
            }
            Traffic::Bursts { mean_bytes, .. } => {
                let bytes = mean_bytes as f64 * self.random.exponential();
                sender.write(bytes.ceil().max(1.0) as u64);
                None
            }
        };
    }

    /// All that was written is acknowledged.
    pub(super) fn handle_all_acknowledged(&mut self, now: Timestamp) {
        if let (Traffic::Bursts { mean_pause, .. }, None, true) = (self.traffic, self.next, self.on) {
            self.on = false;
            self.next = Some(self.after(now, mean_pause));
        }
    }

    /// A random time later, but not now.
    fn after(&mut self, now: Timestamp, mean: Duration) -> Timestamp {
        now + mean
            .mul_f64(self.random.exponential())
            .max(Duration::from_nanos(1))
    }
}
