//! Flows that share a bottleneck, with the same and with different senders.

use std::time::Duration;

use anabranch_netsim::QueueLimit;

use super::rig::{Rig, link, product};
use super::sender::Sender;
use super::{Numbers, cell, counts, sample};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Extent};
use crate::trial::Trial;

/// The place on the axis `scenario`.
pub(super) const NAME: &str = "fairness";
const TWO: &str = "two flows";
const FOUR: &str = "four flows";

/// The case, the name on the axis `sender`, and the senders of the flows.
type Company = (&'static str, &'static str, &'static [Sender]);

const COMPANIES: [Company; 9] = [
    (TWO, "rfc9260", &[Sender::Rfc9260; 2]),
    (TWO, "cubic", &[Sender::Cubic; 2]),
    (TWO, "bbr", &[Sender::Bbr; 2]),
    (TWO, "cubic beside rfc9260", &[Sender::Cubic, Sender::Rfc9260]),
    (TWO, "bbr beside rfc9260", &[Sender::Bbr, Sender::Rfc9260]),
    (TWO, "bbr beside cubic", &[Sender::Bbr, Sender::Cubic]),
    (FOUR, "rfc9260", &[Sender::Rfc9260; 4]),
    (FOUR, "cubic", &[Sender::Cubic; 4]),
    (FOUR, "bbr", &[Sender::Bbr; 4]),
];

/// Senders with `tolerate_random_loss`, which deviates from the BBR draft and has no goal here.
const DEVIATIONS: [Company; 3] = [
    (TWO, "bbr-random-loss", &[Sender::BbrRandomLoss; 2]),
    (
        TWO,
        "bbr-random-loss beside cubic",
        &[Sender::BbrRandomLoss, Sender::Cubic],
    ),
    (FOUR, "bbr-random-loss", &[Sender::BbrRandomLoss; 4]),
];

pub(super) fn cells(extent: Extent) -> Vec<Cell> {
    let deviations: &[Company] = match extent {
        Extent::Quick => &[],
        Extent::Short | Extent::Full => &DEVIATIONS,
    };
    let companies = COMPANIES.iter().chain(deviations).copied();
    companies
        .map(|(case, name, senders)| {
            cell((NAME, case, 0.0, name), move |trial| {
                simulate(senders, extent, trial)
            })
        })
        .collect()
}

fn simulate(senders: &[Sender], extent: Extent, trial: &Trial<'_>) -> Numbers {
    let (rate, rtt) = (10.0, Duration::from_millis(40));
    let link = link(rate, rtt, QueueLimit::Bytes(product(rate, rtt) as u64), 0.0);
    let counts = counts(trial, extent, 10.0, (60.0, 120.0));
    let mut rig = Rig::shared(trial, senders, &link);
    rig.network.run_until(counts.1);
    let rates: Vec<f64> = (0..senders.len()).map(|flow| rig.goodput(flow, counts)).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    Numbers {
        goodput: sum,
        share: rates[0] / sum,
        jain: sum * sum / (rates.len() as f64 * squares),
        ..Numbers::of_counters(&rig.counters(0))
    }
}

pub(super) fn claims() -> Vec<Claim> {
    let shares = |says, sender| {
        Claim::new(says, "", Bound::Within(0.3, 0.7), move |results| {
            sample(results, (NAME, TWO, "0", sender), "share")
        })
    };
    let jain = |says, sender| {
        Claim::new(says, "", Bound::AtLeast(0.95), move |results| {
            sample(results, (NAME, FOUR, "0", sender), "jain")
        })
    };
    vec![
        shares("two flows, rfc9260 and rfc9260: 30 to 70 % each", "rfc9260"),
        shares("two flows, cubic and cubic: 30 to 70 % each", "cubic"),
        shares("two flows, bbr and bbr: 30 to 70 % each", "bbr"),
        shares(
            "two flows, cubic and rfc9260: 30 to 70 % each",
            "cubic beside rfc9260",
        ),
        shares(
            "two flows, bbr and rfc9260: 30 to 70 % each",
            "bbr beside rfc9260",
        ),
        shares("two flows, bbr and cubic: 30 to 70 % each", "bbr beside cubic"),
        jain("four flows of rfc9260: Jain's index at least 0.95", "rfc9260"),
        jain("four flows of cubic: Jain's index at least 0.95", "cubic"),
        jain("four flows of bbr: Jain's index at least 0.95", "bbr"),
    ]
}
