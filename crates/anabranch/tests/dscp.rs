//! The Differentiated Services codepoint (RFC 2474) of packets on real sockets (Linux): a relay between two endpoints reads the Traffic Class
//! of each packet.
#![cfg(target_os = "linux")]

mod common;

use anabranch_testkit::with;
use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch::{Config, Dscp, Endpoint, PathId, PathSettings, StreamId};
use common::{PORT, echo, within};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};

/// The Traffic Class octets of the packets of each side.
#[derive(Default)]
struct Seen {
    client: BTreeSet<u8>,
    server: BTreeSet<u8>,
}

/// Passes packets between a client and a server.
struct Relay {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn start(address: &str, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(address).expect("a socket on loopback");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        if server.is_ipv4() {
            setsockopt(&socket, sockopt::IpRecvTos, &true).expect("IP_RECVTOS");
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvTClass, &true).expect("IPV6_RECVTCLASS");
        }
        let relay = Self {
            address: socket.local_addr().expect("bound"),
            seen: Arc::default(),
            stops: Arc::default(),
            thread: None,
        };
        let (seen, stops) = (Arc::clone(&relay.seen), Arc::clone(&relay.stops));
        let thread = std::thread::spawn(move || {
            let mut client = None;
            let mut buffer = vec![0; 1 << 16];
            while !stops.load(Ordering::Relaxed) {
                let Some((len, from, class)) = receive(&socket, &mut buffer) else {
                    continue;
                };
                let mut seen = seen.lock().expect("no panic");
                let to = if from == server {
                    seen.server.insert(class);
                    client
                } else {
                    seen.client.insert(class);
                    client = Some(from);
                    Some(server)
                };
                if let Some(to) = to {
                    let _ = socket.send_to(&buffer[..len], to);
                }
            }
        });
        Self {
            thread: Some(thread),
            ..relay
        }
    }

    /// The octets since the last call.
    fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().expect("no panic"))
    }

    fn stop(mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

/// A datagram: its length, source and Traffic Class; `None` if none came.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr, u8)> {
    let mut slices = [IoSliceMut::new(buffer)];
    let mut space = nix::cmsg_space!(u8, i32);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut space),
        MsgFlags::empty(),
    );
    let message = message.ok()?;
    let class = message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4Tos(class) => Some(class),
        ControlMessageOwned::Ipv6TClass(class) => u8::try_from(class).ok(),
        _ => None,
    });
    let from = message.address?;
    let from = match (from.as_sockaddr_in(), from.as_sockaddr_in6()) {
        (Some(v4), _) => SocketAddr::from((v4.ip(), v4.port())),
        (_, Some(v6)) => SocketAddr::from((v6.ip(), v6.port())),
        _ => return None,
    };
    Some((message.bytes, from, class?))
}

fn config(dscp: Dscp) -> Config {
    with(Config::default(), |config| {
        config.dscp = dscp;
        config.ecn = true;
    })
}

async fn bound(address: &str, dscp: Dscp) -> Endpoint {
    Endpoint::builder()
        .config(config(dscp))
        .bind(address)
        .await
        .expect("bind")
}

/// Each packet has the codepoint of its sender, also in batches and over IPv6, and an ECN codepoint beside it: data is ECN-capable,
/// other packets are not. A path can get another codepoint while the association lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_have_the_codepoint_of_their_sender() {
    let (own, other, later) = (Dscp::EF, "AF41".parse().expect("a name"), Dscp::LE);
    for (client, relay, server) in [
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0", "[::1]:0"),
        // IPv4 on an IPv6 socket.
        ("[::]:0", "127.0.0.1:0", "127.0.0.1:0"),
    ] {
        let server = bound(server, other).await;
        server.listen_on_port(PORT).expect("listen");
        let relay = Relay::start(relay, server.local_addr());
        let client = bound(client, own).await;
        let (ours, theirs) = within(60, async {
            tokio::join!(client.connect_to_port(relay.address, PORT), server.accept())
        })
        .await;
        let (ours, theirs) = (ours.expect("connect"), theirs.expect("accept"));
        let echo = tokio::spawn(echo(theirs));
        let exchange = || async {
            ours.send(StreamId(0), vec![7; 200_000]).await.expect("send");
            let message = ours.recv().await.expect("open").expect("a message");
            assert_eq!(message.payload.len(), 200_000);
        };
        within(60, exchange()).await;
        let seen = relay.take();
        assert_eq!(
            seen.client,
            [0, 2].map(|ecn| own.number() << 2 | ecn).into(),
            "client"
        );
        assert_eq!(seen.server, [0, 2].map(|ecn| 34 << 2 | ecn).into(), "server");

        let settings = PathSettings::default().dscp(later);
        ours.set_path(PathId(0), &settings).expect("set");
        relay.take();
        within(60, exchange()).await;
        assert!(relay.take().client.contains(&(later.number() << 2)));
        assert_eq!(ours.stats().paths[0].dscp, later);
        within(60, ours.shutdown()).await.expect("shutdown");
        within(60, echo).await.expect("no panic");
        relay.stop();
    }
}
