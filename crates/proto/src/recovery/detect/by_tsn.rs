//! Missing reports in the order of TSNs, whichever path a chunk took (RFC 9260 §7.2.4), counted by intervals: a SACK costs its
//! gap ack blocks, never the window.

use crate::seq::{Run, Runs};

/// The reports of missing chunks. Each names all chunks below an index that are missing, so that a chunk has been reported n times
/// if the n-th highest of these indexes is above it: chunks and holes between them need no counters.
///
/// A chunk that left after a report lies above its index, because a report's index is that of a chunk that arrived.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// The highest indexes of reports, as many as make a loss; rising.
    highest: Vec<u64>,
    /// What lies below was reported often enough once: no second time (§7.2.4 step 5).
    judged: u64,
    /// What the acknowledgement at hand reports missing lies below this index.
    below: u64,
}

impl Reports {
    /// Notes what an acknowledgement reports missing, by the HTNA rule; answers whether that may be anything. `all` says
    /// that an acknowledgement which newly acknowledges nothing is a report too: in fast recovery, if the cumulative TSN moved.
    pub(crate) fn note(&mut self, highest_newly_acked: Option<u64>, all: bool, acked: &Runs) -> bool {
        let highest = acked.last().map(|run| run.last);
        let below = if all { highest } else { highest_newly_acked };
        self.below = below.unwrap_or_default();
        below.is_some() && highest.is_some()
    }

    /// What the acknowledgement at hand reports missing and may still be declared lost.
    pub(crate) fn reported(&self, base: u64, acked: &Runs) -> impl Iterator<Item = Run> {
        self.open(self.below, base, acked)
    }

    /// Hands over what has been reported missing `needed` times with the acknowledgement at hand, once.
    pub(crate) fn take_lost(&mut self, needed: u8, base: u64, acked: &Runs, lost: impl FnMut(Run)) {
        self.count(self.below, needed, base, acked, lost);
    }

    /// Counts a report of what lies below `below` and is not `acked`, and hands those runs to `lost` that have `needed` reports
    /// by it. `base` is the first index that is not cumulatively acknowledged.
    fn count(&mut self, below: u64, needed: u8, base: u64, acked: &Runs, mut lost: impl FnMut(Run)) {
        let at = self.highest.partition_point(|known| *known <= below);
        self.highest.insert(at, below);
        let Some(spare) = self.highest.len().checked_sub(usize::from(needed.max(1))) else {
            return;
        };
        self.highest.drain(..spare);
        let enough = self.highest[0];
        for run in self.open(enough, base, acked) {
            lost(run);
        }
        self.judged = self.judged.max(enough);
    }

    /// What lies below `below`, is not `acked` and may still be declared lost by reports.
    fn open(&self, below: u64, base: u64, acked: &Runs) -> impl Iterator<Item = Run> {
        let within = Run {
            first: self.judged.max(base),
            last: below.saturating_sub(1),
        };
        acked.missing(within)
    }

    /// Forgets all reports, as after T3-rtx: what is sent again is judged anew.
    pub(crate) fn clear(&mut self) {
        self.highest.clear();
        self.judged = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pairs: &[(u64, u64)]) -> Vec<Run> {
        pairs.iter().map(|&(first, last)| Run { first, last }).collect()
    }

    fn set(pairs: &[(u64, u64)]) -> Runs {
        let mut set = Runs::default();
        runs(pairs).into_iter().for_each(|run| set.insert(run));
        set
    }

    #[test]
    fn each_chunk_has_its_own_count() {
        let mut reports = Reports::default();
        let mut lost = Vec::new();
        reports.count(14, 3, 10, &set(&[(13, 14)]), |run| lost.push(run));
        reports.count(16, 3, 10, &set(&[(11, 11), (13, 16)]), |run| lost.push(run));
        assert!(lost.is_empty());
        let acked = set(&[(11, 11), (13, 16), (18, 18)]);
        reports.count(18, 3, 10, &acked, |run| lost.push(run));
        assert_eq!(lost, runs(&[(10, 10), (12, 12)]), "17 was reported once");
        reports.count(18, 3, 10, &acked, |run| lost.push(run));
        reports.count(18, 3, 10, &acked, |run| lost.push(run));
        assert_eq!(lost, runs(&[(10, 10), (12, 12), (17, 17)]), "each once");
    }

    #[test]
    fn reports_count_only_below_the_highest_newly_acknowledged() {
        let mut reports = Reports::default();
        let mut lost = Vec::new();
        reports.count(3, 1, 1, &set(&[(3, 3), (5, 5)]), |run| lost.push(run));
        assert_eq!(lost, runs(&[(1, 2)]));
    }
}
