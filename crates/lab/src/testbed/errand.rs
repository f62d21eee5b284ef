//! The errand of a host's process, and the orders and replies between it and the lab: JSON, one line each.

use std::time::Duration;

use anabranch_proto::{Counters, Timestamp};
use serde::{Deserialize, Serialize};

use super::error::TestbedError;
use crate::experiment::Extent;
use crate::experiments::named;
use crate::packet_log::{Seen, What};
use crate::stage::{Origin, Scenario};
use crate::traffic::Submission;
use crate::trial::{Knobs, Trial};

/// The run that a process takes part in. The process makes the scenario again, because its messages are a function of the seed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Errand {
    experiment: String,
    extent: String,
    place: Vec<(String, String)>,
    settings: Vec<(String, f64)>,
    seed: u64,
    /// Whether the process is the sender.
    pub(super) sends: bool,
}

impl Errand {
    /// `None` if the scenario is not a cell of an experiment.
    pub(super) fn of(origin: &Origin<'_>, sends: bool) -> Option<Self> {
        let cell = origin.cell.as_ref()?;
        let owned = |(name, value): &(&str, String)| ((*name).to_owned(), value.clone());
        let settings = cell.settings.iter();
        Some(Self {
            experiment: cell.experiment.to_owned(),
            extent: cell.extent.name().to_owned(),
            place: cell.place.iter().map(owned).collect(),
            settings: settings.map(|(name, value)| (name.to_owned(), value)).collect(),
            seed: origin.seed,
            sends,
        })
    }

    /// The scenario of the run.
    pub(super) fn scenario(&self) -> Result<Scenario, TestbedError> {
        let unknown = || TestbedError::Host(format!("there is no such cell: {self:?}"));
        let experiment = named(&self.experiment).ok_or_else(unknown)?;
        let extents = [Extent::Quick, Extent::Short, Extent::Full];
        let extent = extents.into_iter().find(|extent| extent.name() == self.extent);
        let place: Vec<(&str, &str)> = self
            .place
            .iter()
            .map(|(axis, place)| (axis.as_str(), place.as_str()))
            .collect();
        let mut knobs = Knobs::default();
        for (name, value) in &self.settings {
            knobs
                .set(&experiment, name, &value.to_string())
                .map_err(|error| TestbedError::Host(error.to_string()))?;
        }
        let mut cells = (experiment.cells)(extent.ok_or_else(unknown)?).into_iter();
        let cell = cells.find(|cell| cell.lies_at(&place));
        let cell = cell.ok_or_else(unknown)?;
        let stage = cell.stage().ok_or_else(unknown)?;
        Ok(stage.scenario(&Trial::new(self.seed, &knobs)))
    }
}

/// An order to a host's process. The process ends if it can read no further order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Make the scenario.
    Prepare(Errand),
    /// The run began at these times of `CLOCK_MONOTONIC` and `CLOCK_REALTIME`.
    Begin(Duration, Duration),
    /// Tell the state of the association. Has this message been delivered, and which is the last message of this class?
    Look {
        message: Option<usize>,
        class: Option<usize>,
    },
    /// The run is over: tell everything.
    End,
}

/// The reply to an order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The scenario is made.
    Prepared,
    /// The receiver listens, or the sender connects.
    Begun,
    Look(Look),
    Sent(SentReport),
    Received(ReceivedReport),
    /// The host failed.
    Failed(String),
}

/// The state of a host during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Look {
    /// Whether the host failed.
    pub(super) is_over: bool,
    /// Whether all messages were submitted.
    pub(super) is_done: bool,
    /// Whether all messages are acknowledged or abandoned.
    pub(super) is_empty: bool,
    /// Whether the message of the order was delivered.
    pub(super) is_delivered: bool,
    /// The last message of the class of the order.
    pub(super) last: Option<usize>,
    /// The association's counters.
    pub(super) counters: Vec<u64>,
    /// The congestion window of each path in bytes.
    pub(super) windows: Option<Vec<usize>>,
}

/// An event of the packet log: time, kind, and two numbers.
pub(super) type Row = (u64, u8, u64, u64);

/// Everything that the sender knows after a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SentReport {
    /// Time, length and class of each message that the association accepted.
    pub(super) submitted: Vec<(u64, usize, usize)>,
    pub(super) refused: u64,
    /// How late each scheduled message was submitted, in milliseconds.
    pub(super) late: Vec<f64>,
    pub(super) seen: Vec<Row>,
}

/// Everything that the receiver knows after a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ReceivedReport {
    /// Each message that the application read: when, when it was deliverable by the kernel's time, and its number.
    pub(super) read: Vec<(u64, Option<u64>, u32)>,
    pub(super) packets: u64,
    pub(super) seen: Vec<Row>,
}

pub(super) fn nanos(at: Timestamp) -> u64 {
    at.saturating_duration_since(Timestamp::ZERO).as_nanos() as u64
}

pub(super) fn time(nanos: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_nanos(nanos)
}

pub(super) fn submission(&(at, len, class): &(u64, usize, usize)) -> Submission {
    Submission {
        at: time(at),
        len,
        class,
    }
}

pub(super) fn row(seen: &Seen) -> Row {
    let at = nanos(seen.at);
    match seen.what {
        What::Message { number, path } => (at, 0, u64::from(number), path as u64),
        What::Acknowledged { gap_blocks } => (at, 1, gap_blocks as u64, 0),
        What::TimedOut { path } => (at, 2, path as u64, 0),
    }
}

pub(super) fn seen(&(at, kind, first, second): &Row) -> Seen {
    let what = match kind {
        0 => What::Message {
            number: first as u32,
            path: second as usize,
        },
        1 => What::Acknowledged {
            gap_blocks: first as usize,
        },
        _ => What::TimedOut { path: first as usize },
    };
    Seen { at: time(at), what }
}

/// Both directions between counters and a list of numbers.
macro_rules! counters {
    ($($name:ident)*) => {
        pub(super) fn listed(counters: &Counters) -> Vec<u64> {
            vec![$(counters.$name),*]
        }

        pub(super) fn counters(list: &[u64]) -> Counters {
            let mut counters = Counters::default();
            let mut list = list.iter().copied();
            $(counters.$name = list.next().unwrap_or_default();)*
            counters
        }
    };
}

counters! {
    packets_sent packets_received data_chunks_sent data_bytes_sent data_chunks_received messages_sent messages_received
    retransmissions_timeout retransmissions_fast retransmissions_spurious chunks_rescheduled timeouts fast_recoveries
    sacks_sent sacks_received sacks_stale gap_blocks_sent forward_psns_sent forward_psns_received losses_by_time
    tail_loss_probes repair_chunks messages_repaired early_copies early_copies_unnecessary redundancy_bytes reductions_undone duplicates_received dropped_no_room reneged zero_windows abandoned_unsent
    abandoned_sent early_discards forward_tsns_sent forward_tsns_received selective_notices_sent
    selective_notices_received extended_forwards_sent extended_forwards_received late_messages freed_early_bytes nr_sack_contradictions chunks_reneged ce_packets_received
    ecnes_sent ecnes_received heartbeats_sent mtu_probes_sent mtu_black_holes failovers init_collisions restarts
    reconfigs_sent reconfigs_received packets_signed packets_verified packets_unverified asconfs_sent asconfs_received
    chunks_unauthenticated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::CellName;

    #[test]
    fn every_counter_is_told() {
        let told: Vec<u64> = (101..).take(listed(&Counters::default()).len()).collect();
        let counters = counters(&told);
        assert_eq!(listed(&counters), told);
        // A counter that the list lacks would be 0.
        let text = format!("{counters:?}");
        assert!(!text.contains(": 0"), "{text}");
    }

    #[test]
    fn events_are_told() {
        let at = Timestamp::from_millis(7);
        let (number, path) = (8, 2);
        for what in [
            What::Message { number, path },
            What::Acknowledged { gap_blocks: 3 },
            What::TimedOut { path },
        ] {
            let event = Seen { at, what };
            assert_eq!(seen(&row(&event)), event);
        }
    }

    /// The process makes the scenario that the lab made.
    #[test]
    fn an_errand_makes_its_scenario_again() {
        let experiment = named("stream-priority").unwrap();
        let mut settings = Knobs::default();
        settings.set(&experiment, "delay", "7.5").unwrap();
        let cells = (experiment.cells)(Extent::Short);
        let cell = cells.last().unwrap();
        let origin = Origin {
            seed: 3,
            cell: Some(CellName {
                experiment: experiment.name,
                extent: Extent::Short,
                place: cell.coordinates(),
                settings: &settings,
            }),
        };
        let text = serde_json::to_string(&Errand::of(&origin, true).unwrap()).unwrap();
        let errand: Errand = serde_json::from_str(&text).unwrap();
        let (made, expected) = (
            errand.scenario().unwrap(),
            cell.stage().unwrap().scenario(&Trial::new(3, &settings)),
        );
        assert_eq!((made.counts, &made.paths), (expected.counts, &expected.paths));
        assert!(Errand::of(&Origin { seed: 3, cell: None }, true).is_none());
    }
}
