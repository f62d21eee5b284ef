//! Early discard at each reliability level, where packets are lost and where they only come late. Basto and Freitas name the reliability
//! level in the rule and simulate level 0 without reordering; that an unnecessary discard has no significant cost is their statement.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{
    Config, DiscardReduction, RecoveryRules, Reliability, SendOptions, StreamId, Timestamp,
};

use super::outcome::Outcome;
use super::pair::{PEER, Pair};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::statistics::mean;
use crate::traffic::{Class, Regular, Source, merged};
use crate::trial::{Knob, Trial};

/// Bytes of user data in a message: one packet.
const MESSAGE: usize = 1000;
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "path",
        value: "4 Mbit/s, 25 ms each way; `network`: the share of the data packets that is lost, or that comes 50 ms late",
        from_paper: false,
    },
    Parameter {
        name: "messages",
        value: "1,000 B, ordered: every 5 ms where packets come late; every 20 ms where they are lost, because no window of RFC 9260 \
                sustains more at 10 % loss",
        from_paper: false,
    },
    Parameter {
        name: "level",
        value: "retransmissions of a message at most; mixed: three streams of levels 0, 1 and 2",
        from_paper: false,
    },
    Parameter {
        name: "early",
        value: "early discard; a discarded chunk reduces the window once missing reports or RACK declare it lost, or the receiver skips it",
        from_paper: false,
    },
    Parameter {
        name: "early at once",
        value: "early discard; the first missing report reduces the window, as in the main setting of time-sensitive; the paper leaves the \
                sender's window unchanged",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "late",
        unit: "ms",
        about: "additional delay of a late packet",
        usual: "50",
        range: (1.0, 10_000.0),
    },
    Knob {
        name: "deadline",
        unit: "ms",
        about: "time within which a message counts as delivered in time",
        usual: "150",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time",
        usual: "300, 60 with --short, 30 with --quick",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric("in_time", "%", "messages delivered within 150 ms"),
    metric("delivered", "%", "messages delivered, late ones included"),
    metric(
        "delay",
        "ms",
        "submission to delivery of the delivered messages, mean",
    ),
    metric(
        "early_discards",
        "",
        "chunks abandoned at their first missing report",
    ),
    metric(
        "reductions",
        "",
        "reductions of the window by missing reports or RACK",
    ),
    metric("undone", "", "of these, reductions that were undone"),
    metric("timeouts", "", "T3-rtx expirations"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "early-discard",
        question: "A message is abandoned at the first missing report of its last transmission: what does that gain where packets are \
                   lost, and what does it cost where they only come late?",
        source: "Basto, Freitas: SCTP extensions for time sensitive traffic, section 2, extension (a)",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 4,
            Extent::Short => 10,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Lost(f64),
    Late(f64),
}

/// The names on the axis, the shares of the packets in percent, and whether the quick setting has the network.
const NETWORKS: [(&str, Fault, bool); 5] = [
    ("2 % lost", Fault::Lost(2.0), false),
    ("10 % lost", Fault::Lost(10.0), true),
    ("0.1 % late", Fault::Late(0.1), false),
    ("1 % late", Fault::Late(1.0), true),
    ("5 % late", Fault::Late(5.0), true),
];

/// The levels of the streams.
const LEVELS: [(&str, &[u32]); 4] = [("0", &[0]), ("1", &[1]), ("2", &[2]), ("mixed", &[0, 1, 2])];

const RECOVERIES: [(&str, RecoveryRules); 2] =
    [("rfc9260", RecoveryRules::RFC9260), ("rack", RecoveryRules::RACK)];

const VARIANTS: [(&str, Option<DiscardReduction>); 3] = [
    ("off", None),
    ("early", Some(DiscardReduction::ReportCount)),
    ("early at once", Some(DiscardReduction::FirstReport)),
];

#[derive(Clone, Copy)]
struct Setting {
    fault: Fault,
    levels: &'static [u32],
    recovery: RecoveryRules,
    early: Option<DiscardReduction>,
}

fn cells(extent: Extent) -> Vec<Cell> {
    let mut cells = Vec::new();
    let quick = extent == Extent::Quick;
    for (network, fault, _) in NETWORKS.into_iter().filter(|(.., in_quick)| !quick || *in_quick) {
        for (level, levels) in LEVELS.into_iter().filter(|(level, _)| !quick || *level != "2") {
            for (recovery, rules) in RECOVERIES {
                for (variant, early) in VARIANTS {
                    let setting = Setting {
                        fault,
                        levels,
                        recovery: rules,
                        early,
                    };
                    let coordinates = [
                        ("network", network),
                        ("level", level),
                        ("recovery", recovery),
                        ("variant", variant),
                    ];
                    let coordinates = coordinates.map(|(axis, value)| (axis, value.to_owned()));
                    cells.push(Cell::new(coordinates.into(), move |trial| {
                        simulate(setting, extent, trial)
                    }));
                }
            }
        }
    }
    cells
}

fn config(setting: Setting) -> Config {
    let mut config = super::plain_config();
    config.buffers.send = 64 << 20;
    config.recovery = setting.recovery;
    if let Some(reduction) = setting.early {
        config.partial_reliability.early_discard = true;
        config.recovery = config.recovery.early_discard_reduces(reduction);
    }
    config
}

fn simulate(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick => 30.0,
        Extent::Short => 60.0,
        Extent::Full => 300.0,
    };
    let counts_to = MESSAGES_BEGIN + Duration::from_secs_f64(trial.knob_or("seconds", seconds));
    let end = counts_to + Duration::from_secs(5);
    let streams = setting.levels.iter().enumerate();
    let classes = streams.map(|(stream, level)| Class {
        stream: StreamId(stream as u16),
        options: SendOptions::default().reliability(Reliability::Retransmissions(*level)),
        ..Class::default()
    });
    let classes: Vec<Class> = classes.collect();
    let count = classes.len();
    let between = match setting.fault {
        Fault::Lost(_) => 20,
        Fault::Late(_) => 5,
    };
    let interval = Duration::from_millis(between) * count as u32;
    let regular = |class: usize| Regular::new(trial.seed, MESSAGES_BEGIN, interval, MESSAGE, class);
    let source = match count {
        1 => Source::scheduled(PEER, classes, regular(0)),
        _ => Source::scheduled(PEER, classes, merged(regular(0), merged(regular(1), regular(2)))),
    };
    let link = LinkConfig::default()
        .with_rate(4_000_000)
        .with_delay(Duration::from_millis(25));
    let data = match setting.fault {
        Fault::Lost(percent) => link.clone().with_loss(LossModel::bernoulli(percent / 100.0)),
        Fault::Late(percent) => {
            let late = Duration::from_secs_f64(trial.knob_or("late", 50.0) / 1e3);
            link.clone().with_reorder(percent / 100.0, late)
        }
    };
    let mut pair = Pair::over(trial, &config(setting), vec![(data, link)], source.until(end));
    pair.network.run_until(end);
    let span = (MESSAGES_BEGIN + Duration::from_secs(1), counts_to);
    let outcomes: Vec<Outcome> = (0..count).map(|class| Outcome::of(&pair, class, span)).collect();
    let over = |number: &dyn Fn(&Outcome) -> f64| {
        let all: Vec<f64> = outcomes.iter().map(number).collect();
        mean(&all)
    };
    let deadline = trial.knob_or("deadline", 150.0) / 1e3;
    let counters = pair.counters();
    vec![
        100.0 * over(&|outcome| outcome.within(deadline)),
        100.0 * over(&Outcome::delivered),
        1e3 * over(&Outcome::mean_delay),
        counters.early_discards as f64,
        counters.fast_recoveries as f64,
        counters.reductions_undone as f64,
        counters.timeouts as f64,
    ]
}

/// A cell.
type At = [(&'static str, &'static str); 4];

fn at(network: &'static str, level: &'static str, recovery: &'static str, variant: &'static str) -> At {
    [
        ("network", network),
        ("level", level),
        ("recovery", recovery),
        ("variant", variant),
    ]
}

fn claims() -> Vec<Claim> {
    let cost = "none of them having a significant transmission or processing cost";
    let gain = "earlier discard notifications of unreliable ADUs";
    let in_time = |network, level, recovery, [variant, to]: [&'static str; 2]| {
        move |results: &Results| {
            let cell = |variant| at(network, level, recovery, variant);
            results.difference(&cell(variant), &cell(to), "in_time")
        }
    };
    let early = ["early", "off"];
    vec![
        Claim::new(
            "1 % late, level 0, RFC 9260: early discard costs at most 1 point of messages in time",
            cost,
            Bound::AtLeast(-1.0),
            in_time("1 % late", "0", "rfc9260", early),
        ),
        Claim::new(
            "5 % late, level 0, RACK: early discard costs at most 1 point of messages in time",
            cost,
            Bound::AtLeast(-1.0),
            in_time("5 % late", "0", "rack", early),
        ),
        Claim::new(
            "5 % late, level 0, RACK: a reduction at the first report costs at least 20 points more",
            "not stated",
            Bound::AtLeast(20.0),
            in_time("5 % late", "0", "rack", ["early", "early at once"]),
        )
        .must(),
        Claim::of_ratio(
            "5 % late, level 0, RACK: with a reduction at the first report, at least 10 times as many reductions",
            "not stated",
            Bound::AtLeast(10.0),
            |results| {
                let cell = |variant| at("5 % late", "0", "rack", variant);
                results.ratio(&cell("early at once"), &cell("early"), "reductions")
            },
        )
        .must(),
        Claim::of_ratio(
            "10 % lost, level 0, RFC 9260: with early discard messages take at most 0.9 times as long",
            gain,
            Bound::AtMost(0.9),
            |results| {
                let cell = |variant| at("10 % lost", "0", "rfc9260", variant);
                results.ratio(&cell("early"), &cell("off"), "delay")
            },
        )
        .must(),
        Claim::new(
            "10 % lost, level 1, RFC 9260: early discard brings at least 10 points more messages in time",
            gain,
            Bound::AtLeast(10.0),
            in_time("10 % lost", "1", "rfc9260", early),
        )
        .must(),
        Claim::new(
            "10 % lost, level 1, RACK: early discard changes the share in time by at most 2 points, because RACK detects losses of \
             retransmissions anyway",
            "not stated",
            Bound::Within(-2.0, 2.0),
            in_time("10 % lost", "1", "rack", early),
        ),
        Claim::new(
            "10 % lost, level 1, RACK: early discard happens",
            gain,
            Bound::AtLeast(10.0),
            |results| results.sample(&at("10 % lost", "1", "rack", "early"), "early_discards"),
        )
        .must(),
    ]
}

fn figures() -> Vec<Figure> {
    let curve = |name, at: &[(&'static str, &'static str)]| FigureCurve {
        name,
        at: at.to_vec(),
        paper: &[],
    };
    let lost = |name, recovery, variant| {
        let cell = [
            ("network", "10 % lost"),
            ("recovery", recovery),
            ("variant", variant),
        ];
        curve(name, &cell)
    };
    let late = |name, variant| {
        curve(
            name,
            &[("level", "0"), ("recovery", "rack"), ("variant", variant)],
        )
    };
    vec![
        Figure {
            name: "levels",
            title: "Early discard at 10 % loss",
            paper: "level 0 only, without a deadline.",
            x: ("level", "retransmissions of a message at most"),
            y: ("in_time", "delivered within 150 ms [%]"),
            logarithmic: false,
            curves: vec![
                lost("RFC 9260", "rfc9260", "off"),
                lost("RFC 9260, early discard", "rfc9260", "early"),
                lost("RACK", "rack", "off"),
                lost("RACK, early discard", "rack", "early"),
            ],
        },
        Figure {
            name: "reductions",
            title: "Window reductions, RACK, level 0",
            paper: "an unnecessary discard has no significant cost.",
            x: ("network", "share of the packets"),
            y: ("reductions", "reductions of the window"),
            logarithmic: false,
            curves: vec![
                late("off", "off"),
                late("early discard", "early"),
                late("early discard, reduction at the first report", "early at once"),
            ],
        },
    ]
}
