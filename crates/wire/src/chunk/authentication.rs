//! AUTH (RFC 4895 §5.1).
//!
//! ```text
//! | Type = 15     |   Flags=0     |             Length            |
//! |     Shared Key Identifier     |   HMAC Identifier             |
//! |                             HMAC                              |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, ChunkTypes, EncodeChunk, RawChunk, kind, padded, put_header};
use crate::reader::Reader;

/// Authenticates the chunks that follow it in the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The Shared Key Identifier: the endpoint pair shared key in use.
    pub shared_key_id: u16,
    /// The HMAC Identifier: 1 is SHA-1, 3 is SHA-256.
    pub hmac_id: u16,
    /// The HMAC: 20 bytes for SHA-1, 32 bytes for SHA-256.
    pub hmac: Bytes,
}

impl Auth {
    /// Bytes of the chunk before the HMAC.
    pub const HEADER_LEN: usize = CHUNK_HEADER_LEN + 4;

    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is shorter than its fixed fields.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::read(raw).ok_or(ChunkError::Length { kind: kind::AUTH })
    }

    fn read(raw: &RawChunk<'_>) -> Option<Self> {
        let mut reader = Reader::new(raw.value());
        Some(Self {
            shared_key_id: reader.u16()?,
            hmac_id: reader.u16()?,
            hmac: reader.rest(),
        })
    }
}

impl EncodeChunk for Auth {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.hmac.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::AUTH, 0, self.encoded_len());
        out.extend_from_slice(&self.shared_key_id.to_be_bytes());
        out.extend_from_slice(&self.hmac_id.to_be_bytes());
        out.extend_from_slice(&self.hmac);
    }
}

/// Which chunks of a packet are sent in an authenticated way, and the fields of the AUTH chunk before them (RFC 4895 §6.2). A
/// [`crate::packet::PacketWriter`] that has such a plan adds the AUTH chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthPlan {
    /// The chunk types that the peer requires to be authenticated, as they are on the wire.
    pub types: ChunkTypes,
    /// The Shared Key Identifier.
    pub shared_key_id: u16,
    /// The HMAC Identifier.
    pub hmac_id: u16,
    /// Length of the HMAC in bytes.
    pub hmac_len: u16,
}

impl AuthPlan {
    /// Bytes that the AUTH chunk takes in a packet.
    #[must_use]
    pub fn chunk_len(&self) -> usize {
        padded(Auth::HEADER_LEN + usize::from(self.hmac_len))
    }

    /// The AUTH chunk with its HMAC set to zero (RFC 4895 §6.2, figure 6).
    pub(crate) fn blank(&self) -> Auth {
        Auth {
            shared_key_id: self.shared_key_id,
            hmac_id: self.hmac_id,
            hmac: alloc::vec![0; usize::from(self.hmac_len)].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        let auth = Auth {
            shared_key_id: 2,
            hmac_id: 1,
            hmac: Bytes::from_static(b"abc"),
        };
        check(b"\x0F\0\0\x0B\0\x02\0\x01abc", &Chunk::Auth(auth));
        let empty = Auth {
            shared_key_id: 0xFFFF,
            hmac_id: 0,
            hmac: Bytes::new(),
        };
        check(b"\x0F\0\0\x08\xFF\xFF\0\0", &Chunk::Auth(empty));
        check_refused(&[15, 0, 0, 6, 0, 2], ChunkError::Length { kind: 15 });
        check_refused(&[15, 0, 0, 4], ChunkError::Length { kind: 15 });
    }
}
