//! A token bucket over whole messages: `--rate`.

use std::time::{Duration, Instant};

/// The depth of the bucket, as sending time at the rate. After a pause, the sender may catch up on this much. It is long
/// enough for timers that fire late, and short enough that a pause does not end in a large burst.
const DEPTH: Duration = Duration::from_millis(50);

/// Decides when the next message may be sent.
#[derive(Debug)]
pub(super) struct Pacer {
    bits_per_second: u64,
    /// When the next message is due.
    due: Instant,
}

impl Pacer {
    /// An empty bucket.
    pub(super) fn new(bits_per_second: u64, now: Instant) -> Self {
        Self {
            bits_per_second: bits_per_second.max(1),
            due: now,
        }
    }

    /// Admits a message of `bytes`, or returns the time of the next attempt.
    pub(super) fn admit(&mut self, now: Instant, bytes: u64) -> Result<(), Instant> {
        if self.due > now {
            return Err(self.due);
        }
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_second);
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let earliest = now.checked_sub(DEPTH).unwrap_or(now);
        let due = self.due.max(earliest);
        // If the due time of the next message overflows the clock, no message follows.
        self.due = due
            .checked_add(cost)
            .unwrap_or(now + Duration::from_secs(1 << 30));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_leave_at_the_rate_and_a_pause_gives_little() {
        let start = Instant::now();
        // 1,000 bytes at 8 Mbit/s: 1 ms each.
        let mut pacer = Pacer::new(8_000_000, start);
        let mut count = |from: u64, to: u64| {
            let mut admitted = 0;
            for micros in (from..to).step_by(100) {
                let now = start + Duration::from_micros(micros);
                while pacer.admit(now, 1000).is_ok() {
                    admitted += 1;
                }
            }
            admitted
        };
        assert_eq!(count(0, 1_000_000), 1000);
        // Ten seconds without messages, and then one second with 50 ms of messages more.
        assert_eq!(count(11_000_000, 12_000_000), 1050);
    }

    #[test]
    fn it_tells_when_to_ask_again() {
        let start = Instant::now();
        let mut pacer = Pacer::new(8_000, start);
        assert_eq!(pacer.admit(start, 1000), Ok(()));
        let due = pacer.admit(start, 1000).unwrap_err();
        assert_eq!(due.duration_since(start), Duration::from_secs(1));
        assert_eq!(pacer.admit(due, 1), Ok(()));
    }
}
