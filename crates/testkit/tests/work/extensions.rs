//! Shapes of the extensions that change an association while it lasts: authenticated chunks (RFC 4895), dynamic addresses (RFC 5061) and
//! stream reconfiguration (RFC 6525). The peer has the keys, unless the shape says that the packets are unsigned or forged.

use std::net::Ipv4Addr;

use anabranch_proto::{AuthenticationConfig, Config, DynamicAddressConfig, SharedKey};
use anabranch_testkit::{Script, authentication_parameters, state_cookie};
use anabranch_wire::StreamId;
use anabranch_wire::chunk::{Asconf, AsconfAck, Auth, Chunk, CookieEcho, kind};
use anabranch_wire::parameter::{AddressAction, Parameter, ParametersBuilder, StreamList};
use bytes::Bytes;

use crate::shapes::{HELD, Prepared, Shape, config, hostile, lives, ordinary};
use anabranch_testkit::victim::{Victim, chunk, data, encoded, list, outgoing, reconfig};

/// The key of the peer, and another one that the endpoint has.
const KEYS: [u16; 2] = [1, 2];
/// The longest secret.
const SECRET: [u8; 1024] = [5; 1024];

pub(crate) static FAMILY_SHAPES: &[Shape] = &[
    ordinary("signed messages of 72 bytes", signed_messages),
    hostile(
        "requests for resets that list many streams",
        long_lists,
        has_reset,
    ),
    hostile(
        "a request for a reset, again and again",
        repeated_request,
        has_reset,
    ),
    hostile(
        "resets of all streams with data between them",
        resets_with_data,
        has_reset,
    ),
    hostile(
        "requests for resets of streams at zero",
        resets_at_zero,
        has_reset,
    ),
    hostile(
        "requests for resets that the peer then denies",
        denied_resets,
        has_reset,
    ),
    hostile(
        "a request for a reset of many streams, asked for again in short",
        waiting_requests,
        has_reset,
    ),
    hostile(
        "requests for resets of TSNs while much is outstanding",
        tsn_resets,
        has_reset,
    ),
    hostile("requests for one stream more each", added_streams, has_added),
    hostile("responses to no request", responses, has_reset),
    hostile(
        "ASCONFs that add and delete an address often",
        additions,
        has_performed,
    ),
    hostile("an ASCONF of 60,000 bytes", long_asconf, has_performed),
    hostile("ASCONFs with wildcards", wildcards, has_performed),
    hostile(
        "ASCONFs that delete the path of much data",
        deleted_path,
        has_performed,
    ),
    hostile("an ASCONF, again and again", repeated_asconf, has_received),
    hostile("ASCONF-ACKs of earlier ASCONFs", old_acks, lives),
    hostile(
        "ASCONFs from many addresses, unsigned",
        unsigned_asconfs,
        has_discarded,
    ),
    hostile(
        "ASCONFs from many addresses, forged",
        forged_asconfs,
        has_discarded,
    ),
    hostile(
        "AUTH with a wrong HMAC, 60,000 bytes",
        forged_large,
        has_discarded,
    ),
    hostile(
        "AUTH with a wrong HMAC, small packets",
        forged_small,
        has_discarded,
    ),
    hostile(
        "AUTH with wrong HMACs under several keys",
        forged_keys,
        has_discarded,
    ),
    hostile("AUTH with unknown keys and HMACs", unknown_keys, has_discarded),
    hostile("many AUTH chunks in a packet", many_auths, has_discarded),
    hostile(
        "DATA that must be signed and is not",
        unsigned_data,
        has_discarded,
    ),
    hostile("HEARTBEATs whose answers are signed", heartbeats, lives),
    hostile("COOKIE ECHO with a forged AUTH", forged_cookie_auth, |_| ()),
    hostile(
        "INIT with the most CHUNKS, HMAC-ALGO and addresses",
        init_of_most,
        |_| (),
    ),
    hostile("INIT of 60,000 bytes with many RANDOMs", init_of_randoms, |_| ()),
];

fn has_reset(victim: &Victim) {
    assert!(victim.association().counters().reconfigs_received > 100);
    lives(victim);
}

fn has_added(victim: &Victim) {
    assert!(victim.association().counters().reconfigs_sent > 100);
    lives(victim);
}

fn has_performed(victim: &Victim) {
    assert!(victim.addresses_changed > 50, "{}", victim.addresses_changed);
    lives(victim);
}

fn has_received(victim: &Victim) {
    assert!(victim.association().counters().asconfs_received > 0);
    lives(victim);
}

fn has_discarded(victim: &Victim) {
    let counters = victim.association().counters();
    assert!(counters.packets_unverified + counters.chunks_unauthenticated > 3);
    lives(victim);
}

/// The most streams, two long keys, and signatures of ASCONF and ASCONF-ACK.
fn family() -> Config {
    let mut config = config();
    config.local_addresses = vec![[10, 0, 0, 1].into()];
    config.streams.outbound = u16::MAX;
    config.streams.max_inbound = u16::MAX;
    config.reconfiguration.offer = true;
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    let mut authentication = AuthenticationConfig::default();
    authentication.keys = KEYS
        .map(|id| SharedKey {
            id,
            secret: Bytes::from_static(&SECRET),
        })
        .into();
    config.authentication = Some(authentication);
    config
}

fn victim_with(config: Config, addresses: &[[u8; 4]]) -> Victim {
    Victim::with_family(config, addresses, &[], (KEYS[0], &SECRET))
}

/// A peer that signs nothing.
fn unsigned_victim() -> Victim {
    let mut victim = victim_with(family(), &[]);
    victim.signature = None;
    victim
}

fn signed_messages() -> Prepared {
    let mut config = family();
    config.authentication.as_mut().expect("there is one").chunks = vec![kind::DATA];
    let mut victim = Victim::with_family(config, &[], &[kind::SACK], (KEYS[0], &SECRET));
    victim.reads = true;
    let chunks = (0..2000).map(|number| data(victim.tsn(number), 0, number as u16, 3, &[7; 72]));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

fn streams(numbers: impl Iterator<Item = u16>) -> StreamList {
    StreamList::from_streams(numbers.map(StreamId))
}

fn incoming(victim: &Victim, number: u32, streams: StreamList) -> Parameter {
    Parameter::IncomingReset {
        request: victim.tsn(number).0,
        streams,
    }
}

fn long_lists() -> Prepared {
    let victim = unsigned_victim();
    let requests = (0..200).map(|number| {
        let listed = streams((0..590).map(|place| (number * 590 + place) as u16 >> 1));
        reconfig(&[outgoing(&victim, number, victim.tsn(0), listed)])
    });
    let datagrams = victim.packets(requests.collect());
    (victim, datagrams)
}

fn repeated_request() -> Prepared {
    let mut victim = unsigned_victim();
    let request = reconfig(&[outgoing(&victim, 0, victim.tsn(0), streams(0..3))]);
    victim.play(vec![request.clone()]);
    let datagrams = victim.packets(vec![request; 600]);
    (victim, datagrams)
}

fn resets_with_data() -> Prepared {
    let mut victim = unsigned_victim();
    victim.reads = true;
    let used = (0..u32::from(u16::MAX)).map(|number| data(victim.tsn(number), number as u16, 0, 3, b"x"));
    victim.play(used.collect());
    let chunks = (0..400).flat_map(|number| {
        let tsn = victim.tsn(u32::from(u16::MAX) + number);
        let request = outgoing(&victim, number, tsn.plus(1), StreamList::default());
        [data(tsn, (number * 37) as u16, 0, 3, b"x"), reconfig(&[request])]
    });
    let mut chunks: Vec<_> = chunks.collect();
    // The first reset is paid by the data before it.
    victim.play(vec![reconfig(&[outgoing(
        &victim,
        0,
        victim.tsn(u32::from(u16::MAX)),
        StreamList::default(),
    )])]);
    chunks.drain(..2);
    let tsn = victim.tsn(u32::from(u16::MAX));
    chunks.insert(0, data(tsn, 0, 0, 3, b"x"));
    let datagrams = victim.packets(chunks);
    (victim, datagrams)
}

/// The application has used all streams, and the peer has acknowledged it.
fn all_streams_used(last: usize) -> Victim {
    let mut victim = unsigned_victim();
    let count = usize::from(u16::MAX);
    victim.send_on(count - last, 1, |number| number as u16);
    victim.play(vec![victim.sack(u32::from(u16::MAX) - last as u32, &[])]);
    victim
}

/// The peer's response to the endpoint's request with this number.
fn response(victim: &Victim, number: u32, result: u32) -> Vec<u8> {
    reconfig(&[Parameter::ReConfigResponse {
        sequence: victim.script.endpoint_tsn.plus(number).0,
        result,
        next_tsns: None,
    }])
}

fn resets_at_zero() -> Prepared {
    let mut victim = all_streams_used(0);
    let request = |number| reconfig(&[incoming(&victim, number, StreamList::default())]);
    let requests: Vec<_> = (1..300).map(request).collect();
    victim.play(vec![request(0), response(&victim, 0, 1)]);
    let datagrams = victim.packets(requests);
    (victim, datagrams)
}

/// Of all streams that were in use, only the last one is not at zero.
fn denied_resets() -> Prepared {
    let mut victim = all_streams_used(1);
    let request = |number| reconfig(&[incoming(&victim, number, StreamList::default())]);
    let pairs = (1..200).flat_map(|number| [request(number), response(&victim, number, 2)]);
    let pairs: Vec<_> = pairs.collect();
    victim.play(vec![request(0), response(&victim, 0, 1)]);
    victim.send_on(1, 1, |_| u16::MAX - 1);
    victim.play(vec![victim.sack(u32::from(u16::MAX), &[])]);
    let datagrams = victim.packets(pairs);
    (victim, datagrams)
}

/// The request lists as many streams as the answer can. A repetition is short and draws the whole answer.
fn waiting_requests() -> Prepared {
    let mut victim = unsigned_victim();
    let numbers = (0..580).map(|number| 2 * number);
    let long = reconfig(&[incoming(&victim, 0, streams(numbers))]);
    let short = reconfig(&[incoming(&victim, 0, StreamList::default())]);
    victim.send_on(1, 1, |_| 2);
    victim.play(vec![victim.sack(1, &[]), long]);
    let datagrams = victim.alone(vec![short; 300]);
    (victim, datagrams)
}

fn tsn_resets() -> Prepared {
    let mut victim = unsigned_victim();
    victim.send(HELD.into(), 1);
    let requests = (0..600).map(|number| {
        reconfig(&[Parameter::TsnReset {
            request: victim.tsn(number).0,
        }])
    });
    let datagrams = victim.packets(requests.collect());
    (victim, datagrams)
}

fn added_streams() -> Prepared {
    let mut victim = Victim::with(
        {
            let mut config = family();
            config.authentication = None;
            config.dynamic_addresses = None;
            config
        },
        &[kind::RE_CONFIG],
    );
    victim.reads = true;
    let requests = (0..600).map(|number| {
        reconfig(&[Parameter::AddOutgoing {
            request: victim.tsn(number).0,
            count: 1 + (number as u16 & 127),
        }])
    });
    let datagrams = victim.alone(requests.collect());
    (victim, datagrams)
}

fn responses() -> Prepared {
    let victim = unsigned_victim();
    let datagrams = victim.packets((0..600).map(|number| response(&victim, number, number)).collect());
    (victim, datagrams)
}

/// An ASCONF with these requests; `number` counts the ASCONFs of the peer.
fn asconf(victim: &Victim, number: u32, requests: &[(AddressAction, [u8; 4])]) -> Vec<u8> {
    let requests = requests
        .iter()
        .zip(1..)
        .map(|((action, address), correlation)| Parameter::Address {
            action: *action,
            correlation,
            address: (*address).into(),
        });
    let parameters: Vec<_> = core::iter::once(Parameter::Ipv4([10, 0, 0, 2].into()))
        .chain(requests)
        .collect();
    encoded(&Chunk::Asconf(Asconf {
        serial: victim.tsn(number).0,
        parameters: list(&parameters),
    }))
}

/// Additions and deletions of an address in turn.
fn in_turn(count: usize) -> Vec<(AddressAction, [u8; 4])> {
    let turn = [AddressAction::Add, AddressAction::Delete];
    (0..count)
        .map(|number| (turn[number % 2], [10, 0, 2, 2]))
        .collect()
}

fn additions() -> Prepared {
    let victim = victim_with(family(), &[]);
    let asconfs = (0..100).map(|number| asconf(&victim, number, &in_turn(32)));
    let datagrams = victim.packets(asconfs.collect());
    (victim, datagrams)
}

fn long_asconf() -> Prepared {
    let victim = victim_with(family(), &[]);
    let asconfs = (0..3).map(|number| asconf(&victim, number, &in_turn(3600)));
    let datagrams = victim.packets(asconfs.collect());
    (victim, datagrams)
}

fn wildcards() -> Prepared {
    let victim = victim_with(family(), &[]);
    let actions = [
        AddressAction::Add,
        AddressAction::SetPrimary,
        AddressAction::Delete,
    ];
    let requests: Vec<_> = actions
        .iter()
        .cycle()
        .take(60)
        .map(|action| (*action, [0; 4]))
        .collect();
    let asconfs = (0..100).map(|number| asconf(&victim, number, &requests));
    let datagrams = victim.packets(asconfs.collect());
    (victim, datagrams)
}

/// The data of the endpoint is on the path of its primary destination. The peer deletes the path, adds it, and makes it primary.
fn deleted_path() -> Prepared {
    let mut victim = victim_with(family(), &[[10, 0, 1, 2]]);
    victim.send(HELD.into(), 1);
    let old = [10, 0, 0, 2];
    victim.script.remote.set_ip([10, 0, 1, 2].into());
    let requests = [
        (AddressAction::Delete, old),
        (AddressAction::Add, old),
        (AddressAction::SetPrimary, old),
    ];
    let asconfs = (0..300).map(|number| asconf(&victim, number, &requests));
    let datagrams = victim.packets(asconfs.collect());
    (victim, datagrams)
}

fn repeated_asconf() -> Prepared {
    let mut victim = victim_with(family(), &[]);
    // Each request fails, and its answer has a copy of it.
    let requests = [(AddressAction::Add, [224, 0, 0, 1]); 30];
    let asconfs: Vec<_> = (0..8).map(|number| asconf(&victim, number, &requests)).collect();
    let first = victim.packet(&asconfs.concat());
    victim.handle(first);
    victim.drain();
    let short = |number| asconf(&victim, number, &[]);
    let datagrams = victim.packets((0..800).map(|number| short(number % 8)).collect());
    (victim, datagrams)
}

fn old_acks() -> Prepared {
    let victim = victim_with(family(), &[]);
    let ack = encoded(&Chunk::AsconfAck(AsconfAck {
        serial: victim.script.endpoint_tsn.minus(9).0,
        parameters: ParametersBuilder::new().finish(),
    }));
    let datagrams = victim.packets(vec![ack; 2000]);
    (victim, datagrams)
}

fn unsigned_asconfs() -> Prepared {
    let mut victim = unsigned_victim();
    victim.wanders = true;
    let datagrams = victim.alone(vec![asconf(&victim, 0, &in_turn(1)); 100]);
    (victim, datagrams)
}

/// An AUTH chunk that signs nothing.
fn auth(shared_key_id: u16, hmac_id: u16) -> Vec<u8> {
    let len = if hmac_id == 1 { 20 } else { 32 };
    encoded(&Chunk::Auth(Auth {
        shared_key_id,
        hmac_id,
        hmac: vec![7; len].into(),
    }))
}

fn forged_asconfs() -> Prepared {
    let mut victim = unsigned_victim();
    victim.wanders = true;
    let packet = [auth(KEYS[0], 3), asconf(&victim, 0, &in_turn(1))].concat();
    let datagrams = victim.alone(vec![packet; 100]);
    (victim, datagrams)
}

fn forged_large() -> Prepared {
    let victim = unsigned_victim();
    let packet = [auth(KEYS[0], 3), chunk(kind::PAD, 0, &[&[7; 60_000]])].concat();
    let datagrams = victim.alone(vec![packet; 4]);
    (victim, datagrams)
}

fn forged_small() -> Prepared {
    let victim = unsigned_victim();
    let datagrams = victim.alone(vec![auth(KEYS[0], 3); 100]);
    (victim, datagrams)
}

/// All chunk types but COOKIE ACK, which set-up expects unsigned.
fn most_types() -> Vec<u8> {
    (0..=255).filter(|kind| *kind != kind::COOKIE_ACK).collect()
}

/// With each packet the endpoint must make another association key: it keeps the last one.
fn forged_keys() -> Prepared {
    let types = most_types();
    let mut victim = Victim::with_family(family(), &[], &types, (KEYS[0], &SECRET));
    victim.signature = None;
    let turns = [(KEYS[0], 1), (KEYS[1], 3), (KEYS[1], 1), (KEYS[0], 3)];
    let chunks = turns
        .iter()
        .cycle()
        .take(100)
        .map(|(key, hmac)| auth(*key, *hmac));
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

fn unknown_keys() -> Prepared {
    let victim = unsigned_victim();
    let chunks = (0..200).map(|number| auth(3 + number, [3, 2][usize::from(number) % 2]));
    let datagrams = victim.alone(chunks.collect());
    (victim, datagrams)
}

fn many_auths() -> Prepared {
    let victim = victim_with(family(), &[]);
    let datagrams = victim.packets(vec![auth(KEYS[1], 1); 500]);
    (victim, datagrams)
}

fn unsigned_data() -> Prepared {
    let mut config = family();
    config.authentication.as_mut().expect("there is one").chunks = vec![kind::DATA];
    let mut victim = victim_with(config, &[]);
    victim.signature = None;
    let chunks = (0..2000).map(|number| data(victim.tsn(number), 0, number as u16, 3, b"x"));
    let datagrams = victim.packets(chunks.collect());
    (victim, datagrams)
}

fn heartbeats() -> Prepared {
    let types = most_types();
    let mut victim = Victim::with_family(family(), &[], &types, (KEYS[0], &SECRET));
    victim.signature = None;
    let datagrams = victim.alone(vec![chunk(kind::HEARTBEAT, 0, &[&[0, 1, 0, 4]]); 200]);
    (victim, datagrams)
}

/// The cookie is genuine, so that the endpoint makes the association key from it.
fn forged_cookie_auth() -> Prepared {
    let mut victim = unsigned_victim();
    let types = most_types();
    let listed =
        ParametersBuilder::new().push(&Parameter::SupportedExtensions(Bytes::from_static(&[kind::AUTH])));
    let parameters = authentication_parameters(listed, &types).finish();
    let script: &mut Script = &mut victim.script;
    script.port = 7001;
    let init = Chunk::Init(script.init(parameters));
    script.send_tagged(anabranch_wire::VerificationTag(0), &[init]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    let echo = encoded(&Chunk::CookieEcho(CookieEcho {
        cookie: state_cookie(&ack),
    }));
    let packet = [auth(KEYS[0], 3), echo].concat();
    let packet: Bytes = script.packet_of_bytes(ack.initiate_tag, &packet).into();
    script.port = 7000;
    (victim, vec![packet; 20])
}

fn init_of_most() -> Prepared {
    let mut victim = unsigned_victim();
    victim.script.port = 7001;
    let mut parameters = vec![
        Parameter::SupportedExtensions((0..=255).collect::<Vec<u8>>().into()),
        Parameter::Random(Bytes::from_static(&[9; 32])),
        Parameter::ChunkList((0..=255).collect::<Vec<u8>>().into()),
        Parameter::RequestedHmacs(vec![3; 16]),
    ];
    let addresses = (0..64).map(|number| Parameter::Ipv4(Ipv4Addr::new(10, 7, 0, number)));
    parameters.extend(addresses);
    let datagram = victim.init_with(&parameters);
    (victim, vec![datagram; 20])
}

fn init_of_randoms() -> Prepared {
    let mut victim = unsigned_victim();
    victim.script.port = 7001;
    let repeated = [
        Parameter::Random(Bytes::from_static(&[9; 32])),
        Parameter::ChunkList(Bytes::from_static(&[0])),
        Parameter::RequestedHmacs(vec![1]),
    ];
    let parameters: Vec<_> = repeated.iter().cycle().take(3300).cloned().collect();
    let datagram = victim.init_with(&parameters);
    (victim, vec![datagram; 4])
}
