//! SSN/TSN Reset Requests: §5.1.4 C1 to C4, §5.1.7 D3 and D4, §5.2.4 G1 to G7, §5.2.7 H5.

use anabranch_proto::{
    CloseReason, MultipathMode, ReconfigurationError, ReconfigurationEvent as Event,
    ReconfigurationRequest as Request, ReconfigurationResult as Result, ResetDirection::Outgoing,
};
use anabranch_wire::Tsn;
use anabranch_wire::chunk::{ExperimentalChunkTypes, kind};
use anabranch_wire::parameter::Parameter;

use crate::fixture::{Fixture, config, only};

/// 2³¹ after a TSN, as the fixture prints it.
const HALF: u32 = 1 << 31;

impl Fixture {
    /// The peer's answer with its next TSN and the endpoint's.
    fn performed(&self, sequence: u32, of_peer: u32, own: u32) -> Parameter {
        Parameter::ReConfigResponse {
            sequence: self.own.wrapping_add(sequence),
            result: 1,
            next_tsns: Some((
                Tsn(self.peer.wrapping_add(of_peer)),
                Tsn(self.own.wrapping_add(own)),
            )),
        }
    }
}

// A → DATA 0 (1:0), not acknowledged
// A: the application asks for the reset
// A ← SACK ← Z
// A → TSN 0 → Z
// A ← RESPONSE 0 = 1, next TSNs ← Z
// A → DATA (1:0) with the TSN that the peer chose → Z
/// C1 to C4, H5.
#[test]
fn tsns_and_ssns_begin_anew() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    assert_eq!(fixture.sent(), ["DATA 0 (1:0)"]);
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.say(1);
    assert!(
        fixture.sent().is_empty(),
        "C2: nothing may be outstanding, new data waits"
    );
    fixture.acknowledge(0);
    assert_eq!(fixture.sent(), ["TSN 0"]);
    fixture.say(2);
    assert!(fixture.sent().is_empty());
    fixture.peer_sends(&[fixture.performed(0, 0, HALF + 1)]);
    let half = i32::MIN + 1;
    assert_eq!(
        fixture.sent(),
        [format!("DATA {half} (1:0), DATA {} (2:0)", half + 1)]
    );
    assert_eq!(
        fixture.events(),
        [
            Event::AssociationReset { first_message: 0 },
            Event::Answered {
                request: Request::ResetAssociation,
                result: Result::Performed
            }
        ]
    );
    // A SACK of before the reset is late.
    fixture.acknowledge(0);
    assert!(
        !fixture
            .script
            .events()
            .iter()
            .any(|event| matches!(event, anabranch_proto::Event::Closed(_)))
    );
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 14);
    fixture.acknowledge(HALF + 2);
    assert_eq!(fixture.script.association().stats().outstanding_bytes, 0);
}

// A → TSN 0 → Z
// A ← DATA 1 (1:1), sent before the reset; DATA 2 (1:0), sent after it ← Z
// A ← RESPONSE 0 = 1, next TSN 2 ← Z
/// Data after the reset may overtake the response: data waits for it.
#[test]
fn data_that_overtakes_the_response_waits() {
    let mut fixture = Fixture::new();
    fixture.script.talker().reading = false;
    fixture.peer_data(0, 1, 0);
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.peer_data(1, 1, 1);
    fixture.peer_data(2, 1, 0);
    assert_eq!(fixture.read().len(), 1);
    fixture.peer_sends(&[fixture.performed(0, 2, HALF)]);
    let read: Vec<_> = fixture.read().into_iter().map(|(text, _)| text).collect();
    assert_eq!(read, ["1:1 1", "1:0 2"]);
    assert_eq!(fixture.events()[0], Event::AssociationReset { first_message: 2 });
    fixture.peer_data(3, 1, 1);
    assert_eq!(fixture.read().len(), 1);
}

// A → TSN 0 → Z
// A ← DATA 0 (1:0), 1 (1:1) ← Z
// A ← RESPONSE 0 = 6, next TSN 1 ← Z: DATA 0 was sent before the reset
/// While the peer answers "In progress", data below its next TSN is read: otherwise it could fill the receive window, and the peer would
/// never be able to reset its TSNs.
#[test]
fn data_does_not_wait_for_a_reset_in_progress() {
    let mut fixture = Fixture::new();
    fixture.script.talker().reading = false;
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.peer_data(0, 1, 0);
    fixture.peer_data(1, 1, 1);
    assert_eq!(fixture.read().len(), 0);
    let Parameter::ReConfigResponse {
        sequence, next_tsns, ..
    } = fixture.performed(0, 1, 0)
    else {
        unreachable!("a response")
    };
    let in_progress = Parameter::ReConfigResponse {
        sequence,
        result: 6,
        next_tsns,
    };
    fixture.peer_sends(&[in_progress]);
    assert_eq!(fixture.read().len(), 1);
}

// A → DATA 0 (1:0), DATA 1 (1:0) of a message that has begun
// A ← TSN 0 ← Z; A → RESPONSE 0 = 6, next TSN 1 → Z
// A → DATA 1 (1:0), its end; A ← TSN 0 ← Z; A → RESPONSE 0 = 6, next TSN 2 → Z
/// Each "In progress" has the current next TSN.
#[test]
fn in_progress_names_the_next_tsn() {
    let mut fixture = Fixture::new();
    let part = |fixture: &mut Fixture, end| {
        fixture.script.act(|association, now| {
            let options = anabranch_proto::SendOptions::default();
            let stream = anabranch_proto::StreamId(1);
            association
                .send_part(now, stream, vec![7; 2000].into(), options, end)
                .expect("send");
        });
    };
    part(&mut fixture, false);
    let sent = fixture.sent().len() as u32;
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    assert_eq!(fixture.sent(), [format!("RESPONSE 0 = 6 {sent} 0")]);
    part(&mut fixture, true);
    fixture.acknowledge(sent - 1);
    let more = fixture.sent().len() as u32;
    assert!(more > 0);
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    let next = fixture.script.association().counters().data_chunks_sent;
    assert_eq!(fixture.sent(), [format!("RESPONSE 0 = 6 {next} 0")]);
}

// A → TSN 0 → Z
// A ← SACK of after the reset ← Z (the response is lost)
// A ← RESPONSE 0 = 1 ← Z
/// An acknowledgement may overtake the response too: it is ignored, because nothing is outstanding.
#[test]
fn acknowledgements_may_overtake_the_response() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.say(1);
    fixture.acknowledge(HALF - 1);
    fixture.sent();
    fixture.peer_sends(&[fixture.performed(0, 0, HALF)]);
    assert_eq!(fixture.sent(), [format!("DATA {} (1:0)", i32::MIN)]);
}

/// C2: data of any stream must be acknowledged.
#[test]
fn tsns_wait_for_all_data() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_streams(only(&[1]), Outgoing)), Ok(()));
    fixture.peer_sends(&[fixture.response(0, 1)]);
    fixture.say(2);
    fixture.sent();
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    assert!(fixture.sent().is_empty());
}

/// A late chunk of before the reset is dropped without an answer: its TSN would be reported as a duplicate of one that the peer may
/// use again.
#[test]
fn old_data_gets_no_answer() {
    let mut fixture = Fixture::new();
    fixture.peer_data(0, 1, 0);
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    fixture.script.skip_answers();
    fixture.peer_data(0, 1, 0);
    fixture.script.expect_silence();
}

// A → TSN 0 → Z, lost; A: the application asks for the shutdown
// A → SHUTDOWN → Z
// A → TSN 0 → Z (timer)
/// In SHUTDOWN-SENT the peer may still send data, which waits for the response: the request is retransmitted.
#[test]
fn the_request_is_retransmitted_in_shutdown_sent() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.script.act(|association, now| association.shutdown(now));
    fixture.sent();
    fixture.advance(1_500);
    assert!(fixture.sent().iter().any(|packet| packet.contains("TSN 0")));
}

#[test]
fn a_denied_reset_changes_nothing() {
    let mut fixture = Fixture::new();
    fixture.script.talker().reading = false;
    fixture.say(1);
    fixture.acknowledge(0);
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.say(1);
    fixture.peer_data(0, 1, 0);
    fixture.sent();
    fixture.peer_sends(&[fixture.response(0, 2)]);
    assert_eq!(fixture.sent(), ["DATA 1 (1:1)"]);
    assert_eq!(fixture.read().len(), 1);
}

/// D3, D4: without the TSNs, the two endpoints would not agree on them any more.
#[test]
fn a_response_without_tsns_is_a_violation() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.peer_sends(&[fixture.response(0, 1)]);
    let events = fixture.script.events();
    assert!(
        matches!(
            events.last(),
            Some(anabranch_proto::Event::Closed(CloseReason::ProtocolViolation(_)))
        ),
        "{events:?}"
    );
}

// A ← DATA 0 (1:0) ← Z
// A ← TSN 0 ← Z
// A → RESPONSE 0 = 1, next TSNs 1 and 2³¹ + 1 → Z
// A ← DATA 2³¹ + 1 (1:0) ← Z
/// G1, G2, G5, G6.
#[test]
fn the_peer_resets_the_tsns() {
    let mut fixture = Fixture::new();
    fixture.script.talker().reading = false;
    fixture.say(1);
    fixture.acknowledge(0);
    fixture.peer_data(0, 1, 0);
    fixture.sent();
    let answer = format!("RESPONSE 0 = 1 1 {}", i32::MIN + 1);
    for _ in 0..2 {
        fixture.peer_sends(&[fixture.tsn_reset(0)]);
        assert_eq!(fixture.sent(), [answer.as_str()], "G1, G2; and again");
    }
    assert_eq!(fixture.events(), [Event::AssociationReset { first_message: 1 }]);
    fixture.peer_data(0, 1, 0);
    fixture.peer_data(HALF + 1, 1, 0);
    let read: Vec<_> = fixture.read().into_iter().map(|(text, _)| text).collect();
    assert_eq!(
        read,
        ["1:0 0".to_owned(), format!("1:0 {}", HALF + 1)],
        "the old TSN is dropped"
    );
    fixture.say(1);
    assert_eq!(fixture.sent(), ["DATA 1 (1:0)"], "G5");
}

// A → DATA 0 (1:0)
// A ← TSN 0 ← Z
// A → RESPONSE 0 = 6 → Z
// A ← SACK ← Z
// A → RESPONSE 0 = 1 → Z
/// G3 would lose outstanding data: the reset waits until nothing is outstanding.
#[test]
fn the_reset_waits_for_outstanding_data() {
    let mut fixture = Fixture::new();
    fixture.say(1);
    fixture.sent();
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 6 1 0"]);
    fixture.say(1);
    assert!(fixture.sent().is_empty());
    fixture.acknowledge(0);
    assert_eq!(
        fixture.sent(),
        [format!("RESPONSE 0 = 1 1 {}, DATA 1 (1:0)", i32::MIN)]
    );
}

/// §5.1.4: one reset within 30 s, at both endpoints. Otherwise the TSNs would be those of before the last reset.
#[test]
fn resets_have_a_distance() {
    let mut fixture = Fixture::new();
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    fixture.advance(29_000);
    fixture.peer_sends(&[fixture.tsn_reset(1)]);
    assert_eq!(fixture.sent()[1..], [format!("RESPONSE 1 = 2 0 {}", i32::MIN)]);
    assert_eq!(
        fixture.ask(|ask| ask.reset_association()),
        Err(ReconfigurationError::AssociationReset)
    );
    fixture.advance(2_000);
    fixture.peer_sends(&[fixture.tsn_reset(2)]);
    assert_eq!(fixture.sent(), ["RESPONSE 2 = 1 0 0"]);
}

/// Both endpoints ask: each tells the other that its own request is in progress.
#[test]
fn two_resets_that_cross_both_fail() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(|ask| ask.reset_association()), Ok(()));
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    assert_eq!(fixture.sent(), ["TSN 0", "RESPONSE 0 = 4 0 0"]);
}

/// The configuration may forbid it.
#[test]
fn resets_may_be_denied() {
    let mut config = config();
    config.reconfiguration.association_reset = false;
    let mut fixture = Fixture::with(config, &[kind::RE_CONFIG]);
    fixture.peer_sends(&[fixture.tsn_reset(0)]);
    assert_eq!(fixture.sent(), ["RESPONSE 0 = 2 0 0"]);
}

/// COOP-SACK and FORWARD-PSN name transmissions, and a late one would be about TSNs of before the reset: with ECA-SCTP there is no reset.
#[test]
fn eca_sctp_denies_resets_of_tsns() {
    for (mode, response) in [
        (MultipathMode::Cmt, "RESPONSE 0 = 1"),
        (MultipathMode::Eca, "RESPONSE 0 = 2"),
    ] {
        let mut config = config();
        config.multipath.mode = mode;
        let own = ExperimentalChunkTypes::default();
        let kinds = [
            own.e_data,
            own.e_i_data,
            own.coop_sack,
            own.forward_psn,
            kind::RE_CONFIG,
        ];
        let mut fixture = Fixture::with(config, &kinds);
        assert_eq!(
            fixture.script.association().stats().extensions.eca,
            mode == MultipathMode::Eca
        );
        fixture.peer_sends(&[fixture.tsn_reset(0)]);
        let sent = fixture.sent();
        assert!(sent.len() == 1 && sent[0].starts_with(response), "{sent:?}");
        if mode == MultipathMode::Eca {
            let asked = fixture.ask(|ask| ask.reset_association());
            assert_eq!(asked, Err(ReconfigurationError::AssociationReset));
        }
    }
}
