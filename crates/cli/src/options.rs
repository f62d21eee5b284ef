//! Options that several subcommands share, and the endpoint they describe.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch::{BindError, Config, Endpoint, LinkConfig, Transport};
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::LevelFilter;

use crate::failure::Failure;
use crate::output::Output;
use crate::reliability::Offer;

/// After this a peer that waits for the last packet has asked for it again: RTO.Min and a little.
const PEER_ASKS_AGAIN: Duration = Duration::from_millis(1200);
/// Nobody should have to wait longer for a goodbye.
const MOST_LINGER: Duration = Duration::from_secs(3);

/// What is shown of the work, and written down.
#[derive(Clone, Debug, Args)]
pub(crate) struct Observe {
    /// Write all packets to this file, as pcapng for Wireshark
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// How much to log to standard error: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: LevelFilter,
    /// Print facts as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

impl Observe {
    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }

    /// Sends the log to standard error from now on.
    pub(crate) fn start_log(&self) {
        tracing_subscriber::fmt()
            .with_max_level(self.log)
            .with_writer(std::io::stderr)
            .init();
    }
}

/// How packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportKind {
    /// In UDP datagrams (RFC 6951): no privilege needed
    Udp,
    /// Directly in IP, protocol 132: needs root or CAP_NET_RAW
    Ip,
}

/// How packets leave this process, and what is offered to the peer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Carry {
    /// Carry SCTP in UDP (no privilege needed), or directly in IP as protocol 132 (needs root or CAP_NET_RAW)
    #[arg(
        long,
        value_enum,
        value_name = "udp|ip",
        default_value = "udp",
        hide_possible_values = true
    )]
    pub(crate) transport: TransportKind,
    /// Put a link in front of the socket that all packets pass, both ways, like
    /// rate=1gbit,delay=5ms,loss=0.1%,queue=64kib
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) link: Option<LinkConfig>,
    /// Fixes the luck of --link
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) offer: Offer,
}

impl Carry {
    /// Binds the endpoint that the options describe.
    pub(crate) fn bind(
        &self,
        local: SocketAddr,
        config: Config,
        pcap: Option<&Path>,
        max_joined_message: usize,
    ) -> Result<Endpoint, Failure> {
        let transport = match self.transport {
            TransportKind::Udp => Transport::Udp,
            TransportKind::Ip => Transport::RawIp,
        };
        let mut builder = Endpoint::builder()
            .config(config)
            .transport(transport)
            .max_joined_message(max_joined_message);
        if let Some(link) = &self.link {
            builder = builder.link(link.clone(), self.seed).linger(linger(link));
        }
        if let Some(pcap) = pcap {
            builder = builder.capture(pcap);
        }
        builder.bind_all(&[local]).map_err(|error| bind_failure(&error))
    }
}

/// How long an endpoint stays after its last association: if the link loses the last packet, SHUTDOWN COMPLETE, the
/// peer asks again after its retransmission timeout and is answered only while the endpoint is there (RFC 9260 §8.4).
fn linger(link: &LinkConfig) -> Duration {
    if link.loss == LinkConfig::default().loss {
        Duration::ZERO
    } else {
        (2 * (link.delay + link.jitter) + PEER_ASKS_AGAIN).min(MOST_LINGER)
    }
}

/// Names the flag that a failed bind is about.
pub(crate) fn bind_failure(error: &BindError) -> Failure {
    match error {
        BindError::Bind { address, source } => Failure::new(format!(
            "cannot bind {address}: {source}; choose another port with --udp-port (0 takes any free one)"
        )),
        BindError::RawNotPermitted(_) => Failure::new(format!("--transport ip: {error} (--transport udp)")),
        BindError::Capture { path, source } => Failure::new(format!(
            "--pcap: cannot write {}: {source}; give a file in a directory that exists and is yours",
            path.display()
        )),
        other => Failure::new(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Both {
        #[command(flatten)]
        observe: Observe,
        #[command(flatten)]
        carry: Carry,
    }

    #[test]
    fn errors_name_the_flag_and_what_it_takes() {
        let error = |args: [&str; 3]| Both::try_parse_from(args).unwrap_err().to_string();
        let link = error(["", "--link", "loss=lots"]);
        assert!(
            link.contains("--link") && link.contains("loss cannot be \"lots\""),
            "{link}"
        );
        let link = error(["", "--link", "speed=1"]);
        assert!(
            link.contains("\"speed\"") && link.contains("rate, delay"),
            "{link}"
        );
        let log = error(["", "--log", "loud"]);
        assert!(log.contains("--log"), "{log}");
        let transport = error(["", "--transport", "tcp"]);
        assert!(transport.contains("--transport"), "{transport}");
        let both = Both::try_parse_from([
            "",
            "--link",
            "rate=1gbit,delay=5ms,loss=0.1%",
            "--transport",
            "ip",
        ])
        .unwrap();
        assert_eq!(both.carry.link.and_then(|link| link.rate), Some(1_000_000_000));
        assert_eq!(both.carry.transport, TransportKind::Ip);
        assert_eq!(both.observe.log, LevelFilter::WARN);
    }
}
