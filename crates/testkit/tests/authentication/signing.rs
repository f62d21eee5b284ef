//! Which chunks are signed, which are discarded, and that signed data arrives whatever the network loses.

use std::net::SocketAddr;

use anabranch_netsim::{Ecn, Packet};
use anabranch_proto::{AssociationState, Config, Dscp};
use anabranch_wire::chunk::{Abort, Chunk, ForwardTsn, Heartbeat, Shutdown, kind};
use anabranch_wire::packet::Packet as SctpPacket;
use anabranch_wire::{Ppid, Ssn, StreamId};
use bytes::Bytes;

use super::fixture::*;
use super::keys::with_key;

/// All chunk types of a packet, in order.
fn all_kinds(packet: &Packet) -> Vec<u8> {
    let sctp = SctpPacket::parse(packet.payload.clone().into_sctp()).expect("a packet");
    sctp.chunks().map(|raw| raw.expect("a chunk").kind).collect()
}

/// Chunk types that both ends require to be signed.
const LISTS: [&[u8]; 5] = [
    &[kind::DATA],
    &[kind::SACK, kind::NR_SACK],
    &[
        kind::DATA,
        kind::SACK,
        kind::NR_SACK,
        kind::HEARTBEAT,
        kind::HEARTBEAT_ACK,
    ],
    &[
        kind::I_DATA,
        kind::COOKIE_ECHO,
        kind::COOKIE_ACK,
        kind::SHUTDOWN,
        kind::SHUTDOWN_ACK,
        kind::ABORT,
    ],
    &[kind::FORWARD_TSN, kind::PAD, kind::ERROR],
];

/// §6.2: a packet has an AUTH chunk exactly if it has a chunk that must be authenticated; it stands before the first of them, and there is
/// one. With it, no packet is longer than the path MTU.
#[test]
fn one_auth_chunk_precedes_the_chunks_that_need_it() {
    for (seed, required) in LISTS.into_iter().enumerate() {
        for interleaving in [false, true] {
            let mut config = with_key("secret", required);
            config.interleaving.offer = interleaving;
            config.path_mtu_limit = 1500;
            let mut roaming = Roaming::new([config.clone(), config], seed as u64).connect();
            let authentication = roaming.association(End::Server).stats().authentication;
            let required = authentication.expect("negotiated").chunks_required;
            let mut lost = 0;
            roaming.observer = Some(Box::new(move |_, _| {
                lost += 1;
                lost % 17 != 0
            }));
            for step in 0..200 {
                roaming.send(End::Client, 10 + 37 * step);
                roaming.send(End::Server, 10 + 29 * step);
                roaming.run(5 * MS);
            }
            roaming.run(20_000 * MS);
            roaming.observer = None;
            roaming.expect_complete(End::Client);
            roaming.expect_complete(End::Server);
            let now = roaming.now;
            roaming.association(End::Client).shutdown(now);
            roaming.run(5_000 * MS);
            assert_eq!(roaming.association(End::Client).state(), AssociationState::Closed);
            let mut signed = 0;
            for (at, _, packet) in &roaming.sent {
                let kinds = all_kinds(packet);
                let first = kinds.iter().position(|kind| required.contains(kind));
                let auth = kinds.iter().position(|one| *one == kind::AUTH);
                assert_eq!(
                    auth,
                    first.map(|first| first - 1),
                    "{at} {kinds:?}, {required:?}\n{}",
                    roaming.tail()
                );
                assert!(kinds.iter().filter(|one| **one == kind::AUTH).count() <= 1);
                let len = packet.payload.clone().into_sctp().len();
                assert!(len <= 1472, "{len} {kinds:?}");
                signed += usize::from(auth.is_some());
            }
            let expects = required.iter().any(|one| match *one {
                kind::DATA | kind::SACK | kind::FORWARD_TSN => !interleaving,
                kind::I_DATA => interleaving,
                _ => true,
            });
            assert!(!expects || signed > 0, "{required:?} {interleaving}");
        }
    }
}

/// A packet to the server with the client's ports and the right tag, and without a signature.
fn forged(roaming: &mut Roaming, chunk: Chunk) -> Packet {
    Packet {
        source: SocketAddr::new(WIFI, 9899),
        destination: SocketAddr::new(SERVER, 9899),
        payload: to_end(roaming, End::Server, &[chunk]).into(),
        may_fragment: false,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
    }
}

/// §6.3: an attacker who knows tag, ports and addresses can neither end nor feed an association whose chunks are signed. Every such chunk
/// is discarded silently. The same chunks have their effects where they need not be signed.
#[test]
fn chunks_that_must_be_signed_are_discarded_without_a_signature() {
    let attacks = |roaming: &mut Roaming| {
        let first = roaming
            .sent
            .iter()
            .find(|(_, end, packet)| *end == End::Client && kinds(packet) == [kind::INIT]);
        let sctp =
            SctpPacket::parse(first.expect("an INIT").2.payload.clone().into_sctp()).expect("a packet");
        let Ok(Ok(Chunk::Init(init))) = sctp.chunks().next().expect("a chunk").map(Chunk::decode) else {
            panic!("an INIT")
        };
        let data = Chunk::Data(anabranch_wire::chunk::Data {
            tsn: init.initial_tsn,
            stream: StreamId(0),
            ssn: Ssn(0),
            ppid: Ppid(0),
            unordered: false,
            beginning: true,
            ending: true,
            immediate: true,
            payload: Bytes::from_static(b"12345678 forged"),
        });
        let abort = Chunk::Abort(Abort {
            reflected_tag: false,
            causes: anabranch_wire::cause::Causes::empty(),
        });
        let shutdown = Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: init.initial_tsn,
        });
        let heartbeat = Chunk::Heartbeat(Heartbeat::new("forged"));
        // The first TSN is skipped, which is answered with a SACK.
        let forward = Chunk::ForwardTsn(ForwardTsn::new(init.initial_tsn, []));
        [
            (kind::DATA, data),
            (kind::FORWARD_TSN, forward),
            (kind::HEARTBEAT, heartbeat),
            (kind::SHUTDOWN, shutdown),
            (kind::ABORT, abort),
        ]
    };
    for signed in [true, false] {
        for place in 0..5 {
            let required = [
                kind::DATA,
                kind::FORWARD_TSN,
                kind::HEARTBEAT,
                kind::SHUTDOWN,
                kind::ABORT,
            ];
            let config = with_key("secret", if signed { &required } else { &[] });
            let mut roaming = Roaming::new([config.clone(), config], 5).connect();
            let (name, chunk) = attacks(&mut roaming)[place].clone();
            let (sent, before) = (roaming.sent.len(), *roaming.association(End::Server).counters());
            let packet = forged(&mut roaming, chunk);
            roaming.inject(End::Server, packet);
            let after = *roaming.association(End::Server).counters();
            let refused = after.chunks_unauthenticated - before.chunks_unauthenticated;
            assert_eq!(refused, u64::from(signed), "{name}");
            let untouched = roaming.sent.len() == sent
                && roaming.association(End::Server).state() == AssociationState::Established
                && roaming.arrivals[End::Server as usize].is_empty();
            assert_eq!(untouched, signed, "{name}");
        }
    }
}

fn i_data() -> Chunk {
    Chunk::IData(anabranch_wire::chunk::IData {
        tsn: anabranch_wire::Tsn(1),
        stream: StreamId(0),
        mid: anabranch_wire::Mid(0),
        fsn: anabranch_wire::Fsn(0),
        ppid: Ppid(0),
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        repair: false,
        payload: Bytes::from_static(b"x"),
    })
}

/// §6.3: a protocol violation in a chunk that is not authenticated does not end an association whose ABORTs must be signed.
#[test]
fn an_unsigned_violation_does_not_end_the_association() {
    for signed in [true, false] {
        let config = with_key("secret", if signed { &[kind::ABORT] } else { &[] });
        let mut roaming = Roaming::new([config.clone(), config], 6).connect();
        let packet = forged(&mut roaming, i_data());
        roaming.inject(End::Server, packet);
        let lives = roaming.association(End::Server).state() == AssociationState::Established;
        assert_eq!(lives, signed);
    }
}

/// An application that names DATA means its messages: I-DATA, which replaces DATA by default, must be signed too.
#[test]
fn data_means_interleaved_data_too() {
    let mut config = with_key("secret", &[kind::DATA, kind::FORWARD_TSN]);
    config.interleaving.offer = true;
    let mut roaming = Roaming::new([config.clone(), config], 8).connect();
    let stats = roaming.association(End::Server).stats();
    assert!(stats.extensions.interleaving);
    let required = stats.authentication.expect("negotiated").chunks_required;
    let meant = [kind::DATA, kind::I_DATA, kind::FORWARD_TSN, kind::I_FORWARD_TSN];
    assert_eq!(required, meant);
    let packet = forged(&mut roaming, i_data());
    roaming.inject(End::Server, packet);
    let counters = *roaming.association(End::Server).counters();
    assert_eq!(
        (counters.chunks_unauthenticated, counters.messages_received),
        (1, 0)
    );
}

/// Without authentication at the peer, an association is refused or works without signatures.
#[test]
fn a_peer_without_authentication() {
    let mut config = with_key("secret", &[kind::DATA]);
    let mut roaming = Roaming::new([Config::default(), config.clone()], 7).begin();
    roaming.run(1000 * MS);
    assert_eq!(
        roaming.association(End::Client).state(),
        AssociationState::Closed,
        "required"
    );
    config.authentication.as_mut().expect("there is one").required = false;
    let mut roaming = Roaming::new([Config::default(), config], 7).connect();
    roaming.send(End::Client, 100);
    roaming.expect_complete(End::Server);
    assert_eq!(roaming.association(End::Server).stats().authentication, None);
    assert!(!roaming.association(End::Server).stats().extensions.authentication);
}
