//! How acknowledgements change BBR's model of the path, and the volumes that follow from the model (draft-ietf-ccwg-bbr §5.5).

use super::model::EXTRA_ACKED_ROUNDS;
use super::{Bbr, Sample};
use crate::time::Timestamp;

impl Bbr {
    /// `UpdateMaxBw`, and the counting of rounds.
    pub(super) fn update_max_bw(&mut self, sample: &Sample) {
        self.rounds.update(sample, self.delivered);
        if self.rounds.start {
            self.probe.rounds_since_up = self.probe.rounds_since_up.saturating_add(1);
            self.control.begin_round();
        }
        self.model.max_bw.update(sample);
    }

    /// `UpdateACKAggregation`.
    pub(super) fn update_ack_aggregation(&mut self, now: Timestamp, sample: &Sample) {
        let (round, bw, cwnd) = (self.rounds.count, self.model.bw, self.control.cwnd);
        let extra_acked = &mut self.model.extra_acked;
        extra_acked.update(now, round, sample.newly_acked, bw, cwnd);
    }

    /// `BBR.extra_acked`: in Startup of one round.
    pub(super) fn extra_acked(&self) -> f64 {
        let length = if self.full_pipe.reached {
            EXTRA_ACKED_ROUNDS
        } else {
            1
        };
        self.model.extra_acked.get(length)
    }

    /// `BDPMultiple`.
    pub(super) fn bdp_multiple(&self, bw: f64, gain: f64) -> f64 {
        match self.min_rtt.get() {
            Some(rtt) => gain * (bw * rtt.as_secs_f64()),
            None => self.initial_window,
        }
    }

    /// `Inflight`.
    pub(super) fn inflight_at(&self, bw: f64, gain: f64) -> f64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// `TargetInflight`.
    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp_multiple(self.model.bw, 1.0).min(self.control.cwnd)
    }
}
