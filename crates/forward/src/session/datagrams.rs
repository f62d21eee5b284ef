//! Flows of datagrams: the sources of UDP.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anabranch::{Reliability, SendOptions, StreamId};
use bytes::{BufMut, Bytes, BytesMut};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::table::Entry;
use super::{CONTROL, Session, StreamClass, Violation, detached};
use crate::classify::{Classifier, LIFETIME, Media};
use crate::dial::DialError;
use crate::lock::{Lock, lock};
use crate::pace::Bucket;
use crate::rule::{Protocol, Traffic};
use crate::socket::Listener;
use crate::wire::{DATAGRAM_HEADER, FlowId, MOST_DATAGRAM, Message, ResetReason, datagram_header};

/// Datagrams that wait for the target's socket.
const WAITING: usize = 256;
/// The memory of a waiting datagram beside its bytes.
const OVERHEAD: usize = 256;
/// Datagrams of a socket that are read before other tasks run.
const BATCH: usize = 64;
/// How often in its idle time a flow is checked.
const CHECKS: u32 = 4;

/// Where datagrams of the peer go.
#[derive(Debug)]
enum Sink {
    /// From the listening socket to the source of the flow.
    Source(Arc<Listener>, SocketAddr),
    /// To the task that owns the socket towards the target.
    Target(mpsc::Sender<Bytes>),
}

/// The judgement about the flow, and the class that its stream has.
#[derive(Debug, Default)]
struct Class {
    classifier: Classifier,
    of_stream: StreamClass,
}

/// A flow.
#[derive(Debug)]
pub(super) struct DatagramFlow {
    id: FlowId,
    pub(super) rule: u16,
    /// The stream on which this endpoint sends.
    pub(super) stream: StreamId,
    sink: Sink,
    used: Lock<Instant>,
    /// The peer or the policy refuses the flow: its datagrams are dropped until it is idle.
    is_refused: AtomicBool,
    /// The peer was told that no program receives at the target, and no answer has come since.
    is_unreachable: AtomicBool,
    class: Lock<Class>,
}

impl DatagramFlow {
    fn new(id: FlowId, rule: u16, stream: StreamId, sink: Sink) -> Self {
        Self {
            id,
            rule,
            stream,
            sink,
            used: Lock::new(Instant::now()),
            is_refused: AtomicBool::new(false),
            is_unreachable: AtomicBool::new(false),
            class: Lock::default(),
        }
    }

    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    fn is_idle(&self, time: Duration) -> bool {
        lock(&self.used).elapsed() >= time
    }
}

/// How a datagram of this traffic is sent.
fn options(traffic: &Traffic, rule: u16, media: Option<Media>) -> SendOptions {
    let options = SendOptions::default().context(rule.into());
    let deadline = traffic.deadline.or(media.map(Media::deadline));
    let options = match deadline {
        Some(deadline) => options.deadline(deadline),
        None => options.reliability(Reliability::Lifetime(LIFETIME)),
    };
    options.unordered(!traffic.ordered && !media.is_some_and(Media::is_ordered))
}

/// Checks of idle flows.
fn checks(idle: Duration) -> tokio::time::Interval {
    let mut checks = tokio::time::interval(idle / CHECKS);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

impl Session {
    /// Sends a datagram, or drops it if the rule's rate or the buffer of its stream is exhausted.
    fn send_datagram(&self, flow: &DatagramFlow, payload: &[u8]) {
        flow.touch();
        let rule = self.rule(flow.rule);
        let has_rate = |bucket: &Lock<Bucket>| lock(bucket).take(payload.len(), Instant::now());
        if flow.is_refused.load(Ordering::Relaxed) || !rule.bucket.as_ref().is_none_or(has_rate) {
            rule.counters.dropped.add(1);
            return;
        }
        let media = {
            let mut class = lock(&flow.class);
            let judged = class.classifier.judge(payload);
            let wanted = rule.traffic.class.unwrap_or(judged);
            class.of_stream.set(&self.association, flow.stream, wanted);
            class.classifier.media()
        };
        let mut message = BytesMut::with_capacity(DATAGRAM_HEADER + payload.len());
        message.put_slice(&datagram_header(flow.id, flow.rule));
        message.put_slice(payload);
        let options = options(&rule.traffic, flow.rule, media);
        match self.association.try_send_with(flow.stream, message, options) {
            Ok(_) => {
                rule.counters.messages_sent.add(1);
                rule.counters.bytes_sent.add(payload.len() as u64);
            }
            Err(_) => rule.counters.dropped.add(1),
        }
    }

    /// Forwards the datagrams of programs. Each source is a flow.
    pub(super) async fn listen_datagrams(self: &Arc<Self>, rule: u16, listener: &Arc<Listener>) {
        let Listener::Datagrams(socket) = &**listener else {
            return;
        };
        // Before the runtime has heard that a new socket is writable, answers would be dropped.
        let _ = socket.writable().await;
        let idle = self.rule(rule).traffic.idle;
        let mut checks = checks(idle);
        let mut sources = Sources {
            session: self,
            flows: BTreeMap::new(),
        };
        loop {
            tokio::select! {
                _ = checks.tick() => sources.end_idle(idle),
                ready = socket.readable() => match ready {
                    Ok(()) => sources.read(socket, rule, listener),
                    Err(error) => {
                        tracing::warn!("{}: {error}", self.describe(rule));
                        return;
                    }
                },
            }
            tokio::task::consume_budget().await;
        }
    }

    /// A datagram of the peer.
    pub(super) fn on_datagram(
        self: &Arc<Self>,
        id: FlowId,
        rule: u16,
        payload: Bytes,
    ) -> Result<(), Violation> {
        let known = lock(&self.table).get(id).cloned();
        let flow = match known {
            Some(Entry::Datagrams(flow)) => flow,
            Some(Entry::Bytes(_)) => return Err(Violation::Flow),
            // A late answer to a flow that was idle.
            None if id.is_of_client() == self.is_client => return Ok(()),
            None => match self.open_datagrams(id, rule)? {
                Some(flow) => flow,
                None => return Ok(()),
            },
        };
        flow.touch();
        let counters = &self.rule(flow.rule).counters;
        let len = payload.len();
        if self.deliver(&flow, payload) {
            counters.messages_received.add(1);
            counters.bytes_received.add(len as u64);
        } else {
            counters.dropped.add(1);
        }
        Ok(())
    }

    /// Gives a datagram to the program. Returns whether the socket took it.
    fn deliver(&self, flow: &DatagramFlow, payload: Bytes) -> bool {
        match &flow.sink {
            Sink::Source(listener, source) => match &**listener {
                Listener::Datagrams(socket) => socket.try_send_to(&payload, *source).is_ok(),
                Listener::Bytes(_) => false,
            },
            Sink::Target(_) if flow.is_refused.load(Ordering::Relaxed) => false,
            Sink::Target(waiting) => {
                let size = payload.len() + OVERHEAD;
                if !self.memory.reserve(size) {
                    return false;
                }
                let fits = waiting.try_send(detached(payload)).is_ok();
                if !fits {
                    self.memory.release(size);
                }
                fits
            }
        }
    }

    /// The first datagram of a flow of the peer.
    fn open_datagrams(
        self: &Arc<Self>,
        id: FlowId,
        rule: u16,
    ) -> Result<Option<Arc<DatagramFlow>>, Violation> {
        self.check_open(id, rule, Protocol::Udp)?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let make = |id, stream| {
            let flow = DatagramFlow::new(id, rule, stream, Sink::Target(sender));
            Entry::Datagrams(Arc::new(flow))
        };
        let Some(Entry::Datagrams(flow)) = self.add(Some(id), rule, make) else {
            self.refuse(id, rule, ResetReason::Limit)?;
            return Ok(None);
        };
        let (session, served) = (Arc::clone(self), Arc::clone(&flow));
        self.spawn(async move {
            session.serve_datagrams(&served, receiver).await;
            session.remove(served.id);
        });
        Ok(Some(flow))
    }

    /// Moves datagrams between the peer and the target until the flow is idle.
    async fn serve_datagrams(&self, flow: &DatagramFlow, mut waiting: mpsc::Receiver<Bytes>) {
        let rule = self.rule(flow.rule);
        let idle = rule.traffic.idle;
        let opened = match &rule.dial {
            Some(dial) => dial.open_datagrams().await,
            None => Err(DialError::Forbidden),
        };
        let mut checks = checks(idle);
        let socket = match opened {
            Ok(socket) => socket,
            Err(error) => {
                let reason = self.judge(flow.rule, &error);
                flow.refuse();
                // The dispatcher ends the association if its refusals are not read; this one is worth less.
                let _ = self.refuse(flow.id, flow.rule, reason);
                while let Ok(payload) = waiting.try_recv() {
                    self.memory.release(payload.len() + OVERHEAD);
                }
                // Until then the flow stays known, so that its next datagrams do not resolve the name again.
                while !flow.is_idle(idle) {
                    checks.tick().await;
                }
                return;
            }
        };
        loop {
            tokio::select! {
                payload = waiting.recv() => {
                    let Some(payload) = payload else { return };
                    self.memory.release(payload.len() + OVERHEAD);
                    self.send_to_target(flow, &socket, &payload).await;
                }
                ready = socket.readable() => {
                    if ready.is_err() {
                        return;
                    }
                    self.read_answers(flow, &socket);
                }
                _ = checks.tick() => if flow.is_idle(idle) { return },
            }
            tokio::task::consume_budget().await;
        }
    }

    fn read_answers(&self, flow: &DatagramFlow, socket: &UdpSocket) {
        let mut scratch = lock(&self.scratch);
        for _ in 0..BATCH {
            match socket.try_recv(&mut scratch) {
                Ok(len) => {
                    flow.is_unreachable.store(false, Ordering::Relaxed);
                    self.send_datagram(flow, &scratch[..len.min(MOST_DATAGRAM)]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The system reports here that the target's port is closed (ICMP). It may open again.
                Err(error) => {
                    self.report_closed(flow, &error);
                }
            }
        }
    }

    async fn send_to_target(&self, flow: &DatagramFlow, socket: &UdpSocket, payload: &[u8]) {
        let mut sent = socket.send(payload).await;
        if let Err(error) = &sent
            && self.report_closed(flow, error)
        {
            // The system reports here what happened to an earlier datagram, and has not sent this one.
            sent = socket.send(payload).await;
        }
        if sent.is_err() {
            self.rule(flow.rule).counters.dropped.add(1);
        }
    }

    /// If no program has received an earlier datagram at the target, it was dropped, and the users of both ends hear of it. Other errors concern
    /// one datagram, such as one that is too long.
    fn report_closed(&self, flow: &DatagramFlow, error: &io::Error) -> bool {
        let is_closed = error.kind() == io::ErrorKind::ConnectionRefused;
        if is_closed {
            self.rule(flow.rule).counters.dropped.add(1);
            self.report(flow.rule, error);
            if !flow.is_unreachable.swap(true, Ordering::Relaxed) {
                // It is worth less than what else waits, if the buffer is full.
                let unreachable = Message::Unreachable { flow: flow.id };
                let _ = self.association.try_send(CONTROL, unreachable.encode());
            }
        }
        is_closed
    }
}

/// The sources that send to one listening socket.
struct Sources<'a> {
    session: &'a Arc<Session>,
    flows: BTreeMap<SocketAddr, Arc<DatagramFlow>>,
}

impl Sources<'_> {
    fn read(&mut self, socket: &UdpSocket, rule: u16, listener: &Arc<Listener>) {
        let session = Arc::clone(self.session);
        let mut scratch = lock(&session.scratch);
        for _ in 0..BATCH {
            match socket.try_recv_from(&mut scratch) {
                Ok((len, source)) => match self.flow(rule, source, listener) {
                    Some(flow) => session.send_datagram(&flow, &scratch[..len.min(MOST_DATAGRAM)]),
                    None => session.rule(rule).counters.dropped.add(1),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The system reports here that a source's port is closed (ICMP).
                Err(_) => {}
            }
        }
    }

    /// The flow of a source; `None` if there are too many.
    fn flow(&mut self, rule: u16, source: SocketAddr, listener: &Arc<Listener>) -> Option<Arc<DatagramFlow>> {
        if let Some(flow) = self.flows.get(&source) {
            return Some(Arc::clone(flow));
        }
        let make = |id, stream| {
            let sink = Sink::Source(Arc::clone(listener), source);
            Entry::Datagrams(Arc::new(DatagramFlow::new(id, rule, stream, sink)))
        };
        let Some(Entry::Datagrams(flow)) = self.session.add(None, rule, make) else {
            return None;
        };
        self.flows.insert(source, Arc::clone(&flow));
        Some(flow)
    }

    fn end_idle(&mut self, idle: Duration) {
        self.flows.retain(|_, flow| {
            let stays = !flow.is_idle(idle);
            if !stays {
                self.session.remove(flow.id);
            }
            stays
        });
    }
}

impl Drop for Sources<'_> {
    fn drop(&mut self) {
        for flow in self.flows.values() {
            self.session.remove(flow.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_rule() {
        let mut traffic = Traffic::default();
        let plain = options(&traffic, 3, None);
        assert_eq!(
            (plain.deadline, plain.reliability, plain.unordered, plain.context),
            (None, Reliability::Lifetime(LIFETIME), true, 3)
        );
        let rtp = options(&traffic, 3, Some(Media::Rtp));
        assert_eq!((rtp.deadline, rtp.unordered), (Some(Media::Rtp.deadline()), true));
        let latency = Some(Duration::from_secs(2));
        let srt = options(&traffic, 3, Some(Media::Srt { latency }));
        assert_eq!(
            (srt.deadline, srt.unordered),
            (latency, false),
            "as its handshake says, and in order"
        );
        traffic.deadline = Some(Duration::from_millis(80));
        traffic.ordered = true;
        let timed = options(&traffic, 3, Some(Media::Rtp));
        assert_eq!((timed.deadline, timed.unordered), (traffic.deadline, false));
    }
}
