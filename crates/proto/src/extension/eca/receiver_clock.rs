//! Owns the offset of the data receiver's clock, by which a COOP-SACK shows how much longer it travelled than the fastest one.

use core::time::Duration;

use crate::path::{LEAST_RTT_SECONDS, WindowedMinimum};
use crate::time::Timestamp;

/// Knows how long COOP-SACKs took by their timestamps. The offset of the clocks is unknown, so only differences tell anything.
#[derive(Debug, Default)]
pub(crate) struct ReceiverClock {
    /// A timestamp from which offsets are counted, so that half of the range lies on either side of the first one.
    base: Option<u32>,
    /// The least time that a COOP-SACK took, beyond an unknown constant.
    least: WindowedMinimum<LEAST_RTT_SECONDS>,
}

impl ReceiverClock {
    /// A COOP-SACK with this timestamp arrived: when it would have arrived if it had travelled as fast as the fastest one.
    ///
    /// Acknowledgements return on several paths and change between them. Those that change to a faster path arrive in a shorter time than
    /// their data did, which would show a delivery rate that the path does not have.
    pub(crate) fn earliest(&mut self, now: Timestamp, timestamp_ms: u32) -> Timestamp {
        let offset = ((now.0 / 1_000_000) as u32).wrapping_sub(timestamp_ms);
        let base = *self.base.get_or_insert(offset.wrapping_sub(u32::MAX / 2));
        let took = Duration::from_millis(u64::from(offset.wrapping_sub(base)));
        self.least.on_sample(now, took);
        let late = took - self.least.get().unwrap_or(took);
        Timestamp(now.0.saturating_sub(late.as_nanos() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_slower_way_back_is_known_by_its_difference() {
        for first in [0, 7_000, u32::MAX - 10] {
            let mut clock = ReceiverClock::default();
            let stamp = |millis: u32| first.wrapping_add(millis);
            assert_eq!(clock.earliest(at(1_050), stamp(0)), at(1_050), "nothing is known");
            assert_eq!(clock.earliest(at(1_060), stamp(30)), at(1_060), "20 ms faster");
            assert_eq!(clock.earliest(at(1_100), stamp(50)), at(1_080), "20 ms slower");
            assert_eq!(clock.earliest(at(1_090), stamp(60)), at(1_090));
        }
    }

    #[test]
    fn a_way_that_became_longer_is_the_fastest_after_minutes() {
        let mut clock = ReceiverClock::default();
        clock.earliest(at(10), 0);
        let second = |clock: &mut ReceiverClock, second: u32| {
            let now = at(1_000 * u64::from(second) + 30);
            now.saturating_duration_since(clock.earliest(now, 1_000 * second))
        };
        assert_eq!(second(&mut clock, 1), 20 * MS);
        for each in 2..400 {
            second(&mut clock, each);
        }
        assert_eq!(second(&mut clock, 400), Duration::ZERO);
    }
}
