//! The graceful shutdown (RFC 9260 §9.2).

use core::time::Duration;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Chunk, Shutdown, ShutdownComplete};

use super::{Association, State};
use crate::config::Config;
use crate::control::Request;
use crate::event::{CloseReason, Event};
use crate::time::Timestamp;

/// Bytes of user data that the peer has to acknowledge for T5-shutdown-guard to start again. With this bound a slow transfer
/// survives, and a peer that acknowledges a few bytes at a time does not hold up the shutdown.
const PROGRESS: usize = 1 << 16;

/// The shutdown data that no state of the association has: whether the application requested it, and T5-shutdown-guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The application asked for the shutdown. A restart of the peer does not change that.
    asked: bool,
    /// When T5-shutdown-guard expires.
    guard: Option<Timestamp>,
    /// How long T5-shutdown-guard runs.
    guard_time: Duration,
    /// Bytes that were not acknowledged when T5-shutdown-guard was last started.
    left: usize,
    /// When a message was last accepted, or data arrived.
    active_at: Timestamp,
    idle_timeout: Option<Duration>,
}

impl Ending {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            asked: false,
            guard: None,
            guard_time: config.effective_shutdown_guard(),
            left: 0,
            active_at: Timestamp::ZERO,
            idle_timeout: config.idle_timeout,
        }
    }

    /// A message was accepted, or data arrived.
    pub(super) fn on_activity(&mut self, now: Timestamp) {
        self.active_at = now;
    }

    /// When the association will have been idle for `Config::idle_timeout`. It is not idle while data waits for its acknowledgement.
    pub(super) fn idle_due(&self, state: &State, all_acknowledged: bool) -> Option<Timestamp> {
        let idle = matches!(state, State::Established) && all_acknowledged;
        self.idle_timeout
            .filter(|_| idle)
            .map(|limit| self.active_at + limit)
    }

    /// Whether the application asked for the shutdown.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    /// When T5-shutdown-guard expires, while it runs.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.guard
    }

    /// The application asks for the shutdown while `left` bytes are not acknowledged.
    fn ask(&mut self, now: Timestamp, left: usize) {
        self.asked = true;
        self.begin(now, left);
    }

    /// The shutdown begins, at the request of the application or of the peer. If T5-shutdown-guard runs already, it goes on.
    fn begin(&mut self, now: Timestamp, left: usize) {
        if self.guard.is_none() {
            self.start_guard(now, left);
        }
    }

    /// Starts or restarts T5-shutdown-guard.
    fn start_guard(&mut self, now: Timestamp, left: usize) {
        self.left = left;
        self.guard = Some(now + self.guard_time);
    }

    /// `left` bytes are not acknowledged now.
    fn on_left(&mut self, now: Timestamp, left: usize) {
        let acknowledged = self.left.saturating_sub(left);
        if acknowledged >= PROGRESS || (acknowledged > 0 && left == 0) {
            self.start_guard(now, left);
        }
    }

    /// The application continued a message that it had begun before: the peer has to acknowledge so many bytes more.
    pub(super) fn on_more(&mut self, bytes: usize) {
        if self.guard.is_some() {
            self.left += bytes;
        }
    }

    /// Set-up is complete. If the application asked for the shutdown meanwhile, T5-shutdown-guard restarts.
    pub(super) fn on_set_up_complete(&mut self, now: Timestamp, left: usize) {
        if self.asked {
            self.start_guard(now, left);
        }
    }

    /// The peer restarted: a shutdown that the peer asked for is cancelled, a shutdown that the application asked for continues. The guard
    /// does not restart, so that a peer that restarts again and again does not hold up the shutdown.
    pub(super) fn on_restart(&mut self) {
        self.guard = self.guard.filter(|_| self.asked);
        self.left = 0;
    }

    /// Whether T5-shutdown-guard has expired; it is stopped then.
    pub(super) fn guard_expired(&mut self, now: Timestamp) -> bool {
        self.guard.take_if(|due| *due <= now).is_some()
    }

    /// The association is over.
    pub(super) fn stop(&mut self) {
        self.guard = None;
    }
}

impl Association {
    /// Shuts the association down gracefully (SHUTDOWN, RFC 9260 §9.2, §11.1.3): accepts no more messages, and ends the association when
    /// everything is acknowledged. Before set-up is complete the request is remembered. A message begun with [`Association::send_part`]
    /// must still be ended.
    pub fn shutdown(&mut self, now: Timestamp) {
        if !self.state.is_closed() {
            self.step(now, |it| it.begin_shutdown(now));
        }
    }

    /// The application asks for the shutdown, or the association is idle. It advances when the step settles.
    pub(super) fn begin_shutdown(&mut self, now: Timestamp) {
        self.ending.ask(now, self.sender.buffer.bytes());
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK as soon as no data is queued or outstanding.
    pub(super) fn advance_shutdown(&mut self, now: Timestamp) {
        if self.ending.is_asked() && matches!(self.state, State::Established) {
            self.state = State::ShutdownPending;
        }
        if !matches!(self.state, State::ShutdownPending | State::ShutdownReceived) {
            return;
        }
        self.ending.on_left(now, self.sender.buffer.bytes());
        if self.sender.is_empty() {
            self.state = match self.state {
                State::ShutdownReceived => State::ShutdownAckSent(Request::unlimited()),
                _ => State::ShutdownSent(Request::unlimited()),
            };
            self.send_shutdown_chunk(now);
        }
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK, as the state asks, and starts T2-shutdown. Each retransmission takes the next path.
    pub(super) fn send_shutdown_chunk(&mut self, now: Timestamp) {
        // The answer to SHUTDOWN takes the path of the SHUTDOWN (§6.4). Each SHUTDOWN restarts T2-shutdown: on another path that has failed,
        // the answer would be lost again and again.
        let (chunk, request, mut path) = match &mut self.state {
            State::ShutdownSent(request) => {
                let cumulative_tsn_ack = self.receiver.cumulative_tsn();
                let shutdown = Shutdown { cumulative_tsn_ack };
                (Chunk::Shutdown(shutdown), request, self.paths.data_path())
            }
            State::ShutdownAckSent(request) => (Chunk::ShutdownAck, request, self.paths.answer_path()),
            _ => return,
        };
        for _ in 0..request.retransmissions() {
            path = self.paths.other_than(path);
        }
        self.control
            .retain(|chunk| !matches!(chunk, Chunk::Shutdown(_) | Chunk::ShutdownAck));
        request.send(now, chunk, self.paths.path(path), &mut self.control);
    }

    /// A SHUTDOWN ACK arrived.
    pub(super) fn on_shutdown_ack(&mut self) {
        if matches!(self.state, State::ShutdownSent(_) | State::ShutdownAckSent(_)) {
            let complete = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false });
            let path = self.paths.path(self.paths.answer_path());
            let signer = self.authentication.signer();
            self.control
                .reply(self.identity.last_packet(path, complete, signer));
            self.close(CloseReason::Shutdown);
        }
    }

    /// A SHUTDOWN arrived.
    pub(super) fn on_shutdown(&mut self, now: Timestamp, cumulative: Tsn) {
        let acknowledges = !self.reconfiguration.is_former_ack(now, cumulative);
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                self.ending.begin(now, self.sender.buffer.bytes());
                self.notices.tell(Event::PeerShutdown);
                if acknowledges {
                    self.sending(now, |sender, cx| sender.on_shutdown_cumulative(cx, cumulative));
                }
            }
            State::ShutdownReceived if acknowledges => {
                self.sending(now, |sender, cx| sender.on_shutdown_cumulative(cx, cumulative))
            }
            State::ShutdownReceived => {}
            // Both endpoints sent SHUTDOWN: each answers with SHUTDOWN ACK.
            State::ShutdownSent(_) => {
                self.state = State::ShutdownAckSent(Request::unlimited());
                self.send_shutdown_chunk(now);
            }
            State::ShutdownAckSent(_) => self.send_shutdown_chunk(now),
            State::Closed | State::CookieWait(_) | State::CookieEchoed(_) => {}
        }
    }
}
