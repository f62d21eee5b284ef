//! How associations and endpoints end.

mod common;

use std::time::Duration;

use anabranch::{
    AssociationState, BindError, CloseReason, Config, ConnectError, Endpoint, Event, ListenError,
};
use anabranch::{RecvError, SendError, StreamId};
use common::{PORT, bytes, listening, pair, serve, within};

#[tokio::test]
async fn a_shutdown_from_either_side_loses_nothing() {
    for client_ends in [true, false] {
        let pair = pair(Config::default()).await;
        let (first, second) = if client_ends {
            (pair.ours, pair.theirs)
        } else {
            (pair.theirs, pair.ours)
        };
        for number in 0..100 {
            first
                .send(StreamId(number % 16), bytes(5000, u32::from(number)))
                .await
                .unwrap();
        }
        let shutdown = {
            let first = first.clone();
            tokio::spawn(async move { first.shutdown().await })
        };
        let mut received = 0;
        while let Some(message) = within(20, second.recv()).await.unwrap() {
            assert_eq!(message.payload.len(), 5000);
            received += 1;
        }
        assert_eq!(received, 100);
        within(20, shutdown).await.unwrap().unwrap();
        assert_eq!(within(20, second.closed()).await, CloseReason::Shutdown);
        let mut events = Vec::new();
        while let Some(event) = within(20, second.next_event()).await {
            events.push(event);
        }
        assert_eq!(events.last(), Some(&Event::PeerShutdown), "{events:?}");
        assert_eq!(second.state(), AssociationState::Closed);
        let error = second.send(StreamId(0), "too late").await.unwrap_err();
        assert_eq!(error, SendError::Closed(CloseReason::Shutdown));
    }
}

#[tokio::test]
async fn an_abort_ends_the_other_side_too() {
    let pair = pair(Config::default()).await;
    let waiting = {
        let theirs = pair.theirs.clone();
        tokio::spawn(async move { theirs.recv().await })
    };
    pair.ours.abort("enough");
    let error = within(20, waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, RecvError::Closed(CloseReason::AbortedByPeer(_))),
        "{error:?}"
    );
    assert_eq!(within(20, pair.ours.closed()).await, CloseReason::Aborted);
    assert!(
        pair.ours
            .shutdown()
            .await
            .unwrap_err()
            .to_string()
            .contains("this side aborted")
    );
    within(20, async {
        tokio::join!(pair.client.close(), pair.server.close())
    })
    .await;
}

#[tokio::test]
async fn nobody_there_is_said_clearly() {
    // A bound socket that never answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = Config::default();
    config.rto.initial = Duration::from_millis(50);
    config.rto.min = Duration::from_millis(50);
    config.retransmissions.max_init_retransmits = 2;
    let client = Endpoint::builder()
        .config(config)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let address = silent.local_addr().unwrap();
    let error = within(10, client.connect_to_port(address, PORT))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains(&format!("{address} does not answer for SCTP port 7")),
        "{error}"
    );
    within(20, client.idle()).await;
}

/// The core would try for minutes.
#[tokio::test]
async fn connecting_ends_at_its_time_limit() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = Endpoint::builder().connect_timeout(Duration::from_millis(50));
    let client = client.bind("127.0.0.1:0").await.unwrap();
    let error = client.connect(silent.local_addr().unwrap()).await.unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
    within(20, client.idle()).await;
}

#[tokio::test]
async fn a_port_without_listener_is_refused_at_once() {
    let server = listening(Config::default()).await;
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let error = within(20, client.connect_to_port(server.local_addr(), PORT + 1))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ConnectError::Refused { port: 8, .. }),
        "{error:?}"
    );
    server.stop_listening(PORT);
    let error = within(20, client.connect_to_port(server.local_addr(), PORT))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("SCTP port 7"), "{error}");
    let error = within(20, client.connect_to_port(server.local_addr(), 0))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn abandoning_a_connect_leaves_nothing() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let attempt = client.connect_to_port(silent.local_addr().unwrap(), PORT);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), attempt)
            .await
            .is_err()
    );
    within(20, client.idle()).await;
}

#[tokio::test]
async fn dropping_the_last_handle_shuts_down_in_order() {
    let pair = pair(Config::default()).await;
    let copy = pair.ours.clone();
    drop(pair.ours);
    copy.send(StreamId(0), "still there").await.unwrap();
    drop(copy);
    assert_eq!(
        within(20, pair.theirs.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes(),
        "still there"
    );
    assert_eq!(within(20, pair.theirs.recv()).await, Ok(None));
    within(20, pair.client.idle()).await;
}

#[tokio::test]
async fn a_dropped_reader_does_not_hold_up_the_peer() {
    let pair = pair(Config::default()).await;
    // More data than the receive window.
    let sender = {
        let theirs = pair.theirs.clone();
        tokio::spawn(async move {
            for number in 0..60 {
                if theirs.send(StreamId(0), bytes(100_000, number)).await.is_err() {
                    break;
                }
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(pair.ours);
    within(10, sender).await.unwrap();
    assert_eq!(within(10, pair.theirs.closed()).await, CloseReason::Shutdown);
}

#[tokio::test]
async fn dropping_an_endpoint_leaves_its_associations() {
    let pair = pair(Config::default()).await;
    drop(pair.client);
    drop(pair.server);
    pair.ours.send(StreamId(0), "still there").await.unwrap();
    assert_eq!(
        within(20, pair.theirs.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes(),
        "still there"
    );
    within(20, pair.theirs.shutdown()).await.unwrap();
    assert_eq!(within(20, pair.ours.recv()).await, Ok(None));
}

#[tokio::test]
async fn closing_an_endpoint_shuts_all_down_and_ends_accept() {
    let server = listening(Config::default()).await;
    let serving = tokio::spawn(serve(server.clone()));
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let mut associations = Vec::new();
    for _ in 0..5 {
        associations.push(
            within(20, client.connect_to_port(server.local_addr(), PORT))
                .await
                .unwrap(),
        );
    }
    within(10, server.close()).await;
    within(20, serving).await.unwrap();
    for association in associations {
        assert_eq!(within(20, association.recv()).await, Ok(None));
    }
    assert_eq!(server.listen_on_port(9), Err(ListenError::Closed));
    assert!(matches!(
        server.connect_to_port(client.local_addr(), 9).await,
        Err(ConnectError::Closed)
    ));
}

#[tokio::test]
async fn a_full_backlog_aborts_newcomers() {
    let server = Endpoint::builder().backlog(2).bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let first = within(20, client.connect_to_port(server.local_addr(), PORT))
        .await
        .unwrap();
    let second = within(20, client.connect_to_port(server.local_addr(), PORT))
        .await
        .unwrap();
    // The ABORT may answer the COOKIE ECHO of the third association, or arrive directly after the setup.
    match within(20, client.connect_to_port(server.local_addr(), PORT)).await {
        Err(error) => assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}"),
        Ok(third) => assert!(matches!(
            within(20, third.closed()).await,
            CloseReason::AbortedByPeer(_)
        )),
    }
    assert_eq!((first.close_reason(), second.close_reason()), (None, None));
    let accepted = within(20, server.accept()).await.unwrap();
    first.send(StreamId(0), "hello").await.unwrap();
    assert_eq!(
        within(20, accepted.recv()).await.unwrap().unwrap().into_bytes(),
        "hello"
    );
    assert!(
        within(20, client.connect_to_port(server.local_addr(), PORT))
            .await
            .is_ok(),
        "there is room again"
    );
}

#[tokio::test]
async fn a_used_port_and_bad_settings_are_errors_of_bind() {
    let first = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let error = Endpoint::bind(first.local_addr()).await.unwrap_err();
    assert!(error.to_string().contains("choose a free port"), "{error}");
    let mut config = Config::default();
    config.path_mtu = 100;
    let error = Endpoint::builder()
        .config(config)
        .bind("127.0.0.1:0")
        .await
        .unwrap_err();
    assert!(
        matches!(&error, BindError::Config(_)) && error.to_string().contains("path_mtu"),
        "{error}"
    );
    assert_eq!(first.listen_on_port(0), Err(ListenError::PortZero));
}

/// Shuts the association down from the client's side, and closes its endpoint. The link drops `lost` packets of the client: after SHUTDOWN, the
/// SHUTDOWN COMPLETE and perhaps its copies. Returns how long the server's association continued.
async fn lose_the_shutdown_complete(server: Endpoint, client: Endpoint, lost: u64) -> Duration {
    let pair = common::connect(client, server).await;
    // As many packets of the server are dropped: after SHUTDOWN ACK these are its retransmissions, unless the machine was so busy that
    // the setup took retransmissions. The next retransmission is answered.
    let lose = |at: &Endpoint, passed: u64| {
        let numbers: Vec<_> = (1..=lost).map(|number| (passed + number).to_string()).collect();
        let script = format!("loss=script:{}", numbers.join("/"));
        assert!(at.set_link(&script.parse().unwrap()));
    };
    match (pair.client.link_stats(), pair.server.link_stats()) {
        (Some((out, _)), _) => lose(&pair.client, out.offered),
        (_, Some((_, inward))) => lose(&pair.server, inward.offered),
        _ => panic!("one of them has a link"),
    }
    within(20, pair.ours.shutdown()).await.unwrap();
    let begun = std::time::Instant::now();
    let (client, theirs) = (pair.client.clone(), pair.theirs);
    let closed = async { (theirs.closed().await, begun.elapsed()) };
    let ((), (reason, took)) = within(20, async { tokio::join!(client.close(), closed) }).await;
    assert_eq!(reason, CloseReason::Shutdown);
    let dropped = match (client.link_stats(), pair.server.link_stats()) {
        (Some((out, _)), _) => out.lost_model,
        (_, stats) => stats.map_or(0, |(_, inward)| inward.lost_model),
    };
    assert_eq!(dropped, lost);
    took
}

/// Settings without heartbeats.
fn with_rto(rto: Duration) -> Config {
    let mut config = Config::default();
    (config.rto.initial, config.rto.min) = (rto, rto);
    config.heartbeat.interval = None;
    config.path_mtu_limit = config.path_mtu;
    config
}

/// The SHUTDOWN COMPLETE and its copies.
const ALL: u64 = 3;
const SHORT: Duration = Duration::from_millis(100);

async fn server_behind_a_link(config: Config) -> Endpoint {
    let server = Endpoint::builder().config(config).link(Default::default(), 1);
    let server = server.bind("127.0.0.1:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    server
}

#[tokio::test]
async fn a_shutdown_complete_that_the_network_lost_is_copied_when_the_endpoint_closes() {
    // Longer than the test may take: neither the server's retransmission nor its time limit has a part in it.
    let mut config = with_rto(Duration::from_secs(60));
    config.shutdown_guard = Some(Duration::from_secs(60));
    let server = server_behind_a_link(config.clone()).await;
    let client = Endpoint::builder()
        .config(config)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    lose_the_shutdown_complete(server, client, 1).await;
}

#[tokio::test]
async fn a_shutdown_complete_that_the_network_lost_is_retransmitted_while_the_endpoint_lingers() {
    let server = server_behind_a_link(with_rto(SHORT)).await;
    let client = Endpoint::builder()
        .config(with_rto(SHORT))
        .linger(Duration::from_secs(5));
    let took = lose_the_shutdown_complete(server, client.bind("127.0.0.1:0").await.unwrap(), ALL).await;
    assert!(took > SHORT / 2, "it was not lost: {took:?}");
}

#[tokio::test]
async fn a_shutdown_complete_that_the_own_link_lost_is_retransmitted() {
    let server = listening(with_rto(SHORT)).await;
    let client = Endpoint::builder()
        .config(with_rto(SHORT))
        .link(Default::default(), 1);
    let took = lose_the_shutdown_complete(server, client.bind("127.0.0.1:0").await.unwrap(), ALL).await;
    assert!(took > SHORT / 2, "it was not lost: {took:?}");
}

/// Nothing is copied for a peer whose retransmission an open endpoint would answer, and a close without associations is immediate.
#[tokio::test]
async fn an_open_endpoint_copies_nothing() {
    let server = listening(Config::default()).await;
    let client = Endpoint::builder().link(Default::default(), 1);
    let pair = common::connect(client.bind("127.0.0.1:0").await.unwrap(), server).await;
    within(20, pair.ours.shutdown()).await.unwrap();
    within(20, pair.client.idle()).await;
    let sent = || pair.client.link_stats().unwrap().0.offered;
    let before = sent();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(sent(), before);
    within(20, pair.client.close()).await;
    // On a busy machine, more time may have passed than a peer waits.
    assert!(sent() < before + ALL);
}

#[test]
fn handles_may_outlive_their_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pair = runtime.block_on(pair(Config::default()));
    drop(runtime);
    let sent = pair.ours.try_send(0, "nobody carries this");
    assert!(sent.is_ok(), "it is in the buffer, and stays there");
    drop(pair);
}
