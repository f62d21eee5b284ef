//! Nodes, the links between them, and the loop that moves virtual time from one event to the next.

use core::time::Duration;
use std::any::Any;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::Timestamp;

use crate::event_queue::EventQueue;
use crate::host::Host;
use crate::link::{Link, LinkStats};
use crate::link_config::LinkConfig;
use crate::packet::Packet;
use crate::random::Generator;
use crate::trace::{Record, Trace};

/// Packets that a node may send at one instant before the run counts as stuck.
const MAX_PACKETS_AT_ONCE: usize = 1_000_000;

/// Names a node of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// Names one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u32);

impl NodeId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something that sends and receives packets, sans-IO like all the rest.
///
/// After every call that may have changed it the network drains `poll_transmit` and then asks `poll_timeout`.
pub trait Node: Any + Send {
    /// Takes a packet for one of the node's addresses.
    fn handle_packet(&mut self, now: Timestamp, packet: Packet);

    /// Does what was due. After it and a drain, `poll_timeout` must be later than `now`: a node whose timer fires
    /// for nothing would spin in real time, so the network panics.
    fn handle_timeout(&mut self, now: Timestamp);

    /// The next packet to send.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet>;

    /// When to call `handle_timeout` next.
    fn poll_timeout(&self) -> Option<Timestamp>;
}

/// A node that only forwards: give it routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Router;

impl Node for Router {
    fn handle_packet(&mut self, _: Timestamp, _: Packet) {}

    fn handle_timeout(&mut self, _: Timestamp) {}

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Packet> {
        None
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}

/// Which link a packet takes from a node. `None` stands for any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The packet's source.
    pub source: Option<IpAddr>,
    /// The packet's destination.
    pub destination: Option<IpAddr>,
    /// Where it goes.
    pub link: LinkId,
}

impl Route {
    /// Whether a packet may take it. A packet without a source fits every source.
    fn fits(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.destination.is_none_or(|address| address == destination)
            && self
                .source
                .is_none_or(|address| address == source || source.is_unspecified())
    }

    /// How much a packet has to agree with.
    fn exactness(&self) -> u8 {
        u8::from(self.destination.is_some()) * 2 + u8::from(self.source.is_some())
    }
}

struct NodeEntry {
    name: String,
    node: Box<dyn Node>,
    addresses: Vec<IpAddr>,
    /// The most exact first: the first that fits is taken.
    routes: Vec<Route>,
    part: u32,
}

struct LinkEntry {
    name: String,
    link: Link<Packet>,
    from: NodeId,
    to: NodeId,
    part: u32,
}

/// What a part of the event queue is.
#[derive(Clone, Copy)]
enum Part {
    Node(NodeId),
    Link(LinkId),
}

/// A network in virtual time, which begins at [`Timestamp::ZERO`].
///
/// One seed fixes a run. If a test panics while a network is alive, the seed and the time are printed.
pub struct Network {
    seed: u64,
    now: Timestamp,
    nodes: Vec<NodeEntry>,
    links: Vec<LinkEntry>,
    parts: Vec<Part>,
    events: EventQueue,
    /// Nodes that were changed from outside since the last run: drained before time moves.
    touched: Vec<NodeId>,
    trace: Trace,
    events_handled: u64,
    unroutable: u64,
}

impl Network {
    /// A network without nodes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Timestamp::ZERO,
            nodes: Vec::new(),
            links: Vec::new(),
            parts: Vec::new(),
            events: EventQueue::new(),
            touched: Vec::new(),
            trace: Trace::default(),
            events_handled: 0,
            unroutable: 0,
        }
    }

    /// The seed of the run.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Arrivals and timeouts handled so far.
    #[must_use]
    pub fn events_handled(&self) -> u64 {
        self.events_handled
    }

    /// Packets that no route fitted so far: they are dropped.
    #[must_use]
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// A generator for a random process of the caller's, fixed by the run's seed and the label.
    #[must_use]
    pub fn generator(&self, label: &str) -> Generator {
        Generator::of_process(self.seed, label)
    }

    /// Adds a node with these addresses. The name is for traces.
    pub fn add_node(&mut self, name: &str, addresses: &[IpAddr], node: impl Node) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let part = self.add_part(Part::Node(id));
        let (name, addresses) = (name.to_owned(), addresses.to_vec());
        self.nodes.push(NodeEntry {
            name,
            node: Box::new(node),
            addresses,
            routes: Vec::new(),
            part,
        });
        self.touched.push(id);
        id
    }

    /// Adds one direction of a link. It carries nothing until a route leads to it.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, config: LinkConfig) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        let part = self.add_part(Part::Link(id));
        let link = Link::new(config, self.seed, &format!("link {}", id.0));
        let name = format!("{} → {} ({})", self.node_name(from), self.node_name(to), id.0);
        self.trace.add_link(&name);
        self.links.push(LinkEntry {
            name,
            link,
            from,
            to,
            part,
        });
        id
    }

    /// Adds a route to a node. The one that fits a packet most exactly is taken (destination before source), and
    /// of equal ones the first.
    pub fn add_route(&mut self, node: NodeId, route: Route) {
        assert_eq!(
            self.links[route.link.index()].from,
            node,
            "a route's link begins at its node"
        );
        let routes = &mut self.nodes[node.index()].routes;
        let place = routes.partition_point(|other| other.exactness() >= route.exactness());
        routes.insert(place, route);
    }

    /// Connects an address of one node with an address of another, by a link each way, and gives both nodes the
    /// addresses if they lack them and the routes between them.
    pub fn connect(
        &mut self,
        (a, a_address): (NodeId, IpAddr),
        (b, b_address): (NodeId, IpAddr),
        a_to_b: LinkConfig,
        b_to_a: LinkConfig,
    ) -> (LinkId, LinkId) {
        let there = self.add_link(a, b, a_to_b);
        let back = self.add_link(b, a, b_to_a);
        for (node, source, destination, link) in
            [(a, a_address, b_address, there), (b, b_address, a_address, back)]
        {
            let addresses = &mut self.nodes[node.index()].addresses;
            if !addresses.contains(&source) {
                addresses.push(source);
            }
            self.add_route(
                node,
                Route {
                    source: Some(source),
                    destination: Some(destination),
                    link,
                },
            );
            // As in a real host, the destination alone decides if the source belongs to another link.
            self.add_route(
                node,
                Route {
                    source: None,
                    destination: Some(destination),
                    link,
                },
            );
        }
        (there, back)
    }

    /// A node's name.
    #[must_use]
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// A link's name.
    #[must_use]
    pub fn link_name(&self, link: LinkId) -> &str {
        &self.links[link.index()].name
    }

    /// The nodes at a link's ends: from, to.
    #[must_use]
    pub fn link_ends(&self, link: LinkId) -> (NodeId, NodeId) {
        let entry = &self.links[link.index()];
        (entry.from, entry.to)
    }

    /// A node as the type it was added with.
    ///
    /// # Panics
    /// If it was added with another type.
    #[must_use]
    pub fn node<T: Node>(&self, node: NodeId) -> &T {
        let entry = &self.nodes[node.index()];
        let node: &dyn Any = &*entry.node;
        node.downcast_ref()
            .unwrap_or_else(|| panic!("node {} is of another type", entry.name))
    }

    /// A node as the type it was added with, to be changed; what it wants to send then leaves at the next `run_`.
    ///
    /// # Panics
    /// If it was added with another type.
    pub fn node_mut<T: Node>(&mut self, node: NodeId) -> &mut T {
        if self.touched.last() != Some(&node) {
            self.touched.push(node);
        }
        let entry = &mut self.nodes[node.index()];
        let node: &mut dyn Any = &mut *entry.node;
        node.downcast_mut()
            .unwrap_or_else(|| panic!("node {} is of another type", entry.name))
    }

    /// A node that is a host.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn host(&self, node: NodeId) -> &Host {
        self.node(node)
    }

    /// A node that is a host, to be changed; what it wants to send then leaves at the next `run_`.
    ///
    /// # Panics
    /// If it is none.
    pub fn host_mut(&mut self, node: NodeId) -> &mut Host {
        self.node_mut(node)
    }

    /// What a link did so far.
    #[must_use]
    pub fn link_stats(&self, link: LinkId) -> &LinkStats {
        self.links[link.index()].link.stats()
    }

    /// Bytes in the queue of a link now, the packet in transmission included.
    #[must_use]
    pub fn queued_bytes(&mut self, link: LinkId) -> u64 {
        let now = self.now();
        self.links[link.index()].link.queued_bytes(now)
    }

    /// A link's settings.
    #[must_use]
    pub fn link_config(&self, link: LinkId) -> &LinkConfig {
        self.links[link.index()].link.config()
    }

    /// Changes a link's settings for the packets to come.
    pub fn set_link_config(&mut self, link: LinkId, config: LinkConfig) {
        let entry = &mut self.links[link.index()];
        entry.link.set_config(config);
        self.events.set(entry.part, entry.link.next_event());
    }

    /// Takes a link down, so that it loses every packet that comes to it, or up again.
    pub fn cut(&mut self, link: LinkId, down: bool) {
        self.links[link.index()].link.set_down(down);
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len() as u32).map(LinkId)
    }

    /// Keeps the last so many packets sent, for [`Network::records`]; 0 keeps none.
    pub fn keep_records(&mut self, records: usize) {
        self.trace.keep(records);
    }

    /// The packets kept, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.trace.records()
    }

    /// Forgets the packets kept so far.
    pub fn clear_records(&mut self) {
        self.trace.clear();
    }

    /// Writes every packet sent from now on to `out` as pcapng. It makes many small writes: give it a buffered
    /// writer.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn capture(&mut self, out: impl Write + Send + 'static) -> io::Result<()> {
        self.trace
            .capture(Box::new(out), self.links.iter().map(|entry| entry.name.as_str()))
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The first error of the capture, if there was one.
    pub fn finish_capture(&mut self) -> io::Result<()> {
        self.trace.finish_capture()
    }

    /// Runs everything that happens up to and at `end`, which becomes the time.
    pub fn run_until(&mut self, end: Timestamp) {
        assert!(
            end >= self.now,
            "time does not run backwards (seed {})",
            self.seed
        );
        self.drain_touched();
        while self.step(end) {}
        self.now = end;
    }

    /// Runs for a time.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Runs until nothing is under way and no timer is set, or until `limit`; whether it became idle. A host with
    /// heartbeats on is never idle.
    pub fn run_until_idle(&mut self, limit: Timestamp) -> bool {
        !self.run_while(limit, |_| true)
    }

    /// Runs while the condition holds, asked before each event, and at most until `limit`. True if it still holds
    /// at the limit; false if it does not, or if nothing is left to happen. The time is that of the last event, or
    /// `limit`.
    pub fn run_while(&mut self, limit: Timestamp, mut condition: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            self.drain_touched();
            if !condition(self) {
                return false;
            }
            self.drain_touched();
            if !self.step(limit) {
                let idle = self.events.peek().is_none();
                if !idle {
                    self.now = self.now.max(limit);
                }
                return !idle;
            }
        }
    }

    /// Runs the next event, if there is one up to `limit`; whether there was.
    pub fn run_one(&mut self, limit: Timestamp) -> bool {
        self.drain_touched();
        self.step(limit)
    }

    /// Handles the next event if it is not later than `end`.
    fn step(&mut self, end: Timestamp) -> bool {
        let Some((time, part)) = self.events.peek().filter(|&(time, _)| time <= end) else {
            return false;
        };
        debug_assert!(time >= self.now);
        self.now = time;
        self.events_handled += 1;
        match self.parts[part as usize] {
            Part::Link(id) => {
                let entry = &mut self.links[id.index()];
                let packet = entry.link.poll(time);
                let to = entry.to;
                // Moved rather than taken out and put back: this is the busiest line of a run.
                self.events.set(part, entry.link.next_event());
                if let Some(packet) = packet {
                    self.arrive(to, packet);
                }
            }
            Part::Node(id) => {
                self.events.set(part, None);
                self.nodes[id.index()].node.handle_timeout(time);
                self.drain(id);
                let next = self.nodes[id.index()].node.poll_timeout();
                assert!(
                    next.is_none_or(|next| next > time),
                    "{}: a timer was due at {time}, was handled, and is due at {next:?} (seed {})",
                    self.node_name(id),
                    self.seed,
                );
            }
        }
        true
    }

    fn drain_touched(&mut self) {
        for id in core::mem::take(&mut self.touched) {
            self.drain(id);
        }
    }

    /// Sends what a node wants to send, and sets its next wake.
    fn drain(&mut self, id: NodeId) {
        for sent in 0.. {
            let Some(packet) = self.nodes[id.index()].node.poll_transmit(self.now) else {
                break;
            };
            assert!(
                sent < MAX_PACKETS_AT_ONCE,
                "{} sends without end at {} (seed {})",
                self.node_name(id),
                self.now,
                self.seed,
            );
            self.send(id, packet);
        }
        let entry = &self.nodes[id.index()];
        // What became due while it was drained is due now.
        self.events.set(
            entry.part,
            entry.node.poll_timeout().map(|time| time.max(self.now)),
        );
    }

    fn arrive(&mut self, node: NodeId, packet: Packet) {
        let entry = &mut self.nodes[node.index()];
        if entry.addresses.contains(&packet.destination.ip()) {
            entry.node.handle_packet(self.now, packet);
            self.drain(node);
        } else {
            self.send(node, packet);
        }
    }

    /// Puts a packet on the link that the node's routes say.
    fn send(&mut self, node: NodeId, mut packet: Packet) {
        let entry = &self.nodes[node.index()];
        let (source, destination) = (packet.source.ip(), packet.destination.ip());
        let mut routes = entry.routes.iter();
        let Some(route) = routes.find(|route| route.fits(source, destination)) else {
            self.unroutable += 1;
            return;
        };
        if source.is_unspecified() {
            let same_family = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
            let address = route
                .source
                .or_else(|| entry.addresses.iter().find(same_family).copied());
            packet.source = SocketAddr::new(address.unwrap_or(source), packet.source.port());
        }
        let id = route.link;
        let record = self.trace.is_on().then(|| packet.clone());
        let line = &mut self.links[id.index()];
        let fate = line.link.enqueue(self.now, packet);
        self.events.set(line.part, line.link.next_event());
        if let Some(packet) = record {
            self.trace.record(Record {
                at: self.now,
                link: id,
                packet,
                fate,
            });
        }
    }

    fn add_part(&mut self, part: Part) -> u32 {
        self.parts.push(part);
        self.events.add_part()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the network's seed is {}, its time {}", self.seed, self.now);
        }
    }
}

#[cfg(test)]
mod tests;
