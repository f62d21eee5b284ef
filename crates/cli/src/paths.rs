//! Several paths on the command line (`docs/MULTIPATH.md`, `docs/PATHS.md`): their addresses, and how they are used at once.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::{
    AckRouting, AssociationStats, Config, CoupledControl, MultipathMode, PathPair, PathScheduler,
    RetransmissionPolicy,
};
use clap::{Args, ValueEnum};

use crate::failure::Failure;

const HEADING: &str = "Several paths";

/// A path, as `--path` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathArg {
    /// An address of this machine.
    pub(crate) local: IpAddr,
    /// The peer's that it leads to.
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
        let address = text.parse::<IpAddr>().map_err(|_| {
            format!(
                "{what} is an IP address, without port, like in --path 10.0.0.1,10.0.0.2, and not {text:?}"
            )
        })?;
        if address.is_unspecified() || address.is_multicast() {
            return Err(format!(
                "{what} is the address of one interface, and not {address}"
            ));
        }
        Ok(address)
    };
    let (local, remote) = match text.split_once(',') {
        Some((local, remote)) => (local, Some(address(remote, "REMOTE")?)),
        None => (text, None),
    };
    let local = address(local, "LOCAL")?;
    if remote.is_some_and(|remote| remote.is_ipv4() != local.is_ipv4()) {
        return Err(
            "LOCAL and REMOTE are both IPv4 or both IPv6: one path cannot mix them, two can".to_owned(),
        );
    }
    Ok(PathArg { local, remote })
}

/// Whether data goes by several paths at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One at a time, another when it fails (RFC 9260)
    Off,
    /// All at once
    Cmt,
    /// All at once, and each path is acknowledged by itself
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

/// Which path new data takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scheduler {
    /// Where it is delivered first
    EarliestDelivery,
    /// The lowest round-trip time first
    LowestRtt,
    /// A packet each
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

/// Which path a repeat takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Retransmission {
    /// Where it is delivered first
    EarliestDelivery,
    /// Where it was sent
    SamePath,
    /// The largest slow start threshold
    LargestSsthresh,
    /// The largest congestion window
    LargestCwnd,
    /// The smallest share of losses
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

/// By which path the receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acks {
    /// By what is measured
    Measured,
    /// Where data came from last
    LastArrival,
    /// On each a copy
    EveryPath,
    /// Any without a gap
    Unranked,
    /// The fastest without a gap
    Ranked,
}

impl From<Acks> for AckRouting {
    fn from(acks: Acks) -> Self {
        match acks {
            Acks::Measured => Self::Measured,
            Acks::LastArrival => Self::LastArrival,
            Acks::EveryPath => Self::EveryPath,
            Acks::Unranked => Self::Unranked,
            Acks::Ranked => Self::Ranked,
        }
    }
}

/// How congestion windows of paths depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Coupling {
    /// Not at all
    Uncoupled,
    /// RFC 6356
    Lia,
    /// CMT/RPv1
    ResourcePooling,
}

impl From<Coupling> for CoupledControl {
    fn from(coupling: Coupling) -> Self {
        match coupling {
            Coupling::Uncoupled => Self::Uncoupled,
            Coupling::Lia => Self::Lia,
            Coupling::ResourcePooling => Self::ResourcePooling,
        }
    }
}

/// Which paths there are, and how they are used.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PathArgs {
    /// Use this address of this machine, and lead from it to that one of the peer's; once for each path. HOST is the first
    /// one's REMOTE unless another names it; what is left out is chosen by the network that both are in. A listener takes
    /// LOCALs alone, and tells its peers of them. With several paths a dead one is left after 200 ms, not after a second
    #[arg(long, help_heading = HEADING, value_name = "LOCAL[,REMOTE]", value_parser = path)]
    path: Vec<PathArg>,
    /// Send by several paths at once: off (one, and another when it fails), cmt (all; any SCTP peer with several addresses will
    /// do), or eca (all, and each is acknowledged by itself, by the best path; cmt with a peer that does not offer it). Who
    /// sends decides, for itself [default: off; a listener with several --path: eca]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "MODE", hide_possible_values = true)]
    multipath: Option<Mode>,
    /// Which path new data takes: earliest-delivery (where it is delivered first, so that a slow path holds up no fast one),
    /// lowest-rtt or round-robin (both to compare) [default: earliest-delivery]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    path_scheduler: Option<Scheduler>,
    /// Which path a repeat takes: earliest-delivery (where it is delivered first), same-path, largest-ssthresh, largest-cwnd,
    /// lowest-loss or smallest-rtt [default: earliest-delivery]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    retransmission: Option<Retransmission>,
    /// With --multipath eca, by which path the peer is asked to acknowledge: measured (ranked, or every-path while half of the
    /// paths lose a tenth), ranked (gaps by the fastest path that has none), unranked (any that has none), last-arrival
    /// (where data came from last) or every-path (a copy on each) [default: measured]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    ack_routing: Option<Acks>,
    /// How the congestion windows of several paths depend on each other: lia (RFC 6356: all paths together take no more of a
    /// shared bottleneck than one flow), resource-pooling (all paths together take less than with lia), or uncoupled (each path
    /// is a flow of its own: only for paths that share no bottleneck) [default: lia]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    coupling: Option<Coupling>,
}

impl PathArgs {
    /// Whether data is to go by several paths at once.
    fn at_once(&self) -> bool {
        self.multipath.is_some_and(|mode| mode != Mode::Off)
    }

    fn mode_name(&self) -> String {
        let value = self.multipath.and_then(|mode| mode.to_possible_value());
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The local addresses named, each once.
    pub(crate) fn locals(&self) -> Vec<IpAddr> {
        let mut locals = Vec::new();
        for path in &self.path {
            if !locals.contains(&path.local) {
                locals.push(path.local);
            }
        }
        locals
    }

    /// Whether this address was named here.
    pub(crate) fn names(&self, local: IpAddr) -> bool {
        self.path.iter().any(|path| path.local == local)
    }

    fn apply(&self, config: &mut Config, mode: Mode) -> Result<(), Failure> {
        for (flag, given) in [
            ("--path-scheduler", self.path_scheduler.is_some()),
            ("--retransmission", self.retransmission.is_some()),
            ("--coupling", self.coupling.is_some()),
        ] {
            if given && mode == Mode::Off {
                return Err(Failure::new(format!(
                    "{flag} is about several paths at once: give --multipath cmt or eca too"
                )));
            }
        }
        if self.ack_routing.is_some() && mode != Mode::Eca {
            return Err(Failure::new(
                "--ack-routing is about the acknowledgements of ECA-SCTP: give --multipath eca too",
            ));
        }
        if self.path.len() > 1 || mode != Mode::Off {
            *config = config.clone().with_fast_failover();
        }
        config.local_addresses = self.locals();
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

    /// Changes the settings of who connects to this address; answers the local addresses to bind.
    pub(crate) fn apply_to_client(&self, config: &mut Config, host: IpAddr) -> Result<Vec<IpAddr>, Failure> {
        self.apply(config, self.multipath.unwrap_or(Mode::Off))?;
        if let ([only], true) = (&self.path[..], self.at_once()) {
            return Err(Failure::new(format!(
                "--multipath {} with --path {only} alone has nothing to choose from: give --path once for each path",
                self.mode_name()
            )));
        }
        if self.path.is_empty() {
            return Ok(vec![match host {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            }]);
        }
        for (index, path) in self.path.iter().enumerate() {
            let again =
                |other: &&PathArg| *other == path || (other.remote.is_some() && other.remote == path.remote);
            if let Some(other) = self.path[..index].iter().find(again) {
                return Err(Failure::new(format!(
                    "--path {path}: --path {other} leads there already; a path of SCTP is an address of the peer's"
                )));
            }
        }
        let pairs = self.path.iter().filter_map(|path| {
            let remote = path.remote?;
            Some(PathPair {
                local: path.local,
                remote,
            })
        });
        config.path_pairs = pairs.collect();
        if config.paired_with(host).is_none() {
            let free = |path: &&PathArg| path.remote.is_none() && path.local.is_ipv4() == host.is_ipv4();
            let first = self.path.iter().find(free).ok_or_else(|| {
                Failure::new(format!(
                    "no --path leads to HOST {host}, where the association begins: give one from an {} address, with \
                     ,{host} or without REMOTE",
                    if host.is_ipv4() { "IPv4" } else { "IPv6" }
                ))
            })?;
            config.path_pairs.push(PathPair {
                local: first.local,
                remote: host,
            });
        }
        Ok(self.locals())
    }

    /// Changes the settings of who waits for associations.
    pub(crate) fn apply_to_server(&self, config: &mut Config) -> Result<(), Failure> {
        if let Some(path) = self.path.iter().find(|path| path.remote.is_some()) {
            return Err(Failure::new(format!(
                "--path {path}: a listener's path is LOCAL alone, here {}; its peers tell their addresses themselves",
                path.local
            )));
        }
        // What its peers send by is theirs to choose, so it offers what they may want.
        let otherwise = if self.path.len() > 1 { Mode::Eca } else { Mode::Off };
        self.apply(config, self.multipath.unwrap_or(otherwise))
    }

    /// What is wrong with the paths that came of it, or only worth a note.
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
                "--path {path}: the peer has told of no such address, only of {told}; start its side with --path for \
                 each of its addresses, or leave REMOTE away"
            )));
        }
        if self.at_once() && stats.paths.len() < 2 {
            return Err(Failure::new(format!(
                "--multipath {}: the peer has told of no address but {told}, and there are as many paths as it has \
                 addresses; start its side with --path for each of them",
                self.mode_name()
            )));
        }
        if self.multipath == Some(Mode::Eca) && !stats.extensions.eca {
            return Ok(Some(
                "the peer does not offer ECA-SCTP: acknowledgements are those of --multipath cmt".to_owned(),
            ));
        }
        let used = |path: &&PathArg| stats.paths.iter().any(|one| one.local == Some(path.local));
        let unused = self.path.iter().find(|path| !used(path));
        Ok(unused.map(|path| {
            format!(
                "--path {path} is not used: the peer has told of {told} alone, and there is one path for each"
            )
        }))
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
    fn what_is_left_out_is_the_cores_choice_and_what_is_named_is_set() {
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
            ("lia", CoupledControl::Lia),
            ("resource-pooling", CoupledControl::ResourcePooling),
            ("uncoupled", CoupledControl::Uncoupled),
        ] {
            let named = of(&["--multipath", "cmt", "--coupling", name]);
            assert_eq!(named.congestion, coupling, "{name}");
        }
        for (name, routing) in [
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
