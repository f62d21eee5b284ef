//! The orderly end (RFC 9260 §9.2).

use anabranch_wire::chunk::{Chunk, Shutdown, ShutdownComplete};
use anabranch_wire::{Tsn, cause::Cause};

use super::{Association, State, Timers};
use crate::event::{CloseReason, Event};
use crate::inbound::Inbound;
use crate::path::PathId;
use crate::time::Timestamp;

/// Bytes of user data that the peer has to acknowledge for T5-shutdown-guard to start again: so a slow transfer that gets on
/// survives, and a peer that takes a few bytes at a time does not hold up the end.
const PROGRESS: usize = 1 << 16;

/// What is known of an orderly end beside the state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// The application asked for it, which outlives a restart of the peer.
    asked: bool,
    /// Bytes that were not acknowledged when T5-shutdown-guard was started last.
    left: usize,
}

impl Association {
    /// Whether `send` takes messages.
    pub(super) fn takes_messages(&self) -> bool {
        let begins = self.state.is_setting_up() || matches!(self.state, State::Established);
        begins && !self.ending.asked
    }

    /// Whether a message that was begun may still be ended.
    pub(super) fn ends_messages(&self) -> bool {
        matches!(
            self.state,
            State::CookieWait(_) | State::CookieEchoed(_) | State::ShutdownPending | State::ShutdownReceived
        )
    }

    /// SHUTDOWN primitive (§11.1.3). Before set-up is complete it is remembered.
    pub(super) fn begin_shutdown(&mut self, now: Timestamp) {
        if self.state.is_closed() {
            return;
        }
        self.ending.asked = true;
        if self.timers.shutdown_guard.is_none() {
            self.start_shutdown_guard(now);
        }
        self.advance_shutdown(now);
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK as soon as nothing is outstanding any more.
    pub(super) fn advance_shutdown(&mut self, now: Timestamp) {
        if self.ending.asked && matches!(self.state, State::Established) {
            self.state = State::ShutdownPending;
        }
        if !matches!(self.state, State::ShutdownPending | State::ShutdownReceived) {
            return;
        }
        let left = self.buffered_bytes();
        let acknowledged = self.ending.left.saturating_sub(left);
        if acknowledged >= PROGRESS || (acknowledged > 0 && left == 0) {
            self.start_shutdown_guard(now);
        }
        if self.queue.is_empty() && self.outstanding.is_empty() {
            self.go_on_with_shutdown(now);
        }
    }

    /// Starts T5-shutdown-guard, from the beginning if it runs.
    fn start_shutdown_guard(&mut self, now: Timestamp) {
        self.ending.left = self.buffered_bytes();
        self.timers.shutdown_guard = Some(now + self.config.shutdown_guard());
    }

    /// The application went on with a message that it had begun before: so many bytes more are to be acknowledged.
    pub(super) fn note_more_to_end(&mut self, bytes: usize) {
        if self.timers.shutdown_guard.is_some() {
            self.ending.left += bytes;
        }
    }

    /// Set-up is complete. If the application asked for the end meanwhile, the time for it begins.
    pub(super) fn on_set_up_complete(&mut self, now: Timestamp) {
        if self.ending.asked {
            self.start_shutdown_guard(now);
        }
    }

    /// The peer restarted: an end that it asked for is off, one that the application asked for goes on, with all that could not
    /// be delivered gone. The guard is not started again, so that no row of restarts holds the end up.
    pub(super) fn keep_shutdown_guard(&mut self) {
        let guard = self.timers.shutdown_guard.filter(|_| self.ending.asked);
        self.timers = Timers {
            shutdown_guard: guard,
            ..Timers::default()
        };
        self.ending.left = 0;
    }

    fn go_on_with_shutdown(&mut self, now: Timestamp) {
        match self.state {
            State::ShutdownPending => {
                self.state = State::ShutdownSent { repeats: 0 };
                self.send_shutdown_chunk(now);
            }
            State::ShutdownReceived => self.send_shutdown_ack(now),
            _ => {}
        }
    }

    fn send_shutdown_ack(&mut self, now: Timestamp) {
        self.state = State::ShutdownAckSent { repeats: 0 };
        self.send_shutdown_chunk(now);
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK, as the state asks, and starts T2-shutdown.
    fn send_shutdown_chunk(&mut self, now: Timestamp) {
        let (repeats, chunk) = match self.state {
            State::ShutdownSent { repeats } => {
                let cumulative_tsn_ack = self.receiver.cumulative_tsn();
                (repeats, Chunk::Shutdown(Shutdown { cumulative_tsn_ack }))
            }
            State::ShutdownAckSent { repeats } => (repeats, Chunk::ShutdownAck),
            _ => return,
        };
        let mut path = self.paths.data_path();
        for _ in 0..repeats {
            path = self.paths.other_than(path);
        }
        self.control
            .retain(|chunk| !matches!(chunk, Chunk::Shutdown(_) | Chunk::ShutdownAck));
        self.control.push(path, chunk);
        self.shutdown_path = path;
        self.timers.control = Some(now + self.paths.path(path).rto.current());
    }

    /// Sends it again because the peer asked for it in some way.
    pub(super) fn repeat_shutdown_chunk(&mut self, now: Timestamp) {
        self.send_shutdown_chunk(now);
    }

    /// T2-shutdown expired.
    pub(super) fn on_shutdown_timeout(&mut self, now: Timestamp) {
        let path: PathId = self.shutdown_path;
        self.paths.path_mut(path).rto.back_off();
        if !self.on_path_error(now, path, true) {
            return;
        }
        if let State::ShutdownSent { repeats } | State::ShutdownAckSent { repeats } = &mut self.state {
            *repeats += 1;
        }
        self.send_shutdown_chunk(now);
    }

    /// Why an association ends whose peer says nothing more. A peer that asked for the shutdown and was told that all is
    /// acknowledged may leave without a word: only its SHUTDOWN COMPLETE is missing.
    pub(super) fn reason_of_silence(&self, otherwise: CloseReason) -> CloseReason {
        match self.state {
            State::ShutdownAckSent { .. } => CloseReason::Shutdown,
            _ => otherwise,
        }
    }

    /// T5-shutdown-guard expired: the peer does not come to an end. It is told so, whatever its state (§9.2).
    pub(super) fn on_shutdown_guard(&mut self) {
        let reason = self.reason_of_silence(CloseReason::ShutdownTimedOut);
        let cause = Cause::ProtocolViolation(bytes::Bytes::from_static(b"the shutdown takes too long"));
        self.abort_with(cause, reason);
    }

    /// A SHUTDOWN came.
    pub(super) fn on_shutdown(&mut self, now: Timestamp, cumulative: Tsn) {
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
                if self.timers.shutdown_guard.is_none() {
                    self.start_shutdown_guard(now);
                }
                self.notices.tell(Event::PeerShutdown);
                self.on_shutdown_cumulative(now, cumulative);
            }
            State::ShutdownReceived => self.on_shutdown_cumulative(now, cumulative),
            // Both sides at once: each answers the other's.
            State::ShutdownSent { .. } => self.send_shutdown_ack(now),
            State::ShutdownAckSent { .. } => self.repeat_shutdown_chunk(now),
            State::Closed | State::CookieWait(_) | State::CookieEchoed(_) => {}
        }
    }

    /// A packet came after SHUTDOWN was sent: the peer is there, and gets its time to send what it still has. §9.2 would have
    /// T2-shutdown start again, too: then heartbeats that come more often than it expires keep a lost SHUTDOWN from being
    /// repeated. It does for DATA, which is answered with SHUTDOWN.
    pub(super) fn on_packet_in_shutdown_sent(&mut self, inbound: &Inbound) {
        let proven = inbound.packet.header.verification_tag == self.identity.local_tag;
        if proven && matches!(self.state, State::ShutdownSent { .. }) {
            self.error_count = 0;
        }
    }

    /// DATA came after SHUTDOWN was sent: it is acknowledged and SHUTDOWN repeated at once, T2 restarted.
    pub(super) fn on_data_in_shutdown_sent(&mut self, now: Timestamp) {
        if matches!(self.state, State::ShutdownSent { .. }) {
            self.receiver.force_ack();
            self.send_shutdown_chunk(now);
        }
    }

    /// A SHUTDOWN ACK came.
    pub(super) fn on_shutdown_ack(&mut self) {
        if matches!(
            self.state,
            State::ShutdownSent { .. } | State::ShutdownAckSent { .. }
        ) {
            self.final_packet(Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false }));
            self.close(CloseReason::Shutdown);
        }
    }

    /// A SHUTDOWN COMPLETE came.
    pub(super) fn on_shutdown_complete(&mut self) {
        if matches!(self.state, State::ShutdownAckSent { .. }) {
            self.close(CloseReason::Shutdown);
        }
    }
}
