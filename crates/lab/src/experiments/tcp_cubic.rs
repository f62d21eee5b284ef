//! One CUBIC flow of TCP alone (RFC 9438): at a bottleneck, with random losses, and after a single loss. The comparison with the kernel's
//! TCP shows how close the simulator's CUBIC is to Linux's.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit, TcpConfig};
use anabranch_proto::{Config, Timestamp};

use super::tcp::{METRICS, numbers};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Parameter};
use crate::results::Results;
use crate::stage::{Measures, Scenario, Stage, TcpFlows};
use crate::trial::{Knob, Trial};

/// One-way delay.
const DELAY: Duration = Duration::from_millis(40);
/// One-way delay in the cases with a short round trip.
const SHORT_DELAY: Duration = Duration::from_millis(10);
/// The largest allowed difference between the simulator's goodput and the kernel's.
const AGREEMENT: &[(&str, f64)] = &[("goodput", 0.15)];

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "bottleneck",
        value: "10 or 50 Mbit/s, 40 ms each way, a queue of 67 or 333 packets: one round trip",
        from_paper: false,
    },
    Parameter {
        name: "lossy",
        value: "the same bottleneck with random loss: 5 of 10,000 packets (at 10 Mbit/s) or 5 of 100,000 (at 50 Mbit/s)",
        from_paper: false,
    },
    Parameter {
        name: "short",
        value: "10 ms each way; random loss of 0.8 % (at 10 Mbit/s) or 0.04 % (at 50 Mbit/s): the Reno-friendly region",
        from_paper: false,
    },
    Parameter {
        name: "grown",
        value: "1 Gbit/s, 40 ms each way; the only loss is packet 200 (10 Mbit/s) or 600 (50 Mbit/s), in slow start; the goodput from \
                2 to 4 s, from 4 to 7 s, from 7 to 10 s and from 10 to 15 s",
        from_paper: false,
    },
    Parameter {
        name: "settings",
        value: "Linux's: an initial window of 10, a minimum retransmission timeout of 0.2 s, acknowledgements delayed by up to 40 ms, \
                timestamps, SACK; CUBIC with HyStart++",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "warm_up",
        unit: "s",
        about: "time before the measurement, except in the cases `grown`",
        usual: "20",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time, except in the cases `grown`",
        usual: "170, or 60 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "tcp-cubic",
        question: "What goodput does one CUBIC flow reach alone, with random losses, and in the seconds after a loss?",
        source: "RFC 9438 (CUBIC), RFC 9406 (HyStart++)",
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
        figures: &|| Vec::new(),
        timelines: &Vec::new,
    }
}

/// The condition that a cell measures.
#[derive(Clone, Copy, Debug)]
enum Case {
    Alone,
    Lossy,
    Short,
    /// After a loss: measured between these seconds after the start.
    Grown(u64, u64),
}

const CASES: [(Case, &str); 7] = [
    (Case::Alone, "alone"),
    (Case::Lossy, "lossy"),
    (Case::Short, "short"),
    (Case::Grown(2, 4), "grown 2-4 s"),
    (Case::Grown(4, 7), "grown 4-7 s"),
    (Case::Grown(7, 10), "grown 7-10 s"),
    (Case::Grown(10, 15), "grown 10-15 s"),
];

/// A rate, and the values that depend on the rate.
#[derive(Clone, Copy, Debug)]
struct Rate {
    name: &'static str,
    bits: u64,
    /// Full packets in a bandwidth-delay product.
    window: u64,
    /// The random loss, and the random loss with the short round trip.
    loss: f64,
    short_loss: f64,
    /// The number of the packet that is lost in slow start, which decides the window before the loss.
    lost: u64,
}

const RATES: [Rate; 2] = [
    Rate {
        name: "10",
        bits: 10_000_000,
        window: 67,
        loss: 0.0005,
        short_loss: 0.008,
        lost: 200,
    },
    Rate {
        name: "50",
        bits: 50_000_000,
        window: 333,
        loss: 0.000_05,
        short_loss: 0.0004,
        lost: 600,
    },
];

fn cells(extent: Extent) -> Vec<Cell> {
    let grid = CASES.into_iter().flat_map(|case| RATES.map(|rate| (case, rate)));
    let cell = |((case, name), rate): ((Case, &str), Rate)| {
        let coordinates = vec![("case", name.to_owned()), ("rate", rate.name.to_owned())];
        let stage = Stage::new(move |trial| scenario(case, rate, extent, trial), numbers);
        Cell::staged(coordinates, stage.usual(true).agreeing(AGREEMENT))
    };
    grid.map(cell).collect()
}

fn scenario(case: Case, rate: Rate, extent: Extent, trial: &Trial<'_>) -> Scenario {
    let delay = match case {
        Case::Short => SHORT_DELAY,
        _ => DELAY,
    };
    let fast = LinkConfig::default().with_rate(1_000_000_000).with_delay(delay);
    let line = fast
        .clone()
        .with_rate(rate.bits)
        .with_queue(QueueLimit::Packets(rate.window));
    let there = match case {
        Case::Alone => line,
        Case::Lossy => line.with_loss(LossModel::bernoulli(rate.loss)),
        Case::Short => line.with_loss(LossModel::bernoulli(rate.short_loss)),
        Case::Grown(..) => fast.clone().with_loss(LossModel::Script(vec![rate.lost])),
    };
    let usual = match extent {
        Extent::Quick | Extent::Short => 60.0,
        Extent::Full => 170.0,
    };
    let seconds = |knob, usual| Duration::from_secs_f64(trial.knob_or(knob, usual));
    let begin = Timestamp::ZERO + seconds("warm_up", 20.0);
    let counts = match case {
        Case::Grown(from, to) => (
            Timestamp::from_millis(from * 1000),
            Timestamp::from_millis(to * 1000),
        ),
        _ => (begin, begin + seconds("seconds", usual)),
    };
    let config = TcpConfig {
        // Linux enlarges the receive buffer during the transfer, up to this limit.
        receive_window: 6 << 20,
        ..TcpConfig::linux().with_cubic()
    };
    Scenario {
        config: Config::default(),
        paths: vec![(there, fast)],
        messages: None,
        tcp: Some(TcpFlows {
            config: config.clone(),
            real: config,
            starts: vec![Timestamp::ZERO],
            access: LinkConfig::default(),
        }),
        counts,
        most_drain: Duration::ZERO,
        measures: Measures::default(),
    }
}

fn claims() -> Vec<Claim> {
    let grown = |results: &Results| {
        let at = |case| [("case", case), ("rate", "50")];
        results.ratio(&at("grown 10-15 s"), &at("grown 2-4 s"), "goodput")
    };
    vec![
        Claim::of_ratio(
            "50 Mbit/s: ten seconds after a loss the goodput is at least 1.1 times as large",
            "",
            Bound::AtLeast(1.1),
            grown,
        )
        .must(),
    ]
}
