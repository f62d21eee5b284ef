//! The best distance between a message and its discard notice, which Basto and Freitas left open. The losses are single losses, bursts of
//! losses, drops from a drop-tail queue that cross traffic fills, or there are none and packets come in another order.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::{Config, Reliability, SendOptions, Timestamp};

use super::pair::{PEER, PEER_BESIDE_TCP, Pair};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::statistics::Summary;
use crate::traffic::{Class, Poisson, Sizes, Source};
use crate::trial::{Knob, Trial};

/// Bytes of user data in a message. A packet with the message has space for a notice as well.
const MESSAGE: usize = 1400;
/// The share of the packets that is lost.
const LOSS: f64 = 0.01;
/// Begin of the measured time.
const BEGIN: Timestamp = Timestamp::from_millis(10_000);

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "service",
        value: "one ordered stream, no retransmission: messages of 1,400 B as a Poisson process, 100 a second",
        from_paper: false,
    },
    Parameter {
        name: "alone",
        value: "1 % of the packets, independently; 10 Mbit/s, 50 ms each way",
        from_paper: false,
    },
    Parameter {
        name: "bursts",
        value: "1 % of the packets, in bursts of four on average; 10 Mbit/s, 50 ms each way",
        from_paper: false,
    },
    Parameter {
        name: "reordered",
        value: "no loss, and 1 % of the packets come 10 ms late: behind one later packet on average, seldom behind four; 10 Mbit/s, \
                50 ms each way",
        from_paper: false,
    },
    Parameter {
        name: "drop-tail",
        value: "5 Mbit/s, 50 ms each way, a queue of 20 packets that two greedy TCP flows fill",
        from_paper: false,
    },
    Parameter {
        name: "distance",
        value: "packets from a message to its notice; off: no notices, only FORWARD-TSN after three missing reports",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "burst",
        unit: "packets",
        about: "mean length of a burst of losses",
        usual: "4",
        range: (1.0, 100.0),
    },
    Knob {
        name: "late",
        unit: "ms",
        about: "additional delay of a late packet",
        usual: "10",
        range: (0.0, 10_000.0),
    },
    Knob {
        name: "queue",
        unit: "packets",
        about: "length of the drop-tail queue",
        usual: "20",
        range: (1.0, 10_000.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "measured time",
        usual: "300, or 60 with --quick or --short",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "blocking",
        "s",
        "time from arrival to delivery (head-of-line blocking), mean over the delivered messages",
    ),
    metric(
        "blocked",
        "",
        "share of the delivered messages that waited for earlier messages",
    ),
    metric("blocking_max", "s", "longest head-of-line blocking"),
    metric("lost", "", "share of the messages that never arrived"),
    metric(
        "alone",
        "",
        "share of the lost messages whose neighbours on both sides arrived",
    ),
    metric(
        "discarded",
        "",
        "share of the messages that arrived and were discarded, because their notice came first",
    ),
    metric("notices", "", "discard notices sent per message"),
    metric("timeouts", "", "T3-rtx expirations"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "notice-distance",
        question: "A discard notice is sent some packets after its message: how many packets are best if losses come in bursts or \
                   from a full queue?",
        source: "Basto, Freitas: SCTP extensions for time sensitive traffic, future work",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 6,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures,
        timelines: &Vec::new,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Alone,
    Bursts,
    DropTail,
    Reordered,
}

impl Loss {
    const ALL: [Self; 4] = [Self::Alone, Self::Bursts, Self::DropTail, Self::Reordered];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Bursts => "bursts",
            Self::DropTail => "drop-tail",
            Self::Reordered => "reordered",
        }
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let distances: &[u32] = match extent {
        Extent::Quick => &[0, 1, 4, 16],
        Extent::Short | Extent::Full => &[0, 1, 2, 3, 4, 6, 8, 12, 16, 32],
    };
    let cell = |(loss, distance): (Loss, u32)| {
        let coordinates = vec![("loss", loss.name().to_owned()), ("distance", name_of(distance))];
        Cell::new(coordinates, move |trial| simulate(loss, distance, extent, trial))
    };
    let grid = Loss::ALL.into_iter();
    grid.flat_map(|loss| distances.iter().map(move |distance| (loss, *distance)))
        .map(cell)
        .collect()
}

/// The name of a distance on the axis; 0 means no notices.
fn name_of(distance: u32) -> String {
    match distance {
        0 => "off".to_owned(),
        distance => distance.to_string(),
    }
}

fn config(distance: u32) -> Config {
    let mut config = super::plain_config();
    config.buffers.send = 64 << 20;
    config.partial_reliability.discard_unsent = false;
    config.partial_reliability.selective_forward_tsn = (distance > 0).then_some(distance);
    config
}

fn simulate(loss: Loss, distance: u32, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short => 60.0,
        Extent::Full => 300.0,
    };
    let end = BEGIN + Duration::from_secs_f64(trial.knob_or("seconds", seconds));
    let options = SendOptions::default().reliability(Reliability::Retransmissions(0));
    let peer = if loss == Loss::DropTail {
        PEER_BESIDE_TCP
    } else {
        PEER
    };
    let interval = Duration::from_millis(10);
    let sizes = Sizes::Fixed(MESSAGE);
    let messages = Poisson::new(
        trial.seed,
        Timestamp::from_millis(2_000),
        interval,
        sizes,
        1.0.into(),
    );
    let source = Source::scheduled(peer, vec![Class::from(options)], messages).until(end);
    let link = |mbits: u64| {
        LinkConfig::default()
            .with_rate(mbits * 1_000_000)
            .with_delay(Duration::from_millis(50))
    };
    let losing = |model: LossModel| (link(10).with_loss(model), link(10));
    let config = config(distance);
    let mut pair = match loss {
        Loss::Alone => Pair::over(trial, &config, vec![losing(LossModel::bernoulli(LOSS))], source),
        Loss::Reordered => {
            let late = Duration::from_secs_f64(trial.knob_or("late", 10.0) / 1e3);
            let reordering = link(10).with_reorder(LOSS, late);
            Pair::over(trial, &config, vec![(reordering, link(10))], source)
        }
        Loss::Bursts => {
            let ends = 1.0 / trial.knob_or("burst", 4.0);
            let model = LossModel::bursts(ends * LOSS / (1.0 - LOSS), ends);
            Pair::over(trial, &config, vec![losing(model)], source)
        }
        Loss::DropTail => {
            let queue = QueueLimit::Packets(trial.knob_or("queue", 20.0) as u64);
            Pair::beside_tcp(trial, &config, link(5).with_queue(queue), 2, source)
        }
    };
    pair.network.run_until(end + Duration::from_secs(5));
    numbers(&pair, end)
}

fn numbers(pair: &Pair, end: Timestamp) -> Vec<f64> {
    let (arrived, delivered) = (pair.receiver().arrived(), pair.sink().delivered());
    let submitted = pair.source().submitted();
    let counted: Vec<usize> = (1..submitted.len().saturating_sub(1))
        .filter(|number| (BEGIN..end).contains(&submitted[*number].at))
        .collect();
    let waits: Vec<f64> = counted
        .iter()
        .filter_map(|number| Some((arrived.of(*number)?, delivered.of(*number)?)))
        .map(|(arrived, delivered)| delivered.saturating_duration_since(arrived).as_secs_f64())
        .collect();
    let blocked = waits.iter().filter(|wait| **wait > 0.0).count();
    let has_arrived = |number: usize| arrived.of(number).is_some();
    let is_discarded = |number: &&usize| has_arrived(**number) && delivered.of(**number).is_none();
    let discarded = counted.iter().filter(is_discarded).count();
    let is_lost = |number: &usize| pair.sender().sent().of(*number).is_some() && !has_arrived(*number);
    let lost: Vec<usize> = counted.iter().copied().filter(is_lost).collect();
    let alone = lost
        .iter()
        .filter(|number| has_arrived(*number - 1) && has_arrived(*number + 1));
    let counters = pair.counters();
    let waiting = Summary::of(&waits);
    vec![
        waiting.mean,
        blocked as f64 / waits.len() as f64,
        waiting.max,
        lost.len() as f64 / counted.len() as f64,
        alone.count() as f64 / lost.len() as f64,
        discarded as f64 / counted.len() as f64,
        counters.selective_notices_sent as f64 / submitted.len() as f64,
        counters.timeouts as f64,
    ]
}

fn ratio(
    loss: &'static str,
    distance: &'static str,
    to: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let at = |distance| [("loss", loss), ("distance", distance)];
        results.ratio(&at(distance), &at(to), "blocking")
    }
}

fn claims() -> Vec<Claim> {
    let tail = |metric: &'static str| {
        move |results: &Results| results.sample(&[("loss", "drop-tail"), ("distance", "1")], metric)
    };
    let reordered = |distance: &'static str| {
        move |results: &Results| results.sample(&[("loss", "reordered"), ("distance", distance)], "discarded")
    };
    vec![
        Claim::of_ratio(
            "bursts of four: at distance 4, blocking is at most 0.75 times as long as at distance 1",
            "the notice should not be lost with its message",
            Bound::AtMost(0.75),
            ratio("bursts", "4", "1"),
        )
        .must(),
        Claim::of_ratio(
            "bursts of four: at distance 1, at least half of the blocking remains",
            "the notice should not be lost with its message",
            Bound::AtLeast(0.5),
            ratio("bursts", "1", "off"),
        ),
        Claim::of_ratio(
            "bursts of four: distance 16 is no better than distance 4",
            "more than the window is undesirably late",
            Bound::AtLeast(1.0),
            ratio("bursts", "16", "4"),
        ),
        Claim::new(
            "single losses: at distance 1, at most 1 ms of blocking remains",
            "p² instead of p",
            Bound::AtMost(0.001),
            |results| results.sample(&[("loss", "alone"), ("distance", "1")], "blocking"),
        )
        .must(),
        Claim::of_ratio(
            "single losses: at distance 16, blocking is at least twice as long as at distance 4",
            "more than the window is undesirably late",
            Bound::AtLeast(2.0),
            ratio("alone", "16", "4"),
        ),
        Claim::new(
            "reordering by fewer than four packets: at distance 1, some messages that arrive are discarded",
            "the distance prevents early discards when data is out of order",
            Bound::AtLeast(0.001),
            reordered("1"),
        ),
        Claim::new(
            "reordering by fewer than four packets: at distance 4, at most one message in 1,000 that arrives is discarded",
            "the distance prevents early discards when data is out of order",
            Bound::AtMost(0.001),
            reordered("4"),
        ),
        Claim::new(
            "drop-tail: at least half of the losses are single losses",
            "drop-tail queues may cause bursty losses",
            Bound::AtLeast(0.5),
            tail("alone"),
        ),
        Claim::of_ratio(
            "drop-tail: at distance 1, at most half of the blocking remains",
            "needs further study",
            Bound::AtMost(0.5),
            ratio("drop-tail", "1", "off"),
        )
        .must(),
    ]
}

fn figures() -> Vec<Figure> {
    let curve = |name, loss| FigureCurve {
        name,
        at: vec![("loss", loss)],
        paper: &[],
    };
    let curves = vec![
        curve("single losses", "alone"),
        curve("bursts of four", "bursts"),
        curve("drop-tail", "drop-tail"),
    ];
    vec![Figure {
        name: "blocking",
        title: "Head-of-line blocking by the notice's distance",
        paper: "distance 1 throughout; “needs further study” for drop-tail queues and bursts.",
        x: ("distance", "packets from a message to its notice"),
        y: ("blocking", "mean head-of-line blocking [s]"),
        logarithmic: true,
        curves,
    }]
}
