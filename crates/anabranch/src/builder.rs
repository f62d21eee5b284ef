//! Everything that can be chosen when an endpoint is bound.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, EndpointError};
use tokio::net::ToSocketAddrs;

use crate::capture::Capture;
use crate::driver::{Hub, Limits, LinkPlan};
use crate::endpoint::Endpoint;
use crate::error::BindError;
use crate::socket::{Socket, Transport};

/// Free ports of the first address that are tried on the others.
const PORTS_TRIED: usize = 16;

/// Builds an [`Endpoint`]; start from [`Endpoint::builder`], end with [`EndpointBuilder::bind`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::{Config, Endpoint};
///
/// let mut config = Config::default();
/// config.streams.outbound = 100;
/// let endpoint = Endpoint::builder()
///     .config(config)
///     .link("rate=2mbit,delay=40ms,loss=1%,queue=64kib".parse()?, 7)
///     .bind("127.0.0.1:0")
///     .await?;
/// println!("UDP port {}", endpoint.local_addr().port());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EndpointBuilder {
    config: Config,
    transport: Transport,
    limits: Limits,
    links: Vec<LinkPlan>,
    capture: Option<PathBuf>,
    seed: Option<[u8; 32]>,
    interfaces: Vec<(IpAddr, String)>,
}

impl Default for EndpointBuilder {
    fn default() -> Self {
        let limits = Limits {
            backlog: 128,
            max_associations: 65_536,
            max_joined_message: 16 << 20,
            linger: Duration::ZERO,
        };
        Self {
            config: Config::default(),
            transport: Transport::default(),
            limits,
            links: Vec::new(),
            capture: None,
            seed: None,
            interfaces: Vec::new(),
        }
    }
}

impl EndpointBuilder {
    /// The settings of the protocol. `udp_encapsulation` in them is set to what the transport is.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// How packets travel. Default [`Transport::Udp`].
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Puts an in-process link in front of the sockets, one of its kind for each direction, with its luck drawn from
    /// `seed`. Packets sent *and* received go through it, so that one side alone has a slow and lossy path both ways.
    /// It counts whole IP packets, headers included, and keeps times to about a millisecond. At most 64 MiB are under way
    /// in it at a time, whatever its queue holds; what would be more is lost.
    pub fn link(self, link: LinkConfig, seed: u64) -> Self {
        self.add_link(None, link, seed)
    }

    /// Puts an in-process link in front of the socket on this local address alone, in place of the one of
    /// [`EndpointBuilder::link`]: each path then has its own rate, delay and luck.
    pub fn path_link(self, local: IpAddr, link: LinkConfig, seed: u64) -> Self {
        self.add_link(Some(local), link, seed)
    }

    fn add_link(mut self, local: Option<IpAddr>, config: LinkConfig, seed: u64) -> Self {
        self.links.retain(|plan| plan.local != local);
        self.links.push(LinkPlan { local, config, seed });
        self
    }

    /// Writes a pcapng capture of all packets to this file: those sent as they enter the link (if there is one),
    /// those received as they leave it, which is what the protocol saw.
    pub fn capture(mut self, path: impl Into<PathBuf>) -> Self {
        self.capture = Some(path.into());
        self
    }

    /// How many associations may wait for [`Endpoint::accept`]; further ones are aborted. At least 1, default 128.
    pub fn backlog(mut self, associations: usize) -> Self {
        self.limits.backlog = associations.max(1);
        self
    }

    /// How many associations the endpoint keeps in all; further ones are aborted. At least 1, default 65,536.
    pub fn max_associations(mut self, associations: usize) -> Self {
        self.limits.max_associations = associations.max(1);
        self
    }

    /// The most bytes that [`Association::recv`](crate::Association::recv) joins to messages at a time. A message
    /// beyond it is an error there; [`Association::recv_part`](crate::Association::recv_part) has no such limit.
    /// Default 16 MiB.
    pub fn max_joined_message(mut self, bytes: usize) -> Self {
        self.limits.max_joined_message = bytes;
        self
    }

    /// How long the endpoint goes on answering after it was closed and its last association is over, and
    /// [`Endpoint::close`] waits. If the very last packet of a shutdown (SHUTDOWN COMPLETE) is lost, the peer asks
    /// again after its retransmission timeout, a second at least; with nobody left to answer it takes minutes to give
    /// up. Default zero; two seconds are good on a path that loses. What the endpoint's own in-process link lost it knows, and
    /// stays for that by itself ([`Endpoint::close`]).
    pub fn linger(mut self, time: Duration) -> Self {
        self.limits.linger = time;
        self
    }

    /// Fixes all randomness of the protocol, for tests that are to repeat. Never in production: verification tags
    /// and cookies would be known. Default: random numbers of the operating system.
    pub fn insecure_seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Lets the socket on this local address send and receive by this network interface only (`SO_BINDTODEVICE`), whatever
    /// the routing table says: two paths then never share one. The address need not be the interface's; an unspecified one
    /// takes the socket that is bound to every address. Linux only.
    pub fn interface(mut self, local: IpAddr, name: impl Into<String>) -> Self {
        self.interfaces.push((local, name.into()));
        self
    }

    /// Binds a UDP socket (address and UDP port; port 0 takes any free one), or a raw one, whose port is ignored.
    /// An unspecified address (`0.0.0.0`, `[::]`) means every local one; `[::]` carries IPv4 too.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(self, local: impl ToSocketAddrs) -> Result<Endpoint, BindError> {
        let mut addresses = tokio::net::lookup_host(local).await.map_err(BindError::Resolve)?;
        let address = addresses.next();
        let address = address.ok_or_else(|| BindError::Resolve(io::ErrorKind::NotFound.into()))?;
        self.bind_all(&[address])
    }

    /// Binds a socket on each of several addresses, for several paths. All take the UDP port of the first: SCTP over
    /// UDP has one port (RFC 6951 §4.1). IPv4 and IPv6 addresses may be mixed; beside IPv4 ones, `[::]` is IPv6 only.
    /// Must be called within a tokio runtime.
    ///
    /// To tell peers of the addresses, list them in `Config::local_addresses` as well.
    ///
    /// # Errors
    /// See [`BindError`]. An empty list is an address that does not resolve.
    pub fn bind_all(mut self, locals: &[SocketAddr]) -> Result<Endpoint, BindError> {
        self.config.udp_encapsulation = self.transport == Transport::Udp;
        self.config.validate()?;
        let sockets = self.open_all(locals)?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|error| BindError::Random(error.to_string()))?;
                seed
            }
        };
        let core = anabranch_proto::Endpoint::new(self.config, seed).map_err(|error| match error {
            EndpointError::Config(error) => BindError::Config(error),
            other => BindError::Random(other.to_string()),
        })?;
        let capture = match self.capture {
            None => None,
            Some(path) => Some(Capture::create(&path).map_err(|source| BindError::Capture { path, source })?),
        };
        let hub = Hub::start(core, sockets, self.transport, self.limits, self.links, capture);
        Ok(Endpoint::new(Arc::clone(&hub)))
    }
}

impl EndpointBuilder {
    /// Opens a socket for each address, all with one port.
    fn open_all(&self, locals: &[SocketAddr]) -> Result<Vec<Socket>, BindError> {
        let first = locals
            .first()
            .ok_or_else(|| BindError::Resolve(io::ErrorKind::NotFound.into()))?;
        let only_v6 = locals.iter().any(SocketAddr::is_ipv4);
        let attempt = || {
            let mut sockets: Vec<Socket> = Vec::with_capacity(locals.len());
            for address in locals {
                let own = |(local, _): &&(IpAddr, String)| *local == address.ip();
                let interface = self.interfaces.iter().find(own).map(|(_, name)| name.as_str());
                let port = sockets
                    .first()
                    .map_or(first.port(), |socket| socket.local().port());
                let address = SocketAddr::new(address.ip(), port);
                sockets.push(open(address, self.transport, only_v6, interface)?);
            }
            Ok(sockets)
        };
        let mut answer = attempt();
        for _ in 1..PORTS_TRIED {
            match &answer {
                // A port that is free on the first address may be taken on another.
                Err(BindError::Bind { address, source })
                    if first.port() == 0
                        && address.port() != 0
                        && source.kind() == io::ErrorKind::AddrInUse => {}
                _ => break,
            }
            answer = attempt();
        }
        answer
    }
}

fn open(
    address: SocketAddr,
    transport: Transport,
    only_v6: bool,
    interface: Option<&str>,
) -> Result<Socket, BindError> {
    Socket::open(address, transport, only_v6, interface).map_err(|source| {
        if transport == Transport::RawIp && source.kind() == io::ErrorKind::PermissionDenied {
            return BindError::RawNotPermitted(address);
        }
        match interface {
            // Nothing else about opening a socket can miss a device.
            Some(name) if is_about_interface(&source) => BindError::Interface {
                interface: name.to_owned(),
                source,
            },
            _ => BindError::Bind { address, source },
        }
    })
}

fn is_about_interface(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    error.raw_os_error() == Some(ENODEV) || error.kind() == io::ErrorKind::Unsupported
}
