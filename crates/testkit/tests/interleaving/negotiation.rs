//! Negotiation of interleaving, and data chunks of the wrong kind (RFC 8260 §2.2.1, §2.2.3, §2.3.1).

use core::time::Duration;

use anabranch_proto::Reliability::Reliable;
use anabranch_proto::{Config, Event, StreamId};
use anabranch_testkit::fixture::{self, FULL, Fixture, NEVER_AGAIN};
use anabranch_testkit::{Ledger, Script, Setup, Side};
use anabranch_wire::chunk::{Chunk, ForwardTsn, IForwardTsn, MessageNumber, SelectiveForwardTsn, kind};
use anabranch_wire::parameter::{Parameter, Parameters};
use anabranch_wire::{Mid, Ssn, Tsn};

use crate::{ALL, arrive, begin, config, delivered, i_data};

/// The chunk types that are listed, and whether Forward-TSN-Supported is present.
fn listed(parameters: &Parameters) -> (Vec<u8>, bool) {
    let parameters = parameters
        .iter()
        .map(|raw| Parameter::decode(raw.expect("whole")).expect("right"));
    let mut lists = (Vec::new(), false);
    for parameter in parameters {
        match parameter {
            Parameter::SupportedExtensions(types) => lists.0 = types.to_vec(),
            Parameter::ForwardTsnSupported => lists.1 = true,
            _ => {}
        }
    }
    lists
}

/// The default settings offer interleaving; those of RFC 9260 do not.
#[test]
fn offered_by_default() {
    assert!(Config::default().interleaving.offer);
    assert!(!Config::rfc9260().interleaving.offer);
    let offered = |config| listed(&Script::new(config, 1).connect().parameters).0;
    let both = [
        kind::FORWARD_TSN,
        kind::NR_SACK,
        kind::I_DATA,
        kind::I_FORWARD_TSN,
    ];
    assert_eq!(offered(config()), both);
    assert_eq!(offered(fixture::config()), [kind::FORWARD_TSN, kind::NR_SACK]);
    let mut reliable = config();
    reliable.partial_reliability.offer = false;
    assert_eq!(offered(reliable), [kind::NR_SACK, kind::I_DATA]);
}

// A → I-DATA or DATA → Z
/// §2.2.1: I-DATA is used if both endpoints list it, and DATA otherwise.
#[test]
fn both_endpoints_must_offer_it() {
    let cases: [(_, &[u8], _); 3] = [
        (config(), &ALL, "I-DATA 0 (0:0.0be)"),
        (config(), &[kind::FORWARD_TSN, kind::NR_SACK], "DATA 0"),
        (fixture::config(), &ALL, "DATA 0"),
    ];
    for (config, kinds, expected) in cases {
        let mut fixture = Fixture::new(config, kinds);
        fixture.send(&[Reliable], 100);
        assert_eq!(fixture.sent(), [expected]);
        let stats = fixture.script.association().stats();
        assert_eq!(stats.extensions.interleaving, expected.starts_with("I-"));
    }
}

// A → I-DATA or DATA → Z
/// Extended FORWARD-TSN needs DATA. Interleaving, which is offered by default, yields to it if both endpoints offer both.
#[test]
fn interleaving_yields_to_extended_forward_tsn() {
    for (a, z) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut setup = Setup::new(1);
        for (side, offers) in Side::BOTH.into_iter().zip([a, z]) {
            setup = setup.adjust(side, |config| {
                config.partial_reliability.extended_forward_tsn = offers
            });
        }
        let mut pair = setup.connect();
        for side in Side::BOTH {
            let extensions = pair.association_mut(side).stats().extensions;
            assert_eq!(extensions.extended_forward_tsn, a && z);
            assert_eq!(extensions.interleaving, !(a && z));
            assert!(extensions.partial_reliability);
        }
        for side in Side::BOTH {
            pair.post(side, [Ledger::new(1).random_parcel(4, 6_000)]);
        }
        pair.run_for(Duration::from_secs(10));
        for side in Side::BOTH {
            assert_eq!(pair.association_mut(side).counters().messages_received, 1);
        }
    }
}

// A → DATA 0; T3; A → DATA 0, nothing abandoned
/// §2.3.1: with I-DATA, partial reliability needs I-FORWARD-TSN on both endpoints. FORWARD-TSN is no substitute.
#[test]
fn partial_reliability_needs_an_experimental_chunk() {
    let mut fixture = Fixture::new(config(), &[kind::FORWARD_TSN, kind::NR_SACK, kind::I_DATA]);
    fixture.send(&[NEVER_AGAIN], FULL - 4);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["I-DATA 0 (0:0.0be)"; 2]);
    assert!(
        !fixture
            .script
            .association()
            .stats()
            .extensions
            .partial_reliability
    );
    // FORWARD-TSN need not be listed.
    let mut fixture = Fixture::new(config(), &[kind::I_DATA, kind::I_FORWARD_TSN]);
    fixture.send(&[NEVER_AGAIN], FULL - 4);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["I-DATA 0 (0:0.0be)", "I-FORWARD-TSN 0 (0:0)"]);
}

fn wrong_chunks(first: Tsn) -> [(Chunk, Chunk); 3] {
    let notice = |number| {
        let (tsn, stream) = (first, StreamId(0));
        Chunk::SelectiveForwardTsn(SelectiveForwardTsn { tsn, stream, number })
    };
    let data = Chunk::Data(anabranch_wire::chunk::Data {
        tsn: first,
        stream: StreamId(0),
        ssn: Ssn(0),
        ppid: anabranch_proto::Ppid(0),
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        payload: "x".into(),
    });
    [
        (data, i_data(first, 0, "0:0.0be", 3)),
        (
            Chunk::ForwardTsn(ForwardTsn::new(first, [])),
            Chunk::IForwardTsn(IForwardTsn::new(first, [])),
        ),
        (
            notice(MessageNumber::Ssn(Ssn(0))),
            notice(MessageNumber::Mid(Mid(0))),
        ),
    ]
}

// A ← DATA, FORWARD-TSN (with interleaving); I-DATA, I-FORWARD-TSN (without) ← Z
// A → ABORT (Protocol Violation) → Z
/// §2.2.3, §2.3.1: the wrong kind of chunk ends the association, and its data is not delivered.
#[test]
fn the_wrong_kind_of_chunk() {
    for interleaves in [true, false] {
        for at in 0..3 {
            let mut config = if interleaves { config() } else { fixture::config() };
            config.partial_reliability.selective_forward_tsn = Some(1);
            let mut fixture = Fixture::new(config, &ALL);
            let (plain, interleaved) = wrong_chunks(fixture.script.tsn)[at].clone();
            let (wrong, right) = if interleaves {
                (plain, interleaved)
            } else {
                (interleaved, plain)
            };
            fixture.script.send(&[right]);
            fixture.script.skip_answers();
            fixture.script.messages();
            assert_eq!(fixture.script.events(), []);
            fixture.script.send(&[wrong]);
            let answer = fixture.script.expect_chunk();
            assert!(matches!(answer, Chunk::Abort(_)), "{answer:?}");
            assert!(matches!(fixture.script.events()[..], [Event::Closed(_)]));
            assert_eq!(delivered(&mut fixture), [""; 0]);
        }
    }
}

// A ⇄ Z: messages on stream 0 in both directions;  A ← INIT of a new Z;  both count from MID 0 again
/// A restart resets all numbers, and the chunk types of the new INIT are used.
#[test]
fn a_restart_resets_mids() {
    for (kinds, expected) in [(&ALL[..], "I-DATA 0 (0:0.0be)"), (&[kind::NR_SACK], "DATA 0")] {
        let (mut fixture, first) = begin();
        arrive(&mut fixture, first, 0, &["0:0.0be", "0:1.0b", "1:5.0b"], 100);
        fixture.send(&[Reliable; 2], 100);
        fixture.script.skip_answers();
        fixture.script.tag.0 += 1;
        fixture.script.tsn = Tsn(5000);
        fixture.script.set_up_with(fixture::lists(kinds));
        assert_eq!(delivered(&mut fixture), ["0:0"]);
        fixture.send(&[Reliable], 100);
        assert_eq!(fixture.sent(), [expected]);
        if kinds == ALL {
            arrive(&mut fixture, Tsn(5000), 0, &["0:0.0be", "0:1.0b", "0:1.1e"], 100);
            assert_eq!(delivered(&mut fixture), ["0:0", "0:1"]);
        }
        assert_eq!(fixture.script.association().stats().unread_bytes, 0);
    }
}
