//! SHUTDOWN and SHUTDOWN COMPLETE (RFC 9260 §3.3.8, §3.3.13).
//!
//! ```text
//! |   Type = 7    |  Chunk Flags  |          Length = 8           |
//! |                      Cumulative TSN Ack                       |
//!
//! |   Type = 14   |  Reserved   |T|          Length = 4           |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::reader::Reader;
use crate::types::Tsn;

/// Begins a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// All TSNs up to this one have arrived.
    pub cumulative_tsn_ack: Tsn,
}

impl Shutdown {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let tsn = Reader::new(raw.value())
            .u32()
            .ok_or(ChunkError::Length { kind: kind::SHUTDOWN })?;
        Ok(Self {
            cumulative_tsn_ack: Tsn(tsn),
        })
    }
}

impl EncodeChunk for Shutdown {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + 4
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::SHUTDOWN, 0, self.encoded_len());
        out.extend_from_slice(&self.cumulative_tsn_ack.0.to_be_bytes());
    }
}

/// Completes a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownComplete {
    /// T: the verification tag is the receiver's own, reflected by a sender that has no association (RFC 9260 §8.5.1 C).
    pub reflected_tag: bool,
}

impl ShutdownComplete {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self {
            reflected_tag: raw.flags & 1 != 0,
        })
    }
}

impl EncodeChunk for ShutdownComplete {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(
            out,
            kind::SHUTDOWN_COMPLETE,
            u8::from(self.reflected_tag),
            CHUNK_HEADER_LEN,
        );
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
            &[7, 0, 0, 8, 0, 0, 1, 0],
            &Chunk::Shutdown(Shutdown {
                cumulative_tsn_ack: Tsn(256),
            }),
        );
        check(
            &[14, 1, 0, 4],
            &Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true }),
        );
        check(
            &[14, 0, 0, 4],
            &Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false }),
        );
        check_refused(&[7, 0, 0, 6, 0, 0], ChunkError::Length { kind: 7 });
    }
}
