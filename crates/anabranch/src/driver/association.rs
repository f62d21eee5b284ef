//! Work on one association under its lock: the calls of the application, and the task that handles its inbox and timers.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::Duration;

use anabranch_proto::{AssociationState, CloseReason, EndpointEvent, PathError, PathId, Timestamp};
use bytes::Bytes;

use super::hub::Shared;
use super::inbox::{Input, Taken};
use super::last_packets::LastPacket;
use super::readiness::Readiness;
use super::sockets::OpenSocket;
use super::state::{Aftermath, State};
use crate::datagram::Outgoing;
use crate::failed_handshake::FailedHandshake;
use crate::lock::lock;
use crate::senders::Place;

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

/// The payload of a panic.
type Panic = Box<dyn Any + Send>;

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

    /// Runs `work` on the association, and then sends and reports the results at once. Most calls that read a message have none.
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
            if !state.core.is_exhausted() {
                self.drain(state, now, after);
            }
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
    pub(crate) fn let_go(&self, place: Place) {
        lock(&self.state).senders.leave(place);
    }

    /// No handle is left: the association is shut down in the background, or its set-up is aborted.
    pub(crate) fn abandon(&self) {
        // An earlier panic in the association's code must not panic the task that drops the handle.
        let _ = self.try_with(|state, now| {
            state.abandoned = true;
            if state.established {
                state.core.shutdown(now);
            } else if state.closed.is_none() {
                state.core.abort(now, Bytes::from_static(b"setup cancelled"));
            }
        });
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
        state.manage_keys(now);
        // The packets to send may announce a new verification tag or address, which the answers will use.
        self.tell_endpoint(state);
        after.drive = !self.transmit(state, now);
        after.again = after.drive && state.blocked.is_none();
        self.tell_endpoint(state);
        while let Some(event) = state.core.poll_event() {
            state.on_event(event, after);
        }
        if after.changed && state.keys.is_some() {
            self.tell_ready(state);
        }
        if let Some(due) = state.poll_timeout()
            && state.armed.is_none_or(|armed| due < armed)
        {
            after.drive = true;
        }
        after.drive |= state.closed.is_some() && !state.gone;
        while let Some(event) = state.core.poll_trace() {
            self.hub.observers.tell(&self.watched, &event);
        }
    }

    /// An association that waits for its keys became usable, or ended before.
    fn tell_ready(&self, state: &State) {
        if self.readiness.get() != Readiness::Waiting {
            return;
        }
        let readiness = match &state.closed {
            _ if state.established => Readiness::Ready,
            Some(reason) => {
                // Before an `accept` can remove the association from the backlog.
                let failed = FailedHandshake {
                    remote: state.core.remote_address(),
                    reason: reason.clone(),
                    #[cfg(feature = "tls")]
                    shown: state.keys.as_ref().and_then(|keys| keys.not_accepted()),
                };
                self.hub.note_failed_handshake(self.id, failed);
                Readiness::Over
            }
            None => return,
        };
        self.readiness.set(readiness);
        self.hub.acceptable.notify_waiters();
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
                            let mut batch = Outgoing::of(&transmit);
                            if state.core.state() == AssociationState::Closed {
                                state.last_packet = Some(Box::new((batch, state.buffer.clone())));
                            }
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
                    if state.poll_timeout().is_some_and(|due| due <= now) {
                        state.core.handle_timeout(now);
                        self.hub.doubt_dtls(&self, state);
                    }
                    self.drain(state, now, after);
                });
                let full = state.blocked.and_then(|(_, batch)| self.hub.socket_for(&batch));
                state.armed = state.poll_timeout();
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
        let ((port, _), in_order, last_packet) = {
            let mut state = lock(&self.state);
            let in_order = matches!(state.closed, Some(CloseReason::Shutdown));
            (state.core.ports(), in_order, self.last_packet(&mut state))
        };
        self.hub.forget(self.id, port, in_order, last_packet);
    }

    /// The SHUTDOWN COMPLETE, if this endpoint sent it: nothing acknowledges this packet.
    fn last_packet(&self, state: &mut State) -> Option<LastPacket> {
        let (batch, bytes) = *state.last_packet.take()?;
        if !matches!(state.closed, Some(CloseReason::Shutdown)) {
            return None;
        }
        let paths = state.core.stats().paths;
        Some(LastPacket {
            batch,
            bytes,
            to: self.bond.origin(),
            rtt: paths
                .iter()
                .filter_map(|path| path.srtt)
                .max()
                .unwrap_or_default(),
            made_at: state.clock,
        })
    }
}

async fn writable(socket: Option<Arc<OpenSocket>>) {
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

#[cfg(test)]
mod tests;
