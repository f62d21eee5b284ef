//! Figures: which metric is drawn over which axis, and the paper's own numbers.

use crate::experiment::lies_at;
use crate::plot::{Curve, Drawing, Plot, Point, Scale};
use crate::results::{CellResults, Results};
use crate::statistics::Estimate;

/// The horizontal axis of a figure that draws an empirical distribution function (ECDF): the share of a run's readings that do not exceed a
/// value. Its vertical axis is the common beginning of the names of the metrics `BEGINNING_qNN_s`, one for each of [`PERCENTILES`]. Each
/// of its curves belongs to one cell.
pub const ECDF: &str = "ecdf";

/// The horizontal axis of a figure that draws a series within a run, such as the delay message by message. Its vertical axis is the common
/// beginning of the names of the metrics `BEGINNING_N`, one for each number N of the horizontal axis. Each of its curves belongs to one
/// cell. Curves lie next to each other instead of at the exact number, so that equal curves do not hide each other.
pub const SERIES: &str = "series";

/// The beginning of the name of a vertical axis that shows by how many percent a metric is lower than in the figure's first curve, at the same
/// place on the horizontal axis. The first curve itself is not drawn. The name of the metric follows.
pub const REDUCTION: &str = "reduction of ";

/// The width over which the points of a [`SERIES`] with the same number are spread.
const SPREAD: f64 = 0.4;

/// The percentiles from which an ECDF is drawn.
pub const PERCENTILES: [u32; 11] = [1, 5, 10, 20, 30, 50, 70, 80, 90, 95, 99];

/// The metric of a percentile, in seconds.
#[must_use]
pub fn percentile_metric(beginning: &str, percent: u32) -> String {
    format!("{beginning}_q{percent:02}_s")
}

/// A figure that is drawn from an experiment's results.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of the file: lower case with hyphens.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The content of the paper's figure or table, in words and numbers; empty if no paper has it.
    pub paper: &'static str,
    /// The horizontal axis: one of the experiment's, [`ECDF`] or [`SERIES`], and its label.
    pub x: (&'static str, &'static str),
    /// The vertical axis: one of the experiment's metrics, or [`REDUCTION`] and one of them, and its label.
    pub y: (&'static str, &'static str),
    /// Whether the vertical axis is logarithmic.
    pub logarithmic: bool,
    /// The curves.
    pub curves: Vec<FigureCurve>,
}

/// The cells of one curve.
#[derive(Clone, Debug)]
pub struct FigureCurve {
    /// For the legend.
    pub name: &'static str,
    /// The places of the cells, which may differ on the horizontal axis only. Empty for a curve that comes from a formula.
    pub at: Vec<(&'static str, &'static str)>,
    /// Numbers of the paper or of the formula, if there are any, as horizontal and vertical coordinates.
    pub paper: &'static [(f64, f64)],
}

impl Figure {
    /// The picture; `None` if none of its cells was run, or if so few were that no curve has two points and some have none.
    ///
    /// # Panics
    /// If the experiment does not have the metric that the figure draws.
    #[must_use]
    pub fn plot(&self, results: &Results) -> Option<Plot> {
        let places = self.places(results);
        let mut curves = Vec::new();
        for (colour, curve) in self.curves.iter().enumerate() {
            let mut points = self.points(curve, results, &places);
            if self.x.0 == SERIES {
                let beside = (colour as f64 + 0.5) / self.curves.len() as f64 - 0.5;
                points.iter_mut().for_each(|point| point.x += SPREAD * beside);
            }
            let is_reckoned = curve.at.is_empty();
            if points.is_empty() && !is_reckoned {
                continue;
            }
            if !is_reckoned {
                curves.push(Curve {
                    name: curve.name.to_owned(),
                    points,
                    colour,
                    is_foreign: false,
                    drawing: Drawing::Markers,
                });
            }
            if !curve.paper.is_empty() {
                let points = curve.paper.iter().copied().map(Point::exact);
                curves.push(Curve {
                    name: match is_reckoned {
                        true => curve.name.to_owned(),
                        false => format!("{}, paper", curve.name),
                    },
                    points: points.collect(),
                    colour,
                    is_foreign: true,
                    drawing: Drawing::Markers,
                });
            }
        }
        let measured: Vec<usize> = curves
            .iter()
            .filter(|curve| !curve.is_foreign)
            .map(|curve| curve.points.len())
            .collect();
        let wanted = self.curves.iter().filter(|curve| !curve.at.is_empty()).count();
        let most = measured.iter().max().copied().unwrap_or(0);
        let is_measured = most > 1 || (most == 1 && measured.len() == wanted);
        let is_wide = places.is_empty() && is_better_logarithmic(&curves);
        is_measured.then(|| Plot {
            title: self.title.to_owned(),
            x: Scale {
                label: self.x.1.to_owned(),
                logarithmic: is_wide,
                places,
            },
            y: Scale {
                label: self.y.1.to_owned(),
                logarithmic: self.logarithmic,
                places: Vec::new(),
            },
            curves,
        })
    }

    /// The names on the horizontal axis, in the order of the cells, if they are not numbers.
    fn places(&self, results: &Results) -> Vec<String> {
        let mut places: Vec<String> = Vec::new();
        for cell in &results.cells {
            let is_drawn =
                |curve: &FigureCurve| !curve.at.is_empty() && lies_at(&cell.coordinates, &curve.at);
            let place = place_on(self.x.0, &cell.coordinates);
            if let Some(place) = place.filter(|_| self.curves.iter().any(is_drawn))
                && !places.iter().any(|known| known == place)
            {
                places.push(place.to_owned());
            }
        }
        if places.iter().all(|place| place.parse::<f64>().is_ok()) {
            places.clear();
        }
        places
    }

    fn points(&self, curve: &FigureCurve, results: &Results, places: &[String]) -> Vec<Point> {
        if self.x.0 == ECDF {
            return self.distribution(curve, results);
        }
        let cells = results
            .cells
            .iter()
            .filter(|cell| !curve.at.is_empty() && lies_at(&cell.coordinates, &curve.at));
        let point = |x: f64, cell: &CellResults, metric: &str| {
            let estimate = results.estimate(cell, metric)?;
            Some(Point {
                x,
                y: estimate.mean,
                interval: (estimate.low, estimate.high),
            })
        };
        if self.x.0 == SERIES {
            return cells
                .flat_map(|cell| results.metrics().map(move |metric| (cell, metric)))
                .filter_map(|(cell, metric)| point(self.number_in_series(metric)?, cell, metric))
                .collect();
        }
        let mut points: Vec<Point> = cells
            .filter_map(|cell| {
                let place = place_on(self.x.0, &cell.coordinates)?;
                let x = match places.iter().position(|known| known == place) {
                    Some(position) => position as f64,
                    None => place.parse().ok()?,
                };
                match self.y.0.strip_prefix(REDUCTION) {
                    Some(metric) => self.reduction(results, cell, place, metric).map(|reduced| Point {
                        x,
                        y: 100.0 * (1.0 - reduced.mean),
                        interval: (100.0 * (1.0 - reduced.high), 100.0 * (1.0 - reduced.low)),
                    }),
                    None => point(x, cell, self.y.0),
                }
            })
            .collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        points
    }

    /// The ratio of a metric between a cell and the cell of the first curve at the same place; `None` in the first curve itself, and if the
    /// metric is 0 in its cell.
    fn reduction(
        &self,
        results: &Results,
        cell: &CellResults,
        place: &str,
        metric: &str,
    ) -> Option<Estimate> {
        let first = &self.curves.first()?.at;
        let mut cells = results.cells.iter();
        let reference = cells.find(|other| {
            lies_at(&other.coordinates, first) && place_on(self.x.0, &other.coordinates) == Some(place)
        });
        let reference = reference.filter(|reference| *reference != cell)?;
        let (above, below) = (results.values(cell, metric), results.values(reference, metric));
        let ratios: Vec<f64> = above
            .iter()
            .zip(&below)
            .map(|(above, below)| above / below)
            .collect();
        let is_defined = below.iter().all(|below| *below > 0.0);
        is_defined.then(|| Estimate::of_ratios(&ratios)).flatten()
    }

    /// The number of a metric in the series; `None` if the metric does not belong to the series.
    fn number_in_series(&self, metric: &str) -> Option<f64> {
        let number = metric.strip_prefix(self.y.0)?.strip_prefix('_')?;
        number.parse::<u32>().ok().map(f64::from)
    }

    /// The percentiles of a curve's cell, as means over the seeds.
    fn distribution(&self, curve: &FigureCurve, results: &Results) -> Vec<Point> {
        let mut cells = results
            .cells
            .iter()
            .filter(|cell| !curve.at.is_empty() && lies_at(&cell.coordinates, &curve.at));
        let Some(cell) = cells.next() else {
            return Vec::new();
        };
        let point = |percent: u32| {
            let x = results
                .estimate(cell, &percentile_metric(self.y.0, percent))?
                .mean;
            let y = f64::from(percent) / 100.0;
            Some(Point {
                x,
                y,
                interval: (y, y),
            })
        };
        PERCENTILES.into_iter().filter_map(point).collect()
    }

    /// The fault of a figure, if it has one: an unknown axis or metric, or a curve with two cells at one place.
    #[must_use]
    pub fn fault(&self, coordinates: &[&[(&'static str, String)]], metrics: &[&str]) -> Option<String> {
        let needed = match self.x.0 {
            ECDF => PERCENTILES
                .map(|percent| percentile_metric(self.y.0, percent))
                .to_vec(),
            SERIES
                if metrics
                    .iter()
                    .any(|metric| self.number_in_series(metric).is_some()) =>
            {
                Vec::new()
            }
            _ => vec![self.y.0.strip_prefix(REDUCTION).unwrap_or(self.y.0).to_owned()],
        };
        if let Some(metric) = needed.iter().find(|metric| !metrics.contains(&metric.as_str())) {
            return Some(format!("{}: no metric {metric}", self.name));
        }
        for curve in self.curves.iter().filter(|curve| !curve.at.is_empty()) {
            let mut seen: Vec<&str> = Vec::new();
            for cell in coordinates.iter().filter(|cell| lies_at(cell, &curve.at)) {
                let place = match self.x.0 {
                    of_one_cell @ (ECDF | SERIES) => Some(of_one_cell),
                    axis => place_on(axis, cell),
                };
                let Some(place) = place else {
                    return Some(format!("{}: no axis {}", self.name, self.x.0));
                };
                if seen.contains(&place) {
                    return Some(format!("{}: {} has two cells at {place}", self.name, curve.name));
                }
                seen.push(place);
            }
            if seen.is_empty() {
                return Some(format!("{}: {} has no cells", self.name, curve.name));
            }
        }
        None
    }
}

/// Whether the horizontal axis is logarithmic: all coordinates are above 0, they span at least two decades, and a logarithmic axis spreads
/// them more evenly than a linear one. Shares such as 1, 25, 50, 75 and 100 % thus stay on a linear axis.
fn is_better_logarithmic(curves: &[Curve]) -> bool {
    let xs = curves.iter().flat_map(|curve| &curve.points).map(|point| point.x);
    let mut xs: Vec<f64> = xs.collect();
    xs.sort_unstable_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (xs.first(), xs.last()) else {
        return false;
    };
    // The widest gap between neighbours, as a share of the axis.
    let widest = |scale: fn(f64) -> f64| {
        let gaps = xs.windows(2).map(|pair| scale(pair[1]) - scale(pair[0]));
        gaps.fold(0.0, f64::max) / (scale(most) - scale(least))
    };
    least > 0.0 && most >= 100.0 * least && widest(f64::ln) <= widest(|x| x)
}

fn place_on<'a>(axis: &str, coordinates: &'a [(&'static str, String)]) -> Option<&'a str> {
    let found = coordinates.iter().find(|(name, _)| *name == axis);
    found.map(|(_, place)| place.as_str())
}

#[cfg(test)]
mod tests;
