//! ICMP messages on real sockets (Linux): a closed UDP port ends the associations with this port, and no others.
//! `crates/testkit/tests/association/icmp.rs` tests which messages count as proof. Loopback answers a closed port by ICMP at once.
#![cfg(target_os = "linux")]

mod common;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch::{
    AssociationState, CloseReason, Config, ConnectError, ConnectOptions, Endpoint, RecvError, StreamId,
};
use common::{PORT, bytes, listening, pair, serve, within};

/// Time limit in seconds: enough for a slow machine, and far less than an unanswered setup takes (see [`endless`]).
const LIMIT: u64 = 120;

/// Settings under which only ICMP can end an association within [`LIMIT`].
fn endless() -> Config {
    let mut config = Config::default();
    config.retransmissions.max_init_retransmits = 10_000;
    config.retransmissions.association_max_retrans = 10_000;
    config.retransmissions.path_max_retrans = 10_000;
    config.rto.initial = Duration::from_millis(100);
    config.rto.min = Duration::from_millis(100);
    config.rto.max = Duration::from_millis(200);
    config
}

async fn bound(address: &str) -> Endpoint {
    let endpoint = Endpoint::builder().config(endless());
    endpoint.bind(address).await.unwrap()
}

/// A UDP port of this address that is closed: it was free a moment ago.
fn closed_port(address: &str) -> SocketAddr {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.local_addr().unwrap()
}

#[tokio::test]
async fn connecting_to_a_closed_port_fails_at_once() {
    for (local, remote) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "::1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("[::]:0", "::1"),
        // IPv4 on an IPv6 socket.
        ("[::]:0", "127.0.0.1"),
    ] {
        let endpoint = bound(local).await;
        let remote = closed_port(remote);
        let error = within(LIMIT, endpoint.connect_to_port(remote, PORT))
            .await
            .unwrap_err();
        assert!(
            matches!(error, ConnectError::ProtocolUnreachable { remote: told } if told == remote),
            "from {local} to {remote}: {error}"
        );
        let words = error.to_string();
        assert!(words.contains(&remote.to_string()), "{words}");
        within(LIMIT, endpoint.close()).await;
    }
}

/// An endpoint that has received ICMP messages still connects to open ports: the error of an earlier packet is not reported for
/// a later packet.
#[tokio::test]
async fn an_error_about_one_peer_harms_no_other() {
    for (client, server) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::]:0", "[::]:0")] {
        let (client, server) = (bound(client).await, bound(server).await);
        server.listen_on_port(PORT).unwrap();
        let address: IpAddr = if client.local_addr().is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            "::1".parse().unwrap()
        };
        let listener = SocketAddr::new(address, server.local_addr().port());
        tokio::spawn(serve(server.clone()));
        let ours = within(LIMIT, client.connect_to_port(listener, PORT))
            .await
            .unwrap();
        let failing = async {
            for local_port in 1000..1100 {
                let options = ConnectOptions::default().local_port(Some(local_port));
                let remote = closed_port(&address.to_string());
                let error = client.connect_with(remote, PORT, options).await.unwrap_err();
                assert!(
                    matches!(error, ConnectError::ProtocolUnreachable { .. }),
                    "{error}"
                );
            }
        };
        let talking = async {
            for number in 0..100 {
                let sent = bytes(3000, number);
                ours.send(StreamId(0), sent.clone()).await.unwrap();
                let got = ours.recv().await.unwrap().expect("the echo").into_bytes();
                assert!(got == sent, "message {number}");
            }
        };
        within(LIMIT, async { tokio::join!(failing, talking) }).await;
        let path = &ours.stats().paths[0];
        assert_eq!(path.error_count, 0);
        assert!(path.pmtu >= 1280, "no error was taken for one of a packet's size");
        within(LIMIT, client.close()).await;
    }
}

/// Forwards datagrams between a client and a server until `stop` is dropped; then its socket is closed.
fn relay(server: SocketAddr) -> (SocketAddr, Sender<()>, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let address = socket.local_addr().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel();
    let forwarding = std::thread::spawn(move || {
        let (mut buffer, mut client) = ([0; 65_536], None);
        while stopped.try_recv() != Err(TryRecvError::Disconnected) {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            if from != server {
                client = Some(from);
            }
            let to = if from == server { client } else { Some(server) };
            if let Some(to) = to {
                let _ = socket.send_to(&buffer[..len], to);
            }
        }
    });
    (address, stop, forwarding)
}

/// A server whose socket is closed without an ABORT: an ICMP message answers the next packet to it.
#[tokio::test]
async fn a_server_that_was_killed_is_noticed() {
    let server = listening(endless()).await;
    tokio::spawn(serve(server.clone()));
    let (address, stop, forwarding) = relay(server.local_addr());
    let client = bound("127.0.0.1:0").await;
    let ours = within(LIMIT, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    ours.send(StreamId(0), "before").await.unwrap();
    let echo = within(LIMIT, ours.recv()).await.unwrap().unwrap();
    assert_eq!(echo.into_bytes(), "before");
    drop(stop);
    forwarding.join().unwrap();
    ours.send(StreamId(0), "after").await.unwrap();
    let reason = within(LIMIT, ours.closed()).await;
    assert_eq!(reason, CloseReason::ProtocolUnreachable { remote: address });
    let error = ours.recv().await.unwrap_err();
    assert_eq!(error, RecvError::Closed(reason));
    assert!(error.to_string().contains("port unreachable"), "{error}");
}

/// An endpoint is not affected by the closed ports of other programs' sockets, or by ICMP messages about packets that are not
/// SCTP.
#[tokio::test]
async fn an_association_goes_on_beside_closed_ports() {
    let pair = pair(endless()).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.send_to(b"nobody", closed_port("127.0.0.1")).unwrap();
    pair.ours.send(StreamId(0), "still here").await.unwrap();
    let got = within(LIMIT, pair.theirs.recv()).await.unwrap().unwrap();
    assert_eq!(got.into_bytes(), "still here");
    assert_eq!(pair.ours.state(), AssociationState::Established);
}
