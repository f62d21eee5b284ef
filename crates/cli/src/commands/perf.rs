//! `anabranch perf`: a measurement between two machines, as people know it from iperf3: a server that waits, and a
//! client that says what to measure. Every message is numbered and timed, so that the measurement is a check as well.

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
use crate::options::{Carry, Observe};
use crate::reliability::Persist;
use crate::scheduling::Schedule;
use crate::units;
use plan::{MAX_SIZE, MAX_STREAMS, MAX_TIME, MIN_SIZE, Plan, Until};

/// How long a run takes if nothing else is said.
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// Arguments of `perf`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch perf server
  anabranch perf client 127.0.0.1
  anabranch perf client 127.0.0.1 --bidir --time 5 --size 64kib
  anabranch perf client 127.0.0.1 --rate 10mbit --link delay=40ms,loss=1%

`anabranch perf server --help` and `anabranch perf client --help` tell all flags.")]
pub(crate) struct PerfArgs {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    /// Wait for clients and measure what they ask for
    Server(ServerArgs),
    /// Measure with a server
    Client(ClientArgs),
}

/// Arguments of `perf server`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch perf server
  anabranch perf server --one-off --json
  anabranch perf server --path 10.1.0.2 --path 10.2.0.2 --multipath cmt

The first line tells when it is ready, and where. It serves any number of clients, at once if they come so, until
Ctrl-C; with several at once, the processor time told is that of all together.")]
struct ServerArgs {
    #[command(flatten)]
    local: Local,
    /// End after the first client
    #[arg(long)]
    one_off: bool,
    /// Time between two lines of what happened since; 0 prints none
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval_length)]
    interval: Duration,
    #[command(flatten)]
    carry: Carry,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `perf client`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch perf client 127.0.0.1
  anabranch perf client 127.0.0.1 --bytes 100mib --size 64kib --streams 8 --unordered
  anabranch perf client 127.0.0.1 --reverse --rate 10mbit --json
  anabranch perf client 10.1.0.2 --path 10.1.0.1 --path 10.2.0.1,10.2.0.2 --multipath cmt
  anabranch perf client 127.0.0.1 --congestion cubic --recovery rack --link rate=20mbit,delay=40ms,loss=0.1%
  anabranch perf client 127.0.0.1 --rate 1mbit --size 100 --lifetime 100ms --link rate=2mbit,delay=40ms,loss=3%

A sender's line of an interval has the congestion window (cwnd) and the smoothed round-trip time (RTT) at its end, and the chunks
that were found lost and retransmitted during it. With several paths (`anabranch perf server --path 10.1.0.2 --path 10.2.0.2`
tells of its addresses) each path that carried data has a line of these, and a last table is of all paths.
With --json, `paths` has these values for every path.
Goodput is what the receiver's program got. Delays are from send to receipt, time in buffers included: without --rate
these are full, so the delay is that of a full path. The two clocks are compared by round trips at the start, so a
delay may be off by half the shortest one, and by what the clocks drift apart during the run.
A server that was killed ends the run with the results up to then and status 1: at once if its system says by ICMP that the
port is closed, else when the association fails (Association.Max.Retrans timeouts in a row, some six minutes).
Ctrl-C ends the run early, in order, with the results up to then. The status is 0 only if every message arrived once,
and (without --unordered) in order; with --lifetime, --max-retransmissions or --pr-priority, if every one did that was
not given up. These count in each direction.")]
struct ClientArgs {
    #[command(flatten)]
    target: Target,
    /// How long to send [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = run_length)]
    time: Option<Duration>,
    /// How much to send in each direction, rounded up to whole messages, in place of --time
    #[arg(long, value_name = "SIZE", value_parser = amount, conflicts_with = "time")]
    bytes: Option<u64>,
    /// Bytes of each message, 16 to 16mib
    #[arg(long, value_name = "SIZE", default_value = "1kib", value_parser = message_size)]
    size: u64,
    /// Streams that the messages take in turn
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_STREAMS)))]
    streams: u16,
    /// Let messages be delivered out of order
    #[arg(long)]
    unordered: bool,
    /// Let the server send, and this side receive
    #[arg(long, conflicts_with = "bidir")]
    reverse: bool,
    /// Let both sides send at once
    #[arg(long)]
    bidir: bool,
    /// Send no more than this in each direction, all streams together, like 10mbit; headers are not counted
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    rate: Option<u64>,
    /// Time between two lines of what happened since; 0 prints none
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval_length)]
    interval: Duration,
    #[command(flatten)]
    persist: Persist,
    #[command(flatten)]
    schedule: Schedule,
    #[command(flatten)]
    carry: Carry,
    #[command(flatten)]
    observe: Observe,
}

fn run_length(text: &str) -> Result<Duration, String> {
    match units::parse_seconds(text)? {
        time if time.is_zero() => Err("a run takes some time".to_owned()),
        time if time > MAX_TIME => Err("a run takes at most a week".to_owned()),
        time => Ok(time),
    }
}

fn interval_length(text: &str) -> Result<Duration, String> {
    match units::parse_seconds(text)? {
        time if time.is_zero() || time >= Duration::from_millis(10) => Ok(time.min(MAX_TIME)),
        _ => Err("an interval is at least 10ms, or 0 for no lines".to_owned()),
    }
}

fn amount(text: &str) -> Result<u64, String> {
    match units::parse_size(text)? {
        0 => Err("a run sends at least a byte".to_owned()),
        bytes => Ok(bytes),
    }
}

fn message_size(text: &str) -> Result<u64, String> {
    units::parse_size_within(
        text,
        MIN_SIZE..=MAX_SIZE,
        "a message has 16 bytes (its number and its time) to 16mib",
    )
}

/// The time between two lines; `None` for none.
fn interval(given: Duration) -> Option<Duration> {
    (!given.is_zero()).then_some(given)
}

impl ClientArgs {
    fn plan(&self) -> Plan {
        Plan {
            size: self.size,
            streams: self.streams,
            unordered: self.unordered,
            forward: !self.reverse,
            reverse: self.reverse || self.bidir,
            until: match self.bytes {
                Some(bytes) => Until::Bytes(bytes),
                None => Until::Time(self.time.unwrap_or(DEFAULT_TIME)),
            },
            rate: self.rate,
            reliability: self.persist.reliability(),
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
    fn limits_are_told() {
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
