//! usrsctp changes its addresses in the middle of an exchange (RFC 5061): it adds an address, asks for the primary path to its first
//! address, and deletes the added one. Its ASCONF chunks are signed with a shared key.

use std::net::{IpAddr, SocketAddr};
use std::process::Child;
use std::sync::mpsc;

use anabranch::{
    AddressEvent, Association, AuthenticationConfig, Config, DynamicAddressConfig, Endpoint, Event, SharedKey,
};

use crate::bed::Bed;
use crate::peer_messages::{Inbox, Sizes, receive_all, send_all};
use crate::usrsctp::{PORT, UDP_PORT, listening, peer_at, reliable, two_subnets, verdict};

const OURS: [[u8; 4]; 2] = [[10, 83, 1, 1], [10, 83, 2, 1]];
const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 83, 1, 2));
const SECOND: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 83, 2, 2));
/// Messages in each direction.
const MESSAGES: u64 = 2000;
const KEY: &str = "a secret of both";

fn open() -> Endpoint {
    let mut config = Config::default();
    config.local_addresses = OURS.map(IpAddr::from).to_vec();
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    let mut authentication = AuthenticationConfig::default();
    authentication.keys = vec![SharedKey {
        id: 1,
        secret: KEY.into(),
    }];
    config.authentication = Some(authentication);
    let locals = OURS.map(|address| SocketAddr::from((address, UDP_PORT)));
    let link = "delay=5ms,loss=0.2%".parse().expect("a link");
    let builder = Endpoint::builder().config(config).link(link, 7);
    builder
        .linger(std::time::Duration::from_secs(4))
        .bind_all(&locals)
        .expect("bind")
}

/// Messages in both directions while the peer changes its addresses; then this side ends the association.
async fn exchange(association: &Association, own: u64) {
    let sender = send_all(association, Sizes::Mixed, own, 0..MESSAGES, reliable);
    let mut inbox = Inbox::new(Sizes::Mixed, 1 - own, MESSAGES);
    let receiver = receive_all(association, &mut inbox, |_| true, |_| ());
    let changes = async {
        let mut changes = Vec::new();
        while changes.last() != Some(&AddressEvent::PeerRemoved(SECOND)) {
            if let Event::Addresses(change) = association.next_event().await.expect("the association lives") {
                changes.push(change);
            }
        }
        changes
    };
    let ((), (), changes) = tokio::join!(sender, receiver, changes);
    let [added, primary, _] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(
        matches!(added, AddressEvent::PeerAdded { address: SECOND, .. }),
        "{added:?}"
    );
    assert!(
        matches!(primary, AddressEvent::PeerPrimary { address: FIRST, .. }),
        "{primary:?}"
    );
    association.drained().await.expect("all is acknowledged");
    let stats = association.stats();
    assert!(
        stats.paths.iter().all(|path| path.remote.ip() == FIRST),
        "{:?}",
        stats.paths
    );
    assert!(stats.counters.asconfs_received >= 2, "{:?}", stats.counters);
    assert!(stats.counters.packets_verified >= stats.counters.asconfs_received);
    assert_eq!(stats.counters.packets_unverified, 0);
    association.shutdown().await.expect("an orderly end");
}

fn start(bed: &Bed, role: &[&str]) -> Child {
    let [messages, udp_port] = [MESSAGES.to_string(), UDP_PORT.to_string()];
    let key = format!("1:{KEY}");
    let common = [
        "--messages",
        &messages,
        "--udp-port",
        &udp_port,
        "--shutdown",
        "second",
        "--auth-key",
        &key,
        "--add",
        "500:10.83.2.2",
        "--ask-primary",
        "800:10.83.1.2",
        "--remove",
        "1200:10.83.2.2",
    ];
    peer_at(bed, &["10.83.1.2"], &[role, &common].concat())
}

#[test]
fn usrsctp_listens_and_changes_its_addresses() {
    let Some(bed) = two_subnets("asconf-listens") else {
        return;
    };
    let mut child = start(&bed, &["listen"]);
    listening(&mut child);
    let inside = bed.inside("a", || async {
        let endpoint = open();
        let remote = SocketAddr::from((FIRST, UDP_PORT));
        let association = endpoint.connect_to_port(remote, PORT).await.expect("connect");
        exchange(&association, 0).await;
        endpoint.close().await;
    });
    let ended = inside.join();
    // The peer's own report, which it makes at its end.
    verdict(child);
    ended.expect("all of it arrives");
}

#[test]
fn usrsctp_connects_and_changes_its_addresses() {
    let Some(bed) = two_subnets("asconf-connects") else {
        return;
    };
    let (ready, is_ready) = mpsc::channel();
    let inside = bed.inside("a", move || async move {
        let endpoint = open();
        endpoint.listen_on_port(PORT).expect("listen");
        ready.send(()).expect("it is awaited");
        let association = endpoint.accept().await.expect("accept");
        exchange(&association, 1).await;
        endpoint.close().await;
    });
    is_ready.recv().expect("it listens");
    let udp_port = UDP_PORT.to_string();
    let child = start(
        &bed,
        &["connect", "--local-udp-port", &udp_port, "--remote", "10.83.1.1"],
    );
    let ended = inside.join();
    // The peer's own report, which it makes at its end.
    verdict(child);
    ended.expect("all of it arrives");
}
