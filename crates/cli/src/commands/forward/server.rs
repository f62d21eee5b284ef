//! `anabranch forward server`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use anabranch::{AcceptedKeys, BindError, DEFAULT_UDP_PORT, Endpoint, TlsSettings};
use anabranch_forward::{Limits, PORT, Permission, Policy, RuleStats, Server, ServerEvent};
use clap::{Args, ValueHint};
use serde_json::json;

use super::file::{self, ServerFile};
use super::messages::Messages;
use super::networks;
use super::permissions::{Permissions, parse_place};
use super::status::{Status, rule_record};
use super::totals::Sums;
use super::{Common, ENCRYPTION, HURRY, LIMITS, tell_failure};
use crate::encryption::describe_peer;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Reload};
use crate::options::{bind_failure, no_files};
use crate::units::{counted, size};

const LOCAL: &str = "Local address and port";

/// Arguments of `forward server`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Examples:
  anabranch forward server --key vps.key --allow boat.key.pub --allow-to 127.0.0.1:9000/udp,127.0.0.1:22/tcp
  anabranch forward server --key vps.key --allow boats.txt --allow-to '*:443/tcp' --allow-listen 127.0.0.1:8080/tcp
  anabranch forward server --config server.toml

Without --allow-to and --allow-listen the server forwards nothing. A place is HOST:PORT with /udp or
/tcp, or without for both. HOST is an address, a network (10.0.0.0/8), a name, or * for any address;
PORT is a number, a range (5000-5010) or *. A name and * permit no loopback and no link-local
address, wherever the name leads, except the name localhost. unix:/PATH is a Unix socket.
In the file of --config, a table [[client]] with key, allow-to and allow-listen gives places of their
own to the clients with the public keys in the file key.
At SIGHUP the server reads the file of --config and the public keys again. It ends the associations of
clients that may use other places now, or none; the flows of all others go on."
)]
pub(super) struct ServerArgs {
    /// Let clients reach this place, once for each place or with commas between them; names are resolved here
    #[arg(long, value_name = "PLACE", value_delimiter = ',', value_parser = parse_place)]
    allow_to: Vec<Permission>,
    /// Let reverse rules of clients listen here, once for each place or with commas between them
    #[arg(long, value_name = "PLACE", value_delimiter = ',', value_parser = parse_place)]
    allow_listen: Vec<Permission>,
    /// Accept clients with the public keys in this file, one on each line: a .pub file of `anabranch keygen`
    #[arg(long, help_heading = ENCRYPTION, value_name = "FILE", value_hint = ValueHint::FilePath)]
    allow: Vec<PathBuf>,
    /// UDP port to bind; 0 takes any free port and prints it [default: 9899]
    #[arg(long, value_name = "PORT")]
    udp_port: Option<u16>,
    /// Local IP address to bind [default: all addresses]
    #[arg(long, help_heading = LOCAL, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Clients at the same time [default: 1024]
    #[arg(long, help_heading = LIMITS, value_name = "NUMBER", value_parser = parse_clients)]
    max_clients: Option<usize>,
    #[command(flatten)]
    pub(super) common: Common,
}

fn parse_clients(text: &str) -> Result<usize, String> {
    let clients = text.parse().ok().filter(|clients| (1..=65_536).contains(clients));
    clients.ok_or_else(|| "give 1 to 65536".to_owned())
}

impl ServerArgs {
    /// Adds the options of the file, and returns what each client may use.
    fn complete(&mut self) -> Result<Permissions, Failure> {
        let mut file: ServerFile = file::read(self.common.config.as_deref())?;
        self.common.complete(file.common())?;
        self.allow_to
            .extend(file::read_all("allow-to", &file.allow_to, parse_place)?);
        self.allow_listen
            .extend(file::read_all("allow-listen", &file.allow_listen, parse_place)?);
        self.allow.extend(file.allow);
        self.udp_port = self.udp_port.or(file.udp_port);
        self.bind = self.bind.or(file.bind);
        self.max_clients = self.max_clients.or(file.max_clients);
        let general = Policy {
            targets: std::mem::take(&mut self.allow_to),
            listening: std::mem::take(&mut self.allow_listen),
        };
        Permissions::read(general, &self.allow, &file.client)
    }

    async fn bind(&self, limits: &Limits, tls: &TlsSettings) -> Result<Endpoint, Failure> {
        let port = self.udp_port.unwrap_or(DEFAULT_UDP_PORT);
        let builder = || {
            anabranch_forward::endpoint(limits)
                .secure(tls.clone())
                .silent_to_strangers()
        };
        let bind = |address: IpAddr| builder().bind((address, port));
        let bound = match self.bind {
            Some(address) => bind(address).await,
            // IPv6 and IPv4 if the system has both, else IPv4.
            None => match bind(Ipv6Addr::UNSPECIFIED.into()).await {
                Err(BindError::Bind { .. }) => bind(Ipv4Addr::UNSPECIFIED.into()).await,
                bound => bound,
            },
        };
        bound.map_err(|error| bind_failure(&error))
    }
}

/// Runs the command.
pub(super) async fn run(mut args: ServerArgs, interrupt: Interrupt) -> Result<(), Failure> {
    args.common.refuse_records()?;
    let mut reload = Reload::install();
    let given = args.clone();
    let permissions = args.complete()?;
    let messages = Messages::new(args.common.observe.output());
    let limits = args.common.limits();
    let accepted = AcceptedKeys::new(permissions.keys());
    let (tls, encryption) = args.common.encryption("--allow", accepted.clone())?;
    let endpoint = args.bind(&limits, &tls).await?;
    endpoint
        .listen_on_port(PORT)
        .map_err(|error| Failure::new(error.to_string()))?;
    let local = endpoint.local_addr();
    messages.fact(
        format!("forwarding on {}, UDP port {}, encrypted", local.ip(), local.port()),
        &json!({
            "event": "listening", "address": local.ip().to_string(), "udp_port": local.port(), "encryption": encryption,
        }),
    );
    if permissions.permit_nothing() {
        messages.note("note: without --allow-to and --allow-listen, clients may reach nothing");
    }
    let stopping = Arc::new(AtomicBool::new(false));
    let (told, stops) = (messages.clone(), Arc::clone(&stopping));
    let mut server =
        Server::new(limits).observe(move |event| tell(&told, stops.load(Ordering::Relaxed), &event));
    if let Some(clients) = args.max_clients {
        server = server.most_clients(clients);
    }
    let server = Arc::new(server);
    let sums = Arc::new(Sums::default());
    let status = {
        let server = Arc::clone(&server);
        move || Status::of_server(&server, &sums)
    };
    let permissions = RwLock::new(permissions);
    let current = || permissions.read().unwrap_or_else(PoisonError::into_inner);
    let reloading = async {
        loop {
            reload.asked().await;
            let read = read_again(&given, &args, &messages).inspect_err(|error| {
                messages.note(format!(
                    "note: SIGHUP: the former configuration stays: {}",
                    error.message()
                ));
            });
            let Ok(read) = read else { continue };
            let keys = read.keys();
            let accepts = keys.len();
            let former = std::mem::replace(
                &mut *permissions.write().unwrap_or_else(PoisonError::into_inner),
                read,
            );
            accepted.replace(keys);
            let ended = server.end_changed(|client| current().change_since(&former, client));
            messages.fact(
                format!(
                    "configuration read again: {} accepted, {} ended",
                    counted(accepts as u64, "key"),
                    counted(ended as u64, "association")
                ),
                &json!({ "event": "reloaded", "keys": accepts, "ended": ended }),
            );
        }
    };
    let serving = async {
        tokio::select! {
            () = server.run(&endpoint, |client| current().of(client)) => {}
            () = reloading => {}
            () = networks::tell_of_clients(&messages, &status) => {}
        }
    };
    args.common
        .watch(status.clone(), serving, &messages, &interrupt)
        .await?;
    stopping.store(true, Ordering::Relaxed);
    let _ = tokio::time::timeout(HURRY, endpoint.close()).await;
    Ok(())
}

/// The permissions that the file and the keys have now. Other options take effect only at a start; the user is told which have changed.
fn read_again(given: &ServerArgs, running: &ServerArgs, messages: &Messages) -> Result<Permissions, Failure> {
    let mut now = given.clone();
    let permissions = now.complete()?;
    if permissions.keys().is_empty() {
        return Err(Failure::new(
            "no public key is left; list one at least in allow or [[client]]",
        ));
    }
    let own = [
        ("key", now.common.key != running.common.key),
        ("udp-port", now.udp_port != running.udp_port),
        ("bind", now.bind != running.bind),
        ("max-clients", now.max_clients != running.max_clients),
    ];
    now.common.note_later(&running.common, "server", &own, messages);
    Ok(permissions)
}

/// The sums over the rules of a client.
fn carried(rules: &[(String, RuleStats)]) -> String {
    let sum = |value: fn(&RuleStats) -> u64| rules.iter().map(|(_, stats)| value(stats)).sum::<u64>();
    let direction = |messages: u64, bytes: u64| format!("{} ({})", counted(messages, "message"), size(bytes));
    format!(
        "from the client: {}; to the client: {}, {} dropped, {} too late",
        direction(
            sum(|rule| rule.messages_received),
            sum(|rule| rule.bytes_received)
        ),
        direction(sum(|rule| rule.messages_sent), sum(|rule| rule.bytes_sent)),
        sum(|rule| rule.dropped),
        sum(|rule| rule.abandoned),
    )
}

fn tell(messages: &Messages, stops: bool, event: &ServerEvent) {
    match event {
        ServerEvent::Connected {
            remote,
            association,
            rules,
        } => {
            let peer = association.peer_identity().map(|peer| describe_peer(&peer));
            let (encrypted, facts) = peer.unwrap_or_default();
            let mut text = format!("{remote}: connected, {encrypted}");
            let mut records = Vec::new();
            for (rule, verdict) in rules {
                let (place, problem) = match verdict {
                    Ok(place) => (Some(place.as_str()).filter(|place| !place.is_empty()), None),
                    Err(problem) => (None, Some(problem.as_str())),
                };
                match (place, problem) {
                    (Some(place), _) => text.push_str(&format!("\n  {rule}: listens at {place}")),
                    (None, Some(problem)) => text.push_str(&format!("\n  {rule}: refused: {problem}")),
                    (None, None) => text.push_str(&format!("\n  {rule}")),
                }
                records.push(json!({ "rule": rule, "listens_at": place, "problem": problem }));
            }
            let record = json!({
                "event": "connected", "remote": remote.to_string(), "rules": records, "encryption": facts,
            });
            messages.fact(text, &record);
        }
        ServerEvent::Disconnected {
            remote,
            reason,
            rules,
        } => {
            // The endpoint ends the associations, which then report that the peer did.
            let reason = if stops { "this server stops" } else { reason };
            let mut text = format!("{remote}: disconnected: {reason}");
            if !rules.is_empty() {
                text.push_str(&format!("\n  {}", carried(rules)));
            }
            let rules: Vec<_> = rules.iter().map(rule_record).collect();
            messages.fact(
                text,
                &json!({ "event": "disconnected", "remote": remote.to_string(), "reason": reason, "rules": rules }),
            );
        }
        ServerEvent::Refused {
            remote,
            reason,
            shown,
        } => {
            let shown = shown.map(|shown| shown.to_string());
            let remedy = shown.as_ref().map_or_else(String::new, |shown| {
                format!("; it shows the {shown}: if it is yours, list its .pub file with --allow")
            });
            let record =
                json!({ "event": "refused", "remote": remote.to_string(), "reason": reason, "shown": shown });
            messages.fact(format!("{remote}: refused: {reason}{remedy}"), &record);
        }
        ServerEvent::TargetFailed { remote, failure } => {
            tell_failure(messages, Some(*remote), "--", failure);
        }
        _ => {}
    }
}
