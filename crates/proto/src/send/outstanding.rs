//! DATA chunks that were sent and are not cumulatively acknowledged (RFC 9260 §6.2.1, §6.3, §7.2.4).
//!
//! A ring in TSN order. TSNs are counted without wrapping as 64-bit *indexes*, whose low 32 bits are the TSN, so that a
//! chunk is found by subtraction. Each chunk is in one state; see [`ChunkState`] for the transitions. The ring is here; what
//! moves chunks from state to state is in `acknowledged`, `lost`, `given_up` and, where transmissions are named, `named`.

mod acknowledged;
mod chunk;
mod given_up;
mod lost;
mod named;
mod outcome;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_wire::chunk::GapAckBlock;
use anabranch_wire::{StreamId, Tsn};

pub(crate) use chunk::{Chunk, ChunkState};
pub(crate) use lost::Judge;
pub(crate) use outcome::{AckOutcome, InvalidAck, PathOutcome};

use super::ack_accounting::AckAccounting;
use super::fragment::Fragment;
use super::loss::Run;
use super::recovery_rules::RecoveryRules;
use crate::path::PathId;
use crate::time::Timestamp;

/// A receiver can report TSNs only as 16-bit offsets from the cumulative TSN ack (§3.3.4).
const MAX_AHEAD: u64 = 65_535;

/// The ring.
#[derive(Debug)]
pub(crate) struct Outstanding {
    chunks: VecDeque<Chunk>,
    /// Index of the first chunk in the ring: one above the cumulative TSN ack point.
    base: u64,
    /// Runs of `Acked` chunks, in order.
    acked: Vec<Run>,
    /// Those of them that the receiver can no longer take back.
    for_good: Vec<Run>,
    /// What the last acknowledgement added to them.
    newly_for_good: Vec<Run>,
    /// Chunks in the ring whose message was given up.
    abandoned: usize,
    /// The last fragments of messages that go on, where a fragment of another message follows (RFC 8260): one a stream.
    open: BTreeMap<StreamId, u64>,
    accounting: AckAccounting,
    /// Indexes of the chunks in state `Lost`.
    lost: BTreeSet<u64>,
    /// Bytes of user data in the ring.
    bytes: usize,
    /// Bytes of user data in state `InFlight`.
    in_flight: usize,
    /// Bytes in packets of the chunks in state `Acked`.
    held: usize,
    rules: RecoveryRules,
    /// Whether what was overtaken is lost after a time, too.
    time_rule: bool,
    /// Chunks lately taken for lost, where that may prove wrong: the chunk, its path and its transmission there.
    blamed: VecDeque<(u64, PathId, u64)>,
    /// Kept between acknowledgements for its memory.
    runs: Vec<Run>,
}

impl Outstanding {
    pub(crate) fn new(initial_tsn: Tsn, rules: RecoveryRules, accounting: AckAccounting) -> Self {
        Self {
            chunks: VecDeque::new(),
            // One turn ahead, so that an index below the first is still positive.
            base: (1 << 32) | u64::from(initial_tsn.0),
            acked: Vec::new(),
            for_good: Vec::new(),
            newly_for_good: Vec::new(),
            abandoned: 0,
            accounting,
            held: 0,
            open: BTreeMap::new(),
            lost: BTreeSet::new(),
            bytes: 0,
            in_flight: 0,
            time_rule: rules.time_rule,
            rules,
            blamed: VecDeque::new(),
            runs: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes of user data that are kept: not cumulatively acknowledged, and not known to be held by the peer for good.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Of [`Outstanding::bytes`], those that gap blocks acknowledge. Costs what is acknowledged so.
    pub(crate) fn gap_acked_bytes(&self) -> usize {
        let chunks = self.acked.iter().flat_map(|run| run.first..=run.last);
        let above = chunks.filter(|index| *index >= self.base);
        above.map(|index| self.chunk(index).fragment.payload.len()).sum()
    }

    /// Bytes of user data in flight, on all paths.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Bytes that arrived ahead of the cumulative TSN ack point, chunk headers included: what waits for an earlier chunk.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Index of the first chunk that is not cumulatively acknowledged.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn next_index(&self) -> u64 {
        self.base + self.chunks.len() as u64
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn next_tsn(&self) -> Tsn {
        Tsn(self.next_index() as u32)
    }

    /// Whether another chunk could still be reported by a gap block.
    pub(crate) fn has_room(&self) -> bool {
        (self.chunks.len() as u64) < MAX_AHEAD
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn in_fast_recovery(&self, path: PathId) -> bool {
        self.accounting.in_fast_recovery(path)
    }

    pub(crate) fn chunk(&self, index: u64) -> &Chunk {
        &self.chunks[(index - self.base) as usize]
    }

    /// Takes a fragment that is being sent for the first time; answers its index.
    pub(crate) fn push(&mut self, fragment: Fragment, path: PathId, now: Timestamp) -> u64 {
        let index = self.next_index();
        let links = self.link(&fragment);
        self.bytes += fragment.payload.len();
        self.in_flight += fragment.payload.len();
        self.chunks.push_back(Chunk {
            fragment,
            state: ChunkState::InFlight,
            path,
            sent_at: now,
            first_sent_at: Some(now),
            transmissions: 1,
            sequence: self.accounting.on_sent(path, index, false),
            fast_retransmitted: false,
            one_path: true,
            abandoned: false,
            for_good: false,
            links,
        });
        index
    }

    /// The earliest chunk that is to be sent again.
    pub(crate) fn first_lost(&self) -> Option<u64> {
        self.lost.first().copied()
    }

    /// The lost chunk `index` is being sent again.
    pub(crate) fn on_retransmit(&mut self, index: u64, path: PathId, now: Timestamp) {
        self.lost.remove(&index);
        let chunk = &mut self.chunks[(index - self.base) as usize];
        chunk.state = ChunkState::InFlight;
        chunk.one_path &= chunk.path == path;
        chunk.path = path;
        chunk.sent_at = now;
        chunk.transmissions += 1;
        chunk.sequence = self.accounting.on_sent(path, index, true);
        self.in_flight += chunk.fragment.payload.len();
    }

    /// Whether a chunk of `path` from index `from` on is in flight; the first such index.
    pub(crate) fn earliest_in_flight(&self, path: PathId, from: u64) -> Option<u64> {
        if let Some(known) = self.accounting.earliest(path) {
            return known;
        }
        let skip = from.saturating_sub(self.base) as usize;
        self.chunks
            .iter()
            .enumerate()
            .skip(skip)
            .find(|(_, chunk)| chunk.path == path && chunk.state == ChunkState::InFlight)
            .map(|(offset, _)| self.base + offset as u64)
    }

    /// The index of a TSN near the ring.
    fn index_of(&self, tsn: Tsn) -> u64 {
        let ahead = tsn.distance_from(Tsn(self.base as u32)) as i32;
        self.base.wrapping_add_signed(i64::from(ahead))
    }

    /// What is known to be gap-acknowledged above a cumulative TSN ack, as blocks.
    pub(crate) fn gap_blocks_above(&self, cumulative: Tsn) -> Vec<GapAckBlock> {
        let cumulative = self.index_of(cumulative);
        let above = self.acked.iter().filter(|run| run.last > cumulative);
        let offset = |index: u64| index.saturating_sub(cumulative).clamp(1, MAX_AHEAD) as u16;
        above
            .map(|run| GapAckBlock {
                start: offset(run.first),
                end: offset(run.last),
            })
            .collect()
    }

    /// Everything that was not acknowledged, in order, as the association ends or restarts.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Chunk> {
        self.base = self.next_index();
        self.bytes = 0;
        self.in_flight = 0;
        self.held = 0;
        self.acked.clear();
        self.for_good.clear();
        self.abandoned = 0;
        self.open.clear();
        self.accounting.clear();
        self.lost.clear();
        self.blamed.clear();
        self.chunks.drain(..)
    }
}
