//! Messages that arrive in parts: the association delivers a message in parts if it is large beside the receive window.

use std::collections::BTreeMap;

use anabranch_proto::{MessagePart, Ppid};
use bytes::{Bytes, BytesMut};

/// Bytes of incomplete messages of all channels together: as many as `recv` of the crate `anabranch` joins for an association.
const MOST: usize = 16 << 20;

/// A stream, and whether the message is unordered: with interleaving (RFC 8260) a message of each kind may arrive at the same time.
type Key = (u16, bool);

/// The result of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The message is complete.
    Message(Ppid, Bytes),
    Incomplete,
    /// The message is larger than allowed, or all incomplete messages together are. Its parts are dropped.
    TooLarge,
}

/// The incomplete messages.
#[derive(Debug, Default)]
pub(crate) struct Joins {
    begun: BTreeMap<Key, BytesMut>,
    /// Their bytes.
    bytes: usize,
}

impl Joins {
    /// Adds a part of a message that may have `limit` bytes.
    pub(crate) fn add(&mut self, part: MessagePart, limit: usize) -> Joined {
        let (key, len) = ((part.stream.0, part.unordered), part.payload.len());
        if part.beginning && part.ending {
            return if len > limit {
                Joined::TooLarge
            } else {
                Joined::Message(part.ppid, part.payload.into_bytes())
            };
        }
        if part.beginning {
            self.remove(key);
            self.begun.insert(key, BytesMut::new());
        }
        if part.truncated {
            // The peer abandoned the rest.
            self.remove(key);
        }
        let Some(bytes) = self.begun.get_mut(&key) else {
            return Joined::Incomplete;
        };
        if bytes.len() + len > limit || self.bytes + len > MOST {
            self.remove(key);
            return Joined::TooLarge;
        }
        part.payload
            .pieces()
            .iter()
            .for_each(|piece| bytes.extend_from_slice(piece));
        self.bytes += len;
        if !part.ending {
            return Joined::Incomplete;
        }
        let bytes = self.remove(key);
        bytes.map_or(Joined::Incomplete, |bytes| {
            Joined::Message(part.ppid, bytes.freeze())
        })
    }

    /// Drops the incomplete messages of a stream.
    pub(crate) fn forget(&mut self, stream: u16) {
        for unordered in [false, true] {
            self.remove((stream, unordered));
        }
    }

    fn remove(&mut self, key: Key) -> Option<BytesMut> {
        let bytes = self.begun.remove(&key)?;
        self.bytes -= bytes.len();
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{PathId, Payload, StreamId, Timestamp};

    use super::*;

    const LIMIT: usize = 256 << 10;

    /// A part: `ends` tells whether it is the beginning, and whether it is the end.
    fn part(stream: u16, unordered: bool, ends: [bool; 2], bytes: Bytes) -> MessagePart {
        MessagePart {
            stream: StreamId(stream),
            ppid: Ppid(53),
            unordered,
            message: 0,
            beginning: ends[0],
            ending: ends[1],
            truncated: false,
            arrived_at: Timestamp::ZERO,
            path: PathId(0),
            payload: Payload::from(bytes),
        }
    }

    #[test]
    fn an_ordered_and_an_unordered_message_of_a_stream_are_not_mixed() {
        let mut joins = Joins::default();
        for (unordered, text) in [(false, "one "), (true, "two ")] {
            assert_eq!(
                joins.add(part(1, unordered, [true, false], text.into()), LIMIT),
                Joined::Incomplete
            );
        }
        for (unordered, text) in [(false, "one end"), (true, "two end")] {
            assert_eq!(
                joins.add(part(1, unordered, [false, true], "end".into()), LIMIT),
                Joined::Message(Ppid(53), text.into())
            );
        }
        assert_eq!(joins.bytes, 0);
    }

    /// A peer begins a message in each of many channels, and ends none.
    #[test]
    fn incomplete_messages_have_one_limit() {
        let mut joins = Joins::default();
        let bytes = Bytes::from(vec![0; LIMIT]);
        let mut refused = 0;
        for stream in 0..1024 {
            let joined = joins.add(part(stream, false, [true, false], bytes.clone()), LIMIT);
            refused += usize::from(joined == Joined::TooLarge);
            assert!(joins.bytes <= MOST);
        }
        assert_eq!(refused, 1024 - MOST / LIMIT);
        (0..1024).for_each(|stream| joins.forget(stream));
        assert_eq!((joins.bytes, joins.begun.len()), (0, 0));
    }

    #[test]
    fn a_message_that_is_too_large_is_dropped_whole() {
        let mut joins = Joins::default();
        let large = Bytes::from(vec![0; LIMIT]);
        assert_eq!(
            joins.add(part(1, false, [true, false], large), LIMIT),
            Joined::Incomplete
        );
        let more = || Bytes::from_static(b"more");
        assert_eq!(
            joins.add(part(1, false, [false, false], more()), LIMIT),
            Joined::TooLarge
        );
        assert_eq!(
            joins.add(part(1, false, [false, true], more()), LIMIT),
            Joined::Incomplete
        );
        assert_eq!(
            joins.add(part(1, false, [true, true], vec![0; LIMIT + 1].into()), LIMIT),
            Joined::TooLarge
        );
        assert_eq!(joins.bytes, 0);
    }
}
