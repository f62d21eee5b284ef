//! Axes: their ends, and the positions and texts of their labels.

use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// An axis.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Scale {
    /// The label, with the unit.
    pub label: String,
    /// Whether equal distances are equal ratios. If so, only numbers above 0 are drawn.
    pub logarithmic: bool,
    /// The names of the positions 0, 1, 2, …; empty if the axis has numbers.
    pub places: Vec<String>,
}

/// The digits of the labels on a logarithmic axis, from few to many.
const LOGARITHMIC_TICKS: [&[f64]; 5] = [
    &[1.0],
    &[1.0, 3.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[
        1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0,
    ],
];
/// The least number of labels on a logarithmic axis.
const LEAST_TICKS: usize = 4;

impl Scale {
    /// A linear axis of numbers.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    pub(super) fn tick(&self, place: f64) -> String {
        if self.logarithmic {
            return number(10_f64.powf(place));
        }
        if self.places.is_empty() {
            return number(place);
        }
        let nearest = place.round();
        let is_place = (place - nearest).abs() < 1e-6 && nearest >= 0.0;
        let name = is_place.then(|| self.places.get(nearest as usize)).flatten();
        name.cloned().unwrap_or_default()
    }

    pub(super) fn axis(&self, (low, high): (f64, f64), wanted: usize) -> Axis {
        Axis {
            range: (low..high).into(),
            ticks: self.ticks((low, high), wanted),
        }
    }

    /// The positions of the labels between the ends of the axis, of which there should be about `wanted` on a linear axis.
    pub(super) fn ticks(&self, (low, high): (f64, f64), wanted: usize) -> Vec<f64> {
        if !self.places.is_empty() {
            return (0..self.places.len()).map(|place| place as f64).collect();
        }
        if !self.logarithmic {
            return RangedCoordf64::from(low..high).key_points(BoldPoints(wanted));
        }
        let decades = low.floor() as i32..=high.ceil() as i32;
        let of = |digits: &[f64]| -> Vec<f64> {
            let places = decades.clone().flat_map(|decade| {
                let base = f64::from(decade);
                digits.iter().map(move |digit| base + digit.log10())
            });
            places.filter(|place| (low..=high).contains(place)).collect()
        };
        let enough = LOGARITHMIC_TICKS
            .iter()
            .map(|digits| of(digits))
            .find(|ticks| ticks.len() >= LEAST_TICKS);
        // An axis with less than a tenth of a decade has even distances.
        enough.unwrap_or_else(|| {
            let (low, high) = (10_f64.powf(low), 10_f64.powf(high));
            let places = RangedCoordf64::from(low..high).key_points(BoldPoints(LEAST_TICKS));
            places.into_iter().map(f64::log10).collect()
        })
    }

    /// The ends of the axis, such that all these numbers lie on it.
    pub(super) fn range(&self, values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
        if !self.places.is_empty() {
            return (-0.5, self.places.len() as f64 - 0.5);
        }
        let on_it = values.filter_map(|value| placed(value, self));
        let (mut low, mut high) = on_it.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if from_zero && !self.logarithmic {
            low = low.min(0.0);
        }
        let margin = if high > low { (high - low) * 0.05 } else { 0.5 };
        (
            if low == 0.0 && from_zero {
                low
            } else {
                low - margin
            },
            high + margin,
        )
    }
}

/// An axis with its ends and the positions of its labels.
pub(super) struct Axis {
    range: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.range()
    }
}

/// The position of a number on an axis that may be logarithmic; `None` if it has no position.
pub(super) fn placed(value: f64, scale: &Scale) -> Option<f64> {
    let place = if scale.logarithmic { value.log10() } else { value };
    Some(place).filter(|place| place.is_finite())
}

/// A number with the digits that people usually write.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.4}"),
        // Two digits after the leading zeros.
        size => format!("{value:.*}", (1.0 - size.log10().floor()) as usize),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}
