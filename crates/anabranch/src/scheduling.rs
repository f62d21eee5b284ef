//! Stream schedulers (RFC 8260 §3), for an association's handle.

use core::ops::RangeInclusive;

use anabranch_proto::{SchedulerKind, SchedulingError, StreamId};

use crate::association::Association;

/// Stream scheduling. Changes also apply to messages that wait in the send buffer.
impl Association {
    /// The scheduler in use; initially `Config::scheduler`.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerKind {
        self.shared().read(|state| state.core.scheduler())
    }

    /// Changes the scheduler, also for waiting messages. A message that is partly sent is finished first, unless messages are
    /// interleaved. Priorities and weights are kept for schedulers that use them.
    pub fn set_scheduler(&self, scheduler: SchedulerKind) {
        self.shared().with(|state, _| state.core.set_scheduler(scheduler));
    }

    /// Sets the priority of a stream; 0 is the highest priority and the default. While a stream of a higher priority has data,
    /// streams of lower priorities do not send, and can starve. A message that is partly sent is finished first, unless messages
    /// are interleaved.
    ///
    /// # Errors
    /// The stream does not exist, or the scheduler is not [`SchedulerKind::Priority`].
    pub fn set_stream_priority(
        &self,
        stream: impl Into<StreamId>,
        priority: u16,
    ) -> Result<(), SchedulingError> {
        let stream = stream.into();
        self.shared()
            .with(|state, _| state.core.set_stream_priority(stream, priority))
    }

    /// Gives all streams of a range the priority of the first stream, and the streams behind the range the priorities that follow.
    ///
    /// # Errors
    /// As [`Association::set_stream_priority`]; on an error nothing is changed.
    pub fn set_equal_priorities(
        &self,
        streams: RangeInclusive<impl Into<StreamId>>,
    ) -> Result<(), SchedulingError> {
        let (first, last) = streams.into_inner();
        let streams = first.into()..=last.into();
        self.shared()
            .with(|state, _| state.core.set_equal_priorities(streams))
    }

    /// Gives each stream its number as its priority, so that stream 0 has the highest priority. Earlier priorities are lost.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn enable_default_priorities(&self) -> Result<(), SchedulingError> {
        self.shared()
            .with(|state, _| state.core.enable_default_priorities())
    }

    /// Gives all streams priority 0, so that they send in round-robin order. Earlier priorities are lost.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn disable_priorities(&self) -> Result<(), SchedulingError> {
        self.shared().with(|state, _| state.core.disable_priorities())
    }

    /// The priority of a stream; 0 unless set.
    #[must_use]
    pub fn stream_priority(&self, stream: impl Into<StreamId>) -> u16 {
        let stream = stream.into();
        self.shared().read(|state| state.core.stream_priority(stream))
    }

    /// Sets the weight of a stream: a stream of weight 4 sends four times the bytes of a stream of weight 1, the default,
    /// while both have data.
    ///
    /// # Errors
    /// The stream does not exist, the weight is 0, or the scheduler is not [`SchedulerKind::WeightedFairQueueing`].
    pub fn set_stream_weight(&self, stream: impl Into<StreamId>, weight: u16) -> Result<(), SchedulingError> {
        let stream = stream.into();
        self.shared()
            .with(|state, _| state.core.set_stream_weight(stream, weight))
    }

    /// The weight of a stream; 1 unless set.
    #[must_use]
    pub fn stream_weight(&self, stream: impl Into<StreamId>) -> u16 {
        let stream = stream.into();
        self.shared().read(|state| state.core.stream_weight(stream))
    }
}
