//! Connections through a client and a server on loopback.

mod common;

use std::io::ErrorKind;
use std::time::Duration;

use anabranch_forward::{Limits, Protocol, Rule};
use common::{bytes, client, connect, forward, policy, rule, serve, tcp, udp, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A connection through a rule, and the connection that the target accepts.
async fn pair(place: std::net::SocketAddr, target: &TcpListener) -> (TcpStream, TcpStream) {
    let program = connect(place).await;
    let (accepted, _) = within(target.accept()).await.unwrap();
    (program, accepted)
}

/// Resets a connection instead of ending it.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

async fn expect_reset(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let error = within(stream.read_to_end(&mut rest))
        .await
        .expect_err("no end, but a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[tokio::test]
async fn bytes_pass_in_both_directions_at_once_and_each_ends_alone() {
    let target = tcp().await;
    let (_server, client, _) =
        forward(vec![rule(Protocol::Tcp, false, target.local_addr().unwrap(), "")]).await;
    let (mut program, mut accepted) = pair(client.place(0), &target).await;
    let (request, answer) = (bytes(3_000_000, 1), bytes(2_000_000, 2));
    let (mut program_reads, mut program_writes) = program.split();
    let (mut target_reads, mut target_writes) = accepted.split();
    let write = async {
        program_writes.write_all(&request).await.unwrap();
        program_writes.shutdown().await.unwrap();
    };
    let serve = async {
        let mut arrived = Vec::new();
        // The end of the request arrives while the other direction is open.
        target_reads.read_to_end(&mut arrived).await.unwrap();
        assert!(arrived == request);
        target_writes.write_all(&answer).await.unwrap();
        target_writes.shutdown().await.unwrap();
    };
    let read = async {
        let mut arrived = Vec::new();
        program_reads.read_to_end(&mut arrived).await.unwrap();
        assert!(arrived == answer);
    };
    within(async { tokio::join!(write, serve, read) }).await;
    until("the flow is over", || client.stats(0).flows == 0).await;
    let stats = client.stats(0);
    assert_eq!((stats.bytes_sent, stats.bytes_received), (3_000_000, 2_000_000));
}

#[tokio::test]
async fn a_reset_is_a_reset_in_both_directions() {
    let target = tcp().await;
    let (server, client, _) =
        forward(vec![rule(Protocol::Tcp, false, target.local_addr().unwrap(), "")]).await;
    let (program, mut accepted) = pair(client.place(0), &target).await;
    reset(program);
    expect_reset(&mut accepted).await;
    let (mut program, accepted) = pair(client.place(0), &target).await;
    reset(accepted);
    expect_reset(&mut program).await;
    until("both endpoints forget the flows", || {
        client.stats(0).flows == 0 && server.server.clients()[0].rules[0].1.flows == 0
    })
    .await;
}

/// Programs are not left waiting, and the counters tell what became of their data.
#[tokio::test]
async fn a_rule_that_the_server_does_not_permit_resets_connections_and_drops_datagrams() {
    let target = "127.0.0.1:9".parse().unwrap();
    let rules = [Protocol::Tcp, Protocol::Udp].map(|protocol| rule(protocol, false, target, ""));
    let server = serve(Limits::default(), policy(&[], &[])).await;
    let mut client = client(rules.into(), Limits::default(), server.endpoint.local_addr()).await;
    assert!(client.verdicts().await.iter().all(Result::is_err));
    let mut program = connect(client.place(0)).await;
    expect_reset(&mut program).await;
    let sender = udp().await;
    for _ in 0..3 {
        sender.send_to(b"refused", client.place(1)).await.unwrap();
    }
    until("they are counted", || {
        (client.stats(0).flows_refused, client.stats(1).dropped) == (1, 3)
    })
    .await;
}

#[tokio::test]
async fn a_target_that_does_not_accept_resets_the_connection() {
    let target = tcp().await.local_addr().unwrap();
    let (_server, client, _) = forward(vec![rule(Protocol::Tcp, false, target, "")]).await;
    let mut program = connect(client.place(0)).await;
    expect_reset(&mut program).await;
    assert_eq!(client.stats(0).flows_refused, 1);
}

#[tokio::test]
async fn the_end_of_the_client_resets_connections() {
    let target = tcp().await;
    let (_server, client, _) =
        forward(vec![rule(Protocol::Tcp, false, target.local_addr().unwrap(), "")]).await;
    let (mut program, mut accepted) = pair(client.place(0), &target).await;
    program.write_all(b"begun").await.unwrap();
    drop(client);
    expect_reset(&mut program).await;
    expect_reset(&mut accepted).await;
}

/// A program that does not read holds back its own sender, and nothing else.
#[tokio::test]
async fn a_blocked_connection_blocks_no_other_flow() {
    let (stuck_target, target, datagrams) = (tcp().await, tcp().await, udp().await);
    let rules = vec![
        rule(Protocol::Tcp, false, stuck_target.local_addr().unwrap(), ""),
        rule(Protocol::Tcp, false, target.local_addr().unwrap(), ""),
        rule(Protocol::Udp, false, datagrams.local_addr().unwrap(), ""),
    ];
    let (_server, client, _) = forward(rules).await;
    let mut stuck = Vec::new();
    for _ in 0..20 {
        let (program, accepted) = pair(client.place(0), &stuck_target).await;
        // Writes until nothing more fits.
        let writer = tokio::spawn(async move {
            let mut program = program;
            let data = vec![1; 1 << 16];
            while program.write_all(&data).await.is_ok() {}
        });
        stuck.push((writer, accepted));
    }
    // All writers wait when the counter stands still for a while.
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let sent = client.stats(0).bytes_sent;
        if sent == last && sent > 0 {
            break;
        }
        last = sent;
    }
    let (mut program, mut accepted) = pair(client.place(1), &target).await;
    let sent = bytes(2_000_000, 3);
    let mut arrived = vec![0; sent.len()];
    let exchange = async { tokio::join!(program.write_all(&sent), accepted.read_exact(&mut arrived)) };
    let (written, read) = within(exchange).await;
    assert!(written.is_ok() && read.is_ok() && arrived == sent);
    let program = udp().await;
    program.send_to(b"passes", client.place(2)).await.unwrap();
    let mut buffer = [0; 10];
    let (len, _) = within(datagrams.recv_from(&mut buffer)).await.unwrap();
    assert_eq!(&buffer[..len], b"passes");
    for (writer, accepted) in stuck {
        writer.abort();
        drop(accepted);
    }
}

#[tokio::test]
async fn a_reverse_rule_listens_at_the_server() {
    let target = tcp().await;
    let rules = vec![rule(
        Protocol::Tcp,
        true,
        target.local_addr().unwrap(),
        ",class=0",
    )];
    let (_server, _client, places) = forward(rules).await;
    let (mut program, mut accepted) = pair(places[0].parse().unwrap(), &target).await;
    program.write_all(b"question").await.unwrap();
    program.shutdown().await.unwrap();
    let mut arrived = String::new();
    within(accepted.read_to_string(&mut arrived)).await.unwrap();
    assert_eq!(arrived, "question");
    accepted.write_all(b"answer").await.unwrap();
    drop(accepted);
    let mut arrived = String::new();
    within(program.read_to_string(&mut arrived)).await.unwrap();
    assert_eq!(arrived, "answer");
}

/// Streams of the association are used again: many more connections than streams, one after the other.
#[tokio::test]
async fn streams_serve_many_connections_one_after_the_other() {
    let target = tcp().await;
    let limits = Limits {
        flows: 8,
        ..Limits::default()
    };
    let server = common::serve(Limits::default(), common::open_policy()).await;
    let rules = vec![rule(Protocol::Tcp, false, target.local_addr().unwrap(), "")];
    let mut client = common::client(rules, limits, server.endpoint.local_addr()).await;
    client.verdicts().await[0].clone().unwrap();
    for round in 0..100_u32 {
        until("a flow is free", || client.stats(0).flows < 8).await;
        let (mut program, mut accepted) = pair(client.place(0), &target).await;
        program.write_all(&round.to_be_bytes()).await.unwrap();
        drop(program);
        assert_eq!(within(accepted.read_u32()).await.unwrap(), round);
    }
    until("all flows are over", || {
        client.stats(0).flows == 0 && server.server.clients()[0].rules[0].1.flows == 0
    })
    .await;
    assert_eq!(client.stats(0).flows_opened, 100);
}

#[tokio::test]
async fn a_rate_delays_the_bytes_of_connections() {
    let target = tcp().await;
    let rules = vec![rule(
        Protocol::Tcp,
        false,
        target.local_addr().unwrap(),
        ",rate=8mbit",
    )];
    let (_server, client, _) = forward(rules).await;
    let (mut program, mut accepted) = pair(client.place(0), &target).await;
    let sent = bytes(600_000, 9);
    let mut arrived = vec![0; sent.len()];
    let begun = std::time::Instant::now();
    let exchange = async { tokio::join!(program.write_all(&sent), accepted.read_exact(&mut arrived)) };
    within(exchange).await.1.unwrap();
    assert!(arrived == sent);
    assert!(
        begun.elapsed() >= Duration::from_millis(400),
        "{:?} for 0.6 MB at 1 MB/s",
        begun.elapsed()
    );
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_are_forwarded_like_connections_of_tcp() {
    use tokio::net::{UnixListener, UnixStream};

    let folder = std::env::temp_dir().join(format!("anabranch-forward-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (here, there) = (folder.join("here"), folder.join("there"));
    // A file that an earlier run left does no harm.
    drop(UnixListener::bind(&here).unwrap());
    let target = UnixListener::bind(&there).unwrap();
    let permitted = format!("unix:{}", there.display());
    let running = common::serve(Default::default(), common::policy(&[&permitted], &[])).await;
    let text = format!("unix:{}=unix:{}", here.display(), there.display());
    let rule = Rule::parse(Protocol::Tcp, false, &text).unwrap();
    let address = running.endpoint.local_addr();
    let mut client = common::client(vec![rule], Default::default(), address).await;
    assert_eq!(client.verdicts().await, [Ok(String::new())]);
    let mut program = UnixStream::connect(&here).await.unwrap();
    let (mut accepted, _) = within(target.accept()).await.unwrap();
    program.write_all(b"hello").await.unwrap();
    program.shutdown().await.unwrap();
    let mut arrived = String::new();
    within(accepted.read_to_string(&mut arrived)).await.unwrap();
    assert_eq!(arrived, "hello");
    accepted.write_all(b"bye").await.unwrap();
    drop(accepted);
    arrived.clear();
    within(program.read_to_string(&mut arrived)).await.unwrap();
    assert_eq!(arrived, "bye");
    std::fs::remove_dir_all(folder).unwrap();
}
