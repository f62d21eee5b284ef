//! A chunk that was sent, and where it stands (RFC 9260 §6.2.1).

use crate::message::Fragment;
use crate::path::{Fate, PathId, Paths, SendNo};
use crate::time::Timestamp;

/// Where a chunk stands.
///
/// `InFlight` → `Acked` by a gap block, and `Acked` → `Kept` by an NR-SACK; `InFlight` → `Lost` by missing reports or T3-rtx; `Lost` → `InFlight` when it is
/// sent again; `Lost` → `Acked` when it was only late; `Acked` → `InFlight` when the receiver reneges. Where messages may be
/// given up, `InFlight` and `Lost` → `Abandoned`, and `Abandoned` → `Acked` when it was only late. The cumulative TSN ack
/// removes a chunk in any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    InFlight,
    Lost {
        timed_out: bool,
    },
    /// Acknowledged by a gap ack block; the receiver may still renege.
    Acked,
    /// Acknowledged, and the receiver promised not to renege: the user data is freed.
    Kept,
    /// Lost, and not to be sent again.
    Abandoned,
}

/// A chunk that was sent.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) fragment: Fragment,
    pub(crate) state: ChunkState,
    /// Where it was sent last.
    pub(crate) path: PathId,
    /// When it was sent last.
    pub(crate) sent_at: Timestamp,
    /// When it was sent first; `None` once its arrival was told.
    pub(super) first_sent_at: Option<Timestamp>,
    /// How often it was sent.
    pub(crate) transmissions: u32,
    /// Its last sending, on that path.
    pub(crate) sequence: SendNo,
    pub(super) fast_retransmitted: bool,
    /// Whether it went by one path only, however often: an acknowledgement then speaks for that path.
    pub(super) one_path: bool,
    /// Its message was given up. While it is `InFlight` all the same, it counts as such until it is acknowledged or lost.
    pub(crate) abandoned: bool,
    /// How far it is to the fragments of its message before and behind it; 0 if there is none.
    pub(super) links: [u32; 2],
}

impl ChunkState {
    /// Whether the receiver has the chunk, as far as it says.
    pub(crate) fn is_acked(self) -> bool {
        matches!(self, Self::Acked | Self::Kept)
    }
}

impl Chunk {
    /// It is in flight no more, without an acknowledgement.
    pub(super) fn leave(&self, paths: &mut Paths) {
        let flight = &mut paths.path_mut(self.path).flight;
        let (wire, payload) = (self.fragment.wire_len(), self.fragment.payload.len());
        flight.close(self.sequence, Fate::Closed, wire, payload);
    }

    /// Frees its user data, which nobody needs any more; answers how much that was.
    pub(super) fn free(&mut self) -> usize {
        core::mem::take(&mut self.fragment.payload).len()
    }
}
