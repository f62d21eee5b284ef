//! NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4): a SACK that also lists non-renegable TSNs, which the receiver can no longer drop.
//!
//! ```text
//! |   Type = 16   |  Chunk Flags  |         Chunk Length          |
//! |                      Cumulative TSN Ack                       |
//! |          Advertised Receiver Window Credit (a_rwnd)           |
//! |Number of R Gap Ack Blocks = N |Number of NR Gap Ack Blocks = M|
//! |  Number of Duplicate TSNs = X |           Reserved            |
//! |  R Gap Ack Blocks, NR Gap Ack Blocks, Duplicate TSNs          |
//! ```

use alloc::vec::Vec;

use super::sack::{GapAckBlock, GapAckBlocks, TsnList, ack_flags, put_block};
use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, header, kind};
use crate::types::Tsn;

/// A received NR-SACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrSack {
    /// All TSNs up to this one have arrived.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window of the sender of this chunk, in bytes.
    pub a_rwnd: u32,
    /// TSNs above the cumulative TSN ack that have arrived and that the receiver may still drop.
    pub renegable: GapAckBlocks,
    /// TSNs above the cumulative TSN ack that have arrived and that the receiver will not drop.
    pub nonrenegable: GapAckBlocks,
    /// TSNs that arrived more than once.
    pub duplicate_tsns: TsnList,
}

const HEADER_LEN: usize = CHUNK_HEADER_LEN + 16;

impl NrSack {
    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short, or its counts do not match its length.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let length = ChunkError::Length { kind: kind::NR_SACK };
        let whole = raw.as_slice();
        let fields = whole.first_chunk::<HEADER_LEN>().ok_or(length)?;
        let u16_at = |at: usize| usize::from(u16::from_be_bytes([fields[at], fields[at + 1]]));
        let u32_at =
            |at: usize| u32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
        let renegable = u16_at(12) * GapAckBlocks::ENTRY_LEN;
        let nonrenegable = u16_at(14) * GapAckBlocks::ENTRY_LEN;
        let duplicates = u16_at(16) * TsnList::ENTRY_LEN;
        if HEADER_LEN + renegable + nonrenegable + duplicates != whole.len() {
            return Err(length);
        }
        let mut lists = raw.after(HEADER_LEN);
        Ok(Self {
            cumulative_tsn_ack: Tsn(u32_at(4)),
            a_rwnd: u32_at(8),
            renegable: GapAckBlocks::from_bytes(lists.split_to(renegable)),
            nonrenegable: GapAckBlocks::from_bytes(lists.split_to(nonrenegable)),
            duplicate_tsns: TsnList::from_bytes(lists),
        })
    }
}

impl EncodeChunk for NrSack {
    fn encoded_len(&self) -> usize {
        HEADER_LEN
            + self.renegable.as_bytes().len()
            + self.nonrenegable.as_bytes().len()
            + self.duplicate_tsns.as_bytes().len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let counts = [
            self.renegable.len(),
            self.nonrenegable.len(),
            self.duplicate_tsns.len(),
        ];
        put_fields(
            out,
            0,
            self.encoded_len(),
            self.cumulative_tsn_ack,
            self.a_rwnd,
            counts,
        );
        out.extend_from_slice(self.renegable.as_bytes());
        out.extend_from_slice(self.nonrenegable.as_bytes());
        out.extend_from_slice(self.duplicate_tsns.as_bytes());
    }
}

/// Encodes an NR-SACK from borrowed lists.
#[derive(Clone, Copy, Debug)]
pub struct NrSackWriter<'a> {
    /// All TSNs up to this one have arrived.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window in bytes.
    pub a_rwnd: u32,
    /// TSNs above the cumulative TSN ack that have arrived and that the receiver may still drop.
    pub renegable: &'a [GapAckBlock],
    /// TSNs above the cumulative TSN ack that have arrived and that the receiver will not drop.
    pub nonrenegable: &'a [GapAckBlock],
    /// TSNs that arrived more than once.
    pub duplicate_tsns: &'a [Tsn],
    /// Number of packets that this chunk acknowledges, from 0 to 3; 0 states nothing. See [`super::packets_answered`].
    pub packets: u8,
}

impl NrSackWriter<'_> {
    /// Length in bytes without blocks and duplicates.
    pub const HEADER_LEN: usize = HEADER_LEN;
}

impl EncodeChunk for NrSackWriter<'_> {
    fn encoded_len(&self) -> usize {
        HEADER_LEN
            + (self.renegable.len() + self.nonrenegable.len()) * GapAckBlocks::ENTRY_LEN
            + self.duplicate_tsns.len() * TsnList::ENTRY_LEN
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let counts = [
            self.renegable.len(),
            self.nonrenegable.len(),
            self.duplicate_tsns.len(),
        ];
        put_fields(
            out,
            self.packets,
            self.encoded_len(),
            self.cumulative_tsn_ack,
            self.a_rwnd,
            counts,
        );
        self.renegable
            .iter()
            .chain(self.nonrenegable)
            .for_each(|block| put_block(out, *block));
        self.duplicate_tsns
            .iter()
            .for_each(|tsn| out.extend_from_slice(&tsn.0.to_be_bytes()));
    }
}

fn put_fields(out: &mut Vec<u8>, packets: u8, len: usize, cumulative: Tsn, a_rwnd: u32, counts: [usize; 3]) {
    let mut fields = [0; HEADER_LEN];
    fields[..4].copy_from_slice(&header(kind::NR_SACK, ack_flags(packets), len));
    fields[4..8].copy_from_slice(&cumulative.0.to_be_bytes());
    fields[8..12].copy_from_slice(&a_rwnd.to_be_bytes());
    for (at, count) in counts.into_iter().enumerate() {
        fields[12 + 2 * at..14 + 2 * at].copy_from_slice(&(count as u16).to_be_bytes());
    }
    out.extend_from_slice(&fields);
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        let bytes = [
            16, 0, 0, 32, 0, 0, 0, 7, 0, 0, 0x10, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 2, 0, 3, 0, 5, 0, 9, 0, 0, 0,
            6,
        ];
        let (renegable, nonrenegable) = (GapAckBlock { start: 2, end: 3 }, GapAckBlock { start: 5, end: 9 });
        let chunk = NrSack {
            cumulative_tsn_ack: Tsn(7),
            a_rwnd: 4096,
            renegable: GapAckBlocks::from_blocks([renegable]),
            nonrenegable: GapAckBlocks::from_blocks([nonrenegable]),
            duplicate_tsns: TsnList::from_tsns([Tsn(6)]),
        };
        check(&bytes, &Chunk::NrSack(chunk));
        let mut written = Vec::new();
        let writer = NrSackWriter {
            cumulative_tsn_ack: Tsn(7),
            a_rwnd: 4096,
            renegable: &[renegable],
            nonrenegable: &[nonrenegable],
            duplicate_tsns: &[Tsn(6)],
            packets: 0,
        };
        writer.encode(&mut written);
        assert_eq!(
            (written.len(), written.as_slice()),
            (writer.encoded_len(), &bytes[..])
        );
        let mut more = bytes;
        more[13] = 2;
        check_refused(&more, ChunkError::Length { kind: 16 });
    }
}
