//! Extended FORWARD-TSN: abandoned chunks that a FORWARD-TSN cannot pass yet, because the receiver waits for a chunk below them.
//!
//! ```text
//! |  Type = 161   |   Flags = 0   |        Length = Variable      |
//! |                        Cumulative TSN                         |
//! |     Skipped block 1 start     |      Skipped block 1 end      |
//! |     ...                       |      ...                      |
//! ```
//!
//! The blocks have the format of gap ack blocks: offsets from the Cumulative TSN, both ends included.

use alloc::vec::Vec;

use bytes::Bytes;

use super::kind;
use crate::chunk::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, GapAckBlock, RawChunk, put_header};
use crate::reader::Reader;
use crate::types::Tsn;

/// Bytes of a block.
const BLOCK_LEN: usize = 4;

/// Lists TSNs that the receiver treats as received, because the sender abandoned their chunks. Each of them has a whole unordered message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedForwardTsn {
    /// The TSN from which the offsets of the blocks count. The receiver does not move its cumulative TSN to it.
    pub cumulative_tsn: Tsn,
    blocks: Bytes,
}

impl ExtendedForwardTsn {
    /// Length in bytes of a chunk with this number of blocks.
    #[must_use]
    pub const fn len_with(blocks: usize) -> usize {
        CHUNK_HEADER_LEN + 4 + BLOCK_LEN * blocks
    }

    /// A chunk that lists these blocks.
    pub fn new(cumulative_tsn: Tsn, blocks: impl IntoIterator<Item = GapAckBlock>) -> Self {
        let mut bytes = Vec::new();
        for block in blocks {
            bytes.extend_from_slice(&block.start.to_be_bytes());
            bytes.extend_from_slice(&block.end.to_be_bytes());
        }
        Self {
            cumulative_tsn,
            blocks: bytes.into(),
        }
    }

    /// The blocks.
    pub fn blocks(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        self.blocks.chunks_exact(BLOCK_LEN).map(|block| GapAckBlock {
            start: u16::from_be_bytes([block[0], block[1]]),
            end: u16::from_be_bytes([block[2], block[3]]),
        })
    }

    pub(in crate::chunk) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let length = ChunkError::Length { kind: raw.kind };
        let mut reader = Reader::new(raw.value());
        let cumulative_tsn = Tsn(reader.u32().ok_or(length)?);
        let blocks = reader.rest();
        if !blocks.len().is_multiple_of(BLOCK_LEN) {
            return Err(length);
        }
        Ok(Self {
            cumulative_tsn,
            blocks,
        })
    }
}

impl EncodeChunk for ExtendedForwardTsn {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + 4 + self.blocks.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::EXTENDED_FORWARD_TSN, 0, self.encoded_len());
        out.extend_from_slice(&self.cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(&self.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Chunk;
    use crate::chunk::tests::{check, check_refused};

    #[test]
    fn round_trip() {
        let blocks = [(2, 2), (5, 0x0107)].map(|(start, end)| GapAckBlock { start, end });
        let forward = ExtendedForwardTsn::new(Tsn(9), blocks);
        assert!(forward.blocks().eq(blocks));
        assert_eq!(forward.encoded_len(), ExtendedForwardTsn::len_with(2));
        let bytes = [161, 0, 0, 16, 0, 0, 0, 9, 0, 2, 0, 2, 0, 5, 1, 7];
        check(&bytes, &Chunk::ExtendedForwardTsn(forward));
        let bare = ExtendedForwardTsn::new(Tsn(9), []);
        check(&[161, 0, 0, 8, 0, 0, 0, 9], &Chunk::ExtendedForwardTsn(bare));
        for length in [4, 6, 10] {
            let mut bytes = alloc::vec![0; length];
            (bytes[0], bytes[3]) = (161, length as u8);
            check_refused(&bytes, ChunkError::Length { kind: 161 });
        }
    }
}
