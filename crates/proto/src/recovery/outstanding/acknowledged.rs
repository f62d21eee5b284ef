//! Acknowledgement of chunks (RFC 9260 §6.2.1): the cumulative TSN ack removes chunks, gap ack blocks acknowledge them, and a receiver
//! may renege on them.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::GapAckBlock;

use super::{AckOutcome, Chunk, ChunkState, InvalidAck, Judge, Outstanding, PathOutcome, RENEGE_INTERVAL};
use crate::config::T3Restart;
use crate::path::{Fate, Path, PathId, Paths, Sending};
use crate::recovery::ack_report::{AckReport, Listing};
use crate::recovery::detect::{Arrival, Detector, Evidence, Report};
use crate::recovery::episode::{Episodes, Phase};
use crate::recovery::identity::Identity;
use crate::recovery::outstanding::outcome::Answer;
use crate::recovery::tail::Tail;
use crate::recovery::undo::Undo;
use crate::seq::{Run, Walk};
use crate::time::Timestamp;
use crate::trace_event::TraceKind;

impl Outstanding {
    /// Handles an acknowledgement. Chunks that it acknowledges or that are declared lost leave the flights of `paths`; `judge` decides
    /// whether the message of a missing chunk is abandoned.
    ///
    /// # Errors
    /// The acknowledgement is stale or invalid; then nothing has changed.
    pub(crate) fn on_ack(
        &mut self,
        report: &AckReport<'_>,
        paths: &mut Paths,
        judge: &Judge,
        outcome: &mut AckOutcome,
    ) -> Result<(), InvalidAck> {
        let cumulative = self.index_of(report.cumulative);
        if cumulative + 1 < self.base {
            return Err(InvalidAck::Stale);
        }
        let highest = cumulative + report.highest_listed();
        if highest >= self.next_index() {
            return Err(InvalidAck::NeverSent);
        }
        if self.is_overtaken(cumulative, report, paths) {
            return Err(InvalidAck::Stale);
        }
        let listed_to = match report.listing {
            Listing::All => Some(self.next_index() - 1),
            Listing::Lowest => Some(highest),
            Listing::News | Listing::Nothing => None,
        };
        outcome.cumulative_moved = cumulative >= self.base;
        self.begin(judge.now, paths);
        let mut highest_newly_acked = self.on_cumulative(cumulative, judge.now, paths, outcome);
        if highest > cumulative || !self.acked.is_empty() {
            let newly = self.on_gaps(cumulative, report, paths, outcome);
            // An acknowledgement without news may have been overtaken by the one that it seems to contradict.
            outcome.contradicts = (outcome.cumulative_moved || newly.is_some())
                && listed_to.is_some_and(|last| self.leaves_out_non_renegable(cumulative, report, last));
            self.renege(cumulative, report, listed_to, judge.now, paths, outcome);
            highest_newly_acked = highest_newly_acked.max(newly);
        }
        // Disproved losses come before new losses, which may begin another episode.
        if !outcome.disproved.is_empty() {
            self.on_disproved(&outcome.disproved, paths);
        }
        self.end_episodes(paths);
        let missing = Report {
            highest_newly_acked,
            cumulative_moved: outcome.cumulative_moved,
            acked: &self.acked,
            packets: report.packets,
            recovering: self.episodes.recovers_together(),
            listed_to: match report.listing {
                Listing::Nothing => cumulative,
                _ => listed_to.unwrap_or(u64::MAX),
            },
        };
        let reports = self.detector.note(&missing, self.rules.missing_reports, paths);
        if reports && !report.overtaken {
            self.on_missing(judge, paths, outcome);
        }
        self.finish(paths, outcome);
        Ok(())
    }

    /// Called before an acknowledgement, or a timer of loss detection, is handled.
    pub(super) fn begin(&mut self, now: Timestamp, paths: &mut Paths) {
        for path in paths.iter_mut() {
            path.flight.begin();
        }
        self.detector.begin(now, paths, &self.episodes);
        self.tails.iter_mut().for_each(|(tail, _)| tail.begin());
        self.episodes.begin();
    }

    /// Ends recovery episodes whose chunks are all acknowledged or lost.
    fn end_episodes(&mut self, paths: &mut Paths) {
        self.episodes.on_cumulative(self.base);
        if !self.detector.is_per_path() {
            return;
        }
        for path in paths.iter_mut() {
            if path.flight.progress().acknowledged().is_some() {
                path.flight.settle();
                let recovered = self.episodes.is_recovering(path.id);
                self.episodes.on_settled(path.id, path.flight.earliest());
                if let Some(rack) = self.detector.rack_of(path.id)
                    && recovered
                    && !self.episodes.is_recovering(path.id)
                {
                    rack.on_recovered();
                }
            }
        }
    }

    /// Called after an acknowledgement was handled: determines the consequences for each path's window and T3-rtx.
    pub(super) fn finish(&mut self, paths: &mut Paths, outcome: &mut AckOutcome) {
        let holds = self.rules.fast_recovery;
        let restart = self.rules.t3_restart;
        if let Episodes::Together(episode) = &mut self.episodes {
            let lost = outcome.paths.iter().any(|path| path.lost > 0);
            let last = self.base + self.chunks.len() as u64 - 1;
            let phase = episode.finish(lost, Some(last), holds);
            outcome.recoveries = u32::from(phase.begins_repairs());
            for (path, result) in paths.iter_mut().zip(&mut outcome.paths) {
                result.phase = match phase {
                    Phase::Reduced | Phase::ReducedBefore if result.lost == 0 => Phase::Open,
                    phase => phase,
                };
                result.advanced = outcome.cumulative_moved;
                let lowest = path.flight.progress().lowest_acknowledged;
                result.restarts_t3 |= restart == T3Restart::EarliestInFlight && lowest;
                path.flight.settle();
            }
        } else {
            for (path, result) in paths.iter_mut().zip(&mut outcome.paths) {
                let idle = path.flight.is_empty() && self.lost.is_empty();
                let last = (!idle).then(|| path.flight.next().saturating_sub(1));
                if self.detector.is_rack() {
                    path.flight.settle();
                    settle_copies(path, result);
                    self.tell_tail(path, &outcome.lost, result);
                }
                let lost = result.lost > 0 || result.repaired_by_probe || result.lost_beside_copies > 0;
                result.phase = self.episodes.finish_path(path.id, lost, last, holds);
                outcome.recoveries += u32::from(result.phase.begins_repairs());
                path.flight.settle();
                result.advanced = path.flight.progress().in_order;
                result.restarts_t3 |= restart == T3Restart::EarliestInFlight && path.flight.earliest_moved();
            }
            self.settle_identity(paths);
        }
        if restart == T3Restart::CumulativeMoved && outcome.cumulative_moved {
            outcome.paths.iter_mut().for_each(|path| path.restarts_t3 = true);
        }
    }

    /// Whether another acknowledgement has overtaken this one, if acknowledgements return on several paths: it lists fewer chunks than are
    /// known to have arrived, and no new ones. Then the receiver did not renege on the chunks that are left out. If it did renege, the next
    /// acknowledgement with news shows that, or the first acknowledgement while nothing is in flight.
    fn is_overtaken(&self, cumulative: u64, report: &AckReport<'_>, paths: &Paths) -> bool {
        let may_be = self.multipath.is_on() && matches!(report.listing, Listing::All | Listing::Lowest);
        if !may_be || cumulative + 1 != self.base || paths.payload_in_flight() == 0 {
            return false;
        }
        let says: u64 = listed(cumulative, report).map(Run::len).sum();
        let mut known = Walk::new(&self.acked);
        says < self.acked.len() && listed(cumulative, report).all(|run| known.has_all(run))
    }

    /// Removes the chunks that are cumulatively acknowledged; returns the highest newly acknowledged one.
    fn on_cumulative(
        &mut self,
        cumulative: u64,
        now: Timestamp,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let mut highest = None;
        let in_flight_restarts = self.rules.t3_restart == T3Restart::CumulativeInFlight;
        let skipped = if self.forwarded.is_empty() {
            0
        } else {
            self.on_skipped(cumulative, now, paths, outcome)
        };
        while self.base <= cumulative {
            let Some(chunk) = self.chunks.front_mut() else {
                break;
            };
            let len = chunk.fragment.payload.len();
            self.retained.free(chunk.fragment.stream, len);
            self.abandoned -= usize::from(chunk.abandoned);
            self.hasty -= usize::from(chunk.fragment.haste.early_discard);
            if chunk.fragment.confirm {
                outcome.confirmed.extend(chunk.fragment.take_confirmation());
            }
            if chunk.state.is_acked() {
                self.held -= chunk.fragment.wire_len();
            } else {
                if chunk.state == ChunkState::InFlight {
                    let restarts = in_flight_restarts && !chunk.abandoned;
                    outcome.paths[chunk.path.index()].restarts_t3 |= restarts;
                } else {
                    self.lost.remove(Run::of(self.base));
                }
                let newly = Newly {
                    index: self.base,
                    came: self.base > skipped,
                };
                newly.note(
                    chunk,
                    self.identity.as_ref(),
                    &mut self.detector,
                    &mut self.tails,
                    paths,
                    outcome,
                );
                highest = Some(self.base);
            }
            self.chunks.pop_front();
            self.base += 1;
        }
        // The other sets are parts of `acked`.
        if !self.acked.is_empty() {
            for runs in [&mut self.acked, &mut self.renegable, &mut self.non_renegable] {
                runs.remove_below(self.base);
            }
        }
        if let Some(skippable) = &mut self.skippable {
            // The receiver may have skipped them.
            outcome.disproved.retain(|index| !skippable.is_listed(*index));
            skippable.remove_below(self.base);
        }
        highest
    }

    /// Notes the chunks that gap ack blocks newly list; returns the highest newly acknowledged one.
    fn on_gaps(
        &mut self,
        cumulative: u64,
        report: &AckReport<'_>,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) -> Option<u64> {
        let mut highest = None;
        let mut known = Walk::new(&self.acked);
        let renegable = runs_above(cumulative, report.renegable).filter(|run| !known.has_all(*run));
        for run in renegable.collect::<Vec<_>>() {
            highest = highest.max(self.on_block(run, paths, outcome));
        }
        let mut known = Walk::new(&self.non_renegable);
        let kept = runs_above(cumulative, report.nonrenegable).filter(|run| !known.has_all(*run));
        for run in kept.collect::<Vec<_>>() {
            highest = highest.max(self.on_block(run, paths, outcome));
            self.keep_non_renegable(run, outcome);
        }
        highest
    }

    /// Notes a gap ack block with news. The cost is the number of its chunks that are new.
    fn on_block(&mut self, block: Run, paths: &mut Paths, outcome: &mut AckOutcome) -> Option<u64> {
        let (mut highest, mut any) = (None, false);
        for run in self.acked.missing(block) {
            any = true;
            for index in run.first..=run.last {
                let chunk = &mut self.chunks[(index - self.base) as usize];
                let came = !self.skippable.as_deref().is_some_and(|all| all.is_listed(index));
                if came {
                    highest = Some(index);
                }
                let newly = Newly { index, came };
                newly.note(
                    chunk,
                    self.identity.as_ref(),
                    &mut self.detector,
                    &mut self.tails,
                    paths,
                    outcome,
                );
                if chunk.state != ChunkState::InFlight {
                    self.lost.remove(Run::of(index));
                }
                chunk.state = ChunkState::Acked;
                self.held += chunk.fragment.wire_len();
            }
            self.renegable.insert(run);
            if let Some(skippable) = &mut self.skippable {
                skippable.acknowledge(run);
            }
        }
        if any {
            self.acked.insert(block);
        }
        highest
    }

    /// Handles reneging (§6.2.1): chunks that gap ack blocks acknowledged and no longer list are in flight again, at most once in
    /// [`RENEGE_INTERVAL`]; if they are still not listed then, a later acknowledgement reneges on them. The chunk that follows the
    /// cumulative TSN ack is certainly missing, or the cumulative TSN ack would have passed it. It is handled always, because all other
    /// chunks may wait for it. `listed_to` is the highest chunk that the acknowledgement would list.
    fn renege(
        &mut self,
        cumulative: u64,
        report: &AckReport<'_>,
        listed_to: Option<u64>,
        now: Timestamp,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        if self.renegable.is_empty() || report.overtaken {
            return;
        }
        let due = self.reneged_at.is_none_or(|at| now >= at + RENEGE_INTERVAL);
        let end = listed_to.filter(|_| due).unwrap_or(self.base);
        let mut back = Vec::new();
        let mut listed_before = Walk::new(&self.renegable);
        let mut first = self.base;
        for run in runs_above(cumulative, report.renegable).take_while(|run| run.first <= end) {
            let gap = Run {
                first,
                last: run.first - 1,
            };
            if listed_before.has_any(gap) {
                back.extend(self.renegable.present(gap));
            }
            first = run.last + 1;
        }
        back.extend(self.renegable.present(Run { first, last: end }));
        for run in back {
            if run.last > self.base {
                self.reneged_at = Some(now);
            }
            self.renege_run(run, now, paths, outcome);
        }
    }

    fn renege_run(&mut self, run: Run, now: Timestamp, paths: &mut Paths, outcome: &mut AckOutcome) {
        self.acked.remove(run);
        self.renegable.remove(run);
        for index in run.first..=run.last {
            let chunk = &mut self.chunks[(index - self.base) as usize];
            outcome.reneged += 1;
            self.journal.note(|| TraceKind::Reneged {
                tsn: Tsn(index as u32),
            });
            self.held -= chunk.fragment.wire_len();
            if chunk.abandoned {
                chunk.state = ChunkState::Abandoned;
                continue;
            }
            chunk.state = ChunkState::InFlight;
            // Nothing is in flight on a path that was removed meanwhile: its timer would never be answered.
            if !paths.has(chunk.path) {
                chunk.path = paths.data_path();
            }
            // The chunk is missing from now on: only later transmissions can report it missing.
            let flight = &mut paths.path_mut(chunk.path).flight;
            let (wire, payload) = (chunk.fragment.wire_len(), chunk.fragment.payload.len());
            chunk.sequence = flight.push(index, true, now, wire, payload);
            outcome.paths[chunk.path.index()].reneged += chunk.fragment.wire_len();
        }
    }
}

/// A chunk that is acknowledged for the first time.
#[derive(Clone, Copy)]
struct Newly {
    index: u64,
    /// Whether the acknowledgement shows that the chunk arrived, even if it was abandoned.
    came: bool,
}

impl Newly {
    #[inline(always)]
    fn note(
        self,
        chunk: &mut Chunk,
        identity: Option<&Identity>,
        detector: &mut Detector,
        tails: &mut [(Tail, Undo)],
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        let size = chunk.fragment.wire_len();
        let in_flight = chunk.state == ChunkState::InFlight;
        let Path { flight, copies, .. } = paths.path_mut(chunk.path);
        let (by, by_last, by_copy): By = match identity {
            None => (chunk.path, chunk.transmissions == 1, None),
            Some(identity) => identify(chunk, self.index, identity, flight.get(chunk.sequence)),
        };
        if in_flight {
            let payload = chunk.fragment.payload.len();
            let named = identity.and_then(|_| flight.get(chunk.sequence).copied());
            let named = named.filter(Sending::has_arrived);
            if identity.is_none() || named.is_some() {
                if !self.came && named.is_none() {
                    // FORWARD-TSN may have skipped the chunk: whether it arrived is unknown.
                    outcome.skipped.push((chunk.path, chunk.sequence));
                } else if detector.is_per_path()
                    && let Some(sending) = flight.get(chunk.sequence)
                {
                    let tail = tails.get_mut(chunk.path.index()).map(|(tail, _)| tail);
                    let arrival = arrival_of(chunk, sending, named.is_some(), detector, tail);
                    if arrival == Arrival::Earlier {
                        outcome.disproved.push(self.index);
                    }
                }
                flight.acknowledge(chunk.sequence, size, payload);
            } else if by_copy.is_some() {
                // The transmission is a copy from now on, whose fate is still open.
                flight.become_copy(chunk.sequence, size, payload);
                copies.take_over(chunk.sequence, chunk.sent_at, size);
            } else {
                // This transmission is obsolete and shows nothing.
                flight.close(chunk.sequence, Fate::Closed, size, payload);
            }
        } else if self.came && detector.is_rack() && chunk.is_spuriously_lost() {
            outcome.disproved.push(self.index);
        }
        // Chunks that were lost and abandoned, or that FORWARD-TSN may have skipped, prove nothing and do not open the window (RFC 3758
        // §3.5 A2). A chunk that was in flight and arrived left the network like any other, even if its message was abandoned.
        if chunk.abandoned && !(self.came && in_flight) {
            let path = &mut outcome.paths[chunk.path.index()];
            path.answer = path.answer.max(Answer::Skipped);
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
        if chunk.one_path || by_last || by_copy.is_some() {
            path.answer = Answer::OfThisPath;
        } else {
            path.answer = path.answer.max(Answer::Data);
        }
        if by_last {
            note_certain(path, chunk);
        } else if let Some(sent_at) = by_copy {
            paths.path_mut(by).copies.on_brought(size);
            path.sample = path.sample.max(Some(sent_at));
        }
    }
}

/// The last transmission of a chunk certainly arrived on this path.
#[inline(always)]
fn note_certain(path: &mut PathOutcome, chunk: &Chunk) {
    let sent_at = chunk.sent_at;
    path.certain = path.certain.max(Some(chunk.sequence));
    if path.sample.is_none_or(|newest| newest < sent_at) {
        path.sample = Some(sent_at);
        path.copied = chunk.copied;
        path.newest = Some(chunk.sequence);
    }
    let (size, (largest, its)) = (chunk.fragment.wire_len(), path.largest);
    if size > largest || (size == largest && sent_at > its) {
        path.largest = (size, sent_at);
    }
}

/// Which transmission of a chunk in flight arrived, as far as loss detection can tell; `named` if the acknowledgement names it. The tail of
/// the path learns of it.
#[inline]
fn arrival_of(
    chunk: &Chunk,
    sending: &Sending,
    named: bool,
    detector: &mut Detector,
    tail: Option<&mut Tail>,
) -> Arrival {
    let no = chunk.sequence;
    let evidence = match &tail {
        _ if named => Evidence::Named,
        Some(tail) if tail.is_uncertain(no) => Evidence::Uncertain,
        Some(tail) if tail.is_asked(no) => Evidence::Asked,
        _ => Evidence::LastSending,
    };
    let arrival = match detector.on_acknowledged(chunk.path, no, sending, evidence) {
        // The copy may have arrived.
        Arrival::Earlier if chunk.is_copied() => Arrival::Sending,
        arrival => arrival,
    };
    if let Some(tail) = tail {
        tail.on_acknowledged(no, sending, arrival);
    }
    arrival
}

/// Determines what this acknowledgement shows about the copies of a path.
fn settle_copies(path: &mut Path, result: &mut PathOutcome) {
    if path.flight.is_named() {
        let (lost, arrived) = path.copies.settle_named(&mut path.flight);
        result.lost_beside_copies = lost;
        // It is certain that they took this path.
        result.newly_acked += arrived;
        return;
    }
    let Some((_, highest)) = path.flight.progress().acknowledged() else {
        return;
    };
    path.copies.reach(highest);
    if let Some(certain) = result.certain {
        (result.lost_beside_copies, result.copies_arrived) = path.copies.settle(certain);
    }
    let uncertain = |after| path.copies.may_have_arrived(after);
    if result.copied.is_some_and(uncertain) {
        (result.sample, result.newest) = (None, None);
    }
}

/// The transmission that brought an acknowledged chunk, as far as is known: its path, whether it is the last one for certain, and if it is a
/// copy, when that left.
type By = (PathId, bool, Option<Timestamp>);

/// Determines it from the acknowledgement, which names it.
fn identify(chunk: &Chunk, index: u64, identity: &Identity, last: Option<&Sending>) -> By {
    if last.is_some_and(Sending::has_arrived) {
        return (chunk.path, true, None);
    }
    let other = identity.brought_by(index);
    let other = other.map(|other| (other.path, false, other.copy.map(|(_, sent_at)| sent_at)));
    other.unwrap_or((chunk.path, chunk.transmissions == 1, None))
}

pub(super) fn runs_above(cumulative: u64, blocks: &[GapAckBlock]) -> impl Iterator<Item = Run> + '_ {
    blocks.iter().map(move |block| Run {
        first: cumulative + u64::from(block.start),
        last: cumulative + u64::from(block.end),
    })
}

/// The runs of both lists in ascending order.
pub(super) fn listed(cumulative: u64, report: &AckReport<'_>) -> impl Iterator<Item = Run> {
    let lists = [report.renegable, report.nonrenegable];
    let [mut one, mut other] = lists.map(|list| runs_above(cumulative, list).peekable());
    core::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if second.first < first.first => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}
