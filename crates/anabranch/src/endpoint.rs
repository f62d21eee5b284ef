//! The endpoint: its sockets, its SCTP ports, and connecting and accepting associations.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

#[cfg(feature = "link")]
use anabranch_netsim::{LinkConfig, LinkStats};
use anabranch_proto::{CloseReason, ConnectOptions};
use tokio::net::ToSocketAddrs;

use crate::DEFAULT_SCTP_PORT;
use crate::association::Association;
use crate::datagram::{Transport, fit_transport};
#[cfg(feature = "dtls")]
use crate::driver::fit_dtls;
use crate::driver::{Hub, Origin, Registry, protection};
use crate::dscp;
use crate::error::{ConnectError, ListenError};
use crate::failed_handshake::FailedHandshake;
use crate::lock::lock;
use crate::socket::reachable_types;

/// UDP (or raw IP) sockets that carry any number of associations, connected or accepted. Cheap to clone.
///
/// Dropping the last handle returns at once. The endpoint then accepts no associations, but existing associations continue
/// until they end, without a time limit while the program holds their handles. A program that exits loses them: await
/// [`Endpoint::close`] first.
#[derive(Clone, Debug)]
pub struct Endpoint {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    hub: Arc<Hub>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hub.close();
    }
}

impl Endpoint {
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self {
            handle: Arc::new(Handle { hub }),
        }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.handle.hub
    }

    /// The first local address and UDP port; the port is 0 over raw IP.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        // There is at least one socket: bind_all refuses an empty list.
        self.local_addrs()[0]
    }

    /// The local address and UDP port of every socket.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let sockets = self.handle.hub.sockets.all();
        sockets.iter().map(|socket| socket.local()).collect()
    }

    /// Accepts associations on SCTP port [`DEFAULT_SCTP_PORT`] from now on.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen(&self) -> Result<(), ListenError> {
        self.listen_on_port(DEFAULT_SCTP_PORT)
    }

    /// Like [`Endpoint::listen`], on another SCTP port, 1 to 65,535. An endpoint may listen on several ports: each names a service.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen_on_port(&self, port: u16) -> Result<(), ListenError> {
        let mut registry = lock(&self.handle.hub.registry);
        if registry.closed {
            return Err(ListenError::Closed);
        }
        registry.core.listen(port).map_err(|_| ListenError::PortZero)?;
        if !registry.listening.contains(&port) {
            registry.listening.push(port);
        }
        Ok(())
    }

    /// Accepts no more associations on this SCTP port. Existing associations continue.
    pub fn stop_listening(&self, port: u16) {
        let mut registry = lock(&self.handle.hub.registry);
        registry.core.stop_listening(port);
        registry.listening.retain(|&listening| listening != port);
    }

    /// The next association that a peer set up, and whose packets are encrypted if the endpoint demands it
    /// (`EndpointBuilder::secure`); `None` once the endpoint is closed. Several tasks may wait.
    /// Cancel safe.
    pub async fn accept(&self) -> Option<Association> {
        self.next(Registry::next_in_backlog).await.map(Association::new)
    }

    /// Sets up an association with `remote` (address or name, and UDP port, which raw IP ignores), on SCTP port
    /// [`DEFAULT_SCTP_PORT`]. If a name has several addresses, the first address that this endpoint's sockets can reach is used.
    ///
    /// The INIT is retransmitted as `Config::retransmissions` and `Config::rto` say, for at most
    /// [`EndpointBuilder::connect_timeout`](crate::EndpointBuilder::connect_timeout), 10 s by default. Dropping the future aborts the
    /// setup. On Linux, if an ICMP message reports that the UDP port is closed and quotes the INIT, the call fails at once.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, remote: impl ToSocketAddrs) -> Result<Association, ConnectError> {
        self.connect_to_port(remote, DEFAULT_SCTP_PORT).await
    }

    /// Like [`Endpoint::connect`], with another SCTP port of the peer ([`Endpoint::listen_on_port`]).
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_to_port(
        &self,
        remote: impl ToSocketAddrs,
        port: u16,
    ) -> Result<Association, ConnectError> {
        self.connect_with(remote, port, ConnectOptions::default()).await
    }

    /// Like [`Endpoint::connect_to_port`], with a local SCTP port, a local address or settings for this association.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect_with(
        &self,
        remote: impl ToSocketAddrs,
        port: u16,
        mut options: ConnectOptions,
    ) -> Result<Association, ConnectError> {
        let hub = &self.handle.hub;
        let mut addresses = tokio::net::lookup_host(remote)
            .await
            .map_err(ConnectError::Resolve)?;
        let reachable = |address: &SocketAddr| {
            let sockets = hub.sockets.all();
            sockets
                .iter()
                .any(|socket| socket.reaches(address.ip().to_canonical()))
        };
        let mut remote = addresses.find(reachable).ok_or(ConnectError::NoAddress)?;
        if hub.transport == Transport::RawIp {
            remote.set_port(0);
        }
        if let Some(config) = &mut options.config {
            fit_transport(config, hub.transport);
            if let Some(settings) = &hub.tls {
                config.require_protection(protection(settings));
            }
            #[cfg(feature = "dtls")]
            if hub.has_dtls() {
                fit_dtls(config).map_err(ConnectError::DtlsLimit)?;
            }
            config.limit_address_types(reachable_types(hub.sockets.all().iter().map(|socket| &***socket)));
            config.validate()?;
            dscp::check(config.dscp)?;
        }
        #[cfg(feature = "dtls")]
        if !lock(&hub.registry).closed {
            // The INIT waits for this handshake. It begins before the endpoint's lock is taken, because that is cryptography.
            hub.connect_dtls(remote);
        }
        self.begin_at_sources(remote, &mut options);
        let shared = {
            let mut registry = lock(&hub.registry);
            let config = options.config.as_ref().unwrap_or(registry.core.config());
            if options.local_address.is_none() && config.paired_with(remote.ip()).is_none() {
                options.local_address = hub.local_address_towards(remote);
            }
            if registry.closed {
                return Err(ConnectError::Closed);
            }
            let now = registry.tick(hub.now());
            let (id, core) = registry.core.connect(now, remote, port, options)?;
            hub.adopt(&mut registry, id, core, Origin::default())
        };
        let association = Association::new(shared);
        let established = tokio::time::timeout(hub.limits.connect, association.established()).await;
        // Dropping the handle aborts the setup.
        let established = established.unwrap_or(Err(CloseReason::SetUpTimedOut));
        #[cfg(feature = "dtls")]
        if established.is_err()
            && let Some(reason) = association.shared().bond.ended()
        {
            return Err(ConnectError::Dtls { remote, reason });
        }
        match established {
            Ok(()) => Ok(association),
            Err(CloseReason::SetUpTimedOut) => Err(match association.refused() {
                Some(source) => ConnectError::Unsent { remote, source },
                None => ConnectError::TimedOut { remote, port },
            }),
            Err(CloseReason::ProtocolUnreachable { remote }) => {
                Err(ConnectError::ProtocolUnreachable { remote })
            }
            Err(reason) => Err(ConnectError::Refused { remote, port, reason }),
        }
    }

    /// If the endpoint has sources of paths, lists the addresses that they have now, and begins at the first that reaches the peer.
    fn begin_at_sources(&self, remote: SocketAddr, options: &mut ConnectOptions) {
        let hub = &self.handle.hub;
        if hub.following.sources().is_empty() {
            return;
        }
        let addresses = hub.source_addresses();
        let config = options.config.take();
        let mut config = config.unwrap_or_else(|| lock(&hub.registry).core.config().clone());
        if options.local_address.is_none() && config.paired_with(remote.ip()).is_none() {
            let reaches = |address: &&IpAddr| address.is_ipv4() == remote.ip().to_canonical().is_ipv4();
            options.local_address = addresses.iter().find(reaches).copied();
        }
        config.local_addresses = addresses;
        options.config = Some(config);
    }

    /// Closes the endpoint gracefully: it accepts no more associations, shuts every association down at the same time
    /// ([`Association::shutdown`](crate::Association::shutdown)), and waits until all have ended. Meanwhile the program should
    /// receive the remaining messages of each association. When `close` returns, the in-process link is empty too.
    ///
    /// `close` takes at most the longest shutdown of an association ([`Association::shutdown`](crate::Association::shutdown)), plus
    /// two RTTs for copies of the last packet (400 ms at most) or [`EndpointBuilder::linger`](crate::EndpointBuilder::linger), and the delay of
    /// the link. It takes up to 8 s more if the in-process link dropped all of these packets: the peer must retransmit its SHUTDOWN ACK.
    pub async fn close(&self) {
        let hub = &self.handle.hub;
        hub.close();
        let associations: Vec<_> = lock(&hub.registry).associations.values().cloned().collect();
        for association in associations {
            // A panic ends only this association; the other associations are still shut down.
            let _ = association.try_with(|state, now| state.core.shutdown(now));
        }
        hub.stopped().await;
        hub.flush_records().await;
    }

    /// Waits until the endpoint has no association. It does not end any.
    pub async fn idle(&self) {
        let hub = &self.handle.hub;
        loop {
            let mut idle = pin!(hub.idle.notified());
            idle.as_mut().enable();
            if lock(&hub.registry).associations.is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// The number of associations, including those in setup or shutdown.
    #[must_use]
    pub fn associations(&self) -> usize {
        lock(&self.handle.hub.registry).associations.len()
    }

    /// The number of associations that peers began and that ended before their packets were encrypted, for example because this endpoint does
    /// not accept the public key of the peer. [`Endpoint::accept`] does not return them. [`Endpoint::next_failed_handshake`] and the log
    /// (`tracing`, level `info`) have the address of each peer and the reason. Always 0 if the endpoint does not encrypt in DTLS chunks
    /// (`EndpointBuilder::secure`). Peers that offer no encryption do not count: the endpoint refuses them before an association begins.
    #[must_use]
    pub fn failed_handshakes(&self) -> u64 {
        lock(&self.handle.hub.registry).failed_handshakes.count()
    }

    /// The next association that [`Endpoint::failed_handshakes`] counts; `None` once the endpoint is closed. The endpoint keeps the last 16 until
    /// they are taken. Anybody can cause them: limit what you do about each. Cancel safe.
    pub async fn next_failed_handshake(&self) -> Option<FailedHandshake> {
        self.next(|registry| registry.failed_handshakes.take()).await
    }

    /// What `take` finds, as soon as it finds something; `None` once the endpoint is closed.
    async fn next<T>(&self, take: impl Fn(&mut Registry) -> Option<T>) -> Option<T> {
        let hub = &self.handle.hub;
        loop {
            let mut acceptable = pin!(hub.acceptable.notified());
            acceptable.as_mut().enable();
            {
                let mut registry = lock(&hub.registry);
                let taken = take(&mut registry);
                if taken.is_some() || registry.closed {
                    return taken;
                }
            }
            acceptable.await;
        }
    }
}

/// The in-process link: needs the feature `link`.
#[cfg(feature = "link")]
impl Endpoint {
    /// Counters of the in-process link: outbound, inbound. `None` without a link.
    #[must_use]
    pub fn link_stats(&self) -> Option<(LinkStats, LinkStats)> {
        self.handle.hub.link_stats(None)
    }

    /// Counters of the in-process link of one local address ([`EndpointBuilder::path_link`](crate::EndpointBuilder::path_link)): outbound, inbound.
    #[must_use]
    pub fn path_link_stats(&self, local: IpAddr) -> Option<(LinkStats, LinkStats)> {
        self.handle.hub.link_stats(Some(local))
    }

    /// Changes both directions of the in-process link for later packets; false without a link.
    pub fn set_link(&self, link: &LinkConfig) -> bool {
        self.handle.hub.set_link(None, link)
    }

    /// Changes both directions of the in-process link of one local address ([`EndpointBuilder::path_link`](crate::EndpointBuilder::path_link)) for later
    /// packets; false without a link.
    pub fn set_path_link(&self, local: IpAddr, link: &LinkConfig) -> bool {
        self.handle.hub.set_link(Some(local), link)
    }
}
