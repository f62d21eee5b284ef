//! Every cell of the matrix of hosts, in virtual time: set-up, 100 messages in each direction with heartbeats, a restart of the
//! client, and a graceful shutdown. No packet leaves from an address that the peer does not know.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use anabranch_netsim::{Host, LinkConfig, Network, NodeId, Route, Router};
use anabranch_proto::{
    Association, CloseReason, Config, ConnectOptions, Event, LowerLayer, PathState, PathStats, SendOptions,
    StreamId,
};
use anabranch_testkit::host_matrix::{Binding, Cell, Lists, address};
use anabranch_testkit::{PORT, Talker, arrows};

use crate::machine::Machine;

const MESSAGES: u32 = 100;
/// The client's SCTP port, the same after a restart.
pub(crate) const CLIENT_PORT: u16 = 7000;
pub(crate) const MS: Duration = Duration::from_millis(1);
/// The third host, whose address the peer lists wrongly.
const STRANGER: usize = 9;

/// Two hosts, a third one, and the router between them.
struct Bench {
    network: Network,
    /// The host under test and its peer.
    hosts: [NodeId; 2],
    stranger: NodeId,
}

fn config(cell: &Cell, host: usize) -> Config {
    let mut config = Config::default();
    config.lower_layer = if cell.raw_ip {
        LowerLayer::Ip
    } else {
        LowerLayer::Udp
    };
    config.local_addresses = if host == 0 {
        cell.listed()
    } else {
        cell.peer_listed()
    };
    config.heartbeat.interval = Some(500 * MS);
    config
}

pub(crate) fn start(host: &mut Host) {
    host.endpoint_mut().listen(PORT).expect("not port 0");
    host.run(Talker::default(), None);
}

fn udp_port(cell: &Cell) -> u16 {
    if cell.raw_ip { 0 } else { 9899 }
}

impl Bench {
    fn new(cell: &Cell, seed: u64) -> Self {
        let mut network = Network::new(seed);
        network.keep_records(60);
        let router = network.add_node("router", &[], Router);
        let mut add = |number: u8, interfaces: usize| {
            let addresses = cell.addresses(number, interfaces);
            let random = network.generator(&format!("host {number}")).bytes();
            let config = config(cell, usize::from(number) - 1);
            let mut host = Host::new(config, udp_port(cell), random).expect("the settings are in range");
            start(&mut host);
            let bound = (number == 1 && cell.binding == Binding::Bound)
                .then(|| address(interfaces - 1, 1, cell.family.sets_up_over_v6()));
            let machine = Machine::new(Some(host), number, interfaces, addresses.clone()).bind(bound);
            let node = network.add_node(&format!("{number}"), &addresses, machine);
            join(&mut network, router, node, number, interfaces);
            node
        };
        let hosts = [add(1, cell.interfaces), add(2, cell.peer_interfaces)];
        let mut stranger = Machine::new(None, 9, STRANGER + 1, vec![cell.stranger()]);
        stranger.is_silent = cell.peer_interfaces == 2;
        let stranger = network.add_node("stranger", &[cell.stranger()], stranger);
        join(&mut network, router, stranger, 9, STRANGER + 1);
        Self {
            network,
            hosts,
            stranger,
        }
    }

    fn machine(&mut self, host: usize) -> &mut Machine {
        self.network.node_mut(self.hosts[host])
    }

    fn talker(&mut self, host: usize) -> &mut Talker {
        let host = self.machine(host).endpoint();
        host.application_mut().expect("the host runs a talker")
    }

    /// The only association of a host.
    fn association(&mut self, host: usize) -> &mut Association {
        let host = self.machine(host).endpoint();
        let ids: Vec<_> = host.association_ids().collect();
        let [id] = ids[..] else {
            panic!("one association, not {ids:?}")
        };
        host.association_mut(id).expect("it is not forgotten")
    }

    fn paths(&mut self, host: usize) -> Vec<PathStats> {
        self.association(host).stats().paths
    }

    /// The client sends INIT.
    fn connect(&mut self, cell: &Cell) {
        let remote = SocketAddr::new(cell.connects_to(), udp_port(cell));
        let now = self.network.now();
        let machine = self.machine(client(cell));
        // The driver does this for an endpoint with several sockets.
        let several = cell.is_client && cell.binding == Binding::Listed;
        let options = ConnectOptions::default()
            .local_address(several.then(|| machine.source_towards(remote.ip())))
            .local_port(Some(CLIENT_PORT));
        machine
            .endpoint()
            .connect(now, remote, PORT, options)
            .expect("connect");
    }

    /// The client loses all state and sets up again.
    fn restart(&mut self, cell: &Cell) {
        let seed = self.network.generator("restart").bytes();
        let machine = self.machine(client(cell));
        machine.reboot(config(cell, client(cell)), seed);
        start(machine.endpoint());
        self.connect(cell);
    }

    fn run_for(&mut self, time: Duration) {
        self.network.run_for(time);
    }

    fn events(&mut self, host: usize) -> Vec<Event> {
        let events = self.talker(host).events.drain(..);
        events.map(|(_, _, event)| event).collect()
    }
}

fn client(cell: &Cell) -> usize {
    usize::from(!cell.is_client)
}

/// Connects each interface with the router. A host reaches the network of an interface through that interface, and other
/// networks through its first interface.
fn join(network: &mut Network, router: NodeId, node: NodeId, number: u8, interfaces: usize) {
    let link = || LinkConfig::default().with_delay(2 * MS);
    let links: Vec<_> = (0..interfaces)
        .map(|_| {
            (
                network.add_link(node, router, link()),
                network.add_link(router, node, link()),
            )
        })
        .collect();
    for v6 in [false, true] {
        for (interface, (_, inward)) in links.iter().enumerate() {
            let destination = Some(address(interface, number, v6));
            network.add_route(
                router,
                Route {
                    source: None,
                    destination,
                    link: *inward,
                },
            );
        }
        for (of, other) in (0..=STRANGER).flat_map(|of| [1, 2, 9].map(|other| (of, other))) {
            let (outward, _) = links[if of < links.len() { of } else { 0 }];
            network.add_route(
                node,
                Route {
                    source: None,
                    destination: Some(address(of, other, v6)),
                    link: outward,
                },
            );
        }
    }
}

pub(crate) fn message(number: u32, from: usize) -> Vec<u8> {
    format!("message {number} from host {from}")
        .repeat(10)
        .into_bytes()
}

/// Sends this many messages in each direction, one every 100 ms, and returns the paths of both hosts.
fn exchange(cell: &Cell, bench: &mut Bench, messages: u32) {
    bench.run_for(1000 * MS);
    for number in 0..messages {
        for host in 0..2 {
            let now = bench.network.now();
            let message = message(number, host).into();
            bench
                .association(host)
                .send(now, StreamId(0), message, SendOptions::default())
                .expect("the association goes on");
        }
        bench.run_for(100 * MS);
    }
    bench.run_for(20_000 * MS);
    for (host, expected) in [(0, cell.paths()), (1, cell.peer_paths())] {
        let received = bench.talker(1 - host).inbox.drain(..);
        let received: Vec<_> = received.map(|message| message.bytes.to_vec()).collect();
        let sent: Vec<_> = (0..messages).map(|number| message(number, host)).collect();
        assert!(received == sent, "{} messages of host {host}", received.len());
        let paths = bench.paths(host);
        let active = |path: &&PathStats| path.state == PathState::Active;
        assert_eq!(
            paths.iter().filter(active).count(),
            expected,
            "host {host}: {paths:?}"
        );
        let nowhere = |path: &PathStats| cell.leads_nowhere(host == 1, path.local, path.remote.ip());
        let others = paths.iter().filter(|path| !active(path) && !nowhere(path));
        let others: Vec<_> = others.collect();
        let wrong = [cell.wrong_address(), cell.peer_wrong_address()][host];
        assert_eq!(
            others.iter().map(|path| path.remote.ip()).collect::<Vec<_>>(),
            Vec::from_iter(wrong),
            "host {host}"
        );
        for path in others {
            assert_eq!((path.state, path.data_chunks_sent), (PathState::Unconfirmed, 0));
        }
        let counters = bench.association(host).counters();
        assert_eq!((counters.failovers, counters.timeouts), (0, 0), "host {host}");
    }
}

fn run(cell: &Cell, bench: &mut Bench) {
    bench.connect(cell);
    exchange(cell, bench, MESSAGES);
    bench.restart(cell);
    exchange(cell, bench, 10);
    let restarts = bench.association(1 - client(cell)).counters().restarts;
    assert_eq!(restarts, 1, "the server's association goes on");
    let now = bench.network.now();
    bench.association(0).shutdown(now);
    bench.run_for(5000 * MS);
    for host in 0..2 {
        let events = bench.events(host);
        assert_eq!(
            events.last(),
            Some(&Event::Closed(CloseReason::Shutdown)),
            "host {host}"
        );
        let machine = bench.machine(host);
        assert_eq!(
            machine.unknown,
            Vec::<IpAddr>::new(),
            "sources that host {host} was not told of"
        );
        // From an address that it lists and does not have, a host tries to send in vain.
        if host == 0 || cell.lists != Lists::OneWrong {
            assert_eq!(
                machine.refused,
                Vec::<SocketAddr>::new(),
                "what the system of host {host} refused"
            );
        }
    }
    let stranger: &Machine = bench.network.node(bench.stranger);
    assert_eq!(
        stranger.unknown.is_empty(),
        cell.lists != Lists::OneWrong,
        "heartbeats to the wrong address"
    );
}

#[test]
fn every_cell() {
    let mut failed = 0;
    let cells = Cell::chosen(Cell::all(), "HOSTS");
    for (seed, cell) in cells.iter().enumerate() {
        let mut bench = Bench::new(cell, seed as u64);
        if catch_unwind(AssertUnwindSafe(|| run(cell, &mut bench))).is_err() {
            failed += 1;
            eprintln!("{}", arrows::draw(&bench.network));
            eprintln!("again: HOSTS={cell} cargo test -p anabranch-testkit --test hosts every_cell");
        }
    }
    assert_eq!(failed, 0, "of {} cells", cells.len());
}
