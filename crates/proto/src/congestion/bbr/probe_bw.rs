//! BBR's state ProbeBW (draft-ietf-ccwg-bbr §5.3.3): the cycle of DOWN, CRUISE, REFILL and UP.

use core::time::Duration;

use super::probe::AckPhase;
use super::{Bbr, Sample, State};
use crate::time::Timestamp;

/// `BBR.Headroom`: the share of `inflight_longterm` that is left to other flows.
const HEADROOM: f64 = 0.15;
/// The least time until the next probe for bandwidth; up to a second more is random.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// §5.3.3.8.3: the time between probes is at most this many rounds, in which a Reno flow grows.
const RENO_ROUNDS: f64 = 63.0;
/// The most doublings of the slope of `inflight_longterm`.
const SLOPE_ROUNDS: u32 = 30;

impl Bbr {
    /// `StartProbeBW_DOWN`; also `EnterProbeBW`.
    pub(super) fn start_down(&mut self, now: Timestamp) {
        self.reset_congestion_signals();
        self.probe.up_acked_per_increase = f64::INFINITY;
        self.pick_probe_wait();
        self.probe.cycle_stamp = now;
        self.probe.ack_phase = AckPhase::Stopping;
        self.rounds.restart(self.delivered);
        self.state = State::Down;
    }

    /// `StartProbeBW_CRUISE`.
    pub(super) fn start_cruise(&mut self) {
        self.state = State::Cruise;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self) {
        self.model.reset_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0.0;
        self.probe.precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.rounds.restart(self.delivered);
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, sample: &Sample) {
        self.probe.ack_phase = AckPhase::Starting;
        self.rounds.restart(self.delivered);
        self.full_pipe.reset(sample.rate);
        self.state = State::Up;
        self.raise_longterm_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, now: Timestamp, sample: &Sample) {
        if !self.full_pipe.reached || self.adapt_long_term_model(sample) {
            return;
        }
        match self.state {
            State::Down => {
                if !self.check_time_to_probe(now) && self.is_time_to_cruise() {
                    self.start_cruise();
                }
            }
            State::Cruise => {
                self.check_time_to_probe(now);
            }
            State::Refill => {
                if self.rounds.start {
                    self.probe.is_sample = true;
                    self.start_up(sample);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(sample) {
                    self.probe.too_high = false;
                    self.start_down(now);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// `IsTimeToProbeBW`.
    fn check_time_to_probe(&mut self, now: Timestamp) -> bool {
        let waited = now > self.probe.cycle_stamp + self.probe.wait;
        let due = waited || self.is_reno_coexistence_probe_time();
        if due {
            self.start_refill();
        }
        due
    }

    /// `IsRenoCoexistenceProbeTime`. Reno grows by a packet a round, so the target counts in packets.
    fn is_reno_coexistence_probe_time(&self) -> bool {
        let rounds = (self.target_inflight() / self.packet).min(RENO_ROUNDS);
        self.probe.rounds_since_up as f64 >= rounds
    }

    /// `PickProbeWait`.
    fn pick_probe_wait(&mut self) {
        self.probe.rounds_since_up = u64::from(self.random.next_u32() & 1);
        self.probe.wait = PROBE_WAIT + Duration::from_micros(u64::from(self.random.next_u32()) % 1_000_000);
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self) -> bool {
        self.inflight <= self.inflight_with_headroom()
            && self.inflight <= self.inflight_at(self.model.max_bw.get(), 1.0)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.probe.too_high && self.inflight >= self.model.inflight_longterm {
            self.probe.precautionary = true;
            return true;
        }
        if self.uses_longterm_fully() {
            self.full_pipe.reset(sample.rate);
            return false;
        }
        self.full_pipe.now
    }

    /// Whether `inflight_longterm` is what limits the flow.
    fn uses_longterm_fully(&self) -> bool {
        self.control.is_cwnd_limited() && self.control.cwnd >= self.model.inflight_longterm
    }

    /// `InflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self) -> f64 {
        let longterm = self.model.inflight_longterm;
        if longterm.is_infinite() {
            return longterm;
        }
        let headroom = self.packet.max(HEADROOM * longterm);
        (longterm - headroom).max(self.min_pipe_cwnd())
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_longterm_slope(&mut self) {
        let growth = f64::from(1_u32 << self.probe.up_rounds);
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(SLOPE_ROUNDS);
        self.probe.up_acked_per_increase = (self.control.cwnd / growth).max(self.packet);
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_longterm_upward(&mut self, sample: &Sample) {
        if !self.uses_longterm_fully() {
            return;
        }
        let step = self.probe.up_acked_per_increase;
        self.probe.up_acked += sample.newly_acked;
        if self.probe.up_acked >= step {
            let increases = (self.probe.up_acked / step).floor();
            self.probe.up_acked = (self.probe.up_acked - increases * step).max(0.0);
            self.model.inflight_longterm += increases * self.packet;
        }
        if self.rounds.start {
            self.raise_longterm_slope();
        }
    }

    /// `AdaptLongTermModel`: whether it changed the state.
    fn adapt_long_term_model(&mut self, sample: &Sample) -> bool {
        if self.probe.ack_phase == AckPhase::Starting && self.rounds.start {
            self.probe.ack_phase = AckPhase::Feedback;
        }
        if self.probe.ack_phase == AckPhase::Stopping && self.rounds.start {
            self.probe.is_sample = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.model.max_bw.advance();
            }
            if self.state.is_probe_bw() && self.probe.precautionary && !self.probe.too_high {
                self.start_refill();
                return true;
            }
        }
        let too_high = self.is_loss_too_high(sample.lost, sample.tx_in_flight, self.packet);
        let longterm = self.model.inflight_longterm;
        if !too_high && longterm.is_finite() {
            self.model.inflight_longterm = longterm.max(sample.tx_in_flight);
            if self.state == State::Up {
                self.probe_longterm_upward(sample);
            }
        }
        false
    }
}
