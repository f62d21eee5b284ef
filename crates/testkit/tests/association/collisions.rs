//! Set-up chunks that arrive when an association exists (RFC 9260 §5.2): both endpoints connect at once, a peer has restarted,
//! or the chunks are old, duplicated or unexpected.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    AssociationState as State, ConnectOptions, Event, SendOptions, StreamId, Tsn, VerificationTag,
};
use anabranch_testkit::{PORT, Script, Setup, Side, quiet, sack, state_cookie};
use anabranch_wire::chunk::{Chunk, CookieEcho, Init, InitAck, Shutdown, kind};
use anabranch_wire::parameter::Parameters;

use super::{established, nobody};

const SECOND: Duration = Duration::from_secs(1);
const ZERO: VerificationTag = VerificationTag(0);
/// The tag and the first TSN of a peer that restarts.
const RESTARTED: VerificationTag = VerificationTag(77);
const RESTARTED_TSN: Tsn = Tsn(500_000);

fn state(script: &Script) -> State {
    script.association().state()
}

fn associations(script: &mut Script) -> usize {
    script.host_mut().endpoint_mut().association_count()
}

/// The endpoint connects from the port on which it listens, as both endpoints of a collision do. Returns its INIT.
fn begin_from_the_port(script: &mut Script) -> Init {
    let (now, remote, port) = (script.now(), script.remote, script.port);
    let options = ConnectOptions::default().local_port(Some(PORT));
    script
        .host_mut()
        .connect(now, remote, port, options)
        .expect("connect");
    script.act(|_, _| ());
    match script.expect_chunk() {
        Chunk::Init(init) => {
            script.endpoint_tag = init.initiate_tag;
            script.endpoint_tsn = init.initial_tsn;
            init
        }
        other => panic!("INIT, not {other:?}"),
    }
}

/// Sends the INIT of a peer with this tag, and returns the endpoint's INIT ACK.
fn answer_to_init(script: &mut Script, tag: VerificationTag, initial_tsn: Tsn) -> InitAck {
    let init = Init {
        initiate_tag: tag,
        initial_tsn,
        ..script.init(Parameters::empty())
    };
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, tag);
    match answer.only() {
        Chunk::InitAck(ack) => ack,
        other => panic!("INIT ACK, not {other:?}"),
    }
}

/// The same for the INIT that the script's peer sends.
fn answer_to_own_init(script: &mut Script) -> InitAck {
    let (tag, tsn) = (script.tag, script.tsn);
    answer_to_init(script, tag, tsn)
}

/// Returns the cookie of an INIT ACK under the tag of that INIT ACK.
fn return_cookie(script: &mut Script, ack: &InitAck) {
    let cookie = state_cookie(ack);
    script.send_tagged(ack.initiate_tag, &[Chunk::CookieEcho(CookieEcho { cookie })]);
}

fn send(script: &mut Script, text: &'static str, context: u64) {
    script.act(|association, now| {
        let options = SendOptions::default().context(context);
        association
            .send(now, StreamId(0), text.into(), options)
            .expect("send");
    });
}

/// Checks that messages pass in both directions under the current tags and TSNs.
#[track_caller]
fn expect_works(script: &mut Script) {
    let data = script.data(0, 0, "to the endpoint");
    script.send(&[data]);
    let read: Vec<_> = script
        .messages()
        .into_iter()
        .map(|message| message.bytes)
        .collect();
    assert_eq!(read, ["to the endpoint"]);
    script.skip_answers();
    send(script, "to the peer", 0);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    let tsns: Vec<_> = answer.data().map(|data| data.tsn).collect();
    assert_eq!(tsns, [script.endpoint_tsn]);
}

// A → INIT → Z
// A ← INIT ← Z           both at once
// A → INIT ACK (the tag and TSN of A's INIT) → Z
// A ← COOKIE ECHO ← Z    the peer was faster: table 12 B
// A → COOKIE ACK → Z
/// §5.2.1, §5.2.4 B: COOKIE-WAIT → ESTABLISHED by the peer's cookie.
#[test]
fn both_connect_and_the_cookie_arrives_in_cookie_wait() {
    let mut script = nobody();
    let init = begin_from_the_port(&mut script);
    let ack = answer_to_own_init(&mut script);
    assert_eq!(
        (ack.initiate_tag, ack.initial_tsn),
        (init.initiate_tag, init.initial_tsn)
    );
    assert_eq!(state(&script), State::CookieWait);
    return_cookie(&mut script, &ack);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    assert_eq!(state(&script), State::Established);
    assert_eq!(associations(&mut script), 1);
    expect_works(&mut script);
}

// A → INIT → Z
// A ← INIT ← Z
// A → INIT ACK → Z
// A ← INIT ACK ← Z       COOKIE-WAIT → COOKIE-ECHOED
// A → COOKIE ECHO → Z
// A ← COOKIE ECHO ← Z    table 12 D: the same tags
// A → COOKIE ACK → Z     ESTABLISHED; A does not retransmit its own COOKIE ECHO
// A ← COOKIE ACK ← Z     changes nothing (§5.2.5)
/// §5.2.1, §5.2.4 D: the usual collision.
#[test]
fn both_connect_and_the_cookies_cross() {
    let mut script = nobody();
    begin_from_the_port(&mut script);
    let ack = answer_to_own_init(&mut script);
    let own = script.init_ack(b"the peer's cookie");
    script.send(&[Chunk::InitAck(own)]);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    assert_eq!(state(&script), State::CookieEchoed);
    return_cookie(&mut script, &ack);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    assert_eq!(state(&script), State::Established);
    script.send(&[Chunk::CookieAck]);
    script.expect_silence();
    script.advance(10 * SECOND);
    script.expect_silence();
    let told = script.events();
    let times = told
        .iter()
        .filter(|event| matches!(event, Event::Established { .. }))
        .count();
    assert_eq!(times, 1, "{told:?}");
    expect_works(&mut script);
}

// A → INIT → Z; A ← INIT ACK (tag X) ← Z; A → COOKIE ECHO → Z
// A ← INIT (tag Y) ← Z    the peer restarts before it has answered
// A → INIT ACK (the tag of A's INIT) → Z
// A ← COOKIE ECHO ← Z     table 12 B: A's tag, another one of the peer's
// A → COOKIE ACK → Z
/// §5.2.1, §5.2.4 B in COOKIE-ECHOED: the association uses the peer's new tag.
#[test]
fn the_peers_tag_changes_in_cookie_echoed() {
    let mut script = nobody();
    let init = begin_from_the_port(&mut script);
    let first = script.init_ack(b"of a tag that is no more");
    script.send(&[Chunk::InitAck(first)]);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    let ack = answer_to_init(&mut script, RESTARTED, RESTARTED_TSN);
    assert_eq!(
        (ack.initiate_tag, ack.initial_tsn),
        (init.initiate_tag, init.initial_tsn)
    );
    return_cookie(&mut script, &ack);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, RESTARTED);
    assert_eq!(answer.only(), Chunk::CookieAck);
    assert_eq!(state(&script), State::Established);
    (script.tag, script.tsn) = (RESTARTED, RESTARTED_TSN);
    expect_works(&mut script);
}

// A ← INIT ← Z; A → INIT ACK (tag L) → Z    the COOKIE ECHO to it is slow
// A → INIT (tag M) → Z; A ← INIT ACK (the peer's same tag) ← Z; A → COOKIE ECHO → Z
// A ← COOKIE ECHO (tag L) ← Z
/// §5.2.4 C: a cookie that arrives late is silently discarded.
#[test]
fn a_late_cookie_is_discarded() {
    let mut script = nobody();
    let late = answer_to_own_init(&mut script);
    begin_from_the_port(&mut script);
    let ack = script.init_ack(b"a cookie");
    script.send(&[Chunk::InitAck(ack)]);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    return_cookie(&mut script, &late);
    script.expect_silence();
    assert_eq!(state(&script), State::CookieEchoed);
    script.send(&[Chunk::CookieAck]);
    assert_eq!(state(&script), State::Established);
    return_cookie(&mut script, &late);
    script.expect_silence();
    expect_works(&mut script);
}

// A ← COOKIE ECHO (again) ← Z
// A → COOKIE ACK → Z
/// §5.2.4 D: a duplicate COOKIE ECHO is answered again and has no other effect, however old the cookie is (§5.2.4 rule 3).
#[test]
fn a_duplicate_cookie_echo_is_answered_again() {
    let mut script = nobody();
    let ack = answer_to_own_init(&mut script);
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    for wait in [0, 0, 30, 60] {
        script.advance(wait * SECOND);
        return_cookie(&mut script, &ack);
        assert_eq!(script.expect_chunk(), Chunk::CookieAck, "after {wait} s more");
        script.expect_silence();
    }
    assert_eq!(associations(&mut script), 1);
    let told = script.events();
    let times = told
        .iter()
        .filter(|event| matches!(event, Event::Established { .. }))
        .count();
    assert_eq!(times, 1, "{told:?}");
    expect_works(&mut script);
}

// A ← INIT ← Z; A → INIT ACK → Z            another peer at the same place, before
// A ← COOKIE ECHO (its tags, no tie tags) ← Z
/// §5.2.4, a case not in table 12: neither tag matches, and no Tie-Tags bind the cookie to this association.
#[test]
fn a_cookie_without_tie_tags_does_not_restart() {
    let mut script = nobody();
    let old = answer_to_init(&mut script, RESTARTED, RESTARTED_TSN);
    script.set_up();
    script.events();
    return_cookie(&mut script, &old);
    script.expect_silence();
    assert_eq!(state(&script), State::Established);
    assert!(script.events().is_empty());
    expect_works(&mut script);
}

/// An association in one of the states in which a peer may restart. `sent` is unacknowledged and `waiting` is unsent, in the
/// states that allow it.
fn in_state(wanted: State) -> Script {
    let mut script = established();
    script.advance(SECOND);
    match wanted {
        State::Established => {}
        State::ShutdownPending => {
            send(&mut script, "sent", 1);
            script.act(|association, now| association.shutdown(now));
        }
        State::ShutdownSent => script.act(|association, now| association.shutdown(now)),
        State::ShutdownReceived => {
            send(&mut script, "sent", 1);
            let cumulative_tsn_ack = script.endpoint_tsn.minus(1);
            script.send(&[Chunk::Shutdown(Shutdown { cumulative_tsn_ack })]);
        }
        other => panic!("not {other:?}"),
    }
    script.skip_answers();
    script.events();
    assert_eq!(state(&script), wanted);
    script
}

// A ← INIT (tag Y) ← Z    the peer has lost all state
// A → INIT ACK (a new tag, ties in the cookie) → Z
// A ← COOKIE ECHO ← Z     table 12 A
// A → COOKIE ACK → Z
/// §5.2.2, §5.2.4 A: a restart in every state between set-up and SHUTDOWN-ACK-SENT. The application is told the messages that
/// were sent and not acknowledged, and the association restarts.
#[test]
fn the_peer_restarts() {
    for before in [
        State::Established,
        State::ShutdownPending,
        State::ShutdownSent,
        State::ShutdownReceived,
    ] {
        let mut script = in_state(before);
        let old_tag = script.endpoint_tag;
        let ack = answer_to_init(&mut script, RESTARTED, RESTARTED_TSN);
        assert_ne!(ack.initiate_tag, old_tag, "§5.2.2: a new tag");
        assert_eq!(state(&script), before, "an INIT alone changes nothing");
        assert!(script.events().is_empty());
        return_cookie(&mut script, &ack);
        let answer = script.expect();
        assert_eq!(answer.header.verification_tag, RESTARTED);
        // A shutdown that the application asked for continues: see endings.rs.
        let asked = matches!(before, State::ShutdownPending | State::ShutdownSent);
        let cumulative_tsn_ack = RESTARTED_TSN.minus(1);
        let shutdown = Chunk::Shutdown(Shutdown { cumulative_tsn_ack });
        let expected = [Chunk::CookieAck, shutdown];
        assert_eq!(
            answer.chunks,
            expected[..1 + usize::from(asked)],
            "from {before:?}"
        );
        let after = if asked {
            State::ShutdownSent
        } else {
            State::Established
        };
        assert_eq!(state(&script), after, "from {before:?}");
        let events = script.events();
        let undelivered: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Undelivered(failed) => Some(failed.context),
                _ => None,
            })
            .collect();
        let had = matches!(before, State::ShutdownPending | State::ShutdownReceived);
        assert_eq!(undelivered, vec![1; usize::from(had)], "{before:?}");
        assert!(events.contains(&Event::Restarted), "{events:?}");
        assert_eq!(associations(&mut script), 1);
        // The old tag is no longer the association's.
        let cumulative = script.endpoint_tsn.minus(1);
        script.send_tagged(old_tag, &[sack(cumulative)]);
        script.expect_silence();
        (script.tag, script.tsn) = (RESTARTED, RESTARTED_TSN);
        (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
        if !asked {
            expect_works(&mut script);
        }
    }
}

// A ← INIT (tag Y) ← Z; A → INIT ACK → Z; nothing more
/// §5.2.2: an INIT without its COOKIE ECHO, which any host could send, leaves the association unchanged.
#[test]
fn an_init_alone_does_no_harm() {
    let mut script = established();
    for number in 0..50 {
        answer_to_init(&mut script, VerificationTag(1000 + number), Tsn(number));
    }
    assert_eq!(state(&script), State::Established);
    assert!(script.events().is_empty());
    expect_works(&mut script);
}

// A ← INIT (again, T1 of a peer whose INIT ACK was lost) ← Z
// A → INIT ACK (same tag and TSN again) → Z
/// §5.2.1: in COOKIE-WAIT and COOKIE-ECHOED every INIT gets the same answer.
#[test]
fn inits_in_set_up_get_the_same_answer() {
    for echoed in [false, true] {
        let mut script = nobody();
        let init = begin_from_the_port(&mut script);
        if echoed {
            let ack = script.init_ack(b"a cookie");
            script.send(&[Chunk::InitAck(ack)]);
            assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
        }
        let before = state(&script);
        for _ in 0..3 {
            let ack = answer_to_own_init(&mut script);
            assert_eq!(
                (ack.initiate_tag, ack.initial_tsn),
                (init.initiate_tag, init.initial_tsn)
            );
        }
        assert_eq!(state(&script), before);
    }
}

// A ← INIT ACK ← Z, in every state but COOKIE-WAIT
/// §5.2.3: discarded.
#[test]
fn an_unexpected_init_ack_is_discarded() {
    for before in [
        State::Established,
        State::ShutdownPending,
        State::ShutdownSent,
        State::ShutdownReceived,
    ] {
        let mut script = in_state(before);
        let mut ack = script.init_ack(b"another cookie");
        ack.initiate_tag = RESTARTED;
        script.send(&[Chunk::InitAck(ack)]);
        if before != State::ShutdownSent {
            script.expect_silence();
        }
        assert_eq!(state(&script), before);
        assert!(script.events().is_empty());
    }
    let mut script = nobody();
    script.connect();
    let first = script.init_ack(b"the first cookie");
    script.send(&[Chunk::InitAck(first)]);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    let second = script.init_ack(b"the second cookie");
    script.send(&[Chunk::InitAck(second)]);
    script.expect_silence();
    assert_eq!(script.advance_to_timeout(), SECOND);
    let Chunk::CookieEcho(echo) = script.expect_chunk() else {
        panic!("COOKIE ECHO")
    };
    assert_eq!(&echo.cookie[..], b"the first cookie");
}

// A ← COOKIE ACK ← Z, in every state but COOKIE-ECHOED
/// §5.2.5: discarded.
#[test]
fn an_unexpected_cookie_ack_is_discarded() {
    let mut script = nobody();
    script.connect();
    script.send(&[Chunk::CookieAck]);
    script.expect_silence();
    assert_eq!(state(&script), State::CookieWait);
    for before in [
        State::Established,
        State::ShutdownPending,
        State::ShutdownReceived,
    ] {
        let mut script = in_state(before);
        script.send(&[Chunk::CookieAck]);
        script.expect_silence();
        assert_eq!(state(&script), before);
        assert!(script.events().is_empty());
    }
}

// A → INIT → Z and A ← INIT ← Z, at the same time, through the network
/// §5.2.1: each endpoint has one association afterwards, whatever the order of the packets.
#[test]
fn both_sides_connect_at_once() {
    for (seed, delays_ms) in [(10, 10), (30, 5), (5, 60), (1, 1)].into_iter().enumerate() {
        let link = |ms| LinkConfig::default().with_delay(Duration::from_millis(ms));
        let mut pair = Setup::new(seed as u64)
            .config(quiet())
            .path_of(link(delays_ms.0), link(delays_ms.1))
            .build();
        pair.listen(Side::A);
        for side in Side::BOTH {
            let options = ConnectOptions::default().local_port(Some(PORT));
            pair.begin_from(side, options);
        }
        for side in Side::BOTH {
            pair.send(side, 0, "hello");
        }
        pair.run_for(10 * SECOND);
        for side in Side::BOTH {
            assert_eq!(pair.state(side), Some(State::Established), "{delays_ms:?}");
            assert_eq!(pair.host(side).association_ids().count(), 1);
            assert!(pair.association(side).counters().init_collisions > 0);
            let read: Vec<_> = pair.messages(side).into_iter().map(|m| m.bytes).collect();
            assert_eq!(read, ["hello"], "{delays_ms:?}");
        }
    }
}

// A ✗ (forgets everything) … A → INIT → Z; A ← INIT ACK ← Z; A → COOKIE ECHO → Z; A ← COOKIE ACK ← Z
/// §5.2.4 A through the network: the surviving endpoint is told the lost messages, and both continue.
#[test]
fn a_reboot_in_the_middle_of_a_transfer() {
    let link = LinkConfig::default().with_delay(Duration::from_millis(50));
    let mut pair = Setup::new(3).path(link).build();
    let from = |pair: &mut anabranch_testkit::Pair| {
        let options = ConnectOptions::default().local_port(Some(PORT));
        pair.begin_from(Side::A, options);
    };
    from(&mut pair);
    pair.run_for(SECOND);
    for _ in 0..20 {
        pair.send(Side::Z, 0, vec![7; 1000]);
    }
    pair.run_ms(10);
    pair.events(Side::Z);
    pair.reboot(Side::A);
    from(&mut pair);
    pair.run_for(2 * SECOND);
    let events = pair.events(Side::Z);
    assert!(events.contains(&Event::Restarted), "{events:?}");
    let lost = events
        .iter()
        .filter(|event| matches!(event, Event::Undelivered(_)))
        .count();
    assert_eq!(lost, 20);
    pair.send(Side::Z, 0, "again");
    pair.send(Side::A, 0, "hello");
    pair.run_for(SECOND);
    for (side, text) in [(Side::A, "again"), (Side::Z, "hello")] {
        let read: Vec<_> = pair.messages(side).into_iter().map(|m| m.bytes).collect();
        assert_eq!(read, [text]);
        assert_eq!(pair.host(side).association_ids().count(), 1);
    }
}
