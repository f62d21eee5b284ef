//! The resident memory that handshakes and connections take (`docs/LIMITS.md`). One test, so that it has the process for itself.
#![cfg(target_os = "linux")]

use anabranch_dtls::{Certificate, DtlsConfig, Effects, Peers};
use anabranch_proto::Timestamp;
use anabranch_testkit::resident;
use client::{Client, Version};

mod client;

const HANDSHAKES: usize = 128;
const CONNECTIONS: usize = 256;

/// A client that goes on until its handshake is complete, or stops after its second ClientHello.
fn serve(peers: &Peers<u32>, now: Timestamp, key: u32, version: Version, is_silent: bool) {
    let mut client = Client::new(version, now);
    for _ in 0..if is_silent { 2 } else { 6 } {
        for datagram in client.take() {
            let mut effects = Effects::default();
            peers.handle_datagram(now, key, &datagram, &mut effects);
            for (_, answer) in effects.datagrams() {
                client.dtls.handle_packet(answer).unwrap();
            }
        }
    }
}

#[test]
fn what_peers_can_make_this_endpoint_store() {
    let now = Timestamp::ZERO;
    let config = DtlsConfig::new(Certificate::generate().unwrap());
    let peers: Peers<u32> = Peers::new(config.max_handshakes(HANDSHAKES));
    let hellos = [Version::Dtls12, Version::Both].map(|version| Client::new(version, now).take().remove(0));
    let grown = |peers: &Peers<u32>, act: &dyn Fn(&Peers<u32>)| {
        let before = resident("self");
        act(peers);
        resident("self").saturating_sub(before) >> 10
    };
    let strangers = grown(&peers, &|peers| {
        for stranger in 0..2000 {
            for hello in &hellos {
                peers.handle_datagram(now, stranger, hello, &mut Effects::default());
            }
        }
    });
    assert_eq!((peers.handshakes(), peers.timeout()), (0, None));
    assert!(strangers < 1024, "{strangers} KiB");
    let handshakes = grown(&peers, &|peers| {
        for client in 0..4 * HANDSHAKES as u32 {
            serve(peers, now, client, Version::Both, true);
        }
    });
    assert_eq!(peers.handshakes(), HANDSHAKES);
    assert!(handshakes < HANDSHAKES * 24, "{handshakes} KiB");
    peers.close_all(now, &mut Effects::default());
    let connections = grown(&peers, &|peers| {
        for client in 0..CONNECTIONS as u32 {
            serve(peers, now, client, Version::Both, false);
        }
    });
    assert_eq!(peers.connections(), CONNECTIONS);
    assert!(connections < CONNECTIONS * 24, "{connections} KiB");
    println!("{strangers} {handshakes} {connections} KiB");
}
