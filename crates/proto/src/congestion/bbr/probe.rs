//! Owns the state of BBR's probes for bandwidth (draft-ietf-ccwg-bbr §5.3.3).

use core::time::Duration;

use crate::time::Timestamp;

/// `BBR.ack_phase`: the relation of the acknowledgements to the probe for bandwidth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The state of the probes for bandwidth.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) ack_phase: AckPhase,
    /// `BBR.is_bw_probe_sample`.
    pub(super) is_sample: bool,
    /// `BBR.prev_probe_too_high`.
    pub(super) too_high: bool,
    /// `BBR.prev_probe_precautionary`.
    pub(super) precautionary: bool,
    pub(super) up_rounds: u32,
    pub(super) up_acked: f64,
    pub(super) up_acked_per_increase: f64,
    pub(super) rounds_since_up: u64,
    pub(super) wait: Duration,
    pub(super) cycle_stamp: Timestamp,
    pub(super) drain_start_round: u64,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            too_high: false,
            precautionary: false,
            up_rounds: 0,
            up_acked: 0.0,
            up_acked_per_increase: f64::INFINITY,
            rounds_since_up: 0,
            wait: Duration::ZERO,
            cycle_stamp: Timestamp::ZERO,
            drain_start_round: 0,
        }
    }
}
