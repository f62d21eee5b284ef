//! ECNE and CWR (draft-stewart-tsvwg-sctpecn): the receiver reports congestion marks, and the sender reports its window reduction. RFC 4960
//! appendix A has the first form of both chunks.
//!
//! ```text
//! |   Type = 12   |  Flags = 0x00 |          Length = 12          |
//! |                      Lowest TSN Number                        |
//! |           Number of CE Marked Packets seen since CWR          |
//!
//! |   Type = 13   |  Reserved |W|R|          Length = 8           |
//! |                          TSN Number                           |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::reader::Reader;
use crate::types::Tsn;

/// Explicit Congestion Notification Echo: reports packets that arrived marked "congestion experienced" (CE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecne {
    /// The lowest TSN in the newest marked packet.
    pub tsn: Tsn,
    /// Number of marked packets since the last CWR. `None` for the 8-byte chunk of RFC 4960, which has no count and reports at least one
    /// packet.
    pub marked: Option<u32>,
}

impl Ecne {
    /// Length in bytes with header and count.
    pub const LEN: usize = CHUNK_HEADER_LEN + 8;

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let length = ChunkError::Length { kind: kind::ECNE };
        let mut reader = Reader::new(raw.value());
        let tsn = Tsn(reader.u32().ok_or(length)?);
        let marked = match reader.is_empty() {
            true => None,
            false => Some(reader.u32().ok_or(length)?),
        };
        reader.is_empty().then_some(Self { tsn, marked }).ok_or(length)
    }
}

impl EncodeChunk for Ecne {
    fn encoded_len(&self) -> usize {
        match self.marked {
            Some(_) => Self::LEN,
            None => Self::LEN - 4,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::ECNE, 0, self.encoded_len());
        out.extend_from_slice(&self.tsn.0.to_be_bytes());
        if let Some(marked) = self.marked {
            out.extend_from_slice(&marked.to_be_bytes());
        }
    }
}

/// Congestion Window Reduced: answers an ECNE, so that the receiver stops sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cwr {
    /// Answers all reports up to this TSN, the one in the ECNE.
    pub tsn: Tsn,
    /// R: the sender does not know which destination address the TSN was sent to. The CWR answers the reports of all of them.
    pub overrides: bool,
    /// W: the window was already reduced for another mark in the same round trip.
    pub same_window: bool,
}

impl Cwr {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let length = ChunkError::Length { kind: kind::CWR };
        let mut reader = Reader::new(raw.value());
        let tsn = Tsn(reader.u32().ok_or(length)?);
        let cwr = Self {
            tsn,
            overrides: raw.flags & 1 != 0,
            same_window: raw.flags & 2 != 0,
        };
        reader.is_empty().then_some(cwr).ok_or(length)
    }
}

impl EncodeChunk for Cwr {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + 4
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.overrides) | u8::from(self.same_window) << 1;
        put_header(out, kind::CWR, flags, self.encoded_len());
        out.extend_from_slice(&self.tsn.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        check(
            &[12, 0, 0, 12, 0, 0, 1, 0, 0, 0, 0, 3],
            &Chunk::Ecne(Ecne {
                tsn: Tsn(256),
                marked: Some(3),
            }),
        );
        check(
            &[12, 0, 0, 8, 0, 0, 1, 0],
            &Chunk::Ecne(Ecne {
                tsn: Tsn(256),
                marked: None,
            }),
        );
        for flags in 0..4 {
            check(
                &[13, flags, 0, 8, 0, 0, 1, 0],
                &Chunk::Cwr(Cwr {
                    tsn: Tsn(256),
                    overrides: flags & 1 != 0,
                    same_window: flags & 2 != 0,
                }),
            );
        }
        for len in [7, 10, 13] {
            let mut bytes = [12, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3, 0];
            bytes[3] = len;
            check_refused(&bytes[..usize::from(len)], ChunkError::Length { kind: 12 });
        }
        check_refused(
            &[13, 0, 0, 12, 0, 0, 1, 0, 0, 0, 0, 3],
            ChunkError::Length { kind: 13 },
        );
    }
}
