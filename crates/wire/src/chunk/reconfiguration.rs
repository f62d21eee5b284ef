//! RE-CONFIG (RFC 6525 §3.1): one or two parameters that request or answer a change of streams.
//!
//! ```text
//! | Type = 130    |  Chunk Flags  |      Chunk Length             |
//! |                  Re-configuration Parameters                  |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::parameter::Parameters;

/// Requests a change of streams, or answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReConfig {
    /// The requests or responses.
    pub parameters: Parameters,
}

impl ReConfig {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self {
            parameters: Parameters::from_bytes(raw.value()),
        })
    }
}

impl EncodeChunk for ReConfig {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.parameters.as_bytes().len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::RE_CONFIG, 0, self.encoded_len());
        out.extend_from_slice(self.parameters.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::check;
    use super::*;
    use crate::parameter::{Parameter, ParametersBuilder};

    #[test]
    fn round_trip() {
        let answer = Parameter::ReConfigResponse {
            sequence: 7,
            result: 1,
            next_tsns: None,
        };
        let parameters = ParametersBuilder::new().push(&answer).finish();
        check(
            &[130, 0, 0, 16, 0, 16, 0, 12, 0, 0, 0, 7, 0, 0, 0, 1],
            &Chunk::ReConfig(ReConfig { parameters }),
        );
    }
}
