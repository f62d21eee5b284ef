//! Error causes (RFC 9260 §3.3.10): for each cause, when an endpoint sends it and what it does when it receives it.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};

use anabranch_proto::{AssociationState as State, CloseReason, Event, SendOptions, StreamId, Tsn};
use anabranch_testkit::{Script, quiet, sack, shutdown_chunk, state_cookie};
use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk, CookieEcho, ErrorChunk, Init, InitAck, kind};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

use super::{established, nobody};

const SECOND: Duration = Duration::from_secs(1);
const ZERO: VerificationTag = VerificationTag(0);
/// The tag of a peer that restarts.
const RESTARTED: VerificationTag = VerificationTag(77);

fn abort(causes: &[Cause]) -> Chunk {
    Chunk::Abort(Abort {
        reflected_tag: false,
        causes: Causes::from_causes(causes),
    })
}

fn error(causes: &[Cause]) -> Chunk {
    Chunk::Error(ErrorChunk {
        causes: Causes::from_causes(causes),
    })
}

/// The endpoint has sent COOKIE ECHO.
fn cookie_echoed() -> Script {
    let mut script = nobody();
    script.connect();
    script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    script
}

fn associations(script: &mut Script) -> usize {
    script.host_mut().endpoint_mut().association_count()
}

fn send_init(script: &mut Script, init: Init) {
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
}

fn take_init_ack(script: &mut Script) -> InitAck {
    match script.expect_chunk() {
        Chunk::InitAck(ack) => ack,
        other => panic!("INIT ACK, not {other:?}"),
    }
}

fn cookie_echo(ack: &InitAck) -> Chunk {
    let cookie = state_cookie(ack);
    Chunk::CookieEcho(CookieEcho { cookie })
}

/// The INIT of a peer that has lost all state.
fn restart_init(script: &Script, parameters: Parameters) -> Init {
    let mut init = script.init(parameters);
    init.initiate_tag = RESTARTED;
    init
}

/// Parameters from their bytes.
fn parameters(bytes: &'static [u8]) -> Parameters {
    Parameters::from_bytes(Bytes::from_static(bytes))
}

fn unpadded_chunk(script: &mut Script, bytes: &[u8]) {
    let packet = script.packet_of_bytes(script.endpoint_tag, bytes);
    script.send_raw(packet);
}

/// Checks that the endpoint's next packet is this chunk alone, under this tag.
#[track_caller]
fn expect_under(script: &mut Script, tag: VerificationTag, chunk: &Chunk) {
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, tag);
    assert_eq!(&answer.only(), chunk);
    script.expect_silence();
}

/// Checks that the endpoint has aborted the association because of a protocol violation.
#[track_caller]
fn expect_violation(script: &mut Script) {
    let events = script.events();
    assert!(
        matches!(
            events.last(),
            Some(Event::Closed(CloseReason::ProtocolViolation(_)))
        ),
        "{events:?}"
    );
    assert_eq!(associations(script), 0);
}

/// Checks that the association has not changed.
#[track_caller]
fn expect_goes_on(script: &mut Script, state: State) {
    script.expect_silence();
    assert_eq!(script.association().state(), state);
    assert_eq!(script.events(), []);
}

/// Each cause of §3.3.10, and one that no standard defines.
fn all_causes() -> Vec<Cause> {
    vec![
        Cause::InvalidStreamIdentifier { stream: StreamId(9) },
        Cause::MissingMandatoryParameter(vec![7]),
        Cause::StaleCookie { staleness_us: 5 },
        Cause::OutOfResource,
        Cause::UnresolvableAddress(Bytes::from_static(b"\0\x0b\0\x08host")),
        Cause::UnrecognizedChunkType(Bytes::from_static(b"\xff\0\0\x04")),
        Cause::InvalidMandatoryParameter,
        Cause::UnrecognizedParameters(Bytes::from_static(b"\xc0\x77\0\x04")),
        Cause::NoUserData { tsn: Tsn(5) },
        Cause::CookieReceivedWhileShuttingDown,
        Cause::RestartWithNewAddresses(Bytes::from_static(b"\0\x05\0\x08\x0a\0\0\x03")),
        Cause::UserInitiatedAbort(Bytes::from_static(b"enough")),
        Cause::ProtocolViolation(Bytes::from_static(b"why")),
        Cause::Unknown {
            code: 0x4242,
            value: Bytes::from_static(b"news"),
        },
    ]
}

// A → ERROR (each cause; all of them) → Z
// Z tells its application, and continues
/// §3.3.10: an ERROR with any cause is not fatal and is never answered.
#[test]
fn every_cause_in_an_error_is_reported() {
    let mut script = established();
    let all = all_causes();
    let mut lists: Vec<_> = all.chunks(1).collect();
    lists.push(&all);
    for causes in lists {
        script.send(&[error(causes)]);
        script.expect_silence();
        let told = Event::PeerError(Causes::from_causes(causes));
        assert_eq!(script.events(), [told]);
        assert_eq!(script.association().state(), State::Established);
    }
}

// A → ABORT (each cause; all; none) → Z
// Z closes the association, and tells its application the cause
/// §3.3.7, §9.1: an ABORT with any cause is fatal.
#[test]
fn every_cause_in_an_abort_is_reported() {
    let all = all_causes();
    let mut lists: Vec<_> = all.chunks(1).collect();
    lists.extend([&all[..], &[]]);
    for causes in lists {
        let mut script = established();
        script.send(&[abort(causes)]);
        script.expect_silence();
        let reason = CloseReason::AbortedByPeer(Causes::from_causes(causes));
        assert_eq!(script.events(), [Event::Closed(reason)]);
        assert_eq!(associations(&mut script), 0);
    }
}

// A → ERROR, ABORT with causes that are cut off, too short, or of length 0 → Z
/// §3.3.10: the application gets the bytes of malformed causes, and the chunk has its usual effect.
#[test]
fn malformed_causes() {
    for bytes in [
        &b"\0\x01\0\0"[..],
        b"\0\x01\0\x03",
        b"\0\x01\0\x09\0\x05",
        b"\0\x01\0\x06\0\x05",
        b"\0\x02\0\x08\0\0\0\x09",
        b"\0\x03\0\x05\x07",
        b"\0",
    ] {
        let causes = Causes::from_bytes(Bytes::copy_from_slice(bytes));
        let mut script = established();
        script.send(&[Chunk::Error(ErrorChunk {
            causes: causes.clone(),
        })]);
        script.expect_silence();
        assert_eq!(script.events(), [Event::PeerError(causes.clone())]);
        let reflected_tag = false;
        script.send(&[Chunk::Abort(Abort {
            reflected_tag,
            causes: causes.clone(),
        })]);
        let closed = Event::Closed(CloseReason::AbortedByPeer(causes));
        assert_eq!(script.events(), [closed]);
    }
}

// A → DATA (stream 10 of 10), DATA (stream 0) → Z
// A ← ERROR (Invalid Stream Identifier), SACK ← Z
/// Cause 1, §3.3.10.1, §6.5: the DATA is acknowledged and dropped. The rest of the packet is processed.
#[test]
fn cause_1_invalid_stream_identifier() {
    let mut script = established();
    let chunks = [script.data(10, 0, "lost"), script.data(0, 0, "kept")];
    script.send(&chunks);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    let cause = Cause::InvalidStreamIdentifier { stream: StreamId(10) };
    assert_eq!(answer.chunks[0], error(&[cause]));
    let last = script.tsn.minus(1);
    assert!(
        matches!(&answer.chunks[1..], [Chunk::Sack(sack)] if sack.cumulative_tsn_ack == last),
        "{:?}",
        answer.chunks
    );
    let read: Vec<_> = script
        .messages()
        .into_iter()
        .map(|message| message.bytes)
        .collect();
    assert_eq!(read, ["kept"]);
    expect_goes_on(&mut script, State::Established);
}

// A → INIT → Z
// A ← INIT ACK (without a cookie) ← Z
// A → ABORT (Missing Mandatory Parameter: 7) → Z
/// Cause 2, §3.3.10.2, §5.1: the ABORT has the tag of the INIT ACK.
#[test]
fn cause_2_missing_mandatory_parameter() {
    let mut script = nobody();
    script.connect();
    let mut ack = script.init_ack(b"a cookie");
    ack.parameters = Parameters::empty();
    script.send(&[Chunk::InitAck(ack)]);
    let tag = script.tag;
    expect_under(
        &mut script,
        tag,
        &abort(&[Cause::MissingMandatoryParameter(vec![7])]),
    );
    expect_violation(&mut script);
}

// A → INIT → Z
// A ← INIT ACK ← Z
// A waits for longer than Valid.Cookie.Life
// A → COOKIE ECHO → Z
// A ← ERROR (Stale Cookie: by so many microseconds) ← Z
/// Cause 3, §3.3.10.3, §5.1.5: the ERROR has A's tag. No state is kept, and DATA after the cookie is dropped.
#[test]
fn cause_3_stale_cookie() {
    let mut script = nobody();
    let init = script.init(Parameters::empty());
    send_init(&mut script, init);
    let ack = take_init_ack(&mut script);
    let data = script.data(0, 0, "hello");
    script.advance(quiet().cookie_lifetime + Duration::from_nanos(1_500_001));
    script.send_tagged(ack.initiate_tag, &[cookie_echo(&ack), data]);
    let tag = script.tag;
    // Rounded up.
    expect_under(
        &mut script,
        tag,
        &error(&[Cause::StaleCookie { staleness_us: 1_501 }]),
    );
    assert_eq!(associations(&mut script), 0);
    assert_eq!(script.messages(), []);
}

// A → INIT, COOKIE ECHO → Z, an association
// A waits for longer than Valid.Cookie.Life
// A → COOKIE ECHO (the same) → Z
// A ← COOKIE ACK ← Z
// A → COOKIE ECHO (of an INIT that the association does not know) → Z
// A ← ERROR (Stale Cookie) ← Z
/// Cause 3, §5.2.4: a cookie of the existing association is valid at any age. Any other old cookie is stale here too.
#[test]
fn cause_3_stale_cookie_with_an_association() {
    let mut script = nobody();
    let init = script.init(Parameters::empty());
    send_init(&mut script, init);
    let ack = take_init_ack(&mut script);
    script.endpoint_tag = ack.initiate_tag;
    script.send(&[cookie_echo(&ack)]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    let restart = restart_init(&script, Parameters::empty());
    send_init(&mut script, restart);
    let other = take_init_ack(&mut script);
    script.events();
    script.advance(quiet().cookie_lifetime + SECOND);

    script.send(&[cookie_echo(&ack)]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    expect_goes_on(&mut script, State::Established);

    script.send_tagged(other.initiate_tag, &[cookie_echo(&other)]);
    let stale = error(&[Cause::StaleCookie {
        staleness_us: 1_000_000,
    }]);
    expect_under(&mut script, RESTARTED, &stale);
    expect_goes_on(&mut script, State::Established);
}

/// The Cookie Preservative of an INIT.
fn preservative(init: &Init) -> Option<u32> {
    let parameters = init.parameters.iter().filter_map(Result::ok);
    parameters
        .filter_map(|raw| Parameter::decode(raw).ok())
        .find_map(|parameter| match parameter {
            Parameter::CookiePreservative { increment_ms } => Some(increment_ms),
            _ => None,
        })
}

// A → COOKIE ECHO → Z
// A ← ERROR (Stale Cookie) ← Z
// A → INIT (Cookie Preservative) → Z
// A ← INIT ACK ← Z, A → COOKIE ECHO → Z, A ← COOKIE ACK ← Z
/// Cause 3 on receipt, §5.2.6: in COOKIE-ECHOED the endpoint sends INIT again, with the same tag and a Cookie Preservative.
#[test]
fn cause_3_on_receipt() {
    for (staleness_us, least_ms) in [(0, 1), (2_500_000, 2_500), (u32::MAX, 60_000)] {
        let mut script = cookie_echoed();
        script.send(&[error(&[Cause::StaleCookie { staleness_us }])]);
        let answer = script.expect();
        assert_eq!(answer.header.verification_tag, ZERO);
        let Chunk::Init(init) = answer.only() else {
            panic!("INIT")
        };
        assert_eq!(init.initiate_tag, script.endpoint_tag);
        let asked = preservative(&init).expect("a Cookie Preservative");
        assert!(
            (least_ms..=61_000).contains(&asked),
            "{asked} ms for {staleness_us} µs"
        );
        assert_eq!(script.association().state(), State::CookieWait);
        script.tag = VerificationTag(0x0bad_cafe);
        script.send(&[Chunk::InitAck(script.init_ack(b"another"))]);
        let answer = script.expect();
        assert_eq!(answer.header.verification_tag, script.tag);
        let cookie = Bytes::from_static(b"another");
        assert_eq!(answer.only(), Chunk::CookieEcho(CookieEcho { cookie }));
        script.send(&[Chunk::CookieAck]);
        assert_eq!(script.association().state(), State::Established);
    }
}

// A → COOKIE ECHO → Z
// A ← ERROR (Stale Cookie) ← Z, three times
/// Cause 3 on receipt, §5.2.6: after several stale cookies the endpoint stops the attempt and tells the application.
#[test]
fn cause_3_on_receipt_several_times() {
    let mut script = cookie_echoed();
    let stale = error(&[Cause::StaleCookie { staleness_us: 9 }]);
    for _ in 0..2 {
        script.send(core::slice::from_ref(&stale));
        assert_eq!(script.expect_chunk().kind(), kind::INIT);
        script.send(&[Chunk::InitAck(script.init_ack(b"another"))]);
        assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    }
    script.send(&[stale]);
    script.expect_silence();
    let events = script.events();
    assert_eq!(events.last(), Some(&Event::Closed(CloseReason::StaleCookie)));
    assert_eq!(associations(&mut script), 0);
}

// A → INIT → Z                         A → COOKIE ECHO → Z
// A ← ABORT (Out of Resource) ← Z, either way
/// Cause 4 on receipt, §3.3.10.4, §5.1: a peer without resources refuses set-up. This endpoint has no such limit: it answers an
/// INIT without keeping state.
#[test]
fn cause_4_out_of_resource() {
    let mut waiting = nobody();
    waiting.connect();
    for mut script in [waiting, cookie_echoed()] {
        script.send(&[abort(&[Cause::OutOfResource])]);
        script.expect_silence();
        let causes = Causes::from_causes(&[Cause::OutOfResource]);
        assert_eq!(
            script.events(),
            [Event::Closed(CloseReason::AbortedByPeer(causes))]
        );
        assert_eq!(associations(&mut script), 0);
    }
}

// A → INIT (Host Name Address) → Z
// A ← ABORT (Unresolvable Address: the parameter) ← Z
/// Cause 5, §3.3.10.5, §3.3.2.1.4: host names are no longer allowed. An existing association with A does not change.
#[test]
fn cause_5_unresolvable_address() {
    const HOST: &[u8] = b"\0\x0b\0\x0aa.org\0";
    let expected = abort(&[Cause::UnresolvableAddress(Bytes::from_static(HOST))]);
    let mut script = nobody();
    let init = restart_init(&script, parameters(HOST));
    send_init(&mut script, init.clone());
    expect_under(&mut script, RESTARTED, &expected);
    assert_eq!(associations(&mut script), 0);

    let mut script = established();
    send_init(&mut script, init);
    expect_under(&mut script, RESTARTED, &expected);
    expect_goes_on(&mut script, State::Established);
}

// A → INIT → Z
// A ← INIT ACK (Host Name Address) ← Z
// A → ABORT (Unresolvable Address: the parameter) → Z
/// Cause 5, §3.3.3.1: the same for an INIT ACK.
#[test]
fn cause_5_unresolvable_address_in_init_ack() {
    const HOST: &[u8] = b"\0\x07\0\x08abcd\0\x0b\0\x0aa.org\0";
    let mut script = nobody();
    script.connect();
    let mut ack = script.init_ack(b"a cookie");
    ack.parameters = parameters(HOST);
    script.send(&[Chunk::InitAck(ack)]);
    let tag = script.tag;
    let expected = abort(&[Cause::UnresolvableAddress(Bytes::from_static(&HOST[8..]))]);
    expect_under(&mut script, tag, &expected);
    expect_violation(&mut script);
}

// A → COOKIE ECHO → Z
// A ← unknown chunk ← Z
// A → ERROR (Unrecognized Chunk Type: the chunk) → Z
/// Cause 6, §3.3.10.6: the cause contains the whole chunk without padding, and is sent as soon as the peer's tag is known.
/// (`out_of_the_blue` tests the four actions.)
#[test]
fn cause_6_unrecognized_chunk_type() {
    for mut script in [cookie_echoed(), established()] {
        let state = script.association().state();
        unpadded_chunk(&mut script, b"\xc5\x03\0\x07odd\0");
        let cause = Cause::UnrecognizedChunkType(Bytes::from_static(b"\xc5\x03\0\x07odd"));
        let tag = script.tag;
        expect_under(&mut script, tag, &error(&[cause]));
        expect_goes_on(&mut script, state);
    }
}

// A → FORWARD TSN, ASCONF, RE-CONFIG, … (not negotiated) → Z
// A ← ERROR (Unrecognized Chunk Type), where the type says so ← Z
/// Cause 6, §3.2: a chunk of an extension that was not negotiated is unknown, and the bits of its type say what to do. (I-DATA
/// is different: RFC 8260 §2.2.3 requires an ABORT; see `interleaving`.)
#[test]
fn cause_6_for_extensions_that_were_not_negotiated() {
    let chunks: [&'static [u8]; 4] = [
        b"\xc0\0\0\x08\0\0\x03\xe8",                             // FORWARD TSN
        b"\x82\0\0\x0c\0\x0f\0\x08\0\0\0\x01",                   // RE-CONFIG
        b"\x84\0\0\x08\0\0\0\0",                                 // PAD
        b"\x10\0\0\x14\0\0\x03\xe8\0\0\xff\xff\0\0\0\0\0\0\0\0", // NR-SACK
    ];
    for bytes in chunks {
        let mut script = established();
        unpadded_chunk(&mut script, bytes);
        if bytes[0] & 0x40 != 0 {
            let len = usize::from(bytes[3]);
            let cause = Cause::UnrecognizedChunkType(Bytes::from_static(&bytes[..len]));
            let tag = script.tag;
            expect_under(&mut script, tag, &error(&[cause]));
        }
        expect_goes_on(&mut script, State::Established);
        assert_eq!(script.messages(), [], "type {}", bytes[0]);
    }
}

// A → INIT (no streams; a window below 1500) → Z
// A ← ABORT (Invalid Mandatory Parameter) ← Z
/// Cause 7, §3.3.10.7, §3.3.2: the ABORT has the tag of the INIT. An existing association with A does not change.
#[test]
fn cause_7_invalid_mandatory_parameter() {
    let change: [fn(&mut Init); 3] = [
        |init| init.outbound_streams = 0,
        |init| init.inbound_streams = 0,
        |init| init.a_rwnd = 1499,
    ];
    let expected = abort(&[Cause::InvalidMandatoryParameter]);
    for change in change {
        let mut script = nobody();
        let mut init = restart_init(&script, Parameters::empty());
        change(&mut init);
        send_init(&mut script, init.clone());
        expect_under(&mut script, RESTARTED, &expected);
        assert_eq!(associations(&mut script), 0);

        let mut script = established();
        send_init(&mut script, init);
        expect_under(&mut script, RESTARTED, &expected);
        expect_goes_on(&mut script, State::Established);
    }
}

// A → INIT → Z
// A ← INIT ACK (no streams) ← Z
// A → ABORT (Invalid Mandatory Parameter) → Z
/// Cause 7, §3.3.3: the ABORT has the tag of the INIT ACK, and the attempt ends.
#[test]
fn cause_7_invalid_mandatory_parameter_in_init_ack() {
    let change: [fn(&mut InitAck); 2] = [|ack| ack.outbound_streams = 0, |ack| ack.inbound_streams = 0];
    for change in change {
        let mut script = nobody();
        script.connect();
        let mut ack = script.init_ack(b"a cookie");
        change(&mut ack);
        script.send(&[Chunk::InitAck(ack)]);
        let tag = script.tag;
        expect_under(&mut script, tag, &abort(&[Cause::InvalidMandatoryParameter]));
        expect_violation(&mut script);
    }
}

// A → INIT → Z
// A ← INIT ACK (four unknown parameters) ← Z
// A → COOKIE ECHO, ERROR (Unrecognized Parameters: those that want it) → Z
// A: T1-cookie
// A → COOKIE ECHO, ERROR (the same) → Z
/// Cause 8, §3.3.10.8, §3.2.1, §5.1 C: COOKIE ECHO is the first chunk. Parameters after one whose type says to stop are not
/// processed.
#[test]
fn cause_8_unrecognized_parameters() {
    // Skip; skip and report; stop and report; skip and report, not reached.
    const LIST: &[u8] =
        b"\0\x07\0\x08abcd\x80\x77\0\x04\xc0\x77\0\x05x\0\0\0\x40\x77\0\x06yz\0\0\xc0\x78\0\x04";
    let mut script = nobody();
    script.connect();
    let mut ack = script.init_ack(b"");
    ack.parameters = parameters(LIST);
    script.send(&[Chunk::InitAck(ack)]);
    let reported = [
        Cause::UnrecognizedParameters(Bytes::from_static(b"\xc0\x77\0\x05x")),
        Cause::UnrecognizedParameters(Bytes::from_static(b"\x40\x77\0\x06yz")),
    ];
    let cookie = Bytes::from_static(b"abcd");
    let expected = [Chunk::CookieEcho(CookieEcho { cookie }), error(&reported)];
    assert_eq!(script.expect().chunks, expected);
    assert_eq!(script.advance_to_timeout(), SECOND);
    assert_eq!(script.expect().chunks, expected);
    script.send(&[Chunk::CookieAck]);
    script.expect_silence();
    assert_eq!(script.association().state(), State::Established);
}

// A → COOKIE ECHO, ERROR (Unrecognized Parameters) → Z
// A ← COOKIE ACK ← Z
/// Cause 8 on receipt: the association is set up, and the application is told the parameters that A did not recognize.
#[test]
fn cause_8_on_receipt() {
    let mut script = nobody();
    let init = script.init(Parameters::empty());
    send_init(&mut script, init);
    let ack = take_init_ack(&mut script);
    let cause = Cause::UnrecognizedParameters(Bytes::from_static(b"\xc0\x77\0\x04"));
    script.send_tagged(
        ack.initiate_tag,
        &[cookie_echo(&ack), error(core::slice::from_ref(&cause))],
    );
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    let events = script.events();
    let told = Event::PeerError(Causes::from_causes(&[cause]));
    assert!(events.contains(&told), "{events:?}");
    assert_eq!(script.association().state(), State::Established);
}

// A → DATA, DATA (without user data) → Z
// A ← ABORT (No User Data: its TSN) ← Z
/// Cause 9, §3.3.10.9, §6.2: data received before it can still be read.
#[test]
fn cause_9_no_user_data() {
    let mut script = established();
    let whole = script.data(0, 0, "before");
    let tsn = script.tsn;
    let empty = script.data(0, 1, "");
    script.send(&[whole, empty]);
    let tag = script.tag;
    expect_under(&mut script, tag, &abort(&[Cause::NoUserData { tsn }]));
    assert_eq!(script.messages()[0].bytes, "before");
    expect_violation(&mut script);
}

// A ← SHUTDOWN ACK ← Z, which waits for SHUTDOWN COMPLETE
// A (restarted) → INIT → Z … (see §9.2: only the COOKIE ECHO of an INIT from before the shutdown gets this far)
// A → COOKIE ECHO → Z
// A ← SHUTDOWN ACK, ERROR (Cookie Received While Shutting Down) ← Z
/// Cause 10, §3.3.10.10, §5.2.4 A: both chunks in one packet.
#[test]
fn cause_10_cookie_received_while_shutting_down() {
    let mut script = established();
    let init = restart_init(&script, Parameters::empty());
    send_init(&mut script, init);
    let ack = take_init_ack(&mut script);
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    script.events();
    script.send_tagged(ack.initiate_tag, &[cookie_echo(&ack)]);
    let expected = [
        Chunk::ShutdownAck,
        error(&[Cause::CookieReceivedWhileShuttingDown]),
    ];
    assert_eq!(script.expect().chunks, expected);
    expect_goes_on(&mut script, State::ShutdownAckSent);
}

// A → COOKIE ECHO → Z
// A ← SHUTDOWN ACK, ERROR (Cookie Received While Shutting Down), an old tag ← Z
// A → SHUTDOWN COMPLETE (the old tag, T bit) → Z
// A: T1-cookie
// A → COOKIE ECHO → Z
// A ← COOKIE ACK ← Z
/// Cause 10 on receipt, §9.2: the restarted endpoint ends the old association, and its own attempt continues.
#[test]
fn cause_10_on_receipt() {
    let mut script = cookie_echoed();
    let old = VerificationTag(0x0123_4567);
    let cause = error(&[Cause::CookieReceivedWhileShuttingDown]);
    script.send_tagged(old, &[Chunk::ShutdownAck, cause]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, old);
    assert_eq!(answer.only().kind(), kind::SHUTDOWN_COMPLETE);
    assert_eq!(script.advance_to_timeout(), SECOND);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    script.send(&[Chunk::CookieAck]);
    assert_eq!(script.association().state(), State::Established);
}

// A → INIT (A's address and two more) → Z
// A ← ABORT (Restart of an Association with New Addresses: the two) ← Z
/// Cause 11, §3.3.10.11, §5.2.2: the association does not change.
#[test]
fn cause_11_restart_with_new_addresses() {
    let mut script = established();
    let IpAddr::V4(known) = script.remote.ip() else {
        panic!("an IPv4 address")
    };
    let added = [
        Parameter::Ipv4(Ipv4Addr::new(10, 0, 1, 2)),
        Parameter::Ipv6("fd00::2".parse().expect("an address")),
    ];
    let all = ParametersBuilder::new().push(&Parameter::Ipv4(known));
    let all = added.iter().fold(all, ParametersBuilder::push).finish();
    let new = added
        .iter()
        .fold(ParametersBuilder::new(), ParametersBuilder::push)
        .finish();
    let init = restart_init(&script, all);
    send_init(&mut script, init);
    let cause = Cause::RestartWithNewAddresses(new.as_bytes().clone());
    expect_under(&mut script, RESTARTED, &abort(&[cause]));
    expect_goes_on(&mut script, State::Established);
    let data = script.data(0, 0, "still here");
    script.send(&[data]);
    assert_eq!(script.messages()[0].bytes, "still here");
}

// A → ABORT (User-Initiated Abort: the reason) → Z
/// Cause 12, §3.3.10.12: the application's reason, an empty one, and one cut to the size of a packet.
#[test]
fn cause_12_user_initiated_abort() {
    for (reason, sent) in [(0, 0), (6, 6), (100_000, 1024)] {
        let mut script = established();
        script.act(|association, now| association.abort(now, vec![b'x'; reason].into()));
        let cause = Cause::UserInitiatedAbort(vec![b'x'; sent].into());
        let tag = script.tag;
        expect_under(&mut script, tag, &abort(&[cause]));
        assert_eq!(script.events(), [Event::Closed(CloseReason::Aborted)]);
    }
}

/// Checks that the endpoint's next packet is an ABORT with cause 13, and that the association is closed.
#[track_caller]
fn expect_cause_13(script: &mut Script) {
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    let Chunk::Abort(abort) = answer.only() else {
        panic!("ABORT")
    };
    let causes: Vec<_> = abort.causes.iter().collect();
    assert!(
        matches!(&causes[..], [Ok(Cause::ProtocolViolation(why))] if !why.is_empty()),
        "{causes:?}"
    );
    script.expect_silence();
    expect_violation(script);
}

// A → SACK or SHUTDOWN (a TSN that Z never sent) → Z
// A ← ABORT (Protocol Violation) ← Z
/// Cause 13, §3.3.10.13, §6.2.1.
#[test]
fn cause_13_for_a_tsn_that_was_never_sent() {
    for ack in [sack, shutdown_chunk] {
        let mut script = established();
        script.act(|association, now| {
            association
                .send(now, StreamId(0), "one".into(), SendOptions::default())
                .expect("send");
        });
        script.skip_answers();
        script.send(&[ack(script.endpoint_tsn.next())]);
        let answer = script.expect();
        let Chunk::Abort(abort) = answer.only() else {
            panic!("ABORT")
        };
        let cause = abort.causes.iter().next();
        assert!(
            matches!(cause, Some(Ok(Cause::ProtocolViolation(_)))),
            "{cause:?}"
        );
        expect_violation(&mut script);
    }
}

/// A fragment of a message.
fn fragment(script: &mut Script, stream: u16, ssn: u16, beginning: bool, ending: bool) -> Chunk {
    let Chunk::Data(mut data) = script.data(stream, ssn, "part") else {
        unreachable!("DATA")
    };
    (data.beginning, data.ending) = (beginning, ending);
    Chunk::Data(data)
}

// A → DATA (begins), DATA (begins, or another stream, or another SSN) → Z
// A ← ABORT (Protocol Violation) ← Z
/// Cause 13, §6.9: fragments that contradict each other.
#[test]
fn cause_13_for_fragments_that_do_not_fit() {
    for second in [
        (1, 0, true, false),
        (2, 0, false, true),
        (1, 1, false, true),
        (1, 0, true, true),
    ] {
        let mut script = established();
        let (stream, ssn, beginning, ending) = second;
        let chunks = [
            fragment(&mut script, 1, 0, true, false),
            fragment(&mut script, stream, ssn, beginning, ending),
        ];
        script.send(&chunks);
        expect_cause_13(&mut script);
    }
}

// A → DATA (an end without a beginning, first of all) → Z
// A ← ABORT (Protocol Violation) ← Z
/// Cause 13, §6.9: the first TSN cannot continue a message.
#[test]
fn cause_13_for_an_end_without_a_beginning() {
    let mut script = established();
    let chunk = fragment(&mut script, 1, 0, false, true);
    script.send(&[chunk]);
    expect_cause_13(&mut script);
}

// A → SACK (half of one) → Z
// A ← ABORT (Protocol Violation) ← Z
/// Cause 13, §3.2: a chunk whose content is too short. (`out_of_the_blue` has more.)
#[test]
fn cause_13_for_a_malformed_chunk() {
    let mut script = established();
    unpadded_chunk(&mut script, b"\x03\0\0\x08\0\0\0\x01");
    expect_cause_13(&mut script);
}
