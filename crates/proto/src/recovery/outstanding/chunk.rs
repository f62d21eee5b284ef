//! An outstanding chunk and its state (RFC 9260 §6.2.1; RFC 3758 §3.5 for abandoned chunks).

use super::super::retained::Retained;
use anabranch_wire::Tsn;

use crate::message::Fragment;
use crate::path::{Fate, PathId, Paths, SendNo, Sending};
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;
use crate::trace_event::{LossRule, TraceKind};

/// The state of an outstanding chunk. The cumulative TSN ack removes a chunk in any state.
///
/// | from | to | when |
/// | --- | --- | --- |
/// | `InFlight` | `Acked` | a gap ack block lists the chunk |
/// | `Acked` | `Kept` | an NR-SACK declares the chunk non-renegable |
/// | `Acked` | `InFlight` | the receiver reneges |
/// | `InFlight` | `Lost` | missing reports, RACK or T3-rtx declare the chunk lost |
/// | `Lost` | `InFlight` | the chunk is retransmitted |
/// | `Lost` | `Acked` | the chunk was late, not lost |
/// | `InFlight`, `Lost` | `Abandoned` | the message is abandoned |
/// | `Abandoned` | `Acked` | the chunk was late, not lost |
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
    /// Lost, and not to be retransmitted.
    Abandoned,
}

/// Bytes of memory that an outstanding chunk takes in addition to its user data: the chunk, its place in the flight of its path, and the
/// smallest allocation of user data. A queued message takes less. The rings of chunks grow by doubling, so they may have free places.
pub(crate) const CHUNK_MEMORY: usize = size_of::<Chunk>() + size_of::<Sending>() + 32;

/// A chunk that was sent.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) fragment: Fragment,
    pub(crate) state: ChunkState,
    /// The path of the last transmission.
    pub(crate) path: PathId,
    /// The time of the last transmission.
    pub(crate) sent_at: Timestamp,
    /// The time of the first transmission; `None` after the arrival was reported.
    pub(super) first_sent_at: Option<Timestamp>,
    /// The number of transmissions.
    pub(crate) transmissions: u32,
    /// The last transmission on `path`.
    pub(crate) sequence: SendNo,
    pub(super) fast_retransmitted: bool,
    /// The chunk was copied, for the first time before or with this transmission: if that is acknowledged, the copy may have arrived.
    pub(super) copied: Option<SendNo>,
    /// Whether all transmissions took one path: an acknowledgement then shows that this path works.
    pub(super) one_path: bool,
    /// The message is abandoned. A chunk in state `InFlight` still counts as in flight until it is acknowledged or lost.
    pub(crate) abandoned: bool,
    /// The chunk was reported missing and abandoned, and is in flight until the missing reports suffice for a loss: FORWARD-TSN may pass it
    /// already (early discard, [`crate::DiscardReduction::ReportCount`]).
    pub(super) discarded: bool,
    /// The distances in TSNs to the fragments of the same message before and after the chunk; 0 if there is none.
    pub(super) links: [u32; 2],
}

impl ChunkState {
    /// Whether the receiver has the chunk, according to its acknowledgements.
    pub(crate) fn is_acked(self) -> bool {
        matches!(self, Self::Acked | Self::Kept)
    }
}

impl Chunk {
    /// The trace event of the loss of this chunk, whose extended TSN is `index`.
    pub(super) fn loss_event(&self, index: ExtendedTsn, rule: LossRule) -> TraceKind {
        TraceKind::ChunkLost {
            tsn: Tsn(index as u32),
            message: self.fragment.message,
            stream: self.fragment.stream,
            path: self.path,
            transmission: self.transmissions,
            rule,
        }
    }

    /// Whether the application was told nothing of the chunk: it is not abandoned, and the receiver may lack it or renege on it.
    pub(crate) fn is_unsettled(&self) -> bool {
        !self.abandoned && self.state != ChunkState::Kept && !self.fragment.repair
    }

    /// Whether a copy of the chunk was sent.
    pub(crate) fn is_copied(&self) -> bool {
        self.copied.is_some()
    }

    /// Removes the chunk from the flight, without an acknowledgement.
    pub(super) fn leave(&self, paths: &mut Paths) {
        let flight = &mut paths.path_mut(self.path).flight;
        let (wire, payload) = (self.fragment.wire_len(), self.fragment.payload.len());
        flight.close(self.sequence, Fate::Closed, wire, payload);
    }

    /// Whether the chunk was declared lost once and not retransmitted since: if it is acknowledged, it was not lost.
    pub(super) fn is_spuriously_lost(&self) -> bool {
        let lost = ChunkState::Lost { timed_out: false };
        // If it was copied, its copy may have arrived.
        (self.state == lost || self.state == ChunkState::Abandoned)
            && self.transmissions == 1
            && self.copied.is_none()
    }

    /// Whether the receiver still waits for the chunk in flight, as far as is known.
    pub(super) fn is_coming(&self) -> bool {
        self.state == ChunkState::InFlight && !self.discarded
    }

    /// Whether the chunk was discarded early and has not counted as a loss.
    pub(super) fn is_discarded_in_flight(&self) -> bool {
        self.state == ChunkState::InFlight && self.discarded
    }

    /// Frees the user data, which is no longer needed; returns how many bytes.
    pub(super) fn free(&mut self, retained: &mut Retained) -> usize {
        let bytes = core::mem::take(&mut self.fragment.payload).len();
        retained.free(self.fragment.stream, bytes);
        bytes
    }
}
