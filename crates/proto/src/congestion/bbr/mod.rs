//! BBR version 3 (draft-ietf-ccwg-bbr), a congestion control algorithm that models the path: its delivery rate, its RTT without a queue,
//! and the bytes in flight that it holds without loss.
//!
//! The functions have the names of the draft's pseudocode, in this project's spelling. Its `C.SMSS` is [`Bbr::packet`], `C.cwnd` and
//! `C.pacing_rate` are in [`Control`], and `RS` is a [`Sample`]. Volumes are bytes and rates are bytes per second, as `f64`: an
//! unset bound is infinite, as in the draft. Only operations that IEEE 754 rounds exactly are used, so all platforms compute alike.
//!
//! Where the draft leaves a choice, or this code deviates from it, a comment begins with *Decision*.

mod control;
mod estimates;
#[cfg(test)]
mod events;
mod full_pipe;
mod loss;
mod losses;
mod min_rtt;
mod model;
mod probe;
mod probe_bw;
mod probe_rtt;
mod random_loss;
mod sample;
mod startup;
mod state;
#[cfg(test)]
mod tests;
mod window;

use core::time::Duration;

use self::full_pipe::FullPipe;
use self::losses::Losses;
use self::min_rtt::MinRtt;
use self::model::{Model, Rounds};
use self::probe::Probe;
use self::random_loss::RandomLoss;
use self::sample::{LARGEST, Sample};
use self::state::State;
use self::window::Control;
use crate::controller::{BbrConfig, Controller, LostPacket, NewPath, Pace, Report, SentPacket};
use crate::random::Random;
use crate::time::Timestamp;

/// BBR at work on one path.
#[derive(Debug)]
pub(crate) struct Bbr {
    config: BbrConfig,
    random: Random,
    /// `C.SMSS`: PMDCS.
    packet: f64,
    /// `C.InitialCwnd`.
    initial_window: f64,
    state: State,
    /// `C.inflight` after the last event.
    inflight: f64,
    /// `C.delivered`.
    delivered: u64,
    /// The RTT of the last acknowledgement that measured one.
    latest_rtt: Option<Duration>,
    /// The minimum RTT that the sender knows: over minutes, whereas [`MinRtt`] forgets after 10 s.
    least_rtt: Option<Duration>,
    /// `BBR.idle_restart`.
    idle_restart: bool,
    control: Control,
    rounds: Rounds,
    model: Model,
    full_pipe: FullPipe,
    probe: Probe,
    min_rtt: MinRtt,
    losses: Losses,
    random_loss: RandomLoss,
}

impl Bbr {
    /// `OnInit`.
    pub(super) fn new(path: &NewPath, config: BbrConfig) -> Self {
        let initial_window = volume(path.initial_window);
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&path.seed.to_le_bytes());
        Self {
            config,
            random: Random::from_seed(seed),
            packet: volume(path.max_data),
            initial_window,
            state: State::Startup,
            inflight: 0.0,
            delivered: 0,
            latest_rtt: None,
            least_rtt: None,
            idle_restart: false,
            control: Control::new(initial_window),
            rounds: Rounds::default(),
            model: Model::default(),
            full_pipe: FullPipe::default(),
            probe: Probe::default(),
            min_rtt: MinRtt::default(),
            losses: Losses::default(),
            random_loss: RandomLoss::default(),
        }
    }

    /// Reads a report: `C.delivered`, `C.inflight` and `RS`.
    fn sample(&mut self, report: &Report) -> Sample {
        // Bytes that were declared lost and arrived later count in `acked` too, but were no longer in flight.
        let left = report.prior_flight.saturating_sub(report.acked);
        self.inflight = left.saturating_sub(report.lost) as f64;
        self.least_rtt = report.min_rtt.or(self.least_rtt);
        let newly_acked = report.acked as f64;
        let Some(told) = report.sample else {
            self.delivered = self.delivered.saturating_add(report.acked as u64);
            return Sample {
                newly_acked,
                rtt: report.latest_rtt,
                ..Sample::default()
            };
        };
        self.delivered = self.delivered.max(told.total_delivered);
        // §4.1.2.3: an interval shorter than any round trip is the result of a spurious retransmission, and gives no rate.
        let reliable = !told.interval.is_zero() && told.interval >= report.min_rtt.unwrap_or_default();
        Sample {
            newly_acked,
            rate: if reliable { told.rate().min(LARGEST) } else { 0.0 },
            delivered: told.delivered as f64,
            app_limited: told.application_limited || self.min_rtt.is_app_limited(told.delivered_before),
            rtt: told.rtt.or(report.latest_rtt),
            tx_in_flight: told.flight_when_sent as f64,
            lost: told.lost as f64,
            prior_delivered: Some(told.delivered_before),
        }
    }

    /// `UpdateModelAndState`.
    fn update_model_and_state(&mut self, now: Timestamp, sample: &Sample) {
        self.update_latest_delivery_signals(sample);
        self.update_congestion_signals(sample);
        self.update_ack_aggregation(now, sample);
        self.check_full_bw_reached(sample);
        self.check_startup_done(sample);
        self.check_drain_done(now);
        self.update_probe_bw_cycle_phase(now, sample);
        self.update_min_rtt(now, sample);
        self.check_probe_rtt(now);
        self.advance_latest_delivery_signals(sample);
        self.model.bound_bw();
    }

    /// `HandleRestartFromIdle`, for a flow that certainly restarts from idle.
    fn restart_from_idle(&mut self, now: Timestamp) {
        self.idle_restart = true;
        self.model.extra_acked.restart(now);
        if self.state.is_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
}

impl Controller for Bbr {
    #[inline]
    fn on_sent(&mut self, sent: &SentPacket) {
        let begins = sent.flight <= sent.bytes;
        if begins && (sent.application_limited || self.min_rtt.is_app_limited(self.delivered)) {
            self.restart_from_idle(sent.now);
        }
        self.inflight = sent.flight as f64;
        self.control.note_use(self.inflight);
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        self.min_rtt.on_lost(lost.bytes as u64);
        self.random_loss.on_lost(lost.bytes as f64);
        self.handle_lost_packet(lost);
    }

    fn on_report(&mut self, report: &Report) {
        self.control.note_use(report.prior_flight as f64);
        let sample = self.sample(report);
        self.follow_episodes(report, &sample);
        if report.acked > 0 {
            self.update_model_and_state(report.now, &sample);
            self.update_control_parameters(report, &sample);
            self.follow_random_loss(&sample);
        }
        self.latest_rtt = sample.rtt.or(self.latest_rtt);
    }

    fn on_spurious(&mut self, _: Timestamp) {
        self.handle_spurious_loss_detection();
    }

    /// Decision: after an RTO without data the queue is empty, whether the application or the peer's window caused the pause.
    fn on_idle(&mut self, now: Timestamp, _: bool) {
        self.restart_from_idle(now);
    }

    fn on_packet_size(&mut self, max_data: usize) {
        self.packet = volume(max_data);
    }

    #[inline]
    fn window(&self) -> usize {
        self.control.cwnd.max(self.packet).min(LARGEST) as usize
    }

    #[inline]
    fn pace(&self) -> Option<Pace> {
        Some(Pace {
            // At least one packet a second: no model can stop a path for ever.
            rate: self.control.pacing_rate.clamp(self.packet, LARGEST),
            quantum: self.send_quantum() as usize,
        })
    }

    fn known_rate(&self) -> Option<f64> {
        let rate = self.model.max_bw.get();
        (self.full_pipe.reached && rate > 0.0).then_some(rate)
    }

    fn wants_rate_samples(&self) -> bool {
        true
    }

    fn uses_proportional_rate_reduction(&self) -> bool {
        false
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Bbr {
    /// The largest bandwidth, and the bounds that losses set: `bw_shortterm`, `inflight_shortterm`, `inflight_longterm`.
    pub(super) fn model_bounds(&self) -> (f64, [f64; 3]) {
        let model = &self.model;
        let bounds = [
            model.bw_shortterm,
            model.inflight_shortterm,
            model.inflight_longterm,
        ];
        (model.max_bw.get(), bounds)
    }
}

/// A volume that a setting or the path gives, within bounds.
fn volume(bytes: usize) -> f64 {
    (bytes as f64).clamp(1.0, LARGEST)
}
