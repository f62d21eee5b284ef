//! Fast paths with long round-trip times: the time until a flow fills such a path, and the time of a file transfer.

use std::time::Duration;

use anabranch_netsim::QueueLimit;
use anabranch_proto::Timestamp;

use super::rig::{PAYLOAD, Rig, greedy, link, product};
use super::sender::Sender;
use super::{Numbers, cell, sample};
use crate::claim::{Bound, Claim};
use crate::experiment::{Cell, Extent};
use crate::trial::Trial;

/// The place on the axis `scenario`.
pub(super) const NAME: &str = "long-fat";
const GIGABIT: &str = "1 Gbit/s, 100 ms";
const FILE: &str = "100 MB, 250 Mbit/s, 600 ms";
const BUFFERS: u32 = 64 << 20;
/// The goodput that a flow should reach on the path of 1 Gbit/s, in Mbit/s.
const GOAL: f64 = 900.0;
/// The longest time to reach this goodput.
const REACHED_BY: Duration = Duration::from_secs(30);
/// The step between the one-second intervals that are measured.
const LOOK: Duration = Duration::from_millis(100);
/// The longest time of the file transfer.
const FILE_BY: Duration = Duration::from_secs(300);
/// The file in full packets.
const MESSAGES: usize = 100_000_000_usize.div_ceil(PAYLOAD);
const LOSSES: [f64; 2] = [0.0, 1.6];

pub(super) fn cells(extent: Extent) -> Vec<Cell> {
    if extent == Extent::Quick {
        return Vec::new();
    }
    let mut cells = Vec::new();
    for sender in [Sender::Cubic, Sender::Bbr] {
        cells.push(cell((NAME, GIGABIT, 0.0, sender.name()), move |trial| {
            gigabit(sender, trial)
        }));
    }
    for loss in LOSSES {
        for sender in Sender::COMPARED {
            cells.push(cell((NAME, FILE, loss, sender.name()), move |trial| {
                file(sender, loss, trial)
            }));
        }
    }
    cells
}

fn gigabit(sender: Sender, trial: &Trial<'_>) -> Numbers {
    let (rate, rtt) = (1000.0, Duration::from_millis(100));
    let queue = QueueLimit::Bytes((0.1 * product(rate, rtt)) as u64);
    let link = link(rate, rtt, queue, 0.0);
    let mut rig = Rig::alone(trial, &sender.config(BUFFERS), &link, greedy);
    // The flow begins within the first second.
    rig.network.run_for(Duration::from_secs(2));
    let begin = first_data(&rig);
    let limit = begin + REACHED_BY;
    rig.network.run_until(limit);
    Numbers {
        time: reached(&rig, begin).unwrap_or(REACHED_BY).as_secs_f64(),
        ..rig.numbers((begin + REACHED_BY * 2 / 3, limit))
    }
}

/// The time from the beginning of the flow to the end of the first second with this goodput.
fn reached(rig: &Rig, begin: Timestamp) -> Option<Duration> {
    let second = Duration::from_secs(1);
    let seconds = (0..)
        .map(|step| step * LOOK)
        .take_while(|from| *from + second <= REACHED_BY);
    let mut seconds = seconds.map(|from| (from, rig.goodput(0, (begin + from, begin + from + second))));
    let (from, _) = seconds.find(|(_, goodput)| *goodput >= GOAL)?;
    Some(from + second)
}

fn file(sender: Sender, loss: f64, trial: &Trial<'_>) -> Numbers {
    let (rate, rtt) = (250.0, Duration::from_millis(600));
    let queue = QueueLimit::Bytes(product(rate, rtt) as u64);
    let link = link(rate, rtt, queue, loss);
    let source = |peer| greedy(peer).at_most(MESSAGES);
    let mut rig = Rig::alone(trial, &sender.config(BUFFERS), &link, source);
    let limit = Timestamp::ZERO + FILE_BY;
    while rig.sink(0).deliveries().len() < MESSAGES && rig.network.now() < limit {
        rig.network.run_for(Duration::from_secs(1));
    }
    let begin = first_data(&rig);
    let deliveries = rig.sink(0).deliveries();
    let last = deliveries.get(MESSAGES - 1).map_or(limit, |(at, _)| *at);
    Numbers {
        time: last.saturating_duration_since(begin).as_secs_f64(),
        ..rig.numbers((begin, last))
    }
}

/// The submission time of the first message, which is sent at once.
fn first_data(rig: &Rig) -> Timestamp {
    let first = rig.source(0).submitted().first();
    first.map_or(Timestamp::ZERO, |message| message.at)
}

/// Why the file takes longer than its goal.
const FEW_BLOCKS: &str = "16 s were measured: slow start overfills the queue and loses every second packet of a part of it, 6.5 % of all \
    chunks. A SACK has space for about 300 gap ack blocks, so that each round trip of 600 ms shows the sender 600 losses more";
const OVERFLOW: &str = "11.3 s were measured: Startup overfills the queue once, and the repair of these losses, 0.6 % of the chunks, holds up \
    the delivery for one more round trip of 600 ms";

pub(super) fn claims() -> Vec<Claim> {
    let claim = |says, (case, loss, sender), metric, most| {
        Claim::new(says, "", Bound::AtMost(most), move |results| {
            sample(results, (NAME, case, loss, sender), metric)
        })
    };
    vec![
        claim(
            "1 Gbit/s, 100 ms, queue of 0.1 BDP, cubic: 900 Mbit/s within 10 s",
            (GIGABIT, "0", "cubic"),
            "time",
            10.0,
        ),
        claim(
            "1 Gbit/s, 100 ms, queue of 0.1 BDP, cubic: no T3-rtx",
            (GIGABIT, "0", "cubic"),
            "timeouts",
            0.0,
        ),
        claim(
            "1 Gbit/s, 100 ms, queue of 0.1 BDP, bbr: 900 Mbit/s within 10 s",
            (GIGABIT, "0", "bbr"),
            "time",
            10.0,
        ),
        claim(
            "1 Gbit/s, 100 ms, queue of 0.1 BDP, bbr: no T3-rtx",
            (GIGABIT, "0", "bbr"),
            "timeouts",
            0.0,
        ),
        claim(
            "100 MB over 250 Mbit/s, 600 ms, no loss, cubic: at most 11 s",
            (FILE, "0", "cubic"),
            "time",
            11.0,
        )
        .fails_because(FEW_BLOCKS),
        claim(
            "100 MB over 250 Mbit/s, 600 ms, no loss, bbr: at most 11 s",
            (FILE, "0", "bbr"),
            "time",
            11.0,
        )
        .fails_because(OVERFLOW),
        claim(
            "100 MB over 250 Mbit/s, 600 ms, 1.6 % loss, bbr-random-loss: at most 15 s",
            (FILE, "1.6", "bbr-random-loss"),
            "time",
            15.0,
        ),
    ]
}
