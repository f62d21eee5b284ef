//! `anabranch bed`: programs on a bad network, in real time: two hosts on this machine, joined by the simulator's links.

mod others;
mod run;
mod tell;

use std::ffi::OsString;
use std::time::Duration;

use anabranch::LinkConfig;
use anabranch_bed::{BedError, BedId, PathPlan, Plan};
use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::Observe;
use crate::units;

/// Arguments of `bed`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch bed run --link rate=10mbit,delay=40ms,loss=1% -- ping -c 3 10.77.1.1
  anabranch bed run --link rate=10mbit,delay=40ms --left 'iperf3 -s -1' -- iperf3 -c 10.77.1.1
  anabranch bed up --link rate=2mbit,delay=30ms --link rate=5mbit,delay=10ms

The hosts are `left` and `right`; on path 1 they are 10.77.1.1 and 10.77.1.2 (fd77:0:0:1::1 and ::2), on path 2 10.77.2.1
and 10.77.2.2, and so on. It needs Linux and root. docs/BED.md tells how precise it is.")]
pub(crate) struct BedArgs {
    #[command(subcommand)]
    command: BedCommand,
}

#[derive(Debug, Subcommand)]
enum BedCommand {
    /// Run a command on the right, and one on the left if need be, and take the bed away when it ends
    Run(RunArgs),
    /// Make a bed for work by hand, and keep it until Ctrl-C or `bed down`
    Up(UpArgs),
    /// End beds that run on this machine, and remove what killed ones left behind
    Down(DownArgs),
    /// Show the beds of this machine and what they carried
    Status(StatusArgs),
}

/// Arguments of `bed run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch bed run --link rate=10mbit,delay=40ms,queue=73kb --left 'iperf3 -s -1' -- iperf3 -c 10.77.1.1
  anabranch bed run --link rate=1mbit --back rate=10mbit --every 1s -- sh -c 'ping -c 5 $ANABRANCH_BED_LEFT'

The status is that of COMMAND. What it and the one on the left say goes where it always does; the bed itself speaks on
standard error, and with --json at the end on standard output. The variables ANABRANCH_BED_LEFT, _RIGHT, _LEFT6, _RIGHT6
(addresses, path by path) and ANABRANCH_BED_LEFT_NETNS, _RIGHT_NETNS tell both where they are.")]
struct RunArgs {
    #[command(flatten)]
    make: Make,
    /// A command for the left, as a line for the shell; it is ended with the bed
    #[arg(long, value_name = "COMMAND")]
    left: Option<String>,
    /// How long the command on the left runs alone, so that a server is there when the one on the right asks
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = units::parse_duration, requires = "left")]
    head_start: Duration,
    #[command(flatten)]
    observe: Observe,
    /// The command for the right, with its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Arguments of `bed up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch bed up --link rate=10mbit,delay=40ms,loss=1%
  anabranch bed up --link rate=10mbit,delay=40ms --every 1s

It stays in the foreground and says how to start commands on either side; Ctrl-C, or `anabranch bed down` from another
shell, ends them and takes the bed away.")]
struct UpArgs {
    #[command(flatten)]
    make: Make,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `bed down`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch bed down
  anabranch bed down 1234-567890-1
  anabranch bed down --all")]
struct DownArgs {
    /// Which one, as `bed status` names it; needed if there are several
    #[arg(value_name = "BED")]
    bed: Option<BedId>,
    /// All of them
    #[arg(long, conflicts_with = "bed")]
    all: bool,
    #[command(flatten)]
    observe: Observe,
}

/// Arguments of `bed status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  anabranch bed status")]
struct StatusArgs {
    #[command(flatten)]
    observe: Observe,
}

/// What bed is made.
#[derive(Debug, Args)]
struct Make {
    /// A path's link, both ways, like rate=10mbit,delay=40ms,loss=1%,queue=73kb; once for each path
    #[arg(long, value_name = "SETTINGS", required = true)]
    link: Vec<LinkConfig>,
    /// What comes back, from left to right, if it passes another link: the first is of the first path, and so on
    #[arg(long, value_name = "SETTINGS")]
    back: Vec<LinkConfig>,
    /// The MTU of the devices [default: 1500, or a link's if that is larger]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1280..))]
    mtu: Option<u16>,
    /// Fixes the luck of the links
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Show what was carried so often
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    every: Option<Duration>,
}

impl Make {
    fn plan(&self) -> Result<Plan, Failure> {
        if self.back.len() > self.link.len() {
            return Err(Failure::new(format!(
                "--back is given {} times and --link {}: each --link makes a path, and a --back belongs to one",
                self.back.len(),
                self.link.len()
            )));
        }
        let paths = self.link.iter().enumerate().map(|(index, link)| PathPlan {
            mtu: self.mtu,
            rightward: self.back.get(index).unwrap_or(link).clone(),
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
    if args.observe().pcap.is_some() {
        return Err(Failure::new(
            "--pcap: a bed writes no packets; run tcpdump or tshark on a side, on device path1",
        ));
    }
    match args.command {
        BedCommand::Run(args) => run::run(args, interrupt).await,
        BedCommand::Up(args) => run::up(args, interrupt).await,
        BedCommand::Down(args) => blocking(move || others::down(&args)).await,
        BedCommand::Status(args) => blocking(move || others::status(&args)).await,
    }
}

/// Waits for work that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(Failure::new(format!("the bed ended early: {error}"))))
}

fn failure(error: &BedError) -> Failure {
    Failure::new(error.to_string())
}
