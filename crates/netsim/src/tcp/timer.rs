//! A timer that is set much more often than it expires.

use anabranch_proto::Timestamp;

/// A timer whose owner is woken at the deadline or earlier. If the deadline moves later, as with every acknowledgement for a retransmission
/// timer, the wake stays at its time. The event queue then has nothing to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer {
    deadline: Option<Timestamp>,
    wake: Option<Timestamp>,
}

impl Timer {
    pub(super) fn is_set(&self) -> bool {
        self.deadline.is_some()
    }

    pub(super) fn set(&mut self, deadline: Timestamp) {
        self.deadline = Some(deadline);
        if self.wake.is_none_or(|wake| wake > deadline) {
            self.wake = Some(deadline);
        }
    }

    pub(super) fn stop(&mut self) {
        self.deadline = None;
    }

    #[cfg(test)]
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// When to call `fire` next.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.wake
    }

    /// Whether the deadline has come; if so, the timer stops.
    pub(super) fn fire(&mut self, now: Timestamp) -> bool {
        if self.wake.is_none_or(|wake| wake > now) {
            return false;
        }
        let due = self.deadline.is_some_and(|deadline| deadline <= now);
        if due {
            self.deadline = None;
        }
        self.wake = self.deadline;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_moved_later_is_kept_and_one_moved_earlier_wakes_earlier() {
        let mut timer = Timer::default();
        timer.set(Timestamp(10));
        timer.set(Timestamp(30));
        assert_eq!(timer.wake(), Some(Timestamp(10)));
        assert!(!timer.fire(Timestamp(10)), "only woken");
        assert_eq!(timer.wake(), Some(Timestamp(30)));
        timer.set(Timestamp(20));
        assert_eq!(timer.wake(), Some(Timestamp(20)));
        assert!(timer.fire(Timestamp(20)));
        assert!(!timer.is_set());
        assert_eq!(timer.wake(), None);
        timer.set(Timestamp(40));
        timer.stop();
        assert!(!timer.fire(Timestamp(40)));
        assert_eq!(timer.wake(), None);
    }
}
