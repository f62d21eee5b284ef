//! SACK (RFC 9260 §3.3.4), and the lists that it shares with NR-SACK.
//!
//! ```text
//! |   Type = 3    |  Chunk Flags  |      Chunk Length             |
//! |                      Cumulative TSN Ack                       |
//! |          Advertised Receiver Window Credit (a_rwnd)           |
//! | Number of Gap Ack Blocks = N  |  Number of Duplicate TSNs = M |
//! |    Gap Ack Block #1 Start     |     Gap Ack Block #1 End      |
//! |                       Duplicate TSN 1                         |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, header, kind};
use crate::types::Tsn;

/// A range of TSNs that arrived, as offsets from the cumulative TSN ack; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapAckBlock {
    /// Offset of the first TSN.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

/// A list of gap ack blocks, as encoded in a chunk: in any order, and not checked for sense.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GapAckBlocks(Bytes);

impl GapAckBlocks {
    pub(super) const ENTRY_LEN: usize = 4;

    pub(super) fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Encodes a list of these blocks.
    pub fn from_blocks(blocks: impl IntoIterator<Item = GapAckBlock>) -> Self {
        let mut bytes = Vec::new();
        blocks.into_iter().for_each(|block| put_block(&mut bytes, block));
        Self(bytes.into())
    }

    /// The blocks, in the order of the chunk.
    pub fn iter(&self) -> impl Iterator<Item = GapAckBlock> + '_ {
        self.0.chunks_exact(Self::ENTRY_LEN).map(|entry| GapAckBlock {
            start: u16::from_be_bytes([entry[0], entry[1]]),
            end: u16::from_be_bytes([entry[2], entry[3]]),
        })
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / Self::ENTRY_LEN
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

/// A list of TSNs, as encoded in a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TsnList(Bytes);

impl TsnList {
    pub(super) const ENTRY_LEN: usize = 4;

    pub(super) fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Encodes a list of these TSNs.
    pub fn from_tsns(tsns: impl IntoIterator<Item = Tsn>) -> Self {
        let mut bytes = Vec::new();
        tsns.into_iter()
            .for_each(|tsn| bytes.extend_from_slice(&tsn.0.to_be_bytes()));
        Self(bytes.into())
    }

    /// The TSNs, in the order of the chunk.
    pub fn iter(&self) -> impl Iterator<Item = Tsn> + '_ {
        self.0
            .chunks_exact(Self::ENTRY_LEN)
            .map(|e| Tsn(u32::from_be_bytes([e[0], e[1], e[2], e[3]])))
    }

    /// Number of TSNs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / Self::ENTRY_LEN
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

pub(super) fn put_block(out: &mut Vec<u8>, block: GapAckBlock) {
    out.extend_from_slice(&block.start.to_be_bytes());
    out.extend_from_slice(&block.end.to_be_bytes());
}

/// A received SACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sack {
    /// All TSNs up to this one have arrived.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window of the sender of this chunk, in bytes.
    pub a_rwnd: u32,
    /// TSNs above the cumulative TSN ack that have arrived.
    pub gap_ack_blocks: GapAckBlocks,
    /// TSNs that arrived more than once.
    pub duplicate_tsns: TsnList,
}

impl Sack {
    /// Bytes before the lists.
    pub const HEADER_LEN: usize = CHUNK_HEADER_LEN + 12;

    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short, or its counts do not match its length.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let whole = raw.as_slice();
        let Some(fields) = whole.first_chunk::<{ Self::HEADER_LEN }>() else {
            return Err(ChunkError::Length { kind: kind::SACK });
        };
        let u16_at = |at: usize| usize::from(u16::from_be_bytes([fields[at], fields[at + 1]]));
        let u32_at =
            |at: usize| u32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
        let blocks_end = Self::HEADER_LEN + u16_at(12) * GapAckBlocks::ENTRY_LEN;
        if blocks_end + u16_at(14) * TsnList::ENTRY_LEN != whole.len() {
            return Err(ChunkError::Length { kind: kind::SACK });
        }
        let mut lists = raw.after(Self::HEADER_LEN);
        Ok(Self {
            cumulative_tsn_ack: Tsn(u32_at(4)),
            a_rwnd: u32_at(8),
            gap_ack_blocks: GapAckBlocks::from_bytes(lists.split_to(blocks_end - Self::HEADER_LEN)),
            duplicate_tsns: TsnList::from_bytes(lists),
        })
    }
}

/// The number of packets that a SACK or an NR-SACK with these flags acknowledges, from the two high bits; at least 1.
/// draft-tuexen-tsvwg-sctp-multipath §3.3 does not fix the bits; usrsctp uses these two. No standard defines them, so only a sender that
/// uses several paths at once may read them.
#[must_use]
pub fn packets_answered(flags: u8) -> u8 {
    (flags >> 6).max(1)
}

/// The flags of an acknowledgement for this number of packets; 0 states nothing, and the largest number is 3.
pub(super) fn ack_flags(packets: u8) -> u8 {
    packets.min(3) << 6
}

impl EncodeChunk for Sack {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.gap_ack_blocks.as_bytes().len() + self.duplicate_tsns.as_bytes().len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let counts = [self.gap_ack_blocks.len(), self.duplicate_tsns.len()];
        put_fields(
            out,
            0,
            self.encoded_len(),
            self.cumulative_tsn_ack,
            self.a_rwnd,
            counts,
        );
        out.extend_from_slice(self.gap_ack_blocks.as_bytes());
        out.extend_from_slice(self.duplicate_tsns.as_bytes());
    }
}

/// Encodes a SACK from borrowed lists.
#[derive(Clone, Copy, Debug)]
pub struct SackWriter<'a> {
    /// All TSNs up to this one have arrived.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// TSNs above the cumulative TSN ack that have arrived.
    pub gap_ack_blocks: &'a [GapAckBlock],
    /// TSNs that arrived more than once.
    pub duplicate_tsns: &'a [Tsn],
    /// Number of packets that this chunk acknowledges, from 0 to 3; 0 states nothing. See [`packets_answered`].
    pub packets: u8,
}

impl EncodeChunk for SackWriter<'_> {
    fn encoded_len(&self) -> usize {
        Sack::HEADER_LEN
            + self.gap_ack_blocks.len() * GapAckBlocks::ENTRY_LEN
            + self.duplicate_tsns.len() * TsnList::ENTRY_LEN
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let counts = [self.gap_ack_blocks.len(), self.duplicate_tsns.len()];
        put_fields(
            out,
            self.packets,
            self.encoded_len(),
            self.cumulative_tsn_ack,
            self.a_rwnd,
            counts,
        );
        self.gap_ack_blocks
            .iter()
            .for_each(|block| put_block(out, *block));
        self.duplicate_tsns
            .iter()
            .for_each(|tsn| out.extend_from_slice(&tsn.0.to_be_bytes()));
    }
}

fn put_fields(out: &mut Vec<u8>, packets: u8, len: usize, cumulative: Tsn, a_rwnd: u32, counts: [usize; 2]) {
    let mut fields = [0; Sack::HEADER_LEN];
    fields[..4].copy_from_slice(&header(kind::SACK, ack_flags(packets), len));
    fields[4..8].copy_from_slice(&cumulative.0.to_be_bytes());
    fields[8..12].copy_from_slice(&a_rwnd.to_be_bytes());
    fields[12..14].copy_from_slice(&(counts[0] as u16).to_be_bytes());
    fields[14..].copy_from_slice(&(counts[1] as u16).to_be_bytes());
    out.extend_from_slice(&fields);
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    const BYTES: [u8; 28] = [
        3, 0, 0, 28, 0, 0, 0, 7, 0, 0, 0x10, 0, 0, 2, 0, 1, 0, 2, 0, 3, 0, 5, 0, 9, 0, 0, 0, 6,
    ];

    #[test]
    fn round_trip() {
        let blocks = [GapAckBlock { start: 2, end: 3 }, GapAckBlock { start: 5, end: 9 }];
        let sack = Sack {
            cumulative_tsn_ack: Tsn(7),
            a_rwnd: 4096,
            gap_ack_blocks: GapAckBlocks::from_blocks(blocks),
            duplicate_tsns: TsnList::from_tsns([Tsn(6)]),
        };
        assert_eq!(sack.gap_ack_blocks.iter().collect::<Vec<_>>(), blocks);
        check(&BYTES, &Chunk::Sack(sack));
        let mut written = Vec::new();
        let writer = SackWriter {
            cumulative_tsn_ack: Tsn(7),
            a_rwnd: 4096,
            gap_ack_blocks: &blocks,
            duplicate_tsns: &[Tsn(6)],
            packets: 0,
        };
        writer.encode(&mut written);
        assert_eq!(written, BYTES);
        for (packets, flags, told) in [(1, 0x40, 1), (2, 0x80, 2), (3, 0xC0, 3), (200, 0xC0, 3)] {
            written.clear();
            SackWriter { packets, ..writer }.encode(&mut written);
            assert_eq!(written[1], flags);
            assert_eq!(packets_answered(flags), told);
        }
    }

    #[test]
    fn counts_must_fit_the_length() {
        for (at, count) in [(13, 1), (13, 3), (15, 0), (15, 2), (12, 0xFF)] {
            let mut bytes = BYTES;
            bytes[at] = count;
            check_refused(&bytes, ChunkError::Length { kind: 3 });
        }
    }
}
