//! BBR's states Startup and Drain (draft-ietf-ccwg-bbr §5.3.1, §5.3.2), and when the pipe is full, which ProbeBW uses too.

use super::loss::RTT_NOISE;
use super::{Bbr, Sample, State};
use crate::time::Timestamp;

/// If the delivery rate grows by this factor in a round, the pipe is not full.
const GROWTH: f64 = 1.25;
/// After this many rounds without such growth the pipe is full.
const FULL_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt`.
const STARTUP_LOSSES: u32 = 6;
/// Rounds after which Drain ends although more than the BDP is in flight.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr {
    /// `CheckFullBWReached`. Decision: a round that begins with an unreliable rate does not count.
    ///
    /// Decision: the rate of an application-limited sender is reliable while there is a long queue. Without this rule, a sender of video frames
    /// stays in Startup as long as it sends, and each large frame overflows the queue of a slow link at 2.77 times the link's rate. Where
    /// losses are random, a rate that counts too soon is too low, so a short queue does not suffice.
    pub(super) fn check_full_bw_reached(&mut self, sample: &Sample) {
        let has_queue = !self.is_latest_rtt_below(|least| 3 * least / 2 + RTT_NOISE);
        let says_nothing = sample.app_limited && !has_queue;
        let full = &mut self.full_pipe;
        if full.now || !self.rounds.start || says_nothing || sample.rate <= 0.0 {
            return;
        }
        if sample.rate >= full.bw * GROWTH {
            full.reset(sample.rate);
            return;
        }
        full.count += 1;
        full.now = full.count >= FULL_ROUNDS;
        full.reached |= full.now;
    }

    /// `EnterStartup`.
    pub(super) fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// `CheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, sample: &Sample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.full_pipe.reached {
            self.state = State::Drain;
            self.probe.drain_start_round = self.rounds.count;
        }
    }

    /// `CheckStartupHighLoss`. Decision: the draft counts discontiguous ranges of lost sequence numbers, which the sender does not report.
    /// As in Linux, acknowledgements that found losses are counted instead.
    fn check_startup_high_loss(&mut self, sample: &Sample) {
        let lost = self.is_loss_too_high(sample.lost, sample.tx_in_flight, self.packet)
            || self.is_marking_too_high(sample);
        if self.state == State::Startup
            && self.losses.round_start
            && self.losses.events >= STARTUP_LOSSES
            && self.losses.is_round_in_recovery(sample)
            && lost
        {
            self.losses.set_undo_state(State::Startup);
            self.full_pipe.reached = true;
            self.full_pipe.now = true;
            let bdp = self.bdp_multiple(self.model.bw, 1.0);
            self.model.inflight_longterm = bdp.max(self.model.inflight_latest);
        }
    }

    /// `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, now: Timestamp) {
        if self.state == State::Drain
            && (self.inflight <= self.inflight_at(self.model.bw, 1.0)
                || self.rounds.count > self.probe.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_down(now);
        }
    }
}
