//! The options of an endpoint.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(any(feature = "capture", feature = "qlog"))]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "dtls")]
use anabranch_dtls::DtlsConfig;
#[cfg(feature = "link")]
use anabranch_netsim::LinkConfig;
use anabranch_proto::{Admission, Candidate, Config, Dscp, EndpointError};
use tokio::net::ToSocketAddrs;

#[cfg(feature = "capture")]
use crate::capture::Capture;
use crate::datagram::{Transport, fit_transport};
use crate::datagram_socket::DatagramSocket;
#[cfg(feature = "dtls")]
use crate::driver::fit_dtls;
use crate::driver::{Hub, Layers, Limits, LinkPlan, OpenSocket};
#[cfg(feature = "tls")]
use crate::driver::{TlsSettings, protection};
use crate::dscp;
use crate::endpoint::Endpoint;
use crate::error::BindError;
#[cfg(feature = "dtls")]
use crate::error::DtlsLimit;
use crate::interfaces::Interfaces;
use crate::observe::Observers;
#[cfg(feature = "qlog")]
use crate::observe::Qlog;
use crate::path_source::{Host, PathSource, PathSourceError};
use crate::socket::{GivenSocket, Socket, reachable_types};
use crate::system_socket::SystemSocket;

/// The application's decision about new associations.
#[derive(Clone)]
struct Filter(Arc<dyn Fn(&Candidate) -> Admission + Send + Sync>);

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Filter")
    }
}

/// Attempts to find a port that is free on all addresses.
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
    filter: Option<Filter>,
    #[cfg(feature = "capture")]
    capture: Option<PathBuf>,
    #[cfg(feature = "qlog")]
    qlog: Option<PathBuf>,
    #[cfg(feature = "dtls")]
    dtls: Option<DtlsConfig>,
    #[cfg(feature = "tls")]
    tls: Option<TlsSettings>,
    #[cfg(feature = "tls")]
    silent: bool,
    seed: Option<[u8; 32]>,
    interfaces: Vec<(IpAddr, String)>,
    watches_interfaces: bool,
}

impl Default for EndpointBuilder {
    fn default() -> Self {
        let limits = Limits {
            backlog: 128,
            max_associations: 65_536,
            max_joined_message: 16 << 20,
            linger: Duration::ZERO,
            connect: Duration::from_secs(10),
        };
        Self {
            config: Config::default(),
            transport: Transport::default(),
            limits,
            links: Vec::new(),
            filter: None,
            #[cfg(feature = "capture")]
            capture: None,
            #[cfg(feature = "qlog")]
            qlog: None,
            #[cfg(feature = "dtls")]
            dtls: None,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            silent: false,
            seed: None,
            interfaces: Vec::new(),
            watches_interfaces: false,
        }
    }
}

impl Endpoint {
    /// Starts to build an endpoint with options.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    /// Binds an endpoint over UDP to this address and UDP port, with default settings. Servers usually take
    /// [`DEFAULT_UDP_PORT`](crate::DEFAULT_UDP_PORT), clients port 0, which means any free port.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(local: impl ToSocketAddrs) -> Result<Self, BindError> {
        Self::builder().bind(local).await
    }
}

impl EndpointBuilder {
    /// The settings of the protocol. Binding sets [`Config::lower_layer`] to match the transport, and turns off the IP versions that no
    /// socket reaches.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The layer below SCTP. Default [`Transport::Udp`].
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Emulates a link in front of the sockets: one link for each direction, with random numbers from `seed`. Packets
    /// sent *and* received pass it, so that one endpoint alone can emulate a slow and lossy path in both directions.
    /// The link counts whole IP packets with their headers, and its timing is accurate to about 1 ms. It holds at most
    /// 64 MiB of packets, whatever its queue allows, and drops further packets. Needs the feature `link`.
    #[cfg(feature = "link")]
    pub fn link(self, link: LinkConfig, seed: u64) -> Self {
        self.add_link(None, link, seed)
    }

    /// Emulates a link for the socket on this local address only. It replaces the link of [`EndpointBuilder::link`] there, so
    /// that each path can have its own rate, delay and random losses.
    #[cfg(feature = "link")]
    pub fn path_link(self, local: IpAddr, link: LinkConfig, seed: u64) -> Self {
        self.add_link(Some(local), link, seed)
    }

    #[cfg(feature = "link")]
    fn add_link(mut self, local: Option<IpAddr>, config: LinkConfig, seed: u64) -> Self {
        self.links.retain(|plan| plan.local != local);
        self.links.push(LinkPlan { local, config, seed });
        self
    }

    /// Decides about each association that a peer sets up, before it takes memory: the peer has proven its address, and nothing else is kept
    /// of it. The function must not block. Default: all are accepted, up to [`EndpointBuilder::max_associations`].
    ///
    /// ```
    /// use anabranch::{Admission, Endpoint};
    ///
    /// let builder = Endpoint::builder().accept_filter(|candidate| match candidate.remote.ip().is_loopback() {
    ///     true => Admission::Accept,
    ///     false => Admission::Refuse,
    /// });
    /// ```
    pub fn accept_filter(mut self, filter: impl Fn(&Candidate) -> Admission + Send + Sync + 'static) -> Self {
        self.filter = Some(Filter(Arc::new(filter)));
        self
    }

    /// Writes a pcapng capture of all packets to this file, as the protocol sees them: sent packets before the in-process
    /// link, if there is one, and received packets after the link. Needs the feature `capture`.
    #[cfg(feature = "capture")]
    pub fn capture(mut self, path: impl Into<PathBuf>) -> Self {
        self.capture = Some(path.into());
        self
    }

    /// Writes the trace events of all associations to this qlog file: JSON text sequences (RFC 7464). The book describes the events
    /// (*Trace events*). Needs the feature `qlog`.
    #[cfg(feature = "qlog")]
    pub fn qlog(mut self, path: impl Into<PathBuf>) -> Self {
        self.qlog = Some(path.into());
        self
    }

    /// Encrypts everything with DTLS (RFC 8261): all associations, in both directions. Both peers show a certificate; the settings say which
    /// are accepted. An endpoint with DTLS does not answer peers without it.
    ///
    /// Binding sets [`Config::lower_layer`] and limits [`Config::path_mtu_limit`]. An association over DTLS has one path. Captures
    /// (`EndpointBuilder::capture`) have the packets in clear text. Needs the feature `dtls`.
    #[cfg(feature = "dtls")]
    pub fn dtls(mut self, config: DtlsConfig) -> Self {
        self.dtls = Some(config);
        self
    }

    /// Encrypts the packets of all associations, on every path (SCTP DTLS chunk, draft-ietf-tsvwg-sctp-dtls-chunk). The settings say how this
    /// endpoint shows who it is, and which peers it accepts. Unlike over DTLS (`EndpointBuilder::dtls`), an association has several paths,
    /// moves, and uses all extensions except authenticated chunks (RFC 4895).
    ///
    /// [`Endpoint::connect`] and [`Endpoint::accept`] return associations whose packets are encrypted in both directions. A peer that does
    /// not encrypt, or that is not accepted, gets no association: the error says who refused. Captures have the packets as they are sent.
    /// Needs the feature `tls`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{Endpoint, Identity, SecretKey, TlsSettings, TlsTrust};
    ///
    /// let (own, peer) = (SecretKey::generate()?, SecretKey::generate()?);
    /// let trust = TlsTrust::public_keys([peer.public()]);
    /// let builder = Endpoint::builder().secure(TlsSettings::new(&Identity::from_key(&own)?, &trust)?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    pub fn secure(mut self, settings: TlsSettings) -> Self {
        self.tls = Some(settings);
        self
    }

    /// Leaves packets of strangers without an answer: an INIT whose sender does not know the public key of this endpoint, and packets of no
    /// association. INITs to the peers (the first 16 of the settings) show that this endpoint knows their public keys, in an experimental
    /// parameter that others ignore. Needs [`EndpointBuilder::secure`] with public keys of the peers.
    ///
    /// An INIT that somebody recorded and sends again gets an INIT ACK, and nothing else.
    #[cfg(feature = "tls")]
    pub fn silent_to_strangers(mut self) -> Self {
        self.silent = true;
        self
    }

    /// Limit of associations that wait for [`Endpoint::accept`]; further associations are aborted. At least 1, default 128. With
    /// [`EndpointBuilder::secure`], handshakes that are not complete wait there for at most 60 s, and those from one address fill at most a
    /// quarter of it.
    pub fn backlog(mut self, associations: usize) -> Self {
        self.limits.backlog = associations.max(1);
        self
    }

    /// Limit of associations of the endpoint; further associations are aborted. At least 1, default 65,536.
    pub fn max_associations(mut self, associations: usize) -> Self {
        self.limits.max_associations = associations.max(1);
        self
    }

    /// Limit, in bytes, of the messages that [`Association::recv`](crate::Association::recv) reassembles at a time. A
    /// larger message is an error of `recv`; [`Association::recv_part`](crate::Association::recv_part) has no such
    /// limit. Default 16 MiB.
    pub fn max_joined_message(mut self, bytes: usize) -> Self {
        self.limits.max_joined_message = bytes;
        self
    }

    /// How long [`Endpoint::connect`] waits until the peer has set up the association, before it fails with
    /// [`ConnectError::TimedOut`](crate::ConnectError::TimedOut). Default 10 s. With [`Duration::MAX`],
    /// `Config::retransmissions` and `Config::rto` alone limit it: minutes with the values of RFC 9260.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.limits.connect = limit;
        self
    }

    /// How long a closed endpoint still answers packets after its last association has ended; [`Endpoint::close`] waits
    /// for this time. Default zero: instead of waiting, an endpoint that shut an association down gracefully sends two copies of its last packet,
    /// the SHUTDOWN COMPLETE, one RTT apart (1 ms to 200 ms). On a path that loses a tenth of its packets, the peer misses all three
    /// once in a thousand times.
    ///
    /// If all are lost, the peer retransmits its SHUTDOWN ACK after its retransmission timeout, at least 1 s by default. If nobody answers, the
    /// peer's association ends only at its own time limit (`Config::shutdown_guard`), also gracefully. 2 s suit a path with
    /// long outages. If the in-process link dropped the last packet, the endpoint lingers also without this
    /// setting ([`Endpoint::close`]).
    pub fn linger(mut self, time: Duration) -> Self {
        self.limits.linger = time;
        self
    }

    /// Seeds all random numbers of the protocol, for reproducible tests. Never use it in production: verification tags
    /// and cookies would be predictable. Default: random numbers of the operating system.
    pub fn insecure_seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Restricts the socket on this local address to one network interface (`SO_BINDTODEVICE`), whatever the routing
    /// table says, so that two paths never share an interface. The address need not belong to the interface; an
    /// unspecified address selects the socket that is bound to every address. Linux only.
    pub fn interface(mut self, local: IpAddr, name: impl Into<String>) -> Self {
        self.interfaces.push((local, name.into()));
        self
    }

    /// Follows the addresses of this host while associations last (RFC 5061): when an interface or a route changes, each association with
    /// `Config::dynamic_addresses` moves to the address from which the system now sends to its peer. While the old address still works,
    /// nothing is interrupted. Needs a socket on an unspecified address, or [`EndpointBuilder::bind_paths`], whose paths follow the host in
    /// any case: an interface may then appear later. Linux only.
    pub fn watch_interfaces(mut self, watches: bool) -> Self {
        self.watches_interfaces = watches;
        self
    }

    /// Binds a UDP socket to an address and UDP port (port 0 takes any free port), or a raw IP socket, which ignores the
    /// port. An unspecified address (`0.0.0.0`, `[::]`) means every local address; `[::]` includes IPv4.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(self, local: impl ToSocketAddrs) -> Result<Endpoint, BindError> {
        let mut addresses = tokio::net::lookup_host(local).await.map_err(BindError::Resolve)?;
        let address = addresses.next();
        let address = address.ok_or_else(|| BindError::Resolve(io::ErrorKind::NotFound.into()))?;
        self.bind_all(&[address])
    }

    /// Binds a socket on each of several addresses, for several paths. All sockets take the UDP port of the first
    /// address, because SCTP over UDP has one port (RFC 6951 §4.1). IPv4 and IPv6 addresses may be mixed; together with
    /// IPv4 addresses, `[::]` is IPv6 only. Must be called within a tokio runtime.
    ///
    /// Peers are told of these addresses, unless one is unspecified or `Config::local_addresses` lists others.
    ///
    /// # Errors
    /// See [`BindError`]. An empty list gives [`BindError::Resolve`].
    pub fn bind_all(mut self, locals: &[SocketAddr]) -> Result<Endpoint, BindError> {
        self.list_addresses(locals);
        self.prepare(locals.len())?;
        let sockets = self.open_all(locals)?;
        let interfaces = self.watched_interfaces(locals)?;
        self.start(stay(sockets), Vec::new(), interfaces)
    }

    /// Binds a socket on each address of these interfaces and addresses, bound to its interface where the system can, all with this UDP port
    /// (0 takes any free port). Each association has a path from each of them, and follows them: an address that appears joins, and one
    /// that the host loses leaves at once. [`Endpoint::connect`] begins at the first address that reaches the peer, unless
    /// `Config::path_pairs` names another one. Must be called within a tokio runtime. Linux only.
    ///
    /// It sets `Config::local_addresses`, and `Config::dynamic_addresses` if it is not set. With
    /// [`EndpointBuilder::watch_interfaces`], an interface need not exist yet.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::{Config, Endpoint, MultipathMode, PathSource};
    ///
    /// let mut config = Config::default();
    /// config.multipath.mode = MultipathMode::Cmt;
    /// let builder = Endpoint::builder().config(config);
    /// let endpoint = builder.bind_paths(&["wlan0".into(), "wwan0".into()], 0)?;
    /// let association = endpoint.connect("203.0.113.5:9899").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`BindError`]; [`BindError::Path`] if an interface does not exist, or no address does.
    pub fn bind_paths(mut self, sources: &[PathSource], port: u16) -> Result<Endpoint, BindError> {
        if !self.watches_interfaces {
            sources.iter().try_for_each(PathSource::check)?;
        }
        let host = Host::read(sources).map_err(PathSourceError::System)?;
        let mut addresses = host.addresses_of_all(sources, &[]);
        // Binding reports an address that the host does not have, unless the application expects it later.
        addresses.extend(sources.iter().filter_map(|source| match source {
            PathSource::Address(address) if !self.watches_interfaces && !host.has(*address) => Some(*address),
            _ => None,
        }));
        if addresses.is_empty() {
            return Err(PathSourceError::NoAddress.into());
        }
        self.config.local_addresses.clone_from(&addresses);
        self.config.dynamic_addresses.get_or_insert_default();
        self.prepare(addresses.len())?;
        let devices: Vec<_> = addresses
            .iter()
            .map(|address| host.interface_of(*address))
            .collect();
        let locals: Vec<_> = addresses
            .iter()
            .map(|address| SocketAddr::new(*address, port))
            .collect();
        let named = addresses.iter().zip(&devices);
        let named = named.filter_map(|(address, device)| Some((*address, device.as_ref()?.name.clone())));
        self.interfaces.extend(named);
        let sockets = match self.open_all(&locals) {
            // Linux before 5.7 lets only privileged programs bind to an interface. The routes then choose it.
            Err(BindError::Interface { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                self.interfaces.clear();
                self.open_all(&locals)
            }
            opened => opened,
        }?;
        let sockets = sockets.into_iter().zip(devices);
        let sockets = sockets
            .map(|(socket, device)| OpenSocket::new(socket, device, true))
            .collect();
        let interfaces = Interfaces::open().map_err(BindError::Watch)?;
        self.start(sockets, sources.to_vec(), Some(interfaces))
    }

    /// Uses this socket, which moves datagrams as the application wants: through a tunnel, a relay, or an emulated network. ICMP messages
    /// and Differentiated Services codepoints do not pass it. If a layer adds bytes to each packet that a UDP socket would not,
    /// [`Config::lower_layer`] says how many ([`LowerLayer::Tunnel`](crate::LowerLayer::Tunnel)). Must be called within a tokio runtime.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use anabranch::Endpoint;
    ///
    /// let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// let endpoint = Endpoint::builder().bind_socket(socket)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`BindError`]; [`BindError::GivenSocket`] if an option was chosen that only sockets of the system have.
    pub fn bind_socket(self, socket: impl DatagramSocket) -> Result<Endpoint, BindError> {
        self.bind_sockets([socket])
    }

    /// The same with a socket for each of several local addresses, and so with several paths: a packet leaves through the socket on the local
    /// address of its path. The sockets have one port. If there are several, each has an address of its own, and peers are told of these
    /// addresses unless `Config::local_addresses` lists others. Sockets of several types are given as `Arc<dyn DatagramSocket>`. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// As for [`EndpointBuilder::bind_socket`]; [`BindError::GivenSockets`] if the addresses of the sockets do not fit together. No socket
    /// gives [`BindError::Resolve`].
    pub fn bind_sockets<S: DatagramSocket>(
        mut self,
        sockets: impl IntoIterator<Item = S>,
    ) -> Result<Endpoint, BindError> {
        let refused = [
            (self.transport != Transport::Udp, "transport"),
            (!self.interfaces.is_empty(), "interface"),
            (self.watches_interfaces, "watch_interfaces"),
            (self.config.dscp != Dscp::default(), "Config::dscp"),
        ];
        if let Some((_, option)) = refused.into_iter().find(|(is_chosen, _)| *is_chosen) {
            return Err(BindError::GivenSocket(option));
        }
        let sockets: Vec<_> = sockets
            .into_iter()
            .map(GivenSocket::new)
            .collect::<io::Result<_>>()
            .map_err(BindError::Resolve)?;
        let locals: Vec<_> = sockets.iter().map(GivenSocket::local).collect();
        check_given(&locals)?;
        self.list_addresses(&locals);
        self.prepare(locals.len())?;
        let sockets = sockets.into_iter().map(Socket::Given).collect();
        self.start(stay(sockets), Vec::new(), None)
    }
}

impl EndpointBuilder {
    /// Peers are told of several addresses, unless one is unspecified or the application lists others.
    fn list_addresses(&mut self, locals: &[SocketAddr]) {
        let known = locals.iter().all(|local| !local.ip().is_unspecified());
        if known && locals.len() > 1 && self.config.local_addresses.is_empty() {
            self.config.local_addresses = locals.iter().map(SocketAddr::ip).collect();
        }
    }

    /// Checks the settings, and adapts them to the layers below.
    fn prepare(
        &mut self,
        #[cfg_attr(not(feature = "dtls"), expect(unused))] addresses: usize,
    ) -> Result<(), BindError> {
        fit_transport(&mut self.config, self.transport);
        #[cfg(feature = "tls")]
        if let Some(settings) = &self.tls {
            self.config.require_protection(protection(settings));
        }
        #[cfg(feature = "dtls")]
        if self.dtls.is_some() {
            if self.transport != Transport::Udp {
                return Err(BindError::Dtls(DtlsLimit::RawIp));
            }
            if addresses > 1 {
                return Err(BindError::Dtls(DtlsLimit::SeveralAddresses));
            }
            fit_dtls(&mut self.config).map_err(BindError::Dtls)?;
        }
        self.config.validate()?;
        dscp::check(self.config.dscp)?;
        Ok(())
    }

    fn start(
        mut self,
        sockets: Vec<OpenSocket>,
        sources: Vec<PathSource>,
        interfaces: Option<Interfaces>,
    ) -> Result<Endpoint, BindError> {
        self.config
            .limit_address_types(reachable_types(sockets.iter().map(|socket| &**socket)));
        let seed = match self.seed {
            Some(seed) => seed,
            None => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|error| BindError::Random(error.to_string()))?;
                seed
            }
        };
        let mut core = anabranch_proto::Endpoint::new(self.config, seed).map_err(|error| match error {
            EndpointError::Config(error) => BindError::Config(error),
            other => BindError::Random(other.to_string()),
        })?;
        if let Some(Filter(filter)) = self.filter {
            core.set_accept_filter(move |candidate| filter(candidate));
        }
        #[cfg(feature = "tls")]
        if self.silent {
            let guard = self.tls.as_ref().and_then(TlsSettings::init_guard);
            core.set_init_guard(guard.ok_or(BindError::SilenceNeedsKeys)?);
        }
        #[allow(unused_mut, reason = "without the features that record")]
        let mut observers = Observers::default();
        #[cfg(feature = "capture")]
        if let Some(path) = self.capture {
            let capture = Capture::create(&path).map_err(|source| BindError::Capture { path, source })?;
            observers.capture = Some(capture);
        }
        #[cfg(feature = "qlog")]
        if let Some(path) = self.qlog {
            let qlog = Qlog::create(&path).map_err(|source| BindError::Qlog { path, source })?;
            observers.qlog = Some(qlog);
        }
        let hub = Hub::start(
            core,
            observers,
            sockets,
            self.transport,
            self.limits,
            Layers {
                links: self.links,
                interfaces,
                sources,
                moves: self.watches_interfaces,
                #[cfg(feature = "dtls")]
                dtls: self.dtls,
                #[cfg(feature = "tls")]
                tls: self.tls,
                #[cfg(not(feature = "tls"))]
                tls: None,
            },
        );
        Ok(Endpoint::new(Arc::clone(&hub)))
    }

    fn watched_interfaces(&self, locals: &[SocketAddr]) -> Result<Option<Interfaces>, BindError> {
        if !self.watches_interfaces {
            return Ok(None);
        }
        if let Some(bound) = locals.iter().find(|local| !local.ip().is_unspecified()) {
            return Err(BindError::WatchesBound(*bound));
        }
        Interfaces::open().map(Some).map_err(BindError::Watch)
    }

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
    let opened = SystemSocket::open(address, transport, only_v6, interface);
    opened.map(Socket::System).map_err(|source| {
        if transport == Transport::RawIp && source.kind() == io::ErrorKind::PermissionDenied {
            return BindError::RawNotPermitted(address);
        }
        match interface {
            // No other step of opening a socket reports a missing device.
            Some(name) if is_about_interface(&source) => BindError::Interface {
                interface: name.to_owned(),
                source,
            },
            _ => BindError::Bind { address, source },
        }
    })
}

/// Whether sockets on these addresses may belong to one endpoint: SCTP over UDP has one port (RFC 6951 §4.1), and an address names its socket.
fn check_given(locals: &[SocketAddr]) -> Result<(), BindError> {
    let first = locals
        .first()
        .ok_or_else(|| BindError::Resolve(io::ErrorKind::NotFound.into()))?;
    let fits = |(index, local): (usize, &SocketAddr)| {
        let is_own = locals[..index].iter().all(|other| other.ip() != local.ip());
        is_own && !local.ip().is_unspecified() && local.port() == first.port()
    };
    let wrong = locals
        .iter()
        .enumerate()
        .find(|one| !fits(*one))
        .filter(|_| locals.len() > 1);
    wrong.map_or(Ok(()), |(_, local)| Err(BindError::GivenSockets(*local)))
}

/// Sockets that last as long as the endpoint.
fn stay(sockets: Vec<Socket>) -> Vec<OpenSocket> {
    let open = |socket| OpenSocket::new(socket, None, false);
    sockets.into_iter().map(open).collect()
}

fn is_about_interface(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    error.raw_os_error() == Some(ENODEV) || error.kind() == io::ErrorKind::Unsupported
}
