//! COOKIE ECHO (RFC 9260 §3.3.11).
//!
//! ```text
//! |   Type = 10   |  Chunk Flags  |            Length             |
//! |                            Cookie                             |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};

/// Returns the state cookie to the peer that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieEcho {
    /// The cookie of the INIT ACK, unchanged.
    pub cookie: Bytes,
}

impl CookieEcho {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self { cookie: raw.value() })
    }
}

impl EncodeChunk for CookieEcho {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.cookie.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::COOKIE_ECHO, 0, self.encoded_len());
        out.extend_from_slice(&self.cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::check;
    use super::*;

    #[test]
    fn round_trip() {
        check(
            b"\x0A\0\0\x07yum",
            &Chunk::CookieEcho(CookieEcho {
                cookie: Bytes::from_static(b"yum"),
            }),
        );
    }
}
