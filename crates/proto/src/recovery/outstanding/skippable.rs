//! Owns the chunks that an extended FORWARD-TSN lists: lost chunks of abandoned unordered messages that have no other chunk.

use crate::message::Fragment;
use crate::seq::{Run, Runs};

/// The chunks that an extended FORWARD-TSN lists, while the receiver has not acknowledged them.
#[derive(Debug, Default)]
pub(super) struct Skippable {
    pub(super) chunks: Runs,
    /// Those of `chunks` that an extended FORWARD-TSN listed: if they are acknowledged, the receiver may have skipped them.
    pub(super) listed: Runs,
    /// Whether a chunk was added since the last extended FORWARD-TSN.
    pub(super) has_new: bool,
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
