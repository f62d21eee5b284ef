//! Basto and Freitas, *SCTP extensions for time sensitive traffic*: the effect of early discard and selective forward TSN on an ordered
//! stream without retransmissions, on a lossy path without cross traffic.

mod figures;
mod model;

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{Config, RecoveryRules, Reliability, SendOptions, Timestamp};

use super::pair::{PEER, Pair};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Experiment, Extent, Metric, Parameter, metric};
use crate::results::Results;
use crate::statistics::Summary;
use crate::traffic::Source;
use crate::trial::{Knob, Trial};

/// Bytes of user data in a message. A packet of 1,500 bytes has space for the message and a discard notice.
const MESSAGE: usize = 1440;
/// Bytes of a message whose chunk fills the packet: no space is left for a notice.
const FULL_MESSAGE: usize = 1452;
/// Begin of the losses and of the measured time.
const LOSS_BEGINS: Timestamp = Timestamp::from_millis(30_000);
/// The round-trip time in seconds.
const RTT: f64 = 0.25;
/// The time with losses, in seconds.
const LOSSY: f64 = 270.0;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "service",
        value: "one ordered stream, no retransmission, infinite source",
        from_paper: true,
    },
    Parameter {
        name: "loss",
        value: "random, from 30 s to 300 s, which is the measured time",
        from_paper: true,
    },
    Parameter {
        name: "receive window",
        value: "65,536 B",
        from_paper: true,
    },
    Parameter {
        name: "recovery",
        value: "RFC 2960: four missing reports, no fast recovery; delayed acknowledgement 200 ms",
        from_paper: true,
    },
    Parameter {
        name: "distance",
        value: "a discard notice one packet after its message",
        from_paper: true,
    },
    Parameter {
        name: "round trip, rate",
        value: "250 ms, 10 Mbit/s, no queue limit; data packets are lost, acknowledgements are not",
        from_paper: false,
    },
    Parameter {
        name: "chunk",
        value: "1,456 B, which leaves space for a notice of 12 B; every second packet acknowledged",
        from_paper: false,
    },
    Parameter {
        name: "RTO.Min, RTO.Initial",
        value: "1 s, 3 s",
        from_paper: false,
    },
];

const KNOBS: &[Knob] = &[
    Knob {
        name: "rtt",
        unit: "ms",
        about: "round-trip time",
        usual: "250",
        range: (1.0, 10_000.0),
    },
    Knob {
        name: "rto_min",
        unit: "ms",
        about: "RTO.Min",
        usual: "1000",
        range: (1.0, 3_000.0),
    },
    Knob {
        name: "window",
        unit: "B",
        about: "receive window",
        usual: "65536",
        range: (4_096.0, 16_777_216.0),
    },
    Knob {
        name: "reports",
        unit: "",
        about: "missing reports that trigger a fast retransmission, except in the variant with one report",
        usual: "4",
        range: (1.0, 16.0),
    },
    Knob {
        name: "distance",
        unit: "packets",
        about: "packets from a message to its discard notice",
        usual: "1",
        range: (1.0, 64.0),
    },
    Knob {
        name: "seconds",
        unit: "s",
        about: "time with losses",
        usual: "270",
        range: (1.0, 100_000.0),
    },
];

const METRICS: &[Metric] = &[
    metric(
        "blocking_mean",
        "s",
        "time from arrival to delivery (head-of-line blocking), mean over the delivered messages",
    ),
    metric("blocking_max", "s", "time from arrival to delivery, maximum"),
    metric(
        "blocking_std",
        "s",
        "time from arrival to delivery, standard deviation",
    ),
    metric(
        "interarrival_mean",
        "s",
        "time between deliveries to the application, mean",
    ),
    metric("interarrival_max", "s", "time between deliveries, maximum"),
    metric(
        "interarrival_std",
        "s",
        "time between deliveries, standard deviation",
    ),
    metric(
        "buffer_data",
        "messages",
        "messages held by the receiver, summed over the arrivals after which it held any",
    ),
    metric(
        "buffer_events",
        "",
        "arrivals after which the receive buffer was not empty",
    ),
    metric("buffer_mean", "messages", "buffer_data / buffer_events"),
    metric("goodput", "Mbit/s", "user data delivered"),
    metric("delivered", "messages", "messages delivered"),
    metric("timeouts", "", "T3-rtx expirations"),
    metric(
        "cuts",
        "",
        "window reductions by fast retransmission or early discard, without timeouts",
    ),
    metric("forward_tsns", "", "FORWARD-TSN chunks sent"),
    metric("notices", "", "selective forward TSNs sent"),
];

/// The experiment.
pub(super) fn experiment() -> Experiment {
    Experiment {
        name: "time-sensitive",
        question: "Messages are not retransmitted but delivered in order: how long do lost messages block later ones?",
        source: "Basto, Freitas: SCTP extensions for time sensitive traffic",
        parameters: PARAMETERS,
        knobs: KNOBS,
        metrics: METRICS,
        seeds: &|extent| match extent {
            Extent::Quick | Extent::Short => 8,
            Extent::Full => 30,
        },
        cells: &cells,
        claims: &claims,
        figures: &figures::figures,
    }
}

/// The extensions of the paper that are on, and other differences from its setting.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    early_discard: bool,
    selective_forward_tsn: bool,
    nr_sack: bool,
    /// Missing reports that trigger a fast retransmission.
    reports: u8,
    /// Bytes of user data in a message.
    message: usize,
}

const STANDARD_REPORTS: u8 = RecoveryRules::RFC2960.missing_reports;

/// Fast retransmission detects a loss as soon as early discard does: this variant shows the part of the gain that comes from the detection
/// of losses without timeouts.
const ONE_REPORT: Variant = Variant {
    name: "standard, one report",
    reports: 1,
    ..VARIANTS[0]
};

/// The sender may send while less than cwnd is in flight (RFC 9260 §6.1 B). If chunks are smaller than the unit of cwnd, a window of n packets
/// lets n + 1 chunks leave: at four packets a quarter more. Chunks that fill the packet show what this makes of the paper's numbers.
const FULL_PACKETS: Variant = Variant {
    name: "standard, full packets",
    message: FULL_MESSAGE,
    ..VARIANTS[0]
};

const VARIANTS: [Variant; 5] = [
    variant("standard", false, false),
    variant("early discard", true, false),
    variant("selective forward", false, true),
    variant("both", true, true),
    Variant {
        nr_sack: true,
        ..variant("both and nr-sack", true, true)
    },
];

const fn variant(name: &'static str, early_discard: bool, selective_forward_tsn: bool) -> Variant {
    Variant {
        name,
        early_discard,
        selective_forward_tsn,
        nr_sack: false,
        reports: STANDARD_REPORTS,
        message: MESSAGE,
    }
}

fn cells(extent: Extent) -> Vec<Cell> {
    let losses: &[f64] = match extent {
        Extent::Quick => &[0.0, 0.05, 0.1, 0.3],
        Extent::Short | Extent::Full => &[0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3],
    };
    let cell = |(loss, variant): (f64, Variant)| {
        let coordinates = vec![("variant", variant.name.to_owned()), ("loss", loss.to_string())];
        Cell::new(coordinates, move |trial| simulate(variant, loss, trial))
    };
    let grid = losses
        .iter()
        .flat_map(|loss| VARIANTS.map(|variant| (*loss, variant)));
    let ablation = losses.iter().filter(|loss| (0.05..=0.1).contains(*loss));
    grid.chain(ablation.flat_map(|loss| [(*loss, ONE_REPORT), (*loss, FULL_PACKETS)]))
        .map(cell)
        .collect()
}

fn config(variant: Variant, trial: &Trial<'_>) -> Config {
    let mut config = super::plain_config();
    config.rto.min = Duration::from_secs_f64(trial.knob_or("rto_min", 1000.0) / 1e3);
    config.rto.initial = Duration::from_secs(3);
    config.buffers.receive = trial.knob_or("window", 65_536.0) as u32;
    config.buffers.send = 4 * 65_536;
    config.initial_window = Some(2);
    config.recovery = RecoveryRules {
        missing_reports: match (variant.reports, trial.knob("reports")) {
            (STANDARD_REPORTS, Some(reports)) => reports as u8,
            (reports, _) => reports,
        },
        ..RecoveryRules::RFC2960
    };
    config.nr_sack.offer = variant.nr_sack;
    config.partial_reliability.early_discard = variant.early_discard;
    config.partial_reliability.selective_forward_tsn = {
        let distance = trial.knob_or("distance", 1.0) as u32;
        variant.selective_forward_tsn.then_some(distance)
    };
    config
}

fn simulate(variant: Variant, loss: f64, trial: &Trial<'_>) -> Vec<f64> {
    let options = SendOptions {
        reliability: Reliability::Retransmissions(0),
        ..SendOptions::default()
    };
    let delay = Duration::from_secs_f64(trial.knob_or("rtt", RTT * 1e3) / 2e3);
    let link = LinkConfig::default().with_rate(10_000_000).with_delay(delay);
    let lossy = Duration::from_secs_f64(trial.knob_or("seconds", LOSSY));
    let source = Source::greedy(PEER, options, variant.message);
    let mut pair = Pair::new(trial, &config(variant, trial), link.clone(), source);
    pair.network.run_until(LOSS_BEGINS);
    pair.network
        .set_link_config(pair.data_links[0], link.with_loss(LossModel::bernoulli(loss)));
    pair.receiver_mut().restart_holdings();
    let before = pair.counters();
    pair.network.run_until(LOSS_BEGINS + lossy);
    let after = pair.counters();

    let tap = pair.receiver();
    let deliveries: Vec<_> = pair
        .sink()
        .deliveries()
        .iter()
        .filter(|(at, _)| *at >= LOSS_BEGINS)
        .collect();
    let blocking: Vec<f64> = deliveries
        .iter()
        .filter_map(|(at, message)| Some(seconds(tap.arrived().of(*message as usize)?, *at)))
        .collect();
    let gaps: Vec<f64> = deliveries
        .windows(2)
        .map(|pair| seconds(pair[0].0, pair[1].0))
        .collect();
    let (blocking, gaps) = (Summary::of(&blocking), Summary::of(&gaps));
    let held = tap.holdings();
    let held_messages = held.bytes as f64 / variant.message as f64;
    let delivered = deliveries.len() as f64;
    vec![
        blocking.mean,
        blocking.max,
        blocking.deviation,
        gaps.mean,
        gaps.max,
        gaps.deviation,
        held_messages,
        held.events as f64,
        held_messages / held.events.max(1) as f64,
        delivered * variant.message as f64 * 8.0 / lossy.as_secs_f64() / 1e6,
        delivered,
        (after.timeouts - before.timeouts) as f64,
        (after.fast_recoveries - before.fast_recoveries) as f64,
        (after.forward_tsns_sent - before.forward_tsns_sent) as f64,
        (after.selective_notices_sent - before.selective_notices_sent) as f64,
    ]
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}

/// A metric of one variant at a loss.
fn of(
    metric: &'static str,
    variant: &'static str,
    loss: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| results.sample(&[("variant", variant), ("loss", loss)], metric)
}

/// The ratio of a metric between a variant and the standard.
fn against_standard(
    metric: &'static str,
    variant: &'static str,
    loss: &'static str,
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let at = |variant| [("variant", variant), ("loss", loss)];
        results.ratio(&at(variant), &at("standard"), metric)
    }
}

fn claims() -> Vec<Claim> {
    let mut claims = blocking_claims();
    claims.extend(model_claims());
    claims.extend(cost_claims());
    claims
}

fn blocking_claims() -> Vec<Claim> {
    vec![
        Claim::new(
            "standard, 10 % loss: mean head-of-line blocking 0.15 to 0.21 s",
            "0.18 s",
            Bound::Within(0.15, 0.21),
            of("blocking_mean", "standard", "0.1"),
        )
        .must(),
        Claim::new(
            "standard, 10 % loss: standard deviation of blocking 0.25 to 0.40 s",
            "0.3 s",
            Bound::Within(0.25, 0.40),
            of("blocking_std", "standard", "0.1"),
        )
        .must(),
        Claim::new(
            "standard, full packets, 10 % loss: messages held by the receiver, within 15 % of the paper's number",
            "5026",
            Bound::Within(4272.0, 5780.0),
            of("buffer_data", "standard, full packets", "0.1"),
        ),
        Claim::new(
            "standard, full packets, 10 % loss: arrivals that find the receive buffer not empty, within 15 % of the paper's number",
            "1131",
            Bound::Within(961.0, 1301.0),
            of("buffer_events", "standard, full packets", "0.1"),
        ),
        Claim::new(
            "standard, full packets, 10 % loss: standard deviation of the time between deliveries, within 15 % of the paper's number",
            "0.276 s",
            Bound::Within(0.235, 0.317),
            of("interarrival_std", "standard, full packets", "0.1"),
        ),
        Claim::of_ratio(
            "10 % loss: both extensions leave at most 15 % of the mean blocking",
            "0.009 s of 0.18 s",
            Bound::AtMost(0.15),
            against_standard("blocking_mean", "both", "0.1"),
        )
        .must(),
        Claim::of_ratio(
            "10 % loss: both extensions reduce the standard deviation of the time between deliveries by at least 40 %",
            "0.116 s of 0.276 s: 58 %",
            Bound::AtMost(0.6),
            against_standard("interarrival_std", "both", "0.1"),
        ),
        Claim::of_ratio(
            "10 % loss: both extensions reduce the messages held by the receiver by at least 75 %",
            "344 of 5026: 93 %",
            Bound::AtMost(0.25),
            against_standard("buffer_data", "both", "0.1"),
        ),
        Claim::of_ratio(
            "30 % loss: both extensions leave at most 30 % of the mean blocking",
            "70 to 76 % less by the paper's formula",
            Bound::AtMost(0.3),
            against_standard("blocking_mean", "both", "0.3"),
        )
        .fails_because(
            "FORWARD-TSN stops in front of every received chunk, so it passes one gap per round-trip time, and at this loss more \
             gaps arise in this time. With “both and nr-sack” FORWARD-TSN does not stop, and the reduction is reached",
        ),
        Claim::of_ratio(
            "30 % loss: both extensions and NR-SACK leave at most 30 % of the mean blocking",
            "70 to 76 % less by the paper's formula; NR-SACK came later",
            Bound::AtMost(0.3),
            against_standard("blocking_mean", "both and nr-sack", "0.3"),
        ),
        Claim::new(
            "the relative reduction of blocking falls as loss grows: at 30 % loss a larger share of the blocking remains than at 5 %",
            "fig. 1: towards 100 % as p approaches 0, falling with p",
            Bound::AtLeast(0.0),
            |results| {
                let most = against_standard("blocking_mean", "both", "0.3")(results)?;
                let least = against_standard("blocking_mean", "both", "0.05")(results)?;
                Some(
                    most.iter()
                        .zip(&least)
                        .map(|(most, least)| most - least)
                        .collect(),
                )
            },
        ),
    ]
}

/// The ratio of the simulated blocking to that of a formula, at 10 % loss.
fn against_model(
    variant: &'static str,
    formula: &'static [(f64, f64)],
) -> impl Fn(&Results) -> Option<Vec<f64>> {
    move |results| {
        let (_, reckoned) = formula.iter().find(|(loss, _)| *loss == 0.1)?;
        let simulated = of("blocking_mean", variant, "0.1")(results)?;
        Some(simulated.iter().map(|blocking| blocking / reckoned).collect())
    }
}

fn model_claims() -> Vec<Claim> {
    vec![
        Claim::of_ratio(
            "10 % loss, standard: simulated blocking is that of equation (5), ± 25 %",
            "fig. 1 is drawn from (5)",
            Bound::Within(0.75, 1.25),
            against_model("standard", &model::PRINTED[0]),
        )
        .fails_because(
            "(5) divides by packets instead of multiplying by the share of blocked packets, and leaves out most timeouts. The \
             corrected equation (see the figure and its table) is within 25 % of the simulation",
        ),
        Claim::of_ratio(
            "10 % loss, standard: simulated blocking is that of the corrected equation (5), ± 25 %",
            "0.18 s simulated",
            Bound::Within(0.75, 1.25),
            against_model("standard", &model::CORRECTED[0]),
        ),
        Claim::of_ratio(
            "10 % loss, both and nr-sack: simulated blocking is that of the corrected equation (5), within a factor of two",
            "0.009 s simulated",
            Bound::Within(0.5, 2.0),
            against_model("both and nr-sack", &model::CORRECTED[1]),
        ),
    ]
}

fn cost_claims() -> Vec<Claim> {
    let one_report = |says, loss| {
        let at = move |variant| [("variant", variant), ("loss", loss)];
        let ratio = move |results: &Results| results.ratio(&at("both"), &at(ONE_REPORT.name), "goodput");
        Claim::of_ratio(says, "not stated", Bound::Within(0.97, 1.03), ratio)
    };
    vec![
        Claim::of_ratio(
            "10 % loss: goodput with both extensions is that of the standard, ± 3 %",
            "no gain while the mean window is 4 packets or more, p up to 11 % (b = 2)",
            Bound::Within(0.97, 1.03),
            against_standard("goodput", "both", "0.1"),
        )
        .fails_because(
            "with a mean window of 4 packets, often fewer than 4 packets follow a loss and can report it, so T3-rtx expires (see \
             timeouts). Early discard needs one report. “standard, one report”, without any extension, has the whole gain, and \
             “selective forward” has none",
        ),
        Claim::of_ratio(
            "10 % loss: goodput with both extensions is that of early discard alone, ± 3 %",
            "early discard brings the goodput",
            Bound::Within(0.97, 1.03),
            |results| {
                let at = |variant| [("variant", variant), ("loss", "0.1")];
                results.ratio(&at("both"), &at("early discard"), "goodput")
            },
        ),
        Claim::of_ratio(
            "5 % loss: goodput with both extensions is that of the standard, ± 3 %",
            "no gain while the mean window is 4 packets or more, p up to 11 % (b = 2)",
            Bound::Within(0.97, 1.03),
            against_standard("goodput", "both", "0.05"),
        )
        .fails_because("as at 10 %: “standard, one report” has the whole gain"),
        one_report("5 % loss: goodput with both extensions is that of one missing report instead of four, ± 3 %", "0.05"),
        one_report("10 % loss: goodput with both extensions is that of one missing report instead of four, ± 3 %", "0.1"),
        Claim::of_ratio(
            "30 % loss: goodput with both extensions is higher than that of the standard",
            "higher above p = 11 % (b = 2)",
            Bound::AtLeast(1.03),
            against_standard("goodput", "both", "0.3"),
        ),
        Claim::new(
            "10 % loss: early discard alone reduces timeouts by at least 80 %",
            "early discard brings the goodput",
            Bound::AtMost(0.2),
            against_standard("timeouts", "early discard", "0.1"),
        ),
        Claim::of_ratio(
            "10 % loss: selective forward TSN alone changes goodput by less than 3 %",
            "selective forward TSN brings the jitter, not the goodput",
            Bound::Within(0.97, 1.03),
            against_standard("goodput", "selective forward", "0.1"),
        ),
        Claim::of_ratio(
            "no loss: goodput with both extensions is that of the standard, less at most 12 B per packet",
            "no cost as p approaches 0",
            Bound::Within(1.0 - 12.0 / 1500.0, 1.0),
            against_standard("goodput", "both", "0"),
        ),
    ]
}
