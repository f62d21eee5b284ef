//! Which stream sends next, as the application chooses it (RFC 8260 §3; Heinz, *Priorities in SCTP Multistreaming*).
//!
//! A priority or weight that the scheduler would ignore is refused, so that the application does not rely on it.

use core::num::NonZeroU16;
use core::ops::RangeInclusive;

use anabranch_wire::StreamId;

use super::Association;
use crate::config::SchedulerKind;
use crate::error::SchedulingError;
use crate::send::SendQueue;

/// Streams among each other.
impl Association {
    /// The scheduler in use: `Config::scheduler` until another was chosen.
    #[must_use]
    pub fn scheduler(&self) -> SchedulerKind {
        self.sender.queue.scheduler()
    }

    /// Chooses another scheduler, for what waits too. A message that is begun is finished first unless messages interleave.
    /// Priorities and weights that were set are kept for when they count again.
    pub fn set_scheduler(&mut self, scheduler: SchedulerKind) {
        self.exhausted = None;
        self.sender.queue.set_scheduler(scheduler);
    }

    /// Puts a stream into a class, 0 being the most urgent and the default: while a stream of one class has data, none of a
    /// higher number sends, so that a class can starve those behind it. What waits moves to the end of the new class; a
    /// message that is begun is finished first unless messages interleave.
    ///
    /// # Errors
    /// There is no such stream, or the scheduler is not [`SchedulerKind::Priority`].
    pub fn set_stream_priority(&mut self, stream: StreamId, priority: u16) -> Result<(), SchedulingError> {
        self.exhausted = None;
        check_priorities(&self.sender.queue, stream)?;
        self.sender.queue.set_priorities(stream, stream, priority);
        Ok(())
    }

    /// Puts the streams of a range into one class: that of the first of them (the thesis' *set a range of equals*).
    ///
    /// # Errors
    /// As [`Association::set_stream_priority`]; nothing was changed then. An empty range changes nothing.
    pub fn set_equal_priorities(&mut self, streams: RangeInclusive<StreamId>) -> Result<(), SchedulingError> {
        self.exhausted = None;
        let (first, last) = (*streams.start(), *streams.end());
        check_priorities(&self.sender.queue, first.max(last))?;
        let priority = self.sender.queue.priority(first);
        self.sender.queue.set_priorities(first, last, priority);
        Ok(())
    }

    /// Gives each stream its own number as its priority: stream 0 is the most urgent (the thesis' *default order*). What was
    /// set before is forgotten.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn enable_default_priorities(&mut self) -> Result<(), SchedulingError> {
        self.exhausted = None;
        check_priorities(&self.sender.queue, StreamId(0))?;
        self.sender.queue.reset_priorities(true);
        Ok(())
    }

    /// Puts all streams into class 0 (the thesis' *disable*): they take turns. What was set before is forgotten.
    ///
    /// # Errors
    /// The scheduler is not [`SchedulerKind::Priority`].
    pub fn disable_priorities(&mut self) -> Result<(), SchedulingError> {
        self.exhausted = None;
        check_priorities(&self.sender.queue, StreamId(0))?;
        self.sender.queue.reset_priorities(false);
        Ok(())
    }

    /// The class of a stream; 0 unless set.
    #[must_use]
    pub fn stream_priority(&self, stream: StreamId) -> u16 {
        self.sender.queue.priority(stream)
    }

    /// Sets a stream's share against the others' that have data: one of weight 4 sends four times the bytes of one of weight
    /// 1, the default.
    ///
    /// # Errors
    /// There is no such stream, the weight is 0, or the scheduler is not [`SchedulerKind::WeightedFairQueueing`].
    pub fn set_stream_weight(&mut self, stream: StreamId, weight: u16) -> Result<(), SchedulingError> {
        self.exhausted = None;
        check_stream(&self.sender.queue, stream)?;
        match self.scheduler() {
            SchedulerKind::WeightedFairQueueing => {}
            other => return Err(SchedulingError::NoWeights(other)),
        }
        let weight = NonZeroU16::new(weight).ok_or(SchedulingError::ZeroWeight)?;
        self.sender.queue.set_weight(stream, weight);
        Ok(())
    }

    /// The weight of a stream; 1 unless set.
    #[must_use]
    pub fn stream_weight(&self, stream: StreamId) -> u16 {
        self.sender.queue.weight(stream)
    }
}

/// Refuses a stream that there is not.
fn check_stream(queue: &SendQueue, stream: StreamId) -> Result<(), SchedulingError> {
    let streams = queue.stream_count();
    if stream.0 >= streams {
        return Err(SchedulingError::InvalidStream { stream, streams });
    }
    Ok(())
}

/// Refuses a stream that there is not, and priorities that the scheduler would ignore.
fn check_priorities(queue: &SendQueue, stream: StreamId) -> Result<(), SchedulingError> {
    check_stream(queue, stream)?;
    match queue.scheduler() {
        SchedulerKind::Priority => Ok(()),
        other => Err(SchedulingError::NoPriorities(other)),
    }
}
