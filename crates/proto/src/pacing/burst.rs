//! `Max.Burst` (RFC 9260 §6.1 D): how much new data may leave on a path at once.

use core::time::Duration;

use crate::time::Timestamp;

/// How long a grant lasts, because a driver sends a little later than the SACK arrived. Bytes that are not used by then are lost, so
/// that a pause never ends in a large burst. Without a SACK, `Max.Burst` is granted again after this time.
const MOMENT: Duration = Duration::from_millis(1);

/// Bytes of new data that may still leave at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    left: usize,
    granted: Option<Timestamp>,
}

impl Burst {
    /// A SACK acknowledged `bytes`: so many may leave in addition to `most`, which is `Max.Burst` in bytes, so that one SACK for many
    /// packets does not stall the flow.
    pub(crate) fn on_acknowledged(&mut self, now: Timestamp, bytes: usize, most: usize) {
        *self = Self {
            left: bytes + most,
            granted: Some(now),
        };
    }

    /// Whether another packet may leave; `most` is `Max.Burst` in bytes.
    #[inline]
    pub(crate) fn has_room(&mut self, now: Timestamp, most: usize) -> bool {
        let over = |at: Timestamp| now.saturating_duration_since(at) > MOMENT;
        if self.granted.is_none_or(over) {
            self.on_acknowledged(now, 0, most);
        }
        self.left > 0
    }

    /// A chunk of `bytes` left.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A grant allows the bytes that its SACK acknowledged, `Max.Burst` and the rest of a chunk. There is one grant for each SACK, and
        /// one each moment.
        #[test]
        fn no_grant_is_given_twice(
            most in 1000_usize..10_000,
            steps in vec((0_u64..800, any::<bool>(), 0_usize..20_000), 1..100),
        ) {
            let (mut burst, mut now) = (Burst::default(), 0);
            let (mut granted, mut sent, mut last) = (0, 0, None);
            for (micros, sack, bytes) in steps {
                now += micros;
                if sack {
                    burst.on_acknowledged(at(now), bytes, most);
                    (granted, last) = (granted + bytes + most + 1000, Some(now));
                } else if last.is_none_or(|last| now - last > 1000) {
                    (granted, last) = (granted + most + 1000, Some(now));
                }
                prop_assert!(burst.has_room(at(now), most) || sent > 0, "a path never stops");
                while burst.has_room(at(now), most) {
                    burst.on_sent(1000);
                    sent += 1000;
                }
                prop_assert!(sent <= granted, "{} of {}", sent, granted);
            }
        }
    }

    const MOST: usize = 4000;

    fn at(micros: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_micros(micros)
    }

    #[test]
    fn a_finer_clock_grants_no_more() {
        let mut burst = Burst::default();
        let mut sent = 0;
        for micro in 0..=3000 {
            while burst.has_room(at(micro), MOST) {
                burst.on_sent(1000);
                sent += 1000;
            }
        }
        assert_eq!(sent, 3 * MOST, "at 0, 1,001 and 2,002 µs");
    }

    #[test]
    fn a_grant_expires_after_a_moment() {
        let mut burst = Burst::default();
        burst.on_acknowledged(at(0), 50_000, MOST);
        burst.on_sent(1000);
        assert!(burst.has_room(at(1000), MOST));
        assert_eq!(burst.left, 53_000);
        assert!(burst.has_room(at(1001), MOST));
        assert_eq!(burst.left, MOST);
    }
}
