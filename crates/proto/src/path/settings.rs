//! Changes of the settings of one path (RFC 6458 §8.1.12): those of the association until the application changes them.

use super::{Path, Paths, Pmtu};
use crate::config::{Config, PathHeartbeats, PathMtu, PathSettings};
use crate::controller::Controller;
use crate::random::Random;
use crate::time::Timestamp;

impl Path {
    /// Changes settings. `sends_heartbeats`: whether the association is in a state in which paths are tested.
    pub(crate) fn set(
        &mut self,
        now: Timestamp,
        settings: &PathSettings,
        config: &Config,
        random: &mut Random,
        sends_heartbeats: bool,
    ) {
        if let Some(errors) = settings.max_retrans {
            self.parameters.max_retrans = errors;
        }
        if let Some(dscp) = settings.dscp {
            self.parameters.dscp = dscp;
        }
        if let Some(path_mtu) = settings.path_mtu {
            self.set_path_mtu(path_mtu, config);
        }
        if let Some(heartbeats) = settings.heartbeats {
            self.parameters.longest_silence = None;
            self.parameters.heartbeat_interval = match heartbeats {
                PathHeartbeats::Off => None,
                PathHeartbeats::Every(interval) => Some(interval),
            };
            if sends_heartbeats {
                self.schedule_heartbeat(now, random);
            }
        }
    }

    fn set_path_mtu(&mut self, path_mtu: PathMtu, config: &Config) {
        self.parameters.path_mtu = path_mtu;
        self.pmtu = match path_mtu {
            PathMtu::Discovered => Pmtu::new(config, self.route.remote.is_ipv6()),
            PathMtu::Fixed(size) => self.pmtu.fixed(size),
        };
        self.control.on_packet_size(self.pmtu.max_data());
    }

    /// Takes over the settings of the path that this one continues from another local address.
    pub(super) fn keep_settings_of(&mut self, before: &Self, config: &Config) {
        self.parameters = before.parameters;
        if let PathMtu::Fixed(_) = before.parameters.path_mtu {
            self.set_path_mtu(before.parameters.path_mtu, config);
        }
    }
}

impl Paths {
    /// The association has other timeouts and heartbeats from now on. Paths whose heartbeats the application set keep them.
    pub(crate) fn adopt_timeouts(&mut self, now: Timestamp, before: &Config, config: &Config) {
        self.quick = config.retransmissions.fails_potentially();
        for path in self.iter_mut() {
            path.rtt.set_bounds(&config.rto);
            if path.parameters.heartbeat_interval != before.heartbeat.interval {
                continue;
            }
            path.parameters.heartbeat_interval = config.heartbeat.interval;
            if let Some(interval) = config.heartbeat.interval {
                let latest = now + path.rtt.rto() + interval;
                path.heartbeat.due = path.heartbeat.due.map(|due| due.min(latest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::super::PathId;
    use super::*;

    #[test]
    fn a_path_that_continues_from_another_address_keeps_its_settings() {
        let (config, now) = (Config::default(), Timestamp::ZERO);
        let remote = SocketAddr::from(([10, 0, 0, 2], 9899));
        let mut path = Path::new(PathId(0), None, remote, &config, now, 0);
        let settings = PathSettings::default()
            .path_mtu(PathMtu::Fixed(1000))
            .max_retrans(1);
        path.set(now, &settings, &config, &mut Random::from_seed([0; 32]), false);
        path.move_to(Some(IpAddr::from([10, 0, 0, 1])), &config, now, 0);
        assert_eq!((path.pmtu.current(), path.pmtu.is_discovered()), (1000, false));
        assert_eq!(path.parameters.max_retrans, 1);
    }
}
