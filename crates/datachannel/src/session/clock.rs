//! The clock of the library `is`, which takes instants of the system.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anabranch_proto::Timestamp;

/// The instant of [`Timestamp::ZERO`]. Which one it is does not matter, because the library only compares instants.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub(super) fn instant(time: Timestamp) -> Instant {
    *ORIGIN + Duration::from_nanos(time.0)
}

pub(super) fn timestamp(instant: Instant) -> Timestamp {
    Timestamp::ZERO + instant.saturating_duration_since(*ORIGIN)
}
