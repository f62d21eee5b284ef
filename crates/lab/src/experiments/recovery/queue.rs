//! The queueing delay that one flow causes for all others in a long queue.

use std::time::Duration;

use anabranch_netsim::QueueLimit;

use super::rig::{BUFFERS, Rig, greedy, link};
use super::sender::Sender;
use super::{Numbers, cell, counts, sample};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Extent};
use crate::statistics::quantile;
use crate::trial::Trial;

/// The place on the axis `scenario`.
pub(super) const NAME: &str = "queue";
pub(super) const CASE: &str = "1000 packets";
const RATE: f64 = 10.0;
/// The time between two readings of the queue.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn cells(extent: Extent) -> Vec<Cell> {
    let cell = |sender: Sender| {
        cell((NAME, CASE, 0.0, sender.name()), move |trial| {
            simulate(sender, extent, trial)
        })
    };
    Sender::COMPARED.map(cell).into()
}

fn simulate(sender: Sender, extent: Extent, trial: &Trial<'_>) -> Numbers {
    let link = link(RATE, Duration::from_millis(40), QueueLimit::Packets(1000), 0.0);
    let counts = counts(trial, extent, 10.0, (30.0, 120.0));
    let mut rig = Rig::alone(trial, &sender.config(BUFFERS), &link, greedy);
    rig.network.run_until(counts.0);
    let mut delays = Vec::new();
    while rig.network.now() < counts.1 {
        rig.network.run_for(LOOK);
        let bytes = rig.network.queued_bytes(rig.forward);
        delays.push(bytes as f64 * 8e-6 / RATE);
    }
    Numbers {
        delay_50: quantile(&delays, 0.5),
        delay_95: quantile(&delays, 0.95),
        delay_99: quantile(&delays, 0.99),
        ..rig.numbers(counts)
    }
}

pub(super) fn claims() -> Vec<Claim> {
    vec![Claim::new(
        "10 Mbit/s, queue of 1,000 packets, bbr: p95 of the queueing delay at most 30 ms",
        "",
        Bound::AtMost(0.03),
        |results| sample(results, (NAME, CASE, "0", "bbr"), "delay_95"),
    )
    .fails_because(
        "31 ms were measured: BBR keeps up to two estimated BDPs in flight while it probes for bandwidth, and each packet adds \
         1.2 ms to the queue",
    )]
}
