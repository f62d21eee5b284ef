//! Owns the TSNs that have arrived (RFC 9260 §6.2): the cumulative TSN ack point, the runs above it, and duplicates. ECA-SCTP tracks the
//! transmissions of each path in the same way, by their extended PSNs.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::GapAckBlock;

use crate::seq::{ExtendedTsn, Run, Runs, extend_tsn, first_extended_tsn};

/// A gap ack block has 16-bit offsets (§3.3.4): no TSN further ahead is kept or acknowledged.
pub(super) const MAX_AHEAD: u64 = 65_535;

/// The most duplicates stored for the next SACK; more would be of no use to the sender.
const MOST_DUPLICATES: usize = 64;

/// The position of a TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    New(ExtendedTsn),
    Duplicate,
    OutOfRange,
}

/// The TSNs of one direction, or the PSNs of one path.
#[derive(Debug)]
pub(crate) struct TsnTracker {
    /// All TSNs up to this one have arrived.
    cumulative: ExtendedTsn,
    /// The TSNs above `cumulative` that have arrived.
    above: Runs,
    duplicates: Vec<Tsn>,
    /// TSNs that have arrived and whose data waits for a reset of its stream (RFC 6525): reassembly does not have it yet.
    withheld: Runs,
}

impl TsnTracker {
    pub(crate) fn new(initial_tsn: Tsn) -> Self {
        Self {
            cumulative: first_extended_tsn(initial_tsn) - 1,
            above: Runs::default(),
            duplicates: Vec::new(),
            withheld: Runs::default(),
        }
    }

    pub(crate) fn cumulative(&self) -> ExtendedTsn {
        self.cumulative
    }

    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        Tsn(self.cumulative as u32)
    }

    pub(crate) fn has_gaps(&self) -> bool {
        !self.above.is_empty()
    }

    /// The extended TSN of a TSN near the cumulative point.
    pub(crate) fn extend(&self, tsn: Tsn) -> ExtendedTsn {
        extend_tsn(tsn, self.cumulative)
    }

    /// Classifies a TSN; stores a duplicate for the next SACK.
    pub(crate) fn classify(&mut self, tsn: Tsn) -> Arrival {
        let arrival = self.place(self.extend(tsn));
        if arrival == Arrival::Duplicate && self.duplicates.len() < MOST_DUPLICATES {
            self.duplicates.push(tsn);
        }
        arrival
    }

    /// The position of an extended TSN.
    pub(crate) fn place(&self, tsn: ExtendedTsn) -> Arrival {
        if self.contains(tsn) {
            Arrival::Duplicate
        } else if tsn > self.cumulative + MAX_AHEAD {
            Arrival::OutOfRange
        } else {
            Arrival::New(tsn)
        }
    }

    /// Number of runs above the cumulative TSN.
    pub(crate) fn runs(&self) -> usize {
        self.above.count()
    }

    /// Whether a new TSN would extend a run instead of starting another.
    pub(crate) fn touches(&self, tsn: ExtendedTsn) -> bool {
        self.contains(tsn - 1) || self.contains(tsn + 1)
    }

    /// Whether a TSN has arrived.
    pub(crate) fn contains(&self, tsn: ExtendedTsn) -> bool {
        // If the next TSN had arrived, the cumulative TSN would have moved.
        if tsn <= self.cumulative + 1 {
            return tsn <= self.cumulative;
        }
        self.above.contains(tsn)
    }

    /// Whether reassembly has had the data of a TSN, or never will.
    pub(crate) fn is_processed(&self, tsn: ExtendedTsn) -> bool {
        self.contains(tsn) && (self.withheld.is_empty() || !self.withheld.contains(tsn))
    }

    /// The data of a TSN that has arrived waits.
    pub(crate) fn withhold(&mut self, tsn: ExtendedTsn) {
        self.withheld.insert(Run::of(tsn));
    }

    /// The data of a TSN waits no more.
    pub(crate) fn process(&mut self, tsn: ExtendedTsn) {
        self.withheld.remove(Run::of(tsn));
    }

    /// Records a new TSN.
    pub(crate) fn record(&mut self, tsn: ExtendedTsn) {
        if tsn == self.cumulative + 1 {
            self.cumulative = tsn;
            self.climb();
        } else {
            self.above.insert(Run::of(tsn));
        }
    }

    /// Moves the cumulative TSN over the arrived TSNs that follow it.
    fn climb(&mut self) {
        // This is nearly always the case.
        if self.above.is_empty() {
            return;
        }
        if let Some(run) = self.above.run_of(self.cumulative + 1) {
            self.cumulative = run.last;
        }
        self.above.remove_below(self.cumulative + 1);
    }

    /// TSNs up to `tsn` count as arrived (RFC 3758 §3.6). Returns how far `tsn` was ahead of the cumulative TSN; `None` if it was not
    /// ahead.
    pub(crate) fn skip_to(&mut self, tsn: ExtendedTsn) -> Option<u64> {
        if tsn <= self.cumulative {
            return None;
        }
        let ahead = tsn - self.cumulative;
        self.cumulative = tsn;
        self.climb();
        Some(ahead)
    }

    /// A run above the cumulative TSN counts as arrived.
    pub(crate) fn skip(&mut self, run: Run) {
        self.above.insert(run);
        self.climb();
    }

    /// The peer continues with this TSN (RFC 6525 §5.2.4, §5.2.7 H5). If it is close behind the next missing one, chunks from it on have
    /// arrived already, and nothing changes. Otherwise no lower TSN will arrive. Extended TSNs never decrease.
    pub(crate) fn continue_at(&mut self, tsn: Tsn) {
        let behind = (self.cumulative as u32).wrapping_add(1).wrapping_sub(tsn.0);
        if u64::from(behind) <= MAX_AHEAD {
            return;
        }
        let ahead = u64::from(behind.wrapping_neg());
        self.duplicates.clear();
        if ahead > MAX_AHEAD {
            self.above.clear();
            self.withheld.clear();
            self.cumulative += ahead;
        } else {
            self.skip_to(self.cumulative + ahead);
        }
    }

    /// Whether a TSN is missing, and a gap ack block could report its arrival.
    pub(crate) fn is_missing(&self, tsn: ExtendedTsn) -> bool {
        matches!(self.place(tsn), Arrival::New(_))
    }

    /// A run of TSNs above the cumulative TSN was dropped (§6.2).
    pub(crate) fn renege(&mut self, run: Run) {
        self.above.remove(run);
    }

    /// Appends the gap ack blocks to `blocks`, at most `most` of them.
    pub(crate) fn gap_blocks(&self, most: usize, blocks: &mut Vec<GapAckBlock>) {
        let offset = |tsn: ExtendedTsn| (tsn - self.cumulative) as u16;
        let runs = self.above.iter().take(most);
        blocks.extend(runs.map(|run| GapAckBlock {
            start: offset(run.first),
            end: offset(run.last),
        }));
    }

    /// Moves the duplicates since the last call to `duplicates`, at most `most` of them.
    pub(crate) fn take_duplicates(&mut self, most: usize, duplicates: &mut Vec<Tsn>) {
        duplicates.extend(self.duplicates.drain(..).take(most));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn blocks(tracker: &TsnTracker) -> Vec<(u16, u16)> {
        let mut blocks = Vec::new();
        tracker.gap_blocks(usize::MAX, &mut blocks);
        blocks.iter().map(|block| (block.start, block.end)).collect()
    }

    fn arrive(tracker: &mut TsnTracker, tsn: u32) -> Arrival {
        let arrival = tracker.classify(Tsn(tsn));
        if let Arrival::New(tsn) = arrival {
            tracker.record(tsn);
        }
        arrival
    }

    #[test]
    fn gaps_open_and_close_across_the_wrap() {
        let mut tracker = TsnTracker::new(Tsn(u32::MAX - 1));
        assert_eq!(tracker.cumulative_tsn(), Tsn(u32::MAX - 2));
        arrive(&mut tracker, 1);
        arrive(&mut tracker, u32::MAX);
        assert_eq!(blocks(&tracker), [(2, 2), (4, 4)]);
        arrive(&mut tracker, 0);
        assert_eq!(blocks(&tracker), [(2, 4)]);
        assert_eq!(arrive(&mut tracker, 0), Arrival::Duplicate);
        arrive(&mut tracker, u32::MAX - 1);
        assert_eq!((tracker.cumulative_tsn(), blocks(&tracker)), (Tsn(1), vec![]));
        let mut duplicates = Vec::new();
        tracker.take_duplicates(9, &mut duplicates);
        assert_eq!(duplicates, [Tsn(0)]);
    }

    #[test]
    fn nothing_beyond_what_a_gap_block_can_tell() {
        let mut tracker = TsnTracker::new(Tsn(1));
        assert_eq!(arrive(&mut tracker, 65_536), Arrival::OutOfRange);
        assert!(matches!(arrive(&mut tracker, 65_535), Arrival::New(_)));
        assert_eq!(blocks(&tracker), [(65_535, 65_535)]);
        assert_eq!(arrive(&mut tracker, 0x7FFF_FFFF), Arrival::OutOfRange);
        assert_eq!(
            arrive(&mut tracker, 0x8000_0001),
            Arrival::Duplicate,
            "half the numbers are old"
        );
    }

    proptest! {
        #[test]
        fn skipping_and_reneging_agree_with_a_set(
            start: u32,
            steps in proptest::collection::vec((0..5_u8, 0..40_u64, 0..4_u64), 0..120),
        ) {
            let mut tracker = TsnTracker::new(Tsn(start));
            let mut cumulative = tracker.cumulative();
            let mut above = BTreeSet::new();
            for (step, offset, more) in steps {
                let tsn = cumulative.saturating_sub(10) + offset;
                prop_assert_eq!(tracker.extend(Tsn(tsn as u32)), tsn);
                prop_assert_eq!(tracker.is_missing(tsn), tsn > cumulative && !above.contains(&tsn));
                match step {
                    0 => {
                        let ahead = (tsn > cumulative).then(|| tsn - cumulative);
                        prop_assert_eq!(tracker.skip_to(tsn), ahead);
                        cumulative = cumulative.max(tsn);
                    }
                    1 if tsn > cumulative => {
                        tracker.renege(Run { first: tsn, last: tsn + more });
                        above.retain(|arrived| !(tsn..=tsn + more).contains(arrived));
                    }
                    _ => {
                        let arrival = tracker.place(tsn);
                        if let Arrival::New(tsn) = arrival {
                            tracker.record(tsn);
                        }
                        let is_new = tsn > cumulative && above.insert(tsn);
                        prop_assert_eq!(arrival, if is_new { Arrival::New(tsn) } else { Arrival::Duplicate });
                    }
                }
                above.retain(|arrived| *arrived > cumulative);
                while above.remove(&(cumulative + 1)) {
                    cumulative += 1;
                }
                prop_assert_eq!(tracker.cumulative(), cumulative);
                let told = blocks(&tracker).into_iter().flat_map(|(first, last)| first..=last);
                let told: Vec<_> = told.map(|offset| cumulative + u64::from(offset)).collect();
                prop_assert_eq!(told, Vec::from_iter(above.iter().copied()));
            }
        }

        #[test]
        fn agrees_with_a_set(start: u32, offsets in proptest::collection::vec(0_u32..80, 0..200)) {
            let mut tracker = TsnTracker::new(Tsn(start));
            let mut model = BTreeSet::new();
            for offset in offsets {
                let expected = model.insert(offset);
                let arrival = arrive(&mut tracker, start.wrapping_add(offset));
                prop_assert_eq!(matches!(arrival, Arrival::New(_)), expected);
                let below = (0..).take_while(|number| model.contains(number)).count() as u32;
                prop_assert_eq!(tracker.cumulative_tsn(), Tsn(start.wrapping_add(below).wrapping_sub(1)));
                let mut listed = BTreeSet::from_iter(0..below);
                for (first, last) in blocks(&tracker) {
                    listed.extend((first..=last).map(|offset| below + u32::from(offset) - 1));
                }
                prop_assert_eq!(&listed, &model);
            }
        }
    }
}
