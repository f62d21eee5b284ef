//! The protocol parameters of RFC 9260 §16: timers, retransmissions, heartbeats, acknowledgements and streams.

use core::time::Duration;

use super::error::{ConfigError, check};
use super::failover::Failover;
use super::settings::settings;

settings! {
    /// Retransmission timeout, RFC 9260 §6.3.1 and §16. `min` ≤ `initial` ≤ `max`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RtoConfig {
        /// `RTO.Initial`: the timeout before the first RTT measurement. Default 1 s.
        pub initial: Duration,
        /// `RTO.Min`, longer than zero. Default 1 s.
        pub min: Duration,
        /// `RTO.Max`. Default 60 s.
        pub max: Duration,
    } experiments {
    }
}

impl Default for RtoConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
        }
    }
}

impl RtoConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (self.min <= self.max, "rto.min", "must not exceed rto.max"),
            (
                self.min <= self.initial && self.initial <= self.max,
                "rto.initial",
                "must lie between rto.min and rto.max",
            ),
            (!self.min.is_zero(), "rto.min", "must be longer than zero"),
        ])
    }
}

settings! {
    /// Limits on retransmissions, RFC 9260 §5.1, §8.1, §8.2 and §16.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RetransmissionConfig {
        /// `Association.Max.Retrans`: the association fails if more consecutive errors than this occur, over all paths. Default 10.
        pub association_max_retrans: u32,
        /// `Path.Max.Retrans`: a path becomes inactive after more consecutive errors than this. Default 5.
        pub path_max_retrans: u32,
        /// When data leaves a path that does not answer. Default [`Failover::Fast`].
        pub failover: Failover,
        /// `Max.Init.Retransmits`: the most retransmissions of INIT or COOKIE ECHO before set-up fails. Default 8.
        pub max_init_retransmits: u32,
    } experiments {
    }
}

impl Default for RetransmissionConfig {
    fn default() -> Self {
        Self {
            association_max_retrans: 10,
            path_max_retrans: 5,
            failover: Failover::default(),
            max_init_retransmits: 8,
        }
    }
}

impl RetransmissionConfig {
    /// Whether paths can be potentially failed.
    pub(crate) fn fails_potentially(&self) -> bool {
        self.failover.max_retrans().is_some()
    }
}

settings! {
    /// Heartbeats, RFC 9260 §8.3 and §16.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HeartbeatConfig {
        /// `HB.interval`: the time between heartbeats of an idle path is this plus the RTO. `None` sends heartbeats only to confirm new
        /// addresses. Default 30 s.
        pub interval: Option<Duration>,
    } experiments {
        /// `HB.Max.Burst`: the most heartbeats that leave at once, at least 1. Default 1.
        pub max_burst: u32,
    }
}

impl Default for HeartbeatConfig {
    fn default() -> Self {
        Self {
            interval: Some(Duration::from_secs(30)),
            max_burst: 1,
        }
    }
}

impl HeartbeatConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[(
            self.max_burst >= 1,
            "heartbeat.max_burst",
            "must be at least 1; to send no heartbeats, set heartbeat.interval to None",
        )])
    }
}

settings! {
    /// Delayed acknowledgements, RFC 9260 §6.2 and §16.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SackConfig {
        /// `SACK.Delay`: the longest time for which an acknowledgement is delayed, at most 500 ms (RFC 9260 §6.2). Default 200 ms.
        pub delay: Duration,
    } experiments {
        /// The number of packets with data after which a SACK leaves without delay, at least 1. Default 2 (RFC 9260 §6.2).
        pub frequency: u32,
    }
}

impl Default for SackConfig {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(200),
            frequency: 2,
        }
    }
}

impl SackConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (
                self.delay <= Duration::from_millis(500),
                "sack.delay",
                "must be at most 500 ms",
            ),
            (
                self.frequency >= 1,
                "sack.frequency",
                "must be at least 1, which acknowledges each packet",
            ),
        ])
    }
}

settings! {
    /// Numbers of streams, RFC 9260 §5.1.1.
    #[derive(Clone, Debug, PartialEq)]
    pub struct StreamConfig {
        /// The number of outbound streams that this endpoint requests, at least 1. Default 16.
        pub outbound: u16,
        /// The most inbound streams that this endpoint accepts, at least 1. Default 65,535.
        pub max_inbound: u16,
    } experiments {
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            outbound: 16,
            max_inbound: u16::MAX,
        }
    }
}

impl StreamConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (self.outbound >= 1, "streams.outbound", "must be at least 1"),
            (self.max_inbound >= 1, "streams.max_inbound", "must be at least 1"),
        ])
    }
}
