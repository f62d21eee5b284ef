//! The two halves of an experiment that was run [beside](super::beside) itself, number by number.

use serde_json::{Value, json};

use super::beside::{NOT_HELD, REPEATS};
use super::{BED, HALF, SIMULATED};
use crate::results::{CellResults, Results};
use crate::statistics::Estimate;

/// A number of a cell in the simulator and on real packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// The cell's place on the axes on which there are several.
    pub place: Vec<(&'static str, String)>,
    /// Which number.
    pub metric: &'static str,
    /// In the simulator.
    pub simulated: Estimate,
    /// On real packets.
    pub real: Estimate,
}

impl SideBySide {
    /// Whether the two 95 % intervals meet. Of twenty numbers of which both halves have the same true value, about one (where the
    /// intervals are equally wide, fewer) is still found apart.
    #[must_use]
    pub fn meet(&self) -> bool {
        self.simulated.low <= self.real.high && self.real.low <= self.simulated.high
    }

    /// That on real packets as a multiple of that in the simulator; not a number if that is 0.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.simulated.mean {
            0.0 => f64::NAN,
            mean => self.real.mean / mean,
        }
    }

    /// As a value.
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

/// All numbers that both halves have, cell by cell; nothing for an experiment that has no halves.
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

/// How much of what was run on real packets met a machine that was too busy, in words; nothing where nothing was run on any.
#[must_use]
pub fn business(results: &Results) -> Option<String> {
    let on_bed = || {
        results
            .cells
            .iter()
            .filter(|cell| cell.coordinates.contains(&(HALF, BED.to_owned())))
    };
    let sum = |metric| {
        on_bed()
            .flat_map(|cell| results.values(cell, metric))
            .sum::<f64>()
    };
    let runs = on_bed().map(|cell| cell.runs.len()).sum::<usize>();
    let told = || {
        let (repeats, not_held) = (sum(REPEATS), sum(NOT_HELD));
        format!(
            "{runs} runs on the bed; {repeats} were made again because the machine was too busy, and {not_held} are those of a machine \
             that was too busy each time"
        )
    };
    (runs > 0).then(told)
}

/// Its place on all axes but one.
fn elsewhere(cell: &CellResults) -> Vec<&(&'static str, String)> {
    cell.coordinates
        .iter()
        .filter(|(axis, _)| *axis != HALF)
        .collect()
}

/// Its place on the axes on which the results have several.
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
    fn intervals_meet_or_do_not() {
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
