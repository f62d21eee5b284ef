//! Heinz, *Priorities in SCTP Multistreaming*: a chat and bulk data on two streams over a link with a low rate, first come, first served or
//! by priority.

mod claims;
mod figures;
mod simulation;

use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::stage::{Record, Stage, simulated_with};
use crate::trial::Knob;
use simulation::{Setting, Traffic, WIDE, Window, changes, numbers, scenario};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "link",
        value: "56 or 128 kbit/s, 250 ms each way",
        from_paper: true,
    },
    Parameter {
        name: "queue",
        value: "50 packets, drop-tail",
        from_paper: false,
    },
    Parameter {
        name: "chat",
        value: "stream 0: 30 B every 30 s; measured over 15 messages, after the first 5",
        from_paper: true,
    },
    Parameter {
        name: "bulk",
        value: "stream 1: messages of 1,452 B, which fill a packet; steady: 64 kbit/s; greedy: 4 times the link's rate",
        from_paper: false,
    },
    Parameter {
        name: "urgent",
        value: "64 kbit/s on each stream, messages of 1,452 B: R0 > R on the link of 56 kbit/s; measured from 60 to 180 s",
        from_paper: false,
    },
    Parameter {
        name: "equals",
        value: "96 and 48 kbit/s on two streams with equal priority; measured from 60 to 180 s",
        from_paper: false,
    },
    Parameter {
        name: "fluctuating",
        value: "chat and steady bulk; the link begins with 128 kbit/s and changes between 128 and 56 kbit/s every 4 chat intervals (120 s); \
                the thesis names fluctuating bandwidth as a reason for priorities, without a simulation",
        from_paper: false,
    },
    Parameter {
        name: "pressure",
        value: "stream 0: 16 kbit/s, stream 1: 4 times the link's rate, messages of 1,452 B; a send buffer of 32 or 96 KiB; a refused \
                message is not offered again; measured from 60 to 180 s",
        from_paper: false,
    },
    Parameter {
        name: "send buffer under pressure",
        value: "each stream has a share of its own (stream_shares, the stack's default); one: all streams use one buffer",
        from_paper: false,
    },
    Parameter {
        name: "drop",
        value: "stream 1's messages have Reliability::Priority(1) (RFC 7496, section 3.2), stream 0 is reliable",
        from_paper: false,
    },
    Parameter {
        name: "seed",
        value: "decides only the start times of the association and of each stream",
        from_paper: false,
    },
    Parameter {
        name: "hosts",
        value: "a send buffer that never fills, except under pressure; RTO.Min 1 s, RTO.Initial 3 s",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "delay",
        unit: "ms",
        about: "one-way delay of the link",
        usual: "250",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "queue",
        unit: "packets",
        about: "maximum length of the link's queue",
        usual: "50",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "chat_bytes",
        unit: "B",
        about: "length of a chat message",
        usual: "30",
        range: (1.0, 65_536.0),
    },
    Knob {
        name: "chat_interval",
        unit: "s",
        about: "time between chat messages",
        usual: "30",
        range: (0.01, 3_600.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "delay",
        "s",
        "submission to delivery of stream 0's messages, mean",
    ),
    metric("queue", "s", "part of delay before the first transmission"),
    metric(
        "network",
        "s",
        "part of delay after the first transmission: the link's queue and the propagation delay",
    ),
    metric("delay_max", "s", "longest delay"),
    metric("delay_last", "s", "delay of the last message"),
    metric("slope", "s/s", "growth of delay with the time of submission"),
    metric("goodput", "kbit/s", "goodput of stream 0"),
    metric("bulk_goodput", "kbit/s", "goodput of stream 1"),
    metric("lost", "", "packets dropped by the link's queue"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric(
        "refused",
        "%",
        "under pressure: stream 0's messages that the full send buffer refused",
    ),
    metric(
        "bulk_refused",
        "%",
        "under pressure: stream 1's messages that the full send buffer refused",
    ),
    metric(
        "abandoned",
        "%",
        "under pressure: stream 0's messages that were accepted and later dropped",
    ),
    metric(
        "bulk_abandoned",
        "%",
        "under pressure: stream 1's messages that were accepted and later dropped",
    ),
    of_message("delay_6"),
    of_message("delay_7"),
    of_message("delay_8"),
    of_message("delay_9"),
    of_message("delay_10"),
    of_message("delay_11"),
    of_message("delay_12"),
    of_message("delay_13"),
    of_message("delay_14"),
    of_message("delay_15"),
    of_message("delay_16"),
    of_message("delay_17"),
    of_message("delay_18"),
    of_message("delay_19"),
    of_message("delay_20"),
];

/// The delay of one chat message, which serves a figure; messages count from 1.
const fn of_message(name: &'static str) -> Metric {
    Metric {
        name,
        unit: "s",
        about: "delay of the chat message with this number",
        is_shown: false,
    }
}

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "stream-priority",
        question: "A chat and bulk data share a link with a low rate: what is the delay of the chat's messages, first come, first \
                   served and by priority, and where do they wait?",
        source: "Heinz: Priorities in SCTP Multistreaming",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 6,
            Extent::Short => 10,
            Extent::Full => 100,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
        timelines: &Vec::new,
    }
}

/// The thesis' network: the chat waits behind packets in the link's queue.
const MAIN: Setting = Setting {
    link: 56,
    traffic: Traffic::Steady,
    priority: true,
    window: Window::Thesis,
    bound: None,
};

/// The setting with both schedulers: first come, first served, and priority.
fn both(setting: Setting) -> [Setting; 2] {
    [false, true].map(|priority| Setting { priority, ..setting })
}

/// The curves of the thesis' figure 6, which is the chat and steady bulk data on both links with both schedulers, and the thin link with
/// priority and the bound.
fn is_main(setting: Setting) -> bool {
    let bounded = Setting {
        bound: Some(250),
        ..MAIN
    };
    let wide = Setting { link: 128, ..MAIN };
    [both(MAIN), both(wide)].concat().contains(&setting) || setting == bounded
}

/// All cells for every extent: the claims need all of them, and the runs are cheap.
fn cells(_: Extent) -> Vec<Cell> {
    let mut settings = Vec::new();
    let traffic = |traffic| Setting { traffic, ..MAIN };
    for link in [56, 128] {
        settings.extend(both(Setting { link, ..MAIN }));
        let greedy = Setting {
            link,
            ..traffic(Traffic::Greedy)
        };
        settings.extend([None, Some(250)].map(|bound| Setting { bound, ..greedy }));
    }
    settings.extend([20, 250, 500].map(|bound| Setting {
        bound: Some(bound),
        ..MAIN
    }));
    settings.extend(both(Setting {
        window: Window::Narrow,
        ..MAIN
    }));
    settings.extend(both(traffic(Traffic::Urgent)));
    settings.extend(both(traffic(Traffic::Equals)));
    let without_and_with_bound = |traffic: Traffic| {
        let bounded = Setting {
            bound: Some(250),
            traffic,
            ..MAIN
        };
        both(Setting { traffic, ..MAIN }).into_iter().chain([bounded])
    };
    settings.extend(without_and_with_bound(Traffic::Fluctuating));
    for shares in [true, false] {
        for (kib, may_drop) in [(32, false), (32, true), (96, false), (96, true)] {
            let pressure = Traffic::Pressure {
                kib,
                shares,
                may_drop,
            };
            settings.extend(without_and_with_bound(pressure));
        }
    }
    settings.into_iter().map(cell).collect()
}

fn cell(setting: Setting) -> Cell {
    let numbers = move |record: &Record| numbers(setting, record);
    if setting.traffic == Traffic::Fluctuating {
        // The testbed cannot change the rate of a link, so this cell has no stage.
        return Cell::new(coordinates(setting), move |trial| {
            let changes = changes(setting, trial);
            numbers(&simulated_with(scenario(setting, trial), changes, trial))
        });
    }
    let stage = Stage::new(move |trial| scenario(setting, trial), numbers);
    Cell::staged(coordinates(setting), stage.usual(is_main(setting)))
}

fn coordinates(setting: Setting) -> Vec<(&'static str, String)> {
    vec![
        (
            "link",
            match setting.traffic {
                Traffic::Fluctuating => format!("{WIDE}/{}", setting.link),
                _ => setting.link.to_string(),
            },
        ),
        ("traffic", setting.traffic.name().to_owned()),
        (
            "scheduler",
            if setting.priority { "priority" } else { "basic" }.to_owned(),
        ),
        ("window", setting.window.name().to_owned()),
        (
            "bound",
            setting
                .bound
                .map_or("off".to_owned(), |bound| format!("{bound}ms")),
        ),
    ]
}
