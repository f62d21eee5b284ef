//! One side of a run: it sends, receives, reports every interval, and ends when both sides know the results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anabranch::{Association, Message, RecvError};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::clock::Clock;
use super::control::Control;
use super::plan::{Plan, Role};
use super::receiver::Arrivals;
use super::report::{Interval, Seen, Voice};
use super::sender::{acknowledged, send_all};
use super::tally::{Received, Sent, cpu_time};
use crate::by_path::PathTally;
use crate::interrupt::Interrupt;
use crate::{stall, units};

/// Limit on the graceful shutdown after a user asked to stop.
const HURRY: Duration = Duration::from_secs(3);
/// Interval at which a receiver sends its results so far to the sender, which needs them if the run ends early.
const SO_FAR: Duration = Duration::from_secs(1);
/// If the last interval is shorter than this, it is not reported.
const WORTH_A_LINE: Duration = Duration::from_millis(10);
/// Limit of messages that are received without waiting, before the task waits again.
const BATCH: usize = 64;

/// One side of a run.
#[derive(Debug)]
pub(super) struct Session {
    association: Association,
    plan: Plan,
    role: Role,
    clock: Clock,
    begun: Instant,
    /// The processor time at the start.
    cpu: Option<Duration>,
    /// Messages given to the association.
    given: AtomicU64,
    stop: watch::Sender<bool>,
    board: Mutex<Board>,
}

/// The results so far.
#[derive(Debug)]
struct Board {
    arrivals: Arrivals,
    sent_here: Option<Sent>,
    received_here: Option<Received>,
    sent_there: Option<Sent>,
    received_there: Option<Received>,
    so_far_there: Option<Received>,
    asked_to_stop: bool,
    /// Why this side stopped waiting for acknowledgements.
    stalled: Option<String>,
}

/// The results of both sides of a direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) sent: Option<Sent>,
    pub(super) received: Option<Received>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) forward: Option<Flow>,
    pub(super) reverse: Option<Flow>,
    /// Why the run is not complete.
    pub(super) trouble: Option<String>,
    /// The user of either side asked to stop before the end.
    pub(super) stopped: bool,
}

impl Session {
    /// Prepares a run; its time begins now.
    pub(super) fn new(association: &Association, plan: &Plan, role: Role, clock: Clock) -> Arc<Self> {
        let board = Board {
            arrivals: Arrivals::new(plan, clock),
            sent_here: None,
            received_here: None,
            sent_there: None,
            received_there: None,
            so_far_there: None,
            asked_to_stop: false,
            stalled: None,
        };
        Arc::new(Self {
            association: association.clone(),
            plan: *plan,
            role,
            clock,
            begun: Instant::now(),
            cpu: cpu_time(),
            given: AtomicU64::new(0),
            stop: watch::Sender::new(false),
            board: Mutex::new(board),
        })
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs to the end. Afterwards the association has no outstanding data, or is aborted.
    pub(super) async fn run(self: Arc<Self>, voice: &Voice, interrupt: &Interrupt) -> Outcome {
        let sends = self.plan.has(self.role.outbound());
        let sending = sends.then(|| tokio::spawn(Arc::clone(&self).send()));
        let mut ticker = Ticker::new(self.begun);
        let trouble = tokio::select! {
            ended = self.receive() => ended.err().map(|trouble| self.board().stalled.take().unwrap_or(trouble)),
            () = self.tell_intervals(&mut ticker, voice) => None,
            () = self.tell_peer() => None,
            trouble = self.stop_when_asked(interrupt) => Some(trouble),
        };
        if trouble.is_some() {
            if sends {
                let so_far = self.sent_so_far(&ticker);
                self.board().sent_here.get_or_insert(so_far);
            }
            self.association.abort("the measurement ended early");
            if let Some(sending) = &sending {
                sending.abort();
            }
        } else if ticker.last.elapsed() >= WORTH_A_LINE {
            self.tell_interval(&mut ticker, voice);
        }
        self.outcome(trouble)
    }

    fn outcome(&self, trouble: Option<String>) -> Outcome {
        let board = self.board();
        let flow = |direction| {
            self.plan.has(direction).then(|| {
                if direction == self.role.outbound() {
                    let received = board.received_there.as_ref();
                    Flow {
                        sent: board.sent_here.clone(),
                        received: received.or(board.so_far_there.as_ref()).cloned(),
                    }
                } else {
                    let received = board.received_here.clone();
                    let so_far = || self.timed(board.arrivals.received(None));
                    Flow {
                        sent: board.sent_there.clone(),
                        received: Some(received.unwrap_or_else(so_far)),
                    }
                }
            })
        };
        Outcome {
            forward: flow(super::plan::Direction::Forward),
            reverse: flow(super::plan::Direction::Reverse),
            trouble,
            stopped: board.asked_to_stop,
        }
    }

    fn cpu_spent(&self) -> Option<Duration> {
        Some(cpu_time()?.saturating_sub(self.cpu?))
    }

    /// Adds this side's elapsed time, late messages and processor time.
    fn timed(&self, received: Received) -> Received {
        Received {
            elapsed: self.begun.elapsed(),
            overtaken: self.association.stats().counters.late_messages,
            cpu: self.cpu_spent(),
            ..received
        }
    }

    /// The acknowledged messages of a run that did not finish.
    fn sent_so_far(&self, ticker: &Ticker) -> Sent {
        let mut sent = self.sent();
        sent.bytes = match self.association.close_reason() {
            None => acknowledged(&self.association, sent.bytes, self.plan.size),
            // The association has ended, and its counters of queued and outstanding data may be reset.
            Some(_) => {
                let board = self.board();
                let told = board.so_far_there.as_ref().map_or(0, |received| received.bytes);
                ticker.acknowledged.max(told)
            }
        };
        sent.messages = sent.bytes / self.plan.size;
        sent
    }

    /// The sender's results so far.
    fn sent(&self) -> Sent {
        let given = self.given.load(Ordering::Relaxed);
        Sent {
            cpu: self.cpu_spent(),
            ..Sent::read(&self.association, given, self.plan.size, self.begun.elapsed())
        }
    }

    /// Sends all messages, waits for their acknowledgement and reports it. The end of the association shows errors.
    async fn send(self: Arc<Self>) {
        let stop = self.stop.subscribe();
        let sent = send_all(&self.association, &self.plan, self.clock, &self.given, stop).await;
        if sent.is_err() || Control::Last.send(&self.association).await.is_err() {
            return;
        }
        if let Err(problem) = stall::drained(&self.association).await {
            self.board().stalled = Some(problem);
            self.association.abort("no progress");
            return;
        }
        let sent = Sent {
            acknowledged: true,
            ..self.sent()
        };
        self.board().sent_here = Some(sent.clone());
        let _ = Control::Sent(sent).send(&self.association).await;
    }

    /// Receives until both sides know all results.
    async fn receive(&self) -> Result<(), String> {
        while !self.complete() {
            let first = match self.association.recv().await {
                Ok(Some(message)) => message,
                Ok(None) => return Err("the peer ended the association before the results".to_owned()),
                Err(RecvError::Closed(reason)) => return Err(reason.to_string()),
                Err(error) => return Err(error.to_string()),
            };
            let mut next = Some(first);
            let mut batch = 0;
            while let Some(message) = next.take() {
                self.take(&message).await?;
                batch += 1;
                if batch < BATCH && !self.complete() {
                    // The next `recv` returns the same error.
                    next = self.association.try_recv().ok().flatten();
                }
            }
        }
        Ok(())
    }

    fn complete(&self) -> bool {
        let board = self.board();
        let sent = !self.plan.has(self.role.outbound()) || board.received_there.is_some();
        let received = !self.plan.has(self.role.inbound()) || board.received_here.is_some();
        sent && received
    }

    async fn take(&self, message: &Message) -> Result<(), String> {
        let Some(control) = Control::of(message) else {
            return self.board().arrivals.take(message, Instant::now());
        };
        match control? {
            Control::Sent(sent) => {
                let received = {
                    let mut board = self.board();
                    let received = self.timed(board.arrivals.received(Some(sent.messages)));
                    board.sent_there = Some(sent);
                    board.received_here = Some(received.clone());
                    received
                };
                let answer = Control::Received(received);
                answer
                    .send(&self.association)
                    .await
                    .map_err(|error| error.to_string())
            }
            // Its arrival is enough: SCTP acknowledges it at once, and with it all data before.
            Control::Last => Ok(()),
            Control::Received(received) => {
                self.board().received_there = Some(received);
                Ok(())
            }
            Control::SoFar(received) => {
                self.board().so_far_there = Some(received);
                Ok(())
            }
            Control::Stop => {
                self.board().asked_to_stop = true;
                self.stop.send_replace(true);
                if self.plan.has(self.role.inbound()) {
                    let so_far = self.timed(self.board().arrivals.received(None));
                    let _ = Control::SoFar(so_far).try_send(&self.association);
                }
                Ok(())
            }
            _ => Err("the peer sent an unexpected control message".to_owned()),
        }
    }

    /// Stops both senders when the user asks to stop; returns only if the results do not arrive in time.
    async fn stop_when_asked(&self, interrupt: &Interrupt) -> String {
        interrupt.wait().await;
        self.board().asked_to_stop = true;
        self.stop.send_replace(true);
        let asking = async {
            let _ = Control::Stop.send(&self.association).await;
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(HURRY, asking).await;
        format!(
            "stopped; the results did not arrive within {}",
            units::duration(HURRY)
        )
    }

    /// Sends this receiver's results so far to the peer at intervals.
    async fn tell_peer(&self) {
        if !self.plan.has(self.role.inbound()) {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(SO_FAR).await;
            let so_far = self.timed(self.board().arrivals.so_far());
            // If the send buffer is full, the report is dropped: it would be outdated when there is room.
            let _ = Control::SoFar(so_far).try_send(&self.association);
        }
    }

    async fn tell_intervals(&self, ticker: &mut Ticker, voice: &Voice) {
        let Some(period) = voice.interval else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval_at((self.begun + period).into(), period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.tell_interval(ticker, voice);
        }
    }

    fn tell_interval(&self, ticker: &mut Ticker, voice: &Voice) {
        if voice.interval.is_none() {
            return;
        }
        let now = Instant::now();
        let mut seen = Vec::new();
        let outbound = self.role.outbound();
        if self.plan.has(outbound) {
            seen.push((outbound, ticker.sent(self)));
        }
        let inbound = self.role.inbound();
        if self.plan.has(inbound) {
            let recent = self.board().arrivals.recent();
            seen.push((
                inbound,
                Seen::Received {
                    messages: recent.messages,
                    bytes: recent.bytes,
                    delay: recent.delay(),
                },
            ));
        }
        let from = std::mem::replace(&mut ticker.last, now);
        voice.interval(&Interval {
            from: from.duration_since(self.begun),
            to: now.duration_since(self.begun),
            seen,
        });
    }
}

/// The readings at the end of the last interval.
#[derive(Debug)]
struct Ticker {
    last: Instant,
    acknowledged: u64,
    timeout: u64,
    fast: u64,
    paths: Vec<PathTally>,
}

impl Ticker {
    fn new(begun: Instant) -> Self {
        Self {
            last: begun,
            acknowledged: 0,
            timeout: 0,
            fast: 0,
            paths: Vec::new(),
        }
    }

    fn sent(&mut self, session: &Session) -> Seen {
        let sent = session.sent();
        // These counters include control messages: a few hundred bytes.
        let acknowledged =
            acknowledged(&session.association, sent.bytes, session.plan.size).max(self.acknowledged);
        let earlier = std::mem::replace(&mut self.paths, sent.paths);
        let paths = self.paths.iter().enumerate();
        Seen::Sent {
            paths: paths
                .map(|(index, path)| path.since(earlier.get(index)))
                .collect(),
            bytes: acknowledged - std::mem::replace(&mut self.acknowledged, acknowledged),
            size: session.plan.size,
            timeout: sent.timeout - std::mem::replace(&mut self.timeout, sent.timeout),
            fast: sent.fast - std::mem::replace(&mut self.fast, sent.fast),
            srtt: sent.srtt,
            cwnd: sent.cwnd,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::{CloseReason, Config, Endpoint, Reliability};

    use super::*;
    use crate::commands::perf::plan::Until;
    use crate::output::Output;

    /// A server disappears, and no ICMP message reports it. The failure of the association ends the run with the results so far.
    #[tokio::test]
    async fn a_server_that_vanishes_ends_the_run() {
        let mut config = Config::default();
        config.rto.initial = Duration::from_millis(50);
        config.rto.min = Duration::from_millis(50);
        config.rto.max = Duration::from_millis(100);
        config.retransmissions.association_max_retrans = 3;
        let bind = || {
            let builder = Endpoint::builder().config(config.clone());
            builder.link("delay=1ms".parse().unwrap(), 1).bind("127.0.0.1:0")
        };
        let (client, server) = (bind().await.unwrap(), bind().await.unwrap());
        server.listen().unwrap();
        let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        let plan = Plan {
            size: 1000,
            streams: 1,
            unordered: false,
            forward: true,
            reverse: false,
            until: Until::Time(Duration::from_secs(3600)),
            rate: None,
            reliability: Reliability::Reliable,
            early_copies: 0,
            deadline: None,
        };
        let voice = Voice {
            output: Output::Json,
            // After the end of an association, the report has the values of the last interval.
            interval: Some(Duration::from_millis(20)),
            client: None,
        };
        let session = Session::new(&ours, &plan, Role::Client, Clock::start());
        let interrupt = Interrupt::install();
        let vanishing = async {
            for _ in 0..100 {
                theirs.recv().await.unwrap().expect("a message");
            }
            assert!(client.set_link(&"loss=100%".parse().unwrap()));
            std::future::pending().await
        };
        let outcome = tokio::select! {
            outcome = session.run(&voice, &interrupt) => outcome,
            () = vanishing => unreachable!(),
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it goes on for ever"),
        };
        assert_eq!(ours.close_reason(), Some(CloseReason::Unreachable));
        let trouble = outcome.trouble.expect("it did not come to its end");
        assert!(trouble.contains("stopped answering"), "{trouble}");
        assert!(
            outcome.forward.unwrap().sent.unwrap().messages > 0,
            "the results so far are reported"
        );
    }
}
