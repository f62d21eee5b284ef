//! The stream scheduler (RFC 8260 §3): which stream sends next.
//!
//! A message that has begun is finished before another begins, unless messages interleave. `send_queue` ensures this: it asks the scheduler
//! only between messages or, with interleaving, between fragments.

mod accepted;
mod arrivals;
mod rings;
mod settings;
mod turns;

use core::num::NonZeroU16;

use anabranch_wire::StreamId;

use crate::config::SchedulerKind;
use crate::message::MessageId;
use crate::time::Timestamp;
pub(super) use accepted::Accepted;
use arrivals::Arrivals;
use settings::Settings;
use turns::Turns;

#[derive(Debug)]
enum Order {
    Arrivals(Arrivals),
    Turns(Turns),
}

impl Order {
    fn new(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::FirstComeFirstServed => Self::Arrivals(Arrivals::default()),
            kind => Self::Turns(Turns::new(kind)),
        }
    }
}

/// The scheduler of an association, and the streams' settings.
#[derive(Debug)]
pub(super) struct StreamScheduler {
    kind: SchedulerKind,
    settings: Settings,
    order: Order,
}

impl StreamScheduler {
    pub(super) fn new(kind: SchedulerKind) -> Self {
        Self {
            kind,
            settings: Settings::default(),
            order: Order::new(kind),
        }
    }

    pub(super) fn kind(&self) -> SchedulerKind {
        self.kind
    }

    /// Changes the scheduler; `waiting` are the queued messages in the order of `send`.
    pub(super) fn set_kind(
        &mut self,
        kind: SchedulerKind,
        waiting: impl IntoIterator<Item = (MessageId, StreamId)>,
    ) {
        self.kind = kind;
        self.order = Order::new(kind);
        for (message, stream) in waiting {
            self.on_message(stream, message);
        }
    }

    /// A message was queued on a stream.
    pub(super) fn on_message(&mut self, stream: StreamId, message: MessageId) {
        match &mut self.order {
            Order::Arrivals(arrivals) => arrivals.push(stream, message),
            Order::Turns(turns) => turns.enter(stream, &self.settings),
        }
    }

    /// Messages that were held back may be sent now; they are in the order of `send`.
    pub(super) fn on_released(&mut self, messages: &[(MessageId, StreamId)]) {
        match &mut self.order {
            Order::Arrivals(arrivals) => arrivals.merge(messages),
            Order::Turns(turns) => {
                for (_, stream) in messages {
                    turns.enter(*stream, &self.settings);
                }
            }
        }
    }

    /// The stream that sends next.
    pub(super) fn peek(&self) -> Option<StreamId> {
        match &self.order {
            Order::Arrivals(arrivals) => arrivals.front(),
            Order::Turns(turns) => turns.front(),
        }
    }

    /// A fragment of a stream's first message was sent.
    pub(super) fn accept(&mut self, stream: StreamId, accepted: Accepted) {
        match &mut self.order {
            Order::Arrivals(arrivals) => {
                if accepted.ended {
                    arrivals.remove(accepted.message);
                }
            }
            Order::Turns(turns) => turns.accept(stream, accepted, &self.settings),
        }
    }

    /// A packet is full, or no more data is available for it.
    pub(super) fn on_packet(&mut self) {
        if let Order::Turns(turns) = &mut self.order {
            turns.on_packet(&self.settings);
        }
    }

    /// Skips a stream whose first message waits for its next part, until [`StreamScheduler::on_part`]. Returns false if that is not
    /// allowed: with first come, first served no message overtakes another.
    pub(super) fn park(&mut self, stream: StreamId) -> bool {
        match &mut self.order {
            Order::Arrivals(_) => false,
            Order::Turns(turns) => {
                turns.park(stream);
                true
            }
        }
    }

    /// The message that waited for a part has it.
    pub(super) fn on_part(&mut self, stream: StreamId) {
        if let Order::Turns(turns) = &mut self.order {
            turns.unpark(stream, &self.settings);
        }
    }

    /// A message of `stream` was removed from the queue; `left` messages of the stream remain.
    pub(super) fn on_abandoned(&mut self, stream: StreamId, message: MessageId, left: usize) {
        match &mut self.order {
            Order::Arrivals(arrivals) => arrivals.remove(message),
            Order::Turns(turns) => turns.on_abandoned(stream, left, &self.settings),
        }
    }

    /// The priority class of a stream; 0 with other schedulers.
    pub(super) fn class(&self, stream: StreamId) -> u16 {
        match self.kind {
            SchedulerKind::Priority => self.settings.priority(stream),
            _ => 0,
        }
    }

    /// The classes of all streams, the most urgent first.
    pub(super) fn classes(&self) -> impl Iterator<Item = u16> {
        let most = match self.kind {
            SchedulerKind::Priority => usize::MAX,
            _ => 0,
        };
        let classes = self.settings.classes().take(most);
        classes.chain((most == 0).then_some(0))
    }

    pub(super) fn priority(&self, stream: StreamId) -> u16 {
        self.settings.priority(stream)
    }

    pub(super) fn weight(&self, stream: StreamId) -> u16 {
        self.settings.weight(stream)
    }

    /// Sets a stream's priority. Its next turn is the last of its new class.
    pub(super) fn set_priority(&mut self, stream: StreamId, priority: u16) {
        let changes = self.priority(stream) != priority;
        // Also if it is the default: a message with a deadline changes the default, and not what the application chose.
        self.settings.set_priority(stream, priority);
        if changes {
            self.on_change(stream);
        }
    }

    /// Whether a message with a deadline on this stream changes the priority of no stream.
    #[inline]
    pub(super) fn is_settled(&self, stream: StreamId) -> bool {
        self.kind != SchedulerKind::Priority || self.settings.is_settled(stream)
    }

    /// Puts a stream whose messages have deadlines before the streams that were given no priority.
    pub(super) fn put_first(
        &mut self,
        stream: StreamId,
        waiting: impl IntoIterator<Item = (MessageId, StreamId)>,
    ) {
        self.settings.put_first(stream);
        self.set_kind(self.kind, waiting);
    }

    /// Whether a message ever had a deadline: until then no call of [`StreamScheduler::set_due`] is needed.
    #[inline(always)]
    pub(super) fn has_dues(&self) -> bool {
        self.settings.has_dues()
    }

    /// The deadline of the stream's first message, for which streams of equal priority send in the order of their deadlines.
    pub(super) fn set_due(&mut self, stream: StreamId, due: Option<Timestamp>) {
        if self.settings.set_due(stream, due) && self.kind == SchedulerKind::Priority {
            self.on_change(stream);
        }
    }

    pub(super) fn set_weight(&mut self, stream: StreamId, weight: NonZeroU16) {
        self.settings.set_weight(stream, weight);
        self.on_change(stream);
    }

    /// Sets the priority of each stream to its number, or to 0.
    pub(super) fn reset_priorities(
        &mut self,
        in_order: bool,
        waiting: impl IntoIterator<Item = (MessageId, StreamId)>,
    ) {
        self.settings.reset_priorities(in_order);
        self.set_kind(self.kind, waiting);
    }

    fn on_change(&mut self, stream: StreamId) {
        if let Order::Turns(turns) = &mut self.order {
            turns.on_change(stream, &self.settings);
        }
    }

    /// The queue is empty.
    pub(super) fn clear(&mut self) {
        self.order = Order::new(self.kind);
    }
}
