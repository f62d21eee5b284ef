//! Which stream sends next (RFC 8260 §3), for an association's handle.

use core::ops::RangeInclusive;

use anabranch_proto::{SchedulerKind, SchedulingError, StreamId};

use crate::association::Association;

/// Streams among each other. What is set counts for messages that wait, too.
impl Association {
    /// The scheduler in use: `Config::scheduler` until another was chosen.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerKind {
        self.shared().read(|state| state.core.scheduler())
    }

    /// Chooses another scheduler, for what waits too. A message that is begun is finished first unless messages interleave.
    /// Priorities and weights that were set are kept for when they count again.
    pub fn set_scheduler(&self, scheduler: SchedulerKind) {
        self.shared().with(|state, _| state.core.set_scheduler(scheduler));
    }

    /// Puts a stream into a class, 0 being the most urgent and the default: while a stream of one class has data, none of a
    /// higher number sends, so that a class can starve those behind it. A message that is begun is finished first unless
    /// messages interleave.
    ///
    /// # Errors
    /// There is no such stream, or the scheduler is not [`SchedulerKind::Priority`].
    pub fn set_stream_priority(&self, stream: StreamId, priority: u16) -> Result<(), SchedulingError> {
        self.shared()
            .with(|state, _| state.core.set_stream_priority(stream, priority))
    }

    /// Puts the streams of a range into the class of the first of them.
    ///
    /// # Errors
    /// As [`Association::set_stream_priority`]; nothing was changed then.
    pub fn set_equal_priorities(&self, streams: RangeInclusive<StreamId>) -> Result<(), SchedulingError> {
        self.shared()
            .with(|state, _| state.core.set_equal_priorities(streams))
    }

    /// Gives each stream its own number as its priority: stream 0 is the most urgent. What was set before is forgotten.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn enable_default_priorities(&self) -> Result<(), SchedulingError> {
        self.shared()
            .with(|state, _| state.core.enable_default_priorities())
    }

    /// Puts all streams into class 0: they take turns. What was set before is forgotten.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn disable_priorities(&self) -> Result<(), SchedulingError> {
        self.shared().with(|state, _| state.core.disable_priorities())
    }

    /// The class of a stream; 0 unless set.
    #[must_use]
    pub fn stream_priority(&self, stream: StreamId) -> u16 {
        self.shared().read(|state| state.core.stream_priority(stream))
    }

    /// Sets a stream's share against the others' that have data: one of weight 4 sends four times the bytes of one of weight
    /// 1, the default.
    ///
    /// # Errors
    /// There is no such stream, the weight is 0, or the scheduler is not [`SchedulerKind::WeightedFairQueueing`].
    pub fn set_stream_weight(&self, stream: StreamId, weight: u16) -> Result<(), SchedulingError> {
        self.shared()
            .with(|state, _| state.core.set_stream_weight(stream, weight))
    }

    /// The weight of a stream; 1 unless set.
    #[must_use]
    pub fn stream_weight(&self, stream: StreamId) -> u16 {
        self.shared().read(|state| state.core.stream_weight(stream))
    }
}
