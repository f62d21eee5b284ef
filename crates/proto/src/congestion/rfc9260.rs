//! Slow start, congestion avoidance and the cuts, as RFC 9260 §7.2 has them.

use super::{AckedOnPath, Coupling};
use crate::config::RecoveryRules;

/// The state of RFC 9260's congestion control for one path; all in bytes of DATA chunks, headers and padding
/// included (§1.6 and §7.2.2 count so).
#[derive(Clone, Debug)]
pub(crate) struct Rfc9260 {
    pub(super) cwnd: usize,
    pub(super) ssthresh: usize,
    pub(super) partial_bytes_acked: usize,
    /// PMDCS: the largest DATA chunk that fits a packet of the path.
    pub(super) max_data: usize,
    /// The least ssthresh after a cut, in PMDCS.
    floor: usize,
}

impl Rfc9260 {
    /// §7.2.1: about three full packets of 1,500 bytes; `ipv6` takes the larger header off.
    pub(super) fn new(max_data: usize, ipv6: bool, rules: &RecoveryRules) -> Self {
        let few = if ipv6 { 4344 } else { 4404 };
        let cwnd = (4 * max_data).min((2 * max_data).max(few));
        Self {
            cwnd,
            ssthresh: rules.initial_ssthresh,
            partial_bytes_acked: 0,
            max_data,
            floor: rules.ssthresh_floor,
        }
    }

    /// §7.2.1 and §7.2.2.
    pub(super) fn on_ack(&mut self, acked: AckedOnPath) {
        let fully_used = acked.flight_before >= self.cwnd;
        let above = if acked.coupling.slow_start_at_threshold {
            self.cwnd > self.ssthresh
        } else {
            self.cwnd >= self.ssthresh
        };
        if above {
            let grows = fully_used && !acked.in_fast_recovery;
            self.avoid_congestion(acked.newly_acked, grows, acked.coupling);
        } else if fully_used && acked.advanced && !acked.in_fast_recovery {
            self.cwnd += part(acked.newly_acked.min(self.max_data), acked.coupling.slow_start);
        }
        if acked.all_acked {
            self.partial_bytes_acked = 0;
        }
    }

    /// §7.2.2: about one PMDCS a round trip.
    fn avoid_congestion(&mut self, newly_acked: usize, fully_used: bool, coupling: Coupling) {
        self.partial_bytes_acked += newly_acked;
        if self.partial_bytes_acked >= self.cwnd {
            if fully_used {
                self.partial_bytes_acked -= self.cwnd;
                self.cwnd += part(self.max_data, coupling.avoidance);
            } else {
                // Not used: credit must not pile up for a later burst of growth.
                self.partial_bytes_acked = self.cwnd;
            }
        }
    }

    /// §7.2.3.
    fn cut(&mut self, coupling: Coupling) {
        let less = coupling.cut.unwrap_or(self.cwnd - self.cwnd / 2);
        let floor = part(self.floor * self.max_data, coupling.floor).max(self.max_data);
        self.ssthresh = self.cwnd.saturating_sub(less).max(floor);
        self.partial_bytes_acked = 0;
    }

    pub(super) fn on_fast_retransmit(&mut self, coupling: Coupling) {
        self.cut(coupling);
        self.cwnd = self.ssthresh;
    }

    pub(super) fn on_timeout(&mut self, coupling: Coupling) {
        self.cut(coupling);
        self.cwnd = self.max_data;
    }

    /// §7.2.1: per RTO without data, half the window, not below four packets; what was known before the pause
    /// stays known as ssthresh. A window that is not lowered adjusts nothing: else a path on which nothing was sent yet,
    /// as all but the primary one, would begin in congestion avoidance, with four packets.
    pub(super) fn on_idle(&mut self, first: bool) {
        let lowered = (self.cwnd / 2).max(4 * self.max_data);
        if lowered >= self.cwnd {
            return;
        }
        if first {
            self.ssthresh = self.cwnd.max(self.floor * self.max_data);
        }
        self.cwnd = lowered;
    }
}

/// A part of some bytes, rounded up.
fn part(bytes: usize, share: f64) -> usize {
    (bytes as f64 * share).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(max_data: usize) -> Rfc9260 {
        Rfc9260::new(max_data, false, &RecoveryRules::RFC9260)
    }

    fn acked(newly_acked: usize, flight_before: usize) -> AckedOnPath {
        AckedOnPath {
            newly_acked,
            flight_before,
            advanced: true,
            in_fast_recovery: false,
            all_acked: false,
            coupling: Coupling::NONE,
        }
    }

    #[test]
    fn starts_with_the_initial_window() {
        assert_eq!(new(1000).cwnd, 4000);
        assert_eq!(new(1452).cwnd, 4404);
        assert_eq!(new(9000).cwnd, 18_000);
    }

    #[test]
    fn slow_start_ends_at_the_initial_ssthresh() {
        let rules = RecoveryRules {
            initial_ssthresh: 5000,
            ..RecoveryRules::RFC9260
        };
        let mut control = Rfc9260::new(1000, false, &rules);
        control.on_ack(acked(1000, 4000));
        control.on_ack(acked(1000, 5000));
        assert_eq!(control.cwnd, 6000, "not above ssthresh yet");
        control.on_ack(acked(1000, 6000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (6000, 1000));
    }

    #[test]
    fn slow_start_grows_by_at_most_one_packet_and_only_when_full() {
        let mut control = new(1000);
        control.on_ack(acked(2000, 4000));
        assert_eq!(control.cwnd, 5000);
        control.on_ack(acked(400, 5000));
        assert_eq!(control.cwnd, 5400);
        control.on_ack(acked(2000, 5399));
        assert_eq!(control.cwnd, 5400, "the window was not used");
        control.on_ack(AckedOnPath {
            advanced: false,
            ..acked(2000, 9000)
        });
        control.on_ack(AckedOnPath {
            in_fast_recovery: true,
            ..acked(2000, 9000)
        });
        assert_eq!(control.cwnd, 5400);
    }

    #[test]
    fn congestion_avoidance_grows_by_one_packet_a_window() {
        let mut control = new(1000);
        control.cwnd = 8000;
        control.ssthresh = 4000;
        for _ in 0..3 {
            control.on_ack(acked(2000, 8000));
        }
        assert_eq!((control.cwnd, control.partial_bytes_acked), (8000, 6000));
        control.on_ack(acked(2000, 8000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (9000, 0));
        control.on_ack(AckedOnPath {
            all_acked: true,
            ..acked(500, 9000)
        });
        assert_eq!(control.partial_bytes_acked, 0);
    }

    #[test]
    fn a_coupled_window_leaves_slow_start_at_the_threshold() {
        let mut control = new(1000);
        (control.cwnd, control.ssthresh) = (8000, 8000);
        let coupling = Coupling {
            slow_start_at_threshold: false,
            ..Coupling::NONE
        };
        control.on_ack(AckedOnPath {
            coupling,
            ..acked(1000, 8000)
        });
        assert_eq!((control.cwnd, control.partial_bytes_acked), (8000, 1000));
        control.partial_bytes_acked = 0;
        control.on_ack(acked(1000, 8000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (9000, 0));
    }

    #[test]
    fn cuts() {
        let mut control = new(1000);
        control.cwnd = 20_000;
        control.on_fast_retransmit(Coupling::NONE);
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 10_000));
        control.on_timeout(Coupling::NONE);
        assert_eq!((control.cwnd, control.ssthresh), (1000, 5000));
        control.on_timeout(Coupling::NONE);
        assert_eq!((control.cwnd, control.ssthresh), (1000, 4000));
        control.on_idle(true);
        assert_eq!(
            (control.cwnd, control.ssthresh),
            (1000, 4000),
            "an idle path gains nothing"
        );
        control.cwnd = 20_000;
        control.on_idle(true);
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 20_000));
    }
}
