//! Added streams: §5.1.5, §5.1.6, §5.2.5, §5.2.6, §5.2.7 H6.

use anabranch_proto::{
    Config, ReconfigurationError, ReconfigurationEvent as Event, ReconfigurationRequest as Request,
    ReconfigurationResult as Result, SendError, SendOptions, StreamId,
};
use anabranch_wire::chunk::kind;

use crate::fixture::{Fixture, config};

fn added(outbound_streams: u16, inbound_streams: u16) -> Event {
    Event::StreamsAdded {
        outbound_streams,
        inbound_streams,
    }
}

// A → ADD-OUT 0 +2 → Z
// A ← RESPONSE 0 = 1 ← Z
// A → DATA 0 (11:0) → Z
/// §5.1.5, H6: the new streams are used only after a positive answer, and begin with SSN 0.
#[test]
fn outgoing_streams_are_added() {
    let mut fixture = Fixture::new();
    let send = |fixture: &mut Fixture| {
        fixture.script.act(|association, now| {
            association
                .send(now, StreamId(11), "x".into(), SendOptions::default())
                .map(|_| ())
        })
    };
    assert_eq!(fixture.ask(|ask| ask.add_streams(2, 0)), Ok(()));
    assert_eq!(fixture.sent(), ["ADD-OUT 0 +2"]);
    let invalid = SendError::InvalidStream {
        stream: StreamId(11),
        streams: 10,
    };
    assert_eq!(send(&mut fixture), Err(invalid));
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(send(&mut fixture), Ok(()));
    assert_eq!(fixture.sent(), ["DATA 0 (11:0)"]);
    let answered = Event::Answered {
        request: Request::AddOutgoing,
        result: Result::Performed,
    };
    assert_eq!(fixture.events(), [added(12, 10), answered]);
}

#[test]
fn denied_streams_are_not_added() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.add_streams(2, 0)), Ok(()));
    fixture.peer_sends(&[fixture.response(0, 2)]);
    assert_eq!(fixture.script.association().outbound_streams(), 10);
    assert_eq!(fixture.events().len(), 1);
}

// A ← ADD-OUT 0 +2 ← Z
// A → RESPONSE 0 = 1 → Z
// A ← DATA 0 (11:0) ← Z
/// §5.2.5.
#[test]
fn the_peer_adds_streams() {
    let mut fixture = Fixture::new();
    for _ in 0..2 {
        fixture.peer_sends(&[fixture.add_outgoing(0, 2)]);
        assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
    }
    assert_eq!(fixture.events(), [added(10, 12)], "a retransmission adds nothing");
    fixture.peer_data(0, 11, 0);
    assert_eq!(fixture.script.messages().len(), 1);
}

/// §5.2.5: the request is denied if the number of streams would exceed the limit; the limit itself is allowed.
#[test]
fn the_number_of_streams_has_a_limit() {
    let mut config = config();
    config.streams.max_inbound = 12;
    config.reconfiguration.max_outbound = 12;
    let mut fixture = Fixture::with(config, &[kind::RE_CONFIG]);
    for (request, count, result) in [(0, 3, 2), (1, 65_535, 2), (2, 2, 1), (3, 1, 2), (4, 0, 0)] {
        fixture.peer_sends(&[fixture.add_outgoing(request, count)]);
        assert_eq!(fixture.sent(), [format!("RESPONSE {request} = {result}")]);
    }
    for (request, count, result) in [(5, 3, 2), (6, 65_535, 2), (7, 0, 0)] {
        fixture.peer_sends(&[fixture.add_incoming(request, count)]);
        assert_eq!(fixture.sent(), [format!("RESPONSE {request} = {result}")]);
    }
    fixture.peer_sends(&[fixture.add_incoming(8, 2)]);
    assert_eq!(fixture.sent(), ["RESPONSE 8 = 1, ADD-OUT 0 +2"]);
    fixture.peer_sends(&[fixture.add_incoming(9, 1)]);
    assert_eq!(fixture.sent(), ["RESPONSE 9 = 2"], "those in flight count");
}

// A ← ADD-IN 0 +2 ← Z
// A → RESPONSE 0 = 1, ADD-OUT 0 +2 → Z
// A ← RESPONSE 0 = 1 ← Z
/// §5.2.6.
#[test]
fn the_peer_asks_for_streams() {
    let mut fixture = Fixture::new();
    fixture.peer_sends(&[fixture.add_incoming(0, 2)]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1, ADD-OUT 0 +2"]);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    assert_eq!(fixture.events(), [added(12, 10)]);
}

// A → ADD-OUT 0 +1 & ADD-IN 1 +2 → Z
// A ← RESPONSE 0 = 1 ← Z
// A ← ADD-OUT 0 +2 ← Z
/// §3.1 combination 7; the peer's own request is an answer too (§5.2.6).
#[test]
fn both_directions_are_added_in_one_chunk() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.add_streams(1, 2)), Ok(()));
    assert_eq!(fixture.sent(), ["ADD-OUT 0 +1 & ADD-IN 1 +2"]);
    fixture.peer_sends(&[fixture.response(0, 1)]);
    fixture.peer_sends(&[fixture.add_outgoing(0, 2)]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 1"]);
    assert_eq!(fixture.events().len(), 4);
    fixture.advance(10_000);
    assert!(fixture.sent().is_empty(), "the timer was stopped");
}

#[test]
fn requests_of_the_application_are_checked() {
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.ask(|ask| ask.add_streams(0, 0)),
        Err(ReconfigurationError::Empty)
    );
    for (out, incoming) in [(65_526, 0), (0, 65_526)] {
        let refused = fixture.ask(|ask| ask.add_streams(out, incoming));
        assert_eq!(refused, Err(ReconfigurationError::TooManyAdded));
    }
    assert_eq!(fixture.ask(|ask| ask.add_streams(65_525, 65_525)), Ok(()));
}

/// Offered by default; not by the presets without extensions.
#[test]
fn reconfiguration_is_offered_by_default() {
    let offers = |config: Config| config.reconfiguration.offer;
    assert!(offers(Config::default()) && offers(Config::rfc9260()) && offers(Config::low_latency()));
    assert!(!offers(Config::default().without_extensions()));
    let fixture = Fixture::new();
    assert!(fixture.script.association().stats().extensions.reconfiguration);
    let fixture = Fixture::with(config(), &[]);
    assert!(!fixture.script.association().stats().extensions.reconfiguration);
}
