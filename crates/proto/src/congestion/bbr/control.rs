//! The control parameters of BBR (draft-ietf-ccwg-bbr §5.6): pacing rate, send quantum and congestion window.

use super::Bbr;
use super::sample::{LARGEST, Sample};
use super::state::{PROBE_RTT_CWND_GAIN, State};
use super::window::initial_pacing_rate;
use crate::controller::Report;

/// 1 minus `BBR.PacingMarginPercent`.
const PACING_MARGIN: f64 = 0.99;
/// `BBR.MinPipeCwnd`, in packets.
const MIN_PIPE_PACKETS: f64 = 4.0;
/// The send quantum: the bytes of one millisecond, with an upper bound.
const QUANTUM_TIME: f64 = 0.001;
const LARGEST_QUANTUM: f64 = 65_536.0;

impl Bbr {
    /// `UpdateControlParameters`.
    pub(super) fn update_control_parameters(&mut self, report: &Report, sample: &Sample) {
        if !self.control.paced_by_rtt {
            let rtt = report.smoothed_rtt.or(sample.rtt);
            if let Some(rtt) = rtt.filter(|rtt| !rtt.is_zero()) {
                self.control.paced_by_rtt = true;
                self.control.pacing_rate = initial_pacing_rate(self.initial_window, rtt);
            }
        }
        self.set_pacing_rate(self.state.pacing_gain());
        self.set_cwnd(sample);
    }

    /// `SetPacingRateWithGain`. Decision: the rate stays as it is while no bandwidth is known.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.model.bw * PACING_MARGIN;
        if rate > self.control.pacing_rate || (self.full_pipe.reached && rate > 0.0) {
            self.control.pacing_rate = rate;
        }
    }

    /// `SetSendQuantum`.
    pub(super) fn send_quantum(&self) -> f64 {
        let quantum = (self.control.pacing_rate * QUANTUM_TIME).min(LARGEST_QUANTUM);
        quantum.max(2.0 * self.packet)
    }

    /// `BBR.MinPipeCwnd`.
    pub(super) fn min_pipe_cwnd(&self) -> f64 {
        MIN_PIPE_PACKETS * self.packet
    }

    /// `QuantizationBudget`, with the offload budget of §5.5.8.2.
    pub(super) fn quantization_budget(&self, inflight: f64) -> f64 {
        let inflight = inflight.max(self.send_quantum()).max(self.min_pipe_cwnd());
        match self.state {
            State::Up => inflight + 2.0 * self.packet,
            _ => inflight,
        }
    }

    /// `UpdateMaxInflight`.
    fn max_inflight(&self) -> f64 {
        let inflight = self.bdp_multiple(self.model.bw, self.state.cwnd_gain());
        self.quantization_budget(inflight + self.extra_acked())
    }

    /// `SetCwnd`.
    fn set_cwnd(&mut self, sample: &Sample) {
        let max_inflight = self.max_inflight();
        let grown = self.control.cwnd + sample.newly_acked;
        if self.full_pipe.reached {
            self.control.cwnd = grown.min(max_inflight);
        } else if self.control.cwnd < max_inflight || (self.delivered as f64) < self.initial_window {
            self.control.cwnd = grown;
        }
        let most = match self.state {
            State::ProbeRtt => self.probe_rtt_cwnd(),
            _ => LARGEST,
        };
        let least = self.min_pipe_cwnd();
        let cwnd = self.control.cwnd.max(least).min(most);
        self.control.cwnd = cwnd.min(self.cwnd_cap().max(least));
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        let cwnd = self.bdp_multiple(self.model.bw, PROBE_RTT_CWND_GAIN);
        cwnd.max(self.min_pipe_cwnd())
    }

    /// `BoundCwndForModel`.
    fn cwnd_cap(&self) -> f64 {
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.model.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        cap.min(self.model.inflight_shortterm)
    }

    /// `SaveCwnd`.
    pub(super) fn save_cwnd(&mut self) {
        let cwnd = self.control.cwnd;
        self.control.prior_cwnd = if self.losses.in_recovery || self.state == State::ProbeRtt {
            self.control.prior_cwnd.max(cwnd)
        } else {
            cwnd
        };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_cwnd(&mut self) {
        self.control.cwnd = self.control.cwnd.max(self.control.prior_cwnd);
    }

    /// `OnEnterRTO`: a packet may leave.
    pub(super) fn allow_one_packet(&mut self) {
        self.control.cwnd = self.inflight + self.packet;
    }
}
