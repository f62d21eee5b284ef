//! The rate of a rule: a token bucket.

use std::time::Duration;

use tokio::time::Instant;

/// How long a flow may exceed the rate: the bucket holds the bytes of this time.
const BURST: Duration = Duration::from_millis(100);
/// The bucket holds at least one datagram of the largest size.
const LEAST_BURST: f64 = 65_536.0;

/// A token bucket. A token is a byte.
#[derive(Debug)]
pub(crate) struct Bucket {
    bytes_per_second: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(bits_per_second: u64, now: Instant) -> Self {
        let mut bucket = Self {
            bytes_per_second: bits_per_second as f64 / 8.0,
            tokens: 0.0,
            filled: now,
        };
        bucket.tokens = bucket.capacity();
        bucket
    }

    fn capacity(&self) -> f64 {
        (self.bytes_per_second * BURST.as_secs_f64()).max(LEAST_BURST)
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.bytes_per_second).min(self.capacity());
        self.filled = now;
    }

    /// Takes the tokens of a datagram, if there are enough.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) -> bool {
        self.fill(now);
        let fits = self.tokens >= bytes as f64;
        if fits {
            self.tokens -= bytes as f64;
        }
        fits
    }

    /// Takes the tokens of bytes that must all be sent. Returns how long to wait before they leave.
    pub(crate) fn borrow(&mut self, bytes: usize, now: Instant) -> Duration {
        self.fill(now);
        self.tokens -= bytes as f64;
        let owed = (-self.tokens / self.bytes_per_second).clamp(0.0, 3600.0);
        Duration::from_secs_f64(owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn datagrams_pass_up_to_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(800_000, start);
        assert!(bucket.take(65_507, start), "the largest datagram passes at once");
        assert!(!bucket.take(1000, start));
        let mut passed = 0;
        for tenth in 1..=100 {
            let now = start + SECOND * tenth / 10;
            passed += (0..20).filter(|_| bucket.take(1000, now)).count();
        }
        assert_eq!(passed, 1000, "100 kB/s for ten seconds");
    }

    #[test]
    fn an_idle_rule_saves_no_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::new(8_000_000, start);
        let now = start + SECOND * 1000;
        let passed = (0..1000).filter(|_| bucket.take(1000, now)).count();
        assert_eq!(passed, 100);
    }

    #[test]
    fn bytes_of_connections_wait() {
        let start = Instant::now();
        let mut bucket = Bucket::new(800_000, start);
        assert_eq!(bucket.borrow(65_536, start), Duration::ZERO);
        assert_eq!(bucket.borrow(100_000, start), SECOND);
        assert_eq!(bucket.borrow(50_000, start + SECOND), SECOND / 2);
    }
}
