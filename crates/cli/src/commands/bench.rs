//! `anabranch bench`: the performance of the stack on this machine, without a network.

mod idle;
mod loopback;
mod memory;
mod meter;
mod simulator;

use anabranch::{SchedulerKind, SchedulingError, StreamId};
use clap::Args;
use serde_json::json;

use crate::congestion::CongestionArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Observe, no_files};
use crate::output::note;
use crate::scheduling::Scheduler;
use crate::units;
use idle::IdleReport;
use meter::{Meter, Report};

/// The largest message, in bytes: it must fit the default windows.
const MAX_SIZE: u64 = 256 << 10;

const LOAD: &str = "Load";
const MEMORY: &str = "In memory only";

/// Arguments of `bench`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Examples:
  anabranch bench
  anabranch bench --size 72 --mib 64 --quantum 1
  anabranch bench --udp --size 64kib
  anabranch bench --associations 10000
  anabranch bench --udp --associations 4
  anabranch bench --congestion rfc9260 --recovery rfc9260
  anabranch bench --simulator

In memory, both peers and the packets between them share one thread: the result is the processor
time of the protocol. With --udp, each peer has an endpoint on 127.0.0.1, as two programs would.
With --udp --associations, one endpoint has associations with itself: the result shows how many
processors one endpoint uses."
)]
pub(crate) struct BenchArgs {
    /// Size of each message in bytes, 1 to 256kib
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = message_size)]
    size: u64,
    /// Data to send in all, in MiB, 1 to 1048576
    #[arg(long, value_name = "NUMBER", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    mib: u64,
    /// Packets that the receiver processes before it may acknowledge, 1 to 4096
    #[arg(long, help_heading = MEMORY,
        value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    quantum: u64,
    /// Send unordered messages
    #[arg(long, help_heading = LOAD)]
    unordered: bool,
    /// Largest SCTP packet in bytes without UDP and IP headers, 548 to 65507 [default: 1200; with --udp: by path MTU
    /// discovery]
    #[arg(long, help_heading = LOAD, value_name = "SIZE", value_parser = packet_size)]
    packet: Option<u16>,
    /// Streams that carry the messages in turn, 1 to 65535
    #[arg(long, help_heading = MEMORY, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    streams: u16,
    /// Stream scheduler, with data waiting on every stream: fcfs, rr, rr-packet, priority, fair or wfq [default: priority]
    #[arg(
        long,
        help_heading = MEMORY,
        value_enum,
        value_name = "NAME",
        hide_possible_values = true,
        conflicts_with = "udp"
    )]
    scheduler: Option<Scheduler>,
    /// Number of priorities (or weights) over which the streams are spread, 1 to 65535
    #[arg(long, help_heading = MEMORY,
        value_name = "NUMBER", default_value_t = 1, requires = "scheduler", value_parser = clap::value_parser!(u16).range(1..))]
    classes: u16,
    /// Number of chunks to keep outstanding, one per message, 0 to 65000; 0 means no fixed number
    #[arg(long, help_heading = MEMORY,
        value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65_000))]
    outstanding: u32,
    /// In memory: measure this many idle associations instead of a transfer. With --udp: associations that share the
    /// load. 1 to 16000
    #[arg(long, help_heading = LOAD,
        value_name = "NUMBER", conflicts_with = "quantum", value_parser = clap::value_parser!(u64).range(1..=16_000))]
    associations: Option<u64>,
    /// Send over UDP on 127.0.0.1 instead of in memory
    #[arg(long, display_order = 0, conflicts_with_all = ["quantum", "streams", "outstanding"])]
    udp: bool,
    /// Measure the simulator instead: 200 simulated seconds of four TCP flows and an association at one bottleneck, with
    /// messages of 72 and of 1400 bytes
    #[arg(long, help_heading = LOAD,
        conflicts_with_all = ["size", "mib", "quantum", "unordered", "packet",
        "streams", "outstanding", "associations", "udp", "low_latency", "congestion", "recovery", "ecn"])]
    simulator: bool,
    #[command(flatten)]
    congestion: CongestionArgs,
    #[command(flatten)]
    pub(crate) observe: Observe,
}

fn packet_size(text: &str) -> Result<u16, String> {
    units::parse_packet_size(text, 548, 65_507)
}

fn message_size(text: &str) -> Result<u64, String> {
    units::parse_size_within(
        text,
        1..=MAX_SIZE,
        "a message has 1 byte to 256kib: give a size in this range",
    )
}

impl BenchArgs {
    /// Number of messages to send.
    fn messages(&self) -> u64 {
        ((self.mib << 20) / self.size).max(1)
    }

    /// Number of associations that send them.
    fn carriers(&self) -> u64 {
        self.associations.unwrap_or(1)
    }

    /// Number of messages of each association.
    fn messages_each(&self) -> u64 {
        (self.messages() / self.carriers()).max(1)
    }

    fn config(&self) -> Result<anabranch::Config, Failure> {
        let mut config = self.congestion.config();
        self.congestion.apply(&mut config)?;
        if let Some(packet) = self.packet.or((!self.udp).then_some(MEMORY_PACKET)) {
            config.path_mtu = packet + IP_AND_UDP;
            config.path_mtu_limit = config.path_mtu;
        }
        config.streams.outbound = self.streams.max(config.streams.outbound);
        if let Some(scheduler) = self.scheduler {
            config.scheduler = scheduler.into();
            // Two messages for each stream, so that every stream has data waiting.
            config.buffers.send = config
                .buffers
                .send
                .max(2 * usize::from(self.streams) * self.size as usize);
            config.buffers.growth = 1;
        }
        // Beside its user data, each message that waits counts 256 bytes of the receiver's memory.
        let window = 4 * self.held_bytes() + 256 * self.outstanding as usize;
        config.buffers.send = config.buffers.send.max(window);
        config.buffers.receive = config
            .buffers
            .receive
            .max(u32::try_from(window).unwrap_or(u32::MAX));
        Ok(config)
    }

    /// Bytes of the DATA chunks of `outstanding` messages.
    fn held_bytes(&self) -> usize {
        self.outstanding as usize * (self.size as usize + DATA_HEADER)
    }

    /// Spreads the streams over the priorities or weights.
    fn set_classes(&self, association: &mut anabranch_proto::Association) -> Result<(), SchedulingError> {
        for stream in 0..self.streams {
            match association.scheduler() {
                SchedulerKind::Priority => {
                    association.set_stream_priority(StreamId(stream), stream % self.classes)?;
                }
                SchedulerKind::WeightedFairQueueing => {
                    association.set_stream_weight(StreamId(stream), 1 + stream % self.classes)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn stream_of(&self, message: u64) -> StreamId {
        StreamId((message % u64::from(self.streams)) as u16)
    }
}

/// Packet size in bytes for transfers in memory, as in the benchmarks of other stacks.
const MEMORY_PACKET: u16 = 1200;

/// Bytes of a DATA chunk's header (RFC 9260 §3.3.1).
const DATA_HEADER: usize = 16;

/// The SCTP port of the receiver.
const PORT: u16 = 7;

/// Bytes of the headers of IPv4 and UDP.
const IP_AND_UDP: u16 = 28;

/// Writes the message number into the first eight bytes; a shorter message gets its first bytes.
fn stamp(message: &mut [u8], number: u64) {
    let len = message.len().min(8);
    message[..len].copy_from_slice(&number.to_le_bytes()[..len]);
}

/// Whether this is message `number`.
fn is_stamped(message: &[u8], number: u64) -> bool {
    let len = message.len().min(8);
    message[..len] == number.to_le_bytes()[..len]
}

/// Runs the command.
pub(crate) async fn run(args: BenchArgs, interrupt: Interrupt) -> Result<(), Failure> {
    args.observe
        .refuse_files("a benchmark writes no capture, which would cost time; give --pcap to perf")?;
    if env!("ANABRANCH_OPT_LEVEL") != "3" {
        note(
            "this program is built to be there quickly and runs slower; measure with one that `cargo build --profile dist` builds",
        );
    }
    if args.simulator {
        let output = args.observe.output();
        return tokio::task::spawn_blocking(move || simulator::run(output, &interrupt))
            .await
            .map_err(|error| Failure::new(format!("the benchmark ended early: {error}")))?;
    }
    if let Some(count) = args.associations.filter(|_| !args.udp) {
        let (args, interrupt) = (args.clone(), interrupt.clone());
        let report = tokio::task::spawn_blocking(move || {
            let report = idle::run(&args, count, &interrupt)?;
            tell_idle(&args, &report);
            Ok(())
        });
        return report
            .await
            .map_err(|error| Failure::new(format!("the benchmark ended early: {error}")))?;
    }
    let report = if args.udp {
        loopback::run(&args, &interrupt).await?
    } else {
        let (args, interrupt) = (args.clone(), interrupt.clone());
        tokio::task::spawn_blocking(move || memory::run(&args, &interrupt))
            .await
            .map_err(|error| Failure::new(format!("the benchmark ended early: {error}")))??
    };
    tell(&args, &report);
    if report.messages < args.messages_each() * args.carriers() {
        return Err(Failure::interrupted("interrupted before all data was sent"));
    }
    Ok(())
}

fn tell_idle(args: &BenchArgs, report: &IdleReport) {
    let text = format!(
        "{} associations: {:.0} set up per second, {} resident memory each, {:.1} us of processor time per minute each when idle",
        report.associations,
        report.per_second,
        report
            .bytes_each
            .map_or("unknown".to_owned(), |bytes| units::size(bytes as u64)),
        report.cpu_per_minute.as_secs_f64() * 1e6,
    );
    let record = json!({
        "event": "bench",
        "lib": "anabranch",
        "mode": "idle",
        "associations": report.associations,
        "set_up_per_s": report.per_second,
        "bytes_each": report.bytes_each,
        "cpu_us_per_minute_each": report.cpu_per_minute.as_secs_f64() * 1e6,
    });
    args.observe.output().fact(text, &record);
}

fn tell(args: &BenchArgs, report: &Report) {
    let mode = if args.udp { "udp" } else { "memory" };
    let text = format!(
        "{mode}, {} messages of {}{}{}, packets of {} B: {}, {:.0} messages/s, {:.3} us of processor time per message, \
         {:.2} processors, {} resident memory",
        report.messages,
        units::size(args.size),
        if args.unordered { ", unordered" } else { "" },
        args.associations.map_or(String::new(), |count| format!(
            ", {count} associations of one endpoint"
        )),
        report.packet,
        units::rate(report.bytes, report.wall),
        report.messages_per_second(),
        report.cpu_per_message_us(),
        report.processors(),
        report.resident.map_or("unknown".to_owned(), units::size),
    );
    let record = json!({
        "event": "bench",
        "lib": "anabranch",
        "mode": mode,
        "size": args.size,
        "order": if args.unordered { "U" } else { "O" },
        "quantum": args.quantum,
        "streams": args.streams,
        "outstanding": args.outstanding,
        "associations": args.carriers(),
        "packet": report.packet,
        "bytes": report.bytes,
        "msgs": report.messages,
        "wall": report.wall.as_secs_f64(),
        "cpu": report.cpu.as_secs_f64(),
        "processors": report.processors(),
        "processors_wanted": report.processors_wanted(),
        "mbit": report.megabits(),
        "msgps": report.messages_per_second(),
        "cpu_us_per_msg": report.cpu_per_message_us(),
        "rss_kib": report.resident.map(|bytes| bytes / 1024),
        "pkts": report.packets,
        "acks": report.answers,
    });
    args.observe.output().fact(text, &record);
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArgs,
    }

    #[test]
    fn rules_and_sizes_reach_the_settings() {
        let config = |args: &[&str]| Line::parse_from([&["anabranch"], args].concat()).bench.config();
        let old = config(&[
            "--congestion",
            "rfc9260",
            "--recovery",
            "rfc9260",
            "--streams",
            "70",
        ])
        .expect("settings");
        let rules = anabranch::Config::rfc9260();
        assert_eq!(
            (&old.recovery, &old.congestion_control),
            (&rules.recovery, &rules.congestion_control)
        );
        assert_eq!(
            (old.streams.outbound, old.path_mtu),
            (70, MEMORY_PACKET + IP_AND_UDP)
        );
        let preset = config(&["--low-latency", "--scheduler", "fair"]).expect("settings");
        assert_eq!(
            preset.congestion_control,
            anabranch::Config::low_latency().congestion_control
        );
        assert_eq!(preset.scheduler, SchedulerKind::FairBandwidth);
    }
}
