//! Flows of bytes: connections of TCP and of Unix stream sockets.

use std::io;
use std::sync::Arc;

use anabranch::StreamId;
use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::table::Entry;
use super::{CONTROL, Session, StreamClass, Violation, detached};
use crate::classify::Classifier;
use crate::lock::{Lock, lock};
use crate::memory::{Credit, Window};
use crate::rule::Protocol;
use crate::socket::{ByteListener, ByteSocket, PAUSE};
use crate::wire::{DATA_HEADER, FlowId, MESSAGE_COST, Message, ResetReason, cost, data_header};

/// A message of the peer for the program.
#[derive(Debug)]
enum Incoming {
    Data(Bytes),
    End,
    Reset,
}

/// The two directions of a flow.
#[derive(Debug)]
pub(super) struct ByteFlow {
    id: FlowId,
    pub(super) rule: u16,
    /// The stream on which this endpoint sends.
    pub(super) stream: StreamId,
    /// Data that the program has not taken. The window bounds it.
    incoming: UnboundedSender<Incoming>,
    pub(super) credit: Credit,
    window: Lock<Window>,
}

/// Why a flow ended before both directions did.
enum Stop {
    /// The local connection was reset.
    Local,
    /// The peer reset the flow, or the association ended.
    Peer,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Local
    }
}

impl From<anabranch::SendError> for Stop {
    fn from(_: anabranch::SendError) -> Self {
        Self::Peer
    }
}

impl ByteFlow {
    /// The memory that its window may occupy.
    pub(super) fn reserved(&self) -> usize {
        lock(&self.window).size()
    }

    pub(super) fn on_data(&self, bytes: Bytes, session: &Session) -> Result<(), Violation> {
        if !lock(&self.window).receive(bytes.len()) {
            return Err(Violation::Credit);
        }
        let counters = &session.rule(self.rule).counters;
        counters.messages_received.add(1);
        counters.bytes_received.add(bytes.len() as u64);
        // The flow may have ended meanwhile.
        let _ = self.incoming.send(Incoming::Data(detached(bytes)));
        Ok(())
    }

    pub(super) fn on_end(&self) {
        let _ = self.incoming.send(Incoming::End);
    }

    pub(super) fn on_reset(&self) {
        let _ = self.incoming.send(Incoming::Reset);
    }
}

/// Removes the flow when its task ends, for whatever reason.
struct Removal(Arc<Session>, FlowId);

impl Drop for Removal {
    fn drop(&mut self) {
        self.0.remove(self.1);
    }
}

impl Session {
    /// Makes the parts of a flow. `None` if a limit is reached.
    fn add_bytes(
        self: &Arc<Self>,
        flow: Option<FlowId>,
        rule: u16,
    ) -> Option<(Arc<ByteFlow>, UnboundedReceiver<Incoming>, Removal)> {
        let window = Window::default();
        let size = window.size();
        if !self.memory.reserve(size) {
            return None;
        }
        let (sender, receiver) = unbounded_channel();
        let make = |id, stream| {
            Entry::Bytes(Arc::new(ByteFlow {
                id,
                rule,
                stream,
                incoming: sender,
                credit: Credit::default(),
                window: Lock::new(window),
            }))
        };
        let Some(Entry::Bytes(flow)) = self.add(flow, rule, make) else {
            self.memory.release(size);
            return None;
        };
        let removal = Removal(Arc::clone(self), flow.id);
        Some((flow, receiver, removal))
    }

    /// Accepts the connections of programs.
    pub(super) async fn listen_bytes(self: &Arc<Self>, rule: u16, listener: &ByteListener) {
        loop {
            let socket = match listener.accept().await {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::warn!("{}: no connection is accepted: {error}", self.describe(rule));
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Some((flow, incoming, removal)) = self.add_bytes(None, rule) else {
                // Dropping the connection resets it.
                self.rule(rule).counters.flows_refused.add(1);
                continue;
            };
            let session = Arc::clone(self);
            self.spawn(async move {
                let _removal = removal;
                let open = Message::Open { flow: flow.id, rule };
                if session.send(flow.stream, open.encode()).await.is_ok() {
                    session.carry(&flow, incoming, socket).await;
                }
            });
        }
    }

    /// The peer opens a flow of bytes.
    pub(super) fn on_open(self: &Arc<Self>, flow: FlowId, rule: u16) -> Result<(), Violation> {
        self.check_open(flow, rule, Protocol::Tcp)?;
        if lock(&self.table).get(flow).is_some() {
            return Err(Violation::Flow);
        }
        let Some(dial) = self.rule(rule).dial.clone() else {
            return self.refuse(flow, rule, ResetReason::Forbidden);
        };
        let Some((flow, incoming, removal)) = self.add_bytes(Some(flow), rule) else {
            return self.refuse(flow, rule, ResetReason::Limit);
        };
        let session = Arc::clone(self);
        self.spawn(async move {
            let _removal = removal;
            match dial.connect().await {
                Ok(socket) => session.carry(&flow, incoming, socket).await,
                Err(error) => {
                    let reason = session.judge(rule, &error);
                    session.rule(rule).counters.flows_refused.add(1);
                    session.reset(&flow, reason).await;
                }
            }
        });
        Ok(())
    }

    async fn reset(&self, flow: &ByteFlow, reason: ResetReason) {
        let reset = Message::Reset {
            flow: flow.id,
            reason,
        };
        // If the association has ended, the peer needs no message.
        let _ = self.send(flow.stream, reset.encode()).await;
    }

    /// Moves bytes in both directions until both have ended, or the flow is reset.
    async fn carry(&self, flow: &ByteFlow, incoming: UnboundedReceiver<Incoming>, socket: ByteSocket) {
        let both =
            async { tokio::try_join!(self.upload(flow, &socket), self.download(flow, incoming, &socket)) };
        match both.await {
            Ok(_) => socket.finish(),
            Err(Stop::Peer) => {}
            Err(Stop::Local) => self.reset(flow, ResetReason::Connection).await,
        }
    }

    /// From the program to the peer.
    async fn upload(&self, flow: &ByteFlow, socket: &ByteSocket) -> Result<(), Stop> {
        let rule = self.rule(flow.rule);
        let (mut class, mut classifier) = (StreamClass::default(), Classifier::default());
        loop {
            socket.readable().await?;
            let credit = flow.credit.take().await;
            let most = (credit - MESSAGE_COST) as usize;
            let Some(message) = self.read_data(flow, socket, most)? else {
                flow.credit.restore(credit);
                continue;
            };
            let read = message.len() - DATA_HEADER;
            if read == 0 {
                let end = Message::End { flow: flow.id };
                return Ok(self.send(flow.stream, end.encode()).await?);
            }
            flow.credit.restore(credit - cost(read));
            if let Some(bucket) = &rule.bucket {
                let wait = lock(bucket).borrow(read, Instant::now());
                tokio::time::sleep(wait).await;
            }
            let wanted = rule.traffic.class.unwrap_or_else(|| classifier.judge_read(read));
            class.set(&self.association, flow.stream, wanted);
            self.send(flow.stream, message).await?;
            rule.counters.messages_sent.add(1);
            rule.counters.bytes_sent.add(read as u64);
        }
    }

    /// Reads a message from the program, without waiting.
    fn read_data(&self, flow: &ByteFlow, socket: &ByteSocket, most: usize) -> io::Result<Option<Bytes>> {
        let mut scratch = lock(&self.scratch);
        match socket.try_read(&mut scratch[..most]) {
            Ok(read) => {
                let mut message = BytesMut::with_capacity(DATA_HEADER + read);
                message.put_slice(&data_header(flow.id));
                message.put_slice(&scratch[..read]);
                Ok(Some(message.freeze()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// From the peer to the program.
    async fn download(
        &self,
        flow: &ByteFlow,
        mut incoming: UnboundedReceiver<Incoming>,
        socket: &ByteSocket,
    ) -> Result<(), Stop> {
        loop {
            match incoming.recv().await {
                Some(Incoming::Data(bytes)) => {
                    socket.write_all(&bytes).await?;
                    let keeps_up = incoming.is_empty();
                    let credit = lock(&flow.window).take(bytes.len(), keeps_up, &self.memory);
                    if let Some(credit) = credit {
                        let credit = Message::Credit {
                            flow: flow.id,
                            credit,
                        };
                        self.send(CONTROL, credit.encode()).await?;
                    }
                }
                Some(Incoming::End) => return Ok(socket.shut_down()?),
                Some(Incoming::Reset) | None => return Err(Stop::Peer),
            }
        }
    }
}
