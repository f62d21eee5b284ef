//! How losses are found and answered, as data: RFC 9260's rules, and beside them the historic ones of the experiments.

/// Rules of loss recovery. What an application wants is [`RecoveryRules::RFC9260`]; the others are for the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRules {
    /// Missing reports that declare a chunk lost (RFC 9260 §7.2.4), at least 1.
    pub missing_reports: u8,
    /// Whether fast recovery holds back further cuts and growth until what was outstanding is acknowledged (RFC 9260
    /// §7.2.4).
    pub fast_recovery: bool,
    /// ssthresh before the first loss, in bytes. RFC 9260 §7.2.1 lets it be arbitrarily high, and so it is; simulations had
    /// the receive window's 65,536.
    pub initial_ssthresh: usize,
    /// The least ssthresh after a cut, in full packets (RFC 9260 §7.2.3), at least 1.
    pub ssthresh_floor: usize,
    /// What restarts T3-rtx while data stays outstanding (RFC 9260 §6.3.2 R3).
    pub t3_restart: T3Restart,
    /// Whether a chunk that is given up at its first missing report counts as a loss for congestion control. It should:
    /// the network lost it. FreeBSD does not count it.
    pub early_discard_cuts: bool,
    /// Whether acknowledgements of the first round trip after a FORWARD-TSN are no reason to repeat it (RFC 3758 §3.5, C5's
    /// note, leaves the choice).
    pub forward_waits: bool,
}

/// What restarts T3-rtx. "Acknowledges the earliest outstanding TSN" is read in more than one way once chunks can be
/// given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum T3Restart {
    /// The earliest chunk in flight on the path was acknowledged, by a gap block too.
    EarliestInFlight,
    /// The cumulative TSN ack point moved, over whatever chunks.
    CumulativeMoved,
    /// The cumulative TSN ack point passed a chunk that was in flight on the path: neither acknowledged by a gap block
    /// before nor given up.
    CumulativeInFlight,
}

impl RecoveryRules {
    /// RFC 9260 §7.2.
    pub const RFC9260: Self = Self {
        missing_reports: 3,
        fast_recovery: true,
        initial_ssthresh: usize::MAX,
        ssthresh_floor: 4,
        t3_restart: T3Restart::EarliestInFlight,
        early_discard_cuts: true,
        forward_waits: true,
    };

    /// RFC 2960 as the simulations of 2004 had it: four missing reports, no fast recovery, a floor of two packets.
    pub const RFC2960: Self = Self {
        missing_reports: 4,
        fast_recovery: false,
        initial_ssthresh: usize::MAX,
        ssthresh_floor: 2,
        t3_restart: T3Restart::EarliestInFlight,
        early_discard_cuts: true,
        forward_waits: false,
    };
}
