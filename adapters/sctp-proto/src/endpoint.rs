//! The endpoint: it routes datagrams to associations.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use anabranch_proto::{self as proto, Admission, ConnectOptions, Handling, Timestamp};
use bytes::Bytes;

use crate::association::Association;
use crate::clock::Clock;
use crate::config::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig};
use crate::error::{ConnectError, SnapError};
use crate::event::{AssociationEvent, EndpointEvent};
use crate::packet::{EcnCodepoint, Payload, Side, Transmit};

/// The most associations of a server.
const MOST_ASSOCIATIONS: usize = 100_000;
/// The most answers of the endpoint itself that wait for [`Endpoint::poll_transmit`]. Peers retransmit what has no answer.
const MOST_ANSWERS: usize = 256;

/// An association of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationHandle(pub usize);

impl From<AssociationHandle> for usize {
    fn from(handle: AssociationHandle) -> Self {
        handle.0
    }
}

impl AssociationHandle {
    fn of(id: proto::AssociationId) -> Self {
        Self(usize::try_from(id.0).expect("fewer associations than addresses of memory"))
    }
}

/// The result of a datagram: [`Endpoint::handle`].
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "callers of sctp-proto own the association"
)]
pub enum DatagramEvent {
    /// Pass it to [`Association::handle_event`] of the association.
    AssociationEvent(AssociationEvent),
    /// A peer set up this association. `sctp-proto` returns it for the INIT; this crate does when the peer has returned its cookie.
    NewAssociation(Association),
}

/// An endpoint.
#[derive(Debug)]
pub struct Endpoint {
    core: proto::Endpoint,
    config: Arc<EndpointConfig>,
    /// Of associations that peers set up.
    server: Arc<TransportConfig>,
    clock: Clock,
    answers: VecDeque<Transmit>,
}

impl Endpoint {
    /// An endpoint. With `server_config`, peers may set up associations to the local SCTP port of those settings.
    ///
    /// # Panics
    /// If the system has no random numbers, or a setting of the core is out of its range: see [`proto::Config::validate`].
    #[must_use]
    pub fn new(config: Arc<EndpointConfig>, server_config: Option<Arc<ServerConfig>>) -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the system has random numbers");
        let listens = server_config.is_some();
        let server = server_config.map_or_else(Default::default, |server| server.transport.clone());
        let mut core = proto::Endpoint::new(server.core(config.get_max_payload_size()), seed)
            .expect("all settings are in their ranges");
        if listens {
            core.listen(server.local_port)
                .expect("the SCTP port of a server is not 0");
        }
        core.set_accept_filter(|candidate| {
            if candidate.associations < MOST_ASSOCIATIONS {
                Admission::Accept
            } else {
                Admission::Refuse
            }
        });
        Self {
            core,
            config,
            server,
            clock: Clock::starting_at(Timestamp::ZERO),
            answers: VecDeque::new(),
        }
    }

    /// The next answer of the endpoint itself, as an INIT ACK.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.answers.pop_front()
    }

    /// Handles an event of an association of this endpoint. There is never an answer.
    pub fn handle_event(
        &mut self,
        handle: AssociationHandle,
        event: EndpointEvent,
    ) -> Option<AssociationEvent> {
        let id = proto::AssociationId(handle.0 as u64);
        self.core.handle_event(self.clock.now(), id, event.0);
        None
    }

    /// Handles a datagram.
    pub fn handle(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        ecn: Option<EcnCodepoint>,
        data: Bytes,
    ) -> Option<(AssociationHandle, DatagramEvent)> {
        let at = self.clock.advance(now);
        let ecn = EcnCodepoint::to_core(ecn);
        match self.core.handle_datagram(at, local_ip, remote, data, ecn) {
            Handling::Done => None,
            Handling::Reply(reply) => {
                if self.answers.len() < MOST_ANSWERS {
                    self.answers.push_back(Transmit {
                        now,
                        remote: reply.destination,
                        ecn: None,
                        local_ip: reply.source,
                        payload: Payload::RawEncode(vec![reply.packet]),
                    });
                }
                None
            }
            Handling::Deliver(id, packet) => {
                let event = AssociationEvent { now, packet };
                Some((AssociationHandle::of(id), DatagramEvent::AssociationEvent(event)))
            }
            Handling::Accept(id, core) => {
                let association =
                    Association::new(core, self.clock, &self.server, Side::Server, remote, local_ip);
                Some((
                    AssociationHandle::of(id),
                    DatagramEvent::NewAssociation(association),
                ))
            }
        }
    }

    /// Begins an association. Its set-up begins at the time of the first call of the association that has one.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        config: ClientConfig,
        remote: SocketAddr,
    ) -> Result<(AssociationHandle, Association), ConnectError> {
        let transport = &config.transport;
        if remote.port() == 0 {
            return Err(ConnectError::InvalidRemoteAddress(remote));
        }
        if transport.local_port == 0 || transport.remote_port == 0 {
            return Err(ConnectError::InvalidSctpPort);
        }
        if config.snap {
            return Err(SnapError::NotSupported.into());
        }
        let now = self.clock.now();
        let options = ConnectOptions::default()
            .local_port(transport.local_port)
            .config(transport.core(self.config.get_max_payload_size()));
        let (id, core) = self.core.connect(now, remote, transport.remote_port, options)?;
        let clock = Clock::starting_at(now);
        let association = Association::new(core, clock, transport, Side::Client, remote, None);
        Ok((AssociationHandle::of(id), association))
    }

    /// Accepts no associations from now on.
    pub fn reject_new_associations(&mut self) {
        self.core.stop_listening(self.server.local_port);
    }

    /// The settings of the endpoint.
    #[must_use]
    pub fn config(&self) -> &EndpointConfig {
        &self.config
    }
}
