//! One run of a variant: its settings, its network, and its numbers.

use std::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{Config, RecoveryRules, Reliability, SendOptions, Timestamp};

use super::super::pair::{PEER, Pair};
use super::super::plain_config;
use super::{LOSS_BEGINS, RTT, STANDARD_REPORTS, Variant};
use crate::stage::WINDOW_LOOK;
use crate::statistics::Summary;
use crate::trace::OwnPoints;
use crate::traffic::Source;
use crate::trial::Trial;

/// The name of the points of each delivery: its time and the time since the delivery before.
pub(super) const GAPS: &str = "gaps";

/// Bytes of a chunk that fills a packet: the unit in which the congestion window grows.
const FULL_CHUNK: u16 = 1468;

fn config(variant: Variant, trial: &Trial<'_>) -> Config {
    let mut config = plain_config();
    config.rto.min = Duration::from_secs_f64(trial.knob_or("rto_min", 1000.0) / 1e3);
    config.rto.initial = Duration::from_secs(3);
    config.buffers.receive = trial.knob_or("window", 65_536.0) as u32;
    config.buffers.send = 4 * 65_536;
    config.initial_window = Some(2);
    config.recovery = RecoveryRules::RFC2960
        .missing_reports(match (variant.reports, trial.knob("reports")) {
            (STANDARD_REPORTS, Some(reports)) => reports as u8,
            (reports, _) => reports,
        })
        .early_discard_reduces(variant.reduces)
        .forward_waits(trial.knob_or("forward_waits", 0.0) >= 0.5);
    config.sack.frequency = variant.sack_frequency;
    config.nr_sack.offer = variant.nr_sack;
    config.partial_reliability.early_discard = variant.early_discard;
    config.partial_reliability.selective_forward_tsn = {
        let distance = trial.knob_or("distance", 1.0) as u32;
        variant.selective_forward_tsn.then_some(distance)
    };
    config
}

pub(super) fn simulate(variant: Variant, loss: f64, lossy: f64, trial: &Trial<'_>) -> Vec<f64> {
    let options = SendOptions::default().reliability(Reliability::Retransmissions(0));
    let delay = Duration::from_secs_f64(trial.knob_or("rtt", RTT * 1e3) / 2e3);
    let link = LinkConfig::default().with_rate(10_000_000).with_delay(delay);
    let lossy = Duration::from_secs_f64(trial.knob_or("seconds", lossy));
    let source = Source::greedy(PEER, options, variant.message);
    let mut pair = Pair::new(trial, &config(variant, trial), link.clone(), source);
    pair.network.run_until(LOSS_BEGINS);
    let with_loss = link.with_loss(LossModel::bernoulli(loss));
    if variant.return_loss && trial.knob_or("return_loss", 1.0) >= 0.5 {
        pair.network
            .set_link_config(pair.return_links[0], with_loss.clone());
    }
    pair.network.set_link_config(pair.data_links[0], with_loss);
    pair.receiver_mut().restart_holdings();
    let before = pair.counters();
    let mut windows = Vec::new();
    let end = LOSS_BEGINS + lossy;
    while pair.network.now() < end {
        windows.extend(pair.windows().into_iter().flatten());
        let next = pair.network.now() + WINDOW_LOOK;
        pair.network.run_until(next.min(end));
    }
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
    trial.trace_points(|| OwnPoints {
        name: GAPS,
        columns: ["delivered_s", "since_last_delivery_s"],
        points: {
            let at = deliveries.iter().skip(1).map(|(at, _)| at.as_secs_f64());
            at.zip(gaps.iter().copied()).collect()
        },
    });
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
        windows.iter().sum::<usize>() as f64 / windows.len() as f64 / f64::from(FULL_CHUNK),
        (after.data_chunks_sent - before.data_chunks_sent) as f64 / lossy.as_secs_f64(),
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
