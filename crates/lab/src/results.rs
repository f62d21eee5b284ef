//! What came of an experiment: the numbers of every run, by cell and seed, and how they are written.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::claim::{Judgement, Verdict};
use crate::experiment::{Experiment, Extent, lies_at};
use crate::statistics::Estimate;

/// The version that stands in every row of results.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The numbers of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Which experiment.
    pub experiment: &'static str,
    /// How much of it.
    pub extent: Extent,
    /// The seeds of each cell, in order.
    pub seeds: Vec<u64>,
    /// The cells, in the experiment's order.
    pub cells: Vec<CellResults>,
    metrics: Vec<&'static str>,
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
        extent: Extent,
        seeds: Vec<u64>,
        cells: Vec<CellResults>,
    ) -> Self {
        Self {
            experiment: experiment.name,
            extent,
            seeds,
            cells,
            metrics: experiment.metrics.iter().map(|metric| metric.name).collect(),
        }
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

    /// [`Results::sample`] at the first places divided by that at the second, seed by seed: both met the same traffic.
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

    /// What a metric comes to in a cell.
    #[must_use]
    pub fn estimate(&self, cell: &CellResults, metric: &str) -> Option<Estimate> {
        let place = self.place_of(metric);
        let sample: Vec<f64> = cell.runs.iter().map(|run| run[place]).collect();
        Estimate::of(&sample)
    }

    fn place_of(&self, metric: &str) -> usize {
        let place = self.metrics.iter().position(|name| *name == metric);
        place.unwrap_or_else(|| panic!("{} measures no {metric}", self.experiment))
    }

    /// A row for each run: experiment, version, extent and seed, the place on each axis, the metrics. Numbers are
    /// written so that they read back exactly; what a run does not have is left empty.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut csv = String::from("experiment,version,extent,seed");
        let axes = self.cells.first().map_or(&[][..], |cell| &cell.coordinates);
        for name in axes
            .iter()
            .map(|(axis, _)| *axis)
            .chain(self.metrics.iter().copied())
        {
            csv.push(',');
            csv.push_str(name);
        }
        csv.push('\n');
        for cell in &self.cells {
            for (seed, run) in self.seeds.iter().zip(&cell.runs) {
                csv.push_str(&format!(
                    "{},{VERSION},{},{seed}",
                    self.experiment,
                    self.extent.name()
                ));
                for (_, place) in &cell.coordinates {
                    let _ = write!(csv, ",{place}");
                }
                for value in run {
                    csv.push(',');
                    if !value.is_nan() {
                        let _ = write!(csv, "{value}");
                    }
                }
                csv.push('\n');
            }
        }
        csv
    }

    /// All of it as one value: for each cell its coordinates and for each metric mean, half width of the 95 % interval
    /// and values.
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
                    .map(|(place, name)| {
                        let sample: Vec<f64> = cell.runs.iter().map(|run| run[place]).collect();
                        let estimate = Estimate::of(&sample);
                        let value = json!({
                            "mean": estimate.map(|estimate| estimate.mean),
                            "half_width": estimate.map(|estimate| estimate.half_width()),
                            "values": sample,
                        });
                        ((*name).to_owned(), value)
                    })
                    .collect();
                json!({ "at": coordinates, "metrics": metrics })
            })
            .collect();
        json!({
            "experiment": self.experiment, "version": VERSION, "extent": self.extent.name(), "seeds": self.seeds,
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
            "in_order": self.is_in_order(),
        })
    }
}
