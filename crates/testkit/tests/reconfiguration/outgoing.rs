//! Outgoing SSN Reset Requests: §5.1.2 A1 to A6, §5.2.2 E1 to E6, §5.2.7 H4.

use anabranch_proto::{
    ReconfigurationError, ReconfigurationEvent as Event, ReconfigurationRequest, ReconfigurationResult,
    Reliability, ResetDirection::Outgoing, SendOptions, StreamId, StreamSelection,
};
use anabranch_wire::chunk::kind;
use bytes::Bytes;

use crate::fixture::{Fixture, config, only};

fn answered(result: ReconfigurationResult) -> Event {
    Event::Answered {
        request: ReconfigurationRequest::ResetOutgoing,
        result,
    }
}

// A → DATA (1:0); A ← SACK ← Z
// A → OUT 0 [1] → Z
// A ← RESPONSE 0 = 1 ← Z
// A → DATA (1:0) → Z
/// A1 to A4, H4: messages given to `send` after the request wait, and begin with SSN 0. Other streams go on.
#[test]
fn a_stream_begins_with_ssn_0_after_its_reset() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.acknowledge(0);
    assert_eq!(fixture.sent(), ["DATA 0 (1:0)"]);
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after 0 [1]"]);
    fixture.say(1);
    fixture.say(2);
    fixture.say(1);
    assert_eq!(fixture.sent(), ["DATA 1 (2:0)"], "A1: stream 1 waits");
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.events(), [answered(ReconfigurationResult::Performed)]);
    assert_eq!(fixture.sent(), ["DATA 2 (1:0), DATA 3 (1:1)"]);
}

/// A4: no streams are listed if all are to be reset.
#[test]
fn all_streams_are_reset_at_once() {
    let mut fixture = Fixture::new();
    for stream in [1, 1, 7] {
        fixture.say(stream);
    }
    fixture.acknowledge(2);
    fixture.sent();
    assert_eq!(
        fixture.ask(|ask| ask.reset_streams(StreamSelection::All, Outgoing)),
        Ok(())
    );
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after 2 all"]);
    fixture.say(7);
    fixture.say(1);
    assert!(fixture.sent().is_empty());
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.sent(), ["DATA 3 (7:0), DATA 4 (1:0)"]);
}

// A → DATA (1:0), not acknowledged
// A: the application asks for the reset; nothing is sent
// A ← SACK ← Z
// A → OUT 0 after 0 [1] → Z
/// The reset waits until data of the stream is acknowledged, so that nothing about the old SSNs can arrive after it.
#[test]
fn the_request_waits_for_unacknowledged_data() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.sent();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    fixture.say(1);
    assert!(fixture.sent().is_empty());
    fixture.acknowledge(0);
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after 0 [1]"]);
}

/// The messages of before the request are sent before it, even if a part of one is given later.
#[test]
fn a_message_that_has_begun_is_ended_first() {
    let mut fixture = Fixture::new();
    let part = |fixture: &mut Fixture, end| {
        fixture.script.act(|association, now| {
            let part = Bytes::from_static(b"part");
            association
                .send_part(now, StreamId(1), part, SendOptions::default(), end)
                .expect("send");
        });
    };
    part(&mut fixture, false);
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    part(&mut fixture, true);
    assert_eq!(fixture.sent(), ["DATA 0 (1:0), DATA 1 (1:0)"]);
    fixture.acknowledge(1);
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after 1 [1]"]);
}

// A → DATA 0 (1:0) (lost); T3; A → FORWARD-TSN 0 → Z
// A ← SACK 0 ← Z; A → OUT 0 → Z
/// With partial reliability: the reset waits until the peer has acknowledged the FORWARD-TSN, which names an SSN of before the reset.
#[test]
fn the_request_waits_for_forward_tsn() {
    let mut config = config();
    config.partial_reliability.offer = true;
    let mut fixture = Fixture::with(config, &[kind::RE_CONFIG, kind::FORWARD_TSN]);
    let once = SendOptions::default().reliability(Reliability::Retransmissions(0));
    fixture.say_with(1, once);
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    fixture.sent();
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["FORWARD-TSN 0"]);
    fixture.acknowledge(0);
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after 0 [1]"]);
}

/// H3: if the peer denies the request, the messages that waited go on with the next SSN.
#[test]
fn a_denied_request_changes_nothing() {
    for (result, told) in [
        (2, ReconfigurationResult::Denied),
        (3, ReconfigurationResult::WrongSsn),
        (4, ReconfigurationResult::AlreadyInProgress),
        (5, ReconfigurationResult::BadSequenceNumber),
        (77, ReconfigurationResult::Failed(77)),
    ] {
        let mut fixture = Fixture::new();
        fixture.say(1);
        fixture.acknowledge(0);
        assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
        fixture.say(1);
        fixture.sent();
        fixture.peer_sends(&[fixture.response(0, result)]);
        assert_eq!(fixture.sent(), ["DATA 1 (1:1)"]);
        assert_eq!(fixture.events(), [answered(told)]);
    }
}

/// RFC 8260 with RFC 6525: the MIDs of ordered and of unordered messages begin with 0.
#[test]
fn mids_are_reset() {
    let mut config = config();
    config.interleaving.offer = true;
    let mut fixture = Fixture::with(config, &[kind::RE_CONFIG, kind::I_DATA]);
    let unordered = SendOptions::default().unordered(true);
    fixture.say(1);
    fixture.say_with(1, unordered);
    fixture.acknowledge(1);
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    fixture.say(1);
    fixture.say_with(1, unordered);
    fixture.say_with(1, unordered);
    assert_eq!(
        fixture.sent(),
        [
            "I-DATA 0 (1:0)",
            "I-DATA 1 (1:u0)",
            "OUT 0 answers -1 after 1 [1]"
        ]
    );
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(
        fixture.sent(),
        ["I-DATA 2 (1:0), I-DATA 3 (1:u0), I-DATA 4 (1:u1)"]
    );
}

// A ← DATA 0 (1:0), 1 (1:1) ← Z
// A ← OUT 0 after 1 [1] ← Z
// A → RESPONSE 0 = 1 → Z
// A ← DATA 2 (1:0) ← Z
/// E3, E5: the next SSN is 0; the event names the first message after the reset. A SACK is sent with the response (§5.2.1).
#[test]
fn the_peer_resets_a_stream() {
    let mut fixture = Fixture::new();
    fixture.script.talker().reading = false;
    fixture.peer_data(0, 1, 0);
    fixture.peer_data(1, 1, 1);
    fixture.script.skip_answers();
    fixture.peer_sends(&[fixture.outgoing(0, 1, &[1])]);
    let answer = fixture.script.expect();
    let sacks = answer
        .chunks
        .iter()
        .filter(|chunk| chunk.kind() == kind::SACK)
        .count();
    assert_eq!((answer.chunks.len(), sacks), (2, 1), "{answer:?}");
    fixture.peer_sends(&[fixture.outgoing(0, 1, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"], "the same answer again");
    fixture.peer_data(2, 1, 0);
    let reset = Event::InboundReset {
        streams: only(&[1]),
        first_message: 2,
    };
    assert_eq!(fixture.events(), [reset], "one event");
    let read = fixture.read();
    let read: Vec<_> = read
        .iter()
        .map(|(text, number)| (text.as_str(), *number))
        .collect();
    assert_eq!(read, [("1:0 0", 0), ("1:1 1", 1), ("1:0 2", 2)]);
}

/// E3: streams that are not listed keep their SSNs; without a list, all streams are reset.
#[test]
fn only_the_listed_streams_are_reset() {
    let mut fixture = Fixture::new();
    fixture.peer_data(0, 1, 0);
    fixture.peer_data(1, 2, 0);
    fixture.peer_sends(&[fixture.outgoing(0, 1, &[1])]);
    fixture.peer_data(2, 2, 1);
    fixture.peer_data(3, 1, 0);
    assert_eq!(fixture.script.messages().len(), 4);
    fixture.peer_sends(&[fixture.outgoing(1, 3, &[])]);
    fixture.peer_data(4, 2, 0);
    fixture.peer_data(5, 1, 0);
    assert_eq!(fixture.script.messages().len(), 2);
    let streams: Vec<_> = fixture.events().into_iter().collect();
    assert!(matches!(
        &streams[1],
        Event::InboundReset {
            streams: StreamSelection::All,
            first_message: 4
        }
    ));
}

// A ← DATA 1 (1:1) ← Z (DATA 0 is lost)
// A ← OUT 0 after 1 [1] ← Z
// A → RESPONSE 0 = 6 → Z
// A ← DATA 2 (1:0), 3 (2:0) ← Z: the first waits
// A ← DATA 0 (1:0) ← Z
// A → RESPONSE 0 = 1 → Z
/// E2, E4: the reset is deferred until all data of before it has arrived. Data of the stream beyond it waits, other streams do not.
#[test]
fn the_reset_is_deferred() {
    let mut fixture = Fixture::new();
    fixture.script.talker().reading = false;
    fixture.peer_data(1, 1, 1);
    fixture.peer_sends(&[fixture.outgoing(0, 1, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 6"]);
    fixture.peer_data(2, 1, 0);
    fixture.peer_data(3, 2, 0);
    assert!(fixture.events().is_empty());
    assert_eq!(fixture.read().len(), 1, "only stream 2");
    fixture.peer_sends(&[fixture.outgoing(0, 1, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 6"]);
    fixture.peer_data(0, 1, 0);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
    let read: Vec<_> = fixture.read().into_iter().map(|(text, _)| text).collect();
    assert_eq!(read, ["1:0 0", "1:1 1", "1:0 2"]);
    assert!(matches!(&fixture.events()[..], [Event::InboundReset { .. }]));
    fixture.peer_sends(&[fixture.outgoing(0, 1, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
}

/// A stream that does not exist: result 3. A Sender's Last Assigned TSN that no sender can have reached: denied.
#[test]
fn requests_that_cannot_be_right_are_refused() {
    let mut fixture = Fixture::new();
    fixture.peer_sends(&[fixture.outgoing(0, u32::MAX, &[1, 10])]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 3"]);
    fixture.peer_sends(&[fixture.outgoing(1, 70_000, &[1])]);
    assert_eq!(fixture.sent(), ["RESPONSE 1 = 2"]);
    assert!(fixture.events().is_empty());
}

/// Errors of the caller.
#[test]
fn requests_of_the_application_are_checked() {
    let mut fixture = Fixture::new();
    let mut ask = |streams: StreamSelection| fixture.ask(|ask| ask.reset_streams(streams, Outgoing));
    assert_eq!(ask(only(&[])), Err(ReconfigurationError::Empty));
    assert_eq!(
        ask(only(&[3, 10])),
        Err(ReconfigurationError::InvalidStream(StreamId(10)))
    );
    assert_eq!(ask(only(&[3, 3])), Ok(()));
    assert_eq!(ask(only(&[4])), Err(ReconfigurationError::InProgress));
    assert_eq!(fixture.sent(), ["OUT 0 answers -1 after -1 [3]"]);
    let mut fixture = Fixture::with(config(), &[]);
    let refused = fixture.ask(|ask| ask.reset_streams(StreamSelection::All, Outgoing));
    assert_eq!(refused, Err(ReconfigurationError::NotSupported));
    let mut fixture = Fixture::new();
    fixture.script.act(|association, now| association.shutdown(now));
    let refused = fixture.ask(|ask| ask.reset_streams(StreamSelection::All, Outgoing));
    assert_eq!(refused, Err(ReconfigurationError::Closed));
}
