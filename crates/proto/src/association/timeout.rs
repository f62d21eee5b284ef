//! What happens when timers expire (RFC 9260 §6.3.3, §8.3; RFC 7829 §3.2).

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, Heartbeat};
use bytes::Bytes;

use super::timers::expired;
use super::{Association, State};
use crate::control::Request;
use crate::event::CloseReason;
use crate::path::{Candidate, HeartbeatInfo, PathId, PathState};
use crate::time::Timestamp;

impl Association {
    /// The first deadline of all timers that run.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if self.state.is_closed() {
            return None;
        }
        let heartbeats = self.state.sends_heartbeats();
        self.paths
            .iter()
            .flat_map(|path| {
                [
                    path.t3,
                    path.heartbeat.due.filter(|_| heartbeats),
                    self.probe_due(path),
                    self.time_rule_due(path.id),
                ]
            })
            .chain([
                self.state.request().and_then(Request::due),
                self.ending.due(),
                self.timers.window_probe,
                self.receiver.ack_deadline(),
                self.expiry(),
            ])
            .flatten()
            .min()
    }

    /// Does what is due.
    pub(super) fn on_timers(&mut self, now: Timestamp) {
        if self
            .receiver
            .ack_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.receiver.on_ack_timer(now);
        }
        self.drop_expired(now);
        if self
            .state
            .request()
            .and_then(Request::due)
            .is_some_and(|due| due <= now)
        {
            self.on_request_timeout(now);
        }
        if self.ending.guard_expired(now) {
            // The peer does not come to an end. It is told so, whatever its state (§9.2).
            let cause = Cause::ProtocolViolation(Bytes::from_static(b"the shutdown takes too long"));
            self.abort_with(cause, self.state.reason_of_silence(CloseReason::ShutdownTimedOut));
        }
        if expired(&mut self.timers.window_probe, now) {
            self.peer_window.probe_now = true;
        }
        let mut outcome = core::mem::take(&mut self.outcome);
        self.on_time_rule(now, &mut outcome);
        self.outcome = outcome;
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            if expired(&mut self.paths.path_mut(id).t3, now) {
                self.on_t3(now, id);
            }
        }
        if self.state.sends_heartbeats() {
            self.on_heartbeat_timers(now);
        }
    }

    /// The timer of the request that waits for its answer expired: T1-init or T1-cookie (§5.1, §6.3.3), or T2-shutdown (§9.2).
    fn on_request_timeout(&mut self, now: Timestamp) {
        // The path that a COOKIE ECHO would take now, which is the one that it took unless the path MTU became smaller.
        let id = match &self.state {
            State::CookieEchoed(echoed) => echoed.path(&self.paths),
            state => state.request().map_or(PathId(0), Request::path),
        };
        let again = self.state.request_mut().is_some_and(Request::retransmit);
        let setting_up = self.state.is_setting_up();
        if setting_up && !again {
            self.close(CloseReason::SetUpTimedOut);
            return;
        }
        let path = self.paths.path_mut(id);
        path.rto.back_off();
        if setting_up {
            path.try_other_port();
            self.send_set_up_chunk(now);
        } else if self.on_path_error(now, id, true) {
            self.send_shutdown_chunk(now);
        }
    }

    /// T3-rtx expired (§6.3.3, §7.2.3, §8.1, §8.2).
    fn on_t3(&mut self, now: Timestamp, id: PathId) {
        self.counters.timeouts += 1;
        let probe = self.peer_window.dropped_probe(self.outstanding.in_flight());
        self.peer_window.answered = false;
        let setting_up = self.state.is_setting_up();
        let coupling = self.paths.coupling(id);
        let path = self.paths.path_mut(id);
        path.timeouts += 1;
        path.silent_timeouts += 1;
        // What rode with a COOKIE ECHO was lost with it: T1-cookie backs off for both.
        if !setting_up {
            path.rto.back_off();
        }
        path.flight_size = 0;
        // What the peer answers and drops because its window is closed was not lost on the way (§6.1 A).
        if !probe {
            path.control.on_timeout(coupling);
            path.single_packet = true;
        }
        let lost = self.outstanding.on_timeout(id);
        self.paths.path_mut(id).delivery.on_lost(lost);
        self.advance_forward_point(now);
        self.sources.forward.on_timeout(&self.outstanding);
        if !probe && !setting_up && !self.on_path_error(now, id, true) {
            return;
        }
        let path = self.paths.path_mut(id);
        if !probe && path.pmtu.on_timeout(now, path.silent_timeouts) {
            path.control.on_max_data(path.pmtu.max_data());
            self.counters.mtu_black_holes += 1;
        }
        // E3: as much as one packet holds leaves at once, wherever it goes.
        let first = self.outstanding.first_lost();
        let to = match first {
            Some(index) if self.paths.spreads() => self.repeat_path(index),
            _ => self.paths.choose(Candidate::Retransmission {
                last: id,
                timed_out: true,
            }),
        };
        self.paths.path_mut(to).decay_when_idle(now);
        self.paths.path_mut(to).repeat_now = first.is_some();
    }

    /// The system cannot send on this path. Under RFC 7829 that is as good as a timeout, if another path can take over: the
    /// heartbeats that then ask for it bring it back. Otherwise nothing follows; the timers tell what comes of it.
    pub(super) fn on_unreachable(&mut self, now: Timestamp, id: PathId) {
        let in_use = self.paths.path(id).state == PathState::Active && self.state.sends_heartbeats();
        if in_use && self.times_heartbeats() && self.paths.other_than(id) != id {
            self.on_t3(now, id);
            self.after_input(now);
        }
    }

    fn on_heartbeat_timers(&mut self, now: Timestamp) {
        let mut burst = self.config.heartbeat.max_burst;
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            let path = self.paths.path_mut(id);
            if path.heartbeat.due.is_none_or(|due| due > now) {
                continue;
            }
            if let Some(_unanswered) = path.heartbeat.pending.take() {
                // Data under way says more, and sooner (RFC 7829 §3.2 item 6).
                if path.flight_size > 0 && self.times_heartbeats() {
                    self.schedule_heartbeat(now, id);
                    continue;
                }
                let path = self.paths.path_mut(id);
                path.rto.back_off();
                // §8.1: an idle path that is not in use does not bring the association down.
                let in_use = id == self.paths.data_path();
                if !self.on_path_error(now, id, in_use) {
                    return;
                }
                if self.rests_after_error(id) {
                    self.schedule_heartbeat(now, id);
                    continue;
                }
            }
            let path = self.paths.path(id);
            let idle = match path.state {
                PathState::Active => path.flight_size == 0,
                // What becomes of data that went there for want of another path says as much (RFC 7829 §3.2 item 6).
                PathState::PotentiallyFailed => path.flight_size == 0 || self.paths.data_path() != id,
                PathState::Unconfirmed | PathState::Inactive => true,
            };
            if !idle {
                self.schedule_heartbeat(now, id);
            } else if burst == 0 {
                let rto = self.paths.path(id).rto.current();
                self.paths.path_mut(id).heartbeat.due = Some(now + rto);
            } else {
                burst -= 1;
                self.send_heartbeat(now, id);
            }
        }
    }

    /// RFC 7829 §3.2 tells a heartbeat unanswered an RTO after it left, not when the next one is due; that next one still
    /// waits for its time, but on a path that is potentially failed.
    fn rests_after_error(&self, id: PathId) -> bool {
        self.times_heartbeats()
            && matches!(self.paths.path(id).state, PathState::Active | PathState::Inactive)
    }

    fn times_heartbeats(&self) -> bool {
        self.config
            .retransmissions
            .potentially_failed_max_retrans
            .is_some()
    }

    /// Sends a heartbeat and sets the time of the next.
    pub(super) fn send_heartbeat(&mut self, now: Timestamp, id: PathId) {
        let info = HeartbeatInfo {
            path: id,
            sent_at: now,
            nonce: self.random.next_u64(),
        };
        self.paths.path_mut(id).heartbeat.pending = Some(info);
        self.control
            .push(id, Chunk::Heartbeat(Heartbeat::new(info.encode())));
        self.counters.heartbeats_sent += 1;
        if self.times_heartbeats() {
            let path = self.paths.path_mut(id);
            path.heartbeat.due = Some(now + path.rto.current());
        } else {
            self.schedule_heartbeat(now, id);
        }
    }

    pub(super) fn schedule_heartbeat(&mut self, now: Timestamp, id: PathId) {
        let jitter = self.random.jitter();
        let potentially_failed = self.paths.path(id).state == PathState::PotentiallyFailed;
        let path = self.paths.path_mut(id);
        if potentially_failed {
            path.heartbeat.due = self.config.heartbeat.interval.map(|_| now + path.rto.current());
            return;
        }
        let period = path.heartbeat_period(&self.config, jitter);
        path.heartbeat.due = period.map(|period| now + period);
    }

    /// A HEARTBEAT ACK came. One that answers nothing is discarded (§8.3).
    pub(super) fn on_heartbeat_ack(&mut self, now: Timestamp, info: &[u8]) {
        let Some(info) = HeartbeatInfo::decode(info).filter(|info| self.paths.contains(info.path)) else {
            return;
        };
        if self.on_probe_answer(now, &info) {
            self.on_path_answered(info.path);
            return;
        }
        let path = self.paths.path_mut(info.path);
        if path.heartbeat.pending != Some(info) {
            return;
        }
        path.heartbeat.pending = None;
        path.rto.on_sample(now.saturating_duration_since(info.sent_at));
        let confirmed = path.state == PathState::Unconfirmed;
        self.on_path_answered(info.path);
        if confirmed || self.times_heartbeats() {
            self.schedule_heartbeat(now, info.path);
        }
    }
}
