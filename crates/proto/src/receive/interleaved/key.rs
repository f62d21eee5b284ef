//! Owns the identity of a message with interleaving (RFC 8260 §2.1).

use anabranch_wire::StreamId;

/// Identifies a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Key {
    pub(super) stream: StreamId,
    pub(super) unordered: bool,
    /// How many times the stream was reset: MIDs begin again then, and a message from before may still be unread.
    pub(super) generation: u32,
    pub(super) mid: u32,
}

impl Key {
    pub(in super::super) fn stream(self) -> StreamId {
        self.stream
    }
}
