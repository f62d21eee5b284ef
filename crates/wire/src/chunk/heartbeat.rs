//! HEARTBEAT and HEARTBEAT ACK (RFC 9260 §3.3.5, §3.3.6). The peer returns the TLVs unchanged (§8.3). The first TLV is Heartbeat Info.
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

/// Asks the peer to answer, to test a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The TLVs as encoded. Empty if there is none: RFC 9260 requires one, but pion sends heartbeats without TLVs when it only wants an
    /// answer.
    pub tlvs: Bytes,
}

/// Answers a HEARTBEAT and returns its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAck {
    /// The TLVs of the HEARTBEAT, unchanged.
    pub tlvs: Bytes,
}

impl Heartbeat {
    /// A HEARTBEAT with one Heartbeat Info TLV that holds these bytes.
    #[must_use]
    pub fn new(info: impl Into<Bytes>) -> Self {
        Self {
            tlvs: info_tlv(info.into()),
        }
    }

    /// The sender-specific information; `None` if the first TLV is not a Heartbeat Info.
    #[must_use]
    pub fn info(&self) -> Option<Bytes> {
        read_info(&self.tlvs)
    }

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self { tlvs: raw.value() })
    }
}

impl HeartbeatAck {
    /// The HEARTBEAT ACK for a HEARTBEAT whose only TLV is a Heartbeat Info with these bytes.
    #[must_use]
    pub fn new(info: impl Into<Bytes>) -> Self {
        Self {
            tlvs: info_tlv(info.into()),
        }
    }

    /// The answer to this HEARTBEAT, with its TLVs (RFC 9260 §8.3). If the HEARTBEAT has no TLV, the answer has an empty Heartbeat Info,
    /// because some peers reject a HEARTBEAT ACK without one.
    #[must_use]
    pub fn answering(heartbeat: Heartbeat) -> Self {
        if heartbeat.tlvs.is_empty() {
            return Self::new(Bytes::new());
        }
        Self { tlvs: heartbeat.tlvs }
    }

    /// The sender-specific information; `None` if the first TLV is not a Heartbeat Info.
    #[must_use]
    pub fn info(&self) -> Option<Bytes> {
        read_info(&self.tlvs)
    }

    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Ok(Self { tlvs: raw.value() })
    }
}

impl EncodeChunk for Heartbeat {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.tlvs.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::HEARTBEAT, 0, self.encoded_len());
        out.extend_from_slice(&self.tlvs);
    }
}

impl EncodeChunk for HeartbeatAck {
    fn encoded_len(&self) -> usize {
        CHUNK_HEADER_LEN + self.tlvs.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::HEARTBEAT_ACK, 0, self.encoded_len());
        out.extend_from_slice(&self.tlvs);
    }
}

fn info_tlv(info: Bytes) -> Bytes {
    let mut tlv = Vec::with_capacity(HEADER_LEN + info.len());
    Parameter::HeartbeatInfo(info).encode_unpadded(&mut tlv);
    tlv.into()
}

/// The content of the first TLV, if that is a Heartbeat Info.
fn read_info(tlvs: &Bytes) -> Option<Bytes> {
    let claimed = usize::from(u16::from_be_bytes([*tlvs.get(2)?, *tlvs.get(3)?]));
    let is_info = tlvs[..2] == [0, 1] && claimed >= HEADER_LEN && claimed <= tlvs.len();
    is_info.then(|| tlvs.slice(HEADER_LEN..claimed))
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::check;
    use super::*;

    #[test]
    fn round_trip() {
        check(
            b"\x04\0\0\x0D\0\x01\0\x09hello",
            &Chunk::Heartbeat(Heartbeat::new("hello")),
        );
        check(
            b"\x05\0\0\x0D\0\x01\0\x09hello",
            &Chunk::HeartbeatAck(HeartbeatAck::new("hello")),
        );
        let tlvs = Bytes::new();
        check(
            b"\x04\0\0\x04",
            &Chunk::Heartbeat(Heartbeat { tlvs: tlvs.clone() }),
        );
        check(b"\x05\0\0\x04", &Chunk::HeartbeatAck(HeartbeatAck { tlvs }));
        check(
            b"\x05\0\0\x08\0\x01\0\x04",
            &Chunk::HeartbeatAck(HeartbeatAck::new("")),
        );
    }

    #[test]
    fn only_a_heartbeat_info_that_comes_first_is_read() {
        let info = |tlvs: &'static [u8]| {
            let tlvs = Bytes::from_static(tlvs);
            HeartbeatAck { tlvs }.info()
        };
        assert_eq!(
            info(b"\0\x01\0\x05x\0\0\0\0\x09\0\x04").as_deref(),
            Some(&b"x"[..])
        );
        assert_eq!(info(b"\0\x09\0\x04\0\x01\0\x05x"), None);
        assert_eq!(info(b"\0\x01\0\x0Ahello"), None, "longer than the chunk");
        assert_eq!(info(b"\0\x01\0\x03"), None, "shorter than its header");
        assert_eq!(info(b"\0\x01\0"), None);
    }

    #[test]
    fn an_answer_has_what_was_asked() {
        let tlvs = Bytes::from_static(b"\0\x09\0\x05x\0\0\0\0\x01\0\x05y");
        let answer = HeartbeatAck::answering(Heartbeat { tlvs: tlvs.clone() });
        assert_eq!(answer.tlvs, tlvs);
        let empty = Heartbeat { tlvs: Bytes::new() };
        assert_eq!(HeartbeatAck::answering(empty), HeartbeatAck::new(""));
    }
}
