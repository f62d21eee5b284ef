//! Which chunks acknowledgements report missing, counted by intervals (RFC 9260 §7.2.4): a SACK costs its gap blocks,
//! never the window.

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
}

impl Reports {
    /// Counts a report of what lies below `below` and is not `acked`, and hands those runs to `lost` that have `needed` reports
    /// by it. `base` is the first index that is not cumulatively acknowledged.
    pub(crate) fn count(
        &mut self,
        below: u64,
        needed: u8,
        base: u64,
        acked: &Runs,
        mut lost: impl FnMut(Run),
    ) {
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
    pub(crate) fn open(&self, below: u64, base: u64, acked: &Runs) -> impl Iterator<Item = Run> {
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
