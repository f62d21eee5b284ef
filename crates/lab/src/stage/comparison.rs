//! Compares the two halves of an experiment that was run [on real packets as well](super::beside()), number by number.

use serde_json::{Value, json};

use super::beside::{NOT_HELD, READ_MEDIAN, READ_P99, RUNS_AGAIN};
use super::{BED, HALF, SIMULATED};
use crate::results::{CellResults, Results};
use crate::statistics::{Estimate, mean, number};

/// A metric of a cell in the simulator and on real packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// The cell's place on the axes with more than one place.
    pub place: Vec<(&'static str, String)>,
    /// The metric.
    pub metric: &'static str,
    /// The estimate in the simulator.
    pub simulated: Estimate,
    /// The estimate on real packets.
    pub real: Estimate,
}

impl SideBySide {
    /// Whether the two 95 % intervals overlap. If both halves have the same true value, about one number in twenty is still found to differ
    /// (fewer if both intervals are equally wide).
    #[must_use]
    pub fn meet(&self) -> bool {
        self.simulated.low <= self.real.high && self.real.low <= self.simulated.high
    }

    /// The number on real packets as a multiple of the simulated one; NaN if the latter is 0.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.simulated.mean {
            0.0 => f64::NAN,
            mean => self.real.mean / mean,
        }
    }

    /// The comparison as a JSON value.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let place = self
            .place
            .iter()
            .map(|(axis, place)| ((*axis).to_owned(), json!(place)));
        let estimate =
            |estimate: &Estimate| json!({ "mean": estimate.mean, "half_width": estimate.half_width() });
        json!({
            "at": place.collect::<serde_json::Map<_, _>>(), "metric": self.metric,
            "simulated": estimate(&self.simulated), "bed": estimate(&self.real),
            "ratio": self.ratio(), "intervals_meet": self.meet(),
        })
    }
}

/// All metrics that both halves have, cell by cell; empty for an experiment without halves.
#[must_use]
pub fn side_by_side(results: &Results) -> Vec<SideBySide> {
    let is_on = |cell: &&CellResults, network: &str| {
        cell.coordinates
            .iter()
            .any(|place| *place == (HALF, network.to_owned()))
    };
    let mut found = Vec::new();
    for simulated in results.cells.iter().filter(|cell| is_on(cell, SIMULATED)) {
        let mut others = results.cells.iter().filter(|cell| is_on(cell, BED));
        let Some(real) = others.find(|cell| elsewhere(cell) == elsewhere(simulated)) else {
            continue;
        };
        for metric in results.metrics() {
            let estimates = results
                .estimate(simulated, metric)
                .zip(results.estimate(real, metric));
            found.extend(estimates.map(|(simulated_estimate, real)| SideBySide {
                place: varying(results, simulated),
                metric,
                simulated: simulated_estimate,
                real,
            }));
        }
    }
    found
}

/// How busy the machine was in the runs on real packets, and how long the receiving host took; `None` if there were no such runs.
#[must_use]
pub fn business(results: &Results) -> Option<String> {
    let on_bed = || {
        results
            .cells
            .iter()
            .filter(|cell| cell.coordinates.contains(&(HALF, BED.to_owned())))
    };
    let mean_of = |metric| {
        let values = on_bed().flat_map(|cell| results.values(cell, metric));
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        mean(&values)
    };
    let sum = |metric| {
        on_bed()
            .flat_map(|cell| results.values(cell, metric))
            .sum::<f64>()
    };
    let runs = on_bed().map(|cell| cell.runs.len()).sum::<usize>();
    let told = || {
        let (again, not_held) = (sum(RUNS_AGAIN), sum(NOT_HELD));
        let mut told = format!(
            "{runs} runs on the bed; {again} were made again because the machine was too busy, and {not_held} count although the \
             machine was too busy each time"
        );
        let (median, p99) = (mean_of(READ_MEDIAN), mean_of(READ_P99));
        if median.is_finite() {
            told += &format!(
                "; after the kernel had a message, the application had it {} ms later (median; 99th percentile {} ms; not part of the \
                 delays)",
                number(median),
                number(p99)
            );
        }
        told
    };
    (runs > 0).then(told)
}

/// The cell's place on all axes but [`HALF`].
fn elsewhere(cell: &CellResults) -> Vec<&(&'static str, String)> {
    cell.coordinates
        .iter()
        .filter(|(axis, _)| *axis != HALF)
        .collect()
}

/// The cell's place on the axes with more than one place in the results.
fn varying(results: &Results, cell: &CellResults) -> Vec<(&'static str, String)> {
    let varies = |place: &&(&'static str, String)| {
        results
            .cells
            .iter()
            .any(|other| !other.coordinates.contains(place))
    };
    let places = elsewhere(cell).into_iter().filter(varies);
    places.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_overlap_or_do_not() {
        let pair = |low, high| SideBySide {
            place: vec![("important", "1".to_owned())],
            metric: "delay",
            simulated: Estimate {
                count: 5,
                mean: 2.0,
                low: 1.0,
                high: 3.0,
            },
            real: Estimate {
                count: 5,
                mean: 4.0,
                low,
                high,
            },
        };
        assert!(pair(3.0, 5.0).meet() && pair(0.0, 1.5).meet() && pair(0.0, 9.0).meet());
        assert!(!pair(3.1, 5.0).meet() && !pair(0.0, 0.9).meet());
        let expected = json!({
            "at": { "important": "1" }, "metric": "delay", "simulated": { "mean": 2.0, "half_width": 1.0 },
            "bed": { "mean": 4.0, "half_width": 0.75 }, "ratio": 2.0, "intervals_meet": false,
        });
        assert_eq!(pair(3.25, 4.75).to_json(), expected);
    }
}
