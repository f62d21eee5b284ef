//! Negotiation (§5.1), the order of keys, and the time before both directions are protected.

use anabranch_proto::{
    CloseReason, ConnectOptions, DynamicAddressConfig, Event, KeyRole, LowerLayer, SendError, SendOptions,
    StreamId,
};
use anabranch_testkit::{FromEndpoint, Script, Setup, Side, quiet, with};
use anabranch_wire::VerificationTag;
use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::parameter::{
    KeyManagement, KeyManagementFlags, Parameter, Parameters, ParametersBuilder,
};

use super::{MS, config, connected, has, is_protected, link, protection, sctp};

fn parameter(methods: &[u8]) -> KeyManagement {
    let flags = KeyManagementFlags {
        restart: false,
        server: true,
        client: true,
    };
    KeyManagement::new(7, flags, methods)
}

/// The endpoint's answer to an INIT with these parameters.
fn answer_to(script: &mut Script, parameters: Parameters) -> FromEndpoint {
    let init = script.init(parameters);
    script.send_tagged(VerificationTag(0), &[Chunk::Init(init)]);
    script.expect()
}

fn listed(parameters: &Parameters) -> Vec<u16> {
    parameters.iter().map(|raw| raw.unwrap().kind).collect()
}

#[test]
fn both_directions_are_protected_before_user_messages() {
    let mut pair = Setup::new(1).config(config()).build();
    pair.begin();
    let now = pair.now();
    let refused =
        pair.association_mut(Side::A)
            .send(now, StreamId(0), "early".into(), SendOptions::default());
    assert_eq!(refused, Err(SendError::NotProtected));
    pair.run_ms(1000);
    assert!(is_protected(&pair));
    for (side, role) in [(Side::A, KeyRole::Client), (Side::Z, KeyRole::Server)] {
        assert!(has(&pair.events(side), &Event::Protected));
        let manager = pair.association_mut(side);
        let agreement = manager
            .key_manager()
            .agreement()
            .cloned()
            .expect("set-up is complete");
        assert_eq!((agreement.role, agreement.method), (role, 192));
        assert_eq!(
            (&agreement.client[..4], &agreement.server[..4]),
            (&[0x80, 6, 0, 10][..], &[0x80, 6, 0, 10][..])
        );
        assert!(pair.association(side).stats().extensions.protection);
    }
    for side in Side::BOTH {
        pair.send(side, 0, "hello");
    }
    pair.run_ms(100);
    for side in Side::BOTH {
        let messages = pair.messages(side);
        assert_eq!(
            messages.len(),
            1,
            "messages of key management are not for the application"
        );
        assert_eq!(&messages[0].bytes[..], b"hello");
        assert!(protection(&pair, side).packets_opened > 0);
    }
}

/// A lost acknowledgement of the server's handshake messages, which arrives in clear when nothing in clear counts, does not hold back the
/// message after them (RFC 9260 §6.1, Nagle's algorithm).
#[test]
fn a_lost_acknowledgement_in_clear_is_not_waited_for() {
    let slow = |seconds: u32| {
        with(config(), |config| {
            (config.rto.initial, config.rto.min) = (1000 * seconds * MS, 1000 * seconds * MS);
            config.rto.max = 60_000 * MS;
            config.no_delay = false;
        })
    };
    let mut pair = Setup::new(1).configs(slow(1), slow(5)).path(link()).build();
    pair.begin();
    // The server's messages are in flight. The client's answer is lost.
    let limit = pair.now() + 1000 * MS;
    assert!(pair.run_to(limit, |pair| pair.talker(Side::Z).keys.messages.len() == 1));
    pair.cut(0, true);
    pair.run_ms(100);
    pair.cut(0, false);
    // The client sends its message once more, without the acknowledgement.
    pair.run_ms(1500);
    assert!(is_protected(&pair), "{}", pair.draw());
}

/// A shutdown that is requested before both directions are protected waits for the keys, and is then graceful, whenever it is requested and
/// whatever is lost.
#[test]
fn a_shutdown_before_protection_is_graceful() {
    for seed in 0..60 {
        let mut pair = Setup::new(seed).config(config()).path(link()).build();
        pair.begin();
        let wanted = (seed % 6) as usize;
        let limit = pair.now() + 30_000 * MS;
        let reached = pair.run_to(limit, |pair| {
            let arrived = Side::BOTH.map(|side| pair.talker(side).keys.messages.len());
            pair.id(Side::Z).is_some() && arrived.iter().sum::<usize>() >= wanted.min(4)
        });
        assert!(reached, "{}", pair.draw());
        for side in &Side::BOTH[..1 + wanted / 5] {
            pair.shutdown(if seed % 2 == 0 { *side } else { side.other() });
        }
        if seed >= 30 {
            pair.cut(0, true);
            pair.run_ms(seed - 29);
            pair.cut(0, false);
        }
        pair.run_ms(30_000);
        for side in Side::BOTH {
            let events = pair.events(side);
            assert_eq!(
                events.last(),
                Some(&Event::Closed(CloseReason::Shutdown)),
                "seed {seed}: {}",
                pair.draw()
            );
            assert!(has(&events, &Event::Protected), "seed {seed}");
        }
    }
}

/// §5.1, strict mode: a peer without the parameter, or with an incompatible one, is refused with the cause of the draft.
#[test]
fn a_peer_that_does_not_protect_is_refused() {
    for (parameters, cause) in [
        (ParametersBuilder::new(), Cause::MissingDtlsSupport),
        (
            ParametersBuilder::new().push(&Parameter::KeyManagement(parameter(&[7]))),
            Cause::NoCommonKeyManagement,
        ),
    ] {
        let mut script = Script::new(config(), 1);
        let answer = answer_to(&mut script, parameters.clone().finish());
        let Some(Chunk::Abort(abort)) = answer.chunks.first() else {
            panic!("{answer:?}");
        };
        assert_eq!(abort.causes.iter().collect::<Vec<_>>(), [Ok(cause.clone())]);
    }
}

/// An endpoint that does not protect packets ignores the parameter; the protecting one then ends the association, and says who refused.
#[test]
fn a_downgrade_is_an_error_that_says_who_refused() {
    let mut pair = Setup::new(1).configs(config(), quiet()).build();
    pair.begin();
    pair.run_ms(1000);
    let events = pair.events(Side::A);
    let Some(Event::Closed(CloseReason::ProtectionFailed(why))) = events.last() else {
        panic!("{events:?}");
    };
    assert!(why.contains("this side requires encryption"), "{why}");
    let mut pair = Setup::new(1).configs(quiet(), config()).build();
    pair.begin();
    pair.run_ms(1000);
    let events = pair.events(Side::A);
    let Some(Event::Closed(CloseReason::AbortedByPeer(causes))) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(causes.iter().collect::<Vec<_>>(), [Ok(Cause::MissingDtlsSupport)]);
    assert_eq!(pair.id(Side::Z), None);
}

/// §3.2: ASCONF is listed without AUTH, RANDOM and CHUNKS if, and only if, the parameter is there.
#[test]
fn asconf_needs_no_authentication() {
    let config = with(config(), |config| {
        config.dynamic_addresses = Some(DynamicAddressConfig::default())
    });
    let mut script = Script::new(config, 1);
    let init = script.connect();
    let kinds = listed(&init.parameters);
    assert!(
        kinds.contains(&0x8006) && !kinds.contains(&0x8002) && !kinds.contains(&0x8003),
        "{kinds:x?}"
    );
    let extensions = init
        .parameters
        .iter()
        .find_map(|raw| match Parameter::decode(raw.unwrap()) {
            Ok(Parameter::SupportedExtensions(types)) => Some(types),
            _ => None,
        });
    let extensions = extensions.expect("listed");
    assert!(extensions.contains(&kind::ASCONF) && !extensions.contains(&kind::AUTH));
}

/// An endpoint without protection does not refuse the list of such a peer: the peer itself says what is missing.
#[test]
fn asconf_without_auth_is_refused_without_the_parameter_alone() {
    let config = with(quiet(), |config| {
        config.dynamic_addresses = Some(DynamicAddressConfig::default())
    });
    let types = Parameter::SupportedExtensions(vec![kind::ASCONF, kind::ASCONF_ACK].into());
    let without = ParametersBuilder::new().push(&types);
    let with = without.clone().push(&Parameter::KeyManagement(parameter(&[192])));
    for (parameters, accepted) in [(without, false), (with, true)] {
        let mut script = Script::new(config.clone(), 1);
        let answer = answer_to(&mut script, parameters.finish());
        assert_eq!(
            matches!(answer.chunks.first(), Some(Chunk::InitAck(_))),
            accepted,
            "{answer:?}"
        );
    }
}

#[test]
fn two_endpoints_that_connect_at_once_agree() {
    for seed in 0..8 {
        let mut pair = Setup::new(seed).config(config()).path(link()).build();
        pair.listen(Side::A);
        let options = ConnectOptions::default().local_port(anabranch_testkit::PORT);
        pair.begin_from(Side::A, options.clone());
        pair.begin_from(Side::Z, options);
        pair.run_ms(3000);
        assert!(is_protected(&pair), "{}", pair.draw());
        let roles = Side::BOTH.map(|side| {
            let manager = pair.association_mut(side);
            manager.key_manager().agreement().cloned().expect("agreed")
        });
        assert_eq!(roles[0].role, roles[1].role.other());
        assert_eq!(
            (&roles[0].client, &roles[0].server),
            (&roles[1].client, &roles[1].server)
        );
    }
}

/// Settings that cannot be used together.
#[test]
fn protection_excludes_auth_and_dtls_below() {
    let auth = with(config(), |config| {
        config.authentication = Some(Default::default())
    });
    assert_eq!(auth.validate().unwrap_err().setting, "authentication");
    let dtls = with(config(), |config| {
        config.lower_layer = LowerLayer::Dtls { overhead: 0 }
    });
    assert_eq!(dtls.validate().unwrap_err().setting, "lower_layer");
}

/// Every packet after the keys is one DTLS chunk, 28 bytes longer than its content, and as long as the path permits at most.
#[test]
fn a_protected_packet_is_one_chunk() {
    let mut pair = connected(Setup::new(3).config(config()).path(link()));
    pair.network.keep_records(200);
    let before = pair.network.records().count();
    for _ in 0..20 {
        pair.send(Side::A, 1, vec![7; 3000]);
    }
    pair.run_ms(2000);
    assert_eq!(pair.messages(Side::Z).len(), 20);
    let mut longest = 0;
    for record in pair.network.records().skip(before) {
        let packet = sctp(record);
        let kinds: Vec<_> = packet.chunks().map(|raw| raw.unwrap().kind).collect();
        assert_eq!(kinds, [kind::DTLS]);
        longest = longest.max(packet.len());
    }
    assert_eq!(longest, 1280 - 20 - 8);
}
