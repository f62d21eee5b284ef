//! The properties of each stream that decide when it sends: its priority (RFC 8260 §3.4), its weight (§3.6), and the deadline of its first
//! message.

use core::num::NonZeroU16;
use std::collections::BTreeMap;

use anabranch_wire::StreamId;

use crate::paged::Paged;
use crate::time::Timestamp;

/// The priority of a stream that was given none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Unset {
    /// 0.
    #[default]
    First,
    /// 1, behind the streams whose messages have deadlines.
    Second,
    /// Its number.
    Number,
}

/// Priorities, weights and deadlines. Streams with default settings, and without deadlines, take no memory.
#[derive(Debug, Default)]
pub(super) struct Settings {
    unset: Unset,
    priorities: Paged<Option<u16>>,
    /// How many streams were given each priority.
    classes: BTreeMap<u16, usize>,
    weights: Paged<Option<NonZeroU16>>,
    dues: Paged<Option<Timestamp>>,
}

impl Settings {
    pub(super) fn priority(&self, stream: StreamId) -> u16 {
        let own = self.priorities.at(stream).copied().flatten();
        own.unwrap_or(match self.unset {
            Unset::First => 0,
            Unset::Second => 1,
            Unset::Number => stream.0,
        })
    }

    /// Whether a message with a deadline changes no priority: its stream was given another one than the first, streams without a priority come
    /// second already, or each stream has its number.
    #[inline]
    pub(super) fn is_settled(&self, stream: StreamId) -> bool {
        match self.priorities.at(stream).copied().flatten() {
            Some(0) => self.unset != Unset::First,
            Some(_) => true,
            None => self.unset == Unset::Number,
        }
    }

    /// The messages of this stream have deadlines: it gets priority 0, and streams without a priority come after it.
    pub(super) fn put_first(&mut self, stream: StreamId) {
        self.unset = Unset::Second;
        self.set_priority(stream, 0);
    }

    pub(super) fn weight(&self, stream: StreamId) -> u16 {
        self.weights
            .at(stream)
            .copied()
            .flatten()
            .map_or(1, NonZeroU16::get)
    }

    /// Whether a message ever had a deadline.
    #[inline(always)]
    pub(super) fn has_dues(&self) -> bool {
        !self.dues.is_empty()
    }

    /// The deadline of the stream's first message; [`Timestamp::MAX`] if it has none.
    #[inline]
    pub(super) fn due(&self, stream: StreamId) -> Timestamp {
        let due = self.dues.at(stream).copied().flatten();
        due.unwrap_or(Timestamp::MAX)
    }

    /// Returns whether the deadline is another one.
    pub(super) fn set_due(&mut self, stream: StreamId, due: Option<Timestamp>) -> bool {
        core::mem::replace(self.dues.touch(stream), due) != due
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
        let defaults = match self.unset {
            Unset::First => 0..=0,
            Unset::Second => 1..=1,
            Unset::Number => 0..=u16::MAX,
        };
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
        self.unset = if in_order { Unset::Number } else { Unset::First };
        self.priorities.clear();
        self.classes.clear();
    }
}
