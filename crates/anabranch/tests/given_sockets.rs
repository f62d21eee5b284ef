//! Endpoints on sockets that the application gives.

#[path = "common/wire.rs"]
mod wire;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anabranch::{
    BindError, Certificate, Config, Dscp, DtlsConfig, Endpoint, EndpointBuilder, MultipathMode, Transport,
};
use wire::{wire, wire_between};

/// The most datagrams in one call, and that wait in the wire.
const BATCH: usize = 4;

/// Sends messages of all sizes through a wire in memory.
async fn exchange(builders: [EndpointBuilder; 2]) -> (usize, usize) {
    let ([ours, theirs], calls) = wire(BATCH);
    let server = theirs.own;
    let [client, listener] = builders;
    let client = client.bind_socket(ours).unwrap();
    let listener = listener.bind_socket(theirs).unwrap();
    assert_eq!(listener.local_addr(), server);
    listener.listen().unwrap();
    let echo = tokio::spawn(async move {
        let association = listener.accept().await.unwrap();
        while let Some(message) = association.recv().await.unwrap() {
            association
                .send(message.stream, message.into_bytes())
                .await
                .unwrap();
        }
        listener.close().await;
    });
    let association = client.connect(server).await.unwrap();
    for size in [1, 1_000, 100_000, 2_000_000] {
        association.send(0, vec![7_u8; size]).await.unwrap();
        let echoed = association.recv().await.unwrap().unwrap().into_bytes();
        assert!(echoed.len() == size && echoed.iter().all(|byte| *byte == 7));
    }
    association.shutdown().await.unwrap();
    echo.await.unwrap();
    client.close().await;
    (
        calls.longest.load(Ordering::Relaxed),
        calls.full.load(Ordering::Relaxed),
    )
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("it takes too long")
}

#[tokio::test]
async fn messages_pass_a_socket_that_the_application_gives() {
    let mut config = Config::default();
    config.path_mtu_limit = config.path_mtu;
    let builder = Endpoint::builder().config(config);
    let (longest, full) = within(exchange([builder.clone(), builder])).await;
    assert_eq!(longest, BATCH, "datagrams in a call");
    assert!(full > 0, "the wire was never full");
}

/// A path for each given socket: each carries a part of the data.
#[tokio::test]
async fn several_sockets_are_several_paths() {
    let addresses = [
        ["192.0.2.1:9899", "192.0.2.2:9899"],
        ["198.51.100.1:9899", "198.51.100.2:9899"],
    ];
    let [first, second] = addresses.map(|addresses| wire_between(addresses, 64).0);
    let ([ours, theirs], [ours_too, theirs_too]) = (first, second);
    let server = theirs.own;
    let mut config = Config::default();
    config.multipath.mode = MultipathMode::Cmt;
    let builder = Endpoint::builder().config(config);
    let listener = builder.clone().bind_sockets([theirs, theirs_too]).unwrap();
    let client = builder.bind_sockets([ours, ours_too]).unwrap();
    listener.listen().unwrap();
    let work = async {
        let (association, accepted) = tokio::join!(client.connect(server), listener.accept());
        let (association, accepted) = (association.unwrap(), accepted.unwrap());
        let uses_both = || {
            association
                .paths()
                .iter()
                .filter(|path| path.data_bytes_sent > 0)
                .count()
                == 2
        };
        while !uses_both() {
            association.send(0, vec![7_u8; 100_000]).await.unwrap();
            assert_eq!(
                accepted.recv().await.unwrap().unwrap().into_bytes().len(),
                100_000
            );
        }
        association.shutdown().await.unwrap();
    };
    within(work).await;
}

/// A socket is found by its address, and SCTP over UDP has one port.
#[tokio::test]
async fn sockets_that_do_not_fit_together_are_refused() {
    for other in ["192.0.2.1:9899", "192.0.2.3:9900", "0.0.0.0:9899"] {
        let ([first, _], _) = wire(BATCH);
        let ([second, _], _) = wire_between([other, "192.0.2.2:9899"], BATCH);
        let refused = Endpoint::builder().bind_sockets([first, second]);
        assert!(matches!(refused, Err(BindError::GivenSockets(named)) if named.to_string() == other));
    }
    let none = Endpoint::builder().bind_sockets(Vec::<tokio::net::UdpSocket>::new());
    assert!(matches!(none, Err(BindError::Resolve(_))));
}

/// The link in front of the socket makes batches of its own.
#[tokio::test]
async fn they_may_pass_a_link() {
    let link = || Endpoint::builder().link("delay=5ms".parse().unwrap(), 1);
    let (longest, _) = within(exchange([link(), link()])).await;
    assert_eq!(longest, BATCH, "datagrams in a call");
}

#[tokio::test]
async fn they_may_be_encrypted() {
    let dtls = || Endpoint::builder().dtls(DtlsConfig::new(Certificate::generate().unwrap()));
    within(exchange([dtls(), dtls()])).await;
}

#[tokio::test]
async fn options_of_system_sockets_are_refused() {
    let mut config = Config::default();
    config.dscp = Dscp::EF;
    for (builder, option) in [
        (Endpoint::builder().transport(Transport::RawIp), "transport"),
        (
            Endpoint::builder().interface([127, 0, 0, 1].into(), "lo"),
            "interface",
        ),
        (Endpoint::builder().watch_interfaces(true), "watch_interfaces"),
        (Endpoint::builder().config(config), "Config::dscp"),
    ] {
        let ([socket, _], _) = wire(BATCH);
        let refused = builder.bind_socket(socket);
        assert!(
            matches!(refused, Err(BindError::GivenSocket(named)) if named == option),
            "{option}"
        );
    }
}
