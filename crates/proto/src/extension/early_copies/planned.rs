//! The copies that are to be sent.

use core::time::Duration;
use std::collections::BTreeSet;

use crate::path::{PathId, bit};
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// Copies leave this many times in a round-trip time, unless the deadline is near. The third one is due when the acknowledgement arrives, so
/// it leaves only if that is late.
const IN_A_ROUND_TRIP: u32 = 3;
/// The least time between a chunk and its copy, and between two copies: closer together, the same burst of losses would take both.
const LEAST_SPACING: Duration = Duration::from_millis(1);

/// The time until the next of `left` copies. A copy is of use if it leaves within `useful`; the last one leaves a little earlier. `None` if no
/// copy is of use.
pub(crate) fn spacing(round_trip: Duration, useful: Duration, left: u8) -> Option<Duration> {
    let even = useful / (u32::from(left) + 1);
    let spacing = (round_trip / IN_A_ROUND_TRIP).min(even).max(LEAST_SPACING);
    (spacing <= useful).then_some(spacing)
}

/// A copy that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlannedCopy {
    pub(crate) due: Timestamp,
    pub(crate) tsn: ExtendedTsn,
    /// How many copies of the chunk are left, this one included.
    pub(crate) left: u8,
    /// The path of the transmission before.
    pub(crate) last: PathId,
    /// The paths of all transmissions before, a bit for each.
    pub(crate) used: u64,
    /// The path that it tests, which has not answered for a while.
    pub(crate) tests: Option<PathId>,
    /// It is sent only because the last transmission was not answered when it should have been.
    pub(crate) late: bool,
}

impl PlannedCopy {
    /// A copy of a chunk whose last transmission was on the path `last`.
    pub(crate) fn new(due: Timestamp, tsn: ExtendedTsn, left: u8, last: PathId) -> Self {
        Self {
            due,
            tsn,
            left,
            last,
            used: bit(last),
            tests: None,
            late: false,
        }
    }

    /// Whether the path took a transmission of the chunk: the next one there may be lost in the same burst.
    pub(crate) fn has_used(&self, path: PathId) -> bool {
        self.used & bit(path) != 0
    }

    /// Whether the copy may take the path. On the path of the last transmission a late copy would be as late, and make all other late copies of
    /// the path due again.
    pub(crate) fn may_take(&self, path: PathId) -> bool {
        !self.late || path != self.last
    }
}

/// The copies that an association is to send, by the times at which they are due. There is at most one for each outstanding chunk.
#[derive(Debug, Default)]
pub(crate) struct PlannedCopies {
    copies: BTreeSet<PlannedCopy>,
}

impl PlannedCopies {
    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    pub(crate) fn add(&mut self, copy: PlannedCopy) {
        self.copies.insert(copy);
    }

    /// The first copy, if it is due.
    pub(crate) fn first(&self, now: Timestamp) -> Option<PlannedCopy> {
        self.copies.first().filter(|copy| copy.due <= now).copied()
    }

    /// The last transmission on a path was not answered when it should have been: others there are probably not answered either, so their
    /// late copies are due.
    pub(crate) fn hurry(&mut self, now: Timestamp, path: PathId) {
        let waits = |copy: &&PlannedCopy| copy.late && copy.last == path && copy.due > now;
        let hurried: Vec<_> = self.copies.iter().filter(waits).copied().collect();
        for copy in hurried {
            self.copies.remove(&copy);
            self.copies.insert(PlannedCopy { due: now, ..copy });
        }
    }

    pub(crate) fn remove(&mut self, copy: &PlannedCopy) {
        self.copies.remove(copy);
    }

    /// When the next copy is due, if the sender was last asked for packets at `asked`: a copy that was due then and did not leave waits for
    /// something other than the time, so no timer runs for it.
    pub(crate) fn timer(&self, asked: Timestamp) -> Option<Timestamp> {
        let next = PlannedCopy::new(Timestamp(asked.0 + 1), 0, 0, PathId(0));
        self.copies.range(next..).next().map(|copy| copy.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_leave_in_the_order_of_their_times() {
        let at = Timestamp::from_millis;
        let copy = |due, tsn| PlannedCopy::new(at(due), tsn, 1, PathId(0));
        let mut planned = PlannedCopies::default();
        assert!(planned.is_empty() && planned.timer(at(0)).is_none());
        planned.add(copy(30, 1));
        planned.add(copy(20, 2));
        assert_eq!(planned.timer(at(19)), Some(at(20)));
        assert_eq!(planned.first(at(19)), None);
        assert_eq!(planned.first(at(20)), Some(copy(20, 2)));
        assert_eq!(
            planned.timer(at(20)),
            Some(at(30)),
            "the first one waits for something else"
        );
        planned.remove(&copy(20, 2));
        assert_eq!(planned.timer(at(29)), Some(at(30)));
        assert_eq!(planned.timer(at(30)), None);
    }

    #[test]
    fn copies_leave_a_third_of_a_round_trip_apart() {
        let ms = Duration::from_millis;
        assert_eq!(spacing(ms(60), Duration::MAX, 2), Some(ms(20)));
        assert_eq!(spacing(Duration::from_micros(100), ms(9), 1), Some(ms(1)));
        assert_eq!(spacing(ms(60), ms(45), 2), Some(ms(15)), "the deadline is near");
        assert_eq!(spacing(ms(60), ms(1), 2), Some(ms(1)));
        assert_eq!(spacing(ms(60), Duration::ZERO, 1), None, "too late");
    }
}
