//! The types of an endpoint and of its associations, which hold each other; their work is in the files beside. Here are the start and the end
//! of an endpoint, its sockets, and the routing of packets to associations.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(feature = "link")]
use anabranch_netsim::{LinkConfig, LinkStats};
use anabranch_proto::{
    AssociationId, Dscp, EcnCodepoint, EndpointEvent, Handling, IcmpKind, IcmpMessage, Inbound, Reply,
    Timestamp, VerificationTag,
};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::dtls_layer::{Bond, DtlsLayer, Origin};
use super::following::Following;
use super::inbox::{Inbox, Input, Taken};
use super::keys::{Keys, TlsSettings};
use super::last_packets::{LastPacket, LastPackets};
use super::link_layer::{LinkLayer, LinkPlan};
use super::readiness::{Readiness, SharedReadiness};
use super::sockets::{OpenSocket, Sockets};
use super::state::State;
use crate::datagram::{Datagram, Outgoing, Transport};
use crate::failed_handshake::{FailedHandshake, FailedHandshakes};
use crate::interfaces::Interfaces;
use crate::lock::lock;
use crate::observe::{Observers, Watched};
use crate::path_source::PathSource;

/// Waits until the endpoint's tasks have to end.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the endpoint was dropped, and the sender with it.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Ends the endpoint's tasks when this value is dropped, also when the runtime ends.
pub(super) struct Stop(pub(super) watch::Sender<bool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Limits that the builder set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) backlog: usize,
    pub(crate) max_associations: usize,
    pub(crate) max_joined_message: usize,
    pub(crate) linger: Duration,
    pub(crate) connect: Duration,
}

/// A packet of this length fits every path: the smallest IPv6 MTU, 1,280 bytes, less the IPv6 and UDP headers.
const SURELY_FITS: usize = 1232;

/// One endpoint, shared by its handles, its tasks and its associations.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) registry: Mutex<Registry>,
    pub(crate) sockets: Sockets,
    pub(crate) transport: Transport,
    pub(crate) limits: Limits,
    pub(crate) following: Following,
    /// The codepoint of answers to packets without an association.
    dscp: Dscp,
    pub(super) link: Option<LinkLayer>,
    pub(crate) observers: Observers,
    pub(super) dtls: Option<DtlsLayer>,
    /// How keys are agreed, if the packets of all associations are encrypted in DTLS chunks.
    pub(crate) tls: Option<TlsSettings>,
    started: Instant,
    /// A new association waits for `accept`, or the endpoint is closed.
    pub(crate) acceptable: Notify,
    /// The last association was removed.
    pub(crate) idle: Notify,
    pub(super) stop: watch::Sender<bool>,
}

/// One association, shared by its handles, its task and its endpoint.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) id: AssociationId,
    /// The address of the peer that set-up used.
    from: IpAddr,
    /// The peer in the eyes of the layer below.
    pub(crate) bond: Bond,
    /// Where the association's trace events go.
    pub(super) watched: Watched,
    pub(super) state: Mutex<State>,
    /// Calls of the application that wait for the lock: `transmit` lets them run first after each burst.
    pub(super) waiting: AtomicUsize,
    /// Emptied only under the state's lock, to keep the packets in order.
    pub(super) inbox: Mutex<Inbox>,
    pub(super) max_datagrams: usize,
    /// Whether the application may have it.
    pub(super) readiness: SharedReadiness,
    /// The task must run: there is input or data to send, or a timer expires earlier.
    pub(super) drive: Notify,
    /// `recv` may find a message.
    pub(crate) readable: Notify,
    /// The association was established, drained or closed, or an event waits.
    pub(crate) changed: Notify,
}

impl Shared {
    fn new(
        hub: Arc<Hub>,
        id: AssociationId,
        mut core: Box<anabranch_proto::Association>,
        watched: Watched,
        origin: Origin,
    ) -> Self {
        let max_datagrams = hub.max_datagrams();
        let sources = hub.following.sources().to_vec();
        let from = core.remote_address().ip();
        let bond = Bond::new(core.remote_address(), origin);
        let keys = hub.tls.as_ref().map(|settings| Keys::new(settings, &mut core));
        let started = hub.started.into_std();
        let readiness = if keys.is_some() {
            Readiness::Waiting
        } else {
            Readiness::Ready
        };
        Self {
            hub,
            id,
            from,
            bond,
            watched,
            state: Mutex::new(State::new(core, sources, keys, started)),
            readiness: SharedReadiness::new(readiness),
            waiting: AtomicUsize::new(0),
            inbox: Mutex::default(),
            max_datagrams,
            drive: Notify::new(),
            readable: Notify::new(),
            changed: Notify::new(),
        }
    }
}

/// The core's endpoint and what belongs to it.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) core: anabranch_proto::Endpoint,
    pub(crate) associations: HashMap<AssociationId, Arc<Shared>>,
    pub(crate) backlog: VecDeque<Arc<Shared>>,
    /// Associations that ended in the backlog, before their packets were encrypted.
    pub(crate) failed_handshakes: FailedHandshakes,
    pub(crate) listening: Vec<u16>,
    /// The local SCTP ports of associations, each with its number of associations.
    ports: HashMap<u16, usize>,
    /// The endpoint accepts no more associations: it was closed, or its last handle was dropped.
    pub(crate) closed: bool,
    /// The association that ended last was shut down gracefully: its peer may not have received the SHUTDOWN COMPLETE.
    pub(super) last_in_order: bool,
    pub(super) last_packets: LastPackets,
    /// The endpoint's tasks end now, or after the time to linger.
    pub(super) stopping: bool,
    clock: Timestamp,
}

impl Registry {
    /// The present time. Threads may read the clock before they take the lock, but the core's time must not run backwards.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// The next association that a peer set up and that is ready for the application.
    pub(crate) fn next_in_backlog(&mut self) -> Option<Arc<Shared>> {
        self.backlog.retain(|one| one.readiness.get() != Readiness::Over);
        let is_ready = |one: &Arc<Shared>| one.readiness.get() == Readiness::Ready;
        let place = self.backlog.iter().position(is_ready)?;
        self.backlog.remove(place)
    }

    /// Whether a packet is for a port of this endpoint, or for an association that the core remembers after its end.
    fn owns(&self, packet: &[u8]) -> bool {
        let Some(&[high, low, tag @ ..]) = packet
            .first_chunk::<8>()
            .and_then(|header| header.last_chunk::<6>())
        else {
            return false;
        };
        let port = u16::from_be_bytes([high, low]);
        let tag = VerificationTag(u32::from_be_bytes(tag));
        self.listening.contains(&port) || self.ports.contains_key(&port) || self.core.ended_in_order(tag)
    }
}

/// Associations whose inboxes were filled.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// Associations whose tasks must be woken.
    pub(super) associations: Vec<Arc<Shared>>,
    /// At least one inbox is filled beyond `inbox::BEHIND`.
    pub(super) behind: bool,
}

impl Touched {
    fn add(&mut self, association: &Arc<Shared>, input: Input, len: usize) {
        match association.take_in(input, len) {
            Taken::First => self.associations.push(Arc::clone(association)),
            Taken::More => {}
            Taken::Behind => self.behind = true,
            Taken::Dropped => {
                self.behind = true;
                tracing::debug!(
                    association = association.id.0,
                    "the inbox of the association is full: a packet is dropped"
                );
            }
        }
    }

    fn wake(self) {
        self.associations
            .iter()
            .for_each(|association| association.wake());
    }
}

/// The optional parts of a driver.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) links: Vec<LinkPlan>,
    pub(crate) interfaces: Option<Interfaces>,
    /// Where the paths of all associations begin.
    pub(crate) sources: Vec<PathSource>,
    /// Each association without such sources moves to the address of the route to its peer.
    pub(crate) moves: bool,
    #[cfg(feature = "dtls")]
    pub(crate) dtls: Option<anabranch_dtls::DtlsConfig>,
    pub(crate) tls: Option<TlsSettings>,
}

impl Hub {
    pub(crate) fn start(
        core: anabranch_proto::Endpoint,
        observers: Observers,
        sockets: Vec<OpenSocket>,
        transport: Transport,
        limits: Limits,
        layers: Layers,
    ) -> Arc<Self> {
        let dscp = core.config().dscp;
        let registry = Registry {
            core,
            associations: HashMap::new(),
            backlog: VecDeque::new(),
            failed_handshakes: FailedHandshakes::default(),
            listening: Vec::new(),
            ports: HashMap::new(),
            closed: false,
            last_in_order: false,
            last_packets: LastPackets::default(),
            stopping: false,
            clock: Timestamp::ZERO,
        };
        let started = Instant::now();
        let hub = Arc::new(Self {
            registry: Mutex::new(registry),
            sockets: Sockets::new(sockets),
            transport,
            limits,
            following: Following::new(layers.sources, layers.moves),
            dscp,
            link: LinkLayer::open(layers.links),
            observers,
            #[cfg(feature = "dtls")]
            dtls: layers.dtls.map(|config| DtlsLayer::new(config, started)),
            #[cfg(not(feature = "dtls"))]
            dtls: None,
            tls: layers.tls,
            started,
            acceptable: Notify::new(),
            idle: Notify::new(),
            stop: watch::Sender::new(false),
        });
        for socket in hub.sockets.all().iter() {
            hub.start_receiving(Arc::clone(socket));
        }
        if hub.link.is_some() {
            tokio::spawn(Arc::clone(&hub).carry(hub.stop.subscribe()));
        }
        if hub.dtls.is_some() {
            tokio::spawn(Arc::clone(&hub).keep_dtls(hub.stop.subscribe()));
        }
        if let Some(interfaces) = layers.interfaces {
            hub.start_following(interfaces);
        }
        hub
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    pub(crate) fn instant(&self, time: Timestamp) -> Instant {
        self.started + Duration::from_nanos(time.0)
    }

    /// The number of datagrams that fit into one batch.
    pub(crate) fn max_datagrams(&self) -> usize {
        let sockets = self.sockets.all();
        sockets
            .iter()
            .map(|socket| socket.max_segments())
            .max()
            .unwrap_or(1)
    }

    #[cfg(feature = "link")]
    pub(crate) fn link_stats(&self, local: Option<IpAddr>) -> Option<(LinkStats, LinkStats)> {
        self.link.as_ref()?.stats(local)
    }

    #[cfg(feature = "link")]
    pub(crate) fn set_link(&self, local: Option<IpAddr>, config: &LinkConfig) -> bool {
        let set = |link: &LinkLayer| link.set_config(local, config);
        self.link.as_ref().is_some_and(set)
    }

    pub(crate) async fn flush_records(&self) {
        self.observers.flush().await;
    }

    /// The socket for a batch: the socket on its source address, otherwise the first socket that can reach the destination.
    pub(crate) fn socket_for(&self, outgoing: &Outgoing) -> Option<Arc<OpenSocket>> {
        self.sockets.choose(outgoing.source, outgoing.destination.ip())
    }

    /// Starts the task that receives from a socket, until the socket or the endpoint is closed.
    pub(super) fn start_receiving(self: &Arc<Self>, socket: Arc<OpenSocket>) {
        tokio::spawn(Arc::clone(self).receive(socket, self.stop.subscribe()));
    }

    /// The address of the socket from which the system's routing table would send to `remote`: other sockets are on other
    /// networks. If the table's address belongs to no socket, as on loopback, the first specified address of a socket. `None` if
    /// fewer than two sockets reach `remote`.
    pub(crate) fn local_address_towards(&self, remote: SocketAddr) -> Option<IpAddr> {
        let sockets = self.sockets.all();
        let reaching = || sockets.iter().filter(|socket| socket.reaches(remote.ip()));
        if reaching().count() < 2 {
            return None;
        }
        let chosen = self.source_towards(remote);
        let own = || reaching().map(|socket| socket.local().ip());
        own()
            .find(|own| Some(*own) == chosen)
            .or_else(|| own().find(|own| !own.is_unspecified()))
    }

    /// The source address of the system's route to `remote`; `None` without a route.
    pub(super) fn source_towards(&self, remote: SocketAddr) -> Option<IpAddr> {
        let any = if remote.is_ipv4() {
            IpAddr::from([0; 4])
        } else {
            IpAddr::from([0; 16])
        };
        // Connecting a UDP socket sends nothing; it looks up the route.
        let probe = std::net::UdpSocket::bind((any, 0)).ok()?;
        let mut to = remote;
        to.set_port(remote.port().max(1));
        probe.connect(to).ok()?;
        Some(probe.local_addr().ok()?.ip())
    }

    /// Records a batch that is about to be sent.
    pub(crate) fn capture_sent(&self, now: Timestamp, outgoing: &Outgoing, bytes: &[u8]) {
        let Some(capture) = &self.observers.capture else {
            return;
        };
        let Some(socket) = self.socket_for(outgoing) else {
            return;
        };
        let mut source = socket.local();
        if let Some(address) = outgoing.source {
            source.set_ip(address);
        }
        let packets = bytes[..outgoing.len].chunks(outgoing.segment.max(1));
        capture.sent(now, source, outgoing.destination, packets);
    }

    /// Sends a batch, or the rest of it, into the link if there is one, otherwise to its socket.
    pub(crate) fn try_send(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        if outgoing.len == 0 {
            return Ok(());
        }
        let socket = self
            .socket_for(outgoing)
            .ok_or(io::ErrorKind::NetworkUnreachable)?;
        match &self.link {
            Some(link) if link.enqueue_sent(self.now(), socket.local(), outgoing, bytes) => Ok(()),
            _ => socket.try_send(outgoing, bytes),
        }
    }

    /// Sends the endpoint's answer to a packet without an association. If the socket is full, the answer is lost.
    fn send_reply(&self, now: Timestamp, reply: &Reply, to: Origin) {
        let len = reply.packet.len();
        let outgoing = Outgoing {
            source: reply.source,
            destination: reply.destination,
            len,
            segment: len,
            may_fragment: len > SURELY_FITS,
            ecn: EcnCodepoint::NotEct,
            dscp: self.dscp,
            sent: 0,
        };
        self.send_alone(now, outgoing, &reply.packet, to);
    }

    /// Sends a packet that no association retransmits. If the socket is full, the packet is lost.
    pub(super) fn send_alone(&self, now: Timestamp, mut outgoing: Outgoing, packet: &[u8], to: Origin) {
        self.capture_sent(now, &outgoing, packet);
        let mut packet = packet.to_vec();
        self.seal(&mut outgoing, &mut packet, to);
        if let Err(error) = self.try_send(&mut outgoing, &packet) {
            tracing::debug!(destination = %outgoing.destination, %error, "a packet without association was not sent");
        }
    }

    /// Lets the core route datagrams to the associations' inboxes. Associations to wake are added to `touched`.
    pub(super) fn handle_datagrams(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = (Datagram, Origin)>,
        local: SocketAddr,
        touched: &mut Touched,
    ) {
        let mut registry = lock(&self.registry);
        let now = registry.tick(self.now());
        for (datagram, origin) in datagrams {
            let Datagram {
                local: local_ip,
                remote,
                ecn,
                payload,
            } = datagram;
            if let Some(capture) = &self.observers.capture {
                let to = SocketAddr::new(local_ip.unwrap_or(local.ip()), local.port());
                capture.received(now, remote, to, &payload);
            }
            // A raw socket receives the packets of all programs on this machine. Other programs answer packets for their ports.
            if self.transport == Transport::RawIp && !registry.owns(&payload) {
                continue;
            }
            let handling = registry.core.handle_datagram(now, local_ip, remote, payload, ecn);
            self.act_on(&mut registry, now, handling, origin, touched);
        }
    }

    fn act_on(
        self: &Arc<Self>,
        registry: &mut Registry,
        now: Timestamp,
        handling: Handling,
        origin: Origin,
        touched: &mut Touched,
    ) {
        match handling {
            Handling::Done => {}
            Handling::Reply(reply) => self.send_reply(now, &reply, origin),
            Handling::Deliver(id, inbound) => {
                let Some(association) = registry.associations.get(&id) else {
                    return;
                };
                if association.bond.accepts(origin) {
                    let len = inbound.len();
                    touched.add(association, Input::Packet(inbound), len);
                } else if let Some(refusal) = registry.core.refuse_other_peer(&inbound) {
                    self.send_reply(now, &refusal, origin);
                }
            }
            Handling::Accept(id, association) => {
                self.accept(registry, now, (id, association), origin, touched);
            }
        }
    }

    /// Routes packets that an association did not handle because it had ended; they came from its peer.
    pub(crate) fn route_again(self: &Arc<Self>, packets: Vec<Inbound>, origin: Origin) {
        let mut touched = Touched::default();
        {
            let mut registry = lock(&self.registry);
            let now = registry.tick(self.now());
            for inbound in packets {
                let handling = registry.core.handle_inbound(now, inbound);
                self.act_on(&mut registry, now, handling, origin, &mut touched);
            }
        }
        touched.wake();
    }

    /// Gives each ICMP message to the association whose packet it quotes.
    pub(super) fn handle_icmp(&self, messages: Vec<IcmpMessage>) {
        let mut touched = Touched::default();
        // Not under the endpoint's lock: a handshake may be in the middle of its work.
        messages.iter().for_each(|message| self.dtls_icmp(message));
        {
            let registry = lock(&self.registry);
            for message in messages {
                if let IcmpKind::TooLarge(mtu) = message.kind {
                    for id in self.quoted_users(&message) {
                        if let Some(association) = registry.associations.get(&id) {
                            touched.add(association, Input::TooLarge(mtu), 0);
                        }
                    }
                }
                let id = registry.core.route_icmp(&message);
                if let Some(association) = id.and_then(|id| registry.associations.get(&id)) {
                    let len = message.quote.len();
                    touched.add(association, Input::Icmp(message), len);
                }
            }
        }
        touched.wake();
    }

    fn accept(
        self: &Arc<Self>,
        registry: &mut Registry,
        now: Timestamp,
        (id, mut association): (AssociationId, Box<anabranch_proto::Association>),
        origin: Origin,
        touched: &mut Touched,
    ) {
        let full = registry.backlog.len() >= self.limits.backlog
            || registry.associations.len() >= self.limits.max_associations
            || self.is_crowded(registry, association.remote_address().ip());
        if full || registry.closed {
            tracing::debug!(
                ?id,
                "the backlog, its part for one address or the endpoint is full, or the endpoint is closed: a new association is aborted"
            );
            association.refuse(now);
            let mut buffer = Vec::new();
            while let Some(transmit) = association.poll_transmit(now, &mut buffer, 1) {
                let mut outgoing = Outgoing::of(&transmit);
                self.capture_sent(now, &outgoing, &buffer);
                self.seal(&mut outgoing, &mut buffer, origin);
                // If the socket is full, this ABORT is lost. The peer's next packet causes another ABORT.
                let _ = self.try_send(&mut outgoing, &buffer);
                buffer.clear();
            }
            while let Some(event) = association.poll_endpoint_event() {
                registry.core.handle_event(now, id, event);
            }
            return;
        }
        let shared = self.adopt(registry, id, association, origin);
        touched.associations.push(Arc::clone(&shared));
        registry.backlog.push_back(shared);
        self.acceptable.notify_waiters();
    }

    /// Whether the handshakes from an address that are not complete fill a quarter of the backlog, which is their part of it.
    fn is_crowded(&self, registry: &Registry, from: IpAddr) -> bool {
        let is_one = |one: &&Arc<Shared>| one.from == from && one.readiness.get() == Readiness::Waiting;
        self.tls.is_some()
            && registry.backlog.iter().filter(is_one).count() >= self.limits.backlog.div_ceil(4)
    }

    /// Stores an association of the core, and starts its task. `origin` is that of the packet that began it.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        registry: &mut Registry,
        id: AssociationId,
        mut association: Box<anabranch_proto::Association>,
        origin: Origin,
    ) -> Arc<Shared> {
        let now = registry.tick(self.now());
        // The endpoint must know all addresses of the peer before the association answers: the peer may send from any of them.
        while let Some(event) = association.poll_endpoint_event() {
            registry.core.handle_event(now, id, event);
        }
        let remote = association.remote_address();
        let watched = self.observers.watch(id, remote);
        association.set_tracing(watched.level());
        let (port, _) = association.ports();
        *registry.ports.entry(port).or_default() += 1;
        let shared = Arc::new(Shared::new(Arc::clone(self), id, association, watched, origin));
        self.use_dtls(&shared);
        registry.associations.insert(id, Arc::clone(&shared));
        tokio::spawn(Arc::clone(&shared).drive());
        shared
    }

    /// Handles an association's events for the endpoint. The caller may hold the association's lock.
    pub(crate) fn handle_events(&self, id: AssociationId, events: impl IntoIterator<Item = EndpointEvent>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_none() {
            return;
        }
        let mut registry = lock(&self.registry);
        let now = registry.tick(self.now());
        for event in events {
            registry.core.handle_event(now, id, event);
        }
    }

    /// An association ended before its packets were encrypted. If it is in the backlog, the application never gets it, so the endpoint counts
    /// it. `connect` returns the reason of the others.
    pub(super) fn note_failed_handshake(&self, id: AssociationId, failed: FailedHandshake) {
        let (peer, reason) = (failed.remote, failed.reason.clone());
        let in_backlog = {
            let mut registry = lock(&self.registry);
            let in_backlog = registry.backlog.iter().any(|one| one.id == id);
            if in_backlog {
                registry.failed_handshakes.note(failed);
            }
            in_backlog
        };
        if in_backlog {
            tracing::info!(%peer, %reason, "the handshake of a peer failed");
        }
    }

    /// Removes an association that has ended and sent its last packet.
    pub(super) fn forget(
        self: &Arc<Self>,
        id: AssociationId,
        port: u16,
        in_order: bool,
        last_packet: Option<LastPacket>,
    ) {
        let mut registry = lock(&self.registry);
        registry.last_in_order = in_order;
        if let Some(packet) = last_packet {
            registry.last_packets.add(packet);
        }
        if let Some(association) = registry.associations.remove(&id) {
            self.leave_dtls(&association);
        }
        if let Entry::Occupied(mut entry) = registry.ports.entry(port) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        if registry.associations.is_empty() {
            self.idle.notify_waiters();
            if registry.closed {
                self.stop_after_linger(&mut registry);
            }
        }
    }

    /// Waits until the endpoint is closed, its associations have ended, the time to linger is over, and the in-process link is empty.
    pub(crate) async fn stopped(&self) {
        stopped(&mut self.stop.subscribe()).await;
        self.carried().await;
    }

    /// Accepts no more associations. The endpoint stops when its last association has ended.
    pub(crate) fn close(self: &Arc<Self>) {
        let backlog = {
            let mut registry = lock(&self.registry);
            registry.closed = true;
            for port in std::mem::take(&mut registry.listening) {
                registry.core.stop_listening(port);
            }
            if registry.associations.is_empty() {
                self.stop_after_linger(&mut registry);
            }
            std::mem::take(&mut registry.backlog)
        };
        self.acceptable.notify_waiters();
        // This takes the endpoint's lock.
        backlog.iter().for_each(|association| association.abandon());
    }
}
