//! The rules by which a sender chooses among several paths, for comparisons with papers (`docs/MULTIPATH.md`).

use anabranch::{AckRouting, Config, CoupledControl, MultipathMode, PathScheduler, RetransmissionPolicy};
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::options::RESEARCH;

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

/// How the sender chooses among several paths.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PathChoice {
    /// Path for new data with cmt or eca: earliest-delivery, lowest-rtt or round-robin. The last two are for comparison
    /// [default: earliest-delivery]
    #[arg(long, help_heading = RESEARCH, value_enum, value_name = "NAME", hide_possible_values = true)]
    path_scheduler: Option<Scheduler>,
    /// Path for retransmissions with cmt or eca: earliest-delivery, same-path, largest-ssthresh, largest-cwnd, lowest-loss
    /// or smallest-rtt [default: earliest-delivery]
    #[arg(long, help_heading = RESEARCH, value_enum, value_name = "NAME", hide_possible_values = true)]
    retransmission: Option<Retransmission>,
    /// Path for acknowledgements with eca: ranked (gap reports on the lowest-RTT path without gaps), unranked (any path
    /// without gaps), last-arrival (path of the latest data), every-path (a copy on every path) or auto (ranked,
    /// but the fastest path reports its own gaps; every-path while at least half of the paths lose more than 10 %)
    /// [default: auto]
    #[arg(long, help_heading = RESEARCH, value_enum, value_name = "NAME", hide_possible_values = true)]
    ack_routing: Option<Acks>,
    /// Coupled congestion control with cmt or eca: grouped (paths whose delays rise and fall together take as much as one
    /// flow), uncoupled (one flow per path; only for paths without a shared bottleneck), lia (RFC 6356) or resource-pooling
    /// (CMT/RPv1): these two couple all paths, and need --congestion rfc9260 [default: grouped]
    #[arg(long, help_heading = RESEARCH, value_enum, value_name = "NAME", hide_possible_values = true)]
    coupling: Option<Coupling>,
}

impl PathChoice {
    /// Applies the options to settings in which the multipath mode is already set.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        let multipath = &mut config.multipath;
        let mode = multipath.mode;
        for (flag, given) in [
            ("--path-scheduler", self.path_scheduler.is_some()),
            ("--retransmission", self.retransmission.is_some()),
            ("--coupling", self.coupling.is_some()),
        ] {
            if given && mode == MultipathMode::Off {
                return Err(Failure::new(format!(
                    "{flag} needs several paths at once: add --multipath cmt or --multipath eca"
                )));
            }
        }
        if self.ack_routing.is_some() && mode != MultipathMode::Eca {
            return Err(Failure::new("--ack-routing needs ECA-SCTP: add --multipath eca"));
        }
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
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::paths::PathArgs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        paths: PathArgs,
        #[command(flatten)]
        choice: PathChoice,
    }

    #[test]
    fn options_left_out_keep_the_defaults_and_given_ones_are_set() {
        let of = |more: &[&str]| {
            let line = [&["anabranch", "--path", "10.0.0.1", "--path", "10.0.1.1"], more].concat();
            let mut config = Config::default();
            let line = Line::parse_from(line);
            let begin = line
                .paths
                .apply_to_client(&mut config, [10, 0, 0, 2].into(), false);
            assert!(begin.is_ok(), "{more:?}");
            assert!(line.choice.apply(&mut config).is_ok(), "{more:?}");
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
