//! One association at work: the core's state behind a lock, and the task that keeps its timers.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use anabranch_proto::{
    AssociationId, AssociationState, CloseReason, EndpointEvent, Event, Inbound, PathError, PathId,
    Timestamp, Transmit,
};
use tokio::sync::Notify;

use super::events::Events;
use super::inbox::{Inbox, Input, Taken};
use super::{Hub, lock};
use crate::error::RecvError;
use crate::message::{Joiner, Message};
use crate::senders::Senders;
use crate::socket::{Outgoing, Socket};

/// Errors of a socket taken in a row before other tasks get their turn.
const MAX_ERRORS: usize = 16;
/// How often an association may answer while packets that came together are handled. An answer to each would cost a system
/// call for every second packet; one to all of them would tell a sender of a loss once, where it waits to be told three
/// times (RFC 9260 §7.2.4).
const ANSWERS_PER_BATCH: usize = 8;

/// One association, shared by its handles, its task and its endpoint.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) id: AssociationId,
    state: Mutex<State>,
    /// Those who wait for it to do the application's work: what is to be sent may let them come first.
    waiting: AtomicUsize,
    /// Emptied only under the state's lock, so that packets stay in order.
    inbox: Mutex<Inbox>,
    max_datagrams: usize,
    /// The task is to look again: there is something to send, or an earlier timer.
    drive: Notify,
    /// `recv` may find something.
    pub(crate) readable: Notify,
    /// Established, drained, closed, or an event is there.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) core: Box<anabranch_proto::Association>,
    /// Batches are made here, and stay while the socket is full.
    buffer: Vec<u8>,
    blocked: Option<(PathId, Outgoing)>,
    /// When the task wakes up by itself.
    armed: Option<Timestamp>,
    clock: Timestamp,
    pub(crate) events: Events,
    pub(crate) joiner: Joiner,
    pub(crate) senders: Senders,
    pub(crate) established: bool,
    /// Nothing that was sent is still without acknowledgement.
    pub(crate) dry: bool,
    pub(crate) closed: Option<CloseReason>,
    /// No handle is left: what comes is dropped, so that the peer can finish.
    pub(crate) abandoned: bool,
    /// Why the system sends nothing, if it sent nothing since.
    pub(crate) refused: Option<io::Error>,
    /// The last content of the inbox; kept to reuse its memory.
    inputs: Vec<Input>,
    gone: bool,
    /// A test wants the association's code to panic at the next packet.
    #[cfg(test)]
    pub(super) panics: bool,
}

/// Work that is left when the lock is released.
#[derive(Debug, Default)]
struct Aftermath {
    readable: bool,
    changed: bool,
    drive: bool,
    /// The socket told errors, or has enough at once, and there may be more to send.
    again: bool,
    /// Packets that came when it was over.
    unread: Vec<Inbound>,
}

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

/// A batch as the core made it.
pub(super) fn outgoing(transmit: &Transmit) -> Outgoing {
    Outgoing {
        source: transmit.source,
        destination: transmit.destination,
        len: transmit.len,
        segment: transmit.segment_size.unwrap_or(transmit.len).max(1),
        may_fragment: transmit.may_fragment,
        ecn: transmit.ecn,
        sent: 0,
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

    pub(super) fn new(hub: Arc<Hub>, id: AssociationId, core: Box<anabranch_proto::Association>) -> Self {
        let max_datagrams = hub.max_datagrams();
        let state = State {
            core,
            buffer: Vec::new(),
            blocked: None,
            armed: None,
            clock: Timestamp::ZERO,
            events: Events::default(),
            joiner: Joiner::default(),
            senders: Senders::default(),
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
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            inbox: Mutex::default(),
            max_datagrams,
            drive: Notify::new(),
            readable: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// Works on the association, and does at once what follows of it.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        self.try_with(work).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The same for a caller that has nothing to do with it if the association's code panics.
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

    /// Works on the association, and leaves what follows of it to its task: messages given in a row leave together.
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

    /// Lets a sender that waited for room go.
    pub(crate) fn let_go(&self, place: crate::senders::Place) {
        lock(&self.state).senders.leave(place);
    }

    /// Runs the association's code: a panic in it ends this association and nothing else.
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
            // The peer is to be told, if that is possible.
            let last = AssertUnwindSafe(|| self.drain(state, state.clock, after));
            let _ = catch_unwind(last);
            // The panicked association may not have reported its end.
            self.hub.handle_events(self.id, [EndpointEvent::Closed]);
        }
        result
    }

    /// Takes something of so many bytes into the inbox.
    pub(super) fn take_in(&self, input: Input, len: usize) -> Taken {
        lock(&self.inbox).push(input, len)
    }

    /// Leaves what is to be done to the association's task.
    pub(super) fn wake(&self) {
        self.drive.notify_one();
    }

    /// Handles what is in the inbox, and does what follows of it; false if somebody else is at work on the association. The
    /// caller must not hold the endpoint's lock.
    pub(super) fn try_work(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let mut after = Aftermath::default();
        // A panic was dealt with.
        let _ = self.guard(&mut state, &mut after, |state, after| {
            let now = self.work(state, after);
            self.drain(state, now, after);
        });
        self.conclude(state, after);
        true
    }

    /// Handles what is in the inbox, answering a few times meanwhile.
    fn work(&self, state: &mut State, after: &mut Aftermath) -> Timestamp {
        let now = state.tick(self.hub.now());
        lock(&self.inbox).take(&mut state.inputs);
        let mut inputs = std::mem::take(&mut state.inputs);
        let step = inputs.len().div_ceil(ANSWERS_PER_BATCH).max(1);
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
            }
        }
        state.inputs = inputs;
        now
    }

    /// Sends, tells the application, and finds out whether the task sleeps too long.
    fn drain(&self, state: &mut State, now: Timestamp, after: &mut Aftermath) {
        if state.abandoned {
            while state.core.recv(now).is_some() {}
        }
        // Packets to send may have a new verification tag, or other addresses may answer them.
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
    }

    fn tell_endpoint(&self, state: &mut State) {
        let events = std::iter::from_fn(|| state.core.poll_endpoint_event());
        self.hub.handle_events(self.id, events);
    }

    /// Does what is left to do without the lock.
    fn conclude(&self, state: MutexGuard<'_, State>, after: Aftermath) {
        drop(state);
        if !after.unread.is_empty() {
            self.hub.route_again(after.unread);
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

    /// Sends what the core has for now; false if there may be more later: enough left at once, or the socket is full or in
    /// error.
    fn transmit(&self, state: &mut State, now: Timestamp) -> bool {
        for _ in 0..MAX_ERRORS {
            match self.transmit_until_error(state, now) {
                Ok(all) => return all,
                Err((_, error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err((path, error)) => {
                    let told = path_error(&error);
                    tracing::debug!(association = self.id.0, %path, %error, ?told, "a packet was not sent");
                    if let Some(told) = told {
                        state.core.handle_path_error(now, path, told);
                    }
                    state.refused = Some(error);
                }
            }
        }
        false
    }

    /// False if there may be more: what the path's rate allows at once has left, and whoever waits for the lock, to send
    /// something more urgent, may come first.
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
                            let batch = outgoing(&transmit);
                            self.hub.capture_sent(now, &batch, &state.buffer);
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

    /// The association's task: its inbox, its timers, and what the application gave to send.
    pub(super) async fn drive(self: Arc<Self>) {
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            let (armed, full, again) = {
                let mut state = lock(&self.state);
                let mut after = Aftermath::default();
                // A panic was dealt with.
                let _ = self.guard(&mut state, &mut after, |state, after| {
                    let now = self.work(state, after);
                    if state.core.poll_timeout().is_some_and(|due| due <= now) {
                        state.core.handle_timeout(now);
                    }
                    self.drain(state, now, after);
                });
                let full = state.blocked.and_then(|(_, batch)| self.hub.socket_for(&batch));
                state.armed = state.core.poll_timeout();
                // This task is awake, and looks at timers and a full socket below.
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

/// The path error that a socket's error means; `None` if the packet is simply lost.
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
    /// The time, which for the core must not run backwards whatever thread asks.
    fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// The next whole message, or the next error of one.
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

    fn handle_packet(&mut self, now: Timestamp, inbound: Inbound) {
        #[cfg(test)]
        assert!(!self.panics, "a test wants this panic");
        self.core.handle_packet(now, inbound);
    }

    /// The association's code panicked: it is over, and nothing that may be half done is looked at again.
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
            Event::Writable => self.senders.wake_next(),
            Event::Dry => {
                self.dry = true;
                after.changed = true;
            }
            Event::Closed(reason) => {
                self.closed.get_or_insert(reason);
                self.senders.wake_all();
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
