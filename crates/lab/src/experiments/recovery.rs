//! RACK-TLP, CUBIC and BBR against the project's goals, which were set before any of them was implemented: a loss never costs a second. The
//! bounds of the claims are these goals; no paper has these numbers.

mod echo;
mod fairness;
mod figures;
mod goodput;
mod long_fat;
mod queue;
mod reordering;
mod rig;
mod sender;
mod tail;

use std::time::Duration;

use anabranch_proto::{Counters, Timestamp};

pub(crate) use self::sender::Sender;
use crate::claim::Claim;
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric, ours};
use crate::results::Results;
use crate::trial::{Knob, Trial};

const PARAMETERS: &[Parameter] = &[
    ours(
        "rfc9260",
        "missing reports, and the congestion control and the initial window of RFC 9260: the default in the papers' experiments",
    ),
    ours("rack", "RACK-TLP; otherwise as rfc9260"),
    ours("cubic", "RACK-TLP, CUBIC with HyStart++, an initial window of 10"),
    ours("bbr", "RACK-TLP, BBR version 3, an initial window of 10"),
    ours("bbr-random-loss", "as bbr, with tolerate_random_loss"),
    ours("cubic-without-rack", "as cubic, with missing reports"),
    ours(
        "packets",
        "1,500 bytes with SCTP over UDP on IPv4: 1,444 bytes of user data",
    ),
    ours(
        "links",
        "the same in both directions; drop-tail queues; random loss, in percent, in both directions",
    ),
    ours(
        "goodput",
        "a greedy source of unordered messages that fill a packet each; queues of 100 packets at 10 Mbit/s and of 400 at 50",
    ),
    ours(
        "echo",
        "200 bytes every 10 ms on one ordered reliable stream, which the peer sends back; 10 Mbit/s, 40 ms",
    ),
    ours(
        "tail",
        "the last packet of a message is lost, 10 Mbit/s, 40 ms; ten associations in each run, `time` is that of the slowest",
    ),
    ours(
        "long-fat",
        "buffers of 64 MiB; queues of 0.1 BDP at 1 Gbit/s and of 1 BDP at 250 Mbit/s; time from the first DATA",
    ),
    ours("fairness", "10 Mbit/s, 40 ms, queue of 1 BDP"),
    ours("buffers", "4 MiB unless stated otherwise"),
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "warm_up",
        unit: "s",
        about: "time before the measurement, in scenarios of a fixed length",
        usual: "10, or 5 for echo",
        range: (2.0, 1_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time, in scenarios of a fixed length",
        usual: "60 to 300 depending on the scenario, or 15 to 60 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric("goodput", "Mbit/s", "user data delivered by all flows"),
    metric(
        "delay_50",
        "s",
        "median delay: of the echo, of the queue, or of the repair of a tail loss",
    ),
    metric("delay_95", "s", "95 % quantile of the same delay"),
    metric("delay_99", "s", "99 % quantile of the same delay"),
    metric(
        "time",
        "s",
        "time to the slowest repair, to 900 Mbit/s (30 if never reached), or to the end of the file (300 if never reached)",
    ),
    metric("share", "", "share of the first flow in the goodput"),
    metric("jain", "", "Jain's fairness index of the flows' goodputs"),
    metric("timeouts", "", "T3-rtx expirations of the first flow's sender"),
    metric("probes", "", "tail loss probes of the first flow's sender"),
    metric(
        "retransmitted",
        "%",
        "share of the first flow's DATA chunks that are retransmissions",
    ),
    metric(
        "spurious",
        "",
        "retransmissions that the peer reported as duplicates",
    ),
];

/// The metrics of a run. Metrics that the scenario does not have are NaN.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    goodput: f64,
    delay_50: f64,
    delay_95: f64,
    delay_99: f64,
    time: f64,
    share: f64,
    jain: f64,
    timeouts: f64,
    probes: f64,
    retransmitted: f64,
    spurious: f64,
}

impl Default for Numbers {
    fn default() -> Self {
        let none = f64::NAN;
        Self {
            goodput: none,
            delay_50: none,
            delay_95: none,
            delay_99: none,
            time: none,
            share: none,
            jain: none,
            timeouts: none,
            probes: none,
            retransmitted: none,
            spurious: none,
        }
    }
}

impl Numbers {
    fn of_counters(counters: &Counters) -> Self {
        let retransmitted = counters.retransmissions_fast + counters.retransmissions_timeout;
        Self {
            timeouts: counters.timeouts as f64,
            probes: counters.tail_loss_probes as f64,
            retransmitted: 100.0 * retransmitted as f64 / counters.data_chunks_sent as f64,
            spurious: counters.retransmissions_spurious as f64,
            ..Self::default()
        }
    }

    /// The metrics in the order of [`METRICS`].
    fn in_order(self) -> Vec<f64> {
        vec![
            self.goodput,
            self.delay_50,
            self.delay_95,
            self.delay_99,
            self.time,
            self.share,
            self.jain,
            self.timeouts,
            self.probes,
            self.retransmitted,
            self.spurious,
        ]
    }
}

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "recovery",
        question: "A loss shall never cost a second: do RACK-TLP, CUBIC and BBR meet this and the other goals of the project?",
        source: "RFC 8985 (RACK-TLP), RFC 9438 (CUBIC), draft-ietf-ccwg-bbr (BBR); the goals are the project's own",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 2,
            Extent::Short => 5,
            Extent::Full => 10,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures::figures,
        timelines: &Vec::new,
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let scenarios = [
        goodput::cells,
        echo::cells,
        tail::cells,
        reordering::cells,
        long_fat::cells,
        fairness::cells,
        queue::cells,
    ];
    scenarios.into_iter().flat_map(|cells| cells(extent)).collect()
}

fn claims() -> Vec<Claim> {
    let scenarios = [
        goodput::claims,
        echo::claims,
        tail::claims,
        reordering::claims,
        long_fat::claims,
        fairness::claims,
        queue::claims,
    ];
    scenarios.into_iter().flat_map(|claims| claims()).collect()
}

/// A cell at these places on the axes `scenario`, `case`, `loss` (in percent) and `sender`.
fn cell(
    (scenario, case, loss, sender): (&str, &str, f64, &str),
    simulate: impl Fn(&Trial<'_>) -> Numbers + Send + Sync + 'static,
) -> Cell {
    let coordinates = vec![
        ("scenario", scenario.to_owned()),
        ("case", case.to_owned()),
        ("loss", loss.to_string()),
        ("sender", sender.to_owned()),
    ];
    Cell::new(coordinates, move |trial| simulate(trial).in_order())
}

/// The measured time, from and to. The user's settings apply, or else the scenario's warm-up and its seconds in the quick and in the full
/// setting.
fn counts(
    trial: &Trial<'_>,
    extent: Extent,
    warm_up: f64,
    (quick, full): (f64, f64),
) -> (Timestamp, Timestamp) {
    let usual = match extent {
        Extent::Quick | Extent::Short => quick,
        Extent::Full => full,
    };
    let from = Timestamp::ZERO + Duration::from_secs_f64(trial.knob_or("warm_up", warm_up));
    (
        from,
        from + Duration::from_secs_f64(trial.knob_or("seconds", usual)),
    )
}

/// Scenario, case, loss and sender.
type Place<'a> = (&'a str, &'a str, &'a str, &'a str);

fn on_axes<'a>((scenario, case, loss, sender): Place<'a>) -> [(&'static str, &'a str); 4] {
    [
        ("scenario", scenario),
        ("case", case),
        ("loss", loss),
        ("sender", sender),
    ]
}

fn sample(results: &Results, at: Place<'_>, metric: &str) -> Option<Vec<f64>> {
    results.sample(&on_axes(at), metric)
}

fn ratio(results: &Results, at: Place<'_>, to: Place<'_>, metric: &str) -> Option<Vec<f64>> {
    results.ratio(&on_axes(at), &on_axes(to), metric)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::claim::Verdict;
    use crate::known::{Conditions, Known};
    use crate::run::{Plan, run};
    use crate::trial::Knobs;

    /// The claims without cells in an extent.
    fn not_run(extent: Extent) -> Vec<&'static str> {
        // All cells, with numbers that need no run.
        let experiment = Experiment {
            cells: &|extent| {
                let numbers =
                    |cell: Cell| Cell::new(cell.coordinates().to_vec(), |_| vec![1.0; METRICS.len()]);
                cells(extent).into_iter().map(numbers).collect()
            },
            ..experiment()
        };
        let conditions = Conditions {
            version: String::new(),
            extent,
            knobs: Knobs::default(),
        };
        let plan = Plan {
            conditions: &conditions,
            seeds: crate::run::Seeds::from_one(2),
            jobs: 1,
            only: &[],
        };
        let (mut known, stop) = (Known::default(), AtomicBool::new(false));
        let results = run(&experiment, &plan, &mut known, &stop, |_, _| {}).unwrap();
        let claims = claims().into_iter();
        claims
            .filter(|claim| claim.judge(&results).verdict == Verdict::NotRun)
            .map(|claim| claim.says)
            .collect()
    }

    #[test]
    fn every_claim_has_its_cells() {
        assert_eq!(not_run(Extent::Full), Vec::<&str>::new());
        assert_eq!(not_run(Extent::Short), Vec::<&str>::new());
        let quick = not_run(Extent::Quick);
        assert_eq!(quick.len(), long_fat::claims().len(), "{quick:?}");
    }

    fn numbers(places: [(&str, &str); 4], seconds: &str) -> Vec<f64> {
        let mut knobs = Knobs::default();
        knobs.set(&experiment(), "seconds", seconds).unwrap();
        let cells = cells(Extent::Quick);
        let cell = cells.iter().find(|cell| cell.lies_at(&places)).unwrap();
        cell.run(&Trial::new(1, &knobs)).unwrap()
    }

    fn place(metric: &str) -> usize {
        METRICS.iter().position(|one| one.name == metric).unwrap()
    }

    #[test]
    fn equal_seeds_give_equal_numbers() {
        let run = || numbers(on_axes((echo::NAME, echo::CASE, "5", "cubic")), "10");
        let (one, again) = (run(), run());
        assert_eq!(format!("{one:?}"), format!("{again:?}"));
        let delay = one[place("delay_50")];
        assert!((0.04..0.05).contains(&delay), "one round-trip time: {one:?}");
    }

    /// The goodput of a full link: 1,444 bytes of user data in each packet of 1,500 bytes.
    #[test]
    fn goodput_counts_user_data() {
        let numbers = numbers(on_axes((goodput::NAME, goodput::THIN, "0", "cubic")), "5");
        let goodput = numbers[place("goodput")];
        assert!(
            (9.5..10.0 * 1444.0 / 1500.0 + 0.01).contains(&goodput),
            "{numbers:?}"
        );
    }
}
