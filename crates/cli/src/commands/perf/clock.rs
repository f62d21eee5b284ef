//! The clocks of both sides. Each clock counts from its own start; a few round trips measure the offset between them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// This side's clock, and the offset of the peer's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch: Instant,
    /// Offset of the peer's clock against this clock, in nanoseconds.
    ahead: i64,
}

/// The result of the clock comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Offset of the peer's clock in nanoseconds, accurate to half the round-trip time.
    pub(super) ahead: i64,
    /// The shortest round-trip time.
    pub(super) round_trip: Duration,
}

impl Clock {
    /// A clock that starts now, without an offset of the peer's clock.
    pub(super) fn start() -> Self {
        Self {
            epoch: Instant::now(),
            ahead: 0,
        }
    }

    /// The same clock; the peer's clock is `ahead` nanoseconds ahead of it.
    pub(super) fn with_peer_ahead(self, ahead: i64) -> Self {
        Self { ahead, ..self }
    }

    /// The reading at this time, in nanoseconds.
    pub(super) fn show(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// The time since the peer's clock showed `stamp`. A negative time is within the error of the offset, and counts as 0.
    pub(super) fn since_peer(&self, stamp: u64, now: Instant) -> Duration {
        let nanos = i128::from(self.show(now)) + i128::from(self.ahead) - i128::from(stamp);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

impl Comparison {
    /// The comparison by one round trip: the readings of this clock at its begin and end, and of the peer's clock in between.
    pub(super) fn of(begun: u64, theirs: u64, ended: u64) -> Self {
        let round_trip = ended.saturating_sub(begun);
        let middle = i128::from(begun) + i128::from(round_trip / 2);
        let ahead = i128::from(theirs) - middle;
        Self {
            ahead: i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX }),
            round_trip: Duration::from_nanos(round_trip),
        }
    }

    /// The comparison as JSON, for the peer.
    pub(super) fn to_json(self) -> Value {
        let round_trip = u64::try_from(self.round_trip.as_nanos()).unwrap_or(u64::MAX);
        json!({ "ahead": self.ahead, "round_trip": round_trip })
    }

    /// Reads what [`Comparison::to_json`] writes.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            ahead: value["ahead"].as_i64()?,
            round_trip: Duration::from_nanos(value["round_trip"].as_u64()?),
        })
    }

    /// The largest error, in either direction, of a delay that is computed with this offset.
    pub(super) fn uncertainty(self) -> Duration {
        self.round_trip / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_started_apart_agree_on_a_delay() {
        let clock = Clock::start();
        // The peer's clock shows 5 s more; the peer answered in the middle of 2 ms.
        let comparison = Comparison::of(1_000_000, 5_002_000_000, 3_000_000);
        assert_eq!(comparison.ahead, 5_000_000_000);
        assert_eq!(comparison.uncertainty(), Duration::from_millis(1));
        let clock = clock.with_peer_ahead(comparison.ahead);
        let now = clock.epoch + Duration::from_millis(40);
        assert_eq!(clock.since_peer(5_030_000_000, now), Duration::from_millis(10));
        assert_eq!(clock.since_peer(5_041_000_000, now), Duration::ZERO);
    }

    #[test]
    fn numbers_from_a_peer_never_overflow() {
        let comparison = Comparison::of(u64::MAX, u64::MAX, 0);
        assert_eq!(comparison.round_trip, Duration::ZERO);
        let clock = Clock::start().with_peer_ahead(i64::MIN);
        assert_eq!(clock.since_peer(u64::MAX, Instant::now()), Duration::ZERO);
        let clock = clock.with_peer_ahead(i64::MAX);
        assert!(clock.since_peer(0, Instant::now()) > Duration::from_secs(1 << 30));
    }
}
