//! How losses are found and answered, as data: RFC 9260's rules, and the place where the historic ones of the
//! experiments go beside them.

/// Rules of loss recovery and congestion accounting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoveryRules {
    /// Missing reports that declare a chunk lost (§7.2.4).
    pub(crate) missing_reports: u8,
    /// Whether fast recovery holds back further cuts and growth until what was outstanding is acknowledged (§7.2.4).
    pub(crate) fast_recovery: bool,
    /// The least ssthresh after a cut, in PMDCS (§7.2.3).
    pub(crate) ssthresh_floor: usize,
}

impl RecoveryRules {
    /// RFC 9260 §7.2.
    pub(crate) const RFC9260: Self = Self {
        missing_reports: 3,
        fast_recovery: true,
        ssthresh_floor: 4,
    };
}
