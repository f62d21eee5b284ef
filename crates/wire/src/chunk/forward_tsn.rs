//! FORWARD-TSN (RFC 3758 §3.2) and I-FORWARD-TSN (RFC 8260 §2.3.1).
//!
//! ```text
//! |  Type = 192   |  Flags = 0x00 |        Length = Variable      |
//! |                      New Cumulative TSN                       |
//! |         Stream-1              |       Stream Sequence-1       |
//!
//! |  Type = 194   | Flags = 0x00  |      Length = Variable        |
//! |                       New Cumulative TSN                      |
//! |       Stream Identifier       |          Reserved           |U|
//! |                       Message Identifier                      |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::reader::Reader;
use crate::types::{Mid, Ssn, StreamId, Tsn};

/// The highest ordered message of a stream that the sender abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// The stream.
    pub stream: StreamId,
    /// Sequence number of that message.
    pub ssn: Ssn,
}

/// With message interleaving: the highest abandoned message of a stream, for ordered and unordered messages separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedMessage {
    /// The stream.
    pub stream: StreamId,
    /// Whether the entry is about unordered messages.
    pub unordered: bool,
    /// Identifier of that message.
    pub mid: Mid,
}

/// Moves the receiver's cumulative TSN past abandoned chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The receiver treats all TSNs up to this one as received.
    pub new_cumulative_tsn: Tsn,
    skipped: Bytes,
}

impl ForwardTsn {
    /// A chunk that lists these ordered messages.
    pub fn new(new_cumulative_tsn: Tsn, skipped: impl IntoIterator<Item = SkippedStream>) -> Self {
        let mut bytes = Vec::new();
        for entry in skipped {
            bytes.extend_from_slice(&entry.stream.0.to_be_bytes());
            bytes.extend_from_slice(&entry.ssn.0.to_be_bytes());
        }
        Self {
            new_cumulative_tsn,
            skipped: bytes.into(),
        }
    }

    /// The ordered messages that the chunk lists as abandoned.
    pub fn skipped(&self) -> impl Iterator<Item = SkippedStream> + '_ {
        self.skipped.chunks_exact(4).map(|entry| SkippedStream {
            stream: StreamId(u16::from_be_bytes([entry[0], entry[1]])),
            ssn: Ssn(u16::from_be_bytes([entry[2], entry[3]])),
        })
    }

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let (new_cumulative_tsn, skipped) = read(raw, 4)?;
        Ok(Self {
            new_cumulative_tsn,
            skipped,
        })
    }
}

impl EncodeChunk for ForwardTsn {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + 4 + self.skipped.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::FORWARD_TSN, 0, self.encoded_len());
        out.extend_from_slice(&self.new_cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(&self.skipped);
    }
}

/// FORWARD-TSN with message interleaving: it lists unordered messages too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IForwardTsn {
    /// The receiver treats all TSNs up to this one as received.
    pub new_cumulative_tsn: Tsn,
    skipped: Bytes,
}

impl IForwardTsn {
    /// A chunk that lists these messages.
    pub fn new(new_cumulative_tsn: Tsn, skipped: impl IntoIterator<Item = SkippedMessage>) -> Self {
        let mut bytes = Vec::new();
        for entry in skipped {
            bytes.extend_from_slice(&entry.stream.0.to_be_bytes());
            bytes.extend_from_slice(&[0, u8::from(entry.unordered)]);
            bytes.extend_from_slice(&entry.mid.0.to_be_bytes());
        }
        Self {
            new_cumulative_tsn,
            skipped: bytes.into(),
        }
    }

    /// The messages that the chunk lists as abandoned.
    pub fn skipped(&self) -> impl Iterator<Item = SkippedMessage> + '_ {
        self.skipped.chunks_exact(8).map(|entry| SkippedMessage {
            stream: StreamId(u16::from_be_bytes([entry[0], entry[1]])),
            unordered: entry[3] & 1 != 0,
            mid: Mid(u32::from_be_bytes([entry[4], entry[5], entry[6], entry[7]])),
        })
    }

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let (new_cumulative_tsn, skipped) = read(raw, 8)?;
        // Encoded again, so that reserved bits become zero.
        let entries = Self {
            new_cumulative_tsn,
            skipped,
        };
        Ok(Self::new(new_cumulative_tsn, entries.skipped()))
    }
}

impl EncodeChunk for IForwardTsn {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + 4 + self.skipped.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::I_FORWARD_TSN, 0, self.encoded_len());
        out.extend_from_slice(&self.new_cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(&self.skipped);
    }
}

fn read(raw: &RawChunk<'_>, entry_len: usize) -> Result<(Tsn, Bytes), ChunkError> {
    let length = ChunkError::Length { kind: raw.kind };
    let mut reader = Reader::new(raw.value());
    let tsn = Tsn(reader.u32().ok_or(length)?);
    let rest = reader.rest();
    if rest.len().is_multiple_of(entry_len) {
        Ok((tsn, rest))
    } else {
        Err(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        let skipped = SkippedStream {
            stream: StreamId(3),
            ssn: Ssn(5),
        };
        let bytes = [192, 0, 0, 12, 0, 0, 0, 9, 0, 3, 0, 5];
        check(&bytes, &Chunk::ForwardTsn(ForwardTsn::new(Tsn(9), [skipped])));
        check_refused(
            &[192, 0, 0, 10, 0, 0, 0, 9, 0, 3],
            ChunkError::Length { kind: 192 },
        );
        let skipped = SkippedMessage {
            stream: StreamId(3),
            unordered: true,
            mid: Mid(5),
        };
        let bytes = [194, 0, 0, 16, 0, 0, 0, 9, 0, 3, 0, 1, 0, 0, 0, 5];
        check(&bytes, &Chunk::IForwardTsn(IForwardTsn::new(Tsn(9), [skipped])));
        check_refused(
            &[194, 0, 0, 12, 0, 0, 0, 9, 0, 3, 0, 1],
            ChunkError::Length { kind: 194 },
        );
    }
}
