//! The rules of loss recovery as settings: RFC 8985 (RACK-TLP), RFC 9260 §7.2.4, and historic rules for experiments.

use super::error::{ConfigError, check};

/// Rules of loss recovery. Applications choose [`RecoveryRules::RACK`] (the default) or [`RecoveryRules::RFC9260`]. Single rules can be
/// set with the feature `experiments`, for the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRules {
    /// How losses are detected.
    pub(crate) detection: LossDetection,
    /// Missing reports that declare a chunk lost (fast retransmit, RFC 9260 §7.2.4), at least 1. RFC 9260: 3.
    pub(crate) missing_reports: u8,
    /// Whether fast recovery holds back further window reductions, and growth, until all chunks that were outstanding at its
    /// begin are acknowledged (RFC 9260 §7.2.4).
    pub(crate) fast_recovery: bool,
    /// ssthresh before the first loss, in bytes. RFC 9260 §7.2.1 allows an arbitrarily high value, which
    /// [`RecoveryRules::RFC9260`] has; the simulations of the papers had the receive window's 65,536 bytes.
    pub(crate) initial_ssthresh: usize,
    /// The smallest ssthresh after a window reduction, in full packets, at least 1. RFC 9260 §7.2.3: 4.
    pub(crate) ssthresh_floor: usize,
    /// Whether, in congestion avoidance, the bytes of an acknowledgement that does not move the cumulative TSN ack point count towards the
    /// growth of the window (`partial_bytes_acked`). RFC 9260 §7.2.2 counts them; RFC 2960 and RFC 4960 did not.
    pub(crate) gap_acks_grow: bool,
    /// Which acknowledgement restarts T3-rtx while data is outstanding (RFC 9260 §6.3.2 R3).
    pub(crate) t3_restart: T3Restart,
    /// When a chunk that is abandoned at its first missing report counts as a loss for congestion control.
    pub(crate) early_discard_reduces: DiscardReduction,
    /// Whether the sender ignores acknowledgements of the first round trip after a FORWARD-TSN when it decides whether to
    /// retransmit the FORWARD-TSN (RFC 3758 §3.5, C5's note, leaves the choice).
    pub(crate) forward_waits: bool,
}

/// How losses are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LossDetection {
    /// Missing reports (RFC 9260 §7.2.4), and T3-rtx for all losses that they do not detect.
    #[default]
    MissingReports,
    /// RACK-TLP (RFC 8985): a chunk is lost once a later packet arrived and a round trip and a reordering window have passed; a
    /// probe finds losses at the end of a burst; T3-rtx is the last resort, and undone if it was spurious (F-RTO, RFC 4138).
    /// Window reductions are spread over a round trip (RFC 9937) and undone if all losses were spurious (RFC 3708).
    Rack,
}

/// When a chunk that is abandoned at its first missing report (early discard) counts as a loss for congestion control (feature
/// `experiments`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DiscardReduction {
    /// Like any other chunk: when missing reports or RACK declare it lost, and at the latest when the receiver skips it because of
    /// FORWARD-TSN. A chunk that was only late costs nothing.
    #[default]
    ReportCount,
    /// At the first missing report, with the FORWARD-TSN.
    FirstReport,
    /// Never, as in FreeBSD. For comparison only: the network lost the chunk.
    Never,
}

/// Which acknowledgement restarts T3-rtx (feature `experiments`). RFC 9260's "acknowledges the earliest outstanding TSN" has more than one meaning once
/// chunks can be abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum T3Restart {
    /// An acknowledgement of the earliest chunk in flight on the path, by the cumulative TSN ack or by a gap ack block.
    EarliestInFlight,
    /// An acknowledgement that moves the cumulative TSN ack point, over whatever chunks.
    CumulativeMoved,
    /// An acknowledgement whose cumulative TSN ack passes a chunk that was in flight on the path: no gap ack block had acknowledged
    /// the chunk before, and it was not abandoned.
    CumulativeInFlight,
}

impl RecoveryRules {
    /// RFC 8985, with the other rules of RFC 9260.
    pub const RACK: Self = Self {
        detection: LossDetection::Rack,
        ..Self::RFC9260
    };

    /// RFC 9260 §7.2.
    pub const RFC9260: Self = Self {
        detection: LossDetection::MissingReports,
        missing_reports: 3,
        fast_recovery: true,
        initial_ssthresh: usize::MAX,
        ssthresh_floor: 4,
        gap_acks_grow: true,
        t3_restart: T3Restart::EarliestInFlight,
        early_discard_reduces: DiscardReduction::ReportCount,
        forward_waits: true,
    };

    /// Checks the range of every rule.
    ///
    /// # Errors
    /// Names the first rule that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (
                self.missing_reports >= 1,
                "recovery.missing_reports",
                "must be at least 1",
            ),
            (
                self.ssthresh_floor >= 1,
                "recovery.ssthresh_floor",
                "must be at least 1 packet",
            ),
        ])
    }

    /// How losses are detected.
    #[must_use]
    pub const fn loss_detection(self) -> LossDetection {
        self.detection
    }
}
