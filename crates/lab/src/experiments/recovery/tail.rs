//! Tail loss: the last packet of a message is lost, and no later packet can reveal the loss.

use std::time::Duration;

use anabranch_netsim::{Generator, LossModel, QueueLimit};
use anabranch_proto::{SendOptions, Timestamp};

use super::rig::{BUFFERS, PAYLOAD, Rig, link};
use super::sender::Sender;
use super::{Numbers, cell, sample};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Extent};
use crate::statistics::quantile;
use crate::traffic::{Class, Source, Submission};
use crate::trial::{Knobs, Trial};

/// The place on the axis `scenario`.
pub(super) const NAME: &str = "tail";
/// The length of the message in full packets. Three packets are RFC 9260's initial window and leave at once.
const CASES: [(&str, usize); 2] = [("message of 1 packet", 1), ("message of 3 packets", 3)];
/// The number of associations in a run.
const REPETITIONS: u64 = 10;
/// Small messages before the message, to measure the RTT: time in milliseconds and length in bytes.
const BEFORE: [(u64, usize); 2] = [(5_000, 200), (5_200, 1_000)];
/// The time of the message in milliseconds.
const MESSAGE: u64 = 6_000;

pub(super) fn cells(_extent: Extent) -> Vec<Cell> {
    let senders = [Sender::Rfc9260, Sender::Rack, Sender::Cubic, Sender::Bbr];
    let mut cells = Vec::new();
    for case in CASES {
        for sender in senders {
            let at = (NAME, case.0, 0.0, sender.name());
            cells.push(cell(at, move |trial| simulate(sender, case.1, trial)));
        }
    }
    cells
}

fn simulate(sender: Sender, packets: usize, trial: &Trial<'_>) -> Numbers {
    let mut all = Numbers {
        timeouts: 0.0,
        probes: 0.0,
        spurious: 0.0,
        ..Numbers::default()
    };
    let (knobs, mut times) = (Knobs::default(), Vec::new());
    for repetition in 0..REPETITIONS {
        let seed = trial.seed * REPETITIONS + repetition;
        let (time, numbers) = match repetition {
            // A capture holds the packets of only one network.
            0 => repaired(sender, packets, trial, seed),
            _ => repaired(sender, packets, &Trial::new(seed, &knobs), seed),
        };
        times.push(time);
        all.timeouts += numbers.timeouts;
        all.probes += numbers.probes;
        all.spurious += numbers.spurious;
    }
    Numbers {
        delay_50: quantile(&times, 0.5),
        time: quantile(&times, 1.0),
        ..all
    }
}

/// The time from the message's submission to its delivery in seconds, and the sender's counters.
fn repaired(sender: Sender, packets: usize, trial: &Trial<'_>, seed: u64) -> (f64, Numbers) {
    let phase = Generator::of_process(seed, "phase of the message").below(100_000_000);
    let at = Timestamp::from_millis(MESSAGE) + Duration::from_nanos(phase);
    let message = |at, len| Submission { at, len, class: 0 };
    let mut messages: Vec<Submission> = BEFORE
        .iter()
        .map(|(millis, len)| message(Timestamp::from_millis(*millis), *len))
        .collect();
    messages.push(message(at, packets * PAYLOAD));
    let source = |peer| {
        let classes = vec![Class::from(SendOptions::default())];
        Source::scheduled(peer, classes, messages.into_iter())
    };
    let link = link(10.0, Duration::from_millis(40), QueueLimit::Packets(100), 0.0);
    let mut rig = Rig::alone(trial, &sender.config(BUFFERS), &link, source);
    rig.network.run_until(Timestamp::from_millis(MESSAGE));
    let (forward, before) = (rig.forward, rig.network.link_stats(rig.forward).offered);
    let last = before + packets as u64 - 1;
    let lossy = link.clone().with_loss(LossModel::Script(vec![last]));
    rig.network.set_link_config(forward, lossy);
    let limit = at + Duration::from_secs(10);
    while rig.sink(0).delivered().of(BEFORE.len()).is_none() && rig.network.now() < limit {
        rig.network.run_for(Duration::from_millis(100));
    }
    let lost = rig.network.link_stats(forward).lost_model;
    assert_eq!(lost, 1, "exactly the message's last packet is lost");
    let delivered = rig.sink(0).delivered().of(BEFORE.len()).unwrap_or(limit);
    // A spurious retransmission is reported one round-trip time later.
    rig.network.run_for(Duration::from_secs(1));
    let time = delivered.saturating_duration_since(at).as_secs_f64();
    (time, Numbers::of_counters(&rig.counters(0)))
}

pub(super) fn claims() -> Vec<Claim> {
    let claim = |says, case, sender, metric, most| {
        Claim::new(says, "", Bound::AtMost(most), move |results| {
            sample(results, (NAME, case, "0", sender), metric)
        })
    };
    let [(one, _), (three, _)] = CASES;
    let in_time = |says, case, sender| claim(says, case, sender, "time", 0.135);
    let by_probe = |says, case, sender| claim(says, case, sender, "timeouts", 0.0).must();
    vec![
        in_time("tail of 1 packet, rack: repaired within 135 ms", one, "rack").must(),
        in_time("tail of 1 packet, cubic: repaired within 135 ms", one, "cubic").must(),
        in_time("tail of 1 packet, bbr: repaired within 135 ms", one, "bbr").must(),
        in_time("tail of 3 packets, rack: repaired within 135 ms", three, "rack").must(),
        in_time("tail of 3 packets, cubic: repaired within 135 ms", three, "cubic").must(),
        in_time("tail of 3 packets, bbr: repaired within 135 ms", three, "bbr").must(),
        by_probe("tail of 1 packet, rack: never by T3-rtx", one, "rack"),
        by_probe("tail of 1 packet, cubic: never by T3-rtx", one, "cubic"),
        by_probe("tail of 1 packet, bbr: never by T3-rtx", one, "bbr"),
        by_probe("tail of 3 packets, rack: never by T3-rtx", three, "rack"),
        by_probe("tail of 3 packets, cubic: never by T3-rtx", three, "cubic"),
        by_probe("tail of 3 packets, bbr: never by T3-rtx", three, "bbr"),
    ]
}
