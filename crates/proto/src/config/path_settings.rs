//! Settings of one path (RFC 6458 §8.1.12, `SCTP_PEER_ADDR_PARAMS`).

use core::time::Duration;

use super::error::{ConfigError, check};
use crate::dscp::Dscp;

/// The longest interval of heartbeats.
const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The smallest path MTU in bytes, as for [`Config::path_mtu`](crate::Config::path_mtu).
const LEAST_MTU: u16 = 576;

/// Changes to the settings of one path: see [`crate::Association::set_path`]. A field that is `None` leaves the setting as it is. Each path
/// begins with the settings of [`Config`](crate::Config); [`crate::PathStats`] has the values in use.
///
/// ```
/// use anabranch_proto::{PathHeartbeats, PathMtu, PathSettings};
/// use core::time::Duration;
///
/// let settings = PathSettings::default()
///     .heartbeats(PathHeartbeats::Every(Duration::from_secs(5)))
///     .path_mtu(PathMtu::Fixed(1400))
///     .max_retrans(2);
/// assert_eq!(settings.validate(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PathSettings {
    /// Heartbeats of this path, in place of [`HeartbeatConfig::interval`](crate::HeartbeatConfig::interval).
    pub heartbeats: Option<PathHeartbeats>,
    /// The path MTU, in place of [`Config::path_mtu`](crate::Config::path_mtu) and `path_mtu_limit`.
    pub path_mtu: Option<PathMtu>,
    /// `Path.Max.Retrans` of this path (RFC 9260 §8.2): the path becomes inactive after more consecutive errors than this. In place of
    /// [`RetransmissionConfig::path_max_retrans`](crate::RetransmissionConfig::path_max_retrans). A new value counts from the next error on:
    /// it makes no path inactive, and none active.
    pub max_retrans: Option<u32>,
    /// The Differentiated Services codepoint of packets on this path (`spp_dscp`), in place of [`Config::dscp`](crate::Config::dscp).
    pub dscp: Option<Dscp>,
}

/// Heartbeats of one path (RFC 9260 §8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathHeartbeats {
    /// None, except to confirm a new address (§5.4) and those that the application requests.
    Off,
    /// `HB.interval`: the time between the heartbeats of an idle path is this plus the RTO. At most 24 hours.
    Every(Duration),
}

/// How the path MTU is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtu {
    /// Path MTU discovery (RFC 8899), from `Config::path_mtu` to `Config::path_mtu_limit`. It begins anew.
    Discovered,
    /// The largest IP packet, in bytes, 576 to 65,535. No probes are sent, and the size is not reduced where such packets are lost, but if
    /// the local system reports that they are too large for its interface. New chunks fit every path of the association, so the smallest
    /// path MTU bounds the chunks on all paths.
    Fixed(u16),
}

impl PathSettings {
    /// These settings with other heartbeats.
    #[must_use]
    pub fn heartbeats(mut self, heartbeats: PathHeartbeats) -> Self {
        self.heartbeats = Some(heartbeats);
        self
    }

    /// These settings with another path MTU.
    #[must_use]
    pub fn path_mtu(mut self, path_mtu: PathMtu) -> Self {
        self.path_mtu = Some(path_mtu);
        self
    }

    /// These settings with another `Path.Max.Retrans`.
    #[must_use]
    pub fn max_retrans(mut self, errors: u32) -> Self {
        self.max_retrans = Some(errors);
        self
    }

    /// These settings with another Differentiated Services codepoint.
    #[must_use]
    pub fn dscp(mut self, dscp: Dscp) -> Self {
        self.dscp = Some(dscp);
        self
    }

    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check(&[
            (
                !matches!(self.heartbeats, Some(PathHeartbeats::Every(interval)) if interval > LONGEST_INTERVAL),
                "heartbeats",
                "must have an interval of at most 24 hours; to send none, choose Off",
            ),
            (
                !matches!(self.path_mtu, Some(PathMtu::Fixed(size)) if size < LEAST_MTU),
                "path_mtu",
                "must be at least 576 bytes; to let the size be discovered, choose Discovered",
            ),
        ])
    }
}
