//! A sender or a receiver of messages that must arrive in time, by one of several transports. `scripts/rivals` runs pairs of these programs
//! over an emulated link.

mod clock;
mod dup;
#[cfg(feature = "enet")]
mod enet;
mod files;
#[cfg(any(feature = "srt", feature = "rist", feature = "usrsctp"))]
mod foreign;
mod helper;
#[cfg(feature = "kcp")]
mod kcp;
#[cfg(feature = "noq")]
mod noq;
mod ours;
#[cfg(feature = "pion")]
mod pion;
#[cfg(feature = "quinn")]
mod quic;
mod record;
#[cfg(feature = "rist")]
mod rist;
#[cfg(feature = "srt")]
mod srt;
mod tcp;
#[cfg(feature = "tquic")]
mod tquic;
mod traffic;
#[cfg(feature = "usrsctp")]
mod usrsctp;

use std::net::{IpAddr, SocketAddr};
#[cfg(any(feature = "srt", feature = "rist"))]
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde_json::json;

use traffic::Traffic;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Send or receive messages by one of several transports, and measure their delays.
///
/// The receiver prints a line of JSON when it is asked to end (SIGTERM or Ctrl-C). The sender prints its line 1.5 s after the last
/// message, and ends.
#[derive(Parser)]
#[command(version)]
struct Command {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Print the rivals that this program was built with, a line of JSON for each
    List,
    /// Send messages, and a file with --file
    Send(Job),
    /// Receive all that a sender with the same options sends
    Receive(Job),
}

/// One run.
#[derive(Args, Clone, Debug)]
struct Job {
    /// A name that `rival list` prints
    rival: String,
    /// The receiver's address. The next port belongs to the file, if the rival needs another port for a file
    #[arg(long, default_value = "127.0.0.1:9000")]
    addr: SocketAddr,
    /// The kind of messages
    #[arg(long, value_enum, default_value = "game")]
    traffic: Traffic,
    /// Time with messages, in seconds
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
    /// Time between set-up and the first message, in seconds
    #[arg(long, default_value_t = 0.5)]
    lead: f64,
    /// Also send a file without end: a greedy, reliable flow
    #[arg(long)]
    file: bool,
    /// Round-trip time of the link in ms, for rivals whose latency must be set in advance
    #[arg(long, default_value_t = 80)]
    rtt: u64,
    /// Further addresses of this host, for rivals that can use several paths. The first is that of the path to --addr
    #[arg(long, value_delimiter = ',')]
    local: Vec<IpAddr>,
    /// Sizes of the messages
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A word that is part of the line of JSON
    #[arg(long, default_value = "")]
    label: String,
}

impl Job {
    /// The port for the file, for rivals that need one.
    #[cfg(any(feature = "enet", feature = "srt", feature = "usrsctp"))]
    fn addr_of_file(&self) -> SocketAddr {
        SocketAddr::new(self.addr.ip(), self.addr.port() + 1)
    }

    /// The latency for rivals that hold each message until a fixed time after the sender had it: the network's delay comes on top, and 10 ms
    /// are left for its variation.
    #[cfg(any(feature = "srt", feature = "rist"))]
    fn fitting_latency(&self) -> Duration {
        let spare = Duration::from_millis(self.rtt / 2 + 10);
        self.traffic
            .deadline()
            .saturating_sub(spare)
            .max(Duration::from_millis(20))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sender,
    Receiver,
}

/// A stack with settings.
struct Rival {
    name: &'static str,
    /// The stack, whose settings are compared among each other.
    stack: &'static str,
    settings: &'static str,
    /// Whether it is measured in all cells, or at the base link only.
    main: bool,
    /// Whether it retransmits: control messages need that.
    reliable: bool,
    /// Whether it can carry a file as well.
    file: bool,
    /// Whether it can use two paths.
    paths: bool,
}

impl Rival {
    const fn new(name: &'static str, stack: &'static str, settings: &'static str) -> Self {
        Self {
            name,
            stack,
            settings,
            main: true,
            reliable: true,
            file: true,
            paths: false,
        }
    }

    /// A second choice: measured at the base link only.
    const fn second(mut self) -> Self {
        self.main = false;
        self
    }

    #[cfg(any(feature = "quinn", feature = "enet"))]
    const fn unreliable(mut self) -> Self {
        self.reliable = false;
        self
    }

    #[cfg(any(feature = "rist", feature = "tquic"))]
    const fn without_file(mut self) -> Self {
        self.file = false;
        self
    }

    const fn with_paths(mut self) -> Self {
        self.paths = true;
        self
    }
}

fn rivals() -> Vec<&'static Rival> {
    let lists: &[&'static [Rival]] = &[
        tcp::RIVALS,
        #[cfg(feature = "quinn")]
        quic::RIVALS,
        #[cfg(feature = "kcp")]
        kcp::RIVALS,
        #[cfg(feature = "enet")]
        enet::RIVALS,
        #[cfg(feature = "srt")]
        srt::RIVALS,
        #[cfg(feature = "rist")]
        rist::RIVALS,
        #[cfg(feature = "usrsctp")]
        usrsctp::RIVALS,
        #[cfg(feature = "pion")]
        pion::rivals(),
        #[cfg(feature = "noq")]
        noq::RIVALS,
        #[cfg(feature = "tquic")]
        tquic::RIVALS,
        dup::RIVALS,
        ours::RIVALS,
    ];
    lists.iter().copied().flatten().collect()
}

fn list() {
    for rival in rivals() {
        println!(
            "{}",
            json!({ "name": rival.name, "stack": rival.stack, "settings": rival.settings, "main": rival.main, "reliable": rival.reliable, "file": rival.file,
                "paths": rival.paths })
        );
    }
}

fn run(side: Side, job: &Job) -> Outcome<()> {
    let known = rivals();
    let Some(rival) = known.iter().find(|rival| rival.name == job.rival) else {
        return Err(format!("there is no rival {}; see `rival list`", job.rival).into());
    };
    record::watch();
    if side == Side::Receiver {
        record::tell_at_the_end(job)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match rival.stack {
        "tcp" | "mptcp" => runtime.block_on(tcp::run(side, job)),
        #[cfg(feature = "quinn")]
        "quinn" => runtime.block_on(quic::run(side, job)),
        #[cfg(feature = "kcp")]
        "kcp" => runtime.block_on(kcp::run(side, job)),
        #[cfg(feature = "enet")]
        "enet" => enet::run(side, job),
        #[cfg(feature = "srt")]
        "srt" => srt::run(side, job),
        #[cfg(feature = "rist")]
        "rist" => rist::run(side, job),
        #[cfg(feature = "usrsctp")]
        "usrsctp" => usrsctp::run(side, job),
        #[cfg(feature = "pion")]
        "pion" => runtime.block_on(pion::run(side, job)),
        #[cfg(feature = "noq")]
        "noq" => runtime.block_on(noq::run(side, job)),
        #[cfg(feature = "tquic")]
        "tquic" => tquic::run(side, job),
        "dup" => dup::run(side, job),
        "anabranch" => runtime.block_on(ours::run(side, job)),
        other => Err(format!("no code for {other}").into()),
    }?;
    // Connections end before the program does: it still has to print its line.
    loop {
        std::thread::park();
    }
}

fn main() -> Outcome<()> {
    match Command::parse().role {
        Role::List => list(),
        Role::Send(job) => run(Side::Sender, &job)?,
        Role::Receive(job) => run(Side::Receiver, &job)?,
    }
    Ok(())
}
