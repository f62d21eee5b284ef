use std::sync::atomic::AtomicBool;

use super::*;
use crate::experiment::{Cell, Experiment, Extent, Metric, metric};
use crate::known::{Conditions, Known};
use crate::run::{Plan, run};
use crate::trial::Knobs;
use crate::user::kept;

const METRICS: &[Metric] = &[
    metric("delay_max", "s", ""),
    metric("delay_1", "s", ""),
    metric("delay_2", "s", ""),
];

/// Two equal cells with two readings each, and a metric that is not part of the series.
fn toy() -> Experiment {
    let cell = |place: &'static str| Cell::new(vec![("variant", place.to_owned())], |_| vec![5.0, 6.0, 7.0]);
    Experiment {
        name: "toy",
        question: "",
        source: "",
        parameters: &[],
        knobs: &[],
        metrics: METRICS,
        seeds: &|_| 2,
        cells: kept(Box::new(move |_| vec![cell("a"), cell("b")])),
        claims: &Vec::new,
        figures: &Vec::new,
        timelines: &Vec::new,
    }
}

fn results() -> Results {
    results_of(&toy())
}

fn results_of(experiment: &Experiment) -> Results {
    let conditions = Conditions {
        version: String::new(),
        extent: Extent::Quick,
        knobs: Knobs::default(),
    };
    let plan = Plan {
        conditions: &conditions,
        seeds: crate::run::Seeds::from_one(2),
        jobs: 1,
        only: &[],
    };
    let stop = AtomicBool::new(false);
    run(experiment, &plan, &mut Known::default(), &stop, |_, _| {}).unwrap()
}

fn series(beginning: &'static str) -> Figure {
    let curve = |name: &'static str| FigureCurve {
        name,
        at: vec![("variant", name)],
        paper: &[],
    };
    Figure {
        name: "series",
        title: "",
        paper: "",
        x: (SERIES, "message"),
        y: (beginning, "delay [s]"),
        logarithmic: false,
        curves: vec![curve("a"), curve("b")],
    }
}

#[test]
fn equal_curves_of_a_series_lie_next_to_each_other() {
    let plot = series("delay").plot(&results()).unwrap();
    let readings = |curve: &Curve| -> Vec<(f64, f64)> {
        let points = curve.points.iter();
        points.map(|point| (point.x.round(), point.y)).collect()
    };
    assert_eq!(plot.curves.len(), 2);
    for curve in &plot.curves {
        assert_eq!(readings(curve), [(1.0, 6.0), (2.0, 7.0)]);
    }
    let [a, b] = [0, 1].map(|curve| plot.curves[curve].points[0].x);
    assert!(a < 1.0 && 1.0 < b && b - a <= SPREAD, "{a} {b}");
}

#[test]
fn a_series_needs_a_metric_with_a_number() {
    let places = ["a", "b"].map(|place| vec![("variant", place.to_owned())]);
    let coordinates: Vec<_> = places.iter().map(Vec::as_slice).collect();
    let metrics: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(series("delay").fault(&coordinates, &metrics), None);
    assert_eq!(
        series("delay").fault(&coordinates, &metrics[..1]),
        Some("series: no metric delay".to_owned())
    );
}

/// Cells a and b at two places. The metric is 8 in the first curve and 2 in the second, so it is lower by 75 %.
#[test]
fn a_reduction_is_drawn_against_the_first_curve() {
    let cell = |variant: &'static str, loss: &'static str| {
        let value = if variant == "a" { 8.0 } else { 2.0 };
        let at = vec![("variant", variant.to_owned()), ("loss", loss.to_owned())];
        Cell::new(at, move |_| vec![value, 0.0, 0.0])
    };
    let experiment = Experiment {
        cells: kept(Box::new(move |_| {
            vec![cell("a", "1"), cell("b", "1"), cell("a", "2"), cell("b", "2")]
        })),
        ..toy()
    };
    let figure = Figure {
        x: ("loss", ""),
        y: ("reduction of delay_max", ""),
        ..series("")
    };
    let plot = figure.plot(&results_of(&experiment)).unwrap();
    assert_eq!(plot.curves.len(), 1, "the first curve is not drawn");
    assert_eq!(plot.curves[0].name, "b");
    let points = plot.curves[0]
        .points
        .iter()
        .map(|point| (point.x, point.y.round()));
    assert_eq!(points.collect::<Vec<_>>(), [(1.0, 75.0), (2.0, 75.0)]);
    let cells = (experiment.cells)(Extent::Quick);
    let coordinates: Vec<_> = cells.iter().map(Cell::coordinates).collect();
    assert_eq!(figure.fault(&coordinates, &["delay_max"]), None);
    assert!(figure.fault(&coordinates, &["delay_1"]).is_some());
}

#[test]
fn an_axis_of_uneven_decades_is_logarithmic() {
    let spans = |xs: &[f64]| {
        is_better_logarithmic(&[Curve {
            name: String::new(),
            points: xs.iter().map(|x| Point::exact((*x, 1.0))).collect(),
            colour: 0,
            is_foreign: false,
            drawing: Drawing::Markers,
        }])
    };
    assert!(spans(&[32.0, 64.0, 4096.0]) && spans(&[0.1, 10.0]));
    assert!(!spans(&[1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 100.0]) && !spans(&[1.0, 50.0, 100.0]));
    assert!(!spans(&[0.0, 0.1, 10.0]) && !spans(&[32.0, 64.0, 256.0]) && !spans(&[]));
}

/// Figures of cells with one place on the horizontal axis.
mod single_points {
    use super::super::*;
    use crate::experiment::Extent;
    use crate::experiments::named;
    use crate::known::Conditions;
    use crate::results::CellResults;
    use crate::run::Plan;
    use crate::trial::Knobs;

    /// Results with a cell for each variant and share of important messages.
    fn results(variants: &[&str], shares: &[&str]) -> Results {
        let experiment = named("nr-sack-forward-tsn").unwrap();
        let conditions = Conditions {
            version: "1.0".to_owned(),
            extent: Extent::Quick,
            knobs: Knobs::default(),
        };
        let plan = Plan {
            conditions: &conditions,
            seeds: crate::run::Seeds::from_one(2),
            jobs: 1,
            only: &[],
        };
        let run = vec![1.0; experiment.metrics.len()];
        let cell = |variant: &str, share: &str| CellResults {
            coordinates: vec![("variant", variant.to_owned()), ("important", share.to_owned())],
            runs: vec![run.clone(); 2],
        };
        let cells = variants
            .iter()
            .flat_map(|variant| shares.iter().map(|share| cell(variant, share)));
        Results::new(&experiment, &plan, vec![1, 2], cells.collect())
    }

    #[test]
    fn single_points_are_drawn_only_if_every_curve_has_one() {
        let curve = |name| FigureCurve {
            name,
            at: vec![("variant", name)],
            paper: &[],
        };
        let figure = Figure {
            name: "",
            title: "",
            paper: "",
            x: ("important", ""),
            y: ("important_delay", ""),
            logarithmic: false,
            curves: vec![curve("existing"), curve("nr-sack")],
        };
        let is_drawn = |variants, shares| figure.plot(&results(variants, shares)).is_some();
        assert!(is_drawn(&["existing", "nr-sack"], &["1", "50"]));
        assert!(is_drawn(&["existing", "nr-sack"], &["50"]));
        assert!(is_drawn(&["existing"], &["1", "50"]));
        assert!(!is_drawn(&["existing"], &["50"]));
        assert!(!is_drawn(&[], &[]));
    }
}
