//! Single rules of loss recovery as settings, for experiments: historic rules, and those of other stacks (feature `experiments`).

use super::recovery::{DiscardReduction, RecoveryRules, T3Restart};
use crate::setters::setters;

setters!(RecoveryRules {
    missing_reports: u8,
    fast_recovery: bool,
    initial_ssthresh: usize,
    ssthresh_floor: usize,
    gap_acks_grow: bool,
    t3_restart: T3Restart,
    early_discard_reduces: DiscardReduction,
    forward_waits: bool,
});

impl RecoveryRules {
    /// RFC 2960 as in the simulations of 2004: four missing reports, no fast recovery, a floor of two packets, no growth by gap ack blocks
    /// alone, and a reduction at once for early discard.
    pub const RFC2960: Self = Self {
        missing_reports: 4,
        fast_recovery: false,
        ssthresh_floor: 2,
        gap_acks_grow: false,
        early_discard_reduces: DiscardReduction::FirstReport,
        forward_waits: false,
        ..Self::RFC9260
    };
}
