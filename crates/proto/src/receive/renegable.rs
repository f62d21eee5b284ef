//! Owns the set of renegable data: data that a receiver may drop after gap ack blocks acknowledged it (RFC 9260 §6.2). An NR-SACK
//! distinguishes renegable from non-renegable data (draft-tuexen-tsvwg-sctp-multipath §4).

use std::collections::BTreeMap;

use anabranch_wire::StreamId;
use anabranch_wire::chunk::GapAckBlock;

use super::held::Held;
use super::interleaved::Key;
use super::load::RENEGABLE;
use crate::seq::ExtendedTsn;
use crate::seq::{Run, Runs};

/// Where renegable data is stored, if not as a run of fragments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// As a message that waits for its turn: its stream and SSN.
    Waits(StreamId, u16),
    /// As a fragment of a message with interleaving: its FSN.
    Fragment(Key, u64),
}

/// The renegable data: messages that were not delivered and of which no part was delivered, and data that waits for a reset of its stream.
/// The structure finds the highest TSN, or the data of one gap ack block, without visiting all entries. If the receiver never reneges, the
/// sets stay empty and cost nothing.
#[derive(Debug, Default)]
pub(super) struct Renegable {
    pub(super) enabled: bool,
    pub(super) tsns: Runs,
    /// The places by first TSN.
    pub(super) places: BTreeMap<ExtendedTsn, Place>,
}

impl Renegable {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, run: Run) {
        if self.enabled {
            self.tsns.insert(run);
        }
    }

    /// Adds a run that is stored in this place.
    #[inline]
    pub(super) fn add_at(&mut self, run: Run, place: Place) {
        if self.enabled {
            self.tsns.insert(run);
            self.places.insert(run.first, place);
        }
    }

    pub(super) fn remove(&mut self, run: Run) {
        if self.enabled {
            self.tsns.remove(run);
            self.places.remove(&run.first);
        }
    }

    /// Removes a message that waited and is now delivered.
    pub(super) fn remove_message(&mut self, held: &Held) {
        self.remove(Run {
            first: held.first,
            last: (held.first + ExtendedTsn::from(held.chunks)).saturating_sub(1),
        });
    }

    /// The memory in bytes that the sets use.
    pub(super) fn overhead(&self) -> usize {
        if self.enabled {
            RENEGABLE * (self.places.len() + self.tsns.count())
        } else {
            0
        }
    }

    pub(super) fn clear(&mut self) {
        self.tsns.clear();
        self.places.clear();
    }

    /// Sorts the gap ack blocks of an acknowledgement: first the renegable blocks, then the non-renegable ones, at most `most` in all.
    /// Returns the number of renegable blocks.
    pub(super) fn sort(&self, cumulative: ExtendedTsn, most: usize, blocks: &mut Vec<GapAckBlock>) -> usize {
        let kept = self.kept_blocks(cumulative, most, blocks);
        let mut first_kind = Vec::new();
        for told in blocks.drain(..) {
            let renegable = self.tsns.present(told_run(cumulative, told));
            let left = most - first_kind.len();
            first_kind.extend(renegable.take(left).map(|run| block(cumulative, run)));
        }
        let count = first_kind.len();
        blocks.append(&mut first_kind);
        blocks.extend(kept.into_iter().take(most - count));
        count
    }

    /// The first `most` non-renegable blocks of an acknowledgement's gap ack blocks.
    pub(super) fn kept_blocks(
        &self,
        cumulative: ExtendedTsn,
        most: usize,
        blocks: &[GapAckBlock],
    ) -> Vec<GapAckBlock> {
        let told = blocks.iter().map(|told| told_run(cumulative, *told));
        let kept = told.flat_map(|told| self.tsns.missing(told));
        kept.take(most).map(|run| block(cumulative, run)).collect()
    }
}

fn told_run(cumulative: ExtendedTsn, block: GapAckBlock) -> Run {
    Run {
        first: cumulative + ExtendedTsn::from(block.start),
        last: cumulative + ExtendedTsn::from(block.end),
    }
}

fn block(cumulative: ExtendedTsn, run: Run) -> GapAckBlock {
    GapAckBlock {
        start: (run.first - cumulative) as u16,
        end: (run.last - cumulative) as u16,
    }
}
