//! `anabranch forward`: UDP and TCP ports of programs that cannot be changed, over SCTP with deadlines, priorities and several paths.

mod client;
mod file;
mod messages;
mod metrics;
mod networks;
mod page;
mod permissions;
mod screen;
mod server;
mod status;
mod totals;

use std::future::{Future, ready};
use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anabranch::{AcceptedKeys, TlsSettings};
use anabranch_forward::{Limits, MOST_FLOWS, TargetFailure};
use clap::{Args, Subcommand, ValueHint};
use hyper::Request;
use hyper::body::Incoming;
use serde_json::json;
use tokio::net::TcpListener;

use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::http::{self, Answer};
use crate::interrupt::Interrupt;
use crate::options::{OUTPUT, Observe};
use crate::output;
use crate::units;
use messages::Messages;
use screen::Screen;
use status::Status;

const LIMITS: &str = "Limits";
const ENCRYPTION: &str = "Encryption";
/// Limit on the graceful shutdown after the user asked to stop.
const HURRY: Duration = Duration::from_secs(3);
/// The pause between two status reports on a terminal.
const REFRESH: Duration = Duration::from_secs(1);

/// Arguments of `forward`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  anabranch keygen vps.key
  anabranch keygen boat.key
  anabranch forward server --key vps.key --allow boat.key.pub --allow-to 127.0.0.1:9000/udp
  anabranch forward client 127.0.0.1 --key boat.key --peer vps.key.pub --udp 5000=127.0.0.1:9000,deadline=300ms

Everything is encrypted, and each side knows the other one by its public key. `anabranch forward server --help`
and `anabranch forward client --help` list all options.")]
pub(crate) struct ForwardArgs {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, Subcommand)]
enum Side {
    /// Forward from clients to the places that --allow-to lists
    Server(server::ServerArgs),
    /// Listen for programs, and forward to a server
    Client(client::ClientArgs),
}

impl ForwardArgs {
    pub(crate) fn observe(&self) -> &Observe {
        match &self.side {
            Side::Server(args) => &args.common.observe,
            Side::Client(args) => &args.common.observe,
        }
    }
}

/// The options of both sides.
#[derive(Clone, Debug, Args)]
struct Common {
    /// This side's private key, a file of `anabranch keygen`
    #[arg(long, help_heading = ENCRYPTION, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key: Option<PathBuf>,
    /// Read options from this file (TOML), with their long names as keys. Options of the command line replace
    /// its single values, and are added to its lists
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics
    #[arg(long, help_heading = OUTPUT, value_name = "ADDRESS:PORT", value_parser = parse_metrics)]
    metrics: Option<SocketAddr>,
    /// Serve a page with the paths, their curves and the rules at http://ADDRESS:PORT/ [default address: 127.0.0.1]
    #[arg(long, help_heading = OUTPUT, value_name = "[ADDRESS:]PORT", value_parser = parse_page)]
    page: Option<SocketAddr>,
    /// Time between two reports about paths and rules, like 10s; 0 prints none, not even the last one [default: 1s on
    /// a terminal, else only the last report at Ctrl-C]
    #[arg(long, help_heading = OUTPUT, value_name = "DURATION", value_parser = units::parse_seconds)]
    interval: Option<Duration>,
    /// Flows at the same time, 1 to 16384: connections, and sources of datagrams; of one client at the server
    /// [default: 1024]
    #[arg(long, help_heading = LIMITS, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    max_flows: Option<u32>,
    /// Bytes that may wait here for programs; of one client at the server [default: 64mib]
    #[arg(long, help_heading = LIMITS, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    #[command(flatten)]
    observe: Observe,
}

fn parse_memory(text: &str) -> Result<u64, String> {
    units::parse_size_within(text, 1 << 20..=1 << 40, "give 1mib to 1024gib, like 64mib")
}

fn parse_metrics(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port: u16 = text.trim_start_matches(':').parse().unwrap_or(9100);
        format!("give ADDRESS:PORT, such as 127.0.0.1:{port}")
    })
}

fn parse_page(text: &str) -> Result<SocketAddr, String> {
    let on_loopback = text.parse().map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    on_loopback
        .or_else(|_| text.parse())
        .map_err(|_| "give [ADDRESS:]PORT, such as 8080 or 192.0.2.1:8080".to_owned())
}

impl Common {
    /// Reads this side's key: without it, nothing is forwarded. `flag` names the option with the public keys of the peers.
    fn encryption(
        &self,
        flag: &str,
        peers: AcceptedKeys,
    ) -> Result<(TlsSettings, serde_json::Value), Failure> {
        let Some(key) = &self.key else {
            return Err(Failure::new(
                "everything is encrypted: give this side's key with --key; `anabranch keygen FILE` makes one",
            ));
        };
        if peers.is_empty() {
            return Err(Failure::new(format!(
                "say which peers to accept, with {flag} and the file of a public key, which `anabranch keygen` wrote beside the key"
            )));
        }
        let encryption = Encryption::by_keys(key, peers)?;
        let (_, facts) = encryption.describe();
        match encryption {
            Encryption::Tls(settings, _) => Ok((settings, facts)),
            Encryption::Off | Encryption::Dtls(_) => Err(Failure::new("--key: it does not encrypt")),
        }
    }

    fn refuse_records(&self) -> Result<(), Failure> {
        self.observe
            .refuse_files("this command writes no captures, because it sets up associations again and again")
    }

    /// Tells the user which options changed that take effect only at the next start: those of both sides, and `own` ones.
    fn note_later(&self, before: &Self, side: &str, own: &[(&str, bool)], messages: &Messages) {
        let both = [
            ("max-flows", self.max_flows != before.max_flows),
            ("memory", self.memory != before.memory),
            ("metrics", self.metrics != before.metrics),
            ("page", self.page != before.page),
            ("interval", self.interval != before.interval),
        ];
        let changed = own.iter().chain(&both).filter(|(_, changed)| *changed);
        let changed: Vec<_> = changed.map(|(key, _)| *key).collect();
        if !changed.is_empty() {
            messages.note(format!(
                "note: SIGHUP: {} changed; restart the {side} for it",
                changed.join(", ")
            ));
        }
    }

    fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            flows: self.max_flows.unwrap_or(default.flows),
            memory: self.memory.map_or(default.memory, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
        }
    }

    /// Takes the values of a file that the command line does not have.
    fn complete(&mut self, file: file::CommonFile) -> Result<(), Failure> {
        self.key = self.key.take().or(file.key);
        self.metrics = self.metrics.or(file.metrics);
        self.max_flows = self.max_flows.or(file.max_flows);
        if let (None, Some(text)) = (self.memory, &file.memory) {
            let bytes = parse_memory(text).map_err(|problem| Failure::new(format!("memory: {problem}")))?;
            self.memory = Some(bytes);
        }
        if let (None, Some(text)) = (self.page, &file.page) {
            let page = parse_page(text).map_err(|problem| Failure::new(format!("page: {problem}")))?;
            self.page = Some(page);
        }
        if let (None, Some(text)) = (self.interval, &file.interval) {
            let time =
                units::parse_seconds(text).map_err(|problem| Failure::new(format!("interval: {problem}")))?;
            self.interval = Some(time);
        }
        Ok(())
    }

    /// Reports and serves the status while `work` runs, until the user asks to stop, and then reports a last time.
    async fn watch(
        &self,
        status: impl Fn() -> Status + Clone + Send + Sync + 'static,
        work: impl Future<Output = ()>,
        messages: &Messages,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let metrics = self
            .open("metrics", self.metrics, metrics::PATH, messages)
            .await?;
        let page = self.open("page", self.page, "/", messages).await?;
        let (for_metrics, for_page) = (status.clone(), status.clone());
        let metrics = serve(metrics, move |request| metrics::answer(request, &for_metrics));
        let page = serve(page, move |request| page::answer(request, &for_page));
        // The last report has the associations that end with `work`.
        let asked = async {
            interrupt.wait().await;
            status()
        };
        let last = tokio::select! {
            () = work => None,
            () = metrics => None,
            () = page => None,
            () = self.report(&status, messages) => None,
            last = asked => Some(last),
        };
        if let Some(status) = last.filter(|_| self.interval != Some(Duration::ZERO)) {
            let is_terminal = std::io::stdout().is_terminal();
            let screen = Screen::new(is_terminal.then_some(messages));
            self.observe
                .output()
                .fact(screen.draw(&status), &status.to_json());
        }
        Ok(())
    }

    /// Binds the port of an option, if it was given, and prints the URL of `path` there.
    async fn open(
        &self,
        option: &str,
        address: Option<SocketAddr>,
        path: &str,
        messages: &Messages,
    ) -> Result<Option<TcpListener>, Failure> {
        let Some(address) = address else {
            return Ok(None);
        };
        let (listener, bound) = http::bind(&format!("--{option}"), address).await?;
        let url = format!("http://{bound}{path}");
        messages.fact(
            format!("{option} at {url}"),
            &json!({ "event": option, "url": url }),
        );
        Ok(Some(listener))
    }

    async fn report(&self, status: &(impl Fn() -> Status + Sync), messages: &Messages) {
        let is_terminal = std::io::stdout().is_terminal();
        let default = if is_terminal { REFRESH } else { Duration::ZERO };
        let interval = self.interval.unwrap_or(default);
        if interval.is_zero() {
            return std::future::pending().await;
        }
        let output = self.observe.output();
        let screen = Screen::new(is_terminal.then_some(messages));
        let mut ticks = tokio::time::interval(interval);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let status = status();
            output.fact(screen.draw(&status), &status.to_json());
        }
    }
}

/// Prints that a target does not accept, and how to correct this: `rule` is the beginning of the client's option with the target.
fn tell_failure(messages: &Messages, client: Option<SocketAddr>, rule: &str, failure: &TargetFailure) {
    let TargetFailure {
        protocol,
        target,
        is_remote,
        error,
        ..
    } = failure;
    let of = client.map_or_else(String::new, |client| format!("{client}: "));
    let text = match is_remote {
        true => format!(
            "target {target}/{protocol} of the server: {error}; the server's lines say more: start its program there, or correct \
             {rule}{protocol}"
        ),
        false => format!("{of}{failure}; start its program, or correct the client's {rule}{protocol}"),
    };
    messages.fact(
        text,
        &json!({
            "event": "target-failed", "remote": client.map(|client| client.to_string()), "target": target.to_string(),
            "protocol": protocol.to_string(), "at_server": *is_remote || client.is_some(), "error": error,
        }),
    );
}

/// Answers the requests of a port, if it is open.
async fn serve(
    listener: Option<TcpListener>,
    answer: impl Fn(&Request<Incoming>) -> Answer + Clone + Send + Sync + 'static,
) {
    match listener {
        Some(listener) => http::serve(listener, move |request, _| ready(answer(&request))).await,
        None => std::future::pending().await,
    }
}

/// Runs the command.
pub(crate) async fn run(args: ForwardArgs, interrupt: Interrupt) -> Result<(), Failure> {
    output::serve(args.observe().output())?;
    match args.side {
        Side::Server(args) => server::run(args, interrupt).await,
        Side::Client(args) => client::run(args, interrupt).await,
    }
}
