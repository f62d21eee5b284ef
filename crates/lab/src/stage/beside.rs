//! An experiment with two halves: each cell is run in the simulator and on real packets.

use std::sync::Arc;
use std::time::Duration;

use super::halves::{HalfCell, Halves};
use super::{BedCells, Record, Scenario, Stage};
use crate::claim::{Bound, Claim, Place};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::statistics::quantile;
use crate::trial::Knobs;
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
pub(crate) const NOT_HELD: &str = "not_held";

/// The metrics of the time that the receiving host takes.
pub(super) const READ_MEDIAN: &str = "read_median";
pub(super) const READ_P99: &str = "read_p99";

/// Metrics of the testbed itself, after the experiment's own metrics. They have no values in the simulator.
pub(super) const OF_THE_BED: [Metric; 8] = [
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
    metric(
        READ_MEDIAN,
        "ms",
        "time from the kernel's reception of the packet that lets a message be delivered until the application has the message, \
         median; not part of the delays",
    ),
    metric(READ_P99, "ms", "the same time, 99th percentile"),
    metric(
        "submit_median",
        "ms",
        "time from a message's scheduled time until it is submitted, median; part of the delays",
    ),
    metric("submit_p99", "ms", "the same time, 99th percentile"),
];

/// Runs scenarios on real packets.
pub trait RealNetwork: Send + Sync {
    /// Runs a scenario, possibly several times. The seed decides the random events on the links. `None` if the run was interrupted or
    /// failed.
    fn run(&self, scenario: &dyn Fn() -> Scenario, origin: &Origin<'_>) -> Option<RealRun>;

    /// Facts about the origin of the numbers, as names and values.
    fn facts(&self) -> Vec<(String, String)>;
}

/// Where a scenario comes from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The seed.
    pub seed: u64,
    /// The cell, by which another process can make the scenario again; `None` if the scenario is not a cell of an experiment.
    pub cell: Option<CellName<'a>>,
}

/// Identifies a cell of an experiment and the user's settings.
#[derive(Clone, Copy, Debug)]
pub struct CellName<'a> {
    /// The experiment.
    pub experiment: &'static str,
    /// The extent.
    pub extent: Extent,
    /// The place on each axis.
    pub place: &'a [(&'static str, String)],
    /// The settings that the user changed.
    pub settings: &'a Knobs,
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
    /// How late the programs on the hosts were.
    pub hosts: HostTimes,
}

impl RealRun {
    /// The numbers of [`OF_THE_BED`].
    pub(super) fn numbers(&self) -> [f64; OF_THE_BED.len()] {
        let HostTimes { read, submit } = self.hosts;
        [
            self.late.as_secs_f64() * 1e3,
            f64::from(self.discarded),
            f64::from(u8::from(!self.is_held)),
            self.stolen * 100.0,
            read.median,
            read.p99,
            submit.median,
            submit.p99,
        ]
    }
}

/// How late the programs on the hosts were, in milliseconds: the hosts' scheduling and processing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostTimes {
    /// From the kernel's reception of the packet that lets the endpoint deliver a message until the application has the message.
    pub read: Quantiles,
    /// From the scheduled time of a message until its submission.
    pub submit: Quantiles,
}

/// Two quantiles of a distribution; NaN if there are no readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Quantiles {
    /// The quantiles of these readings.
    #[must_use]
    pub fn of(readings: &[f64]) -> Self {
        Self {
            median: quantile(readings, 0.5),
            p99: quantile(readings, 0.99),
        }
    }
}

/// The experiment with its cells on the axis [`HALF`]: each cell in the simulator, and the `chosen` cells on real packets as well. The
/// simulated half uses Linux's TCP settings. Each claim is judged on both halves. `None` if no cell can run on real packets.
#[must_use]
pub fn beside(experiment: &Experiment, real: Arc<dyn RealNetwork>, chosen: BedCells) -> Option<Experiment> {
    let (original, of_figures) = (*experiment, experiment.figures);
    let has_real = |cell: &Cell| cell.stage().is_some_and(|stage| stage.has_real);
    if !(original.cells)(Extent::Full).iter().any(has_real) {
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
            let halves = Halves::of(&original, extent, chosen);
            let both = |cell: HalfCell| cell.both((original.name, extent), &real);
            halves.cells.into_iter().flat_map(both).collect()
        })),
        claims: kept(Box::new(move || {
            let halves = Halves::of(&original, Extent::Full, chosen);
            let agreements = halves.cells.iter().flat_map(|cell| match cell.cell.stage() {
                Some(stage) if cell.is_on_bed => agreements(cell.cell.coordinates(), stage),
                _ => Vec::new(),
            });
            let agreements: Vec<Claim> = agreements.collect();
            halves.claims.into_iter().flatten().chain(agreements).collect()
        })),
        figures: kept(Box::new(move || {
            of_figures().into_iter().filter_map(twice).collect()
        })),
        // They show cells that may have no counterpart.
        timelines: &Vec::new,
        ..*experiment
    })
}

/// The claims that both halves agree, as the stage demands.
fn agreements(place: &[(&'static str, String)], stage: &Stage) -> Vec<Claim> {
    let words: Vec<String> = place
        .iter()
        .map(|(axis, place)| format!("{axis} {place}"))
        .collect();
    let claim = |&(metric, within): &(&'static str, f64)| {
        let on = |network: &'static str| {
            let mut place = place.to_vec();
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

    use super::super::halves::as_linux;
    use super::super::simulated;
    use super::*;
    use crate::claim::{Half, OnBed, Verdict};
    use crate::experiments::named;
    use crate::known::{Conditions, Known};
    use crate::results::Results;
    use crate::run::{Plan, run};
    use crate::stage::{business, side_by_side};
    use crate::trial::Trial;

    /// A simulator in the role of the real network, so both halves must be equal. With an odd seed it discards one run.
    struct Mirror;

    impl RealNetwork for Mirror {
        fn run(&self, scenario: &dyn Fn() -> Scenario, origin: &Origin<'_>) -> Option<RealRun> {
            let seed = origin.seed;
            Some(RealRun {
                record: simulated(as_linux(scenario()), &Trial::new(seed, &Knobs::default())),
                late: Duration::from_micros(500),
                discarded: (seed % 2) as u32,
                is_held: true,
                stolen: 0.25,
                hosts: HostTimes {
                    read: Quantiles::of(&[0.1, 0.2, 0.3]),
                    submit: Quantiles::of(&[]),
                },
            })
        }

        fn facts(&self) -> Vec<(String, String)> {
            vec![("bed".to_owned(), "a mirror".to_owned())]
        }
    }

    fn results(name: &str, chosen: BedCells, settings: &[(&str, &str)]) -> (Experiment, Results) {
        let experiment = beside(&named(name).unwrap(), Arc::new(Mirror), chosen).unwrap();
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
            seeds: crate::run::Seeds::from_one(3),
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
        let (experiment, results) = results("tcp", BedCells::Usual, &[("warm_up", "1"), ("seconds", "3")]);
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
        let agreements: Vec<&Claim> = claims.iter().filter(|claim| claim.half.is_none()).collect();
        assert_eq!(agreements.len(), 2 * 3);
        for claim in agreements {
            assert_eq!(claim.judge(&results).verdict, Verdict::Holds, "{}", claim.says);
        }
        let told = business(&results).unwrap();
        assert!(told.starts_with("6 runs on the bed; 4 were made again"), "{told}");
        assert!(
            told.ends_with("0.200 ms later (median; 99th percentile 0.300 ms; not part of the delays)"),
            "{told}"
        );
    }

    #[test]
    fn claims_are_judged_on_each_half() {
        let of_tcp = [("warm_up", "1"), ("seconds", "3")];
        let of_chat = [("chat_interval", "0.1")];
        // Each claim of `tcp` compares a cell on real packets with a cell that runs only in the simulator. Some claims of `stream-priority`
        // need cells with links that change, which have no counterpart.
        let is_simulated_only = |name: &str, claim: &Claim| name == "tcp" || claim.says.contains("in turn");
        for (name, settings) in [("tcp", &of_tcp[..]), ("stream-priority", &of_chat)] {
            let (experiment, results) = results(name, BedCells::OfClaims, settings);
            let claims = (experiment.claims)();
            let claims: Vec<&Claim> = claims.iter().filter(|claim| claim.half.is_some()).collect();
            assert_eq!(claims.len(), 2 * (named(name).unwrap().claims)().len());
            for pair in claims.chunks(2) {
                let [simulated, bed] = [pair[0].judge(&results), pair[1].judge(&results)];
                assert_eq!(pair[0].says, pair[1].says);
                assert_ne!(simulated.verdict, Verdict::NotRun, "{}", pair[0].says);
                if !is_simulated_only(name, pair[0]) {
                    let both = (simulated.verdict, simulated.measured);
                    assert_eq!(both, (bed.verdict, bed.measured), "{}", pair[0].says);
                } else {
                    let reason = bed.why_not_judged().unwrap();
                    assert!(reason.ends_with("run only in the simulator"), "{reason}");
                }
            }
        }
    }

    /// The cells that a claim needs are found without a run, and they suffice.
    #[test]
    fn claims_need_few_cells_of_their_experiment() {
        for experiment in crate::experiments::all() {
            let cells = (experiment.cells)(Extent::Full);
            let mut results = Results::imagined(&experiment, Extent::Full, &cells);
            let all = results.clone();
            for claim in (experiment.claims)() {
                let needs = claim.needs(&mut results);
                let needs = needs.unwrap_or_else(|| panic!("{}: {}", experiment.name, claim.says));
                assert!(!needs.is_empty(), "{}: {}", experiment.name, claim.says);
                assert_eq!(results, all, "each cell is at its place again");
                let mut fewer = results.clone();
                fewer.cells.retain(|cell| needs.contains(&cell.coordinates));
                assert_eq!(
                    claim.needs(&mut fewer),
                    Some(needs),
                    "{}: {}",
                    experiment.name,
                    claim.says
                );
            }
        }
    }

    #[test]
    fn a_failure_on_a_busy_machine_does_not_count() {
        let place = vec![("a", "1".to_owned())];
        let claim = Claim::new("", "", Bound::AtMost(1.0), |results| {
            results.sample(&[], "number")
        })
        .must();
        let claim = claim.on(Half::Bed(OnBed::By(vec![place.clone()])));
        let results = |number: f64, not_held: f64| {
            const METRICS: &[Metric] = &[metric("number", "", ""), metric(NOT_HELD, "", "")];
            let experiment = Experiment {
                metrics: METRICS,
                ..named("tcp").unwrap()
            };
            let mut at = place.clone();
            at.push((HALF, BED.to_owned()));
            let cells = [Cell::new(at, |_| Vec::new())];
            let mut results = Results::imagined(&experiment, Extent::Quick, &cells);
            results.cells[0].runs = vec![vec![number, not_held], vec![number, 0.0]];
            results
        };
        let judged = |number, not_held| {
            let results = results(number, not_held);
            let judgement = claim.judge(&results);
            (judgement.verdict, judgement.busy_runs, judgement.is_in_order())
        };
        assert_eq!(judged(1.0, 0.0), (Verdict::Holds, 0, true));
        assert_eq!(judged(2.0, 0.0), (Verdict::Fails, 0, false));
        assert_eq!(judged(2.0, 1.0), (Verdict::Fails, 1, true));
        assert_eq!(judged(f64::NAN, 0.0), (Verdict::NotJudged, 0, true));
    }

    #[test]
    fn figures_have_each_curve_twice() {
        let (experiment, results) = results("stream-priority", BedCells::Usual, &[("chat_interval", "0.1")]);
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
        assert!(beside(&named("time-sensitive").unwrap(), Arc::new(Mirror), BedCells::All).is_none());
    }
}
