//! ABORT and ERROR (RFC 9260 §3.3.7, §3.3.10): lists of error causes.
//!
//! ```text
//! |   Type = 6, 9 |  Reserved   |T|           Length              |
//! |                zero or more Error Causes                      |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::cause::Causes;

/// Ends the association at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// T: the verification tag is the receiver's own, reflected by a sender that has no association (RFC 9260 §8.5.1 B).
    pub reflected_tag: bool,
    /// The reasons.
    pub causes: Causes,
}

impl Abort {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self {
            reflected_tag: raw.flags & 1 != 0,
            causes: Causes::from_bytes(raw.value()),
        })
    }
}

impl EncodeChunk for Abort {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.causes.as_bytes().len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::ABORT, u8::from(self.reflected_tag), self.encoded_len());
        out.extend_from_slice(self.causes.as_bytes());
    }
}

/// Reports errors that do not end the association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorChunk {
    /// The errors.
    pub causes: Causes,
}

impl ErrorChunk {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self {
            causes: Causes::from_bytes(raw.value()),
        })
    }
}

impl EncodeChunk for ErrorChunk {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.causes.as_bytes().len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::ERROR, 0, self.encoded_len());
        out.extend_from_slice(self.causes.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::check;
    use super::*;
    use crate::cause::Cause;

    #[test]
    fn round_trip() {
        let causes = Causes::from_causes(&[Cause::OutOfResource]);
        check(
            &[6, 1, 0, 8, 0, 4, 0, 4],
            &Chunk::Abort(Abort {
                reflected_tag: true,
                causes: causes.clone(),
            }),
        );
        check(
            &[6, 0, 0, 4],
            &Chunk::Abort(Abort {
                reflected_tag: false,
                causes: Causes::empty(),
            }),
        );
        check(&[9, 0, 0, 8, 0, 4, 0, 4], &Chunk::Error(ErrorChunk { causes }));
    }
}
