//! Packets without a checksum where the layer below detects errors (RFC 9653).

use std::time::Duration;

use anabranch_proto::{
    AssociationState, Config, ConnectOptions, LowerLayer, SendOptions, StreamId, TraceKind, TraceLevel,
};
use anabranch_testkit::{Script, Setup, Side, quiet, with};
use anabranch_wire::chunk::Chunk;
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};

const DTLS: u32 = 1;

/// Settings over DTLS, or over UDP alone.
fn over_dtls(encrypted: bool) -> Config {
    let dtls = LowerLayer::Dtls { overhead: 0 };
    with(quiet(), |config| {
        config.lower_layer = if encrypted { dtls } else { LowerLayer::Udp };
    })
}

fn config() -> Config {
    over_dtls(true)
}

fn accepts(method: u32) -> Parameters {
    ParametersBuilder::new()
        .push(&Parameter::ZeroChecksumAcceptable { method })
        .finish()
}

fn announced(parameters: &Parameters) -> Vec<u32> {
    let decoded = parameters
        .iter()
        .filter_map(|raw| Parameter::decode(raw.unwrap()).ok());
    decoded
        .filter_map(|parameter| match parameter {
            Parameter::ZeroChecksumAcceptable { method } => Some(method),
            _ => None,
        })
        .collect()
}

fn send(script: &mut Script) {
    script.act(|association, now| {
        association
            .send(now, StreamId(0), "hello".into(), SendOptions::default())
            .unwrap();
    });
}

/// The peer's packets may have no checksum.
fn receive(script: &mut Script) -> bool {
    let data = script.data(0, 0, "hello");
    let mut packet = script.packet(script.endpoint_tag, &[data]);
    packet[8..12].fill(0);
    script.send_raw(packet);
    !script.messages().is_empty()
}

/// §5.2 rule 1: only a peer that announced the same method gets packets with a zero checksum.
#[test]
fn only_a_peer_that_accepts_it_gets_zero_checksums() {
    for (config, parameters, zero, taken) in [
        (config(), accepts(DTLS), true, true),
        (config(), accepts(2), false, true),
        (config(), Parameters::empty(), false, true),
        (quiet(), accepts(DTLS), false, false),
    ] {
        let mut script = Script::new(config, 1);
        script.set_up_with(parameters);
        assert_eq!(script.association().stats().extensions.zero_checksum, zero);
        script.skip_answers();
        send(&mut script);
        assert_eq!(script.expect().zero_checksum, zero);
        assert_eq!(receive(&mut script), taken);
    }
}

/// §5.1: an endpoint announces what it accepts, also to a peer that announced nothing.
#[test]
fn the_announcement_does_not_depend_on_the_peer() {
    for (config, expected) in [(config(), vec![DTLS]), (quiet(), vec![])] {
        let mut script = Script::new(config.clone(), 1);
        script.set_up();
        assert_eq!(announced(&script.endpoint_parameters), expected);
        let init = Script::new(config, 1).connect();
        assert_eq!(announced(&init.parameters), expected);
    }
}

/// §5.2 rules 1 and 2: INIT, the answers to packets of no association, and COOKIE ECHO with data bundled have checksums.
#[test]
fn packets_of_set_up_have_checksums() {
    let mut script = Script::new(config(), 1);
    script.connect();
    send(&mut script);
    let mut ack = script.init_ack(b"a cookie");
    let cookie = Parameter::StateCookie(b"a cookie".as_slice().into());
    ack.parameters = ParametersBuilder::new()
        .push(&cookie)
        .push(&Parameter::ZeroChecksumAcceptable { method: DTLS })
        .finish();
    script.send(&[Chunk::InitAck(ack)]);
    let echo = script.expect();
    assert!(matches!(echo.chunks[0], Chunk::CookieEcho(_)));
    assert_eq!(echo.chunks.len(), 2, "data is bundled");
    assert!(!echo.zero_checksum);
    script.send(&[Chunk::CookieAck]);
    send(&mut script);
    let data = script.expect();
    assert!(matches!(data.chunks[0], Chunk::Data(_)));
    assert!(data.zero_checksum);
}

/// §5.3: a checksum that is neither right nor zero is wrong.
#[test]
fn wrong_checksums_are_dropped() {
    let mut script = Script::new(config(), 1);
    script.set_up_with(accepts(DTLS));
    let data = script.data(0, 0, "hello");
    let mut packet = script.packet(script.endpoint_tag, &[data]);
    packet[9] ^= 1;
    script.send_raw(packet);
    assert!(script.messages().is_empty());
    script.expect_silence();
}

/// The bytes of the layer below are subtracted from the path MTU.
#[test]
fn packets_leave_room_for_the_layer_below() {
    let mut longest = [0; 2];
    for (longest, overhead) in longest.iter_mut().zip([0, 48]) {
        let mut config = Config::default();
        config.lower_layer = LowerLayer::Tunnel { overhead };
        config.path_mtu_limit = 1280;
        let mut pair = Setup::new(3).config(config).connect();
        pair.host_mut(Side::A).set_tracing(TraceLevel::Packets);
        pair.send(Side::A, 0, vec![0; 20_000]);
        pair.run_for(Duration::from_secs(20));
        let events = pair.host_mut(Side::A).take_trace();
        let sent = events.iter().filter_map(|(_, event)| match event.kind {
            TraceKind::PacketSent { bytes, .. } => Some(bytes),
            _ => None,
        });
        *longest = sent.max().expect("packets");
    }
    assert_eq!(longest[0] - longest[1], 48);
}

#[test]
fn an_association_over_dtls_has_one_path() {
    for (encrypted, paths) in [(false, 2), (true, 1)] {
        let mut script = Script::new(over_dtls(encrypted), 1);
        let another = Parameter::Ipv4([10, 9, 0, 1].into());
        script.set_up_with(ParametersBuilder::new().push(&another).finish());
        assert_eq!(script.association().stats().paths.len(), paths, "{encrypted}");
    }
}

/// Whether a zero checksum is accepted is a setting of the association, whatever the endpoint's other associations have (§5.3).
#[test]
fn each_association_has_its_own_setting() {
    for (endpoint, own) in [(false, true), (true, false)] {
        let mut pair = Setup::new(1)
            .configs(over_dtls(endpoint), config())
            // The judge of the captures knows no zero checksums.
            .captured(false)
            .build();
        let options = ConnectOptions::default().config(over_dtls(own));
        pair.begin_from(Side::A, options);
        pair.run_ms(500);
        assert_eq!(pair.state(Side::A), Some(AssociationState::Established), "{own}");
        let extensions = pair.association(Side::A).stats().extensions;
        assert_eq!(extensions.zero_checksum, own);
        pair.send(Side::Z, 0, "hello");
        pair.run_ms(500);
        assert_eq!(pair.messages(Side::A).len(), 1);
    }
}

/// A packet without a checksum reaches no association that did not announce that it accepts one.
#[test]
fn an_association_that_accepts_none_gets_none() {
    for (endpoint, own) in [(false, true), (true, false)] {
        let mut script = Script::new(over_dtls(endpoint), 1);
        script.connect_with(ConnectOptions::default().config(over_dtls(own)));
        script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
        script.send(&[Chunk::CookieAck]);
        assert_eq!(script.association().state(), AssociationState::Established);
        assert_eq!(receive(&mut script), own);
    }
}
