//! Several paths at once between loopback addresses; Linux has many of them. Each path has its own in-process link, which is cut
//! and restored during a transfer.
#![cfg(target_os = "linux")]

#[path = "common/transfer.rs"]
mod transfer;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anabranch::{Association, Config, Endpoint, LinkConfig, MultipathMode, PathPair, PathState};

use transfer::{LIMIT, PORT, Progress, receive, reduce_each_path, send, wait_for_paths};

const LINKS: [&str; 3] = [
    "rate=16mbit,delay=5ms,queue=64kib",
    "rate=8mbit,delay=15ms,queue=64kib,loss=0.1%",
    "rate=8mbit,delay=30ms,queue=64kib",
];

/// The addresses of a side (0 sends, 1 receives). Each test has its own.
fn addresses(test: u8, side: u8) -> Vec<IpAddr> {
    (1..=3)
        .map(|path| IpAddr::from([127, 83, 10 * test + side, path]))
        .collect()
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a link")
}

fn config(mode: MultipathMode, addresses: &[IpAddr]) -> Config {
    let mut config = Config::default();
    config.local_addresses = addresses.to_vec();
    config.multipath.mode = mode;
    config
}

/// An endpoint on these addresses, each with its own link if `links` is not empty.
fn endpoint(config: Config, links: &[&str]) -> Endpoint {
    let locals: Vec<_> = config
        .local_addresses
        .iter()
        .map(|address| SocketAddr::new(*address, 0))
        .collect();
    let mut builder = Endpoint::builder().backlog(256);
    for (address, text) in config.local_addresses.iter().zip(links) {
        builder = builder.path_link(*address, link(text), 1);
    }
    builder.config(config).bind_all(&locals).expect("bind")
}

fn paths_come_and_go(test: &str, number: u8, mode: MultipathMode) {
    let [ours, theirs] = [0, 1].map(|side| addresses(number, side));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let progress = Arc::new(Progress::default());
    let stop = Arc::new(AtomicBool::new(false));
    let (told, association) = mpsc::channel();
    let server = endpoint(config(mode, &theirs), &[]);
    server.listen_on_port(PORT).expect("listen");
    let to = server.local_addr();
    let receiver = runtime.spawn(receive(server, Arc::clone(&progress)));
    let client = endpoint(config(mode, &ours), &LINKS);
    let sender = runtime.spawn(send(client.clone(), to, Arc::clone(&stop), told));
    let association = association.recv_timeout(LIMIT).expect("connected");
    reduce_each_path(test, &association, &progress, LINKS.len(), |index, cut| {
        let settings = if cut { "loss=100%" } else { LINKS[index] };
        assert!(client.set_path_link(ours[index], &link(settings)));
    });
    stop.store(true, Ordering::Relaxed);
    let both = async { tokio::join!(sender, receiver) };
    let (sent, received) = runtime
        .block_on(tokio::time::timeout(LIMIT, both))
        .expect("in time");
    assert_eq!(
        received.expect("the receiver"),
        sent.expect("the sender"),
        "nothing is lost"
    );
    for local in ours {
        let (outward, _) = client.path_link_stats(local).expect("it has a link");
        assert!(outward.offered > 0, "{local}: {outward:?}");
    }
    assert!(client.link_stats().is_none() && !client.set_link(&LinkConfig::default()));
}

#[test]
fn three_paths_come_and_go() {
    paths_come_and_go("cmt over loopback", 0, MultipathMode::Cmt);
}

#[test]
fn three_paths_come_and_go_with_eca() {
    paths_come_and_go("eca over loopback", 2, MultipathMode::Eca);
}

/// Addresses are said once: where they are bound.
#[test]
fn the_peer_is_told_of_bound_addresses() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let [client, server] = [0, 1].map(|side| {
        let locals: Vec<_> = addresses(4, side)
            .into_iter()
            .map(|address| SocketAddr::new(address, 0))
            .collect();
        Endpoint::builder().bind_all(&locals).expect("bind")
    });
    server.listen_on_port(PORT).expect("listen");
    let connect = client.connect_to_port(server.local_addr(), PORT);
    let association = runtime.block_on(connect).expect("connect");
    wait_for_paths(&association, 3);
}

/// Each path to an address of the peer leaves from the local address that is paired with it, however many leading bits they
/// share. Without pairs, every local address has a path.
#[test]
fn paths_leave_from_the_addresses_they_are_told_to() {
    let [mut ours, theirs] = [0, 1].map(|side| addresses(1, side));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let server = endpoint(config(MultipathMode::Off, &theirs), &[]);
    server.listen_on_port(PORT).expect("listen");
    let to = server.local_addr();
    let locals_of = |config: Config| {
        let client = endpoint(config, &[]);
        let association = runtime
            .block_on(client.connect_to_port(to, PORT))
            .expect("connect");
        wait_for_paths(&association, 3);
        let paths = association.stats().paths;
        paths
            .iter()
            .map(|path| (path.remote.ip(), path.local.expect("fixed")))
            .collect::<Vec<_>>()
    };
    let mut paired = config(MultipathMode::Off, &ours);
    ours.rotate_left(1);
    let pairs = theirs.iter().zip(&ours);
    paired.path_pairs = pairs
        .clone()
        .map(|(&remote, &local)| PathPair { local, remote })
        .collect();
    let expected: Vec<_> = pairs.map(|(&remote, &local)| (remote, local)).collect();
    assert_eq!(locals_of(paired), expected);
    let mut locals: Vec<_> = locals_of(config(MultipathMode::Off, &ours))
        .into_iter()
        .map(|(_, local)| local)
        .collect();
    locals.sort_unstable();
    ours.sort_unstable();
    assert_eq!(locals, ours);
    let mut wrong = config(MultipathMode::Off, &ours);
    wrong.path_pairs = vec![PathPair {
        local: to.ip(),
        remote: to.ip(),
    }];
    assert!(wrong.validate().is_err(), "no address of its own");
}

/// The endpoint knows all addresses of a peer before it answers. Packets that the peer then sends from them are not out of the
/// blue packets, which an ABORT would answer.
#[test]
fn a_peer_is_known_by_all_its_addresses_from_the_beginning() {
    let [ours, theirs] = [0, 1].map(|side| addresses(3, side));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let all = async {
        let server = endpoint(config(MultipathMode::Cmt, &theirs), &[]);
        server.listen_on_port(PORT).expect("listen");
        let client = endpoint(config(MultipathMode::Cmt, &ours), &[]);
        let mut connecting = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let (client, to) = (client.clone(), server.local_addr());
            connecting.spawn(async move { client.connect_to_port(to, PORT).await.expect("connect") });
        }
        let mut associations = connecting.join_all().await;
        for _ in 0..200 {
            associations.push(server.accept().await.expect("an association"));
        }
        for association in &associations {
            let confirmed = |association: &Association| {
                let paths = association.stats().paths;
                paths.iter().all(|path| path.state == PathState::Active)
            };
            while !confirmed(association) {
                assert_eq!(association.close_reason(), None);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    runtime.block_on(async { tokio::time::timeout(LIMIT, all).await.expect("in time") });
}
