//! Associations over DTLS (RFC 8261).

mod common;

use anabranch_testkit::with;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{
    BindError, Certificate, CloseReason, Config, ConnectError, DtlsConfig, DtlsError, Endpoint,
    EndpointBuilder, MultipathMode, Trust,
};
use common::{PORT, Pair, within};
use tokio::net::UdpSocket;

fn certificate() -> Certificate {
    Certificate::generate().unwrap()
}

fn builder(dtls: DtlsConfig) -> EndpointBuilder {
    Endpoint::builder().dtls(dtls)
}

async fn listening(dtls: DtlsConfig) -> Endpoint {
    let server = builder(dtls).bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    server
}

/// Two endpoints that know each other's fingerprints.
async fn pair(client: impl FnOnce(EndpointBuilder) -> EndpointBuilder) -> Pair {
    let [ours, theirs] = [certificate(), certificate()];
    let prints = [&ours, &theirs].map(Certificate::fingerprint);
    let server = listening(DtlsConfig::new(theirs).trust(prints[0])).await;
    let client = client(builder(DtlsConfig::new(ours).trust(prints[1])));
    let client = client.bind("127.0.0.1:0").await.unwrap();
    let pair = common::connect(client, server).await;
    assert_eq!(pair.ours.peer_fingerprint(), Some(prints[1]));
    assert_eq!(pair.theirs.peer_fingerprint(), Some(prints[0]));
    pair
}

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|place| (place * 31 + seed * 7) as u8).collect()
}

#[tokio::test]
async fn messages_of_all_sizes_arrive_in_both_directions() {
    let pair = pair(|builder| builder).await;
    assert!(pair.ours.stats().extensions.zero_checksum);
    let sizes = [1, 100, 1200, 16_384, 70_000, 1_000_000];
    let (sent, received) = tokio::join!(
        async {
            for (number, len) in sizes.into_iter().enumerate() {
                pair.ours.send(1, bytes(len, number)).await.unwrap();
                pair.theirs.send(2, bytes(len, number)).await.unwrap();
            }
        },
        async {
            for (number, len) in sizes.into_iter().enumerate() {
                for side in [&pair.ours, &pair.theirs] {
                    let message = within(60, side.recv()).await.unwrap().unwrap();
                    assert!(message.into_bytes() == bytes(len, number), "message {number}");
                }
            }
        }
    );
    let ((), ()) = (sent, received);
    within(20, pair.ours.shutdown()).await.unwrap();
    assert_eq!(within(20, pair.theirs.closed()).await, CloseReason::Shutdown);
}

/// The handshake and the transfer survive a link that loses packets.
#[tokio::test]
async fn a_lossy_link_loses_no_message() {
    let pair = pair(|builder| builder.link("delay=5ms,loss=10%".parse().unwrap(), 4)).await;
    for number in 0..100 {
        pair.ours.send(1, bytes(3000, number)).await.unwrap();
    }
    for number in 0..100 {
        let message = within(60, pair.theirs.recv()).await.unwrap().unwrap();
        assert!(message.into_bytes() == bytes(3000, number), "message {number}");
    }
}

/// Nothing that a program sends passes a relay in clear text.
#[tokio::test]
async fn everything_is_encrypted() {
    let server = listening(DtlsConfig::new(certificate())).await;
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (to_relay, to_server) = (relay.local_addr().unwrap(), server.local_addr());
    let seen = tokio::spawn(async move {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut client: Option<SocketAddr> = None;
        let mut buffer = vec![0; 70_000];
        loop {
            let Ok(Ok((len, from))) =
                tokio::time::timeout(Duration::from_secs(2), relay.recv_from(&mut buffer)).await
            else {
                return seen;
            };
            seen.push(buffer[..len].to_vec());
            let to = if from == to_server {
                client.expect("the client came first")
            } else {
                client = Some(from);
                to_server
            };
            relay.send_to(&buffer[..len], to).await.unwrap();
        }
    });
    let client = builder(DtlsConfig::new(certificate()))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (ours, theirs) = within(20, async {
        tokio::join!(client.connect_to_port(to_relay, PORT), server.accept())
    })
    .await;
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    let secret = b"a secret that nobody may see";
    for _ in 0..20 {
        ours.send(1, secret.to_vec()).await.unwrap();
        within(20, theirs.recv()).await.unwrap().unwrap();
    }
    within(20, ours.shutdown()).await.unwrap();
    within(20, client.close()).await;
    let seen = within(60, seen).await.unwrap();
    assert!(seen.len() > 20);
    for datagram in &seen {
        // A record of DTLS 1.2 or 1.3 (RFC 9147 §4.1).
        assert!(matches!(datagram[0], 20..=25 | 32..=63), "{:?}", &datagram[..8]);
        assert!(!datagram.windows(secret.len()).any(|part| part == secret));
    }
}

#[tokio::test]
async fn a_wrong_fingerprint_is_refused_by_either_side() {
    let other = certificate().fingerprint();
    let theirs = certificate();
    let fingerprint = theirs.fingerprint();
    let server = listening(DtlsConfig::new(theirs)).await;
    let client = builder(DtlsConfig::new(certificate()).trust(other))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let error = within(60, client.connect_to_port(server.local_addr(), PORT))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ConnectError::Dtls { reason: DtlsError::Refused(seen), .. } if seen == fingerprint),
        "{error}"
    );
    assert!(error.to_string().contains(&fingerprint.to_string()), "{error}");
    let server = listening(DtlsConfig::new(certificate()).trust(other)).await;
    let client = builder(DtlsConfig::new(certificate()))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let error = within(60, client.connect_to_port(server.local_addr(), PORT))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::Dtls {
                reason: DtlsError::ClosedByPeer,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(server.associations(), 0);
}

/// A peer without DTLS gets no answer, and a client with DTLS gets none from a server without it.
#[tokio::test]
async fn plain_and_encrypted_endpoints_do_not_meet() {
    let server = listening(DtlsConfig::new(certificate())).await;
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let attempt = tokio::time::timeout(
        Duration::from_millis(1500),
        client.connect_to_port(server.local_addr(), PORT),
    )
    .await;
    assert!(attempt.is_err(), "nobody answers");
    assert_eq!(server.associations(), 0);
    let server = common::listening(Config::default()).await;
    let client = builder(DtlsConfig::new(certificate()))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let attempt = tokio::time::timeout(
        Duration::from_millis(1500),
        client.connect_to_port(server.local_addr(), PORT),
    )
    .await;
    assert!(attempt.is_err(), "nobody answers");
    assert_eq!(server.associations(), 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_port_is_found_at_once() {
    let gone = UdpSocket::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let client = builder(DtlsConfig::new(certificate()))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let error = within(30, client.connect_to_port(gone, PORT)).await.unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::Dtls {
                reason: DtlsError::NothingThere,
                ..
            }
        ),
        "{error}"
    );
}

/// A closed endpoint tells its peers: their associations end, although nobody aborted them.
#[tokio::test]
async fn the_end_of_the_connection_ends_its_associations() {
    let pair = pair(|builder| builder).await;
    // The client vanishes without a shutdown of its association, but closes DTLS.
    let Pair {
        client,
        server,
        ours,
        theirs,
    } = pair;
    ours.abort("");
    within(20, client.close()).await;
    drop(ours);
    let reason = within(20, theirs.closed()).await;
    assert!(
        matches!(
            reason,
            CloseReason::AbortedByPeer(_) | CloseReason::LowerLayerClosed
        ),
        "{reason:?}"
    );
    drop(server);
}

/// A client whose program was restarted, at the same port, gets a new association.
#[tokio::test]
async fn a_restarted_client_connects_again() {
    let server = listening(DtlsConfig::new(certificate())).await;
    let first = builder(DtlsConfig::new(certificate()))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let own = first.local_addr();
    let (ours, theirs) = within(20, async {
        tokio::join!(first.connect_to_port(server.local_addr(), PORT), server.accept())
    })
    .await;
    let (ours, _theirs) = (ours.unwrap(), theirs.unwrap());
    // Without a word: the tasks end with their runtime in a real crash; here the sockets close.
    drop(ours);
    within(20, first.close()).await;
    drop(first);
    let second = builder(DtlsConfig::new(certificate())).bind(own).await.unwrap();
    let (ours, theirs) = within(30, async {
        tokio::join!(second.connect_to_port(server.local_addr(), PORT), server.accept())
    })
    .await;
    ours.unwrap().send(1, "again").await.unwrap();
    let message = within(20, theirs.unwrap().recv()).await.unwrap().unwrap();
    assert_eq!(message.into_bytes(), "again".as_bytes());
}

#[tokio::test]
async fn several_paths_are_a_clear_error() {
    let dtls = || DtlsConfig::new(certificate()).trust(Trust::Anybody);
    let two: [SocketAddr; 2] = ["127.0.0.1:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
    let mut multipath = Config::default();
    multipath.multipath.mode = MultipathMode::Cmt;
    let errors = [
        builder(dtls()).bind_all(&two).unwrap_err(),
        builder(dtls()).config(multipath).bind_all(&two[..1]).unwrap_err(),
        builder(dtls())
            .config(with(Config::default(), |config| {
                config.local_addresses = vec![two[0].ip()]
            }))
            .bind_all(&two[..1])
            .unwrap_err(),
        builder(dtls())
            .transport(anabranch::Transport::RawIp)
            .bind_all(&two[..1])
            .unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, BindError::Dtls(_)), "{error}");
    }
}

/// The alerts that end the connections leave the link before the endpoint's tasks end, and no task waits for a packet that came later.
#[tokio::test]
async fn the_last_alert_leaves_the_link() {
    for _ in 0..20 {
        let pair = pair(|builder| builder.link("delay=1ms".parse().unwrap(), 4)).await;
        within(20, pair.ours.shutdown()).await.unwrap();
        within(20, pair.client.close()).await;
        let (outward, _) = pair.client.link_stats().unwrap();
        assert_eq!(outward.delivered, outward.offered);
    }
}
