//! Runs the chosen experiments with the requested lengths, seeds, settings and cells.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use anabranch_lab::run::{Plan, run as run_experiment, so_far};
use anabranch_lab::stage::{BED, HALF, SIMULATED};
use anabranch_lab::{Capture, Cell, Conditions, Experiment, Knobs, Known, Results, Trial};

use super::kept::{Kept, version};
use super::progress::Progress;
use super::{Effort, Pairs};
use crate::failure::Failure;

/// Default number of concurrent testbeds per processor: one testbed with four TCP flows at 10 Mbit/s uses a tenth of a processor.
const BEDS_A_PROCESSOR: usize = 3;

/// The checked request.
pub(super) struct Measuring<'a> {
    experiments: Vec<(Experiment, Conditions)>,
    effort: &'a Effort,
    only: Vec<(&'a str, &'a str)>,
    stop: &'a AtomicBool,
    progress: Progress,
    /// The results so far of the interrupted experiment.
    so_far: RefCell<Option<(Experiment, Results)>>,
}

impl<'a> Measuring<'a> {
    /// # Errors
    /// An experiment does not have a requested axis value or setting.
    pub(super) fn new(
        chosen: &[Experiment],
        effort: &'a Effort,
        (only, set): (&'a Pairs, &'a Pairs),
        silent: bool,
        stop: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let only: Vec<(&str, &str)> = only
            .iter()
            .map(|(axis, place)| (axis.as_str(), place.as_str()))
            .collect();
        let mut experiments = Vec::new();
        let mut runs = 0;
        for experiment in chosen {
            check_places(experiment, effort, &only)?;
            let mut knobs = Knobs::default();
            for (name, value) in set {
                let set = knobs.set(experiment, name, value);
                set.map_err(|error| Failure::new(format!("--set: {error}")))?;
            }
            runs += cells(experiment, effort, &only).len() * effort.seeds_of(experiment) as usize;
            let conditions = Conditions {
                version: version(),
                extent: effort.extent(),
                knobs,
            };
            experiments.push((*experiment, conditions));
        }
        Ok(Self {
            experiments,
            effort,
            only,
            stop,
            progress: Progress::new(runs, silent),
            so_far: RefCell::default(),
        })
    }

    /// Runs the experiments one after the other, each when the iterator reaches it.
    pub(super) fn results(&self) -> impl Iterator<Item = Result<(Experiment, Results), Failure>> + '_ {
        let experiments = self.experiments.iter();
        experiments.map(|(experiment, conditions)| Ok((*experiment, self.measure(experiment, conditions)?)))
    }

    fn measure(&self, experiment: &Experiment, conditions: &Conditions) -> Result<Results, Failure> {
        let directory = self.effort.results.as_deref();
        let kept = directory.map(|directory| Kept::new(directory, experiment, conditions));
        let mut known = match &kept {
            Some(kept) => kept.read(experiment, conditions)?,
            None => Known::default(),
        };
        let plan = Plan {
            conditions,
            seeds: self.effort.seeds_of(experiment),
            jobs: 1,
            only: &self.only,
        };
        let results = self.in_stages(experiment, &plan, &mut known);
        let mut rest = String::from("; with --results DIRECTORY, a later command can continue from there");
        if let Some(kept) = &kept {
            kept.write(experiment, conditions, &known)?;
            rest = format!(
                "; {} runs are in {}: the same command continues from there",
                known.len(),
                kept.path.display()
            );
        }
        results.ok_or_else(|| {
            let so_far = so_far(experiment, &plan, &known);
            *self.so_far.borrow_mut() = so_far.map(|results| (*experiment, results));
            Failure::interrupted(format!("interrupted before the end of {}{rest}", experiment.name))
        })
    }

    /// Makes the runs: first the simulations, then the runs in real time, which need the whole machine.
    fn in_stages(&self, experiment: &Experiment, plan: &Plan<'_>, known: &mut Known) -> Option<Results> {
        let processors = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN).get();
        let jobs = self.effort.jobs.map(NonZeroUsize::get);
        let stages = match self.effort.bed {
            false => vec![(None, jobs.unwrap_or(processors))],
            true => vec![
                (Some((HALF, SIMULATED)), processors),
                (Some((HALF, BED)), jobs.unwrap_or(BEDS_A_PROCESSOR * processors)),
            ],
        };
        for (place, jobs) in stages {
            let only: Vec<(&str, &str)> = plan.only.iter().copied().chain(place).collect();
            let stage = Plan {
                jobs,
                only: &only,
                ..*plan
            };
            let name = match place {
                Some((_, network)) => format!("{}, {network}", experiment.name),
                None => experiment.name.to_owned(),
            };
            self.progress.begin();
            let progress = &self.progress;
            let show = |done, total| progress.show(&name, done, total);
            let done = run_experiment(experiment, &stage, known, self.stop, show);
            let runs = cells(experiment, self.effort, &only).len() * plan.seeds as usize;
            self.progress.end(runs);
            done?;
        }
        run_experiment(experiment, plan, known, self.stop, |_, _| {})
    }

    /// The results of the interrupted experiment, for the seeds with which all its cells were run.
    pub(super) fn so_far(&self) -> Option<(Experiment, Results)> {
        self.so_far.take()
    }

    /// Makes the first run of one experiment, and writes its packets to a file. Returns the cell's value on each axis.
    pub(super) fn capture(&self, path: &Path) -> Result<String, Failure> {
        let wrong = |problem: String| Failure::new(format!("--pcap: {problem}"));
        let [(experiment, conditions)] = self.experiments.as_slice() else {
            return Err(wrong("give one experiment: a file holds one run".to_owned()));
        };
        let cells = cells(experiment, self.effort, &self.only);
        let cell = cells
            .first()
            .ok_or_else(|| wrong(format!("{} has no cell at these places", experiment.name)))?;
        let cannot = |error| wrong(format!("cannot write {}: {error}", path.display()));
        let capture = Capture::new(BufWriter::new(File::create(path).map_err(cannot)?));
        let _ = cell.run(&Trial::new(1, &conditions.knobs).captured(&capture));
        capture.finish().map_err(cannot)?;
        let places = cell
            .coordinates()
            .iter()
            .map(|(axis, place)| format!("{axis}={place}"));
        Ok(places.collect::<Vec<_>>().join(", "))
    }
}

fn cells(experiment: &Experiment, effort: &Effort, only: &[(&str, &str)]) -> Vec<Cell> {
    let cells = (experiment.cells)(effort.extent());
    cells.into_iter().filter(|cell| cell.lies_at(only)).collect()
}

/// Checks that the experiment has the requested axes and values; otherwise the error names the wrong one.
fn check_places(experiment: &Experiment, effort: &Effort, only: &[(&str, &str)]) -> Result<(), Failure> {
    let cells = (experiment.cells)(effort.extent());
    let coordinates = || cells.iter().flat_map(|cell| cell.coordinates());
    for (axis, place) in only {
        let places: BTreeSet<&str> = coordinates()
            .filter(|(name, _)| name == axis)
            .map(|(_, place)| place.as_str())
            .collect();
        if places.is_empty() {
            let axes: BTreeSet<&str> = coordinates().map(|(name, _)| *name).collect();
            let axes: Vec<&str> = axes.into_iter().collect();
            return Err(Failure::new(format!(
                "--only: {} has no axis {axis:?}; it has: {}",
                experiment.name,
                axes.join(", ")
            )));
        }
        if !places.contains(place) {
            let places: Vec<&str> = places.into_iter().collect();
            return Err(Failure::new(format!(
                "--only: {axis} has no place {place:?}; it has: {}",
                places.join(", ")
            )));
        }
    }
    Ok(())
}
