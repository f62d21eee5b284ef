//! The laboratory: sweeps (the runs of an experiment), their results as Arrow tables, and pictures.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anabranch_lab::run::{Plan, Seeds, run, selected};
use anabranch_lab::{
    Cell, CellResults, Claim, Conditions, Experiment, Extent, Judgement, Knobs, Known, Results, Trial,
    did_you_mean, experiment_from_toml, experiments,
};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use serde_json::{Value, json};

use crate::failure::Failure;

/// How often signals are handled and the progress is shown while a sweep runs.
const SHOW_EVERY: Duration = Duration::from_millis(50);

/// The columns in front of the places.
const CONDITIONS: usize = 4;

fn wrong(text: impl ToString) -> Failure {
    Failure::new("ExperimentError", text)
}

/// The runs of an experiment: all its cells, or some of them, with all seeds.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Sweep {
    experiment: Experiment,
    conditions: Conditions,
    seeds: u64,
    only: Vec<(String, String)>,
    cells: Vec<Cell>,
    known: Mutex<Known>,
}

/// The experiment of this name.
fn named(name: &str) -> Result<Experiment, Failure> {
    experiments::named(name).ok_or_else(|| {
        let all = experiments::all();
        let names: Vec<&str> = all.iter().map(|experiment| experiment.name).collect();
        wrong(format!(
            "there is no experiment {name:?}; {}there are: {}; or give a file that ends in .toml",
            did_you_mean(name, names.iter().copied()),
            names.join(", ")
        ))
    })
}

fn extent(name: &str) -> Result<Extent, Failure> {
    let extents = [Extent::Quick, Extent::Short, Extent::Full];
    let found = extents.into_iter().find(|extent| extent.name() == name);
    found.ok_or_else(|| wrong(format!("{name:?} is not quick, short or full")))
}

/// An experiment as its TOML text, from the JSON text of its fields.
#[pyfunction]
pub(crate) fn toml_from_json(text: &str) -> PyResult<String> {
    let fields: Value =
        serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(toml::to_string(&fields).map_err(wrong)?)
}

/// All experiments of the laboratory, as JSON.
#[pyfunction]
pub(crate) fn list_experiments() -> String {
    let about = |experiment: &Experiment| {
        let cells = (experiment.cells)(Extent::Full);
        let axes = cells.first().map_or(&[][..], Cell::coordinates).iter();
        let axes = axes.map(|(axis, _)| {
            let mut places: Vec<&str> = Vec::new();
            for cell in &cells {
                let on_axis = cell.coordinates().iter().filter(|(name, _)| name == axis);
                for (_, place) in on_axis {
                    if !places.contains(&place.as_str()) {
                        places.push(place);
                    }
                }
            }
            ((*axis).to_owned(), json!(places))
        });
        let settings = experiment.knobs.iter().map(|knob| {
            json!({
                "name": knob.name, "unit": knob.unit, "about": knob.about, "default": knob.usual,
                "least": knob.range.0, "most": knob.range.1,
            })
        });
        let metrics = experiment.metrics.iter().filter(|metric| metric.is_shown);
        let metrics =
            metrics.map(|metric| json!({ "name": metric.name, "unit": metric.unit, "about": metric.about }));
        let figures = (experiment.figures)().into_iter();
        let figures = figures.map(|figure| json!({ "name": figure.name, "title": figure.title }));
        json!({
            "name": experiment.name, "question": experiment.question, "source": experiment.source,
            "axes": axes.collect::<serde_json::Map<_, _>>(),
            "settings": settings.collect::<Vec<_>>(),
            "metrics": metrics.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "cells": cells.len(), "seeds": (experiment.seeds)(Extent::Full),
        })
    };
    let all: Vec<Value> = experiments::all().iter().map(about).collect();
    Value::from(all).to_string()
}

impl Sweep {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn only(&self) -> Vec<(&str, &str)> {
        let only = self.only.iter();
        only.map(|(axis, place)| (axis.as_str(), place.as_str()))
            .collect()
    }

    fn plan<'a>(&'a self, only: &'a [(&'a str, &'a str)], jobs: usize) -> Plan<'a> {
        Plan {
            conditions: &self.conditions,
            seeds: Seeds::from_one(self.seeds),
            jobs,
            only,
        }
    }

    fn cell(&self, cell: usize) -> PyResult<&Cell> {
        let no_cell = || PyValueError::new_err(format!("there is no cell {cell}"));
        self.cells.get(cell).ok_or_else(no_cell)
    }

    /// The results, if all runs are known.
    fn results(&self) -> PyResult<Results> {
        let only = self.only();
        // Nothing is left to run, so this only gathers.
        if self.todo().is_empty()
            && let Some(results) = run(
                &self.experiment,
                &self.plan(&only, 1),
                &mut self.known(),
                &AtomicBool::new(false),
                |_, _| {},
            )
        {
            return Ok(results);
        }
        Err(PyValueError::new_err("the sweep is not complete"))
    }
}

/// Checks that each chosen axis and place exists.
fn check_places(experiment: &Experiment, extent: Extent, only: &[(String, String)]) -> Result<(), Failure> {
    let cells = (experiment.cells)(extent);
    let coordinates = || cells.iter().flat_map(|cell| cell.coordinates());
    for (axis, place) in only {
        let mut places: Vec<&str> = Vec::new();
        for (_, known) in coordinates().filter(|(name, _)| name == axis) {
            if !places.contains(&known.as_str()) {
                places.push(known);
            }
        }
        if places.is_empty() {
            let axes: Vec<&str> = cells
                .first()
                .map_or(&[][..], Cell::coordinates)
                .iter()
                .map(|(axis, _)| *axis)
                .collect();
            return Err(wrong(format!(
                "only: {} has no axis {axis:?}; {}it has: {}",
                experiment.name,
                did_you_mean(axis, axes.iter().copied()),
                axes.join(", ")
            )));
        }
        if !places.contains(&place.as_str()) {
            return Err(wrong(format!(
                "only: {axis} has no place {place:?}; {}it has: {}",
                did_you_mean(place, places.iter().copied()),
                places.join(", ")
            )));
        }
    }
    Ok(())
}

#[pymethods]
impl Sweep {
    /// `toml`: the text of a TOML file and its directory, in place of a name.
    #[new]
    #[pyo3(signature = (name, toml, extent, seeds, settings, only, version))]
    fn new(
        name: &str,
        toml: Option<(String, String)>,
        extent: &str,
        seeds: Option<u64>,
        settings: Vec<(String, String)>,
        only: Vec<(String, String)>,
        version: String,
    ) -> PyResult<Self> {
        let experiment = match toml {
            None => named(name)?,
            Some((text, directory)) => experiment_from_toml(&text, Path::new(&directory))
                .map_err(|error| wrong(format!("{name}: {error}")))?,
        };
        let extent = self::extent(extent)?;
        let seeds = seeds.unwrap_or_else(|| (experiment.seeds)(extent));
        if !(1..=10_000).contains(&seeds) {
            return Err(wrong(format!("seeds cannot be {seeds}: give 1 to 10000")).into());
        }
        let mut knobs = Knobs::default();
        for (name, value) in &settings {
            knobs.set(&experiment, name, value).map_err(wrong)?;
        }
        check_places(&experiment, extent, &only)?;
        let places: Vec<(&str, &str)> = only
            .iter()
            .map(|(axis, place)| (axis.as_str(), place.as_str()))
            .collect();
        let cells = selected(&experiment, extent, &places);
        if cells.is_empty() {
            let text = format!("only: {} has no cell at all these places", experiment.name);
            return Err(wrong(text).into());
        }
        Ok(Self {
            experiment,
            conditions: Conditions {
                version,
                extent,
                knobs,
            },
            seeds,
            only,
            cells,
            known: Mutex::default(),
        })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.experiment.name
    }

    #[getter]
    fn question(&self) -> &'static str {
        self.experiment.question
    }

    /// The name of the files that keep the runs, as the command line has it.
    #[getter]
    fn file_name(&self) -> String {
        let settings = self.conditions.knobs.iter();
        settings.fold(self.experiment.name.to_owned(), |name, (knob, value)| {
            format!("{name}-{knob}={value}")
        })
    }

    /// The number of all runs.
    #[getter]
    fn total(&self) -> usize {
        self.cells.len() * self.seeds as usize
    }

    /// The cells and seeds whose runs are not known, seed by seed.
    fn todo(&self) -> Vec<(usize, u64)> {
        let known = self.known();
        let runs = (1..=self.seeds).flat_map(|seed| (0..self.cells.len()).map(move |cell| (cell, seed)));
        runs.filter(|(cell, seed)| known.get(&self.cells[*cell], *seed).is_none())
            .collect()
    }

    /// The numbers of one run.
    fn trial(&self, py: Python<'_>, cell: usize, seed: u64) -> PyResult<Vec<f64>> {
        let cell = self.cell(cell)?;
        let numbers = py.detach(|| cell.run(&Trial::new(seed, &self.conditions.knobs)));
        numbers.ok_or_else(|| PyValueError::new_err("the run was interrupted"))
    }

    /// Adds the numbers of a run.
    fn note(&self, cell: usize, seed: u64, numbers: Vec<f64>) -> PyResult<()> {
        if numbers.len() != self.experiment.metrics.len() {
            return Err(PyValueError::new_err("a run has a number for each metric"));
        }
        self.known().note(self.cell(cell)?, seed, numbers);
        Ok(())
    }

    /// Makes all runs in threads of this process, and calls `progress` with the number of finished runs. Ctrl-C and an exception of
    /// `progress` end the sweep after the present runs.
    fn run(&self, py: Python<'_>, jobs: usize, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let (stop, finished) = (AtomicBool::new(false), AtomicUsize::new(0));
        let progress = progress.clone().unbind();
        let only = self.only();
        let plan = self.plan(&only, jobs.max(1));
        let mut known = self.known().clone();
        let asked = py.detach(|| {
            thread::scope(|scope| {
                let (ended, end) = mpsc::channel::<()>();
                let (stop, finished, known) = (&stop, &finished, &mut known);
                scope.spawn(move || {
                    // Dropped at the end, also by a panic.
                    let _ended = ended;
                    let count = |done: usize, _| {
                        finished.fetch_max(done, Ordering::Relaxed);
                    };
                    run(&self.experiment, &plan, known, stop, count)
                });
                let mut asked = Ok(());
                while end.recv_timeout(SHOW_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                    if asked.is_ok() {
                        asked = Python::attach(|py| {
                            py.check_signals()?;
                            progress.call1(py, (finished.load(Ordering::Relaxed),)).map(drop)
                        });
                        stop.store(asked.is_err(), Ordering::Relaxed);
                    }
                }
                asked
            })
        });
        *self.known() = known;
        asked?;
        progress.call1(py, (self.total() - self.todo().len(),)).map(drop)
    }

    /// Adds the runs of a file that `to_csv` wrote, if they have the same conditions.
    fn read_csv(&self, text: &str) -> PyResult<()> {
        *self.known() = Known::from_csv(&self.experiment, &self.conditions, text).map_err(wrong)?;
        Ok(())
    }

    fn to_csv(&self) -> String {
        self.known().to_csv(&self.experiment, &self.conditions)
    }

    fn to_json(&self) -> String {
        self.known().to_json(&self.experiment, &self.conditions)
    }

    /// A row for each run.
    fn table(&self) -> PyResult<Table> {
        let rows = batch(&self.experiment, &self.results()?).map_err(broken)?;
        Ok(Table { rows })
    }

    /// The claims about the numbers and whether they hold, as JSON.
    fn claims(&self) -> PyResult<String> {
        let results = self.results()?;
        let claims: Vec<Claim> = (self.experiment.claims)();
        let judged = claims.iter().map(|claim| claim.judge(&results));
        let judged: Vec<Value> = judged
            .map(|judgement: Judgement<'_>| judgement.to_json())
            .collect();
        Ok(Value::from(judged).to_string())
    }

    /// A line for each cell and shown metric: the mean over the seeds, and half the width of its 95 % confidence interval.
    fn summary(&self) -> PyResult<Vec<String>> {
        let results = self.results()?;
        let mut lines = Vec::new();
        for cell in &results.cells {
            let places = cell.coordinates.iter();
            let places: Vec<String> = places.map(|(axis, place)| format!("{axis}={place}")).collect();
            let shown = self.experiment.metrics.iter().filter(|metric| metric.is_shown);
            for metric in shown {
                let estimate = results.estimate(cell, metric.name);
                let estimate = estimate.map_or_else(
                    || "none".to_owned(),
                    |of| format!("{:.4} ± {:.4} {}", of.mean, of.half_width(), metric.unit),
                );
                let line = format!("{}: {} {estimate}", places.join(", "), metric.name);
                lines.push(line.trim_end().to_owned());
            }
        }
        Ok(lines)
    }

    /// The name, the title and the SVG of each figure that the results have.
    fn figures(&self) -> PyResult<Vec<(&'static str, &'static str, String)>> {
        let results = self.results()?;
        let figures = (self.experiment.figures)().into_iter();
        let drawn = figures.filter_map(|figure| {
            let plot = figure.plot(&results)?;
            Some((figure.name, figure.title, plot.to_file()))
        });
        Ok(drawn.collect())
    }
}

fn broken(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A table that programs read by the Arrow PyCapsule interface.
#[pyclass(frozen, module = "anabranch._native")]
pub(crate) struct Table {
    rows: RecordBatch,
}

#[pymethods]
impl Table {
    /// A stream of the rows. The interface permits to ignore `requested_schema`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let rows = RecordBatchIterator::new([Ok(self.rows.clone())], self.rows.schema());
        PyCapsule::new_with_value(
            py,
            FFI_ArrowArrayStream::new(Box::new(rows)),
            c"arrow_array_stream",
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.rows.schema().as_ref()).map_err(broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

/// The rows of `Results::to_csv`, with its columns. Numbers that a run does not have are null. An axis whose places are all numbers is
/// a column of numbers.
fn batch(experiment: &Experiment, results: &Results) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let csv = results.to_csv();
    let names: Vec<&str> = csv.lines().next().unwrap_or_default().split(',').collect();
    let cells = (experiment.cells)(results.conditions.extent);
    let of_cells = results.cells.iter();
    let of_cells = of_cells.flat_map(|cell| {
        let runs = results.seeds.iter().zip(&cell.runs);
        runs.map(move |(seed, run)| (cell, *seed, run))
    });
    // The arrays need iterators of known lengths.
    let rows: Vec<(&CellResults, u64, &Vec<f64>)> = of_cells.collect();
    let text = |value: String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|_| value.clone())))
    };
    let conditions: [ArrayRef; CONDITIONS] = [
        text(results.experiment.to_owned()),
        text(results.conditions.version.clone()),
        text(results.conditions.extent.name().to_owned()),
        text(results.conditions.knobs.to_string()),
    ];
    let mut columns: Vec<ArrayRef> = conditions.into();
    columns.push(Arc::new(UInt64Array::from_iter_values(
        rows.iter().map(|(_, seed, _)| *seed),
    )));
    let axes = results.cells.first().map_or(0, |cell| cell.coordinates.len());
    for axis in 0..axes {
        let number = |place: &str| place.parse::<f64>().ok();
        let is_number = cells
            .iter()
            .all(|cell| number(&cell.coordinates()[axis].1).is_some());
        let places = rows.iter().map(|(cell, ..)| cell.coordinates[axis].1.as_str());
        columns.push(match is_number {
            true => Arc::new(places.map(number).collect::<Float64Array>()),
            false => Arc::new(StringArray::from_iter_values(places)),
        });
    }
    for metric in 0..experiment.metrics.len() {
        let numbers = rows
            .iter()
            .map(|(.., run)| Some(run[metric]).filter(|number| !number.is_nan()));
        columns.push(Arc::new(numbers.collect::<Float64Array>()));
    }
    for knob in experiment.knobs {
        let changed = results
            .conditions
            .knobs
            .iter()
            .find(|(name, _)| *name == knob.name);
        let values = rows.iter().map(|_| changed.map(|(_, value)| value));
        columns.push(Arc::new(values.collect::<Float64Array>()));
    }
    let fields: Vec<Field> = names
        .iter()
        .zip(&columns)
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), may_be_null(column.data_type())))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn may_be_null(kind: &DataType) -> bool {
    *kind == DataType::Float64
}
