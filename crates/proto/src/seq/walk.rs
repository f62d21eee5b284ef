//! Questions to a set about many runs, in ascending order.

use std::collections::btree_map::Range;

use super::{Run, Runs};

/// How many runs of the set the walk passes one by one before it searches.
const NEAR: usize = 4;

/// Answers questions about runs in ascending order. A question about a place nearby costs a few instructions, any other one a search as in
/// [`Runs::run_of`]: an acknowledgement has hundreds of gap ack blocks if paths differ in delay, and all but the last ones are known.
pub(crate) struct Walk<'a> {
    runs: &'a Runs,
    rest: Range<'a, u64, u64>,
    /// The lowest run that the walk has not passed.
    next: Option<Run>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(runs: &'a Runs) -> Self {
        let mut walk = Self {
            runs,
            rest: runs.from(0),
            next: None,
        };
        walk.step();
        walk
    }

    fn step(&mut self) {
        self.next = self.rest.next().map(|(&first, &last)| Run { first, last });
    }

    /// The lowest run that ends at this number or later.
    fn reach(&mut self, number: u64) -> Option<Run> {
        for _ in 0..NEAR {
            if self.next?.last >= number {
                return self.next;
            }
            self.step();
        }
        if self.next?.last < number {
            let there = self.runs.run_of(number).map_or(number, |run| run.first);
            self.rest = self.runs.from(there);
            self.step();
        }
        self.next
    }

    /// Whether all numbers of a run are in the set.
    pub(crate) fn has_all(&mut self, run: Run) -> bool {
        self.reach(run.first)
            .is_some_and(|own| own.first <= run.first && run.last <= own.last)
    }

    /// Whether any number of a run is in the set.
    pub(crate) fn has_any(&mut self, run: Run) -> bool {
        run.first <= run.last && self.reach(run.first).is_some_and(|own| own.first <= run.last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::{btree_map, btree_set};
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    #[test]
    fn agrees_with_searches() {
        let numbers = btree_set(0..200_u64, 0..120);
        let questions = btree_map(0..220_u64, 0..30_u64, 0..80);
        let agree = |(numbers, questions): (_, _)| {
            let mut runs = Runs::default();
            BTreeSet::into_iter(numbers).for_each(|number| runs.insert(Run::of(number)));
            let (mut all, mut any) = (Walk::new(&runs), Walk::new(&runs));
            for (first, more) in BTreeMap::into_iter(questions) {
                let run = Run {
                    first,
                    last: first + more,
                };
                prop_assert_eq!(all.has_all(run), runs.missing(run).next().is_none(), "{:?}", run);
                prop_assert_eq!(any.has_any(run), runs.present(run).next().is_some(), "{:?}", run);
            }
            Ok(())
        };
        TestRunner::default()
            .run(&(numbers, questions), agree)
            .expect("they agree");
    }
}
