//! The client's side of `send`, `ping` and `perf`: the peer's address, association setup, and a graceful shutdown.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anabranch::{Association, CloseReason, ConnectError, DEFAULT_SCTP_PORT, DEFAULT_UDP_PORT, Endpoint};
use clap::{Args, ValueHint};
use serde_json::json;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Carry, Observe, TransportKind};
use crate::output::note;
use crate::path_notes::PathNotes;
use crate::paths::PathArgs;
use crate::reliability::{Offer, Persist};
use crate::scheduling::Schedule;
use crate::stall;
use crate::units;

/// Minimum number of outbound streams to request; the protocol's default.
const MIN_STREAMS: u16 = 16;
/// Limit on the graceful shutdown after the user asked to stop.
const HURRY: Duration = Duration::from_secs(3);
const PEER: &str = "Peer";

/// The peer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// Host name or IP address of the peer
    #[arg(value_hint = ValueHint::Hostname)]
    pub(crate) host: String,
    /// UDP port of the peer, 1 to 65535
    #[arg(long, help_heading = PEER,
        value_name = "PORT", default_value_t = DEFAULT_UDP_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) udp_port: u16,
    /// SCTP port of the peer, 1 to 65535: it names a service inside the packets. The packets go to the UDP port
    #[arg(long, help_heading = PEER, value_name = "PORT", default_value_t = DEFAULT_SCTP_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Time limit for the association setup
    #[arg(long, help_heading = PEER, value_name = "DURATION", default_value = "10s", value_parser = units::parse_duration)]
    pub(crate) timeout: Duration,
}

/// A client's requirements for its association.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// The command to run at the peer, for error messages.
    pub(crate) server: &'static str,
    /// Outbound streams.
    pub(crate) streams: u16,
    /// The largest message to be reassembled, in bytes.
    pub(crate) max_joined_message: usize,
    /// The stream scheduler.
    pub(crate) schedule: Schedule,
}

/// An association and the endpoint beneath it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) association: Association,
    pub(crate) remote: SocketAddr,
    paths: PathArgs,
}

/// How and when an association ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) at: Instant,
    /// Why the shutdown was not graceful, if it was not.
    pub(crate) result: Result<(), String>,
}

impl Target {
    /// Sets up an association with a listener, on which `stream` exists.
    pub(crate) async fn connect(
        &self,
        carry: &Carry,
        observe: &Observe,
        stream: u16,
        max_joined_message: usize,
        interrupt: &Interrupt,
    ) -> Result<Client, Failure> {
        let wish = Wish {
            server: "anabranch listen",
            streams: stream.saturating_add(1),
            max_joined_message,
            schedule: Schedule::default(),
        };
        let client = self.open(carry, observe, &wish, interrupt).await?;
        let streams = client.association.outbound_streams();
        if streams <= stream {
            client.association.abort("the requested stream does not exist");
            client.endpoint.close().await;
            return Err(Failure::new(format!(
                "--stream {stream}: the peer accepts {streams} streams; give a number from 0 to {}",
                streams.saturating_sub(1)
            )));
        }
        Ok(client)
    }

    /// Sets up an association. The peer may accept fewer streams than requested.
    pub(crate) async fn open(
        &self,
        carry: &Carry,
        observe: &Observe,
        wish: &Wish,
        interrupt: &Interrupt,
    ) -> Result<Client, Failure> {
        let remote = self.resolve().await?;
        let mut config = carry.congestion.config();
        config.streams.outbound = wish.streams.max(MIN_STREAMS);
        carry.offer.apply(&mut config);
        carry.mobility.apply(&mut config);
        carry.authenticate.apply(&mut config)?;
        wish.schedule.apply(&mut config)?;
        let watches = carry.mobility.watches();
        let begin = carry.paths.apply_to_client(&mut config, remote.ip(), watches)?;
        carry.choice.apply(&mut config)?;
        carry.congestion.apply(&mut config)?;
        let encryption = carry.encrypt.prepare(Some(&self.host))?;
        let endpoint = carry.bind(&begin, 0, config, encryption, observe, wish.max_joined_message)?;
        let attempt = timeout(self.timeout, endpoint.connect_to_port(remote, self.port));
        let attempt = tokio::select! {
            attempt = attempt => attempt,
            () = interrupt.wait() => {
                return Err(Failure::interrupted(format!("interrupted while waiting for {}", self.peer(carry, remote))));
            }
        };
        match attempt {
            Ok(Ok(association)) => {
                let client = Client {
                    endpoint,
                    association,
                    remote,
                    paths: carry.paths.clone(),
                };
                let client = client.judge_paths(carry).await?;
                self.announce(carry, observe, &client);
                Ok(client)
            }
            Ok(Err(ConnectError::TimedOut { .. })) | Err(_) => Err(self.silence(carry, remote, wish.server)),
            Ok(Err(ConnectError::ProtocolUnreachable { .. })) => {
                Err(self.nothing_there(carry, remote, wish.server))
            }
            Ok(Err(ConnectError::Refused { reason, .. })) => {
                Err(Failure::new(no_association(&self.peer(carry, remote), &reason)))
            }
            Ok(Err(error)) => Err(Failure::new(format!("{}: {error}", self.peer(carry, remote)))),
        }
    }

    /// Prints the peer, and whether the association is encrypted.
    fn announce(&self, carry: &Carry, observe: &Observe, client: &Client) {
        let (encrypted, facts) = carry.encrypt.describe(&client.association);
        let remote = client.remote;
        let record = json!({
            "event": "connected", "address": remote.ip().to_string(), "udp_port": remote.port(), "port": self.port,
            "encryption": facts,
        });
        let peer = self.peer(carry, remote);
        observe
            .output()
            .fact(format!("connected to {peer}; {encrypted}"), &record);
    }

    async fn resolve(&self) -> Result<SocketAddr, Failure> {
        let bare = self
            .host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(&self.host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(SocketAddr::new(address, self.udp_port));
        }
        if let Ok(both) = self.host.parse::<SocketAddr>() {
            return Err(Failure::new(format!(
                "HOST {:?} must not contain a port: write {} --udp-port {}",
                self.host,
                both.ip(),
                both.port()
            )));
        }
        let problem = |why: String| {
            Failure::new(format!(
                "HOST {:?} cannot be resolved: {why}; check the name, or give an IP address",
                self.host
            ))
        };
        let found = tokio::net::lookup_host((bare, self.udp_port))
            .await
            .map_err(|error| problem(error.to_string()))?;
        // The name of this machine often has an IPv6 address too, and a listener on 127.0.0.1 gets no packets for it.
        found
            .min_by_key(SocketAddr::is_ipv6)
            .ok_or_else(|| problem("it has no address".to_owned()))
    }

    fn peer(&self, carry: &Carry, remote: SocketAddr) -> String {
        match carry.transport {
            TransportKind::Udp => format!(
                "{}, UDP port {}, SCTP port {}",
                remote.ip(),
                remote.port(),
                self.port
            ),
            TransportKind::Ip => format!("{}, SCTP port {}", remote.ip(), self.port),
        }
    }

    /// The peer's operating system reports that no program receives there.
    fn nothing_there(&self, carry: &Carry, remote: SocketAddr, server: &str) -> Failure {
        let (says, flag) = match carry.transport {
            TransportKind::Udp => ("the UDP port is closed (ICMP port unreachable)", "--udp-port"),
            TransportKind::Ip => (
                "the host does not support SCTP over IP (ICMP protocol unreachable)",
                "--transport",
            ),
        };
        Failure::new(format!(
            "{}: {says}; check that `{server}` runs there, and check {flag}",
            self.peer(carry, remote)
        ))
    }

    fn silence(&self, carry: &Carry, remote: SocketAddr, server: &str) -> Failure {
        let ports = match carry.transport {
            TransportKind::Udp => "--udp-port and --port",
            TransportKind::Ip => "--port and --transport",
        };
        Failure::new(format!(
            "{} did not answer within {}: check that `{server}` runs there, check {ports}, or raise --timeout{}",
            self.peer(carry, remote),
            units::duration(self.timeout),
            if carry.paths.are_several() {
                "; some peers do not answer an INIT that lists several addresses: try one --path"
            } else {
                ""
            }
        ))
    }
}

/// The endpoint that ended the set-up, and why.
fn no_association(peer: &str, reason: &CloseReason) -> String {
    match reason {
        // The answer to an INIT for a port on which nobody listens.
        CloseReason::AbortedByPeer(causes) if causes.as_bytes().is_empty() => {
            format!("{peer} refused the association: {reason}; check --port")
        }
        CloseReason::AbortedByPeer(_) => format!("{peer} refused the association: {reason}"),
        reason => format!("no association with {peer}: {reason}"),
    }
}

impl Client {
    /// Compares the association's paths with the requested ones.
    async fn judge_paths(self, carry: &Carry) -> Result<Self, Failure> {
        if let Some(refused) = carry.mobility.refused(&self.association.stats().extensions) {
            note(format!("note: {refused}"));
        }
        match carry
            .paths
            .judge(&self.association.stats(), carry.mobility.watches())
        {
            Ok(remark) => {
                if let Some(remark) = remark {
                    note(format!("note: {remark}"));
                }
                Ok(self)
            }
            Err(failure) => {
                self.association
                    .abort("the peer's addresses are not the requested ones");
                self.endpoint.close().await;
                Err(failure)
            }
        }
    }

    /// Prints notes about changes of the paths until the association ends. It reads the events of the association.
    pub(crate) fn tell_paths(&self) {
        let association = self.association.clone();
        let mut notes = PathNotes::new(&association);
        tokio::spawn(async move {
            while let Some(event) = association.next_event().await {
                notes.tell(&event, &association);
            }
        });
    }

    /// Prints a note about requested extensions that the peer did not offer.
    pub(crate) fn tell_refused(&self, offer: &Offer, persist: &Persist) {
        if let Some(refused) = offer.refused(persist, &self.association.stats().extensions) {
            note(format!("note: {refused}"));
        }
    }

    /// Shuts the association down gracefully when the peer has acknowledged all data. The limits are [`stall::LIMIT`] for each
    /// 64 KiB of outstanding data, [`stall::LIMIT`] for the shutdown, and [`HURRY`] after the user asked to stop.
    pub(crate) async fn finish(&self, interrupt: &Interrupt) -> Ending {
        if let Some(warning) = self.paths.unused(&self.association.stats()) {
            note(format!("warning: {warning}"));
        }
        let orderly = async {
            // Drain first: the guard timer of a shutdown should not run while much data is still outstanding.
            if let Err(problem) = stall::drained(&self.association).await {
                // This has no effect if the association has already ended.
                self.association.abort("no progress");
                return Err(problem);
            }
            self.association
                .shutdown()
                .await
                .map_err(|error| error.to_string())
        };
        let hurry = async {
            interrupt.wait().await;
            tokio::time::sleep(HURRY).await;
        };
        let result = tokio::select! {
            result = orderly => result,
            () = hurry => {
                self.association.abort("interrupted");
                Err(format!("the peer did not acknowledge all data within {}", units::duration(HURRY)))
            }
        };
        let at = Instant::now();
        self.endpoint.close().await;
        Ending { at, result }
    }
}
