//! Runs whose numbers are known already: so that an experiment that was interrupted goes on where it stopped.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::experiment::{Cell, Experiment, Extent};

/// The place on each axis, and the seed.
type Key = (Vec<String>, u64);

/// The numbers of runs, by cell and seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    runs: BTreeMap<Key, Vec<f64>>,
}

/// A file that does not hold the numbers of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct KnownError {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// What stands in front of the places and the numbers in every row.
const FIRST_COLUMNS: &str = "experiment,version,extent,seed";

/// The first line of an experiment's file.
pub(crate) fn header(axes: &[(&'static str, String)], metrics: &[&'static str]) -> String {
    let axes = axes.iter().map(|(axis, _)| *axis);
    let columns = axes.chain(metrics.iter().copied());
    columns.fold(FIRST_COLUMNS.to_owned(), |mut line, column| {
        line.push(',');
        line.push_str(column);
        line
    })
}

/// Adds the row of a run. Numbers are written so that they read back exactly; what a run does not have is left empty.
pub(crate) fn write_row(
    csv: &mut String,
    (experiment, version, extent, seed): (&str, &str, Extent, u64),
    places: &[(&'static str, String)],
    numbers: &[f64],
) {
    let _ = write!(csv, "{experiment},{version},{},{seed}", extent.name());
    for (_, place) in places {
        let _ = write!(csv, ",{place}");
    }
    for value in numbers {
        csv.push(',');
        if !value.is_nan() {
            let _ = write!(csv, "{value}");
        }
    }
    csv.push('\n');
}

fn key(cell: &Cell, seed: u64) -> Key {
    let places = cell.coordinates().iter().map(|(_, place)| place.clone());
    (places.collect(), seed)
}

impl Known {
    /// Reads what [`Known::to_csv`] wrote. Rows of another version or another extent are passed over: their numbers may be
    /// others.
    ///
    /// # Errors
    /// It is no file of this experiment, or a row of it is not whole.
    pub fn from_csv(
        experiment: &Experiment,
        extent: Extent,
        version: &str,
        csv: &str,
    ) -> Result<Self, KnownError> {
        let wrong = |line: usize, problem: &str| KnownError {
            line: line + 1,
            problem: problem.to_owned(),
        };
        let cells = (experiment.cells)(extent);
        let axes = cells.first().map_or(&[][..], Cell::coordinates);
        let metrics: Vec<&'static str> = experiment.metrics.iter().map(|metric| metric.name).collect();
        let mut lines = csv.lines().enumerate();
        let expected = header(axes, &metrics);
        if lines.next().is_none_or(|(_, line)| line != expected) {
            return Err(wrong(
                0,
                &format!("it does not begin with the columns of {}", experiment.name),
            ));
        }
        let mut known = Self::default();
        for (number, line) in lines {
            let columns: Vec<&str> = line.split(',').collect();
            if columns.len() != 4 + axes.len() + metrics.len() {
                return Err(wrong(
                    number,
                    "it has another number of columns than the first line",
                ));
            }
            if columns[1] != version || columns[2] != extent.name() {
                continue;
            }
            let seed = columns[3]
                .parse()
                .map_err(|_| wrong(number, "its seed is no number"))?;
            let (places, numbers) = columns[4..].split_at(axes.len());
            let numbers = numbers.iter().map(|value| match *value {
                "" => Ok(f64::NAN),
                value => value.parse(),
            });
            let numbers = numbers
                .collect::<Result<_, _>>()
                .map_err(|_| wrong(number, "one of its values is no number"))?;
            let places = places.iter().map(|place| (*place).to_owned()).collect();
            known.runs.insert((places, seed), numbers);
        }
        Ok(known)
    }

    /// A row for each run, in the order of the experiment's cells and of the seeds.
    #[must_use]
    pub fn to_csv(&self, experiment: &Experiment, extent: Extent, version: &str) -> String {
        let cells = (experiment.cells)(extent);
        let axes = cells.first().map_or(&[][..], Cell::coordinates);
        let metrics: Vec<&'static str> = experiment.metrics.iter().map(|metric| metric.name).collect();
        let mut csv = header(axes, &metrics);
        csv.push('\n');
        for cell in &cells {
            let (first, _) = key(cell, 0);
            let runs = self.runs.range((first.clone(), 0)..=(first, u64::MAX));
            for ((_, seed), numbers) in runs {
                let about = (experiment.name, version, extent, *seed);
                write_row(&mut csv, about, cell.coordinates(), numbers);
            }
        }
        csv
    }

    /// How many runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn get(&self, cell: &Cell, seed: u64) -> Option<&Vec<f64>> {
        self.runs.get(&key(cell, seed))
    }

    pub(crate) fn note(&mut self, cell: &Cell, seed: u64, numbers: Vec<f64>) {
        self.runs.insert(key(cell, seed), numbers);
    }
}
