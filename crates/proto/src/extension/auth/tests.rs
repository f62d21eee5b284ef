//! Two endpoints that exchange parameters, and the packets between them.

use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::packet::{CommonHeader, Packet, PacketWriter};
use bytes::Bytes;

use super::*;
use crate::config::HmacAlgorithm;

const HEADER: CommonHeader = CommonHeader {
    source_port: 1,
    destination_port: 2,
    verification_tag: VerificationTag(3),
};

fn config(chunks: &[u8], keys: &[(u16, &'static [u8])]) -> Config {
    let keys = keys.iter().map(|(id, secret)| SharedKey {
        id: *id,
        secret: Bytes::from_static(secret),
    });
    let keys: Vec<_> = keys.collect();
    Config {
        authentication: Some(AuthenticationConfig {
            keys,
            chunks: chunks.to_vec(),
            ..AuthenticationConfig::default()
        }),
        // Without interleaving the list of chunk types stays as it is.
        ..Config::rfc9260()
    }
}

fn exchange(peer: &AuthParameters) -> KeyExchange<'_> {
    KeyExchange {
        local_random: None,
        peer,
    }
}

/// The authentication of two endpoints after set-up.
fn pair(configs: [&Config; 2]) -> [Authentication; 2] {
    let own = [(configs[0], 1), (configs[1], 2)].map(|(config, random)| offer(config, || [random; 32]));
    let [mut one, mut other] = [0, 1].map(|side| Authentication::new(configs[side], own[side].clone()));
    one.adopt(own[1].as_ref().map(exchange));
    other.adopt(own[0].as_ref().map(exchange));
    [one, other]
}

/// A packet with these chunks, signed if they must be.
fn packet(from: &Authentication, chunks: &[Chunk]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut packet = PacketWriter::new(&mut buffer, HEADER, 1000);
    let signer = from.signer().expect("the peer asks for signatures");
    signer.begin(&mut packet);
    chunks.iter().for_each(|chunk| packet.push(chunk));
    signer.sign(&mut packet);
    let _ = packet.finish();
    buffer
}

/// The verdict on the AUTH chunk of a packet; `None` if it has none.
fn verdict(to: &mut Authentication, bytes: &[u8]) -> Option<Verdict> {
    let packet = Packet::parse_unchecked(Bytes::copy_from_slice(bytes)).expect("a packet");
    to.begin_packet(false);
    let auth = packet
        .chunks()
        .map_while(Result::ok)
        .find(|raw| raw.kind == kind::AUTH)?;
    to.on_auth(&auth)
}

#[test]
fn an_altered_bit_after_the_header_is_noticed() {
    let [config_a, config_b] = [config(&[], &[]), config(&[kind::SHUTDOWN_ACK], &[])];
    let [sender, mut receiver] = pair([&config_a, &config_b]);
    let bytes = packet(&sender, &[Chunk::ShutdownAck, Chunk::CookieAck]);
    assert_eq!(bytes.len(), 12 + 40 + 4 + 4);
    let genuine = Some(Verdict::Genuine { new_key: None });
    assert_eq!(verdict(&mut receiver, &bytes), genuine);
    assert!(!receiver.refuses(kind::SHUTDOWN_ACK));
    // All but the type and the length of the AUTH chunk.
    for bit in (12 + 1) * 8..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(verdict(&mut receiver, &forged), genuine, "bit {bit}");
        assert!(receiver.refuses(kind::SHUTDOWN_ACK));
    }
    let longer = [&bytes[..], &[0; 4]].concat();
    assert_eq!(verdict(&mut receiver, &longer), Some(Verdict::Discard));
    // The chunks before the AUTH chunk are not authenticated.
    let bytes = packet(&sender, &[Chunk::CookieAck, Chunk::ShutdownAck]);
    let mut other = bytes.clone();
    other[13] = 1;
    assert_eq!(verdict(&mut receiver, &other), genuine);
}

#[test]
fn only_listed_algorithms_and_known_keys_are_accepted() {
    let mut sha_1 = config(&[kind::SHUTDOWN_ACK], &[(1, b"one"), (2, b"two")]);
    let settings = sha_1.authentication.as_mut().expect("there is one");
    settings.hmacs = vec![HmacAlgorithm::Sha1];
    let both = config(&[], &[(2, b"two"), (3, b"three"), (1, b"wrong")]);
    let [mut sender, mut receiver] = pair([&both, &sha_1]);
    let bytes = packet(&sender, &[Chunk::ShutdownAck]);
    assert_eq!(bytes.len(), 12 + 28 + 4, "SHA-1, which the receiver prefers");
    let genuine = |new_key| Some(Verdict::Genuine { new_key });
    assert_eq!(verdict(&mut receiver, &bytes), genuine(Some(2)));
    assert_eq!(verdict(&mut receiver, &bytes), genuine(None));
    for (hmac_id, expected) in [
        (3, Verdict::UnsupportedHmac(3)),
        (0, Verdict::UnsupportedHmac(0)),
        (77, Verdict::UnsupportedHmac(77)),
    ] {
        let mut other = bytes.clone();
        other[19] = hmac_id;
        assert_eq!(verdict(&mut receiver, &other), Some(expected));
    }
    for id in [3, 1] {
        assert_eq!(sender.activate_key(id), Ok(()));
        let bytes = packet(&sender, &[Chunk::ShutdownAck]);
        assert_eq!(verdict(&mut receiver, &bytes), Some(Verdict::Discard), "key {id}");
    }
    let right = SharedKey {
        id: 1,
        secret: Bytes::from_static(b"one"),
    };
    assert_eq!(sender.put_key(right), Ok(()));
    let bytes = packet(&sender, &[Chunk::ShutdownAck]);
    assert_eq!(verdict(&mut receiver, &bytes), genuine(Some(1)));
    assert_eq!(receiver.activate_key(2), Ok(()));
    assert_eq!(receiver.remove_key(1), Ok(()));
    assert_eq!(verdict(&mut receiver, &bytes), Some(Verdict::Discard));
}

#[test]
fn a_packet_has_at_most_one_auth_chunk() {
    let [config_a, config_b] = [config(&[], &[]), config(&[kind::SHUTDOWN_ACK], &[])];
    let [sender, mut receiver] = pair([&config_a, &config_b]);
    let bytes = packet(&sender, &[Chunk::ShutdownAck]);
    let read = Packet::parse_unchecked(Bytes::from(bytes)).expect("a packet");
    let auth = read.chunks().next().expect("AUTH").expect("whole");
    receiver.begin_packet(false);
    assert!(matches!(receiver.on_auth(&auth), Some(Verdict::Genuine { .. })));
    assert_eq!(receiver.on_auth(&auth), Some(Verdict::Discard));
}

/// The HMAC of a packet whose keys were computed from the text of RFC 4895 §6.1 by another program.
#[test]
fn the_association_shared_key_is_that_of_the_rfc() {
    let [config_a, config_b] = [
        config(&[0, 193, 128], &[(5, b"secret")]),
        config(&[kind::SHUTDOWN_ACK], &[(5, b"secret")]),
    ];
    let [sender, _] = pair([&config_a, &config_b]);
    let bytes = packet(&sender, &[Chunk::ShutdownAck]);
    let expected: [u8; 32] = [
        0x9d, 0x3e, 0x03, 0x36, 0x1e, 0xdc, 0x92, 0x7f, 0x22, 0xa6, 0x80, 0x9e, 0x2f, 0x86, 0xfa, 0x65, 0xab,
        0xb8, 0xaf, 0x96, 0x01, 0x88, 0xd8, 0xb0, 0x6f, 0x3c, 0x37, 0xc6, 0x14, 0x5d, 0x03, 0x34,
    ];
    assert_eq!(bytes[20..52], expected);
}

#[test]
fn types_that_cannot_be_authenticated_are_ignored() {
    let mut lists_all = config(&[], &[]);
    let settings = lists_all.authentication.as_mut().expect("there is one");
    settings.chunks = (0..=255).collect();
    let [sender, _] = pair([&config(&[], &[]), &lists_all]);
    let signed = sender.stats().expect("negotiated").chunks_signed;
    assert_eq!(signed.len(), 252);
    assert!([1, 2, 14, 15].iter().all(|kind| !signed.contains(kind)));
}

#[test]
fn without_a_list_nothing_is_signed() {
    let [one, other] = pair([&config(&[], &[]), &config(&[kind::DATA], &[])]);
    assert!(one.signer().is_some() && other.signer().is_none());
    assert_eq!(one.is_negotiated(), Some(true));
    let alone = pair([&config(&[kind::DATA], &[]), &Config::default()]);
    assert_eq!(
        alone.each_ref().map(Authentication::is_negotiated),
        [Some(false), None]
    );
    assert!(!alone[0].refuses(kind::DATA));
}

#[test]
fn parameters_pass_through_a_cookie() {
    for chunks in [&[][..], &[0], &[0, 3, 193, 128, 64]] {
        let own = offer(&config(chunks, &[]), || [9; 32]).expect("offered");
        let mut bytes = bytes::BytesMut::new();
        own.encode(&mut bytes);
        assert_eq!(bytes.len(), own.cookie_len());
        let mut rest = &bytes[..];
        assert_eq!(AuthParameters::decode(&mut rest), Some(own));
        assert!(rest.is_empty());
        for len in 0..bytes.len() {
            assert_eq!(AuthParameters::decode(&mut &bytes[..len]), None);
        }
    }
}
