//! The timers of an association as a whole: a fixed few. Those of a path are with the path.

use crate::time::Timestamp;

/// Deadlines of the timers that run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    /// T1-init or T1-cookie (RFC 9260 §5.1), or T2-shutdown (§9.2): no two of them ever run together.
    pub(crate) control: Option<Timestamp>,
    /// T5-shutdown-guard (§9.2).
    pub(crate) shutdown_guard: Option<Timestamp>,
    /// When the closed window of the peer is probed (§6.1 A).
    pub(crate) window_probe: Option<Timestamp>,
}

impl Timers {
    /// The first deadline.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        [self.control, self.shutdown_guard, self.window_probe]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Takes a deadline that has come.
pub(crate) fn expired(timer: &mut Option<Timestamp>, now: Timestamp) -> bool {
    timer.take_if(|deadline| *deadline <= now).is_some()
}
