//! Fast retransmit by missing reports (RFC 9260 §7.2.4), in the order of TSNs, whatever path a chunk took. Reports are counted by
//! intervals, so the cost of a SACK is its number of gap ack blocks and not the window.

use crate::seq::{Run, Runs};

/// Counts missing reports. A report covers every missing chunk below an extended TSN, the highest newly acknowledged one (HTNA). So a
/// chunk has n missing reports if the n-th highest of these extended TSNs is above its own, and needs no counter.
///
/// A chunk that left after a report is above its extended TSN, because a report ends at a chunk that had arrived.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// The highest extended TSNs of reports, as many as are needed for a loss, in ascending order.
    highest: Vec<u64>,
    /// Chunks below were declared lost once: no second time (§7.2.4 step 5).
    judged: u64,
    /// The report of this acknowledgement covers missing chunks below this extended TSN.
    below: u64,
}

impl Reports {
    /// Notes which chunks an acknowledgement reports missing, by the HTNA rule of §7.2.4; returns false if it can report none. If `all`, an
    /// acknowledgement that newly acknowledges nothing is a report too: in fast recovery, if the cumulative TSN moved.
    pub(crate) fn note(&mut self, highest_newly_acked: Option<u64>, all: bool, acked: &Runs) -> bool {
        let highest = acked.last().map(|run| run.last);
        let below = if all { highest } else { highest_newly_acked };
        self.below = below.unwrap_or_default();
        below.is_some() && highest.is_some()
    }

    /// The chunks that this acknowledgement reports missing and that may still be declared lost.
    pub(crate) fn reported(&self, base: u64, acked: &Runs) -> impl Iterator<Item = Run> {
        self.open(self.below, base, acked)
    }

    /// Passes to `lost` the chunks that have `needed` missing reports with this acknowledgement. Each is passed once.
    pub(crate) fn take_lost(&mut self, needed: u8, base: u64, acked: &Runs, lost: impl FnMut(Run)) {
        self.count(self.below, needed, base, acked, lost);
    }

    /// Counts a report of the chunks below `below` that are not `acked`, and passes to `lost` the runs that have `needed` reports with
    /// it. `base` is the first extended TSN that is not cumulatively acknowledged.
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

    /// The chunks below `below` that are not `acked` and may still be declared lost by missing reports.
    fn open(&self, below: u64, base: u64, acked: &Runs) -> impl Iterator<Item = Run> {
        let within = Run {
            first: self.judged.max(base),
            last: below.saturating_sub(1),
        };
        acked.missing(within)
    }

    /// Forgets all reports, after T3-rtx: a retransmission may be declared lost by new reports.
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
