//! Which stream sends next: the seam, and the two orders of the base in it.

use std::collections::VecDeque;

use anabranch_wire::StreamId;

use crate::config::SchedulerKind;

/// The schedulers. Both answer in O(1) for any number of streams.
#[derive(Debug)]
pub(crate) enum StreamScheduler {
    /// A turn for each message, in the order of `send`.
    FirstComeFirstServed(VecDeque<StreamId>),
    /// Streams with data, each once, in turn.
    RoundRobin(VecDeque<StreamId>),
}

impl StreamScheduler {
    pub(crate) fn new(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::FirstComeFirstServed => Self::FirstComeFirstServed(VecDeque::new()),
            SchedulerKind::RoundRobin => Self::RoundRobin(VecDeque::new()),
        }
    }

    /// A message was given to `stream`; `was_empty` tells whether it is the only one there.
    pub(crate) fn on_message(&mut self, stream: StreamId, was_empty: bool) {
        match self {
            Self::FirstComeFirstServed(turns) => turns.push_back(stream),
            Self::RoundRobin(ring) => {
                if was_empty {
                    ring.push_back(stream);
                }
            }
        }
    }

    /// The stream whose first message goes next.
    pub(crate) fn peek(&self) -> Option<StreamId> {
        match self {
            Self::FirstComeFirstServed(turns) => turns.front().copied(),
            Self::RoundRobin(ring) => ring.front().copied(),
        }
    }

    /// The first message of the stream last peeked has left whole; `more` tells whether others wait there.
    pub(crate) fn on_message_sent(&mut self, more: bool) {
        match self {
            Self::FirstComeFirstServed(turns) => {
                turns.pop_front();
            }
            Self::RoundRobin(ring) => {
                if let Some(stream) = ring.pop_front()
                    && more
                {
                    ring.push_back(stream);
                }
            }
        }
    }

    /// A message of `stream` was taken out of the queue unsent; `left` tells how many are still there.
    pub(crate) fn on_abandoned(&mut self, stream: StreamId, left: usize) {
        match self {
            // The last turn of the stream is the one too many: its messages stay in order.
            Self::FirstComeFirstServed(turns) => {
                if let Some(at) = turns.iter().rposition(|turn| *turn == stream) {
                    turns.remove(at);
                }
            }
            Self::RoundRobin(ring) => {
                if left == 0 {
                    ring.retain(|turn| *turn != stream);
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        let (Self::FirstComeFirstServed(turns) | Self::RoundRobin(turns)) = self;
        turns.clear();
    }
}
