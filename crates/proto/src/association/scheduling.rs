//! Stream scheduling as the application sets it: scheduler, priorities and weights (RFC 8260 §3; Heinz, *Priorities in SCTP
//! Multistreaming*).
//!
//! A priority or weight that the scheduler would ignore is refused, so that the application does not rely on it.

use core::num::NonZeroU16;
use core::ops::RangeInclusive;

use anabranch_wire::StreamId;

use super::Association;
use crate::config::SchedulerKind;
use crate::error::SchedulingError;
use crate::send::SendQueue;

/// Scheduler, priorities and weights of the streams.
impl Association {
    /// The scheduler in use: `Config::scheduler`, unless another one was set.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerKind {
        self.sender.queue.scheduler()
    }

    /// Sets another scheduler, also for messages that are queued. A message that has begun is finished first unless messages interleave.
    /// Priorities and weights that were set are kept for a scheduler that uses them.
    pub fn set_scheduler(&mut self, scheduler: SchedulerKind) {
        self.set_classes(|queue| queue.set_scheduler(scheduler));
    }

    /// Sets the priority class of a stream. Class 0, the default, is the most urgent. While a stream of one class has data, no stream of
    /// a class with a higher number sends, so a class can starve the classes behind it. Queued messages move to the end of the new class; a
    /// message that has begun is finished first unless messages interleave.
    ///
    /// # Errors
    /// There is no such stream, or the scheduler is not [`SchedulerKind::Priority`].
    pub fn set_stream_priority(&mut self, stream: StreamId, priority: u16) -> Result<(), SchedulingError> {
        check_priorities(&self.sender.queue, stream)?;
        self.set_classes(|queue| queue.set_priorities(stream, stream, priority));
        Ok(())
    }

    /// Gives all streams of a range the class of the first of them, and the streams behind the range the classes that follow it, one for each
    /// (the thesis' *set a range of equals*). Classes that the streams behind had are dropped; those beyond 65,535 are 65,535.
    ///
    /// # Errors
    /// As [`Association::set_stream_priority`]; nothing was changed then. An empty range changes nothing.
    pub fn set_equal_priorities(&mut self, streams: RangeInclusive<StreamId>) -> Result<(), SchedulingError> {
        let (first, last) = (*streams.start(), *streams.end());
        check_priorities(&self.sender.queue, first.max(last))?;
        if first <= last {
            self.set_classes(|queue| queue.set_equals(first, last));
        }
        Ok(())
    }

    /// Gives each stream its own number as its class: stream 0 is the most urgent (the thesis' *default order*). Classes set before are
    /// dropped.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn enable_default_priorities(&mut self) -> Result<(), SchedulingError> {
        check_priorities(&self.sender.queue, StreamId(0))?;
        self.set_classes(|queue| queue.reset_priorities(true));
        Ok(())
    }

    /// Puts all streams into class 0, so that they send in turn (the thesis' *disable*). Classes set before are dropped.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn disable_priorities(&mut self) -> Result<(), SchedulingError> {
        check_priorities(&self.sender.queue, StreamId(0))?;
        self.set_classes(|queue| queue.reset_priorities(false));
        Ok(())
    }

    /// The priority class of a stream; default 0.
    #[must_use]
    pub fn stream_priority(&self, stream: StreamId) -> u16 {
        self.sender.queue.priority(stream)
    }

    /// Sets the weight of a stream, at least 1, default 1. Streams with data send bytes in proportion to their weights: a stream of weight
    /// 4 sends four times as many as a stream of weight 1.
    ///
    /// # Errors
    /// There is no such stream, the weight is 0, or the scheduler is not [`SchedulerKind::WeightedFairQueueing`].
    pub fn set_stream_weight(&mut self, stream: StreamId, weight: u16) -> Result<(), SchedulingError> {
        check_stream(&self.sender.queue, stream)?;
        match self.scheduler() {
            SchedulerKind::WeightedFairQueueing => {}
            other => return Err(SchedulingError::NoWeights(other)),
        }
        let weight = NonZeroU16::new(weight).ok_or(SchedulingError::ZeroWeight)?;
        self.change(|it| it.sender.queue.set_weight(stream, weight));
        Ok(())
    }

    /// The weight of a stream; default 1.
    #[must_use]
    pub fn stream_weight(&self, stream: StreamId) -> u16 {
        self.sender.queue.weight(stream)
    }
}

impl Association {
    /// Changes the classes of streams, which may have room in the send buffer then.
    fn set_classes(&mut self, change: impl FnOnce(&mut SendQueue)) {
        self.change(|it| {
            change(&mut it.sender.queue);
            it.sender.sort_buffer();
        });
    }
}

/// Refuses a stream that does not exist.
fn check_stream(queue: &SendQueue, stream: StreamId) -> Result<(), SchedulingError> {
    let streams = queue.stream_count();
    if stream.0 >= streams {
        return Err(SchedulingError::InvalidStream { stream, streams });
    }
    Ok(())
}

/// Refuses a stream that does not exist, and priorities that the scheduler would ignore.
fn check_priorities(queue: &SendQueue, stream: StreamId) -> Result<(), SchedulingError> {
    check_stream(queue, stream)?;
    match queue.scheduler() {
        SchedulerKind::Priority => Ok(()),
        other => Err(SchedulingError::NoPriorities(other)),
    }
}
