//! The results of an experiment: the numbers of every run, by cell and seed, and their output as CSV and JSON.

use serde_json::{Map, Value, json};

use crate::claim::{Half, Judgement, Verdict};
use crate::experiment::{Cell, Experiment, Extent, Metric, lies_at};
use crate::known::{Conditions, header, write_row};
use crate::run::Plan;
use crate::stage::HALF;
use crate::statistics::Estimate;
use crate::trial::{Knob, Knobs};

/// The numbers of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The name of the experiment.
    pub experiment: &'static str,
    /// The extent, the version of the program and the user's settings.
    pub conditions: Conditions,
    /// The seeds of each cell, in order.
    pub seeds: Vec<u64>,
    /// The cells, in the experiment's order.
    pub cells: Vec<CellResults>,
    metrics: &'static [Metric],
    knobs: &'static [Knob],
}

/// The numbers of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellResults {
    /// Its place on each axis.
    pub coordinates: Vec<(&'static str, String)>,
    /// For each seed the metrics, in the experiment's order.
    pub runs: Vec<Vec<f64>>,
}

impl Results {
    pub(crate) fn new(
        experiment: &Experiment,
        plan: &Plan<'_>,
        seeds: Vec<u64>,
        cells: Vec<CellResults>,
    ) -> Self {
        Self {
            experiment: experiment.name,
            conditions: plan.conditions.clone(),
            seeds,
            cells,
            metrics: experiment.metrics,
            knobs: experiment.knobs,
        }
    }

    /// Results of these cells with one seed and numbers of no meaning. They tell which cells a claim needs.
    pub(crate) fn imagined(experiment: &Experiment, extent: Extent, cells: &[Cell]) -> Self {
        let numbers = vec![1.0; experiment.metrics.len()];
        let cells = cells.iter().map(|cell| CellResults {
            coordinates: cell.coordinates().to_vec(),
            runs: vec![numbers.clone()],
        });
        Self {
            experiment: experiment.name,
            conditions: Conditions {
                version: String::new(),
                extent,
                knobs: Knobs::default(),
            },
            seeds: vec![1],
            cells: cells.collect(),
            metrics: experiment.metrics,
            knobs: experiment.knobs,
        }
    }

    /// The results of one half of an experiment with [two halves](crate::stage::beside()).
    pub(crate) fn half(&self, name: &str) -> Self {
        let mut half = self.clone();
        half.cells
            .retain(|cell| lies_at(&cell.coordinates, &[(HALF, name)]));
        half
    }

    /// A metric's values at the one cell that lies at these places, in the order of the seeds; `None` if there is no
    /// such cell or more than one.
    ///
    /// # Panics
    /// If the experiment has no such metric.
    #[must_use]
    pub fn sample(&self, places: &[(&str, &str)], metric: &str) -> Option<Vec<f64>> {
        let place = self.place_of(metric);
        let mut cells = self
            .cells
            .iter()
            .filter(|cell| lies_at(&cell.coordinates, places));
        match (cells.next(), cells.next()) {
            (Some(cell), None) => Some(cell.runs.iter().map(|run| run[place]).collect()),
            _ => None,
        }
    }

    /// The differences of a metric between two cells, seed by seed: `places` minus `from`. `None` if a cell is absent.
    #[must_use]
    pub fn difference(
        &self,
        places: &[(&str, &str)],
        from: &[(&str, &str)],
        metric: &str,
    ) -> Option<Vec<f64>> {
        let (one, other) = (self.sample(places, metric)?, self.sample(from, metric)?);
        Some(one.iter().zip(&other).map(|(one, other)| one - other).collect())
    }

    /// [`Results::sample`] at the first places divided by [`Results::sample`] at the second, seed by seed: equal seeds met the same
    /// traffic.
    #[must_use]
    pub fn ratio(&self, places: &[(&str, &str)], to: &[(&str, &str)], metric: &str) -> Option<Vec<f64>> {
        let (above, below) = (self.sample(places, metric)?, self.sample(to, metric)?);
        Some(
            above
                .iter()
                .zip(&below)
                .map(|(above, below)| above / below)
                .collect(),
        )
    }

    /// The estimate of a metric in a cell, over all seeds.
    #[must_use]
    pub fn estimate(&self, cell: &CellResults, metric: &str) -> Option<Estimate> {
        Estimate::of(&self.values(cell, metric))
    }

    /// A metric's values in a cell, in the order of the seeds.
    pub(crate) fn values(&self, cell: &CellResults, metric: &str) -> Vec<f64> {
        let place = self.place_of(metric);
        cell.runs.iter().map(|run| run[place]).collect()
    }

    /// The metrics, in the experiment's order.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.metrics.iter().map(|metric| metric.name)
    }

    fn place_of(&self, metric: &str) -> usize {
        let place = self.metrics.iter().position(|one| one.name == metric);
        place.unwrap_or_else(|| panic!("{} measures no {metric}", self.experiment))
    }

    /// A row for each run: experiment, conditions and seed, the place on each axis, the metrics, the changed settings. Numbers are written so that they read back
    /// exactly; a number that the run does not have is an empty column.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let axes = self.cells.first().map_or(&[][..], |cell| &cell.coordinates);
        let mut csv = header(axes, self.metrics, self.knobs);
        for cell in &self.cells {
            for (seed, run) in self.seeds.iter().zip(&cell.runs) {
                let about = (self.experiment, &self.conditions, *seed);
                write_row(&mut csv, about, &cell.coordinates, run, self.knobs);
            }
        }
        csv
    }

    /// All results as one value: for each cell its coordinates, and for each metric the mean, half the width of the 95 % interval, and the
    /// values.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|cell| {
                let coordinates: Map<String, Value> = cell
                    .coordinates
                    .iter()
                    .map(|(axis, place)| ((*axis).to_owned(), json!(place)))
                    .collect();
                let metrics: Map<String, Value> = self
                    .metrics
                    .iter()
                    .enumerate()
                    .map(|(place, metric)| {
                        let sample: Vec<f64> = cell.runs.iter().map(|run| run[place]).collect();
                        let estimate = Estimate::of(&sample);
                        let value = json!({
                            "mean": estimate.map(|estimate| estimate.mean),
                            "half_width": estimate.map(|estimate| estimate.half_width()),
                            "values": sample,
                        });
                        (metric.name.to_owned(), value)
                    })
                    .collect();
                json!({ "at": coordinates, "metrics": metrics })
            })
            .collect();
        let changed = self.conditions.knobs.iter();
        let changed: Map<String, Value> = changed
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        json!({
            "changed_settings": changed,
            "experiment": self.experiment, "version": self.conditions.version, "extent": self.conditions.extent.name(),
            "settings": self.conditions.knobs.to_string(), "seeds": self.seeds,
            "cells": cells,
        })
    }
}

impl Judgement<'_> {
    /// The judgement as one value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "claim": self.claim.says, "paper": self.claim.paper, "must": self.claim.must,
            "bound": self.claim.bound.to_string(), "verdict": self.verdict.name(),
            "mean": self.measured.map(|measured| measured.mean),
            "low": self.measured.map(|measured| measured.low),
            "high": self.measured.map(|measured| measured.high),
            "because": self.claim.because.filter(|_| self.verdict != Verdict::Holds),
            "figure": self.claim.figure,
            "by_construction": self.claim.by_construction,
            "seeds_to_decide": self.seeds_to_decide(),
            "half": self.claim.half.as_ref().map(Half::name), "why_not_judged": self.why_not_judged(),
            "busy_runs": self.busy_runs,
            "in_order": self.is_in_order(),
        })
    }
}
