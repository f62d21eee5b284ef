//! Owns BBR's filters of the minimum RTT, and the state of ProbeRTT (draft-ietf-ccwg-bbr §5.3.4).

use core::time::Duration;

use crate::time::Timestamp;

/// `BBR.MinRTTFilterLen`.
pub(super) const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`.
const INTERVAL: Duration = Duration::from_secs(5);

/// An RTT, and when it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    rtt: Duration,
    pub(super) at: Timestamp,
}

impl Measured {
    fn is_older(&self, now: Timestamp, age: Duration) -> bool {
        now > self.at + age
    }
}

/// The filters of the least RTT, and the state of ProbeRTT.
#[derive(Clone, Debug, Default)]
pub(super) struct MinRtt {
    /// `BBR.min_rtt` and `BBR.min_rtt_stamp`.
    min: Option<Measured>,
    /// `BBR.probe_rtt_min_delay` and `BBR.probe_rtt_min_stamp`.
    pub(super) probe: Option<Measured>,
    pub(super) expired: bool,
    /// When ProbeRTT began.
    pub(super) entered: Timestamp,
    pub(super) done: Option<Timestamp>,
    pub(super) round_done: bool,
    /// `C.app_limited`, as ProbeRTT sets it: the packets that are sent from the first of these bytes delivered to the second. Decision:
    /// the second number is reduced by the bytes declared lost, because those are never delivered.
    app_limited: Option<(u64, u64)>,
}

impl MinRtt {
    /// `BBR.min_rtt`.
    pub(super) fn get(&self) -> Option<Duration> {
        self.min.map(|min| min.rtt)
    }

    /// Whether ProbeRTT limited a packet that was sent when `delivered` bytes were delivered.
    pub(super) fn is_app_limited(&self, delivered: u64) -> bool {
        self.app_limited
            .is_some_and(|(from, until)| (from..=until).contains(&delivered))
    }

    /// `MarkConnectionAppLimited`.
    pub(super) fn mark_app_limited(&mut self, delivered: u64, inflight: f64) {
        let lasting = self.app_limited.filter(|(_, until)| delivered <= *until);
        let from = lasting.map_or(delivered, |(from, _)| from);
        self.app_limited = Some((from, delivered.saturating_add(inflight as u64).max(1)));
    }

    /// These bytes were in flight, and were declared lost.
    pub(super) fn on_lost(&mut self, bytes: u64) {
        if let Some((_, until)) = &mut self.app_limited {
            *until = until.saturating_sub(bytes);
        }
    }

    /// `UpdateMinRTT`.
    pub(super) fn update(&mut self, now: Timestamp, rtt: Option<Duration>) {
        self.expired = self.probe.is_some_and(|probe| probe.is_older(now, INTERVAL));
        let replaces = |rtt| self.expired || self.probe.is_none_or(|probe| rtt < probe.rtt);
        if let Some(rtt) = rtt.filter(|rtt| replaces(*rtt)) {
            self.probe = Some(Measured { rtt, at: now });
        }
        if let Some(probe) = self.probe {
            let smaller = |min: Measured| probe.rtt < min.rtt || min.is_older(now, MIN_RTT_FILTER);
            if self.min.is_none_or(smaller) {
                self.min = Some(probe);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MinRtt;

    #[test]
    fn lost_bytes_end_the_time_after_probe_rtt_too() {
        let mut min_rtt = MinRtt::default();
        min_rtt.mark_app_limited(50_000, 10_000.0);
        assert!(min_rtt.is_app_limited(60_000) && !min_rtt.is_app_limited(60_001));
        min_rtt.on_lost(9_000);
        assert!(min_rtt.is_app_limited(51_000) && !min_rtt.is_app_limited(51_001));
    }
}
