//! The associations that a connection is kept for.

use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, Peers};

use crate::Endpoint;
use crate::lock::lock;

/// Complete connections of an endpoint, and those without an association.
fn connections(endpoint: &Endpoint) -> (usize, usize) {
    let door = endpoint.hub().dtls.as_ref().expect("it has DTLS");
    let peers: &Peers<_> = &lock(&door.peers);
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
    server.listen(7).unwrap();
    let (ours, theirs) = tokio::join!(client.connect(server.local_addr(), 7), server.accept());
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!([connections(&client), connections(&server)], [(1, 0); 2]);
    ours.shutdown().await.unwrap();
    drop(theirs);
    while [connections(&client), connections(&server)] != [(1, 1); 2] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
