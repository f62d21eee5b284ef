//! COOP-SACK (ECA-SCTP): an acknowledgement for all paths.
//!
//! ```text
//! |   Type = 97   |  Reserved   |R|         Chunk Length          |
//! |                  Timestamp of its sender [ms]                 |
//! |                      Cumulative TSN Ack                       |
//! |          Advertised Receiver Window Credit (a_rwnd)           |
//! |        Number of Paths        | Number of Duplicates          |
//!   for each path:
//! |      PID      |                    CumPSN                     |
//! |                 Share of the window (advisory)                |
//! |    Number of Gap Ack Blocks   |           Reserved            |
//! |    Gap Ack Block start        |     Gap Ack Block end         |  offsets from CumPSN
//!   for each duplicate:
//! |      PID      |                      PSN                      |
//!   if R is set:
//! |  Number of Renegable Blocks   |           Reserved            |
//! |    Block start                |     Block end                 |  offsets from the Cumulative TSN Ack
//! ```
//!
//! R is set if NR-SACK was negotiated. Then a TSN that has arrived above the cumulative TSN ack is non-renegable unless a renegable block
//! lists it. Without R, every TSN above the cumulative TSN ack is renegable.

use alloc::vec::Vec;

use bytes::Bytes;

use super::super::sack::{GapAckBlock, GapAckBlocks, put_block};
use super::super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, put_header};
use super::path_sequence::PathSequences;
use super::{PathSequence, kind};
use crate::reader::Reader;
use crate::types::Tsn;

/// The transmissions that arrived on one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// PID and CumPSN: every transmission on the path up to this one has arrived or was skipped by a FORWARD-PSN.
    pub cumulative: PathSequence,
    /// Prwnd of the paper (§III-A), in bytes. The receive buffer is common to all paths, so this is an equal part of a_rwnd, and says nothing
    /// about the path. This project's sender reads a_rwnd alone.
    pub rwnd: u32,
    /// Transmissions above `cumulative` that arrived, as offsets from it.
    pub gap_ack_blocks: GapAckBlocks,
}

/// The path reports as encoded in a chunk. Their counts have been checked against the chunk's length.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PathReports {
    bytes: Bytes,
    count: usize,
}

impl PathReports {
    /// Encodes a list of these reports.
    pub fn from_reports(reports: impl IntoIterator<Item = PathReport>) -> Self {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for report in reports {
            put_report(
                &mut bytes,
                report.cumulative,
                report.rwnd,
                report.gap_ack_blocks.len(),
            );
            bytes.extend_from_slice(report.gap_ack_blocks.as_bytes());
            count += 1;
        }
        Self {
            bytes: bytes.into(),
            count,
        }
    }

    /// Reads `count` reports from the front.
    fn read(reader: &mut Reader, count: usize) -> Option<Self> {
        let all = reader.remaining().clone();
        for _ in 0..count {
            read_report(reader)?;
        }
        let len = all.len() - reader.remaining().len();
        Some(Self {
            bytes: all.slice(..len),
            count,
        })
    }

    /// The reports, in the order of the chunk.
    pub fn iter(&self) -> impl Iterator<Item = PathReport> {
        let mut reader = Reader::new(self.bytes.clone());
        core::iter::from_fn(move || read_report(&mut reader))
    }

    /// Number of reports.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

const REPORT_LEN: usize = 12;

fn read_report(reader: &mut Reader) -> Option<PathReport> {
    let cumulative = PathSequence::from_word(reader.u32()?);
    let rwnd = reader.u32()?;
    let blocks = usize::from(reader.u16()?);
    let _reserved = reader.u16()?;
    let blocks = reader.bytes(blocks * GapAckBlocks::ENTRY_LEN)?;
    Some(PathReport {
        cumulative,
        rwnd,
        gap_ack_blocks: GapAckBlocks::from_bytes(blocks),
    })
}

fn put_report(out: &mut Vec<u8>, cumulative: PathSequence, rwnd: u32, blocks: usize) {
    out.extend_from_slice(&cumulative.to_word().to_be_bytes());
    out.extend_from_slice(&rwnd.to_be_bytes());
    out.extend_from_slice(&(blocks as u16).to_be_bytes());
    out.extend_from_slice(&[0; 2]);
}

/// A received COOP-SACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoopSack {
    /// Milliseconds of its sender's clock, which may start at any value. The receiver of the chunk uses it to find the newer of two.
    pub timestamp_ms: u32,
    /// All TSNs up to this one have arrived, on any path.
    pub cumulative_tsn_ack: Tsn,
    /// Advertised receiver window of the sender of this chunk, in bytes, for all paths together.
    pub a_rwnd: u32,
    /// The transmissions that arrived, for each path.
    pub paths: PathReports,
    /// Transmissions whose TSN had arrived before.
    pub duplicates: PathSequences,
    /// TSNs above the cumulative TSN ack that the receiver may still drop; `None` if it may drop any of them (R is not set).
    pub renegable: Option<GapAckBlocks>,
}

const HEADER_LEN: usize = CHUNK_HEADER_LEN + 16;
const RENEGABLE: u8 = 1;
const RENEGABLE_LEN: usize = 4;

impl CoopSack {
    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short, or its counts do not match its length.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::read(raw).ok_or(ChunkError::Length {
            kind: kind::COOP_SACK,
        })
    }

    fn read(raw: &RawChunk<'_>) -> Option<Self> {
        let mut reader = Reader::new(raw.value());
        let timestamp_ms = reader.u32()?;
        let cumulative_tsn_ack = Tsn(reader.u32()?);
        let a_rwnd = reader.u32()?;
        let paths = usize::from(reader.u16()?);
        let duplicates = usize::from(reader.u16()?);
        let paths = PathReports::read(&mut reader, paths)?;
        let duplicates = PathSequences::from_bytes(reader.bytes(duplicates * PathSequence::LEN)?);
        let renegable = if raw.flags & RENEGABLE == 0 {
            None
        } else {
            let count = usize::from(reader.u16()?);
            let _reserved = reader.u16()?;
            let blocks = reader.bytes(count * GapAckBlocks::ENTRY_LEN)?;
            Some(GapAckBlocks::from_bytes(blocks))
        };
        reader.is_empty().then_some(Self {
            timestamp_ms,
            cumulative_tsn_ack,
            a_rwnd,
            paths,
            duplicates,
            renegable,
        })
    }
}

impl EncodeChunk for CoopSack {
    fn encoded_len(&self) -> usize {
        let renegable = self.renegable.as_ref();
        HEADER_LEN
            + self.paths.bytes.len()
            + self.duplicates.as_bytes().len()
            + renegable.map_or(0, |blocks| RENEGABLE_LEN + blocks.as_bytes().len())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.renegable.is_some() { RENEGABLE } else { 0 };
        put_header(out, kind::COOP_SACK, flags, self.encoded_len());
        put_fields(
            out,
            (self.timestamp_ms, self.cumulative_tsn_ack, self.a_rwnd),
            [self.paths.len(), self.duplicates.len()],
        );
        out.extend_from_slice(&self.paths.bytes);
        out.extend_from_slice(self.duplicates.as_bytes());
        if let Some(blocks) = &self.renegable {
            out.extend_from_slice(&(blocks.len() as u16).to_be_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(blocks.as_bytes());
        }
    }
}

fn put_fields(out: &mut Vec<u8>, (timestamp_ms, cumulative, a_rwnd): (u32, Tsn, u32), counts: [usize; 2]) {
    out.extend_from_slice(&timestamp_ms.to_be_bytes());
    out.extend_from_slice(&cumulative.0.to_be_bytes());
    out.extend_from_slice(&a_rwnd.to_be_bytes());
    for count in counts {
        out.extend_from_slice(&(count as u16).to_be_bytes());
    }
}

/// Encodes a path report from borrowed blocks. The fields are those of [`PathReport`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of `PathReport`")]
pub struct PathReportWriter<'a> {
    pub cumulative: PathSequence,
    pub rwnd: u32,
    pub gap_ack_blocks: &'a [GapAckBlock],
}

impl PathReportWriter<'_> {
    /// Length in bytes without blocks.
    pub const HEADER_LEN: usize = REPORT_LEN;
}

/// Encodes a COOP-SACK from borrowed lists. The fields are those of [`CoopSack`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of `CoopSack`")]
pub struct CoopSackWriter<'a> {
    pub timestamp_ms: u32,
    pub cumulative_tsn_ack: Tsn,
    pub a_rwnd: u32,
    pub paths: &'a [PathReportWriter<'a>],
    pub duplicates: &'a [PathSequence],
    pub renegable: Option<&'a [GapAckBlock]>,
}

impl CoopSackWriter<'_> {
    /// Length in bytes without reports and lists.
    pub const HEADER_LEN: usize = HEADER_LEN;
    /// Length in bytes of an empty list of renegable blocks.
    pub const LIST_LEN: usize = RENEGABLE_LEN;
}

impl EncodeChunk for CoopSackWriter<'_> {
    fn encoded_len(&self) -> usize {
        let blocks = |blocks: &[GapAckBlock]| blocks.len() * GapAckBlocks::ENTRY_LEN;
        let reports = self
            .paths
            .iter()
            .map(|path| REPORT_LEN + blocks(path.gap_ack_blocks));
        HEADER_LEN
            + reports.sum::<usize>()
            + self.duplicates.len() * PathSequence::LEN
            + self.renegable.map_or(0, |list| RENEGABLE_LEN + blocks(list))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.renegable.is_some() { RENEGABLE } else { 0 };
        put_header(out, kind::COOP_SACK, flags, self.encoded_len());
        put_fields(
            out,
            (self.timestamp_ms, self.cumulative_tsn_ack, self.a_rwnd),
            [self.paths.len(), self.duplicates.len()],
        );
        for path in self.paths {
            put_report(out, path.cumulative, path.rwnd, path.gap_ack_blocks.len());
            path.gap_ack_blocks
                .iter()
                .for_each(|block| put_block(out, *block));
        }
        for duplicate in self.duplicates {
            out.extend_from_slice(&duplicate.to_word().to_be_bytes());
        }
        if let Some(blocks) = self.renegable {
            out.extend_from_slice(&(blocks.len() as u16).to_be_bytes());
            out.extend_from_slice(&[0; 2]);
            blocks.iter().for_each(|block| put_block(out, *block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Chunk;
    use super::super::super::tests::{check, check_refused};
    use super::*;
    use crate::types::Psn;

    const BYTES: [u8; 64] = [
        97, 1, 0, 64, 0, 0, 1, 0, 0, 0, 0, 7, 0, 0, 0x10, 0, 0, 2, 0, 1, // two paths, one duplicate
        1, 0, 0, 9, 0, 0, 8, 0, 0, 1, 0, 0, 0, 2, 0, 3, // path 1: a block
        2, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, // path 2: none
        1, 0, 0, 5, // the duplicate
        0, 2, 0, 0, 0, 2, 0, 2, 0, 5, 0, 9, // renegable
    ];

    fn at(path: u8, number: u32) -> PathSequence {
        PathSequence {
            path,
            number: Psn::new(number),
        }
    }

    #[test]
    fn round_trip() {
        let gap = GapAckBlock { start: 2, end: 3 };
        let renegable = [GapAckBlock { start: 2, end: 2 }, GapAckBlock { start: 5, end: 9 }];
        let report = |cumulative, blocks: &[GapAckBlock]| PathReport {
            cumulative,
            rwnd: 2048,
            gap_ack_blocks: GapAckBlocks::from_blocks(blocks.iter().copied()),
        };
        let reports = [report(at(1, 9), &[gap]), report(at(2, 0), &[])];
        let chunk = CoopSack {
            timestamp_ms: 256,
            cumulative_tsn_ack: Tsn(7),
            a_rwnd: 4096,
            paths: PathReports::from_reports(reports.clone()),
            duplicates: PathSequences::from_list([at(1, 5)]),
            renegable: Some(GapAckBlocks::from_blocks(renegable)),
        };
        assert!(chunk.paths.iter().eq(reports));
        assert!(chunk.duplicates.iter().eq([at(1, 5)]));
        check(&BYTES, &Chunk::CoopSack(chunk));

        let writer = CoopSackWriter {
            timestamp_ms: 256,
            cumulative_tsn_ack: Tsn(7),
            a_rwnd: 4096,
            paths: &[
                PathReportWriter {
                    cumulative: at(1, 9),
                    rwnd: 2048,
                    gap_ack_blocks: &[gap],
                },
                PathReportWriter {
                    cumulative: at(2, 0),
                    rwnd: 2048,
                    gap_ack_blocks: &[],
                },
            ],
            duplicates: &[at(1, 5)],
            renegable: Some(&renegable),
        };
        let mut written = Vec::new();
        writer.encode(&mut written);
        assert_eq!(
            (written.len(), written.as_slice()),
            (writer.encoded_len(), &BYTES[..])
        );
    }

    #[test]
    fn counts_that_do_not_fit() {
        let refused = ChunkError::Length { kind: 97 };
        for (at, count) in [(17, 3), (17, 1), (19, 2), (29, 2), (53, 3), (1, 0)] {
            let mut wrong = BYTES;
            wrong[at] = count;
            check_refused(&wrong, refused);
        }
    }
}
