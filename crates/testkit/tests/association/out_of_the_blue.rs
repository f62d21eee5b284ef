//! Packets that belong to no association, and packets with a wrong tag (RFC 9260 §8.4, §8.5); packets that are damaged or
//! truncated, or contain unknown chunks or parameters (§3.2, §6.8, §6.10).

use core::time::Duration;
use std::net::IpAddr;

use anabranch_proto::{AssociationState as State, CloseReason, Event, SendOptions, StreamId, Tsn};
use anabranch_testkit::{PORT, Script, quiet, sack, shutdown_chunk, state_cookie};
use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Abort, Chunk, CookieEcho, EncodeChunk, ErrorChunk, Heartbeat, HeartbeatAck, ShutdownComplete, kind,
};
use anabranch_wire::parameter::Parameters;
use bytes::Bytes;

use super::{established, nobody};

const SECOND: Duration = Duration::from_secs(1);

/// No association has this tag.
const STRANGE: VerificationTag = VerificationTag(0x5eed_5eed);
const ZERO: VerificationTag = VerificationTag(0);

const COMPLETE: Chunk = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: false });
const COMPLETE_REFLECTED: Chunk = Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true });
const ABORT: Chunk = abort(false);
const ABORT_REFLECTED: Chunk = abort(true);

const fn abort(reflected_tag: bool) -> Chunk {
    Chunk::Abort(Abort {
        reflected_tag,
        causes: Causes::empty(),
    })
}

fn abort_for(cause: Cause) -> Chunk {
    Chunk::Abort(Abort {
        reflected_tag: false,
        causes: Causes::from_causes(&[cause]),
    })
}

fn error(cause: Cause) -> Chunk {
    Chunk::Error(ErrorChunk {
        causes: Causes::from_causes(&[cause]),
    })
}

fn heartbeat() -> Chunk {
    Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    })
}

fn heartbeat_ack() -> Chunk {
    Chunk::HeartbeatAck(HeartbeatAck {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    })
}

/// The bytes of a chunk of this type, with padding.
fn chunk_bytes(kind: u8, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).expect("a chunk");
    let mut bytes = vec![kind, 0];
    bytes.extend(len.to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn encoded(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        chunk.encode(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn associations(script: &mut Script) -> usize {
    script.host_mut().endpoint_mut().association_count()
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

/// A script in each state that an association can be in.
fn in_state(state: State) -> Script {
    let mut script = nobody();
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
    if matches!(state, State::ShutdownPending | State::ShutdownReceived) {
        script.act(|association, now| {
            association
                .send(now, StreamId(0), "open".into(), SendOptions::default())
                .expect("send");
        });
    }
    if matches!(state, State::ShutdownPending | State::ShutdownSent) {
        script.act(|association, now| association.shutdown(now));
    }
    if matches!(state, State::ShutdownReceived | State::ShutdownAckSent) {
        script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    }
    assert_eq!(script.association().state(), state);
    script.skip_answers();
    script.events();
    script
}

/// Checks that a packet was silently dropped and changed nothing.
#[track_caller]
fn expect_untouched(script: &mut Script, state: State, what: &str) {
    assert_eq!(script.next_answer(), None, "{what} in {state:?}");
    assert_eq!(script.association().state(), state, "{what}");
    assert_eq!(script.events(), [], "{what} in {state:?}");
    assert_eq!(script.messages(), [], "{what} in {state:?}");
}

/// Checks the answer to a packet out of the blue: its only chunk, its tag, its ports, its destination.
#[track_caller]
fn expect_answer(script: &mut Script, tag: VerificationTag, chunk: &Chunk, what: &str) {
    let answer = script.next_answer();
    let answer = answer.unwrap_or_else(|| panic!("an answer to {what}"));
    assert_eq!(answer.header.verification_tag, tag, "{what}");
    assert_eq!(answer.header.destination_port, script.port, "{what}");
    assert_eq!(answer.header.source_port, script.endpoint_port, "{what}");
    assert_eq!(answer.destination, script.remote, "{what}");
    assert_eq!(&answer.only(), chunk, "{what}");
    script.expect_silence();
    assert_eq!(associations(script), 0, "{what}");
}

#[track_caller]
fn expect_dropped(script: &mut Script, what: &str) {
    assert_eq!(script.next_answer(), None, "{what}");
    assert_eq!(associations(script), 0, "{what}");
    assert_eq!(script.events(), [], "{what}: no association came and went");
}

/// A valid cookie of the endpoint, and the tag to return it under.
fn take_cookie(script: &mut Script) -> (VerificationTag, Chunk) {
    script.send_tagged(ZERO, &[Chunk::Init(script.init(Parameters::empty()))]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    let cookie = state_cookie(&ack);
    (ack.initiate_tag, Chunk::CookieEcho(CookieEcho { cookie }))
}

// A (multicast) → INIT, DATA → Z
// A → INIT, DATA → Z (multicast)
// nothing
/// §8.4 rule 1: a packet to or from an address that is not unicast.
#[test]
fn rule_1_not_unicast() {
    for address in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::1", "::"] {
        let address: IpAddr = address.parse().expect("an address");
        for to in [false, true] {
            let mut script = nobody();
            let from_remote = if to { &mut script.local } else { &mut script.remote };
            from_remote.set_ip(address);
            let data = script.data(0, 0, "hello");
            script.send_tagged(STRANGE, &[data]);
            expect_dropped(&mut script, "DATA");
            script.send_tagged(ZERO, &[Chunk::Init(script.init(Parameters::empty()))]);
            expect_dropped(&mut script, "INIT");
        }
    }
}

// A → ABORT, alone or with other chunks → Z
// nothing
/// §8.4 rule 2: at any position of the ABORT in the packet. This rule precedes all later ones.
#[test]
fn rule_2_abort() {
    let mut script = nobody();
    let (tag, cookie_echo) = take_cookie(&mut script);
    let packets = [
        (STRANGE, vec![ABORT]),
        (STRANGE, vec![ABORT_REFLECTED]),
        (ZERO, vec![ABORT]),
        (STRANGE, vec![heartbeat(), ABORT]),
        (STRANGE, vec![Chunk::ShutdownAck, ABORT]),
        (tag, vec![cookie_echo, ABORT]),
    ];
    for (tag, chunks) in packets {
        script.send_tagged(tag, &chunks);
        expect_dropped(&mut script, &format!("{chunks:?}"));
    }
}

// A → INIT → Z
// A ← INIT ACK (the tag of the INIT) ← Z
/// §8.4 rule 3: an INIT with tag 0 is answered as in set-up, and no state is kept.
#[test]
fn rule_3_init_is_answered() {
    let mut script = nobody();
    script.send_tagged(ZERO, &[Chunk::Init(script.init(Parameters::empty()))]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    assert!(matches!(answer.only(), Chunk::InitAck(_)));
    assert_eq!(associations(&mut script), 0);
}

// A → INIT (to a port without a listener; without streams) → Z
// A ← ABORT (the tag of the INIT, no T bit) ← Z
/// §8.4 rule 3, §5.1: an INIT that cannot be accepted.
#[test]
fn rule_3_init_is_refused() {
    let mut script = nobody();
    script.endpoint_port = PORT + 1;
    script.send_tagged(ZERO, &[Chunk::Init(script.init(Parameters::empty()))]);
    let tag = script.tag;
    expect_answer(&mut script, tag, &ABORT, "INIT to a closed port");

    let mut script = nobody();
    let mut init = script.init(Parameters::empty());
    init.outbound_streams = 0;
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    let expected = abort_for(Cause::InvalidMandatoryParameter);
    expect_answer(&mut script, tag, &expected, "INIT without streams");
}

// A → COOKIE ECHO, DATA → Z
// A ← COOKIE ACK, SACK ← Z
/// §8.4 rule 4: a COOKIE ECHO as first chunk is handled as in set-up, with the bundled chunks.
#[test]
fn rule_4_cookie_echo() {
    let mut script = nobody();
    let (tag, cookie_echo) = take_cookie(&mut script);
    let (tsn, data) = (script.tsn, script.data(0, 0, "hello"));
    script.send_tagged(tag, &[cookie_echo, data]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    assert_eq!(answer.chunks[0], Chunk::CookieAck);
    assert!(
        matches!(&answer.chunks[1], Chunk::Sack(sack) if sack.cumulative_tsn_ack == tsn),
        "{:?}",
        answer.chunks
    );
    script.expect_silence();
    assert_eq!(script.association().state(), State::Established);
    assert_eq!(script.messages()[0].bytes, "hello");
}

// A → COOKIE ECHO (not the endpoint's; under another tag; to another port) → Z
// nothing
/// §8.4 rule 4, §5.1.5: an invalid cookie is not answered with an ABORT.
#[test]
fn rule_4_cookie_echo_that_is_wrong() {
    let mut script = nobody();
    let (tag, cookie_echo) = take_cookie(&mut script);
    let forged = Chunk::CookieEcho(CookieEcho {
        cookie: Bytes::from_static(&[7; 60]),
    });
    let data = script.data(0, 0, "hello");
    script.send_tagged(tag, &[forged, data]);
    expect_dropped(&mut script, "a forged cookie");
    for wrong in [STRANGE, ZERO] {
        script.send_tagged(wrong, core::slice::from_ref(&cookie_echo));
        expect_dropped(&mut script, "a cookie under another tag");
    }
    script.endpoint_port = PORT + 1;
    script.send_tagged(tag, &[cookie_echo]);
    expect_dropped(&mut script, "a cookie at another port");
}

// A → INIT → Z
// A ← INIT ACK ← Z, and Z stops listening
// A → COOKIE ECHO → Z
// A ← ABORT (A's tag, no T bit) ← Z
/// §8.4 rule 4, §5.1: a valid cookie that arrives after the endpoint stopped listening. The cookie has the peer's tag.
#[test]
fn rule_4_cookie_echo_to_a_port_that_closed() {
    let mut script = nobody();
    let (tag, cookie_echo) = take_cookie(&mut script);
    script.host_mut().endpoint_mut().stop_listening(PORT);
    script.send_tagged(tag, &[cookie_echo]);
    let tag = script.tag;
    expect_answer(&mut script, tag, &ABORT, "COOKIE ECHO to a closed port");
}

// A → HEARTBEAT, COOKIE ECHO → Z
// A ← ABORT (T bit) ← Z
/// §8.4 rule 4: only a COOKIE ECHO that is the first chunk sets up an association.
#[test]
fn rule_4_cookie_echo_that_is_not_first() {
    let mut script = nobody();
    let (tag, cookie_echo) = take_cookie(&mut script);
    script.send_tagged(tag, &[heartbeat(), cookie_echo]);
    expect_answer(&mut script, tag, &ABORT_REFLECTED, "HEARTBEAT, COOKIE ECHO");
}

// A → SHUTDOWN ACK → Z
// A ← SHUTDOWN COMPLETE (the same tag, T bit) ← Z
/// §8.4 rule 5, at any position of the SHUTDOWN ACK in the packet. This rule precedes the next three.
#[test]
fn rule_5_shutdown_ack() {
    let packets = [
        vec![Chunk::ShutdownAck],
        vec![heartbeat(), Chunk::ShutdownAck],
        vec![Chunk::ShutdownAck, error(Cause::CookieReceivedWhileShuttingDown)],
        vec![error(Cause::StaleCookie { staleness_us: 1 }), Chunk::ShutdownAck],
    ];
    for chunks in packets {
        let mut script = nobody();
        script.send_tagged(STRANGE, &chunks);
        expect_answer(&mut script, STRANGE, &COMPLETE_REFLECTED, &format!("{chunks:?}"));
    }
}

// A → SHUTDOWN COMPLETE → Z
// nothing
/// §8.4 rule 6.
#[test]
fn rule_6_shutdown_complete() {
    for chunks in [
        vec![COMPLETE],
        vec![COMPLETE_REFLECTED],
        vec![heartbeat(), COMPLETE],
    ] {
        let mut script = nobody();
        script.send_tagged(STRANGE, &chunks);
        expect_dropped(&mut script, &format!("{chunks:?}"));
    }
}

// A → ERROR (Stale Cookie) → Z
// A → COOKIE ACK → Z
// nothing
/// §8.4 rule 7: chunks of a set-up that the endpoint has aborted.
#[test]
fn rule_7_stale_cookie_and_cookie_ack() {
    let mut script = nobody();
    let data = script.data(0, 0, "hello");
    let two_causes = Chunk::Error(ErrorChunk {
        causes: Causes::from_causes(&[Cause::OutOfResource, Cause::StaleCookie { staleness_us: 0 }]),
    });
    let packets = [
        vec![error(Cause::StaleCookie { staleness_us: 9 })],
        vec![two_causes],
        vec![Chunk::CookieAck],
        vec![Chunk::CookieAck, data],
    ];
    for chunks in packets {
        script.send_tagged(STRANGE, &chunks);
        expect_dropped(&mut script, &format!("{chunks:?}"));
    }
}

// A → anything else → Z
// A ← ABORT (the same tag, T bit) ← Z
/// §8.4 rule 8, at an open and at a closed port.
#[test]
fn rule_8_anything_else() {
    for port in [PORT, PORT + 1] {
        let mut script = nobody();
        script.endpoint_port = port;
        let data = script.data(0, 0, "hello");
        let packets = [
            vec![data.clone()],
            vec![data.clone(), data],
            vec![sack(Tsn(1))],
            vec![heartbeat()],
            vec![heartbeat_ack()],
            vec![shutdown_chunk(Tsn(1))],
            vec![error(Cause::OutOfResource)],
            vec![Chunk::InitAck(script.init_ack(b"a cookie"))],
        ];
        for chunks in packets {
            script.send_tagged(STRANGE, &chunks);
            expect_answer(&mut script, STRANGE, &ABORT_REFLECTED, &format!("{chunks:?}"));
        }
        // Unknown chunks, and DATA that is too short.
        for (kind, value) in [
            (0x3f, "a"),
            (0x7f, "b"),
            (0xbf, "c"),
            (0xff, "d"),
            (kind::DATA, ""),
        ] {
            let packet = script.packet_of_bytes(STRANGE, &chunk_bytes(kind, value.as_bytes()));
            script.send_raw(packet);
            expect_answer(
                &mut script,
                STRANGE,
                &ABORT_REFLECTED,
                &format!("chunk type {kind}"),
            );
        }
    }
}

// A → any packet but a lone INIT, with tag 0 → Z
// A → INIT with another tag, or with other chunks → Z
// nothing
/// §8.5.1 A, §12.3: only an INIT has tag 0, and an INIT is the only chunk of its packet.
#[test]
fn tag_zero_is_for_a_lone_init() {
    let mut script = nobody();
    let init = Chunk::Init(script.init(Parameters::empty()));
    let data = script.data(0, 0, "hello");
    let packets = [
        (ZERO, vec![data.clone()]),
        (ZERO, vec![heartbeat()]),
        (ZERO, vec![Chunk::ShutdownAck]),
        (ZERO, vec![init.clone(), data]),
        (ZERO, vec![init.clone(), init.clone()]),
        (ZERO, vec![heartbeat(), init.clone()]),
        (STRANGE, vec![init.clone()]),
        (STRANGE, vec![init, heartbeat()]),
    ];
    for (tag, chunks) in packets {
        script.send_tagged(tag, &chunks);
        expect_dropped(&mut script, &format!("{chunks:?} under {tag:?}"));
    }
}

// A → DATA, SACK, … under another tag → Z
// nothing
/// §8.5: in every state a packet with a wrong tag is silently dropped: the peer's own tag, tag 0, a tag close to the right one.
#[test]
fn a_wrong_tag_is_dropped_in_every_state() {
    for state in ALIVE {
        let mut script = in_state(state);
        let data = script.data(0, 0, "hello");
        let packets = [
            data,
            sack(script.endpoint_tsn),
            heartbeat(),
            heartbeat_ack(),
            shutdown_chunk(script.endpoint_tsn),
            error(Cause::StaleCookie { staleness_us: 0 }),
            error(Cause::OutOfResource),
            Chunk::CookieAck,
            Chunk::InitAck(script.init_ack(b"another")),
        ];
        for tag in [
            STRANGE,
            ZERO,
            script.tag,
            VerificationTag(script.endpoint_tag.0 ^ 1),
        ] {
            for chunk in &packets {
                script.send_tagged(tag, core::slice::from_ref(chunk));
                expect_untouched(&mut script, state, &format!("{chunk:?} under {tag:?}"));
            }
        }
    }
}

// A → DATA → Z
// A ← SACK (A's tag) ← Z
// A → DATA → Z
// A → HEARTBEAT → Z
// A ← HEARTBEAT ACK (A's tag) ← Z
// A ← SACK, DATA (A's tag) ← Z
/// §8.5: packets have the tag that the peer chose.
#[test]
fn packets_have_the_peers_tag() {
    let mut script = established();
    let (first, second) = (script.data(0, 0, "one"), script.data(0, 1, "two"));
    script.send(&[first]);
    script.send(&[second]);
    script.send(&[heartbeat()]);
    script.act(|association, now| {
        association
            .send(now, StreamId(0), "hello".into(), SendOptions::default())
            .expect("send");
    });
    let mut kinds = Vec::new();
    while let Some(answer) = script.next_answer() {
        assert_eq!(answer.header.verification_tag, script.tag);
        kinds.extend(answer.chunks.iter().map(Chunk::kind));
    }
    // The second SACK is bundled with the DATA.
    assert_eq!(kinds, [kind::SACK, kind::HEARTBEAT_ACK, kind::SACK, kind::DATA]);
}

// A → INIT with other chunks; INIT with Z's tag; half an INIT → Z
// nothing
// A → HEARTBEAT, INIT, HEARTBEAT with Z's tag → Z
// A ← HEARTBEAT ACK ← Z
/// §8.5.1 A, §12.3, with an association: any host can send an INIT, so it must not do harm.
#[test]
fn an_init_that_is_wrong_does_no_harm() {
    for state in ALIVE {
        let mut script = in_state(state);
        let mut init = script.init(Parameters::empty());
        init.initiate_tag = VerificationTag(77);
        let init = Chunk::Init(init);
        let data = script.data(0, 0, "hello");
        for (tag, chunks) in [
            (ZERO, [init.clone(), data.clone()]),
            (ZERO, [init.clone(), ABORT]),
            (script.endpoint_tag, [init.clone(), data.clone()]),
            (STRANGE, [init.clone(), data]),
        ] {
            script.send_tagged(tag, &chunks);
            expect_untouched(&mut script, state, &format!("{chunks:?} under {tag:?}"));
        }
        script.send(core::slice::from_ref(&init));
        expect_untouched(&mut script, state, "INIT under the endpoint's tag");
        let half = script.packet_of_bytes(ZERO, &chunk_bytes(kind::INIT, &[1; 8]));
        script.send_raw(half);
        expect_untouched(&mut script, state, "half an INIT");
    }
    let mut script = established();
    let init = Chunk::Init(script.init(Parameters::empty()));
    script.send(&[heartbeat(), init, heartbeat()]);
    assert_eq!(script.expect_chunk(), heartbeat_ack());
    expect_untouched(&mut script, State::Established, "what is behind an INIT");
}

// A → ABORT (Z's tag, T bit; A's tag, no T bit; any other tag) → Z
// nothing
// A → ABORT (Z's tag, no T bit) or ABORT (A's tag, T bit) → Z
/// §8.5.1 B: the T bit and the tag must match, in every state.
#[test]
fn abort_needs_the_right_tag() {
    for state in ALIVE {
        for reflected in [false, true] {
            let mut script = in_state(state);
            let (own, peer) = (script.endpoint_tag, script.tag);
            // Before the INIT ACK the peer's tag is unknown, so no peer can reflect it.
            let right = [own, peer][usize::from(reflected)];
            let known = !(reflected && state == State::CookieWait);
            let near = VerificationTag(right.0 ^ 0x8000_0000);
            for tag in [own, peer, ZERO, STRANGE, near] {
                if tag != right || !known {
                    script.send_tagged(tag, &[abort(reflected)]);
                    let what = format!("ABORT, T bit {reflected}, under {tag:?}");
                    expect_untouched(&mut script, state, &what);
                }
            }
            if known {
                script.send_tagged(right, &[abort(reflected)]);
                script.expect_silence();
                assert!(
                    matches!(script.events().last(), Some(Event::Closed(_))),
                    "{state:?}"
                );
                assert_eq!(associations(&mut script), 0);
            }
        }
    }
}

// A → HEARTBEAT, ABORT (T bit) with Z's tag → Z
// A ← HEARTBEAT ACK ← Z
/// §8.5.1 B: the same rule holds for an ABORT that is not the first chunk.
#[test]
fn abort_behind_other_chunks_needs_the_right_tag() {
    let mut script = established();
    script.send(&[heartbeat(), ABORT_REFLECTED]);
    assert_eq!(script.expect_chunk(), heartbeat_ack());
    expect_untouched(&mut script, State::Established, "ABORT, T bit, under Z's tag");
    script.send(&[heartbeat(), ABORT]);
    assert!(matches!(script.events().last(), Some(Event::Closed(_))));
}

// A → ABORT, a thousand times, each with another tag → Z
// nothing
/// §8.5.1 B: an attacker that does not see the packets cannot guess the tag.
#[test]
fn guessed_tags_do_no_harm() {
    let mut script = established();
    for guess in 1..1000_u32 {
        let tag = VerificationTag(guess.wrapping_mul(0x9e37_79b9));
        for chunk in [ABORT, ABORT_REFLECTED, COMPLETE, Chunk::ShutdownAck] {
            script.send_tagged(tag, &[chunk]);
        }
    }
    expect_untouched(&mut script, State::Established, "guesses");
}

// A ← SHUTDOWN ← Z
// A → SHUTDOWN ACK → Z
// A ← SHUTDOWN COMPLETE (A's tag, no T bit) ← Z
/// §8.5.1 C, sending: an endpoint with a TCB uses the peer's tag and no T bit. (Without a TCB: rule 5.)
#[test]
fn shutdown_complete_has_the_peers_tag() {
    let mut script = in_state(State::ShutdownSent);
    script.send(&[Chunk::ShutdownAck]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    assert_eq!(answer.only(), COMPLETE);
}

// A → SHUTDOWN ACK → Z
// A ← SHUTDOWN COMPLETE (A's tag, no T bit) or SHUTDOWN COMPLETE (Z's tag, T bit) ← Z
/// §8.5.1 C, receiving: the T bit and the tag must match, and the state must be SHUTDOWN-ACK-SENT.
#[test]
fn shutdown_complete_needs_the_right_tag() {
    for state in ALIVE {
        for reflected in [false, true] {
            let mut script = in_state(state);
            let complete = Chunk::ShutdownComplete(ShutdownComplete {
                reflected_tag: reflected,
            });
            let right = [script.endpoint_tag, script.tag][usize::from(reflected)];
            for tag in [script.endpoint_tag, script.tag, ZERO, STRANGE] {
                if tag != right || state != State::ShutdownAckSent {
                    script.send_tagged(tag, core::slice::from_ref(&complete));
                    let what = format!("SHUTDOWN COMPLETE, T bit {reflected}, under {tag:?}");
                    expect_untouched(&mut script, state, &what);
                }
            }
            if state == State::ShutdownAckSent {
                script.send_tagged(right, &[complete]);
                script.expect_silence();
                assert_eq!(script.events(), [Event::Closed(CloseReason::Shutdown)]);
            }
        }
    }
}

// A → SHUTDOWN COMPLETE (T bit), DATA, with A's tag → Z
// nothing
/// §8.5.1 C: chunks after a SHUTDOWN COMPLETE with a reflected tag are dropped.
#[test]
fn chunks_after_a_reflected_tag_are_dropped() {
    let mut script = established();
    let data = script.data(0, 0, "hello");
    script.send_tagged(script.tag, &[COMPLETE_REFLECTED, data, heartbeat()]);
    script.advance(SECOND);
    expect_untouched(&mut script, State::Established, "DATA behind a SHUTDOWN COMPLETE");
}

// A → INIT → Z
// A ← INIT ACK ← Z
// A → COOKIE ECHO (the tag of the INIT ACK) → Z
/// §8.5.1 D, sending. (Receiving: rule 4, and the next test.)
#[test]
fn cookie_echo_has_the_tag_of_the_init_ack() {
    let mut script = nobody();
    script.tag = VerificationTag(0xfeed_f00d);
    script.connect();
    script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, VerificationTag(0xfeed_f00d));
    assert!(matches!(answer.only(), Chunk::CookieEcho(_)));
}

// A → COOKIE ECHO (a forged cookie), ABORT, DATA, with any tag → Z
// nothing
/// §8.5.1 D, §5.2.4: a COOKIE ECHO is accepted with any tag, so the chunks after it are processed only if its cookie is valid.
#[test]
fn chunks_after_a_forged_cookie_are_dropped() {
    for state in ALIVE {
        let mut script = in_state(state);
        let forged = Chunk::CookieEcho(CookieEcho {
            cookie: Bytes::from_static(&[7; 60]),
        });
        let data = script.data(0, 0, "hello");
        for tag in [script.endpoint_tag, script.tag, ZERO, STRANGE] {
            script.send_tagged(tag, &[forged.clone(), data.clone(), ABORT, ABORT_REFLECTED]);
            expect_untouched(&mut script, state, "a forged cookie");
        }
    }
}

// A → INIT → Z                         A → COOKIE ECHO → Z
// A ← SHUTDOWN ACK (an old tag) ← Z, either way
// A → SHUTDOWN COMPLETE (the old tag, T bit) → Z
// A: T1 continues → INIT or COOKIE ECHO
/// §8.5.1 E, §9.2: during set-up a SHUTDOWN ACK belongs to an earlier association, and set-up is not affected.
#[test]
fn shutdown_ack_in_set_up_is_out_of_the_blue() {
    for state in [State::CookieWait, State::CookieEchoed] {
        for chunks in [
            vec![Chunk::ShutdownAck],
            vec![Chunk::ShutdownAck, error(Cause::CookieReceivedWhileShuttingDown)],
            vec![heartbeat(), Chunk::ShutdownAck],
        ] {
            let mut script = in_state(state);
            script.advance(SECOND / 2);
            script.send_tagged(STRANGE, &chunks);
            let answer = script.expect();
            assert_eq!(answer.header.verification_tag, STRANGE);
            assert_eq!(answer.only(), COMPLETE_REFLECTED);
            expect_untouched(&mut script, state, "SHUTDOWN ACK");
            assert_eq!(script.advance_to_timeout(), SECOND / 2, "T1 went on");
            let expected = if state == State::CookieWait {
                kind::INIT
            } else {
                kind::COOKIE_ECHO
            };
            assert_eq!(script.expect_chunk().kind(), expected);
        }
        let mut script = in_state(state);
        script.send_tagged(ZERO, &[Chunk::ShutdownAck]);
        expect_untouched(&mut script, state, "SHUTDOWN ACK under tag 0");
    }
}

// A → INIT, COOKIE ECHO, DATA, HEARTBEAT, SHUTDOWN, SHUTDOWN COMPLETE → Z: an association starts and ends
// A → INIT, COOKIE ECHO → Z: another association starts
// A → all packets of the first association again → Z
/// §8.5: replayed packets of an earlier association have no effect on a later one between the same ports.
#[test]
fn replayed_packets_of_an_earlier_association() {
    let mut script = nobody();
    let mut recorded = Vec::new();
    let (tag, cookie_echo) = take_cookie(&mut script);
    let data = [script.data(0, 0, "one"), script.data(0, 1, "two")];
    let first_tsn = script.tsn.minus(2);
    for chunks in [
        vec![cookie_echo],
        vec![Chunk::CookieAck],
        data.to_vec(),
        vec![heartbeat()],
        vec![sack(script.endpoint_tsn)],
        vec![shutdown_chunk(script.endpoint_tsn)],
        vec![Chunk::ShutdownAck],
        vec![COMPLETE],
        vec![ABORT],
    ] {
        recorded.push(script.packet(tag, &chunks));
    }
    for packet in [0, 2] {
        script.send_raw(recorded[packet].clone());
    }
    assert_eq!(script.messages().len(), 2);
    script.send_raw(recorded[8].clone());
    assert_eq!(associations(&mut script), 0);
    script.skip_answers();

    script.tag = VerificationTag(0x0bad_cafe);
    script.tsn = first_tsn;
    script.set_up();
    script.events();
    for packet in recorded {
        script.send_raw(packet);
        expect_untouched(&mut script, State::Established, "a packet of before");
    }
    let (tsn, data) = (script.tsn, script.data(0, 0, "new"));
    script.send(&[data]);
    script.advance(SECOND);
    assert!(matches!(script.expect_chunk(), Chunk::Sack(sack) if sack.cumulative_tsn_ack == tsn));
    assert_eq!(script.messages()[0].bytes, "new");
}

// A → DATA → Z, again
// A ← SACK (duplicate) ← Z
/// §6.2: a packet of this association that arrives twice is reported as duplicate and not delivered twice.
#[test]
fn a_replayed_packet_of_this_association() {
    let mut script = established();
    let (tsn, data) = (script.tsn, script.data(0, 0, "once"));
    script.send(core::slice::from_ref(&data));
    script.advance(SECOND);
    assert!(matches!(script.expect_chunk(), Chunk::Sack(_)));
    script.send(&[data]);
    let Chunk::Sack(again) = script.expect_chunk() else {
        panic!("SACK")
    };
    assert_eq!(again.duplicate_tsns.iter().collect::<Vec<_>>(), [tsn]);
    assert_eq!(script.messages().len(), 1);
}

// A → DATA, one bit of it flipped → Z
// nothing
/// §6.8: a packet with a wrong checksum is dropped, whichever bit is wrong, and is not answered, not even by an ABORT.
#[test]
fn a_wrong_checksum_is_dropped() {
    let mut script = established();
    let data = script.data(0, 0, "hello");
    let packet = script.packet(script.endpoint_tag, &[data]);
    for bit in 0..packet.len() * 8 {
        let mut damaged = packet.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        script.send_raw(damaged);
    }
    script.advance(SECOND);
    expect_untouched(&mut script, State::Established, "a flipped bit");
    script.send_raw(packet);
    assert_eq!(script.messages().len(), 1, "the same without damage");
}

// A → the beginning of a packet → Z
// nothing
/// §6.8: a truncated packet has a wrong checksum, or no header.
#[test]
fn a_truncated_packet_is_dropped() {
    let mut script = established();
    let data = script.data(0, 0, "hello");
    let packet = script.packet(script.endpoint_tag, &[heartbeat(), data]);
    for len in 0..packet.len() {
        script.send_raw(packet[..len].to_vec());
    }
    script.advance(SECOND);
    expect_untouched(&mut script, State::Established, "a beginning");
}

// A → HEARTBEAT, the beginning of a DATA chunk → Z
// A ← HEARTBEAT ACK ← Z
/// §6.10: a partial chunk is dropped. The chunks before it are processed, and the association continues.
#[test]
fn a_partial_chunk_is_dropped() {
    let mut script = established();
    let data = script.data(0, 0, "hello");
    let (whole, part) = (encoded(&[heartbeat()]), encoded(&[data]));
    for len in 0..16 {
        let bytes = [&whole[..], &part[..len]].concat();
        let packet = script.packet_of_bytes(script.endpoint_tag, &bytes);
        script.send_raw(packet);
        assert_eq!(script.expect_chunk(), heartbeat_ack(), "{len} bytes of DATA");
        expect_untouched(&mut script, State::Established, "part of DATA");
    }
    // The padding alone may be missing (§3.2).
    let packet = script.packet_of_bytes(script.endpoint_tag, &part[..21]);
    script.send_raw(packet);
    assert_eq!(script.messages()[0].bytes, "hello");
}

// A → HEARTBEAT, a chunk of length 0 to 3, HEARTBEAT → Z
// A ← HEARTBEAT ACK ← Z
/// §3.2: a chunk shorter than its header ends the packet. If it is the only chunk, the packet has no effect.
#[test]
fn a_chunk_without_length_ends_the_packet() {
    for kind in [kind::DATA, kind::INIT, kind::ABORT, kind::COOKIE_ECHO, 0xff] {
        for length in 0..4 {
            let short = [kind, 0, 0, length];
            let mut script = established();
            let whole = encoded(&[heartbeat()]);
            let bytes = [&whole[..], &short, &whole].concat();
            let packet = script.packet_of_bytes(script.endpoint_tag, &bytes);
            script.send_raw(packet);
            assert_eq!(script.expect_chunk(), heartbeat_ack());
            expect_untouched(&mut script, State::Established, "a chunk without length");
            for tag in [script.endpoint_tag, ZERO] {
                let packet = script.packet_of_bytes(tag, &[&short[..], &whole].concat());
                script.send_raw(packet);
                expect_untouched(&mut script, State::Established, "a chunk without length");
            }
            let mut script = nobody();
            let packet = script.packet_of_bytes(STRANGE, &[&short[..], &whole].concat());
            script.send_raw(packet);
            expect_dropped(&mut script, "a chunk without length, out of the blue");
        }
    }
}

// A → DATA, SACK, … shorter than their fields, with Z's tag → Z
// A ← ABORT (Protocol Violation) ← Z
/// §3.3: a chunk of a known type with too little content is a protocol violation. (DATA without user data: cause 9.)
#[test]
fn a_malformed_chunk_ends_the_association() {
    for kind in [kind::DATA, kind::SACK, kind::INIT_ACK, kind::SHUTDOWN] {
        let mut script = established();
        let packet = script.packet_of_bytes(script.endpoint_tag, &chunk_bytes(kind, &[0; 3]));
        script.send_raw(packet);
        let answer = script.expect();
        assert_eq!(answer.header.verification_tag, script.tag);
        let Chunk::Abort(abort) = answer.only() else {
            panic!("ABORT")
        };
        assert!(!abort.reflected_tag);
        let cause = abort.causes.iter().next();
        assert!(
            matches!(cause, Some(Ok(Cause::ProtocolViolation(_)))),
            "type {kind}: {cause:?}"
        );
        assert!(matches!(
            script.events().last(),
            Some(Event::Closed(CloseReason::ProtocolViolation(_)))
        ));
    }
}

// A → HEARTBEAT, unknown chunk, HEARTBEAT → Z
// 00: A ← HEARTBEAT ACK ← Z
// 01: A ← HEARTBEAT ACK, ERROR (Unrecognized Chunk Type) ← Z
// 10: A ← HEARTBEAT ACK, HEARTBEAT ACK ← Z
// 11: A ← HEARTBEAT ACK, ERROR (Unrecognized Chunk Type), HEARTBEAT ACK ← Z
/// §3.2: the two highest bits of an unknown type say whether to process the rest of the packet, and whether to report the
/// chunk.
#[test]
fn unknown_chunk_types() {
    for kind in [0x3f, 0x7f, 0xbf, 0xff] {
        let (goes_on, reports) = (kind & 0x80 != 0, kind & 0x40 != 0);
        let mut script = established();
        let (whole, unknown) = (encoded(&[heartbeat()]), chunk_bytes(kind, b"odd"));
        let packet = script.packet_of_bytes(script.endpoint_tag, &[&whole[..], &unknown, &whole].concat());
        script.send_raw(packet);
        let mut expected = vec![heartbeat_ack()];
        if reports {
            // Without the padding: the length is seven.
            let chunk = Bytes::copy_from_slice(&unknown[..7]);
            expected.push(error(Cause::UnrecognizedChunkType(chunk)));
        }
        if goes_on {
            expected.push(heartbeat_ack());
        }
        assert_eq!(script.expect().chunks, expected, "type {kind:#x}");
        expect_untouched(&mut script, State::Established, "an unknown chunk");
    }
}

// A → INIT → Z
// A ← unknown chunk (11), with A's tag ← Z
// nothing
/// §8.5: before the INIT ACK the peer's tag is unknown, and a report with tag 0 would not be a valid packet.
#[test]
fn an_unknown_chunk_before_the_init_ack() {
    let mut script = in_state(State::CookieWait);
    let packet = script.packet_of_bytes(script.endpoint_tag, &chunk_bytes(0xff, b"odd"));
    script.send_raw(packet);
    script.send(&[heartbeat()]);
    expect_untouched(&mut script, State::CookieWait, "an unknown chunk");
    assert_eq!(script.advance_to_timeout(), SECOND);
    assert!(matches!(script.expect_chunk(), Chunk::Init(_)));
}

// A → unknown chunk (11), many of them → Z
// A ← ERROR, ERROR, …: one packet ← Z
/// §12.4: the answers to one packet leave in one packet. Answers that do not fit it are not sent.
#[test]
fn one_packet_is_answered_by_one() {
    let mut script = established();
    let unknown = chunk_bytes(0xff, &[7; 100]);
    let packet = script.packet_of_bytes(script.endpoint_tag, &unknown.repeat(30));
    script.send_raw(packet);
    let answer = script.expect();
    let room = usize::from(quiet().path_mtu) - 28 - 12;
    assert_eq!(answer.chunks.len(), room / 112);
    expect_untouched(&mut script, State::Established, "many unknown chunks");
}

// A → INIT (a parameter whose length is too small, too large or wrong for its type) → Z
// A ← ABORT (the tag of the INIT) ← Z
/// §3.2.1, §8.4 rule 3: malformed parameters. No state is kept, and an existing association is not affected.
#[test]
fn malformed_parameters() {
    let parameters: [&[u8]; 7] = [
        &[0, 5, 0, 0],
        &[0, 5, 0, 3],
        &[0, 5, 0, 8, 10, 0, 0],
        &[0, 5, 0, 7, 10, 0, 0, 0],
        &[0, 6, 0, 8, 10, 0, 0, 3],
        &[0, 9, 0, 6, 0, 0, 0, 0],
        &[0xc0, 0x77, 0xff, 0xff],
    ];
    for bytes in parameters {
        let mut script = nobody();
        let tag = script.tag;
        let mut init = script.init(Parameters::from_bytes(Bytes::from_static(bytes)));
        script.send_tagged(ZERO, &[Chunk::Init(init.clone())]);
        let answer = script.expect();
        assert_eq!(answer.header.verification_tag, tag, "{bytes:?}");
        let Chunk::Abort(abort) = answer.only() else {
            panic!("ABORT for {bytes:?}")
        };
        assert!(!abort.reflected_tag);
        let cause = abort.causes.iter().next();
        assert!(
            matches!(cause, Some(Ok(Cause::ProtocolViolation(_)))),
            "{cause:?}"
        );
        assert_eq!(associations(&mut script), 0);

        let mut script = established();
        init.initiate_tag = VerificationTag(77);
        script.send_tagged(ZERO, &[Chunk::Init(init)]);
        let answer = script.expect();
        assert_eq!(answer.header.verification_tag, VerificationTag(77));
        assert!(matches!(answer.only(), Chunk::Abort(_)));
        expect_untouched(&mut script, State::Established, "INIT with a bad parameter");
    }
}
