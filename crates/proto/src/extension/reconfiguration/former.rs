//! The TSNs of before a reset (RFC 6525 §5.1.4, §5.2.4).

use core::time::Duration;

use anabranch_wire::Tsn;

use crate::time::Timestamp;

/// The maximum segment lifetime (§5.1.4).
pub(super) const MSL: Duration = Duration::from_secs(30);

/// TSNs of a direction from before a reset that changed them: a late chunk with such a TSN is discarded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Former {
    next: Tsn,
    until: Timestamp,
}

impl Former {
    pub(super) fn new(now: Timestamp, next: Tsn) -> Self {
        Self {
            next,
            until: now + 2 * MSL,
        }
    }

    /// Whether a TSN is of before the reset. TSNs of after it are 2³¹ away, or the fewer that the peer chose, and always later.
    pub(super) fn has(self, now: Timestamp, tsn: Tsn) -> bool {
        now <= self.until && self.next.minus(1).distance_from(tsn) < 1 << 30
    }
}
