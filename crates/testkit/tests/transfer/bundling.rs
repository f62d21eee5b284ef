//! Bundling: the chunks that share a packet, their order and their destination (RFC 9260 §5.4, §6.4, §6.10, §9.2). Partial
//! delivery of large messages (§6.9), and a send buffer that was full (§11.1.5).

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::{Application, HostApi};
use anabranch_proto::{
    AssociationId, AssociationState as State, CloseReason, Config, Event, MessagePart, PathState,
    Reliability, SendError, SendOptions, StreamId, Tsn,
};
use anabranch_testkit::{FromEndpoint, Script, quiet, shutdown_chunk, state_cookie};
use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Chunk, CookieEcho, Data, EncodeChunk, ErrorChunk, GapAckBlock, GapAckBlocks, Heartbeat, HeartbeatAck,
    Sack, TsnList, kind,
};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const SECOND_ADDRESS: [u8; 4] = [10, 0, 1, 2];

/// The largest packet with IPv4 and UDP below it, at the PMTU of 1,280 bytes.
const MAX_PACKET: usize = 1280 - 28;

fn established() -> Script {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    script.events();
    script
}

fn heartbeat(info: &'static [u8]) -> Chunk {
    let info = Bytes::from_static(info);
    Chunk::Heartbeat(Heartbeat::new(info))
}

fn heartbeat_ack(info: Bytes) -> Chunk {
    Chunk::HeartbeatAck(HeartbeatAck::new(info))
}

fn sack(cumulative_tsn_ack: Tsn, a_rwnd: u32, gap_ends: u16) -> Chunk {
    let blocks = (gap_ends > 0).then_some(GapAckBlock {
        start: 2,
        end: gap_ends,
    });
    Chunk::Sack(Sack {
        cumulative_tsn_ack,
        a_rwnd,
        gap_ack_blocks: GapAckBlocks::from_blocks(blocks),
        duplicate_tsns: TsnList::from_tsns([]),
    })
}

fn send(script: &mut Script, len: usize) -> Result<(), SendError> {
    script.act(|association, now| {
        let message = vec![7; len].into();
        association
            .send(now, StreamId(0), message, SendOptions::default())
            .map(|_| ())
    })
}

fn kinds(answer: &FromEndpoint) -> Vec<u8> {
    answer.chunks.iter().map(Chunk::kind).collect()
}

fn tsns(answer: &FromEndpoint) -> Vec<Tsn> {
    answer.data().map(|data| data.tsn).collect()
}

fn packet_len(answer: &FromEndpoint) -> usize {
    let chunks = answer.chunks.iter();
    12 + chunks
        .map(|chunk| chunk.encoded_len().next_multiple_of(4))
        .sum::<usize>()
}

// A ← HEARTBEAT, SACK (DATA 1 missing for the third time), DATA ← Z
// A → HEARTBEAT ACK, SACK, DATA 1 (again), DATA 6 (new) → Z
/// §6.10: control chunks, SACK, retransmissions, new data; DATA in the order of TSNs.
#[test]
fn the_order_of_a_packet() {
    let mut script = Script::new(quiet(), 1);
    script.a_rwnd = 1500;
    script.set_up();
    let base = script.endpoint_tsn.minus(1);
    for _ in 0..5 {
        send(&mut script, 300).expect("send");
        assert_eq!(script.expect().data().count(), 1);
    }
    send(&mut script, 200).expect("send");
    script.expect_silence();
    for end in [2, 3] {
        script.send(&[sack(base, 0, end)]);
        script.expect_silence();
    }
    let data = script.data(0, 0, "first");
    script.send(&[heartbeat(b"yoho"), sack(base, 100_000, 4), data]);
    let answer = script.expect();
    let expected = [kind::HEARTBEAT_ACK, kind::SACK, kind::DATA, kind::DATA];
    assert_eq!(kinds(&answer), expected);
    assert_eq!(tsns(&answer), [base.plus(1), base.plus(6)]);
    script.expect_silence();
}

// A → DATA (message 0) → Z;  DATA (the rest of message 0), DATA (the beginning of message 1) → Z;  DATA (the rest of message 1) → Z
/// A reliable message that needs several packets begins in the room that another one leaves. One that fits a packet is not split, and neither is
/// one that may be abandoned: a loss in more packets is more likely.
#[test]
fn a_long_message_begins_in_the_room_that_is_left() {
    const FULL: usize = MAX_PACKET - 12 - 16;
    let lengths = |messages: [usize; 2], reliability| {
        let mut script = established();
        script.act(|association, now| {
            for len in messages {
                let options = SendOptions::default().reliability(reliability);
                association
                    .send(now, StreamId(0), vec![7; len].into(), options)
                    .expect("send");
            }
        });
        let payloads = |answer: FromEndpoint| answer.data().map(|data| data.payload.len()).collect();
        let packets: Vec<Vec<usize>> = core::iter::from_fn(|| script.next_answer())
            .map(payloads)
            .collect();
        packets
    };
    let room = FULL - 576 - 16;
    let filled = [vec![FULL], vec![576, room], vec![FULL + 576 - room]];
    assert_eq!(lengths([FULL + 576; 2], Reliability::Reliable), filled);
    let whole = [vec![FULL], vec![576], vec![FULL], vec![576]];
    assert_eq!(lengths([FULL + 576; 2], Reliability::Lifetime(SECOND)), whole);
    assert_eq!(
        lengths([576, FULL], Reliability::Reliable),
        [vec![576], vec![FULL]]
    );
}

// A → INIT → Z; messages are given to A
// A ← INIT ACK (an unknown parameter) ← Z
// A → COOKIE ECHO, ERROR, DATA, DATA, … → Z, as much as one packet holds
// A ← HEARTBEAT ← Z
// A → HEARTBEAT ACK → Z
// A ← COOKIE ACK ← Z
// A → DATA, DATA, … → Z
/// §5.1 C, §6.10: COOKIE ECHO is first; no other packet leaves before COOKIE ACK, and none is longer than the PMTU.
#[test]
fn data_is_bundled_with_cookie_echo() {
    let mut script = Script::new(quiet(), 1);
    script.connect();
    for _ in 0..25 {
        send(&mut script, 100).expect("send");
    }
    script.expect_silence();
    let mut ack = script.init_ack(b"");
    ack.parameters = Parameters::from_bytes(Bytes::from_static(b"\0\x07\0\x08abcd\xc0\x77\0\x04"));
    script.send(&[Chunk::InitAck(ack)]);
    let first = script.expect();
    assert_eq!(kinds(&first)[..3], [kind::COOKIE_ECHO, kind::ERROR, kind::DATA]);
    script.send(&[heartbeat(b"yoho")]);
    assert_eq!(script.expect_chunk().kind(), kind::HEARTBEAT_ACK, "and no DATA");
    script.expect_silence();
    script.send(&[Chunk::CookieAck]);
    let mut packets = vec![first];
    packets.extend(core::iter::from_fn(|| script.next_answer()));
    let sent: Vec<_> = packets.iter().flat_map(tsns).collect();
    let expected: Vec<_> = (0..25).map(|step| script.endpoint_tsn.plus(step)).collect();
    assert_eq!(sent, expected);
    let lens: Vec<_> = packets.iter().map(packet_len).collect();
    assert!(lens.iter().all(|len| *len <= MAX_PACKET), "{lens:?}");
    // Each but the last is so full that no other DATA chunk of 116 bytes fits.
    let full = lens[..lens.len() - 1].iter();
    assert!(full.clone().all(|len| *len + 116 > MAX_PACKET), "{lens:?}");
}

// A ← DATA 1, DATA 2, DATA 3 (unknown stream) in one packet ← Z
// A → ERROR, SACK → Z
/// §6.2, §6.5: a packet with several chunks counts as one packet for the delayed SACK, and ERROR precedes SACK.
#[test]
fn a_packet_counts_once_for_the_delayed_sack() {
    let mut script = established();
    let first = script.data(0, 0, "first");
    script.send(&[first]);
    assert_eq!(script.expect_chunk().kind(), kind::SACK);
    let several: Vec<_> = (1..4).map(|ssn| script.data(0, ssn, "more")).collect();
    script.send(&several);
    script.expect_silence();
    let strange = script.data(99, 0, "lost");
    script.send(&[strange]);
    assert_eq!(kinds(&script.expect()), [kind::ERROR, kind::SACK]);
}

/// The endpoint, and a peer with two addresses; the second one is confirmed if `confirmed`.
fn two_addresses(confirmed: bool) -> Script {
    let mut script = Script::new(quiet(), 1);
    let listed = ParametersBuilder::new()
        .push(&Parameter::Ipv4([10, 0, 0, 2].into()))
        .push(&Parameter::Ipv4(SECOND_ADDRESS.into()))
        .finish();
    script.send_tagged(VerificationTag(0), &[Chunk::Init(script.init(listed))]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    let cookie = state_cookie(&ack);
    script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    script.advance(Duration::from_millis(1));
    let probe = script.expect();
    assert_eq!(probe.destination, second(&script), "§5.4: the probe");
    let Chunk::Heartbeat(probe) = probe.only() else {
        panic!("HEARTBEAT")
    };
    if confirmed {
        script.send(&[heartbeat_ack(probe.info().expect("a Heartbeat Info"))]);
    }
    let expected = if confirmed {
        PathState::Active
    } else {
        PathState::Unconfirmed
    };
    assert_eq!(script.association().stats().paths[1].state, expected);
    script.expect_silence();
    script.events();
    script
}

fn second(script: &Script) -> SocketAddr {
    SocketAddr::new(IpAddr::from(SECOND_ADDRESS), script.remote.port())
}

// A ← DATA (from either address) ← Z
// A → SACK (to the same) → Z
/// §6.4: SACK, HEARTBEAT ACK and ERROR go to the source address of the chunk that they answer.
#[test]
fn answers_go_to_the_source_address() {
    let mut script = two_addresses(true);
    let (one, two) = (script.remote, second(&script));
    for (ssn, from) in (0..).zip([one, two, two, one, two]) {
        script.remote = from;
        let mut data = script.data(0, ssn, "hello");
        if let Chunk::Data(data) = &mut data {
            data.immediate = true;
        }
        let strange = script.data(99, 0, "lost");
        for chunk in [data, heartbeat(b"yoho"), strange] {
            script.send(&[chunk]);
            let answer = script.expect();
            assert_eq!(answer.destination, from, "{:?}", answer.chunks);
            script.expect_silence();
        }
    }
}

// A ← DATA (from the second address) ← Z
// A → DATA (to the primary one) → Z
// A → SACK (to the second) → Z, 200 ms later
/// §6.4: a SACK is not bundled with data that goes to another address.
#[test]
fn a_sack_is_not_bundled_with_data_of_another_path() {
    let mut script = two_addresses(true);
    let (one, two) = (script.remote, second(&script));
    let first = script.data(0, 0, "first");
    script.send(&[first]);
    script.expect();
    script.remote = two;
    let data = script.data(0, 1, "hello");
    script.send(&[data]);
    send(&mut script, 100).expect("send");
    let answer = script.expect();
    assert_eq!((answer.destination, kinds(&answer)), (one, vec![kind::DATA]));
    script.expect_silence();
    script.advance(SECOND / 5);
    let answer = script.expect();
    assert_eq!((answer.destination, kinds(&answer)), (two, vec![kind::SACK]));
}

// A ← DATA, HEARTBEAT, unknown chunk (from an address that is not confirmed) ← Z
// A → HEARTBEAT ACK (to it) → Z
// A → ERROR, SACK (to the primary one) → Z
/// §5.4: an address that is not confirmed may belong to another host. It gets only HEARTBEATs and HEARTBEAT ACKs.
#[test]
fn an_unconfirmed_address_gets_heartbeats_only() {
    let mut script = two_addresses(false);
    let (one, two) = (script.remote, second(&script));
    script.remote = two;
    let chunks = [
        heartbeat(b"yoho"),
        script.data(0, 0, "hello"),
        script.data(99, 0, "lost"),
    ];
    script.send(&chunks);
    let mut answers: Vec<_> = core::iter::from_fn(|| script.next_answer())
        .map(|answer| (answer.destination, kinds(&answer)))
        .collect();
    answers.sort();
    assert_eq!(
        answers,
        [
            (one, vec![kind::ERROR, kind::SACK]),
            (two, vec![kind::HEARTBEAT_ACK])
        ]
    );
    script.act(|association, now| association.abort(now, Bytes::new()));
    assert_eq!(script.expect().destination, one, "ABORT");
}

// A ← INIT (from one address, lists another) ← Z
// A → INIT ACK (to the one) → Z
// A ← COOKIE ECHO (from the other) ← Z
// A → COOKIE ACK, HEARTBEAT (to the other) → Z
// A → DATA (to the one) → Z
/// §5.4 rule 2: only the address that the INIT ACK went to is confirmed, so a COOKIE ECHO cannot direct data to another host.
#[test]
fn a_cookie_echo_from_another_address() {
    let mut script = Script::new(quiet(), 1);
    let (one, two) = (script.remote, second(&script));
    let listed = ParametersBuilder::new()
        .push(&Parameter::Ipv4(SECOND_ADDRESS.into()))
        .finish();
    script.send_tagged(VerificationTag(0), &[Chunk::Init(script.init(listed))]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    let cookie = state_cookie(&ack);
    let echo = Chunk::CookieEcho(CookieEcho { cookie });
    script.remote = two;
    for _ in 0..2 {
        script.send(core::slice::from_ref(&echo));
        let answer = script.expect();
        assert_eq!(answer.destination, two);
        assert_eq!(kinds(&answer), [kind::COOKIE_ACK, kind::HEARTBEAT]);
        script.expect_silence();
    }
    send(&mut script, 100).expect("send");
    let answer = script.expect();
    assert_eq!((answer.destination, kinds(&answer)), (one, vec![kind::DATA]));
    let states: Vec<_> = script
        .association()
        .stats()
        .paths
        .iter()
        .map(|path| (path.remote, path.state))
        .collect();
    assert_eq!(states, [(one, PathState::Active), (two, PathState::Unconfirmed)]);
}

// A → INIT → Z
// A ← INIT ACK (lists a second address, an unknown parameter) ← Z
// A → COOKIE ECHO, ERROR (to the one) → (lost)
// A → COOKIE ECHO, HEARTBEAT (to the other) → Z, after T1-cookie
// A ← COOKIE ACK ← Z
// A ← HEARTBEAT ACK ← Z
/// §5.4: a COOKIE ECHO to an address that is not confirmed is bundled with a HEARTBEAT and with no other chunk.
#[test]
fn a_cookie_echo_to_another_address() {
    let mut script = Script::new(quiet(), 1);
    let (one, two) = (script.remote, second(&script));
    script.connect();
    let mut ack = script.init_ack(b"");
    ack.parameters = Parameters::from_bytes(Bytes::from_static(
        b"\0\x07\0\x08abcd\0\x05\0\x08\x0a\0\x01\x02\xc0\x77\0\x04",
    ));
    script.send(&[Chunk::InitAck(ack)]);
    let answer = script.expect();
    assert_eq!(
        (answer.destination, kinds(&answer)),
        (one, vec![kind::COOKIE_ECHO, kind::ERROR])
    );
    assert_eq!(script.advance_to_timeout(), SECOND);
    let answer = script.expect();
    assert_eq!(
        (answer.destination, kinds(&answer)),
        (two, vec![kind::COOKIE_ECHO, kind::HEARTBEAT])
    );
    let Chunk::Heartbeat(probe) = answer.chunks[1].clone() else {
        unreachable!("a HEARTBEAT")
    };
    script.remote = two;
    script.send(&[Chunk::CookieAck]);
    script.advance(Duration::from_millis(1));
    script.expect_silence(); // One probe at a time.
    script.send(&[heartbeat_ack(probe.info().expect("a Heartbeat Info"))]);
    script.expect_silence();
    assert_eq!(script.association().state(), State::Established);
    let paths = script.association().stats().paths;
    assert!(paths.iter().all(|path| path.state == PathState::Active));
}

/// The endpoint has sent SHUTDOWN. It acknowledged the peer's first DATA before.
fn shutdown_sent(config: Config) -> Script {
    let mut script = Script::new(config, 1);
    script.set_up();
    let data = script.data(0, 0, "first");
    script.send(&[data]);
    script.skip_answers();
    script.act(|association, now| association.shutdown(now));
    assert_eq!(script.expect_chunk(), shutdown_chunk(script.tsn.minus(1)));
    assert_eq!(script.association().state(), State::ShutdownSent);
    script.messages();
    script.events();
    script
}

// A → SHUTDOWN → Z
// A ← DATA 2 (1 is missing) ← Z
// A → SHUTDOWN (0), SACK (0, gap 2) → Z
// A ← DATA 2 ← Z
// A → SHUTDOWN (0), SACK (0, gap 2, duplicate 2) → Z
// A ← DATA 1 ← Z
// A → SHUTDOWN (2), … → Z
/// §9.2: each packet with DATA is answered with SHUTDOWN at once, and with SACK if the cumulative TSN ack does not cover all
/// DATA.
#[test]
fn gaps_and_duplicates_after_shutdown_was_sent() {
    let mut script = shutdown_sent(quiet());
    let last = script.tsn.minus(1);
    let (one, two) = (script.data(0, 1, "one"), script.data(0, 2, "two"));
    for duplicates in [&[][..], &[last.plus(2)]] {
        script.send(core::slice::from_ref(&two));
        let answer = script.expect();
        assert_eq!(answer.chunks[0], shutdown_chunk(last));
        let expected = Chunk::Sack(Sack {
            cumulative_tsn_ack: last,
            a_rwnd: script.association().stats().a_rwnd,
            gap_ack_blocks: GapAckBlocks::from_blocks([GapAckBlock { start: 2, end: 2 }]),
            duplicate_tsns: TsnList::from_tsns(duplicates.iter().copied()),
        });
        assert_eq!(answer.chunks[1..], [expected]);
        script.expect_silence();
    }
    script.send(&[one]);
    assert_eq!(script.expect().chunks[0], shutdown_chunk(last.plus(2)));
    let read: Vec<_> = script
        .messages()
        .into_iter()
        .map(|message| message.bytes)
        .collect();
    assert_eq!(read, ["one", "two"]);
}

// A → SHUTDOWN → Z
// A ← SACK (old; of what was never sent) ← Z
// nothing
/// §6: in SHUTDOWN-SENT a SACK is discarded.
#[test]
fn a_sack_after_shutdown_was_sent() {
    let mut script = shutdown_sent(quiet());
    for tsn in [script.endpoint_tsn.minus(1), script.endpoint_tsn.plus(5)] {
        script.send(&[sack(tsn, 100_000, 0)]);
        script.expect_silence();
        assert_eq!(script.association().state(), State::ShutdownSent);
    }
    assert_eq!(script.events(), []);
}

// A → SHUTDOWN → Z, and again after T2
// A ← HEARTBEAT ← Z
// A → HEARTBEAT ACK → Z
// A → SHUTDOWN → Z, as often as at first
/// §9.2: any packet from the peer clears the error counter. Unlike in RFC 9260, T2-shutdown is not restarted: otherwise a peer
/// whose packets come more often than the timer expires would prevent the retransmission of a lost SHUTDOWN.
#[test]
fn any_packet_after_shutdown_was_sent_clears_the_error_count() {
    let mut config = quiet();
    config.retransmissions.association_max_retrans = 2;
    let mut script = shutdown_sent(config);
    let shutdown = shutdown_chunk(script.tsn.minus(1));
    for wait in [1, 2] {
        assert_eq!(script.advance_to_timeout(), wait * SECOND);
        assert_eq!(script.expect_chunk(), shutdown);
    }
    script.advance(SECOND);
    script.send(&[heartbeat(b"yoho")]);
    assert_eq!(script.expect_chunk().kind(), kind::HEARTBEAT_ACK);
    for wait in [3, 8] {
        assert_eq!(script.advance_to_timeout(), wait * SECOND);
        assert_eq!(script.expect_chunk(), shutdown);
    }
    script.advance_to_timeout();
    assert_eq!(
        script.events().last(),
        Some(&Event::Closed(CloseReason::Unreachable))
    );
}

// A → DATA → Z
// A ← SHUTDOWN ← Z
// A ← DATA ← Z
// nothing
// A ← SACK ← Z
// A → SHUTDOWN ACK → Z
/// §6, §9.2: in SHUTDOWN-RECEIVED DATA is discarded and a SACK is processed. In SHUTDOWN-ACK-SENT both are discarded.
#[test]
fn data_and_sack_after_shutdown_was_received() {
    let mut script = established();
    send(&mut script, 100).expect("send");
    script.expect();
    script.send(&[shutdown_chunk(script.endpoint_tsn.minus(1))]);
    assert_eq!(script.association().state(), State::ShutdownReceived);
    let data = script.data(0, 0, "too late");
    script.send(core::slice::from_ref(&data));
    script.advance(SECOND / 2);
    script.expect_silence();
    script.send(&[sack(script.endpoint_tsn, 100_000, 0)]);
    assert_eq!(script.expect_chunk(), Chunk::ShutdownAck);
    assert_eq!(script.association().state(), State::ShutdownAckSent);
    script.send(&[data, sack(script.endpoint_tsn.plus(5), 0, 0)]);
    script.expect_silence();
    assert_eq!(script.association().state(), State::ShutdownAckSent);
    assert_eq!(script.messages(), []);
}

/// A fragment of a message with a TSN of its own.
fn fragment(script: &mut Script, ssn: u16, fill: u8, beginning: bool, ending: bool) -> Chunk {
    let Chunk::Data(data) = script.data(3, ssn, vec![fill; 1000]) else {
        unreachable!("DATA")
    };
    Chunk::Data(Data {
        beginning,
        ending,
        ..data
    })
}

fn read(script: &mut Script) -> Vec<MessagePart> {
    script.act(|association, now| core::iter::from_fn(|| association.recv(now)).collect())
}

/// The properties of a part: its message, whether it begins and ends the message, and the first byte of each fragment.
fn shape(parts: &[MessagePart]) -> Vec<(u64, bool, bool, Vec<u8>)> {
    let pieces = |part: &MessagePart| part.payload.pieces().iter().map(|piece| piece[0]).collect();
    parts
        .iter()
        .map(|part| (part.message, part.beginning, part.ending, pieces(part)))
        .collect()
}

// A ← DATA 1 … 3 of a message of seven ← Z;  A reads the beginning
// A ← DATA 5 ← Z;                            A reads nothing: 4 is missing
// A ← DATA of another stream, whole ← Z;     A reads it in between
// A ← DATA 4 ← Z;                            A reads 4 and 5
// A ← DATA 8 (the next message of the stream) ← Z;  A reads nothing: it is not its turn
// A ← DATA 6, DATA 7 ← Z;                    A reads the end, then the next message
/// §6.9: a message larger than the partial delivery point is delivered in parts, in order and without gaps.
#[test]
fn a_large_message_is_delivered_in_parts() {
    let mut config = quiet();
    config.buffers.partial_delivery_point = 3000;
    let mut script = Script::new(config, 1);
    script.set_up();
    script.talker().reading = false;
    let large: Vec<_> = (1..=7)
        .map(|number| fragment(&mut script, 0, number, number == 1, number == 7))
        .collect();
    let next = fragment(&mut script, 1, 8, true, true);
    let other = script.data(4, 0, "whole");
    // The TSN of the other message comes after all these.
    let deliver = |script: &mut Script, chunks: &[Chunk]| {
        for chunk in chunks {
            script.send(core::slice::from_ref(chunk));
        }
        script.advance(SECOND / 5);
        read(script)
    };

    assert_eq!(deliver(&mut script, &large[..2]), [], "not large yet");
    let begun = deliver(&mut script, &large[2..3]);
    let message = begun[0].message;
    assert_eq!(shape(&begun), [(message, true, false, vec![1, 2, 3])]);
    assert_eq!(deliver(&mut script, &large[4..5]), [], "4 is missing");
    let between = deliver(&mut script, &[other]);
    assert_eq!(shape(&between), [(message + 1, true, true, vec![b'w'])]);
    let more = deliver(&mut script, &large[3..4]);
    assert_eq!(shape(&more), [(message, false, false, vec![4, 5])]);
    assert_eq!(deliver(&mut script, &[next]), [], "not its turn");
    let rest = deliver(&mut script, &large[5..]);
    let [sixth_and_end @ .., last] = &rest[..] else {
        panic!("parts")
    };
    let shapes = shape(sixth_and_end);
    assert!(
        shapes.iter().all(|part| part.0 == message && !part.1),
        "{shapes:?}"
    );
    let pieces: Vec<_> = shapes.iter().flat_map(|part| part.3.clone()).collect();
    assert_eq!(pieces, [6, 7]);
    assert!(shapes.last().is_some_and(|part| part.2), "its end");
    assert_eq!(
        (last.beginning, last.ending, last.payload.pieces()[0][0]),
        (true, true, 8)
    );
    assert_eq!(script.association().stats().unread_bytes, 0);
}

// A ← DATA 1 … 3 of a message ← Z;  A reads the beginning
// A ← ABORT ← Z
/// §6.9: if the end of a partially delivered message never arrives, the end of the association tells the application so.
#[test]
fn a_large_message_that_never_ends() {
    let mut config = quiet();
    config.buffers.partial_delivery_point = 2000;
    let mut script = Script::new(config, 1);
    script.set_up();
    script.talker().reading = false;
    let chunks: Vec<_> = (1..=3)
        .map(|number| fragment(&mut script, 0, number, number == 1, false))
        .collect();
    script.send(&chunks);
    let parts = read(&mut script);
    assert_eq!(shape(&parts), [(parts[0].message, true, false, vec![1, 2, 3])]);
    script.events();
    let causes = Causes::from_causes(&[Cause::OutOfResource]);
    script.send(&[Chunk::Error(ErrorChunk { causes })]);
    script.send(&[Chunk::Abort(anabranch_wire::chunk::Abort {
        reflected_tag: false,
        causes: Causes::empty(),
    })]);
    let events = script.events();
    assert_eq!(
        events.last(),
        Some(&Event::Closed(CloseReason::AbortedByPeer(Causes::empty())))
    );
}

/// An application that records `Writable` events.
#[derive(Debug, Default)]
struct Notebook {
    writable: usize,
}

impl Application for Notebook {
    fn on_event(&mut self, _api: &mut HostApi<'_>, _id: AssociationId, event: Event) {
        self.writable += usize::from(event == Event::Writable(StreamId(0)));
    }
}

// A → DATA, DATA, …, until the buffer is full
// A ← SACK ← Z
// A: Writable, once
/// `Writable` follows a `send` that found the buffer full, as soon as the buffer has space, and at no other time.
#[test]
fn writable_is_reported_once_after_a_full_buffer() {
    let mut config = quiet();
    config.buffers.send = 2000;
    let mut script = Script::new(config, 1);
    script.set_up();
    script.host_mut().run(Notebook::default(), None);
    let writable = |script: &mut Script| {
        let notebook: &Notebook = script.host_mut().application().expect("the notebook");
        notebook.writable
    };
    for _ in 0..2 {
        send(&mut script, 1000).expect("there is room");
    }
    script.send(&[sack(script.endpoint_tsn, 100_000, 0)]);
    assert_eq!(writable(&mut script), 0, "nobody has asked");
    send(&mut script, 1000).expect("there is room");
    assert_eq!(send(&mut script, 1), Err(SendError::BufferFull));
    assert_eq!(send(&mut script, 1), Err(SendError::BufferFull));
    script.send(&[heartbeat(b"yoho")]);
    assert_eq!(writable(&mut script), 0, "there is no room yet");
    script.send(&[sack(script.endpoint_tsn.plus(1), 100_000, 0)]);
    assert_eq!(writable(&mut script), 1);
    script.send(&[sack(script.endpoint_tsn.plus(2), 100_000, 0)]);
    assert_eq!(writable(&mut script), 1, "told once");
    send(&mut script, 1000).expect("there is room");
}

// A → DATA … → Z, the buffer is full
// A ← SHUTDOWN (all acknowledged) ← Z
/// §9.2: an association that accepts no more messages is not writable, even if the buffer has space.
#[test]
fn nothing_is_writable_in_a_shutdown() {
    let mut config = quiet();
    config.buffers.send = 1000;
    let mut script = Script::new(config, 1);
    script.set_up();
    script.host_mut().run(Notebook::default(), None);
    send(&mut script, 1000).expect("there is room");
    assert_eq!(send(&mut script, 1), Err(SendError::BufferFull));
    script.send(&[shutdown_chunk(script.endpoint_tsn)]);
    assert_eq!(script.association().state(), State::ShutdownAckSent);
    assert_eq!(send(&mut script, 1), Err(SendError::Closed));
    let notebook: &Notebook = script.host_mut().application().expect("the notebook");
    assert_eq!(notebook.writable, 0);
}

// A ← HEARTBEAT without Heartbeat Info ← Z;  A → HEARTBEAT ACK with an empty one → Z
/// §3.3.5 requires the parameter. pion leaves it out of heartbeats whose only purpose is to cause an answer, so the endpoint
/// does not end the association.
#[test]
fn a_heartbeat_without_info_is_answered() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    let info = Bytes::new();
    script.send(&[Chunk::Heartbeat(Heartbeat::new(info.clone()))]);
    assert_eq!(
        script.expect_chunk(),
        Chunk::HeartbeatAck(HeartbeatAck::new(info))
    );
}
