//! The knowledge of a path that messages with a deadline need.

use core::time::Duration;

use super::{RecentLoss, Room, StandingQueue};
use crate::time::Timestamp;

/// The losses of a path, its queue, and the room for copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathEstimate {
    pub(crate) losses: RecentLoss,
    pub(crate) queue: StandingQueue,
    pub(crate) room: Room,
}

impl PathEstimate {
    /// A transmission that left at `sent_at` is acknowledged. `own` is the queue that less urgent data of the sender may make.
    pub(crate) fn on_acknowledged(&mut self, now: Timestamp, sent_at: Timestamp, own: Duration) {
        self.queue
            .on_sample(now, now.saturating_duration_since(sent_at), own);
        self.room.on_queue(now, self.queue.stands());
    }
}
