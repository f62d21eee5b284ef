//! FORWARD-PSN (ECA-SCTP): tells the receiver which transmissions on a path not to wait for. The sender abandoned their data, or
//! retransmitted the data on another path.
//!
//! ```text
//! |  Type = 224   |   Flags = 0   |          Length = 8           |
//! |      PID      |                  New CumPSN                   |
//! ```

use alloc::vec::Vec;

use super::super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, put_header};
use super::{PathSequence, kind};
use crate::reader::Reader;

/// Every transmission on the path up to this one has arrived or will not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardPsn(pub PathSequence);

impl ForwardPsn {
    /// Length in bytes.
    pub const LEN: usize = CHUNK_HEADER_LEN + PathSequence::LEN;

    pub(in super::super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let mut reader = Reader::new(raw.value());
        let word = reader.u32().filter(|_| reader.is_empty());
        word.map(|word| Self(PathSequence::from_word(word)))
            .ok_or(ChunkError::Length {
                kind: kind::FORWARD_PSN,
            })
    }
}

impl EncodeChunk for ForwardPsn {
    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::FORWARD_PSN, 0, Self::LEN);
        out.extend_from_slice(&self.0.to_word().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Chunk;
    use super::super::super::tests::{check, check_refused};
    use super::*;
    use crate::types::Psn;

    #[test]
    fn round_trip() {
        let chunk = ForwardPsn(PathSequence {
            path: 1,
            number: Psn::new(0x00FF_FFFF),
        });
        check(&[224, 0, 0, 8, 1, 0xFF, 0xFF, 0xFF], &Chunk::ForwardPsn(chunk));
        check_refused(
            &[224, 0, 0, 12, 1, 0, 0, 0, 0, 0, 0, 0],
            ChunkError::Length { kind: 224 },
        );
    }
}
