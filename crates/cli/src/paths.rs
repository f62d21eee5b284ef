//! Several paths on the command line (`docs/MULTIPATH.md`, `docs/PATHS.md`): their addresses, and concurrent multipath transfer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::{
    AckRouting, AssociationStats, Config, CoupledControl, DynamicAddressConfig, MultipathMode, PathPair,
    PathScheduler, PathState, PathStats, RetransmissionPolicy,
};
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::local_address::LocalAddress;

const HEADING: &str = "Several paths";

/// A path that `--path` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathArg {
    /// An address of this machine.
    pub(crate) local: LocalAddress,
    /// The peer's address at the other end of the path.
    remote: Option<IpAddr>,
}

impl fmt::Display for PathArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.local)?;
        self.remote.map_or(Ok(()), |remote| write!(f, ",{remote}"))
    }
}

fn path(text: &str) -> Result<PathArg, String> {
    let address = |text: &str, what: &str| {
        let address = text.parse::<LocalAddress>().map_err(|problem| {
            format!("{what} must be an IP address, as in --path 10.0.0.1,10.0.0.2: {problem}")
        })?;
        if address.ip.is_unspecified() || address.ip.is_multicast() {
            return Err(format!(
                "{what} must be the address of one interface, not {address}"
            ));
        }
        Ok(address)
    };
    let (local, remote) = match text.split_once(',') {
        Some((local, remote)) => (local, Some(address(remote, "REMOTE")?)),
        None => (text, None),
    };
    let local = address(local, "LOCAL")?;
    if remote.is_some_and(|remote| remote.ip.is_ipv4() != local.ip.is_ipv4()) {
        return Err(
            "LOCAL and REMOTE must both be IPv4 or both IPv6: give --path once for each IP version"
                .to_owned(),
        );
    }
    if remote.is_some_and(|remote| !remote.shares_zone(local)) {
        return Err("LOCAL and REMOTE must have the same interface".to_owned());
    }
    let remote = remote.map(|remote| remote.ip);
    Ok(PathArg { local, remote })
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

/// The path for new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scheduler {
    /// The path with the earliest expected delivery
    EarliestDelivery,
    /// The path with the lowest round-trip time
    LowestRtt,
    /// One packet per path
    RoundRobin,
}

impl From<Scheduler> for PathScheduler {
    fn from(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::EarliestDelivery => Self::EarliestDeliveryFirst,
            Scheduler::LowestRtt => Self::LowestRttFirst,
            Scheduler::RoundRobin => Self::RoundRobin,
        }
    }
}

/// The path for retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Retransmission {
    /// The path with the earliest expected delivery
    EarliestDelivery,
    /// The path of the lost transmission
    SamePath,
    /// The largest slow start threshold
    LargestSsthresh,
    /// The largest congestion window
    LargestCwnd,
    /// The lowest loss rate
    LowestLoss,
    /// The smallest round-trip time
    SmallestRtt,
}

impl From<Retransmission> for RetransmissionPolicy {
    fn from(policy: Retransmission) -> Self {
        match policy {
            Retransmission::EarliestDelivery => Self::EarliestDelivery,
            Retransmission::SamePath => Self::SamePath,
            Retransmission::LargestSsthresh => Self::LargestSsthresh,
            Retransmission::LargestCwnd => Self::LargestCwnd,
            Retransmission::LowestLoss => Self::LowestLoss,
            Retransmission::SmallestRtt => Self::SmallestRtt,
        }
    }
}

/// The return path of acknowledgements with ECA-SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acks {
    /// `Ranked`, or `EveryPath` while at least half of the paths lose more than 10 %
    #[value(alias = "measured")]
    Auto,
    /// The path on which the latest data arrived
    LastArrival,
    /// A copy on every path
    EveryPath,
    /// Any path without gaps
    Unranked,
    /// The path without gaps that has the lowest round-trip time
    Ranked,
}

impl From<Acks> for AckRouting {
    fn from(acks: Acks) -> Self {
        match acks {
            Acks::Auto => Self::Measured,
            Acks::LastArrival => Self::LastArrival,
            Acks::EveryPath => Self::EveryPath,
            Acks::Unranked => Self::Unranked,
            Acks::Ranked => Self::Ranked,
        }
    }
}

/// Coupled congestion control of several paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Coupling {
    /// No coupling
    Uncoupled,
    /// Paths that may share a bottleneck
    Grouped,
    /// RFC 6356
    Lia,
    /// CMT/RPv1
    ResourcePooling,
}

impl From<Coupling> for CoupledControl {
    fn from(coupling: Coupling) -> Self {
        match coupling {
            Coupling::Uncoupled => Self::Uncoupled,
            Coupling::Grouped => Self::Grouped,
            Coupling::Lia => Self::Lia,
            Coupling::ResourcePooling => Self::ResourcePooling,
        }
    }
}

/// The paths of an association, and how the sender uses them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PathArgs {
    /// Use a path from this local address to this address of the peer; once for each path. Several paths may lead to one REMOTE,
    /// also from behind address translators. A link-local address has its interface (fe80::1%eth0). HOST is the REMOTE of
    /// the first --path without REMOTE; for the other paths, the subnets decide. A listener takes LOCAL only. With two or
    /// more paths, a failed path is left after 200 ms instead of 1 s
    #[arg(long, help_heading = HEADING, value_name = "LOCAL[,REMOTE]", value_parser = path)]
    path: Vec<PathArg>,
    /// Paths that this sender uses: off (primary path and failover, RFC 9260), cmt (concurrent multipath transfer) or eca
    /// (ECA-SCTP; cmt if the peer does not offer it) [default: off; listener: eca]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "MODE", hide_possible_values = true)]
    multipath: Option<Mode>,
    /// Path for new data with cmt or eca: earliest-delivery, lowest-rtt or round-robin. The last two are for comparison
    /// [default: earliest-delivery]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    path_scheduler: Option<Scheduler>,
    /// Path for retransmissions with cmt or eca: earliest-delivery, same-path, largest-ssthresh, largest-cwnd, lowest-loss
    /// or smallest-rtt [default: earliest-delivery]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    retransmission: Option<Retransmission>,
    /// Path for acknowledgements with eca: ranked (gap reports on the lowest-RTT path without gaps), unranked (any path
    /// without gaps), last-arrival (path of the latest data), every-path (a copy on every path) or auto (ranked,
    /// but the fastest path reports its own gaps; every-path while at least half of the paths lose more than 10 %)
    /// [default: auto]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    ack_routing: Option<Acks>,
    /// Coupled congestion control with cmt or eca: grouped (paths whose delays rise and fall together take as much as one
    /// flow), uncoupled (one flow per path; only for paths without a shared bottleneck), lia (RFC 6356) or resource-pooling
    /// (CMT/RPv1): these two couple all paths, and need --congestion rfc9260 [default: grouped]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    coupling: Option<Coupling>,
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
        for path in &self.path {
            if !locals.contains(&path.local) {
                locals.push(path.local);
            }
        }
        locals
    }

    /// Whether a --path has this local address.
    pub(crate) fn names(&self, local: IpAddr) -> bool {
        self.path.iter().any(|path| path.local.ip == local)
    }

    fn apply(&self, config: &mut Config, mode: Mode) -> Result<(), Failure> {
        for (flag, given) in [
            ("--path-scheduler", self.path_scheduler.is_some()),
            ("--retransmission", self.retransmission.is_some()),
            ("--coupling", self.coupling.is_some()),
        ] {
            if given && mode == Mode::Off {
                return Err(Failure::new(format!(
                    "{flag} needs several paths at once: add --multipath cmt or --multipath eca"
                )));
            }
        }
        if self.ack_routing.is_some() && mode != Mode::Eca {
            return Err(Failure::new("--ack-routing needs ECA-SCTP: add --multipath eca"));
        }
        if self.path.len() > 1 || self.at_once() {
            *config = config.clone().with_fast_failover();
        }
        config.local_addresses = self.locals().iter().map(|local| local.ip).collect();
        let multipath = &mut config.multipath;
        multipath.mode = mode.into();
        multipath.scheduler = self
            .path_scheduler
            .map_or(multipath.scheduler, PathScheduler::from);
        multipath.retransmission = self
            .retransmission
            .map_or(multipath.retransmission, RetransmissionPolicy::from);
        multipath.eca.ack_routing = self
            .ack_routing
            .map_or(multipath.eca.ack_routing, AckRouting::from);
        multipath.congestion = self.coupling.map_or(multipath.congestion, CoupledControl::from);
        Ok(())
    }

    /// Applies the options to a client's settings; returns the local addresses to bind.
    pub(crate) fn apply_to_client(
        &self,
        config: &mut Config,
        host: IpAddr,
    ) -> Result<Vec<LocalAddress>, Failure> {
        self.apply(config, self.multipath.unwrap_or(Mode::Off))?;
        if let ([only], true) = (&self.path[..], self.at_once()) {
            return Err(Failure::new(format!(
                "--multipath {} needs two paths, but only --path {only} is given: give --path once for each path",
                self.mode_name()
            )));
        }
        if self.path.is_empty() {
            let any: IpAddr = match host {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            return Ok(vec![any.into()]);
        }
        for (index, path) in self.path.iter().enumerate() {
            if self.path[..index].contains(path) {
                return Err(Failure::new(format!(
                    "--path {path} is given twice; each path needs another pair of addresses"
                )));
            }
        }
        let pairs = self.path.iter().filter_map(|path| {
            let remote = path.remote?;
            Some(PathPair {
                local: path.local.ip,
                remote,
            })
        });
        config.path_pairs = pairs.collect();
        // A translator before an address hides it: the peer is told of the address by a packet from there.
        if self.path.len() > 1 {
            config.dynamic_addresses = Some(DynamicAddressConfig::default());
        }
        if config.paired_with(host).is_none() {
            let free = |path: &&PathArg| path.remote.is_none() && path.local.ip.is_ipv4() == host.is_ipv4();
            let first = self.path.iter().find(free).ok_or_else(|| {
                Failure::new(format!(
                    "no --path leads to HOST {host}, to which the INIT is sent: give a --path with an {} LOCAL, and with \
                     ,{host} or without REMOTE",
                    if host.is_ipv4() { "IPv4" } else { "IPv6" }
                ))
            })?;
            config.path_pairs.push(PathPair {
                local: first.local.ip,
                remote: host,
            });
        }
        Ok(self.locals())
    }

    /// Applies the options to a listener's settings.
    pub(crate) fn apply_to_server(&self, config: &mut Config) -> Result<(), Failure> {
        if let Some(path) = self.path.iter().find(|path| path.remote.is_some()) {
            return Err(Failure::new(format!(
                "--path {path}: a listener takes LOCAL only: give --path {}; peers announce their own addresses",
                path.local
            )));
        }
        // A client may add networks to a server with one address. Each peer chooses how it sends, so the listener offers ECA-SCTP.
        self.apply(config, self.multipath.unwrap_or(Mode::Eca))?;
        // A dead path of several is left at its first timeout; with one path this changes nothing.
        config.retransmissions.potentially_failed_max_retrans = Some(0);
        Ok(())
    }

    /// Compares the association's paths with the options: an error, or a note.
    pub(crate) fn judge(&self, stats: &AssociationStats) -> Result<Option<String>, Failure> {
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
        if self.at_once() && stats.paths.len() < 2 {
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
        let used = |path: &&PathArg| stats.paths.iter().any(|one| one.local == Some(path.local.ip));
        let unused = self.path.iter().find(|path| !used(path));
        Ok(unused.map(|path| {
            format!(
                "--path {path} is not used: no address that the peer announced ({told}) has this version of IP"
            )
        }))
    }

    /// A warning at the end if packets from a local address of `--path` never came through.
    pub(crate) fn unused(&self, stats: &AssociationStats) -> Option<String> {
        let works = |path: &&PathArg| {
            let local = Some(path.local.ip);
            let is_one = |one: &PathStats| one.local == local && one.state != PathState::Unconfirmed;
            stats.paths.iter().any(is_one)
        };
        let unused = self.path.iter().find(|path| !works(path))?;
        let reason = if stats.extensions.dynamic_addresses {
            "the peer answered no heartbeat from there, and no request to add the address"
        } else {
            "the peer answered no heartbeat from there, and it cannot be told of the address that an address translator gives it (RFC 5061)"
        };
        Some(format!(
            "--path {unused} carried nothing: {reason}; check that the network works, with `ip route get HOST from {}`",
            unused.local.ip
        ))
    }
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
            .apply_to_client(&mut config, "fe80::2".parse().unwrap());
        let Ok(locals) = locals else {
            panic!("the path leads there")
        };
        assert_eq!(locals, ["fe80::1%lo".parse().unwrap()]);
        let [local, remote] = ["fe80::1", "fe80::2"].map(|address| address.parse().unwrap());
        assert_eq!(config.local_addresses, [local]);
        assert_eq!(config.path_pairs, [PathPair { local, remote }]);
        let wrong = path("fe80::1%lo,fe80::2%1000000").unwrap_err();
        assert!(wrong.contains("same interface"), "{wrong}");
    }

    #[test]
    fn one_address_of_the_peer_serves_several_paths() {
        let paths = |text: &[&str]| {
            let line = ["anabranch"].into_iter().chain(text.iter().copied());
            let mut config = Config::default();
            let applied = Line::parse_from(line)
                .paths
                .apply_to_client(&mut config, [10, 0, 0, 9].into());
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
        let mode = |line: &[&str]| {
            let mut config = Config::default();
            let line = [&["anabranch"], line].concat();
            let applied = Line::parse_from(line).paths.apply_to_server(&mut config);
            assert!(applied.is_ok());
            // The timers of one path stay as they are.
            let plain = config.rto == Config::default().rto;
            (config.multipath.mode, plain)
        };
        assert_eq!(mode(&[]), (MultipathMode::Eca, true));
        assert_eq!(mode(&["--path", "10.0.0.1"]), (MultipathMode::Eca, true));
        assert_eq!(mode(&["--multipath", "off"]), (MultipathMode::Off, true));
        let two = ["--path", "10.0.0.1", "--path", "10.0.1.1"];
        assert_eq!(mode(&two), (MultipathMode::Eca, false));
    }

    #[test]
    fn options_left_out_keep_the_defaults_and_given_ones_are_set() {
        let of = |more: &[&str]| {
            let line = [&["anabranch", "--path", "10.0.0.1", "--path", "10.0.1.1"], more].concat();
            let mut config = Config::default();
            let applied = Line::parse_from(line)
                .paths
                .apply_to_client(&mut config, [10, 0, 0, 2].into());
            assert!(applied.is_ok(), "{more:?}");
            config.multipath
        };
        let plain = of(&["--multipath", "eca"]);
        let mut expected = Config::default().multipath;
        expected.mode = MultipathMode::Eca;
        assert_eq!(plain, expected);
        for (name, policy) in [
            ("same-path", RetransmissionPolicy::SamePath),
            ("largest-ssthresh", RetransmissionPolicy::LargestSsthresh),
            ("largest-cwnd", RetransmissionPolicy::LargestCwnd),
            ("lowest-loss", RetransmissionPolicy::LowestLoss),
            ("smallest-rtt", RetransmissionPolicy::SmallestRtt),
            ("earliest-delivery", RetransmissionPolicy::EarliestDelivery),
        ] {
            let named = of(&["--multipath", "cmt", "--retransmission", name]);
            assert_eq!(named.retransmission, policy, "{name}");
        }
        for (name, coupling) in [
            ("grouped", CoupledControl::Grouped),
            ("lia", CoupledControl::Lia),
            ("resource-pooling", CoupledControl::ResourcePooling),
            ("uncoupled", CoupledControl::Uncoupled),
        ] {
            let named = of(&["--multipath", "cmt", "--coupling", name]);
            assert_eq!(named.congestion, coupling, "{name}");
        }
        for (name, routing) in [
            ("auto", AckRouting::Measured),
            ("measured", AckRouting::Measured),
            ("last-arrival", AckRouting::LastArrival),
            ("every-path", AckRouting::EveryPath),
            ("unranked", AckRouting::Unranked),
            ("ranked", AckRouting::Ranked),
        ] {
            let named = of(&["--multipath", "eca", "--ack-routing", name]);
            assert_eq!(named.eca.ack_routing, routing, "{name}");
        }
    }
}
