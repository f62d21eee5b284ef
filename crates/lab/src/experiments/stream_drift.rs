//! The drift between two streams that belong together, sound and picture: the difference of their media times at delivery. Basto and
//! Freitas expect that their extensions reduce the drift, and did not measure it.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{Config, Reliability, SendOptions, StreamId, Timestamp};

use super::outcome::Outcome;
use super::pair::{PEER, Pair};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::figure::{Figure, FigureCurve};
use crate::results::Results;
use crate::statistics::{mean, quantile};
use crate::traffic::{Class, Regular, Source, merged};
use crate::trial::{Knob, Trial};

const SOUND: usize = 0;
const PICTURE: usize = 1;
/// Sound and picture count as synchronous up to this drift in seconds (ITU-R BT.1359: viewers notice 90 to 125 ms).
const TOGETHER: f64 = 0.09;
const MESSAGES_BEGIN: Timestamp = Timestamp::from_millis(5_000);
/// The time between two readings of the drift.
const LOOK: Duration = Duration::from_millis(10);

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "path",
        value: "2 Mbit/s, 50 ms each way; random loss both ways, as the axis `loss` says",
        from_paper: false,
    },
    Parameter {
        name: "sound",
        value: "160 B every 20 ms, ordered",
        from_paper: false,
    },
    Parameter {
        name: "picture",
        value: "2,500 B every 40 ms, ordered",
        from_paper: false,
    },
    Parameter {
        name: "drift",
        value: "difference between the submission times of the last delivered sound and the last delivered picture, read every 10 ms",
        from_paper: false,
    },
    Parameter {
        name: "expiring",
        value: "messages have a lifetime of 150 ms: enough for one retransmission, not for two",
        from_paper: false,
    },
    Parameter {
        name: "early",
        value: "as expiring, with early discard and selective forward TSN",
        from_paper: false,
    },
    Parameter {
        name: "once",
        value: "without retransmissions, with early discard and selective forward TSN",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "rtt",
        unit: "ms",
        about: "round-trip time",
        usual: "100",
        range: (1.0, 10_000.0),
    },
    Knob {
        name: "lifetime",
        unit: "ms",
        about: "lifetime of messages that expire",
        usual: "150",
        range: (1.0, 100_000.0),
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
    metric("drift", "s", "drift between sound and picture, mean over time"),
    metric("drift_99", "s", "drift that is not exceeded in 99 % of the time"),
    metric("together", "", "share of the time with a drift of at most 90 ms"),
    metric("sound_delivered", "", "share of the sound delivered"),
    metric("picture_delivered", "", "share of the pictures delivered"),
    metric("sound_delay", "s", "submission to delivery of sound, mean"),
    metric("timeouts", "", "T3-rtx expirations"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "stream-drift",
        question: "Sound and picture on two streams of a lossy path: how far do they drift apart, and how do separate streams, expiry \
                   and early notices change the drift?",
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

/// The settings of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    /// Sound and picture on one stream, reliable.
    OneStream,
    /// Sound and picture on two streams, reliable.
    Reliable,
    /// Two streams, with a lifetime.
    Expiring,
    /// Two streams, with a lifetime, early discard and selective forward TSN.
    Early,
    /// Two streams without retransmissions, with early discard and selective forward TSN.
    Once,
}

impl Service {
    const ALL: [Self; 5] = [
        Self::OneStream,
        Self::Reliable,
        Self::Expiring,
        Self::Early,
        Self::Once,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::OneStream => "one stream",
            Self::Reliable => "reliable",
            Self::Expiring => "expiring",
            Self::Early => "early",
            Self::Once => "once",
        }
    }

    fn reliability(self, trial: &Trial<'_>) -> Reliability {
        match self {
            Self::OneStream | Self::Reliable => Reliability::Reliable,
            Self::Expiring | Self::Early => {
                Reliability::Lifetime(Duration::from_secs_f64(trial.knob_or("lifetime", 150.0) / 1e3))
            }
            Self::Once => Reliability::Retransmissions(0),
        }
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let losses: &[f64] = match extent {
        Extent::Quick => &[0.0, 1.0, 3.0],
        Extent::Short | Extent::Full => &[0.0, 0.5, 1.0, 2.0, 3.0, 4.0],
    };
    let cell = |(service, loss): (Service, f64)| {
        let coordinates = vec![("service", service.name().to_owned()), ("loss", loss.to_string())];
        Cell::new(coordinates, move |trial| simulate(service, loss, extent, trial))
    };
    let grid = Service::ALL.into_iter();
    grid.flat_map(|service| losses.iter().map(move |loss| (service, *loss)))
        .map(cell)
        .collect()
}

fn config(service: Service) -> Config {
    let mut config = super::plain_config();
    config.buffers.send = 64 << 20;
    let early = matches!(service, Service::Early | Service::Once);
    config.partial_reliability.early_discard = early;
    config.partial_reliability.selective_forward_tsn = early.then_some(1);
    config
}

fn simulate(service: Service, loss: f64, extent: Extent, trial: &Trial<'_>) -> Vec<f64> {
    let seconds = match extent {
        Extent::Quick | Extent::Short => 60.0,
        Extent::Full => 300.0,
    };
    let counts_to = MESSAGES_BEGIN + Duration::from_secs_f64(trial.knob_or("seconds", seconds));
    // The last messages have one second to arrive.
    let end = counts_to + Duration::from_secs(1);
    let options = SendOptions::default().reliability(service.reliability(trial));
    let mut classes = vec![Class::from(options); 2];
    if service != Service::OneStream {
        classes[PICTURE].stream = StreamId(1);
    }
    let regular = |millis, len, class| {
        let interval = Duration::from_millis(millis);
        Regular::new(trial.seed, MESSAGES_BEGIN, interval, len, class)
    };
    let messages = merged(regular(20, 160, SOUND), regular(40, 2500, PICTURE));
    let source = Source::scheduled(PEER, classes, messages).until(end);
    let link = LinkConfig::default()
        .with_rate(2_000_000)
        .with_delay(Duration::from_secs_f64(trial.knob_or("rtt", 100.0) / 2e3))
        .with_loss(LossModel::bernoulli(loss / 100.0));
    let mut pair = Pair::new(trial, &config(service), link, source);
    pair.network.run_until(end);
    let span = (MESSAGES_BEGIN + Duration::from_secs(1), counts_to);
    let drifts = drifts(&pair, span);
    let together = drifts.iter().filter(|drift| **drift <= TOGETHER).count();
    let [sound, picture] = [SOUND, PICTURE].map(|class| Outcome::of(&pair, class, span));
    vec![
        mean(&drifts),
        quantile(&drifts, 0.99),
        together as f64 / drifts.len() as f64,
        sound.delivered(),
        picture.delivered(),
        sound.mean_delay(),
        pair.counters().timeouts as f64,
    ]
}

/// The drift at each reading, in seconds.
fn drifts(pair: &Pair, (from, to): (Timestamp, Timestamp)) -> Vec<f64> {
    let submitted = pair.source().submitted();
    let mut deliveries = pair.sink().deliveries().iter().peekable();
    let mut last = [MESSAGES_BEGIN; 2];
    let (mut now, mut drifts) = (from, Vec::new());
    while now < to {
        while let Some((_, number)) = deliveries.next_if(|(at, _)| *at <= now) {
            let message = submitted[*number as usize];
            last[message.class] = last[message.class].max(message.at);
        }
        let [earlier, later] = [last[SOUND].min(last[PICTURE]), last[SOUND].max(last[PICTURE])];
        drifts.push(later.saturating_duration_since(earlier).as_secs_f64());
        now += LOOK;
    }
    drifts
}

/// The ratio of a metric between two services.
fn ratio(
    metric: &'static str,
    (service, to): (&'static str, &'static str),
    loss: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let at = |service| [("service", service), ("loss", loss)];
        results.ratio(&at(service), &at(to), metric)
    }
}

fn claims() -> Vec<Claim> {
    let paper = "drift depends strongly on blocking time";
    let drift =
        |says, bound, services, loss| Claim::of_ratio(says, paper, bound, ratio("drift", services, loss));
    let of = |metric: &'static str, service: &'static str, loss: &'static str| {
        move |results: &Results| results.sample(&[("service", service), ("loss", loss)], metric)
    };
    vec![
        drift(
            "no loss: two reliable streams drift as far as one stream, ± 1 %",
            Bound::Within(0.99, 1.01),
            ("reliable", "one stream"),
            "0",
        )
        .must(),
        drift(
            "3 % loss: two reliable streams drift at least 1.5 times as far as one stream, which delays sound and picture alike",
            Bound::AtLeast(1.5),
            ("reliable", "one stream"),
            "3",
        ),
        drift(
            "3 % loss: two streams without retransmissions, with early notices, drift at most 0.85 times as far as reliable streams",
            Bound::AtMost(0.85),
            ("once", "reliable"),
            "3",
        )
        .must(),
        drift(
            "1 % loss: two streams without retransmissions, with early notices, drift at most 0.9 times as far as reliable streams",
            Bound::AtMost(0.9),
            ("once", "reliable"),
            "1",
        ),
        Claim::new(
            "3 % loss: without retransmissions, sound and picture are within 90 ms for at least 93 % of the time",
            paper,
            Bound::AtLeast(0.93),
            of("together", "once", "3"),
        )
        .must(),
        Claim::of_ratio(
            "3 % loss: a lifetime of 150 ms alone does not change the share of the time within 90 ms, ± 10 %",
            paper,
            Bound::Within(0.9, 1.1),
            ratio("together", ("expiring", "reliable"), "3"),
        ),
        Claim::of_ratio(
            "3 % loss: sound on one reliable stream with the picture has at least 1.5 times the delay of sound without retransmissions",
            "not stated",
            Bound::AtLeast(1.5),
            ratio("sound_delay", ("one stream", "once"), "3"),
        ),
    ]
}

fn figures() -> Vec<Figure> {
    let curve = |name, service| FigureCurve {
        name,
        at: vec![("service", service)],
        paper: &[],
    };
    let curves = || {
        vec![
            curve("one stream, reliable", "one stream"),
            curve("two streams, reliable", "reliable"),
            curve("two streams, 150 ms", "expiring"),
            curve("two streams, 150 ms, early notices", "early"),
            curve("two streams, no retransmissions", "once"),
        ]
    };
    let figure = |name, title, y| Figure {
        name,
        title,
        paper: "drift “depends strongly on blocking time”; not measured.",
        x: ("loss", "loss [%]"),
        y,
        logarithmic: false,
        curves: curves(),
    };
    vec![
        figure(
            "drift",
            "Drift between sound and picture",
            ("drift", "mean drift [s]"),
        ),
        figure(
            "together",
            "Sound and picture together",
            ("together", "share of the time within 90 ms"),
        ),
    ]
}
