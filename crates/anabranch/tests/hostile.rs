//! Hostile and broken environments over real sockets: readers that do not read, peers that vanish, floods, and sockets that cannot
//! send (`namespaces/refusals.rs` tests sockets that cannot send for a time). The tests wait for conditions with long time limits,
//! and check order, totals and limits.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anabranch::{
    Admission, Association, Candidate, CloseReason, Config, ConnectError, Endpoint, Event, SendError,
    StreamId,
};
use anabranch_proto::{ConnectOptions, EcnCodepoint, Handling, Timestamp};
use anabranch_wire::chunk::{Chunk, CookieEcho, EncodeChunk, Init};
use anabranch_wire::packet::{CommonHeader, PacketWriter};
use anabranch_wire::parameter::Parameters;
use anabranch_wire::{Tsn, VerificationTag};
use common::{PORT, bytes, listening, pair, serve, within};

/// Time limit in seconds, long enough for a slow machine.
const PATIENCE: u64 = 120;

/// Settings of an endpoint that fails an association within 1 to 2 s, and retransmits within milliseconds.
fn short_timers() -> Config {
    let mut config = Config::default();
    config.rto.initial = Duration::from_millis(50);
    config.rto.min = Duration::from_millis(50);
    config.rto.max = Duration::from_millis(200);
    config.sack.delay = Duration::from_millis(10);
    config
}

/// The same settings without a limit of retransmissions, because a busy machine may give the peer no processor time for long.
fn persistent() -> Config {
    let mut config = short_timers();
    config.retransmissions.max_init_retransmits = 600;
    config.retransmissions.association_max_retrans = 600;
    config.retransmissions.path_max_retrans = 600;
    config
}

/// Waits for a condition.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(PATIENCE);
    assert!(
        tokio::time::timeout(limit, waiting).await.is_ok(),
        "never: {what}"
    );
}

async fn echoes(association: &Association, number: u32) {
    let sent = bytes(2000, number);
    association.send(StreamId(0), sent.clone()).await.unwrap();
    let message = within(PATIENCE, association.recv()).await.unwrap().unwrap();
    assert!(message.into_bytes() == sent, "message {number}");
}

/// A server that echoes, and a genuine client with short timers, which soon retransmits packets that a flood pushed out of the kernel's
/// buffers.
async fn served() -> (Endpoint, Endpoint) {
    let server = listening(Config::default()).await;
    tokio::spawn(serve(server.clone()));
    let client = Endpoint::builder().config(persistent()).bind("127.0.0.1:0").await;
    (server, client.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_costs_neither_side_more_than_its_buffers() {
    const BUFFER: usize = 64 << 10;
    const MESSAGES: u32 = 80;
    const LEN: usize = 100_000;
    let mut config = persistent();
    config.buffers.send = BUFFER;
    config.buffers.receive = BUFFER as u32;
    let pair = pair(config).await;
    let sender = {
        let ours = pair.ours.clone();
        tokio::spawn(async move {
            for number in 0..MESSAGES {
                let stream = StreamId(number as u16 % 16);
                ours.send(stream, bytes(LEN, number)).await.unwrap();
            }
        })
    };
    let check = || {
        let (ours, theirs) = (pair.ours.stats(), pair.theirs.stats());
        let held = ours.queued_bytes + ours.outstanding_bytes;
        // Twice the grown buffer, and one message.
        assert!(held <= 2 * 16 * BUFFER + LEN, "the sender holds {held} bytes");
        let unread = theirs.unread_bytes;
        assert!(unread <= 2 * BUFFER, "the receiver holds {unread} bytes");
        // The window need not close: the next chunk may be longer than what is left of it.
        unread >= BUFFER / 4 && ours.queued_bytes > 0
    };
    until("data waits at both ends", check).await;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        check();
    }
    assert!(!sender.is_finished(), "it waits for room");
    let mut read = vec![0; MESSAGES as usize];
    for _ in 0..MESSAGES {
        let message = within(PATIENCE, pair.theirs.recv()).await.unwrap().unwrap();
        let stream = usize::from(message.stream.0);
        let number = (0..MESSAGES as usize).find(|number| number % 16 == stream && read[*number] == 0);
        let number = number.expect("one that has not come, the first of its stream");
        read[number] += 1;
        assert!(
            message.into_bytes() == bytes(LEN, number as u32),
            "message {number}"
        );
    }
    within(PATIENCE, sender).await.unwrap();
    within(PATIENCE, pair.ours.drained()).await.unwrap();
}

/// A peer made of the core and a socket. It acts only when the test calls it.
struct Puppet {
    socket: UdpSocket,
    core: anabranch_proto::Endpoint,
    begun: Instant,
}

impl Puppet {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Self {
            socket,
            core: anabranch_proto::Endpoint::new(persistent(), [7; 32]).unwrap(),
            begun: Instant::now(),
        }
    }

    /// Sets up an association, and then sends nothing more.
    fn connect(&mut self, server: SocketAddr) {
        let start = Timestamp::from_millis(1);
        let options = ConnectOptions::default();
        let (_, mut association) = self.core.connect(start, server, PORT, options).unwrap();
        let mut buffer = vec![0; 65_536];
        let mut out = Vec::new();
        while association.state() != anabranch_proto::AssociationState::Established {
            assert!(self.begun.elapsed() < Duration::from_secs(PATIENCE), "no set-up");
            let now = Timestamp(start.0 + self.begun.elapsed().as_nanos() as u64);
            if association.poll_timeout().is_some_and(|due| due <= now) {
                association.handle_timeout(now);
            }
            while let Some(transmit) = association.poll_transmit(now, &mut out, 1) {
                self.socket.send_to(&out[..transmit.len], server).unwrap();
                out.clear();
            }
            let Ok((len, from)) = self.socket.recv_from(&mut buffer) else {
                continue;
            };
            let datagram = buffer[..len].to_vec().into();
            if let Handling::Deliver(_, inbound) =
                self.core
                    .handle_datagram(now, None, from, datagram, EcnCodepoint::NotEct)
            {
                association.handle_packet(now, inbound);
            }
        }
    }
}

// Two cases. The peer's program dies and its socket closes: ICMP messages answer packets to it, as from a network address
// translator that has forgotten the peer. Or the peer's machine dies: nothing answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_peer_is_told_with_all_that_did_not_arrive() {
    for socket_closes in [true, false] {
        let mut config = short_timers();
        // Long enough for a peer that only waits for processor time.
        config.rto.max = Duration::from_secs(2);
        config.retransmissions.association_max_retrans = 5;
        config.retransmissions.path_max_retrans = 5;
        let server = listening(config).await;
        let address = server.local_addr();
        let puppet = tokio::task::spawn_blocking(move || {
            let mut puppet = Puppet::new();
            puppet.connect(address);
            puppet
        });
        let vanishing = within(PATIENCE, server.accept()).await.unwrap();
        let puppet = puppet.await.unwrap();
        // Another association of the same endpoint, which must continue.
        let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
        let other = within(PATIENCE, client.connect_to_port(address, PORT))
            .await
            .unwrap();
        tokio::spawn(common::echo(within(PATIENCE, server.accept()).await.unwrap()));
        let kept = (!socket_closes).then_some(puppet);

        let mut taken = 0;
        let error = within(PATIENCE, async {
            loop {
                match vanishing.send(StreamId(0), bytes(10_000, taken)).await {
                    Ok(_) => taken += 1,
                    Err(error) => break error,
                }
            }
        })
        .await;
        assert_eq!(error, SendError::Closed(CloseReason::Unreachable));
        assert!(error.to_string().contains("stopped answering"), "{error}");
        let mut undelivered = 0;
        while let Some(event) = within(PATIENCE, vanishing.next_event()).await {
            undelivered += u32::from(matches!(event, Event::Undelivered(_)));
        }
        assert_eq!(undelivered, taken, "each message is told");
        assert!(within(PATIENCE, vanishing.recv()).await.is_err());
        for number in 0..10 {
            echoes(&other, number).await;
        }
        drop(kept);
    }
}

/// A packet of these chunks with a correct checksum.
fn packet(source_port: u16, tag: u32, chunks: &[impl EncodeChunk]) -> Vec<u8> {
    let header = CommonHeader {
        source_port,
        destination_port: PORT,
        verification_tag: VerificationTag(tag),
    };
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, header, 65_000);
    chunks.iter().for_each(|chunk| writer.push(chunk));
    let _ = writer.finish();
    buffer
}

fn init(tag: u32) -> Chunk {
    Chunk::Init(Init {
        initiate_tag: VerificationTag(tag),
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(tag),
        parameters: Parameters::empty(),
    })
}

/// Sends `count` datagrams to an address, from twenty sockets in turn; returns the number of answers to these sockets.
fn flood(to: SocketAddr, count: u32, datagram: impl Fn(u32) -> Vec<u8>) -> u32 {
    let sockets: Vec<_> = (0..20).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
    }
    let take = |socket: &UdpSocket| {
        let mut buffer = [0; 2048];
        std::iter::from_fn(|| socket.recv_from(&mut buffer).ok()).count() as u32
    };
    let mut answers = 0;
    for number in 0..count {
        let socket = &sockets[number as usize % sockets.len()];
        // If a buffer is full, the datagram is lost, as in a network.
        let _ = socket.send_to(&datagram(number), to);
        answers += take(socket);
    }
    // Answers may still arrive after the last datagram was sent.
    for _ in 0..100 {
        if answers > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        answers += sockets.iter().map(take).sum::<u32>();
    }
    answers
}

// M → INITs from many addresses and ports, and invented COOKIE ECHOs
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_init_flood_leaves_others_alone() {
    let (server, client) = served().await;
    let address = server.local_addr();
    let flooding = tokio::task::spawn_blocking(move || {
        flood(address, 20_000, |number| {
            let port = 1 + (number % 60_000) as u16;
            if number % 4 == 3 {
                let cookie = bytes(100 + number as usize % 200, number).into();
                packet(port, number, &[Chunk::CookieEcho(CookieEcho { cookie })])
            } else {
                packet(port, 0, &[init(number + 1)])
            }
        })
    });
    let association = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    let mut number = 0;
    while number < 20 || !flooding.is_finished() {
        echoes(&association, number).await;
        number += 1;
        assert_eq!(server.associations(), 1, "nothing is kept of an INIT");
    }
    let answers = flooding.await.unwrap();
    assert!(answers > 0, "INITs are answered");
    assert_eq!((server.associations(), association.close_reason()), (1, None));
    within(PATIENCE, association.shutdown()).await.unwrap();
}

// M → noise, noise after a correct header, noise with a correct checksum, empty datagrams, large datagrams → A
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_leaves_others_alone() {
    let (server, client) = served().await;
    let address = server.local_addr();
    let association = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    let (source_port, _) = association.ports();
    let flooding = tokio::task::spawn_blocking(move || {
        flood(address, 10_000, |number| {
            let noise = bytes(number as usize % 1500, number);
            match number % 5 {
                0 => noise,
                1 => [&packet(source_port, number, &[init(1)])[..12], &noise].concat(),
                2 => {
                    let mut right = packet(source_port, number, &[] as &[Chunk]);
                    right.extend_from_slice(&noise);
                    let checksum = anabranch_wire::crc32c(&right);
                    right[8..12].copy_from_slice(&checksum.to_le_bytes());
                    right
                }
                3 => Vec::new(),
                _ => bytes(if number % 100 == 4 { 65_507 } else { 12 }, number),
            }
        })
    });
    let mut number = 0;
    while number < 20 || !flooding.is_finished() {
        echoes(&association, number).await;
        number += 1;
    }
    flooding.await.unwrap();
    assert_eq!((server.associations(), association.close_reason()), (1, None));
    within(PATIENCE, association.shutdown()).await.unwrap();
}

/// The application decides before an association takes memory. A refused peer learns it at once, an ignored one learns nothing.
#[tokio::test]
async fn the_application_turns_associations_away() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let server = Endpoint::builder()
        .accept_filter({
            let seen = Arc::clone(&seen);
            move |candidate| {
                seen.lock().unwrap().push(*candidate);
                match candidate.associations {
                    0 => Admission::Accept,
                    _ if candidate.local_port == PORT => Admission::Refuse,
                    _ => Admission::Ignore,
                }
            }
        })
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    server.listen_on_port(PORT).unwrap();
    server.listen_on_port(PORT + 1).unwrap();
    let address = server.local_addr();
    tokio::spawn(serve(server.clone()));
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let first = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    let refused = within(PATIENCE, client.connect_to_port(address, PORT)).await;
    let reason = refused.expect_err("it is refused").to_string();
    assert!(reason.contains("out of resource"), "{reason}");
    let ignored = tokio::time::timeout(
        Duration::from_millis(300),
        client.connect_to_port(address, PORT + 1),
    );
    assert!(ignored.await.is_err(), "nothing answers");
    assert_eq!(server.associations(), 1);
    echoes(&first, 1).await;
    let seen = seen.lock().unwrap();
    let of = |candidate: &Candidate| (candidate.remote, candidate.local_port, candidate.associations);
    let remote = client.local_addr();
    assert_eq!(of(&seen[0]), (remote, PORT, 0));
    assert_eq!(of(&seen[1]), (remote, PORT, 1));
    assert_eq!(of(&seen[2]), (remote, PORT + 1, 1));
}

#[tokio::test]
async fn more_associations_than_allowed_are_turned_away() {
    let server = Endpoint::builder()
        .max_associations(2)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    server.listen_on_port(PORT).unwrap();
    let address = server.local_addr();
    tokio::spawn(serve(server.clone()));
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let first = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    let second = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    for _ in 0..10 {
        // The ABORT may answer the COOKIE ECHO, or arrive directly after the setup.
        let reason = match within(PATIENCE, client.connect_to_port(address, PORT)).await {
            Err(error) => error.to_string(),
            Ok(third) => within(PATIENCE, third.closed()).await.to_string(),
        };
        assert!(reason.contains("out of resource"), "{reason}");
        assert_eq!(server.associations(), 2);
    }
    echoes(&second, 1).await;
    within(PATIENCE, first.shutdown()).await.unwrap();
    until("the first is gone", || server.associations() == 1).await;
    let third = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    echoes(&third, 2).await;
}

/// The system refuses every packet from a loopback address to another network.
#[tokio::test]
async fn a_socket_that_refuses_to_send_is_told_and_harms_no_other_association() {
    let server = listening(Config::default()).await;
    let address = server.local_addr();
    tokio::spawn(serve(server));
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let association = within(PATIENCE, client.connect_to_port(address, PORT))
        .await
        .unwrap();
    let mut config = short_timers();
    config.retransmissions.max_init_retransmits = 2;
    let options = ConnectOptions::default().config(Some(config));
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 9899));
    let error = within(PATIENCE, client.connect_with(elsewhere, PORT, options)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ConnectError::Unsent { .. }), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("cannot send to 192.0.2.1:9899"), "{told}");
    for number in 0..10 {
        echoes(&association, number).await;
    }
    assert_eq!(client.associations(), 1);
}
