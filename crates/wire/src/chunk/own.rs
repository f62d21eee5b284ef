//! Chunks of this project's own, under type numbers that IANA has not assigned: sent only to peers that offered them too.
//!
//! ```text
//! |  Type = 160   |   Flags = 0   |          Length = 12          |
//! |                              TSN                              |
//! |           Stream              |        Stream Sequence        |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, put_header};
use crate::reader::Reader;
use crate::types::{Ssn, StreamId, Tsn};

/// The numbers. Their two highest bits say that who does not know them skips them in silence (RFC 9260 §3.2).
pub mod kind {
    /// Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*).
    pub const SELECTIVE_FORWARD_TSN: u8 = 160;
}

/// Tells the receiver that an ordered message will not be sent again: if it has not come, its stream need not wait for it.
/// It says nothing about acknowledging: the TSN stays missing until a FORWARD-TSN passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveForwardTsn {
    /// The message's last TSN.
    pub tsn: Tsn,
    /// Its stream.
    pub stream: StreamId,
    /// Its number there.
    pub ssn: Ssn,
}

impl SelectiveForwardTsn {
    /// Bytes of the chunk.
    pub const LEN: usize = CHUNK_HEADER_LEN + 8;

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::read(raw).ok_or(ChunkError::Length { kind: raw.kind })
    }

    fn read(raw: &RawChunk<'_>) -> Option<Self> {
        let mut reader = Reader::new(raw.value());
        let chunk = Self {
            tsn: Tsn(reader.u32()?),
            stream: StreamId(reader.u16()?),
            ssn: Ssn(reader.u16()?),
        };
        reader.is_empty().then_some(chunk)
    }
}

impl EncodeChunk for SelectiveForwardTsn {
    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::SELECTIVE_FORWARD_TSN, 0, Self::LEN);
        out.extend_from_slice(&self.tsn.0.to_be_bytes());
        out.extend_from_slice(&self.stream.0.to_be_bytes());
        out.extend_from_slice(&self.ssn.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        let notice = SelectiveForwardTsn {
            tsn: Tsn(9),
            stream: StreamId(3),
            ssn: Ssn(5),
        };
        let bytes = [160, 0, 0, 12, 0, 0, 0, 9, 0, 3, 0, 5];
        check(&bytes, &Chunk::SelectiveForwardTsn(notice));
        check_refused(&[160, 0, 0, 8, 0, 0, 0, 9], ChunkError::Length { kind: 160 });
    }
}
