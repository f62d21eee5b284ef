//! The number of a path and its state, as the application, events and statistics name them.

use core::fmt;

/// A path of an association: a pair of a local and a remote address. Numbered from 0 in the order of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u8);

impl PathId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a path can be used (RFC 9260 §5.4, §8.2; RFC 7829).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The peer listed the address, and has not yet shown that it is there. Nothing but heartbeats is sent there: every
    /// RTO, after more than `Path.Max.Retrans` errors in a row at the pace of other paths (RFC 9260 §5.4).
    Unconfirmed,
    /// In use, or ready to be.
    Active,
    /// More than `PotentiallyFailed.Max.Retrans` errors in a row: nothing is sent here while another path is active
    /// (RFC 7829). Only with that setting.
    PotentiallyFailed,
    /// More than `Path.Max.Retrans` errors in a row.
    Inactive,
}
