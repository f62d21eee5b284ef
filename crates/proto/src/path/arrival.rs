//! When data that is sent now would have arrived at the receiver, on one path or on several at once.

use core::time::Duration;

use super::{Path, Paths};
use crate::controller::Controller;
use crate::time::Timestamp;

/// The capacity of a path from now on.
#[derive(Clone, Copy, Debug)]
struct Outlet {
    /// Bytes per second: the highest rate that the path has carried lately.
    rate: f64,
    /// Seconds until the first byte more would probably arrive.
    first: f64,
}

impl Path {
    /// The path's queue holds what is in flight beyond one bandwidth-delay product. Most packets arrive within the variation of the round-trip
    /// time after that: if an association has more to send than the path carries, each message leaves at the last moment, and without this
    /// time nearly all would be late. `None` if the rate is not known.
    fn outlet(&self) -> Option<Outlet> {
        let (rate, round_trip) = (self.control.known_rate()?, self.rtt.min()?);
        let queued = (self.flight.bytes() as f64 - rate * round_trip.as_secs_f64()).max(0.0);
        let first = queued / rate + round_trip.as_secs_f64() / 2.0 + self.rtt.rttvar().as_secs_f64();
        Some(Outlet { rate, first })
    }

    /// When `bytes` more would probably have arrived at the receiver. `None` if that is not known.
    pub(crate) fn arrival(&self, now: Timestamp, bytes: usize) -> Option<Timestamp> {
        Some(now + arrival(&mut [self.outlet()?], bytes))
    }
}

impl Paths {
    /// When `bytes` more would probably have arrived, if all active paths carry them; paths that do not answer although they should carry
    /// nothing. `None` if that is not known.
    pub(crate) fn arrival(&self, now: Timestamp, bytes: usize) -> Option<Timestamp> {
        let answering = self.active().filter(|path| !path.is_overdue(now));
        let mut outlets = answering.map(Path::outlet).collect::<Option<Vec<Outlet>>>()?;
        (!outlets.is_empty()).then(|| now + arrival(&mut outlets, bytes))
    }
}

/// The time until these outlets together have delivered `bytes`. A path takes part if its first byte arrives before the last byte of the
/// others.
fn arrival(outlets: &mut [Outlet], bytes: usize) -> Duration {
    outlets.sort_by(|one, other| one.first.total_cmp(&other.first));
    let (mut rate, mut missed, mut last) = (0.0, 0.0, f64::INFINITY);
    for outlet in outlets.iter().take_while(|outlet| outlet.first < f64::INFINITY) {
        if outlet.first >= last {
            break;
        }
        rate += outlet.rate;
        // The bytes that the path would have delivered before its first one.
        missed += outlet.rate * outlet.first;
        last = (bytes as f64 + missed) / rate;
    }
    Duration::try_from_secs_f64(last).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(outlets: &[(f64, f64)], bytes: usize) -> u128 {
        let outlets = outlets.iter().map(|&(rate, first)| Outlet { rate, first });
        arrival(&mut outlets.collect::<Vec<_>>(), bytes).as_millis()
    }

    #[test]
    fn paths_that_begin_in_time_share_the_bytes() {
        let (fast, slow) = ((100_000.0, 0.030), (50_000.0, 0.130));
        assert_eq!(milliseconds(&[fast], 10_000), 130);
        assert_eq!(milliseconds(&[slow], 10_000), 330);
        assert_eq!(
            milliseconds(&[slow, fast], 10_000),
            130,
            "the other one begins too late"
        );
        // 10,000 bytes until 130 ms, then 15,000 in 100 ms.
        assert_eq!(milliseconds(&[slow, fast], 25_000), 230);
        assert_eq!(milliseconds(&[(100_000.0, 0.030); 2], 20_000), 130);
    }
}
