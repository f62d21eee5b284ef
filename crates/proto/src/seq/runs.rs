//! A set of numbers, kept as runs of consecutive numbers: extended TSNs and transmission numbers.
//!
//! A peer decides how many runs there are and where the next change is. So each operation costs the logarithm of the number of runs, plus
//! the numbers of runs that it changes or returns.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;

/// Consecutive numbers, first and last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Run {
    /// The run of a single number.
    pub(crate) fn of(number: u64) -> Self {
        Self {
            first: number,
            last: number,
        }
    }

    /// How many numbers the run has.
    pub(crate) fn len(self) -> u64 {
        self.last + 1 - self.first
    }
}

/// A set of numbers. Its runs do not touch each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// The last number of each run, by its first.
    by_first: BTreeMap<u64, u64>,
    len: u64,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    /// How many numbers the set has.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// How many runs the set has.
    pub(crate) fn count(&self) -> usize {
        self.by_first.len()
    }

    /// The runs in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.by_first.iter().map(|(&first, &last)| Run { first, last })
    }

    /// The lowest run.
    pub(crate) fn first(&self) -> Option<Run> {
        self.by_first
            .first_key_value()
            .map(|(&first, &last)| Run { first, last })
    }

    /// The highest run.
    pub(crate) fn last(&self) -> Option<Run> {
        self.by_first
            .last_key_value()
            .map(|(&first, &last)| Run { first, last })
    }

    /// The run that a number is in.
    pub(crate) fn run_of(&self, number: u64) -> Option<Run> {
        let (&first, &last) = self.by_first.range(..=number).next_back()?;
        (number <= last).then_some(Run { first, last })
    }

    /// The first and the last number of each run that begins at `number` or later.
    pub(super) fn from(&self, number: u64) -> Range<'_, u64, u64> {
        self.by_first.range(number..)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.run_of(number).is_some()
    }

    /// The numbers of `within` that are in the set, as runs in ascending order.
    pub(crate) fn present(&self, within: Run) -> impl Iterator<Item = Run> + '_ {
        let before = self.run_of(within.first).map(|run| run.first);
        let from = before.unwrap_or(within.first);
        // A range must not end before it begins.
        let runs = self.by_first.range(from..=within.last.max(from));
        runs.filter(move |_| within.first <= within.last)
            .map(move |(&first, &last)| Run {
                first: first.max(within.first),
                last: last.min(within.last),
            })
    }

    /// The numbers of `within` that are not in the set, as runs in ascending order.
    pub(crate) fn missing(&self, within: Run) -> impl Iterator<Item = Run> + '_ {
        let mut present = self.present(within);
        let mut next = Some(within.first).filter(|_| within.first <= within.last);
        core::iter::from_fn(move || {
            loop {
                let first = next?;
                let Some(run) = present.next() else {
                    next = None;
                    return Some(Run {
                        first,
                        last: within.last,
                    });
                };
                next = Some(run.last + 1).filter(|next| *next <= within.last);
                if first < run.first {
                    return Some(Run {
                        first,
                        last: run.first - 1,
                    });
                }
            }
        })
    }

    /// Adds a run, of which some numbers may be in the set already.
    pub(crate) fn insert(&mut self, run: Run) {
        // The common case: the run is the highest.
        if let Some(mut highest) = self.by_first.last_entry()
            && *highest.get() + 1 == run.first
        {
            self.len += run.len();
            *highest.get_mut() = run.last;
            return;
        }
        let mut whole = run;
        while let Some((&first, &last)) = self.by_first.range(..=whole.last + 1).next_back()
            && last + 1 >= whole.first
        {
            self.by_first.remove(&first);
            self.len -= last + 1 - first;
            whole.first = whole.first.min(first);
            whole.last = whole.last.max(last);
        }
        self.len += whole.len();
        self.by_first.insert(whole.first, whole.last);
    }

    /// Removes a run, of which some numbers may not be in the set.
    pub(crate) fn remove(&mut self, run: Run) {
        loop {
            let there = self.present(run).next();
            let whole = there.and_then(|there| self.run_of(there.first));
            let Some((there, whole)) = there.zip(whole) else {
                return;
            };
            self.by_first.remove(&whole.first);
            self.len -= there.len();
            if whole.first < there.first {
                self.by_first.insert(whole.first, there.first - 1);
            }
            if there.last < whole.last {
                self.by_first.insert(there.last + 1, whole.last);
            }
        }
    }

    /// Removes all numbers below `number`.
    pub(crate) fn remove_below(&mut self, number: u64) {
        while let Some(lowest) = self.by_first.first_entry()
            && *lowest.key() < number
        {
            let (first, last) = lowest.remove_entry();
            self.len -= last + 1 - first;
            if last >= number {
                self.by_first.insert(number, last);
                self.len += last + 1 - number;
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.by_first.clear();
        self.len = 0;
    }
}

/// Writes the union of `these` and `those` to `all`, as maximal runs. Both are in ascending order and do not touch each other.
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

/// Calls `each` with every maximal run that is in `these` and not in `those`. Both are in ascending order and do not touch each other.
pub(crate) fn difference(these: &[Run], those: &[Run], mut each: impl FnMut(Run)) {
    let mut others = those.iter().peekable();
    for run in these {
        let mut first = run.first;
        while others.next_if(|other| other.last < first).is_some() {}
        // An `other` may reach beyond this run into the next one, so it is not removed yet.
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(runs: impl Iterator<Item = Run>) -> Vec<u64> {
        runs.flat_map(|run| run.first..=run.last).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in proptest::collection::vec((0..4_u8, 0..60_u64, 0..8_u64), 0..80)) {
            let mut runs = Runs::default();
            let mut model = BTreeSet::new();
            for (step, first, more) in steps {
                let run = Run { first, last: first + more };
                let of_run = first..=first + more;
                let there: Vec<_> = of_run.clone().filter(|number| model.contains(number)).collect();
                let not_there: Vec<_> = of_run.clone().filter(|number| !model.contains(number)).collect();
                prop_assert_eq!(numbers(runs.present(run)), there);
                prop_assert_eq!(numbers(runs.missing(run)), not_there);
                match step {
                    0 | 1 => {
                        runs.insert(run);
                        model.extend(of_run);
                    }
                    2 => {
                        runs.remove(run);
                        model.retain(|number| !of_run.contains(number));
                    }
                    _ => {
                        runs.remove_below(first.saturating_sub(30));
                        model.retain(|number| *number >= first.saturating_sub(30));
                    }
                }
                prop_assert_eq!(numbers(runs.iter()), Vec::from_iter(model.iter().copied()));
                let all = Vec::from_iter(runs.iter());
                prop_assert!(all.windows(2).all(|pair| pair[0].last + 1 < pair[1].first), "apart: {:?}", all);
                prop_assert_eq!((runs.len(), runs.count()), (model.len() as u64, all.len()));
                prop_assert_eq!((runs.first(), runs.last()), (all.first().copied(), all.last().copied()));
                prop_assert_eq!(runs.contains(first), model.contains(&first));
            }
        }
    }

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
}
