//! ICMP messages that quote encrypted datagrams.

use std::sync::Mutex;

use anabranch_dtls::{Certificate, DtlsConfig};
use anabranch_proto::PathId;
use tokio::net::UdpSocket;

use super::*;
use crate::Endpoint;

const PORT: u16 = 7;

/// Fails a test that hangs.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(60), work)
        .await
        .expect("it takes too long")
}

/// Two endpoints with DTLS and a router between them, which keeps the datagrams of the client.
struct Bench {
    ours: crate::Association,
    router: SocketAddr,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
    _ends: (Endpoint, crate::Association),
}

async fn bench() -> Bench {
    let dtls = || DtlsConfig::new(Certificate::generate().expect("a certificate"));
    let bind = || Endpoint::builder().dtls(dtls()).bind("127.0.0.1:0");
    let (client, server) = (bind().await.unwrap(), bind().await.unwrap());
    server.listen_on_port(PORT).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (router, to) = (socket.local_addr().unwrap(), server.local_addr());
    let kept: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let keep = Arc::clone(&kept);
    let from = client.local_addr();
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((len, source)) = socket.recv_from(&mut buffer).await {
            let destination = if source == to { from } else { to };
            if source == from {
                lock(&keep).push(buffer[..len].to_vec());
            }
            let _ = socket.send_to(&buffer[..len], destination).await;
        }
    });
    let (ours, theirs) =
        within(async { tokio::join!(client.connect_to_port(router, PORT), server.accept()) }).await;
    Bench {
        ours: ours.unwrap(),
        router,
        kept,
        _ends: (server, theirs.unwrap()),
    }
}

/// The path MTU after the router's message about this datagram, with a quote as long as the system shows.
async fn mtu_after(bench: &Bench, destination: SocketAddr, datagram: &[u8], mtu: u16) -> u16 {
    let shared = bench.ours.shared();
    shared.hub.handle_icmp(vec![IcmpMessage {
        kind: IcmpKind::TooLarge(Some(mtu)),
        source: None,
        destination,
        quote: Bytes::copy_from_slice(&datagram[..datagram.len().min(64)]),
    }]);
    // The association's task handles its inbox before it sends this.
    bench.ours.request_heartbeat(PathId(0)).unwrap();
    bench.ours.send(1, "more").await.unwrap();
    within(bench.ours.drained()).await.unwrap();
    bench.ours.stats().paths[0].pmtu
}

#[tokio::test]
async fn a_router_reports_that_an_encrypted_packet_is_too_large() {
    let bench = bench().await;
    let before = bench.ours.stats().paths[0].pmtu;
    bench.ours.send(1, vec![1; 1000]).await.unwrap();
    within(bench.ours.drained()).await.unwrap();
    // Messages of the handshake are shorter, or earlier.
    let sent = lock(&bench.kept).iter().rfind(|sent| sent.len() > 1000).cloned();
    let sent = sent.expect("the packet with the message");
    let mut forged = sent.clone();
    forged[36] ^= 1;
    // Without proof that its sender saw the packet, a message has no effect; nor has one about another peer.
    assert_eq!(mtu_after(&bench, bench.router, &forged, 1000).await, before);
    assert_eq!(mtu_after(&bench, bench.router, &sent[..28], 1000).await, before);
    assert_eq!(
        mtu_after(&bench, "127.0.0.1:9".parse().unwrap(), &sent, 1000).await,
        before
    );
    assert_eq!(mtu_after(&bench, bench.router, &sent, 1000).await, 1000);
}
