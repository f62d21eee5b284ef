//! The endpoint: a socket, its SCTP ports, and the way to associations.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use anabranch_netsim::{LinkConfig, LinkStats};
use anabranch_proto::{CloseReason, ConnectOptions};
use tokio::net::ToSocketAddrs;

use crate::association::Association;
use crate::builder::EndpointBuilder;
use crate::driver::{Hub, lock};
use crate::error::{BindError, ConnectError, ListenError};
use crate::socket::{Socket, Transport};

/// A UDP (or raw IP) socket that carries any number of associations, begun here or accepted. Cheap to clone.
///
/// When the last handle is dropped, which returns at once, the endpoint accepts nothing more; its associations go on until they
/// are over, which has no bound while somebody holds one. A program that ends takes them with it: await
/// [`Endpoint::close`] before.
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

    /// An endpoint with all choices open.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    /// An endpoint over UDP on this address and UDP port, with all settings at their defaults. The port that SCTP
    /// over UDP is expected on is [`DEFAULT_UDP_PORT`](crate::DEFAULT_UDP_PORT); port 0 takes any free one, right
    /// for clients.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(local: impl ToSocketAddrs) -> Result<Self, BindError> {
        Self::builder().bind(local).await
    }

    /// The (first) local address and UDP port; port 0 if raw IP carries the packets.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        // There is always one: bind_all refuses an empty list.
        self.local_addrs()[0]
    }

    /// The local address and UDP port of every socket.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.handle.hub.sockets.iter().map(Socket::local).collect()
    }

    /// Accepts associations on this SCTP port, 1 to 65,535, from now on. An endpoint may listen on many.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen(&self, port: u16) -> Result<(), ListenError> {
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

    /// Accepts no more associations on this SCTP port. Those that exist go on.
    pub fn stop_listening(&self, port: u16) {
        let mut registry = lock(&self.handle.hub.registry);
        registry.core.stop_listening(port);
        registry.listening.retain(|&listening| listening != port);
    }

    /// The next association that a peer set up; `None` once the endpoint is closed. Several tasks may wait.
    /// Cancel safe.
    pub async fn accept(&self) -> Option<Association> {
        let hub = &self.handle.hub;
        loop {
            let mut acceptable = pin!(hub.acceptable.notified());
            acceptable.as_mut().enable();
            {
                let mut registry = lock(&hub.registry);
                if let Some(association) = registry.backlog.pop_front() {
                    return Some(association);
                }
                if registry.closed {
                    return None;
                }
            }
            acceptable.await;
        }
    }

    /// Sets up an association with SCTP port `port` at `remote` (address or name, and UDP port, which raw IP ignores).
    /// Of a name's addresses the first one that this endpoint's sockets can reach is taken.
    ///
    /// Set-up is tried as long as `Config::retransmissions` and `Config::rto` say, which is minutes by default: wrap
    /// it in `tokio::time::timeout` for less. Dropping the future gives it up. On Linux a closed UDP port is told at once, if the
    /// remote system says so by ICMP and its message proves that it has seen the INIT.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self, remote: impl ToSocketAddrs, port: u16) -> Result<Association, ConnectError> {
        self.connect_with(remote, port, ConnectOptions::default()).await
    }

    /// Like [`Endpoint::connect`], with a local port or address, or settings of its own.
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
            hub.sockets
                .iter()
                .any(|socket| socket.reaches(address.ip().to_canonical()))
        };
        let mut remote = addresses.find(reachable).ok_or(ConnectError::NoAddress)?;
        if hub.transport == Transport::RawIp {
            remote.set_port(0);
        }
        if let Some(config) = &mut options.config {
            config.udp_encapsulation = hub.transport == Transport::Udp;
            config.validate()?;
        }
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
            hub.adopt(&mut registry, id, core)
        };
        let association = Association::new(shared);
        match association.established().await {
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

    /// Closes the endpoint in order: no more associations, each one is shut down
    /// ([`Association::shutdown`](crate::Association::shutdown)), and all are awaited. Whoever holds one should still
    /// read it to its end. When it returns, the last packets have left, through the in-process link too if there is
    /// one. Takes no longer than the longest shutdown of an association (see there: `Config::shutdown_guard`, and that again
    /// for each 64 KiB that the peer acknowledges meanwhile; all are shut down at once), [`EndpointBuilder::linger`] and the link's delay; eight seconds more if
    /// that link lost the very last packet of an orderly end, until the peer asks for it again.
    pub async fn close(&self) {
        let hub = &self.handle.hub;
        hub.close();
        let associations: Vec<_> = lock(&hub.registry).associations.values().cloned().collect();
        for association in associations {
            // A panic ends that association alone, and is no reason not to close the others.
            let _ = association.try_with(|state, now| state.core.shutdown(now));
        }
        hub.stopped().await;
        hub.link_empty().await;
        hub.flush_capture();
    }

    /// Waits until there is no association, without ending any.
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

    /// How many associations there are, those being set up or shut down included.
    #[must_use]
    pub fn associations(&self) -> usize {
        lock(&self.handle.hub.registry).associations.len()
    }

    /// What the in-process link did: outward, inward. `None` if there is none.
    #[must_use]
    pub fn link_stats(&self) -> Option<(LinkStats, LinkStats)> {
        self.handle.hub.link_stats(None)
    }

    /// What the in-process link of one local address did ([`EndpointBuilder::path_link`]): outward, inward.
    #[must_use]
    pub fn path_link_stats(&self, local: IpAddr) -> Option<(LinkStats, LinkStats)> {
        self.handle.hub.link_stats(Some(local))
    }

    /// Changes the in-process link, both directions, for the packets to come; false if there is none.
    pub fn set_link(&self, link: &LinkConfig) -> bool {
        self.handle.hub.set_link(None, link)
    }

    /// Changes the in-process link of one local address ([`EndpointBuilder::path_link`]), both directions, for the packets to
    /// come; false if there is none.
    pub fn set_path_link(&self, local: IpAddr, link: &LinkConfig) -> bool {
        self.handle.hub.set_link(Some(local), link)
    }
}
