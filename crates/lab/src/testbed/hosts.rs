//! The two hosts of a run and the threads that capture their packets. Each thread runs in the network namespace of its host.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anabranch_bed::{Bed, Side, raise_priority};
use anabranch_proto::Timestamp;

use super::arrivals::Arrivals;
use super::clock::Clock;
use super::error::TestbedError;
use super::receiver::{Likewise, Received, addresses, block_on, receive};
use super::sender::{Sent, associate, submit};
use super::watcher::watch;
use crate::stage::{
    Awaited, Demand, HostTimes, Logs, Measures, Messages, PacketLog, Quantiles, Reading, Record, WINDOW_LOOK,
    What, windows,
};
use crate::traffic::FirstTimes;

/// How often [`Hosts::follow`] checks whether the last messages have arrived.
const LOOK: Duration = Duration::from_millis(100);

/// The counts and times that sender and receiver have collected so far.
#[derive(Debug)]
pub(crate) struct Hosts {
    measures: Measures,
    sent: Sent,
    received: Received,
    /// The receiver's addresses, one for each path.
    destinations: Vec<IpAddr>,
    /// The packets captured at the sender, and at the receiver if packets are measured; filled when the run is over.
    logs: Mutex<Logs>,
    /// The messages that reached the receiver, by its kernel; filled when the run is over.
    arrivals: Mutex<Arrivals>,
}

type Work<'scope> = thread::ScopedJoinHandle<'scope, Result<(), TestbedError>>;

impl Hosts {
    /// Hosts with `paths` paths between them, before the run begins.
    pub(crate) fn new(paths: usize, measures: Measures) -> Self {
        Self {
            measures,
            sent: Sent::default(),
            received: Received::default(),
            destinations: addresses(Side::Right, paths),
            logs: Mutex::default(),
            arrivals: Mutex::default(),
        }
    }

    /// Starts sender and receiver, if there are messages to send. If either fails, the run ends. These threads have raised priority like
    /// the bed itself: without it, with ten programs waiting for the processors, three paths at once carried a seventh less.
    pub(crate) fn start<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        (bed, clock): (&'env Bed, &'env Clock<'env>),
        config: &'env anabranch::Config,
        (messages, until): (Option<Messages>, Timestamp),
    ) -> Vec<Work<'scope>> {
        let Some(messages) = messages else {
            return Vec::new();
        };
        let paths = bed.paths();
        let (connect, classes) = (messages.connect, messages.classes.clone());
        let likewise = match messages.demand {
            Demand::GreedyBothWays(len) => Some(Likewise { len, until }),
            Demand::Scheduled(_) | Demand::Greedy(_) => None,
        };
        let ending = move |result: Result<(), TestbedError>| {
            if result.is_err() {
                clock.end();
            }
            result
        };
        let (ready, is_ready) = mpsc::channel::<()>();
        let watchers = Side::BOTH.map(|side| {
            let watching = ready.clone();
            scope.spawn(move || {
                let work = || {
                    raise_priority();
                    self.watch(side, clock, move || drop(watching))
                };
                ending(bed.inside(side, work).map_err(TestbedError::from).flatten())
            })
        });
        let mut working: Vec<Work<'scope>> = watchers.into();
        let receiver = scope.spawn(move || {
            let ready = move || drop(ready);
            let work = || {
                raise_priority();
                block_on(receive(config, (paths, likewise), clock, &self.received, ready))
            };
            ending(
                bed.inside(Side::Right, work)
                    .map_err(TestbedError::from)
                    .flatten(),
            )
        });
        // `recv` returns when every holder of `ready` has dropped it: the receiver listens and the captures run, or a thread failed.
        let _ = is_ready.recv();
        let sender = scope.spawn(move || {
            let work = || {
                raise_priority();
                block_on(associate(
                    config,
                    paths,
                    (connect, &classes, likewise.is_some()),
                    clock,
                    &self.sent,
                ))
            };
            ending(bed.inside(Side::Left, work).map_err(TestbedError::from).flatten())
        });
        let submitter = scope.spawn(move || {
            raise_priority();
            ending(submit(messages, until, clock, &self.sent))
        });
        working.extend([receiver, sender, submitter]);
        working
    }

    /// Captures the packets of a host until the run is over.
    fn watch(&self, side: Side, clock: &Clock<'_>, ready: impl FnOnce()) -> Result<(), TestbedError> {
        let mut log = PacketLog::new(self.destinations.clone());
        let mut arrivals = Arrivals::default();
        watch(clock, ready, |at, destination, packet| {
            // A retransmission by T3-rtx leaves as soon as the timer expires. If this thread is late and later packets have left before,
            // the log may count these retransmissions as fast retransmissions.
            let leaves = side == Side::Left && self.destinations.contains(&destination);
            let association = self.sent.association.get();
            if let Some(association) = association.filter(|_| leaves && self.measures.packets) {
                log.on_paths(at, &association.stats().paths);
            }
            if side == Side::Right && self.destinations.contains(&destination) {
                arrivals.on_packet(at, packet.clone());
            }
            if side == Side::Left || self.measures.packets {
                log.on_packet(at, destination, packet);
            }
        })?;
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        match side {
            Side::Left => logs.sender = log.into_seen(),
            Side::Right => {
                logs.receiver = log.into_seen();
                *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner) = arrivals;
            }
        }
        Ok(())
    }

    /// Waits for the end of the measured time and then for the `awaited` messages. Reads the counters meanwhile.
    pub(crate) fn follow(
        &self,
        (bed, clock): (&Bed, &Clock<'_>),
        counts: (Timestamp, Timestamp),
        awaited: Awaited,
        most_drain: Duration,
    ) -> Record {
        clock.wait_until(counts.0);
        let at_begin = self.reading(bed);
        let mut windows = Vec::new();
        let mut look = counts.0;
        while self.measures.packets && look < counts.1 && !clock.is_over() {
            windows.extend(self.windows());
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

    fn windows(&self) -> Option<Vec<usize>> {
        let stats = self.sent.association.get()?.stats();
        windows(&stats.paths, &self.destinations)
    }

    fn reading(&self, bed: &Bed) -> Reading {
        let counters = self
            .sent
            .association
            .get()
            .map(|association| association.stats().counters);
        Reading {
            links: bed.counters().iter().map(|[there, _]| there.link).collect(),
            tcp_bytes: Vec::new(),
            sender: counters.unwrap_or_default(),
        }
    }

    fn is_over(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Nothing => true,
            // On a busy machine the association may not exist yet, or a message may still be submitted.
            Awaited::All | Awaited::LastOf(_) if !self.sent.is_done() => false,
            Awaited::All => self.sent.association.get().is_none_or(|association| {
                let stats = association.stats();
                stats.queued_bytes + stats.outstanding_bytes == 0
            }),
            Awaited::LastOf(class) => {
                let last = self.sent.last_of(class);
                last.is_none_or(|last| self.received.lock().first.of(last).is_some())
            }
        }
    }

    /// Copies the messages, deliveries and captured packets into the record, once the run is over. Returns how late the hosts' programs
    /// were.
    ///
    /// A delivery counts from the kernel's time of the packet that let the endpoint deliver the message. If the capture lost this packet,
    /// the application's time counts.
    pub(crate) fn fill(&self, record: &mut Record) -> HostTimes {
        let received = self.received.lock();
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let deliverable = arrivals.deliverable(&received.all);
        let stamped = received.all.iter().zip(deliverable);
        let read: Vec<f64> = stamped
            .clone()
            .filter_map(|((read, _), at)| Some(read.saturating_duration_since(at?).as_secs_f64() * 1e3))
            .collect();
        record.deliveries = stamped
            .map(|((read, number), at)| (at.unwrap_or(*read), *number))
            .collect();
        // The endpoint may read the sockets of several paths in another order than the kernel received the packets.
        record.deliveries.sort_by_key(|(at, _)| *at);
        record.delivered = FirstTimes::default();
        for (at, number) in &record.deliveries {
            record.delivered.note(*number, *at);
        }
        record.submitted = self.sent.submitted();
        record.refused = self.sent.refused();
        let logs = std::mem::take(&mut *self.logs.lock().unwrap_or_else(PoisonError::into_inner));
        for seen in &logs.sender {
            if let What::Message { number, .. } = seen.what {
                record.sent.note(number, seen.at);
            }
        }
        record.logs = self.measures.packets.then_some(logs);
        record.packets_received = received.packets;
        HostTimes {
            read: Quantiles::of(&read),
            submit: Quantiles::of(&self.sent.late()),
        }
    }
}
