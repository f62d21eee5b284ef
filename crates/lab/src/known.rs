//! Runs whose numbers are known already, so that an interrupted experiment can continue.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::experiment::{Cell, Experiment, Extent, Metric};
use crate::trial::{Knob, Knobs};

/// The place on each axis, and the seed.
type Key = (Vec<String>, u64);

/// The numbers of runs, by cell and seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    runs: BTreeMap<Key, Vec<f64>>,
}

/// A file without the numbers of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct KnownError {
    /// Where, from 1.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

/// The conditions that numbers depend on besides cell and seed. Every row names them.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The version of the program.
    pub version: String,
    /// How much of the experiment was run.
    pub extent: Extent,
    /// The settings that the user changed.
    pub knobs: Knobs,
}

/// The columns in front of the places and the numbers in every row.
const FIRST_COLUMNS: [&str; 5] = ["experiment", "version", "extent", "settings", "seed"];

/// Adds a line of columns (RFC 4180).
fn write_line(csv: &mut String, columns: impl Iterator<Item = String>) {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Neither can fail: a `Vec` takes all bytes, and they are of texts.
    let _ = writer.write_record(columns);
    let line = writer.into_inner().unwrap_or_default();
    csv.push_str(&String::from_utf8(line).unwrap_or_default());
}

/// The columns of a line that [`write_line`] wrote.
fn columns(line: &str) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(line.as_bytes());
    let record = reader.records().next().and_then(Result::ok).unwrap_or_default();
    record.iter().map(str::to_owned).collect()
}

/// A column's name with its unit: `rtt_ms`, `rate_Mbit_per_s`. A name that is its own unit (`messages`) stays as it is.
fn with_unit(name: &str, unit: &str) -> String {
    let words: String = unit.chars().filter(|c| *c != ' ').collect();
    let words = words.replace('/', "_per_").replace('%', "percent");
    if words.is_empty() || name.ends_with(&words) {
        name.to_owned()
    } else {
        format!("{name}_{words}")
    }
}

/// The first line of an experiment's file. The columns of the settings stand after the metrics. They are empty for a setting that the user
/// did not change.
pub(crate) fn header(axes: &[(&'static str, String)], metrics: &[Metric], knobs: &[Knob]) -> String {
    let metrics = metrics.iter().map(|metric| with_unit(metric.name, metric.unit));
    let settings = knobs
        .iter()
        .map(|knob| format!("set_{}", with_unit(knob.name, knob.unit)));
    line_of_names(axes, metrics.chain(settings))
}

/// The first lines that former versions wrote: no units for the metrics, and at first no columns for the settings.
fn former_headers(axes: &[(&'static str, String)], metrics: &[Metric], knobs: &[Knob]) -> [String; 2] {
    let metrics = || metrics.iter().map(|metric| metric.name.to_owned());
    let settings = knobs
        .iter()
        .map(|knob| format!("set_{}", with_unit(knob.name, knob.unit)));
    [
        line_of_names(axes, metrics()),
        line_of_names(axes, metrics().chain(settings)),
    ]
}

fn line_of_names(axes: &[(&'static str, String)], rest: impl Iterator<Item = String>) -> String {
    let axes = axes.iter().map(|(axis, _)| *axis);
    let first = FIRST_COLUMNS.into_iter().chain(axes).map(str::to_owned);
    let mut line = String::new();
    write_line(&mut line, first.chain(rest));
    line
}

/// Adds the row of a run. Numbers are written so that they read back exactly; a number that the run does not have is an empty column.
pub(crate) fn write_row(
    csv: &mut String,
    (experiment, conditions, seed): (&str, &Conditions, u64),
    places: &[(&'static str, String)],
    numbers: &[f64],
    knobs: &[Knob],
) {
    let first = [
        experiment.to_owned(),
        conditions.version.clone(),
        conditions.extent.name().to_owned(),
        conditions.knobs.to_string(),
        seed.to_string(),
    ];
    let places = places.iter().map(|(_, place)| place.clone());
    let numbers = numbers.iter().map(|value| match value {
        value if value.is_nan() => String::new(),
        value => value.to_string(),
    });
    let changed = |knob: &Knob| conditions.knobs.iter().find(|(name, _)| *name == knob.name);
    let settings = knobs
        .iter()
        .map(|knob| changed(knob).map_or_else(String::new, |(_, value)| value.to_string()));
    write_line(
        csv,
        first.into_iter().chain(places).chain(numbers).chain(settings),
    );
}

/// The row of a run as a value; a number that the run does not have is null.
fn row_as_json(
    (experiment, conditions, seed): (&Experiment, &Conditions, u64),
    places: &[(&'static str, String)],
    numbers: &[f64],
) -> Value {
    let settings = conditions.knobs.iter();
    let settings: Map<String, Value> = settings
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    let at = places
        .iter()
        .map(|(axis, place)| ((*axis).to_owned(), json!(place)));
    let metrics = experiment.metrics.iter().map(|metric| metric.name.to_owned());
    json!({
        "experiment": experiment.name, "version": conditions.version, "extent": conditions.extent.name(),
        "settings": settings, "seed": seed,
        "at": at.collect::<Map<String, Value>>(),
        "metrics": metrics.zip(numbers.iter().map(|value| json!(value))).collect::<Map<String, Value>>(),
    })
}

fn key(cell: &Cell, seed: u64) -> Key {
    let places = cell.coordinates().iter().map(|(_, place)| place.clone());
    (places.collect(), seed)
}

impl Known {
    /// Reads a file that [`Known::to_csv`] wrote. Rows with other conditions are ignored, because their numbers may differ.
    ///
    /// # Errors
    /// The file does not belong to this experiment, or one of its rows is incomplete.
    pub fn from_csv(experiment: &Experiment, conditions: &Conditions, csv: &str) -> Result<Self, KnownError> {
        let wrong = |line: usize, problem: &str| KnownError {
            line: line + 1,
            problem: problem.to_owned(),
        };
        let cells = (experiment.cells)(conditions.extent);
        let axes = cells.first().map_or(&[][..], Cell::coordinates);
        let (metrics, knobs) = (experiment.metrics, experiment.knobs);
        let mut lines = csv.lines().enumerate();
        let [first, second] = former_headers(axes, metrics, knobs);
        let headers = [first, second, header(axes, metrics, knobs)];
        let is_header = |line: &str| headers.iter().any(|header| header.trim_end() == line);
        if lines.next().is_none_or(|(_, line)| !is_header(line)) {
            let problem = format!("the first line must have the columns of {}", experiment.name);
            return Err(wrong(0, &problem));
        }
        let mut known = Self::default();
        for (number, line) in lines {
            let columns = columns(line);
            let needed = FIRST_COLUMNS.len() + axes.len() + metrics.len();
            if columns.len() != needed && columns.len() != needed + experiment.knobs.len() {
                let problem = "the row must have as many columns as the first line";
                return Err(wrong(number, problem));
            }
            let (first, rest) = columns.split_at(FIRST_COLUMNS.len());
            let settings = conditions.knobs.to_string();
            if first[1..4] != [conditions.version.as_str(), conditions.extent.name(), &settings] {
                continue;
            }
            let seed = first[4]
                .parse()
                .map_err(|_| wrong(number, "the seed is not a number"))?;
            let (places, numbers) = rest.split_at(axes.len());
            let numbers = numbers[..metrics.len()].iter().map(|value| match value.as_str() {
                "" => Ok(f64::NAN),
                value => value.parse(),
            });
            let numbers = numbers
                .collect::<Result<_, _>>()
                .map_err(|_| wrong(number, "a value is not a number"))?;
            known.runs.insert((places.to_vec(), seed), numbers);
        }
        Ok(known)
    }

    /// Calls `with` with each run, in the order of the experiment's cells and of the seeds.
    fn each(
        &self,
        experiment: &Experiment,
        extent: Extent,
        mut with: impl FnMut(&[(&'static str, String)], u64, &[f64]),
    ) {
        for cell in &(experiment.cells)(extent) {
            let (first, _) = key(cell, 0);
            let runs = self.runs.range((first.clone(), 0)..=(first, u64::MAX));
            for ((_, seed), numbers) in runs {
                with(cell.coordinates(), *seed, numbers);
            }
        }
    }

    /// A row for each run: its conditions, the place on each axis, the metrics.
    #[must_use]
    pub fn to_csv(&self, experiment: &Experiment, conditions: &Conditions) -> String {
        let cells = (experiment.cells)(conditions.extent);
        let axes = cells.first().map_or(&[][..], Cell::coordinates);
        let mut csv = header(axes, experiment.metrics, experiment.knobs);
        self.each(experiment, conditions.extent, |places, seed, numbers| {
            let about = (experiment.name, conditions, seed);
            write_row(&mut csv, about, places, numbers, experiment.knobs);
        });
        csv
    }

    /// The same rows as an array of objects, one object per line.
    #[must_use]
    pub fn to_json(&self, experiment: &Experiment, conditions: &Conditions) -> String {
        let mut rows = Vec::with_capacity(self.len());
        self.each(experiment, conditions.extent, |places, seed, numbers| {
            rows.push(row_as_json((experiment, conditions, seed), places, numbers).to_string());
        });
        format!("[\n{}\n]\n", rows.join(",\n"))
    }

    /// The number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether no runs are known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The numbers of a run, if they are known.
    #[must_use]
    pub fn get(&self, cell: &Cell, seed: u64) -> Option<&Vec<f64>> {
        self.runs.get(&key(cell, seed))
    }

    /// Adds the numbers of a run, in the order of the experiment's metrics.
    pub fn note(&mut self, cell: &Cell, seed: u64, numbers: Vec<f64>) {
        self.runs.insert(key(cell, seed), numbers);
    }
}
