//! The expiry of timers: T1-init, T1-cookie, T2-shutdown, T3-rtx, T5-shutdown-guard, heartbeats (RFC 9260 §5.1, §6.3.3, §8.3, §9.2;
//! RFC 7829 §3.2).

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{HeartbeatAck, kind};
use bytes::Bytes;

use super::peer_addresses::delete_deferred;
use super::{Association, State};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::control::Request;
use crate::event::Event;
use crate::inbound::Inbound;
use crate::path::{HeartbeatAnswer, HeartbeatInfo, Path, PathId};
use crate::time::Timestamp;
use crate::transmit::{Sender, write_packet};

impl Association {
    /// When to call [`Association::handle_timeout`] next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if self.state.is_closed() {
            return None;
        }
        let heartbeats = self.state.may(permit::HEARTBEAT);
        let probes = self.state.may(permit::PROBE);
        // Time never reaches the last point in time.
        let mut first = Timestamp::MAX;
        let mut note = |due: Option<Timestamp>| first = due.map_or(first, |due| due.min(first));
        for path in self.paths.iter() {
            note(path.timers.t3());
            note(path.heartbeat.due.filter(|_| heartbeats));
            note(path.probe_due().filter(|_| probes));
            note(self.sender.loss_timer_due(&self.paths, path.id));
        }
        note(self.state.request().and_then(Request::due));
        if let Some(requests) = self.addresses.requests() {
            note(requests.due());
            note(requests.rest_ends());
        }
        note(self.ending.due());
        note(self.ending.idle_due(&self.state, self.sender.is_empty()));
        note(self.reconfiguration.due(self.state.may(permit::EXCHANGE_DATA)));
        note(self.receiver.ack_deadline());
        note(self.sender.deadline(&self.config));
        (first < Timestamp::MAX).then_some(first)
    }

    /// Handles all timers that have expired. An early call has no effect.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if !self.state.is_closed() {
            self.step(now, |it| it.on_timers(now));
        }
    }

    fn on_timers(&mut self, now: Timestamp) {
        let is_due = |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.receiver.ack_deadline()) {
            self.receiver.on_ack_timer(now);
        }
        self.sending(now, Sender::drop_expired);
        if is_due(self.state.request().and_then(Request::due)) {
            self.on_request_timeout(now);
        }
        self.on_asconf_timer(now);
        if self.ending.guard_expired(now) {
            // The shutdown takes too long: T5-shutdown-guard ends it with an ABORT in any state (§9.2).
            let cause = Cause::ProtocolViolation(Bytes::from_static(b"the shutdown takes too long"));
            self.abort_with(cause, self.state.reason_of_silence(CloseReason::ShutdownTimedOut));
        }
        if is_due(self.ending.idle_due(&self.state, self.sender.is_empty())) {
            self.notices.tell(Event::IdleTimeout);
            self.begin_shutdown(now);
        }
        if is_due(self.reconfiguration.due(self.state.may(permit::EXCHANGE_DATA))) {
            self.reconfigure(now).on_timer();
        }
        self.sender.on_window_probe_timer(now);
        if let Some(path) = self.sending(now, Sender::on_forward_timer) {
            self.on_path_error(now, path, true);
        }
        self.sending(now, Sender::on_loss_timers);
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if self.paths.path_mut(id).timers.take_expired(now) {
                self.on_t3(now, id);
            }
        }
        if self.state.may(permit::HEARTBEAT) {
            self.on_heartbeat_timers(now);
        }
        if self.state.may(permit::SEND_DATA) && self.stall.begins(now, &self.sender) {
            let bytes = self.sender.buffer.bytes();
            self.notices.tell(Event::Stalled { bytes });
        }
    }

    /// The timer of the request that waits for its answer expired: T1-init or T1-cookie (§5.1, §6.3.3), or T2-shutdown (§9.2).
    fn on_request_timeout(&mut self, now: Timestamp) {
        // The path that a COOKIE ECHO would take now. It is the path that the COOKIE ECHO took, unless the path MTU became smaller since.
        let id = match &self.state {
            State::CookieEchoed(echoed) => echoed.path(&self.paths, self.authentication.signer()),
            state => state.request().map_or(PathId(0), Request::path),
        };
        let again = self.state.request_mut().is_some_and(Request::retransmit);
        let setting_up = self.state.may(permit::SET_UP);
        if setting_up && !again {
            self.close(CloseReason::SetUpTimedOut);
            return;
        }
        let path = self.paths.path_mut(id);
        path.rtt.back_off();
        if setting_up {
            path.route.try_other_port();
            if matches!(self.state, State::CookieWait(_)) {
                self.paths.try_other_local_address(&self.config);
            }
            self.send_set_up_chunk(now);
        } else if self.on_path_error(now, id, true) {
            self.send_shutdown_chunk(now);
        }
    }

    /// T3-rtx expired (§6.3.3, §7.2.3, §8.1, §8.2).
    pub(super) fn on_t3(&mut self, now: Timestamp, id: PathId) {
        let dropped = self.sending(now, |sender, cx| sender.on_t3(cx, id));
        let counts = !dropped && !self.state.may(permit::SET_UP);
        if !counts || self.on_path_error(now, id, true) {
            self.sending(now, |sender, cx| sender.after_t3(cx, id, dropped));
        }
    }

    /// Sends the heartbeats that are due, and counts those that were not answered as errors (§8.3).
    fn on_heartbeat_timers(&mut self, now: Timestamp) {
        let mut burst = self.config.heartbeat.max_burst;
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            let path = self.paths.path_mut(id);
            if path.heartbeat.due.is_none_or(|due| due > now) {
                continue;
            }
            let unanswered = path.heartbeat.pending.take().is_some();
            // T3-rtx of the data in flight reports an error sooner (RFC 7829 §3.2 item 6).
            let by_data = !path.flight.is_empty() && self.config.retransmissions.fails_potentially();
            if unanswered && !by_data {
                path.rtt.back_off();
                // §8.1: errors of an idle path that is not in use do not count for the association.
                let in_use = id == self.paths.data_path();
                if !self.on_path_error(now, id, in_use) {
                    return;
                }
            }
            let rests = unanswered && (by_data || self.paths.path(id).rests_after_error(&self.config));
            let leaves = !rests && self.paths.needs_heartbeat(id);
            let path = self.paths.path_mut(id);
            if !leaves {
                path.schedule_heartbeat(now, &mut self.random);
            } else if burst == 0 {
                path.heartbeat.due = Some(now + path.rtt.rto());
            } else {
                burst -= 1;
                self.send_heartbeat(now, id);
            }
        }
    }

    /// Sends a heartbeat and schedules the next one.
    pub(super) fn send_heartbeat(&mut self, now: Timestamp, id: PathId) {
        let path = self.paths.path_mut(id);
        let heartbeat = path.new_heartbeat(now, &self.config, &mut self.random);
        self.control.push(id, heartbeat);
        self.counters.heartbeats_sent += 1;
    }

    /// A HEARTBEAT ACK arrived from `remote`. Without information it answers no HEARTBEAT of this endpoint (§8.3).
    pub(super) fn on_heartbeat_ack(&mut self, now: Timestamp, inbound: &Inbound, ack: &HeartbeatAck) {
        let remote = inbound.remote;
        let info = ack.info().and_then(|info| HeartbeatInfo::decode(&info));
        let Some(info) = info else { return };
        if !self.paths.contains(info.path) {
            self.paths.on_candidate_answered(&info, remote);
            return;
        }
        match self.paths.path_mut(info.path).on_heartbeat_ack(now, &info) {
            HeartbeatAnswer::Nothing => {}
            HeartbeatAnswer::Probe => self.on_path_answered(info.path),
            HeartbeatAnswer::Heartbeat { confirms } => {
                self.paths.on_heard(info.path, remote);
                self.on_path_answered(info.path);
                self.paths.path_mut(info.path).end_back_off(now);
                let address = self.paths.path(info.path).route.remote.ip();
                delete_deferred(self, now, inbound, address);
                if confirms || self.config.retransmissions.fails_potentially() {
                    let path = self.paths.path_mut(info.path);
                    path.schedule_heartbeat(now, &mut self.random);
                }
            }
        }
    }

    /// Queues the path MTU probes that are due.
    pub(super) fn send_due_probes(&mut self, now: Timestamp) {
        if !self.state.may(permit::PROBE) {
            return;
        }
        let is_due = |path: &Path| path.probe_due().is_some_and(|due| due <= now);
        let signer = self.authentication.signer();
        let overhead = |kind| signer.map_or(0, |signer| signer.overhead(kind));
        let auth_len = overhead(kind::HEARTBEAT).max(overhead(kind::PAD));
        for path in self.paths.iter_mut() {
            let black_hole = is_due(path) && path.finds_black_hole(now);
            self.counters.mtu_black_holes += u64::from(black_hole);
            if is_due(path)
                && let Some(chunks) = path.next_probe(now, &mut self.random, auth_len)
            {
                let packet = write_packet(self.identity.header(), &chunks, signer);
                self.control.probe(path.id, packet);
                self.counters.mtu_probes_sent += 1;
            }
        }
    }
}
