//! The hosts of a run that are in this process, and the threads that capture their packets. Each thread runs in the network namespace of
//! its host.

use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anabranch_bed::{Bed, Side, raise_priority};
use anabranch_proto::Timestamp;

use super::arrivals::Arrivals;
use super::clock::Clock;
use super::errand::{Look, ReceivedReport, SentReport, listed, nanos, row};
use super::error::TestbedError;
use super::receiver::{Likewise, Received, addresses, block_on, receive};
use super::sender::{Sent, associate, submit};
use super::watcher::watch;
use crate::stage::{Demand, Logs, Measures, Messages, PacketLog, windows};

/// The network of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Net<'a> {
    /// The namespaces of a bed that this process made.
    Bed(&'a Bed),
    /// The namespace that this process is in.
    Here,
}

impl Net<'_> {
    /// Runs a function in the network of a side.
    fn inside<T: Send>(&self, side: Side, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match self {
            Self::Bed(bed) => bed.inside(side, work),
            Self::Here => Ok(work()),
        }
    }
}

/// The counts and times that sender and receiver have collected so far.
#[derive(Debug)]
pub(crate) struct Hosts {
    paths: usize,
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
            paths,
            measures,
            sent: Sent::default(),
            received: Received::default(),
            destinations: addresses(Side::Right, paths),
            logs: Mutex::default(),
            arrivals: Mutex::default(),
        }
    }

    /// Starts the hosts of these sides, if there are messages to send. If a host fails, the run ends. These threads have raised priority
    /// like the bed itself: without it, with ten programs waiting for the processors, three paths at once carried a seventh less.
    pub(crate) fn start<'scope, 'env>(
        &'env self,
        scope: &'scope thread::Scope<'scope, 'env>,
        (net, clock): (Net<'env>, &'env Clock<'env>),
        config: &'env anabranch::Config,
        (messages, until): (Option<Messages>, Timestamp),
        sides: &[Side],
    ) -> Vec<Work<'scope>> {
        let Some(messages) = messages else {
            return Vec::new();
        };
        let paths = self.paths;
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
        let watchers = sides.iter().map(|side| {
            let (side, watching) = (*side, ready.clone());
            scope.spawn(move || {
                let work = || {
                    raise_priority();
                    self.watch(side, clock, move || drop(watching))
                };
                ending(net.inside(side, work).map_err(TestbedError::from).flatten())
            })
        });
        let mut working: Vec<Work<'scope>> = watchers.collect();
        if sides.contains(&Side::Right) {
            working.push(scope.spawn(move || {
                let ready = move || drop(ready);
                let work = || {
                    raise_priority();
                    block_on(receive(config, (paths, likewise), clock, &self.received, ready))
                };
                let done = net.inside(Side::Right, work);
                ending(done.map_err(TestbedError::from).flatten())
            }));
        } else {
            drop(ready);
        }
        // `recv` returns when every holder of `ready` has dropped it: the receiver listens and the captures run, or a thread failed.
        let _ = is_ready.recv();
        if sides.contains(&Side::Left) {
            working.push(scope.spawn(move || {
                let messages = (connect, &classes[..], likewise.is_some());
                let work = || {
                    raise_priority();
                    block_on(associate(config, paths, messages, clock, &self.sent))
                };
                let done = net.inside(Side::Left, work);
                ending(done.map_err(TestbedError::from).flatten())
            }));
            working.push(scope.spawn(move || {
                raise_priority();
                ending(submit(messages, until, clock, &self.sent))
            }));
        }
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

    /// The state of the hosts: has `message` been delivered, and which is the last message of `class`?
    pub(super) fn look(&self, message: Option<usize>, class: Option<usize>, clock: &Clock<'_>) -> Look {
        let stats = self.sent.association.get().map(anabranch::Association::stats);
        let counters = stats.as_ref().map(|stats| stats.counters);
        let received = self.received.lock();
        Look {
            is_over: clock.is_over(),
            is_done: self.sent.is_done(),
            is_empty: stats
                .as_ref()
                .is_none_or(|stats| stats.queued_bytes + stats.outstanding_bytes == 0),
            is_delivered: message.is_some_and(|message| received.first.of(message).is_some()),
            last: class.and_then(|class| self.sent.last_of(class)),
            counters: listed(&counters.unwrap_or_default()),
            windows: stats.and_then(|stats| windows(&stats.paths, &self.destinations)),
        }
    }

    /// Everything that the sender knows, once the run is over.
    pub(super) fn sent_report(&self) -> SentReport {
        let submitted = self.sent.submitted();
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        SentReport {
            submitted: submitted
                .iter()
                .map(|message| (nanos(message.at), message.len, message.class))
                .collect(),
            refused: self.sent.refused(),
            late: self.sent.late(),
            seen: logs.sender.iter().map(row).collect(),
        }
    }

    /// Everything that the receiver knows, once the run is over.
    pub(super) fn received_report(&self) -> ReceivedReport {
        let received = self.received.lock();
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let deliverable = arrivals.deliverable(&received.all);
        let read = received.all.iter().zip(deliverable);
        ReceivedReport {
            read: read
                .map(|((read, number), at)| (nanos(*read), at.map(nanos), *number))
                .collect(),
            packets: received.packets,
            seen: logs.receiver.iter().map(row).collect(),
        }
    }
}
