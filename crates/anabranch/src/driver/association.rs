//! One association: the core's state behind a lock, and the task that handles its inbox and timers.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use anabranch_proto::{
    AssociationId, AssociationState, CloseReason, EndpointEvent, Event, Inbound, PathError, PathId, StreamId,
    StreamItem, Timestamp, Transmit,
};
use tokio::sync::Notify;

use super::dtls::{Bond, Origin};
use super::events::Events;
use super::inbox::{Inbox, Input, Taken};
use super::{Hub, lock};
use crate::error::RecvError;
use crate::message::{Joiner, Message};
use crate::observe::Watched;
use crate::readers::Readers;
use crate::senders::Senders;
use crate::socket::{Outgoing, Socket};
use crate::stream::Look;

/// Limit of send errors in a row. Then other tasks run.
const MAX_ERRORS: usize = 16;
/// Limit of answers while one batch of packets is handled. An answer to each packet would cost a system call for every second
/// packet. One answer to all of them would give the sender one missing report for a lost chunk, but fast retransmission needs
/// three (RFC 9260 §7.2.4).
const ANSWERS_PER_BATCH: usize = 8;
/// Packets longer than this many bytes on average come from this machine, where no packet is lost. Over DTLS they have at most 16 KiB; an
/// answer to every second one would cost a fifth of the receiver's processor time.
const LARGE_PACKET: usize = 8 << 10;
/// So many bytes of large packets get one answer.
const LARGE_ANSWER: usize = 64 << 10;

/// One association, shared by its handles, its task and its endpoint.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) id: AssociationId,
    /// The peer in the eyes of the layer below.
    pub(crate) bond: Bond,
    /// Where the association's trace events go.
    watched: Watched,
    state: Mutex<State>,
    /// Calls of the application that wait for the lock: `transmit` lets them run first after each burst.
    waiting: AtomicUsize,
    /// Emptied only under the state's lock, to keep the packets in order.
    inbox: Mutex<Inbox>,
    max_datagrams: usize,
    /// The task must run: there is input or data to send, or a timer expires earlier.
    drive: Notify,
    /// `recv` may find a message.
    pub(crate) readable: Notify,
    /// The association was established, drained or closed, or an event waits.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Box<anabranch_proto::Association>,
    /// The current batch of packets; it stays here while the socket is full.
    buffer: Vec<u8>,
    blocked: Option<(PathId, Outgoing)>,
    /// When the task's timer expires.
    armed: Option<Timestamp>,
    clock: Timestamp,
    pub(crate) events: Events,
    pub(crate) joiner: Joiner,
    pub(crate) senders: Senders,
    pub(crate) readers: Readers,
    pub(crate) established: bool,
    /// Every sent message is acknowledged or abandoned.
    pub(crate) dry: bool,
    pub(crate) closed: Option<CloseReason>,
    /// No handle is left: received messages are dropped, so that the peer can complete the shutdown.
    pub(crate) abandoned: bool,
    /// The system's last error in sending; `None` after a packet was sent.
    pub(crate) refused: Option<io::Error>,
    /// The last content of the inbox; kept to reuse its memory.
    inputs: Vec<Input>,
    gone: bool,
    /// A test makes the association's code panic at the next packet.
    #[cfg(test)]
    pub(super) panics: bool,
}

/// The work to do after the lock is released.
#[derive(Debug, Default)]
struct Aftermath {
    readable: bool,
    changed: bool,
    drive: bool,
    /// More data may be ready to send: `transmit` stopped after a burst, or after several errors.
    again: bool,
    /// Packets that arrived after the association had ended.
    unread: Vec<Inbound>,
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// The batch that the core has written.
pub(super) fn outgoing(transmit: &Transmit) -> Outgoing {
    Outgoing {
        source: transmit.source,
        destination: transmit.destination,
        len: transmit.len,
        segment: transmit.segment_size.unwrap_or(transmit.len).max(1),
        may_fragment: transmit.may_fragment,
        ecn: transmit.ecn,
        dscp: transmit.dscp,
        sent: 0,
    }
}

/// How many answers leave while `count` inputs of so many bytes are handled.
fn answers(count: usize, bytes: usize) -> usize {
    if bytes > count * LARGE_PACKET {
        bytes.div_ceil(LARGE_ANSWER)
    } else {
        ANSWERS_PER_BATCH
    }
}

impl Shared {
    /// The state, for the application.
    fn lock_for_application(&self) -> MutexGuard<'_, State> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = lock(&self.state);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    pub(super) fn new(
        hub: Arc<Hub>,
        id: AssociationId,
        core: Box<anabranch_proto::Association>,
        watched: Watched,
        origin: Origin,
    ) -> Self {
        let max_datagrams = hub.max_datagrams();
        let bond = Bond::new(core.remote_address(), origin);
        let state = State {
            core,
            buffer: Vec::new(),
            blocked: None,
            armed: None,
            clock: Timestamp::ZERO,
            events: Events::default(),
            joiner: Joiner::default(),
            senders: Senders::default(),
            readers: Readers::default(),
            established: false,
            dry: true,
            closed: None,
            abandoned: false,
            refused: None,
            inputs: Vec::new(),
            gone: false,
            #[cfg(test)]
            panics: false,
        };
        Self {
            hub,
            id,
            bond,
            watched,
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            inbox: Mutex::default(),
            max_datagrams,
            drive: Notify::new(),
            readable: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// Runs `work` on the association, and then sends and reports the results at once.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        self.try_with(work).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Like `with`, but returns a panic of the association's code to the caller instead of unwinding.
    pub(crate) fn try_with<R>(&self, work: impl FnOnce(&mut State, Timestamp) -> R) -> Result<R, Panic> {
        let mut state = self.lock_for_application();
        let mut after = Aftermath::default();
        let result = self.guard(&mut state, &mut after, |state, after| {
            let now = state.tick(self.hub.now());
            let result = work(state, now);
            self.drain(state, now, after);
            result
        });
        self.conclude(state, after);
        result
    }

    /// Runs `work` on the association. Its task sends and reports the results, so that messages of several calls in a row leave
    /// together.
    pub(crate) fn with_later<R>(&self, work: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let mut state = self.lock_for_application();
        let mut after = Aftermath::default();
        let result = self.guard(&mut state, &mut after, |state, _| {
            let now = state.tick(self.hub.now());
            work(state, now)
        });
        after.drive = true;
        self.conclude(state, after);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Reads the association.
    pub(crate) fn read<R>(&self, work: impl FnOnce(&State) -> R) -> R {
        work(&lock(&self.state))
    }

    /// Removes a task from the queue for the send buffer.
    pub(crate) fn let_go(&self, place: crate::senders::Place) {
        lock(&self.state).senders.leave(place);
    }

    /// Runs the association's code. A panic in it ends only this association.
    fn guard<R>(
        &self,
        state: &mut State,
        after: &mut Aftermath,
        work: impl FnOnce(&mut State, &mut Aftermath) -> R,
    ) -> Result<R, Panic> {
        let result = catch_unwind(AssertUnwindSafe(|| work(state, after)));
        if result.is_err() {
            tracing::error!(
                association = self.id.0,
                "the association's code panicked, which ends it"
            );
            state.fail(after);
            // Try to send the peer an ABORT.
            let last = AssertUnwindSafe(|| self.drain(state, state.clock, after));
            let _ = catch_unwind(last);
            // The panicked association may not have reported its end.
            self.hub.handle_events(self.id, [EndpointEvent::Closed]);
        }
        result
    }

    /// Adds an input of `len` bytes to the inbox.
    pub(super) fn take_in(&self, input: Input, len: usize) -> Taken {
        lock(&self.inbox).push(input, len)
    }

    /// Wakes the association's task.
    pub(super) fn wake(&self) {
        self.drive.notify_one();
    }

    /// Handles the inbox, and sends and reports the results; false if another thread holds the association's lock. The caller
    /// must not hold the endpoint's lock.
    pub(super) fn try_work(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut after = Aftermath::default();
        // `guard` has handled a panic.
        let _ = self.guard(&mut state, &mut after, |state, after| {
            let now = self.work(state, after);
            self.drain(state, now, after);
        });
        self.conclude(state, after);
        true
    }

    /// Handles the inbox, and sends answers several times meanwhile (`ANSWERS_PER_BATCH`).
    fn work(&self, state: &mut State, after: &mut Aftermath) -> Timestamp {
        let now = state.tick(self.hub.now());
        lock(&self.inbox).take(&mut state.inputs);
        let mut inputs = std::mem::take(&mut state.inputs);
        let bytes = inputs.iter().map(Input::len).sum();
        let step = inputs.len().div_ceil(answers(inputs.len(), bytes)).max(1);
        for (number, input) in inputs.drain(..).enumerate() {
            if number > 0 && number % step == 0 {
                self.drain(state, now, after);
            }
            match input {
                Input::Packet(inbound) if state.core.state() == AssociationState::Closed => {
                    after.unread.push(inbound);
                }
                Input::Packet(inbound) => state.handle_packet(now, inbound),
                Input::Icmp(message) => state.core.handle_icmp(now, &message),
                Input::TooLarge(mtu) => {
                    state
                        .core
                        .handle_path_error(now, PathId(0), PathError::TooLarge(mtu));
                }
            }
        }
        state.inputs = inputs;
        now
    }

    /// Sends packets, collects events for the application, and sets `after.drive` if the task must run before its timer expires.
    fn drain(&self, state: &mut State, now: Timestamp, after: &mut Aftermath) {
        if state.abandoned {
            while state.core.recv(now).is_some() {}
        }
        // The packets to send may announce a new verification tag or address, which the answers will use.
        self.tell_endpoint(state);
        after.drive = !self.transmit(state, now);
        after.again = after.drive && state.blocked.is_none();
        self.tell_endpoint(state);
        while let Some(event) = state.core.poll_event() {
            state.on_event(event, after);
        }
        if let Some(due) = state.core.poll_timeout()
            && state.armed.is_none_or(|armed| due < armed)
        {
            after.drive = true;
        }
        after.drive |= state.closed.is_some() && !state.gone;
        while let Some(event) = state.core.poll_trace() {
            self.hub.observers.tell(&self.watched, &event);
        }
    }

    fn tell_endpoint(&self, state: &mut State) {
        let events = std::iter::from_fn(|| state.core.poll_endpoint_event());
        self.hub.handle_events(self.id, events);
    }

    /// Releases the lock, and does the remaining work.
    fn conclude(&self, state: MutexGuard<'_, State>, after: Aftermath) {
        drop(state);
        if !after.unread.is_empty() {
            self.hub.route_again(after.unread, self.bond.origin());
        }
        if after.drive {
            self.drive.notify_one();
        }
        if after.readable {
            self.readable.notify_waiters();
        }
        if after.changed {
            self.changed.notify_waiters();
        }
    }

    /// Sends the packets that the core has ready. False if more may be ready: a burst was sent, the socket is full, or it
    /// reports errors.
    fn transmit(&self, state: &mut State, now: Timestamp) -> bool {
        for _ in 0..MAX_ERRORS {
            match self.transmit_until_error(state, now) {
                Ok(all) => return all,
                Err((_, error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err((path, error)) => {
                    let reported = path_error(&error);
                    tracing::debug!(association = self.id.0, %path, %error, ?reported, "a packet was not sent");
                    if let Some(reported) = reported {
                        state.core.handle_path_error(now, path, reported);
                    }
                    state.refused = Some(error);
                }
            }
        }
        false
    }

    /// False if more packets may be ready: the burst that the path's rate allows was sent, and a call of the application waits
    /// for the lock. This call runs first, because it may send a more urgent message.
    fn transmit_until_error(&self, state: &mut State, now: Timestamp) -> Result<bool, (PathId, io::Error)> {
        let limit = state.core.burst_limit();
        let max_datagrams = self.max_datagrams.min(limit.datagrams);
        let mut sent = 0_usize;
        loop {
            let (path, mut batch) = match state.blocked.take() {
                Some(blocked) => blocked,
                None => {
                    state.buffer.clear();
                    match state.core.poll_transmit(now, &mut state.buffer, max_datagrams) {
                        Some(transmit) => {
                            let mut batch = outgoing(&transmit);
                            self.hub.capture_sent(now, &batch, &state.buffer);
                            self.hub.seal_for(self, &mut batch, &mut state.buffer);
                            (transmit.path, batch)
                        }
                        None => return Ok(true),
                    }
                }
            };
            match self.hub.try_send(&mut batch, &state.buffer) {
                Ok(()) => {
                    state.refused = None;
                    sent += batch.len;
                    if sent >= limit.bytes && self.waiting.load(Ordering::Relaxed) > 0 {
                        return Ok(false);
                    }
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::WouldBlock {
                        state.blocked = Some((path, batch));
                    }
                    return Err((path, error));
                }
            }
        }
    }

    /// The association's task: it handles the inbox and timers, and sends the application's messages.
    pub(super) async fn drive(self: Arc<Self>) {
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            let (armed, full, again) = {
                let mut state = lock(&self.state);
                let mut after = Aftermath::default();
                // `guard` has handled a panic.
                let _ = self.guard(&mut state, &mut after, |state, after| {
                    let now = self.work(state, after);
                    if state.core.poll_timeout().is_some_and(|due| due <= now) {
                        state.core.handle_timeout(now);
                        self.hub.doubt_dtls(&self, state);
                    }
                    self.drain(state, now, after);
                });
                let full = state.blocked.and_then(|(_, batch)| self.hub.socket_for(&batch));
                state.armed = state.core.poll_timeout();
                // This task is running: it waits for the timer and the full socket below, and needs no notice for them.
                after.drive = after.again;
                state.gone = state.closed.is_some() && full.is_none();
                let (armed, gone, again) = (state.armed, state.gone, after.again);
                self.conclude(state, after);
                if gone {
                    break;
                }
                (armed, full, again)
            };
            if again {
                // Tasks that wait to send come first.
                tokio::task::yield_now().await;
            }
            if let Some(due) = armed {
                sleep.as_mut().reset(self.hub.instant(due));
            }
            tokio::select! {
                () = self.drive.notified() => {}
                () = &mut sleep, if armed.is_some() => {}
                () = writable(full), if full.is_some() => {}
            }
        }
        let ((port, _), in_order) = self.read(|state| {
            let in_order = matches!(state.closed, Some(CloseReason::Shutdown));
            (state.core.ports(), in_order)
        });
        self.hub.forget(self.id, port, in_order);
    }
}

async fn writable(socket: Option<&Socket>) {
    if let Some(socket) = socket {
        socket.writable().await;
    }
}

/// The path error that a socket's error means; `None` if the error says nothing about the path.
fn path_error(error: &io::Error) -> Option<PathError> {
    if quinn_udp::is_msg_size_err(error) {
        return Some(PathError::TooLarge(None));
    }
    match error.kind() {
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable => Some(PathError::Unreachable),
        _ => None,
    }
}

impl State {
    /// The present time. Threads may read the clock before they take the lock, but the core's time must not run backwards.
    fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// The next whole message, or the error of a message that is too large.
    pub(crate) fn next_message(
        &mut self,
        now: Timestamp,
        limit: usize,
    ) -> Option<Result<Message, RecvError>> {
        loop {
            let part = self.core.recv(now)?;
            if let Some(answer) = self.joiner.push(part, limit) {
                return Some(answer);
            }
        }
    }

    /// The same for a stream that is read by handle.
    pub(crate) fn next_message_of(
        &mut self,
        stream: StreamId,
        now: Timestamp,
        limit: usize,
    ) -> Look<Message> {
        loop {
            match self.core.stream(now, stream).recv() {
                None => return Look::Nothing,
                Some(StreamItem::Reset) => return Look::End,
                Some(StreamItem::Part(part)) => {
                    if let Some(answer) = self.joiner.push(part, limit) {
                        return Look::One(answer);
                    }
                }
            }
        }
    }

    fn handle_packet(&mut self, now: Timestamp, inbound: Inbound) {
        #[cfg(test)]
        assert!(!self.panics, "a test wants this panic");
        self.core.handle_packet(now, inbound);
    }

    /// Ends the association after a panic in its code. State that the panic may have left inconsistent is not used any more.
    fn fail(&mut self, after: &mut Aftermath) {
        self.core.fail();
        self.joiner.clear();
        self.inputs.clear();
        self.blocked = None;
        self.on_event(Event::Closed(CloseReason::InternalError), after);
    }

    fn on_event(&mut self, event: Event, after: &mut Aftermath) {
        match event {
            Event::Established { .. } => {
                self.established = true;
                after.changed = true;
            }
            Event::Readable => after.readable = true,
            Event::Writable(stream) => self.senders.wake_next(stream),
            Event::StreamReadable(stream) => self.readers.wake(stream),
            Event::StreamOpened(stream) => {
                self.readers.on_opened(stream);
                after.changed = true;
            }
            Event::BufferedAmountLow(stream) => self.readers.on_low(stream),
            Event::Dry => {
                self.dry = true;
                after.changed = true;
            }
            Event::Closed(reason) => {
                self.closed.get_or_insert(reason);
                self.senders.wake_all();
                self.readers.wake_all();
                (after.readable, after.changed) = (true, true);
            }
            event => {
                if event == Event::Restarted {
                    self.joiner.clear();
                }
                if event == Event::PeerShutdown {
                    // Tasks that wait for room must learn that there will be none.
                    self.senders.wake_all();
                }
                self.events.push(event);
                after.changed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
