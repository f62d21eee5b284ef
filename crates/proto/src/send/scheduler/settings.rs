//! The settings of each stream: its priority (RFC 8260 §3.4) and its weight (§3.6).

use core::num::NonZeroU16;

use anabranch_wire::StreamId;

use crate::paged::Paged;

/// Priorities and weights. Streams with default settings take no memory.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Whether the default priority of a stream is its number; otherwise it is 0.
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

    /// Sets the priority of each stream to its number, or to 0; earlier settings are dropped.
    pub(super) fn reset_priorities(&mut self, in_order: bool) {
        self.in_order = in_order;
        self.priorities.clear();
    }
}
