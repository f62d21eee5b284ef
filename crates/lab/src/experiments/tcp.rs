//! The TCP cross traffic of the other experiments, measured alone: greedy flows at the bottleneck of
//! [`nr-sack-forward-tsn`](super::nr_sack_forward_tsn). The comparison with the kernel's TCP shows how realistic the simulated cross
//! traffic is.

use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, QueueLimit, Recovery, TcpConfig};
use anabranch_proto::{Config, Timestamp};

use super::nr_sack_forward_tsn::{DELAY, QUEUE, RATE};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::stage::{Measures, Record, Scenario, Stage, TcpFlows};
use crate::trial::{Knob, Trial};

/// The largest allowed difference between the simulator's TCP and the kernel's.
const AGREEMENT: &[(&str, f64)] = &[("goodput", 0.15), ("loss", 0.15), ("queue", 0.15)];

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "bottleneck",
        value: "10 Mbit/s, 40 ms, 73 kB by dummynet's rule, each way; hosts linked to it at 1 Gbit/s",
        from_paper: true,
    },
    Parameter {
        name: "flows",
        value: "greedy, started between 0 and 3 s; measured from 30 s on",
        from_paper: false,
    },
    Parameter {
        name: "settings",
        value: "Linux's: an initial window of 10, a minimum retransmission timeout of 0.2 s, acknowledgements delayed by up to 40 ms, \
                timestamps",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "flows",
        unit: "",
        about: "number of flows",
        usual: "4",
        range: (1.0, 100.0),
    },
    RATE,
    DELAY,
    QUEUE,
    Knob {
        name: "warm_up",
        unit: "s",
        about: "time before the measurement",
        usual: "30",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time",
        usual: "170, or 60 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

pub(super) const METRICS: &[Metric] = &[
    metric("goodput", "Mbit/s", "goodput of all flows together"),
    metric("slowest", "Mbit/s", "goodput of the slowest flow"),
    metric("fastest", "Mbit/s", "goodput of the fastest flow"),
    metric("loss", "%", "packets dropped by the queue"),
    metric("queue", "kB", "bytes in the queue, mean over time"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "tcp",
        question: "Greedy TCP flows at one bottleneck: what are their goodput, their loss and their queue, with SACK or NewReno, if \
                   windows grow by acknowledged bytes or by acknowledgements?",
        source: "RFC 5681, RFC 6582 (NewReno), RFC 6675 (SACK), RFC 3465 (growth by bytes)",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 3,
            Extent::Short => 5,
            Extent::Full => 20,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

const RECOVERIES: [(Recovery, &str); 2] = [(Recovery::Sack, "sack"), (Recovery::NewReno, "newreno")];

fn cells(extent: Extent) -> Vec<Cell> {
    let grid = RECOVERIES
        .into_iter()
        .flat_map(|recovery| [true, false].map(|by_bytes| (recovery, by_bytes)));
    let cell = |((recovery, name), by_bytes): ((Recovery, &str), bool)| {
        let coordinates = vec![
            ("recovery", name.to_owned()),
            (
                "growth",
                if by_bytes { "bytes" } else { "acknowledgements" }.to_owned(),
            ),
        ];
        let config = TcpConfig {
            recovery,
            byte_counting: by_bytes,
            ..TcpConfig::linux()
        };
        let stage = Stage::new(move |trial| scenario(&config, extent, trial), numbers).usual(true);
        // Linux's windows always grow by acknowledged bytes.
        let stage = if by_bytes {
            stage.agreeing(AGREEMENT)
        } else {
            stage.simulated_only()
        };
        Cell::staged(coordinates, stage)
    };
    grid.map(cell).collect()
}

fn scenario(config: &TcpConfig, extent: Extent, trial: &Trial<'_>) -> Scenario {
    let bottleneck = LinkConfig::default()
        .with_rate((trial.knob_or("rate", 10.0) * 1e6) as u64)
        .with_delay(Duration::from_secs_f64(trial.knob_or("delay", 40.0) / 1e3))
        .with_queue(QueueLimit::Dummynet(trial.knob_or("queue", 73_000.0) as u64));
    let usual = match extent {
        Extent::Quick | Extent::Short => 60.0,
        Extent::Full => 170.0,
    };
    let seconds = Duration::from_secs_f64(trial.knob_or("seconds", usual));
    let start =
        |flow| Generator::of_process(trial.seed, &format!("start of tcp {flow}")).below(3_000_000_000);
    let begin = Timestamp::ZERO + Duration::from_secs_f64(trial.knob_or("warm_up", 30.0));
    let flows = trial.knob_or("flows", 4.0) as u32;
    Scenario {
        config: Config::default(),
        paths: vec![(bottleneck.clone(), bottleneck)],
        messages: None,
        tcp: Some(TcpFlows {
            config: config.clone(),
            real: config.clone(),
            starts: (0..flows).map(|flow| Timestamp(start(flow))).collect(),
            access: LinkConfig::default()
                .with_rate(1_000_000_000)
                .with_delay(Duration::from_micros(10)),
        }),
        counts: (begin, begin + seconds),
        most_drain: Duration::ZERO,
        measures: Measures::default(),
    }
}

pub(super) fn numbers(record: &Record) -> Vec<f64> {
    let (begin, end) = (&record.at_begin, &record.at_end);
    let flows = begin.tcp_bytes.iter().zip(&end.tcp_bytes);
    let rates: Vec<f64> = flows
        .map(|(before, after)| (after - before) as f64 * 8e-6 / record.seconds())
        .collect();
    let (before, after) = (&begin.links[0], &end.links[0]);
    let lost = (after.lost() - before.lost()) as f64;
    let byte_seconds = (after.queue_byte_nanos - before.queue_byte_nanos) as f64 / 1e9;
    vec![
        rates.iter().sum(),
        rates.iter().copied().fold(f64::INFINITY, f64::min),
        rates.iter().copied().fold(0.0, f64::max),
        100.0 * lost / (after.offered - before.offered) as f64,
        byte_seconds / record.seconds() / 1e3,
    ]
}

fn claims() -> Vec<Claim> {
    let growth = |recovery: &'static str| {
        move |results: &Results| {
            let by = |growth| [("recovery", recovery), ("growth", growth)];
            results.ratio(&by("bytes"), &by("acknowledgements"), "loss")
        }
    };
    vec![
        Claim::of_ratio(
            "sack: windows that grow by bytes lose at least 1.5 times as many packets",
            "",
            Bound::AtLeast(1.5),
            growth("sack"),
        )
        .must(),
        Claim::of_ratio(
            "newreno: windows that grow by bytes lose at least 1.5 times as many packets",
            "",
            Bound::AtLeast(1.5),
            growth("newreno"),
        )
        .must(),
    ]
}

fn figures() -> Vec<Figure> {
    let figure = |name, title, y| Figure {
        name,
        title,
        paper: "",
        x: ("recovery", "loss recovery"),
        y,
        logarithmic: false,
        curves: [("by bytes", "bytes"), ("by acknowledgements", "acknowledgements")]
            .map(|(name, growth)| FigureCurve {
                name,
                at: vec![("growth", growth)],
                paper: &[],
            })
            .into(),
    };
    vec![
        figure(
            "loss",
            "Packets lost by greedy TCP flows",
            ("loss", "packets lost [%]"),
        ),
        figure("queue", "Queue of greedy TCP flows", ("queue", "mean queue [kB]")),
    ]
}
