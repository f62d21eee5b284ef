//! The effects of an acknowledgement on the outstanding chunks (RFC 9260 §6.2.1), from which each path's timers and window are updated.

use anabranch_wire::StreamId;

use super::Chunk;
use crate::event::Acknowledged;
use crate::path::{PathId, SendNo};
use crate::recovery::episode::Phase;
use crate::time::Timestamp;

/// The proof that an acknowledgement gives about the peer and a path, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Answer {
    #[default]
    Nothing,
    /// The receiver skipped chunks that were abandoned: the peer is reachable.
    Skipped,
    /// The receiver got data that may also have taken other paths.
    Data,
    /// The receiver got data that never took another path (RFC 7829 §3.2, items 9 and 10).
    OfThisPath,
}

/// The effects of an acknowledgement on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathOutcome {
    /// Bytes acknowledged for the first time.
    pub(crate) newly_acked: usize,
    /// Bytes that are in flight again because the receiver reneged.
    pub(crate) reneged: usize,
    /// Whether T3-rtx restarts, if data is in flight ([`crate::T3Restart`]).
    pub(crate) restarts_t3: bool,
    /// An RTT sample: when the newest of the chunks left that were acknowledged at their first transmission (Karn's algorithm).
    pub(crate) sample: Option<Timestamp>,
    /// If that chunk was copied: the first transmission whose acknowledgement makes the sample uncertain.
    pub(crate) copied: Option<SendNo>,
    /// The transmission of that chunk.
    pub(crate) newest: Option<SendNo>,
    /// The newest transmission of all chunks that were acknowledged at their first transmission. An acknowledged retransmission may not have
    /// arrived.
    pub(crate) certain: Option<SendNo>,
    /// The largest chunk acknowledged at its first transmission: its bytes, and when it left.
    pub(crate) largest: (usize, Timestamp),
    pub(crate) answer: Answer,
    /// Whether a tail loss probe repaired a loss, which counts as any other loss (RFC 8985 §7.4).
    pub(crate) repaired_by_probe: bool,
    /// Packets lost according to early copies, which count as any other losses.
    pub(crate) lost_beside_copies: u32,
    /// Bytes of early copies that arrived, with headers and padding.
    pub(crate) copies_arrived: usize,
    /// Whether another packet must leave, to find out whether T3-rtx was spurious (F-RTO).
    pub(crate) asks: bool,
    /// Whether a tail loss probe was acknowledged that was spurious.
    pub(crate) probe_spurious: bool,
    /// Chunks declared lost by missing reports, RACK or the time rule.
    pub(crate) lost: u32,
    /// Bytes of the chunks declared lost, with headers and padding.
    pub(crate) lost_bytes: usize,
    /// Whether the window may grow, or is reduced.
    pub(crate) phase: Phase,
    /// Whether the cumulative TSN ack point moved (§7.2.1), or on several paths that of this path.
    pub(crate) advanced: bool,
}

impl PathOutcome {
    /// Packets that were lost whose chunks are not declared lost, because a copy or a tail loss probe arrived.
    pub(crate) fn lost_beside(&self) -> u32 {
        self.lost_beside_copies + u32::from(self.repaired_by_probe)
    }
}

/// The effects of an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct AckOutcome {
    /// The effects on each path.
    pub(crate) paths: Vec<PathOutcome>,
    /// When it would have arrived by the fastest way back, if it tells that (ECA-SCTP).
    pub(crate) earliest: Option<Timestamp>,
    /// Whether the cumulative TSN ack point moved.
    pub(crate) cumulative_moved: bool,
    /// Fast recoveries that this acknowledgement began.
    pub(crate) recoveries: u32,
    /// Chunks on which the receiver reneged.
    pub(crate) reneged: u32,
    /// Chunks that were abandoned; their whole messages are to be abandoned.
    pub(crate) abandoned: Vec<u64>,
    /// How many of them were abandoned at their first missing report.
    pub(crate) early_discards: u32,
    /// Whether the acknowledgement has news and leaves out chunks that the receiver had declared non-renegable.
    pub(crate) contradicts: bool,
    /// Bytes of user data freed because the receiver declared them non-renegable.
    pub(crate) freed_early: usize,
    /// Messages whose end was acknowledged for the first time: their streams, and when the end was sent first.
    pub(crate) arrived: Vec<(StreamId, Timestamp)>,
    /// Fragments that the receiver has and cannot renege on, of messages whose application wants to learn of that.
    pub(crate) confirmed: Vec<Acknowledged>,
    /// Chunks whose loss is disproved: the acknowledgement came before the retransmission, or sooner than one round-trip time after it.
    pub(crate) disproved: Vec<u64>,
    /// Transmissions in flight of abandoned chunks that FORWARD-TSN passed: it is unknown whether they arrived.
    pub(crate) skipped: Vec<(PathId, SendNo)>,
    /// Transmissions declared lost, with their paths and bytes.
    pub(crate) lost: Vec<(PathId, SendNo, usize)>,
    /// Chunks that arrived twice because of a copy (ECA-SCTP).
    pub(crate) copies_unnecessary: u32,
}

impl AckOutcome {
    /// The transmission of this chunk is declared lost.
    pub(super) fn lose(&mut self, chunk: &Chunk) {
        let size = chunk.fragment.wire_len();
        self.lost.push((chunk.path, chunk.sequence, size));
        let path = &mut self.paths[chunk.path.index()];
        path.lost += 1;
        path.lost_bytes += size;
    }

    /// Clears the outcome, for an association of `paths` paths.
    pub(crate) fn begin(&mut self, paths: usize) {
        let Self {
            paths: of_paths,
            earliest,
            cumulative_moved,
            recoveries,
            reneged,
            abandoned,
            early_discards,
            contradicts,
            freed_early,
            arrived,
            confirmed,
            disproved,
            skipped,
            lost,
            copies_unnecessary,
        } = self;
        of_paths.clear();
        of_paths.resize(paths, PathOutcome::default());
        *earliest = None;
        (*cumulative_moved, *contradicts) = (false, false);
        (*recoveries, *reneged, *early_discards, *freed_early) = (0, 0, 0, 0);
        *copies_unnecessary = 0;
        abandoned.clear();
        arrived.clear();
        confirmed.clear();
        disproved.clear();
        skipped.clear();
        lost.clear();
    }
}

/// Why an acknowledgement is ignored or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidAck {
    /// It is older than one already handled: it was overtaken, and has no news.
    Stale,
    /// It acknowledges chunks that were never sent.
    NeverSent,
}
