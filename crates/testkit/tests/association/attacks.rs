//! Each attack of RFC 5062, and the protection from it. M is the attacker, V its victim, A the endpoint under test.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{AssociationState as State, CloseReason, Event, PathState, SendOptions, StreamId, Tsn};
use anabranch_testkit::{FromEndpoint, Script, quiet, sack, shutdown_chunk, state_cookie};
use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::{
    Abort, Chunk, CookieEcho, EncodeChunk, GapAckBlock, GapAckBlocks, Heartbeat, HeartbeatAck, InitAck, kind,
};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const ZERO: VerificationTag = VerificationTag(0);
const VICTIM: [u8; 4] = [10, 0, 1, 2];
const ELSEWHERE: [u8; 4] = [10, 0, 2, 2];

fn nobody() -> Script {
    Script::new(quiet(), 1)
}

fn associations(script: &mut Script) -> usize {
    script.host_mut().endpoint_mut().association_count()
}

fn listing(addresses: &[[u8; 4]]) -> Parameters {
    let builder = addresses
        .iter()
        .fold(ParametersBuilder::new(), |builder, address| {
            builder.push(&Parameter::Ipv4((*address).into()))
        });
    builder.finish()
}

/// The INIT ACK that answers an INIT which lists these addresses.
fn init_ack(script: &mut Script, addresses: &[[u8; 4]]) -> InitAck {
    script.send_tagged(ZERO, &[Chunk::Init(script.init(listing(addresses)))]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    ack
}

fn echo(ack: &InitAck) -> Chunk {
    Chunk::CookieEcho(CookieEcho {
        cookie: state_cookie(ack),
    })
}

/// An association with an attacker that lists the victim's address as its own.
fn camped() -> Script {
    let mut script = nobody();
    let ack = init_ack(&mut script, &[VICTIM]);
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    script.send(&[echo(&ack)]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    script
}

fn victim(script: &Script) -> SocketAddr {
    SocketAddr::new(IpAddr::from(VICTIM), script.remote.port())
}

fn answers(script: &mut Script) -> Vec<FromEndpoint> {
    core::iter::from_fn(|| script.next_answer()).collect()
}

fn len(answer: &FromEndpoint) -> usize {
    let chunks = answer.chunks.iter();
    12 + chunks
        .map(|chunk| chunk.encoded_len().next_multiple_of(4))
        .sum::<usize>()
}

fn send(script: &mut Script, count: usize) {
    for _ in 0..count {
        script.act(|association, now| {
            let message = vec![7; 1000].into();
            association
                .send(now, StreamId(0), message, SendOptions::default())
                .expect("send");
        });
    }
}

// M → INIT (lists V) → A … M is associated with A
// A → HEARTBEAT (64-bit nonce) → V
// V (spoofed by M) → HEARTBEAT ACK (a guess) → A
// V → ABORT (T bit) → A
/// RFC 5062 §2 Address Camping: M's guesses do not confirm the victim's address. V's ABORT removes that address from M's
/// association, and V can connect.
#[test]
fn address_camping() {
    let mut script = camped();
    script.advance(Duration::from_millis(1));
    let probe = script.expect();
    assert_eq!(probe.destination, victim(&script), "asked at once");
    let Chunk::Heartbeat(heartbeat) = probe.only() else {
        panic!("HEARTBEAT")
    };
    let info = heartbeat.info().expect("a Heartbeat Info");
    let attacker = script.remote;
    script.remote = victim(&script);
    for at in 0..info.len() {
        let mut guess = info.to_vec();
        guess[at] ^= 1;
        script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(guess))]);
    }
    let stats = script.association().stats();
    assert_eq!(
        stats.paths[1].state,
        PathState::Unconfirmed,
        "no guess confirms it"
    );
    script.skip_answers();
    // The answer of V's stack to a HEARTBEAT of an association that V does not have.
    let reflected = script.tag;
    script.send_tagged(
        reflected,
        &[Chunk::Abort(Abort {
            reflected_tag: true,
            causes: anabranch_wire::cause::Causes::empty(),
        })],
    );
    assert_eq!(associations(&mut script), 1, "M keeps what is M's own");
    assert_eq!(
        script.association().stats().paths[1].state,
        PathState::Unconfirmed
    );
    script.tag = VerificationTag(0x1c71);
    script.set_up_with(listing(&[ELSEWHERE]));
    assert_eq!(script.association().state(), State::Established);
    assert_eq!(associations(&mut script), 2, "V has its own");
    script.remote = attacker;
}

// M is associated with A under V's ports, from M's address; V → INIT (V's address, and another) → A
/// RFC 5062 §3 and §4 Association Hijacking: a restart from an address that the association does not have, or with an
/// additional address, takes over nothing. Nor does a packet without the tag.
#[test]
fn association_hijacking() {
    let mut script = nobody();
    script.set_up();
    script.events();
    let owner = script.remote;
    let tags = script.association().tags();
    // A restart that adds an address.
    script.send_tagged(ZERO, &[Chunk::Init(script.init(listing(&[ELSEWHERE])))]);
    let answer = script.expect();
    assert!(
        matches!(answer.only(), Chunk::Abort(_)),
        "§5.2.2: no new addresses"
    );
    // A host that had no part in the association: another address, the right ports, a guessed tag.
    script.remote.set_ip(IpAddr::from(ELSEWHERE));
    let endpoint_tag = script.endpoint_tag;
    for guess in [1, 2, endpoint_tag.0 ^ 1] {
        let data = script.data(0, 0, "stolen");
        script.send_tagged(VerificationTag(guess), &[data]);
    }
    script.skip_answers();
    assert_eq!(script.messages(), []);
    assert_eq!(script.association().state(), State::Established);
    assert_eq!(script.association().tags(), tags);
    assert_eq!(script.association().remote_address(), owner);
    assert_eq!(script.association().stats().paths.len(), 1);
    assert_eq!(script.events(), []);
}

// M → INIT (lists V) → A, and takes data; then M is silent
// A → HEARTBEAT → V, A → DATA → M only
/// RFC 5062 §5 Bombing 1: no user data goes to an address that did not answer, even when the only confirmed path fails.
#[test]
fn no_data_to_the_victim() {
    let mut script = camped();
    send(&mut script, 40);
    script.advance(120 * SECOND);
    let to_victim: Vec<_> = answers(&mut script)
        .into_iter()
        .filter(|answer| answer.destination == victim(&script))
        .collect();
    assert!(!to_victim.is_empty(), "heartbeats");
    for answer in to_victim {
        assert!(
            matches!(answer.chunks.as_slice(), [Chunk::Heartbeat(_)]),
            "{:?}",
            answer.chunks
        );
    }
}

// A → DATA 1 → M
// M → SACK (TSN 2) → A
// A → ABORT (Protocol Violation) → M
/// RFC 5062 §5.3, RFC 9260 §12.4: a peer that acknowledges a TSN beyond the last TSN sent gets an ABORT at once, whether the
/// TSN is in the cumulative TSN ack, in a gap ack block or in a SHUTDOWN.
#[test]
fn optimistic_acknowledgement() {
    let cumulative = [1, 2, 1000, 0x7fff_0000].map(|ahead| (ahead, 0));
    let gaps = [1, 2, 65_535].map(|end| (0, end));
    for ((ahead, gap), shutdown) in cumulative
        .into_iter()
        .flat_map(|guess| [(guess, false), (guess, true)])
        .chain(gaps.map(|guess| (guess, false)))
    {
        let mut script = nobody();
        script.set_up();
        send(&mut script, 1);
        script.skip_answers();
        script.events();
        let tsn = script.endpoint_tsn.plus(ahead);
        let mut guess = if shutdown { shutdown_chunk(tsn) } else { sack(tsn) };
        if let Chunk::Sack(sack) = &mut guess
            && gap > 0
        {
            sack.gap_ack_blocks = GapAckBlocks::from_blocks([GapAckBlock { start: gap, end: gap }]);
        }
        script.send(&[guess]);
        assert!(matches!(script.expect_chunk(), Chunk::Abort(_)), "{ahead}");
        let events = script.events();
        let closed = |event: &Event| matches!(event, Event::Closed(CloseReason::ProtocolViolation(_)));
        assert!(events.iter().any(closed), "{events:?}");
    }
}

// A → DATA …; M → SACK of all that was sent, as if it had it; again
/// A peer that acknowledges every TSN that was sent, whether it received the chunk or not, looks like a fast network. Still the
/// flow is bounded: at each SACK by twice the acknowledged bytes and Max.Burst, by the a_rwnd that M advertised, and by
/// `buffers.send`. Only M loses the data that it did not receive.
#[test]
fn acknowledgement_of_what_was_sent_but_not_received() {
    let mut script = nobody();
    script.set_up();
    send(&mut script, 4);
    let mut acknowledged = 0;
    let mut sent: Vec<_> = answers(&mut script);
    for _ in 0..40 {
        let chunks: Vec<_> = sent.iter().flat_map(FromEndpoint::data).collect();
        let Some(last) = chunks.last() else { break };
        let (tsn, bytes) = (
            last.tsn,
            chunks.iter().map(|data| data.payload.len()).sum::<usize>(),
        );
        acknowledged += bytes;
        let stats = script.association().stats();
        if stats.queued_bytes < 500_000 {
            send(&mut script, 500);
        }
        script.skip_answers();
        script.send(&[sack(tsn)]);
        sent = answers(&mut script);
        let released: usize = sent
            .iter()
            .flat_map(FromEndpoint::data)
            .map(|data| data.payload.len())
            .sum();
        assert!(released <= 2 * bytes + 4 * 1252, "{released} bytes for {bytes}");
        assert!(released <= 100_000, "the window");
    }
    assert!(acknowledged > 1_000_000, "the flow goes on: {acknowledged}");
    assert_eq!(script.association().state(), State::Established);
}

// M → COOKIE ECHO (addresses of V) → A, again and again
// A → COOKIE ACK → M, one HEARTBEAT → V
/// RFC 5062 §6 Bombing 2: HB.Max.Burst bounds the HEARTBEATs that a cookie causes, the packets are small, and a cookie's life
/// is short.
#[test]
fn cookies_that_list_the_victim() {
    let mut script = nobody();
    let victims: Vec<_> = (1..=12).map(|last| [10, 0, 1, last]).collect();
    let ack = init_ack(&mut script, &victims);
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    script.send(&[echo(&ack)]);
    let first = answers(&mut script);
    assert_eq!(first.len(), 1, "COOKIE ACK");
    script.advance(Duration::from_millis(1));
    let probes = answers(&mut script);
    assert!(probes.len() <= 1, "HB.Max.Burst, not {}", probes.len());
    assert!(probes.iter().all(|probe| len(probe) <= 80));
    for _ in 0..50 {
        script.send(&[echo(&ack)]);
    }
    let repeated = answers(&mut script);
    let attacker = script.remote;
    assert!(repeated.iter().all(|answer| answer.destination == attacker));
    assert!(repeated.len() <= 50, "one each");
}

// M → INIT (ports X, Y) → A; M → COOKIE ECHO (ports X + 1, Y or X, Y + 1) → A
/// RFC 5062 §7 Association Redirection: the cookie contains the ports.
#[test]
fn association_redirection() {
    for (source, destination) in [(1, 0), (0, 1), (1, 1)] {
        let mut script = nobody();
        let endpoint_port = script.endpoint_port;
        script
            .host_mut()
            .endpoint_mut()
            .listen(endpoint_port + 1)
            .expect("listen");
        let ack = init_ack(&mut script, &[]);
        script.endpoint_tag = ack.initiate_tag;
        script.port += source;
        script.endpoint_port += destination;
        script.send(&[echo(&ack)]);
        script.expect_silence();
        assert_eq!(associations(&mut script), 0);
    }
}

// M → unknown chunks to report, HEARTBEATs, DATA on no stream: as many as a packet holds → A
// A → one packet, not larger than its path carries → M
/// RFC 5062 §8 Bombing 3: many chunks that ask for an answer are answered in few packets. The attack by forged reports of a
/// smaller path MTU (§10) has no entry: the endpoint learns sizes only from its own system.
#[test]
fn many_chunks_that_want_an_answer() {
    let unknown: Vec<u8> = [0xc0 | 0x3e, 0, 0, 4].repeat(300);
    let mut script = nobody();
    script.set_up();
    let packet = script.packet_of_bytes(script.endpoint_tag, &unknown);
    let received = packet.len();
    script.send_raw(packet);
    let sent: Vec<_> = answers(&mut script);
    assert!(sent.len() <= 1, "{} packets for one", sent.len());
    assert!(sent.iter().map(len).sum::<usize>() <= 2 * received);

    let heartbeat = Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    });
    let many = vec![heartbeat; 90];
    let received = 12 + 12 * 90;
    script.send(&many);
    let sent = answers(&mut script);
    assert!(sent.len() <= 1, "{} packets for one", sent.len());
    assert!(sent.iter().map(len).sum::<usize>() <= received);

    let stray: Vec<_> = (0..50).map(|_| script.data(60_000, 0, "x")).collect();
    script.send(&stray);
    let sent = answers(&mut script);
    assert!(sent.len() <= 1, "{} packets for one", sent.len());
    assert_eq!(script.association().state(), State::Established);
}

// M (as V) → INIT → A
// A → INIT ACK → V
/// RFC 5062 §9 Bombing 4: the INIT ACK is small, the endpoint keeps no state, and it does not retransmit the INIT ACK.
#[test]
fn an_init_in_the_name_of_the_victim() {
    let mut script = nobody();
    script.remote.set_ip(IpAddr::from(VICTIM));
    script.send_tagged(ZERO, &[Chunk::Init(script.init(listing(&[])))]);
    let answer = script.expect();
    let init = 12 + 20;
    assert!(len(&answer) < 6 * init, "{} bytes", len(&answer));
    script.advance(60 * SECOND);
    script.expect_silence();
    assert_eq!(associations(&mut script), 0);
}

// A → INIT → M
// M → INIT ACK (Initiate Tag 0) → A
/// RFC 9260 §3.3.3: the endpoint destroys the association.
#[test]
fn an_init_ack_with_tag_zero() {
    let mut script = nobody();
    script.connect();
    let mut ack = script.init_ack(b"cookie");
    ack.initiate_tag = ZERO;
    script.send(&[Chunk::InitAck(ack)]);
    script.expect_silence();
    let events = script.events();
    assert!(
        matches!(events[..], [Event::Closed(CloseReason::ProtocolViolation(_))]),
        "{events:?}"
    );
    assert_eq!(associations(&mut script), 0);
}

// A has reached its limit of associations
// A → ABORT (Out of Resource) → M
/// RFC 9260 §3.3.10.4: a refused peer is told the reason.
#[test]
fn a_full_endpoint_refuses_with_out_of_resource() {
    let mut script = nobody();
    script.set_up();
    script.act(|association, now| association.refuse(now));
    let Chunk::Abort(abort) = script.expect_chunk() else {
        panic!("ABORT")
    };
    let expected = anabranch_wire::cause::Causes::from_causes(&[anabranch_wire::cause::Cause::OutOfResource]);
    assert_eq!(abort.causes, expected);
    assert_eq!(associations(&mut script), 0);
}

// M → SACK (old, with every TSN a duplicate) → A
/// An old SACK that arrives again changes nothing and lets no data out.
#[test]
fn an_old_sack_changes_nothing() {
    let mut script = nobody();
    script.set_up();
    send(&mut script, 3);
    script.skip_answers();
    script.send(&[sack(script.endpoint_tsn.plus(1))]);
    script.skip_answers();
    let outstanding = script.association().stats().outstanding_bytes;
    for back in 1..100 {
        script.send(&[sack(Tsn(script.endpoint_tsn.0.wrapping_sub(back)))]);
    }
    let sent = answers(&mut script);
    assert!(sent.iter().all(|answer| answer.data().count() == 0));
    assert!(
        sent.iter()
            .all(|answer| answer.chunks.iter().all(|chunk| chunk.kind() != kind::ABORT))
    );
    assert_eq!(script.association().stats().outstanding_bytes, outstanding);
}
