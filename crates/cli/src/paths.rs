//! Several paths on the command line (`docs/MULTIPATH.md`, `docs/PATHS.md`): their addresses, and concurrent multipath transfer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::{
    AssociationStats, Config, DynamicAddressConfig, MultipathMode, PathPair, PathSource, PathState,
};
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::local_address::LocalAddress;
use crate::path_arg::{self, Local, PathArg};

const HEADING: &str = "Several paths";

/// Where the paths of an endpoint begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// At these addresses of this machine, which stay.
    At(Vec<LocalAddress>),
    /// At these interfaces and addresses, as they come and go.
    Follow(Vec<PathSource>),
}

impl From<LocalAddress> for Begin {
    fn from(address: LocalAddress) -> Self {
        Self::At(vec![address])
    }
}

/// Whether the sender uses several paths at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The primary path, and another path when it fails (RFC 9260)
    Off,
    /// Concurrent multipath transfer
    Cmt,
    /// ECA-SCTP: concurrent multipath transfer with a number for each transmission
    Eca,
}

impl From<Mode> for MultipathMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Off => Self::Off,
            Mode::Cmt => Self::Cmt,
            Mode::Eca => Self::Eca,
        }
    }
}

/// The paths of an association, and whether the sender uses them at once.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PathArgs {
    /// Use a path from this local address to this address of the peer; once for each path. LOCAL may be the name of an
    /// interface (wlan0), whose addresses are followed as they come and go, or auto: each interface with a default route
    /// (both Linux only). Several paths may lead to one REMOTE, also from behind address translators. A link-local address
    /// has its interface (fe80::1%eth0). HOST is the REMOTE of the first --path without REMOTE; for the other paths, the
    /// subnets decide. A listener takes LOCAL only. With two or more paths, a failed path is left after 200 ms instead of
    /// 1 s
    #[arg(long, help_heading = HEADING, value_name = "LOCAL[,REMOTE]", value_parser = path_arg::parse)]
    path: Vec<PathArg>,
    /// Paths that this sender uses: off (primary path and failover, RFC 9260), cmt (concurrent multipath transfer) or eca
    /// (ECA-SCTP; cmt if the peer does not offer it) [default: off; listener: eca]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "MODE", hide_possible_values = true)]
    multipath: Option<Mode>,
}

impl PathArgs {
    /// Whether --multipath asks for several paths at once.
    fn at_once(&self) -> bool {
        self.multipath.is_some_and(|mode| mode != Mode::Off)
    }

    fn mode_name(&self) -> String {
        let value = self.multipath.and_then(|mode| mode.to_possible_value());
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The local addresses of --path without duplicates.
    pub(crate) fn locals(&self) -> Vec<LocalAddress> {
        let mut locals = Vec::new();
        for local in self.path.iter().filter_map(|path| path.local.address()) {
            if !locals.contains(&local) {
                locals.push(local);
            }
        }
        locals
    }

    /// Whether the INIT may list several addresses.
    pub(crate) fn are_several(&self) -> bool {
        self.path.len() > 1 || self.path.iter().any(|path| path.local.address().is_none())
    }

    /// Whether a --path has this local address.
    pub(crate) fn names(&self, local: IpAddr) -> bool {
        self.locals().iter().any(|path| path.ip == local)
    }

    fn apply(&self, config: &mut Config, mode: Mode) {
        config.local_addresses = self.locals().iter().map(|local| local.ip).collect();
        config.multipath.mode = mode.into();
    }

    /// Where the paths begin; `None` without --path. With `watches`, addresses come and go too.
    pub(crate) fn begin(&self, watches: bool) -> Result<Option<Begin>, Failure> {
        let is_interface = |path: &PathArg| path.local.address().is_none();
        if self.path.is_empty() {
            return Ok(None);
        }
        if !watches && !self.path.iter().any(is_interface) {
            return Ok(Some(Begin::At(self.locals())));
        }
        let is_link_local = |path: &&PathArg| {
            let address = path.local.address();
            address.is_some_and(|address| matches!(address.ip, IpAddr::V6(ip) if ip.is_unicast_link_local()))
        };
        if let Some(path) = self.path.iter().find(is_link_local) {
            return Err(Failure::new(format!(
                "--path {path} is link-local, and such addresses are not followed: give no interface by name, and leave \
                 --watch-interfaces out"
            )));
        }
        Ok(Some(Begin::Follow(
            self.path.iter().map(|path| path.local.source()).collect(),
        )))
    }

    /// Applies the options to a client's settings; returns where to bind.
    pub(crate) fn apply_to_client(
        &self,
        config: &mut Config,
        host: IpAddr,
        watches: bool,
    ) -> Result<Begin, Failure> {
        let begin = self.begin(watches)?;
        let follows = matches!(begin, Some(Begin::Follow(_)));
        self.apply(config, self.multipath.unwrap_or(Mode::Off));
        if let ([only], true, false) = (&self.path[..], self.at_once(), follows) {
            return Err(Failure::new(format!(
                "--multipath {} needs two paths, but only --path {only} is given: give --path once for each path",
                self.mode_name()
            )));
        }
        let Some(begin) = begin else {
            let any: IpAddr = match host {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            return Ok(LocalAddress::from(any).into());
        };
        for (index, path) in self.path.iter().enumerate() {
            if self.path[..index].contains(path) {
                return Err(Failure::new(format!(
                    "--path {path} is given twice; each path needs another pair of addresses"
                )));
            }
        }
        let pair = |path: &PathArg, remote| {
            let local = path.local.address()?.ip;
            Some(PathPair { local, remote })
        };
        let pairs = self.path.iter().filter_map(|path| pair(path, path.remote?));
        config.path_pairs = pairs.collect();
        // A translator before an address hides it: the peer is told of the address by a packet from there.
        if self.path.len() > 1 || follows {
            config.dynamic_addresses = Some(DynamicAddressConfig::default());
        }
        // The endpoint begins at the first path that has an address now.
        if config.paired_with(host).is_none() && !follows {
            let free = |path: &&PathArg| {
                let local = path.local.address();
                path.remote.is_none() && local.is_some_and(|local| local.ip.is_ipv4() == host.is_ipv4())
            };
            let first = self.path.iter().find(free).and_then(|path| pair(path, host));
            config.path_pairs.push(first.ok_or_else(|| {
                Failure::new(format!(
                    "no --path leads to HOST {host}, to which the INIT is sent: give a --path with an {} LOCAL, and with \
                     ,{host} or without REMOTE",
                    if host.is_ipv4() { "IPv4" } else { "IPv6" }
                ))
            })?);
        }
        Ok(begin)
    }

    /// Applies the options to a listener's settings; returns where to bind, `None` without --path.
    pub(crate) fn apply_to_server(
        &self,
        config: &mut Config,
        watches: bool,
    ) -> Result<Option<Begin>, Failure> {
        if let Some(path) = self.path.iter().find(|path| path.remote.is_some()) {
            return Err(Failure::new(format!(
                "--path {path}: a listener takes LOCAL only: give --path {}; peers announce their own addresses",
                path.local.source()
            )));
        }
        let begin = self.begin(watches)?;
        // A client may add networks to a server with one address, except with DTLS. Each peer chooses how it sends, so the listener offers
        // ECA-SCTP.
        let otherwise = if self.path.len() > 1 || config.dynamic_addresses.is_some() {
            Mode::Eca
        } else {
            Mode::Off
        };
        self.apply(config, self.multipath.unwrap_or(otherwise));
        Ok(begin)
    }

    /// Compares the association's paths with the options: an error, or a note.
    pub(crate) fn judge(&self, stats: &AssociationStats, watches: bool) -> Result<Option<String>, Failure> {
        let remotes: Vec<String> = stats
            .paths
            .iter()
            .map(|path| path.remote.ip().to_string())
            .collect();
        let told = remotes.join(", ");
        let leads_to = |remote| stats.paths.iter().any(|path| path.remote.ip() == remote);
        let unknown = |path: &&PathArg| path.remote.is_some_and(|remote| !leads_to(remote));
        if let Some(path) = self.path.iter().find(unknown) {
            return Err(Failure::new(format!(
                "--path {path}: the peer did not announce this address, only {told}; start the peer with --path for each \
                 of its addresses, or leave REMOTE out"
            )));
        }
        let follows = matches!(self.begin(watches)?, Some(Begin::Follow(_)));
        if follows && !stats.extensions.dynamic_addresses {
            return Ok(Some(
                "the peer does not offer dynamic addresses (RFC 5061): paths are those of set-up, and a network that appears \
                 later is not used"
                    .to_owned(),
            ));
        }
        if self.at_once() && stats.paths.len() < 2 && !follows {
            return Err(Failure::new(format!(
                "--multipath {}: the peer announced only {told}, so there is only one path; start the peer with --path \
                 for each of its addresses",
                self.mode_name()
            )));
        }
        if self.multipath == Some(Mode::Eca) && !stats.extensions.eca {
            return Ok(Some(
                "the peer does not offer ECA-SCTP; --multipath cmt is used instead".to_owned(),
            ));
        }
        let used = |path: &&PathArg| {
            let local = path.local.address();
            local.is_none_or(|local| stats.paths.iter().any(|one| one.local == Some(local.ip)))
        };
        let unused = self.path.iter().find(|path| !used(path)).filter(|_| !follows);
        Ok(unused.map(|path| {
            format!(
                "--path {path} is not used: no address that the peer announced ({told}) has this version of IP"
            )
        }))
    }

    /// A warning at the end if a `--path` never carried anything, with the reason.
    pub(crate) fn unused(&self, stats: &AssociationStats) -> Option<String> {
        self.path.iter().find_map(|path| why_unused(path, stats))
    }
}

/// Why packets from this `--path` never came through; `None` if they did.
fn why_unused(path: &PathArg, stats: &AssociationStats) -> Option<String> {
    let addresses = path.local.source().addresses().unwrap_or_default();
    let of = |local: &IpAddr| {
        let local = *local;
        stats.paths.iter().filter(move |one| one.local == Some(local))
    };
    let works = |local: &&IpAddr| of(local).any(|one| one.state != PathState::Unconfirmed);
    let is_silent = |local: &&IpAddr| of(local).next().is_some() && !works(local);
    let silent = match &path.local {
        Local::Interfaces(source) if addresses.is_empty() => {
            return Some(if *source == PathSource::DefaultRoutes {
                "--path auto: no interface has a default route and an address now".to_owned()
            } else {
                format!("--path {path} has no path at the end: the interface is down, or has no address")
            });
        }
        // One path from each interface must work, whichever version of IP it has.
        Local::Interfaces(PathSource::DefaultRoutes) => addresses.iter().find(is_silent),
        _ if addresses.iter().any(|local| works(&local)) => None,
        _ => addresses.first(),
    }?;
    let has_version = |one: &anabranch::PathStats| one.remote.is_ipv4() == silent.is_ipv4();
    if of(silent).next().is_none() && stats.paths.iter().any(has_version) {
        return Some(format!(
            "--path {path} has no path at the end: its network went away"
        ));
    }
    let reason = if of(silent).next().is_none() {
        "no address of the peer has the same version of IP"
    } else if stats.extensions.dynamic_addresses {
        "the peer answered no heartbeat from there, and no request to add the address"
    } else {
        "the peer answered no heartbeat from there, and it cannot be told of the address that an address translator gives it (RFC 5061)"
    };
    Some(format!(
        "--path {path} carried nothing: {reason}; check that the network works, with `ip route get HOST from {silent}`"
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        paths: PathArgs,
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_link_local_path_has_a_zone() {
        let mut config = Config::default();
        let line = Line::parse_from(["anabranch", "--path", "fe80::1%lo,fe80::2%lo"]);
        let locals = line
            .paths
            .apply_to_client(&mut config, "fe80::2".parse().unwrap(), false);
        let Ok(locals) = locals else {
            panic!("the path leads there")
        };
        assert_eq!(locals, Begin::At(vec!["fe80::1%lo".parse().unwrap()]));
        let [local, remote] = ["fe80::1", "fe80::2"].map(|address| address.parse().unwrap());
        assert_eq!(config.local_addresses, [local]);
        assert_eq!(config.path_pairs, [PathPair { local, remote }]);
        let line = Line::parse_from(["anabranch", "--path", "fe80::1%lo", "--path", "lo"]);
        assert!(
            line.paths.begin(false).is_err(),
            "such addresses are not followed"
        );
    }

    #[test]
    fn one_address_of_the_peer_serves_several_paths() {
        let paths = |text: &[&str]| {
            let line = ["anabranch"].into_iter().chain(text.iter().copied());
            let mut config = Config::default();
            let applied =
                Line::parse_from(line)
                    .paths
                    .apply_to_client(&mut config, [10, 0, 0, 9].into(), false);
            applied.map(|_| config).map_err(|failure| format!("{failure:?}"))
        };
        let [one, two, remote] = ["10.0.0.1", "10.0.1.1", "10.0.0.9"].map(|address| address.parse().unwrap());
        let named = paths(&["--path", "10.0.0.1,10.0.0.9", "--path", "10.0.1.1,10.0.0.9"]);
        let pair = |local| PathPair { local, remote };
        assert_eq!(named.unwrap().path_pairs, [pair(one), pair(two)]);
        let free = paths(&["--path", "10.0.0.1", "--path", "10.0.1.1"]).unwrap();
        assert_eq!(free.path_pairs, [pair(one)]);
        assert!(free.dynamic_addresses.is_some());
        let twice = paths(&["--path", "10.0.0.1", "--path", "10.0.0.1"]).unwrap_err();
        assert!(twice.contains("given twice"), "{twice}");
    }

    #[test]
    fn a_listener_uses_the_paths_that_clients_add() {
        let with = |line: &[&str], dynamic_addresses| {
            let mut config = Config::default();
            config.dynamic_addresses = dynamic_addresses;
            let line = [&["anabranch"], line].concat();
            let applied = Line::parse_from(line).paths.apply_to_server(&mut config, false);
            assert!(applied.is_ok());
            // The stack chooses the timers, with several paths too.
            let plain = config.rto == Config::default().rto;
            (config.multipath.mode, plain)
        };
        let mode = |line: &[&str]| with(line, Some(DynamicAddressConfig::default()));
        assert_eq!(mode(&[]), (MultipathMode::Eca, true));
        assert_eq!(with(&[], None), (MultipathMode::Off, true), "with DTLS");
        assert_eq!(mode(&["--path", "10.0.0.1"]), (MultipathMode::Eca, true));
        assert_eq!(mode(&["--multipath", "off"]), (MultipathMode::Off, true));
        let two = ["--path", "10.0.0.1", "--path", "10.0.1.1"];
        assert_eq!(mode(&two), (MultipathMode::Eca, true));
    }

    #[test]
    fn interfaces_are_followed_and_addresses_if_asked() {
        let [address, name] = [PathSource::from([10, 0, 0, 1]), PathSource::from("wlan0")];
        for (line, watches, follows) in [
            (&["--path", "10.0.0.1"][..], false, None),
            (&["--path", "10.0.0.1"], true, Some(vec![address.clone()])),
            (
                &["--path", "10.0.0.1", "--path", "wlan0"],
                false,
                Some(vec![address, name]),
            ),
            (
                &["--path", "auto", "--multipath", "cmt"],
                false,
                Some(vec![PathSource::DefaultRoutes]),
            ),
        ] {
            let line = Line::parse_from(["anabranch"].into_iter().chain(line.iter().copied()));
            let mut config = Config::default();
            let begin = line
                .paths
                .apply_to_client(&mut config, [10, 0, 0, 9].into(), watches);
            let begin = begin.map_err(|failure| format!("{failure:?}")).unwrap();
            assert_eq!(config.dynamic_addresses.is_some(), follows.is_some());
            let expected = follows.map_or(
                LocalAddress::from(IpAddr::from([10, 0, 0, 1])).into(),
                Begin::Follow,
            );
            assert_eq!(begin, expected);
        }
    }
}
