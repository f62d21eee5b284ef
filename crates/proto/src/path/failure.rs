//! Path failure detection: error counter and path state (RFC 9260 §5.4, §8.2; RFC 7829 §3.2).

use core::time::Duration;

use super::{Path, PathId, PathState, Paths};
use crate::config::RetransmissionConfig;
use crate::time::Timestamp;

/// After this many heartbeats without an answer the local address of an unconfirmed path gets another path too.
const DOUBTFUL: u32 = 2;

impl Path {
    /// The path did not answer: counts an error. Returns whether the state changed.
    pub(crate) fn on_error(&mut self, limits: &RetransmissionConfig) -> bool {
        self.error_count += 1;
        self.route.try_other_port();
        let doubtful = |limit: u32| self.error_count > limit && self.state == PathState::Active;
        let state = if self.state == PathState::Unconfirmed {
            // The address may not be the peer's, and stays unconfirmed until it answers (§5.4).
            self.state
        } else if self.error_count > self.parameters.max_retrans {
            PathState::Inactive
        } else if limits.failover.max_retrans().is_some_and(doubtful) {
            PathState::PotentiallyFailed
        } else {
            self.state
        };
        core::mem::replace(&mut self.state, state) != state
    }

    /// Data sent on this path or a heartbeat was acknowledged, or set-up used the path. Returns whether the state changed. `arrived_here`:
    /// the last packet arrived on this path.
    pub(crate) fn on_answered(&mut self, arrived_here: bool) -> bool {
        if self.route.removed {
            return false;
        }
        self.error_count = 0;
        if arrived_here {
            self.route.on_answer();
        }
        core::mem::replace(&mut self.state, PathState::Active) != PathState::Active
    }

    /// Whether the address of this path may be out of reach: no heartbeat was ever answered, and several were sent.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.state == PathState::Unconfirmed && self.error_count >= DOUBTFUL
    }

    /// Whether the acknowledgement of data that was sent on several paths does not prove that this one works (RFC 7829 §3.2,
    /// item 9).
    pub(crate) fn is_in_doubt(&self, limits: &RetransmissionConfig) -> bool {
        let in_doubt = matches!(self.state, PathState::PotentiallyFailed | PathState::Inactive);
        in_doubt && limits.fails_potentially()
    }

    /// The host at the unconfirmed address of this path has no such association: heartbeats are sent there only as often as on a failed
    /// path. Returns false if no heartbeat is pending, because then the host answered nothing.
    pub(crate) fn on_denied(&mut self) -> bool {
        let errors = self.parameters.max_retrans.saturating_add(1);
        if self.heartbeat.pending.take().is_none() {
            return false;
        }
        self.error_count = self.error_count.max(errors);
        true
    }
}

impl Paths {
    /// Whether one more error makes data leave this path.
    pub(crate) fn leave_after_error(&self, id: PathId, limits: &RetransmissionConfig) -> bool {
        let most = limits.failover.max_retrans().unwrap_or(u32::MAX);
        let path = self.path(id);
        path.error_count >= most.min(path.parameters.max_retrans) && !self.has_one_path()
    }

    /// The state of a path changed after an error (RFC 7829 §3.2, items 5, 6 and 8). If the path became potentially failed, a
    /// heartbeat leaves at once, or after an RTO if data still uses the path. If it became inactive, heartbeats keep their interval.
    pub(crate) fn on_doubted(&mut self, now: Timestamp, id: PathId, sends_heartbeats: bool) {
        let data_leaves = self.data_path() != id;
        let path = self.path_mut(id);
        if path.state == PathState::PotentiallyFailed {
            path.heartbeat.pending = None;
            if path.parameters.heartbeat_interval.is_some() && sends_heartbeats {
                let wait = if data_leaves {
                    Duration::ZERO
                } else {
                    path.rtt.rto()
                };
                path.heartbeat.due = Some(now + wait);
            }
        }
    }
}
