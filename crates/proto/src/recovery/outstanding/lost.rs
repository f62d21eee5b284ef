//! What is taken for lost: by missing reports (RFC 9260 §7.2.4), by T3-rtx (§6.3.3), or because it is wanted elsewhere.

use super::chunk::{Chunk, ChunkState};
use super::{AckOutcome, Outstanding, named};
use std::collections::{BTreeMap, VecDeque};

use crate::message::AbandonPolicy;
use crate::path::{PathId, Paths, SendNo};
use crate::seq::{Run, Runs};
use crate::time::Timestamp;

/// Decides whether the message of a chunk that is missing is abandoned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) policy: AbandonPolicy,
    pub(crate) now: Timestamp,
}

impl Judge {
    pub(crate) fn abandons(&self, chunk: &Chunk) -> bool {
        let persistence = chunk.fragment.persistence;
        self.policy.abandons(self.now, persistence, chunk.transmissions)
    }
}

impl Outstanding {
    /// The chunk `index`, in flight, is to be retransmitted though nothing says that it was lost.
    pub(crate) fn reschedule(&mut self, index: u64, paths: &mut Paths) {
        let chunk = &mut self.chunks[(index - self.base) as usize];
        chunk.leave(paths);
        paths.path_mut(chunk.path).flight.settle();
        chunk.state = ChunkState::Lost { timed_out: false };
        self.lost.insert(Run::of(index));
    }

    /// T3-rtx expired for `path` (§6.3.3 E3): everything in flight on it is lost. Answers how many chunks.
    pub(crate) fn on_timeout(&mut self, path: PathId, paths: &mut Paths) -> u32 {
        let flight = &mut paths.path_mut(path).flight;
        let mut count = 0;
        for (_, sending) in flight.range(flight.earliest()).filter(|(_, one)| one.is_open()) {
            let chunk = &mut self.chunks[(sending.tsn - self.base) as usize];
            // A new chance for fast retransmit: the count begins again.
            chunk.fast_retransmitted = false;
            if chunk.abandoned {
                chunk.state = ChunkState::Abandoned;
                self.bytes -= chunk.free();
            } else {
                chunk.state = ChunkState::Lost { timed_out: true };
                self.lost.insert(Run::of(sending.tsn));
            }
            count += 1;
        }
        flight.clear();
        if let Some((tail, undo)) = self.tails.get_mut(path.index()) {
            tail.clear();
            undo.clear();
        }
        self.detector.forget();
        self.episodes.on_timeout(path);
        self.settle_identity(paths);
        count
    }

    /// Declares lost what has been reported missing often enough (§7.2.4).
    pub(super) fn on_missing(&mut self, judge: &Judge, paths: &mut Paths, outcome: &mut AckOutcome) {
        if self.hasty > 0 {
            self.discard_early(judge, paths, outcome);
        }
        let again = self.detector.is_rack() || (self.multipath.fast_again && self.detector.is_per_path());
        let needed = self.rules.missing_reports;
        let Self {
            detector,
            chunks,
            lost,
            base,
            bytes,
            suspects,
            acked,
            ..
        } = self;
        let mut loss = Loss {
            chunks,
            base: *base,
            lost,
            bytes,
            suspects,
            judge,
            outcome,
        };
        detector.take_lost(needed, *base, acked, paths, |paths, run| {
            for index in run.first..=run.last {
                loss.take(index, again, paths);
            }
        });
    }

    /// These chunks are lost, those among them that were fast retransmitted before too.
    pub(super) fn take_lost(
        &mut self,
        found: &[u64],
        judge: &Judge,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        let mut loss = Loss {
            chunks: &mut self.chunks,
            base: self.base,
            lost: &mut self.lost,
            bytes: &mut self.bytes,
            suspects: &mut self.suspects,
            judge,
            outcome,
        };
        for index in found {
            loss.take(*index, true, paths);
        }
    }
}

/// What changes when chunks are found lost.
struct Loss<'a> {
    chunks: &'a mut VecDeque<Chunk>,
    base: u64,
    lost: &'a mut Runs,
    bytes: &'a mut usize,
    suspects: &'a mut BTreeMap<u64, (PathId, SendNo)>,
    judge: &'a Judge,
    outcome: &'a mut AckOutcome,
}

impl Loss<'_> {
    /// A chunk is found lost, if it is in flight; one that was fast retransmitted before only if it may be lost `again`.
    fn take(&mut self, index: u64, again: bool, paths: &mut Paths) {
        let chunk = &mut self.chunks[(index - self.base) as usize];
        if chunk.state != ChunkState::InFlight || (chunk.fast_retransmitted && !again) {
            return;
        }
        chunk.leave(paths);
        self.outcome
            .lost
            .push((chunk.path, chunk.sequence, chunk.fragment.wire_len()));
        chunk.fast_retransmitted = true;
        if chunk.abandoned || self.judge.abandons(chunk) {
            chunk.state = ChunkState::Abandoned;
            let freed = chunk.free();
            *self.bytes -= freed;
            self.outcome.abandoned.push(index);
        } else {
            chunk.state = ChunkState::Lost { timed_out: false };
            self.lost.insert(Run::of(index));
            self.suspects.insert(index, (chunk.path, chunk.sequence));
            if self.suspects.len() > named::MOST_SUSPECTS {
                self.suspects.pop_first();
            }
        }
        let path = &mut self.outcome.paths[chunk.path.index()];
        path.lost += 1;
        path.lost_bytes += chunk.fragment.wire_len();
    }
}
