//! The controller of a path, of any algorithm (RFC 9260 §7.2).

use super::bbr::Bbr;
use super::classic::Cubic;
use super::grouped_bbr::GroupedBbr;
use super::rfc9260::Rfc9260;
use crate::config::Config;
use crate::controller::{
    CongestionControl, Controller, LostPacket, Metrics, NewPath, Pace, Report, SentPacket,
};
use crate::time::Timestamp;

/// The initial window of algorithms that pace, in packets (RFC 6928).
const TEN: usize = 10;

/// The controller of a path. One `match` for each call; only an external controller is called through a table of methods.
#[derive(Debug)]
pub(crate) enum AnyController {
    Rfc9260(Rfc9260),
    /// Boxed, because it is ten times as large as the state of RFC 9260's algorithm.
    Cubic(Box<Cubic>),
    Bbr(Box<Bbr>),
    GroupedBbr(Box<GroupedBbr>),
    External(Box<dyn Controller>),
}

impl AnyController {
    /// `max_data` is PMDCS, the largest DATA chunk that fits a packet of the path.
    pub(crate) fn new(config: &Config, max_data: usize, ipv6: bool, seed: u64) -> Self {
        Self::of_path(
            config,
            &NewPath {
                max_data,
                initial_window: Self::initial_window(config, max_data, ipv6),
                seed,
            },
        )
    }

    /// The algorithm that [`CongestionControl::Automatic`] stands for: RFC 6356 and resource pooling couple windows of RFC 9260's.
    fn chosen(config: &Config) -> &CongestionControl {
        match &config.congestion_control {
            CongestionControl::Automatic if config.multipath.couples_all() => &CongestionControl::Rfc9260,
            CongestionControl::Automatic => &CongestionControl::Cubic,
            chosen => chosen,
        }
    }

    fn initial_window(config: &Config, max_data: usize, ipv6: bool) -> usize {
        let packets = match (config.initial_window, Self::chosen(config)) {
            (Some(packets), _) => packets as usize,
            (None, CongestionControl::Cubic | CongestionControl::Bbr(_)) => TEN,
            (None, _) => return Rfc9260::initial_window(max_data, ipv6),
        };
        packets * max_data
    }

    pub(super) fn of_path(config: &Config, path: &NewPath) -> Self {
        match Self::chosen(config) {
            CongestionControl::Automatic | CongestionControl::Rfc9260 => {
                Self::Rfc9260(Rfc9260::new(path, &config.recovery))
            }
            CongestionControl::Cubic => {
                Self::Cubic(Box::new(Cubic::new(path, config.recovery.initial_ssthresh)))
            }
            CongestionControl::Bbr(bbr) if config.multipath.is_grouped() => {
                let most = config.recovery.initial_ssthresh;
                Self::GroupedBbr(Box::new(GroupedBbr::new(path, *bbr, most)))
            }
            CongestionControl::Bbr(config) => Self::Bbr(Box::new(Bbr::new(path, *config))),
            CongestionControl::External(factory) => Self::External(factory.make(path)),
        }
    }
}

impl AnyController {
    /// Whether the algorithm may pace packets or want delivery rates; RFC 9260's algorithm does neither.
    #[inline(always)]
    pub(crate) fn may_pace(&self) -> bool {
        !matches!(self, Self::Rfc9260(_))
    }
}

impl Config {
    /// A controller of the chosen [`Config::congestion_control`], as the sender makes it for this path: for use inside a controller of
    /// your own, or for a test of it.
    #[must_use]
    pub fn controller(&self, path: &NewPath) -> impl Controller + use<> {
        AnyController::of_path(self, path)
    }
}

impl Controller for AnyController {
    #[inline]
    fn on_sent(&mut self, sent: &SentPacket) {
        match self {
            Self::Rfc9260(control) => control.on_sent(sent),
            Self::Cubic(control) => control.on_sent(sent),
            Self::Bbr(control) => control.on_sent(sent),
            Self::GroupedBbr(control) => control.on_sent(sent),
            Self::External(control) => control.on_sent(sent),
        }
    }

    #[inline]
    fn on_lost(&mut self, lost: &LostPacket) {
        match self {
            Self::Rfc9260(control) => control.on_lost(lost),
            Self::Cubic(control) => control.on_lost(lost),
            Self::Bbr(control) => control.on_lost(lost),
            Self::GroupedBbr(control) => control.on_lost(lost),
            Self::External(control) => control.on_lost(lost),
        }
    }

    #[inline]
    fn on_report(&mut self, report: &Report) {
        match self {
            Self::Rfc9260(control) => control.on_report(report),
            Self::Cubic(control) => control.on_report(report),
            Self::Bbr(control) => control.on_report(report),
            Self::GroupedBbr(control) => control.on_report(report),
            Self::External(control) => control.on_report(report),
        }
    }

    fn on_spurious(&mut self, now: Timestamp) {
        match self {
            Self::Rfc9260(control) => control.on_spurious(now),
            Self::Cubic(control) => control.on_spurious(now),
            Self::Bbr(control) => control.on_spurious(now),
            Self::GroupedBbr(control) => control.on_spurious(now),
            Self::External(control) => control.on_spurious(now),
        }
    }

    fn on_idle(&mut self, now: Timestamp, first: bool) {
        match self {
            Self::Rfc9260(control) => control.on_idle(now, first),
            Self::Cubic(control) => control.on_idle(now, first),
            Self::Bbr(control) => control.on_idle(now, first),
            Self::GroupedBbr(control) => control.on_idle(now, first),
            Self::External(control) => control.on_idle(now, first),
        }
    }

    fn on_packet_size(&mut self, max_data: usize) {
        match self {
            Self::Rfc9260(control) => control.on_packet_size(max_data),
            Self::Cubic(control) => control.on_packet_size(max_data),
            Self::Bbr(control) => control.on_packet_size(max_data),
            Self::GroupedBbr(control) => control.on_packet_size(max_data),
            Self::External(control) => control.on_packet_size(max_data),
        }
    }

    #[inline]
    fn window(&self) -> usize {
        match self {
            Self::Rfc9260(control) => control.window(),
            Self::Cubic(control) => control.window(),
            Self::Bbr(control) => control.window(),
            Self::GroupedBbr(control) => control.window(),
            // A window of zero would stop the path: no acknowledgement could open the window again.
            Self::External(control) => control.window().max(1),
        }
    }

    #[inline]
    fn pace(&self) -> Option<Pace> {
        match self {
            Self::Rfc9260(control) => control.pace(),
            Self::Cubic(control) => control.pace(),
            Self::Bbr(control) => control.pace(),
            Self::GroupedBbr(control) => control.pace(),
            Self::External(control) => control.pace(),
        }
    }

    fn known_rate(&self) -> Option<f64> {
        match self {
            Self::Rfc9260(control) => control.known_rate(),
            Self::Cubic(control) => control.known_rate(),
            Self::Bbr(control) => control.known_rate(),
            Self::GroupedBbr(control) => control.known_rate(),
            Self::External(control) => control.known_rate(),
        }
    }

    fn wants_rate_samples(&self) -> bool {
        match self {
            Self::Rfc9260(control) => control.wants_rate_samples(),
            Self::Cubic(control) => control.wants_rate_samples(),
            Self::Bbr(control) => control.wants_rate_samples(),
            Self::GroupedBbr(control) => control.wants_rate_samples(),
            Self::External(control) => control.wants_rate_samples(),
        }
    }

    fn uses_proportional_rate_reduction(&self) -> bool {
        match self {
            Self::Rfc9260(control) => control.uses_proportional_rate_reduction(),
            Self::Cubic(control) => control.uses_proportional_rate_reduction(),
            Self::Bbr(control) => control.uses_proportional_rate_reduction(),
            Self::GroupedBbr(control) => control.uses_proportional_rate_reduction(),
            Self::External(control) => control.uses_proportional_rate_reduction(),
        }
    }

    fn metrics(&self) -> Metrics {
        match self {
            Self::Rfc9260(control) => control.metrics(),
            Self::Cubic(control) => control.metrics(),
            Self::Bbr(control) => control.metrics(),
            Self::GroupedBbr(control) => control.metrics(),
            Self::External(control) => control.metrics(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CoupledControl, MultipathMode};
    use crate::controller::BbrConfig;

    #[derive(Debug)]
    struct Shut;

    impl Controller for Shut {
        fn on_report(&mut self, _: &Report) {}

        fn on_packet_size(&mut self, _: usize) {}

        fn window(&self) -> usize {
            0
        }
    }

    #[test]
    fn an_external_window_of_nothing_lets_a_packet_out() {
        let config = Config {
            congestion_control: CongestionControl::external(|_| Shut),
            ..Config::default()
        };
        assert_eq!(AnyController::new(&config, 1000, false, 0).window(), 1);
    }

    #[test]
    fn the_default_is_cubic_unless_all_windows_are_coupled() {
        let mut config = Config::default();
        let made = |config: &Config| {
            let control = AnyController::new(config, 1000, false, 0);
            (matches!(control, AnyController::Cubic(_)), control.window())
        };
        assert_eq!(made(&config), (true, 10_000));
        config.multipath.mode = MultipathMode::Cmt;
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(made(&config), (true, 10_000));
        config.multipath.congestion = CoupledControl::Lia;
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(made(&config), (false, 4000));
        assert_eq!(made(&Config::rfc9260()), (false, 4000));
        config.initial_window = Some(7);
        assert_eq!(made(&config), (false, 7000));
    }

    #[test]
    fn bbr_is_paced_and_has_its_own_recovery() {
        let config = Config {
            congestion_control: CongestionControl::Bbr(BbrConfig::default()),
            ..Config::default()
        };
        let control = AnyController::new(&config, 1000, false, 0);
        assert!(control.pace().is_some() && control.wants_rate_samples());
        assert!(!control.uses_proportional_rate_reduction());
        let metrics = control.metrics();
        assert_eq!(
            (metrics.cwnd, metrics.ssthresh, metrics.partial_bytes_acked),
            (10_000, None, None)
        );
    }

    #[test]
    fn bbr_has_a_limit_where_paths_may_be_in_a_group() {
        let mut config = Config {
            congestion_control: CongestionControl::Bbr(BbrConfig::default()),
            ..Config::default()
        };
        let limited = |config: &Config| {
            assert_eq!(config.validate(), Ok(()));
            let control = AnyController::new(config, 1000, false, 0);
            matches!(control, AnyController::GroupedBbr(_))
        };
        assert!(!limited(&config));
        config.multipath.mode = MultipathMode::Cmt;
        assert!(limited(&config));
        config.multipath.congestion = CoupledControl::Uncoupled;
        assert!(!limited(&config));
        for all in [CoupledControl::Lia, CoupledControl::ResourcePooling] {
            config.multipath.congestion = all;
            let refused = config.validate().expect_err("windows of RFC 9260");
            assert_eq!(refused.setting, "multipath.congestion");
        }
    }

    #[test]
    fn settings_are_equal_if_they_share_a_factory() {
        let [one, other] = [(); 2].map(|()| CongestionControl::external(|_| Shut));
        assert_eq!(one, one.clone());
        assert_ne!(one, other);
        assert_ne!(one, CongestionControl::default());
    }
}
