//! INIT and INIT ACK (RFC 9260 §3.3.2, §3.3.3): they differ in their type and in the parameters that they may have.
//!
//! ```text
//! |   Type = 1, 2 |  Chunk Flags  |      Chunk Length             |
//! |                         Initiate Tag                          |
//! |           Advertised Receiver Window Credit (a_rwnd)          |
//! |  Number of Outbound Streams   |   Number of Inbound Streams   |
//! |                          Initial TSN                          |
//! |              Optional/Variable-Length Parameters              |
//! ```

use alloc::vec::Vec;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::parameter::Parameters;
use crate::reader::Reader;
use crate::types::{Tsn, VerificationTag};

macro_rules! init_chunk {
    ($(#[$doc:meta])* $name:ident, $kind:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// The verification tag that packets to the sender of this chunk must carry.
            pub initiate_tag: VerificationTag,
            /// The sender's receive window in bytes.
            pub a_rwnd: u32,
            /// OS: number of streams that the sender wants to send on.
            pub outbound_streams: u16,
            /// MIS: largest number of streams that the sender accepts from the peer.
            pub inbound_streams: u16,
            /// The first TSN that the sender will use.
            pub initial_tsn: Tsn,
            /// The optional parameters.
            pub parameters: Parameters,
        }

        impl $name {
            pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
                Self::read(raw).ok_or(ChunkError::Length { kind: $kind })
            }

            fn read(raw: &RawChunk<'_>) -> Option<Self> {
                let mut reader = Reader::new(raw.value());
                Some(Self {
                    initiate_tag: VerificationTag(reader.u32()?),
                    a_rwnd: reader.u32()?,
                    outbound_streams: reader.u16()?,
                    inbound_streams: reader.u16()?,
                    initial_tsn: Tsn(reader.u32()?),
                    parameters: Parameters::from_bytes(reader.rest()),
                })
            }
        }

        impl EncodeChunk for $name {
            fn encoded_len(&self) -> usize {
                CHUNK_HEADER_LEN + 16 + self.parameters.as_bytes().len()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                put_header(out, $kind, 0, self.encoded_len());
                out.extend_from_slice(&self.initiate_tag.0.to_be_bytes());
                out.extend_from_slice(&self.a_rwnd.to_be_bytes());
                out.extend_from_slice(&self.outbound_streams.to_be_bytes());
                out.extend_from_slice(&self.inbound_streams.to_be_bytes());
                out.extend_from_slice(&self.initial_tsn.0.to_be_bytes());
                out.extend_from_slice(self.parameters.as_bytes());
            }
        }
    };
}

init_chunk!(
    /// Requests an association.
    Init,
    kind::INIT
);
init_chunk!(
    /// Answers an INIT; its parameters hold the state cookie.
    InitAck,
    kind::INIT_ACK
);

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;
    use crate::parameter::{Parameter, ParametersBuilder};

    #[test]
    fn round_trip() {
        let bytes = [
            1, 0, 0, 26, 0, 0, 0, 1, 0, 1, 0, 0, 0, 10, 0, 20, 0, 0, 0, 99, 0, 12, 0, 6, 0, 5,
        ];
        let parameters = ParametersBuilder::new()
            .push(&Parameter::SupportedAddressTypes([5].into()))
            .finish();
        check(
            &bytes,
            &Chunk::Init(Init {
                initiate_tag: VerificationTag(1),
                a_rwnd: 65_536,
                outbound_streams: 10,
                inbound_streams: 20,
                initial_tsn: Tsn(99),
                parameters,
            }),
        );
        check_refused(&[2, 0, 0, 8, 0, 0, 0, 1], ChunkError::Length { kind: 2 });
    }
}
