//! An experiment with two halves: each cell is run in the simulator and on real packets.

use std::sync::Arc;
use std::time::Duration;

use super::{Record, Scenario, Stage, simulated};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::trial::Trial;
use crate::user::{kept, word};

/// The axis with the two halves.
pub const HALF: &str = "half";
/// The place on [`HALF`] for the simulator.
pub const SIMULATED: &str = "simulated";
/// The place on [`HALF`] for real packets.
pub const BED: &str = "bed";

/// The metric that counts repetitions of a run.
pub(super) const RUNS_AGAIN: &str = "runs_again";
/// The metric that marks runs on a machine that was too busy each time.
pub(super) const NOT_HELD: &str = "not_held";

/// Metrics of the testbed itself, after the experiment's own metrics. They have no values in the simulator.
const OF_THE_BED: [Metric; 4] = [
    metric(
        "late",
        "ms",
        "delay of the bed itself: 99 of 100 packets were delivered no later than this after their due time",
    ),
    metric(RUNS_AGAIN, "", "runs made again because the machine was too busy"),
    metric(
        NOT_HELD,
        "",
        "1 if the machine was too busy each time, so that the numbers are unreliable",
    ),
    metric(
        "stolen",
        "%",
        "share of processor time that the host of a virtual machine took",
    ),
];

/// Runs scenarios on real packets.
pub trait RealNetwork: Send + Sync {
    /// Runs a scenario, possibly several times. The seed decides the random events on the links. `None` if the run was interrupted or
    /// failed.
    fn run(&self, scenario: &dyn Fn() -> Scenario, seed: u64) -> Option<RealRun>;

    /// Facts about the origin of the numbers, as names and values.
    fn facts(&self) -> Vec<(String, String)>;
}

/// A run on real packets.
#[derive(Clone, Debug)]
pub struct RealRun {
    /// The record of the run.
    pub record: Record,
    /// The 99 % quantile of the bed's own delay, beyond that of its links.
    pub late: Duration,
    /// The number of earlier runs that were discarded because packets were late.
    pub discarded: u32,
    /// Whether packets were in time in this run.
    pub is_held: bool,
    /// The share of processor time that the host of a virtual machine took, from 0 to 1.
    pub stolen: f64,
}

/// The experiment with each cell twice, on the axis [`HALF`]. The simulated half uses Linux's TCP settings. `all` selects all cells that
/// can run on real packets; otherwise the experiment's default cells are selected. `None` if there are none.
#[must_use]
pub fn beside(experiment: &Experiment, real: Arc<dyn RealNetwork>, all: bool) -> Option<Experiment> {
    let staged = move |extent: Extent, cells: &dyn Fn(Extent) -> Vec<Cell>| -> Vec<(Place, Stage)> {
        let cells = cells(extent).into_iter();
        let staged = cells.filter_map(|cell| Some((cell.coordinates().to_vec(), cell.stage()?.clone())));
        staged.filter(|(_, stage)| all || stage.is_usual).collect()
    };
    let (of_cells, of_figures) = (experiment.cells, experiment.figures);
    if !staged(Extent::Full, of_cells)
        .iter()
        .any(|(_, stage)| stage.has_real)
    {
        return None;
    }
    let facts = real.facts().into_iter().map(|(name, value)| Parameter {
        name: word(name),
        value: word(value),
        from_paper: false,
    });
    let parameters: Vec<Parameter> = experiment.parameters.iter().copied().chain(facts).collect();
    let metrics: Vec<Metric> = experiment.metrics.iter().copied().chain(OF_THE_BED).collect();
    Some(Experiment {
        name: word(format!("{}-bed", experiment.name)),
        question: word(format!(
            "{} In the simulator, and on real packets.",
            experiment.question
        )),
        parameters: kept(parameters.into()),
        metrics: kept(metrics.into()),
        cells: kept(Box::new(move |extent| {
            let staged = staged(extent, of_cells).into_iter();
            staged
                .flat_map(|(place, stage)| both(&place, &stage, &real))
                .collect()
        })),
        claims: kept(Box::new(move || {
            let staged = staged(Extent::Full, of_cells).into_iter();
            staged
                .flat_map(|(place, stage)| agreements(&place, &stage))
                .collect()
        })),
        figures: kept(Box::new(move || {
            of_figures().into_iter().filter_map(twice).collect()
        })),
        // They show cells that may have no counterpart.
        timelines: &Vec::new,
        ..*experiment
    })
}

type Place = Vec<(&'static str, String)>;

/// The cell in the simulator and, if there is a counterpart, on real packets.
fn both(place: &Place, stage: &Stage, real: &Arc<dyn RealNetwork>) -> Vec<Cell> {
    let on = |network: &str| {
        let mut place = place.clone();
        place.push((HALF, network.to_owned()));
        place
    };
    let (here, there, real) = (stage.clone(), stage.clone(), Arc::clone(real));
    let simulated = Cell::new(on(SIMULATED), move |trial| {
        let mut numbers = here.numbers(&simulated(as_linux(here.scenario(trial)), trial));
        numbers.extend([f64::NAN; OF_THE_BED.len()]);
        numbers
    });
    let bed = Cell::interruptible(on(BED), move |trial: &Trial<'_>| {
        let run = real.run(&|| there.scenario(trial), trial.seed)?;
        let mut numbers = there.numbers(&run.record);
        let not_held = f64::from(u8::from(!run.is_held));
        let late = run.late.as_secs_f64() * 1e3;
        numbers.extend([late, f64::from(run.discarded), not_held, run.stolen * 100.0]);
        Some(numbers)
    });
    if stage.has_real {
        vec![simulated, bed]
    } else {
        vec![simulated]
    }
}

/// Uses Linux's TCP settings instead of the paper's, as the other half runs the kernel's TCP.
fn as_linux(mut scenario: Scenario) -> Scenario {
    if let Some(flows) = &mut scenario.tcp {
        flows.config = flows.real.clone();
    }
    scenario
}

/// The claims that both halves agree, as the stage demands.
fn agreements(place: &Place, stage: &Stage) -> Vec<Claim> {
    let words: Vec<String> = place
        .iter()
        .map(|(axis, place)| format!("{axis} {place}"))
        .collect();
    let claim = |&(metric, within): &(&'static str, f64)| {
        let on = |network: &'static str| {
            let mut place = place.clone();
            place.push((HALF, network.to_owned()));
            place
        };
        let (bed, simulated) = (on(BED), on(SIMULATED));
        let says = format!(
            "{}: {metric} on real packets and in the simulator differ by less than {:.0} %",
            words.join(", "),
            within * 100.0
        );
        // Two digits suffice, because the bound was chosen by hand.
        let lower = (100.0 / (1.0 + within)).round() / 100.0;
        let bound = Bound::Within(lower, 1.0 + within);
        Claim::of_ratio(word(says), "", bound, move |results| {
            results.ratio(&borrowed(&bed), &borrowed(&simulated), metric)
        })
    };
    stage.agreement.iter().map(claim).collect()
}

fn borrowed(place: &Place) -> Vec<(&'static str, &str)> {
    place
        .iter()
        .map(|(axis, place)| (*axis, place.as_str()))
        .collect()
}

/// A figure with each curve twice. The paper's numbers belong to neither half and are left out.
fn twice(figure: Figure) -> Option<Figure> {
    let measured = figure.curves.iter().filter(|curve| !curve.at.is_empty());
    let curves: Vec<FigureCurve> = measured
        .flat_map(|curve| {
            [SIMULATED, BED].map(|network| FigureCurve {
                name: word(format!("{}, {network}", curve.name)),
                at: curve.at.iter().copied().chain([(HALF, network)]).collect(),
                paper: &[],
            })
        })
        .collect();
    (!curves.is_empty()).then_some(Figure { curves, ..figure })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::claim::Verdict;
    use crate::experiments::named;
    use crate::known::{Conditions, Known};
    use crate::results::Results;
    use crate::run::{Plan, run};
    use crate::stage::{business, side_by_side};
    use crate::trial::Knobs;

    /// A simulator in the role of the real network, so both halves must be equal. With an odd seed it discards one run.
    struct Mirror;

    impl RealNetwork for Mirror {
        fn run(&self, scenario: &dyn Fn() -> Scenario, seed: u64) -> Option<RealRun> {
            Some(RealRun {
                record: simulated(as_linux(scenario()), &Trial::new(seed, &Knobs::default())),
                late: Duration::from_micros(500),
                discarded: (seed % 2) as u32,
                is_held: true,
                stolen: 0.25,
            })
        }

        fn facts(&self) -> Vec<(String, String)> {
            vec![("bed".to_owned(), "a mirror".to_owned())]
        }
    }

    fn results(name: &str, settings: &[(&str, &str)]) -> (Experiment, Results) {
        let experiment = beside(&named(name).unwrap(), Arc::new(Mirror), false).unwrap();
        let mut knobs = Knobs::default();
        for (name, value) in settings {
            knobs.set(&experiment, name, value).unwrap();
        }
        let conditions = Conditions {
            version: "1.0".to_owned(),
            extent: Extent::Quick,
            knobs,
        };
        let plan = Plan {
            conditions: &conditions,
            seeds: 3,
            jobs: 1,
            only: &[],
        };
        let (mut known, stop) = (Known::default(), AtomicBool::new(false));
        let results = run(&experiment, &plan, &mut known, &stop, |_, _| {}).unwrap();
        assert!(!stop.load(Ordering::Relaxed));
        (experiment, results)
    }

    #[test]
    fn equal_networks_have_equal_halves() {
        let (experiment, results) = results("tcp", &[("warm_up", "1"), ("seconds", "3")]);
        assert_eq!(experiment.name, "tcp-bed");
        assert!(experiment.parameters.iter().any(|one| one.value == "a mirror"));
        assert_eq!(results.cells.len(), 6, "two cells have no counterpart");
        let pairs = side_by_side(&results);
        assert_eq!(pairs.len(), 2 * 5, "{pairs:?}");
        assert!(
            pairs
                .iter()
                .all(|pair| pair.meet() && pair.simulated == pair.real),
            "{pairs:?}"
        );
        let claims = (experiment.claims)();
        assert_eq!(claims.len(), 2 * 3);
        for claim in &claims {
            assert_eq!(claim.judge(&results).verdict, Verdict::Holds, "{}", claim.says);
        }
        let told = business(&results).unwrap();
        assert!(told.starts_with("6 runs on the bed; 4 were made again"), "{told}");
    }

    #[test]
    fn figures_have_each_curve_twice() {
        let (experiment, results) = results("stream-priority", &[("chat_interval", "0.1")]);
        let figures = (experiment.figures)();
        let drawn: Vec<_> = figures
            .iter()
            .filter_map(|figure| figure.plot(&results))
            .collect();
        assert!(!drawn.is_empty());
        for plot in drawn {
            let names = plot.curves.iter().map(|curve| curve.name.as_str());
            let on = |network: &str| names.clone().filter(|name| name.ends_with(network)).count();
            assert_eq!(on(SIMULATED), on(BED), "{:?}", plot.title);
        }
    }

    /// Axes and metrics are columns of one file, so their names must differ.
    #[test]
    fn no_experiment_has_a_column_of_this_name() {
        for experiment in crate::experiments::all() {
            let ours = OF_THE_BED.iter().map(|metric| metric.name).chain([HALF]);
            let cells = (experiment.cells)(Extent::Full);
            let axes = cells[0].coordinates().iter().map(|(axis, _)| *axis);
            let theirs: Vec<&str> = experiment
                .metrics
                .iter()
                .map(|metric| metric.name)
                .chain(axes)
                .collect();
            assert!(
                ours.clone().all(|name| !theirs.contains(&name)),
                "{}",
                experiment.name
            );
        }
    }

    #[test]
    fn an_experiment_without_stages_has_no_other_half() {
        assert!(beside(&named("time-sensitive").unwrap(), Arc::new(Mirror), true).is_none());
    }
}
