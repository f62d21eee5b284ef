//! Incoming SSN Reset Requests, and both directions at once: §5.1.3 B1 to B4, §5.2.3.

use anabranch_proto::{
    AuthenticationConfig, ReconfigurationError, ReconfigurationEvent as Event,
    ReconfigurationRequest as Request, ReconfigurationResult as Result,
    ResetDirection::{Both, Incoming, Outgoing},
    StreamSelection,
};

use anabranch_testkit::{authentication_parameters, fixture::lists};
use anabranch_wire::chunk::{Chunk, EncodeChunk, kind, padded};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::Bytes;

use crate::fixture::{Fixture, config, only};

fn answered(request: Request, result: Result) -> Event {
    Event::Answered { request, result }
}

// A → IN 0 [1] → Z
// A ← OUT 0 answers 0 [1] ← Z
// A → RESPONSE 0 = 1 → Z
/// B1 to B3; E1: the peer's own reset is the answer.
#[test]
fn the_peers_reset_answers_the_request() {
    let mut fixture = Fixture::new();
    fixture.peer_data(0, 1, 0);
    fixture.sent();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Incoming)), Ok(()));
    assert_eq!(fixture.sent(), ["IN 0 [1]"]);
    fixture.peer_sends(&[fixture.outgoing_answering(0, 0, 0, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
    let reset = Event::InboundReset {
        streams: only(&[1]),
        first_message: 1,
    };
    assert_eq!(
        fixture.events(),
        [answered(Request::ResetIncoming, Result::Performed), reset]
    );
    fixture.advance(10_000);
    assert!(fixture.sent().is_empty(), "the timer was stopped");
}

/// usrsctp answers the request, and sends its own reset later.
#[test]
fn an_explicit_answer_counts_too() {
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.ask(|ask| ask.reset_streams(StreamSelection::All, Incoming)),
        Ok(())
    );
    assert_eq!(fixture.sent(), ["IN 0 all"]);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    fixture.peer_sends(&[fixture.outgoing_answering(0, 0, u32::MAX, &[])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
    assert_eq!(fixture.events().len(), 2);
    assert_eq!(
        fixture.ask(|ask| ask.add_streams(1, 0)),
        Ok(()),
        "nothing is in flight"
    );
}

// A → DATA (stream 1) → Z;  A ← IN 0 all ← Z;  A → OUT 0 answers 0 → Z;  A ← RESPONSE 0 = 1 ← Z
// A ← IN 1 all ← Z;  A → RESPONSE 1 = 0 (nothing to do) → Z
/// A request for a reset of all streams has nothing to do only if no stream has a number above 0.
#[test]
fn all_streams_are_at_zero_only_after_their_reset() {
    let mut fixture = Fixture::new();
    for round in 0..2 {
        let request = 2 * round;
        fixture.say(1);
        fixture.acknowledge(round);
        fixture.sent();
        fixture.peer_sends(&[fixture.incoming(request, &[])]);
        assert!(fixture.sent()[0].starts_with(&format!("OUT {round} answers {request}")));
        fixture.peer_sends(&[fixture.response(round, 1)]);
        fixture.peer_sends(&[fixture.incoming(request + 1, &[])]);
        assert_eq!(fixture.sent(), [format!("RESPONSE {} = 0", request + 1)]);
    }
}

// A → OUT 0 [1] & IN 1 [1] → Z
// A ← RESPONSE 0 = 1 & OUT 0 answers 1 [1] ← Z
// A → RESPONSE 0 = 1 → Z
/// §3.1 combinations 3 and 9.
#[test]
fn both_directions_are_reset_in_one_chunk() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.acknowledge(0);
    fixture.sent();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Both)), Ok(()));
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after 0 [1] & IN 1 [1]"]);
    fixture.say(1);
    fixture.peer_sends(&[
        fixture.response(0, 1),
        fixture.outgoing_answering(0, 1, u32::MAX, &[1]),
    ]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1, DATA 1 (1:0)"]);
    assert_eq!(fixture.events().len(), 3);
}

/// H1: the first of two answers releases its streams, and the timer goes on for the other.
#[test]
fn the_answers_to_two_requests_may_come_one_by_one() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Both)), Ok(()));
    let request = "OUT 0 answers -1 after -1 [1] & IN 1 [1]";
    fixture.say(1);
    assert_eq!(fixture.sent(), [request]);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.sent(), ["DATA 0 (1:0)"]);
    fixture.acknowledge(0);
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), [request]);
    fixture.peer_sends(&[fixture.response(1, 2)]);
    assert_eq!(
        fixture.events(),
        [
            answered(Request::ResetOutgoing, Result::Performed),
            answered(Request::ResetIncoming, Result::Denied)
        ]
    );
    fixture.advance(100_000);
    assert!(fixture.sent().is_empty());
}

// A → DATA 0 (1:0); A ← SACK ← Z
// A ← IN 0 [1] ← Z
// A → OUT 0 answers 0 [1] → Z
// A ← RESPONSE 0 = 1 ← Z
/// F1, F2, A4.
#[test]
fn the_peer_asks_for_a_reset() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.acknowledge(0);
    fixture.sent();
    fixture.peer_sends(&[fixture.incoming(0, &[1])]);
    let request = "OUT 0 answers 0 after 0 [1]";
    assert_eq!(fixture.sent(), [request]);
    fixture.peer_sends(&[fixture.incoming(0, &[1])]);
    assert_eq!(
        fixture.sent(),
        [request],
        "§5.2.1: a retransmission gets the same chunk"
    );
    fixture.say(1);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.sent(), ["DATA 1 (1:0)"]);
    assert_eq!(fixture.events(), [Event::OutboundReset { streams: only(&[1]) }]);
    fixture.peer_sends(&[fixture.incoming(0, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
}

// A → DATA 0 (1:0)
// A ← IN 0 [1] ← Z
// A → RESPONSE 0 = 6 → Z
// A ← ADD-OUT 1 +1 ← Z; A → RESPONSE 1 = 1 → Z
// A ← SACK ← Z
// A → OUT 0 answers 0 [1] → Z
/// Data of the stream is outstanding: the peer is told that its request is in progress. A4: the reset names the request that it answers,
/// although it is not the peer's last one.
#[test]
fn a_request_of_the_peer_waits_for_data() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.sent();
    fixture.peer_sends(&[fixture.incoming(0, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 6"]);
    fixture.peer_sends(&[fixture.add_outgoing(1, 1)]);
    assert_eq!(fixture.sent(), ["RESPONSE 1 = 1"]);
    fixture.acknowledge(0);
    assert_eq!(fixture.sent(), ["OUT 0 answers 0 after 0 [1]"]);
}

/// §5.2.3: a request for streams that are all being reset, or whose next SSN is 0: "Nothing to do".
#[test]
fn nothing_is_left_to_do() {
    let mut fixture = Fixture::new();
    fixture.peer_sends(&[fixture.incoming(0, &[3])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 0"]);
    fixture.say(1);
    fixture.say(2);
    fixture.acknowledge(1);
    assert_eq!(
        fixture.ask(|ask| ask.reset_streams(only(&[1, 2]), Outgoing)),
        Ok(())
    );
    fixture.sent();
    fixture.peer_sends(&[fixture.incoming(1, &[2])]);
    assert_eq!(fixture.sent(), ["RESPONSE 1 = 0"]);
}

// A → OUT 0 [1] → Z
// A ← IN 0 [1 2] ← Z
// A → RESPONSE 0 = 6 → Z
// A ← RESPONSE 0 = 1 ← Z
// A → OUT 1 answers 0 [1 2] → Z
/// §5.2.3: the streams overlap, but not completely: the request is processed, after the one in flight.
#[test]
fn requests_that_cross_are_both_performed() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.say(2);
    fixture.acknowledge(1);
    fixture.sent();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    fixture.sent();
    fixture.peer_sends(&[fixture.incoming(0, &[1, 2])]);
    assert_eq!(
        fixture.sent(),
        ["RESPONSE 0 = 6"],
        "§5.1.1: one request in flight"
    );
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.sent(), ["OUT 1 answers 0 after 1 [1 2]"]);
    fixture.peer_sends(&[fixture.response(1, 1)]);
    assert_eq!(fixture.events().len(), 2);
}

// A ← OUT 0 [1] & IN 1 [1] ← Z
// A → RESPONSE 0 = 1 & OUT 0 answers 1 [1] → Z
/// §5.2.1: several parameters are returned in one chunk.
#[test]
fn the_peer_resets_both_directions() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.acknowledge(0);
    fixture.sent();
    fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[1]), fixture.incoming(1, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1 & OUT 0 answers 1 after 0 [1]"]);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.events().len(), 2);
}

/// A stream that does not exist; and no new messages during a shutdown.
#[test]
fn requests_are_refused() {
    let mut fixture = Fixture::new();
    fixture.peer_sends(&[fixture.incoming(0, &[10])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 3"]);
    fixture.say(1);
    fixture.sent();
    fixture.script.act(|association, now| association.shutdown(now));
    fixture.peer_sends(&[fixture.incoming(1, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 1 = 2"]);
    fixture.peer_sends(&[fixture.outgoing(2, u32::MAX, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 2 = 1"], "the peer may still send");
}

// A → IN 0 [1] → Z
// A ← IN 0 [1] ← Z
// A → RESPONSE 0 = 4 → Z
/// Each endpoint would wait until the other has reset its streams: requests for incoming resets that cross are refused.
#[test]
fn incoming_requests_that_cross_do_not_block_each_other() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.acknowledge(0);
    fixture.sent();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Incoming)), Ok(()));
    assert_eq!(fixture.sent(), ["IN 0 [1]"]);
    fixture.peer_sends(&[fixture.incoming(0, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 4"]);
    fixture.peer_sends(&[fixture.response(0, 4)]);
    assert_eq!(
        fixture.events(),
        [answered(Request::ResetIncoming, Result::AlreadyInProgress)]
    );
}

// A → IN 0 [0 to 999] → Z
// A ← RESPONSE 0 = 2 ← Z
/// A request for a reset of so many streams that the answer would not fit a packet is denied: the peer could draw the answer again and
/// again with a request that lists no stream.
#[test]
fn a_request_whose_answer_fits_no_packet_is_denied() {
    let mut fixture = Fixture::with_parameters(config(), 2000, lists(&[kind::RE_CONFIG]));
    fixture.say(1);
    fixture.acknowledge(0);
    fixture.sent();
    let streams: Vec<u16> = (0..1000).collect();
    fixture.peer_sends(&[fixture.incoming(0, &streams)]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 2"]);
    fixture.peer_sends(&[fixture.incoming(1, &streams[..500])]);
    fixture.peer_sends(&[fixture.incoming(1, &[])]);
    let answers = fixture.sent();
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| answer.starts_with("OUT 0 answers 1")));
}

/// The most streams that a request may list fit a packet, also with the AUTH chunk that the peer demands.
#[test]
fn the_longest_list_fits_a_packet() {
    for signed in [false, true] {
        let mut config = config();
        config.authentication = Some(AuthenticationConfig::default());
        let most = usize::from(config.path_mtu) - 20 - 8;
        let kinds = Parameter::SupportedExtensions(Bytes::from_static(&[kind::RE_CONFIG, kind::AUTH]));
        let types: &[u8] = if signed { &[kind::RE_CONFIG] } else { &[kind::DATA] };
        let parameters = authentication_parameters(ParametersBuilder::new().push(&kinds), types);
        let mut fixture = Fixture::with_parameters(config, 2000, parameters.finish());
        let mut requests = 0;
        for direction in [Incoming, Outgoing, Both] {
            let all: Vec<u16> = (0..2000).collect();
            let asked = fixture.ask(|ask| ask.reset_streams(only(&all), direction));
            let Err(ReconfigurationError::TooManyStreams { limit }) = asked else {
                panic!("{asked:?}")
            };
            assert_eq!(
                fixture.ask(|ask| ask.reset_streams(only(&all[..limit]), direction)),
                Ok(())
            );
            let answer = fixture.script.expect();
            let auth_len = if signed { 40 } else { 0 };
            let Some(Chunk::ReConfig(chunk)) = answer.chunks.last() else {
                panic!("RE-CONFIG")
            };
            assert_eq!(answer.chunks.len(), 1 + usize::from(signed));
            let len = 12 + auth_len + padded(chunk.encoded_len());
            assert!(len <= most && len + 32 > most, "{len} of {most}");
            let parameters = 1 + u32::from(direction == Both);
            let first = requests;
            requests += parameters;
            for number in first..requests {
                fixture.peer_sends(&[fixture.response(number, 2)]);
            }
            fixture.sent();
        }
    }
}
