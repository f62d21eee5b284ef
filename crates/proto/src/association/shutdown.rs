//! The graceful shutdown (RFC 9260 §9.2).

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Chunk, Shutdown, ShutdownComplete};

use super::{Association, State};
use crate::close_reason::CloseReason;
use crate::control::Request;
use crate::event::Event;
use crate::time::Timestamp;

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
    #[inline(never)]
    pub(super) fn advance_shutdown(&mut self, now: Timestamp) {
        // Without keys the peer could not tell a SHUTDOWN from a forged one, and key management still has messages to send.
        if self.protection.is_pending() {
            return;
        }
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
