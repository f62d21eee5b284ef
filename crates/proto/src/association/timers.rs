//! Timers of an association as a whole that no room owns.

use crate::time::Timestamp;

/// Deadlines of the timers that run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    /// When the closed window of the peer is probed (§6.1 A).
    pub(crate) window_probe: Option<Timestamp>,
}

/// Takes a deadline that has come.
pub(crate) fn expired(timer: &mut Option<Timestamp>, now: Timestamp) -> bool {
    timer.take_if(|deadline| *deadline <= now).is_some()
}
