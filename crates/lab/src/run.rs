//! Runs the cells of an experiment, each with each seed, on several threads. Every run is alone in its own network, and
//! results stand in the order of cells and seeds: they are the same whatever the number of jobs.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::experiment::{Cell, Experiment, Extent};
use crate::known::Known;
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
    /// What stands in every row of results: which code made them.
    pub version: &'a str,
}

/// Runs an experiment, but for what is `known` already, to which all that is done is added. `progress` is told how many of
/// how many runs are done, from any thread; once `stop` is set, no further run begins, and the answer is `None`.
pub fn run(
    experiment: &Experiment,
    plan: &Plan<'_>,
    known: &mut Known,
    stop: &AtomicBool,
    progress: impl Fn(usize, usize) + Sync,
) -> Option<Results> {
    let cells: Vec<Cell> = (experiment.cells)(plan.extent)
        .into_iter()
        .filter(|cell| cell.lies_at(plan.only))
        .collect();
    let seeds: Vec<u64> = (1..=plan.seeds).collect();
    let runs = cells
        .iter()
        .flat_map(|cell| seeds.iter().map(move |seed| (cell, *seed)));
    let to_do: Vec<(&Cell, u64)> = runs
        .filter(|(cell, seed)| known.get(cell, *seed).is_none())
        .collect();
    let total = cells.len() * seeds.len();
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(total - to_do.len()));
    progress(total - to_do.len(), total);
    let done = Mutex::new(&mut *known);
    thread::scope(|scope| {
        for _ in 0..plan.jobs.min(to_do.len()) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let Some((cell, seed)) = to_do.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let numbers = cell.run(*seed);
                    assert_eq!(
                        numbers.len(),
                        experiment.metrics.len(),
                        "a number for each metric"
                    );
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .note(cell, *seed, numbers);
                    progress(finished.fetch_add(1, Ordering::Relaxed) + 1, total);
                }
            });
        }
    });
    let cells = cells.iter().map(|cell| {
        let runs = seeds.iter().map(|seed| known.get(cell, *seed).cloned());
        Some(CellResults {
            coordinates: cell.coordinates().to_vec(),
            runs: runs.collect::<Option<_>>()?,
        })
    });
    let cells = cells.collect::<Option<_>>()?;
    Some(Results::new(experiment, plan, seeds, cells))
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

    fn plan<'a>(jobs: usize, only: &'a [(&'a str, &'a str)]) -> Plan<'a> {
        Plan {
            extent: Extent::Quick,
            seeds: 2,
            jobs,
            only,
            version: "1.0",
        }
    }

    fn results(jobs: usize, only: &[(&str, &str)]) -> Results {
        let (mut known, stop) = (Known::default(), AtomicBool::new(false));
        run(&experiment(), &plan(jobs, only), &mut known, &stop, |_, _| {}).unwrap()
    }

    /// What was interrupted is written, read and gone on with: no run is made twice, and the file is the same in the end.
    #[test]
    fn what_is_known_is_not_run_again() {
        let (experiment, stop) = (experiment(), AtomicBool::new(false));
        let mut known = Known::default();
        let interrupted = |done: usize, _| stop.store(done >= 3, Ordering::Relaxed);
        assert_eq!(
            run(&experiment, &plan(1, &[]), &mut known, &stop, interrupted),
            None
        );
        assert_eq!(known.len(), 3);
        let file = known.to_csv(&experiment, Extent::Quick, "1.0");
        let read = |version, file: &str| Known::from_csv(&experiment, Extent::Quick, version, file);
        // A number that is none is not equal to itself: the text is compared.
        let mut again = read("1.0", &file).unwrap();
        assert_eq!(again.to_csv(&experiment, Extent::Quick, "1.0"), file);
        assert!(read("1.1", &file).unwrap().is_empty(), "of another version");
        stop.store(false, Ordering::Relaxed);
        let least = AtomicUsize::new(usize::MAX);
        let note = |done: usize, _| {
            least.fetch_min(done, Ordering::Relaxed);
        };
        let results = run(&experiment, &plan(2, &[]), &mut again, &stop, note).unwrap();
        assert_eq!(least.into_inner(), 3, "it begins with what is known");
        let whole = super::tests::results(1, &[]).to_csv();
        assert_eq!(results.to_csv(), whole);
        assert_eq!(again.to_csv(&experiment, Extent::Quick, "1.0"), whole);
        for (file, line) in [
            ("", 1),
            ("experiment,seed", 1),
            (file.replace(",5,", ",five,5,").as_str(), 2),
        ] {
            assert_eq!(read("1.0", file).unwrap_err().line, line, "{file}");
        }
        let odd = file.replacen(",quick,1,", ",quick,one,", 1);
        assert_eq!(read("1.0", &odd).unwrap_err().problem, "its seed is no number");
    }

    #[test]
    fn jobs_change_nothing() {
        let csv = results(1, &[]).to_csv();
        assert_eq!(results(3, &[]).to_csv(), csv);
        assert_eq!(results(64, &[]).to_csv(), csv);
        let row = |line: &str| format!("toy,1.0,quick,{line}");
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
}
