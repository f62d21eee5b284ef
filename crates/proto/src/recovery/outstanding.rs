//! Outstanding chunks: DATA chunks that were sent and are not cumulatively acknowledged (RFC 9260 §6.2.1). Fast retransmit (§7.2.4) and
//! T3-rtx (§6.3) act on them.
//!
//! The chunks are in a ring in TSN order, and are named by extended TSNs ([`crate::seq::ExtendedTsn`]: 64 bits, not wrapping; `index` in
//! parameters), so that a chunk is found by subtraction. Each chunk is in one state; see [`ChunkState`] for the transitions. The ring is
//! here. The submodules change the states: `acknowledged` (§6.2.1), `lost` (§7.2.4, §6.3.3), `abandoned` (RFC 3758), `rack` (RFC 8985),
//! `marked` (RFC 3168), and `named` for ECA-SCTP.

mod abandoned;
mod acknowledged;
mod chunk;
mod lost;
mod marked;
mod named;
mod outcome;
mod rack;
mod skippable;
mod suspects;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use anabranch_wire::{StreamId, Tsn};

pub(crate) use chunk::{CHUNK_MEMORY, Chunk, ChunkState};
pub(crate) use lost::Judge;
pub(crate) use outcome::{AckOutcome, Answer, InvalidAck, PathOutcome};

use super::detect::Detector;
use super::episode::Episodes;
use super::identity::Identity;
use super::retained::Retained;
use super::tail::Tail;
use super::undo::Undo;
use crate::config::{LossDetection, MultipathConfig, RecoveryRules};
use crate::journal::Journal;
use crate::message::Fragment;
use crate::path::{Path, PathId, Paths, SendNo};
use crate::seq::{ExtendedTsn, Run, Runs, extend_tsn, first_extended_tsn};
use crate::time::Timestamp;

/// Gap ack blocks can report only TSNs within 16-bit offsets from the cumulative TSN ack (§3.3.4).
const MAX_AHEAD: u64 = 65_535;

/// The minimum time between two acknowledgements that count as reneging on several chunks. Receivers renege rarely. More frequent ones
/// are SACKs that overtook each other, or a peer that makes the sender visit all chunks for each SACK of 16 bytes.
const RENEGE_INTERVAL: Duration = Duration::from_millis(100);

/// The outstanding chunks of an association.
#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// The first chunk in the ring: one above the cumulative TSN ack point.
    base: u64,
    /// The chunks in state `Acked` or `Kept`.
    acked: Runs,
    /// Those of `acked` that the receiver may still renege on, and those on which it may not.
    renegable: Runs,
    non_renegable: Runs,
    /// When the receiver last reneged on more than the chunk that follows the cumulative TSN ack.
    reneged_at: Option<Timestamp>,
    /// Chunks in the ring whose message is abandoned.
    abandoned: usize,
    /// Chunks in the ring that may be abandoned at their first missing report.
    hasty: usize,
    /// The New Cumulative TSNs of the FORWARD-TSNs that were sent, and when each left first. If a cumulative TSN ack reaches one of them, chunks below it need not
    /// have arrived.
    forwarded: BTreeMap<u64, Timestamp>,
    /// If extended FORWARD-TSN was negotiated.
    skippable: Option<Box<skippable::Skippable>>,
    /// The last fragment in the ring of each unfinished message that a fragment of another message follows (RFC 8260): one for each stream.
    open: BTreeMap<StreamId, u64>,
    detector: Detector,
    episodes: Episodes,
    /// If acknowledgements name transmissions (ECA-SCTP).
    identity: Option<Identity>,
    /// The chunks in state `Lost`.
    lost: Runs,
    /// The user data in the ring.
    retained: Retained,
    /// Bytes of the chunks in `acked`, with headers and padding.
    held: usize,
    rules: RecoveryRules,
    multipath: MultipathConfig,
    suspects: suspects::Suspects,
    /// The chunk that the next tail loss probe retransmits, if the window was not reduced for its loss.
    probed: Option<ExtendedTsn>,
    /// With RACK, for each path: the end of its flight, and its last window reduction.
    tails: Vec<(Tail, Undo)>,
    /// Paths whose last window reduction proved spurious, until [`Outstanding::take_undone`].
    undone: Vec<PathId>,
    /// Trace events of the sender.
    pub(crate) journal: Journal,
}

impl Outstanding {
    /// With several paths at once, or with RACK, losses are detected for each path by itself.
    pub(crate) fn new(initial_tsn: Tsn, rules: RecoveryRules, multipath: MultipathConfig) -> Self {
        let detector = match rules.detection {
            LossDetection::Rack => Detector::rack(),
            LossDetection::MissingReports if multipath.is_on() => Detector::missing_reports_by_path(),
            LossDetection::MissingReports => Detector::missing_reports(),
        };
        let episodes = if detector.is_per_path() {
            Episodes::Apart(Vec::new())
        } else {
            Episodes::Together(super::episode::Episode::default())
        };
        Self {
            chunks: VecDeque::new(),
            base: first_extended_tsn(initial_tsn),
            acked: Runs::default(),
            renegable: Runs::default(),
            non_renegable: Runs::default(),
            reneged_at: None,
            abandoned: 0,
            hasty: 0,
            forwarded: BTreeMap::new(),
            skippable: None,
            detector,
            episodes,
            identity: None,
            held: 0,
            open: BTreeMap::new(),
            lost: Runs::default(),
            retained: Retained::default(),
            rules,
            multipath,
            suspects: BTreeMap::new(),
            probed: None,
            tails: Vec::new(),
            undone: Vec::new(),
            journal: Journal::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The number of chunks in the ring.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of user data kept for retransmission: neither cumulatively acknowledged nor non-renegable.
    pub(crate) fn bytes(&self) -> usize {
        self.retained.bytes()
    }

    /// Whether user data was freed since the last call of [`Outstanding::take_freed`].
    pub(crate) fn has_freed(&self) -> bool {
        self.retained.has_freed()
    }

    /// The bytes of user data that were freed of each stream since the last call.
    pub(crate) fn take_freed(&mut self) -> impl Iterator<Item = (StreamId, usize)> {
        self.retained.take_freed()
    }

    /// Of [`Outstanding::bytes`], those acknowledged in gap ack blocks. The cost is the number of these chunks.
    pub(crate) fn gap_acked_bytes(&self) -> usize {
        let chunks = self.acked.iter().flat_map(|run| run.first..=run.last);
        chunks.map(|index| self.chunk(index).fragment.payload.len()).sum()
    }

    /// The chunks acknowledged by gap ack blocks.
    pub(crate) fn acked_runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.acked.iter()
    }

    /// Bytes that arrived above the cumulative TSN ack point, chunk headers included: they wait for an earlier chunk.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The first chunk that is not cumulatively acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn next_index(&self) -> u64 {
        self.base + self.chunks.len() as u64
    }

    /// The TSN of the next chunk.
    pub(crate) fn next_tsn(&self) -> Tsn {
        Tsn(self.next_index() as u32)
    }

    /// Nothing is outstanding, and the next chunk has this TSN (RFC 6525 §5.2.7 H5). Extended TSNs never decrease.
    pub(crate) fn continue_at(&mut self, tsn: Tsn) {
        debug_assert!(self.is_empty(), "a TSN reset waits until nothing is outstanding");
        self.base += u64::from(tsn.0.wrapping_sub(self.base as u32));
        self.forwarded.clear();
        self.open.clear();
    }

    /// Whether a gap ack block could still report another chunk.
    pub(crate) fn has_room(&self) -> bool {
        (self.chunks.len() as u64) < MAX_AHEAD
    }

    pub(crate) fn chunk(&self, index: u64) -> &Chunk {
        &self.chunks[(index - self.base) as usize]
    }

    /// Adds a fragment that is being sent for the first time; returns its extended TSN.
    #[inline(always)]
    pub(crate) fn push(&mut self, fragment: Fragment, path: &mut Path, now: Timestamp) -> u64 {
        let index = self.next_index();
        let links = self.link(&fragment);
        self.retained.add(fragment.payload.len());
        let (wire, payload) = (fragment.wire_len(), fragment.payload.len());
        let sequence = path.flight.push(index, false, now, wire, payload);
        self.hasty += usize::from(fragment.haste.early_discard);
        self.chunks.push_back(Chunk {
            fragment,
            state: ChunkState::InFlight,
            path: path.id,
            sent_at: now,
            first_sent_at: Some(now),
            transmissions: 1,
            sequence,
            fast_retransmitted: false,
            copied: None,
            one_path: true,
            abandoned: false,
            discarded: false,
            links,
        });
        index
    }

    /// A copy of the chunk `index` was sent before or with the transmission `after`.
    pub(crate) fn on_copied(&mut self, index: u64, after: SendNo) {
        self.chunks[(index - self.base) as usize]
            .copied
            .get_or_insert(after);
    }

    /// The earliest chunk that is to be retransmitted.
    pub(crate) fn first_lost(&self) -> Option<u64> {
        self.lost.first().map(|run| run.first)
    }

    /// The lost chunk `index` is being retransmitted.
    pub(crate) fn on_retransmit(&mut self, index: u64, path: &mut Path, now: Timestamp) {
        self.lost.remove(Run::of(index));
        let chunk = &mut self.chunks[(index - self.base) as usize];
        chunk.state = ChunkState::InFlight;
        chunk.one_path &= chunk.path == path.id;
        chunk.path = path.id;
        chunk.sent_at = now;
        chunk.transmissions += 1;
        let (wire, payload) = (chunk.fragment.wire_len(), chunk.fragment.payload.len());
        chunk.sequence = path.flight.push(index, true, now, wire, payload);
    }

    /// If acknowledgements name transmissions: FORWARD-PSN may cover those that are no longer in flight.
    fn settle_identity(&mut self, paths: &mut Paths) {
        if let Some(identity) = &mut self.identity {
            for path in paths.iter_mut() {
                path.flight.settle();
            }
            identity.settle(paths);
        }
    }

    /// The extended TSN of a TSN near the ring.
    fn index_of(&self, tsn: Tsn) -> u64 {
        extend_tsn(tsn, self.base)
    }

    /// Removes and returns all chunks, in order, when the association ends or restarts.
    pub(crate) fn drain(&mut self, paths: &mut Paths) -> impl Iterator<Item = Chunk> {
        self.base = self.next_index();
        self.retained.clear();
        self.held = 0;
        self.acked.clear();
        self.renegable.clear();
        self.non_renegable.clear();
        self.abandoned = 0;
        self.hasty = 0;
        self.forwarded.clear();
        self.open.clear();
        for path in paths.iter_mut() {
            path.flight.clear();
            path.copies.clear();
        }
        self.detector.forget();
        self.episodes.clear();
        self.settle_identity(paths);
        self.lost.clear();
        self.suspects.clear();
        self.probed = None;
        self.tails.clear();
        self.undone.clear();
        self.chunks.drain(..)
    }
}
