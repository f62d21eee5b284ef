//! Owns the shutdown data that no state of the association has: whether the application asked for it, T5-shutdown-guard (RFC 9260 §9.2)
//! and the time of idleness.

use core::time::Duration;

use super::state::State;
use crate::config::Config;
use crate::time::Timestamp;

/// Bytes of user data a second that the peer has to acknowledge for T5-shutdown-guard to start again. With this bound a slow transfer
/// survives, and a peer that acknowledges a few bytes at a time does not hold up the shutdown.
const LEAST_RATE: u64 = 200;

/// The shutdown data that no state of the association has: whether the application requested it, and T5-shutdown-guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The application asked for the shutdown. A restart of the peer does not change that.
    asked: bool,
    /// When T5-shutdown-guard expires.
    guard: Option<Timestamp>,
    /// How long T5-shutdown-guard runs.
    guard_time: Duration,
    /// Acknowledged bytes that start T5-shutdown-guard again: [`LEAST_RATE`] in its time.
    progress: usize,
    /// Bytes that were not acknowledged when T5-shutdown-guard was last started.
    left: usize,
    /// When a message was last accepted, or data arrived.
    active_at: Timestamp,
    idle_timeout: Option<Duration>,
}

impl Ending {
    pub(super) fn new(config: &Config) -> Self {
        let guard_time = config.effective_shutdown_guard();
        let progress = u128::from(LEAST_RATE) * guard_time.as_millis() / 1000;
        Self {
            asked: false,
            guard: None,
            guard_time,
            progress: usize::try_from(progress).unwrap_or(usize::MAX).max(1),
            left: 0,
            active_at: Timestamp::ZERO,
            idle_timeout: config.idle_timeout,
        }
    }

    /// A message was accepted, or data arrived.
    pub(super) fn on_activity(&mut self, now: Timestamp) {
        self.active_at = now;
    }

    /// When the association will have been idle for `Config::idle_timeout`. It is not idle while data waits for its acknowledgement.
    pub(super) fn idle_due(&self, state: &State, all_acknowledged: bool) -> Option<Timestamp> {
        let idle = matches!(state, State::Established) && all_acknowledged;
        self.idle_timeout
            .filter(|_| idle)
            .map(|limit| self.active_at + limit)
    }

    /// Whether the application asked for the shutdown.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    /// When T5-shutdown-guard expires, while it runs.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.guard
    }

    /// The application asks for the shutdown while `left` bytes are not acknowledged.
    pub(super) fn ask(&mut self, now: Timestamp, left: usize) {
        self.asked = true;
        self.begin(now, left);
    }

    /// The shutdown begins, at the request of the application or of the peer. If T5-shutdown-guard runs already, it goes on.
    pub(super) fn begin(&mut self, now: Timestamp, left: usize) {
        if self.guard.is_none() {
            self.start_guard(now, left);
        }
    }

    /// Starts or restarts T5-shutdown-guard.
    fn start_guard(&mut self, now: Timestamp, left: usize) {
        self.left = left;
        self.guard = Some(now + self.guard_time);
    }

    /// `left` bytes are not acknowledged now.
    pub(super) fn on_left(&mut self, now: Timestamp, left: usize) {
        let acknowledged = self.left.saturating_sub(left);
        if acknowledged >= self.progress || (acknowledged > 0 && left == 0) {
            self.start_guard(now, left);
        }
    }

    /// The application continued a message that it had begun before: the peer has to acknowledge so many bytes more.
    pub(super) fn on_more(&mut self, bytes: usize) {
        if self.guard.is_some() {
            self.left += bytes;
        }
    }

    /// Set-up is complete. If the application asked for the shutdown meanwhile, T5-shutdown-guard restarts.
    pub(super) fn on_set_up_complete(&mut self, now: Timestamp, left: usize) {
        if self.asked {
            self.start_guard(now, left);
        }
    }

    /// The peer restarted: a shutdown that the peer asked for is cancelled, a shutdown that the application asked for continues. The guard
    /// does not restart, so that a peer that restarts again and again does not hold up the shutdown.
    pub(super) fn on_restart(&mut self) {
        self.guard = self.guard.filter(|_| self.asked);
        self.left = 0;
    }

    /// Whether T5-shutdown-guard has expired; it is stopped then.
    pub(super) fn guard_expired(&mut self, now: Timestamp) -> bool {
        self.guard.take_if(|due| *due <= now).is_some()
    }

    /// The association is over.
    pub(super) fn stop(&mut self) {
        self.guard = None;
    }
}
