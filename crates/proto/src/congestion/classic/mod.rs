//! Congestion control by losses and CE marks: CUBIC (RFC 9438), with HyStart++ (RFC 9406) in the first slow start.

mod cubic;
mod hystart;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod model;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::controller::Report;
use crate::time::Timestamp;

pub(super) use cubic::Cubic;

/// Round trips of a path. A round trip ends when a packet is acknowledged that was sent after the round trip began. If no delivery
/// rate is measured, a round trip ends after one smoothed RTT.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// Bytes delivered in all when the round trip began.
    delivered: u64,
    began: Option<Timestamp>,
    /// Whether there was a rate sample: if so, a report without one does not end a round trip.
    sampled: bool,
}

impl Rounds {
    /// Whether a round trip begins with this report.
    #[inline]
    fn begins(&mut self, report: &Report) -> bool {
        let begins = match report.sample {
            Some(sample) => {
                self.sampled = true;
                let begins = sample.delivered_before >= self.delivered;
                if begins {
                    self.delivered = sample.total_delivered;
                }
                begins
            }
            None => !self.sampled && self.is_over(report.now, report.smoothed_rtt),
        };
        if begins {
            self.began = Some(report.now);
        }
        begins
    }

    fn is_over(&self, now: Timestamp, smoothed_rtt: Option<Duration>) -> bool {
        let (Some(began), Some(round_trip)) = (self.began, smoothed_rtt) else {
            return self.began.is_none();
        };
        now.saturating_duration_since(began) >= round_trip
    }
}
