//! Heartbeats of a path: reachability and confirmation of addresses (RFC 9260 §5.4, §8.3).

use anabranch_wire::chunk::padded;
use bytes::{BufMut, Bytes, BytesMut};

use super::PathId;
use crate::time::Timestamp;

/// What one path knows of its heartbeats.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// When the next one is due.
    pub(crate) due: Option<Timestamp>,
    /// The one that is not answered yet.
    pub(crate) pending: Option<HeartbeatInfo>,
}

/// What a HEARTBEAT carries and its answer must bring back (Sender-Specific Heartbeat Info, §3.3.5): the time it
/// left, the path, and a nonce, so that nobody who has not seen it can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatInfo {
    pub(crate) path: PathId,
    pub(crate) sent_at: Timestamp,
    pub(crate) nonce: u64,
}

const INFO_LEN: usize = 17;

impl HeartbeatInfo {
    /// Bytes of a HEARTBEAT with it: the headers of chunk and parameter, and the padding.
    pub(crate) const CHUNK_LEN: usize = padded(4 + 4 + INFO_LEN);

    pub(crate) fn encode(&self) -> Bytes {
        let mut info = BytesMut::with_capacity(INFO_LEN);
        info.put_u8(self.path.0);
        info.put_u64(self.sent_at.0);
        info.put_u64(self.nonce);
        info.freeze()
    }

    /// `None` if the peer returned something that was never sent.
    pub(crate) fn decode(info: &[u8]) -> Option<Self> {
        if info.len() != INFO_LEN {
            return None;
        }
        let number = |at: usize| info[at..at + 8].try_into().ok().map(u64::from_be_bytes);
        Some(Self {
            path: PathId(info[0]),
            sent_at: Timestamp(number(1)?),
            nonce: number(9)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_comes_back_as_it_left() {
        let info = HeartbeatInfo {
            path: PathId(3),
            sent_at: Timestamp(0x0102_0304_0506),
            nonce: u64::MAX - 5,
        };
        assert_eq!(HeartbeatInfo::decode(&info.encode()), Some(info));
        assert_eq!(HeartbeatInfo::decode(&info.encode()[1..]), None);
    }
}
