//! Datagrams through a client and a server on loopback.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_forward::{ClientEvent, Limits, Protocol};
use common::{bytes, client, forward, open_policy, policy, rule, serve, udp, until, within};
use tokio::net::UdpSocket;
use tokio::time::timeout;

async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = vec![0; 1 << 16];
    let (len, source) = within(socket.recv_from(&mut buffer)).await.unwrap();
    buffer.truncate(len);
    (buffer, source)
}

#[tokio::test]
async fn datagrams_keep_their_boundaries_in_both_directions() {
    let target = udp().await;
    let rules = vec![rule(
        Protocol::Udp,
        false,
        target.local_addr().unwrap(),
        ",deadline=20s",
    )];
    let (_server, client, _) = forward(rules).await;
    let program = udp().await;
    program.connect(client.place(0)).await.unwrap();
    for (seed, len) in [(1, 0), (2, 1), (3, 1200), (4, 9000), (5, 65_507)] {
        let sent = bytes(len, seed);
        program.send(&sent).await.unwrap();
        let (arrived, source) = receive(&target).await;
        assert!(arrived == sent, "{len} bytes there");
        let answer = bytes(len, seed + 100);
        target.send_to(&answer, source).await.unwrap();
        let (arrived, _) = receive(&program).await;
        assert!(arrived == answer, "{len} bytes in the other direction");
    }
    let stats = client.stats(0);
    assert_eq!((stats.flows, stats.flows_opened, stats.dropped), (1, 1, 0));
    assert_eq!((stats.messages_sent, stats.messages_received), (5, 5));
    assert_eq!(stats.bytes_sent, 1 + 1200 + 9000 + 65_507);
}

#[tokio::test]
async fn each_source_is_a_flow_that_gets_its_own_answers() {
    let target = udp().await;
    let (server, client, _) =
        forward(vec![rule(Protocol::Udp, false, target.local_addr().unwrap(), "")]).await;
    let programs = [udp().await, udp().await, udp().await];
    let mut sources = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        program.send_to(&[index as u8], client.place(0)).await.unwrap();
        let (arrived, source) = receive(&target).await;
        assert_eq!(arrived, [index as u8]);
        sources.push(source);
    }
    for (index, source) in sources.iter().enumerate() {
        target.send_to(&[index as u8 + 10], source).await.unwrap();
    }
    for (index, program) in programs.iter().enumerate() {
        let (arrived, source) = receive(program).await;
        assert_eq!((arrived, source), (vec![index as u8 + 10], client.place(0)));
    }
    assert_eq!(client.stats(0).flows, 3);
    assert_eq!(server.server.clients()[0].rules[0].1.flows, 3);
}

#[tokio::test]
async fn a_reverse_rule_listens_at_the_server() {
    let target = udp().await;
    let rules = vec![rule(
        Protocol::Udp,
        true,
        target.local_addr().unwrap(),
        ",ordered,class=1",
    )];
    let (_server, _client, places) = forward(rules).await;
    let program = udp().await;
    program.connect(&places[0]).await.unwrap();
    for round in 0..100_u8 {
        program.send(&[round]).await.unwrap();
    }
    for round in 0..100_u8 {
        let (arrived, source) = receive(&target).await;
        assert_eq!(arrived, [round], "in order");
        target.send_to(&[round, 1], source).await.unwrap();
        assert_eq!(receive(&program).await.0, [round, 1]);
    }
}

#[tokio::test]
async fn an_idle_flow_ends_at_both_endpoints_and_begins_again() {
    let target = udp().await;
    let rules = vec![rule(
        Protocol::Udp,
        false,
        target.local_addr().unwrap(),
        ",idle=1s",
    )];
    let (server, client, _) = forward(rules).await;
    let program = udp().await;
    for round in 1..=2 {
        program.send_to(b"hello", client.place(0)).await.unwrap();
        receive(&target).await;
        until("both endpoints forget the flow", || {
            client.stats(0).flows == 0 && server.server.clients()[0].rules[0].1.flows == 0
        })
        .await;
        assert_eq!(client.stats(0).flows_opened, round);
    }
}

#[tokio::test]
async fn a_flow_above_the_limit_is_dropped_and_the_others_continue() {
    let target = udp().await;
    let limits = Limits {
        flows: 2,
        ..Limits::default()
    };
    let running = serve(limits, open_policy()).await;
    let rules = vec![rule(Protocol::Udp, false, target.local_addr().unwrap(), "")];
    let mut connected = client(rules, Limits::default(), running.endpoint.local_addr()).await;
    connected.verdicts().await;
    let programs = [udp().await, udp().await, udp().await];
    for program in &programs[..2] {
        program.send_to(b"fits", connected.place(0)).await.unwrap();
        receive(&target).await;
    }
    programs[2]
        .send_to(b"too many", connected.place(0))
        .await
        .unwrap();
    until("the datagram is dropped", || connected.stats(0).dropped == 1).await;
    programs[0].send_to(b"goes on", connected.place(0)).await.unwrap();
    assert_eq!(receive(&target).await.0, b"goes on");
    assert_eq!(connected.stats(0).flows, 2);
}

#[tokio::test]
async fn the_client_hears_that_no_program_receives_at_the_target() {
    // It keeps its port, and receives from another address alone.
    let closed = udp().await;
    closed.connect("127.0.0.1:9").await.unwrap();
    let target = closed.local_addr().unwrap();
    let (_server, mut client, _) = forward(vec![rule(Protocol::Udp, false, target, "")]).await;
    let (program, place) = (udp().await, client.place(0));
    let failed = within(async {
        loop {
            // The system tells the server at its next datagram.
            program.send_to(b"hello", place).await.unwrap();
            match timeout(Duration::from_millis(20), client.events.recv()).await {
                Ok(Some(ClientEvent::TargetFailed(failed))) => return failed,
                _ => continue,
            }
        }
    })
    .await;
    assert!(failed.is_remote, "{failed:?}");
    assert_eq!(failed.target.to_string(), target.to_string());
    assert_eq!(failed.error, "no program receives there");
}

#[tokio::test]
async fn datagrams_above_the_rate_are_dropped() {
    let target = udp().await;
    let rules = vec![rule(
        Protocol::Udp,
        false,
        target.local_addr().unwrap(),
        ",rate=1bit",
    )];
    let (_server, client, _) = forward(rules).await;
    let program = udp().await;
    // The bucket holds one of them, and takes days to fill.
    for _ in 0..2 {
        program.send_to(&[7; 60_000], client.place(0)).await.unwrap();
    }
    receive(&target).await;
    until("the second one is dropped", || client.stats(0).dropped == 1).await;
    assert_eq!(client.stats(0).messages_sent, 1);
}

#[tokio::test]
async fn the_policy_refuses_rules_with_the_reason() {
    let running = serve(
        Limits::default(),
        policy(&["127.0.0.1:9/udp"], &["127.0.0.1:7/udp"]),
    )
    .await;
    let rules = [
        (false, "0=127.0.0.1:9"),
        (false, "0=127.0.0.1:10"),
        (true, "0=127.0.0.1:9"),
    ];
    let rules =
        rules.map(|(reverse, text)| anabranch_forward::Rule::parse(Protocol::Udp, reverse, text).unwrap());
    let mut connected = client(rules.into(), Limits::default(), running.endpoint.local_addr()).await;
    let verdicts = connected.verdicts().await;
    assert_eq!(verdicts[0], Ok(String::new()));
    let [_, Err(target), Err(listen)] = &verdicts[..] else {
        panic!("{verdicts:?}");
    };
    assert!(
        target.contains("127.0.0.1:10/udp") && target.contains("--allow-to"),
        "{target}"
    );
    assert!(listen.contains("--allow-listen"), "{listen}");
}

/// The name is permitted, but leads to loopback, which no entry of the policy permits.
#[tokio::test]
async fn a_name_that_leads_elsewhere_is_refused_at_the_first_datagram() {
    let running = serve(Limits::default(), policy(&["*:9"], &[])).await;
    let rule = anabranch_forward::Rule::parse(Protocol::Udp, false, "0=localhost:9").unwrap();
    let mut connected = client(vec![rule], Limits::default(), running.endpoint.local_addr()).await;
    assert_eq!(connected.verdicts().await, [Ok(String::new())]);
    let program = udp().await;
    program.send_to(b"hello", connected.place(0)).await.unwrap();
    until("the client is told", || connected.stats(0).flows_refused == 1).await;
    program.send_to(b"hello", connected.place(0)).await.unwrap();
    until("later datagrams stay here", || connected.stats(0).dropped == 1).await;
}
