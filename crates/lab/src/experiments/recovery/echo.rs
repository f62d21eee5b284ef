//! The delay of echoes of small messages: 100 messages per second on one ordered stream.

use std::time::Duration;

use anabranch_netsim::QueueLimit;
use anabranch_proto::SendOptions;

use super::rig::{BUFFERS, Rig, link};
use super::sender::Sender;
use super::{Numbers, cell, counts, sample};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Extent};
use crate::statistics::quantile;
use crate::traffic::{Class, Regular, Source};
use crate::trial::Trial;

/// The place on the axis `scenario`.
pub(super) const NAME: &str = "echo";
pub(super) const CASE: &str = "100 messages/s";
const LOSSES: [f64; 4] = [0.0, 1.0, 3.0, 5.0];
const LEN: usize = 200;
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest time that the last echo may take.
const DRAIN: Duration = Duration::from_secs(60);

pub(super) fn cells(extent: Extent) -> Vec<Cell> {
    let senders: &[Sender] = match extent {
        Extent::Quick => &[Sender::Rfc9260, Sender::Rack, Sender::Cubic],
        Extent::Short | Extent::Full => &[
            Sender::Rfc9260,
            Sender::Rack,
            Sender::CubicWithoutRack,
            Sender::Cubic,
            Sender::Bbr,
        ],
    };
    let mut cells = Vec::new();
    for loss in LOSSES {
        for &sender in senders {
            let at = (NAME, CASE, loss, sender.name());
            cells.push(cell(at, move |trial| simulate(sender, loss, extent, trial)));
        }
    }
    cells
}

fn simulate(sender: Sender, loss: f64, extent: Extent, trial: &Trial<'_>) -> Numbers {
    let link = link(10.0, Duration::from_millis(40), QueueLimit::Packets(100), loss);
    let counts = counts(trial, extent, 5.0, (60.0, 300.0));
    // Messages begin so late that the association exists even if a packet of its set-up is lost.
    let source = |peer| {
        let schedule = Regular::new(trial.seed, counts.0, INTERVAL, LEN, 0);
        Source::scheduled(peer, vec![Class::from(SendOptions::default())], schedule).until(counts.1)
    };
    let mut rig = Rig::echoing(trial, &sender.config(BUFFERS), &link, source);
    rig.network.run_until(counts.1);
    let limit = counts.1 + DRAIN;
    while rig.echoes().deliveries().len() < rig.source(0).submitted().len() && rig.network.now() < limit {
        rig.network.run_for(Duration::from_secs(1));
    }
    let messages = rig.source(0).submitted().iter().enumerate();
    let delays: Vec<f64> = messages
        .map(|(number, message)| {
            // Echoes that never arrived count as later than all others.
            let at = rig.echoes().delivered().of(number).unwrap_or(limit);
            at.saturating_duration_since(message.at).as_secs_f64()
        })
        .collect();
    Numbers {
        delay_50: quantile(&delays, 0.5),
        delay_95: quantile(&delays, 0.95),
        delay_99: quantile(&delays, 0.99),
        ..Numbers::of_counters(&rig.counters(0))
    }
}

pub(super) fn claims() -> Vec<Claim> {
    let claim = |says, loss, sender, most| {
        Claim::new(says, "", Bound::AtMost(most), move |results| {
            sample(results, (NAME, CASE, loss, sender), "delay_99")
        })
    };
    vec![
        claim("echo, 3 % loss, rack: p99 at most 0.15 s", "3", "rack", 0.15),
        claim("echo, 5 % loss, rack: p99 at most 0.22 s", "5", "rack", 0.22),
        claim("echo, 3 % loss, cubic: p99 at most 0.15 s", "3", "cubic", 0.15),
        claim("echo, 5 % loss, cubic: p99 at most 0.22 s", "5", "cubic", 0.22),
    ]
}
