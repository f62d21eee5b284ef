//! RFC 9260's congestion control: slow start (§7.2.1), congestion avoidance (§7.2.2) and window reductions (§7.2.3).

use crate::config::RecoveryRules;
use crate::controller::{Controller, Coupling, Metrics, NewPath, Reduction, Report};
use crate::time::Timestamp;

/// The state of RFC 9260's congestion control for one path; all in bytes of DATA chunks, headers and padding
/// included (§1.3 and §7.2.2 count so).
#[derive(Clone, Debug)]
pub(crate) struct Rfc9260 {
    cwnd: usize,
    ssthresh: usize,
    partial_bytes_acked: usize,
    /// These three values before the last reduction, if its losses may be spurious. RFC 9260 detects no spurious losses, RACK does.
    undo: Option<[usize; 3]>,
    /// PMDCS: the largest DATA chunk that fits a packet of the path.
    max_data: usize,
    /// The least ssthresh after a reduction, in PMDCS.
    floor: usize,
    /// [`RecoveryRules::gap_acks_grow`].
    gap_acks_grow: bool,
}

impl Rfc9260 {
    /// §7.2.1: about three full packets of 1,500 bytes; `ipv6` subtracts the larger header.
    pub(super) fn initial_window(max_data: usize, ipv6: bool) -> usize {
        let few = if ipv6 { 4344 } else { 4404 };
        (4 * max_data).min((2 * max_data).max(few))
    }

    pub(super) fn new(path: &NewPath, rules: &RecoveryRules) -> Self {
        Self {
            cwnd: path.initial_window,
            ssthresh: rules.initial_ssthresh,
            partial_bytes_acked: 0,
            undo: None,
            max_data: path.max_data,
            floor: rules.ssthresh_floor,
            gap_acks_grow: rules.gap_acks_grow,
        }
    }

    /// §7.2.1 and §7.2.2.
    fn grow(&mut self, report: &Report) {
        let fully_used = report.prior_flight >= self.cwnd;
        let coupling = report.coupling;
        let above = if coupling.slow_starts_at_threshold() {
            self.cwnd > self.ssthresh
        } else {
            self.cwnd >= self.ssthresh
        };
        if above {
            let grows = fully_used && !report.recovering;
            if report.advanced || self.gap_acks_grow {
                self.avoid_congestion(report.acked, grows, coupling);
            }
        } else if fully_used && report.advanced && !report.recovering {
            let share = coupling.slow_start(self.cwnd, self.ssthresh);
            self.cwnd += part(report.acked.min(self.max_data), share);
        }
        if report.all_acked {
            self.partial_bytes_acked = 0;
        }
    }

    /// §7.2.2: about one PMDCS a round trip.
    fn avoid_congestion(&mut self, acked: usize, grows: bool, coupling: Coupling) {
        self.partial_bytes_acked += acked;
        if self.partial_bytes_acked >= self.cwnd {
            if grows {
                self.partial_bytes_acked -= self.cwnd;
                self.cwnd += part(self.max_data, coupling.avoidance(self.cwnd, self.ssthresh));
            } else {
                // The window was not used: credit must not accumulate for a later burst of growth.
                self.partial_bytes_acked = self.cwnd;
            }
        }
    }

    /// §7.2.3.
    #[cold]
    fn reduce(&mut self, reduction: Reduction, coupling: Coupling) {
        // Marks are never spurious.
        let state = [self.cwnd, self.ssthresh, self.partial_bytes_acked];
        self.undo = (reduction != Reduction::Ecn).then_some(state);
        let share = coupling.floor(self.cwnd, self.ssthresh);
        let floor = part(self.floor * self.max_data, share).max(self.max_data);
        let less = coupling.reduction(self.cwnd);
        self.ssthresh = self.cwnd.saturating_sub(less).max(floor);
        self.partial_bytes_acked = 0;
        self.cwnd = match reduction {
            Reduction::Loss | Reduction::Ecn => self.ssthresh,
            Reduction::Timeout => self.max_data,
        };
    }
}

impl Controller for Rfc9260 {
    #[inline]
    fn on_report(&mut self, report: &Report) {
        if report.acked > 0 {
            self.grow(report);
        }
        if let Some(reduction) = report.reduction {
            self.reduce(reduction, report.coupling);
        }
    }

    /// If the window has grown beyond its former size, nothing changes.
    fn on_spurious(&mut self, _: Timestamp) {
        if let Some(undo) = self.undo.take().filter(|[cwnd, ..]| *cwnd > self.cwnd) {
            [self.cwnd, self.ssthresh, self.partial_bytes_acked] = undo;
        }
    }

    /// §7.2.1: half the window for each RTO without data, not below four packets; ssthresh keeps what was known before the pause. A window
    /// that is not lowered changes nothing. Otherwise a path on which nothing was sent yet, as all but the primary one, would begin in
    /// congestion avoidance, with four packets.
    fn on_idle(&mut self, _: Timestamp, first: bool) {
        let lowered = (self.cwnd / 2).max(4 * self.max_data);
        if lowered >= self.cwnd {
            return;
        }
        if first {
            self.ssthresh = self.cwnd.max(self.floor * self.max_data);
        }
        self.cwnd = lowered;
        self.undo = None;
    }

    fn uses_proportional_rate_reduction(&self) -> bool {
        false
    }

    fn on_packet_size(&mut self, max_data: usize) {
        self.max_data = max_data;
    }

    #[inline]
    fn window(&self) -> usize {
        self.cwnd
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            cwnd: self.cwnd,
            ssthresh: Some(self.ssthresh),
            partial_bytes_acked: Some(self.partial_bytes_acked),
        }
    }
}

/// A share of some bytes, rounded up.
fn part(bytes: usize, share: f64) -> usize {
    (bytes as f64 * share).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(max_data: usize) -> Rfc9260 {
        with_rules(max_data, &RecoveryRules::RFC9260)
    }

    fn with_rules(max_data: usize, rules: &RecoveryRules) -> Rfc9260 {
        let path = NewPath {
            max_data,
            initial_window: Rfc9260::initial_window(max_data, false),
            seed: 0,
        };
        Rfc9260::new(&path, rules)
    }

    fn acked(acked: usize, prior_flight: usize) -> Report {
        Report {
            prior_flight,
            acked,
            advanced: true,
            ..Report::of_nothing(Timestamp::ZERO)
        }
    }

    fn reduced(reduction: Reduction) -> Report {
        Report {
            reduction: Some(reduction),
            ..acked(0, 0)
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
        let mut control = with_rules(1000, &rules);
        control.on_report(&acked(1000, 4000));
        control.on_report(&acked(1000, 5000));
        assert_eq!(control.cwnd, 6000, "not above ssthresh yet");
        control.on_report(&acked(1000, 6000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (6000, 1000));
    }

    #[test]
    fn slow_start_grows_by_at_most_one_packet_and_only_when_full() {
        let mut control = new(1000);
        control.on_report(&acked(2000, 4000));
        assert_eq!(control.cwnd, 5000);
        control.on_report(&acked(400, 5000));
        assert_eq!(control.cwnd, 5400);
        control.on_report(&acked(2000, 5399));
        assert_eq!(control.cwnd, 5400, "the window was not used");
        control.on_report(&Report {
            advanced: false,
            ..acked(2000, 9000)
        });
        control.on_report(&Report {
            recovering: true,
            ..acked(2000, 9000)
        });
        assert_eq!(control.cwnd, 5400);
    }

    #[test]
    fn gap_ack_blocks_alone_grow_no_window_of_rfc_2960() {
        for (rules, counted) in [(RecoveryRules::RFC2960, 0), (RecoveryRules::RFC9260, 2000)] {
            let mut control = with_rules(1000, &rules);
            (control.cwnd, control.ssthresh) = (8000, 4000);
            let gap = Report {
                advanced: false,
                ..acked(2000, 8000)
            };
            control.on_report(&gap);
            assert_eq!(control.partial_bytes_acked, counted);
        }
    }

    #[test]
    fn congestion_avoidance_grows_by_one_packet_a_window() {
        let mut control = new(1000);
        control.cwnd = 8000;
        control.ssthresh = 4000;
        for _ in 0..3 {
            control.on_report(&acked(2000, 8000));
        }
        assert_eq!((control.cwnd, control.partial_bytes_acked), (8000, 6000));
        control.on_report(&acked(2000, 8000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (9000, 0));
        control.on_report(&Report {
            all_acked: true,
            ..acked(500, 9000)
        });
        assert_eq!(control.partial_bytes_acked, 0);
    }

    #[test]
    fn a_coupled_window_leaves_slow_start_at_the_threshold() {
        let mut control = new(1000);
        (control.cwnd, control.ssthresh) = (8000, 8000);
        let coupling = Coupling::Linked {
            avoidance: 1.0,
            paths: 2,
        };
        control.on_report(&Report {
            coupling,
            ..acked(1000, 8000)
        });
        assert_eq!((control.cwnd, control.partial_bytes_acked), (8000, 1000));
        control.partial_bytes_acked = 0;
        control.on_report(&acked(1000, 8000));
        assert_eq!((control.cwnd, control.partial_bytes_acked), (9000, 0));
    }

    #[test]
    fn a_spurious_reduction_is_undone_whole() {
        for reduction in [Reduction::Loss, Reduction::Timeout] {
            let mut control = new(1000);
            (control.cwnd, control.ssthresh, control.partial_bytes_acked) = (20_000, 15_000, 3000);
            control.on_report(&reduced(reduction));
            control.on_report(&acked(500, 20_000));
            control.on_spurious(Timestamp::ZERO);
            let state = (control.cwnd, control.ssthresh, control.partial_bytes_acked);
            assert_eq!(state, (20_000, 15_000, 3000), "{reduction:?}");
            control.cwnd = 10_000;
            control.on_spurious(Timestamp::ZERO);
            assert_eq!(control.cwnd, 10_000, "once");
        }
        let mut control = new(1000);
        control.cwnd = 20_000;
        control.on_report(&reduced(Reduction::Ecn));
        control.on_spurious(Timestamp::ZERO);
        assert_eq!(control.cwnd, 10_000, "a mark stands");
        control.on_report(&reduced(Reduction::Loss));
        control.cwnd = 30_000;
        control.on_spurious(Timestamp::ZERO);
        assert_eq!(
            (control.cwnd, control.ssthresh),
            (30_000, 5000),
            "it has grown beyond"
        );
        control.on_report(&reduced(Reduction::Loss));
        control.on_idle(Timestamp::ZERO, true);
        control.on_spurious(Timestamp::ZERO);
        assert_eq!(control.cwnd, 7500, "too old");
    }

    #[test]
    fn cuts() {
        let mut control = new(1000);
        control.cwnd = 20_000;
        control.on_report(&reduced(Reduction::Loss));
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 10_000));
        control.on_report(&reduced(Reduction::Timeout));
        assert_eq!((control.cwnd, control.ssthresh), (1000, 5000));
        control.on_report(&reduced(Reduction::Timeout));
        assert_eq!((control.cwnd, control.ssthresh), (1000, 4000));
        control.on_idle(Timestamp::ZERO, true);
        assert_eq!(
            (control.cwnd, control.ssthresh),
            (1000, 4000),
            "an idle path gains nothing"
        );
        control.cwnd = 20_000;
        control.on_idle(Timestamp::ZERO, true);
        assert_eq!((control.cwnd, control.ssthresh), (10_000, 20_000));
    }
}
