//! What is taken for lost: by missing reports (RFC 9260 §7.2.4), by T3-rtx (§6.3.3), or because it is wanted elsewhere.

use super::chunk::{Chunk, ChunkState};
use super::{AckOutcome, Outstanding, named};
use crate::message::AbandonPolicy;
use crate::path::PathId;
use crate::recovery::ack_accounting::AckAccounting;
use crate::seq::{Run, Runs};
use crate::time::Timestamp;

/// Who says whether a chunk that is missing is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) policy: AbandonPolicy,
    pub(crate) now: Timestamp,
}

impl Judge {
    pub(crate) fn gives_up(&self, chunk: &Chunk) -> bool {
        let persistence = chunk.fragment.persistence;
        self.policy.gives_up(self.now, persistence, chunk.transmissions)
    }
}

impl Outstanding {
    /// The chunk `index`, in flight, is to be sent again though nothing says that it was lost.
    pub(crate) fn reschedule(&mut self, index: u64) {
        let chunk = &mut self.chunks[(index - self.base) as usize];
        self.accounting.on_dropped(chunk);
        self.in_flight -= chunk.fragment.payload.len();
        chunk.state = ChunkState::Lost { timed_out: false };
        self.lost.insert(Run::of(index));
    }

    /// T3-rtx expired for `path` (§6.3.3 E3): everything in flight on it is lost. Answers how many chunks.
    pub(crate) fn on_timeout(&mut self, path: PathId) -> u32 {
        let mut count = 0;
        for (offset, chunk) in self.chunks.iter_mut().enumerate() {
            if chunk.path == path && chunk.state == ChunkState::InFlight {
                self.in_flight -= chunk.fragment.payload.len();
                // A new chance for fast retransmit: the count begins again.
                chunk.fast_retransmitted = false;
                if chunk.abandoned {
                    chunk.state = ChunkState::GivenUp;
                    self.bytes -= chunk.free();
                } else {
                    chunk.state = ChunkState::Lost { timed_out: true };
                    self.lost.insert(Run::of(self.base + offset as u64));
                }
                count += 1;
            }
        }
        self.accounting.on_timeout(path);
        count
    }

    /// Declares lost what has been reported missing often enough (§7.2.4).
    pub(super) fn on_missing(&mut self, judge: &Judge, outcome: &mut AckOutcome) {
        if self.hasty > 0 {
            self.discard_early(judge, outcome);
        }
        let again = self.per_path.fast_again && self.accounting.is_per_path();
        let needed = self.rules.missing_reports;
        let base = self.base;
        self.taking_lost(judge, outcome, |accounting, acked, take| {
            accounting.take_lost(needed, base, acked, |run| {
                let mut all = true;
                for index in run.first..=run.last {
                    all &= take(index, again);
                }
                all
            });
        });
    }

    /// Lets `find` tell which chunks are lost, by the function it is given: of a chunk in flight, and of one that was fast
    /// retransmitted before if it may be lost `again`; it answers whether the chunk is taken for lost.
    pub(super) fn taking_lost(
        &mut self,
        judge: &Judge,
        outcome: &mut AckOutcome,
        find: impl FnOnce(&mut AckAccounting, &Runs, &mut dyn FnMut(u64, bool) -> bool),
    ) {
        let Self {
            accounting,
            chunks,
            lost,
            base,
            in_flight,
            bytes,
            blamed,
            acked,
            ..
        } = self;
        find(accounting, acked, &mut |index, again| {
            let chunk = &mut chunks[(index - *base) as usize];
            if chunk.state != ChunkState::InFlight || (chunk.fast_retransmitted && !again) {
                return false;
            }
            *in_flight -= chunk.fragment.payload.len();
            chunk.fast_retransmitted = true;
            if chunk.abandoned || judge.gives_up(chunk) {
                chunk.state = ChunkState::GivenUp;
                *bytes -= chunk.free();
                outcome.given_up.push(index);
            } else {
                chunk.state = ChunkState::Lost { timed_out: false };
                lost.insert(Run::of(index));
                blamed.insert(index, (chunk.path, chunk.sequence));
                if blamed.len() > named::MOST_BLAMED {
                    blamed.pop_first();
                }
            }
            let path = &mut outcome.paths[chunk.path.index()];
            path.lost += 1;
            path.left_flight += chunk.fragment.wire_len();
            true
        });
    }
}
