//! Messages that are useful for a limited time, on a lossy path with and without TCP cross traffic: how many are delivered in time? The
//! traffic, the links and the goals are those of the comparison with QUIC, KCP, ENet, SRT and TCP.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, LowerLayer, Reliability, SendOptions, Timestamp};

use super::timely::{DELIVERY, Traffic, delivery};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric, ours};
use crate::results::Results;
use crate::stage::{Awaited, Demand, Measures, Messages, Record, Scenario, Stage, TcpFlows};
use crate::traffic::Class;
use crate::trial::{Knob, Trial};

/// Before this time, the association set-up survives two losses, and TCP finishes its slow start.
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);
/// The longest time that the last messages may take.
const DRAIN: Duration = Duration::from_secs(10);

const PARAMETERS: &[Parameter] = &[
    ours("game", "60 messages a second of 100 bytes, deadline 100 ms"),
    ours("control", "10 messages a second of 64 bytes, deadline 500 ms"),
    ours(
        "video",
        "30 frames a second of 4 to 12 KiB, one of 40 KiB every 2 s, deadline 200 ms: 2.1 Mbit/s",
    ),
    ours(
        "link",
        "the same in both directions; random loss, in percent, in both directions",
    ),
    ours(
        "rfc9260",
        "RFC 9260's recovery and congestion control; reliable, ordered",
    ),
    ours("defaults", "RACK-TLP and CUBIC; reliable, ordered"),
    ours("bbr", "RACK-TLP and BBR; reliable, ordered"),
    ours(
        "low-latency",
        "RACK-TLP and BBR with tolerate_random_loss; unordered, and abandoned after the deadline",
    ),
    ours(
        "beside tcp",
        "one greedy TCP flow (CUBIC, Linux's settings) from the start on; sender none: the TCP flow alone",
    ),
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "rate",
        unit: "Mbit/s",
        about: "rate of the link",
        usual: "10",
        range: (0.1, 10_000.0),
    },
    Knob {
        name: "delay",
        unit: "ms",
        about: "one-way delay of the link",
        usual: "20",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "queue",
        unit: "packets",
        about: "maximum length of the link's queue",
        usual: "100",
        range: (1.0, 100_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time in which messages are submitted",
        usual: "60, or 20 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    DELIVERY[0],
    DELIVERY[1],
    DELIVERY[2],
    DELIVERY[3],
    metric("timeouts", "", "T3-rtx expirations"),
    metric(
        "retransmitted",
        "%",
        "share of the DATA chunks that are retransmissions",
    ),
    metric(
        "spurious",
        "",
        "retransmissions that the peer reported as duplicates",
    ),
    metric("queue", "kB", "bytes in the link's queue, mean over time"),
    metric("tcp", "Mbit/s", "goodput of the TCP flow"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "in-time",
        question: "Game, control and video messages over a lossy path, with and without TCP cross traffic: how many are delivered \
                   within their deadline, and what does the TCP flow keep?",
        source: "no paper; the bounds of the claims are the project's own goals",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 5,
            Extent::Full => 10,
        },
        cells: &cells,
        claims: &claims,
        figures: &|| Vec::new(),
        timelines: &Vec::new,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// No association: TCP alone.
    Nobody,
    Rfc9260,
    Defaults,
    Bbr,
    LowLatency,
}

impl Sender {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "none",
            Self::Rfc9260 => "rfc9260",
            Self::Defaults => "defaults",
            Self::Bbr => "bbr",
            Self::LowLatency => "low-latency",
        }
    }

    fn config(self) -> Config {
        let mut config = match self {
            Self::Rfc9260 => Config::rfc9260(),
            Self::Nobody | Self::Defaults | Self::Bbr => Config::default(),
            Self::LowLatency => Config::low_latency(),
        };
        if let Self::Bbr = self {
            config.congestion_control = CongestionControl::Bbr(BbrConfig::default());
        }
        config.lower_layer = LowerLayer::Ip;
        config
    }

    fn options(self, traffic: Traffic) -> SendOptions {
        match self {
            Self::LowLatency => SendOptions::default()
                .unordered(true)
                .reliability(Reliability::Lifetime(traffic.deadline())),
            _ => SendOptions::default(),
        }
    }
}

/// The loss in percent, by its name on the axis.
const LOSSES: [(&str, f64); 5] = [("0", 0.0), ("1", 1.0), ("3", 3.0), ("5", 5.0), ("10", 10.0)];
const ALONE: [Sender; 4] = [Sender::Rfc9260, Sender::Defaults, Sender::Bbr, Sender::LowLatency];
/// TCP cross traffic is measured with video only: the other messages are too few to affect TCP.
const BESIDE: [Sender; 3] = [Sender::Nobody, Sender::Defaults, Sender::LowLatency];

fn cells(extent: Extent) -> Vec<Cell> {
    let cell = |(traffic, loss, sender, beside_tcp): (Traffic, (&str, f64), Sender, bool)| {
        let coordinates = vec![
            ("traffic", traffic.name().to_owned()),
            ("loss", loss.0.to_owned()),
            ("beside", if beside_tcp { "tcp" } else { "nobody" }.to_owned()),
            ("sender", sender.name().to_owned()),
        ];
        let scenario =
            move |trial: &Trial<'_>| scenario((traffic, loss.1), (sender, beside_tcp), extent, trial);
        Cell::staged(
            coordinates,
            Stage::new(scenario, move |record| numbers(traffic, record)).usual(true),
        )
    };
    let alone = [Traffic::Game, Traffic::Control, Traffic::Video]
        .into_iter()
        .flat_map(|traffic| LOSSES.into_iter().map(move |loss| (traffic, loss)))
        .flat_map(|(traffic, loss)| ALONE.map(|sender| (traffic, loss, sender, false)));
    let beside = LOSSES
        .into_iter()
        .flat_map(|loss| BESIDE.map(|sender| (Traffic::Video, loss, sender, true)));
    alone.chain(beside).map(cell).collect()
}

fn scenario(
    (traffic, loss): (Traffic, f64),
    (sender, beside_tcp): (Sender, bool),
    extent: Extent,
    trial: &Trial<'_>,
) -> Scenario {
    let link = LinkConfig::default()
        .with_rate((trial.knob_or("rate", 10.0) * 1e6) as u64)
        .with_delay(Duration::from_secs_f64(trial.knob_or("delay", 20.0) / 1e3))
        .with_queue(QueueLimit::Packets(trial.knob_or("queue", 100.0) as u64))
        .with_loss(LossModel::bernoulli(loss / 100.0));
    let seconds = match extent {
        Extent::Quick | Extent::Short => 20.0,
        Extent::Full => 60.0,
    };
    let end = MESSAGES_BEGIN + Duration::from_secs_f64(trial.knob_or("seconds", seconds));
    Scenario {
        config: sender.config(),
        paths: vec![(link.clone(), link)],
        messages: (sender != Sender::Nobody).then(|| Messages {
            connect: Timestamp::ZERO,
            classes: vec![Class::from(sender.options(traffic))],
            demand: Demand::Scheduled(traffic.schedule(trial.seed, MESSAGES_BEGIN)),
            awaited: Awaited::All,
        }),
        tcp: beside_tcp.then(|| TcpFlows::linux(true, vec![Timestamp::ZERO])),
        counts: (MESSAGES_BEGIN, end),
        most_drain: DRAIN,
        measures: Measures::default(),
    }
}

fn numbers(traffic: Traffic, record: &Record) -> Vec<f64> {
    // Messages that were refused because the send buffer was full count as late, as lost messages do.
    let messages = record.counted(0).count() as f64 + record.refused as f64;
    let [in_time, delivered, median, late] = delivery(traffic, record, messages);
    let sender = &record.last.sender;
    let retransmissions = sender.retransmissions_fast + sender.retransmissions_timeout;
    let (before, after) = (&record.at_begin.links[0], &record.at_end.links[0]);
    let byte_seconds = (after.queue_byte_nanos - before.queue_byte_nanos) as f64 / 1e9;
    let has_tcp = !record.at_end.tcp_bytes.is_empty();
    vec![
        in_time,
        delivered,
        median,
        late,
        sender.timeouts as f64,
        100.0 * retransmissions as f64 / sender.data_chunks_sent as f64,
        sender.retransmissions_spurious as f64,
        byte_seconds / record.seconds() / 1e3,
        if has_tcp { record.tcp_goodput() } else { f64::NAN },
    ]
}

fn claims() -> Vec<Claim> {
    let in_time = |says, least, traffic: &'static str, loss: &'static str, sender: &'static str| {
        Claim::new(says, "", Bound::AtLeast(least), move |results: &Results| {
            let at = [
                ("traffic", traffic),
                ("loss", loss),
                ("beside", "nobody"),
                ("sender", sender),
            ];
            results.sample(&at, "in_time")
        })
    };
    let tcp = |says, loss: &'static str| {
        Claim::of_ratio(says, "", Bound::AtLeast(0.8), move |results: &Results| {
            let at = |sender| [("loss", loss), ("beside", "tcp"), ("sender", sender)];
            results.ratio(&at("low-latency"), &at("none"), "tcp")
        })
    };
    vec![
        in_time(
            "game, 5 % loss, defaults: at least 99 % in time",
            99.0,
            "game",
            "5",
            "defaults",
        ),
        in_time(
            "control, 3 % loss, defaults: at least 99.9 % in time",
            99.9,
            "control",
            "3",
            "defaults",
        )
        .must(),
        in_time(
            "video, 3 % loss, low-latency: at least 99 % in time",
            99.0,
            "video",
            "3",
            "low-latency",
        )
        .must(),
        in_time(
            "video, 5 % loss, low-latency: at least 99 % in time",
            99.0,
            "video",
            "5",
            "low-latency",
        )
        .must(),
        tcp(
            "3 % loss: with low-latency video as cross traffic, TCP keeps at least 80 % of its goodput",
            "3",
        ),
        tcp(
            "5 % loss: with low-latency video as cross traffic, TCP keeps at least 80 % of its goodput",
            "5",
        ),
        Claim::new(
            "no loss: with low-latency video as cross traffic, TCP gets at least half of the link",
            "",
            Bound::AtLeast(4.8),
            |results| {
                let at = [("loss", "0"), ("beside", "tcp"), ("sender", "low-latency")];
                results.sample(&at, "tcp")
            },
        )
        .must(),
    ]
}
