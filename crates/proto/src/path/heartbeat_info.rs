//! Owns the heartbeat that a path waits for, and the information that a HEARTBEAT carries (RFC 9260 §3.3.5).

use anabranch_wire::chunk::padded;
use bytes::{BufMut, Bytes, BytesMut};

use crate::path_id::PathId;
use crate::time::Timestamp;

/// The heartbeat state of one path.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// When the next heartbeat is due.
    pub(crate) due: Option<Timestamp>,
    /// The heartbeat that is not answered yet.
    pub(crate) pending: Option<HeartbeatInfo>,
}

/// The Sender-Specific Heartbeat Info (§3.3.5), which the HEARTBEAT ACK must return: time of sending, path, and a nonce, so that only a
/// host that received the HEARTBEAT can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatInfo {
    pub(crate) path: PathId,
    pub(crate) sent_at: Timestamp,
    pub(crate) nonce: u64,
}

const INFO_LEN: usize = 17;

impl HeartbeatInfo {
    /// Length in bytes of a HEARTBEAT chunk with this information.
    pub(crate) const CHUNK_LEN: usize = padded(4 + 4 + INFO_LEN);

    pub(crate) fn encode(&self) -> Bytes {
        let mut info = BytesMut::with_capacity(INFO_LEN);
        info.put_u8(self.path.0);
        info.put_u64(self.sent_at.0);
        info.put_u64(self.nonce);
        info.freeze()
    }

    /// `None` if the peer returned information that was never sent.
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

/// The meaning of a HEARTBEAT ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeartbeatAnswer {
    /// No pending heartbeat or probe: the HEARTBEAT ACK is discarded (§8.3).
    Nothing,
    /// A path MTU probe.
    Probe,
    /// The pending heartbeat; `confirms` if the address was not confirmed before.
    Heartbeat { confirms: bool },
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
