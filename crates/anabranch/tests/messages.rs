//! Messages between two endpoints on loopback.

mod common;

use std::time::Duration;

use anabranch::{
    Config, DEFAULT_SCTP_PORT, Endpoint, EndpointBuilder, Ppid, RecvError, SendError, SendOptions, StreamId,
    Transport,
};
use common::{PORT, bytes, listening, pair, serve, within};

#[tokio::test]
async fn an_echo_comes_back_as_it_was_sent() {
    let server = listening(Config::default()).await;
    let address = server.local_addr();
    tokio::spawn(serve(server));
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let association = within(10, client.connect_to_port(address, PORT)).await.unwrap();
    assert_eq!(
        (association.ports().1, association.remote_addr()),
        (PORT, address)
    );
    for (number, len) in [1, 2, 3, 1200, 1453, 70_000, 300_000].into_iter().enumerate() {
        let options = SendOptions::default()
            .ppid(Ppid(51 + number as u32))
            .unordered(number % 2 == 1);
        let sent = bytes(len, number as u32);
        association
            .send_with(StreamId(number as u16), sent.clone(), options)
            .await
            .unwrap();
        let answer = within(10, association.recv()).await.unwrap().unwrap();
        assert_eq!(
            (answer.stream, answer.options()),
            (StreamId(number as u16), options)
        );
        assert_eq!(answer.into_bytes(), sent);
    }
    within(10, association.shutdown()).await.unwrap();
    assert_eq!(association.recv().await, Ok(None));
}

#[tokio::test]
async fn an_endpoint_needs_no_sctp_port_and_may_have_several() {
    let server = Endpoint::bind("127.0.0.1:0").await.unwrap();
    server.listen().unwrap();
    server.listen_on_port(5000).unwrap();
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let first = within(10, client.connect(server.local_addr())).await.unwrap();
    let second = within(10, client.connect_to_port(server.local_addr(), 5000)).await;
    assert_eq!(first.ports().1, DEFAULT_SCTP_PORT);
    assert_eq!(second.unwrap().ports().1, 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_associations_at_once() {
    let server = listening(Config::default()).await;
    let address = server.local_addr();
    tokio::spawn(serve(server.clone()));
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100_u32 {
        let client = client.clone();
        tasks.spawn(async move {
            let association = client.connect_to_port(address, PORT).await.unwrap();
            for round in 0..20 {
                let sent = bytes(1000 + number as usize, number * 100 + round);
                association.send(StreamId(3), sent.clone()).await.unwrap();
                assert_eq!(association.recv().await.unwrap().unwrap().into_bytes(), sent);
            }
            association.shutdown().await.unwrap();
        });
    }
    within(60, async {
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
        client.close().await;
        server.idle().await;
    })
    .await;
    assert_eq!((client.associations(), server.associations()), (0, 0));
}

#[tokio::test]
async fn a_slow_reader_holds_the_sender_back() {
    let mut config = Config::default();
    config.buffers.send = 64 << 10;
    config.buffers.receive = 64 << 10;
    config.buffers.growth = 1;
    let pair = pair(config).await;
    let mut sent = 0_u32;
    let mut quiet = 0;
    // Nobody reads: send until both buffers stay full.
    while quiet < 40 {
        match pair.ours.try_send(StreamId(0), bytes(1000, sent)) {
            Ok(_) => (sent, quiet) = (sent + 1, 0),
            Err(error) => {
                assert_eq!(error, SendError::BufferFull);
                quiet += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    assert!(
        (64..=140).contains(&sent),
        "both buffers are full with {sent} messages"
    );
    let waiting = {
        let ours = pair.ours.clone();
        tokio::spawn(async move { ours.send(StreamId(0), "the last").await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "it waits for room");
    for number in 0..sent {
        let message = within(20, pair.theirs.recv()).await.unwrap().unwrap();
        assert_eq!(message.into_bytes(), bytes(1000, number));
    }
    within(20, waiting).await.unwrap().unwrap();
    assert_eq!(
        within(20, pair.theirs.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes(),
        "the last"
    );
    within(20, pair.ours.drained()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_mebibytes_pass_a_small_window() {
    let mut config = Config::default();
    config.buffers.receive = 64 << 10;
    let pair = pair(config).await;
    let sent = bytes(16 << 20, 5);
    pair.ours.send(StreamId(1), sent.clone()).await.unwrap();
    let message = within(60, pair.theirs.recv()).await.unwrap().unwrap();
    assert!(message.into_bytes() == sent);
    within(20, pair.ours.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_message_goes_and_comes_in_parts() {
    let mut config = Config::default();
    config.buffers.partial_delivery_point = 10_000;
    config.buffers.receive = 64 << 10;
    let pair = pair(config).await;
    let whole = bytes(1 << 20, 9);
    let sender = {
        let (ours, whole) = (pair.ours.clone(), whole.clone());
        tokio::spawn(async move {
            let options = SendOptions::default().ppid(Ppid(46));
            let last = whole.len() / 4096 - 1;
            for (number, part) in whole.chunks(4096).enumerate() {
                ours.send_part(StreamId(2), part.to_vec(), options, number == last)
                    .await
                    .unwrap();
            }
        })
    };
    let (mut received, mut parts) = (Vec::new(), 0);
    loop {
        let part = within(20, pair.theirs.recv_part()).await.unwrap().unwrap();
        assert_eq!(
            (part.stream, part.ppid, part.beginning),
            (StreamId(2), Ppid(46), parts == 0)
        );
        part.payload
            .pieces()
            .iter()
            .for_each(|piece| received.extend_from_slice(piece));
        parts += 1;
        if part.ending {
            break;
        }
    }
    assert!(received == whole && parts > 1, "{parts} parts");
    within(20, sender).await.unwrap();
}

#[tokio::test]
async fn a_message_larger_than_recv_joins_is_an_error_and_the_next_is_not() {
    let server = Endpoint::builder()
        .max_joined_message(300_000)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    server.listen_on_port(PORT).unwrap();
    let client = Endpoint::bind("127.0.0.1:0").await.unwrap();
    let pair = common::connect(client, server).await;
    pair.ours.send(StreamId(4), bytes(500_000, 1)).await.unwrap();
    pair.ours.send(StreamId(4), "small").await.unwrap();
    let error = within(10, pair.theirs.recv()).await.unwrap_err();
    assert_eq!(
        error,
        RecvError::TooLarge {
            stream: StreamId(4),
            limit: 300_000
        }
    );
    assert!(error.to_string().contains("use recv_part"), "{error}");
    assert_eq!(
        within(10, pair.theirs.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes(),
        "small"
    );
}

#[tokio::test]
async fn what_cannot_be_sent_is_said() {
    let pair = pair(Config::default()).await;
    let error = pair.ours.send(StreamId(16), "x").await.unwrap_err();
    assert!(error.to_string().contains("16 outbound streams"), "{error}");
    let error = pair.ours.send(StreamId(0), "").await.unwrap_err();
    assert!(error.to_string().contains("at least one byte"), "{error}");
    let error = pair
        .ours
        .send(StreamId(0), vec![0; (256 << 20) + 1])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("larger than the limit"), "{error}");
}

#[tokio::test]
async fn several_tasks_send_and_receive_on_one_association() {
    let pair = pair(Config::default()).await;
    let mut tasks = tokio::task::JoinSet::new();
    for stream in 0..8 {
        let ours = pair.ours.clone();
        tasks.spawn(async move {
            for number in 0..200_u32 {
                ours.send(StreamId(stream), number.to_be_bytes().to_vec())
                    .await
                    .unwrap();
            }
        });
    }
    let mut next = [0_u32; 8];
    for _ in 0..1600 {
        let message = within(10, pair.theirs.recv()).await.unwrap().unwrap();
        let expected = &mut next[usize::from(message.stream.0)];
        assert_eq!(message.into_bytes()[..], expected.to_be_bytes());
        *expected += 1;
    }
    within(10, pair.ours.drained()).await.unwrap();
    let stats = pair.ours.stats();
    assert_eq!((stats.counters.messages_sent, stats.outstanding_bytes), (1600, 0));
    assert_eq!(pair.theirs.stats().counters.messages_received, 1600);
}

#[tokio::test]
async fn ipv6_and_both_versions_on_one_socket() {
    let server = Endpoint::bind("[::]:0").await.unwrap();
    server.listen_on_port(PORT).unwrap();
    let port = server.local_addr().port();
    tokio::spawn(serve(server));
    for (from, to) in [("[::1]:0", "::1"), ("127.0.0.1:0", "127.0.0.1")] {
        let client = Endpoint::bind(from).await.unwrap();
        let association = within(10, client.connect_to_port((to, port), PORT))
            .await
            .unwrap();
        association.send(StreamId(0), from).await.unwrap();
        assert_eq!(
            within(10, association.recv())
                .await
                .unwrap()
                .unwrap()
                .into_bytes(),
            from
        );
        within(10, association.shutdown()).await.unwrap();
    }
}

#[tokio::test]
async fn raw_ip_carries_associations_or_says_what_it_needs() {
    let raw = |address: &'static str| {
        EndpointBuilder::default()
            .transport(Transport::RawIp)
            .bind(address)
    };
    let server = match raw("127.0.0.1:0").await {
        Ok(server) => server,
        Err(error) => {
            assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
            return;
        }
    };
    server.listen_on_port(PORT).unwrap();
    tokio::spawn(serve(server));
    // From another address, and from the server's address: there both sockets receive every packet.
    for local in ["127.0.0.2:0", "127.0.0.1:0", "0.0.0.0:0"] {
        let client = raw(local).await.unwrap();
        let association = within(10, client.connect_to_port("127.0.0.1:0", PORT))
            .await
            .unwrap();
        association.send(StreamId(0), bytes(100_000, 1)).await.unwrap();
        assert_eq!(
            within(10, association.recv())
                .await
                .unwrap()
                .unwrap()
                .into_bytes(),
            bytes(100_000, 1)
        );
        within(10, association.shutdown()).await.unwrap();
    }
}
