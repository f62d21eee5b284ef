//! Runs the cells of an experiment, each with each seed, on several threads. Every run is alone in its own network, and
//! results stand in the order of cells and seeds: they are the same whatever the number of jobs.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::experiment::{Cell, Experiment, Extent};
use crate::results::{CellResults, Results};

/// What to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// How much of the experiment.
    pub extent: Extent,
    /// How many seeds for each cell, at least 1: they are 1, 2, 3, …
    pub seeds: u64,
    /// How many runs at a time, at least 1.
    pub jobs: usize,
    /// Only the cells at these places.
    pub only: &'a [(&'a str, &'a str)],
}

/// Runs an experiment. `progress` is told how many of how many runs are done, from any thread; once `stop` is set, no
/// further run begins, and the answer is `None`.
pub fn run(
    experiment: &Experiment,
    plan: &Plan<'_>,
    stop: &AtomicBool,
    progress: impl Fn(usize, usize) + Sync,
) -> Option<Results> {
    let cells: Vec<Cell> = (experiment.cells)(plan.extent)
        .into_iter()
        .filter(|cell| cell.lies_at(plan.only))
        .collect();
    let seeds: Vec<u64> = (1..=plan.seeds).collect();
    let total = cells.len() * seeds.len();
    let done = Mutex::new(vec![None; total]);
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    progress(0, total);
    thread::scope(|scope| {
        for _ in 0..plan.jobs.min(total) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(index / seeds.len()) else {
                        break;
                    };
                    let numbers = cell.run(seeds[index % seeds.len()]);
                    assert_eq!(
                        numbers.len(),
                        experiment.metrics.len(),
                        "a number for each metric"
                    );
                    done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(numbers);
                    progress(finished.fetch_add(1, Ordering::Relaxed) + 1, total);
                }
            });
        }
    });
    let mut numbers = done
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter();
    let cells = cells.iter().map(|cell| {
        Some(CellResults {
            coordinates: cell.coordinates().to_vec(),
            runs: numbers.by_ref().take(seeds.len()).collect::<Option<_>>()?,
        })
    });
    let cells = cells.collect::<Option<_>>()?;
    Some(Results::new(experiment, plan.extent, seeds, cells))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Bound, Claim, Verdict};
    use crate::experiment::{Metric, metric};

    const METRICS: &[Metric] = &[metric("product", "", ""), metric("seed", "s", "")];

    /// Numbers that tell cell and seed; one is missing.
    fn experiment() -> Experiment {
        Experiment {
            name: "toy",
            question: "",
            source: "",
            parameters: &[],
            metrics: METRICS,
            seeds: |_| 2,
            cells: |_| {
                let cell = |(a, b): (u64, u64)| {
                    let coordinates = vec![("a", a.to_string()), ("b", b.to_string())];
                    Cell::new(coordinates, move |seed| {
                        let product = if a == 3 { f64::NAN } else { (a * b * seed) as f64 };
                        vec![product, seed as f64]
                    })
                };
                [(1, 5), (1, 7), (3, 5), (3, 7)].map(cell).into()
            },
            claims: || vec![],
            figures: || vec![],
        }
    }

    fn results(jobs: usize, only: &[(&str, &str)]) -> Results {
        let plan = Plan {
            extent: Extent::Quick,
            seeds: 2,
            jobs,
            only,
        };
        run(&experiment(), &plan, &AtomicBool::new(false), |_, _| {}).unwrap()
    }

    #[test]
    fn jobs_change_nothing() {
        let csv = results(1, &[]).to_csv();
        assert_eq!(results(3, &[]).to_csv(), csv);
        assert_eq!(results(64, &[]).to_csv(), csv);
        let version = crate::VERSION;
        let row = |line: &str| format!("toy,{version},quick,{line}");
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[0], "experiment,version,extent,seed,a,b,product,seed");
        assert_eq!(lines[2], row("2,1,5,10,2"));
        assert_eq!(lines[8], row("2,3,7,,2"), "what is no number is left empty");
    }

    #[test]
    fn places_choose_cells() {
        let results = results(2, &[("b", "7")]);
        assert_eq!(results.cells.len(), 2);
        assert_eq!(results.sample(&[("a", "1")], "product"), Some(vec![7.0, 14.0]));
        assert_eq!(results.sample(&[], "product"), None, "two cells");
        assert_eq!(results.sample(&[("b", "5")], "product"), None, "no cell");
        let ratio = results.ratio(&[("a", "1")], &[("a", "3")], "seed");
        assert_eq!(ratio, Some(vec![1.0, 1.0]));
    }

    #[test]
    fn claims_speak_of_the_numbers_that_there_are() {
        let results = results(2, &[]);
        let verdict = |a: &'static str, b: &'static str| {
            let claim = Claim::new("", "", Bound::AtMost(100.0), move |results| {
                results.sample(&[("a", a), ("b", b)], "product")
            });
            claim.judge(&results).verdict
        };
        assert_eq!(verdict("1", "5"), Verdict::Holds);
        assert_eq!(verdict("3", "5"), Verdict::Fails, "no number confirms nothing");
        assert_eq!(verdict("2", "5"), Verdict::NotRun);
    }

    #[test]
    fn once_stopped_there_are_no_results() {
        let plan = Plan {
            extent: Extent::Quick,
            seeds: 1,
            jobs: 1,
            only: &[],
        };
        let stop = AtomicBool::new(false);
        let stopped = run(&experiment(), &plan, &stop, |done, _| {
            stop.store(done == 2, Ordering::Relaxed)
        });
        assert_eq!(stopped, None);
    }
}
