//! The associations that a connection is kept for, and cryptography of several connections at the same time.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, Fingerprint, Peers, Trust};
use anabranch_proto::PathId;

use crate::Endpoint;

/// Complete connections of an endpoint, and those without an association.
fn connections(endpoint: &Endpoint) -> (usize, usize) {
    let layer = endpoint.hub().dtls.as_ref().expect("it has DTLS");
    let peers: &Peers<_> = &layer.peers;
    (peers.connections(), peers.unused())
}

#[test]
fn a_connection_is_used_while_it_has_an_association() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(connect_and_shut_down());
}

async fn connect_and_shut_down() {
    let bind = || {
        let config = DtlsConfig::new(Certificate::generate().unwrap());
        Endpoint::builder().dtls(config).bind("127.0.0.1:0")
    };
    let (client, server) = (bind().await.unwrap(), bind().await.unwrap());
    server.listen().unwrap();
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr()), server.accept());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!([connections(&client), connections(&server)], [(1, 0); 2]);
    ours.shutdown().await.unwrap();
    drop(theirs);
    while [connections(&client), connections(&server)] != [(1, 1); 2] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The server checks the certificate of a second client, and the check does not end. Meanwhile the server sends a message to the first one.
#[test]
fn a_handshake_delays_no_other_connection() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let own = || Certificate::generate().unwrap();
    let (first, second) = (own(), own());
    let slow = second.fingerprint();
    let (entered, has_entered) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let is_released = Mutex::new(is_released);
    let check = Trust::Check(Arc::new(move |der| {
        if Fingerprint::of(der) == slow {
            let _ = entered.send(());
            let _ = is_released.lock().unwrap().recv();
        }
        true
    }));
    let within = Duration::from_secs(60);
    let bind = async |config| {
        Endpoint::builder()
            .dtls(config)
            .bind("127.0.0.1:0")
            .await
            .unwrap()
    };
    let server = runtime.block_on(bind(DtlsConfig::new(own()).trust(check)));
    server.listen().unwrap();
    let (one, two) = runtime.block_on(async {
        (
            bind(DtlsConfig::new(first)).await,
            bind(DtlsConfig::new(second)).await,
        )
    });
    let address = server.local_addr();
    let (ours, theirs) = runtime.block_on(async { tokio::join!(one.connect(address), server.accept()) });
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    let later = runtime.spawn(async move { two.connect(address).await.map(|_| ()) });
    has_entered
        .recv_timeout(within)
        .expect("the check of the second certificate");
    runtime.block_on(async {
        theirs.send(0, "meanwhile").await.unwrap();
        // This call sends the message at once: the association's task may belong to the thread that checks the certificate.
        theirs.request_heartbeat(PathId(0)).unwrap();
        let got = tokio::time::timeout(within, ours.recv()).await;
        assert_eq!(got.unwrap().unwrap().unwrap().into_bytes(), "meanwhile");
    });
    assert_eq!(connections(&server), (1, 0));
    drop(release);
    let connected = runtime.block_on(async { tokio::time::timeout(within, later).await });
    connected.expect("in time").unwrap().unwrap();
}
