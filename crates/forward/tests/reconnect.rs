//! Clients that lose their server, and come again.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anabranch_forward::{
    Client, ClientError, ClientEvent, Limits, PORT, Protocol, Rule, RuleStats, Server, ServerEvent,
};
use common::{Connected, client, connect, forward, open_policy, rule, serve, start, tcp, udp, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::Instant;

#[tokio::test]
async fn a_client_waits_for_its_server_and_survives_a_restart() {
    let target = tcp().await;
    let first = serve(Limits::default(), open_policy()).await;
    let address = first.endpoint.local_addr();
    let rules = vec![rule(Protocol::Tcp, false, target.local_addr().unwrap(), "")];
    let mut connected = client(rules, Limits::default(), address).await;
    connected.verdicts().await;
    // The server ends with everything that it knows. Its endpoint goes on until the clients have its SHUTDOWN.
    for status in first.server.clients() {
        assert_eq!(status.remote.ip(), address.ip());
    }
    first.task.abort();
    within(first.endpoint.close()).await;
    drop(first);
    let lost = within(connected.events.recv()).await.unwrap();
    assert!(matches!(lost, ClientEvent::Disconnected { .. }), "{lost:?}");
    // A program that connects meanwhile waits.
    let mut program = connect(connected.place(0)).await;
    program.write_all(b"early").await.unwrap();
    let second = start(Server::new(Limits::default()), open_policy(), address).await;
    connected.verdicts().await;
    let (mut accepted, _) = within(target.accept()).await.unwrap();
    let mut arrived = [0; 5];
    within(accepted.read_exact(&mut arrived)).await.unwrap();
    assert_eq!(&arrived, b"early");
    assert_eq!(second.server.clients().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_pause_between_attempts_grows_up_to_a_limit() {
    let (sender, mut events) = unbounded_channel();
    let client = Client::bind(Vec::new(), Limits::default()).await.unwrap();
    let client = client.observe(move |event| sender.send(event).unwrap());
    let running = client.run(|| async { Err("nobody is there") });
    let mut pauses = Vec::new();
    let reading = async {
        while pauses.len() < 7 {
            match events.recv().await.unwrap() {
                ClientEvent::Disconnected { retry_in, .. } => pauses.push(retry_in.as_millis()),
                event => panic!("{event:?}"),
            }
        }
    };
    tokio::select! {
        () = running => {}
        () = reading => {}
    }
    for (index, pause) in pauses.iter().enumerate() {
        let longest = (250 << index).min(4000);
        assert!((longest / 2..=longest).contains(pause), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_begins_at_once_when_a_network_comes_back() {
    let (sender, mut events) = unbounded_channel();
    let client = Client::bind(Vec::new(), Limits::default()).await.unwrap();
    let client = client.observe(move |event| sender.send(event).unwrap());
    let attempts = AtomicU32::new(0);
    let running = client.run(|| {
        let attempt = attempts.fetch_add(1, Ordering::Relaxed);
        async move {
            if attempt == 5 {
                // Packets for which there is no network.
                std::future::pending::<()>().await;
            }
            Err("nobody is there")
        }
    });
    let asking = async {
        for _ in 0..5 {
            within(events.recv()).await.unwrap();
        }
        let began = Instant::now();
        client.try_now();
        // In one of these turns the client is polled, in whatever order.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(attempts.load(Ordering::Relaxed), 6, "in place of the pause");
        client.try_now();
        let ClientEvent::Disconnected { retry_in, .. } = within(events.recv()).await.unwrap() else {
            panic!("another event");
        };
        assert_eq!(
            attempts.load(Ordering::Relaxed),
            7,
            "in place of the attempt that waits"
        );
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(retry_in <= Duration::from_millis(250), "{retry_in:?}");
    };
    tokio::select! {
        () = running => {}
        () = asking => {}
    }
}

/// While the system's buffer has no room, it drops datagrams that nobody counts: the client reads them in time.
#[tokio::test]
async fn datagrams_without_an_association_are_dropped_and_counted() {
    let target = udp().await;
    let running = serve(Limits::default(), open_policy()).await;
    let address = running.endpoint.local_addr();
    let rules = vec![rule(Protocol::Udp, false, target.local_addr().unwrap(), "")];
    let mut connected = client(rules, Limits::default(), address).await;
    connected.verdicts().await;
    connected.task.abort();
    let works = Arc::new(AtomicBool::new(false));
    connected.task = tokio::spawn({
        let (client, works) = (Arc::clone(&connected.client), Arc::clone(&works));
        let bind = anabranch_forward::endpoint(&Limits::default()).bind("127.0.0.1:0");
        let endpoint = bind.await.unwrap();
        async move {
            let connect = || async {
                match works.load(Ordering::Relaxed) {
                    true => endpoint
                        .connect_to_port(address, PORT)
                        .await
                        .map_err(|error| error.to_string()),
                    false => Err("not yet".to_owned()),
                }
            };
            client.run(connect).await;
        }
    });
    let program = udp().await;
    for count in 1..=3 {
        program.send_to(b"early", connected.place(0)).await.unwrap();
        until("a datagram is counted", || connected.stats(0).dropped == count).await;
    }
    // The first one with an association arrives.
    works.store(true, Ordering::Relaxed);
    connected.verdicts().await;
    program.send_to(b"in time", connected.place(0)).await.unwrap();
    let mut arrived = [0; 16];
    let (len, _) = within(target.recv_from(&mut arrived)).await.unwrap();
    assert_eq!(&arrived[..len], b"in time");
    assert_eq!(connected.stats(0).dropped, 3);
}

/// Moves datagrams between one client and the server while it is told to. Returns its address, and the switch.
async fn relay(server: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let (near, far) = (udp().await, udp().await);
    far.connect(server).await.unwrap();
    let address = near.local_addr().unwrap();
    let works = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&works);
    tokio::spawn(async move {
        let (mut there, mut here) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut client = None;
        loop {
            tokio::select! {
                Ok((len, source)) = near.recv_from(&mut there) => {
                    client = Some(source);
                    if works.load(Ordering::Relaxed) {
                        let _ = far.send(&there[..len]).await;
                    }
                }
                Ok(len) = far.recv(&mut here) => if let Some(client) = client && works.load(Ordering::Relaxed) {
                    let _ = near.send_to(&here[..len], client).await;
                }
            }
        }
    });
    (address, switch)
}

/// A client with this rule whose first association passes a relay. Before each further one, `next` is called with the relay's switch.
async fn client_behind_relay(
    server: SocketAddr,
    rule: Rule,
    next: impl Fn(&AtomicBool) + Send + Sync + 'static,
) -> (Connected, Arc<AtomicBool>) {
    let (near, works) = relay(server).await;
    let mut connected = client(vec![rule], Limits::default(), near).await;
    connected.task.abort();
    let endpoint = anabranch_forward::endpoint(&Limits::default())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (own, switch) = (Arc::clone(&connected.client), Arc::clone(&works));
    let is_first = AtomicBool::new(true);
    connected.task = tokio::spawn(async move {
        own.run(|| {
            let is_first = is_first.swap(false, Ordering::Relaxed);
            if !is_first {
                next(&switch);
            }
            endpoint.connect_to_port(if is_first { near } else { server }, PORT)
        })
        .await;
    });
    assert!(connected.verdicts().await[0].is_ok());
    (connected, works)
}

/// The server has noticed nothing, so that the earlier association listens where the new one must.
#[cfg(unix)]
#[tokio::test]
async fn a_silent_association_is_replaced_by_another() {
    let target = tcp().await;
    let folder = std::env::temp_dir().join(format!("anabranch-reconnect-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let place = folder.join("place");
    let listens = format!("unix:{}", place.display());
    let server = serve(Limits::default(), common::policy(&[], &[&listens])).await;
    let text = format!("{listens}={}", target.local_addr().unwrap());
    let rule = Rule::parse(Protocol::Tcp, true, &text).unwrap();
    let (mut connected, works) = client_behind_relay(server.endpoint.local_addr(), rule, |_| {}).await;
    works.store(false, Ordering::Relaxed);
    assert_eq!(connected.verdicts().await, [Ok(listens)]);
    let mut program = tokio::net::UnixStream::connect(&place).await.unwrap();
    let (mut accepted, _) = within(target.accept()).await.unwrap();
    program.write_all(b"x").await.unwrap();
    assert_eq!(within(accepted.read_u8()).await.unwrap(), b'x');
    assert_eq!(server.server.clients().len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

/// The network is away for longer than the client waits, and comes again: connections survive.
#[tokio::test]
async fn the_server_says_that_a_client_stopped_and_how_much_it_carried() {
    let (target, program) = (udp().await, udp().await);
    let place = target.local_addr().unwrap();
    let (sender, mut events) = unbounded_channel();
    let observed = Server::new(Limits::default()).observe(move |event| {
        let _ = sender.send(event);
    });
    let server = start(observed, open_policy(), ([127, 0, 0, 1], 0).into()).await;
    let rules = vec![rule(Protocol::Udp, false, place, "")];
    let mut connected = client(rules, Limits::default(), server.endpoint.local_addr()).await;
    connected.verdicts().await;
    program.send_to(b"hello", connected.place(0)).await.unwrap();
    within(target.recv(&mut [0; 10])).await.unwrap();
    drop(connected);
    let (reason, rules) = loop {
        if let Some(ServerEvent::Disconnected { reason, rules, .. }) = within(events.recv()).await {
            break (reason, rules);
        }
    };
    assert_eq!(reason, "the client stopped");
    let carried: Vec<_> = rules
        .iter()
        .map(|(_, stats)| (stats.messages_received, stats.bytes_received))
        .collect();
    assert_eq!(carried, [(1, 5)]);
}

#[tokio::test]
async fn an_association_that_works_again_is_kept() {
    let target = tcp().await;
    let (sender, mut events) = unbounded_channel();
    let observed = Server::new(Limits::default()).observe(move |event| {
        let _ = sender.send(event);
    });
    let server = start(observed, open_policy(), ([127, 0, 0, 1], 0).into()).await;
    let address = server.endpoint.local_addr();
    let rule = rule(Protocol::Tcp, false, target.local_addr().unwrap(), "");
    let again = |works: &AtomicBool| works.store(true, Ordering::Relaxed);
    let (connected, works) = client_behind_relay(address, rule, again).await;
    let mut program = connect(connected.place(0)).await;
    let (mut accepted, _) = within(target.accept()).await.unwrap();
    works.store(false, Ordering::Relaxed);
    program.write_all(b"x").await.unwrap();
    assert_eq!(within(accepted.read_u8()).await.unwrap(), b'x');
    // One of the two associations ends.
    let reason = loop {
        if let Some(ServerEvent::Disconnected { reason, .. }) = within(events.recv()).await {
            break reason;
        }
    };
    assert_eq!(
        reason,
        "the earlier association works again; this one was not needed"
    );
    program.write_all(b"y").await.unwrap();
    assert_eq!(within(accepted.read_u8()).await.unwrap(), b'y');
    assert_eq!(connected.stats(0).flows, 1);
}

#[tokio::test]
async fn many_clients_have_a_server_and_each_its_own_flows() {
    let server = serve(Limits::default(), open_policy()).await;
    let mut all = Vec::new();
    for index in 0..20_u8 {
        let target = udp().await;
        let rules = vec![rule(Protocol::Udp, false, target.local_addr().unwrap(), "")];
        let connected = client(rules, Limits::default(), server.endpoint.local_addr()).await;
        all.push((index, target, connected));
    }
    for (index, target, connected) in &mut all {
        connected.verdicts().await;
        let program = udp().await;
        program.send_to(&[*index], connected.place(0)).await.unwrap();
        let mut buffer = [0; 10];
        let (len, _) = within(target.recv_from(&mut buffer)).await.unwrap();
        assert_eq!(buffer[..len], [*index]);
    }
    assert_eq!(server.server.clients().len(), 20);
}

#[tokio::test]
async fn a_server_that_is_full_refuses_the_next_client() {
    let full = start(
        Server::new(Limits::default()).most_clients(1),
        open_policy(),
        ([127, 0, 0, 1], 0).into(),
    )
    .await;
    let address = full.endpoint.local_addr();
    let mut first = client(Vec::new(), Limits::default(), address).await;
    first.verdicts().await;
    let mut second = client(Vec::new(), Limits::default(), address).await;
    let refused = within(second.events.recv()).await.unwrap();
    let ClientEvent::Disconnected { reason, .. } = refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("no place for more clients"), "{reason}");
    drop(first);
    second.verdicts().await;
}

/// A place where a former rule listened stays open, an equal rule keeps its counters, and a place that no rule names is closed.
#[tokio::test]
async fn other_rules_take_over_the_sockets_of_former_ones() {
    let (target, other, elsewhere, program) = (udp().await, udp().await, udp().await, udp().await);
    let to = |socket: &UdpSocket| rule(Protocol::Udp, false, socket.local_addr().unwrap(), "");
    let (server, mut connected, _) = forward(vec![to(&target), to(&other)]).await;
    let places = [connected.place(0), connected.place(1)];
    let pass = async |place: SocketAddr, at: &UdpSocket| {
        let mut buffer = [0; 8];
        within(async {
            program.send_to(b"state", place).await.unwrap();
            at.recv_from(&mut buffer).await.unwrap()
        })
        .await
    };
    pass(places[0], &target).await;
    pass(places[1], &other).await;

    // The first rule leads elsewhere, and the second one stays.
    let rules = vec![to(&elsewhere), to(&other)];
    connected.client.replace_rules(rules.clone()).await.unwrap();
    assert_eq!(connected.client.rules(), rules);
    assert_eq!([connected.place(0), connected.place(1)], places);
    assert_eq!(connected.stats(0), RuleStats::default());
    assert_ne!(connected.stats(1), RuleStats::default(), "it keeps its counters");
    assert_eq!(connected.verdicts().await, [Ok(String::new()), Ok(String::new())]);
    pass(places[0], &elsewhere).await;
    pass(places[1], &other).await;

    // A place that is not free changes nothing.
    let taken = program.local_addr().unwrap();
    let taken = Rule::parse(
        Protocol::Udp,
        false,
        &format!("{taken}={}", other.local_addr().unwrap()),
    );
    let refused = connected.client.replace_rules(vec![taken.unwrap()]).await;
    assert!(matches!(refused, Err(ClientError::Listen { .. })), "{refused:?}");
    assert_eq!(connected.client.rules(), rules);
    pass(places[0], &elsewhere).await;

    connected.client.replace_rules(vec![to(&other)]).await.unwrap();
    connected.verdicts().await;
    assert_eq!(connected.place(0), places[1]);
    UdpSocket::bind(places[0])
        .await
        .expect("the place of the other rule is free");
    drop(server);
}
