//! Every cell of the matrix of networks: a client with several networks, which address translators may stand before, and a server with one
//! address. Two networks behind one public address are two pairs of the server, which differ by the UDP port of the client alone.

use core::fmt;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use anabranch_netsim::{Host, LinkConfig, LinkId, Network, Node, NodeId, Packet, Route};
use anabranch_proto::{
    AddressEvent, Association, CloseReason, Config, ConnectOptions, DynamicAddressConfig, Event, PathState,
    SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::host_matrix::address;
use anabranch_testkit::{PORT, Talker, arrows, protect};
use anabranch_wire::chunk::kind;

use crate::matrix::{CLIENT_PORT, MS, message, start};

const UDP_PORT: u16 = 9899;
/// The first port that the translators give.
const PUBLIC_PORT: u16 = 40_000;
const MESSAGES: u32 = 20;

/// The translators before the networks of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Translators {
    None,
    /// Each network has a public address.
    Each,
    /// All networks have one public address.
    Shared,
}

/// The ends that have dynamic addresses (RFC 5061), and with them offer port pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Both,
    /// Both have dynamic addresses, but one is of another implementation: it offers no port pairs and ignores the parameter.
    WithoutPairs,
    Client,
    Server,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// The networks of the client, 2 or 3.
    networks: usize,
    translators: Translators,
    offer: Offer,
    /// Whether the INIT lists all addresses of the client. If not, the client adds those after the first one when set-up is complete.
    is_listed: bool,
    v6: bool,
    /// Whether packets are protected (draft-ietf-tsvwg-sctp-dtls-chunk), and no AUTH signs requests.
    is_protected: bool,
}

/// The name, such as `2-shared-both-added-v4`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let translators = match self.translators {
            Translators::None => "direct",
            Translators::Each => "each",
            Translators::Shared => "shared",
        };
        let offer = match self.offer {
            Offer::Both => "both",
            Offer::WithoutPairs => "nopairs",
            Offer::Client => "client",
            Offer::Server => "server",
        };
        let join = if self.is_listed { "listed" } else { "added" };
        let family = if self.v6 { "v6" } else { "v4" };
        let protected = if self.is_protected { "-protected" } else { "" };
        write!(
            f,
            "{}-{translators}-{offer}-{join}-{family}{protected}",
            self.networks
        )
    }
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for networks in [2, 3] {
            for translators in [Translators::None, Translators::Each, Translators::Shared] {
                for offer in [Offer::Both, Offer::WithoutPairs, Offer::Client, Offer::Server] {
                    for (is_listed, v6) in [(false, false), (true, false), (false, true), (true, true)] {
                        for is_protected in [false, true] {
                            cells.push(Self {
                                networks,
                                translators,
                                offer,
                                is_listed,
                                v6,
                                is_protected,
                            });
                        }
                    }
                }
            }
        }
        cells
    }

    fn server(&self) -> SocketAddr {
        SocketAddr::new(address(0, 2, self.v6), UDP_PORT)
    }

    /// The addresses of the client.
    fn own(&self) -> Vec<IpAddr> {
        let networks = 0..self.networks;
        networks.map(|network| address(network, 1, self.v6)).collect()
    }

    /// The address and port of a network, as the server sees them.
    fn public(&self, network: usize) -> SocketAddr {
        let port = PUBLIC_PORT + network as u16;
        match self.translators {
            Translators::None => SocketAddr::new(address(network, 1, self.v6), UDP_PORT),
            Translators::Each => SocketAddr::new(address(network, 7, self.v6), port),
            Translators::Shared => SocketAddr::new(address(0, 7, self.v6), port),
        }
    }

    fn has_dynamic_addresses(&self) -> bool {
        matches!(self.offer, Offer::Both | Offer::WithoutPairs)
    }

    fn config(&self, is_client: bool) -> Config {
        let offers = match self.offer {
            Offer::Both | Offer::WithoutPairs => true,
            Offer::Client => is_client,
            Offer::Server => !is_client,
        };
        let mut config = Config::default();
        config.heartbeat.interval = Some(500 * MS);
        config.dynamic_addresses = offers.then(DynamicAddressConfig::default);
        if is_client && self.is_listed {
            config.local_addresses = self.own();
        }
        if self.is_protected {
            protect(&mut config);
        }
        config
    }

    /// The networks from which packets of the client are answered.
    fn paths(&self) -> usize {
        let listed_works = match self.translators {
            Translators::None => true,
            // The address in the INIT leads nowhere, and the server does not know that of the translator.
            Translators::Each => false,
            // The server knows the address, and follows the port (RFC 6951 §5.4).
            Translators::Shared => true,
        };
        if self.has_dynamic_addresses() || self.is_listed && listed_works {
            self.networks
        } else {
            1
        }
    }

    /// Whether the server has one path to the client, whose port is that of the last packet (RFC 6951 §5.4). A restart from another port is
    /// then a set-up of another host.
    fn moves_port(&self) -> bool {
        self.translators == Translators::Shared && self.offer != Offer::Both && self.paths() > 1
    }
}

/// The translators of all networks, which forward each packet. Without translators, the public addresses are those of the client.
struct Gateway {
    server: SocketAddr,
    /// The address and port of each network: in the network, and public.
    mappings: Vec<[SocketAddr; 2]>,
    hides_pairs: bool,
    queue: VecDeque<Packet>,
}

impl Gateway {
    fn other(&self, of: usize, socket: SocketAddr) -> Option<SocketAddr> {
        let mapping = self.mappings.iter().find(|mapping| mapping[of] == socket);
        mapping.map(|mapping| mapping[1 - of])
    }
}

impl Node for Gateway {
    fn handle_packet(&mut self, _: Timestamp, mut packet: Packet) {
        let (of, end) = if packet.destination == self.server {
            (0, &mut packet.source)
        } else {
            (1, &mut packet.destination)
        };
        let Some(other) = self.other(of, *end) else {
            return;
        };
        *end = other;
        if self.hides_pairs {
            let mut sctp = packet.payload.clone().into_sctp().to_vec();
            hide_pairs(&mut sctp);
            packet.payload = sctp.into();
        }
        self.queue.push_back(packet);
    }

    fn handle_timeout(&mut self, _: Timestamp) {}

    fn poll_transmit(&mut self, _: Timestamp) -> Option<Packet> {
        self.queue.pop_front()
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }
}

/// Makes Port Pairs Supported a parameter that nobody knows, in an INIT or INIT ACK.
fn hide_pairs(packet: &mut [u8]) {
    if !matches!(packet[12], kind::INIT | kind::INIT_ACK) {
        return;
    }
    let mut at = 12 + 20;
    while at + 4 <= packet.len() {
        if packet[at..at + 2] == [0x9A, 0x01] {
            packet[at + 1] = 0xFF;
        }
        let length = u16::from_be_bytes([packet[at + 2], packet[at + 3]]);
        at += usize::from(length).next_multiple_of(4);
    }
    packet[8..12].fill(0);
    let checksum = anabranch_wire::crc32c(packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
}

/// The client, the translators and the server.
struct Bench {
    network: Network,
    hosts: [NodeId; 2],
    /// The links of each network of the client, from it and to it.
    links: Vec<[LinkId; 2]>,
}

impl Bench {
    fn new(cell: &Cell, seed: u64) -> Self {
        let mut network = Network::new(seed);
        network.keep_records(60);
        let (own, server) = (cell.own(), cell.server());
        let mut add = |name: &str, addresses: &[IpAddr]| {
            let random = network.generator(name).bytes();
            let config = cell.config(name == "client");
            let mut host = Host::new(config, UDP_PORT, random).expect("the settings are in range");
            start(&mut host);
            network.add_node(name, addresses, host)
        };
        let hosts = [add("client", &own), add("server", &[server.ip()])];
        let socket = |address: &IpAddr| SocketAddr::new(*address, UDP_PORT);
        let mappings = (0..)
            .zip(&own)
            .map(|(network, one)| [socket(one), cell.public(network)]);
        let mappings: Vec<_> = mappings.collect();
        // Packets to these addresses do not pass a translator without a mapping.
        let addresses = mappings.iter().flatten().map(SocketAddr::ip);
        let addresses: Vec<_> = addresses.chain([server.ip()]).collect();
        let gateway = Gateway {
            server,
            mappings,
            hides_pairs: cell.offer == Offer::WithoutPairs,
            queue: VecDeque::new(),
        };
        let gateway = network.add_node("translators", &addresses, gateway);
        let mut join = |node: NodeId, own: IpAddr| {
            let link = || LinkConfig::default().with_delay(2 * MS);
            let links = [
                network.add_link(node, gateway, link()),
                network.add_link(gateway, node, link()),
            ];
            let outward = Route {
                source: Some(own),
                destination: None,
                link: links[0],
            };
            let inward = Route {
                source: None,
                destination: Some(own),
                link: links[1],
            };
            network.add_route(node, outward);
            network.add_route(gateway, inward);
            links
        };
        let links = own.iter().map(|one| join(hosts[0], *one)).collect();
        join(hosts[1], server.ip());
        Self {
            network,
            hosts,
            links,
        }
    }

    fn host(&mut self, host: usize) -> &mut Host {
        self.network.host_mut(self.hosts[host])
    }

    fn talker(&mut self, host: usize) -> &mut Talker {
        let talker = self.host(host).application_mut();
        talker.expect("the host runs a talker")
    }

    /// The only association of a host.
    fn association(&mut self, host: usize) -> &mut Association {
        let host = self.host(host);
        let ids: Vec<_> = host.association_ids().collect();
        let [id] = ids[..] else {
            panic!("one association, not {ids:?}")
        };
        host.association_mut(id).expect("it is not forgotten")
    }

    /// The client sends INIT from this network, and adds the others when set-up is complete.
    fn connect(&mut self, cell: &Cell, network: usize) {
        let options = ConnectOptions::default()
            .local_address(Some(cell.own()[network]))
            .local_port(Some(CLIENT_PORT));
        let now = self.network.now();
        let connected = self.host(0).connect(now, cell.server(), PORT, options);
        connected.expect("connect");
        self.network.run_for(500 * MS);
        let now = self.network.now();
        if !cell.is_listed {
            let set = self.association(0).local_addresses().set(now, &cell.own());
            assert_eq!(set.is_ok(), cell.has_dynamic_addresses());
        }
    }

    /// The client loses all state and sets up again, from the last of its networks that the server knows.
    fn restart(&mut self, cell: &Cell) {
        let seed = self.network.generator("restart").bytes();
        let host = self.host(0);
        host.reboot(cell.config(true), seed)
            .expect("the settings are in range");
        start(host);
        self.connect(cell, cell.paths() - 1);
    }

    /// The active paths of a host: local addresses of the client, addresses and ports that the server sends to.
    fn active(&mut self, host: usize) -> Vec<(Option<IpAddr>, SocketAddr)> {
        let paths = self.association(host).stats().paths;
        let active = paths.iter().filter(|path| path.state == PathState::Active);
        let mut active: Vec<_> = active.map(|path| (path.local, path.remote)).collect();
        active.sort_unstable();
        active
    }

    /// Sends messages in each direction, one every 100 ms, and checks the paths of both hosts.
    fn exchange(&mut self, cell: &Cell, networks: usize) {
        self.network.run_for(5000 * MS);
        for number in 0..MESSAGES {
            for host in 0..2 {
                let now = self.network.now();
                let message = message(number, host).into();
                let association = self.association(host);
                let sent = association.send(now, StreamId(0), message, SendOptions::default());
                sent.expect("the association goes on");
            }
            self.network.run_for(100 * MS);
        }
        self.network.run_for(20_000 * MS);
        for host in 0..2 {
            let received = self.talker(1 - host).inbox.drain(..);
            let received: Vec<_> = received.map(|message| message.bytes.to_vec()).collect();
            let sent: Vec<_> = (0..MESSAGES).map(|number| message(number, host)).collect();
            assert!(received == sent, "{} messages of host {host}", received.len());
        }
        let own = cell.own().into_iter().take(cell.paths().min(networks));
        let own: Vec<_> = own.map(|own| (Some(own), cell.server())).collect();
        assert_eq!(self.active(0), own, "paths of the client");
        let active = self.active(1);
        if cell.moves_port() {
            assert_eq!(active.len(), 1, "paths of the server: {active:?}");
            return;
        }
        let public = (0..cell.paths().min(networks)).map(|network| cell.public(network));
        let public: Vec<_> = public.map(|public| (Some(cell.server().ip()), public)).collect();
        assert_eq!(active, public, "paths of the server");
    }
}

fn run(cell: &Cell, bench: &mut Bench) {
    bench.connect(cell, 0);
    bench.exchange(cell, cell.networks);
    for host in 0..2 {
        let pairs = bench.association(host).stats().extensions.port_pairs;
        assert_eq!(pairs, cell.offer == Offer::Both, "host {host}");
    }
    // A protected association is not restarted.
    let restarts_once = !cell.moves_port() && !cell.is_protected;
    if restarts_once {
        bench.restart(cell);
        bench.exchange(cell, cell.networks);
    }
    let restarts = bench.association(1).counters().restarts;
    assert_eq!(
        restarts,
        u64::from(restarts_once),
        "the server's association goes on"
    );
    // The last network of the client is gone.
    for link in bench.links[cell.networks - 1] {
        bench.network.cut(link, true);
    }
    let now = bench.network.now();
    let last = cell.own()[cell.networks - 1];
    let removed = bench.association(0).local_addresses().remove(now, last);
    assert_eq!(removed.is_ok(), cell.has_dynamic_addresses());
    bench.network.run_for(300_000 * MS);
    bench.exchange(cell, cell.networks - 1);
    let now = bench.network.now();
    bench.association(0).shutdown(now);
    bench.network.run_for(5000 * MS);
    for host in 0..2 {
        let events = bench.talker(host).events.drain(..);
        let events: Vec<_> = events.map(|(_, _, event)| event).collect();
        let may_share = |event: &Event| matches!(event, Event::Addresses(AddressEvent::LocalMayShare(_)));
        let warns = host == 0
            && cell.offer == Offer::WithoutPairs
            && (!cell.is_listed || cell.translators == Translators::Each);
        assert_eq!(events.iter().any(may_share), warns, "host {host}");
        assert_eq!(
            events.last(),
            Some(&Event::Closed(CloseReason::Shutdown)),
            "host {host}"
        );
    }
}

#[test]
fn every_cell_of_networks() {
    let mut failed = 0;
    let part = std::env::var("NETWORKS").unwrap_or_default();
    let cells: Vec<_> = Cell::all()
        .into_iter()
        .filter(|cell| cell.to_string().contains(&part))
        .collect();
    for (seed, cell) in cells.iter().enumerate() {
        let mut bench = Bench::new(cell, seed as u64);
        if catch_unwind(AssertUnwindSafe(|| run(cell, &mut bench))).is_err() {
            failed += 1;
            eprintln!("{}", arrows::draw(&bench.network));
            eprintln!(
                "again: NETWORKS={cell} cargo test -p anabranch-testkit --test hosts every_cell_of_networks"
            );
        }
    }
    assert_eq!(failed, 0, "of {} cells", cells.len());
}
