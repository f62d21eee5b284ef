//! Messages that `recv` returns, and the joining of messages that are delivered in parts (RFC 9260 §6.9).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anabranch_proto::{MessagePart, PathId, Payload, Ppid, SendOptions, StreamId};
use bytes::Bytes;

use crate::error::RecvError;

/// A whole message from the peer. Two messages are equal if stream, identifier, order and data are; when and where they arrived does not count.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// The stream of the message.
    pub stream: StreamId,
    /// The sender's payload protocol identifier.
    pub ppid: Ppid,
    /// Whether the sender sent the message unordered.
    pub unordered: bool,
    /// When the packet arrived that completed the message, by the clock of this machine. The message may have waited since: for earlier
    /// messages of its stream, and for `recv`.
    pub arrived_at: Instant,
    /// The path of that packet: [`Association::stats`](crate::Association::stats) has its addresses. If the packet came from an address that is
    /// no path, the path of the association's packet before it.
    pub path: PathId,
    /// The data, in slices of the received datagrams; [`Message::into_bytes`] joins them.
    pub payload: Payload,
}

impl Message {
    /// A message as `recv` returns it, ordered and without payload protocol identifier, which arrives now on path 0: for the tests of
    /// programs.
    #[must_use]
    pub fn new(stream: impl Into<StreamId>, payload: impl Into<Payload>) -> Self {
        Self {
            stream: stream.into(),
            ppid: Ppid::default(),
            unordered: false,
            arrived_at: Instant::now(),
            path: PathId(0),
            payload: payload.into(),
        }
    }

    /// The data as one buffer; copied once if it arrived in several fragments.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.payload.into_bytes()
    }

    /// Options for an answer with the same payload protocol identifier and order. A received message does not show its
    /// reliability, so the options are reliable.
    #[must_use]
    pub fn options(&self) -> SendOptions {
        SendOptions::default().ppid(self.ppid).unordered(self.unordered)
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        let facts = |message: &Self| (message.stream, message.ppid, message.unordered);
        facts(self) == facts(other) && self.payload == other.payload
    }
}

impl Eq for Message {}

/// Slices of at most this size are copied together: a separate slice would take several times its own size in memory.
const SMALL: usize = 256;

impl Joining {
    fn append(&mut self, piece: &Bytes) {
        if piece.len() <= SMALL {
            self.tail.extend_from_slice(piece);
        } else {
            self.end_tail();
            self.pieces.push(piece.clone());
        }
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(std::mem::take(&mut self.tail).into());
        }
    }
}

/// Joins parts to messages, with one limit for all incomplete messages together.
#[derive(Debug)]
pub(crate) struct Joiner {
    /// The beginning of the endpoint's time.
    started: Instant,
    /// Incomplete messages by [`MessagePart::message`]. With interleaving, a stream can have two: one ordered, one unordered.
    open: BTreeMap<u64, Joining>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Joining {
    pieces: Vec<Bytes>,
    /// The small pieces at the end.
    tail: Vec<u8>,
    bytes: usize,
    /// The message exceeded the limit: its later parts are dropped.
    skipped: bool,
}

impl Joiner {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            open: BTreeMap::new(),
            bytes: 0,
        }
    }

    /// Adds a part. Returns the message if the part completes it, or an error if the limit is exceeded.
    pub(crate) fn push(&mut self, part: MessagePart, limit: usize) -> Option<Result<Message, RecvError>> {
        let MessagePart {
            stream,
            ppid,
            unordered,
            message,
            beginning,
            ending,
            truncated,
            arrived_at,
            path,
            payload,
        } = part;
        let arrived_at = self.started + Duration::from_nanos(arrived_at.0);
        if beginning && ending {
            return Some(Ok(Message {
                stream,
                ppid,
                unordered,
                arrived_at,
                path,
                payload,
            }));
        }
        if beginning {
            self.open.insert(message, Joining::default());
        }
        // Without its beginning, a part belongs to a message that `recv_part` began to read, or that a restart of
        // the peer truncated.
        let joining = self.open.get_mut(&message)?;
        let mut answer = None;
        if !joining.skipped {
            let len = payload.len();
            joining.bytes += len;
            self.bytes += len;
            payload.pieces().iter().for_each(|piece| joining.append(piece));
            if self.bytes > limit {
                self.bytes -= joining.bytes;
                joining.bytes = 0;
                (joining.pieces, joining.tail) = (Vec::new(), Vec::new());
                joining.skipped = true;
                answer = Some(Err(RecvError::TooLarge { stream, limit }));
            }
        }
        if ending {
            let mut joined = self.open.remove(&message)?;
            joined.end_tail();
            if !joined.skipped {
                self.bytes -= joined.bytes;
            }
            // A message that its sender abandoned half-way is dropped here; only `recv_part` returns its first parts.
            if !joined.skipped && !truncated {
                answer = Some(Ok(Message {
                    stream,
                    ppid,
                    unordered,
                    arrived_at,
                    path,
                    payload: joined.pieces.into(),
                }));
            }
        }
        answer
    }

    /// Drops incomplete messages: after a restart of the peer their remaining parts do not arrive.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.started);
    }
}

/// The answer of a stream that is read by handle.
#[derive(Debug)]
pub(crate) enum Next<T> {
    /// Nothing has arrived that can be read.
    Nothing,
    One(Result<T, RecvError>),
    /// The peer reset the stream.
    End,
}

#[cfg(test)]
mod tests {
    use anabranch_proto::Timestamp;

    use super::*;

    fn part(message: u64, beginning: bool, ending: bool, payload: &'static [u8]) -> MessagePart {
        MessagePart {
            stream: StreamId(message as u16),
            ppid: Ppid(7),
            unordered: false,
            message,
            beginning,
            ending,
            truncated: false,
            arrived_at: Timestamp::from_millis(10 * message + u64::from(ending)),
            path: PathId(0),
            payload: Payload::from(vec![Bytes::from_static(payload)]),
        }
    }

    #[test]
    fn interleaved_parts_are_joined_by_message() {
        let mut joiner = Joiner::new(Instant::now());
        assert_eq!(joiner.push(part(1, true, false, b"one, "), 100), None);
        assert_eq!(joiner.push(part(2, true, false, b"two, "), 100), None);
        let whole = joiner.push(part(3, true, true, b"three"), 100).unwrap().unwrap();
        assert_eq!(whole.into_bytes(), "three");
        let first = joiner.push(part(1, false, true, b"end"), 100).unwrap().unwrap();
        let since = first.arrived_at - joiner.started;
        assert_eq!(since, Duration::from_millis(11), "as its last part");
        assert_eq!(
            (first.stream, first.into_bytes()),
            (StreamId(1), Bytes::from("one, end"))
        );
        let second = joiner.push(part(2, false, true, b"done"), 100).unwrap().unwrap();
        assert_eq!(second.into_bytes(), "two, done");
        assert_eq!((joiner.bytes, joiner.open.len()), (0, 0));
    }

    #[test]
    fn small_pieces_are_joined_as_they_come() {
        let mut joiner = Joiner::new(Instant::now());
        let large = [7; SMALL + 1];
        joiner.push(part(1, true, false, b"a"), 10_000);
        for _ in 0..1000 {
            joiner.push(part(1, false, false, b"b"), 10_000);
        }
        assert!(joiner.open[&1].pieces.is_empty());
        joiner.push(part(1, false, false, Box::leak(Box::new(large))), 10_000);
        let message = joiner.push(part(1, false, true, b"c"), 10_000).unwrap().unwrap();
        assert_eq!(message.payload.pieces().len(), 3);
        let expected = [&b"a"[..], &[b'b'; 1000], &large, b"c"].concat();
        assert_eq!(message.into_bytes(), expected);
    }

    #[test]
    fn a_message_abandoned_half_way_is_dropped_and_its_room_is_free() {
        let mut joiner = Joiner::new(Instant::now());
        let cut = MessagePart {
            truncated: true,
            ..part(1, false, true, b"")
        };
        assert_eq!(joiner.push(part(1, true, false, b"begun"), 8), None);
        assert_eq!(joiner.push(cut, 8), None);
        assert_eq!((joiner.bytes, joiner.open.len()), (0, 0));
        assert_eq!(joiner.push(part(2, true, false, b"8 by"), 8), None);
        let next = joiner.push(part(2, false, true, b"tes!"), 8).unwrap().unwrap();
        assert_eq!(next.into_bytes(), "8 bytes!");
    }

    #[test]
    fn a_message_beyond_the_limit_is_reported_once_and_skipped() {
        let mut joiner = Joiner::new(Instant::now());
        assert_eq!(joiner.push(part(1, true, false, b"12345"), 8), None);
        let error = RecvError::TooLarge {
            stream: StreamId(1),
            limit: 8,
        };
        assert_eq!(joiner.push(part(1, false, false, b"6789"), 8), Some(Err(error)));
        assert_eq!(joiner.push(part(1, false, false, b"more"), 8), None);
        assert_eq!(joiner.push(part(1, false, true, b"end"), 8), None);
        assert_eq!((joiner.bytes, joiner.open.len()), (0, 0));
        assert_eq!(joiner.push(part(9, false, true, b"no beginning"), 8), None);
    }
}
