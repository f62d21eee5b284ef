//! The number and the state of a path (RFC 9260 §5.4, §8.2; RFC 7829), as the application, events and statistics use them.

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
    /// The peer listed the address, and no heartbeat has confirmed it yet. Only heartbeats are sent there: one every RTO, and after
    /// more than `Path.Max.Retrans` consecutive errors at the interval of other paths (RFC 9260 §5.4).
    Unconfirmed,
    /// The path works, as far as is known.
    Active,
    /// More than `PotentiallyFailed.Max.Retrans` consecutive errors: no data is sent here while another path is active (RFC 7829). This
    /// state exists only with that setting.
    PotentiallyFailed,
    /// More than `Path.Max.Retrans` consecutive errors (RFC 9260 §8.2).
    Inactive,
}
