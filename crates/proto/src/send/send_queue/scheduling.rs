//! The scheduler of a send queue, and the priorities and weights of its streams (RFC 8260 §3).

use core::num::NonZeroU16;

use anabranch_wire::StreamId;

use super::SendQueue;
use crate::config::SchedulerKind;
use crate::message::MessageId;
use crate::send::scheduler::StreamScheduler;

impl SendQueue {
    pub(crate) fn scheduler(&self) -> SchedulerKind {
        self.scheduler.kind()
    }

    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        let waiting = self.waiting();
        self.with_classes_changed(|scheduler| scheduler.set_kind(kind, waiting));
    }

    pub(crate) fn priority(&self, stream: StreamId) -> u16 {
        self.scheduler.priority(stream)
    }

    pub(crate) fn weight(&self, stream: StreamId) -> u16 {
        self.scheduler.weight(stream)
    }

    /// Sets the priority of the streams from `first` to `last`.
    pub(crate) fn set_priorities(&mut self, first: StreamId, last: StreamId, priority: u16) {
        self.with_classes_changed(|scheduler| {
            for stream in first.0..=last.0 {
                scheduler.set_priority(StreamId(stream), priority);
            }
        });
    }

    /// Gives the streams from `first` to `last` the priority of the first, and each stream behind them the next number after that of the
    /// stream before it (the thesis, §4, `sctp_setequalpriority`).
    pub(crate) fn set_equals(&mut self, first: StreamId, last: StreamId) {
        let priority = self.priority(first);
        self.set_priorities(first, last, priority);
        let mut next = priority;
        for stream in last.0 + 1..self.stream_count() {
            next = next.saturating_add(1);
            self.set_priorities(StreamId(stream), StreamId(stream), next);
        }
    }

    pub(crate) fn set_weight(&mut self, stream: StreamId, weight: NonZeroU16) {
        self.scheduler.set_weight(stream, weight);
    }

    /// Sets the priority of each stream to its number, or to 0.
    pub(crate) fn reset_priorities(&mut self, in_order: bool) {
        let waiting = self.waiting();
        self.with_classes_changed(|scheduler| scheduler.reset_priorities(in_order, waiting));
    }

    /// A message with a deadline is queued on this stream, which comes before the streams that were given no priority. Returns whether priorities
    /// changed.
    #[inline]
    pub(crate) fn put_first(&mut self, stream: StreamId) -> bool {
        let changes = !self.scheduler.is_settled(stream);
        if changes {
            let waiting = self.waiting();
            self.with_classes_changed(|scheduler| scheduler.put_first(stream, waiting));
        }
        changes
    }

    /// The classes of streams may change: sorts the messages that may be abandoned again.
    fn with_classes_changed(&mut self, change: impl FnOnce(&mut StreamScheduler)) {
        change(&mut self.scheduler);
        if !self.perishable.any_yields() {
            return;
        }
        for (persistence, message, stream) in self.perishable.take_yielding() {
            self.note_persistence(persistence, message, stream, true);
        }
    }

    /// The queued messages in the order of `send`.
    fn waiting(&mut self) -> Vec<(MessageId, StreamId)> {
        let streams = self.streams.iter_mut();
        let streams = streams.filter_map(|(id, stream)| Some((id, stream.as_deref()?)));
        let hold = self.hold.as_ref();
        let mut waiting: Vec<_> = streams
            .flat_map(|(id, stream)| {
                let messages = &stream.messages;
                let sent = hold.map_or(messages.len(), |hold| hold.unheld(stream.held, messages));
                messages.iter().take(sent).map(move |message| (message.id, id))
            })
            .collect();
        waiting.sort_unstable();
        waiting
    }
}
