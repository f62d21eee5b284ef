//! Natarajan, Stewart, Iyengar, Ekiz, Yilmaz and Amer, *NR-SACKs for SCTP*: the share of the retransmission queue that the sender still
//! needs, and the cost of a small send buffer on one path and on several.

mod claims;
mod figures;
pub(super) mod transfer;

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{
    Config, Counters, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy, SendOptions,
    Timestamp,
};

use super::pair::begin;
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::stage::{Awaited, Demand, Measures, Messages, QueueUse, Record, Scenario, Stage};
use crate::trial::{Knob, Trial};

/// Bytes of user data in a chunk that fills a packet of 1,500 bytes.
const MESSAGE: usize = 1452;
/// Begin of the measured time. The association is established within the first second.
const BEGIN: Timestamp = Timestamp::from_millis(1_000);
/// An unlimited send buffer in KiB: no path here can hold so much.
const UNLIMITED: u32 = 4096;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "traffic",
        value: "one association, a greedy source of unordered messages that fill a packet each",
        from_paper: true,
    },
    Parameter {
        name: "one",
        value: "10 Mbit/s, 50 ms each way, drop-tail of 50 packets",
        from_paper: false,
    },
    Parameter {
        name: "pair",
        value: "two paths of 10 Mbit/s, 45 ms, 50 packets; loss on the first / on the second path",
        from_paper: false,
    },
    Parameter {
        name: "three",
        value: "2 Mbit/s, 50 ms, 0.1 %; 1.6 Mbit/s, 80 ms, 1 %; 0.8 Mbit/s, 160 ms, 3 %; 50 packets each",
        from_paper: false,
    },
    Parameter {
        name: "10+2",
        value: "10 Mbit/s, 20 ms, 0.1 %; 2 Mbit/s, 100 ms, 1 %; 50 packets each",
        from_paper: false,
    },
    Parameter {
        name: "loss",
        value: "random, in percent, data packets only",
        from_paper: false,
    },
    Parameter {
        name: "several paths",
        value: "round robin over the paths whose congestion window has space, retransmissions on the path with the \
                largest ssthresh, uncoupled windows",
        from_paper: false,
    },
    Parameter {
        name: "buffers",
        value: "send buffer in KiB, as the axis `buffer` says (4096: unlimited); receive buffer 8 MiB",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "queue",
        unit: "packets",
        about: "maximum length of each link's queue",
        usual: "50",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "receive_buffer",
        unit: "KiB",
        about: "receive buffer",
        usual: "8192",
        range: (8.0, 1_048_576.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time",
        usual: "60, or 30 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric("goodput", "Mbit/s", "user data delivered"),
    metric(
        "utilisation_recovery",
        "",
        "share of the kept bytes that are not acknowledged, mean over the time in loss recovery",
    ),
    metric(
        "utilisation",
        "",
        "share of the kept bytes that are not acknowledged, mean over the whole time",
    ),
    metric(
        "blocked",
        "",
        "share of the time in which a path's congestion window had space but the send buffer was full",
    ),
    metric("timeouts", "", "T3-rtx expirations"),
    metric("retransmissions", "", "chunks retransmitted"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "retransmission-queue",
        question: "A sender need not keep chunks that were reported as non-renegable: what share of its retransmission queue does it \
                   keep unnecessarily, and how much do NR-SACKs gain on one path and on several?",
        source: "Natarajan, Stewart, Iyengar, Ekiz, Yilmaz, Amer: NR-SACKs for SCTP",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick => 4,
            Extent::Short => 6,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims::claims,
        figures: &figures::figures,
        timelines: &Vec::new,
    }
}

/// The paths, the size of the send buffer, and the kind of acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Setting {
    paths: &'static str,
    /// The loss in percent; with several paths, of each path.
    loss: &'static str,
    /// The sender's buffer in KiB.
    buffer: u32,
    nr_sack: bool,
}

fn cells(extent: Extent) -> Vec<Cell> {
    let cell = |setting: Setting| {
        let coordinates = vec![
            ("paths", setting.paths.to_owned()),
            ("loss", setting.loss.to_owned()),
            ("buffer", setting.buffer.to_string()),
            ("ack", if setting.nr_sack { "nr-sack" } else { "sack" }.to_owned()),
        ];
        let stage = Stage::new(move |trial| scenario(setting, extent, trial), numbers);
        Cell::staged(coordinates, stage.usual(is_main(setting)))
    };
    let places = match extent {
        Extent::Quick => quick_places(),
        Extent::Short | Extent::Full => full_places(),
    };
    let both = places.into_iter().flat_map(|(paths, loss, buffer)| {
        [false, true].map(|nr_sack| Setting {
            paths,
            loss,
            buffer,
            nr_sack,
        })
    });
    both.map(cell).collect()
}

/// Three paths, with a buffer that is too small for them and with a sufficient buffer.
fn is_main(setting: Setting) -> bool {
    setting.paths == "three" && [32, 128].contains(&setting.buffer)
}

type Place = (&'static str, &'static str, u32);

/// The cells that the claims need.
fn quick_places() -> Vec<Place> {
    let mut places = vec![
        ("one", "0", 64),
        ("one", "0.1", 64),
        ("one", "0.1", UNLIMITED),
        ("one", "1", 64),
        ("one", "1", UNLIMITED),
        ("one", "5", UNLIMITED),
    ];
    places.extend(["1/1", "1/10"].map(|loss| ("pair", loss, 32)));
    places.extend([
        ("pair", "1/1", 64),
        ("pair", "1/1", UNLIMITED),
        ("pair", "0/0", 64),
    ]);
    for paths in ["three", "10+2"] {
        places.extend([32, 64, 128].map(|buffer| (paths, usual_loss(paths), buffer)));
    }
    places
}

fn full_places() -> Vec<Place> {
    let buffers = [32, 64, 128, 256, UNLIMITED];
    let mut places = Vec::new();
    let lines: [(&str, &[&'static str]); 4] = [
        ("one", &["0", "0.1", "0.5", "1", "2", "3", "5", "10"]),
        ("pair", &["0/0", "1/1", "1/5", "1/10"]),
        ("three", &["0.1/1/3"]),
        ("10+2", &["0/0", "0.1/1"]),
    ];
    for (paths, losses) in lines {
        for loss in losses {
            places.extend(buffers.map(|buffer| (paths, *loss, buffer)));
        }
    }
    places
}

/// The losses of a set of paths.
fn usual_loss(paths: &str) -> &'static str {
    match paths {
        "three" => "0.1/1/3",
        _ => "0.1/1",
    }
}

/// The links of data and those of acknowledgements.
fn links(setting: Setting, trial: &Trial<'_>) -> Vec<(LinkConfig, LinkConfig)> {
    let link = |kbits: u64, millis: u64| {
        LinkConfig::default()
            .with_rate(kbits * 1000)
            .with_delay(Duration::from_millis(millis))
            .with_queue(QueueLimit::Packets(trial.knob_or("queue", 50.0) as u64))
    };
    let links = match setting.paths {
        "one" => vec![link(10_000, 50)],
        "pair" => vec![link(10_000, 45), link(10_000, 45)],
        "three" => vec![link(2_000, 50), link(1_600, 80), link(800, 160)],
        _ => vec![link(10_000, 20), link(2_000, 100)],
    };
    let losses = setting
        .loss
        .split('/')
        .map(|percent| percent.parse::<f64>().unwrap_or_default());
    let pairs = links.into_iter().zip(losses);
    pairs
        .map(|(link, percent)| {
            (
                link.clone().with_loss(LossModel::bernoulli(percent / 100.0)),
                link,
            )
        })
        .collect()
}

fn config(setting: Setting, trial: &Trial<'_>) -> Config {
    let mut config = super::plain_config();
    config.buffers.send = setting.buffer as usize * 1024;
    config.buffers.receive = trial.knob_or("receive_buffer", 8192.0) as u32 * 1024;
    config.nr_sack.offer = setting.nr_sack;
    if setting.paths != "one" {
        config.multipath.mode = MultipathMode::Cmt;
        config.multipath.scheduler = PathScheduler::RoundRobin;
        config.multipath.retransmission = RetransmissionPolicy::LargestSsthresh;
        config.multipath.congestion = CoupledControl::Uncoupled;
    }
    config
}

/// The scenario of a cell.
fn scenario(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Scenario {
    let seconds = match extent {
        Extent::Quick | Extent::Short => 30.0,
        Extent::Full => 60.0,
    };
    let seconds = trial.knob_or("seconds", seconds);
    let options = SendOptions::default().unordered(true);
    Scenario {
        config: config(setting, trial),
        paths: links(setting, trial),
        messages: Some(Messages {
            connect: begin(trial.seed, "start"),
            classes: vec![options.into()],
            demand: Demand::Greedy(MESSAGE),
            awaited: Awaited::Nothing,
        }),
        tcp: None,
        counts: (BEGIN, BEGIN + Duration::from_secs_f64(seconds)),
        most_drain: Duration::ZERO,
        measures: Measures {
            queue: true,
            ..Measures::default()
        },
    }
}

/// The numbers of a run.
fn numbers(record: &Record) -> Vec<f64> {
    let (from, to) = record.counts;
    let deliveries = record.deliveries.iter();
    let delivered = deliveries.filter(|(at, _)| *at > from && *at <= to).count();
    let (before, after) = (&record.at_begin.sender, &record.at_end.sender);
    let retransmissions =
        |counters: &Counters| (counters.retransmissions_fast + counters.retransmissions_timeout) as f64;
    let of_queue = |number: fn(&QueueUse) -> f64| record.queue.as_ref().map_or(f64::NAN, number);
    vec![
        (delivered * MESSAGE * 8) as f64 / 1e6 / record.seconds(),
        of_queue(|queue| queue.recovering),
        of_queue(|queue| queue.whole),
        of_queue(|queue| queue.blocked),
        (after.timeouts - before.timeouts) as f64,
        retransmissions(after) - retransmissions(before),
    ]
}
