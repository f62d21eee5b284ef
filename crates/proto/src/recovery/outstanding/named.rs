//! ECA-SCTP: acknowledgements that name transmissions; the time rule; and losses that prove spurious.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{CoopSack, GapAckBlock, GapAckBlocks};

use super::acknowledged::runs_above;
use super::suspects::suspect;
use super::{AckOutcome, ChunkState, InvalidAck, Judge, MAX_AHEAD, Outstanding};
use crate::config::T3Restart;
use crate::path::{Path, PathId, Paths, SendNo};
use crate::recovery::ack_report::{AckReport, Listing, normalise};
use crate::recovery::identity::{Identity, NamedAck, Other};
use crate::seq::Run;
use crate::seq::{difference, union};
use crate::time::Timestamp;
use crate::trace_event::{LossRule, TraceKind};

impl Outstanding {
    /// Acknowledgements name transmissions from now on, if nothing was sent yet and losses are detected for each path by itself.
    pub(crate) fn name_sendings(&mut self, time_rule: bool, paths: &mut Paths) {
        self.multipath.time_rule |= time_rule;
        if self.is_empty() && self.multipath.is_on() {
            self.identity = Some(Identity::default());
            paths.iter_mut().for_each(|path| path.flight.name());
        }
    }

    /// The state of ECA-SCTP, if it was negotiated.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// The state of ECA-SCTP, for changing.
    pub(crate) fn identity_mut(&mut self) -> Option<&mut Identity> {
        self.identity.as_mut()
    }

    /// Handles an acknowledgement that names transmissions, as [`Outstanding::on_ack`]. If it was `overtaken` by a newer one, only the
    /// chunks that it acknowledges count.
    ///
    /// # Errors
    /// It names or acknowledges what was never sent; then nothing has changed.
    pub(crate) fn on_coop_ack(
        &mut self,
        sack: &CoopSack,
        overtaken: bool,
        paths: &mut Paths,
        judge: &Judge,
        outcome: &mut AckOutcome,
    ) -> Result<(), InvalidAck> {
        let cumulative = self.index_of(sack.cumulative_tsn_ack);
        if cumulative >= self.next_index() {
            return Err(InvalidAck::NeverSent);
        }
        if self.identity.is_none() {
            return Err(InvalidAck::Stale);
        }
        let ack = NamedAck::read(sack, paths)?;
        let overtaken = overtaken || cumulative + 1 < self.base;
        let cumulative = if overtaken { self.base - 1 } else { cumulative };
        let arrived = self.note_named(&ack, paths, outcome);
        // The chunk that follows the cumulative TSN ack is missing, or the cumulative TSN ack had passed it: the receiver reneged on it.
        let first = cumulative + 1 + u64::from(!overtaken);
        let news = blocks(&arrived, first, cumulative);
        let mut kept = Vec::new();
        if let Some(renegable) = sack.renegable.as_ref().filter(|_| !overtaken) {
            kept = self.kept(&arrived, renegable, first, cumulative);
        }
        let report = AckReport {
            cumulative: Tsn(cumulative as u32),
            renegable: &news,
            nonrenegable: &kept,
            duplicates: 0,
            packets: 1,
            a_rwnd: None,
            overtaken,
            listing: Listing::News,
        };
        self.on_ack(&report, paths, judge, outcome)
    }

    /// Notes the transmissions that arrived; returns the chunks that arrived for the first time.
    fn note_named(&mut self, ack: &NamedAck, paths: &mut Paths, outcome: &mut AckOutcome) -> Vec<Run> {
        for duplicate in &ack.duplicates {
            if duplicate.copy || self.is_only_copied(duplicate.tsn) {
                outcome.copies_unnecessary += 1;
            } else {
                self.on_duplicate(duplicate.tsn, paths);
            }
        }
        let mut newly = Vec::new();
        if let Some(identity) = &mut self.identity {
            identity.note(ack, paths, |path, number, index| {
                newly.push((index, path, number))
            });
        }
        let mut chunks = Vec::with_capacity(newly.len());
        for (index, path, number) in newly {
            // Other transmissions of the chunk do not matter once the cumulative TSN ack has passed it.
            let came_before = index < self.base || self.chunk(index).state.is_acked();
            let Path { flight, copies, .. } = paths.path_mut(path);
            let copy = flight.get(number).filter(|sending| sending.is_copy());
            let copy = copy.map(|sending| (number, sending.sent_at));
            copies.on_named(number);
            if came_before {
                continue;
            }
            let chunk = self.chunk(index);
            let is_last = (chunk.path, chunk.sequence) == (path, number);
            let waits = matches!(chunk.state, ChunkState::Lost { .. });
            if (!is_last || waits) && copy.is_none() {
                self.on_duplicate(index, paths);
            }
            if !is_last && let Some(identity) = &mut self.identity {
                identity.note_other(index, Other { path, copy });
            }
            chunks.push(index);
        }
        chunks.sort_unstable();
        chunks.dedup();
        let mut runs: Vec<Run> = Vec::new();
        for index in chunks {
            match runs.last_mut() {
                Some(run) if run.last + 1 == index => run.last = index,
                _ => runs.push(Run::of(index)),
            }
        }
        runs
    }

    /// Whether copies alone explain that a chunk arrived twice.
    fn is_only_copied(&self, index: u64) -> bool {
        let present = (self.base..self.next_index()).contains(&index);
        present && self.chunk(index).is_copied() && self.chunk(index).transmissions == 1
    }

    /// The chunks from `first` on that are non-renegable according to this acknowledgement: those that have arrived and that it does not
    /// list as renegable.
    fn kept(
        &self,
        arrived: &[Run],
        renegable: &GapAckBlocks,
        first: u64,
        cumulative: u64,
    ) -> Vec<GapAckBlock> {
        let mut listed = Vec::new();
        normalise(renegable, &mut listed);
        let listed: Vec<Run> = runs_above(cumulative, &listed).collect();
        let (mut before, mut now) = (Vec::new(), Vec::new());
        let mut next = first;
        for run in &listed {
            let last = run.first - 1;
            before.extend(self.renegable.present(Run { first: next, last }));
            next = next.max(run.last + 1);
        }
        let last = self.next_index() - 1;
        before.extend(self.renegable.present(Run { first: next, last }));
        difference(arrived, &listed, |run| now.push(run));
        let mut kept = Vec::new();
        union(&before, &now, &mut kept);
        self::blocks(&kept, first, cumulative)
    }

    /// Remembers the loss of a transmission of the chunk `index`, which may prove spurious.
    pub(super) fn suspect(&mut self, index: u64, sending: (PathId, SendNo)) {
        suspect(&mut self.suspects, index, sending);
    }

    /// Chunk `index` arrived twice, or by a transmission that had been declared lost: the retransmission was spurious, and the reordering
    /// tolerance of its path rises.
    pub(super) fn on_duplicate(&mut self, index: u64, paths: &Paths) {
        self.on_duplicate_of_probe(index, paths);
        self.on_late_discard(index);
        let hasty = self.multipath.time_rule || self.rules.missing_reports < 3;
        let tolerates = self.detector.is_rack() || (hasty && self.multipath.backs_off);
        let Some((path, no)) = self.suspects.remove(&index) else {
            return;
        };
        self.journal.note(|| TraceKind::LossSpurious {
            tsn: Tsn(index as u32),
        });
        if tolerates {
            self.detector.on_spurious(path, no, paths);
        }
        if let Some((_, undo)) = self.tails.get_mut(path.index())
            && undo.on_disproved(no)
        {
            self.undone.push(path);
            self.episodes.end(path);
        }
    }

    /// The receiver lists these TSNs as duplicates. Returns how many of them early copies explain.
    pub(crate) fn on_duplicate_tsns(&mut self, tsns: impl Iterator<Item = Tsn>, paths: &mut Paths) -> usize {
        if self.suspects.is_empty() && self.tails.is_empty() && self.hasty == 0 {
            return 0;
        }
        let mut explained = 0;
        for tsn in tsns {
            let index = self.index_of(tsn);
            if paths.iter_mut().any(|path| path.copies.on_duplicate(index)) {
                explained += 1;
            } else {
                self.on_duplicate(index, paths);
            }
        }
        explained
    }

    /// Whether the time rule applies.
    pub(crate) fn has_time_rule(&self) -> bool {
        self.multipath.time_rule && !self.detector.is_rack()
    }

    /// When the earliest chunk in flight on `path` left, if a later packet of the path arrived and the time rule applies; and for
    /// how many quarters of a round-trip time the rule waits.
    pub(crate) fn overtaken(&self, path: PathId, paths: &Paths) -> Option<(Timestamp, u32)> {
        if !self.has_time_rule() {
            return None;
        }
        let (index, tolerance) = self.detector.overtaken(path, paths)?;
        Some((self.chunk(index).sent_at, 5 + u32::from(tolerance)))
    }

    /// Time rule: declares chunks lost that left on `path` up to `until`, were overtaken and are not known to have arrived.
    pub(crate) fn on_overtaken(
        &mut self,
        path: PathId,
        until: Timestamp,
        judge: &Judge,
        paths: &mut Paths,
        outcome: &mut AckOutcome,
    ) {
        self.begin(judge.now, paths);
        let flight = &paths.path(path).flight;
        self.episodes.on_settled(path, flight.earliest());
        let below = self.detector.overtaken_below(path);
        let open = flight
            .range(flight.earliest())
            .take_while(|(no, _)| *no < below)
            .filter(|(_, sending)| sending.is_open())
            .map(|(_, sending)| sending.tsn);
        let late: Vec<u64> = open
            .take_while(|index| self.chunk(*index).sent_at <= until)
            .collect();
        self.take_lost(&late, LossRule::TimeRule, judge, paths, outcome);
        self.finish(paths, outcome);
        // The path is known to work: T3-rtx restarts for the remaining data.
        let path = &mut outcome.paths[path.index()];
        path.restarts_t3 |= path.lost > 0 && self.rules.t3_restart == T3Restart::EarliestInFlight;
    }
}

/// Converts runs to gap ack blocks, from the chunk `first` on.
fn blocks(runs: &[Run], first: u64, cumulative: u64) -> Vec<GapAckBlock> {
    let offset = |index: u64| (index - cumulative).min(MAX_AHEAD) as u16;
    let above = runs.iter().filter(|run| run.last >= first);
    above
        .map(|run| GapAckBlock {
            start: offset(run.first.max(first)),
            end: offset(run.last),
        })
        .collect()
}
