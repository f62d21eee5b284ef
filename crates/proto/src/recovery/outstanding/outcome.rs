//! What an acknowledgement did to the chunks (RFC 9260 §6.2.1), for the paths' clocks and windows to be moved by.

use anabranch_wire::StreamId;

use crate::path::{PathId, SendNo};
use crate::recovery::episode::Phase;
use crate::time::Timestamp;

/// What an acknowledgement says of the peer and of a path; each says more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Answer {
    #[default]
    Nothing,
    /// The receiver went on without chunks that were abandoned: it is there.
    Skipped,
    /// It got data that may have gone by other paths, too.
    Data,
    /// It got data that never took another path (RFC 7829 §3.2, items 9 and 10).
    OfThisPath,
}

/// What an acknowledgement did to one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathOutcome {
    /// Bytes acknowledged for the first time.
    pub(crate) newly_acked: usize,
    /// Bytes that came back to the flight because the receiver reneged.
    pub(crate) reneged: usize,
    /// Whether T3-rtx begins anew, as far as data is in flight ([`crate::T3Restart`]).
    pub(crate) restarts_t3: bool,
    /// When the newest of the chunks acknowledged at their first transmission had left: an RTT sample (Karn).
    pub(crate) sample: Option<Timestamp>,
    /// The sending of that chunk.
    pub(crate) newest: Option<SendNo>,
    /// The size of the largest of them, and when that had left.
    pub(crate) largest: (usize, Timestamp),
    pub(crate) answer: Answer,
    /// Whether a tail loss probe repaired a loss: it counts as one.
    pub(crate) repaired_by_probe: bool,
    /// Whether another packet is to leave, to find out whether T3-rtx was spurious.
    pub(crate) asks: bool,
    /// Whether a tail loss probe was answered that was not needed.
    pub(crate) probe_spurious: bool,
    /// Chunks declared lost by missing reports or by time.
    pub(crate) lost: u32,
    /// Their bytes in packets.
    pub(crate) lost_bytes: usize,
    /// Whether the window may grow, or is reduced.
    pub(crate) phase: Phase,
    /// Whether what arrives in order went on (the cumulative TSN ack point of §7.2.1).
    pub(crate) advanced: bool,
}

/// What an acknowledgement did.
#[derive(Debug, Default)]
pub(crate) struct AckOutcome {
    /// One for each path.
    pub(crate) paths: Vec<PathOutcome>,
    /// Whether the cumulative TSN ack point moved.
    pub(crate) cumulative_moved: bool,
    /// How many fast recoveries this acknowledgement began.
    pub(crate) recoveries: u32,
    /// Chunks that the receiver took back.
    pub(crate) reneged: u32,
    /// Chunks that were given up: the messages they are of must be, whole.
    pub(crate) abandoned: Vec<u64>,
    /// How many of them at a first missing report.
    pub(crate) early_discards: u32,
    /// Whether it says something new and leaves out what the receiver had said that it can no longer renege.
    pub(crate) contradicts: bool,
    /// Bytes of user data freed because the receiver can no longer take them back.
    pub(crate) freed_early: usize,
    /// Messages whose end was acknowledged for the first time: their streams, and when the end was sent first.
    pub(crate) arrived: Vec<(StreamId, Timestamp)>,
    /// Chunks whose last retransmission was spurious: their acknowledgement came sooner than a round trip after it.
    pub(crate) disproved: Vec<u64>,
    /// Sendings found lost, with their paths and their bytes in packets.
    pub(crate) lost: Vec<(PathId, SendNo, usize)>,
}

impl AckOutcome {
    /// Empties it for an association of `paths` paths.
    pub(crate) fn begin(&mut self, paths: usize) {
        let Self {
            paths: of_paths,
            cumulative_moved,
            recoveries,
            reneged,
            abandoned,
            early_discards,
            contradicts,
            freed_early,
            arrived,
            disproved,
            lost,
        } = self;
        of_paths.clear();
        of_paths.resize(paths, PathOutcome::default());
        (*cumulative_moved, *contradicts) = (false, false);
        (*recoveries, *reneged, *early_discards, *freed_early) = (0, 0, 0, 0);
        abandoned.clear();
        arrived.clear();
        disproved.clear();
        lost.clear();
    }
}

/// An acknowledgement that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidAck {
    /// Older than one already handled: it was overtaken, and says nothing new.
    Stale,
    /// It acknowledges what was never sent.
    NeverSent,
}
