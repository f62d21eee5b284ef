//! `anabranch forward client`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use anabranch::{
    AcceptedKeys, Association, BindError, ConnectError, DEFAULT_UDP_PORT, Endpoint, PathSource,
    PathSourceError, TlsSettings,
};
use anabranch_forward::{Client, ClientEvent, Limits, Listen, PORT, Protocol, Rule};
use clap::{Args, ValueHint};
use serde_json::{Value, json};

use super::file::{self, ClientFile};
use super::messages::Messages;
use super::status::{ClientView, Status};
use super::totals::Totals;
use super::{Common, ENCRYPTION, networks, tell_failure};
use crate::encryption::{describe_peer, public_keys};
use crate::failure::Failure;
use crate::interrupt::{Interrupt, Reload};
use crate::options::no_files;
use crate::path_arg::{self, PathArg};

/// The longest time for the answer of a name server.
const LOOKUP: Duration = Duration::from_secs(5);

/// The time after which the user is told that the server has not answered yet. An attempt takes ten seconds.
const PATIENCE: Duration = Duration::from_secs(2);

const RULES: &str = "Further rules";
const PEER: &str = "Server and paths";

/// Arguments of `forward client`.
#[derive(Clone, Debug, Args)]
#[command(
    mut_args(no_files),
    after_help = "\
Examples:
  anabranch forward client vps.example --key boat.key --peer vps.key.pub --path auto --udp 5000=127.0.0.1:9000,deadline=300ms
  anabranch forward client vps.example --key boat.key --peer vps.key.pub --path wwan0 --path eth0 --tcp 2222=127.0.0.1:22
  anabranch forward client vps.example --key boat.key --peer vps.key.pub --reverse-tcp 8080=127.0.0.1:80
  anabranch forward client --config boat.toml

A rule is [ADDRESS:]PORT=HOST:PORT and options after commas: programs that send to PORT here reach
HOST:PORT from the server, or with --reverse- the other way round. Without ADDRESS it listens at
127.0.0.1. Names are resolved at the end that connects. --tcp takes unix:/PATH at either place too.
The options are deadline=TIME (a datagram is of no use later), class=0..7 (0 leaves first), rate=RATE
(of each direction), ordered (datagrams wait for earlier ones) and idle=TIME (a source of datagrams
is forgotten; 2min). Without them small datagrams leave first, then RTP with a deadline of 300 ms and
SRT with its latency, in order, then other datagrams, and connections last.
The client connects again whenever its association ends.
At SIGHUP the client reads the file of --config and the keys again. If anything changed, it connects
anew: connections end, ports that stay are open all the time. A file with a mistake changes nothing."
)]
pub(super) struct ClientArgs {
    /// Host name or IP address of the server
    #[arg(value_hint = ValueHint::Hostname)]
    host: Option<String>,
    /// Forward datagrams to this UDP port here to a target of the server
    #[arg(long, value_name = "RULE", value_parser = |text: &str| parse_rule(Protocol::Udp, false, text))]
    udp: Vec<Rule>,
    /// Forward connections to this TCP port or Unix socket here to a target of the server
    #[arg(long, value_name = "RULE", value_parser = |text: &str| parse_rule(Protocol::Tcp, false, text))]
    tcp: Vec<Rule>,
    /// Use a path from this network interface, once for each, as it comes and goes (Linux only); auto: each interface with a default route; or an
    /// address of this machine [default: one path, wherever the system routes]
    #[arg(long, value_name = "LOCAL", value_parser = parse_path)]
    path: Vec<PathArg>,
    /// Forward datagrams to this UDP port at the server to a target here
    #[arg(long, help_heading = RULES, value_name = "RULE", value_parser = |text: &str| parse_rule(Protocol::Udp, true, text))]
    reverse_udp: Vec<Rule>,
    /// Forward connections to this TCP port or Unix socket at the server to a target here
    #[arg(long, help_heading = RULES, value_name = "RULE", value_parser = |text: &str| parse_rule(Protocol::Tcp, true, text))]
    reverse_tcp: Vec<Rule>,
    /// Accept only the server with the public key in this file: a .pub file of `anabranch keygen`
    #[arg(long, help_heading = ENCRYPTION, value_name = "FILE", value_hint = ValueHint::FilePath)]
    peer: Vec<PathBuf>,
    /// UDP port of the server [default: 9899]
    #[arg(long, help_heading = PEER, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    udp_port: Option<u16>,
    #[command(flatten)]
    pub(super) common: Common,
}

fn parse_rule(protocol: Protocol, reverse: bool, text: &str) -> Result<Rule, String> {
    Rule::parse(protocol, reverse, text).map_err(|problem| problem.to_string())
}

/// Reads a path of the client. All its paths lead to the server's address, so that a second address or interface can only be another path.
fn parse_path(text: &str) -> Result<PathArg, String> {
    let several: Vec<String> = text
        .split(',')
        .map(|one| format!("--path {}", one.trim()))
        .collect();
    match several.len() {
        1 => path_arg::parse(text),
        2 => Err(format!("give --path twice, as in {}", several.join(" "))),
        _ => Err(format!(
            "give --path for each network, as in {}",
            several.join(" ")
        )),
    }
}

/// Whether both rules would listen at the same place. Port 0 takes any free port.
fn collide(one: &Rule, other: &Rule) -> bool {
    let place = |rule: &Rule| (rule.protocol, rule.reverse, rule.listen.clone());
    let takes_any = matches!(&one.listen, Listen::Socket(address) if address.port() == 0);
    !takes_any && place(one) == place(other)
}

impl ClientArgs {
    /// Adds the options of the file.
    fn complete(&mut self) -> Result<(), Failure> {
        let mut file: ClientFile = file::read(self.common.config.as_deref())?;
        self.common.complete(file.common())?;
        for (key, protocol, reverse, texts, rules) in [
            ("udp", Protocol::Udp, false, &file.udp, &mut self.udp),
            ("tcp", Protocol::Tcp, false, &file.tcp, &mut self.tcp),
            (
                "reverse-udp",
                Protocol::Udp,
                true,
                &file.reverse_udp,
                &mut self.reverse_udp,
            ),
            (
                "reverse-tcp",
                Protocol::Tcp,
                true,
                &file.reverse_tcp,
                &mut self.reverse_tcp,
            ),
        ] {
            let read = |text: &str| parse_rule(protocol, reverse, text);
            rules.extend(file::read_all(key, texts, read)?);
        }
        self.path.extend(file::read_all("path", &file.path, parse_path)?);
        self.peer.extend(file.peer);
        self.udp_port = self.udp_port.or(file.udp_port);
        self.host = self.host.take().or(file.host);
        Ok(())
    }

    fn rules(&self) -> Result<Vec<Rule>, Failure> {
        let rules = [&self.udp, &self.tcp, &self.reverse_udp, &self.reverse_tcp];
        let rules: Vec<Rule> = rules.into_iter().flatten().cloned().collect();
        if rules.is_empty() {
            return Err(Failure::new(
                "there is no rule: give --udp, --tcp, --reverse-udp or --reverse-tcp, as in --udp 5000=127.0.0.1:9000",
            ));
        }
        for (index, rule) in rules.iter().enumerate() {
            if let Some(other) = rules[..index].iter().find(|other| collide(other, rule)) {
                return Err(Failure::new(format!(
                    "two rules listen at the same place, {other} and {rule}: give each rule a port of its own"
                )));
            }
        }
        Ok(rules)
    }

    fn sources(&self) -> Vec<PathSource> {
        self.path.iter().map(|path| path.local.source()).collect()
    }
}

/// The port of a HOST:PORT or [HOST]:PORT; a host alone has none.
fn port_in(host: &str) -> Option<u16> {
    let (name, port) = host.rsplit_once(':')?;
    let is_host = !name.contains(':') || name.starts_with('[') && name.ends_with(']');
    port.parse().ok().filter(|_| is_host)
}

/// How the client reaches its server. Each association has an endpoint of its own: names may lead elsewhere, and networks may have
/// changed.
#[derive(Debug)]
struct Route {
    host: String,
    udp_port: u16,
    paths: Vec<PathSource>,
    limits: Limits,
    tls: TlsSettings,
    /// The files of the keys, the client's own first.
    keys: Vec<Vec<u8>>,
    /// The address that the host's name led to first.
    server: OnceLock<IpAddr>,
}

impl Route {
    /// The route that the options name, and the encryption for the user.
    fn new(args: &ClientArgs) -> Result<(Self, Value), Failure> {
        let peers = public_keys(args.peer.iter().map(|file| ("--peer", file)))?;
        let (tls, encryption) = args.common.encryption("--peer", AcceptedKeys::new(peers))?;
        let host = args.host.clone().ok_or_else(|| {
            Failure::new("there is no server: give its HOST, or host in the file of --config")
        })?;
        if let Some(port) = port_in(&host) {
            return Err(Failure::new(format!(
                "HOST {host}: give the port of the server with --udp-port {port}"
            )));
        }
        let route = Self {
            host,
            udp_port: args.udp_port.unwrap_or(DEFAULT_UDP_PORT),
            paths: args.sources(),
            limits: args.common.limits(),
            tls,
            keys: args
                .common
                .key
                .iter()
                .chain(&args.peer)
                .flat_map(std::fs::read)
                .collect(),
            server: OnceLock::new(),
        };
        Ok((route, encryption))
    }

    /// Whether both lead to the same server in the same way.
    fn is_like(&self, other: &Self) -> bool {
        let places = |route: &Self| (route.host.clone(), route.udp_port, route.paths.clone());
        places(self) == places(other) && self.keys == other.keys
    }

    async fn bind(&self, any: IpAddr) -> Result<Endpoint, BindError> {
        // An interface may appear later, and the association follows the addresses of this machine.
        let builder = anabranch_forward::endpoint(&self.limits).watch_interfaces(cfg!(target_os = "linux"));
        let builder = builder.secure(self.tls.clone()).silent_to_strangers();
        if self.paths.is_empty() {
            builder.bind((any, 0)).await
        } else {
            builder.bind_paths(&self.paths, 0)
        }
    }

    /// Binds once, so that the user hears of a wrong `--path` at once.
    async fn check(&self, messages: &Messages) -> Result<(), Failure> {
        for path in &self.paths {
            let problem = match path.addresses() {
                Err(error) => error.to_string(),
                Ok(addresses) if addresses.is_empty() => match path {
                    PathSource::Address(_) => {
                        "this host does not have this address (`ip address` lists them)".to_owned()
                    }
                    _ => "it is down, or has no address".to_owned(),
                },
                Ok(_) => continue,
            };
            messages.note(format!(
                "note: --path {path}: {problem}; it is used when it appears"
            ));
        }
        match self.bind(Ipv4Addr::UNSPECIFIED.into()).await {
            Ok(_) | Err(BindError::Path(PathSourceError::NoAddress)) => Ok(()),
            Err(error) => Err(Failure::new(format!("--path: {error}"))),
        }
    }

    async fn connect(self: Arc<Self>, messages: Messages) -> Result<Association, String> {
        let bare = self
            .host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let found = tokio::net::lookup_host((bare.unwrap_or(&self.host), self.udp_port));
        let found = tokio::time::timeout(LOOKUP, found).await;
        let found = found.map_err(|_| format!("{} cannot be resolved: no name server answers", self.host))?;
        let found = found.map_err(|error| format!("{} cannot be resolved: {error}", self.host))?;
        let mut addresses: Vec<SocketAddr> = found.collect();
        // The name of this machine often has an IPv6 address too, and a server on 127.0.0.1 gets no packets for it.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        let first = addresses
            .first()
            .ok_or_else(|| format!("{} has no address", self.host))?;
        let _ = self.server.set(first.ip());
        let any: IpAddr = match first {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let endpoint = self.bind(any).await.map_err(|error| error.to_string())?;
        let attempt = endpoint.connect_to_port(&addresses[..], PORT);
        let mut attempt = std::pin::pin!(attempt);
        let association = tokio::select! {
            association = &mut attempt => association,
            () = tokio::time::sleep(PATIENCE) => {
                messages.waiting(first);
                attempt.await
            }
        };
        association.map_err(|error| match error {
            ConnectError::TimedOut { remote, .. } if messages.was_connected() => {
                format!("{remote} does not answer any more: check its program and its network")
            }
            ConnectError::TimedOut { remote, .. } => format!(
                "{remote} does not answer: check that `anabranch forward server` runs there, its address and --udp-port, and that --peer \
                 has its public key, because it answers nobody else"
            ),
            ConnectError::ProtocolUnreachable { remote } => format!(
                "no program receives at {remote} (port unreachable): check that `anabranch forward server` runs there, its address and \
                 --udp-port"
            ),
            error => with_remedy(error.to_string()),
        })
    }
}

/// Adds the remedy if one endpoint does not accept the key of the other.
fn with_remedy(error: String) -> String {
    const NOT_ACCEPTED: &str = "its public key or certificate is not among the accepted ones";
    let of_client = format!("the server refused the client: {NOT_ACCEPTED}");
    let of_server = format!("the client refused the server: {NOT_ACCEPTED}");
    if error.contains(&of_client) {
        format!("{error}; give the server the .pub file of --key, with --allow")
    } else if error.contains(&of_server) {
        format!("{error}; give --peer the .pub file of the server's --key")
    } else {
        error
    }
}

/// Runs the command.
pub(super) async fn run(mut args: ClientArgs, interrupt: Interrupt) -> Result<(), Failure> {
    args.common.refuse_records()?;
    let mut reload = Reload::install();
    let given = args.clone();
    args.complete()?;
    let messages = Messages::new(args.common.observe.output());
    let (route, encryption) = Route::new(&args)?;
    let client = Client::bind(args.rules()?, route.limits).await;
    let client = client.map_err(|error| Failure::new(error.to_string()))?;
    route.check(&messages).await?;
    announce("listening", &client, &route, &messages, &encryption);
    let told = messages.clone();
    let client = Arc::new(client.observe(move |event| tell(&told, &event)));
    let totals = Arc::new(Totals::default());
    totals.expect(networks::interfaces(&route.paths));
    let status = {
        let client = Arc::clone(&client);
        let totals = Arc::clone(&totals);
        move || Status::of_client(&client, &totals)
    };
    let route = RwLock::new(Arc::new(route));
    let current = || Arc::clone(&route.read().unwrap_or_else(PoisonError::into_inner));
    let reloading = async {
        loop {
            reload.asked().await;
            match read_again(&given, &args, &client, &current(), &messages).await {
                Ok((renewed, encryption)) => {
                    if let Some(renewed) = renewed {
                        totals.expect(networks::interfaces(&renewed.paths));
                        *route.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(renewed);
                        client.reconnect();
                    }
                    announce("reloaded", &client, &current(), &messages, &encryption);
                }
                Err(error) => messages.note(format!(
                    "note: SIGHUP: the former configuration stays: {}",
                    error.message()
                )),
            }
        }
    };
    let serving = async {
        tokio::select! {
            () = client.run(|| current().connect(messages.clone())) => {}
            () = reloading => {}
            () = networks::tell(
                &messages,
                || current().paths.clone(),
                || current().server.get().copied(),
                || ClientView::of(&client, &totals),
                || client.try_now(),
            ) => {}
        }
    };
    args.common.watch(status, serving, &messages, &interrupt).await
}

/// Gives the client the rules that the file has now. Returns the route, if it is another one, and the encryption for the user. Other options
/// take effect only at a start; the user is told which have changed.
async fn read_again(
    given: &ClientArgs,
    running: &ClientArgs,
    client: &Client,
    former: &Route,
    messages: &Messages,
) -> Result<(Option<Route>, Value), Failure> {
    let mut now = given.clone();
    now.complete()?;
    let (route, encryption) = Route::new(&now)?;
    route.check(messages).await?;
    let rules = now.rules()?;
    if rules != client.rules() {
        let replaced = client.replace_rules(rules).await;
        replaced.map_err(|error| Failure::new(error.to_string()))?;
    }
    now.common.note_later(&running.common, "client", &[], messages);
    Ok(((!route.is_like(former)).then_some(route), encryption))
}

/// Prints the server, and where programs reach the client.
fn announce(event: &str, client: &Client, route: &Route, messages: &Messages, encryption: &Value) {
    let mut text = match event {
        "reloaded" => "configuration read again".to_owned(),
        _ => format!(
            "connecting to {}, UDP port {}, encrypted",
            route.host, route.udp_port
        ),
    };
    let mut rules = Vec::new();
    for (rule, place) in client.rules().into_iter().zip(client.places()) {
        let place = place.map(|place| place.to_string());
        if let Some(place) = &place {
            text.push_str(&format!("\n  {rule}: listens at {place}"));
        }
        rules.push(json!({ "rule": rule.to_string(), "listens_at": place }));
    }
    let record = json!({ "event": event, "rules": rules, "encryption": encryption });
    messages.fact(text, &record);
}

fn tell(messages: &Messages, event: &ClientEvent) {
    match event {
        ClientEvent::Connected { association, rules } => {
            let mut text = "connected".to_owned();
            let mut records = Vec::new();
            for (rule, verdict) in rules {
                let name = rule.to_string();
                match verdict {
                    Ok(place) if place.is_empty() => {}
                    Ok(place) => text.push_str(&format!("\n  {name}: the server listens at {place}")),
                    Err(problem) => text.push_str(&format!("\n  {name}: refused: {problem}")),
                }
                records.push(json!({
                    "rule": name, "server_listens_at": verdict.as_ref().ok().filter(|place| !place.is_empty()),
                    "problem": verdict.as_ref().err(),
                }));
            }
            let record = json!({
                "event": "connected", "rules": records,
                "encryption": association.peer_identity().map(|peer| describe_peer(&peer).1),
            });
            messages.connected();
            messages.fact(text, &record);
        }
        ClientEvent::Disconnected { reason, retry_in } => messages.disconnected(
            reason,
            *retry_in,
            &json!({ "event": "disconnected", "reason": reason, "retry_in_seconds": retry_in.as_secs_f64() }),
        ),
        ClientEvent::TargetFailed(failure) => {
            let rule = if failure.is_remote { "--" } else { "--reverse-" };
            tell_failure(messages, None, rule, failure);
        }
        _ => {}
    }
}
