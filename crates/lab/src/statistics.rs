//! Means over independent seeds with their two-sided 95 % intervals (Student's t).

use core::fmt;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The mean of a sample and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number of values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// The lower end of the 95 % interval around the mean; minus infinity for a single value, or 0 for a single ratio.
    pub low: f64,
    /// The upper end; infinity for a single value.
    pub high: f64,
}

impl Estimate {
    /// The arithmetic mean; `None` if the sample is empty or has a NaN.
    #[must_use]
    pub fn of(sample: &[f64]) -> Option<Self> {
        if sample.is_empty() || sample.iter().any(|value| value.is_nan()) {
            return None;
        }
        let (count, mean) = (sample.len(), mean(sample));
        let half_width = if count == 1 {
            f64::INFINITY
        } else {
            student_t(count - 1) * deviation(sample, 1) / (count as f64).sqrt()
        };
        Some(Self {
            count,
            mean,
            low: mean - half_width,
            high: mean + half_width,
        })
    }

    /// The geometric mean, which suits ratios: half and double cancel. The interval is that of the logarithms. `None` if the sample is
    /// empty or has a value that is not a number above 0.
    #[must_use]
    pub fn of_ratios(sample: &[f64]) -> Option<Self> {
        if sample.iter().any(|ratio| *ratio <= 0.0) {
            return None;
        }
        let logarithms: Vec<f64> = sample.iter().map(|ratio| ratio.ln()).collect();
        let estimate = Self::of(&logarithms)?;
        Some(Self {
            count: estimate.count,
            mean: estimate.mean.exp(),
            low: estimate.low.exp(),
            high: estimate.high.exp(),
        })
    }

    /// The number of seeds after which an interval of the same spread around the same mean would lie on one side of every `bound`: at
    /// least one more than now. `None` if no number of seeds would do, or if there is one value, which has no spread.
    ///
    /// `is_ratio`: the interval is that of the logarithms ([`Estimate::of_ratios`]).
    #[must_use]
    pub fn seeds_to_decide(&self, bounds: &[f64], is_ratio: bool) -> Option<u64> {
        let scale = |value: f64| if is_ratio { value.ln() } else { value };
        let half_width = scale(self.high) - scale(self.mean);
        let distance = |bound: &f64| (scale(self.mean) - scale(*bound)).abs();
        let margin = bounds.iter().map(distance).fold(f64::INFINITY, f64::min);
        if self.count < 2 || !half_width.is_finite() || margin <= 0.0 {
            return None;
        }
        let deviation = half_width * (self.count as f64).sqrt() / student_t(self.count - 1);
        let decides = |count: u64| {
            let t = student_t(usize::try_from(count - 1).unwrap_or(usize::MAX));
            t * deviation / (count as f64).sqrt() <= margin
        };
        // t falls to the normal quantile, so that twice this estimate is enough.
        let most = (1.96 * deviation / margin).powi(2) * 2.0 + 2.0 * self.count as f64;
        if most > 1e9 {
            return None;
        }
        let (mut low, mut high) = (self.count as u64 + 1, most as u64 + 1);
        while low < high {
            let middle = low.midpoint(high);
            if decides(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(low)
    }

    /// Half the width of the interval.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The mean and the ends of the interval, as text.
    #[must_use]
    pub fn with_interval(&self) -> String {
        if self.high.is_finite() {
            format!(
                "{} ({} to {})",
                number(self.mean),
                number(self.low),
                number(self.high)
            )
        } else {
            format!("{} (one seed)", number(self.mean))
        }
    }
}

/// The mean, and half the width of the interval where there is one.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half_width = self.half_width();
        f.write_str(&number(self.mean))?;
        if half_width.is_finite() && half_width > 0.0 {
            write!(f, "±{}", number(half_width))?;
        }
        Ok(())
    }
}

/// A number with three significant digits, or with all digits before the decimal point.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i32;
    let after = (2 - before).clamp(0, 6) as usize;
    format!("{value:.after$}")
}

/// The mean; NaN if there are no values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a sample or, with `lost` 0, of a whole population. `lost` is the number of degrees of
/// freedom already used.
#[must_use]
pub fn deviation(values: &[f64], lost: usize) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - lost) as f64).sqrt()
}

/// The growth of `values` with `places`: the slope of the least-squares line. NaN unless there are two different places.
///
/// # Panics
/// If the two slices differ in length.
#[must_use]
pub fn slope(places: &[f64], values: &[f64]) -> f64 {
    assert_eq!(places.len(), values.len(), "a value for each place");
    let (middle, level) = (mean(places), mean(values));
    let both: f64 = places
        .iter()
        .zip(values)
        .map(|(place, value)| (place - middle) * (value - level))
        .sum();
    let squares: f64 = places.iter().map(|place| (place - middle).powi(2)).sum();
    both / squares
}

/// The smallest reading that at least `share` (0 to 1) of all readings do not exceed. NaN if there are none.
#[must_use]
pub fn quantile(readings: &[f64], share: f64) -> f64 {
    let mut sorted = readings.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// A summary of the readings within one run. All fields are 0 if there are no readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The standard deviation of the readings.
    pub deviation: f64,
}

impl Summary {
    /// The summary of these readings.
    #[must_use]
    pub fn of(readings: &[f64]) -> Self {
        if readings.is_empty() {
            return Self::default();
        }
        Self {
            mean: mean(readings),
            max: readings.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            deviation: deviation(readings, 0),
        }
    }
}

/// The 97.5 % quantile of Student's t distribution. `degrees_of_freedom` is at least 1.
fn student_t(degrees_of_freedom: usize) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, degrees_of_freedom as f64);
    distribution.map_or(f64::INFINITY, |distribution| distribution.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // By hand: mean 3, deviation √2.5, t(4) = 2.776.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((estimate.count, estimate.mean), (5, 3.0));
        assert!((estimate.half_width() - 2.776 * (0.5_f64).sqrt()).abs() < 1e-3);
        assert_eq!(estimate.low + estimate.high, 6.0);
    }

    #[test]
    fn the_seeds_that_decide_make_the_interval_narrow_enough() {
        // A deviation of √2.5: with 12 values t = 2.201, and half the width is 1.0046; with 13 values 0.955.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(estimate.seeds_to_decide(&[4.0], false), Some(13));
        assert_eq!(
            estimate.seeds_to_decide(&[9.0, 4.0], false),
            Some(13),
            "the nearest bound"
        );
        assert_eq!(
            estimate.seeds_to_decide(&[4.9], false),
            Some(6),
            "one more at least"
        );
        assert_eq!(
            estimate.seeds_to_decide(&[3.0], false),
            None,
            "the mean is the bound"
        );
        assert_eq!(Estimate::of(&[1.0]).unwrap().seeds_to_decide(&[4.0], false), None);
        let ratio = Estimate::of_ratios(&[
            1.0_f64.exp(),
            2.0_f64.exp(),
            3.0_f64.exp(),
            4.0_f64.exp(),
            5.0_f64.exp(),
        ]);
        assert_eq!(ratio.unwrap().seeds_to_decide(&[4.0_f64.exp()], true), Some(13));
    }

    #[test]
    fn people_read_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.180_49, "0.180"),
            (3.987, "3.99"),
            (5003.4, "5003"),
            (-0.002_5, "-0.00250"),
            (1e-9, "0.000000"),
        ] {
            assert_eq!(number(value), text);
        }
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(estimate.to_string(), "3.00±1.96");
        assert_eq!(estimate.with_interval(), "3.00 (1.04 to 4.96)");
        assert_eq!(Estimate::of(&[2.5]).unwrap().to_string(), "2.50");
    }

    #[test]
    fn one_value_says_nothing_of_its_spread() {
        assert_eq!(Estimate::of(&[7.0]).unwrap().half_width(), f64::INFINITY);
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN]), None);
        assert_eq!(Estimate::of(&[2.0, 2.0]).unwrap().half_width(), 0.0);
    }

    #[test]
    fn half_and_double_cancel() {
        let estimate = Estimate::of_ratios(&[0.5, 2.0]).unwrap();
        assert!((estimate.mean - 1.0).abs() < 1e-12);
        assert!((estimate.low * estimate.high - 1.0).abs() < 1e-9);
        assert!(estimate.low > 0.0 && estimate.high.is_finite());
        assert_eq!(Estimate::of_ratios(&[0.0, 1.0]), None);
        assert_eq!(Estimate::of_ratios(&[3.0]).unwrap().high, f64::INFINITY);
    }

    #[test]
    fn quantiles_are_those_of_published_tables() {
        for (degrees, quantile) in [
            (1, 12.706),
            (2, 4.303),
            (10, 2.228),
            (30, 2.042),
            (40, 2.021),
            (60, 2.000),
            (120, 1.980),
            (1_000_000, 1.960),
        ] {
            assert!((student_t(degrees) - quantile).abs() < 6e-4, "{degrees}");
        }
    }

    #[test]
    fn the_slope_is_that_of_least_squares() {
        assert_eq!(slope(&[0.0, 1.0, 2.0], &[5.0, 7.0, 9.0]), 2.0);
        // By hand: (-1 · -1 + 0 · 2 + 1 · -1) / 2.
        assert_eq!(slope(&[0.0, 1.0, 2.0], &[0.0, 3.0, 0.0]), 0.0);
        assert!(slope(&[1.0, 1.0], &[0.0, 3.0]).is_nan());
        assert!(slope(&[], &[]).is_nan());
    }

    #[test]
    fn a_quantile_is_a_reading() {
        let readings = [4.0, 1.0, 3.0, 2.0];
        for (share, reading) in [(0.0, 1.0), (0.25, 1.0), (0.5, 2.0), (0.51, 3.0), (1.0, 4.0)] {
            assert_eq!(quantile(&readings, share), reading, "{share}");
        }
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn a_summary_is_of_all_readings() {
        let summary = Summary::of(&[0.0, 0.0, 4.0, 4.0]);
        assert_eq!((summary.mean, summary.max, summary.deviation), (2.0, 4.0, 2.0));
        assert_eq!(Summary::of(&[]), Summary::default());
    }
}
