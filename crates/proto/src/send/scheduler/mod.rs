//! Which stream sends next: the seam, and RFC 8260 §3's schedulers in it.
//!
//! A message that is begun is finished before another begins unless messages interleave: `send_queue` sees to that, and
//! asks here only between messages or, with interleaving, between fragments.

mod arrivals;
mod rings;
mod settings;
mod turns;

use core::num::NonZeroU16;

use anabranch_wire::StreamId;

use crate::config::SchedulerKind;
use crate::message::MessageId;
use arrivals::Arrivals;
use settings::Settings;
use turns::Turns;

/// A fragment that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub(super) message: MessageId,
    /// Of user data.
    pub(super) bytes: usize,
    /// Its message has left whole.
    pub(super) ended: bool,
    /// Another message's fragment may follow, wherever this one's message stands.
    pub(super) interleaves: bool,
    /// The stream has more to send.
    pub(super) more: bool,
}

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

/// The scheduler of an association, and what it knows of the streams.
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

    /// Schedules in another way from now on; `waiting` are the messages that wait, by number.
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

    /// A message was given to a stream.
    pub(super) fn on_message(&mut self, stream: StreamId, message: MessageId) {
        match &mut self.order {
            Order::Arrivals(arrivals) => arrivals.push(stream, message),
            Order::Turns(turns) => turns.enter(stream, &self.settings),
        }
    }

    /// The stream whose first message, or what is left of it, goes next.
    pub(super) fn peek(&self) -> Option<StreamId> {
        match &self.order {
            Order::Arrivals(arrivals) => arrivals.front(),
            Order::Turns(turns) => turns.front(),
        }
    }

    /// A fragment of a stream's first message has left.
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

    /// A packet is full, or has all that there is for it.
    pub(super) fn on_packet(&mut self) {
        if let Order::Turns(turns) = &mut self.order {
            turns.on_packet(&self.settings);
        }
    }

    /// Passes over a stream whose first message waits for its next part, until [`StreamScheduler::on_part`]; answers
    /// whether that is done: where messages leave in the order of `send`, none overtakes another.
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

    /// A message of `stream` was taken out of the queue; `left` tells how many are still there.
    pub(super) fn on_abandoned(&mut self, stream: StreamId, message: MessageId, left: usize) {
        match &mut self.order {
            Order::Arrivals(arrivals) => arrivals.remove(message),
            Order::Turns(turns) => turns.on_abandoned(stream, left, &self.settings),
        }
    }

    /// The class that a stream sends in; 0 where there are no classes.
    pub(super) fn class(&self, stream: StreamId) -> u16 {
        match self.kind {
            SchedulerKind::Priority => self.settings.priority(stream),
            _ => 0,
        }
    }

    pub(super) fn priority(&self, stream: StreamId) -> u16 {
        self.settings.priority(stream)
    }

    pub(super) fn weight(&self, stream: StreamId) -> u16 {
        self.settings.weight(stream)
    }

    /// Sets a stream's priority, wherever its messages stand: its next turn is the last of its new class.
    pub(super) fn set_priority(&mut self, stream: StreamId, priority: u16) {
        if self.priority(stream) != priority {
            self.settings.set_priority(stream, priority);
            self.on_change(stream);
        }
    }

    pub(super) fn set_weight(&mut self, stream: StreamId, weight: NonZeroU16) {
        self.settings.set_weight(stream, weight);
        self.on_change(stream);
    }

    /// Each stream's number becomes its priority, or 0.
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

    /// Nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.order = Order::new(self.kind);
    }
}
