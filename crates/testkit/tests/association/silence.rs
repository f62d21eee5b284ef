//! An endpoint with an `InitGuard` answers no stranger. A is the client, Z the server, M anybody else.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_proto::{Association, Config, ConnectOptions, EcnCodepoint, Endpoint, Handling, Timestamp};
use anabranch_testkit::{PORT, ToyGuard};
use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, CookieEcho, Heartbeat, Init, ShutdownComplete, kind};
use anabranch_wire::packet::{CommonHeader, Packet, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters};

fn endpoint(secret: Option<u32>) -> Endpoint {
    let mut endpoint = Endpoint::new(Config::default(), [1; 32]).expect("the settings are in range");
    if let Some(secret) = secret {
        endpoint.set_init_guard(Arc::new(ToyGuard(secret)));
    }
    endpoint
}

fn server() -> Endpoint {
    let mut server = endpoint(Some(7));
    server.listen(PORT).expect("not port 0");
    server
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn address(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 9899).into()
}

fn handle(endpoint: &mut Endpoint, millis: u64, packet: Vec<u8>) -> Handling {
    endpoint.handle_datagram(at(millis), None, address(1), packet.into(), EcnCodepoint::NotEct)
}

/// The first chunk of the answer; `None` without one.
fn answer(handling: Handling) -> Option<u8> {
    match handling {
        Handling::Reply(reply) => first(&reply.packet),
        Handling::Done => None,
        other => panic!("no association: {other:?}"),
    }
}

fn first(packet: &[u8]) -> Option<u8> {
    packet.get(12).copied()
}

fn sent(association: &mut Association, millis: u64) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    association.poll_transmit(at(millis), &mut packet, 1)?;
    Some(packet)
}

/// The INIT of a client that knows this secret.
fn init(secret: Option<u32>) -> Vec<u8> {
    let connected = endpoint(secret).connect(at(0), address(2), PORT, ConnectOptions::default());
    sent(&mut connected.expect("connect").1, 0).expect("an INIT")
}

fn packet(tag: u32, chunks: &[Chunk]) -> Vec<u8> {
    let header = CommonHeader {
        source_port: 7000,
        destination_port: PORT,
        verification_tag: VerificationTag(tag),
    };
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, header, 2000);
    chunks.iter().for_each(|chunk| writer.push(chunk));
    let _ = writer.finish();
    buffer
}

/// The INIT in a packet, with other parameters.
fn changed(packet_of_init: &[u8], change: impl FnOnce(&mut Init)) -> Vec<u8> {
    let parsed = Packet::parse(packet_of_init.to_vec().into()).expect("a packet");
    let chunk = parsed.chunks().next().expect("a chunk").expect("well-formed");
    let Ok(Chunk::Init(mut init)) = Chunk::decode(chunk) else {
        panic!("an INIT");
    };
    change(&mut init);
    packet(0, &[Chunk::Init(init)])
}

/// A ── INIT with proof ──→ Z ←── INIT ACK; M ── INIT ──→ Z: nothing
#[test]
fn only_an_init_with_a_proof_is_answered() {
    let mut server = server();
    assert_eq!(
        answer(handle(&mut server, 0, init(Some(7)))),
        Some(kind::INIT_ACK)
    );
    for secret in [None, Some(8)] {
        assert_eq!(answer(handle(&mut server, 0, init(secret))), None, "{secret:?}");
    }
    let proved = init(Some(7));
    let tag = changed(&proved, |init| init.initiate_tag.0 ^= 1);
    let after = changed(&proved, |init| {
        init.parameters = init.parameters.with(&Parameter::Padding(vec![0; 4].into()));
    });
    let none = changed(&proved, |init| init.parameters = Parameters::empty());
    let short = changed(&proved, |init| {
        init.parameters = Parameters::empty().with(&Parameter::KnownKeys(vec![].into()));
    });
    for forged in [tag, after, none, short] {
        assert_eq!(answer(handle(&mut server, 0, forged)), None);
    }
    assert_eq!(server.association_count(), 0, "no state before the cookie");
}

/// An endpoint without a guard ignores the proof.
#[test]
fn a_proof_disturbs_nobody() {
    let mut open = endpoint(None);
    open.listen(PORT).expect("not port 0");
    assert_eq!(answer(handle(&mut open, 0, init(Some(7)))), Some(kind::INIT_ACK));
}

/// M ── anything ──→ Z: nothing, also on a port where Z does not listen
#[test]
fn packets_of_no_association_are_not_answered() {
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        tlvs: vec![1; 8].into(),
    });
    let strange = [
        packet(5, std::slice::from_ref(&heartbeat)),
        packet(5, &[Chunk::ShutdownAck]),
        packet(
            5,
            &[Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true })],
        ),
        packet(
            5,
            &[Chunk::CookieEcho(CookieEcho {
                cookie: vec![0; 64].into(),
            })],
        ),
    ];
    for (number, packet) in strange.into_iter().enumerate() {
        assert_eq!(answer(handle(&mut server(), 0, packet)), None, "{number}");
    }
    let closed = handle(&mut endpoint(Some(7)), 0, init(Some(8)));
    assert_eq!(answer(closed), None, "not even that the port is closed");
    // Without a guard the heartbeat is out of the blue.
    let open = handle(&mut endpoint(None), 0, packet(5, &[heartbeat]));
    assert_eq!(answer(open), Some(kind::ABORT));
}

/// M ── recorded INIT of A ──→ Z, many times: an INIT ACK each time, and no association
#[test]
fn a_replayed_init_begins_nothing() {
    let mut server = server();
    let recorded = init(Some(7));
    for millis in 0..100 {
        let answered = handle(&mut server, millis, recorded.clone());
        assert_eq!(answer(answered), Some(kind::INIT_ACK));
    }
    assert_eq!(server.association_count(), 0);
}

/// A ── COOKIE ECHO, too late ──→ Z ←── ERROR ──→ A ── INIT that asks for a longer life, with a proof ──→ Z
#[test]
fn a_stale_cookie_is_renewed_with_a_proof() {
    let (mut client, mut server) = (endpoint(Some(7)), server());
    let (_, mut association) = client
        .connect(at(0), address(2), PORT, ConnectOptions::default())
        .expect("connect");
    let mut packet = sent(&mut association, 0).expect("an INIT");
    let mut seen = Vec::new();
    for millis in [0, 120_000, 120_000] {
        seen.push(first(&packet));
        let Handling::Reply(reply) = handle(&mut server, millis, packet) else {
            panic!("an answer");
        };
        seen.push(first(&reply.packet));
        let from_server = client.handle_datagram(
            at(millis),
            None,
            address(2),
            reply.packet.to_vec().into(),
            EcnCodepoint::NotEct,
        );
        let Handling::Deliver(_, inbound) = from_server else {
            panic!("an association");
        };
        association.handle_packet(at(millis), inbound);
        packet = sent(&mut association, millis).expect("an answer");
    }
    let kinds = [
        kind::INIT,
        kind::INIT_ACK,
        kind::COOKIE_ECHO,
        kind::ERROR,
        kind::INIT,
        kind::INIT_ACK,
    ];
    assert_eq!(seen, kinds.map(Some));
    assert!(matches!(
        handle(&mut server, 120_000, packet),
        Handling::Accept(..)
    ));
}
