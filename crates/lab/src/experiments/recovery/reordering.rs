//! Reordering: a quarter of the packets arrive 5 ms late, after packets that were sent later.

use std::time::Duration;

use anabranch_netsim::QueueLimit;

use super::rig::{BUFFERS, Rig, greedy, link};
use super::sender::Sender;
use super::{Numbers, cell, counts, ratio};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Extent};
use crate::trial::Trial;

/// The place on the axis `scenario`.
pub(super) const NAME: &str = "reordering";
const IN_ORDER: &str = "in order";
const LATE: &str = "25 % are 5 ms late";

pub(super) fn cells(extent: Extent) -> Vec<Cell> {
    let senders = [Sender::Rfc9260, Sender::Rack, Sender::Cubic, Sender::Bbr];
    let mut cells = Vec::new();
    for (case, share) in [(IN_ORDER, 0.0), (LATE, 0.25)] {
        for sender in senders {
            let at = (NAME, case, 0.0, sender.name());
            cells.push(cell(at, move |trial| simulate(sender, share, extent, trial)));
        }
    }
    cells
}

fn simulate(sender: Sender, share: f64, extent: Extent, trial: &Trial<'_>) -> Numbers {
    let link = link(10.0, Duration::from_millis(40), QueueLimit::Packets(100), 0.0);
    let link = link.with_reorder(share, Duration::from_millis(5));
    let counts = counts(trial, extent, 10.0, (20.0, 60.0));
    let mut rig = Rig::alone(trial, &sender.config(BUFFERS), &link, greedy);
    rig.network.run_until(counts.1);
    rig.numbers(counts)
}

pub(super) fn claims() -> Vec<Claim> {
    let claim = |says, sender| {
        let claim = Claim::of_ratio(says, "", Bound::AtLeast(0.95), move |results| {
            let at = |case| (NAME, case, "0", sender);
            ratio(results, at(LATE), at(IN_ORDER), "goodput")
        });
        claim.must()
    };
    vec![
        claim(
            "25 % of packets 5 ms late, rack: at least 95 % of the goodput in order",
            "rack",
        ),
        claim(
            "25 % of packets 5 ms late, cubic: at least 95 % of the goodput in order",
            "cubic",
        ),
        claim(
            "25 % of packets 5 ms late, bbr: at least 95 % of the goodput in order",
            "bbr",
        ),
    ]
}
