//! Priorities with partial reliability, which Heinz leaves to future work: important messages are sent first, and less important ones
//! expire after their lifetime.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, QueueLimit};
use anabranch_proto::{Config, Reliability, SchedulerKind, SendOptions, StreamId, Timestamp};

use super::outcome::Outcome;
use super::pair::{PEER, Pair};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::traffic::{Class, Regular, Source, merged};
use crate::trial::{Knob, Trial};

const SOUND: usize = 0;
const PICTURE: usize = 1;
/// The link's rate in bits per second.
const RATE: f64 = 500e3;
/// The deadline of every message in seconds.
const DEADLINE: f64 = 0.4;
/// The length of a picture's message in bytes, if it fits into one packet.
const PART: usize = 1400;
/// The length of a picture's message in bytes, if it needs five packets.
const WHOLE: usize = 7000;
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "link",
        value: "500 kbit/s, 50 ms each way, drop-tail of 50 packets, no other loss",
        from_paper: false,
    },
    Parameter {
        name: "sound",
        value: "stream 0, with the higher priority: 160 B every 20 ms, 64 kbit/s",
        from_paper: false,
    },
    Parameter {
        name: "picture",
        value: "stream 1: messages of 1,400 B (parts) or 7,000 B (whole), at such a rate that pictures and sound together ask for the \
                percentage of the link's rate on the axis `load`",
        from_paper: false,
    },
    Parameter {
        name: "deadline",
        value: "400 ms for both; messages that expire have a lifetime of 250 ms, which leaves 150 ms for the transfer",
        from_paper: false,
    },
    Parameter {
        name: "bound",
        value: "with priorities, less urgent data adds at most 50 ms to the link's queue",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "lifetime",
        unit: "ms",
        about: "lifetime of messages that expire",
        usual: "250",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time in which messages are submitted",
        usual: "120, or 40 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric("sound_in_time", "", "share of the sound delivered within 400 ms"),
    metric(
        "picture_in_time",
        "",
        "share of the pictures delivered within 400 ms",
    ),
    metric(
        "sound_delay",
        "s",
        "submission to delivery of sound, mean of the delivered messages",
    ),
    metric(
        "picture_delay",
        "s",
        "submission to delivery of pictures, mean of the delivered messages",
    ),
    metric(
        "picture_delivered",
        "",
        "share of the pictures delivered, late ones included",
    ),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "priority-deadlines",
        question: "Sound and pictures exceed the link's rate: how much is delivered in time with first come, first served, with \
                   priorities, with expiry, and with both?",
        source: "Heinz: Priorities in SCTP Multistreaming, future work",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 5,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

#[derive(Clone, Copy, Debug)]
struct Service {
    name: &'static str,
    priority: bool,
    expiring: bool,
}

const SERVICES: [Service; 4] = [
    service("neither", false, false),
    service("priority", true, false),
    service("expiry", false, true),
    service("both", true, true),
];

const fn service(name: &'static str, priority: bool, expiring: bool) -> Service {
    Service {
        name,
        priority,
        expiring,
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let loads: &[u32] = match extent {
        Extent::Quick => &[80, 150],
        Extent::Short | Extent::Full => &[50, 80, 95, 110, 150, 200, 300],
    };
    let cell = |(service, load, is_whole): (Service, u32, bool)| {
        let coordinates = vec![
            ("service", service.name.to_owned()),
            ("load", load.to_string()),
            ("picture", if is_whole { "whole" } else { "parts" }.to_owned()),
        ];
        Cell::new(coordinates, move |trial| {
            simulate(service, (load, is_whole), extent, trial)
        })
    };
    let grid = SERVICES.into_iter();
    grid.flat_map(|service| {
        loads
            .iter()
            .flat_map(move |load| [false, true].map(|is_whole| (service, *load, is_whole)))
    })
    .map(cell)
    .collect()
}

fn config(service: Service) -> Config {
    let mut config = super::plain_config();
    config.buffers.send = 64 << 20;
    if service.priority {
        config.scheduler = SchedulerKind::Priority;
        config.low_priority_delay = Some(Duration::from_millis(50));
    }
    config
}

fn simulate(service: Service, (load, is_whole): (u32, bool), extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short => 40.0,
        Extent::Full => 120.0,
    };
    let end = MESSAGES_BEGIN + Duration::from_secs_f64(trial.knob_or("seconds", seconds));
    let lifetime = Duration::from_secs_f64(trial.knob_or("lifetime", 250.0) / 1e3);
    let options = SendOptions::default().reliability(if service.expiring {
        Reliability::Lifetime(lifetime)
    } else {
        Reliability::Reliable
    });
    let mut classes = vec![Class::from(options); 2];
    classes[PICTURE].stream = StreamId(1);
    classes[PICTURE].priority = u16::from(service.priority);
    let sound = Regular::new(trial.seed, MESSAGES_BEGIN, Duration::from_millis(20), 160, SOUND);
    let picture_rate = RATE * f64::from(load) / 100.0 - 64e3;
    let bytes = if is_whole { WHOLE } else { PART };
    let picture = Regular::at_rate(trial.seed, MESSAGES_BEGIN, picture_rate, bytes, PICTURE);
    let source = Source::scheduled(PEER, classes, merged(sound, picture)).until(end);
    let link = LinkConfig::default()
        .with_rate(RATE as u64)
        .with_delay(Duration::from_millis(50))
        .with_queue(QueueLimit::Packets(50));
    let mut pair = Pair::new(trial, &config(service), link, source);
    // Messages that are delivered later than this miss every deadline.
    pair.network.run_until(end + Duration::from_secs(5));
    let [sound, picture] = [SOUND, PICTURE].map(|class| Outcome::of(&pair, class, (MESSAGES_BEGIN, end)));
    vec![
        sound.within(DEADLINE),
        picture.within(DEADLINE),
        sound.mean_delay(),
        picture.mean_delay(),
        picture.delivered(),
    ]
}

/// A metric of a service at a load in percent of the link's rate.
fn of(
    metric: &'static str,
    service: &'static str,
    load: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        results.sample(
            &[("service", service), ("load", load), ("picture", "parts")],
            metric,
        )
    }
}

fn claims() -> Vec<Claim> {
    let future = "future work: transmit important data while expiring data of lesser importance";
    let sound = |says, service, bound| Claim::new(says, future, bound, of("sound_in_time", service, "150"));
    let picture =
        |says, service, bound| Claim::new(says, future, bound, of("picture_in_time", service, "150"));
    vec![
        Claim::new(
            "80 % load, priority and expiry: at least 99 % of the pictures in time",
            future,
            Bound::AtLeast(0.99),
            of("picture_in_time", "both", "80"),
        )
        .must(),
        sound("150 % load, priority and expiry: at least 99 % of the sound in time", "both", Bound::AtLeast(0.99)).must(),
        picture(
            "150 % load, priority and expiry: at least half of the pictures in time; the link can carry 62 %",
            "both",
            Bound::AtLeast(0.5),
        )
        .must(),
        sound("150 % load, priority alone: at least 99 % of the sound in time", "priority", Bound::AtLeast(0.99)),
        picture("150 % load, priority alone: at most 5 % of the pictures in time", "priority", Bound::AtMost(0.05)),
        picture(
            "150 % load, expiry alone: at most 5 % of the pictures in time, as they wait in the network's queue",
            "expiry",
            Bound::AtMost(0.05),
        ),
        Claim::new(
            "150 % load, priority and expiry, messages of five packets: at least half of the pictures in time",
            future,
            Bound::AtLeast(0.5),
            |results| {
                let at = [("service", "both"), ("load", "150"), ("picture", "whole")];
                results.sample(&at, "picture_in_time")
            },
        )
        .fails_because(
            "the first message of an overlong queue is always about to expire. A message of five packets expires while it is sent, \
             so its sent packets are wasted. If a message fits into one packet (“parts”), half of the pictures are in time",
        ),
    ]
}

fn figures() -> Vec<Figure> {
    let curve = |name, service| FigureCurve {
        name,
        at: vec![("service", service), ("picture", "parts")],
        paper: &[],
    };
    let figure = |name, title, y| Figure {
        name,
        title,
        paper: "“future work should investigate using priorities with PR-SCTP”.",
        x: ("load", "load [% of the link's rate]"),
        y,
        logarithmic: false,
        curves: vec![
            curve("first come, first served", "neither"),
            curve("priority", "priority"),
            curve("expiry", "expiry"),
            curve("priority and expiry", "both"),
        ],
    };
    vec![
        figure("sound", "Sound in time", ("sound_in_time", "share within 400 ms")),
        figure(
            "picture",
            "Pictures in time",
            ("picture_in_time", "share within 400 ms"),
        ),
    ]
}
