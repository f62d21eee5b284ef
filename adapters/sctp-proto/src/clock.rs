//! Time: instants of the caller, timestamps of the core.

use std::time::Instant;

use anabranch_proto::Timestamp;

/// The time of an endpoint or an association. Time begins with the first instant that the caller passes, which may be a simulated one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// An instant, and its time.
    base: Option<(Instant, Timestamp)>,
    now: Timestamp,
}

impl Clock {
    /// A clock that shows this time at the first instant.
    pub(crate) fn starting_at(now: Timestamp) -> Self {
        Self { base: None, now }
    }

    /// The time of the last instant passed.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The time of an instant. Instants before the last one passed are as late as that one, because the core's time never decreases.
    pub(crate) fn advance(&mut self, instant: Instant) -> Timestamp {
        let (base, time) = *self.base.get_or_insert((instant, self.now));
        self.now = self.now.max(time + instant.saturating_duration_since(base));
        self.now
    }

    /// The instant of a time; `None` before the first instant.
    pub(crate) fn instant(&self, time: Timestamp) -> Option<Instant> {
        let (base, first) = self.base?;
        base.checked_add(time.saturating_duration_since(first))
    }
}
