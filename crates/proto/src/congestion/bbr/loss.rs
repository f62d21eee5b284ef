//! BBR's reaction to losses (draft-ietf-ccwg-bbr §5.5.10), to CE marks, and to losses that prove spurious (§5.5.11).

use core::time::Duration;

use super::losses::Undo;
use super::random_loss::without_queue;
use super::{Bbr, Sample, State};
use crate::controller::{LostPacket, Reduction, Report};
use crate::time::Timestamp;

/// `BBR.LossThresh`: the largest share of lost packets while the flow probes for bandwidth.
const LOSS_THRESHOLD: f64 = 0.02;
/// `BBR.Beta`.
const BETA: f64 = 0.7;

/// [`crate::controller::BbrConfig::tolerate_random_loss`]: the largest share of lost packets that counts as random while the RTT is
/// near its minimum, beyond the share that the path loses in any case ([`super::random_loss`]). A loss rate of 5 % shows this share in a
/// round of 33 packets once in 40 rounds. A probe at 1.25 times the rate of a bottleneck without a queue loses 20 %.
const RANDOM_LOSS: f64 = 0.15;
/// While the RTT shows no queue at all, so many packets of any flight may be lost: of ten packets, a loss rate of 20 % takes more than four
/// once in 30 flights.
const RANDOM_PACKETS: f64 = 4.0;
/// The RTT is near its minimum if it exceeds the minimum by no more than the minimum divided by this, and [`RTT_NOISE`]. The loss of a
/// packet that met a longer queue sets `inflight_longterm` to 1.25 BDP or more, which with the headroom of 15 % still holds the BDP.
/// So losses that are taken for congestion although they were random do not slow the flow down.
const NEAR_MINIMUM: u32 = 4;
/// The time that timers and delayed acknowledgements add to the RTT of a short path without any queue.
pub(super) const RTT_NOISE: Duration = Duration::from_millis(5);

impl Bbr {
    /// `HandleLostPacket`.
    pub(super) fn handle_lost_packet(&mut self, lost: &LostPacket) {
        if self.losses.before.is_none() {
            self.losses.before = Some(self.undo_state());
        }
        let (size, lost_since) = (lost.bytes as f64, lost.lost_since as f64);
        let tx_in_flight = lost.flight_when_sent as f64;
        let too_high = self.is_loss_too_high(lost_since, tx_in_flight, size);
        if too_high || !self.tolerates_loss() {
            self.note_loss();
        }
        if self.probe.is_sample && too_high {
            let at_loss = inflight_at_loss(tx_in_flight, lost_since, size);
            self.handle_inflight_too_high(lost.now, at_loss, lost.application_limited);
        }
    }

    /// Whether losses count as random now ([`crate::controller::BbrConfig::tolerate_random_loss`]).
    fn tolerates_loss(&self) -> bool {
        self.config.tolerate_random_loss && self.is_near_min_rtt()
    }

    /// The latest RTT decides, not the minimum of the round: a probe for bandwidth fills an empty queue within a round.
    fn is_near_min_rtt(&self) -> bool {
        self.is_latest_rtt_below(|least| least.saturating_add(least / NEAR_MINIMUM + RTT_NOISE))
    }

    pub(super) fn is_latest_rtt_below(&self, most: impl FnOnce(Duration) -> Duration) -> bool {
        let known = self.latest_rtt.zip(self.least_known_rtt());
        known.is_some_and(|(latest, least)| latest <= most(least))
    }

    fn least_known_rtt(&self) -> Option<Duration> {
        let known = self.min_rtt.get();
        self.least_rtt
            .map_or(known, |least| known.map(|min| min.min(least)))
    }

    pub(super) fn follow_random_loss(&mut self, sample: &Sample) {
        self.random_loss.on_delivered(sample.newly_acked, sample.rtt);
        let least = self.least_known_rtt();
        self.random_loss.end_period(self.rounds.count, self.packet, least);
    }

    /// `IsInflightTooHigh`. Decision: the loss of a single `packet` never exceeds the threshold. With fewer than 50 packets in flight it
    /// would be more than 2 %, but no smaller loss can occur there, so a path with a loss rate of 1 % would end most of its probes. For the
    /// same reason random losses have a least number ([`RANDOM_PACKETS`]).
    pub(super) fn is_loss_too_high(&self, lost: f64, tx_in_flight: f64, packet: f64) -> bool {
        if !self.tolerates_loss() {
            return lost > (tx_in_flight * LOSS_THRESHOLD).max(packet);
        }
        let packets = if self.is_latest_rtt_below(without_queue) {
            RANDOM_PACKETS
        } else {
            1.0
        };
        let share = RANDOM_LOSS + self.random_loss.share();
        lost > (tx_in_flight * share).max(packets * packet)
    }

    /// The same for CE marks, each of which counts as the loss of a packet. A mark is not random, so a single one suffices.
    pub(super) fn is_marking_too_high(&self, sample: &Sample) -> bool {
        self.losses.marked > 0.0 && sample.lost + self.losses.marked > sample.tx_in_flight * LOSS_THRESHOLD
    }

    /// `HandleInflightTooHigh`.
    fn handle_inflight_too_high(&mut self, now: Timestamp, tx_in_flight: f64, app_limited: bool) {
        self.probe.too_high = true;
        self.probe.is_sample = false;
        if !app_limited {
            self.model.inflight_longterm = tx_in_flight.max(self.target_inflight() * BETA);
        }
        if self.state == State::Up {
            self.losses.set_undo_state(State::Up);
            self.start_down(now);
        }
    }

    /// `NoteLoss`. The state is saved in [`Self::follow_episodes`].
    fn note_loss(&mut self) {
        self.losses.noted = true;
        if !self.losses.in_round {
            self.losses.in_round = true;
            self.losses.begins_round = true;
        }
    }

    /// Before a report is used: losses and CE marks that no other call reported, `OnEnterRTO`, `OnEnterFastRecovery` and the end of
    /// recovery.
    ///
    /// Decision: the state is saved when an episode begins. The draft saves it at the first loss of each round too, which would
    /// overwrite the state to return to with one that the episode already reduced.
    pub(super) fn follow_episodes(&mut self, report: &Report, sample: &Sample) {
        let now = report.now;
        let losses_told = self.losses.before.is_some();
        let begins = matches!(report.reduction, Some(Reduction::Loss | Reduction::Timeout));
        let timeout = report.reduction == Some(Reduction::Timeout);
        if begins {
            self.save_cwnd();
            let undo = self.losses.before.take();
            self.losses.undo = Some(undo.unwrap_or_else(|| self.undo_state()));
        } else if let Some(state) = self.losses.before.take().and_then(|before| before.state) {
            self.losses.set_undo_state(state);
        }
        let marked = report.marked > 0 || report.reduction == Some(Reduction::Ecn);
        if timeout || marked || (report.lost > 0 && !losses_told) {
            self.note_loss();
        }
        if marked {
            self.losses.marked += f64::from(report.marked.max(1)) * self.packet;
            if self.probe.is_sample && self.is_marking_too_high(sample) {
                self.handle_inflight_too_high(now, sample.tx_in_flight, sample.app_limited);
            }
        }
        if timeout {
            self.allow_one_packet();
            self.losses.timeout_until = self.delivered.saturating_add(report.prior_flight as u64);
        }
        let recovers = begins || report.recovering || self.delivered < self.losses.timeout_until;
        if self.losses.in_recovery && !recovers {
            self.restore_cwnd();
        } else if !self.losses.in_recovery {
            self.losses.recovery_delivered = self.delivered;
        }
        self.losses.in_recovery = recovers;
        if core::mem::take(&mut self.losses.noted) {
            self.losses.events = self.losses.events.saturating_add(1);
        }
        if core::mem::take(&mut self.losses.begins_round) {
            self.losses.round_delivered = self.delivered;
        }
    }

    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest_delivery_signals(&mut self, sample: &Sample) {
        self.model.bw_latest = self.model.bw_latest.max(sample.rate);
        self.model.inflight_latest = self.model.inflight_latest.max(sample.delivered);
        let ends = |prior| prior >= self.losses.round_delivered;
        self.losses.round_start = sample.prior_delivered.is_some_and(ends);
        if self.losses.round_start {
            self.losses.round_delivered = self.delivered;
        }
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery_signals(&mut self, sample: &Sample) {
        if self.losses.round_start {
            self.model.bw_latest = sample.rate;
            self.model.inflight_latest = sample.delivered;
            self.losses.events = 0;
            self.losses.marked = 0.0;
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.losses.in_round = false;
        self.model.bw_latest = 0.0;
        self.model.inflight_latest = 0.0;
    }

    /// `UpdateCongestionSignals`. Decision: the low rates of ProbeRTT itself, which the draft ignores elsewhere, do not lower the bounds
    /// after ProbeRTT either. With a loss in the round after ProbeRTT, the rate would otherwise be 0.7 times the bandwidth.
    pub(super) fn update_congestion_signals(&mut self, sample: &Sample) {
        self.update_max_bw(sample);
        if self.losses.round_start {
            let by_probe_rtt = |prior| self.min_rtt.is_app_limited(prior);
            if self.state == State::ProbeRtt || !sample.prior_delivered.is_some_and(by_probe_rtt) {
                self.adapt_lower_bounds();
            }
            self.losses.in_round = false;
        }
    }

    /// `AdaptLowerBoundsFromCongestion`.
    fn adapt_lower_bounds(&mut self) {
        if self.state.is_probing() || !self.losses.in_round {
            return;
        }
        let (max_bw, cwnd) = (self.model.max_bw.get(), self.control.cwnd);
        let model = &mut self.model;
        let bw = finite_or(model.bw_shortterm, max_bw);
        let inflight = finite_or(model.inflight_shortterm, cwnd);
        model.bw_shortterm = model.bw_latest.max(BETA * bw);
        model.inflight_shortterm = model.inflight_latest.max(BETA * inflight);
    }

    /// `SaveStateUponLoss`, without the window.
    fn undo_state(&self) -> Undo {
        Undo {
            state: None,
            bw_shortterm: self.model.bw_shortterm,
            inflight_shortterm: self.model.inflight_shortterm,
            inflight_longterm: self.model.inflight_longterm,
        }
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn handle_spurious_loss_detection(&mut self) {
        let Some(undo) = self.losses.undo.take() else {
            return;
        };
        self.restore_cwnd();
        self.losses.in_round = false;
        self.losses.timeout_until = 0;
        self.full_pipe.reset(0.0);
        let model = &mut self.model;
        model.bw_shortterm = model.bw_shortterm.max(undo.bw_shortterm);
        model.inflight_shortterm = model.inflight_shortterm.max(undo.inflight_shortterm);
        model.inflight_longterm = model.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill();
            }
            _ => {}
        }
    }
}

/// `InflightAtLoss`: where within the lost packet the losses crossed the threshold. Decision: within the packet, not before it.
fn inflight_at_loss(tx_in_flight: f64, lost: f64, size: f64) -> f64 {
    let before = (tx_in_flight - size).max(0.0);
    let lost_before = (lost - size).max(0.0);
    let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
    before + prefix.clamp(0.0, size)
}

/// `value`, or `otherwise` if it is not set yet (infinite).
fn finite_or(value: f64, otherwise: f64) -> f64 {
    if value.is_finite() { value } else { otherwise }
}
