//! Trace events about early copies: the estimate from which they follow, and why one does not leave.

use core::time::Duration;

use anabranch_wire::Tsn;

use super::Sender;
use crate::extension::deadline::Chance;
use crate::path::PathId;
use crate::seq::ExtendedTsn;
use crate::trace_event::{CopyWait, TraceKind};

/// The estimate for the first transmission of a chunk.
pub(super) struct Estimate {
    pub(super) path: PathId,
    pub(super) chance: Chance,
    /// The time until the deadline.
    pub(super) left: Duration,
    pub(super) fragments: u32,
    /// The copies that follow from it.
    pub(super) copies: u8,
}

impl Sender {
    /// A chunk left for the first time, and its message has a deadline.
    pub(super) fn note_estimate(&mut self, index: ExtendedTsn, estimate: &Estimate) {
        if !self.outstanding.journal.is_on() {
            return;
        }
        let fragment = &self.outstanding.chunk(index).fragment;
        let Estimate { chance, left, .. } = *estimate;
        let event = TraceKind::CopiesPlanned {
            tsn: Tsn(index as u32),
            message: fragment.message,
            stream: fragment.stream,
            path: estimate.path,
            left,
            arrives: chance.arrives,
            failure: chance.of_first(left, estimate.fragments).probability(),
            copies: estimate.copies,
        };
        self.outstanding.journal.note(|| event);
    }

    /// A copy of a chunk does not leave on this path.
    pub(super) fn note_copy_waits(&mut self, index: ExtendedTsn, path: PathId, reason: CopyWait) {
        if !self.outstanding.journal.is_on() {
            return;
        }
        let fragment = &self.outstanding.chunk(index).fragment;
        let event = TraceKind::CopyWaits {
            tsn: Tsn(index as u32),
            message: fragment.message,
            stream: fragment.stream,
            path,
            reason,
        };
        self.outstanding.journal.note(|| event);
    }
}
