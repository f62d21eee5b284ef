//! Messages that are read, and those whose parts have not all arrived.

use std::collections::BTreeMap;
use std::fmt;

use anabranch_proto::{MessagePart, Payload, Ppid};
use bytes::{Bytes, BytesMut};

use crate::error::{Error, Result};
use crate::event::StreamId;

/// The payload protocol identifier of a message (RFC 8831 §8).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PayloadProtocolIdentifier {
    /// A message about a channel (RFC 8832).
    Dcep = 50,
    /// A text.
    String = 51,
    /// Bytes.
    Binary = 53,
    /// An empty text, as a message of one byte.
    StringEmpty = 56,
    /// An empty message, as a message of one byte.
    BinaryEmpty = 57,
    /// Any other. Messages written with it have the identifier 0.
    #[default]
    Unknown,
}

impl From<u32> for PayloadProtocolIdentifier {
    fn from(number: u32) -> Self {
        match number {
            50 => Self::Dcep,
            51 => Self::String,
            53 => Self::Binary,
            56 => Self::StringEmpty,
            57 => Self::BinaryEmpty,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for PayloadProtocolIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl PayloadProtocolIdentifier {
    pub(crate) fn to_core(self) -> Ppid {
        Ppid(match self {
            Self::Unknown => 0,
            known => known as u32,
        })
    }

    /// Whether a message of one byte stands for an empty one.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::StringEmpty | Self::BinaryEmpty)
    }

    /// The length that the statistics count for a message; `None` if they do not count it.
    pub(crate) fn counted(self, len: usize) -> Option<u64> {
        match self {
            Self::String | Self::Binary => Some(len as u64),
            Self::StringEmpty | Self::BinaryEmpty => Some(0),
            Self::Dcep | Self::Unknown => None,
        }
    }
}

/// Bytes of a message: [`Chunks::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes.
    pub bytes: Bytes,
}

/// A message.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    /// The payload protocol identifier that the peer gave.
    pub ppi: PayloadProtocolIdentifier,
    payload: Payload,
    /// Bytes that [`Chunks::next`] has returned.
    taken: usize,
}

impl Chunks {
    /// Whether the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// The bytes of the message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Copies the message to the buffer, and returns its length.
    ///
    /// # Errors
    /// [`Error::ErrShortBuffer`]; the buffer has the first bytes of the message then.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        let mut rest = buffer;
        for piece in self.payload.pieces() {
            let fits = piece.len().min(rest.len());
            let (these, others) = rest.split_at_mut(fits);
            these.copy_from_slice(&piece[..fits]);
            if fits < piece.len() {
                return Err(Error::ErrShortBuffer);
            }
            rest = others;
        }
        Ok(self.len())
    }

    /// The next bytes, at most `max_length`; `None` after the last ones.
    pub fn next(&mut self, max_length: usize) -> Option<Chunk> {
        if self.taken >= self.len() {
            return None;
        }
        let all = std::mem::take(&mut self.payload).into_bytes();
        let end = all.len().min(self.taken.saturating_add(max_length));
        let bytes = all.slice(self.taken..end);
        self.taken = end;
        self.payload = all.into();
        Some(Chunk { bytes })
    }
}

/// A message with parts that have not arrived: its stream, and whether it is unordered. With interleaving (RFC 8260) a message of each kind may
/// arrive at the same time.
type Key = (StreamId, bool);

/// The result of a part.
#[derive(Debug)]
pub(crate) enum Joined {
    Message(Chunks),
    Incomplete,
    /// The message is longer than allowed.
    TooLong,
    /// All incomplete messages together are longer than allowed.
    TooMuch,
}

/// Incomplete messages. The core delivers a message in parts if it is large beside the receive window.
#[derive(Debug)]
pub(crate) struct Joins {
    begun: BTreeMap<Key, BytesMut>,
    /// Their bytes.
    bytes: usize,
    /// The most bytes of a message, and of all incomplete ones.
    longest: usize,
    most: usize,
}

impl Joins {
    pub(crate) fn new(longest: usize, most: usize) -> Self {
        Self {
            begun: BTreeMap::new(),
            bytes: 0,
            longest,
            most,
        }
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, part: MessagePart) -> Joined {
        let (key, len) = ((part.stream.0, part.unordered), part.payload.len());
        if part.beginning {
            self.remove(key);
        }
        if part.truncated || !(part.beginning || self.begun.contains_key(&key)) {
            // The peer abandoned the rest, or the beginning was dropped.
            self.remove(key);
            return Joined::Incomplete;
        }
        let before = self.begun.get(&key).map_or(0, BytesMut::len);
        if before + len > self.longest {
            return Joined::TooLong;
        }
        let payload = if part.beginning && part.ending {
            part.payload
        } else {
            if self.bytes + len > self.most {
                return Joined::TooMuch;
            }
            let bytes = self.begun.entry(key).or_default();
            let pieces = part.payload.pieces();
            pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
            self.bytes += len;
            if !part.ending {
                return Joined::Incomplete;
            }
            self.remove(key).unwrap_or_default().freeze().into()
        };
        Joined::Message(Chunks {
            ppi: part.ppid.0.into(),
            payload,
            taken: 0,
        })
    }

    /// Drops the incomplete messages of a stream.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        self.remove((stream, false));
        self.remove((stream, true));
    }

    fn remove(&mut self, key: Key) -> Option<BytesMut> {
        let bytes = self.begun.remove(&key)?;
        self.bytes -= bytes.len();
        Some(bytes)
    }
}
