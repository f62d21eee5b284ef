//! Endpoint pair shared keys (RFC 4895 §6.1): right and wrong ones, and their change while data flows.

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    AssociationState, AuthenticationConfig, AuthenticationEvent, AuthenticationKeyError, Config,
    ConnectOptions, Event, SharedKey,
};
use anabranch_testkit::{PORT, Script, Setup, Side, authentication_parameters, state_cookie, with};
use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{Chunk, CookieEcho, kind};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::Bytes;

use super::fixture::*;

pub(super) fn key(id: u16, secret: &'static str) -> SharedKey {
    SharedKey {
        id,
        secret: Bytes::from_static(secret.as_bytes()),
    }
}

/// Settings with one shared key, and chunk types that the peer must sign.
pub(super) fn with_key(secret: &'static str, chunks: &[u8]) -> Config {
    with(Config::default(), |config| {
        let mut authentication = AuthenticationConfig::default();
        authentication.keys = vec![key(1, secret)];
        authentication.chunks = chunks.to_vec();
        config.authentication = Some(authentication);
        // The tests name DATA among the chunks to sign.
        config.interleaving.offer = false;
    })
}

fn told(roaming: &Roaming, end: End) -> Vec<AuthenticationEvent> {
    let events = roaming.events[end as usize].iter();
    let events = events.filter_map(|event| match event {
        Event::Authentication(change) => Some(*change),
        _ => None,
    });
    events.collect()
}

// client → INIT, COOKIE ECHO (signed with another key) → server: discarded
#[test]
fn a_signed_cookie_echo_needs_the_right_key() {
    for (secret, works) in [("one", true), ("another", false)] {
        let chunks = [kind::COOKIE_ECHO, kind::DATA];
        let configs = [with_key(secret, &chunks), with_key("one", &chunks)];
        let mut roaming = Roaming::new(configs, 1).begin();
        roaming.run(60_000 * MS);
        assert_eq!(
            roaming.server.association_ids().count(),
            usize::from(works),
            "{}",
            roaming.tail()
        );
        let state = roaming.association(End::Client).state();
        let expected = if works {
            AssociationState::Established
        } else {
            AssociationState::CookieEchoed
        };
        assert!(
            state == expected || (!works && state == AssociationState::Closed),
            "{state:?}"
        );
    }
}

#[test]
fn keys_change_while_data_flows() {
    let chunks = [kind::DATA, kind::SACK, kind::NR_SACK];
    let configs = [with_key("one", &chunks), with_key("one", &chunks)];
    let mut roaming = Roaming::new(configs, 2).connect();
    for step in 0..300 {
        for end in [End::Client, End::Server] {
            let association = roaming.association(end);
            match step {
                // Both have the key before one of them uses it.
                50 => assert_eq!(association.authentication_keys().put(key(2, "two")), Ok(())),
                100 if end == End::Client => {
                    assert_eq!(association.authentication_keys().activate(2), Ok(()))
                }
                150 if end == End::Server => {
                    assert_eq!(association.authentication_keys().activate(2), Ok(()))
                }
                200 => assert_eq!(association.authentication_keys().remove(1), Ok(())),
                _ => {}
            }
            roaming.send(end, 500);
        }
        roaming.run(5 * MS);
    }
    roaming.expect_complete(End::Client);
    roaming.expect_complete(End::Server);
    for end in [End::Client, End::Server] {
        assert_eq!(told(&roaming, end), [AuthenticationEvent::NewKey(2)], "{end:?}");
        let stats = roaming.association(end).stats();
        let authentication = stats.authentication.expect("negotiated");
        assert_eq!((authentication.active_key, authentication.peer_key), (2, 2));
        assert_eq!(stats.counters.packets_unverified, 0);
    }
}

// The server makes a key active that the client does not have: its data is discarded until the client gets the key.
#[test]
fn data_signed_with_an_unknown_key_waits_for_it() {
    let chunks = [kind::DATA];
    let configs = [with_key("one", &chunks), with_key("one", &chunks)];
    let mut roaming = Roaming::new(configs, 3).connect();
    let mut keys = roaming.association(End::Server).authentication_keys();
    assert_eq!(keys.activate(9), Err(AuthenticationKeyError::Unknown(9)));
    assert_eq!(keys.put(key(9, "nine")), Ok(()));
    assert_eq!(keys.activate(9), Ok(()));
    assert_eq!(keys.remove(9), Err(AuthenticationKeyError::Active(9)));
    roaming.send(End::Server, 500);
    roaming.run(3000 * MS);
    assert_eq!(roaming.arrivals[End::Client as usize].len(), 0);
    assert!(roaming.association(End::Client).counters().packets_unverified > 1);
    assert_eq!(
        roaming
            .association(End::Client)
            .authentication_keys()
            .put(key(9, "nine")),
        Ok(())
    );
    roaming.run(10_000 * MS);
    roaming.expect_complete(End::Client);
}

#[test]
fn without_authentication_there_are_no_keys() {
    let mut roaming = Roaming::new([Config::default(), Config::default()], 4).connect();
    let put = roaming
        .association(End::Client)
        .authentication_keys()
        .put(key(1, "one"));
    assert_eq!(put, Err(AuthenticationKeyError::NotOffered));
}

// peer → INIT → endpoint;  peer ← INIT ACK ← endpoint
// peer → COOKIE ECHO (no AUTH chunk) → endpoint: discarded
/// §6.3: a COOKIE ECHO that must be signed sets up nothing without a signature.
#[test]
fn an_unsigned_cookie_echo_is_refused() {
    for signed in [true, false] {
        let kinds: &[u8] = if signed {
            &[kind::COOKIE_ECHO]
        } else {
            &[kind::DATA]
        };
        let mut script = Script::new(with_key("one", kinds), 1);
        let listed = Parameter::SupportedExtensions(Bytes::from_static(&[kind::AUTH]));
        let parameters = authentication_parameters(ParametersBuilder::new().push(&listed), &[]);
        let init = script.init(parameters.finish());
        script.send_tagged(VerificationTag(0), &[Chunk::Init(init)]);
        let Chunk::InitAck(ack) = script.expect().only() else {
            panic!("INIT ACK")
        };
        let echo = Chunk::CookieEcho(CookieEcho {
            cookie: state_cookie(&ack),
        });
        script.send_tagged(ack.initiate_tag, &[echo]);
        if signed {
            script.expect_silence();
            assert_eq!(script.id(), None);
        } else {
            assert_eq!(script.expect_chunk(), Chunk::CookieAck);
        }
    }
}

// A → INIT (lost)                 both ends get another secret for key 1
// A ← INIT ← Z;  A → INIT ACK → Z;  A ← AUTH, COOKIE ECHO ← Z
/// RFC 9260 §5.2.1: in COOKIE-WAIT, the COOKIE ECHO of a collision is verified with the keys that the association has now.
#[test]
fn a_key_changed_during_set_up_counts_at_a_collision() {
    for (side_that_knows, works) in [(&Side::BOTH[..], true), (&[Side::A][..], false)] {
        let mut config = with_key("one", &[kind::COOKIE_ECHO, kind::DATA]);
        config.heartbeat.interval = None;
        let mut pair = Setup::new(5)
            .config(config)
            .path(LinkConfig::default().with_delay(20 * MS))
            .build();
        pair.listen(Side::A);
        for side in Side::BOTH {
            pair.cut(0, side == Side::A);
            let options = ConnectOptions::default().local_port(Some(PORT));
            pair.begin_from(side, options);
            if side_that_knows.contains(&side) {
                let put = pair
                    .association_mut(side)
                    .authentication_keys()
                    .put(key(1, "two"));
                assert_eq!(put, Ok(()));
            }
            pair.run_ms(5);
        }
        pair.run_ms(200);
        for side in Side::BOTH {
            let established = pair.state(side) == Some(AssociationState::Established);
            assert_eq!(established, works, "{}", pair.draw());
        }
    }
}
