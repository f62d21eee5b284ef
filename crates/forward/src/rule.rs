//! Rules: where an endpoint listens, to which target it forwards, and how the traffic is treated.

mod parse;

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

pub use parse::RuleError;
pub(crate) use parse::is_name;

/// The priority classes that a rule may name.
pub const CLASSES: RangeInclusive<u8> = 0..=7;
/// The longest deadline.
pub const LONGEST_DEADLINE: Duration = Duration::from_secs(3600);

/// The idle times that a rule may name.
#[must_use]
pub fn allowed_idle() -> RangeInclusive<Duration> {
    Duration::from_secs(1)..=Duration::from_secs(86_400)
}

/// The protocol between the forwarder and the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// UDP: datagrams with their boundaries.
    Udp,
    /// TCP or a Unix stream socket: connections of bytes.
    Tcp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// Where an endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listen {
    /// An IP address and a port; port 0 takes any free port.
    Socket(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where a flow leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A host, by name or address, and a port.
    Host {
        /// The name or the address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How the flows of a rule are sent, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// After this time a datagram is of no use: it is neither sent nor retransmitted, and early copies are sent as far as they are needed.
    /// Not for byte streams. `None`: datagrams may be retransmitted for a second; those of RTP have a deadline of 300 ms,
    /// and those of SRT the latency in its handshake.
    pub deadline: Option<Duration>,
    /// The priority class; 0 leaves first. `None`: small datagrams and byte streams that send little at a time are in class 0, RTP and SRT in
    /// class 1, other datagrams in class 2, and other byte streams in class 3.
    pub class: Option<u8>,
    /// The most bits per second of all flows of the rule, in each direction. Datagrams above it are dropped.
    pub rate: Option<u64>,
    /// Whether datagrams arrive in the order in which they were sent, so that each waits for earlier ones. Default false; those of SRT always
    /// do.
    pub ordered: bool,
    /// A flow of datagrams ends if no datagram passes for this time. Default two minutes (RFC 4787 §4.3).
    pub idle: Duration,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            deadline: None,
            class: None,
            rate: None,
            ordered: false,
            idle: Duration::from_secs(120),
        }
    }
}

/// A rule of a client. It is read from a text with [`Rule::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The protocol of the programs.
    pub protocol: Protocol,
    /// Whether the server listens, and the client connects to the target.
    pub reverse: bool,
    /// Where one endpoint listens.
    pub listen: Listen,
    /// Where the other endpoint connects to.
    pub target: Target,
    /// How the flows are sent.
    pub traffic: Traffic,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reverse = if self.reverse { "reverse-" } else { "" };
        write!(f, "{reverse}{} {}={}", self.protocol, self.listen, self.target)
    }
}
