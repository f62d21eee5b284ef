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

/// Asks whether a path works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// What its sender put in, for itself. Empty if there is none: the RFC wants it, and pion leaves it out of heartbeats that
    /// are only to draw an answer.
    pub info: Bytes,
}

/// Answers a HEARTBEAT with what it brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAck {
    /// What the sender of the HEARTBEAT put in.
    pub info: Bytes,
}

impl Heartbeat {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let value = raw.value();
        let info = if value.is_empty() {
            Some(value)
        } else {
            read_info(&value)
        };
        let length = ChunkError::Length {
            kind: kind::HEARTBEAT,
        };
        info.map(|info| Self { info }).ok_or(length)
    }
}

impl HeartbeatAck {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let length = ChunkError::Length {
            kind: kind::HEARTBEAT_ACK,
        };
        read_info(&raw.value()).map(|info| Self { info }).ok_or(length)
    }
}

impl EncodeChunk for Heartbeat {
    fn encoded_len(&self) -> usize {
        let parameter = if self.info.is_empty() { 0 } else { HEADER_LEN };
        CHUNK_HEADER_LEN + parameter + self.info.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::HEARTBEAT, 0, self.encoded_len());
        if !self.info.is_empty() {
            Parameter::HeartbeatInfo(self.info.clone()).encode_unpadded(out);
        }
    }
}

impl EncodeChunk for HeartbeatAck {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + HEADER_LEN + self.info.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::HEARTBEAT_ACK, 0, self.encoded_len());
        Parameter::HeartbeatInfo(self.info.clone()).encode_unpadded(out);
    }
}

/// The one parameter; its padding, which some senders count in the chunk's length, is not kept.
fn read_info(value: &Bytes) -> Option<Bytes> {
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
        let info = Bytes::new();
        check(
            b"\x04\0\0\x04",
            &Chunk::Heartbeat(Heartbeat { info: info.clone() }),
        );
        check(
            b"\x05\0\0\x08\0\x01\0\x04",
            &Chunk::HeartbeatAck(HeartbeatAck { info }),
        );
    }
}
