//! What the application said of each stream: its priority and its weight.

use core::num::NonZeroU16;

use anabranch_wire::StreamId;

use crate::paged::Paged;

/// Priorities and weights. Streams that nothing was said of take no memory.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Whether a stream's number is its priority, where nothing else was said; else that is 0.
    in_order: bool,
    priorities: Paged<Option<u16>>,
    weights: Paged<Option<NonZeroU16>>,
}

impl Settings {
    pub(super) fn priority(&self, stream: StreamId) -> u16 {
        let own = self.priorities.at(stream).copied().flatten();
        own.unwrap_or(if self.in_order { stream.0 } else { 0 })
    }

    pub(super) fn weight(&self, stream: StreamId) -> u16 {
        self.weights
            .at(stream)
            .copied()
            .flatten()
            .map_or(1, NonZeroU16::get)
    }

    pub(super) fn set_priority(&mut self, stream: StreamId, priority: u16) {
        *self.priorities.touch(stream) = Some(priority);
    }

    pub(super) fn set_weight(&mut self, stream: StreamId, weight: NonZeroU16) {
        *self.weights.touch(stream) = Some(weight);
    }

    /// The number of each stream as its priority, or 0 for all: what was said before is forgotten.
    pub(super) fn reset_priorities(&mut self, in_order: bool) {
        self.in_order = in_order;
        self.priorities.clear();
    }
}
