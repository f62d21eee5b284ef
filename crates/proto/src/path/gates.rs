//! The limits of the packets of a path beside the congestion window.

use crate::config::Config;
use crate::congestion::ProportionalRateReduction;
use crate::extension::stream_priority::DelayBound;
use crate::pacing::{Burst, Pacer};
use crate::time::Timestamp;

#[derive(Debug)]
pub(crate) struct Gates {
    pub(crate) burst: Burst,
    pub(crate) pacer: Pacer,
    /// During recovery with proportional rate reduction (RFC 9937): how much may leave.
    pub(crate) recovery: Option<ProportionalRateReduction>,
    /// With a delay bound for less urgent data: how much may be in flight for such data to leave.
    pub(crate) delay_bound: Option<DelayBound>,
}

impl Gates {
    pub(super) fn new(config: &Config, now: Timestamp) -> Self {
        let bound = config.low_priority_delay;
        Self {
            burst: Burst::default(),
            pacer: Pacer::default(),
            recovery: None,
            delay_bound: bound.map(|target| DelayBound::new(target, now)),
        }
    }
}
