//! The driver of an [`crate::Endpoint`]: its sockets, the core's endpoint, and the associations by id.
//!
//! The tasks and their work:
//! * a task per socket receives batches and lets the core route them: each packet goes to the inbox of its association
//!   (`receive.rs`, `inbox.rs`), and so does an ICMP message about a packet of its own. Where one association got all of
//!   them, the same task lets it handle them; where several did, the task of each does, on whatever processor is free;
//! * a task per association handles what is in its inbox, keeps its timers, sends what the application gave it, and waits
//!   when a socket is full (`association.rs`);
//! * a task for the in-process link, if there is one, lets packets out of it when their time has come (`link.rs`);
//! * when the endpoint was closed and its last association is over, a task waits as long as somebody may need an answer, and
//!   ends the others.
//!
//! Locks are held briefly and never across an await. An association's lock may be held while the endpoint's is taken, and
//! either while an inbox's is, never the other way round: so nobody waits for an association's work who holds the
//! endpoint's lock, under which only packets are routed and INITs and COOKIE ECHOs of peers without an association
//! answered, work that the packet's length bounds.
//!
//! A panic in an association's code ends this association alone ([`anabranch_proto::CloseReason::InternalError`]); one in the
//! endpoint's loses the rest of the batch of packets.

pub(crate) mod association;
mod events;
mod inbox;
mod link;
mod receive;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_netsim::{LinkConfig, LinkStats};
use anabranch_proto::{
    AssociationId, EcnCodepoint, EndpointEvent, Handling, IcmpMessage, Inbound, Reply, Timestamp,
    VerificationTag,
};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::association::Association;
use crate::capture::Capture;
use crate::socket::{Datagram, Outgoing, Socket, Transport};
use association::Shared;
use inbox::{Input, Taken};
use link::LinkDoor;
pub(crate) use link::LinkPlan;

/// Takes a lock; a panic elsewhere while it was held is no reason to panic here too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the endpoint's tasks are to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it the endpoint.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Ends the endpoint's tasks when it is dropped: also with a runtime that ends.
struct Stop(watch::Sender<bool>);

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
}

/// A packet of this length fits every path (1,280 bytes of IPv6, less its header and that of UDP).
const SURELY_FITS: usize = 1232;

/// One endpoint, shared by its handles, its tasks and its associations.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) registry: Mutex<Registry>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) transport: Transport,
    pub(crate) limits: Limits,
    link: Option<LinkDoor>,
    capture: Option<Capture>,
    started: Instant,
    /// Something came for `accept`, or never will.
    pub(crate) acceptable: Notify,
    /// The last association is gone.
    pub(crate) idle: Notify,
    stop: watch::Sender<bool>,
}

/// The core's endpoint and what belongs to it.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) core: anabranch_proto::Endpoint,
    pub(crate) associations: HashMap<AssociationId, Arc<Shared>>,
    pub(crate) backlog: VecDeque<Association>,
    pub(crate) listening: Vec<u16>,
    /// Local SCTP ports of associations, with how many each has.
    ports: HashMap<u16, usize>,
    /// No more associations: the endpoint was closed, or its last handle dropped.
    pub(crate) closed: bool,
    /// The last association that ended did so in order: its peer may miss SHUTDOWN COMPLETE.
    last_in_order: bool,
    /// The endpoint's tasks end, or will after a while.
    stopping: bool,
    clock: Timestamp,
}

impl Registry {
    /// The time, which for the core must not run backwards whatever thread asks.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Timestamp {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// Whether a packet is for a port of this endpoint, or for an association that is remembered after its end.
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
struct Touched {
    /// To be woken.
    associations: Vec<Arc<Shared>>,
    /// One of them has much to do.
    behind: bool,
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
                    "its inbox is full: a packet is lost"
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

impl Hub {
    pub(crate) fn start(
        core: anabranch_proto::Endpoint,
        sockets: Vec<Socket>,
        transport: Transport,
        limits: Limits,
        links: Vec<LinkPlan>,
        capture: Option<Capture>,
    ) -> Arc<Self> {
        let registry = Registry {
            core,
            associations: HashMap::new(),
            backlog: VecDeque::new(),
            listening: Vec::new(),
            ports: HashMap::new(),
            closed: false,
            last_in_order: false,
            stopping: false,
            clock: Timestamp::ZERO,
        };
        let hub = Arc::new(Self {
            registry: Mutex::new(registry),
            sockets,
            transport,
            limits,
            link: (!links.is_empty()).then(|| LinkDoor::new(links)),
            capture,
            started: Instant::now(),
            acceptable: Notify::new(),
            idle: Notify::new(),
            stop: watch::Sender::new(false),
        });
        for index in 0..hub.sockets.len() {
            tokio::spawn(Arc::clone(&hub).receive(index, hub.stop.subscribe()));
        }
        if hub.link.is_some() {
            tokio::spawn(Arc::clone(&hub).carry(hub.stop.subscribe()));
        }
        hub
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn instant(&self, time: Timestamp) -> Instant {
        self.started + Duration::from_nanos(time.0)
    }

    /// Datagrams that fit into one batch.
    pub(crate) fn max_datagrams(&self) -> usize {
        self.sockets.iter().map(Socket::max_segments).max().unwrap_or(1)
    }

    pub(crate) fn link_stats(&self, local: Option<IpAddr>) -> Option<(LinkStats, LinkStats)> {
        self.link.as_ref()?.stats(local)
    }

    pub(crate) fn set_link(&self, local: Option<IpAddr>, config: &LinkConfig) -> bool {
        let set = |link: &LinkDoor| link.set_config(local, config);
        self.link.as_ref().is_some_and(set)
    }

    pub(crate) fn flush_capture(&self) {
        if let Some(capture) = &self.capture {
            capture.flush();
        }
    }

    /// The socket for packets from `source`, if that is fixed, to `destination`.
    pub(crate) fn socket_for(&self, outgoing: &Outgoing) -> Option<&Socket> {
        let own = |socket: &&Socket| Some(socket.local().ip()) == outgoing.source;
        let reaches = |socket: &&Socket| socket.reaches(outgoing.destination.ip());
        self.sockets
            .iter()
            .find(own)
            .or_else(|| self.sockets.iter().find(reaches))
    }

    /// Of several sockets, the address of the one that the system would send from to there: the others are on other
    /// networks. If it would send from none of them, as on loopback, that of the first. `None` if there is no choice to be
    /// made.
    pub(crate) fn local_address_towards(&self, remote: SocketAddr) -> Option<IpAddr> {
        let reaching = || self.sockets.iter().filter(|socket| socket.reaches(remote.ip()));
        if reaching().count() < 2 {
            return None;
        }
        let any = if remote.is_ipv4() {
            IpAddr::from([0; 4])
        } else {
            IpAddr::from([0; 16])
        };
        // Connecting a UDP socket sends nothing; it looks up the route.
        let route = || {
            let probe = std::net::UdpSocket::bind((any, 0)).ok()?;
            let mut to = remote;
            to.set_port(remote.port().max(1));
            probe.connect(to).ok()?;
            Some(probe.local_addr().ok()?.ip())
        };
        let chosen = route();
        let own = || reaching().map(|socket| socket.local().ip());
        own()
            .find(|own| Some(*own) == chosen)
            .or_else(|| own().find(|own| !own.is_unspecified()))
    }

    /// Records a batch that is about to be sent.
    pub(crate) fn capture_sent(&self, now: Timestamp, outgoing: &Outgoing, bytes: &[u8]) {
        let Some(capture) = &self.capture else { return };
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

    /// Sends a batch, or what is left of it: into the link, if there is one, else to its socket.
    pub(crate) fn try_send(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        let socket = self
            .socket_for(outgoing)
            .ok_or(io::ErrorKind::NetworkUnreachable)?;
        match &self.link {
            Some(link) if link.enqueue_sent(self.now(), socket.local(), outgoing, bytes) => Ok(()),
            _ => socket.try_send(outgoing, bytes),
        }
    }

    /// Sends the endpoint's own answer to a packet; nothing keeps it, so a full socket loses it.
    fn send_reply(&self, now: Timestamp, reply: &Reply) {
        let len = reply.packet.len();
        let mut outgoing = Outgoing {
            source: reply.source,
            destination: reply.destination,
            len,
            segment: len,
            may_fragment: len > SURELY_FITS,
            ecn: EcnCodepoint::NotEct,
            sent: 0,
        };
        self.capture_sent(now, &outgoing, &reply.packet);
        if let Err(error) = self.try_send(&mut outgoing, &reply.packet) {
            tracing::debug!(destination = %reply.destination, %error, "an answer was not sent");
        }
    }

    /// Lets the core route datagrams to the associations' inboxes. Those that are to be woken are added to `touched`.
    fn handle_datagrams(
        self: &Arc<Self>,
        datagrams: impl Iterator<Item = Datagram>,
        local: SocketAddr,
        touched: &mut Touched,
    ) {
        let mut registry = lock(&self.registry);
        let now = registry.tick(self.now());
        for Datagram {
            local: local_ip,
            remote,
            ecn,
            payload,
        } in datagrams
        {
            if let Some(capture) = &self.capture {
                let to = SocketAddr::new(local_ip.unwrap_or(local.ip()), local.port());
                capture.received(now, remote, to, &payload);
            }
            // Raw sockets see the packets of all programs on this machine: those for others' ports are theirs to answer.
            if self.transport == Transport::RawIp && !registry.owns(&payload) {
                continue;
            }
            let handling = registry.core.handle_datagram(now, local_ip, remote, payload, ecn);
            self.do_as_told(&mut registry, now, handling, touched);
        }
    }

    fn do_as_told(
        self: &Arc<Self>,
        registry: &mut Registry,
        now: Timestamp,
        handling: Handling,
        touched: &mut Touched,
    ) {
        match handling {
            Handling::Done => {}
            Handling::Reply(reply) => self.send_reply(now, &reply),
            Handling::Deliver(id, inbound) => {
                if let Some(association) = registry.associations.get(&id) {
                    let len = inbound.len();
                    touched.add(association, Input::Packet(inbound), len);
                }
            }
            Handling::Accept(id, association) => self.accept(registry, now, id, association, touched),
        }
    }

    /// Routes packets that their association, being over, did not look at.
    pub(crate) fn route_again(self: &Arc<Self>, packets: Vec<Inbound>) {
        let mut touched = Touched::default();
        {
            let mut registry = lock(&self.registry);
            let now = registry.tick(self.now());
            for inbound in packets {
                let handling = registry.core.handle_inbound(now, inbound);
                self.do_as_told(&mut registry, now, handling, &mut touched);
            }
        }
        touched.wake();
    }

    /// Hands ICMP messages to the associations that they are about.
    fn handle_icmp(&self, messages: Vec<IcmpMessage>) {
        let mut touched = Touched::default();
        {
            let registry = lock(&self.registry);
            for message in messages {
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
        id: AssociationId,
        mut association: Box<anabranch_proto::Association>,
        touched: &mut Touched,
    ) {
        let full = registry.backlog.len() >= self.limits.backlog
            || registry.associations.len() >= self.limits.max_associations;
        if full || registry.closed {
            tracing::debug!(?id, "no room for one more association: aborted");
            association.refuse(now);
            let mut buffer = Vec::new();
            while let Some(transmit) = association.poll_transmit(now, &mut buffer, 1) {
                let mut outgoing = association::outgoing(&transmit);
                self.capture_sent(now, &outgoing, &buffer);
                // Lost if the socket is full: the peer's next packet is answered by an ABORT again.
                let _ = self.try_send(&mut outgoing, &buffer);
                buffer.clear();
            }
            while let Some(event) = association.poll_endpoint_event() {
                registry.core.handle_event(now, id, event);
            }
            return;
        }
        let shared = self.adopt(registry, id, association);
        touched.associations.push(Arc::clone(&shared));
        registry.backlog.push_back(Association::new(shared));
        self.acceptable.notify_waiters();
    }

    /// Keeps an association of the core, and starts its task.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        registry: &mut Registry,
        id: AssociationId,
        mut association: Box<anabranch_proto::Association>,
    ) -> Arc<Shared> {
        let now = registry.tick(self.now());
        // All of the peer's addresses, before it is answered: what comes from them at once would be out of the blue.
        while let Some(event) = association.poll_endpoint_event() {
            registry.core.handle_event(now, id, event);
        }
        let (port, _) = association.ports();
        *registry.ports.entry(port).or_default() += 1;
        let shared = Arc::new(Shared::new(Arc::clone(self), id, association));
        registry.associations.insert(id, Arc::clone(&shared));
        tokio::spawn(Arc::clone(&shared).drive());
        shared
    }

    /// Takes what an association told the endpoint; the caller may hold that one's lock.
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

    /// Forgets an association that is over and has sent its last packet.
    pub(crate) fn forget(self: &Arc<Self>, id: AssociationId, port: u16, in_order: bool) {
        let mut registry = lock(&self.registry);
        registry.last_in_order = in_order;
        registry.associations.remove(&id);
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

    /// Stops, once: now, or when nobody needs an answer any more.
    fn stop_after_linger(self: &Arc<Self>, registry: &mut Registry) {
        if std::mem::replace(&mut registry.stopping, true) {
            return;
        }
        let stop = Stop(self.stop.clone());
        if self.limits.linger.is_zero() && self.link.is_none() {
            return;
        }
        // Without a runtime the tasks are gone already.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (hub, in_order) = (Arc::clone(self), registry.last_in_order);
            runtime.spawn(async move {
                let _stop = stop;
                tokio::time::sleep(hub.limits.linger).await;
                if in_order {
                    hub.goodbye().await;
                }
            });
        }
    }

    /// Waits until everything has stopped: the endpoint was closed, its associations are over, and it lingered.
    pub(crate) async fn stopped(&self) {
        stopped(&mut self.stop.subscribe()).await;
    }

    /// Takes no more associations; stops altogether when the last one is over.
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
        // Dropping them shuts them down, which takes the lock again.
        drop(backlog);
    }
}
