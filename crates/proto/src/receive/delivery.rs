//! The order of messages within each stream (RFC 9260 §6.5, §6.6).

use std::collections::BTreeMap;

use anabranch_wire::{Ssn, StreamId};

use super::ready::{Ready, ReadyQueue};
use super::receive_window::ReceiveWindow;
use super::renege::Renegable;
use crate::message::MessagePart;
use crate::paged::Paged;
use crate::seq::ExtendedTsn;

/// One inbound stream.
#[derive(Debug, Default)]
struct InboundStream {
    /// The number of the next message, counted without wrapping; the low 16 bits are the SSN.
    next: u64,
    /// Messages whose turn has not come, and abandoned ones that are still to be skipped.
    waiting: BTreeMap<u64, Slot>,
    /// Whether the stream is in [`InboundStreams::used`].
    used: bool,
}

/// A message whose turn has not come.
#[derive(Debug)]
enum Slot {
    Waits(Held),
    /// The sender abandoned it: its stream does not wait for it.
    Skipped,
}

/// A message, and the number of its chunks.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) part: MessagePart,
    /// Its first TSN.
    pub(super) first: ExtendedTsn,
    pub(super) chunks: usize,
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
        self.window.release(held.part.payload.len(), held.chunks);
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

/// All inbound streams.
#[derive(Debug, Default)]
pub(super) struct InboundStreams {
    streams: Paged<InboundStream>,
    /// The streams of which a message has arrived or was skipped since all were last reset: a reset of all streams visits only these.
    used: Vec<StreamId>,
    /// Number of [`Slot::Skipped`] entries, which has a limit like the number of chunks.
    skipped: usize,
}

impl InboundStreams {
    /// Whether the turn of the message with this SSN has come. `missing_below` is the number of TSNs from the lowest missing one
    /// up to the message's first.
    ///
    /// In a stream, a message with a lower SSN has lower TSNs. So each message that this one waits for has at least one of the
    /// `missing_below` TSNs. With this bound the 16 bits of an SSN are never ambiguous. Serial number arithmetic alone would treat a
    /// message 40,000 ahead of a lost one as old.
    pub(super) fn turn(&mut self, id: StreamId, sequence: u32, missing_below: u64) -> Turn {
        let stream = self.streams.touch(id);
        if !core::mem::replace(&mut stream.used, true) {
            self.used.push(id);
        }
        let ahead = ahead(stream.next, sequence);
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

    /// Keeps a message whose turn comes later. Returns its number, or the message if its number is in use.
    pub(super) fn keep(&mut self, sequence: u32, held: Held) -> Result<u64, Held> {
        let stream = self.streams.touch(held.part.stream);
        let number = stream.next + u64::from(ahead(stream.next, sequence));
        match stream.waiting.entry(number) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Slot::Waits(held));
                Ok(number)
            }
            std::collections::btree_map::Entry::Occupied(_) => Err(held),
        }
    }

    /// The message whose turn it was is delivered: passes the next messages to `deliver` while it is their turn.
    pub(super) fn advance(&mut self, id: StreamId, mut deliver: impl FnMut(Held)) {
        let stream = self.streams.touch(id);
        stream.next += 1;
        if !stream.waiting.is_empty() {
            self.go_on(id, &mut deliver);
        }
    }

    /// Passes messages to `deliver` while it is their turn.
    fn go_on(&mut self, id: StreamId, deliver: &mut impl FnMut(Held)) {
        let stream = self.streams.touch(id);
        let mut skipped = 0;
        while let Some(entry) = stream.waiting.first_entry()
            && *entry.key() == stream.next
        {
            match entry.remove() {
                Slot::Waits(held) => deliver(held),
                Slot::Skipped => skipped += 1,
            }
            stream.next += 1;
        }
        self.skipped -= skipped;
    }

    /// Messages up to this SSN will not arrive (RFC 3758 §3.6). Passes the waiting messages up to it, and those whose turn comes then, to
    /// `deliver`. Each skipped message had at least one of the `span` skipped TSNs, which tells SSNs ahead from those behind.
    pub(super) fn skip_to(&mut self, id: StreamId, sequence: u32, span: u64, mut deliver: impl FnMut(Held)) {
        let stream = self.streams.touch(id);
        if !core::mem::replace(&mut stream.used, true) {
            self.used.push(id);
        }
        let ahead = u64::from(ahead(stream.next, sequence));
        if ahead >= span {
            return;
        }
        let last = stream.next + ahead;
        let mut skipped = 0;
        while let Some(entry) = stream.waiting.first_entry()
            && *entry.key() <= last
        {
            match entry.remove() {
                Slot::Waits(held) => deliver(held),
                Slot::Skipped => skipped += 1,
            }
        }
        stream.next = last + 1;
        self.skipped -= skipped;
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
        mut deliver: impl FnMut(Held),
    ) {
        let room = self.skipped < most;
        let stream = self.streams.touch(id);
        if !core::mem::replace(&mut stream.used, true) {
            self.used.push(id);
        }
        let ahead = u64::from(ahead(stream.next, sequence));
        if ahead == 0 {
            self.advance(id, deliver);
        } else if ahead <= missing_below && room {
            let slot = stream.waiting.entry(stream.next + ahead);
            if let std::collections::btree_map::Entry::Vacant(slot) = slot {
                slot.insert(Slot::Skipped);
                self.skipped += 1;
            }
            self.go_on(id, &mut deliver);
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
        for slot in core::mem::take(&mut stream.waiting).into_values() {
            match slot {
                Slot::Waits(held) => deliver(held),
                Slot::Skipped => self.skipped -= 1,
            }
        }
        // Numbers do not decrease: the next one whose low 16 bits are 0.
        stream.next = stream.next.next_multiple_of(1 << 16);
    }

    /// First TSN and number of chunks of every waiting message, in any order.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> impl Iterator<Item = (ExtendedTsn, usize)> + '_ {
        self.streams
            .iter()
            .flat_map(|stream| stream.waiting.values())
            .filter_map(|slot| match slot {
                Slot::Waits(held) => Some((held.first, held.chunks)),
                Slot::Skipped => None,
            })
    }

    /// Removes and returns the waiting message with this number.
    pub(super) fn take_waiting(&mut self, id: StreamId, number: u64) -> Option<Held> {
        match self.streams.at_mut(id)?.waiting.remove(&number)? {
            Slot::Waits(held) => Some(held),
            Slot::Skipped => None,
        }
    }

    /// Drops all messages; returns their bytes and chunks.
    pub(super) fn clear(&mut self) -> (usize, usize) {
        let slots = self.streams.iter().flat_map(|stream| stream.waiting.values());
        let sums = slots.fold((0, 0), |(bytes, chunks), slot| match slot {
            Slot::Waits(held) => (bytes + held.part.payload.len(), chunks + held.chunks),
            Slot::Skipped => (bytes, chunks),
        });
        self.skipped = 0;
        self.used.clear();
        self.streams.clear();
        sums
    }
}

/// How far an SSN is ahead of the next one.
fn ahead(next: u64, sequence: u32) -> u16 {
    Ssn(sequence as u16).distance_from(Ssn(next as u16))
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;
    use bytes::Bytes;

    use super::*;

    fn held(stream: u16, message: u64) -> Held {
        let part = MessagePart {
            stream: StreamId(stream),
            ppid: Ppid(0),
            unordered: false,
            message,
            beginning: true,
            ending: true,
            truncated: false,
            payload: Bytes::from_static(b"x").into(),
        };
        Held {
            part,
            first: 1,
            chunks: 1,
        }
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
