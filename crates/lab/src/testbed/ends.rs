//! Follows a run: reads the counters at the right times, waits for the last messages, and makes the record. The hosts are threads of this
//! process or processes of their own.

use std::time::Duration;

use anabranch_bed::{Bed, Side};
use anabranch_proto::Timestamp;

use super::clock::Clock;
use super::errand::{Look, ReceivedReport, SentReport, counters, seen, submission, time};
use super::error::TestbedError;
use super::hosts::Hosts;
use super::processes::Processes;
use crate::stage::{Awaited, HostTimes, Logs, Measures, Quantiles, Reading, Record, WINDOW_LOOK, What};

/// How often [`Ends::follow`] checks whether the last messages have arrived.
const LOOK: Duration = Duration::from_millis(100);

/// The sender and the receiver of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends<'a> {
    /// Threads of this process.
    Here(&'a Hosts, &'a Clock<'a>),
    /// A process for each.
    Processes(&'a Processes),
}

impl Ends<'_> {
    /// Waits for the end of the measured time and then for the `awaited` messages. Reads the counters meanwhile.
    pub(super) fn follow(
        &self,
        (bed, clock): (&Bed, &Clock<'_>),
        (counts, measures): ((Timestamp, Timestamp), Measures),
        awaited: Awaited,
        most_drain: Duration,
    ) -> Record {
        clock.wait_until(counts.0);
        let at_begin = self.reading(bed);
        let mut windows = Vec::new();
        let mut look = counts.0;
        while measures.packets && look < counts.1 && !clock.is_over() {
            windows.extend(self.sender(None).windows);
            look = counts.1.min(look + WINDOW_LOOK);
            clock.wait_until(look);
        }
        clock.wait_until(counts.1);
        let at_end = self.reading(bed);
        while !self.is_over(awaited) && clock.now() < counts.1 + most_drain && !clock.is_over() {
            clock.wait_until(clock.now() + LOOK);
        }
        Record {
            counts,
            at_begin,
            at_end,
            last: self.reading(bed),
            windows,
            ..Record::default()
        }
    }

    /// The state of the sender, and its last message of a class.
    fn sender(&self, class: Option<usize>) -> Look {
        match self {
            Self::Here(hosts, clock) => hosts.look(None, class, clock),
            Self::Processes(processes) => processes.look(Side::Left, None, class),
        }
    }

    /// Whether the receiver has a message.
    fn has_received(&self, message: usize) -> bool {
        let look = match self {
            Self::Here(hosts, clock) => hosts.look(Some(message), None, clock),
            Self::Processes(processes) => processes.look(Side::Right, Some(message), None),
        };
        look.is_delivered
    }

    fn reading(&self, bed: &Bed) -> Reading {
        Reading {
            links: bed.counters().iter().map(|[there, _]| there.link).collect(),
            tcp_bytes: Vec::new(),
            sender: counters(&self.sender(None).counters),
        }
    }

    fn is_over(&self, awaited: Awaited) -> bool {
        let class = match awaited {
            Awaited::Nothing => return true,
            Awaited::All => None,
            Awaited::LastOf(class) => Some(class),
        };
        let sender = self.sender(class);
        // On a busy machine the association may not exist yet, or a message may still be submitted.
        sender.is_done
            && match (awaited, sender.last) {
                (Awaited::LastOf(_), last) => last.is_none_or(|last| self.has_received(last)),
                _ => sender.is_empty,
            }
    }

    /// Everything that the hosts know, once the run is over.
    pub(super) fn reports(&self) -> Result<(SentReport, ReceivedReport), TestbedError> {
        match self {
            Self::Here(hosts, _) => Ok((hosts.sent_report(), hosts.received_report())),
            Self::Processes(processes) => processes.reports(),
        }
    }
}

/// Copies the messages, deliveries and captured packets into the record. Returns how late the hosts' programs were.
///
/// A delivery counts from the kernel's time of the packet that let the endpoint deliver the message. If the capture lost this packet, the
/// application's time counts.
pub(super) fn fill(
    record: &mut Record,
    measures: Measures,
    (sent, received): (SentReport, ReceivedReport),
) -> HostTimes {
    record.submitted = sent.submitted.iter().map(submission).collect();
    record.refused = sent.refused;
    record.packets_received = received.packets;
    let logs = Logs {
        sender: sent.seen.iter().map(seen).collect(),
        receiver: received.seen.iter().map(seen).collect(),
    };
    for seen in &logs.sender {
        if let What::Message { number, .. } = seen.what {
            record.sent.note(number, seen.at);
        }
    }
    record.logs = measures.packets.then_some(logs);
    let read = received.read.iter();
    let deliveries = read.map(|(read, at, number)| (time(at.unwrap_or(*read)), *number));
    record.deliveries = deliveries.collect();
    // The endpoint may read the sockets of several paths in another order than the kernel received the packets.
    record.deliveries.sort_by_key(|(at, _)| *at);
    for (at, number) in &record.deliveries {
        record.delivered.note(*number, *at);
    }
    let stamped = received.read.iter();
    let took = stamped.filter_map(|(read, at, _)| Some(read.saturating_sub((*at)?) as f64 / 1e6));
    HostTimes {
        read: Quantiles::of(&took.collect::<Vec<f64>>()),
        submit: Quantiles::of(&sent.late),
    }
}
