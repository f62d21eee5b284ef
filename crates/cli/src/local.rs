//! The server's side of `listen` and `perf`: the local address and ports, and the line that reports them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::{DEFAULT_SCTP_PORT, DEFAULT_UDP_PORT, Endpoint};
use clap::Args;
use serde_json::json;

use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::local_address::LocalAddress;
use crate::mobility::Mobility;
use crate::options::{Carry, Observe, TransportKind};
use crate::paths::Begin;

const LOCAL: &str = "Local address and ports";

/// The address and ports to listen on.
#[derive(Clone, Debug, Args)]
pub(crate) struct Local {
    /// UDP port to bind, 0 to 65535; 0 takes any free port and prints it
    #[arg(long, help_heading = LOCAL, value_name = "PORT", default_value_t = DEFAULT_UDP_PORT)]
    pub(crate) udp_port: u16,
    /// SCTP port to listen on, 1 to 65535
    #[arg(long, help_heading = LOCAL, value_name = "PORT", default_value_t = DEFAULT_SCTP_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Local IP address to bind, a link-local one with its interface (fe80::1%eth0); use --path for several addresses
    /// [default: all addresses]
    #[arg(long, help_heading = LOCAL, value_name = "ADDRESS", conflicts_with = "path")]
    pub(crate) bind: Option<LocalAddress>,
}

impl Local {
    /// Binds, listens and prints the addresses and ports.
    pub(crate) fn listen(
        &self,
        carry: &Carry,
        observe: &Observe,
        max_joined_message: usize,
    ) -> Result<Endpoint, Failure> {
        let encryption = carry.encrypt.prepare(None)?;
        let endpoint = self.bind(carry, &encryption, observe, max_joined_message)?;
        endpoint
            .listen_on_port(self.port)
            .map_err(|error| Failure::new(format!("--port {}: {error}", self.port)))?;
        self.announce(carry, &encryption, observe, &endpoint);
        Ok(endpoint)
    }

    fn bind(
        &self,
        carry: &Carry,
        encryption: &Encryption,
        observe: &Observe,
        max_joined_message: usize,
    ) -> Result<Endpoint, Failure> {
        let mut config = carry.congestion.config();
        // The peer chooses the streams on which this side answers.
        config.streams.outbound = u16::MAX;
        carry.offer.apply_to_server(&mut config);
        carry.mobility.judge_bind(self.bind.is_some())?;
        Mobility::apply_to_server(&mut config);
        encryption.apply_to_server(&mut config);
        carry.authenticate.apply(&mut config)?;
        let begin = carry
            .paths
            .apply_to_server(&mut config, carry.mobility.watches())?;
        carry.choice.apply(&mut config)?;
        carry.congestion.apply(&mut config)?;
        let bind_at = |begin: &Begin| {
            carry.bind(
                begin,
                self.udp_port,
                config.clone(),
                encryption.clone(),
                observe,
                max_joined_message,
            )
        };
        if let Some(begin) = begin {
            return bind_at(&begin);
        }
        let bind = |address: LocalAddress| bind_at(&address.into());
        match (self.bind, carry.transport) {
            (Some(address), _) => bind(address),
            // A raw socket serves one version of IP only.
            (None, TransportKind::Ip) => bind(IpAddr::from(Ipv4Addr::UNSPECIFIED).into()),
            // IPv6 and IPv4 if the system has both, else IPv4.
            (None, TransportKind::Udp) => {
                let [v4, v6] = [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()];
                bind(v6.into()).or_else(|_| bind(v4.into()))
            }
        }
    }

    fn announce(&self, carry: &Carry, encryption: &Encryption, observe: &Observe, endpoint: &Endpoint) {
        let (encrypted, facts) = encryption.describe();
        let local = endpoint.local_addr();
        let (transport, udp_port) = match carry.transport {
            TransportKind::Udp => ("udp", Some(local.port())),
            TransportKind::Ip => ("ip", None),
        };
        let addresses: Vec<String> = endpoint
            .local_addrs()
            .iter()
            .map(|local| local.ip().to_string())
            .collect();
        let udp = udp_port.map_or(", raw IP".to_owned(), |port| format!(", UDP port {port}"));
        let record = json!({
            "event": "listening", "address": local.ip().to_string(), "addresses": addresses, "transport": transport,
            "udp_port": udp_port, "port": self.port, "encryption": facts,
        });
        observe.output().fact(
            format!(
                "listening on {}{udp}, SCTP port {}; {encrypted}",
                addresses.join(" and "),
                self.port
            ),
            &record,
        );
    }
}
