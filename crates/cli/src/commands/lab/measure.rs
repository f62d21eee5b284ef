//! Runs the chosen experiments with the requested lengths, seeds, settings and cells.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use anabranch_lab::run::{Plan, run as run_experiment, selected, so_far};
use anabranch_lab::stage::{BED, HALF, SIMULATED};
use anabranch_lab::{Capture, Cell, Conditions, Experiment, Knobs, Known, Results, Trial, did_you_mean};

use super::kept::{Kept, version};
use super::progress::Progress;
use super::{Choice, Effort};
use crate::failure::Failure;

/// Default number of concurrent testbeds per processor: one testbed with four TCP flows at 10 Mbit/s uses a tenth of a processor.
const BEDS_A_PROCESSOR: usize = 3;

/// The most combinations of settings in one command.
const MOST_SETTINGS: usize = 1000;

/// The most runs that leave traces: two files for each run.
const MOST_TRACES: usize = 1000;

/// The number of cells that the error for `--only` lists.
const NEAR_CELLS: usize = 5;

/// The checked request.
pub(super) struct Measuring<'a> {
    experiments: Vec<(Experiment, Conditions)>,
    effort: &'a Effort,
    only: Vec<(&'a str, &'a str)>,
    stop: &'a AtomicBool,
    /// The number of runs of all experiments.
    runs: usize,
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
        choice: &'a Choice,
        silent: bool,
        stop: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let only: Vec<(&str, &str)> = choice
            .only
            .iter()
            .map(|(axis, place)| (axis.as_str(), place.as_str()))
            .collect();
        let mut experiments = Vec::new();
        let mut runs = 0;
        for experiment in chosen {
            check_places(experiment, effort, &only)?;
            let cells = selected(experiment, effort.extent(), &only).len();
            for knobs in settings(experiment, &choice.set)? {
                runs += cells * effort.seeds_of(experiment).count as usize;
                let conditions = Conditions {
                    version: version(),
                    extent: effort.extent(),
                    knobs,
                };
                experiments.push((*experiment, conditions));
            }
        }
        Ok(Self {
            experiments,
            effort,
            only,
            stop,
            runs,
            progress: Progress::new(runs, silent),
            so_far: RefCell::default(),
        })
    }

    /// # Errors
    /// The command has more runs than may leave traces.
    pub(super) fn check_traces(&self) -> Result<(), Failure> {
        if self.runs <= MOST_TRACES {
            return Ok(());
        }
        Err(Failure::new(format!(
            "--trace: {} runs are more than {MOST_TRACES}; choose cells by --only, or fewer --seeds",
            self.runs
        )))
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
            let is_other_half = |(axis, given): &(&str, &str)| {
                place.is_some_and(|place| *axis == place.0 && *given != place.1)
            };
            let (others, only): (Vec<_>, Vec<_>) = plan.only.iter().copied().partition(is_other_half);
            let is_excluded = !others.is_empty() && !only.iter().any(|(axis, _)| *axis == HALF);
            if is_excluded {
                continue;
            }
            let only: Vec<(&str, &str)> = only.into_iter().chain(place).collect();
            let stage = Plan {
                jobs,
                only: &only,
                ..*plan
            };
            let mut name = experiment.name.to_owned();
            if !plan.conditions.knobs.is_empty() {
                name = format!("{name}, {}", plan.conditions.knobs);
            }
            if let Some((_, network)) = place {
                name = format!("{name}, {network}");
            }
            self.progress.begin();
            let progress = &self.progress;
            let show = |done, total| progress.show(&name, done, total);
            let done = run_experiment(experiment, &stage, known, self.stop, show);
            let runs = selected(experiment, self.effort.extent(), &only).len() * plan.seeds.count as usize;
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
            let problem = "give one experiment and one value of each setting: a file holds one run";
            return Err(wrong(problem.to_owned()));
        };
        let cells = selected(experiment, self.effort.extent(), &self.only);
        let cell = cells
            .first()
            .ok_or_else(|| wrong(format!("{} has no cell at these places", experiment.name)))?;
        let cannot = |error| wrong(format!("cannot write {}: {error}", path.display()));
        let capture = Capture::new(BufWriter::new(File::create(path).map_err(cannot)?));
        let _ = cell.run(&Trial::new(self.effort.seed_from, &conditions.knobs).captured(&capture));
        capture.finish().map_err(cannot)?;
        Ok(place_of(cell))
    }
}

/// The combinations of the values of each setting, the last setting changing fastest.
fn settings(experiment: &Experiment, set: &[(String, String)]) -> Result<Vec<Knobs>, Failure> {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, list) in set {
        let place = values.iter().position(|(known, _)| known == name);
        let place = place.unwrap_or_else(|| {
            values.push((name, Vec::new()));
            values.len() - 1
        });
        for value in list.split(',') {
            if !values[place].1.contains(&value) {
                values[place].1.push(value);
            }
        }
    }
    let mut all = vec![Knobs::default()];
    for (name, values) in values {
        let mut longer = Vec::new();
        for knobs in &all {
            for value in &values {
                let mut knobs = knobs.clone();
                let set = knobs.set(experiment, name, value);
                set.map_err(|error| Failure::new(format!("--set: {error}")))?;
                longer.push(knobs);
            }
        }
        if longer.len() > MOST_SETTINGS {
            let problem = format!("more than {MOST_SETTINGS} combinations of settings; give fewer values");
            return Err(Failure::new(format!("--set: {problem}")));
        }
        all = longer;
    }
    Ok(all)
}

/// Checks that the experiment has the requested axes and values. Otherwise the error names the wrong one, or the nearest cells if no cell
/// lies at all the places.
fn check_places(experiment: &Experiment, effort: &Effort, only: &[(&str, &str)]) -> Result<(), Failure> {
    let wrong = |problem: String| Err(Failure::new(format!("--only: {problem}")));
    let cells = (experiment.cells)(effort.extent());
    let coordinates = || cells.iter().flat_map(|cell| cell.coordinates());
    for (axis, place) in only {
        let on_axis = coordinates().filter(|(name, _)| name == axis);
        let places: BTreeSet<&str> = on_axis.map(|(_, place)| place.as_str()).collect();
        if places.is_empty() {
            let axes: BTreeSet<&str> = coordinates().map(|(name, _)| *name).collect();
            return wrong(format!(
                "{} has no axis {axis:?}; {}it has: {}",
                experiment.name,
                did_you_mean(axis, axes.iter().copied()),
                joined(axes)
            ));
        }
        if !places.contains(place) {
            return wrong(format!(
                "{axis} has no place {place:?}; {}it has: {}",
                did_you_mean(place, places.iter().copied()),
                joined(places)
            ));
        }
    }
    if selected(experiment, effort.extent(), only).is_empty() {
        let shared = |cell: &&Cell| only.iter().filter(|place| cell.lies_at(&[**place])).count();
        let most = cells.iter().map(|cell| shared(&cell)).max().unwrap_or_default();
        let near = cells.iter().filter(|cell| shared(cell) == most).take(NEAR_CELLS);
        let near: Vec<String> = near.map(place_of).collect();
        return wrong(format!(
            "{} has no cell at all these places; the nearest cells are: {}",
            experiment.name,
            near.join("; ")
        ));
    }
    Ok(())
}

fn joined(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The cell's place on each axis, for people.
fn place_of(cell: &Cell) -> String {
    let coordinates = cell.coordinates().iter();
    let places = coordinates.map(|(axis, place)| format!("{axis}={place}"));
    places.collect::<Vec<_>>().join(", ")
}
