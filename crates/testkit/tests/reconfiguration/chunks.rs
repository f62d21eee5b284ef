//! RE-CONFIG chunks: negotiation, combinations, sequence numbers, the Re-configuration Timer (§3.1, §5.1.1, §5.2.1, §5.2.7 H1, H2).

use core::time::Duration;

use anabranch_proto::{CloseReason, Event, ResetDirection::Outgoing, StreamSelection};
use anabranch_testkit::Script;
use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::parameter::Parameter;

use crate::fixture::{Fixture, config, only};

const SECOND: Duration = Duration::from_secs(1);

/// RFC 5061 §4.2.7: RE-CONFIG is offered in Supported Extensions.
#[test]
fn re_config_is_listed() {
    let mut script = Script::new(config(), 1);
    let parameters = script.connect().parameters;
    let listed = parameters.iter().any(|raw| {
        Parameter::decode(raw.expect("whole"))
            == Ok(Parameter::SupportedExtensions(vec![kind::RE_CONFIG].into()))
    });
    assert!(listed);
}

/// §5.1.1: without negotiation the chunk is unknown: its two highest bits say "skip, and do not report".
#[test]
fn without_negotiation_the_chunk_is_skipped() {
    let mut offers_nothing = config();
    offers_nothing.reconfiguration.offer = false;
    for (config, kinds) in [(config(), &[][..]), (offers_nothing, &[kind::RE_CONFIG])] {
        let mut fixture = Fixture::with(config, kinds);
        fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[])]);
        fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[]), fixture.tsn_reset(1)]);
        fixture.script.expect_silence();
        assert!(fixture.events().is_empty());
    }
}

/// §3.1: an ERROR with the cause Protocol Violation answers other combinations, and malformed parameters.
#[test]
fn other_combinations_are_an_error() {
    let mut fixture = Fixture::new();
    let (reset, tsns) = (fixture.outgoing(0, u32::MAX, &[]), fixture.tsn_reset(1));
    fixture.peer_sends(&[]);
    fixture.peer_sends(&[reset.clone(), tsns]);
    fixture.peer_sends(&[reset.clone(), fixture.incoming(1, &[]), fixture.response(0, 1)]);
    for _ in 0..3 {
        let Chunk::Error(error) = fixture.script.expect_chunk() else {
            panic!("ERROR")
        };
        let causes: Vec<_> = error.causes.iter().collect();
        assert!(
            matches!(&causes[..], [Ok(Cause::ProtocolViolation(_))]),
            "{causes:?}"
        );
    }
    fixture.script.expect_silence();
    assert!(fixture.events().is_empty());
    fixture.peer_sends(&[reset]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"], "no sequence number was used");
}

/// §5.2.1, result 5: a sequence number that is neither the next one nor that of the last chunk.
#[test]
fn wrong_sequence_numbers_are_reported() {
    let mut fixture = Fixture::new();
    fixture.peer_sends(&[fixture.outgoing(1, u32::MAX, &[])]);
    assert_eq!(fixture.sent(), ["RESPONSE 1 = 5"]);
    fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[])]);
    fixture.peer_sends(&[fixture.outgoing(1, u32::MAX, &[])]);
    fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[])]);
    assert_eq!(
        fixture.sent(),
        ["RESPONSE 0 = 1", "RESPONSE 1 = 1", "RESPONSE 0 = 5"]
    );
    assert_eq!(fixture.events().len(), 2);
}

/// §5.2.1: two requests in one chunk get two responses in one chunk, also if it is retransmitted.
#[test]
fn two_requests_get_one_chunk_of_responses() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[]), fixture.incoming(1, &[3])]);
        assert_eq!(fixture.sent(), ["RESPONSE 0 = 1 & RESPONSE 1 = 0"]);
    }
    assert_eq!(fixture.events().len(), 1);
}

// A → OUT 0 → Z, lost; again after 1 s, 2 s, 4 s …
/// §5.1.1: RTO with exponential back-off; the error counters end the association.
#[test]
fn the_request_is_retransmitted_with_back_off() {
    let mut config = config();
    config.retransmissions.association_max_retrans = 3;
    let mut fixture = Fixture::with(config, &[kind::RE_CONFIG]);
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    let request = "OUT 0 answers -1 after -1 [1]";
    assert_eq!(fixture.sent(), [request]);
    for waited in [1, 2, 4] {
        assert_eq!(fixture.script.advance_to_timeout(), waited * SECOND);
        assert_eq!(fixture.sent(), [request]);
    }
    fixture.script.advance_to_timeout();
    let events = fixture.script.events();
    assert_eq!(events.last(), Some(&Event::Closed(CloseReason::Unreachable)));
}

/// H2: after "In progress" the request is retransmitted, and the error counters are not incremented.
#[test]
fn in_progress_is_no_error() {
    let mut config = config();
    config.retransmissions.association_max_retrans = 1;
    let mut fixture = Fixture::with(config, &[kind::RE_CONFIG]);
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    for _ in 0..5 {
        assert_eq!(fixture.sent().len(), 1);
        fixture.script.advance(SECOND / 2);
        fixture.peer_sends(&[fixture.response(0, 6)]);
        assert_eq!(
            fixture.script.advance_to_timeout(),
            SECOND,
            "the timer started again"
        );
    }
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.events().len(), 1);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert!(fixture.events().is_empty(), "H1: it was acknowledged before");
}

/// Responses to requests that were never made have no effect.
#[test]
fn foreign_responses_are_ignored() {
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.ask(|ask| ask.reset_streams(StreamSelection::All, Outgoing)),
        Ok(())
    );
    fixture.peer_sends(&[fixture.response(1, 1), fixture.response(u32::MAX, 1)]);
    assert!(fixture.events().is_empty());
    fixture.say(1);
    assert_eq!(fixture.sent().len(), 1, "the stream still waits");
}

/// A request that the application made before a shutdown is finished, and the data that waits for it is sent.
#[test]
fn the_shutdown_waits_for_data_that_waits() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    fixture.say(1);
    fixture.script.act(|association, now| association.shutdown(now));
    fixture.sent();
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.sent(), ["DATA 0 (1:0)"]);
    fixture.acknowledge(0);
    assert!(fixture.sent()[0].starts_with("SHUTDOWN"));
}

/// A peer that makes requests without an end cannot fill the queue of events: they are denied.
#[test]
fn events_that_nobody_polls_are_bounded() {
    let mut script = Script::new(config(), 1);
    script.set_up_with(anabranch_testkit::fixture::lists(&[kind::RE_CONFIG]));
    let own = script.endpoint_tsn.0;
    let peer = script.tsn.0;
    let mut fixture = Fixture { script, peer, own };
    let requests: Vec<_> = (0..600)
        .map(|request| {
            let parameter = fixture.outgoing(request, u32::MAX, &[1]);
            Chunk::ReConfig(anabranch_wire::chunk::ReConfig {
                parameters: anabranch_wire::parameter::ParametersBuilder::new()
                    .push(&parameter)
                    .finish(),
            })
        })
        .collect();
    fixture.script.send(&requests);
    assert!(fixture.events().len() <= 257);
}
