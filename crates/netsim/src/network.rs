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

/// If a node sends more packets than this at one instant, the run counts as stuck.
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

/// An object that sends and receives packets, without a clock or sockets (sans-IO).
///
/// After every call that may have changed the node, the network drains `poll_transmit` and then calls `poll_timeout`.
pub trait Node: Any + Send {
    /// Handles a packet that arrived for one of the node's addresses.
    fn handle_packet(&mut self, now: Timestamp, packet: Packet);

    /// Handles the timers that are due. After this call and draining `poll_transmit`, `poll_timeout` must be later than `now`. Otherwise
    /// virtual time would stand still, so the network panics.
    fn handle_timeout(&mut self, now: Timestamp);

    /// The next packet to send.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet>;

    /// When to call `handle_timeout` next.
    fn poll_timeout(&self) -> Option<Timestamp>;
}

/// A node that only forwards packets along its routes.
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

/// Selects the link on which a packet leaves a node. `None` matches any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The packet's source.
    pub source: Option<IpAddr>,
    /// The packet's destination.
    pub destination: Option<IpAddr>,
    /// The link on which the packet leaves.
    pub link: LinkId,
}

impl Route {
    /// Whether the route matches a packet. A packet without a source matches every source.
    fn fits(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.destination.is_none_or(|address| address == destination)
            && self
                .source
                .is_none_or(|address| address == source || source.is_unspecified())
    }

    /// Rank of the route by the addresses that it specifies.
    fn exactness(&self) -> u8 {
        u8::from(self.destination.is_some()) * 2 + u8::from(self.source.is_some())
    }
}

struct NodeEntry {
    name: String,
    node: Box<dyn Node>,
    addresses: Vec<IpAddr>,
    /// Most specific first; the first matching route is used.
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

/// The kind and number of a part in the event queue.
#[derive(Clone, Copy)]
enum Part {
    Node(NodeId),
    Link(LinkId),
}

/// A network in virtual time, which begins at [`Timestamp::ZERO`].
///
/// One seed determines a run. If a test panics while a network is alive, the seed and the time are printed.
pub struct Network {
    seed: u64,
    now: Timestamp,
    nodes: Vec<NodeEntry>,
    links: Vec<LinkEntry>,
    parts: Vec<Part>,
    events: EventQueue,
    /// Nodes that the caller changed since the last run: the network drains them before time advances.
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

    /// The current virtual time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Arrivals and timeouts handled so far.
    #[must_use]
    pub fn events_handled(&self) -> u64 {
        self.events_handled
    }

    /// Packets dropped so far because no route matched them.
    #[must_use]
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// A random generator for the caller's own process, determined by the run's seed and the label.
    #[must_use]
    pub fn generator(&self, label: &str) -> Generator {
        Generator::of_process(self.seed, label)
    }

    /// Adds a node with these addresses. Traces show the name.
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

    /// Adds one direction of a link. It carries no packets until a route leads to it.
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

    /// Adds a route to a node. A packet takes the most specific matching route: a route with a destination comes before one with only a
    /// source. Of equally specific routes the first is used.
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

    /// Connects an address of one node with an address of another by a link in each direction. Adds to both nodes the address, if it is
    /// missing, and the routes.
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
            // As in a real host, only the destination matters if the source address belongs to another link.
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

    /// The node as the type with which it was added.
    ///
    /// # Panics
    /// If the node was added with another type.
    #[must_use]
    pub fn node<T: Node>(&self, node: NodeId) -> &T {
        let entry = &self.nodes[node.index()];
        let node: &dyn Any = &*entry.node;
        node.downcast_ref()
            .unwrap_or_else(|| panic!("node {} is of another type", entry.name))
    }

    /// The node as the type with which it was added, to be changed. Its new packets leave at the next `run_` call.
    ///
    /// # Panics
    /// If the node was added with another type.
    pub fn node_mut<T: Node>(&mut self, node: NodeId) -> &mut T {
        if self.touched.last() != Some(&node) {
            self.touched.push(node);
        }
        let entry = &mut self.nodes[node.index()];
        let node: &mut dyn Any = &mut *entry.node;
        node.downcast_mut()
            .unwrap_or_else(|| panic!("node {} is of another type", entry.name))
    }

    /// A node of type [`Host`].
    ///
    /// # Panics
    /// If the node is not a host.
    #[must_use]
    pub fn host(&self, node: NodeId) -> &Host {
        self.node(node)
    }

    /// A node of type [`Host`], to be changed. Its new packets leave at the next `run_` call.
    ///
    /// # Panics
    /// If the node is not a host.
    pub fn host_mut(&mut self, node: NodeId) -> &mut Host {
        self.node_mut(node)
    }

    /// A link's counters so far.
    #[must_use]
    pub fn link_stats(&self, link: LinkId) -> &LinkStats {
        self.links[link.index()].link.stats()
    }

    /// Bytes in a link's queue now, including the packet in transmission.
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

    /// Changes a link's settings for later packets; see [`Link::set_config`](crate::Link::set_config).
    pub fn set_link_config(&mut self, link: LinkId, config: LinkConfig) {
        let entry = &mut self.links[link.index()];
        entry.link.set_config(config);
        self.events.set(entry.part, entry.link.next_event());
    }

    /// Takes a link down, so that it loses every packet given to it, or up again.
    pub fn cut(&mut self, link: LinkId, down: bool) {
        self.links[link.index()].link.set_down(down);
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len() as u32).map(LinkId)
    }

    /// Keeps the last `records` packets sent, for [`Network::records`]; 0, the default, keeps none.
    pub fn keep_records(&mut self, records: usize) {
        self.trace.keep(records);
    }

    /// The packets kept, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.trace.records()
    }

    /// Removes the packets kept so far.
    pub fn clear_records(&mut self) {
        self.trace.clear();
    }

    /// Writes every packet sent from now on to `out` in pcapng format. The capture makes many small writes, so pass a buffered writer.
    ///
    /// # Errors
    /// An error of `out`.
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

    /// Handles all events up to and including `end`, which becomes the current time.
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

    /// Runs for this duration.
    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// Runs until no packet is in transit and no timer is set, at most until `limit`; returns whether the network became idle. A host with
    /// heartbeats enabled never becomes idle.
    pub fn run_until_idle(&mut self, limit: Timestamp) -> bool {
        !self.run_while(limit, |_| true)
    }

    /// Runs while the condition holds, at most until `limit`. The condition is tested before each event. Returns true if it still holds at
    /// the limit; false if it does not hold or no event is left. The current time is then that of the last event, or `limit`.
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

    /// Handles the next event if it is due by `limit`; returns whether there was one.
    pub fn run_one(&mut self, limit: Timestamp) -> bool {
        self.drain_touched();
        self.step(limit)
    }

    /// Handles the next event if it is due by `end`.
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
                // Moving the entry is faster than removing and inserting it; this is the busiest line of a run.
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

    /// Sends a node's pending packets and sets its next wake.
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
        // A timer that became due during the drain is due now.
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

    /// Puts a packet on the link that the node's routes select.
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
