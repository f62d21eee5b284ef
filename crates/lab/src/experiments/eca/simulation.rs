//! One run: bulk data over three unequal paths, and the repair of its losses.

use std::time::Duration;

use anabranch_proto::{SendOptions, Timestamp};

use super::repairs::Repairs;
use super::setting::{PATHS, Setting, Variant, config, links};
use crate::experiment::Extent;
use crate::experiments::pair::begin;
use crate::stage::{Awaited, Demand, Measures, Messages, Record, Scenario, Seen, What};
use crate::statistics::{Summary, mean};
use crate::trace::OwnPoints;
use crate::trial::Trial;

/// Bytes of user data in a chunk of ECA-SCTP that fills a packet of 1,500 bytes. The chunk has 1,468 bytes with its header.
const MESSAGE: usize = 1448;
/// Bytes of user data in a chunk that leaves space in a packet with either protocol.
const SHORT_MESSAGE: usize = 1440;
/// Bytes of user data in a chunk of CMT that fills such a packet.
const FULL_MESSAGE: usize = 1452;
/// Begin of the measured time. The association is established within the first second.
const BEGIN: Timestamp = Timestamp::from_millis(1_000);
/// Bytes of the chunk in such a packet.
pub(super) const CHUNK: f64 = 1468.0;

/// The shortest time that a packet takes on a path.
fn delay(path: usize) -> Duration {
    let (_, millis) = PATHS[path];
    Duration::from_millis(millis)
}

/// The standard deviation as a share of the mean.
fn variation(readings: &[f64]) -> f64 {
    let summary = Summary::of(readings);
    summary.deviation / summary.mean
}

/// The scenario of a cell.
pub(super) fn scenario(setting: Setting, extent: Extent, trial: &Trial<'_>) -> Scenario {
    let seconds = match extent {
        Extent::Quick | Extent::Short if !setting.is_slow() => 30.0,
        _ => 100.0,
    };
    let seconds = trial.knob_or("seconds", seconds);
    Scenario {
        config: config(setting),
        paths: links(setting, trial),
        messages: Some(Messages {
            connect: begin(trial.seed, "start"),
            classes: vec![SendOptions::default().into()],
            demand: match setting.variant {
                Variant::BothWays => Demand::GreedyBothWays(MESSAGE),
                Variant::Short => Demand::Greedy(SHORT_MESSAGE),
                Variant::Full => Demand::Greedy(FULL_MESSAGE),
                _ => Demand::Greedy(MESSAGE),
            },
            awaited: Awaited::Nothing,
        }),
        tcp: None,
        counts: (BEGIN, BEGIN + Duration::from_secs_f64(seconds)),
        most_drain: Duration::ZERO,
        measures: Measures {
            packets: true,
            ..Measures::default()
        },
    }
}

/// The repairs of a run.
fn repairs(record: &Record) -> Repairs {
    let logs = record.logs.as_ref();
    let (sender, receiver) = logs.map_or((&[][..], &[][..]), |logs| (&logs.sender, &logs.receiver));
    Repairs::between(sender, receiver, record.counts.0, delay)
}

/// The name of the points of each chunk that fast retransmission repaired.
pub(super) const REPAIRS: &str = "repairs";

/// For each chunk that fast retransmission repaired, when its retransmission arrived and how long this took.
pub(super) fn repair_points(record: &Record) -> OwnPoints {
    let fast = repairs(record).fast.into_iter();
    OwnPoints {
        name: REPAIRS,
        columns: ["arrived_s", "took_s"],
        points: fast
            .map(|repair| (repair.at.as_secs_f64(), repair.took))
            .collect(),
    }
}

/// The numbers of a run.
pub(super) fn numbers(record: &Record) -> Vec<f64> {
    let (from, to) = record.counts;
    let receiver = record.logs.as_ref().map_or(&[][..], |logs| &logs.receiver);
    let repairs = repairs(record);
    let counted = || {
        record
            .deliveries
            .iter()
            .filter(|(at, _)| (from..=to).contains(at))
    };
    let deliveries: Vec<Timestamp> = counted().map(|(at, _)| *at).collect();
    let bytes: usize = counted()
        .filter_map(|(_, number)| record.submitted.get(*number as usize))
        .map(|message| message.len)
        .sum();
    let times: Vec<f64> = repairs.fast.iter().map(|repair| repair.took).collect();
    let lost_on = |place: usize| {
        let fast = repairs.fast.iter().filter(|repair| repair.path == place);
        mean(&fast.map(|repair| repair.took).collect::<Vec<f64>>())
    };
    let acks: Vec<f64> = while_counted(receiver, record.counts)
        .filter_map(|what| match what {
            What::Acknowledged { gap_blocks } => Some(gap_blocks as f64),
            _ => None,
        })
        .collect();
    let windows: Vec<Vec<f64>> = (0..PATHS.len())
        .map(|path| {
            let readings = record.windows.iter();
            readings.map(|windows| windows[path] as f64 / CHUNK).collect()
        })
        .collect();
    let sums: Vec<f64> = record
        .windows
        .iter()
        .map(|windows| windows.iter().sum::<usize>() as f64 / CHUNK)
        .collect();
    let mut numbers = vec![
        mean(&times),
        times.len() as f64 * 100.0 / record.seconds(),
        repairs.by_timeout as f64,
        (record.at_end.sender.timeouts - record.at_begin.sender.timeouts) as f64,
        (bytes * 8) as f64 / 1e6 / record.seconds(),
        longest_pause(&deliveries, record.counts),
        repairs.retransmissions as f64,
        repairs.spurious as f64,
        mean(&acks),
        acks.len() as f64 / record.seconds(),
        mean(&sums),
        variation(&sums),
    ];
    numbers.extend(windows.iter().map(|readings| variation(readings)));
    numbers.extend((0..PATHS.len()).map(lost_on));
    numbers.push(Summary::of(&times).deviation);
    let largest = record.windows.iter().flatten().max();
    numbers.push(largest.map_or(f64::NAN, |bytes| *bytes as f64 / 1024.0));
    numbers
}

/// The events in the measured time.
fn while_counted(log: &[Seen], (from, to): (Timestamp, Timestamp)) -> impl Iterator<Item = What> + '_ {
    let counted = log.iter().filter(move |seen| (from..=to).contains(&seen.at));
    counted.map(|seen| seen.what)
}

/// The longest time without a delivery, in seconds.
fn longest_pause(deliveries: &[Timestamp], (begin, end): (Timestamp, Timestamp)) -> f64 {
    let from = std::iter::once(&begin).chain(deliveries);
    let to = deliveries.iter().chain(std::iter::once(&end));
    let pauses = from.zip(to).map(|(from, to)| to.saturating_duration_since(*from));
    pauses.max().unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::eca::setting::{Buffer, Protocol, Reports};
    use crate::stage::simulated;
    use crate::trial::Knobs;

    /// The retransmissions seen in the packets match the sender's counters.
    #[test]
    fn retransmissions_in_packets_match_the_counters() {
        for protocol in [Protocol::Cmt, Protocol::Eca] {
            let setting = Setting {
                protocol,
                buffer: Buffer::Small,
                reports: Reports::Three,
                loss: 15,
                variant: Variant::Plain,
            };
            let knobs = Knobs::default();
            let trial = Trial::new(1, &knobs);
            let mut scenario = scenario(setting, Extent::Quick, &trial);
            scenario.counts.1 = BEGIN + Duration::from_secs(20);
            let record = simulated(scenario, &trial);
            let counters = record.last.sender;
            let logs = record.logs.unwrap();
            let repairs = Repairs::between(&logs.sender, &logs.receiver, Timestamp::ZERO, delay);
            let (fast, timeout) = (counters.retransmissions_fast, counters.retransmissions_timeout);
            assert_eq!(repairs.retransmissions as u64, fast + timeout, "{protocol:?}");
            assert!(repairs.fast.len() > 10, "{protocol:?}");
            let lost_on = |place| repairs.fast.iter().filter(move |repair| repair.path == place);
            assert!(
                lost_on(2).count() > lost_on(0).count(),
                "{protocol:?}: path 3 is the worst"
            );
            assert!(repairs.fast.len() as u64 <= fast && repairs.by_timeout as u64 <= timeout);
            let timeouts = logs
                .sender
                .iter()
                .filter(|seen| matches!(seen.what, What::TimedOut { .. }));
            assert_eq!(timeouts.count() as u64, counters.timeouts, "{protocol:?}");
            let is_eca = protocol == Protocol::Eca;
            assert_eq!(counters.forward_psns_sent > 0, is_eca, "{protocol:?}");
        }
    }
}
