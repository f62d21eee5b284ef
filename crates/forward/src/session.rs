//! One association between a client and a server: its flows, and the messages that arrive for them.

mod bytes_flow;
mod datagrams;
mod table;

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use anabranch::{Association, CloseReason, Event, StreamId};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::counters::RuleCounters;
use crate::dial::{Dial, DialError};
use crate::failure::Failures;
use crate::limits::{Limits, MOST_FLOWS};
use crate::lock::{Lock, lock};
use crate::memory::Memory;
use crate::pace::Bucket;
use crate::rule::{Protocol, Target, Traffic};
use crate::socket::Listener;
use crate::wire::{FlowId, Message, ResetReason, WireError};
use bytes_flow::ByteFlow;
use table::{Entry, Table};

/// The stream of the messages that concern all flows.
pub(crate) const CONTROL: StreamId = StreamId(0);

/// A rule at this endpoint.
#[derive(Debug)]
pub(crate) struct SessionRule {
    pub(crate) protocol: Protocol,
    pub(crate) traffic: Traffic,
    /// Where flows of the peer lead; `None` if this endpoint opens the flows, or refuses the rule.
    pub(crate) dial: Option<Dial>,
    /// Where the peer connects to for flows of this endpoint, if this endpoint knows it.
    pub(crate) remote_target: Option<Target>,
    /// Whether this endpoint listens.
    pub(crate) listens: bool,
    pub(crate) counters: Arc<RuleCounters>,
    bucket: Option<Lock<Bucket>>,
}

impl SessionRule {
    pub(crate) fn new(
        protocol: Protocol,
        traffic: Traffic,
        listens: bool,
        dial: Option<Dial>,
        counters: Arc<RuleCounters>,
    ) -> Self {
        let bucket = traffic
            .rate
            .map(|rate| Lock::new(Bucket::new(rate, Instant::now())));
        Self {
            protocol,
            traffic,
            dial,
            remote_target: None,
            listens,
            counters,
            bucket,
        }
    }
}

/// Why this endpoint ends an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("a message that the peer may not send now")]
    Unexpected,
    #[error("a flow of the wrong number or rule")]
    Flow,
    #[error("more data than its credit allows")]
    Credit,
    #[error("more refusals than it reads")]
    Refusals,
}

/// The state of an association that its tasks share.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) association: Association,
    is_client: bool,
    rules: Vec<SessionRule>,
    table: Lock<Table>,
    memory: Memory,
    failures: Failures,
    /// For one read of a socket at a time, which does not wait: most sockets of a session are idle, and need no buffer of their own.
    scratch: Lock<Box<[u8]>>,
    /// Becomes true at the end. Each task holds a receiver.
    ended: watch::Sender<bool>,
}

/// The reason that the peer gets if this endpoint stops.
const STOPS: &str = "the forwarder stops";

/// The reason that the server gets if the client has no use for a second association.
pub(crate) const NOT_NEEDED: &str = "the earlier association works again";

/// Ends a session whose task is dropped.
struct EndGuard(Arc<Session>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end(STOPS);
    }
}

impl Session {
    pub(crate) fn new(
        association: Association,
        is_client: bool,
        rules: Vec<SessionRule>,
        limits: &Limits,
        failures: Failures,
    ) -> Arc<Self> {
        let streams = association.outbound_streams().saturating_sub(1);
        let flows = limits.flows.min(MOST_FLOWS).min(streams.into());
        Arc::new(Self {
            association,
            is_client,
            rules,
            table: Lock::new(Table::new(is_client, flows as usize)),
            memory: Memory::new(limits.memory),
            failures,
            scratch: Lock::new(vec![0; 1 << 16].into()),
            ended: watch::Sender::new(false),
        })
    }

    pub(crate) fn most_flows(&self) -> u32 {
        lock(&self.table).most_flows() as u32
    }

    /// Ends the session: its tasks stop, and close their sockets.
    pub(crate) fn end(&self, reason: impl Display) {
        self.ended.send_replace(true);
        self.remove_all();
        if self.association.close_reason().is_none() {
            self.association.abort(reason.to_string());
        }
    }

    /// Waits until all tasks have stopped, after [`Session::end`].
    pub(crate) async fn stopped(&self) {
        self.ended.closed().await;
    }

    /// Runs a task until it ends, or the session does.
    fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let mut ended = self.ended.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = ended.wait_for(|ended| *ended) => {}
                () = task => {}
            }
        });
    }

    /// Serves the association until it ends. Returns why.
    pub(crate) async fn run(self: &Arc<Self>, listeners: Vec<(u16, Arc<Listener>)>) -> String {
        let guard = EndGuard(Arc::clone(self));
        for (rule, listener) in listeners {
            let session = Arc::clone(self);
            self.spawn(async move {
                match &*listener {
                    Listener::Bytes(listener) => session.listen_bytes(rule, listener).await,
                    Listener::Datagrams(_) => session.listen_datagrams(rule, &listener).await,
                }
            });
        }
        let session = Arc::clone(self);
        self.spawn(async move { session.count_abandoned().await });
        let reason = self.dispatch().await;
        self.end(&reason);
        drop(guard);
        reason
    }

    /// Gives each message to its flow. Nothing here waits for a program or for the peer, so that no flow delays another.
    async fn dispatch(self: &Arc<Self>) -> String {
        loop {
            let message = match self.association.recv().await {
                Ok(Some(message)) => message.into_bytes(),
                Ok(None) => return format!("the {} ended the association", self.peer()),
                Err(error) => return self.failure(&error),
            };
            let handled = Message::decode(message).map_err(Violation::from);
            if let Err(violation) = handled.and_then(|message| self.handle(message)) {
                return format!("the peer sent {violation}");
            }
        }
    }

    fn peer(&self) -> &'static str {
        if self.is_client { "server" } else { "client" }
    }

    /// Why the association failed. A peer that stops is no failure of the network or of the protocol.
    fn failure(&self, error: &impl Display) -> String {
        let text = error.to_string();
        match self.association.close_reason() {
            Some(CloseReason::AbortedByPeer(_)) if text.contains(&format!("({STOPS:?})")) => {
                format!("the {} stopped", self.peer())
            }
            // Its own text asks the application to connect again.
            Some(CloseReason::Unreachable) => format!("the {} stopped answering", self.peer()),
            _ => text,
        }
    }

    fn handle(self: &Arc<Self>, message: Message) -> Result<(), Violation> {
        match message {
            Message::Open { flow, rule } => self.on_open(flow, rule),
            Message::Data { flow, bytes } => match self.byte_flow(flow) {
                Some(known) => known.on_data(bytes, self),
                None => Ok(()),
            },
            Message::End { flow } => {
                if let Some(known) = self.byte_flow(flow) {
                    known.on_end();
                }
                Ok(())
            }
            Message::Reset { flow, reason } => {
                self.on_reset(flow, reason);
                Ok(())
            }
            Message::Credit { flow, credit } => match self.byte_flow(flow) {
                Some(known) if !known.credit.grant(credit) => Err(Violation::Credit),
                _ => Ok(()),
            },
            Message::Datagram { flow, rule, payload } => self.on_datagram(flow, rule, payload),
            Message::Unreachable { flow } => {
                self.on_unreachable(flow);
                Ok(())
            }
            Message::Hello(_) | Message::Welcome(_) | Message::Refusal { .. } => Err(Violation::Unexpected),
        }
    }

    fn byte_flow(&self, flow: FlowId) -> Option<Arc<ByteFlow>> {
        match lock(&self.table).get(flow) {
            Some(Entry::Bytes(flow)) => Some(Arc::clone(flow)),
            _ => None,
        }
    }

    fn on_reset(&self, flow: FlowId, reason: ResetReason) {
        let entry = lock(&self.table).get(flow).cloned();
        let rule = match &entry {
            Some(Entry::Bytes(flow)) => {
                flow.on_reset();
                flow.rule
            }
            Some(Entry::Datagrams(flow)) => {
                flow.refuse();
                flow.rule
            }
            None => return,
        };
        if reason != ResetReason::Connection {
            tracing::info!(?reason, "the peer refuses a flow of {}", self.describe(rule));
            self.rule(rule).counters.flows_refused.add(1);
        }
        match reason {
            ResetReason::Target => self.report_remote(rule, "it does not accept"),
            ResetReason::Forbidden => self.report_remote(rule, "the server does not permit its address"),
            ResetReason::Connection | ResetReason::Limit => {}
        }
    }

    /// No program receives the datagrams of a flow at the peer's end.
    fn on_unreachable(&self, flow: FlowId) {
        let entry = lock(&self.table).get(flow).cloned();
        if let Some(Entry::Datagrams(flow)) = entry {
            self.report_remote(flow.rule, "no program receives there");
        }
    }

    /// A rule of a known flow.
    fn rule(&self, rule: u16) -> &SessionRule {
        &self.rules[usize::from(rule)]
    }

    fn describe(&self, rule: u16) -> String {
        let own = self.rule(rule);
        match &own.dial {
            Some(dial) => format!("rule {rule} ({} to {})", own.protocol, dial.target),
            None => format!("rule {rule} ({})", own.protocol),
        }
    }

    /// Checks that the peer may open this flow by this rule.
    fn check_open(&self, flow: FlowId, rule: u16, protocol: Protocol) -> Result<(), Violation> {
        let fits = |rule: &SessionRule| rule.protocol == protocol && !rule.listens;
        let is_of_peer = flow.is_of_client() != self.is_client;
        match self.rules.get(usize::from(rule)) {
            Some(rule) if is_of_peer && fits(rule) => Ok(()),
            _ => Err(Violation::Flow),
        }
    }

    /// Tells the peer that a flow is refused. A peer that does not read the refusals that it causes loses the association.
    fn refuse(&self, flow: FlowId, rule: u16, reason: ResetReason) -> Result<(), Violation> {
        self.rule(rule).counters.flows_refused.add(1);
        let reset = Message::Reset { flow, reason };
        match self.association.try_send(CONTROL, reset.encode()) {
            Err(anabranch::SendError::BufferFull) => Err(Violation::Refusals),
            // The association has ended: `dispatch` finds out.
            _ => Ok(()),
        }
    }

    /// Tells the user that the target of a rule does not accept.
    fn report(&self, rule: u16, error: &io::Error) {
        let own = self.rule(rule);
        if let Some(dial) = &own.dial {
            self.failures.report(own.protocol, &dial.target, error);
        }
    }

    /// Tells the user that the peer does not reach the target of a rule, or may not.
    fn report_remote(&self, rule: u16, error: &str) {
        let own = self.rule(rule);
        if let Some(target) = &own.remote_target {
            self.failures.report_remote(own.protocol, target, error);
        }
    }

    /// The reason for the peer that a flow does not reach its target. The user hears of the target.
    fn judge(&self, rule: u16, error: &DialError) -> ResetReason {
        if let DialError::Target(error) = error {
            self.report(rule, error);
        }
        error.reason()
    }

    /// Removes a flow, and returns what it occupied.
    fn remove(&self, flow: FlowId) {
        let removed = lock(&self.table).remove(flow);
        let rule = match removed {
            Some(Entry::Bytes(flow)) => {
                self.memory.release(flow.reserved());
                flow.rule
            }
            Some(Entry::Datagrams(flow)) => flow.rule,
            None => return,
        };
        self.rule(rule).counters.flows.subtract(1);
    }

    fn remove_all(&self) {
        let flows = lock(&self.table).take_all();
        flows.into_iter().for_each(|flow| self.remove(flow));
    }

    /// Adds a flow that [`Table::add`] makes of its number and stream. `None` if a limit is reached.
    fn add(
        &self,
        flow: Option<FlowId>,
        rule: u16,
        make: impl FnOnce(FlowId, StreamId) -> Entry,
    ) -> Option<Entry> {
        let own = self.rule(rule);
        let entry = lock(&self.table).add(flow, make)?;
        own.counters.flows.add(1);
        own.counters.flows_opened.add(1);
        Some(entry)
    }

    /// Sends a message on a stream, reliably and in order.
    async fn send(&self, stream: StreamId, message: Bytes) -> Result<(), anabranch::SendError> {
        self.association.send(stream, message).await.map(|_| ())
    }

    /// Counts the datagrams that the association abandons: the context of a message is its rule.
    async fn count_abandoned(&self) {
        while let Some(event) = self.association.next_event().await {
            if let Event::Abandoned(message) = event
                && let Ok(rule) = usize::try_from(message.context)
                && let Some(rule) = self.rules.get(rule)
            {
                rule.counters.abandoned.add(1);
            }
        }
    }
}

impl Drop for Session {
    /// The gauges of the rules outlive the session.
    fn drop(&mut self) {
        self.remove_all();
    }
}

/// The priority class that the stream of a flow has; `None` before the first message, because an earlier flow may have set another one.
#[derive(Debug, Default)]
struct StreamClass(Option<u8>);

impl StreamClass {
    fn set(&mut self, association: &Association, stream: StreamId, class: u8) {
        if self.0.replace(class) != Some(class) {
            // The scheduler has priorities, and the stream exists: the table knows how many there are.
            let _ = association.set_stream_priority(stream, class.into());
        }
    }
}

/// Data below this size is copied out of the datagram in which it arrived, which it would otherwise keep in memory.
const COPIED: usize = 1024;

fn detached(bytes: Bytes) -> Bytes {
    if bytes.len() < COPIED {
        Bytes::copy_from_slice(&bytes)
    } else {
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{PORT, endpoint};

    #[tokio::test]
    async fn a_stream_gets_the_class_of_each_flow() {
        let limits = Limits::default();
        let bind = || async { endpoint(&limits).bind("127.0.0.1:0").await.expect("a free port") };
        let (server, client) = (bind().await, bind().await);
        server.listen_on_port(PORT).expect("a port");
        let association = client
            .connect_to_port(server.local_addr(), PORT)
            .await
            .expect("it answers");
        let stream = StreamId(1);
        let mut earlier = StreamClass::default();
        for class in [3, 0, 3] {
            earlier.set(&association, stream, class);
            assert_eq!(association.stream_priority(stream), u16::from(class));
        }
        StreamClass::default().set(&association, stream, 0);
        assert_eq!(association.stream_priority(stream), 0);
    }
}
