//! Being acknowledged (RFC 9260 §6.2.1): what the cumulative TSN ack removes, what gap blocks add and take back.

use anabranch_wire::chunk::GapAckBlock;

use super::{AckOutcome, Chunk, ChunkState, InvalidAck, Judge, Outstanding};
use crate::path::PathId;
use crate::send::ack_accounting::AckAccounting;
use crate::send::ack_report::AckReport;
use crate::send::loss::{Run, difference};

impl Outstanding {
    /// Handles an acknowledgement. `earliest` tells for each path the earliest index that may be in flight there; `judge`
    /// says of a chunk that is found missing whether it is given up.
    ///
    /// # Errors
    /// The acknowledgement is stale or impossible; nothing has changed then.
    pub(crate) fn on_ack(
        &mut self,
        report: &AckReport<'_>,
        earliest: impl Fn(PathId) -> u64,
        judge: &Judge,
        outcome: &mut AckOutcome,
    ) -> Result<(), InvalidAck> {
        let cumulative = self.index_of(report.cumulative);
        if cumulative + 1 < self.base {
            return Err(InvalidAck::Stale);
        }
        let end = |blocks: &[GapAckBlock]| blocks.last().map_or(0, |block| u64::from(block.end));
        let highest = cumulative + end(report.revocable).max(end(report.nonrenegable));
        if highest >= self.next_index() {
            return Err(InvalidAck::NeverSent);
        }
        if self.is_overtaken(cumulative, report) {
            return Err(InvalidAck::Stale);
        }
        outcome.cumulative_moved = cumulative >= self.base;
        self.accounting.begin();
        let mut highest_newly_acked = self.on_cumulative(cumulative, &earliest, outcome);
        if highest > cumulative || !self.acked.is_empty() {
            let newly = self.on_gaps(cumulative, report, &earliest, outcome);
            highest_newly_acked = highest_newly_acked.max(newly);
        }
        self.accounting.end_recovery(cumulative);
        let (moved, needed) = (outcome.cumulative_moved, self.rules.missing_reports);
        let reports = self
            .accounting
            .report(highest_newly_acked, moved, needed, report.packets);
        if reports && !report.overtaken {
            self.on_missing(judge, outcome);
        }
        let last = self.next_index() - 1;
        self.accounting.finish(last, &self.rules, outcome);
        Ok(())
    }

    /// Whether an acknowledgement says less than what is known and nothing new, where acknowledgements return by several
    /// paths: another has overtaken it, and what it leaves out was not taken back. What really was is seen by the next one that
    /// says something new, or once nothing is in flight.
    fn is_overtaken(&self, cumulative: u64, report: &AckReport<'_>) -> bool {
        if !self.accounting.is_per_path() || cumulative + 1 != self.base || self.in_flight == 0 {
            return false;
        }
        let (mut says, mut knows, mut news) = (0, 0, false);
        for blocks in [report.revocable, report.nonrenegable] {
            let runs: Vec<Run> = runs_above(cumulative, blocks).collect();
            says += runs.iter().map(|run| run.last + 1 - run.first).sum::<u64>();
            difference(&runs, &self.acked, |_| news = true);
        }
        for run in &self.acked {
            knows += (run.last + 1).saturating_sub(run.first.max(self.base));
        }
        !news && says < knows
    }

    /// Removes what is cumulatively acknowledged; answers the highest newly acknowledged index.
    fn on_cumulative(
        &mut self,
        cumulative: u64,
        earliest: &impl Fn(PathId) -> u64,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let mut highest = None;
        while self.base <= cumulative {
            let Some(chunk) = self.chunks.front_mut() else {
                break;
            };
            let len = chunk.fragment.payload.len();
            self.bytes -= len;
            self.abandoned -= usize::from(chunk.abandoned);
            outcome.released += len;
            if chunk.state == ChunkState::Acked {
                self.held -= chunk.fragment.wire_len();
            } else {
                if chunk.state == ChunkState::InFlight {
                    self.in_flight -= len;
                    outcome.paths[chunk.path.index()].cumulative_in_flight |= !chunk.abandoned;
                } else {
                    self.lost.remove(&self.base);
                }
                note_acked(chunk, self.base, &mut self.accounting, earliest, outcome);
                highest = Some(self.base);
            }
            self.chunks.pop_front();
            self.base += 1;
        }
        highest
    }

    /// Compares the gap blocks with what was known; answers the highest newly acknowledged index.
    fn on_gaps(
        &mut self,
        cumulative: u64,
        report: &AckReport<'_>,
        earliest: &impl Fn(PathId) -> u64,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let base = self.base;
        self.acked.retain_mut(|run| {
            run.first = run.first.max(base);
            run.first <= run.last
        });
        let mut runs = core::mem::take(&mut self.runs);
        runs.clear();
        runs.extend(runs_above(cumulative, report.revocable));
        let newly_for_good = self.note_for_good(cumulative, report, &mut runs);
        let mut highest = None;
        let Self {
            chunks,
            lost,
            in_flight,
            acked,
            accounting,
            held,
            ..
        } = self;
        difference(&runs, acked, |run| {
            for index in run.first..=run.last {
                let chunk = &mut chunks[(index - base) as usize];
                note_acked(chunk, index, accounting, earliest, outcome);
                if chunk.state == ChunkState::InFlight {
                    *in_flight -= chunk.fragment.payload.len();
                } else {
                    lost.remove(&index);
                }
                chunk.state = ChunkState::Acked;
                *held += chunk.fragment.wire_len();
                highest = Some(index);
            }
        });
        difference(acked, &runs, |run| {
            for index in run.first..=run.last {
                let chunk = &mut chunks[(index - base) as usize];
                outcome.reneged += 1;
                *held -= chunk.fragment.wire_len();
                if chunk.abandoned {
                    chunk.state = ChunkState::GivenUp;
                    continue;
                }
                chunk.state = ChunkState::InFlight;
                // It is missing from now on, and judged by what leaves from now on.
                chunk.sequence = accounting.on_sent(chunk.path, index, true);
                *in_flight += chunk.fragment.payload.len();
                outcome.paths[chunk.path.index()].reneged += chunk.fragment.wire_len();
            }
        });
        self.accounting.update(base, &runs);
        self.runs = core::mem::replace(&mut self.acked, runs);
        if newly_for_good {
            self.free_for_good(outcome);
        }
        highest
    }
}

/// A chunk is acknowledged for the first time.
#[inline(always)]
fn note_acked(
    chunk: &mut Chunk,
    index: u64,
    accounting: &mut AckAccounting,
    earliest: &impl Fn(PathId) -> u64,
    outcome: &mut AckOutcome,
) {
    let size = chunk.fragment.wire_len();
    let (by, by_last) = accounting.arrived_by(chunk, index);
    let path = &mut outcome.paths[chunk.path.index()];
    if chunk.state == ChunkState::InFlight {
        path.left_flight += size;
        path.earliest_acked |= accounting.on_acked(chunk, index, earliest(chunk.path));
    }
    // What was given up may have been skipped: it proves nothing and opens no window (RFC 3758 §3.5 A2).
    if chunk.abandoned {
        path.skipped = true;
        return;
    }
    if chunk.fragment.ending
        && let Some(sent_at) = chunk.first_sent_at.take()
    {
        outcome.arrived.push((chunk.fragment.stream, sent_at));
    }
    let path = &mut outcome.paths[by.index()];
    path.newly_acked += size;
    path.proven |= chunk.one_path || by_last;
    if by_last {
        path.sample = path.sample.max(Some(chunk.sent_at));
        path.largest = path.largest.max((size, chunk.sent_at));
    }
}

pub(super) fn runs_above(cumulative: u64, blocks: &[GapAckBlock]) -> impl Iterator<Item = Run> + '_ {
    blocks.iter().map(move |block| Run {
        first: cumulative + u64::from(block.start),
        last: cumulative + u64::from(block.end),
    })
}
