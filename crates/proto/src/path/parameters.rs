//! Owns the settings of one path that are in use (RFC 6458 §8.1.12).

use core::time::Duration;

use crate::config::{Config, PathMtu};
use crate::dscp::Dscp;

/// The settings in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathParameters {
    /// `HB.interval`; `None` if heartbeats are off.
    pub(super) heartbeat_interval: Option<Duration>,
    /// The longest time between two heartbeats: an address translator forgets the path after a longer silence.
    pub(super) longest_silence: Option<Duration>,
    /// `Path.Max.Retrans`.
    pub(super) max_retrans: u32,
    pub(super) path_mtu: PathMtu,
    /// The codepoint of all packets.
    pub(crate) dscp: Dscp,
}

impl PathParameters {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            heartbeat_interval: config.heartbeat.interval,
            longest_silence: None,
            max_retrans: config.retransmissions.path_max_retrans,
            path_mtu: PathMtu::Discovered,
            dscp: config.dscp,
        }
    }
}
