//! `anabranch perf`: a measurement between two machines, as with iperf3. The client tells the server what to measure. Every
//! message has a number and a time, so that the measurement also checks the delivery.

mod client;
mod clock;
mod control;
mod pace;
mod plan;
mod receiver;
mod report;
mod sender;
mod sequence;
mod server;
mod session;
mod tally;

pub(crate) use tally::cpu_time;

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::connect::Target;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::local::Local;
use crate::options::{Carry, OUTPUT, Observe, first};
use crate::reliability::{Persist, Urgency};
use crate::scheduling::Schedule;
use crate::units;
use plan::{MAX_SIZE, MAX_STREAMS, MAX_TIME, MIN_SIZE, Plan, Until};

/// The default length of a run.
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// Arguments of `perf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch perf server
  anabranch perf client 127.0.0.1
  anabranch perf client 127.0.0.1 --bidir --time 5 --size 64kib
  anabranch perf client 127.0.0.1 --rate 10mbit --link delay=40ms,loss=1%

`anabranch perf server --help` and `anabranch perf client --help` list all options.")]
pub(crate) struct PerfArgs {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, for the whole run")]
enum Side {
    /// Wait for clients and run the measurements that they request
    Server(ServerArgs),
    /// Measure the path to a server
    Client(ClientArgs),
}

/// Arguments of `perf server`.
#[derive(Debug, Args)]
#[command(
    after_help = "\
Examples:
  anabranch perf server
  anabranch perf server --one-off --json
  anabranch perf server --path 10.1.0.2 --path 10.2.0.2 --multipath cmt

The first line of output reports the address and ports. The server serves any number of clients at
the same time until Ctrl-C. With several clients, the reported processor time is that of the whole
process.",
    mut_arg("udp_port", first)
)]
struct ServerArgs {
    #[command(flatten)]
    local: Local,
    /// Exit after the first client
    #[arg(long)]
    one_off: bool,
    /// Time between two result lines in seconds, 0.01 or more; 0 prints no lines
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval_length)]
    interval: Duration,
    #[command(flatten)]
    observe: Observe,
    #[command(flatten)]
    carry: Carry,
}

const MESSAGES: &str = "Messages and directions";

/// Arguments of `perf client`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch perf client 127.0.0.1
  anabranch perf client 127.0.0.1 --bytes 100mib --size 64kib --streams 8 --unordered
  anabranch perf client 127.0.0.1 --reverse --rate 10mbit --json
  anabranch perf client 10.1.0.2 --path 10.1.0.1 --path 10.2.0.1,10.2.0.2 --multipath cmt
  anabranch perf client 127.0.0.1 --congestion cubic --recovery rack \\
    --link rate=20mbit,delay=40ms,loss=0.1%
  anabranch perf client 127.0.0.1 --rate 1mbit --size 100 --lifetime 100ms \\
    --link rate=2mbit,delay=40ms,loss=3%

A sender's result line shows the congestion window (cwnd) and the smoothed round-trip time (RTT) at
the end of the interval, and the chunks lost and retransmitted during the interval. With several
paths, each path that carried data has such a line, and a table of all paths follows at the end.
With --json, `paths` has these values for every path.
Goodput is the data that the receiving program got. Delay is the time from send to receipt,
including buffers. Without --rate the buffers are full, so the delay is that of a full path. The
clocks of both sides are compared by round trips at the start: a delay may be off by half the
shortest round-trip time, and by the clock drift during the run.
If the server is killed, the run ends with the results so far and exit status 1: at once if an ICMP
message reports the closed port, else when the association fails (Association.Max.Retrans timeouts
in a row, about six minutes). Ctrl-C ends the run early with a graceful shutdown and the results so
far. The exit status is 0 only if every message arrived once and, without --unordered, in order.
With --deadline, --lifetime, --max-retransmissions or --pr-priority, abandoned messages do not
count. These options apply to each direction. With --deadline, `in time` is the share of the messages
that arrived within it, by the compared clocks.")]
struct ClientArgs {
    /// How long to send, in seconds, more than 0 and at most one week [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = run_length)]
    time: Option<Duration>,
    /// Size of each message in bytes, 16 to 16mib
    #[arg(long, value_name = "SIZE", default_value = "1kib", value_parser = message_size)]
    size: u64,
    /// Limit the rate of messages in each direction, for example 10mbit; headers do not count [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    rate: Option<u64>,
    #[command(flatten)]
    target: Target,
    /// Data to send in each direction instead of --time, for example 100mib; rounded up to whole messages
    #[arg(long, help_heading = MESSAGES, value_name = "SIZE", value_parser = amount, conflicts_with = "time")]
    bytes: Option<u64>,
    /// Streams that carry the messages in turn, 1 to 65534
    #[arg(long, help_heading = MESSAGES,
        value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_STREAMS)))]
    streams: u16,
    /// Send unordered messages
    #[arg(long, help_heading = MESSAGES)]
    unordered: bool,
    /// Measure from the server to the client
    #[arg(long, help_heading = MESSAGES, conflicts_with = "bidir")]
    reverse: bool,
    /// Measure both directions at the same time
    #[arg(long, help_heading = MESSAGES)]
    bidir: bool,
    /// Time between two result lines in seconds, 0.01 or more; 0 prints no lines
    #[arg(long, help_heading = OUTPUT, value_name = "SECONDS", default_value = "1", value_parser = interval_length)]
    interval: Duration,
    #[command(flatten)]
    persist: Persist,
    #[command(flatten)]
    urgency: Urgency,
    #[command(flatten)]
    schedule: Schedule,
    #[command(flatten)]
    observe: Observe,
    #[command(flatten)]
    carry: Carry,
}

fn run_length(text: &str) -> Result<Duration, String> {
    match units::parse_seconds(text)? {
        time if time.is_zero() => Err("the time must be more than 0 seconds, for example 10".to_owned()),
        time if time > MAX_TIME => Err("the time is at most one week".to_owned()),
        time => Ok(time),
    }
}

fn interval_length(text: &str) -> Result<Duration, String> {
    match units::parse_seconds(text)? {
        time if time.is_zero() || time >= Duration::from_millis(10) => Ok(time.min(MAX_TIME)),
        _ => Err("the interval is at least 10ms, or 0 for no lines".to_owned()),
    }
}

fn amount(text: &str) -> Result<u64, String> {
    match units::parse_size(text)? {
        0 => Err("the size must be at least 1 byte, for example 100mib".to_owned()),
        bytes => Ok(bytes),
    }
}

fn message_size(text: &str) -> Result<u64, String> {
    units::parse_size_within(
        text,
        MIN_SIZE..=MAX_SIZE,
        "a message has 16 bytes (its number and its time) to 16mib: give a size in this range",
    )
}

/// The time between two result lines; `None` for no lines.
fn interval(given: Duration) -> Option<Duration> {
    (!given.is_zero()).then_some(given)
}

impl ClientArgs {
    fn plan(&self) -> Plan {
        Plan {
            size: self.size,
            streams: self.streams,
            unordered: self.unordered || self.urgency.deadline.is_some(),
            forward: !self.reverse,
            reverse: self.reverse || self.bidir,
            until: match self.bytes {
                Some(bytes) => Until::Bytes(bytes),
                None => Until::Time(self.time.unwrap_or(DEFAULT_TIME)),
            },
            rate: self.rate,
            reliability: self.persist.reliability(),
            early_copies: self.urgency.early_copies,
            deadline: self.urgency.deadline,
        }
    }
}

impl PerfArgs {
    pub(crate) fn observe(&self) -> &Observe {
        match &self.side {
            Side::Server(args) => &args.observe,
            Side::Client(args) => &args.observe,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: PerfArgs, interrupt: Interrupt) -> Result<(), Failure> {
    match args.side {
        Side::Server(args) => server::run(args, interrupt).await,
        Side::Client(args) => client::run(args, interrupt).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_limits() {
        assert_eq!(message_size("16"), Ok(16));
        assert_eq!(message_size("16mib"), Ok(16 << 20));
        for wrong in ["15", "17mib", "x"] {
            assert!(message_size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(run_length("0.5"), Ok(Duration::from_millis(500)));
        assert!(run_length("0").is_err() && run_length("1000h").is_err());
        assert_eq!(interval_length("0").map(interval), Ok(None));
        assert!(interval_length("1ms").is_err());
        assert!(amount("0").is_err());
    }
}
