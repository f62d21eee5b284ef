//! The `anabranch` command: SCTP over UDP or raw IP from a shell.
//!
//! `demo` shows the protocol at work on one machine. `listen`, `send` and `ping` transfer messages between two machines, and `perf` measures
//! the path between them. `forward` carries the ports of other programs. `decrypt` shows
//! the packets of encrypted associations. `web` shows data channels in a browser. `completions` and `man` write
//! the files that a package installs. `bench` measures the stack on this machine, `bed` runs programs on an emulated network, and `lab` the
//! experiments of the papers. This file has the command line, in the order in which users need the commands; each has its file in `commands`.

mod authentication;
mod by_path;
mod commands;
mod congestion;
mod connect;
mod delays;
mod encryption;
mod failure;
mod http;
mod interrupt;
mod key_log;
mod lines;
mod local;
mod local_address;
mod mobility;
mod negotiated;
mod options;
mod output;
mod paint;
mod path_arg;
mod path_choice;
mod path_notes;
mod paths;
mod places;
mod private_file;
mod reliability;
mod scheduling;
mod stall;
mod table;
mod terminal;
mod units;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

#[cfg(target_os = "linux")]
use crate::commands::bed;
use crate::commands::{
    bench, completions, decrypt, demo, forward, keygen, lab, listen, man, perf, ping, send, web,
};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::Observe;
use crate::output::Output;

/// SCTP (RFC 9260) between two programs: streams of messages over UDP, without root.
///
/// With --tls or --dtls, messages are encrypted. Without them, anyone who sees the packets can read them.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  Show the protocol at work on this machine, in ten seconds:
    anabranch demo
  Echo every message on UDP port 9899 for one client, and measure the round trips:
    anabranch listen --echo --once & sleep 1; anabranch ping 127.0.0.1
  Receive files into a directory, and send a file through an emulated lossy link:
    anabranch listen --output received
    anabranch send 127.0.0.1 FILE --link rate=100mbit,delay=5ms,loss=0.1%
  Measure the path to another machine, on which `anabranch perf server` runs:
    anabranch perf client 127.0.0.1
  Compare ways to send a game's messages, in a browser:
    anabranch web
  Write all packets to a file for Wireshark:
    anabranch ping 127.0.0.1 --pcap ping.pcapng

`anabranch COMMAND --help` lists all options of a command.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Show messages with deadlines beside a file over a slow, lossy link on this machine, and two networks of which one is pulled
    Demo(demo::DemoArgs),
    /// Wait for associations, and print, store or echo their messages
    Listen(listen::ListenArgs),
    /// Send a file, or lines of standard input as messages
    Send(send::SendArgs),
    /// Send messages to an echo server, and compare and time the echoes
    Ping(ping::PingArgs),
    /// Measure the path to another machine: goodput, delay, losses
    Perf(perf::PerfArgs),
    /// Forward UDP and TCP ports of other programs, encrypted, with deadlines and over several paths
    Forward(forward::ForwardArgs),
    /// Make a key pair for --tls and for forward
    Keygen(keygen::KeygenArgs),
    /// Decrypt a capture of associations with --tls, with the keys that --key-log wrote
    Decrypt(decrypt::DecryptArgs),
    /// Serve a page that compares messages that are reliable, expire or have a deadline in a visitor's browser
    Web(web::WebArgs),
    /// Print a script with which a shell completes this command's options
    Completions(completions::CompletionsArgs),
    /// Write manual pages of this command and its subcommands
    Man(man::ManArgs),
    /// Measure the performance of the stack on this machine
    Bench(bench::BenchArgs),
    /// Run any program on a testbed: two hosts on this machine with emulated links (Linux, root)
    #[cfg(target_os = "linux")]
    Bed(bed::BedArgs),
    /// Run the experiments of the papers, and judge their claims
    Lab(lab::LabArgs),
}

impl Command {
    /// The format of the output, and the log; none for commands that only write texts about this program.
    fn observe(&self) -> Option<&Observe> {
        let observe = match self {
            Self::Demo(args) => &args.observe,
            Self::Listen(args) => &args.observe,
            Self::Send(args) => &args.observe,
            Self::Ping(args) => &args.observe,
            Self::Perf(args) => args.observe(),
            Self::Bench(args) => &args.observe,
            Self::Lab(args) => args.observe(),
            Self::Web(args) => &args.observe,
            Self::Forward(args) => args.observe(),
            #[cfg(target_os = "linux")]
            Self::Bed(args) => args.observe(),
            Self::Keygen(_) | Self::Decrypt(_) | Self::Completions(_) | Self::Man(_) => return None,
        };
        Some(observe)
    }

    async fn run(self, interrupt: Interrupt) -> Result<(), Failure> {
        match self {
            Self::Demo(args) => demo::run(args, interrupt).await,
            Self::Listen(args) => listen::run(args, interrupt).await,
            Self::Send(args) => send::run(args, interrupt).await,
            Self::Ping(args) => ping::run(args, interrupt).await,
            Self::Perf(args) => perf::run(args, interrupt).await,
            Self::Bench(args) => bench::run(args, interrupt).await,
            Self::Lab(args) => lab::run(args, interrupt).await,
            Self::Web(args) => web::run(args, interrupt).await,
            Self::Forward(args) => forward::run(args, interrupt).await,
            #[cfg(target_os = "linux")]
            Self::Bed(args) => bed::run(args, interrupt).await,
            Self::Keygen(args) => keygen::run(&args),
            Self::Decrypt(args) => decrypt::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let output = match command.observe() {
        Some(observe) => {
            let output = observe.output();
            if let Err(failure) = observe.start_log() {
                return failure.report(output);
            }
            output
        }
        None => match &command {
            Command::Decrypt(args) => args.output(),
            _ => Output::Text,
        },
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Failure::new(format!("the program cannot start its threads: {error}")).report(output);
        }
    };
    let code = runtime.block_on(async {
        let interrupt = Interrupt::install();
        let code = match command.run(interrupt.clone()).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(output),
        };
        output::finish(&interrupt).await;
        code
    });
    // A pending read of standard input must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_is_explained_and_every_command_has_an_example() {
        let cli = Cli::command();
        let nested = cli.get_subcommands().flat_map(clap::Command::get_subcommands);
        for command in cli.get_subcommands().chain(nested) {
            let name = command.get_name();
            let example = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                example.contains(&format!("anabranch {name}"))
                    || example.contains(&format!("anabranch perf {name}"))
                    || example.contains(&format!("anabranch lab {name}"))
                    || example.contains(&format!("anabranch bed {name}"))
                    || example.contains(&format!("anabranch forward {name}")),
                "{name} has no example"
            );
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{name}: {} is not explained",
                    argument.get_id()
                );
            }
        }
    }
}
