//! Stream schedulers on the command line (RFC 8260 §3; `docs/SCHEDULING.md`).

use std::ops::RangeInclusive;
use std::time::Duration;

use anabranch::{Association, Config, SchedulerKind, StreamId};
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::units;

/// The heading of stream scheduling in `--help`.
const HEADING: &str = "Streams and scheduling";

/// The schedulers, by short names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheduler {
    /// First come, first served: messages leave in the order of the send calls
    Fcfs,
    /// Round-robin, one message per stream
    Rr,
    /// Round-robin, one packet per stream
    RrPacket,
    /// Strict priority
    Priority,
    /// Fair bandwidth: equal bytes per stream
    Fair,
    /// Weighted fair queueing
    Wfq,
}

impl From<Scheduler> for SchedulerKind {
    fn from(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::Fcfs => Self::FirstComeFirstServed,
            Scheduler::Rr => Self::RoundRobin,
            Scheduler::RrPacket => Self::RoundRobinPerPacket,
            Scheduler::Priority => Self::Priority,
            Scheduler::Fair => Self::FairBandwidth,
            Scheduler::Wfq => Self::WeightedFairQueueing,
        }
    }
}

/// A stream or a range of streams, and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Assignment {
    streams: RangeInclusive<u16>,
    value: u16,
}

fn assignment(text: &str) -> Result<Assignment, String> {
    let problem = || "write STREAM=NUMBER, like 3=1, or for several streams 1-4=2".to_owned();
    let (streams, value) = text.split_once('=').ok_or_else(problem)?;
    let (first, last) = streams.split_once('-').unwrap_or((streams, streams));
    let number = |text: &str| text.parse::<u16>().map_err(|_| problem());
    let streams = number(first)?..=number(last)?;
    let value = number(value)?;
    if streams.is_empty() {
        return Err(problem());
    }
    Ok(Assignment { streams, value })
}

fn delay(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text)? {
        time if time.is_zero() => Err("the delay must be more than 0, for example 100ms".to_owned()),
        time => Ok(time),
    }
}

/// The stream scheduler of this side.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Schedule {
    /// Stream scheduler (RFC 8260): fcfs (first come, first served), rr (round-robin), rr-packet (round-robin per
    /// packet), priority, fair (fair bandwidth) or wfq (weighted fair queueing) [default: priority, in which
    /// streams of equal priority take turns; with --weight: wfq]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "NAME", hide_possible_values = true)]
    scheduler: Option<Scheduler>,
    /// Stream priority, 0 to 65535; the lowest number is sent first. STREAM is a number or a range like 2-4 [default: 0]
    #[arg(long, help_heading = HEADING, value_name = "STREAM=PRIORITY", value_parser = assignment,
        conflicts_with = "weight")]
    priority: Vec<Assignment>,
    /// Stream weight, 1 to 65535: the share of the bandwidth relative to weight 1. STREAM is a number or a range like 2-4
    /// [default: 1]
    #[arg(long, help_heading = HEADING, value_name = "STREAM=WEIGHT", value_parser = assignment)]
    weight: Vec<Assignment>,
    /// Limit how long data of streams with priority 1 or more may delay priority 0 in network queues, for example 100ms
    /// [default: no limit]
    #[arg(long, help_heading = HEADING, value_name = "DURATION", value_parser = delay,
        conflicts_with = "weight")]
    low_priority_delay: Option<Duration>,
}

impl Schedule {
    /// The scheduler that the options choose or need; `otherwise` if they need none.
    fn kind(&self, otherwise: SchedulerKind) -> Result<SchedulerKind, Failure> {
        let needed = if !self.priority.is_empty() || self.low_priority_delay.is_some() {
            Some((
                SchedulerKind::Priority,
                "priority",
                "--priority and --low-priority-delay work",
            ))
        } else if !self.weight.is_empty() {
            Some((SchedulerKind::WeightedFairQueueing, "wfq", "--weight works"))
        } else {
            None
        };
        let chosen = self.scheduler.map(SchedulerKind::from);
        match (needed, chosen) {
            (Some((needed, name, what)), Some(chosen)) if needed != chosen => Err(Failure::new(format!(
                "--scheduler: {what} only with --scheduler {name}: give that, or leave --scheduler out"
            ))),
            (Some((needed, ..)), _) => Ok(needed),
            (None, chosen) => Ok(chosen.unwrap_or(otherwise)),
        }
    }

    /// Puts the scheduler into the settings.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), Failure> {
        config.scheduler = self.kind(config.scheduler)?;
        let delay = self.low_priority_delay.or(config.low_priority_delay);
        // --low-latency presets this delay. It needs the priority scheduler, which --scheduler can replace.
        config.low_priority_delay = delay.filter(|_| config.scheduler == SchedulerKind::Priority);
        Ok(())
    }

    /// Sets the priorities and weights of the association's streams.
    pub(crate) fn set(&self, association: &Association) -> Result<(), Failure> {
        let each = |assignments: &[Assignment]| {
            let pairs = assignments.iter().flat_map(|one| {
                let value = one.value;
                one.streams.clone().map(move |stream| (StreamId(stream), value))
            });
            pairs.collect::<Vec<_>>()
        };
        for (stream, class) in each(&self.priority) {
            let set = association.set_stream_priority(stream, class);
            set.map_err(|error| Failure::new(format!("--priority {}={class}: {error}", stream.0)))?;
        }
        for (stream, weight) in each(&self.weight) {
            let set = association.set_stream_weight(stream, weight);
            set.map_err(|error| Failure::new(format!("--weight {}={weight}: {error}", stream.0)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        schedule: Schedule,
    }

    fn scheduler(args: &[&str]) -> Result<SchedulerKind, String> {
        let all = [&["test"], args].concat();
        let only = Only::try_parse_from(all).map_err(|error| error.to_string())?;
        let kind = only.schedule.kind(SchedulerKind::RoundRobin);
        kind.map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn options_choose_the_scheduler_that_they_need() {
        assert_eq!(scheduler(&[]), Ok(SchedulerKind::RoundRobin));
        assert_eq!(
            scheduler(&["--scheduler", "rr-packet"]),
            Ok(SchedulerKind::RoundRobinPerPacket)
        );
        assert_eq!(scheduler(&["--priority", "2=1"]), Ok(SchedulerKind::Priority));
        assert_eq!(
            scheduler(&["--low-priority-delay", "50ms"]),
            Ok(SchedulerKind::Priority)
        );
        assert_eq!(
            scheduler(&["--weight", "2-3=9"]),
            Ok(SchedulerKind::WeightedFairQueueing)
        );
        let error = scheduler(&["--weight", "2=9", "--scheduler", "fair"]).unwrap_err();
        assert!(error.contains("--scheduler wfq"), "{error}");
        let error = scheduler(&["--priority", "2=9", "--weight", "2=9"]).unwrap_err();
        assert!(error.contains("--weight"), "{error}");
    }

    #[test]
    fn streams_and_numbers() {
        let both = |streams, value| Ok(Assignment { streams, value });
        assert_eq!(assignment("3=1"), both(3..=3, 1));
        assert_eq!(assignment("1-4=2"), both(1..=4, 2));
        for wrong in ["3", "=1", "a=1", "3=70000", "4-1=2", "1-=2"] {
            assert!(assignment(wrong).unwrap_err().contains("3=1"), "{wrong}");
        }
    }
}
