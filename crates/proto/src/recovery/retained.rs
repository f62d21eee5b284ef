//! The user data that is kept for retransmission, in bytes.

use anabranch_wire::StreamId;

/// Bytes of user data in the outstanding chunks, and those of each stream that were freed lately.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    bytes: usize,
    /// Freed bytes that the send buffer still counts; neighbours of one stream are one entry.
    freed: Vec<(StreamId, usize)>,
}

impl Retained {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// User data of this stream is no longer needed.
    #[inline]
    pub(super) fn free(&mut self, stream: StreamId, bytes: usize) {
        self.bytes -= bytes;
        match self.freed.last_mut() {
            Some((last, sum)) if *last == stream => *sum += bytes,
            _ => self.freed.push((stream, bytes)),
        }
    }

    /// All chunks are removed; the freed bytes are not reported by stream.
    pub(super) fn clear(&mut self) {
        self.bytes = 0;
        self.freed.clear();
    }

    pub(super) fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// The bytes freed of each stream since the last call.
    pub(super) fn take_freed(&mut self) -> impl Iterator<Item = (StreamId, usize)> {
        self.freed.drain(..)
    }
}
