//! Timelines: figures of one run over time, drawn from the traces of cells with the first seed.
//!
//! A [`crate::Figure`] shows means over the seeds. A timeline shows the course of one run, as the papers' traces do, so that equal settings
//! draw equal pictures.

use crate::experiment::{Experiment, Extent};
use crate::plot::{Curve, Drawing, Plot, Point, Scale};
use crate::trace::{Trace, Tracing};
use crate::trial::{Knobs, Trial};

/// The seed whose run is drawn.
const SEED: u64 = 1;

/// A figure of one run for each curve.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The name of the file: lower case with hyphens.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The content of the paper's figure, in words and numbers; empty if no paper has it.
    pub paper: &'static str,
    /// The label of the horizontal axis.
    pub x: &'static str,
    /// The label of the vertical axis.
    pub y: &'static str,
    /// Whether the vertical axis is logarithmic.
    pub logarithmic: bool,
    /// How the points are drawn.
    pub drawing: Drawing,
    /// The curves.
    pub curves: Vec<TimelineCurve>,
}

/// The run of one curve.
#[derive(Clone, Debug)]
pub struct TimelineCurve {
    /// For the legend.
    pub name: &'static str,
    /// The places of the cell: those of exactly one cell of the experiment. Empty for numbers of the paper.
    pub at: Vec<(&'static str, &'static str)>,
    /// The points, as horizontal and vertical coordinates, from the run's trace. The trace is empty for numbers of the paper.
    pub points: fn(&Trace) -> Vec<(f64, f64)>,
}

/// A drawn timeline.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The timeline's name.
    pub name: &'static str,
    /// The content of the paper's figure; empty if no paper has it.
    pub paper: &'static str,
    /// The picture.
    pub plot: Plot,
}

/// Runs the cells of the experiment's timelines once, in the setting [`Extent::Short`], and draws the timelines.
///
/// # Panics
/// If a timeline names no cell: a test finds this.
#[must_use]
pub fn pictures(experiment: &Experiment, knobs: &Knobs) -> Vec<Picture> {
    let timelines = (experiment.timelines)();
    if timelines.is_empty() {
        return Vec::new();
    }
    let cells = (experiment.cells)(Extent::Short);
    let mut traces: Vec<(usize, Trace)> = Vec::new();
    let mut trace_of = |at: &[(&str, &str)]| -> Option<usize> {
        if at.is_empty() {
            return None;
        }
        let cell = cells.iter().position(|cell| cell.lies_at(at));
        let cell = cell.expect("each curve of a timeline has a cell");
        if let Some(known) = traces.iter().position(|(of, _)| *of == cell) {
            return Some(known);
        }
        let tracing = Tracing::default();
        let _ = cells[cell].run(&Trial::new(SEED, knobs).traced(&tracing));
        traces.push((cell, tracing.take()));
        Some(traces.len() - 1)
    };
    let runs: Vec<Vec<Option<usize>>> = timelines
        .iter()
        .map(|timeline| timeline.curves.iter().map(|curve| trace_of(&curve.at)).collect())
        .collect();
    let nothing = Trace::default();
    let draw = |(timeline, runs): (&Timeline, &Vec<Option<usize>>)| {
        let curves = timeline.curves.iter().zip(runs).enumerate();
        let curves = curves.map(|(colour, (curve, run))| Curve {
            name: curve.name.to_owned(),
            points: (curve.points)(run.map_or(&nothing, |run| &traces[run].1))
                .into_iter()
                .map(Point::exact)
                .collect(),
            colour,
            is_foreign: run.is_none(),
            drawing: match run {
                Some(_) => timeline.drawing,
                None => Drawing::Markers,
            },
        });
        Picture {
            name: timeline.name,
            paper: timeline.paper,
            plot: Plot {
                title: timeline.title.to_owned(),
                x: Scale::linear(timeline.x),
                y: Scale {
                    logarithmic: timeline.logarithmic,
                    ..Scale::linear(timeline.y)
                },
                curves: curves.collect(),
            },
        }
    };
    timelines.iter().zip(&runs).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use crate::experiments::all;

    use super::*;

    #[test]
    fn each_curve_has_one_cell() {
        for experiment in all() {
            let cells = (experiment.cells)(Extent::Short);
            for timeline in (experiment.timelines)() {
                for curve in timeline.curves.iter().filter(|curve| !curve.at.is_empty()) {
                    let found = cells.iter().filter(|cell| cell.lies_at(&curve.at)).count();
                    assert_eq!(
                        found, 1,
                        "{} {} {}: cells",
                        experiment.name, timeline.name, curve.name
                    );
                }
            }
        }
    }

    #[test]
    fn timelines_and_figures_have_different_names() {
        for experiment in all() {
            let timelines = (experiment.timelines)();
            let mut names: Vec<&str> = (experiment.figures)().iter().map(|figure| figure.name).collect();
            names.extend(timelines.iter().map(|timeline| timeline.name));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", experiment.name);
        }
    }
}
