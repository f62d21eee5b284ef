//! Owns the estimator of a full pipe (draft-ietf-ccwg-bbr §5.3.1.2).

/// §5.3.1.2: whether the delivery rate still grows.
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// `BBR.full_bw_reached`.
    pub(super) reached: bool,
    /// `BBR.full_bw_now`.
    pub(super) now: bool,
    pub(super) bw: f64,
    pub(super) count: u32,
}

impl FullPipe {
    /// `ResetFullBW`, and the rate to compare with.
    pub(super) fn reset(&mut self, bw: f64) {
        (self.now, self.bw, self.count) = (false, bw, 0);
    }
}
