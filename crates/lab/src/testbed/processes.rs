//! A process for each host: started by the lab in the host's namespace, and ended with the lab.
//!
//! Orders and replies pass through the process's standard input and output, a line each. The process ends when its standard input ends.
//! So no process remains if the lab crashes or is killed.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anabranch_bed::{Bed, Side, raise_priority};

use super::clock::Clock;
use super::errand::{Errand, Look, Order, ReceivedReport, Reply, SentReport};
use super::error::TestbedError;
use super::hosts::{Hosts, Net};
use crate::stage::Origin;

/// The arguments by which the program becomes a host.
const ARGUMENTS: [&str; 2] = ["lab", "host"];
/// How often the lab looks whether a host has failed.
const NOTICE: Duration = Duration::from_millis(200);

/// The processes of the sender and of the receiver.
#[derive(Debug)]
pub(super) struct Processes {
    left: Mutex<Process>,
    right: Mutex<Process>,
}

impl Processes {
    /// Starts both processes, which make the scenario; `None` if the scenario is not a cell of an experiment.
    pub(super) fn prepare(
        bed: &Bed,
        program: &Path,
        origin: &Origin<'_>,
    ) -> Result<Option<Self>, TestbedError> {
        let errands = Errand::of(origin, true).zip(Errand::of(origin, false));
        let Some((send, receive)) = errands else {
            return Ok(None);
        };
        let mut left = Process::start(bed, Side::Left, program)?;
        let mut right = Process::start(bed, Side::Right, program)?;
        // Both make the scenario at the same time.
        left.order(&Order::Prepare(send))?;
        right.order(&Order::Prepare(receive))?;
        for process in [&mut left, &mut right] {
            process.reply()?;
        }
        Ok(Some(Self {
            left: Mutex::new(left),
            right: Mutex::new(right),
        }))
    }

    /// Begins the run: first the receiver listens, then the sender connects.
    pub(super) fn begin(&self, clock: &Clock<'_>) -> Result<(), TestbedError> {
        let (monotonic, real) = clock.beginning();
        for side in [Side::Right, Side::Left] {
            self.ask(side, &Order::Begin(monotonic, real))?;
        }
        Ok(())
    }

    /// Ends the run as soon as a host fails.
    pub(super) fn watch(&self, clock: &Clock<'_>) {
        while clock.wait_until(clock.now() + NOTICE) {
            if Side::BOTH.iter().any(|side| self.look(*side, None, None).is_over) {
                clock.end();
            }
        }
    }

    /// The state of a host. A host that does not reply has failed; [`Processes::reports`] returns the error.
    pub(super) fn look(&self, side: Side, message: Option<usize>, class: Option<usize>) -> Look {
        match self.ask(side, &Order::Look { message, class }) {
            Ok(Reply::Look(look)) => look,
            _ => Look {
                is_over: true,
                ..Look::default()
            },
        }
    }

    /// Ends the run in both processes. Returns everything that they know.
    pub(super) fn reports(&self) -> Result<(SentReport, ReceivedReport), TestbedError> {
        match (
            self.ask(Side::Left, &Order::End)?,
            self.ask(Side::Right, &Order::End)?,
        ) {
            (Reply::Sent(sent), Reply::Received(received)) => Ok((sent, received)),
            others => Err(TestbedError::Host(format!("unexpected replies {others:?}"))),
        }
    }

    fn ask(&self, side: Side, order: &Order) -> Result<Reply, TestbedError> {
        let process = match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        };
        let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
        process.order(order)?;
        process.reply()
    }
}

/// A host's process. On drop, the process is gone.
#[derive(Debug)]
struct Process {
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Process {
    fn start(bed: &Bed, side: Side, program: &Path) -> Result<Self, TestbedError> {
        let mut command = Command::new(program);
        command
            .args(ARGUMENTS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // Ctrl-C reaches only the lab, which ends its hosts.
        command.process_group(0);
        let mut child = bed.spawn(side, &mut command)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (orders, replies) = pipes.ok_or_else(|| TestbedError::Host("it has no pipes".to_owned()))?;
        Ok(Self {
            child,
            orders,
            replies: BufReader::new(replies),
        })
    }

    fn order(&mut self, order: &Order) -> Result<(), TestbedError> {
        match write_line(&mut self.orders, order) {
            // The process may have told the reason before it ended; otherwise the reply is missing.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        }
    }

    fn reply(&mut self) -> Result<Reply, TestbedError> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Reply::Failed(why)) => Err(TestbedError::Host(why)),
            Ok(reply) => Ok(reply),
            Err(_) if line.is_empty() => Err(TestbedError::Host("it ended early".to_owned())),
            Err(error) => Err(TestbedError::Host(error.to_string())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_line(to: &mut impl Write, message: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Is a host: obeys the orders of the lab, in the network namespace of this process, until the run is over. If `orders` ends before, the
/// lab is gone, and this process exits at once.
///
/// # Errors
/// The host failed, or the lab cannot be reached.
pub fn host(orders: impl BufRead, mut replies: impl Write) -> Result<(), TestbedError> {
    raise_priority();
    let mut orders = orders.lines();
    let mut next = || -> Result<Order, TestbedError> {
        match orders.next() {
            Some(line) => serde_json::from_str(&line?).map_err(|error| TestbedError::Host(error.to_string())),
            // Threads of this process may still wait for the network.
            None => std::process::exit(1),
        }
    };
    let Order::Prepare(errand) = next()? else {
        return Err(TestbedError::Host("the first order is not an errand".to_owned()));
    };
    let scenario = errand.scenario()?;
    write_line(&mut replies, &Reply::Prepared)?;
    let Order::Begin(monotonic, real) = next()? else {
        return Err(TestbedError::Host(
            "the second order is not the beginning".to_owned(),
        ));
    };
    let interrupted = AtomicBool::new(false);
    let clock = Clock::begun(monotonic, real, &interrupted);
    let hosts = Hosts::new(scenario.paths.len(), scenario.measures);
    let side = if errand.sends { Side::Left } else { Side::Right };
    let outcome = thread::scope(|scope| {
        let messages = (scenario.messages, scenario.counts.1);
        let working = hosts.start(scope, (Net::Here, &clock), &scenario.config, messages, &[side]);
        let served = (|| {
            write_line(&mut replies, &Reply::Begun)?;
            while let Order::Look { message, class } = next()? {
                write_line(&mut replies, &Reply::Look(hosts.look(message, class, &clock)))?;
            }
            Ok(())
        })();
        clock.end();
        let mut outcome: Result<(), TestbedError> = served;
        for work in working {
            let done = work
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(done);
        }
        outcome
    });
    let last = match (outcome, errand.sends) {
        (Err(error), _) => Reply::Failed(error.to_string()),
        (Ok(()), true) => Reply::Sent(hosts.sent_report()),
        (Ok(()), false) => Reply::Received(hosts.received_report()),
    };
    Ok(write_line(&mut replies, &last)?)
}
