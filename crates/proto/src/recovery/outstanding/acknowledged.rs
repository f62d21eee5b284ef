//! Being acknowledged (RFC 9260 §6.2.1): what the cumulative TSN ack removes, what gap blocks add and take back.

use anabranch_wire::chunk::GapAckBlock;

use super::{AckOutcome, Chunk, ChunkState, InvalidAck, Judge, Outstanding, RENEGE_INTERVAL};
use crate::path::PathId;
use crate::recovery::ack_accounting::AckAccounting;
use crate::recovery::ack_report::AckReport;
use crate::seq::Run;
use crate::time::Timestamp;

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
            // One that says nothing new may have been overtaken by the one that it seems to contradict.
            outcome.contradicts = (outcome.cumulative_moved || newly.is_some())
                && report.lists_all
                && self.leaves_out_for_good(cumulative, report);
            self.take_back(cumulative, report, judge.now, outcome);
            highest_newly_acked = highest_newly_acked.max(newly);
        }
        self.accounting.end_recovery(cumulative);
        let (moved, needed) = (outcome.cumulative_moved, self.rules.missing_reports);
        let reports = self
            .accounting
            .report(highest_newly_acked, moved, &self.acked, needed, report.packets);
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
        let may_be = self.accounting.is_per_path() && report.lists_all;
        if !may_be || cumulative + 1 != self.base || self.in_flight == 0 {
            return false;
        }
        let listed = || {
            [report.revocable, report.nonrenegable]
                .into_iter()
                .flat_map(|list| runs_above(cumulative, list))
        };
        let says: u64 = listed().map(Run::len).sum();
        let news = |run: Run| self.acked.missing(run).next().is_some();
        says < self.acked.len() && !listed().any(news)
    }

    /// Removes what is cumulatively acknowledged; answers the highest newly acknowledged index.
    fn on_cumulative(
        &mut self,
        cumulative: u64,
        earliest: &impl Fn(PathId) -> u64,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let mut highest = None;
        let skipped = self.take_forwarded(cumulative);
        while self.base <= cumulative {
            let Some(chunk) = self.chunks.front_mut() else {
                break;
            };
            let len = chunk.fragment.payload.len();
            self.bytes -= len;
            self.abandoned -= usize::from(chunk.abandoned);
            self.hasty -= usize::from(chunk.fragment.haste.early_discard);
            outcome.released += len;
            if chunk.state == ChunkState::Acked {
                self.held -= chunk.fragment.wire_len();
            } else {
                if chunk.state == ChunkState::InFlight {
                    self.in_flight -= len;
                    outcome.paths[chunk.path.index()].cumulative_in_flight |= !chunk.abandoned;
                } else {
                    self.lost.remove(Run::of(self.base));
                }
                let came = self.base > skipped;
                note_acked(chunk, self.base, came, &mut self.accounting, earliest, outcome);
                highest = Some(self.base);
            }
            self.chunks.pop_front();
            self.base += 1;
        }
        for runs in [&mut self.acked, &mut self.revocable, &mut self.for_good] {
            runs.remove_below(self.base);
        }
        highest
    }

    /// Notes what gap blocks list that was not known; answers the highest newly acknowledged index.
    fn on_gaps(
        &mut self,
        cumulative: u64,
        report: &AckReport<'_>,
        earliest: &impl Fn(PathId) -> u64,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let mut highest = None;
        for run in runs_above(cumulative, report.revocable) {
            highest = highest.max(self.on_block(run, earliest, outcome));
        }
        for run in runs_above(cumulative, report.nonrenegable) {
            highest = highest.max(self.on_block(run, earliest, outcome));
            self.keep_for_good(run, outcome);
        }
        highest
    }

    /// A block costs what of it was not known.
    fn on_block(
        &mut self,
        block: Run,
        earliest: &impl Fn(PathId) -> u64,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let mut highest = None;
        for run in self.acked.missing(block) {
            for index in run.first..=run.last {
                let chunk = &mut self.chunks[(index - self.base) as usize];
                note_acked(chunk, index, true, &mut self.accounting, earliest, outcome);
                if chunk.state == ChunkState::InFlight {
                    self.in_flight -= chunk.fragment.payload.len();
                } else {
                    self.lost.remove(Run::of(index));
                }
                chunk.state = ChunkState::Acked;
                self.held += chunk.fragment.wire_len();
            }
            self.revocable.insert(run);
            highest = Some(run.last);
        }
        if highest.is_some() {
            self.acked.insert(block);
        }
        highest
    }

    /// Takes back what was acknowledged by gap blocks and is not listed any more, as often as [`RENEGE_INTERVAL`] lets: what is
    /// still not listed by then is reneged by that acknowledgement. The chunk that follows the cumulative TSN ack is not
    /// there for sure, or that would have passed it: on its return all else may wait.
    fn take_back(
        &mut self,
        cumulative: u64,
        report: &AckReport<'_>,
        now: Timestamp,
        outcome: &mut AckOutcome,
    ) {
        if self.revocable.is_empty() || report.overtaken {
            return;
        }
        let due = self.taken_back_at.is_none_or(|at| now >= at + RENEGE_INTERVAL);
        let end = if report.lists_all && due {
            self.next_index() - 1
        } else {
            self.base
        };
        let mut back = Vec::new();
        let mut first = self.base;
        for run in runs_above(cumulative, report.revocable).take_while(|run| run.first <= end) {
            let gap = Run {
                first,
                last: run.first - 1,
            };
            back.extend(self.revocable.present(gap));
            first = run.last + 1;
        }
        back.extend(self.revocable.present(Run { first, last: end }));
        for run in back {
            if run.last > self.base {
                self.taken_back_at = Some(now);
            }
            self.take_run_back(run, outcome);
        }
    }

    fn take_run_back(&mut self, run: Run, outcome: &mut AckOutcome) {
        self.acked.remove(run);
        self.revocable.remove(run);
        for index in run.first..=run.last {
            let chunk = &mut self.chunks[(index - self.base) as usize];
            outcome.reneged += 1;
            self.held -= chunk.fragment.wire_len();
            if chunk.abandoned {
                chunk.state = ChunkState::GivenUp;
                continue;
            }
            chunk.state = ChunkState::InFlight;
            // It is missing from now on, and judged by what leaves from now on.
            chunk.sequence = self.accounting.on_sent(chunk.path, index, true);
            self.in_flight += chunk.fragment.payload.len();
            outcome.paths[chunk.path.index()].reneged += chunk.fragment.wire_len();
        }
    }
}

/// A chunk is acknowledged for the first time; `came` if that means that it arrived, be it abandoned or not.
#[inline(always)]
fn note_acked(
    chunk: &mut Chunk,
    index: u64,
    came: bool,
    accounting: &mut AckAccounting,
    earliest: &impl Fn(PathId) -> u64,
    outcome: &mut AckOutcome,
) {
    let size = chunk.fragment.wire_len();
    let (by, by_last) = accounting.arrived_by(chunk, index);
    let path = &mut outcome.paths[chunk.path.index()];
    let in_flight = chunk.state == ChunkState::InFlight;
    if in_flight {
        path.left_flight += size;
        path.earliest_acked |= accounting.on_acked(chunk, index, earliest(chunk.path));
    }
    // What was lost and abandoned, and what may have been skipped, proves nothing and opens no window (RFC 3758 §3.5 A2). A
    // chunk that was in flight, though its message was abandoned, and that arrived left the network as any other did.
    if chunk.abandoned && !(came && in_flight) {
        path.skipped = true;
        return;
    }
    if chunk.fragment.ending
        && !chunk.abandoned
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
