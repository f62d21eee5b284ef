//! Which chunks acknowledgements report missing, counted by intervals (RFC 9260 §7.2.4): a SACK costs its gap blocks,
//! never the window.

/// A run of chunks, first and last index included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Run {
    /// One chunk.
    pub(crate) fn of(index: u64) -> Self {
        Self {
            first: index,
            last: index,
        }
    }
}

/// A run of chunks that are not acknowledged though later ones are. All of it has been reported missing equally
/// often, because a report names every hole below the highest chunk it newly acknowledges, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) run: Run,
    /// Missing reports so far.
    pub(crate) reports: u8,
    /// Whether its chunks were declared lost for those reports: no second time (§7.2.4 step 5).
    pub(crate) declared: bool,
}

/// The holes between the cumulative TSN ack point and the highest gap-acknowledged TSN, in order.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    holes: Vec<Hole>,
    before: Vec<Hole>,
}

impl Holes {
    /// Makes the holes anew from the runs that are gap-acknowledged now (in order), keeping the count of the hole
    /// each lies in. `base` is the first index that is not cumulatively acknowledged.
    pub(crate) fn update(&mut self, base: u64, acked: &[Run]) {
        core::mem::swap(&mut self.holes, &mut self.before);
        self.holes.clear();
        let mut old = self.before.iter().peekable();
        let mut first = base;
        for run in acked {
            if first < run.first {
                let missing = Run {
                    first,
                    last: run.first - 1,
                };
                while old.next_if(|hole| hole.run.last < missing.first).is_some() {}
                let from = old.peek().filter(|hole| hole.run.first <= missing.last);
                self.holes.push(Hole {
                    run: missing,
                    reports: from.map_or(0, |hole| hole.reports),
                    declared: from.is_some_and(|hole| hole.declared),
                });
            }
            first = run.last + 1;
        }
    }

    /// Hands every hole below `below` whose chunks may still be declared lost by reports.
    pub(crate) fn each_open(&self, below: u64, mut each: impl FnMut(Run)) {
        let holes = self.holes.iter().take_while(|hole| hole.run.last < below);
        holes
            .filter(|hole| !hole.declared)
            .for_each(|hole| each(hole.run));
    }

    /// Counts one report against every hole below `below` and hands those to `lost` that reach `limit` by it.
    pub(crate) fn count_report(&mut self, below: u64, limit: u8, mut lost: impl FnMut(Run)) {
        for hole in self.holes.iter_mut().take_while(|hole| hole.run.last < below) {
            hole.reports = hole.reports.saturating_add(1);
            if hole.reports >= limit && !hole.declared {
                hole.declared = true;
                lost(hole.run);
            }
        }
    }

    /// Forgets all counts, as after T3-rtx: what is sent again is judged anew.
    pub(crate) fn reset_counts(&mut self) {
        for hole in &mut self.holes {
            hole.reports = 0;
            hole.declared = false;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.holes.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holes.is_empty()
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

    #[test]
    fn holes_keep_their_counts_when_they_shrink() {
        let mut holes = Holes::default();
        holes.update(10, &runs(&[(13, 14)]));
        let mut lost = Vec::new();
        holes.count_report(15, 3, |run| lost.push(run));
        holes.update(10, &runs(&[(11, 11), (13, 16)]));
        holes.count_report(17, 3, |run| lost.push(run));
        assert!(lost.is_empty());
        holes.update(10, &runs(&[(11, 11), (13, 16), (18, 18)]));
        holes.count_report(19, 3, |run| lost.push(run));
        assert_eq!(lost, runs(&[(10, 10), (12, 12)]), "17 was reported once");
        holes.count_report(19, 3, |run| lost.push(run));
        holes.count_report(19, 3, |run| lost.push(run));
        assert_eq!(lost, runs(&[(10, 10), (12, 12), (17, 17)]), "each once");
    }

    #[test]
    fn reports_count_only_below_the_highest_newly_acknowledged() {
        let mut holes = Holes::default();
        holes.update(1, &runs(&[(3, 3), (5, 5)]));
        let mut lost = Vec::new();
        holes.count_report(3, 1, |run| lost.push(run));
        assert_eq!(lost, runs(&[(1, 2)]));
    }
}
