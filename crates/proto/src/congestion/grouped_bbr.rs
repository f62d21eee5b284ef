//! BBR on a path whose window is coupled with those of other paths ([`crate::CoupledControl::Grouped`]).
//!
//! BBR has no window that a weight could divide: each flow probes until it causes losses, so two paths through one bottleneck take twice as
//! much as one. Therefore CUBIC runs beside BBR and sees the same reports. While the path is in a group, it sends no more than CUBIC with
//! the path's weight would, so that the group takes no more than one flow. A path alone is BBR's.
//!
//! A sender with less to send than its paths carry is not limited: what the group takes is what the application gives, as with one path. The
//! shares of CUBIC would be too little for it at random loss.

use super::bbr::Bbr;
use super::classic::Cubic;
use crate::controller::{BbrConfig, Controller, LostPacket, Metrics, NewPath, Pace, Report, SentPacket};
use crate::time::Timestamp;
use core::time::Duration;

/// So long a sender must have had more to send than the network takes, without a pause, before its group is limited.
const LASTS: Duration = Duration::from_secs(1);

/// BBR, and the CUBIC that limits it in a group.
#[derive(Debug)]
pub(crate) struct GroupedBbr {
    bbr: Bbr,
    cubic: Cubic,
    /// The path shares a flow's weight with others, and the network limits the sender.
    in_group: bool,
    /// When nothing was left to send last.
    had_nothing: Option<Timestamp>,
}

impl GroupedBbr {
    pub(super) fn new(path: &NewPath, config: BbrConfig, initial_ssthresh: usize) -> Self {
        Self {
            bbr: Bbr::new(path, config),
            cubic: Cubic::new(path, initial_ssthresh),
            in_group: false,
            had_nothing: None,
        }
    }
}

impl Controller for GroupedBbr {
    fn on_sent(&mut self, sent: &SentPacket) {
        self.bbr.on_sent(sent);
        self.cubic.on_sent(sent);
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        self.bbr.on_lost(lost);
        self.cubic.on_lost(lost);
    }

    fn on_report(&mut self, report: &Report) {
        if report.application_limited {
            self.had_nothing = Some(report.now);
        }
        let limited = self.had_nothing.is_none_or(|at| report.now >= at + LASTS);
        self.in_group = limited && report.coupling.is_in_group();
        self.bbr.on_report(report);
        self.cubic.on_report(report);
    }

    fn on_spurious(&mut self, now: Timestamp) {
        self.bbr.on_spurious(now);
        self.cubic.on_spurious(now);
    }

    fn on_idle(&mut self, now: Timestamp, first: bool) {
        self.bbr.on_idle(now, first);
        self.cubic.on_idle(now, first);
    }

    fn on_packet_size(&mut self, max_data: usize) {
        self.bbr.on_packet_size(max_data);
        self.cubic.on_packet_size(max_data);
    }

    fn window(&self) -> usize {
        let window = self.bbr.window();
        if self.in_group {
            window.min(self.cubic.window())
        } else {
            window
        }
    }

    fn pace(&self) -> Option<Pace> {
        self.bbr.pace()
    }

    fn known_rate(&self) -> Option<f64> {
        self.bbr.known_rate()
    }

    fn wants_rate_samples(&self) -> bool {
        true
    }

    fn uses_proportional_rate_reduction(&self) -> bool {
        self.in_group
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            cwnd: self.window(),
            ..self.bbr.metrics()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Coupling, Reduction};

    #[test]
    fn cubic_limits_it_only_in_a_group() {
        let path = NewPath {
            max_data: 1000,
            initial_window: 10_000,
            seed: 0,
        };
        let mut control = GroupedBbr::new(&path, BbrConfig::default(), usize::MAX);
        let mut report = Report {
            reduction: Some(Reduction::Loss),
            coupling: Coupling::Grouped { weight: 0.5 },
            ..Report::of_nothing(Timestamp::ZERO)
        };
        control.on_report(&report);
        assert_eq!((control.window(), control.metrics().cwnd), (7000, 7000));
        assert!(control.uses_proportional_rate_reduction());
        report.reduction = None;
        for alone in [Coupling::Grouped { weight: 1.0 }, Coupling::Uncoupled] {
            report.coupling = alone;
            control.on_report(&report);
            assert_eq!((control.window(), control.metrics().cwnd), (10_000, 10_000));
            assert!(!control.uses_proportional_rate_reduction());
        }
        assert!(control.pace().is_some() && control.wants_rate_samples());
    }

    #[test]
    fn a_sender_with_little_to_send_is_not_limited() {
        let path = NewPath {
            max_data: 1000,
            initial_window: 10_000,
            seed: 0,
        };
        let mut control = GroupedBbr::new(&path, BbrConfig::default(), usize::MAX);
        let at = Timestamp::from_millis;
        for (ms, application_limited, window) in [
            (0, false, 7000),
            (100, true, 10_000),
            (1099, false, 10_000),
            (1100, false, 7000),
        ] {
            control.on_report(&Report {
                reduction: (ms == 0).then_some(Reduction::Loss),
                coupling: Coupling::Grouped { weight: 0.5 },
                application_limited,
                ..Report::of_nothing(at(ms))
            });
            assert_eq!(control.window(), window, "{ms} ms");
        }
    }
}
