//! The times at which a sender has data.

use core::time::Duration;

use anabranch_proto::Timestamp;

use super::sender::Sender;
use crate::random::Generator;

/// The traffic of a sender. All means are those of exponential distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Traffic {
    /// Continuous data without end.
    #[default]
    Greedy,
    /// Alternates between continuous data and no data.
    OnOff {
        /// Mean duration of a period with data.
        mean_on: Duration,
        /// Mean duration of a period without data.
        mean_off: Duration,
    },
    /// Transfers, like those of files: all bytes of one are written at once. When they are acknowledged, a pause follows, then the next
    /// transfer.
    Bursts {
        /// Mean size of a transfer in bytes; each has at least one byte.
        mean_bytes: u64,
        /// Mean duration of a pause.
        mean_pause: Duration,
    },
}

/// The state of the traffic of a sender.
#[derive(Clone, Debug)]
pub(super) struct Source {
    traffic: Traffic,
    random: Generator,
    on: bool,
    /// When the traffic next changes.
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

    /// Handles the changes that are due.
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

    /// All written data is acknowledged.
    pub(super) fn handle_all_acknowledged(&mut self, now: Timestamp) {
        if let (Traffic::Bursts { mean_pause, .. }, None, true) = (self.traffic, self.next, self.on) {
            self.on = false;
            self.next = Some(self.after(now, mean_pause));
        }
    }

    /// A random time after now, never now itself.
    fn after(&mut self, now: Timestamp, mean: Duration) -> Timestamp {
        now + mean
            .mul_f64(self.random.exponential())
            .max(Duration::from_nanos(1))
    }
}
