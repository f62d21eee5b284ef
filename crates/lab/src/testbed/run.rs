//! One run: the bed, the sender and the receiver, the TCP cross traffic, and the record.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anabranch_bed::{Bed, Lateness, PathPlan, Plan, Side, WayCounters};
use anabranch_netsim::{Recovery, TcpCongestionControl};
use anabranch_proto::Timestamp;

use super::clock::Clock;
use super::ends::{Ends, fill};
use super::error::TestbedError;
use super::hosts::{Hosts, Net};
use super::iperf::Flows;
use super::processes::Processes;
use crate::stage::{Awaited, HostTimes, Origin, Record, Scenario, TcpFlows};

/// The record of a run, and how late the bed was.
pub(crate) struct Done {
    pub(crate) record: Record,
    pub(crate) lateness: Lateness,
    /// Packets that the bed itself lost, in addition to those that its links dropped.
    pub(crate) lost_by_bed: u64,
    /// The share of processor time that the virtual machine's host took.
    pub(crate) stolen: f64,
    /// How late the programs on the hosts were.
    pub(crate) hosts: HostTimes,
    /// How far someone has set the system's clock during the run.
    pub(crate) clock_step: Duration,
}

/// Linux's name for CUBIC.
const CUBIC: &str = "cubic";

/// Runs a scenario on its own bed. TCP uses `algorithm` where the scenario asks for Reno. The hosts are processes of `program`, or threads
/// of this process. `None` if the run was interrupted.
pub(crate) fn run(
    scenario: Scenario,
    origin: &Origin<'_>,
    (algorithm, program): (&str, Option<&Path>),
    interrupted: &AtomicBool,
) -> Result<Option<Done>, TestbedError> {
    let paths = scenario.paths.iter().map(|(there, back)| PathPlan {
        rightward: there.clone(),
        leftward: back.clone(),
        mtu: None,
    });
    let bed = Bed::build(&Plan {
        paths: paths.collect(),
        seed: origin.seed,
    })?;
    let mut tcp = match &scenario.tcp {
        None => None,
        Some(flows) => {
            choose_sack(&bed, flows.real.recovery == Recovery::Sack)?;
            Some(Flows::prepare(&bed, flows.starts.len())?)
        }
    };
    let algorithm = match scenario.tcp.as_ref().map(|flows| flows.real.congestion_control) {
        Some(TcpCongestionControl::Cubic) => CUBIC,
        _ => algorithm,
    };
    let starts = scenario
        .tcp
        .as_ref()
        .map_or(&[][..], |flows: &TcpFlows| &flows.starts);
    let mut starts: Vec<(Timestamp, usize)> = starts.iter().copied().zip(0..).collect();
    starts.sort_unstable();
    let program = program.filter(|_| scenario.messages.is_some());
    let processes = program.map(|program| Processes::prepare(&bed, program, origin));
    let processes = processes.transpose()?.flatten();
    let clock = Clock::start(interrupted);
    let hosts = Hosts::new(bed.paths(), scenario.measures);
    let ends = match &processes {
        Some(processes) => Ends::Processes(processes),
        None => Ends::Here(&hosts, &clock),
    };
    let messages = scenario.messages;
    let awaited = messages
        .as_ref()
        .map_or(Awaited::Nothing, |messages| messages.awaited);
    let record = thread::scope(|scope| {
        let working = match &processes {
            Some(processes) => {
                processes.begin(&clock)?;
                scope.spawn(|| processes.watch(&clock));
                Vec::new()
            }
            None => hosts.start(
                scope,
                (Net::Bed(&bed), &clock),
                &scenario.config,
                (messages, scenario.counts.1),
                &Side::BOTH,
            ),
        };
        let conducted = (|| {
            for (start, flow) in starts {
                if let Some(tcp) = tcp.as_mut().filter(|_| clock.wait_until(start)) {
                    tcp.start(&bed, flow, algorithm)?;
                }
            }
            let measured = (scenario.counts, scenario.measures);
            let record = ends.follow((&bed, &clock), measured, awaited, scenario.most_drain);
            let delivered = tcp.map(|tcp| tcp.end(&clock)).transpose()?;
            Ok::<_, TestbedError>((record, delivered.unwrap_or_default()))
        })();
        clock.end();
        for work in working {
            work.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        conducted
    });
    if clock.is_interrupted() {
        return Ok(None);
    }
    let (mut record, delivered) = record?;
    let clock_step = clock.step();
    bed.check()?;
    let times = [record.counts.0, record.counts.1, clock.now()];
    for (reading, at) in [&mut record.at_begin, &mut record.at_end, &mut record.last]
        .into_iter()
        .zip(times)
    {
        reading.tcp_bytes = delivered.iter().map(|flow| flow.until(at)).collect();
    }
    let host_times = fill(&mut record, scenario.measures, ends.reports()?);
    let ways = bed.counters().concat();
    let mut lateness = Lateness::default();
    ways.iter().for_each(|way| lateness.merge(&way.lateness));
    let by_bed = |way: &WayCounters| way.lost_full + way.lost_refused + way.lost_before;
    Ok(Some(Done {
        record,
        lateness,
        lost_by_bed: ways.iter().map(by_bed).sum(),
        stolen: bed.stolen(),
        hosts: host_times,
        clock_step,
    }))
}

/// Sets on both sides whether the kernel's TCP offers SACK.
fn choose_sack(bed: &Bed, sack: bool) -> Result<(), TestbedError> {
    let value = if sack { "1" } else { "0" };
    for side in Side::BOTH {
        bed.inside(side, || fs::write("/proc/sys/net/ipv4/tcp_sack", value))??;
    }
    Ok(())
}
