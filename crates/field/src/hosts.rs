//! The two hosts of a run and those who watch them, each with threads of its own on its side of the bed.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anabranch_bed::{Bed, Side, raise_priority};
use anabranch_lab::stage::{
    Awaited, Demand, Logs, Measures, Messages, PacketLog, Reading, Record, WINDOW_LOOK, What, windows,
};
use anabranch_proto::Timestamp;

use crate::clock::Clock;
use crate::error::FieldError;
use crate::receiver::{Likewise, Received, addresses, block_on, receive};
use crate::sender::{Sent, associate, submit};
use crate::watcher::watch;

/// How often it is asked whether the last messages have come.
const LOOK: Duration = Duration::from_millis(100);

/// What sender and receiver did so far.
#[derive(Debug)]
pub(crate) struct Hosts {
    measures: Measures,
    sent: Sent,
    received: Received,
    /// The receiver's addresses, one for each path.
    destinations: Vec<IpAddr>,
    /// What passed by the sender, and by the receiver if packets are measured; known when all is over.
    logs: Mutex<Logs>,
}

type Work<'scope> = thread::ScopedJoinHandle<'scope, Result<(), FieldError>>;

impl Hosts {
    /// Hosts with so many paths between them, that did nothing yet.
    pub(crate) fn new(paths: usize, measures: Measures) -> Self {
        Self {
            measures,
            sent: Sent::default(),
            received: Received::default(),
            destinations: addresses(Side::Right, paths),
            logs: Mutex::default(),
        }
    }

    /// Starts sender and receiver, if there is anything to send. A failure of one ends the run. They come before others like the bed
    /// itself: with ten programs waiting for the processors three paths at once carried a seventh less otherwise.
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
        let ending = move |result: Result<(), FieldError>| {
            if result.is_err() {
                clock.end();
            }
            result
        };
        let (ready, is_ready) = mpsc::channel::<()>();
        let sides = if self.measures.packets {
            &Side::BOTH[..]
        } else {
            &[Side::Left]
        };
        let watchers = sides.iter().map(|side| {
            let watching = ready.clone();
            scope.spawn(move || {
                let work = || {
                    raise_priority();
                    self.watch(*side, clock, move || drop(watching))
                };
                ending(bed.inside(*side, work).map_err(FieldError::from).flatten())
            })
        });
        let mut working: Vec<Work<'scope>> = watchers.collect();
        let receiver = scope.spawn(move || {
            let ready = move || drop(ready);
            let work = || {
                raise_priority();
                block_on(receive(config, (paths, likewise), clock, &self.received, ready))
            };
            ending(bed.inside(Side::Right, work).map_err(FieldError::from).flatten())
        });
        // It ends when there is somebody to connect to and somebody watches, or nobody will.
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
            ending(bed.inside(Side::Left, work).map_err(FieldError::from).flatten())
        });
        let submitter = scope.spawn(move || {
            raise_priority();
            ending(submit(messages, until, clock, &self.sent))
        });
        working.extend([receiver, sender, submitter]);
        working
    }

    /// Watches a host until the run is over.
    fn watch(&self, side: Side, clock: &Clock<'_>, ready: impl FnOnce()) -> Result<(), FieldError> {
        let mut log = PacketLog::new(self.destinations.clone());
        watch(clock, ready, |at, destination, packet| {
            // What T3-rtx sends again leaves as soon as it expires. If this thread is late, so that more left before, what these
            // packets repeat may count as repaired by reports.
            let leaves = side == Side::Left && self.destinations.contains(&destination);
            let association = self.sent.association.get();
            if let Some(association) = association.filter(|_| leaves && self.measures.packets) {
                log.on_paths(at, &association.stats().paths);
            }
            log.on_packet(at, destination, packet);
        })?;
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        match side {
            Side::Left => logs.sender = log.into_seen(),
            Side::Right => logs.receiver = log.into_seen(),
        }
        Ok(())
    }

    /// Waits for the time that counts and for what is awaited, and reads the counters meanwhile.
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
            // On a busy machine there may be no association yet, or a message that is late.
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

    /// What was sent and received, when all is over.
    pub(crate) fn fill(&self, record: &mut Record) {
        let received = self.received.lock();
        record.submitted = self.sent.submitted();
        record.refused = self.sent.refused();
        let logs = std::mem::take(&mut *self.logs.lock().unwrap_or_else(PoisonError::into_inner));
        for seen in &logs.sender {
            if let What::Message { number, .. } = seen.what {
                record.sent.note(number, seen.at);
            }
        }
        record.logs = self.measures.packets.then_some(logs);
        record.delivered = received.first.clone();
        record.deliveries = received.all.clone();
        record.packets_received = received.packets;
    }
}
