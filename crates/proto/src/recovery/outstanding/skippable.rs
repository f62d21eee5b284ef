//! Owns the chunks that an extended FORWARD-TSN lists: lost chunks of abandoned unordered messages that have no other chunk.

use super::Outstanding;
use crate::message::Fragment;
use crate::seq::{Run, Runs};

/// The chunks that an extended FORWARD-TSN lists, while the receiver has not acknowledged them.
#[derive(Debug, Default)]
pub(super) struct Skippable {
    chunks: Runs,
    /// Those of `chunks` that an extended FORWARD-TSN listed: if they are acknowledged, the receiver may have skipped them.
    listed: Runs,
    /// Whether a chunk was added since the last extended FORWARD-TSN.
    has_new: bool,
}

impl Skippable {
    /// A chunk of an abandoned message is lost.
    pub(super) fn add(&mut self, index: u64, fragment: &Fragment) {
        if fragment.unordered && fragment.beginning && fragment.ending && !self.chunks.contains(index) {
            self.chunks.insert(Run::of(index));
            self.has_new = true;
        }
    }

    /// Whether an acknowledgement of the chunk shows nothing about its arrival.
    pub(super) fn is_listed(&self, index: u64) -> bool {
        self.listed.contains(index)
    }

    /// Gap ack blocks list these chunks.
    pub(super) fn acknowledge(&mut self, run: Run) {
        self.chunks.remove(run);
        self.listed.remove(run);
    }

    pub(super) fn remove_below(&mut self, base: u64) {
        self.chunks.remove_below(base);
        self.listed.remove_below(base);
    }
}

impl Outstanding {
    /// Extended FORWARD-TSN was negotiated.
    pub(crate) fn track_skippable(&mut self) {
        self.skippable = Some(Box::default());
    }

    /// The chunks above `point` that an extended FORWARD-TSN can list.
    pub(crate) fn skippable_above(&self, point: u64) -> impl Iterator<Item = Run> + '_ {
        let above = Run {
            first: point + 1,
            last: self.next_index(),
        };
        self.skippable
            .iter()
            .flat_map(move |skippable| skippable.chunks.present(above))
    }

    /// Whether chunks were added since the last extended FORWARD-TSN.
    pub(crate) fn has_new_skippable(&self) -> bool {
        self.skippable.as_ref().is_some_and(|skippable| skippable.has_new)
    }

    /// An extended FORWARD-TSN lists these chunks.
    pub(crate) fn on_skippable_listed(&mut self, runs: &[Run]) {
        if let Some(skippable) = &mut self.skippable {
            skippable.has_new = false;
            runs.iter().for_each(|run| skippable.listed.insert(*run));
        }
    }
}
