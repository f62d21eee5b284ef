//! RACK-TLP on the outstanding chunks (RFC 8985): the reordering timer, tail loss probes, and T3-rtx with F-RTO.

use super::{AckOutcome, ChunkState, Judge, Outstanding, PathOutcome};
use crate::config::T3Restart;
use crate::path::{Path, PathId, Paths, SendNo};
use crate::recovery::tail::Tail;
use crate::recovery::undo::Undo;
use crate::seq::{ExtendedTsn, Run};
use crate::time::Timestamp;
use crate::trace_event::LossRule;

impl Outstanding {
    /// Whether RACK-TLP detects losses.
    pub(crate) fn uses_rack(&self) -> bool {
        self.detector.is_rack()
    }

    /// When the reordering timer of a path expires (RFC 8985 §6.3): its earliest overtaken chunk in flight is declared lost then.
    pub(crate) fn reordering_due(&self, path: PathId, paths: &Paths) -> Option<Timestamp> {
        self.detector.due(path, paths)
    }

    /// The reordering timer of a path expired (RFC 8985 §6.3).
    pub(crate) fn on_reordering_timer(
        &mut self,
        path: PathId,
        judge: &Judge,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        self.begin(judge.now, paths);
        self.on_missing(judge, paths, outcome);
        self.finish(paths, outcome);
        // The path is known to work: T3-rtx restarts for the remaining data.
        let path = &mut outcome.paths[path.index()];
        path.restarts_t3 |= path.lost > 0 && self.rules.t3_restart == T3Restart::EarliestInFlight;
    }

    fn tail(&mut self, path: PathId) -> &mut (Tail, Undo) {
        if self.tails.len() <= path.index() {
            self.tails.resize_with(path.index() + 1, Default::default);
        }
        &mut self.tails[path.index()]
    }

    /// Records what this acknowledgement shows about a path's probe, timeout and last reduction.
    pub(super) fn tell_tail(
        &mut self,
        path: &Path,
        lost: &[(PathId, SendNo, usize)],
        result: &mut PathOutcome,
    ) {
        let before = self.episodes.lasts(path.id);
        let timed_out = self.episodes.is_timed_out(path.id);
        let (tail, undo) = self.tail(path.id);
        let verdict = tail.finish(&path.flight);
        let losses = result.lost + result.lost_beside_copies + u32::from(verdict.repaired.is_some());
        if losses > 0 && before {
            undo.on_lost(losses);
        } else if losses > 0 && (!timed_out || verdict.timeout_spurious) {
            let here = lost.iter().filter(|(on, ..)| *on == path.id);
            let from = here.map(|(_, no, _)| *no).min();
            undo.on_reduced(losses, from.unwrap_or(path.flight.earliest()));
        }
        result.asks = verdict.asks;
        result.probe_spurious = verdict.probe_spurious;
        if let Some(tsn) = verdict.repaired {
            result.repaired_by_probe = true;
            self.suspect(tsn, (path.id, path.flight.earliest()));
        }
        if verdict.timeout_spurious {
            self.undone.push(path.id);
            self.episodes.end(path.id);
        }
    }

    /// The last retransmissions of these chunks were spurious.
    #[cold]
    pub(super) fn on_disproved(&mut self, chunks: &[ExtendedTsn], paths: &Paths) {
        for tsn in chunks {
            self.on_duplicate(*tsn, paths);
        }
    }

    /// The receiver got chunk `tsn` twice: if a probe retransmitted it, the probe was spurious.
    pub(super) fn on_duplicate_of_probe(&mut self, tsn: ExtendedTsn, paths: &Paths) {
        for (path, (tail, _)) in paths.iter().zip(&mut self.tails) {
            tail.on_duplicate(tsn, &path.flight);
        }
    }

    /// Returns a path whose last window reduction proved spurious.
    pub(crate) fn take_undone(&mut self) -> Option<PathId> {
        self.undone.pop()
    }

    /// Whether a tail loss probe may be sent on a path: no probe is in flight, and the newest transmission is in flight.
    /// RFC 8985 §7.2 sends no probe during recovery, where TCP's RTO follows soon. Here `RTO.Min` is 1 s, so probes look for lost
    /// retransmissions too, as in QUIC (RFC 9002 §6.2.1).
    pub(crate) fn may_probe(&self, path: &Path) -> bool {
        let tail = self.tails.get(path.id.index());
        let probing = tail.is_some_and(|(tail, _)| tail.is_probing(&path.flight));
        !probing && path.flight.newest().is_some()
    }

    /// Marks a chunk in flight on a path for retransmission as a probe (RFC 8985 §7.3): the newest one that has been in flight for an RTT
    /// and that `judge` does not abandon. If something later has arrived, the chunk with the lowest TSN is preferred. Returns whether a probe is to leave.
    pub(crate) fn retransmit_as_probe(&mut self, path: PathId, judge: &Judge, paths: &mut Paths) -> bool {
        let Path { flight, rtt, .. } = paths.path(path);
        let may = |tsn: &ExtendedTsn| !judge.abandons(self.chunk(*tsn));
        // If T3-rtx would expire before two RTTs have passed, the newest chunk may not be overdue yet.
        let is_overdue = |tsn: &ExtendedTsn| {
            let waited = judge.now.saturating_duration_since(self.chunk(*tsn).sent_at);
            rtt.smoothed().is_none_or(|smoothed| waited >= smoothed)
        };
        let preferred = flight.to_probe().into_iter().chain(flight.newest_first());
        let overdue = preferred.filter(is_overdue).find(may);
        let Some(tsn) = overdue.or_else(|| flight.newest_first().rfind(may)) else {
            return false;
        };
        let no = self.chunk(tsn).sequence;
        let counted = self.episodes.counts(path, no);
        self.probed = (!counted).then_some(tsn);
        // A duplicate would not show which of the earlier transmissions arrived.
        self.suspects.remove(&tsn);
        if counted && self.episodes.lasts(path) {
            self.tail(path).1.on_lost(1);
            self.suspect(tsn, (path, no));
        }
        self.reschedule(tsn, LossRule::TailLossProbe, paths);
        true
    }

    /// A packet with a probe was sent on a path.
    pub(crate) fn on_probe(&mut self, path: &Path) {
        let flight = &path.flight;
        let probed = self.probed.take().filter(|tsn| *tsn >= self.base);
        let chunk = probed.map(|tsn| self.chunk(tsn));
        let shown = chunk
            .filter(|chunk| chunk.state == ChunkState::InFlight && chunk.path == path.id)
            .map(|chunk| chunk.sequence)
            .filter(|no| *no >= flight.packet());
        let no = shown.unwrap_or(flight.next() - 1);
        self.tail(path.id).0.on_probe(no, shown.is_some());
    }

    /// The probe timeout of a path expired, and none of its chunks in flight may be retransmitted: they count as lost, and FORWARD-TSN is
    /// the probe.
    pub(crate) fn discard_tail(
        &mut self,
        path: PathId,
        judge: &Judge,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        self.begin(judge.now, paths);
        let all: Vec<_> = paths.path(path).flight.newest_first().collect();
        self.take_lost(&all, LossRule::ProbeTimeout, judge, paths, outcome);
        self.finish(paths, outcome);
    }

    /// T3-rtx expired for `path`, for the first time since data was acknowledged: the chunk with the lowest TSN is lost that `judge` does
    /// not abandon. The acknowledgement of its retransmission decides about the other chunks (F-RTO). If there is no such chunk, everything
    /// is lost. Returns the number of chunks lost.
    ///
    /// With several paths at once the chunk that has been in flight there for the longest time is lost instead. The lowest TSN may have
    /// just come from another path, and T3-rtx runs for the chunks that were in flight before.
    pub(crate) fn on_first_timeout(&mut self, path: PathId, judge: &Judge, paths: &mut Paths) -> u32 {
        let flight = &mut paths.path_mut(path).flight;
        flight.settle();
        let next = flight.next();
        let may = |tsn: &ExtendedTsn| !judge.abandons(self.chunk(*tsn));
        let oldest = if self.multipath.is_on() {
            flight.newest_first().rfind(may)
        } else {
            flight.newest_first().filter(may).min()
        };
        let Some(tsn) = oldest else {
            return self.on_timeout(path, LossRule::T3Rtx, paths);
        };
        self.lose_by_timeout(tsn, paths);
        paths.path_mut(path).flight.settle();
        self.episodes.on_first_timeout(path, next.saturating_sub(1));
        self.settle_identity(paths);
        let (tail, undo) = self.tail(path);
        tail.on_timeout(next);
        undo.clear();
        1
    }

    fn lose_by_timeout(&mut self, tsn: ExtendedTsn, paths: &mut Paths) {
        let chunk = &mut self.chunks[(tsn - self.base) as usize];
        self.journal.note(|| chunk.loss_event(tsn, LossRule::T3Rtx));
        chunk.leave(paths);
        chunk.fast_retransmitted = false;
        chunk.state = ChunkState::Lost { timed_out: true };
        self.lost.insert(Run::of(tsn));
    }
}
