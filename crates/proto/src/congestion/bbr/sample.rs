//! Owns what BBR learns from one acknowledgement.

use core::time::Duration;

/// The largest window in bytes and the largest rate in bytes per second. Far above any path; they keep absurd input finite.
pub(super) const LARGEST: f64 = (1_u64 << 40) as f64;

/// `RS`: what one acknowledgement tells. Without a rate sample, all but the acknowledged bytes are zero or absent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) newly_acked: f64,
    /// `RS.delivery_rate`; zero if it is not reliable.
    pub(super) rate: f64,
    pub(super) delivered: f64,
    pub(super) app_limited: bool,
    pub(super) rtt: Option<Duration>,
    pub(super) tx_in_flight: f64,
    pub(super) lost: f64,
    pub(super) prior_delivered: Option<u64>,
}
