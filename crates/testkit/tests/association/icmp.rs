//! ICMP messages about packets of an association (RFC 9260 §10; RFC 6951 §5.5): which messages are valid, and their effect. A
//! is the endpoint, Z its peer, R the source of the ICMP message: Z's system, a router, or an attacker that guesses.

use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{
    AssociationState as State, CloseReason, Config, Event, IcmpKind, IcmpMessage, LowerLayer, PathId,
    PathState, SendOptions, StreamId,
};
use anabranch_testkit::{FromEndpoint, Script, quiet, sack, shutdown_chunk, with};
use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::packet::{CommonHeader, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};

const SECOND_ADDRESS: [u8; 4] = [10, 0, 1, 2];
const UNREACHABLE: [IcmpKind; 2] = [IcmpKind::PortUnreachable, IcmpKind::ProtocolUnreachable];

/// A packet of A's as bytes, as an ICMP message quotes it.
fn bytes_of(header: CommonHeader, chunks: &[Chunk]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, header, 65_000);
    for chunk in chunks {
        writer.push(chunk);
    }
    let _ = writer.finish();
    buffer
}

fn quote(packet: &FromEndpoint) -> Vec<u8> {
    bytes_of(packet.header, &packet.chunks)
}

/// R → ICMP → A; returns whether A found an association for the message.
fn icmp_to(script: &mut Script, destination: SocketAddr, kind: IcmpKind, quote: &[u8]) -> bool {
    let message = IcmpMessage {
        kind,
        source: None,
        destination,
        quote: quote.to_vec().into(),
    };
    let Some(id) = script.host_mut().endpoint_mut().route_icmp(&message) else {
        return false;
    };
    assert_eq!(Some(id), script.id());
    script.act(|association, now| association.handle_icmp(now, &message));
    true
}

fn icmp(script: &mut Script, kind: IcmpKind, quote: &[u8]) -> bool {
    icmp_to(script, script.remote, kind, quote)
}

fn closed(script: &mut Script) -> Option<CloseReason> {
    script.events().into_iter().find_map(|event| match event {
        Event::Closed(reason) => Some(reason),
        _ => None,
    })
}

fn raw_ip() -> Config {
    with(quiet(), |config| config.lower_layer = LowerLayer::Ip)
}

/// An association in COOKIE-WAIT that A started, and its INIT.
fn connecting(config: Config) -> (Script, Vec<u8>) {
    let mut script = Script::new(config, 1);
    let init = script.connect();
    let header = CommonHeader {
        source_port: script.endpoint_port,
        destination_port: script.port,
        verification_tag: VerificationTag(0),
    };
    (script, bytes_of(header, &[Chunk::Init(init)]))
}

/// An association that one endpoint started, and a packet with DATA that A sent.
fn sending(config: Config, set_up: fn(&mut Script)) -> (Script, Vec<u8>) {
    let mut script = Script::new(config, 1);
    set_up(&mut script);
    script.act(|association, now| {
        let message = vec![7; 100].into();
        association
            .send(now, StreamId(0), message, SendOptions::default())
            .expect("there is room");
    });
    let data = script.expect();
    let quote = quote(&data);
    (script, quote)
}

// A → INIT → Z
// R → port unreachable [INIT] → A
/// ICMP6, ICMP8: in COOKIE-WAIT a quoted INIT with the Initiate Tag is valid, and set-up fails at once.
#[test]
fn an_init_that_meets_a_closed_port() {
    for kind in UNREACHABLE {
        let (mut script, init) = connecting(quiet());
        let remote = script.remote;
        // Ports, tag and checksum, the chunk's header, the Initiate Tag.
        assert!(icmp(&mut script, kind, &init[..20]));
        assert_eq!(
            closed(&mut script),
            Some(CloseReason::ProtocolUnreachable { remote })
        );
        script.expect_silence();
        assert_eq!(script.host_mut().endpoint_mut().association_count(), 0);
    }
}

// A → INIT → Z
// R → port unreachable [a guessed quote] → A
/// ICMP5, ICMP6: a quote that is too short, or has another chunk, tag or port, has no effect.
#[test]
fn an_invalid_quote_of_an_init() {
    let (mut script, init) = connecting(quiet());
    let (mut other_chunk, mut other_tag, mut own_tag_in_header) = (init.clone(), init.clone(), init.clone());
    other_chunk[12] = kind::INIT_ACK;
    other_tag[19] ^= 1;
    own_tag_in_header[4..8].copy_from_slice(&init[16..20]);
    let guesses = [
        &init[..0],
        &init[..11],
        &init[..12],
        &init[..19],
        &other_chunk[..],
        &other_tag[..],
        &own_tag_in_header[..],
    ];
    for kind in UNREACHABLE.into_iter().chain([IcmpKind::TooLarge(Some(600))]) {
        for guess in guesses {
            icmp(&mut script, kind, guess);
        }
        for port in [0, 2] {
            let mut other_port = init.clone();
            other_port[port + 1] ^= 1;
            assert!(!icmp(&mut script, kind, &other_port), "no association has it");
        }
        let elsewhere = SocketAddr::new(IpAddr::from([10, 0, 0, 3]), script.remote.port());
        assert!(!icmp_to(&mut script, elsewhere, kind, &init));
        let other_udp_port = SocketAddr::new(script.remote.ip(), script.remote.port() + 1);
        assert!(!icmp_to(&mut script, other_udp_port, kind, &init));
    }
    assert_eq!(closed(&mut script), None);
    assert_eq!(script.association().state(), State::CookieWait);
    assert_eq!(script.association().stats().paths[0].pmtu, quiet().path_mtu);
}

// A → INIT → Z …: established
// A → DATA → Z
// R → port unreachable [DATA] → A
/// ICMP8: a quote with the peer's tag is valid. The tag is in the eight bytes that every ICMP message quotes.
#[test]
fn an_association_whose_peer_is_gone() {
    for kind in UNREACHABLE {
        let (mut script, data) = sending(quiet(), Script::set_up_from_endpoint);
        let remote = script.remote;
        assert!(icmp(&mut script, kind, &data[..12]));
        let told = script.events();
        assert!(
            matches!(told[..], [.., Event::Undelivered(_), Event::Closed(CloseReason::ProtocolUnreachable { remote: to })] if to == remote),
            "{told:?}"
        );
        script.expect_silence();
    }
}

// Z → INIT → A …: established, through an address translator that then forgets Z
// A → DATA → translator
// translator → port unreachable [DATA] → A: nothing
// Z → SACK → A, from another UDP port
/// RFC 6951 §5.4: the peer of an accepted association may still exist, because a translator may have forgotten it. A translator
/// does not send protocol unreachable.
#[test]
fn a_translator_that_lost_its_mapping() {
    let (mut script, data) = sending(quiet(), Script::set_up);
    assert!(icmp(&mut script, IcmpKind::PortUnreachable, &data));
    assert_eq!(closed(&mut script), None);
    script.remote.set_port(20_000);
    let ack = sack(script.endpoint_tsn);
    script.send(&[ack]);
    assert_eq!(script.association().stats().outstanding_bytes, 0);
    assert_eq!(script.association().remote_address(), script.remote);
    assert!(icmp(&mut script, IcmpKind::ProtocolUnreachable, &data));
    assert!(closed(&mut script).is_some());
}

// A ↔ Z: established
// A → DATA → Z
// R → port unreachable [DATA with another tag; an INIT] → A
/// ICMP6, ICMP8: a wrong tag has no effect. Nor has an old INIT after COOKIE-WAIT.
#[test]
fn invalid_quotes_do_not_end_the_association() {
    let (mut script, data) = sending(quiet(), Script::set_up_from_endpoint);
    let mut wrong = data.clone();
    wrong[7] ^= 1;
    let mut own = data.clone();
    own[4..8].copy_from_slice(&script.endpoint_tag.0.to_be_bytes());
    let header = CommonHeader {
        source_port: script.endpoint_port,
        destination_port: script.port,
        verification_tag: VerificationTag(0),
    };
    let mut init = script.init(Parameters::empty());
    init.initiate_tag = script.endpoint_tag;
    let init = bytes_of(header, &[Chunk::Init(init)]);
    for kind in UNREACHABLE {
        for guess in [&wrong[..], &own, &data[..11], &init] {
            icmp(&mut script, kind, guess);
        }
    }
    let too_large = IcmpKind::TooLarge(Some(600));
    icmp(&mut script, too_large, &wrong);
    assert_eq!(script.association().state(), State::Established);
    assert_eq!(script.association().stats().paths[0].pmtu, quiet().path_mtu);
    let ack = sack(script.endpoint_tsn);
    script.send(&[ack]);
    assert_eq!(script.association().stats().outstanding_bytes, 0);
}

// A → INIT → Z (over raw IP)
// R → port unreachable [INIT] → A: nothing
// R → protocol unreachable [INIT] → A
/// ICMP3, ICMP8: over raw IP only protocol unreachable counts. Port unreachable has no effect.
#[test]
fn over_raw_ip_only_the_protocol_counts() {
    let (mut script, init) = connecting(raw_ip());
    assert!(icmp(&mut script, IcmpKind::PortUnreachable, &init));
    assert_eq!(script.association().state(), State::CookieWait);
    assert!(icmp(&mut script, IcmpKind::ProtocolUnreachable, &init));
    assert!(matches!(
        closed(&mut script),
        Some(CloseReason::ProtocolUnreachable { .. })
    ));
    let (mut script, data) = sending(raw_ip(), Script::set_up_from_endpoint);
    assert!(icmp(&mut script, IcmpKind::PortUnreachable, &data));
    assert_eq!(closed(&mut script), None);
}

// A ↔ Z: established
// A → DATA → Z
// R → packet too big (700) [DATA] → A
/// ICMP7: the path MTU follows a valid message.
#[test]
fn a_router_reports_a_smaller_mtu() {
    let (mut script, data) = sending(quiet(), Script::set_up_from_endpoint);
    assert!(icmp(&mut script, IcmpKind::TooLarge(Some(700)), &data));
    assert_eq!(script.association().stats().paths[0].pmtu, 700);
    assert_eq!(script.association().state(), State::Established);
}

// Z (10.0.0.2, and 10.0.1.2 as it says) ↔ A: established
// A → HEARTBEAT → 10.0.1.2
// 10.0.1.2 → protocol unreachable [HEARTBEAT] → A
/// §5.4: an unconfirmed address may belong to another host, so a message from it ends no association.
#[test]
fn an_unconfirmed_address_without_listener() {
    let mut script = Script::new(quiet(), 1);
    let listed = ParametersBuilder::new()
        .push(&Parameter::Ipv4(SECOND_ADDRESS.into()))
        .finish();
    script.set_up_with(listed);
    let second = SocketAddr::new(SECOND_ADDRESS.into(), script.remote.port());
    script.act(|association, now| {
        association
            .request_heartbeat(now, PathId(1))
            .expect("there is such a path");
    });
    let heartbeat = core::iter::from_fn(|| script.next_answer())
        .find(|answer| answer.destination == second)
        .expect("a heartbeat to the second address");
    assert!(icmp_to(
        &mut script,
        second,
        IcmpKind::ProtocolUnreachable,
        &quote(&heartbeat)
    ));
    assert_eq!(closed(&mut script), None);
    assert_eq!(
        script.association().stats().paths[1].state,
        PathState::Unconfirmed
    );
    // The same message about the address that set-up used.
    assert!(icmp(
        &mut script,
        IcmpKind::ProtocolUnreachable,
        &quote(&heartbeat)
    ));
    assert!(closed(&mut script).is_some());
}

// A ↔ Z: established
// Z → SHUTDOWN → A
// A → SHUTDOWN ACK → Z → SHUTDOWN COMPLETE → lost
// R → port unreachable [SHUTDOWN ACK] → A
/// ICMP8 with §8.4 rule 8: the message counts like an ABORT with the T bit. All data was acknowledged, so the peer has
/// completed the shutdown.
#[test]
fn a_peer_that_has_left_after_its_shutdown() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    script.send(&[shutdown_chunk(script.endpoint_tsn.plus(u32::MAX))]);
    let answer = script.expect();
    assert_eq!(answer.chunks, [Chunk::ShutdownAck]);
    assert!(icmp(&mut script, IcmpKind::PortUnreachable, &quote(&answer)));
    assert_eq!(closed(&mut script), Some(CloseReason::Shutdown));
}
