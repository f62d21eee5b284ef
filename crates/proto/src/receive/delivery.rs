//! The order of messages within each stream (RFC 9260 §6.5, §6.6).

use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::{Ssn, StreamId};

use super::held::Held;
use super::load::{Load, SKIPPED};
use super::ready::{Ready, ReadyQueue};
use super::receive_window::ReceiveWindow;
use super::renegable::Renegable;
use crate::paged::Paged;
#[cfg(test)]
use crate::seq::ExtendedTsn;

/// One inbound stream. A peer may use 65,535 of them, so it is small.
#[derive(Debug, Default)]
struct InboundStream {
    /// The SSN of the next message.
    next: u16,
    /// Whether the stream is in [`InboundStreams::used`].
    used: bool,
}

/// Where complete messages go, and the limits that they count against.
pub(super) struct Outlet<'a> {
    pub(super) ready: &'a mut ReadyQueue,
    pub(super) window: &'a mut ReceiveWindow,
    pub(super) renegable: &'a mut Renegable,
    pub(super) next_message: &'a mut u64,
}

impl Outlet<'_> {
    /// The number of a new message.
    pub(super) fn number(&mut self) -> u64 {
        let number = *self.next_message;
        *self.next_message += 1;
        number
    }

    /// The application can read this message.
    pub(super) fn deliver(&mut self, held: Held) {
        self.ready.push(Ready::Message(held));
    }

    /// The application can now read this message, which had waited for its turn.
    pub(super) fn deliver_waiting(&mut self, held: Held) {
        self.renegable.remove_message(&held);
        self.deliver(held);
    }

    /// Drops a message whose SSN was used before, which is an error of the peer.
    pub(super) fn drop_held(&mut self, held: &Held) {
        self.window.release(held.load());
    }
}

/// The turn of a message: it has come when all earlier messages of its stream have been delivered or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    Later,
    /// A message with that number was delivered before.
    Past,
    /// The peer skipped numbers: the messages before this one can no longer arrive.
    Skipped,
}

/// A message: its stream and SSN.
type Place = (StreamId, u16);

/// All inbound streams.
#[derive(Debug, Default)]
pub(super) struct InboundStreams {
    streams: Paged<InboundStream>,
    /// The streams of which a message has arrived or was skipped since all were last reset: a reset of all streams visits only these.
    used: Vec<StreamId>,
    /// Messages whose turn has not come.
    waiting: BTreeMap<Place, Box<Held>>,
    /// Messages that the sender abandoned and whose turn has not come: their stream does not wait for them. Their number has a limit.
    skipped: BTreeSet<Place>,
}

impl InboundStreams {
    /// Whether the turn of the message with this SSN has come. `missing_below` is the number of TSNs from the lowest missing one
    /// up to the message's first.
    ///
    /// In a stream, a message with a lower SSN has lower TSNs. So each message that this one waits for has at least one of the
    /// `missing_below` TSNs. With this bound the 16 bits of an SSN are never ambiguous. Serial number arithmetic alone would treat a
    /// message 40,000 ahead of a lost one as old.
    pub(super) fn turn(&mut self, id: StreamId, sequence: u32, missing_below: u64) -> Turn {
        let ahead = ahead(self.stream(id).next, sequence);
        if ahead == 0 {
            Turn::Now
        } else if u64::from(ahead) <= missing_below {
            Turn::Later
        } else if (ahead as i16) < 0 {
            Turn::Past
        } else {
            Turn::Skipped
        }
    }

    /// A stream with messages.
    fn stream(&mut self, id: StreamId) -> &mut InboundStream {
        let stream = self.streams.touch(id);
        if !core::mem::replace(&mut stream.used, true) {
            self.used.push(id);
        }
        stream
    }

    /// Keeps a message whose turn comes later, or returns it if its SSN is in use.
    pub(super) fn keep(&mut self, sequence: u32, held: Held) -> Result<(), Held> {
        let place = (held.part.stream, sequence as u16);
        match self.waiting.entry(place) {
            _ if self.skipped.contains(&place) => Err(held),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Box::new(held));
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(_) => Err(held),
        }
    }

    /// The message whose turn it was is delivered: passes the next messages to `deliver` while it is their turn.
    pub(super) fn advance(&mut self, id: StreamId, mut deliver: impl FnMut(Held)) {
        let stream = self.streams.touch(id);
        stream.next = stream.next.wrapping_add(1);
        if !(self.waiting.is_empty() && self.skipped.is_empty()) {
            self.go_on(id, &mut deliver);
        }
    }

    /// Passes messages to `deliver` while it is their turn.
    fn go_on(&mut self, id: StreamId, deliver: &mut impl FnMut(Held)) {
        let stream = self.streams.touch(id);
        loop {
            let place = (id, stream.next);
            match self.waiting.remove(&place) {
                Some(held) => deliver(*held),
                None if self.skipped.remove(&place) => {}
                None => return,
            }
            stream.next = stream.next.wrapping_add(1);
        }
    }

    /// Removes the messages of a stream from one SSN to another, in their order, and passes those that wait to `deliver`. SSNs wrap.
    fn remove_range(&mut self, id: StreamId, (first, last): (u16, u16), deliver: &mut impl FnMut(Held)) {
        if first > last {
            self.remove_range(id, (first, u16::MAX), deliver);
            return self.remove_range(id, (0, last), deliver);
        }
        let range = (id, first)..=(id, last);
        while let Some(place) = self.waiting.range(range.clone()).next().map(|(place, _)| *place) {
            let waited = self.waiting.remove(&place);
            waited.into_iter().for_each(|held| deliver(*held));
        }
        while let Some(place) = self.skipped.range(range.clone()).next().copied() {
            self.skipped.remove(&place);
        }
    }

    /// Messages up to this SSN will not arrive (RFC 3758 §3.6). Passes the waiting messages up to it, and those whose turn comes then, to
    /// `deliver`. Each skipped message had at least one of the `span` skipped TSNs, which tells SSNs ahead from those behind.
    pub(super) fn skip_to(&mut self, id: StreamId, sequence: u32, span: u64, mut deliver: impl FnMut(Held)) {
        let first = self.stream(id).next;
        if u64::from(ahead(first, sequence)) >= span {
            return;
        }
        let last = sequence as u16;
        self.remove_range(id, (first, last), &mut deliver);
        self.stream(id).next = last.wrapping_add(1);
        self.go_on(id, &mut deliver);
    }

    /// The message with this SSN will not arrive: passes the messages that waited only for it to `deliver`. `missing_below` is that of
    /// [`InboundStreams::turn`]; at most `most` skipped messages are stored until their turn.
    pub(super) fn skip_one(
        &mut self,
        id: StreamId,
        sequence: u32,
        missing_below: u64,
        most: usize,
        deliver: impl FnMut(Held),
    ) {
        let place = (id, sequence as u16);
        let ahead = u64::from(ahead(self.stream(id).next, sequence));
        if ahead == 0 {
            self.advance(id, deliver);
        } else if ahead <= missing_below && self.skipped.len() < most && !self.waiting.contains_key(&place) {
            self.skipped.insert(place);
        }
    }

    /// The streams that a reset of all streams concerns.
    pub(super) fn take_used(&mut self) -> Vec<StreamId> {
        let used = core::mem::take(&mut self.used);
        for id in &used {
            if let Some(stream) = self.streams.at_mut(*id) {
                stream.used = false;
            }
        }
        used
    }

    /// The next message of the stream has SSN 0 (RFC 6525 §5.2.2 E3). Messages that wait for their turn are passed to `deliver`.
    pub(super) fn reset(&mut self, id: StreamId, mut deliver: impl FnMut(Held)) {
        let Some(stream) = self.streams.at_mut(id) else {
            return;
        };
        let first = core::mem::take(&mut stream.next);
        if !(self.waiting.is_empty() && self.skipped.is_empty()) {
            self.remove_range(id, (first, first.wrapping_sub(1)), &mut deliver);
        }
    }

    /// The memory in bytes that the skipped messages use.
    pub(super) fn overhead(&self) -> usize {
        SKIPPED * self.skipped.len()
    }

    /// First TSN and number of chunks of every waiting message, in any order.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> impl Iterator<Item = (ExtendedTsn, u32)> + '_ {
        self.waiting.values().map(|held| (held.first, held.chunks))
    }

    /// Removes and returns the waiting message with this SSN.
    pub(super) fn take_waiting(&mut self, id: StreamId, ssn: u16) -> Option<Held> {
        self.waiting.remove(&(id, ssn)).map(|held| *held)
    }

    /// Drops all messages; returns what they cost.
    pub(super) fn clear(&mut self) -> Load {
        let mut load = Load::default();
        self.waiting.values().for_each(|held| load += held.load());
        *self = Self::default();
        load
    }
}

/// How far an SSN is ahead of the next one.
fn ahead(next: u16, sequence: u32) -> u16 {
    Ssn(sequence as u16).distance_from(Ssn(next))
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;
    use bytes::Bytes;

    use super::*;
    use crate::message::MessagePart;
    use crate::path_id::PathId;
    use crate::time::Timestamp;

    fn held(stream: u16, message: u64) -> Held {
        let part = MessagePart {
            stream: StreamId(stream),
            ppid: Ppid(0),
            unordered: false,
            message,
            beginning: true,
            ending: true,
            truncated: false,
            arrived_at: Timestamp::ZERO,
            path: PathId(0),
            payload: Bytes::from_static(b"x").into(),
        };
        Held::new(part, 1, Load::default())
    }

    #[test]
    fn order_across_the_wrap_of_ssns() {
        let mut streams = InboundStreams::default();
        let id = StreamId(65_534);
        for _ in 0..65_534 {
            streams.advance(id, |_| panic!("nothing waits"));
        }
        assert_eq!(streams.turn(id, 65_534, 0), Turn::Now);
        assert_eq!(streams.turn(id, 1, 3), Turn::Later);
        assert_eq!(
            streams.turn(id, 1, 2),
            Turn::Skipped,
            "three are to come on two TSNs"
        );
        assert_eq!(streams.turn(id, 65_533, 9), Turn::Past);
        assert_eq!(streams.turn(id, 40_000, 40_002), Turn::Later, "far ahead");
        for (ssn, message) in [(1, 3), (65_535, 1), (0, 2)] {
            streams.keep(ssn, held(id.0, message)).unwrap();
        }
        assert!(streams.keep(0, held(id.0, 9)).is_err(), "that number is taken");
        let mut delivered = Vec::new();
        streams.advance(id, |held| delivered.push(held.part.message));
        assert_eq!(delivered, [1, 2, 3]);
        assert_eq!(streams.turn(id, 2, 0), Turn::Now);
    }
}
