//! HEARTBEAT and HEARTBEAT ACK (RFC 9260 §3.3.5, §3.3.6): one parameter, Heartbeat Info, there and back.
//!
//! ```text
//! |   Type = 4, 5 |  Chunk Flags  |       Heartbeat Length        |
//! |    Heartbeat Info Type = 1    |         HB Info Length        |
//! |             Sender-Specific Heartbeat Info                    |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};
use crate::parameter::{HEADER_LEN, Parameter};

macro_rules! heartbeat_chunk {
    ($(#[$doc:meta])* $name:ident, $kind:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// What the sender of the HEARTBEAT put in, for itself.
            pub info: Bytes,
        }

        impl $name {
            pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
                read_info(raw).map(|info| Self { info }).ok_or(ChunkError::Length { kind: $kind })
            }
        }

        impl EncodeChunk for $name {
            fn encoded_len(&self) -> usize {
                CHUNK_HEADER_LEN + HEADER_LEN + self.info.len()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                put_header(out, $kind, 0, self.encoded_len());
                Parameter::HeartbeatInfo(self.info.clone()).encode_unpadded(out);
            }
        }
    };
}

heartbeat_chunk!(
    /// Asks whether a path works.
    Heartbeat,
    kind::HEARTBEAT
);
heartbeat_chunk!(
    /// Answers a HEARTBEAT with what it brought.
    HeartbeatAck,
    kind::HEARTBEAT_ACK
);

/// The one parameter; its padding, which some senders count in the chunk's length, is not kept.
fn read_info(raw: &RawChunk<'_>) -> Option<Bytes> {
    let value = raw.value();
    let claimed = usize::from(u16::from_be_bytes([*value.get(2)?, *value.get(3)?]));
    let is_info = value[..2] == [0, 1] && claimed >= HEADER_LEN && claimed <= value.len();
    is_info.then(|| value.slice(HEADER_LEN..claimed))
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        let info = Bytes::from_static(b"hello");
        check(
            b"\x04\0\0\x0D\0\x01\0\x09hello",
            &Chunk::Heartbeat(Heartbeat { info: info.clone() }),
        );
        check(
            b"\x05\0\0\x0D\0\x01\0\x09hello",
            &Chunk::HeartbeatAck(HeartbeatAck { info }),
        );
        check_refused(b"\x04\0\0\x0D\0\x01\0\x0Ahello", ChunkError::Length { kind: 4 });
        check_refused(b"\x05\0\0\x04", ChunkError::Length { kind: 5 });
    }
}
