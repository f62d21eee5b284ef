//! Connections to targets: names are resolved here, for each flow, and the policy is asked about the address to which the name leads now.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};

use crate::policy::Policy;
use crate::rule::{Protocol, Target};
use crate::socket::ByteSocket;
use crate::wire::ResetReason;

/// The time for a target to accept a connection, its name included.
const LIMIT: Duration = Duration::from_secs(10);

/// Where the flows of a rule lead, and which addresses they may use.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) target: Target,
    /// `None` at a client: it chose the target itself.
    pub(crate) policy: Option<Arc<Policy>>,
}

/// Why a flow does not reach its target.
#[derive(Debug)]
pub(crate) enum DialError {
    /// The policy does not permit its addresses.
    Forbidden,
    /// The target does not accept, or has no address.
    Target(io::Error),
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        Self::Target(error)
    }
}

impl DialError {
    /// The reason for the peer.
    pub(crate) fn reason(&self) -> ResetReason {
        match self {
            Self::Forbidden => ResetReason::Forbidden,
            Self::Target(_) => ResetReason::Target,
        }
    }
}

/// Waits no longer than the limit.
async fn in_time<T>(work: impl Future<Output = Result<T, DialError>>) -> Result<T, DialError> {
    let late = || {
        let text = format!("no answer within {} s", LIMIT.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
    };
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| late())
}

impl Dial {
    /// The permitted addresses of the target. The caller connects to these and does not resolve the name again.
    async fn addresses(&self, protocol: Protocol) -> Result<Vec<SocketAddr>, DialError> {
        let Target::Host { host, port } = &self.target else {
            return Err(DialError::Forbidden);
        };
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, *port)],
            Err(_) => tokio::net::lookup_host((host.as_str(), *port)).await?.collect(),
        };
        let is_permitted = |address: &SocketAddr| match &self.policy {
            Some(policy) => policy.permits(protocol, host, *address),
            None => true,
        };
        let permitted: Vec<SocketAddr> = found.into_iter().filter(is_permitted).collect();
        if permitted.is_empty() {
            return Err(DialError::Forbidden);
        }
        Ok(permitted)
    }

    pub(crate) async fn connect(&self) -> Result<ByteSocket, DialError> {
        in_time(async {
            match &self.target {
                Target::Host { .. } => {
                    let addresses = self.addresses(Protocol::Tcp).await?;
                    Ok(TcpStream::connect(&addresses[..]).await?.into())
                }
                Target::Unix(path) => self.connect_unix(path).await,
            }
        })
        .await
    }

    #[cfg(unix)]
    async fn connect_unix(&self, path: &std::path::Path) -> Result<ByteSocket, DialError> {
        let is_permitted = |policy: &Arc<Policy>| policy.may_reach(Protocol::Tcp, &self.target);
        if !self.policy.as_ref().is_none_or(is_permitted) {
            return Err(DialError::Forbidden);
        }
        Ok(tokio::net::UnixStream::connect(path).await?.into())
    }

    #[cfg(not(unix))]
    async fn connect_unix(&self, _path: &std::path::Path) -> Result<ByteSocket, DialError> {
        Err(DialError::Forbidden)
    }

    /// A socket that sends to the first address of the target that the system can reach, and receives from it alone.
    pub(crate) async fn open_datagrams(&self) -> Result<UdpSocket, DialError> {
        in_time(async {
            let mut last = DialError::Forbidden;
            for address in self.addresses(Protocol::Udp).await? {
                match connect_datagrams(address).await {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = error.into(),
                }
            }
            Err(last)
        })
        .await
    }
}

async fn connect_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(address).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dial(target: &str, permitted: &[&str]) -> Dial {
        let read = |entry: &&str| entry.parse().expect("a permission");
        Dial {
            target: target.parse().expect("a target"),
            policy: Some(Arc::new(Policy {
                targets: permitted.iter().map(read).collect(),
                listening: Vec::new(),
            })),
        }
    }

    #[tokio::test]
    async fn the_policy_is_asked_about_addresses() {
        for (target, permitted, answer) in [
            ("127.0.0.1:9", &["127.0.0.1:9/udp"][..], true),
            ("127.0.0.1:9", &["127.0.0.1:9/tcp"], false),
            ("127.0.0.1:9", &[], false),
            ("localhost:9", &["localhost:9"], true),
            ("localhost:9", &["*:9"], false),
        ] {
            let socket = dial(target, permitted).open_datagrams().await;
            assert_eq!(socket.is_ok(), answer, "{target} {permitted:?}");
            if let Err(reason) = socket {
                assert_eq!(reason.reason(), ResetReason::Forbidden);
            }
        }
    }
}
