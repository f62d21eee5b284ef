//! The settings of each stream: its priority (RFC 8260 §3.4) and its weight (§3.6).

use core::num::NonZeroU16;
use std::collections::BTreeMap;

use anabranch_wire::StreamId;

use crate::paged::Paged;

/// Priorities and weights. Streams with default settings take no memory.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Whether the default priority of a stream is its number; otherwise it is 0.
    in_order: bool,
    priorities: Paged<Option<u16>>,
    /// How many streams were given each priority.
    classes: BTreeMap<u16, usize>,
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
        let before = self.priorities.touch(stream).replace(priority);
        *self.classes.entry(priority).or_default() += 1;
        if let Some(before) = before
            && let Some(streams) = self.classes.get_mut(&before)
        {
            *streams -= 1;
            if *streams == 0 {
                self.classes.remove(&before);
            }
        }
    }

    /// The priorities that streams have, in order: those that were set, and the defaults.
    pub(super) fn classes(&self) -> impl Iterator<Item = u16> {
        let defaults = 0..=if self.in_order { u16::MAX } else { 0 };
        let mut set = self.classes.keys().copied().peekable();
        let mut defaults = defaults.peekable();
        core::iter::from_fn(move || {
            let least = [set.peek(), defaults.peek()]
                .into_iter()
                .flatten()
                .min()
                .copied()?;
            set.next_if_eq(&least);
            defaults.next_if_eq(&least);
            Some(least)
        })
    }

    pub(super) fn set_weight(&mut self, stream: StreamId, weight: NonZeroU16) {
        *self.weights.touch(stream) = Some(weight);
    }

    /// Sets the priority of each stream to its number, or to 0; earlier settings are dropped.
    pub(super) fn reset_priorities(&mut self, in_order: bool) {
        self.in_order = in_order;
        self.priorities.clear();
        self.classes.clear();
    }
}
