//! Runs the cells of an experiment with each seed on several threads. Every run has its own network, and results are ordered by cell and
//! seed. The number of jobs therefore does not change the results.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::experiment::{Cell, Experiment, Extent};
use crate::known::{Conditions, Known};
use crate::results::{CellResults, Results};
use crate::trial::Trial;

/// Consecutive seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// The number of seeds, at least 1.
    pub count: u64,
}

impl Seeds {
    /// The seeds 1, 2, 3, …
    #[must_use]
    pub const fn from_one(count: u64) -> Self {
        Self { first: 1, count }
    }

    fn iter(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |place| self.first.saturating_add(place))
    }
}

/// The runs to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The extent and the other conditions that stand in every row of results.
    pub conditions: &'a Conditions,
    /// The seeds of each cell.
    pub seeds: Seeds,
    /// The number of parallel runs, at least 1.
    pub jobs: usize,
    /// Only the cells at these places. Several places on one axis mean any of these places.
    pub only: &'a [(&'a str, &'a str)],
}

/// Runs an experiment except for the runs in `known`, and adds all new runs to `known`. `progress` gets the number of finished runs and of
/// all runs, from any thread. Once `stop` is set, no further run begins and the function returns `None`.
pub fn run(
    experiment: &Experiment,
    plan: &Plan<'_>,
    known: &mut Known,
    stop: &AtomicBool,
    progress: impl Fn(usize, usize) + Sync,
) -> Option<Results> {
    let cells = chosen(experiment, plan);
    let seeds: Vec<u64> = plan.seeds.iter().collect();
    // Seed by seed over all cells: where runs take real time, a busy hour of the machine then affects all cells alike.
    let runs = seeds
        .iter()
        .flat_map(|seed| cells.iter().map(move |cell| (cell, *seed)));
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
                    let Some(numbers) = cell.run(&Trial::new(*seed, &plan.conditions.knobs)) else {
                        break;
                    };
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
    gathered(experiment, plan, &cells, seeds, known)
}

/// The results of the first seeds with which all cells were run; `None` if there are none. For an interrupted experiment.
#[must_use]
pub fn so_far(experiment: &Experiment, plan: &Plan<'_>, known: &Known) -> Option<Results> {
    let cells = chosen(experiment, plan);
    let is_known = |seed: &u64| cells.iter().all(|cell| known.get(cell, *seed).is_some());
    let seeds: Vec<u64> = plan.seeds.iter().take_while(is_known).collect();
    let is_empty = cells.is_empty() || seeds.is_empty();
    (!is_empty).then(|| gathered(experiment, plan, &cells, seeds, known))?
}

/// The cells to be run.
fn chosen(experiment: &Experiment, plan: &Plan<'_>) -> Vec<Cell> {
    selected(experiment, plan.conditions.extent, plan.only)
}

/// The cells of an experiment at these places. A cell lies at one of the places of each named axis; axes that are not named match any place.
#[must_use]
pub fn selected(experiment: &Experiment, extent: Extent, only: &[(&str, &str)]) -> Vec<Cell> {
    let is_on_axis = |cell: &Cell, axis: &str| {
        let places = only.iter().filter(|(name, _)| *name == axis);
        places.into_iter().any(|place| cell.lies_at(&[*place]))
    };
    let cells = (experiment.cells)(extent).into_iter();
    cells
        .filter(|cell| only.iter().all(|(axis, _)| is_on_axis(cell, axis)))
        .collect()
}

/// The results, if all runs are known.
fn gathered(
    experiment: &Experiment,
    plan: &Plan<'_>,
    cells: &[Cell],
    seeds: Vec<u64>,
    known: &Known,
) -> Option<Results> {
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
    use crate::trial::{Knob, Knobs};

    const KNOBS: &[Knob] = &[Knob {
        name: "factor",
        unit: "",
        about: "",
        usual: "1",
        range: (0.0, 10.0),
    }];
    const METRICS: &[Metric] = &[metric("product", "", ""), metric("seed", "s", "")];

    /// An experiment whose numbers identify cell and seed; one number is missing.
    fn experiment() -> Experiment {
        Experiment {
            name: "toy",
            question: "",
            source: "",
            parameters: &[],
            knobs: KNOBS,
            metrics: METRICS,
            seeds: &|_| 2,
            cells: &|_| {
                let cell = |(a, b): (u64, u64)| {
                    let name = if a == 3 {
                        "3, or \"three\"".to_owned()
                    } else {
                        a.to_string()
                    };
                    let coordinates = vec![("a", name), ("b", b.to_string())];
                    Cell::new(coordinates, move |trial| {
                        let seed = trial.seed as f64;
                        let product = trial.knob_or("factor", 1.0) * (a * b) as f64 * seed;
                        vec![if a == 3 { f64::NAN } else { product }, seed]
                    })
                };
                [(1, 5), (1, 7), (3, 5), (3, 7)].map(cell).into()
            },
            claims: &Vec::new,
            figures: &Vec::new,
            timelines: &Vec::new,
        }
    }

    fn conditions(version: &str) -> Conditions {
        Conditions {
            version: version.to_owned(),
            extent: Extent::Quick,
            knobs: Knobs::default(),
        }
    }

    fn plan<'a>(jobs: usize, conditions: &'a Conditions, only: &'a [(&'a str, &'a str)]) -> Plan<'a> {
        Plan {
            conditions,
            seeds: Seeds::from_one(2),
            jobs,
            only,
        }
    }

    fn results(jobs: usize, only: &[(&str, &str)]) -> Results {
        let (mut known, stop) = (Known::default(), AtomicBool::new(false));
        let conditions = conditions("1.0");
        let plan = plan(jobs, &conditions, only);
        run(&experiment(), &plan, &mut known, &stop, |_, _| {}).unwrap()
    }

    #[test]
    fn places_on_one_axis_mean_or_and_places_on_two_axes_mean_and() {
        let count = |only: &[(&str, &str)]| selected(&experiment(), Extent::Quick, only).len();
        assert_eq!(count(&[]), 4);
        assert_eq!(count(&[("a", "1")]), 2);
        assert_eq!(count(&[("b", "5"), ("b", "7")]), 4);
        assert_eq!(count(&[("b", "5"), ("a", "1"), ("b", "7")]), 2);
        assert_eq!(count(&[("a", "1"), ("a", "2")]), 2);
        assert_eq!(count(&[("a", "2")]), 0);
    }

    /// All runs of a seed come before those of the next, so an interrupted experiment has complete seeds.
    #[test]
    fn an_interrupted_experiment_has_results_of_complete_seeds() {
        let (experiment, stop, conditions) = (experiment(), AtomicBool::new(false), conditions("1.0"));
        let (mut known, plan) = (Known::default(), plan(1, &conditions, &[]));
        let interrupted = |done: usize, _| stop.store(done >= 5, Ordering::Relaxed);
        assert_eq!(run(&experiment, &plan, &mut known, &stop, interrupted), None);
        let results = so_far(&experiment, &plan, &known).unwrap();
        assert_eq!((results.seeds.as_slice(), results.cells.len()), (&[1][..], 4));
        assert_eq!(
            results.sample(&[("a", "1"), ("b", "7")], "product"),
            Some(vec![7.0])
        );
    }

    /// An interrupted experiment is written, read and continued: no run is made twice, and the final file is the same.
    #[test]
    fn known_runs_are_not_made_again() {
        let (experiment, stop, conditions) = (experiment(), AtomicBool::new(false), conditions("1.0"));
        let mut known = Known::default();
        let interrupted = |done: usize, _| stop.store(done >= 3, Ordering::Relaxed);
        let one_job = plan(1, &conditions, &[]);
        assert_eq!(run(&experiment, &one_job, &mut known, &stop, interrupted), None);
        assert_eq!(known.len(), 3);
        assert_eq!(so_far(&experiment, &one_job, &known), None, "no seed is complete");
        let file = known.to_csv(&experiment, &conditions);
        let read = |conditions, file: &str| Known::from_csv(&experiment, conditions, file);
        // NaN is not equal to itself, so the texts are compared.
        let mut again = read(&conditions, &file).unwrap();
        assert_eq!(again.to_csv(&experiment, &conditions), file);
        let newer = tests::conditions("1.1");
        assert!(read(&newer, &file).unwrap().is_empty(), "of another version");
        let mut changed = conditions.clone();
        changed.knobs.set(&experiment, "factor", "2").unwrap();
        assert!(read(&changed, &file).unwrap().is_empty(), "with other settings");
        // Files of former versions have no units of metrics, and no columns for single settings.
        assert!(file.contains(",product,seed_s,set_factor\n"), "{file}");
        let former = file.replace(",seed_s,", ",seed,");
        assert_eq!(read(&conditions, &former).unwrap().len(), 3);
        let former = former.replace(",set_factor\n", "\n").replace(",\n", "\n");
        assert_eq!(read(&conditions, &former).unwrap().len(), 3);
        stop.store(false, Ordering::Relaxed);
        let least = AtomicUsize::new(usize::MAX);
        let note = |done: usize, _| {
            least.fetch_min(done, Ordering::Relaxed);
        };
        let two_jobs = plan(2, &conditions, &[]);
        let results = run(&experiment, &two_jobs, &mut again, &stop, note).unwrap();
        assert_eq!(least.into_inner(), 3, "progress begins with the known runs");
        let whole = super::tests::results(1, &[]).to_csv();
        assert_eq!(results.to_csv(), whole);
        assert_eq!(again.to_csv(&experiment, &conditions), whole);
    }

    #[test]
    fn a_file_of_another_experiment_is_an_error() {
        let (experiment, conditions) = (experiment(), conditions("1.0"));
        let file = results(1, &[]).to_csv();
        let read = |file: &str| Known::from_csv(&experiment, &conditions, file);
        for (file, line) in [
            ("", 1),
            ("experiment,seed", 1),
            (file.replace(",7,", ",seven,7,").as_str(), 4),
        ] {
            assert_eq!(read(file).unwrap_err().line, line, "{file}");
        }
        let odd = file.replacen(",quick,,1,", ",quick,,one,", 1);
        assert_eq!(read(&odd).unwrap_err().problem, "the seed is not a number");
    }

    #[test]
    fn settings_reach_the_runs_and_stand_in_the_rows() {
        let (experiment, mut conditions) = (experiment(), conditions("1.0"));
        conditions.knobs.set(&experiment, "factor", "2.5").unwrap();
        let (mut known, stop) = (Known::default(), AtomicBool::new(false));
        let plan = plan(1, &conditions, &[("a", "1"), ("b", "5")]);
        let results = run(&experiment, &plan, &mut known, &stop, |_, _| {}).unwrap();
        assert_eq!(results.sample(&[], "product"), Some(vec![12.5, 25.0]));
        let csv = results.to_csv();
        assert!(
            csv.ends_with("toy,1.0,quick,factor=2.5,2,1,5,25,2,2.5\n"),
            "{csv}"
        );
        let rows: serde_json::Value = serde_json::from_str(&known.to_json(&experiment, &conditions)).unwrap();
        let expected = serde_json::json!({
            "experiment": "toy", "version": "1.0", "extent": "quick", "settings": { "factor": 2.5 }, "seed": 2,
            "at": { "a": "1", "b": "5" }, "metrics": { "product": 25.0, "seed": 2.0 },
        });
        assert_eq!((rows.as_array().map(Vec::len), &rows[1]), (Some(2), &expected));
    }

    #[test]
    fn jobs_change_nothing() {
        let csv = results(1, &[]).to_csv();
        assert_eq!(results(3, &[]).to_csv(), csv);
        assert_eq!(results(64, &[]).to_csv(), csv);
        let row = |line: &str| format!("toy,1.0,quick,,{line}");
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(
            lines[0],
            "experiment,version,extent,settings,seed,a,b,product,seed_s,set_factor"
        );
        assert_eq!(lines[2], row("2,1,5,10,2,"));
        assert_eq!(
            lines[8],
            row("2,\"3, or \"\"three\"\"\",7,,2,"),
            "NaN is an empty column"
        );
    }

    #[test]
    fn places_choose_cells() {
        let results = results(2, &[("b", "7")]);
        assert_eq!(results.cells.len(), 2);
        assert_eq!(results.sample(&[("a", "1")], "product"), Some(vec![7.0, 14.0]));
        assert_eq!(results.sample(&[], "product"), None, "two cells");
        assert_eq!(results.sample(&[("b", "5")], "product"), None, "no cell");
        let ratio = results.ratio(&[("a", "1")], &[("a", "3, or \"three\"")], "seed");
        assert_eq!(ratio, Some(vec![1.0, 1.0]));
    }

    #[test]
    fn claims_without_numbers_fail_or_are_not_run() {
        let results = results(2, &[]);
        let verdict = |a: &'static str, b: &'static str| {
            let claim = Claim::new("", "", Bound::AtMost(100.0), move |results| {
                results.sample(&[("a", a), ("b", b)], "product")
            });
            claim.judge(&results).verdict
        };
        assert_eq!(verdict("1", "5"), Verdict::Holds);
        assert_eq!(
            verdict("3, or \"three\"", "5"),
            Verdict::Fails,
            "NaN confirms nothing"
        );
        assert_eq!(verdict("2", "5"), Verdict::NotRun);
    }
}
