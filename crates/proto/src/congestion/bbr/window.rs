//! Owns BBR's window and pacing rate.

use core::time::Duration;

use super::state::State;

/// The round-trip time that the pacing rate begins with, before one is measured.
const NOMINAL_RTT: Duration = Duration::from_millis(1);

/// The window and the pacing rate.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) cwnd: f64,
    pub(super) prior_cwnd: f64,
    pub(super) pacing_rate: f64,
    /// Whether the pacing rate was set by a measured RTT.
    pub(super) paced_by_rtt: bool,
    /// Whether the window was used fully, in this round and in the last one.
    limited: [bool; 2],
}

impl Control {
    pub(super) fn new(initial_window: f64) -> Self {
        Self {
            cwnd: initial_window,
            prior_cwnd: 0.0,
            pacing_rate: initial_pacing_rate(initial_window, NOMINAL_RTT),
            paced_by_rtt: false,
            limited: [false; 2],
        }
    }

    pub(super) fn note_use(&mut self, inflight: f64) {
        self.limited[0] |= inflight >= self.cwnd;
    }

    pub(super) fn begin_round(&mut self) {
        self.limited = [false, self.limited[0]];
    }

    /// `C.is_cwnd_limited`.
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.limited[0] || self.limited[1]
    }
}

/// `InitPacingRate`.
pub(super) fn initial_pacing_rate(initial_window: f64, rtt: Duration) -> f64 {
    State::Startup.pacing_gain() * initial_window / rtt.as_secs_f64()
}
