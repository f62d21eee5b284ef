//! The matrix of hosts (`anabranch_testkit::host_matrix`) on real sockets: a covering array of its cells, each in its own
//! namespaces. Interfaces with equal numbers are connected. Each host has a route through its first interface to the peer's
//! addresses behind other interfaces, and accepts packets to any of its addresses on any interface, as Linux does.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, PathState, PathStats, StreamId, Transport};
use anabranch_testkit::host_matrix::{Binding, Cell, address};
use tokio::sync::watch;

use crate::bed::{Bed, LIMIT, turn};

const UDP_PORT: u16 = 9899;
const PORT: u16 = 5000;
const MESSAGES: u32 = 100;
const HEARTBEATS: Duration = Duration::from_millis(500);
/// Cells that run at the same time: a cell waits more than it computes.
const AT_ONCE: usize = 8;
/// The number of an interface that no host has; the wrong address is behind it.
const STRANGER: u8 = 9;

fn prefix(address: IpAddr) -> String {
    let length = if address.is_ipv6() { 64 } else { 24 };
    format!("{address}/{length}")
}

/// The hosts of a cell: `a` is the host under test, `z` is its peer. The third host, `x`, has the address that the peer lists
/// wrongly, and no association.
fn build(cell: &Cell, name: &'static str) -> Option<Bed> {
    let bed = Bed::build(name, &["a", "z", "x"], &[])?;
    let of = |number: u8, interface: usize| -> Vec<String> {
        let versions = [false, true].into_iter().filter(|v6| cell.family.has(*v6));
        versions
            .map(|v6| prefix(address(interface, number, v6)))
            .collect()
    };
    let joined = cell.interfaces.min(cell.peer_interfaces);
    for interface in 0..joined {
        let [ours, theirs] = [1, 2].map(|number| of(number, interface));
        let [ours, theirs] = [&ours, &theirs].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
        bed.join(&format!("path{interface}"), [("a", &ours), ("z", &theirs)]);
    }
    for (role, number, interfaces) in [("a", 1, cell.interfaces), ("z", 2, cell.peer_interfaces)] {
        // The other ends of these interfaces are at the third host, which does not use them.
        for interface in joined..interfaces {
            let own = of(number, interface);
            let own: Vec<_> = own.iter().map(String::as_str).collect();
            bed.join(&format!("path{interface}"), [(role, &own), ("x", &[])]);
        }
        if let Some(shared) = cell.shared() {
            bed.ip(role, &format!("addr add {shared} dev lo"));
        }
        for v6 in [false, true].into_iter().filter(|v6| cell.family.has(*v6)) {
            bed.ip(
                role,
                &format!("route add default via {}", address(0, 3 - number, v6)),
            );
        }
    }
    let wrong = cell.stranger();
    let gateway = address(usize::from(STRANGER), 1, wrong.is_ipv6());
    bed.join("wrong", [("a", &[&prefix(gateway)]), ("x", &[&prefix(wrong)])]);
    bed.ip("x", &format!("route add default via {gateway}"));
    Some(bed)
}

fn endpoint(cell: &Cell, is_peer: bool) -> Endpoint {
    let mut config = Config::default();
    config.heartbeat.interval = Some(HEARTBEATS);
    // Without this, the confirmation of a path could take a minute.
    config.rto.max = Duration::from_secs(2);
    config.local_addresses = if is_peer {
        cell.peer_listed()
    } else {
        cell.listed()
    };
    let transport = if cell.raw_ip {
        Transport::RawIp
    } else {
        Transport::Udp
    };
    let any = |v6: bool| -> IpAddr { if v6 { [0; 16].into() } else { [0; 4].into() } };
    let addresses: Vec<IpAddr> = match cell.binding {
        Binding::Listed if !is_peer => cell.listed(),
        Binding::Bound if !is_peer => {
            vec![address(cell.interfaces - 1, 1, cell.family.sets_up_over_v6())]
        }
        // One UDP socket on [::] carries both IP versions; a raw socket carries IPv6 only.
        _ if cell.family.has(true) && !cell.raw_ip => vec![any(true)],
        _ => [false, true]
            .into_iter()
            .filter(|v6| cell.family.has(*v6))
            .map(any)
            .collect(),
    };
    let locals: Vec<_> = addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, UDP_PORT))
        .collect();
    let builder = Endpoint::builder().config(config).transport(transport);
    builder
        .linger(Duration::from_secs(2))
        .bind_all(&locals)
        .expect("bind")
}

fn message(number: u32, is_peer: bool) -> Vec<u8> {
    format!("message {number}, {is_peer}").repeat(10).into_bytes()
}

/// The work of a host after the association setup: it sends and receives messages, waits until the paths of both sides are in the
/// expected state and for further heartbeats, and ends.
async fn converse(
    cell: Cell,
    is_peer: bool,
    association: Association,
    done: watch::Sender<usize>,
) -> Vec<PathStats> {
    let sending = async {
        for number in 0..MESSAGES {
            let sent = association.send(StreamId(0), message(number, is_peer)).await;
            sent.expect("the association goes on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let receiving = async {
        for number in 0..MESSAGES {
            let got = association.recv().await.expect("recv").expect("another message");
            assert!(got.into_bytes() == message(number, !is_peer), "message {number}");
        }
    };
    tokio::join!(sending, receiving);
    let expected = if is_peer { cell.peer_paths() } else { cell.paths() };
    loop {
        assert!(
            association.close_reason().is_none(),
            "{:?}",
            association.close_reason()
        );
        let paths = association.stats().paths;
        let active = paths
            .iter()
            .filter(|path| path.state == PathState::Active)
            .count();
        if active == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(3 * HEARTBEATS).await;
    done.send_modify(|count| *count += 1);
    let mut both = done.subscribe();
    let _ = both.wait_for(|count| *count == 2).await;
    let paths = association.stats().paths;
    if is_peer {
        let end = association.recv().await.expect("an orderly end");
        assert!(end.is_none(), "no more messages");
    } else {
        association.shutdown().await.expect("an orderly end");
    }
    paths
}

fn check(cell: &Cell, is_peer: bool, paths: &[PathStats]) {
    let expected = if is_peer { cell.peer_paths() } else { cell.paths() };
    let (active, others): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.state == PathState::Active);
    assert_eq!(active.len(), expected, "peer {is_peer}: {paths:?}");
    let wrong = if is_peer {
        cell.peer_wrong_address()
    } else {
        cell.wrong_address()
    };
    let nowhere = |path: &PathStats| cell.leads_nowhere(is_peer, path.local, path.remote.ip());
    let others: Vec<_> = others.into_iter().filter(|path| !nowhere(path)).collect();
    assert_eq!(
        others.iter().map(|path| path.remote.ip()).collect::<Vec<_>>(),
        Vec::from_iter(wrong),
        "peer {is_peer}"
    );
    for path in others {
        assert_eq!((path.state, path.data_chunks_sent), (PathState::Unconfirmed, 0));
    }
}

fn run(cell: &Cell, bed: &Bed) {
    let cell = *cell;
    let done = watch::Sender::new(0);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let host = |is_peer: bool| {
        let (done, ready) = (done.clone(), ready.clone());
        let listens = is_peer == cell.is_client;
        bed.inside(if is_peer { "z" } else { "a" }, move || async move {
            let endpoint = endpoint(&cell, is_peer);
            let association = if listens {
                endpoint.listen_on_port(PORT).expect("listen");
                ready.send(()).expect("it is awaited");
                endpoint.accept().await.expect("an association")
            } else {
                let remote = SocketAddr::new(cell.connects_to(), UDP_PORT);
                endpoint.connect_to_port(remote, PORT).await.expect("connect")
            };
            let paths = converse(cell, is_peer, association, done).await;
            endpoint.close().await;
            paths
        })
    };
    // The host at the wrong address has no association, and answers with ABORT.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stranger = bed.inside("x", move || async move {
        let transport = if cell.raw_ip {
            Transport::RawIp
        } else {
            Transport::Udp
        };
        let builder = Endpoint::builder().transport(transport);
        let local = SocketAddr::new(cell.stranger(), UDP_PORT);
        let endpoint = builder.bind_all(&[local]).expect("bind");
        // Over raw IP, an endpoint answers only for ports on which it listens.
        endpoint.listen_on_port(PORT).expect("listen");
        let _ = stopped.await;
        endpoint.close().await;
    });
    let server = host(cell.is_client);
    is_ready.recv_timeout(LIMIT).expect("it listens");
    let client = host(!cell.is_client);
    let (client, server) = (client.join(), server.join());
    drop(stop);
    stranger.join().expect("the stranger");
    let (client, server) = (client.expect("the client"), server.expect("the server"));
    let (ours, theirs) = if cell.is_client {
        (client, server)
    } else {
        (server, client)
    };
    check(&cell, false, &ours);
    check(&cell, true, &theirs);
}

/// RFC 4007: a packet to a link-local address needs the interface too, also if it is an answer.
#[test]
fn link_local_addresses_carry_an_association() {
    let Some(bed) = Bed::build("linklocal", &["a", "z"], &[]) else {
        return;
    };
    bed.join("path0", [("a", &["fe80::a/64"]), ("z", &["fe80::b/64"])]);
    let open = |transport| {
        let any = SocketAddr::from(([0; 16], UDP_PORT));
        let builder = Endpoint::builder().transport(transport);
        builder.bind_all(&[any]).expect("bind")
    };
    for transport in [Transport::Udp, Transport::RawIp] {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let server = bed.inside("z", move || async move {
            let endpoint = open(transport);
            endpoint.listen_on_port(PORT).expect("listen");
            ready.send(()).expect("it is awaited");
            let association = endpoint.accept().await.expect("an association");
            let got = association.recv().await.expect("recv").expect("a message");
            association
                .send(StreamId(0), got.into_bytes())
                .await
                .expect("send");
            assert!(association.recv().await.expect("an orderly end").is_none());
            endpoint.close().await;
        });
        is_ready.recv_timeout(LIMIT).expect("it listens");
        let client = bed.inside("a", move || async move {
            let endpoint = open(transport);
            let socket = std::net::UdpSocket::bind("[::]:0").expect("bind");
            let interface = rustix::net::netdevice::name_to_index(&socket, "path0").expect("it is there");
            let address = "fe80::b".parse().expect("an address");
            let remote = std::net::SocketAddrV6::new(address, UDP_PORT, 0, interface);
            let association = endpoint
                .connect_to_port(SocketAddr::V6(remote), PORT)
                .await
                .expect("connect");
            association
                .send(StreamId(0), message(0, false))
                .await
                .expect("send");
            let back = association.recv().await.expect("recv").expect("a message");
            assert!(back.into_bytes() == message(0, false));
            association.shutdown().await.expect("an orderly end");
            endpoint.close().await;
        });
        client.join().expect("the client");
        server.join().expect("the server");
    }
}

#[test]
fn hosts_of_a_covering_array() {
    let cells = Cell::chosen(Cell::pairwise(), "HOSTS");
    assert!(cells.len() <= 40, "{}", cells.len());
    let _turn = turn();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(String::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((number, cell)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(number).map(|cell| (number, cell))
                } {
                    // The name of a namespace must be short.
                    let name: &'static str = format!("hosts{number}").leak();
                    let ran = || {
                        if let Some(bed) = build(cell, name) {
                            run(cell, &bed);
                        }
                    };
                    if catch_unwind(AssertUnwindSafe(ran)).is_err() {
                        let mut failed = failed.lock().expect("no panic");
                        let _ = writeln!(
                            failed,
                            "again: HOSTS={cell} cargo test -p anabranch --test namespaces hosts_of"
                        );
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "of {} cells:\n{failed}", cells.len());
}
