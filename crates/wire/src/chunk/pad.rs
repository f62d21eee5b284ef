//! PAD (RFC 4820 §3): fills a packet, for example a path MTU probe.
//!
//! ```text
//! | Type = 132    |   Flags=0     |             Length            |
//! |                         Padding Data                          |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};

/// Padding without meaning: encoded as zeros; the decoder ignores its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Number of bytes, without the chunk header.
    pub len: u16,
}

impl Pad {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self {
            len: raw.value().len() as u16,
        })
    }
}

impl EncodeChunk for Pad {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + usize::from(self.len)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::PAD, 0, self.encoded_len());
        out.resize(out.len() + usize::from(self.len), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::check;
    use super::*;

    #[test]
    fn round_trip() {
        check(&[132, 0, 0, 7, 0, 0, 0], &Chunk::Pad(Pad { len: 3 }));
    }
}
