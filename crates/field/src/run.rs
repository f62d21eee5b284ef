//! A run: a bed, the sender and the receiver, TCP beside them, and what came of it.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anabranch_bed::{Bed, Lateness, PathPlan, Plan, Side, WayCounters, raise_priority};
use anabranch_lab::stage::{Awaited, Messages, Reading, Record, Scenario, TcpFlows};
use anabranch_lab::traffic::FirstTimes;
use anabranch_netsim::Recovery;
use anabranch_proto::Timestamp;

use crate::clock::Clock;
use crate::error::FieldError;
use crate::iperf::Flows;
use crate::receiver::{Received, block_on, receive};
use crate::sender::{Sent, associate, submit};
use crate::watcher::watch;

/// How often it is asked whether the last messages have come.
const LOOK: Duration = Duration::from_millis(100);

/// What came of a run, and how late the bed was.
pub(crate) struct Done {
    pub(crate) record: Record,
    pub(crate) lateness: Lateness,
    /// Packets that the bed itself lost, not its links.
    pub(crate) lost_by_bed: u64,
}

/// Runs a scenario on a bed of its own. `None` if it was interrupted.
pub(crate) fn run(
    scenario: Scenario,
    seed: u64,
    algorithm: &str,
    interrupted: &AtomicBool,
) -> Result<Option<Done>, FieldError> {
    let paths = scenario.paths.iter().map(|(there, back)| PathPlan {
        rightward: there.clone(),
        leftward: back.clone(),
        mtu: None,
    });
    let bed = Bed::build(&Plan {
        paths: paths.collect(),
        seed,
    })?;
    let mut tcp = match &scenario.tcp {
        None => None,
        Some(flows) => {
            choose_sack(&bed, flows.real.recovery == Recovery::Sack)?;
            Some(Flows::prepare(&bed, flows.starts.len())?)
        }
    };
    let starts = scenario
        .tcp
        .as_ref()
        .map_or(&[][..], |flows: &TcpFlows| &flows.starts);
    let mut starts: Vec<(Timestamp, usize)> = starts.iter().copied().zip(0..).collect();
    starts.sort_unstable();
    let clock = Clock::start(interrupted);
    let hosts = Hosts::default();
    let messages = scenario.messages;
    let awaited = messages
        .as_ref()
        .map_or(Awaited::Nothing, |messages| messages.awaited);
    let record = thread::scope(|scope| {
        let working = hosts.start(
            scope,
            (&bed, &clock),
            &scenario.config,
            (messages, scenario.counts.1),
        );
        let conducted = (|| {
            for (start, flow) in starts {
                if let Some(tcp) = tcp.as_mut().filter(|_| clock.wait_until(start)) {
                    tcp.start(&bed, flow, algorithm)?;
                }
            }
            let record = hosts.follow((&bed, &clock), scenario.counts, awaited, scenario.most_drain);
            let delivered = tcp.map(|tcp| tcp.end(&clock)).transpose()?;
            Ok::<_, FieldError>((record, delivered.unwrap_or_default()))
        })();
        clock.end();
        for work in working {
            work.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        conducted
    });
    if clock.is_interrupted() {
        return Ok(None);
    }
    let (mut record, delivered) = record?;
    bed.check()?;
    let times = [record.counts.0, record.counts.1, clock.now()];
    for (reading, at) in [&mut record.at_begin, &mut record.at_end, &mut record.last]
        .into_iter()
        .zip(times)
    {
        reading.tcp_bytes = delivered.iter().map(|flow| flow.until(at)).collect();
    }
    hosts.fill(&mut record);
    let ways = bed.counters().concat();
    let mut lateness = Lateness::default();
    ways.iter().for_each(|way| lateness.merge(&way.lateness));
    let by_bed = |way: &WayCounters| way.lost_full + way.lost_refused + way.lost_before;
    Ok(Some(Done {
        record,
        lateness,
        lost_by_bed: ways.iter().map(by_bed).sum(),
    }))
}

/// Sets on both sides whether the kernel's TCP offers SACK.
fn choose_sack(bed: &Bed, sack: bool) -> Result<(), FieldError> {
    let value = if sack { "1" } else { "0" };
    for side in Side::BOTH {
        bed.inside(side, || fs::write("/proc/sys/net/ipv4/tcp_sack", value))??;
    }
    Ok(())
}

/// What sender and receiver did so far.
#[derive(Debug, Default)]
struct Hosts {
    sent: Sent,
    received: Received,
    /// When each message first left; known when all is over.
    first_sent: Mutex<FirstTimes>,
}

type Work<'scope> = thread::ScopedJoinHandle<'scope, Result<(), FieldError>>;

impl Hosts {
    /// Starts sender and receiver, if there is anything to send. A failure of one ends the run. They come before others like the bed
    /// itself: with ten programs waiting for the processors three paths at once carried a seventh less otherwise.
    fn start<'scope, 'env>(
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
        let ending = move |result: Result<(), FieldError>| {
            if result.is_err() {
                clock.end();
            }
            result
        };
        let (ready, is_ready) = mpsc::channel::<()>();
        let watching = ready.clone();
        let watcher = scope.spawn(move || {
            let work = || {
                raise_priority();
                watch(clock, move || drop(watching))
            };
            let seen = bed.inside(Side::Left, work).map_err(FieldError::from).flatten();
            ending(seen.map(|seen| *self.first_sent.lock().unwrap_or_else(PoisonError::into_inner) = seen))
        });
        let receiver = scope.spawn(move || {
            let ready = move || drop(ready);
            let work = || {
                raise_priority();
                block_on(receive(config, paths, clock, &self.received, ready))
            };
            ending(bed.inside(Side::Right, work).map_err(FieldError::from).flatten())
        });
        // It ends when there is somebody to connect to and somebody watches, or nobody will.
        let _ = is_ready.recv();
        let sender = scope.spawn(move || {
            let work = || {
                raise_priority();
                block_on(associate(config, paths, (connect, &classes), clock, &self.sent))
            };
            ending(bed.inside(Side::Left, work).map_err(FieldError::from).flatten())
        });
        let submitter = scope.spawn(move || {
            raise_priority();
            ending(submit(messages, until, clock, &self.sent))
        });
        vec![watcher, receiver, sender, submitter]
    }

    /// Waits for the time that counts and for what is awaited, and reads the counters meanwhile.
    fn follow(
        &self,
        (bed, clock): (&Bed, &Clock<'_>),
        counts: (Timestamp, Timestamp),
        awaited: Awaited,
        most_drain: Duration,
    ) -> Record {
        clock.wait_until(counts.0);
        let at_begin = self.reading(bed);
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
            ..Record::default()
        }
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
    fn fill(&self, record: &mut Record) {
        let received = self.received.lock();
        record.submitted = self.sent.submitted();
        record.refused = self.sent.refused();
        record.sent = self
            .first_sent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        record.delivered = received.first.clone();
        record.deliveries = received.all.clone();
        record.packets_received = received.packets;
    }
}
