//! A network address translator between clients and a server (RFC 6951): `nft` masquerades both clients' networks behind one
//! address. The packets of an attacker behind the same translator have the client's address; only the UDP port differs.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch::{Association, Config, ConnectOptions, Endpoint, StreamId};

use crate::bed::{Bed, LIMIT, wait_until};

const UDP_PORT: u16 = 9899;
const PORT: u16 = 5000;
/// The SCTP port and the UDP port that both clients use.
const CLIENT_PORT: u16 = 7000;
const SERVER: [u8; 4] = [10, 82, 9, 2];

/// Two clients, a translator, a server.
fn bed(test: &'static str) -> Option<Bed> {
    let bed = Bed::build(test, &["c1", "c2", "nat", "s"], &["nft"])?;
    for (client, network) in [("c1", 1), ("c2", 2)] {
        let (own, gateway) = (format!("10.82.{network}.2/24"), format!("10.82.{network}.1/24"));
        bed.join(client, [(client, &[&own]), ("nat", &[&gateway])]);
        bed.ip(client, &format!("route add default via 10.82.{network}.1"));
    }
    bed.join("wan", [("nat", &["10.82.9.1/24"]), ("s", &["10.82.9.2/24"])]);
    bed.shell("nat", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    translate(&bed, "");
    Some(bed)
}

/// Replaces the rules of the translator; existing mappings stay.
fn translate(bed: &Bed, ports: &str) {
    let rules = format!(
        "nft 'add table ip nat; flush table ip nat; add chain ip nat out {{ type nat hook postrouting priority 100; }}; \
         add rule ip nat out oifname \"wan\" meta l4proto udp masquerade {ports}'"
    );
    bed.shell("nat", &rules);
}

/// Removes all mappings, as if the translator restarted; new mappings use these ports.
fn rebind(bed: &Bed, ports: &str) {
    translate(bed, &format!("to :{ports}"));
    // The kernel removes masquerading mappings when the device goes down.
    bed.ip("nat", "link set wan down");
    bed.ip("nat", "link set wan up");
}

fn config() -> Config {
    Config::default()
}

/// A server's endpoint and the thread that runs it. It reports accepted associations and echoes all messages.
fn echo_server(bed: &Bed) -> (JoinHandle<()>, Receiver<Association>, Sender<()>) {
    let (ready, is_ready) = mpsc::channel();
    let (told, accepted) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let thread = bed.inside("s", move || async move {
        let builder = Endpoint::builder().config(config());
        let endpoint = builder.bind(("0.0.0.0", UDP_PORT)).await.expect("bind");
        endpoint.listen_on_port(PORT).expect("listen");
        ready.send(()).expect("it is awaited");
        let echo = async {
            while let Some(association) = endpoint.accept().await {
                told.send(association.clone()).expect("it is awaited");
                tokio::spawn(async move {
                    while let Ok(Some(message)) = association.recv().await {
                        if association.send(StreamId(0), message.into_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        };
        let end = tokio::task::spawn_blocking(move || {
            let _ = stopped.recv();
        });
        tokio::select! {
            () = echo => {}
            _ = end => {}
        }
    });
    is_ready.recv_timeout(LIMIT).expect("it listens");
    (thread, accepted, stop)
}

async fn connect(to: SocketAddr) -> (Endpoint, Association) {
    let builder = Endpoint::builder().config(config());
    let endpoint = builder.bind(("0.0.0.0", UDP_PORT)).await.expect("bind");
    let options = ConnectOptions::default().local_port(Some(CLIENT_PORT));
    let association = endpoint.connect_with(to, PORT, options).await.expect("connect");
    (endpoint, association)
}

fn server() -> SocketAddr {
    SocketAddr::from((SERVER, UDP_PORT))
}

/// Sends numbered messages with the client's name and receives their echoes, about one every millisecond; returns the longest
/// time until an echo. `moment` is signalled at message 300.
async fn converse(association: &Association, name: &str, count: u64, moment: Option<Sender<()>>) -> Duration {
    let mut longest = Duration::ZERO;
    for number in 0..count {
        if number == 300
            && let Some(moment) = &moment
        {
            moment.send(()).expect("it is awaited");
        }
        let text = format!("{name} {number} {}", "x".repeat(500));
        let sent = Instant::now();
        association.send(StreamId(0), text.clone()).await.expect("send");
        let answer = association.recv().await.expect("recv").expect("an answer");
        longest = longest.max(sent.elapsed());
        assert_eq!(answer.into_bytes(), text.as_bytes());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    longest
}

#[test]
fn two_clients_with_equal_ports() {
    let Some(bed) = bed("twoclients") else { return };
    let (thread, accepted, stop) = echo_server(&bed);
    let clients = ["c1", "c2"].map(|client| {
        bed.inside(client, move || async move {
            let (endpoint, association) = connect(server()).await;
            // Both clients transfer at the same time.
            converse(&association, client, 600, None).await;
            association.shutdown().await.expect("an orderly end");
            endpoint.close().await;
        })
    });
    let ends = [(); 2].map(|()| accepted.recv_timeout(LIMIT).expect("two associations"));
    let [one, other] = ends
        .each_ref()
        .map(|association| (association.remote_addr(), association.ports()));
    println!("two clients: {one:?} and {other:?}");
    assert_eq!(one.0.ip(), other.0.ip(), "one address");
    assert_eq!(
        (one.1, other.1),
        ((PORT, CLIENT_PORT), (PORT, CLIENT_PORT)),
        "equal SCTP ports"
    );
    assert_ne!(one.0.port(), other.0.port(), "the translator tells them apart");
    for client in clients {
        client.join().expect("nothing is lost or mixed up");
    }
    assert!(
        ends.iter()
            .all(|association| association.stats().counters.restarts == 0)
    );
    drop(stop);
    thread.join().expect("the server");
}

/// RFC 6951 §5.4: the translator loses its mappings, and maps the client to another UDP port. Packets from this port have the
/// right verification tag: the server uses the new port, and the association continues.
#[test]
fn rebinding_in_the_middle_of_a_transfer() {
    let Some(bed) = bed("rebind") else { return };
    let (thread, accepted, stop) = echo_server(&bed);
    let (moment, is_moment) = mpsc::channel();
    let (quiet, is_quiet) = mpsc::channel::<()>();
    let (resume, resumed) = mpsc::channel::<()>();
    let client = bed.inside("c1", move || async move {
        let (endpoint, association) = connect(server()).await;
        let longest = converse(&association, "c1", 600, Some(moment)).await;
        println!("rebinding: the longest answer took {longest:?}");
        // Now only the server sends. It learns the client's new UDP port from the client's next HEARTBEAT.
        quiet.send(()).expect("it is awaited");
        let message = association.recv().await.expect("recv").expect("a message");
        assert_eq!(message.into_bytes(), "from the server");
        tokio::task::spawn_blocking(move || resumed.recv())
            .await
            .expect("no panic")
            .expect("told");
        converse(&association, "again", 50, None).await;
        association.shutdown().await.expect("an orderly end");
        endpoint.close().await;
    });
    let association = accepted.recv_timeout(LIMIT).expect("accepted");
    let port = || association.remote_addr().port();
    is_moment.recv_timeout(LIMIT).expect("the transfer has begun");
    rebind(&bed, "20000-20999");
    wait_until("the server follows", || (20000..21000).contains(&port()));
    is_quiet.recv_timeout(LIMIT).expect("600 answers");

    rebind(&bed, "30000-30999");
    let since = Instant::now();
    bed.inside("s", {
        let association = association.clone();
        move || async move {
            association
                .send(StreamId(0), "from the server")
                .await
                .expect("send");
            association.drained().await.expect("it arrives");
        }
    })
    .join()
    .expect("sent");
    println!("rebinding: a silent client is found {:?} later", since.elapsed());
    assert!((30000..31000).contains(&port()));
    resume.send(()).expect("it is awaited");
    client.join().expect("the association goes on");
    assert_eq!(association.stats().counters.restarts, 0);
    drop(stop);
    thread.join().expect("the server");
}

/// A relay between a client and the server, in the client's namespace. It keeps copies of the client's packets, by the type of
/// their first chunk, and the test can send packets through its socket.
struct Relay {
    socket: Arc<UdpSocket>,
    seen: Arc<Mutex<HashMap<u8, Vec<u8>>>>,
}

const INIT: u8 = 1;
const COOKIE_ECHO: u8 = 10;
const I_DATA: u8 = 64;

impl Relay {
    fn start(bed: &Bed, port: u16) -> Self {
        let socket = bed.open("c1", move || UdpSocket::bind(("0.0.0.0", port)).expect("bind"));
        let (socket, seen) = (Arc::new(socket), Arc::new(Mutex::new(HashMap::new())));
        let relay = Self {
            socket: Arc::clone(&socket),
            seen: Arc::clone(&seen),
        };
        std::thread::spawn(move || {
            let mut client = None;
            let mut buffer = vec![0; 1 << 16];
            socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let packet = &buffer[..len];
                if from == server() {
                    if let Some(client) = client {
                        let _ = socket.send_to(packet, client);
                    }
                    continue;
                }
                client = Some(from);
                if let Some(kind) = packet.get(12) {
                    seen.lock()
                        .expect("no panic")
                        .entry(*kind)
                        .or_insert_with(|| packet.to_vec());
                }
                let _ = socket.send_to(packet, server());
            }
        });
        relay
    }

    fn packet(&self, kind: u8) -> Vec<u8> {
        self.seen.lock().expect("no panic")[&kind].clone()
    }
}

/// A packet with another verification tag, and with the matching checksum.
fn with_tag(mut packet: Vec<u8>, tag: u32) -> Vec<u8> {
    packet[4..8].copy_from_slice(&tag.to_be_bytes());
    packet[8..12].fill(0);
    let sum = anabranch_wire::crc32c(&packet);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
    packet
}

/// An attacker behind the same translator, and therefore with the client's address, sends a replayed INIT, a replayed COOKIE
/// ECHO, packets with wrong tags, and a replayed I-DATA packet. The INIT and wrong tags change nothing. The replayed packets have
/// the right tag, and do change the peer's UDP port (RFC 6951 §5.4 has no other proof); the client's next packet changes it back.
/// Better protection needs authentication (RFC 4895): an attacker that reads packets can also send packets.
#[test]
fn replayed_and_spoofed_packets() {
    let Some(bed) = bed("spoof") else { return };
    let (thread, accepted, stop) = echo_server(&bed);
    let relay = Relay::start(&bed, 9900);
    let (go, going) = mpsc::channel::<()>();
    let (said, is_said) = mpsc::channel();
    let client = bed.inside("c1", move || async move {
        let (endpoint, association) = connect(SocketAddr::from(([127, 0, 0, 1], 9900))).await;
        let going = Arc::new(Mutex::new(going));
        for round in 0..4 {
            converse(&association, &format!("round {round}"), 50, None).await;
            said.send(()).expect("it is awaited");
            let going = Arc::clone(&going);
            let next = tokio::task::spawn_blocking(move || going.lock().expect("no panic").recv());
            next.await.expect("no panic").expect("told");
        }
        association.shutdown().await.expect("an orderly end");
        endpoint.close().await;
        association.stats()
    });
    let association = accepted.recv_timeout(LIMIT).expect("accepted");
    is_said.recv_timeout(LIMIT).expect("round 0");
    let home = association.remote_addr();
    let attacker = bed.open("c2", || UdpSocket::bind(("0.0.0.0", 6666)).expect("bind"));
    attacker
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a timeout");
    let attack = |packet: &[u8]| {
        attacker.send_to(packet, server()).expect("send");
        let mut buffer = vec![0; 1 << 16];
        attacker.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())
    };

    // A ← INIT (replayed, from another UDP port); INIT ACK → that port, and nothing is kept.
    let is_init_ack = |answer: &Vec<u8>| answer[12] == 2;
    let mut answers = (0..100).filter_map(|_| attack(&relay.packet(INIT)));
    let answer = answers.find(is_init_ack).expect("an INIT ACK");
    assert!(
        answer.len() < 5 * relay.packet(INIT).len(),
        "{} bytes",
        answer.len()
    );
    assert_eq!(association.remote_addr(), home, "a replayed INIT moves nothing");
    // The same INIT from the client's own port: the association answers with a cookie for a restart, and continues.
    relay.socket.send_to(&relay.packet(INIT), server()).expect("send");
    // Wrong tags.
    for tag in [0, 1, 0xffff_ffff] {
        for kind in [I_DATA, COOKIE_ECHO] {
            let _ = attack(&with_tag(relay.packet(kind), tag));
            assert_eq!(association.remote_addr(), home, "tag {tag:#x}, chunk {kind}");
        }
    }
    go.send(()).expect("it is awaited");
    is_said.recv_timeout(LIMIT).expect("round 1");
    assert_eq!(association.remote_addr(), home);

    // Replays with the right tag.
    for (round, kind) in [(2, COOKIE_ECHO), (3, I_DATA)] {
        let answer = attack(&relay.packet(kind)).map(|answer| answer[12]);
        let moved = association.remote_addr() != home;
        println!("replay of chunk {kind}: answered by {answer:?}, the UDP port moved: {moved}");
        go.send(()).expect("it is awaited");
        is_said
            .recv_timeout(LIMIT)
            .unwrap_or_else(|_| panic!("round {round}"));
        assert_eq!(
            association.remote_addr(),
            home,
            "the client's next packet moves it back"
        );
    }
    go.send(()).expect("it is awaited");
    let stats = client.join().expect("the association goes on");
    assert_eq!(stats.counters.messages_received, 200);
    assert_eq!(association.stats().counters.restarts, 0);
    assert!(accepted.try_recv().is_err(), "no other association");
    drop(stop);
    thread.join().expect("the server");
}
