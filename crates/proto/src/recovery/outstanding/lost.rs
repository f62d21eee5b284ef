//! Chunks declared lost: by missing reports (fast retransmit, RFC 9260 §7.2.4), by T3-rtx (§6.3.3), or for chunk rescheduling.

use super::super::retained::Retained;
use super::chunk::{Chunk, ChunkState};
use super::skippable::Skippable;
use super::suspects::{Suspects, suspect};
use super::{AckOutcome, Outstanding};
use std::collections::VecDeque;

use crate::message::AbandonPolicy;
use crate::path::{PathId, Paths, SendNo};
use crate::seq::{Run, Runs};
use crate::time::Timestamp;
use crate::trace_event::LossRule;

/// Decides whether the message of a chunk that is missing is abandoned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) policy: AbandonPolicy,
    pub(crate) now: Timestamp,
}

impl Judge {
    /// Whether the chunk may not be retransmitted: its message is abandoned, or is to be.
    pub(crate) fn abandons(&self, chunk: &Chunk) -> bool {
        let persistence = chunk.fragment.persistence;
        chunk.abandoned || self.policy.abandons(self.now, persistence, chunk.transmissions)
    }
}

impl Outstanding {
    /// The chunk `index`, in flight, is to be retransmitted without any sign of loss.
    pub(crate) fn reschedule(&mut self, index: u64, rule: LossRule, paths: &mut Paths) {
        let chunk = &mut self.chunks[(index - self.base) as usize];
        self.journal.note(|| chunk.loss_event(index, rule));
        chunk.leave(paths);
        paths.path_mut(chunk.path).flight.settle();
        chunk.state = ChunkState::Lost { timed_out: false };
        self.lost.insert(Run::of(index));
    }

    /// T3-rtx expired for `path` (§6.3.3 E3), or another rule says so: everything in flight there is lost. Returns the number of chunks.
    pub(crate) fn on_timeout(&mut self, path: PathId, rule: LossRule, paths: &mut Paths) -> u32 {
        let flight = &mut paths.path_mut(path).flight;
        let mut count = 0;
        for (_, sending) in flight.range(flight.earliest()).filter(|(_, one)| one.is_open()) {
            let chunk = &mut self.chunks[(sending.tsn - self.base) as usize];
            self.journal.note(|| chunk.loss_event(sending.tsn, rule));
            // Another fast retransmit is allowed (§7.2.4 step 5): missing reports count from zero.
            chunk.fast_retransmitted = false;
            if chunk.abandoned {
                chunk.state = ChunkState::Abandoned;
                chunk.free(&mut self.retained);
                if let Some(skippable) = &mut self.skippable {
                    skippable.add(sending.tsn, &chunk.fragment);
                }
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

    /// A path on which nothing is in flight has other addresses from now on: the old ones' reordering is forgotten.
    pub(crate) fn leave_path(&mut self, path: PathId) {
        self.detector.leave_path(path);
    }

    /// Declares chunks lost that have enough missing reports (§7.2.4), or that RACK finds lost.
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
            retained,
            suspects,
            acked,
            skippable,
            ..
        } = self;
        let mut loss = Loss {
            chunks,
            base: *base,
            lost,
            retained,
            suspects,
            skippable,
            judge,
            outcome,
        };
        let before = loss.outcome.lost.len();
        detector.take_lost(needed, *base, acked, paths, |paths, run| {
            for index in run.first..=run.last {
                loss.take(index, again, paths);
            }
        });
        if self.journal.is_on() {
            let rule = if self.detector.is_rack() {
                LossRule::Rack
            } else {
                LossRule::MissingReports
            };
            self.note_lost(&outcome.lost[before..], rule, paths);
        }
    }

    /// Declares these chunks lost, also if they were fast retransmitted before.
    pub(super) fn take_lost(
        &mut self,
        found: &[u64],
        rule: LossRule,
        judge: &Judge,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        let mut loss = Loss {
            chunks: &mut self.chunks,
            base: self.base,
            lost: &mut self.lost,
            retained: &mut self.retained,
            suspects: &mut self.suspects,
            skippable: &mut self.skippable,
            judge,
            outcome,
        };
        let before = loss.outcome.lost.len();
        for index in found {
            loss.take(*index, true, paths);
        }
        if self.journal.is_on() {
            self.note_lost(&outcome.lost[before..], rule, paths);
        }
    }

    /// Records transmissions that were declared lost.
    #[cold]
    fn note_lost(&mut self, lost: &[(PathId, SendNo, usize)], rule: LossRule, paths: &Paths) {
        for (path, no, _) in lost {
            if let Some(sending) = paths.path(*path).flight.get(*no) {
                let event = self.chunk(sending.tsn).loss_event(sending.tsn, rule);
                self.journal.note(|| event);
            }
        }
    }
}

/// The state that changes when chunks are declared lost.
struct Loss<'a> {
    chunks: &'a mut VecDeque<Chunk>,
    base: u64,
    lost: &'a mut Runs,
    retained: &'a mut Retained,
    suspects: &'a mut Suspects,
    skippable: &'a mut Option<Box<Skippable>>,
    judge: &'a Judge,
    outcome: &'a mut AckOutcome,
}

impl Loss<'_> {
    /// Declares a chunk lost if it is in flight. A chunk that was fast retransmitted before is declared lost only if `again`, or if it was
    /// discarded early.
    fn take(&mut self, index: u64, again: bool, paths: &mut Paths) {
        let chunk = &mut self.chunks[(index - self.base) as usize];
        let again = again || chunk.discarded;
        if chunk.state != ChunkState::InFlight || (chunk.fast_retransmitted && !again) {
            return;
        }
        chunk.leave(paths);
        self.outcome.lose(chunk);
        chunk.fast_retransmitted = true;
        chunk.discarded = false;
        suspect(self.suspects, index, (chunk.path, chunk.sequence));
        if self.judge.abandons(chunk) {
            chunk.state = ChunkState::Abandoned;
            chunk.free(self.retained);
            if let Some(skippable) = self.skippable {
                skippable.add(index, &chunk.fragment);
            }
            self.outcome.abandoned.push(index);
        } else {
            chunk.state = ChunkState::Lost { timed_out: false };
            self.lost.insert(Run::of(index));
        }
    }
}
