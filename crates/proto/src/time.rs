//! The time type of the core: nanoseconds since an origin that the driver chose.

use core::fmt;
use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point in time, in nanoseconds since the driver's origin. The core never reads a clock. Every method that depends on time is
/// given the current time, which must never decrease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);

    /// The last point in time, 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// The time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point in time earlier by `duration`; the origin if that would be before the origin.
    pub(crate) fn before(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }

    /// The point in time so many milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Seconds since the origin, for printing and plotting.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Duration::from_nanos(self.0).as_secs_f64()
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Saturates at [`Timestamp::MAX`].
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000 / 1_000
        )
    }
}
