//! A token bucket over whole messages: `--rate`.

use std::time::{Duration, Instant};

/// How much sending time the bucket holds: what was not sent in it is made up for later, what was not sent before is
/// not. Long enough for timers that fire late, short enough that a pause does not end in a burst.
const DEPTH: Duration = Duration::from_millis(50);

/// Says when the next message may leave.
#[derive(Debug)]
pub(super) struct Pacer {
    bits_per_second: u64,
    /// When the message after the last one is due.
    due: Instant,
}

impl Pacer {
    /// An empty bucket: nothing may be made up for yet.
    pub(super) fn new(bits_per_second: u64, now: Instant) -> Self {
        Self {
            bits_per_second: bits_per_second.max(1),
            due: now,
        }
    }

    /// Takes a message of so many bytes, or answers when to ask again.
    pub(super) fn admit(&mut self, now: Instant, bytes: u64) -> Result<(), Instant> {
        if self.due > now {
            return Err(self.due);
        }
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_second);
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let earliest = now.checked_sub(DEPTH).unwrap_or(now);
        let due = self.due.max(earliest);
        // A message that takes longer than the clock goes is the last one.
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
        // Ten silent seconds, then one that may begin with 50 ms' worth.
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
