//! When data leaves a path that does not answer (RFC 9260 §8.2, RFC 7829).

/// When data leaves a path that does not answer. It needs no support by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Failover {
    /// Within a few hundred milliseconds, as soon as the association has several paths: it then has the settings of
    /// [`crate::Config::with_fast_failover`] where those are faster than its own. With one path nothing changes. Not for associations that are
    /// silent for hours on a battery: each path sends a heartbeat about every second.
    #[default]
    Fast,
    /// After more consecutive errors than this the path is potentially failed (`PotentiallyFailed.Max.Retrans`, RFC 7829 §3.2): data
    /// takes another path, and a heartbeat tests this one every RTO. RFC 7829 §6 recommends 0. `path_max_retrans` or more has no effect
    /// (RFC 7829 §3.2, item 1).
    PotentiallyFailed {
        /// `PotentiallyFailed.Max.Retrans`.
        max_retrans: u32,
    },
    /// When the path becomes inactive, after `path_max_retrans` errors: 63 s with the timeouts of RFC 9260 §16.
    Rfc9260,
}

impl Failover {
    /// `PotentiallyFailed.Max.Retrans`; `None` if paths are not potentially failed. [`Failover::Fast`] has none before there are several
    /// paths.
    pub(crate) fn max_retrans(self) -> Option<u32> {
        match self {
            Self::PotentiallyFailed { max_retrans } => Some(max_retrans),
            Self::Fast | Self::Rfc9260 => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::config::Config;

    #[test]
    fn fast_failover_makes_nothing_slower() {
        let mut config = Config::default();
        let ms = Duration::from_millis;
        (config.rto.min, config.rto.initial, config.rto.max) = (ms(50), ms(100), ms(1500));
        (config.sack.delay, config.heartbeat.interval) = (ms(1), None);
        config.retransmissions.association_max_retrans = 40;
        let fast = config.of_several_paths().unwrap();
        assert_eq!(
            (&fast.rto, &fast.sack, &fast.heartbeat),
            (&config.rto, &config.sack, &config.heartbeat)
        );
        assert_eq!(fast.retransmissions.association_max_retrans, 120);
        assert_eq!(fast.retransmissions.failover.max_retrans(), Some(0));
        assert_eq!(fast.of_several_paths(), None, "they are in use");
        assert_eq!(fast.validate(), Ok(()));
    }

    #[test]
    fn failover_that_an_application_chose_stays() {
        for failover in [Failover::Rfc9260, Failover::PotentiallyFailed { max_retrans: 2 }] {
            let mut config = Config::default();
            config.retransmissions.failover = failover;
            assert_eq!(config.of_several_paths(), None, "{failover:?}");
        }
    }
}
