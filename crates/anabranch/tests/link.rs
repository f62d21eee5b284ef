//! The in-process link and the capture.

mod common;

use std::time::{Duration, Instant};

use anabranch::{Association, CloseReason, Config, EcnState, Endpoint, LinkConfig, StreamId, Transport};
use common::{PORT, bytes, connect, serve, within};

async fn behind_a_link(link: &str, config: Config) -> common::Pair {
    let link: LinkConfig = link.parse().unwrap();
    let server = common::listening(config.clone()).await;
    let client = Endpoint::builder()
        .config(config)
        .link(link, 11)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    connect(client, server).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_through_a_link_that_loses() {
    let mut config = Config::default();
    config.rto.min = Duration::from_millis(100);
    let pair = behind_a_link(
        "loss=1%,delay=2ms,reorder=1%:3ms,duplicate=1%,corrupt=0.5%",
        config,
    )
    .await;
    let echo = tokio::spawn(common::echo(pair.theirs));
    let sender = {
        let ours = pair.ours.clone();
        tokio::spawn(async move {
            for number in 0..300 {
                ours.send(StreamId(1), bytes(5000, number)).await.unwrap();
            }
        })
    };
    for number in 0..300 {
        let message = within(60, pair.ours.recv()).await.unwrap().unwrap();
        assert!(message.into_bytes() == bytes(5000, number), "message {number}");
    }
    within(20, sender).await.unwrap();
    let (out, inward) = pair.client.link_stats().unwrap();
    assert!(out.lost_model > 0 && inward.lost_model > 0, "{out:?} {inward:?}");
    assert!(
        out.corrupted > 0 && out.duplicated > 0 && out.reordered > 0,
        "{out:?}"
    );
    assert!(pair.ours.stats().counters.retransmissions_fast > 0);
    assert_eq!(pair.server.link_stats(), None);
    within(30, pair.ours.shutdown()).await.unwrap();
    within(30, echo).await.unwrap();
}

#[tokio::test]
async fn one_side_alone_delays_both_ways() {
    let pair = behind_a_link("delay=30ms", Config::default()).await;
    tokio::spawn(common::echo(pair.theirs));
    let both_ways = 2 * Duration::from_millis(30);
    for _ in 0..3 {
        assert!(echo_time(&pair.ours).await >= both_ways);
    }
    assert!(pair.client.set_link(&LinkConfig::default()));
    // A busy machine delays some messages, but not all.
    for _ in 0..1000 {
        if echo_time(&pair.ours).await < both_ways {
            return;
        }
    }
    panic!("the delay is still there");
}

/// The round-trip time of a message that the peer echoes.
async fn echo_time(ours: &Association) -> Duration {
    let begin = Instant::now();
    ours.send(StreamId(0), "to the peer and back").await.unwrap();
    within(20, ours.recv()).await.unwrap().unwrap();
    begin.elapsed()
}

#[tokio::test]
async fn the_rate_is_kept() {
    let mut config = Config::default();
    config.rto.min = Duration::from_millis(200);
    let pair = behind_a_link("rate=8mbit,delay=1ms,queue=100kib", config).await;
    let begin = Instant::now();
    pair.ours.send(StreamId(0), bytes(1_000_000, 3)).await.unwrap();
    within(30, pair.theirs.recv()).await.unwrap().unwrap();
    let elapsed = begin.elapsed();
    // The data alone takes 1 s; headers, losses at the queue and other programs add to it.
    assert!(elapsed > Duration::from_secs(1), "{elapsed:?}");
}

#[tokio::test]
async fn a_capture_holds_the_packets_of_both_directions() {
    let path = std::env::temp_dir().join(format!("anabranch-capture-{}.pcapng", std::process::id()));
    let server = common::listening(Config::default()).await;
    let address = server.local_addr();
    tokio::spawn(serve(server));
    let client = Endpoint::builder()
        .capture(&path)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let association = within(20, client.connect_to_port(address, PORT)).await.unwrap();
    association
        .send(StreamId(0), "a message to be found")
        .await
        .unwrap();
    within(20, association.recv()).await.unwrap().unwrap();
    within(20, client.close()).await;
    let capture = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let (ours, theirs) = (
        client.local_addr().port().to_be_bytes(),
        address.port().to_be_bytes(),
    );
    let count = |wanted: &[u8]| {
        capture
            .windows(wanted.len())
            .filter(|window| *window == wanted)
            .count()
    };
    assert_eq!(count(b"a message to be found"), 2, "once in each direction");
    // INIT, COOKIE ECHO, DATA and SHUTDOWN, or their answers; each direction has at least four packets.
    assert!(count(&[ours, theirs].concat()) >= 4 && count(&[theirs, ours].concat()) >= 4);
    let error = Endpoint::builder()
        .capture("/nowhere/x.pcapng")
        .bind("127.0.0.1:0")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/x.pcapng"), "{error}");
}

/// The endpoint answers a packet that leaves the link at the same time as the endpoint's last packet.
#[tokio::test(start_paused = true)]
async fn an_endpoint_closes_while_it_answers() {
    const DELAY: Duration = Duration::from_millis(10);
    let client = Endpoint::builder()
        .link(
            LinkConfig {
                delay: DELAY,
                ..LinkConfig::default()
            },
            1,
        )
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(client.local_addr()).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for count in 1..=2 {
        stranger.send(&shutdown_ack()).unwrap();
        // Virtual time stops while a task runs.
        while client.link_stats().unwrap().1.offered < count {
            tokio::task::yield_now().await;
        }
        if count == 1 {
            tokio::time::advance(DELAY).await;
            while client.link_stats().unwrap().0.offered < 1 {
                tokio::task::yield_now().await;
            }
        }
    }
    within(20, client.close()).await;
    for _ in 0..2 {
        let mut answer = [0; 64];
        let len = stranger.recv(&mut answer).unwrap();
        assert_eq!(answer[12], SHUTDOWN_COMPLETE, "{:?}", &answer[..len]);
    }
}

/// A chunk type (RFC 9260 §3.2).
const SHUTDOWN_COMPLETE: u8 = 14;

/// An out of the blue SHUTDOWN ACK, which the endpoint answers (RFC 9260 §8.4).
fn shutdown_ack() -> Vec<u8> {
    let mut packet = vec![0x1b, 0x58, 0x1b, 0x59, 0, 0, 0, 7, 0, 0, 0, 0, 8, 0, 0, 4];
    let checksum = anabranch_wire::crc32c(&packet);
    packet[8..12].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// The client's link marks packets in both directions. The client's packets leave its socket marked, and the kernel reports the
/// server's packets as ECN-capable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_pass_the_sockets() {
    // A port that no other test uses: an endpoint on a raw socket would answer the other test's packets with an ABORT.
    const PORT: u16 = 7002;
    for (transport, address) in [
        (Transport::Udp, "127.0.0.1:0"),
        (Transport::Udp, "[::1]:0"),
        (Transport::RawIp, "127.0.0.1:0"),
        (Transport::RawIp, "[::1]:0"),
    ] {
        let mut config = Config::default();
        config.ecn = true;
        let builder = || Endpoint::builder().config(config.clone()).transport(transport);
        let server = match builder().bind(address).await {
            Ok(server) => server,
            Err(error) => {
                assert!(
                    transport == Transport::RawIp && error.to_string().contains("CAP_NET_RAW"),
                    "{error}"
                );
                continue;
            }
        };
        server.listen_on_port(PORT).unwrap();
        let link = "rate=20mbit,delay=5ms,queue=200p,ecn-mark=5p".parse().unwrap();
        let client = builder().link(link, 1).bind(address).await.unwrap();
        let to = server.local_addr();
        let (ours, theirs) = tokio::join!(client.connect_to_port(to, PORT), server.accept());
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        for (from, to) in [(&ours, &theirs), (&theirs, &ours)] {
            let sender = {
                let from = from.clone();
                tokio::spawn(async move { from.send(StreamId(0), bytes(1 << 20, 1)).await })
            };
            within(30, to.recv()).await.unwrap().unwrap();
            within(30, sender).await.unwrap().unwrap();
            let ecn = from.stats().paths[0].ecn;
            let what = format!("{transport:?} {address}: {ecn:?}");
            assert_eq!(ecn.state, EcnState::Capable, "{what}");
            assert!(ecn.packets_marked > 0 && ecn.reductions > 0, "{what}");
            assert!(to.stats().counters.ce_packets_received > 0, "{what}");
        }
    }
}

/// The fourth packet of the client is lost: SHUTDOWN COMPLETE, unless the machine was so busy that an earlier packet was
/// retransmitted. A raw socket receives packets of other programs too, and ignores packets for unused ports; but it answers the
/// peer's retransmission.
#[tokio::test]
async fn over_raw_ip_too_a_lost_shutdown_complete_is_retransmitted() {
    let mut config = Config::default().without_extensions();
    config.rto.min = Duration::from_millis(100);
    config.heartbeat.interval = None;
    config.path_mtu_limit = config.path_mtu;
    let raw = || {
        Endpoint::builder()
            .config(config.clone())
            .transport(Transport::RawIp)
    };
    let server = match raw().bind("127.0.0.1:0").await {
        Ok(server) => server,
        Err(error) => {
            assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
            return;
        }
    };
    server.listen_on_port(PORT).unwrap();
    let client = raw().link("loss=script:3".parse().unwrap(), 1);
    let client = client.bind("127.0.0.4:0").await.unwrap();
    let (ours, theirs) = tokio::join!(client.connect_to_port("127.0.0.1:0", PORT), server.accept());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    within(20, ours.shutdown()).await.unwrap();
    assert_eq!(within(20, theirs.closed()).await, CloseReason::Shutdown);
}
