//! Options that several subcommands share, and the endpoint they describe.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch::{
    BindError, Config, Dscp, DtlsLimit, Endpoint, EndpointBuilder, LinkConfig, PathSource, PathSourceError,
    Transport,
};
use clap::{Arg, Args, ValueEnum, ValueHint};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::authentication::Authenticate;
use crate::congestion::CongestionArgs;
use crate::encryption::{Encrypt, Encryption};
use crate::failure::Failure;
use crate::mobility::Mobility;
use crate::output::{self, Output};
use crate::path_choice::PathChoice;
use crate::paths::{Begin, PathArgs};
use crate::reliability::Offer;
use crate::stall;

/// The heading of [`Observe`] in `--help`. Each argument names it: on the struct, it would also apply to the arguments that are
/// flattened after it.
pub(crate) const OUTPUT: &str = "Output";
pub(crate) const CARRY: &str = "Transport and emulated link";
/// The heading of options that only comparisons need. `--help` shows groups in the order of their first options, so the options of this
/// one come last.
pub(crate) const RESEARCH: &str = "Research and comparison";

/// Output format, log and capture.
#[derive(Clone, Debug, Args)]
pub(crate) struct Observe {
    /// Write all packets to this file in the pcapng format, for Wireshark
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) pcap: Option<PathBuf>,
    /// Write the events inside the associations to this qlog file: JSON text sequences
    #[arg(long, help_heading = OUTPUT, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) qlog: Option<PathBuf>,
    /// Log to standard error at this level: off, error, warn, info, debug (the events inside the associations) or trace
    /// (also their packets) [default: the filter in the environment variable RUST_LOG, else
    /// warn, without the libraries that it uses]
    #[arg(long, help_heading = OUTPUT, value_name = "LEVEL")]
    pub(crate) log: Option<LevelFilter>,
    /// Print results as JSON, one object per line
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
}

/// Moves an argument of `--help` to the first group, which has no heading.
pub(crate) fn first(argument: Arg) -> Arg {
    argument.help_heading(None::<&'static str>)
}

/// [`first`] for each of these arguments.
pub(crate) fn all_first(names: &[&str], argument: Arg) -> Arg {
    if names.contains(&argument.get_id().as_str()) {
        first(argument)
    } else {
        argument
    }
}

/// Hides the options for files from the `--help` of a command that refuses them ([`Observe::refuse_files`]).
pub(crate) fn no_files(argument: Arg) -> Arg {
    if ["pcap", "qlog"].contains(&argument.get_id().as_str()) {
        argument.hide(true)
    } else {
        argument
    }
}

/// The variable with the filter of the log, as in other programs that use `tracing`.
const FILTER: &str = "RUST_LOG";

/// The filter of the log without `--log`: that of the environment, or the warnings of this project. Libraries warn of what strangers send
/// (for example of STUN messages), so that strangers could fill the log.
fn default_filter(environment: Option<String>) -> Result<Targets, Failure> {
    match environment.filter(|filter| !filter.is_empty()) {
        Some(filter) => filter.parse().map_err(|error| {
            Failure::new(format!(
                "{FILTER}={filter}: {error}; give levels of modules, for example {FILTER}=warn,anabranch_proto=debug"
            ))
        }),
        None => Ok(Targets::new().with_target("anabranch", LevelFilter::WARN)),
    }
}

impl Observe {
    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { Output::Text }
    }

    /// Sends the log to standard error from now on.
    pub(crate) fn start_log(&self) -> Result<(), Failure> {
        let filter = match self.log {
            Some(level) => Targets::new().with_default(level),
            None => default_filter(std::env::var(FILTER).ok())?,
        };
        tracing_subscriber::registry()
            .with(tracing_subscriber::fmt::layer().with_writer(output::Log))
            .with(filter)
            .init();
        Ok(())
    }

    /// Whether an option asks for what only commands with real associations write.
    pub(crate) fn refuse_qlog(&self) -> Result<(), Failure> {
        match &self.qlog {
            None => Ok(()),
            Some(_) => Err(Failure::new(
                "--qlog: this command writes no events; give --qlog to demo, listen, send, ping or perf",
            )),
        }
    }

    /// For a command that writes neither captures nor events: refuses the options that ask for them. `reason` says why there is no capture,
    /// and what to do instead.
    pub(crate) fn refuse_files(&self, reason: &str) -> Result<(), Failure> {
        if self.pcap.is_some() {
            return Err(Failure::new(format!("--pcap: {reason}")));
        }
        self.refuse_qlog()
    }

    /// Adds the files that the options ask for.
    pub(crate) fn record(&self, mut builder: EndpointBuilder) -> EndpointBuilder {
        if let Some(pcap) = &self.pcap {
            builder = builder.capture(pcap);
        }
        if let Some(qlog) = &self.qlog {
            builder = builder.qlog(qlog);
        }
        builder
    }
}

/// The layer below SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportKind {
    /// In UDP datagrams (RFC 6951): no privilege needed
    Udp,
    /// Directly in IP, protocol 132: needs root or CAP_NET_RAW
    Ip,
}

/// How packets leave this process, and which extensions are offered to the peer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Carry {
    /// Carry SCTP packets over udp (RFC 6951, needs no privilege) or directly over ip (protocol 132, needs root or
    /// CAP_NET_RAW)
    #[arg(
        long,
        help_heading = CARRY,
        value_enum,
        value_name = "udp|ip",
        default_value = "udp",
        hide_possible_values = true
    )]
    pub(crate) transport: TransportKind,
    /// Emulate a link that all packets pass in both directions, such as rate=1gbit,delay=5ms,loss=0.1%,queue=64kib.
    /// Give it once for all packets, or once for each --path
    #[arg(long, help_heading = CARRY, value_name = "SETTINGS")]
    pub(crate) link: Vec<LinkConfig>,
    /// Seed of the random numbers of --link
    #[arg(long, help_heading = CARRY, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Differentiated Services codepoint (DSCP) of all packets of this side, by which routers choose a queue: EF, AF11 to
    /// AF43, CS0 to CS7, LE, VA, or a number from 0 to 63. Linux only [default: 0, best effort]
    #[arg(long, help_heading = CARRY, value_name = "NAME", default_value = "0", hide_default_value = true)]
    pub(crate) dscp: Dscp,
    #[command(flatten)]
    pub(crate) encrypt: Encrypt,
    #[command(flatten)]
    pub(crate) paths: PathArgs,
    #[command(flatten)]
    pub(crate) congestion: CongestionArgs,
    #[command(flatten)]
    pub(crate) mobility: Mobility,
    #[command(flatten)]
    pub(crate) authenticate: Authenticate,
    #[command(flatten)]
    pub(crate) choice: PathChoice,
    #[command(flatten)]
    pub(crate) offer: Offer,
}

impl Carry {
    /// Binds the endpoint that the options describe, with this UDP port.
    pub(crate) fn bind(
        &self,
        begin: &Begin,
        port: u16,
        mut config: Config,
        encryption: Encryption,
        observe: &Observe,
        max_joined_message: usize,
    ) -> Result<Endpoint, Failure> {
        config.dscp = self.dscp;
        config.shutdown_guard = Some(stall::LIMIT);
        let transport = match self.transport {
            TransportKind::Udp => Transport::Udp,
            TransportKind::Ip => Transport::RawIp,
        };
        let mut builder = Endpoint::builder()
            .config(config)
            .transport(transport)
            // --timeout is the limit.
            .connect_timeout(Duration::MAX)
            .max_joined_message(max_joined_message);
        builder = self.mobility.build(self.with_links(builder, begin)?);
        builder = observe.record(encryption.build(builder));
        let bound = match begin {
            Begin::At(locals) => {
                let locals: Vec<_> = locals.iter().map(|local| local.with_port(port)).collect();
                builder.bind_all(&locals)
            }
            Begin::Follow(sources) => builder.bind_paths(sources, port),
        };
        bound.map_err(|error| self.explain(&error))
    }

    /// One link for all paths, or one for each.
    fn with_links(&self, builder: EndpointBuilder, begin: &Begin) -> Result<EndpointBuilder, Failure> {
        let locals: Vec<IpAddr> = match begin {
            Begin::At(locals) => locals.iter().map(|local| local.ip).collect(),
            Begin::Follow(sources) => sources.iter().filter_map(address).collect(),
        };
        match &self.link[..] {
            [] => Ok(builder),
            [link] => Ok(builder.link(link.clone(), self.seed)),
            links if links.len() == locals.len() => {
                let each = locals.into_iter().zip(links);
                Ok(each.fold(builder, |builder, (local, link)| {
                    builder.path_link(local, link.clone(), self.seed)
                }))
            }
            links => Err(Failure::new(format!(
                "--link is given {} times, but --path names {} local addresses: give --link once, for all packets, or \
                 once for each local address",
                links.len(),
                locals.len()
            ))),
        }
    }

    fn explain(&self, error: &BindError) -> Failure {
        match error {
            BindError::Dtls(DtlsLimit::SeveralAddresses | DtlsLimit::Multipath) => Failure::new(
                "--dtls: an association over DTLS has one path (RFC 8261); leave --path and --multipath out",
            ),
            BindError::Dtls(DtlsLimit::DynamicAddresses) => Failure::new(
                "--dtls: an association over DTLS keeps its address; leave --watch-interfaces out",
            ),
            BindError::Dtls(DtlsLimit::RawIp) => Failure::new("--dtls needs UDP; leave --transport ip out"),
            BindError::Bind { address, source } if source.kind() == io::ErrorKind::AddrNotAvailable => {
                let flag = if self.paths.names(address.ip()) {
                    "--path"
                } else {
                    "--bind"
                };
                Failure::new(format!(
                    "{flag} {}: no interface of this machine has this address; give one that `ip address` lists",
                    address.ip()
                ))
            }
            BindError::Path(PathSourceError::UnknownInterface { name, existing }) => Failure::new(format!(
                "--path {name}: this machine has no network interface of this name, only {}; give one of them, or add \
                 --watch-interfaces to wait for {name}",
                existing.join(", ")
            )),
            BindError::Path(error) => Failure::new(format!("--path: {error}")),
            other => bind_failure(other),
        }
    }
}

/// The address of a path that begins at one.
fn address(source: &PathSource) -> Option<IpAddr> {
    match source {
        PathSource::Address(address) => Some(*address),
        _ => None,
    }
}

/// The message for a failed bind, which names the flag.
pub(crate) fn bind_failure(error: &BindError) -> Failure {
    match error {
        BindError::Bind { address, source } => Failure::new(format!(
            "cannot bind {address}: {source}; choose another port with --udp-port (0 takes any free port)"
        )),
        BindError::RawNotPermitted(_) => {
            Failure::new(format!("--transport ip: {error}; or use --transport udp"))
        }
        BindError::Capture { path, source } => Failure::new(format!(
            "--pcap: cannot write {}: {source}; give a file in an existing directory that you may write to",
            path.display()
        )),
        BindError::Qlog { path, source } => Failure::new(format!(
            "--qlog: cannot write {}: {source}; give a file in an existing directory that you may write to",
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
    fn errors_name_the_flag_and_its_values() {
        let error = |args: [&str; 3]| Both::try_parse_from(args).unwrap_err().to_string();
        let link = error(["", "--link", "loss=lots"]);
        assert!(
            link.contains("--link") && link.contains("loss cannot be \"lots\""),
            "{link}"
        );
        let link = error(["", "--link", "speed=1"]);
        assert!(
            link.contains("\"speed\"") && link.contains("rate, trace, delay"),
            "{link}"
        );
        let log = error(["", "--log", "loud"]);
        assert!(log.contains("--log"), "{log}");
        let transport = error(["", "--transport", "tcp"]);
        assert!(transport.contains("--transport"), "{transport}");
        let dscp = error(["", "--dscp", "AF44"]);
        assert!(dscp.contains("--dscp") && dscp.contains("AF11 to AF43"), "{dscp}");
        let both = Both::try_parse_from([
            "",
            "--link",
            "rate=1gbit,delay=5ms,loss=0.1%",
            "--transport",
            "ip",
            "--dscp",
            "ef",
        ])
        .unwrap();
        assert_eq!(both.carry.link[0].rate, Some(1_000_000_000));
        assert_eq!(both.carry.transport, TransportKind::Ip);
        assert_eq!(both.carry.dscp, Dscp::EF);
        assert_eq!(both.observe.log, None);
    }
}
