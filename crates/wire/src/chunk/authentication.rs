//! AUTH (RFC 4895 §4.1), ASCONF and ASCONF-ACK (RFC 5061 §4.1).
//!
//! ```text
//! | Type = 15     |   Flags=0     |             Length            |
//! |     Shared Key Identifier     |   HMAC Identifier             |
//! |                             HMAC                              |
//!
//! | Type = 193,128|  Chunk Flags  |         Chunk Length          |
//! |                       Sequence Number                         |
//! |             Address Parameter, ASCONF Parameters              |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::parameter::Parameters;
use crate::reader::Reader;

/// Authenticates the chunks that follow it in the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The identifier of the endpoint pair shared key in use.
    pub shared_key_id: u16,
    /// The HMAC algorithm: 1 is SHA-1, 3 is SHA-256.
    pub hmac_id: u16,
    /// The HMAC.
    pub hmac: Bytes,
}

impl Auth {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
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
        CHUNK_HEADER_LEN + 4 + self.hmac.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::AUTH, 0, self.encoded_len());
        out.extend_from_slice(&self.shared_key_id.to_be_bytes());
        out.extend_from_slice(&self.hmac_id.to_be_bytes());
        out.extend_from_slice(&self.hmac);
    }
}

macro_rules! asconf_chunk {
    ($(#[$doc:meta])* $name:ident, $kind:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Serial number of the request.
            pub serial: u32,
            /// In an ASCONF, the first parameter is an address parameter that identifies the sender.
            pub parameters: Parameters,
        }

        impl $name {
            pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
                let mut reader = Reader::new(raw.value());
                let serial = reader.u32().ok_or(ChunkError::Length { kind: $kind })?;
                Ok(Self { serial, parameters: Parameters::from_bytes(reader.rest()) })
            }
        }

        impl EncodeChunk for $name {
            fn encoded_len(&self) -> usize {
                CHUNK_HEADER_LEN + 4 + self.parameters.as_bytes().len()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                put_header(out, $kind, 0, self.encoded_len());
                out.extend_from_slice(&self.serial.to_be_bytes());
                out.extend_from_slice(self.parameters.as_bytes());
            }
        }
    };
}

asconf_chunk!(
    /// Adds, deletes or prefers addresses.
    Asconf,
    kind::ASCONF
);
asconf_chunk!(
    /// Acknowledges an ASCONF.
    AsconfAck,
    kind::ASCONF_ACK
);

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;
    use crate::parameter::{Parameter, ParametersBuilder};

    #[test]
    fn round_trip() {
        let auth = Auth {
            shared_key_id: 2,
            hmac_id: 1,
            hmac: Bytes::from_static(b"abc"),
        };
        check(b"\x0F\0\0\x0B\0\x02\0\x01abc", &Chunk::Auth(auth));
        check_refused(&[15, 0, 0, 6, 0, 2], ChunkError::Length { kind: 15 });
        let parameters = ParametersBuilder::new()
            .push(&Parameter::Ipv4([10, 0, 0, 1].into()))
            .finish();
        let bytes = [193, 0, 0, 16, 0, 0, 0, 3, 0, 5, 0, 8, 10, 0, 0, 1];
        check(
            &bytes,
            &Chunk::Asconf(Asconf {
                serial: 3,
                parameters,
            }),
        );
        let empty = Parameters::empty();
        check(
            &[128, 0, 0, 8, 0, 0, 0, 3],
            &Chunk::AsconfAck(AsconfAck {
                serial: 3,
                parameters: empty,
            }),
        );
        check_refused(&[128, 0, 0, 6, 0, 0], ChunkError::Length { kind: 128 });
    }
}
