//! `anabranch bed`: a testbed that runs programs in real time on two emulated hosts of this machine, connected by the
//! simulator's links.

mod others;
mod run;
mod tell;

use std::ffi::OsString;
use std::time::Duration;

use anabranch::LinkConfig;
use anabranch_bed::{BedError, BedId, PathPlan, Plan};
use clap::{Args, Subcommand, ValueHint};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Observe, all_first, first, no_files};
use crate::units;

/// Arguments of `bed`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch bed run --link rate=10mbit,delay=40ms,loss=1% -- ping -c 3 10.77.1.1
  anabranch bed run --link rate=10mbit,delay=40ms --left 'iperf3 -s -1' -- iperf3 -c 10.77.1.1
  anabranch bed up --link rate=2mbit,delay=30ms --link rate=5mbit,delay=10ms

The hosts are `left` and `right`. Their addresses are 10.77.1.1 and 10.77.1.2 (fd77:0:0:1::1 and
::2) on path 1, 10.77.2.1 and 10.77.2.2 on path 2, and so on. The command needs Linux and root.
docs/BED.md states the precision of the testbed.")]
pub(crate) struct BedArgs {
    #[command(subcommand)]
    command: BedCommand,
}

#[derive(Debug, Subcommand)]
enum BedCommand {
    /// Create a testbed, run a command on the right host, and remove the testbed when it ends
    Run(RunArgs),
    /// Create a testbed and keep it until Ctrl-C or `bed down`
    Up(UpArgs),
    /// Remove a testbed of this machine, or all of them, and the remains of killed testbeds
    Down(DownArgs),
    /// Show the testbeds of this machine and their counters
    Status(StatusArgs),
}

/// Arguments of `bed run`.
#[derive(Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Examples:
  anabranch bed run --link rate=10mbit,delay=40ms,queue=73kb --left 'iperf3 -s -1' -- \\
    iperf3 -c 10.77.1.1
  anabranch bed run --link rate=1mbit --reverse-link rate=10mbit --interval 1s -- \\
    sh -c 'ping -c 5 $ANABRANCH_BED_LEFT'

The exit status is that of COMMAND: 128 plus the signal's number if a signal ended it, 127 if there
is no such command, and 126 if it cannot be executed. The standard output and standard error of both
commands are passed through. The testbed reports on standard error, and with --json at the end on
standard output. In both commands, the variables ANABRANCH_BED_LEFT, _RIGHT, _LEFT6 and _RIGHT6
contain the addresses, path by path, and ANABRANCH_BED_LEFT_NETNS and _RIGHT_NETNS the network
namespaces."
)]
struct RunArgs {
    #[command(flatten)]
    make: Make,
    /// Shell command to run on the left host; it is ended with the testbed
    #[arg(long, display_order = 2, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    left: Option<String>,
    /// Time between the start of the left and of the right command, in which a server on the left can start
    #[arg(long, help_heading = TESTBED,
        value_name = "DURATION", default_value = "500ms", value_parser = units::parse_duration, requires = "left")]
    head_start: Duration,
    #[command(flatten)]
    observe: Observe,
    /// Command to run on the right host, with its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Arguments of `bed up`.
#[derive(Debug, Args)]
#[command(
    mut_args(no_files),
    mut_arg("interval", first),
    after_help = "\
Examples:
  anabranch bed up --link rate=10mbit,delay=40ms,loss=1%
  anabranch bed up --link rate=10mbit,delay=40ms --interval 1s

The command stays in the foreground and prints how to start commands on each host. Ctrl-C, or
`anabranch bed down` from another shell, ends these commands and removes the testbed."
)]
struct UpArgs {
    #[command(flatten)]
    make: Make,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `bed down`.
#[derive(Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Examples:
  anabranch bed down
  anabranch bed down 1234-567890-1
  anabranch bed down --all"
)]
struct DownArgs {
    /// Name of the testbed, from `bed status`; needed if there are several
    #[arg(value_name = "BED")]
    bed: Option<BedId>,
    /// Remove all testbeds
    #[arg(long, conflicts_with = "bed")]
    all: bool,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `bed status`.
#[derive(Debug, Args)]
#[command(
    mut_args(|arg| all_first(&["json", "log"], no_files(arg))),
    after_help = "\
Example:
  anabranch bed status"
)]
struct StatusArgs {
    #[command(flatten)]
    observe: Observe,
}

const TESTBED: &str = "Testbed";

/// The testbed to create.
#[derive(Debug, Args)]
struct Make {
    /// Link of a path in both directions, such as rate=10mbit,delay=40ms,loss=1%,queue=73kb; once for each path
    #[arg(long, display_order = 0, value_name = "SETTINGS", required = true)]
    link: Vec<LinkConfig>,
    /// Link from left to right, if it differs from --link; the first --reverse-link belongs to the first path, and so on
    #[arg(long, alias = "back", display_order = 1, value_name = "SETTINGS")]
    reverse_link: Vec<LinkConfig>,
    /// MTU of the network devices in bytes, 1280 to 65535 [default: 1500, or the MTU of the link if that is larger]
    #[arg(long, help_heading = TESTBED, value_name = "SIZE", value_parser = mtu)]
    mtu: Option<u16>,
    /// Seed of the random numbers of the links
    #[arg(long, help_heading = TESTBED, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the counters at this interval, for example 1s [default: only at the end]
    #[arg(long, alias = "every", help_heading = TESTBED, value_name = "DURATION", value_parser = units::parse_duration)]
    interval: Option<Duration>,
}

fn mtu(text: &str) -> Result<u16, String> {
    units::parse_packet_size(text, 1280, u16::MAX)
}

impl Make {
    fn plan(&self) -> Result<Plan, Failure> {
        if self.reverse_link.len() > self.link.len() {
            return Err(Failure::new(format!(
                "--reverse-link is given {} times, but --link only {}: give --link once for each path, and \
                 --reverse-link at most as often",
                self.reverse_link.len(),
                self.link.len()
            )));
        }
        let paths = self.link.iter().enumerate().map(|(index, link)| PathPlan {
            mtu: self.mtu,
            rightward: self.reverse_link.get(index).unwrap_or(link).clone(),
            leftward: link.clone(),
        });
        Ok(Plan {
            paths: paths.collect(),
            seed: self.seed,
        })
    }
}

impl BedArgs {
    pub(crate) fn observe(&self) -> &Observe {
        match &self.command {
            BedCommand::Run(args) => &args.observe,
            BedCommand::Up(args) => &args.observe,
            BedCommand::Down(args) => &args.observe,
            BedCommand::Status(args) => &args.observe,
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: BedArgs, interrupt: Interrupt) -> Result<(), Failure> {
    args.observe().refuse_files(
        "a testbed writes no capture; run tcpdump or tshark on one of its hosts, on device path1",
    )?;
    match args.command {
        BedCommand::Run(args) => run::run(args, interrupt).await,
        BedCommand::Up(args) => run::up(args, interrupt).await,
        BedCommand::Down(args) => blocking(move || others::down(&args)).await,
        BedCommand::Status(args) => blocking(move || others::status(&args)).await,
    }
}

/// Runs blocking work on its own thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(Failure::new(format!("the testbed ended early: {error}"))))
}

fn failure(error: &BedError) -> Failure {
    Failure::new(error.to_string())
}
