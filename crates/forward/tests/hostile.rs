//! Clients that break the rules of the protocol, or use what they may to the limit. They lose their own association, and others do not notice.

mod common;

use anabranch::{Association, Endpoint, SendOptions, StreamId};
use anabranch_forward::{Limits, PORT, Protocol};
use common::{Running, bytes, client, open_policy, policy, rule, serve, tcp, udp, until, within};
use tokio::net::TcpListener;

const CONTROL: StreamId = StreamId(0);
const FLOW: StreamId = StreamId(1);

/// A client that speaks for itself.
struct Raw {
    association: Association,
    /// It lives as long as the association.
    _endpoint: Endpoint,
}

/// A Hello with one rule for TCP or UDP to this target.
fn hello(protocol: u8, target: &str) -> Vec<u8> {
    let mut hello = b"\x01ANBF\x00\x01".to_vec();
    hello.extend([9; 16]);
    hello.extend([0, 1, protocol, 0, 255]);
    hello.extend([0; 12]);
    hello.extend(120_000_u32.to_be_bytes());
    hello.extend((target.len() as u16).to_be_bytes());
    hello.extend(target.as_bytes());
    hello
}

impl Raw {
    async fn connect(server: &Running) -> Self {
        let endpoint = anabranch_forward::endpoint(&Limits::default())
            .bind("127.0.0.1:0")
            .await
            .unwrap();
        let association = within(endpoint.connect_to_port(server.endpoint.local_addr(), PORT))
            .await
            .unwrap();
        Self {
            association,
            _endpoint: endpoint,
        }
    }

    /// Connects and says Hello with one rule.
    async fn with_rule(server: &Running, protocol: u8, target: &str) -> Self {
        let raw = Self::connect(server).await;
        raw.send(CONTROL, &hello(protocol, target)).await;
        let welcome = within(raw.association.recv()).await.unwrap().unwrap();
        let welcome = welcome.into_bytes();
        assert_eq!((welcome[0], welcome[9]), (2, 1), "accepted: {welcome:?}");
        raw
    }

    async fn send(&self, stream: StreamId, message: &[u8]) {
        let options = SendOptions::default();
        let sent = self
            .association
            .send_with(stream, message.to_vec(), options)
            .await;
        sent.unwrap();
    }

    /// Waits until the server ends the association.
    async fn expect_abort(self, why: &str) {
        let reason = within(self.association.closed()).await;
        let reason = reason.to_string();
        assert!(reason.contains(why), "{reason}");
    }
}

fn message(kind: u8, flow: u32, rest: &[u8]) -> Vec<u8> {
    [&[kind], &flow.to_be_bytes()[..], rest].concat()
}

fn open(flow: u32, rule: u16) -> Vec<u8> {
    message(0x10, flow, &rule.to_be_bytes())
}

async fn listening() -> (TcpListener, String) {
    let target = tcp().await;
    let address = target.local_addr().unwrap().to_string();
    (target, address)
}

#[tokio::test]
async fn messages_that_break_the_rules_end_the_association() {
    let server = serve(Limits::default(), open_policy()).await;
    let (_target, address) = listening().await;
    for (messages, why) in [
        (vec![vec![0x77]], "unknown kind"),
        (vec![open(0, 0)[..6].to_vec()], "ends too early"),
        (vec![hello(1, &address)], "may not send now"),
        (vec![open(1, 0)], "wrong number or rule"),
        (vec![open(0, 1)], "wrong number or rule"),
        (vec![open(0, 0), open(0, 0)], "wrong number or rule"),
        (vec![message(0x20, 0, &[0, 0, 1])], "wrong number or rule"),
        (
            vec![open(0, 0), message(0x14, 0, &[0, 0x40, 0, 0])],
            "more data than its credit allows",
        ),
    ] {
        let raw = Raw::with_rule(&server, 1, &address).await;
        for message in &messages {
            raw.send(CONTROL, message).await;
        }
        raw.expect_abort(why).await;
    }
    until("the server serves no client", || {
        server.server.clients().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_client_must_begin_with_a_hello() {
    let server = serve(Limits::default(), open_policy()).await;
    let raw = Raw::connect(&server).await;
    raw.send(CONTROL, &open(0, 0)).await;
    raw.expect_abort("another message than a Hello").await;
    let raw = Raw::connect(&server).await;
    raw.send(FLOW, &hello(0, "127.0.0.1:9")).await;
    raw.expect_abort("another message than a Hello").await;
}

#[tokio::test]
async fn a_client_of_another_version_is_told_so() {
    let server = serve(Limits::default(), open_policy()).await;
    let raw = Raw::connect(&server).await;
    let mut later = hello(0, "127.0.0.1:9");
    later[6] = 2;
    raw.send(CONTROL, &later).await;
    let refusal = within(raw.association.recv())
        .await
        .unwrap()
        .unwrap()
        .into_bytes();
    assert_eq!(refusal[..3], [3, 0, 1]);
    assert!(refusal.ends_with(b"the client has version 2 of the protocol"));
}

/// The program does not read, and the client ignores its credit.
#[tokio::test]
async fn data_above_the_credit_ends_the_association() {
    let server = serve(Limits::default(), open_policy()).await;
    let (_target, address) = listening().await;
    let raw = Raw::with_rule(&server, 1, &address).await;
    raw.send(FLOW, &open(0, 0)).await;
    let data = message(0x11, 0, &[7; 16_384]);
    // The system takes some data for the program, and the server grants credit for it.
    const MOST: usize = 4096;
    for _ in 0..MOST {
        if within(raw.association.send(FLOW, data.clone())).await.is_err() {
            break;
        }
    }
    raw.expect_abort("more data than its credit allows").await;
}

#[tokio::test]
async fn flows_above_the_limit_are_refused_and_another_client_works() {
    let limits = Limits {
        flows: 10,
        ..Limits::default()
    };
    let server = serve(limits, open_policy()).await;
    let (_target, address) = listening().await;
    let raw = Raw::with_rule(&server, 1, &address).await;
    for flow in 0..500 {
        raw.send(FLOW, &open(flow * 2, 0)).await;
    }
    for flow in 10..500_u32 {
        let reset = within(raw.association.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes();
        assert_eq!(reset, message(0x13, flow * 2, &[3]), "the limit");
    }
    let stats = server.server.clients()[0].rules[0].1;
    assert_eq!((stats.flows, stats.flows_refused), (10, 490));
    let datagrams = udp().await;
    let rules = vec![rule(Protocol::Udp, false, datagrams.local_addr().unwrap(), "")];
    let mut other = client(rules, Limits::default(), server.endpoint.local_addr()).await;
    other.verdicts().await[0].clone().unwrap();
    udp().await.send_to(b"hello", other.place(0)).await.unwrap();
    let mut buffer = [0; 10];
    let (len, _) = within(datagrams.recv_from(&mut buffer)).await.unwrap();
    assert_eq!(&buffer[..len], b"hello");
}

/// Each connection takes memory when it opens, whatever it sends.
#[tokio::test]
async fn the_memory_of_a_client_is_limited() {
    let limits = Limits {
        memory: 5 * 65_536,
        ..Limits::default()
    };
    let server = serve(limits, open_policy()).await;
    let (_target, address) = listening().await;
    let raw = Raw::with_rule(&server, 1, &address).await;
    for flow in 0..6 {
        raw.send(FLOW, &open(flow * 2, 0)).await;
    }
    let reset = within(raw.association.recv())
        .await
        .unwrap()
        .unwrap()
        .into_bytes();
    assert_eq!(reset, message(0x13, 10, &[3]));
    // The end of a flow frees its memory.
    raw.send(FLOW, &message(0x13, 0, &[0])).await;
    until("the flow is over", || {
        server.server.clients()[0].rules[0].1.flows == 4
    })
    .await;
    raw.send(FLOW, &open(20, 0)).await;
    until("another one takes its place", || {
        server.server.clients()[0].rules[0].1.flows == 5
    })
    .await;
}

#[tokio::test]
async fn a_refused_rule_opens_no_flow() {
    let server = serve(Limits::default(), policy(&[], &[])).await;
    let (_target, address) = listening().await;
    for (protocol, attempt) in [(1, open(0, 0)), (0, message(0x20, 0, &[0, 0, 1]))] {
        let raw = Raw::connect(&server).await;
        raw.send(CONTROL, &hello(protocol, &address)).await;
        let welcome = within(raw.association.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes();
        assert_eq!(welcome[9], 0, "refused");
        raw.send(FLOW, &attempt).await;
        let reset = within(raw.association.recv())
            .await
            .unwrap()
            .unwrap()
            .into_bytes();
        assert_eq!(reset, message(0x13, 0, &[2]), "forbidden");
    }
}

/// Bytes that are no message, and messages of any content, from many clients: the server goes on.
#[tokio::test]
async fn any_bytes_end_at_most_one_association() {
    let server = serve(Limits::default(), open_policy()).await;
    let (_target, address) = listening().await;
    for seed in 0..40 {
        let raw = Raw::with_rule(&server, (seed % 2) as u8, &address).await;
        let mut random = bytes(100 * 24, seed).into_iter();
        for _ in 0..100 {
            let mut message: Vec<u8> = random.by_ref().take(24).collect();
            // Most have a known kind and a small number of a flow and a rule.
            let kinds = [0x10, 0x11, 0x12, 0x13, 0x14, 0x20, message[0]];
            message[0] = kinds[usize::from(message[1] % 7)];
            message[1..4].fill(0);
            message[4] %= 8;
            message[5..7].fill(0);
            message.truncate(5 + usize::from(message[7] % 16));
            let stream = StreamId(u16::from(message[4]));
            if raw.association.send(stream, message).await.is_err() {
                break;
            }
        }
        raw.association.abort("enough");
    }
    until("the server serves no client", || {
        server.server.clients().is_empty()
    })
    .await;
    let _ = Raw::with_rule(&server, 1, &address).await;
}
