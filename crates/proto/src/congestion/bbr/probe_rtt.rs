//! BBR's state ProbeRTT, which drains the queue to measure the minimum RTT (draft-ietf-ccwg-bbr §5.3.4).

use core::time::Duration;

use super::min_rtt::MIN_RTT_FILTER;
use super::probe::AckPhase;
use super::{Bbr, Sample, State};
use crate::time::Timestamp;

/// `BBR.ProbeRTTDuration`.
const DURATION: Duration = Duration::from_millis(200);
/// Decision: ProbeRTT ends after this time in any case, whereas the draft waits for a round trip. Without rate samples, for example if all
/// acknowledged chunks were retransmitted, no round trip would be counted.
const LIMIT: Duration = MIN_RTT_FILTER;

impl Bbr {
    /// `UpdateMinRTT`.
    pub(super) fn update_min_rtt(&mut self, now: Timestamp, sample: &Sample) {
        self.min_rtt.update(now, sample.rtt);
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, now: Timestamp) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.state = State::ProbeRtt;
            self.save_cwnd();
            self.min_rtt.entered = now;
            self.min_rtt.done = None;
            self.probe.ack_phase = AckPhase::Stopping;
            self.rounds.restart(self.delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(now);
        }
        self.idle_restart = false;
    }

    /// `HandleProbeRTT`.
    fn handle_probe_rtt(&mut self, now: Timestamp) {
        self.min_rtt.mark_app_limited(self.delivered, self.inflight);
        if self.min_rtt.done.is_none() && self.inflight <= self.probe_rtt_cwnd() {
            self.min_rtt.done = Some(now + DURATION);
            self.min_rtt.round_done = false;
            self.rounds.restart(self.delivered);
        } else if self.min_rtt.done.is_some() {
            self.min_rtt.round_done |= self.rounds.start;
            if self.min_rtt.round_done {
                self.check_probe_rtt_done(now);
            }
        }
        if self.state == State::ProbeRtt && now > self.min_rtt.entered + LIMIT {
            self.leave_probe_rtt(now);
        }
    }

    /// `CheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Timestamp) {
        if self.min_rtt.done.is_some_and(|done| now > done) {
            self.leave_probe_rtt(now);
        }
    }

    /// The rest of `CheckProbeRTTDone`, and `ExitProbeRTT`.
    fn leave_probe_rtt(&mut self, now: Timestamp) {
        if let Some(probe) = &mut self.min_rtt.probe {
            probe.at = now;
        }
        self.restore_cwnd();
        self.model.reset_short_term();
        if self.full_pipe.reached {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }
}
