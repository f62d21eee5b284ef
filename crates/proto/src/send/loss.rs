//! Which chunks acknowledgements report missing, counted by intervals (RFC 9260 §7.2.4): a SACK costs its gap blocks,
//! never the window.

use crate::runs::{Run, Runs};

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

/// Writes the maximal runs of what is in `these` or in `those` to `all`; each in order and apart.
pub(crate) fn union(these: &[Run], those: &[Run], all: &mut Vec<Run>) {
    all.clear();
    let (mut these, mut those) = (these.iter().peekable(), those.iter().peekable());
    loop {
        let next = match (these.peek(), those.peek()) {
            (Some(one), Some(other)) if one.first <= other.first => these.next(),
            (_, Some(_)) => those.next(),
            (Some(_), None) => these.next(),
            (None, None) => return,
        };
        let Some(next) = next else { return };
        match all.last_mut() {
            Some(run) if next.first <= run.last + 1 => run.last = run.last.max(next.last),
            _ => all.push(*next),
        }
    }
}

/// Calls `each` with every maximal run that is in `these` and not in `those`; both in order and apart.
pub(crate) fn difference(these: &[Run], those: &[Run], mut each: impl FnMut(Run)) {
    let mut others = those.iter().peekable();
    for run in these {
        let mut first = run.first;
        while others.next_if(|other| other.last < first).is_some() {}
        // An `other` may reach beyond this run into the next: it is looked at, not taken.
        let mut ahead = others.clone();
        while let Some(other) = ahead.next_if(|other| other.first <= run.last) {
            if first < other.first {
                each(Run {
                    first,
                    last: other.first - 1,
                });
            }
            first = other.last + 1;
            if other.last <= run.last {
                others.next();
            }
        }
        if first <= run.last {
            each(Run {
                first,
                last: run.last,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pairs: &[(u64, u64)]) -> Vec<Run> {
        pairs.iter().map(|&(first, last)| Run { first, last }).collect()
    }

    fn minus(these: &[(u64, u64)], those: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut result = Vec::new();
        difference(&runs(these), &runs(those), |run| {
            result.push((run.first, run.last))
        });
        result
    }

    #[test]
    fn difference_of_runs() {
        assert_eq!(minus(&[(3, 9)], &[]), [(3, 9)]);
        assert_eq!(minus(&[(3, 9)], &[(1, 20)]), []);
        assert_eq!(minus(&[(3, 9)], &[(5, 6)]), [(3, 4), (7, 9)]);
        assert_eq!(minus(&[(3, 9), (12, 15)], &[(8, 13)]), [(3, 7), (14, 15)]);
        assert_eq!(
            minus(&[(3, 9), (12, 15)], &[(1, 2), (4, 4), (6, 6), (15, 30)]),
            [(3, 3), (5, 5), (7, 9), (12, 14)]
        );
    }

    #[test]
    fn difference_and_union_agree_with_sets() {
        // All pairs of subsets of eight numbers.
        let to_runs = |bits: u32| {
            let mut result: Vec<Run> = Vec::new();
            for number in (0..8).filter(|n| bits >> n & 1 == 1) {
                match result.last_mut() {
                    Some(run) if run.last + 1 == number => run.last = number,
                    _ => result.push(Run {
                        first: number,
                        last: number,
                    }),
                }
            }
            result
        };
        for these in 0..256_u32 {
            for those in 0..256_u32 {
                let mut found = Vec::new();
                difference(&to_runs(these), &to_runs(those), |run| found.push(run));
                assert_eq!(found, to_runs(these & !those), "{these:b} {those:b}");
                union(&to_runs(these), &to_runs(those), &mut found);
                assert_eq!(found, to_runs(these | those), "{these:b} {those:b}");
            }
        }
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
