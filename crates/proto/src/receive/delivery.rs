//! Order within each stream (RFC 9260 §6.5, §6.6), and the queue that the application reads.

use std::collections::BTreeMap;

use anabranch_wire::{Ssn, StreamId};

use crate::message::MessagePart;

/// Streams are kept in pages, so that the use of a high number costs one page and not all below it.
const PAGE: usize = 64;

/// What one inbound stream waits for.
#[derive(Debug, Default)]
struct InboundStream {
    /// The number of the next message, counted without wrapping; the low 16 bits are the SSN.
    next: u64,
    /// Messages that came before their turn, with the chunks each was in.
    waiting: BTreeMap<u64, Held>,
}

/// A message and how many chunks it came in.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) part: MessagePart,
    pub(super) chunks: usize,
}

/// Whether the turn of a message has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    Later,
    /// A message of that number was delivered before.
    Past,
    /// Numbers were left out: what is to come before it can no longer come.
    Skipped,
}

/// All inbound streams.
#[derive(Debug, Default)]
pub(super) struct InboundStreams {
    pages: Vec<Option<Box<[InboundStream; PAGE]>>>,
}

impl InboundStreams {
    fn stream_mut(&mut self, id: StreamId) -> &mut InboundStream {
        let (page, slot) = (usize::from(id.0) / PAGE, usize::from(id.0) % PAGE);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page]
            .get_or_insert_with(|| Box::new(core::array::from_fn(|_| InboundStream::default())));
        &mut page[slot]
    }

    /// Whether the turn of the message with this SSN has come. `missing_below`: TSNs from the lowest that is missing up
    /// to the message's first.
    ///
    /// A message of the same stream has lower TSNs if it has a lower SSN, so what this one waits for takes its TSNs from
    /// these, one each at least. With that bound the 16 bits are never ambiguous: 40,000 messages may be ahead of a lost
    /// one, which serial number arithmetic alone would take for old ones.
    pub(super) fn turn(&mut self, id: StreamId, sequence: u32, missing_below: u64) -> Turn {
        let ahead = ahead(self.stream_mut(id).next, sequence);
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

    /// Keeps a message whose turn comes later; answers it if one of its number is there already.
    pub(super) fn keep(&mut self, sequence: u32, held: Held) -> Result<(), Held> {
        let stream = self.stream_mut(held.part.stream);
        let number = stream.next + u64::from(ahead(stream.next, sequence));
        match stream.waiting.entry(number) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(held);
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(_) => Err(held),
        }
    }

    /// The message whose turn it was is delivered: hands out those whose turn it is then.
    pub(super) fn advance(&mut self, id: StreamId, mut deliver: impl FnMut(Held)) {
        let stream = self.stream_mut(id);
        stream.next += 1;
        while let Some(entry) = stream.waiting.first_entry()
            && *entry.key() == stream.next
        {
            deliver(entry.remove());
            stream.next += 1;
        }
    }

    /// Forgets everything; answers bytes and chunks that were held.
    pub(super) fn clear(&mut self) -> (usize, usize) {
        let streams = self.pages.iter().flatten().flat_map(|page| page.iter());
        let held = streams.flat_map(|stream| stream.waiting.values());
        let sums = held.fold((0, 0), |(bytes, chunks), held| {
            (bytes + held.part.payload.len(), chunks + held.chunks)
        });
        self.pages.clear();
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
            payload: Bytes::from_static(b"x").into(),
        };
        Held { part, chunks: 1 }
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
