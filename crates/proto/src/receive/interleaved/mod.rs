//! Reassembles and orders messages with interleaving (RFC 8260 §2.2.3): the fragments of a message have the same stream, U bit and Message
//! Identifier, whatever their TSNs.

mod beyond;
mod growing;
mod held_fragment;
mod key;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod model;
mod repairs;
mod reset;

use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::{Mid, StreamId};

use super::delivery::Outlet;
use super::fragment::{Fragment, Verdict};
use super::held::Held;
use super::load::{Load, OVERHEAD, SKIPPED};
use super::ready::Ready;
use super::receive_window::memory_limit;
use super::renegable::Place;
use super::sequential::BYTES_FOR_A_NOTICE;
use super::tsn_tracker::TsnTracker;
use crate::config::BufferConfig;
use crate::message::{MessagePart, Payload};
use crate::paged::Paged;
use crate::seq::ExtendedTsn;
use crate::seq::Run;
use growing::Growing;
pub(super) use key::Key;
use repairs::Repairs;

/// The order of messages in one inbound stream.
#[derive(Debug, Default)]
struct Order {
    /// The MID of the next ordered message.
    next: u32,
    /// The highest unordered message that was skipped.
    passed: Option<u32>,
    /// The unordered message that is delivered in parts. There is only one at a time. Otherwise a peer that begins messages and never ends
    /// them would make the receiver store all of them.
    in_parts: Option<u32>,
    generation: u32,
    /// Whether the stream is in [`Interleaved::used`].
    used: bool,
}

impl Outlet<'_> {
    /// These TSNs are no longer renegable.
    fn keep(&mut self, tsns: impl Iterator<Item = ExtendedTsn>) {
        if self.renegable.enabled {
            tsns.for_each(|tsn| self.renegable.remove(Run::of(tsn)));
        }
    }

    fn list(&mut self, key: Key, message: &mut Growing) {
        if !core::mem::replace(&mut message.listed, true) {
            self.ready.push(Ready::Grown(key));
        }
    }
}

/// Bytes of the structure of an incomplete message.
#[cfg(test)]
pub(super) const GROWING: usize = size_of::<Growing>();

/// Limits above which a message is delivered in parts, before it is complete.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Bytes of user data held of the message.
    message: usize,
    /// Bytes of user data, and of memory, held of all messages that are not delivered in parts. Above one of these limits, each message that
    /// grows is delivered in parts, whatever its size.
    all: (usize, usize),
    /// Messages that will not arrive, stored until their turn.
    skipped: usize,
}

/// The messages that are incomplete, or whose turn has not come.
#[derive(Debug)]
pub(super) struct Interleaved {
    /// Messages that are not delivered in parts.
    messages: BTreeMap<Key, Box<Growing>>,
    /// The unordered ones of `messages` whose first fragment has arrived, so that they can be delivered in parts.
    begun: BTreeSet<Key>,
    /// Messages that are delivered in parts, until the application has read them to the end.
    in_parts: BTreeMap<Key, Box<Growing>>,
    streams: Paged<Order>,
    /// The streams with data since all streams were last reset.
    used: Vec<StreamId>,
    /// Ordered messages that will not arrive.
    skipped: BTreeSet<(StreamId, u32)>,
    /// The cost of the messages that are not delivered in parts.
    open: Load,
    limits: Limits,
    /// If repair was negotiated.
    repairs: Option<Box<Repairs>>,
}

impl Interleaved {
    pub(super) fn new(buffers: &BufferConfig) -> Self {
        let receive = buffers.receive as usize;
        Self {
            messages: BTreeMap::new(),
            begun: BTreeSet::new(),
            in_parts: BTreeMap::new(),
            streams: Paged::default(),
            used: Vec::new(),
            skipped: BTreeSet::new(),
            open: Load::default(),
            limits: Limits {
                message: buffers.partial_delivery_point.min(receive / 2),
                all: (receive / 2, memory_limit(receive) / 2),
                skipped: receive / BYTES_FOR_A_NOTICE,
            },
            repairs: None,
        }
    }

    /// Repair was negotiated.
    pub(super) fn use_repair(&mut self) {
        self.repairs = Some(Box::default());
    }

    /// Messages repaired.
    pub(super) fn repaired(&self) -> u64 {
        self.repairs.as_ref().map_or(0, |repairs| repairs.repaired)
    }

    /// The memory in bytes that messages and notices use beside chunks.
    pub(super) fn overhead(&self) -> usize {
        OVERHEAD * (self.messages.len() + self.in_parts.len()) + SKIPPED * self.skipped.len()
    }

    /// Stores a fragment, which already counts in the receive window.
    #[inline(always)]
    pub(super) fn on_fragment(
        &mut self,
        tsn: ExtendedTsn,
        fragment: Fragment,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        let order = Self::used(&mut self.streams, &mut self.used, fragment.stream);
        let key = Key {
            stream: fragment.stream,
            unordered: fragment.unordered,
            generation: order.generation,
            mid: fragment.sequence,
        };
        let is_past = if key.unordered {
            order
                .passed
                .is_some_and(|passed| !Mid(key.mid).is_after(Mid(passed)))
        } else {
            Mid(key.mid).is_before(Mid(order.next))
        };
        if is_past {
            out.window.release(Load::of(&fragment));
            return Verdict::Late;
        }
        let whole = fragment.beginning && fragment.ending;
        if whole && (key.unordered || key.mid == order.next) {
            let holds = !(self.messages.is_empty() && self.in_parts.is_empty());
            if holds && (self.messages.contains_key(&key) || self.in_parts.contains_key(&key)) {
                return Verdict::Violation("an unfragmented message has the MID of an incomplete message");
            }
            let number = out.number();
            out.ready.push(Ready::Message(Held::whole(tsn, fragment, number)));
            if !key.unordered {
                order.next = order.next.wrapping_add(1);
                if holds || !self.skipped.is_empty() {
                    self.go_on(key.stream, out);
                }
            }
            return Verdict::Accepted;
        }
        if self.repairs.is_some() && (key.unordered || fragment.repair) {
            return self.on_repairable(key, tsn, fragment, tracker, out);
        }
        self.on_part(key, tsn, fragment, tracker, out)
    }

    /// A fragment or a repair chunk, if repair was negotiated.
    #[inline(never)]
    fn on_repairable(
        &mut self,
        key: Key,
        tsn: ExtendedTsn,
        fragment: Fragment,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        let Some(repairs) = &mut self.repairs else {
            return Verdict::Accepted;
        };
        if fragment.repair {
            let dropped = repairs.add(key, tsn, fragment);
            out.window.release(dropped);
        } else if repairs.takes(key) {
            out.window.release(Load::of(&fragment));
            return Verdict::Accepted;
        } else {
            let verdict = self.on_part(key, tsn, fragment, tracker, out);
            if verdict != Verdict::Accepted {
                return verdict;
            }
        }
        self.repair(key, tsn, out);
        Verdict::Accepted
    }

    /// Delivers a message if its repair chunks replace the fragments that it lacks.
    fn repair(&mut self, key: Key, tsn: ExtendedTsn, out: &mut Outlet<'_>) {
        let Some(repairs) = self.repairs.as_mut().filter(|repairs| repairs.has_chunks()) else {
            return;
        };
        let Some(message) = self.messages.get_mut(&key) else {
            return;
        };
        let Some(fragments) = repairs.repair(key, message) else {
            return;
        };
        out.keep(message.renegable());
        let added = message.complete(tsn, fragments);
        out.window.take(added);
        self.open += added;
        self.deliver(key, out);
    }

    /// A fragment, or a message that waits for its turn.
    fn on_part(
        &mut self,
        key: Key,
        tsn: ExtendedTsn,
        fragment: Fragment,
        tracker: &TsnTracker,
        out: &mut Outlet<'_>,
    ) -> Verdict {
        let load = Load::of(&fragment);
        let message = match self.in_parts.get_mut(&key) {
            Some(message) => message,
            None => self.messages.entry(key).or_default(),
        };
        let before = message.run_len();
        match message.insert(tsn, fragment) {
            Ok(fsn) => out.renegable.add_at(Run::of(tsn), Place::Fragment(key, fsn)),
            Err(what) => return Verdict::Violation(what),
        }
        let (complete, has_run) = (message.is_complete(), message.has_run());
        if message.number.is_none() {
            let large = message.load.bytes >= self.limits.message;
            self.open += load;
            if key.unordered && before == 0 && has_run {
                self.begun.insert(key);
            }
            if complete || has_run && (large || self.holds_much()) {
                self.on_grown(key, out);
            }
        } else {
            if has_run {
                out.keep(message.run_from(before));
                out.list(key, message);
            }
            if complete {
                self.on_grown(key, out);
            }
        }
        if out.ready.is_traced() {
            self.note_blocked(key, tracker, out);
        }
        Verdict::Accepted
    }

    /// Records that a message which has grown is complete and waits for its turn.
    #[cold]
    fn note_blocked(&self, key: Key, tracker: &TsnTracker, out: &mut Outlet<'_>) {
        let complete = self.message(key).filter(|message| message.is_complete());
        if let Some(first) = complete.and_then(|message| message.run_from(0).next())
            && !key.unordered
            && self.messages.contains_key(&key)
        {
            out.ready
                .note_blocked(key.stream, first, tracker.cumulative() + 1);
        }
    }

    /// The order of a stream with data.
    fn order(&mut self, stream: StreamId) -> &mut Order {
        Self::used(&mut self.streams, &mut self.used, stream)
    }

    /// The same, of these streams.
    fn used<'a>(streams: &'a mut Paged<Order>, used: &mut Vec<StreamId>, stream: StreamId) -> &'a mut Order {
        let order = streams.touch(stream);
        if !core::mem::replace(&mut order.used, true) {
            used.push(stream);
        }
        order
    }

    fn message(&self, key: Key) -> Option<&Growing> {
        let message = self.in_parts.get(&key).or_else(|| self.messages.get(&key));
        message.map(Box::as_ref)
    }

    /// A message has grown, or its turn has come.
    fn on_grown(&mut self, key: Key, out: &mut Outlet<'_>) {
        let next = self.streams.touch(key.stream).next;
        let Some(message) = self.message(key) else {
            return;
        };
        if !message.is_complete() {
            self.seek_parts(key, out);
        } else if !key.unordered {
            if key.mid == next {
                self.go_on(key.stream, out);
            }
        } else if message.number.is_none() {
            self.deliver(key, out);
        } else {
            self.streams.touch(key.stream).in_parts = None;
            self.seek_unordered(key.stream, out);
        }
    }

    /// Delivers the ordered messages of a stream while it is their turn.
    fn go_on(&mut self, stream: StreamId, out: &mut Outlet<'_>) {
        loop {
            let Order {
                next: mid,
                generation,
                ..
            } = *self.streams.touch(stream);
            let key = Key {
                stream,
                unordered: false,
                generation,
                mid,
            };
            let state = self
                .message(key)
                .map(|message| (message.is_complete(), message.number));
            let skipped = !self.skipped.is_empty() && self.skipped.remove(&(stream, mid));
            match state {
                Some((true, None)) => self.deliver(key, out),
                // Its last part is in the queue that the application reads.
                Some((true, Some(_))) => {}
                Some((false, None)) if skipped => self.drop_message(key, out),
                None if skipped => {}
                Some((false, _)) => return self.seek_parts(key, out),
                None => return,
            }
            self.streams.touch(stream).next = mid.wrapping_add(1);
        }
    }

    /// Starts to deliver a message in parts if its turn has come, and if it or all messages together exceed the limits. Therefore the
    /// window cannot stay full: data that waits for a missing TSN is delivered when that TSN arrives.
    fn seek_parts(&mut self, key: Key, out: &mut Outlet<'_>) {
        let much = self.holds_much();
        let order = self.streams.touch(key.stream);
        let turn = if key.unordered {
            order.in_parts.is_none()
        } else {
            order.next == key.mid
        };
        let Some(message) = self.messages.get(&key).filter(|_| turn) else {
            return;
        };
        let large = message.load.bytes >= self.limits.message;
        if !message.has_run() || !(large || much) {
            return;
        }
        if key.unordered {
            order.in_parts = Some(key.mid);
        }
        if let Some(mut message) = self.take_out(key, out) {
            message.number = Some(out.number());
            out.keep(message.run_from(0));
            out.list(key, &mut message);
            self.in_parts.insert(key, message);
        }
    }

    /// Whether the messages that are not delivered in parts exceed the limits together.
    fn holds_much(&self) -> bool {
        let memory = self.open.memory() + OVERHEAD * self.messages.len();
        self.open.bytes >= self.limits.all.0 || memory >= self.limits.all.1
    }

    /// The stream has no unordered message that is delivered in parts now, so the next may start.
    fn seek_unordered(&mut self, stream: StreamId, out: &mut Outlet<'_>) {
        let first = self.begun.range(all_of_unordered(stream)).next();
        if let Some(key) = first.copied() {
            self.seek_parts(key, out);
        }
    }

    /// Removes and returns a message that is not delivered in parts.
    fn take_out(&mut self, key: Key, out: &mut Outlet<'_>) -> Option<Box<Growing>> {
        let message = self.messages.remove(&key)?;
        self.begun.remove(&key);
        self.open -= message.load;
        if key.unordered
            && let Some(repairs) = &mut self.repairs
        {
            out.window.release(repairs.finish(key));
        }
        Some(message)
    }

    fn deliver(&mut self, key: Key, out: &mut Outlet<'_>) {
        if let Some(mut message) = self.take_out(key, out) {
            out.keep(message.renegable());
            let number = out.number();
            out.ready
                .push(Ready::Message(part_of(key, &mut message, number, true)));
        }
    }

    fn drop_message(&mut self, key: Key, out: &mut Outlet<'_>) {
        if let Some(message) = self.take_out(key, out) {
            out.keep(message.renegable());
            out.window.release(message.load);
        }
    }

    /// The next part of a message that is delivered in parts, and whether the application can read the part after it at once.
    pub(super) fn take_grown(&mut self, key: Key) -> Option<(Held, bool)> {
        let message = self.in_parts.get_mut(&key)?;
        if message.is_complete() || (message.truncated && !message.has_run()) {
            let mut message = self.in_parts.remove(&key)?;
            let number = message.number?;
            return Some((part_of(key, &mut message, number, true), false));
        }
        message.listed = message.truncated;
        let number = message.number?;
        Some((part_of(key, message, number, false), message.truncated))
    }

    /// Incomplete messages of a stream up to this one will not arrive (RFC 8260 §2.3.1).
    pub(super) fn skip_to(&mut self, stream: StreamId, unordered: bool, mid: u32, out: &mut Outlet<'_>) {
        let order = self.order(stream);
        let generation = order.generation;
        let (first, in_parts) = if unordered {
            if order.passed.is_some_and(|passed| !Mid(mid).is_after(Mid(passed))) {
                return;
            }
            let passed = order.passed.replace(mid);
            // Half of the number space counts as behind `mid`. No message with a MID further back is stored any more.
            let half = mid.wrapping_sub(i32::MAX as u32);
            let first = passed.map_or(half, |passed| passed.wrapping_add(1));
            (first, order.in_parts)
        } else {
            if Mid(mid).is_before(Mid(order.next)) {
                return;
            }
            let next = core::mem::replace(&mut order.next, mid.wrapping_add(1));
            (next, Some(next))
        };
        let skipped = |one: u32| Mid(one).distance_from(Mid(first)) <= Mid(mid).distance_from(Mid(first));
        if let Some(one) = in_parts.filter(|one| skipped(*one)) {
            self.truncate(
                Key {
                    stream,
                    unordered,
                    generation,
                    mid: one,
                },
                out,
            );
        }
        // MIDs wrap: then the range consists of two ranges.
        let wraps = first > mid;
        self.skip_range(
            stream,
            unordered,
            (first, if wraps { u32::MAX } else { mid }),
            out,
        );
        if wraps {
            self.skip_range(stream, unordered, (0, mid), out);
        }
        if unordered {
            self.seek_unordered(stream, out);
        } else {
            self.go_on(stream, out);
        }
    }

    /// Delivers the complete messages in this range of MIDs and drops the incomplete ones. A message that is delivered in parts is kept.
    fn skip_range(
        &mut self,
        stream: StreamId,
        unordered: bool,
        (from, to): (u32, u32),
        out: &mut Outlet<'_>,
    ) {
        let generation = self.streams.touch(stream).generation;
        let key = |mid| Key {
            stream,
            unordered,
            generation,
            mid,
        };
        if let Some(repairs) = self.repairs.as_mut().filter(|_| unordered) {
            out.window.release(repairs.skip(key(from)..=key(to)));
        }
        let in_range = self.messages.range(key(from)..=key(to));
        let waiting: Vec<_> = in_range
            .map(|(key, message)| (*key, message.is_complete()))
            .collect();
        for (key, complete) in waiting {
            if complete {
                self.deliver(key, out);
            } else {
                self.drop_message(key, out);
            }
        }
        if !unordered && !self.skipped.is_empty() {
            let in_range = self.skipped.range((stream, from)..=(stream, to));
            for skipped in in_range.copied().collect::<Vec<_>>() {
                self.skipped.remove(&skipped);
            }
        }
    }

    /// Ends an incomplete message of which parts were delivered.
    fn truncate(&mut self, key: Key, out: &mut Outlet<'_>) {
        let message = self.in_parts.get_mut(&key);
        let Some(message) = message.filter(|message| !message.is_complete()) else {
            return;
        };
        out.keep(message.renegable());
        out.window.release(message.drop_beyond());
        message.truncated = true;
        out.list(key, message);
        if key.unordered {
            self.streams.touch(key.stream).in_parts = None;
        }
    }

    /// An incomplete ordered message will not arrive.
    pub(super) fn skip_one(&mut self, stream: StreamId, mid: u32, out: &mut Outlet<'_>) {
        let Order { next, generation, .. } = *self.order(stream);
        let key = Key {
            stream,
            unordered: false,
            generation,
            mid,
        };
        let in_parts = self.in_parts.contains_key(&key);
        if Mid(mid).is_before(Mid(next)) || in_parts || self.skipped.len() >= self.limits.skipped {
            return;
        }
        self.skipped.insert((stream, mid));
        if mid == next {
            self.go_on(stream, out);
        }
    }

    /// Drops all messages except the complete and the truncated ones in the queue.
    pub(super) fn end(&mut self, out: &mut Outlet<'_>) {
        out.ready.replace(|entry, kept| match entry {
            Ready::Grown(key) => {
                let ends = |message: &Growing| message.is_complete() || message.truncated;
                let mut more = self.in_parts.get(&key).is_some_and(|message| ends(message));
                while more && let Some((held, again)) = self.take_grown(key) {
                    kept.push_back(Ready::Message(held));
                    more = again;
                }
            }
            entry => kept.push_back(entry),
        });
        self.begun.clear();
        if let Some(repairs) = &mut self.repairs {
            out.window.release(repairs.clear());
        }
        for messages in [&mut self.messages, &mut self.in_parts] {
            for message in core::mem::take(messages).into_values() {
                out.window.release(message.load);
            }
        }
    }

    /// The TSNs of the renegable fragments, in any order.
    #[cfg(test)]
    pub(super) fn renegable(&self) -> impl Iterator<Item = ExtendedTsn> + '_ {
        let all = self.messages.values().chain(self.in_parts.values());
        all.flat_map(|message| message.renegable())
    }

    /// Drops a renegable fragment; returns what it cost.
    pub(super) fn renege(&mut self, key: Key, fsn: u64) -> Option<Load> {
        if let Some(message) = self.in_parts.get_mut(&key) {
            return message.renege(fsn);
        }
        let message = self.messages.get_mut(&key)?;
        let load = message.renege(fsn)?;
        let (is_empty, has_run) = (message.chunks() == 0, message.has_run());
        self.open -= load;
        if !has_run {
            self.begun.remove(&key);
        }
        if is_empty {
            self.messages.remove(&key);
        }
        Some(load)
    }
}

/// All unordered messages of a stream.
fn all_of_unordered(stream: StreamId) -> core::ops::RangeInclusive<Key> {
    let key = |number| Key {
        stream,
        unordered: true,
        generation: number,
        mid: number,
    };
    key(0)..=key(u32::MAX)
}

/// The next part of a message. The last one is the rest of it, or the information that the sender abandoned it.
fn part_of(key: Key, message: &mut Growing, number: u64, is_last: bool) -> Held {
    let beginning = message.is_unread();
    let first = message.run_from(0).next().filter(|_| is_last).unwrap_or(0);
    let (payloads, load) = message.take_run();
    let part = MessagePart {
        stream: key.stream,
        ppid: message.ppid,
        unordered: key.unordered,
        message: number,
        beginning,
        ending: is_last,
        truncated: is_last && message.truncated,
        arrived_at: message.origin.at,
        path: message.origin.path,
        payload: Payload::from(payloads),
    };
    Held::new(part, first, load)
}
