//! All extensions together against plain SCTP, and without each extension in turn. One association carries commands, video and a file over
//! two lossy paths with different rates and delays.

mod claims;

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{
    Config, CoupledControl, MultipathMode, Reliability, SchedulerKind, SendOptions, StreamId, Timestamp,
};

use super::outcome::{Outcome, goodput};
use super::pair::{PEER, Pair};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::traffic::{Class, Regular, Source, merged};
use crate::trial::{Knob, Trial};

/// The deadline of a command in seconds.
const COMMAND_DEADLINE: f64 = 0.2;
/// The deadline of a video frame in seconds; with partial reliability also its lifetime.
const FRAME_DEADLINE: f64 = 0.3;
const COMMAND: usize = 0;
const FRAME: usize = 1;
const FILE: usize = 2;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "first path",
        value: "2 Mbit/s, 30 ms, drop-tail of 50 packets",
        from_paper: false,
    },
    Parameter {
        name: "second path",
        value: "0.7 Mbit/s, 100 ms, drop-tail of 50 packets, twice the loss",
        from_paper: false,
    },
    Parameter {
        name: "loss",
        value: "random loss of the first path in percent, both ways",
        from_paper: false,
    },
    Parameter {
        name: "commands",
        value: "stream 0: 100 B every 50 ms, reliable, deadline 200 ms",
        from_paper: false,
    },
    Parameter {
        name: "video",
        value: "stream 1: a frame of 3,000 B every 40 ms, deadline 300 ms",
        from_paper: false,
    },
    Parameter {
        name: "file",
        value: "stream 2: records of 16 KiB, reliable, submitted while less than 64 KiB wait",
        from_paper: false,
    },
    Parameter {
        name: "plain",
        value: "RFC 9260 alone: only the first path, first come, first served, all messages reliable",
        from_paper: false,
    },
    Parameter {
        name: "with defaults",
        value: "with the stack's default loss recovery and congestion control: RACK-TLP, and CUBIC on one path; the other variants use \
                those of RFC 9260, as the papers do",
        from_paper: false,
    },
    Parameter {
        name: "with ECA",
        value: "both paths by ECA-SCTP in place of CMT, with the same choice of paths",
        from_paper: false,
    },
    Parameter {
        name: "everything",
        value: "both paths (CMT, earliest delivery first), NR-SACK, frames that expire after 300 ms, early discard with selective \
                forward TSN, priorities with 20 ms for less urgent data in the network's queues, interleaving",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "delay_bound",
        unit: "ms",
        about: "maximum delay that less urgent data may add",
        usual: "20",
        range: (1.0, 10_000.0),
    },
    Knob {
        name: "second_rate",
        unit: "Mbit/s",
        about: "rate of the second path",
        usual: "0.7",
        range: (0.01, 1_000.0),
    },
    Knob {
        name: "second_delay",
        unit: "ms",
        about: "one-way delay of the second path",
        usual: "100",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time in which messages are submitted",
        usual: "300, or 60 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "commands_in_time",
        "",
        "share of the commands delivered within 200 ms",
    ),
    metric("command_delay", "s", "submission to delivery of commands, mean"),
    metric(
        "command_delay_95",
        "s",
        "submission to delivery of commands, 95 % quantile",
    ),
    metric(
        "frames_in_time",
        "",
        "share of the frames delivered within 300 ms",
    ),
    metric(
        "frame_delay_95",
        "s",
        "submission to delivery of frames, 95 % quantile",
    ),
    metric("file_goodput", "Mbit/s", "goodput of the file"),
    metric("timeouts", "", "T3-rtx expirations"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "everything",
        question: "Commands, video and a file over two lossy paths with low rates: how much is delivered in time with plain SCTP and \
                   with all extensions, and how much does each extension contribute?",
        source: "all five papers, together",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            // Six leave claims open that must hold.
            Extent::Quick => 7,
            Extent::Short => 6,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

/// The extensions that are on.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    multipath: bool,
    /// ECA-SCTP in place of CMT, if there are several paths.
    eca: bool,
    nr_sack: bool,
    partial_reliability: bool,
    early_discard: bool,
    selective_forward_tsn: bool,
    priorities: bool,
    delay_bound: bool,
    interleaving: bool,
    /// The stack's default loss recovery and congestion control instead of RFC 9260's.
    defaults: bool,
}

const EVERYTHING: Variant = Variant {
    name: "everything",
    multipath: true,
    eca: false,
    nr_sack: true,
    partial_reliability: true,
    early_discard: true,
    selective_forward_tsn: true,
    priorities: true,
    delay_bound: true,
    interleaving: true,
    defaults: false,
};

const PLAIN: Variant = Variant {
    name: "plain",
    multipath: false,
    eca: false,
    nr_sack: false,
    partial_reliability: false,
    early_discard: false,
    selective_forward_tsn: false,
    priorities: false,
    delay_bound: false,
    interleaving: false,
    defaults: false,
};

const WITH_ECA: Variant = Variant {
    name: "everything with ECA",
    eca: true,
    ..EVERYTHING
};

/// The variants with the stack's default loss recovery and congestion control.
const WITH_DEFAULTS: [Variant; 3] = [
    Variant {
        name: "plain with defaults",
        defaults: true,
        ..PLAIN
    },
    Variant {
        name: "everything with defaults",
        defaults: true,
        ..EVERYTHING
    },
    Variant {
        name: "everything with ECA and defaults",
        defaults: true,
        ..WITH_ECA
    },
];

/// Each variant lacks one extension, and the extensions that depend on that one. Early discard and selective forward TSN are left out
/// together and one by one.
const ABLATIONS: [Variant; 9] = [
    Variant {
        name: "no multipath",
        multipath: false,
        ..EVERYTHING
    },
    Variant {
        name: "no nr-sack",
        nr_sack: false,
        ..EVERYTHING
    },
    Variant {
        name: "no expiry",
        partial_reliability: false,
        early_discard: false,
        selective_forward_tsn: false,
        ..EVERYTHING
    },
    Variant {
        name: "no early discard",
        early_discard: false,
        selective_forward_tsn: false,
        ..EVERYTHING
    },
    Variant {
        name: "early discard alone",
        selective_forward_tsn: false,
        ..EVERYTHING
    },
    Variant {
        name: "selective forward alone",
        early_discard: false,
        ..EVERYTHING
    },
    Variant {
        name: "no priorities",
        priorities: false,
        delay_bound: false,
        ..EVERYTHING
    },
    Variant {
        name: "no delay bound",
        delay_bound: false,
        ..EVERYTHING
    },
    Variant {
        name: "no interleaving",
        interleaving: false,
        ..EVERYTHING
    },
];

/// The losses of the first path, in percent, at which extensions are left out.
const ABLATED: [f64; 3] = [0.0, 2.0, 5.0];

fn cells(extent: Extent) -> Vec<Cell> {
    let losses: &[f64] = match extent {
        Extent::Quick => &ABLATED,
        Extent::Short | Extent::Full => &[0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0],
    };
    let ends = losses
        .iter()
        .flat_map(|loss| [PLAIN, EVERYTHING].map(|variant| (variant, *loss)));
    let with_eca = losses.iter().map(|loss| (WITH_ECA, *loss));
    let modern = losses
        .iter()
        .flat_map(|loss| WITH_DEFAULTS.map(|variant| (variant, *loss)));
    let ablations = ABLATIONS
        .into_iter()
        .flat_map(|variant| ABLATED.map(|loss| (variant, loss)));
    let cell = |(variant, loss): (Variant, f64)| {
        let coordinates = vec![("variant", variant.name.to_owned()), ("loss", loss.to_string())];
        Cell::new(coordinates, move |trial| simulate(variant, loss, extent, trial))
    };
    ends.chain(ablations)
        .chain(modern)
        .chain(with_eca)
        .map(cell)
        .collect()
}

fn config(variant: Variant, trial: &Trial<'_>) -> Config {
    let mut config = super::plain_config();
    if variant.defaults {
        let defaults = Config::default();
        config.recovery = defaults.recovery;
        config.congestion_control = defaults.congestion_control;
    }
    config.buffers.send = 64 << 20;
    config.nr_sack.offer = variant.nr_sack;
    config.partial_reliability.offer = variant.partial_reliability;
    config.partial_reliability.early_discard = variant.early_discard;
    config.partial_reliability.selective_forward_tsn = variant.selective_forward_tsn.then_some(1);
    config.interleaving.offer = variant.interleaving;
    if variant.multipath {
        config.multipath.congestion = CoupledControl::Lia;
        config.multipath.mode = match variant.eca {
            true => MultipathMode::Eca,
            false => MultipathMode::Cmt,
        };
    }
    if variant.priorities {
        config.scheduler = SchedulerKind::Priority;
    }
    let bound = Duration::from_secs_f64(trial.knob_or("delay_bound", 20.0) / 1e3);
    config.low_priority_delay = variant.delay_bound.then_some(bound);
    config
}

fn links(loss: f64, trial: &Trial<'_>) -> Vec<(LinkConfig, LinkConfig)> {
    let link = |mbits: f64, millis: f64, loss: f64| {
        LinkConfig::default()
            .with_rate((mbits * 1e6) as u64)
            .with_delay(Duration::from_secs_f64(millis / 1e3))
            .with_queue(QueueLimit::Packets(50))
            .with_loss(LossModel::bernoulli(loss / 100.0))
    };
    let first = link(2.0, 30.0, loss);
    let second = link(
        trial.knob_or("second_rate", 0.7),
        trial.knob_or("second_delay", 100.0),
        2.0 * loss,
    );
    vec![(first.clone(), first), (second.clone(), second)]
}

/// The association is established before this time.
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(10_000);

fn source(variant: Variant, trial: &Trial<'_>, end: Timestamp) -> Source {
    let mut classes = vec![Class::default(); 3];
    for (number, class) in classes.iter_mut().enumerate() {
        class.stream = StreamId(number as u16);
        if variant.priorities {
            class.priority = number as u16;
        }
    }
    if variant.partial_reliability {
        classes[FRAME].options = SendOptions::default()
            .reliability(Reliability::Lifetime(Duration::from_secs_f64(FRAME_DEADLINE)));
    }
    let regular = |millis, len, class| {
        let interval = Duration::from_millis(millis);
        Regular::new(trial.seed, MESSAGES_BEGIN, interval, len, class)
    };
    let messages = merged(regular(50, 100, COMMAND), regular(40, 3000, FRAME));
    Source::scheduled(PEER, classes, messages)
        .beside_file(FILE, 16 << 10, 64 << 10)
        .until(end)
}

fn simulate(variant: Variant, loss: f64, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short => 60.0,
        Extent::Full => 300.0,
    };
    let end = MESSAGES_BEGIN + Duration::from_secs_f64(trial.knob_or("seconds", seconds));
    let source = source(variant, trial, end);
    let mut pair = Pair::over(trial, &config(variant, trial), links(loss, trial), source);
    // Messages that are delivered later than this miss every deadline.
    pair.network.run_until(end + Duration::from_secs(5));
    let span = (MESSAGES_BEGIN, end);
    let commands = Outcome::of(&pair, COMMAND, span);
    let frames = Outcome::of(&pair, FRAME, span);
    vec![
        commands.within(COMMAND_DEADLINE),
        commands.mean_delay(),
        commands.delay_of(0.95),
        frames.within(FRAME_DEADLINE),
        frames.delay_of(0.95),
        goodput(&pair, FILE, span),
        pair.counters().timeouts as f64,
    ]
}

fn figures() -> Vec<Figure> {
    let over_loss = |name, title, y| Figure {
        name,
        title,
        paper: "",
        x: ("loss", "loss of the first path [%]"),
        y,
        logarithmic: false,
        curves: [
            "everything with defaults",
            "everything",
            "everything with ECA and defaults",
            "everything with ECA",
            "plain with defaults",
            "plain",
        ]
        .map(|variant| curve(variant, variant))
        .into(),
    };
    vec![
        over_loss(
            "frames",
            "Video frames in time",
            ("frames_in_time", "share within 300 ms"),
        ),
        over_loss(
            "commands",
            "Commands in time",
            ("commands_in_time", "share within 200 ms"),
        ),
        over_loss(
            "file",
            "Goodput of the file",
            ("file_goodput", "goodput [Mbit/s]"),
        ),
    ]
}

fn curve(name: &'static str, variant: &'static str) -> FigureCurve {
    FigureCurve {
        name,
        at: vec![("variant", variant)],
        paper: &[],
    }
}
