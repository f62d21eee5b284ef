//! Acknowledgements that name transmissions (ECA-SCTP), and losses that turn out to have been none.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{CoopSack, GapAckBlock, GapAckBlocks};

use super::acknowledged::runs_above;
use super::{AckOutcome, ChunkState, InvalidAck, Judge, MAX_AHEAD, Outstanding};
use crate::path::PathId;
use crate::recovery::ack_report::{AckReport, normalise};
use crate::recovery::transmissions::{NamedAck, Transmissions};
use crate::seq::Run;
use crate::seq::{difference, union};
use crate::time::Timestamp;

/// Chunks taken for lost that are remembered.
pub(super) const MOST_BLAMED: usize = 256;

impl Outstanding {
    /// Acknowledgements name transmissions from now on, if nothing has left yet.
    pub(crate) fn name_transmissions(&mut self, time_rule: bool) {
        self.per_path.time_rule |= time_rule;
        if self.is_empty()
            && let Some(paths) = self.accounting.paths_mut()
        {
            paths.name_transmissions();
        }
    }

    /// The transmissions that acknowledgements may name, where they do.
    pub(crate) fn transmissions(&self) -> Option<&Transmissions> {
        self.accounting.paths()?.named()
    }

    /// The same, to be changed.
    pub(crate) fn transmissions_mut(&mut self) -> Option<&mut Transmissions> {
        self.accounting.paths_mut()?.named_mut()
    }

    /// A packet with data for `path` begins.
    pub(crate) fn on_packet(&mut self, path: PathId) {
        if let Some(paths) = self.accounting.paths_mut() {
            paths.on_packet(path);
        }
    }

    /// Handles an acknowledgement that names transmissions, as [`Outstanding::on_ack`]. Of one that was `overtaken` by a newer
    /// one only what it says has arrived counts.
    ///
    /// # Errors
    /// It names or acknowledges what was never sent; nothing has changed then.
    pub(crate) fn on_coop_ack(
        &mut self,
        sack: &CoopSack,
        overtaken: bool,
        earliest: impl Fn(PathId) -> u64,
        judge: &Judge,
        outcome: &mut AckOutcome,
    ) -> Result<(), InvalidAck> {
        let cumulative = self.index_of(sack.cumulative_tsn_ack);
        if cumulative >= self.next_index() {
            return Err(InvalidAck::NeverSent);
        }
        let Some(named) = self.transmissions() else {
            return Err(InvalidAck::Stale);
        };
        let ack = named.read(sack)?;
        let overtaken = overtaken || cumulative + 1 < self.base;
        let cumulative = if overtaken { self.base - 1 } else { cumulative };
        let arrived = self.note_named(&ack);
        // What follows the cumulative TSN ack and had arrived is there no more, or it would have moved: it was taken back.
        let first = cumulative + 1 + u64::from(!overtaken);
        let news = blocks(&arrived, first, cumulative);
        let mut kept = Vec::new();
        if let Some(renegable) = sack.renegable.as_ref().filter(|_| !overtaken) {
            kept = self.kept(&arrived, renegable, first, cumulative);
        }
        let report = AckReport {
            cumulative: Tsn(cumulative as u32),
            revocable: &news,
            nonrenegable: &kept,
            duplicates: 0,
            packets: 1,
            a_rwnd: None,
            overtaken,
            lists_all: false,
        };
        self.on_ack(&report, earliest, judge, outcome)
    }

    /// Notes the transmissions that arrived; answers the chunks that did by them and had not.
    fn note_named(&mut self, ack: &NamedAck) -> Vec<Run> {
        ack.duplicates.iter().for_each(|index| self.on_duplicate(*index));
        let mut newly = Vec::new();
        if let Some(named) = self.transmissions_mut() {
            named.note(ack, |path, number, index| newly.push((index, path, number)));
        }
        let mut chunks = Vec::with_capacity(newly.len());
        for (index, path, number) in newly {
            // Whatever else of it is under way is of no interest once the cumulative TSN ack has passed it.
            if index < self.base || self.chunk(index).state == ChunkState::Acked {
                continue;
            }
            let chunk = self.chunk(index);
            let is_last = (chunk.path, chunk.sequence) == (path, number);
            let waits = matches!(chunk.state, ChunkState::Lost { .. });
            if !is_last || waits {
                self.on_duplicate(index);
            }
            if !is_last && let Some(named) = self.transmissions_mut() {
                named.note_late(index, path);
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

    /// Of what has arrived from index `first` on, what is non-renegable since this acknowledgement: what it does not list as
    /// renegable.
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
            before.extend(self.revocable.present(Run { first: next, last }));
            next = next.max(run.last + 1);
        }
        let last = self.next_index() - 1;
        before.extend(self.revocable.present(Run { first: next, last }));
        difference(arrived, &listed, |run| now.push(run));
        let mut kept = Vec::new();
        union(&before, &now, &mut kept);
        self::blocks(&kept, first, cumulative)
    }

    /// What chunk `index` carried arrived twice, or by a transmission that had been taken for lost: then its path is to be more
    /// patient.
    fn on_duplicate(&mut self, index: u64) {
        let hasty = self.per_path.time_rule || self.rules.missing_reports < 3;
        if let Some((path, sequence)) = self.blamed.remove(&index)
            && hasty
            && self.per_path.backs_off
            && let Some(paths) = self.accounting.paths_mut()
        {
            paths.on_needless(path, sequence);
        }
    }

    /// The receiver lists these TSNs as duplicates.
    pub(crate) fn on_duplicate_tsns(&mut self, tsns: impl Iterator<Item = Tsn>) {
        if !self.blamed.is_empty() {
            for tsn in tsns {
                self.on_duplicate(self.index_of(tsn));
            }
        }
    }

    /// Whether what later packets have overtaken is lost after a time.
    pub(crate) fn has_time_rule(&self) -> bool {
        self.per_path.time_rule
    }

    /// When the earliest chunk in flight on `path` left, if a later packet of the path arrived and that makes it lost in time;
    /// and the quarters of a round trip to be waited for.
    pub(crate) fn overtaken(&self, path: PathId) -> Option<(Timestamp, u32)> {
        let paths = self.accounting.paths().filter(|_| self.per_path.time_rule)?;
        let (index, patience) = paths.overtaken(path)?;
        Some((self.chunk(index).sent_at, 5 + u32::from(patience)))
    }

    /// Takes for lost what left on `path` up to `until`, was overtaken and is not known to have arrived.
    pub(crate) fn on_overtaken(
        &mut self,
        path: PathId,
        until: Timestamp,
        judge: &Judge,
        outcome: &mut AckOutcome,
    ) {
        self.accounting.begin();
        let (base, chunks) = (self.base, &self.chunks);
        let mut late = Vec::new();
        if let Some(paths) = self.accounting.paths_mut() {
            paths.take_overtaken(path, |index| {
                let is_late = chunks[(index - base) as usize].sent_at <= until;
                if is_late {
                    late.push(index);
                }
                is_late
            });
        }
        self.taking_lost(judge, outcome, |_, _, take| {
            for index in late {
                take(index, true);
            }
        });
        let last = self.next_index() - 1;
        self.accounting.finish(last, &self.rules, outcome);
        // The path is known to work: T3-rtx begins anew for what is left.
        let path = &mut outcome.paths[path.index()];
        path.earliest_acked |= path.lost > 0;
    }
}

/// Runs as blocks, from index `first` on.
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
