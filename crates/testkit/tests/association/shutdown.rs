//! The end of an association (RFC 9260 §9), by shutdown and by ABORT, with the packets of each test drawn.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{AssociationState as State, CloseReason, Config, Event, SendOptions, StreamId};
use anabranch_testkit::{Ledger, PORT, Script, Setup, Side, quiet, sack, shutdown_chunk, state_cookie};
use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk, CookieEcho, ErrorChunk, ShutdownComplete};
use anabranch_wire::parameter::Parameters;
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const COMPLETE: Chunk = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false });

fn established(config: Config) -> Script {
    let mut script = Script::new(config, 1);
    script.set_up();
    script.events();
    script
}

fn send(script: &mut Script, message: &'static [u8], context: u64) {
    script.act(|association, now| {
        let options = SendOptions::default().context(context);
        association
            .send(now, StreamId(0), Bytes::from_static(message), options)
            .expect("send");
    });
}

fn begin_shutdown(script: &mut Script) {
    script.act(|association, now| association.shutdown(now));
}

/// Checks the last event, and that no message was lost.
#[track_caller]
fn expect_closed(script: &mut Script, reason: CloseReason) {
    let events = script.events();
    assert_eq!(events.last(), Some(&Event::Closed(reason)), "{events:?}");
    let undelivered = |event: &Event| matches!(event, Event::Undelivered(_));
    assert!(!events.iter().any(undelivered), "{events:?}");
}

// A → SHUTDOWN → Z
// A ← SHUTDOWN ACK ← Z
// A → SHUTDOWN COMPLETE → Z
/// §9.2, ESTABLISHED → SHUTDOWN-PENDING → SHUTDOWN-SENT → CLOSED.
#[test]
fn the_endpoint_shuts_down() {
    let mut script = established(quiet());
    begin_shutdown(&mut script);
    assert_eq!(script.expect_chunk(), shutdown_chunk(script.tsn.minus(1)));
    assert_eq!(script.association().state(), State::ShutdownSent);
    script.send(&[Chunk::ShutdownAck]);
    let last = script.expect();
    assert_eq!(last.header.verification_tag, script.tag);
    assert_eq!(last.only(), COMPLETE);
    expect_closed(&mut script, CloseReason::Shutdown);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z
// A ← SHUTDOWN COMPLETE ← Z
/// §9.2, ESTABLISHED → SHUTDOWN-RECEIVED → SHUTDOWN-ACK-SENT → CLOSED.
#[test]
fn the_peer_shuts_down() {
    let mut script = established(quiet());
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    assert_eq!(script.association().state(), State::ShutdownAckSent);
    assert_eq!(script.events(), [Event::PeerShutdown]);
    script.send(&[COMPLETE]);
    script.expect_silence();
    expect_closed(&mut script, CloseReason::Shutdown);
}

// A → DATA → Z
// A: the application asks for the shutdown, nothing is sent
// A ← SACK ← Z
// A → SHUTDOWN → Z
/// §9.2: SHUTDOWN waits in SHUTDOWN-PENDING until all data is acknowledged, and no more messages are accepted.
#[test]
fn shutdown_waits_for_outstanding_data() {
    let mut script = established(quiet());
    send(&mut script, b"last words", 0);
    assert_eq!(script.expect().data().count(), 1);
    begin_shutdown(&mut script);
    script.expect_silence();
    assert_eq!(script.association().state(), State::ShutdownPending);
    let refused =
        script.act(|association, now| association.send(now, StreamId(0), "x".into(), SendOptions::default()));
    assert_eq!(refused, Err(anabranch_proto::SendError::Closed));
    script.send(&[sack(script.endpoint_tsn)]);
    assert_eq!(script.expect_chunk(), shutdown_chunk(script.tsn.minus(1)));
    assert_eq!(script.association().state(), State::ShutdownSent);
}

// A → DATA → Z
// A ← SHUTDOWN (DATA not acknowledged) ← Z
// A → DATA (T3-rtx) → Z
// A ← SHUTDOWN (DATA acknowledged) ← Z
// A → SHUTDOWN ACK → Z
/// §9.2: in SHUTDOWN-RECEIVED data is still retransmitted, and SHUTDOWN's cumulative TSN ack counts.
#[test]
fn shutdown_ack_waits_for_outstanding_data() {
    let mut script = established(quiet());
    send(&mut script, b"last words", 0);
    script.expect();
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    script.expect_silence();
    assert_eq!(script.association().state(), State::ShutdownReceived);
    script.advance_to_timeout();
    assert_eq!(
        script.expect().data().map(|data| data.tsn).collect::<Vec<_>>(),
        [script.endpoint_tsn]
    );
    script.send(&[shutdown_chunk(script.endpoint_tsn)]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    assert_eq!(script.association().state(), State::ShutdownAckSent);
}

// A → SHUTDOWN → Z
// A ← DATA ← Z
// A → SHUTDOWN, SACK → Z
/// §9.2: DATA that arrives after SHUTDOWN was sent is received. Both SHUTDOWN and SACK answer it at once, and T2 is restarted.
#[test]
fn data_after_shutdown_was_sent() {
    let mut script = established(quiet());
    begin_shutdown(&mut script);
    script.expect();
    script.advance(SECOND / 2);
    let tsn = script.tsn;
    let data = script.data(0, 0, "late");
    script.send(&[data]);
    let answer = script.expect();
    assert_eq!(answer.chunks[0], shutdown_chunk(tsn));
    let Chunk::Sack(ack) = &answer.chunks[1] else {
        panic!("SACK, not {:?}", answer.chunks)
    };
    assert_eq!(ack.cumulative_tsn_ack, tsn);
    assert_eq!(script.messages()[0].bytes, "late");
    assert_eq!(script.advance_to_timeout(), SECOND, "T2 was restarted");
    assert_eq!(script.expect_chunk(), shutdown_chunk(tsn));
}

// A → SHUTDOWN → Z
// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z
// A ← SHUTDOWN ACK ← Z
// A → SHUTDOWN COMPLETE → Z
/// §9.2: a collision of SHUTDOWNs; SHUTDOWN ACK in SHUTDOWN-ACK-SENT is answered with SHUTDOWN COMPLETE.
#[test]
fn shutdowns_collide() {
    let mut script = established(quiet());
    begin_shutdown(&mut script);
    script.expect();
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    assert_eq!(script.association().state(), State::ShutdownAckSent);
    script.send(&[Chunk::ShutdownAck]);
    assert_eq!(script.expect_chunk(), COMPLETE);
    expect_closed(&mut script, CloseReason::Shutdown);
}

// A → SHUTDOWN → (lost), after T2 1 s, 2 s and 4 s again
// A: after 8 s more, Association.Max.Retrans is exceeded
/// §9.2, §8.1: T2-shutdown doubles, and the association fails if the peer never answers.
#[test]
fn lost_shutdowns_are_retransmitted_until_the_association_fails() {
    let mut config = quiet();
    config.retransmissions.association_max_retrans = 3;
    let mut script = established(config);
    begin_shutdown(&mut script);
    let expected = shutdown_chunk(script.tsn.minus(1));
    assert_eq!(script.expect_chunk(), expected);
    for wait in [1, 2, 4] {
        assert_eq!(script.advance_to_timeout(), wait * SECOND);
        assert_eq!(script.expect_chunk(), expected);
    }
    assert_eq!(script.advance_to_timeout(), 8 * SECOND);
    script.expect_silence();
    expect_closed(&mut script, CloseReason::Unreachable);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK →  (Z has gone)
// A → SHUTDOWN ACK →  … until Association.Max.Retrans
/// §9.2: an endpoint that waits for SHUTDOWN COMPLETE has no unacknowledged data. If the peer disappears without it, the
/// shutdown still counts as graceful.
#[test]
fn a_peer_that_disappears_after_its_shutdown_counts_as_graceful() {
    let mut config = quiet();
    config.retransmissions.association_max_retrans = 2;
    let mut script = established(config);
    let cumulative = script.endpoint_tsn.minus(1);
    script.send(&[shutdown_chunk(cumulative)]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    for wait in [1, 2] {
        assert_eq!(script.advance_to_timeout(), wait * SECOND);
        assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    }
    assert_eq!(script.advance_to_timeout(), 4 * SECOND);
    script.expect_silence();
    expect_closed(&mut script, CloseReason::Shutdown);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → (lost)
// A → SHUTDOWN ACK (T2) → (lost)
// A ← SHUTDOWN (again) ← Z
// A → SHUTDOWN ACK → Z
/// §9.2: a lost SHUTDOWN ACK is retransmitted by T2, and at each further SHUTDOWN.
#[test]
fn a_lost_shutdown_ack_is_retransmitted() {
    let mut script = established(quiet());
    let shutdown = shutdown_chunk(script.endpoint_tsn.minus(1));
    script.send(core::slice::from_ref(&shutdown));
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    assert_eq!(script.advance_to_timeout(), SECOND);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    script.send(&[shutdown]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    script.expect_silence();
}

// A → SHUTDOWN → Z
// A ← SHUTDOWN ACK ← Z
// A → SHUTDOWN COMPLETE → (lost)
// A ← SHUTDOWN ACK ← Z
// A → SHUTDOWN COMPLETE (T bit) → Z
/// §9.2, §8.4 rule 5: the endpoint has removed the association, and answers out of the blue with the tag of the SHUTDOWN ACK.
#[test]
fn a_lost_shutdown_complete_is_retransmitted() {
    let mut script = established(quiet());
    begin_shutdown(&mut script);
    script.expect();
    script.send(&[Chunk::ShutdownAck]);
    assert_eq!(script.expect_chunk(), COMPLETE);
    script.send(&[Chunk::ShutdownAck]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.endpoint_tag);
    assert_eq!(
        answer.only(),
        Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true })
    );
}

// A → SHUTDOWN → Z
// A ← DATA ← Z, many times
// A → ABORT → Z when T5 expires
/// §9.2: T5-shutdown-guard ends a shutdown that a peer delays with more and more data.
#[test]
fn the_guard_ends_a_shutdown_that_takes_too_long() {
    let mut config = quiet();
    config.shutdown_guard = Some(5 * SECOND);
    let mut script = established(config);
    begin_shutdown(&mut script);
    for ssn in 0..9 {
        script.advance(SECOND / 2);
        let data = script.data(0, ssn, "more");
        script.send(&[data]);
        assert_eq!(script.association().state(), State::ShutdownSent);
    }
    script.skip_answers();
    assert_eq!(script.advance_to_timeout(), SECOND / 2);
    let Chunk::Abort(abort) = script.expect_chunk() else {
        panic!("ABORT")
    };
    let cause = abort.causes.iter().next();
    assert!(
        matches!(cause, Some(Ok(Cause::ProtocolViolation(_)))),
        "{cause:?}"
    );
    expect_closed(&mut script, CloseReason::ShutdownTimedOut);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z, many times
// A → ABORT → Z when T5 expires
/// If only SHUTDOWN COMPLETE is missing, no data was lost: the peer may have disappeared.
#[test]
fn the_guard_ends_gracefully_if_only_shutdown_complete_is_missing() {
    let mut config = quiet();
    config.shutdown_guard = Some(5 * SECOND);
    let mut script = established(config);
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    for _ in 0..3 {
        assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
        script.advance_to_timeout();
    }
    let Chunk::Abort(_) = script.expect_chunk() else {
        panic!("ABORT")
    };
    expect_closed(&mut script, CloseReason::Shutdown);
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z
// A ← INIT ← Z
// A → SHUTDOWN ACK → Z
/// §9.2: an INIT in SHUTDOWN-ACK-SENT from the peer's address is discarded, and SHUTDOWN ACK is retransmitted.
#[test]
fn init_in_shutdown_ack_sent() {
    let mut script = established(quiet());
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    script.expect();
    let mut init = script.init(Parameters::empty());
    init.initiate_tag = VerificationTag(77);
    script.send_tagged(VerificationTag(0), &[Chunk::Init(init)]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    script.expect_silence();
    assert_eq!(script.association().state(), State::ShutdownAckSent);
}

// A ← INIT (the peer restarted) ← Z
// A → INIT ACK → Z
// A ← SHUTDOWN (from before the restart, late) ← Z
// A → SHUTDOWN ACK → Z
// A ← COOKIE ECHO ← Z
// A → SHUTDOWN ACK, ERROR (cause 10) → Z
/// §5.2.4 A: a restart is refused in SHUTDOWN-ACK-SENT.
#[test]
fn cookie_echo_in_shutdown_ack_sent() {
    let mut script = established(quiet());
    let mut init = script.init(Parameters::empty());
    init.initiate_tag = VerificationTag(77);
    script.send_tagged(VerificationTag(0), &[Chunk::Init(init)]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    let cookie = state_cookie(&ack);
    script.send_tagged(ack.initiate_tag, &[Chunk::CookieEcho(CookieEcho { cookie })]);
    let mut chunks = Vec::new();
    while let Some(answer) = script.next_answer() {
        chunks.extend(answer.chunks);
    }
    let causes = Causes::from_causes(&[Cause::CookieReceivedWhileShuttingDown]);
    assert_eq!(chunks.len(), 2, "{chunks:?}");
    assert!(chunks.contains(&Chunk::ShutdownAck), "{chunks:?}");
    assert!(
        chunks.contains(&Chunk::Error(ErrorChunk { causes })),
        "{chunks:?}"
    );
    assert_eq!(script.association().state(), State::ShutdownAckSent);
}

/// A script in each state that an association can be in.
fn in_state(state: State) -> Script {
    let mut script = Script::new(quiet(), 1);
    match state {
        State::Closed => unreachable!("nothing is there"),
        State::CookieWait => {
            script.connect();
        }
        State::CookieEchoed => {
            script.connect();
            script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
        }
        _ => script.set_up(),
    }
    match state {
        State::ShutdownPending => {
            send(&mut script, b"open", 0);
            begin_shutdown(&mut script);
        }
        State::ShutdownSent => begin_shutdown(&mut script),
        State::ShutdownReceived => {
            send(&mut script, b"open", 0);
            script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
        }
        State::ShutdownAckSent => script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]),
        _ => {}
    }
    assert_eq!(script.association().state(), state);
    script.skip_answers();
    script.events();
    script
}

const ALIVE: [State; 7] = [
    State::CookieWait,
    State::CookieEchoed,
    State::Established,
    State::ShutdownPending,
    State::ShutdownSent,
    State::ShutdownReceived,
    State::ShutdownAckSent,
];

// A ← ABORT ← Z
/// §9.1: ABORT ends an association in every state, and is never answered.
#[test]
fn abort_is_obeyed_in_every_state() {
    for state in ALIVE {
        let mut script = in_state(state);
        let causes = Causes::from_causes(&[Cause::UserInitiatedAbort(Bytes::from_static(b"enough"))]);
        let abort = Abort {
            reflected_tag: false,
            causes: causes.clone(),
        };
        script.send(&[Chunk::Abort(abort)]);
        script.expect_silence();
        let events = script.events();
        let closed = Event::Closed(CloseReason::AbortedByPeer(causes));
        assert_eq!(events.last(), Some(&closed), "{state:?}");
    }
}

// A → ABORT (User-Initiated Abort) → Z
/// §9.1, §3.3.10.12: an application's ABORT with its reason, from every state in which the peer's tag is known.
#[test]
fn abort_by_the_application_in_every_state() {
    for state in ALIVE {
        let mut script = in_state(state);
        script.act(|association, now| association.abort(now, Bytes::from_static(b"enough")));
        if state == State::CookieWait {
            script.expect_silence();
        } else {
            let answer = script.expect();
            assert_eq!(answer.header.verification_tag, script.tag, "{state:?}");
            let causes = Causes::from_causes(&[Cause::UserInitiatedAbort(Bytes::from_static(b"enough"))]);
            let abort = Abort {
                reflected_tag: false,
                causes,
            };
            assert_eq!(answer.only(), Chunk::Abort(abort), "{state:?}");
        }
        let events = script.events();
        assert_eq!(
            events.last(),
            Some(&Event::Closed(CloseReason::Aborted)),
            "{state:?}"
        );
    }
}

// A → DATA → (lost), three times
/// §8.1, §11.2.2: a peer that never answers. Each message is reported with whether any part of it was sent.
#[test]
fn an_unreachable_peer_leaves_messages_undelivered() {
    let mut config = quiet();
    config.retransmissions.association_max_retrans = 2;
    let mut script = Script::new(config, 1);
    script.a_rwnd = 1500;
    script.set_up();
    script.events();
    send(&mut script, &[1; 1000], 11);
    send(&mut script, &[2; 1000], 22);
    for wait in [1, 2, 4] {
        assert_eq!(script.expect().data().count(), 1);
        script.expect_silence();
        assert_eq!(script.advance_to_timeout(), wait * SECOND);
    }
    script.expect_silence();
    let events = script.events();
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Undelivered(failed) => Some((failed.context, failed.sent)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(11, true), (22, false)]);
    assert_eq!(events.last(), Some(&Event::Closed(CloseReason::Unreachable)));
}

// A → DATA … → Z and A ← DATA … ← Z, SHUTDOWN asked for on both sides in the middle of it
/// §9.2: with data outstanding on both hosts all data arrives before either host closes the association.
#[test]
fn data_of_both_sides_arrives_before_the_end() {
    let link = LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(Duration::from_millis(20));
    let mut pair = Setup::new(9).path(link).connect();
    assert_eq!(pair.association(Side::A).ports().1, PORT);
    let mut ledgers = Side::BOTH.map(|side| Ledger::new(side as u64));
    for side in Side::BOTH {
        let parcels: Vec<_> = (0..20)
            .map(|_| ledgers[side as usize].parcel(1, 10_000, false))
            .collect();
        pair.post(side, parcels);
        pair.shutdown(side);
        assert_eq!(pair.state(side), Some(State::ShutdownPending));
    }
    pair.run_for(30 * SECOND);
    pair.expect_orderly_end(&mut ledgers);
}
