//! DATA chunks that were sent and are not cumulatively acknowledged (RFC 9260 §6.2.1, §6.3, §7.2.4).
//!
//! A ring in TSN order. TSNs are counted without wrapping as 64-bit *indexes*, whose low 32 bits are the TSN, so that a
//! chunk is found by subtraction. Each chunk is in one state; see [`ChunkState`] for the transitions.

mod given_up;
mod named;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_wire::chunk::GapAckBlock;
use anabranch_wire::{StreamId, Tsn};

use super::abandonment::{AbandonPolicy, Moment};
use super::ack_accounting::AckAccounting;
use super::ack_report::AckReport;
use super::fragment::Fragment;
use super::loss::{Run, difference, union};
use super::recovery_rules::RecoveryRules;
use crate::path::PathId;
use crate::time::Timestamp;

/// A receiver can report TSNs only as 16-bit offsets from the cumulative TSN ack (§3.3.4).
const MAX_AHEAD: u64 = 65_535;

/// Where a chunk stands.
///
/// `InFlight` → `Acked` by a gap block; `InFlight` → `Lost` by missing reports or T3-rtx; `Lost` → `InFlight` when it is
/// sent again; `Lost` → `Acked` when it was only late; `Acked` → `InFlight` when the receiver reneges. Where messages may be
/// given up, `InFlight` and `Lost` → `GivenUp`, and `GivenUp` → `Acked` when it was only late. The cumulative TSN ack
/// removes a chunk in any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    InFlight,
    Lost {
        timed_out: bool,
    },
    Acked,
    /// Lost, and not to be sent again.
    GivenUp,
}

/// A chunk that was sent.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) fragment: Fragment,
    pub(crate) state: ChunkState,
    /// Where it was sent last.
    pub(crate) path: PathId,
    /// When it was sent last.
    pub(crate) sent_at: Timestamp,
    /// When it was sent first; `None` once its arrival was told.
    first_sent_at: Option<Timestamp>,
    /// How often it was sent.
    pub(crate) transmissions: u32,
    /// What its last transmission is called on its path, where paths are accounted for by themselves.
    pub(crate) sequence: u64,
    fast_retransmitted: bool,
    /// Whether it went by one path only, however often: an acknowledgement then speaks for that path.
    one_path: bool,
    /// Its message was given up. While it is `InFlight` all the same, it counts as such until it is acknowledged or lost.
    pub(crate) abandoned: bool,
    /// The receiver can no longer take it back: it stays `Acked`, and its user data is freed.
    pub(crate) for_good: bool,
    /// How far it is to the fragments of its message before and behind it; 0 if there is none.
    links: [u32; 2],
}

impl Chunk {
    /// Frees its user data, which nobody needs any more; answers how much that was.
    fn free(&mut self) -> usize {
        core::mem::take(&mut self.fragment.payload).len()
    }
}

/// Who says whether a chunk that is missing is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) policy: AbandonPolicy,
    pub(crate) now: Timestamp,
}

impl Judge {
    pub(crate) fn gives_up(&self, chunk: &Chunk, moment: Moment) -> bool {
        let persistence = chunk.fragment.persistence;
        self.policy
            .gives_up(self.now, persistence, chunk.transmissions, moment)
    }
}

/// What an acknowledgement did to one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathOutcome {
    /// Bytes acknowledged for the first time.
    pub(crate) newly_acked: usize,
    /// Bytes that left the flight, by being acknowledged or declared lost.
    pub(crate) left_flight: usize,
    /// Bytes that came back to the flight because the receiver reneged.
    pub(crate) reneged: usize,
    /// Whether the cumulative TSN ack point passed a chunk that was in flight and not given up.
    pub(crate) cumulative_in_flight: bool,
    /// Whether the earliest chunk in flight was acknowledged (§6.3.2 R3).
    pub(crate) earliest_acked: bool,
    /// When the newest of the chunks acknowledged at their first transmission had left: an RTT sample (Karn).
    pub(crate) sample: Option<Timestamp>,
    /// The size of the largest of them, and when that had left.
    pub(crate) largest: (usize, Timestamp),
    /// Whether a chunk that never took another path was among them (RFC 7829 §3.2, items 9 and 10).
    pub(crate) proven: bool,
    /// Chunks declared lost by missing reports.
    pub(crate) lost: u32,
    /// Whether the receiver went on without chunks that were given up: it is there.
    pub(crate) skipped: bool,
    /// Whether chunks were given up that do not count as lost.
    pub(crate) discarded: bool,
    /// Whether the window is to be cut for what was lost.
    pub(crate) cut: bool,
    /// Whether losses are being repaired, and the window does not grow.
    pub(crate) growth_held: bool,
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
    /// Bytes of user data cumulatively acknowledged.
    pub(crate) released: usize,
    /// How many fast recoveries this acknowledgement began.
    pub(crate) recoveries: u32,
    /// Chunks that the receiver took back.
    pub(crate) reneged: u32,
    /// Chunks that were given up: the messages they are of must be, whole.
    pub(crate) given_up: Vec<u64>,
    /// How many of them at a first missing report.
    pub(crate) early_discards: u32,
    /// Bytes of user data freed because the receiver can no longer take them back.
    pub(crate) freed_early: usize,
    /// Messages whose end was acknowledged for the first time: their streams, and when the end was sent first.
    pub(crate) arrived: Vec<(StreamId, Timestamp)>,
}

impl AckOutcome {
    /// Empties it for an association of `paths` paths.
    pub(crate) fn begin(&mut self, paths: usize) {
        let mut kept = core::mem::take(&mut self.paths);
        let mut given_up = core::mem::take(&mut self.given_up);
        let mut arrived = core::mem::take(&mut self.arrived);
        kept.clear();
        kept.resize(paths, PathOutcome::default());
        given_up.clear();
        arrived.clear();
        *self = Self {
            paths: kept,
            given_up,
            arrived,
            ..Self::default()
        };
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

    /// The chunk `index`, in flight, is to be sent again though nothing says that it was lost.
    pub(crate) fn reschedule(&mut self, index: u64) {
        let chunk = &mut self.chunks[(index - self.base) as usize];
        self.accounting.on_dropped(chunk);
        self.in_flight -= chunk.fragment.payload.len();
        chunk.state = ChunkState::Lost { timed_out: false };
        self.lost.insert(index);
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
                    self.lost.insert(self.base + offset as u64);
                }
                count += 1;
            }
        }
        self.accounting.on_timeout(path);
        count
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
            let Some(mut chunk) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= chunk.fragment.payload.len();
            self.abandoned -= usize::from(chunk.abandoned);
            outcome.released += chunk.fragment.payload.len();
            if chunk.state != ChunkState::Acked {
                if chunk.state == ChunkState::InFlight {
                    self.in_flight -= chunk.fragment.payload.len();
                    outcome.paths[chunk.path.index()].cumulative_in_flight |= !chunk.abandoned;
                } else {
                    self.lost.remove(&self.base);
                }
                note_acked(&mut chunk, self.base, &mut self.accounting, earliest, outcome);
                highest = Some(self.base);
            } else {
                self.held -= chunk.fragment.wire_len();
            }
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

    /// Declares lost what has been reported missing often enough (§7.2.4).
    fn on_missing(&mut self, judge: &Judge, outcome: &mut AckOutcome) {
        if judge.policy.judges_early() {
            self.discard_early(judge, outcome);
        }
        let again = self.rules.fast_again && self.accounting.is_per_path();
        let needed = self.rules.missing_reports;
        self.taking_lost(judge, outcome, |accounting, take| {
            accounting.take_lost(needed, |run| {
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
    fn taking_lost(
        &mut self,
        judge: &Judge,
        outcome: &mut AckOutcome,
        find: impl FnOnce(&mut AckAccounting, &mut dyn FnMut(u64, bool) -> bool),
    ) {
        let Self {
            accounting,
            chunks,
            lost,
            base,
            in_flight,
            bytes,
            blamed,
            ..
        } = self;
        find(accounting, &mut |index, again| {
            let chunk = &mut chunks[(index - *base) as usize];
            if chunk.state != ChunkState::InFlight || (chunk.fast_retransmitted && !again) {
                return false;
            }
            *in_flight -= chunk.fragment.payload.len();
            chunk.fast_retransmitted = true;
            if chunk.abandoned || judge.gives_up(chunk, Moment::Lost) {
                chunk.state = ChunkState::GivenUp;
                *bytes -= chunk.free();
                outcome.given_up.push(index);
            } else {
                chunk.state = ChunkState::Lost { timed_out: false };
                lost.insert(index);
                if blamed.len() >= named::MOST_BLAMED {
                    blamed.pop_front();
                }
                blamed.push_back((index, chunk.path, chunk.sequence));
            }
            let path = &mut outcome.paths[chunk.path.index()];
            path.lost += 1;
            path.left_flight += chunk.fragment.wire_len();
            true
        });
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

/// A chunk is acknowledged for the first time.
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

fn runs_above(cumulative: u64, blocks: &[GapAckBlock]) -> impl Iterator<Item = Run> + '_ {
    blocks.iter().map(move |block| Run {
        first: cumulative + u64::from(block.start),
        last: cumulative + u64::from(block.end),
    })
}
