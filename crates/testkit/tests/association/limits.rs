//! Limits of an endpoint's memory: each test has a peer that fills one kind of memory, and checks its bound. These are the
//! tests of docs/LIMITS.md. M is the peer, A the endpoint.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_proto::{
    Association, AssociationState as State, Config, EcnCodepoint, Event, Handling, SchedulerKind, SendError,
    SendOptions, StreamId, Tsn, VerificationTag,
};
use anabranch_testkit::{FromEndpoint, Script, quiet, sack, state_cookie};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Chunk, CookieEcho, EncodeChunk, ErrorChunk, GapAckBlock, GapAckBlocks, Heartbeat, Pad, kind,
};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

/// Bytes of an SCTP packet on a path of 1,280 bytes, in UDP and IPv4.
const PACKET: usize = 1280 - 28;
const ZERO: VerificationTag = VerificationTag(0);

fn with(change: impl FnOnce(&mut Config)) -> Script {
    let mut config = quiet();
    change(&mut config);
    let mut script = Script::new(config, 1);
    script.set_up();
    script.events();
    script.talker().reading = false;
    script
}

fn unread(script: &Script) -> usize {
    script.association().stats().unread_bytes
}

fn dropped(script: &Script) -> u64 {
    script.association().counters().dropped_no_room
}

// M → DATA, DATA, … (the application reads nothing) → A
/// `buffers.receive`: complete messages that are not read take at most twice this.
#[test]
fn unread_messages() {
    let mut script = with(|config| config.buffers.receive = 20_000);
    for ssn in 0..200 {
        let data = script.data(0, ssn, vec![1; 1000]);
        script.send(&[data]);
        assert!(unread(&script) <= 2 * 20_000, "{}", unread(&script));
    }
    assert!(dropped(&script) > 0);
    assert_eq!(script.association().stats().a_rwnd, 0);
    assert_eq!(script.association().state(), State::Established);
}

// M → DATA, DATA, … (the application reads at once) → A
/// `buffers.growth`: the receive window grows to at most this many times `buffers.receive`.
#[test]
fn the_receive_window() {
    let mut script = with(|config| {
        config.buffers.receive = 20_000;
        config.buffers.growth = 4;
    });
    script.talker().reading = true;
    for ssn in 0..1000 {
        let data = script.data(0, ssn, vec![1; 1000]);
        script.send(&[data]);
        assert!(script.association().stats().a_rwnd <= 80_000);
    }
    assert_eq!(script.association().stats().a_rwnd, 80_000);
}

// M → DATA with SSN 1, 2, 3, … (SSN 0 never comes) → A
/// `buffers.receive`: messages that wait for earlier ones. Each counts at least 257 bytes of the memory, which is 2 × 20,000 bytes and 32 KiB.
#[test]
fn messages_out_of_order() {
    let mut script = with(|config| config.buffers.receive = 20_000);
    script.tsn = script.tsn.next();
    for ssn in 1..1000 {
        let data = script.data(0, ssn, "x");
        script.send(&[data]);
    }
    let most = (2 * 20_000 + (32 << 10)) / 257;
    assert!(
        (most - 20..=most).contains(&unread(&script)),
        "{}",
        unread(&script)
    );
    assert!(dropped(&script) >= 700, "{}", dropped(&script));
    assert_eq!(script.association().stats().a_rwnd, 0);
    assert_eq!(script.association().state(), State::Established);
}

// M → every other TSN, each a fragment without an end → A
/// The same bounds for reassembly. Received TSNs reach at most 65,535 beyond the cumulative TSN, the range of gap ack blocks
/// (§3.3.4).
#[test]
fn fragments_and_gaps() {
    // Each fragment counts 257 bytes, 256 because its message is incomplete, and 48 for the gap: 280,368 bytes of memory take 500.
    let mut script = with(|config| config.buffers.receive = 123_800);
    let first = script.tsn;
    for step in 0..2000 {
        script.tsn = first.plus(1 + 2 * step);
        let mut data = script.data(0, 0, "x");
        if let Chunk::Data(data) = &mut data {
            data.ending = false;
        }
        script.send(&[data]);
    }
    assert_eq!(unread(&script), 500);
    assert_eq!(dropped(&script), 1500);
    script.skip_answers();
    script.tsn = first.plus(70_000);
    let far = script.data(0, 0, "x");
    script.send(&[far]);
    script.advance(Duration::from_millis(500));
    assert_eq!(unread(&script), 500, "too far ahead");
    assert_eq!(script.association().state(), State::Established);
}

// M → DATA (the same one, 1,000 times in one packet) → A
// A → SACK (some duplicates) → M
/// Duplicates: at most 64 are remembered for a SACK.
#[test]
fn duplicates() {
    let mut script = with(|_| ());
    let data = script.data(0, 0, "x");
    script.send(core::slice::from_ref(&data));
    script.skip_answers();
    script.send(&vec![data; 1000]);
    script.advance(Duration::from_millis(500));
    let mut told = 0;
    while let Some(answer) = script.next_answer() {
        for chunk in answer.chunks {
            if let Chunk::Sack(sack) = chunk {
                told += sack.duplicate_tsns.len();
            }
        }
    }
    assert!((1..=64).contains(&told), "{told}");
    assert_eq!(script.association().counters().duplicates_received, 1000);
}

// M → ERROR, ERROR, … in one packet → A
/// Events: at most 256 wait for the application.
#[test]
fn error_events() {
    let mut script = with(|_| ());
    let error = Chunk::Error(ErrorChunk {
        causes: Causes::from_causes(&[Cause::OutOfResource]),
    });
    script.send(&vec![error; 5000]);
    let events = script.events();
    let errors = events.iter().filter(|event| matches!(event, Event::PeerError(_)));
    let count = errors.count();
    assert!((1..=256).contains(&count), "{count}");
    assert_eq!(script.association().state(), State::Established);
}

// M → DATA (every TSN beyond half the numbers) → A
/// TSNs too far ahead are not kept.
#[test]
fn far_tsns() {
    let mut script = with(|_| ());
    let first = script.tsn;
    for step in [65_536, 100_000, 0x7000_0000] {
        script.tsn = Tsn(first.0.wrapping_add(step));
        let data = script.data(0, 0, "x");
        script.send(&[data]);
    }
    assert_eq!(unread(&script), 0);
    assert_eq!(script.association().state(), State::Established);
}

/// A datagram that is counted as long as any slice of it is kept.
struct Counted {
    bytes: Vec<u8>,
    kept: Arc<AtomicUsize>,
}

impl Counted {
    fn datagram(bytes: Vec<u8>, kept: &Arc<AtomicUsize>) -> Bytes {
        kept.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Self {
            bytes,
            kept: Arc::clone(kept),
        })
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.kept.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Sends this chunk in a datagram of 60,000 bytes.
fn send_in_large_datagram(script: &mut Script, chunk: Chunk, kept: &Arc<AtomicUsize>) {
    let padding = Chunk::Pad(Pad { len: 59_000 });
    let datagram = script.packet(script.endpoint_tag, &[chunk, padding]);
    script.send_raw(Counted::datagram(datagram, kept));
}

// M → DATA (300 bytes), PAD (59,000 bytes); many times
/// Large datagrams with little user data: the payloads are copied.
#[test]
fn small_messages_in_large_datagrams() {
    let mut script = with(|_| ());
    let kept = Arc::new(AtomicUsize::new(0));
    for ssn in 0..1000 {
        let data = script.data(0, ssn, vec![1; 300]);
        send_in_large_datagram(&mut script, data, &kept);
    }
    assert_eq!(unread(&script), 300_000);
    let bytes = kept.load(Ordering::Relaxed);
    assert_eq!(bytes, 0, "bytes of datagrams");
}

// M → DATA (300 bytes, a middle part), PAD (59,000 bytes); many times; A reads each part at once, and keeps it
/// The same if the application keeps the parts of a long message.
#[test]
fn small_parts_in_large_datagrams() {
    let mut script = with(|config| config.buffers.receive = 1500);
    let kept = Arc::new(AtomicUsize::new(0));
    let mut parts = Vec::new();
    for number in 0..500 {
        let mut data = script.data(0, 0, vec![1; 300]);
        if let Chunk::Data(data) = &mut data {
            (data.beginning, data.ending) = (number == 0, false);
        }
        send_in_large_datagram(&mut script, data, &kept);
        script.act(|association, now| parts.extend(core::iter::from_fn(|| association.recv(now))));
    }
    let read: usize = parts.iter().map(|part| part.payload.len()).sum();
    assert!(read >= 490 * 300, "{read} bytes were handed over");
    assert_eq!(kept.load(Ordering::Relaxed), 0, "bytes of datagrams");
}

// M → ERROR (100 bytes), PAD (59,000 bytes); many times
/// The causes of ERRORs are copied.
#[test]
fn errors_in_large_datagrams() {
    let mut script = with(|_| ());
    let kept = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let causes = Causes::from_causes(&[Cause::ProtocolViolation(vec![b'!'; 96].into())]);
        send_in_large_datagram(&mut script, Chunk::Error(ErrorChunk { causes }), &kept);
    }
    let events = script.events();
    assert_eq!(events.len(), 100);
    assert_eq!(kept.load(Ordering::Relaxed), 0, "bytes of datagrams");
}

/// Hands a packet to the endpoint without taking its answers and events.
fn send_undrained(script: &mut Script, tag: VerificationTag, chunk: &Chunk) {
    let packet = script.packet(tag, core::slice::from_ref(chunk));
    let (now, remote) = (script.now(), script.remote);
    let handling = script.host_mut().endpoint_mut().handle_datagram(
        now,
        None,
        remote,
        packet.into(),
        EcnCodepoint::NotEct,
    );
    let Handling::Deliver(id, inbound) = handling else {
        panic!("a packet of the association, not {handling:?}")
    };
    let association = script.host_mut().association_mut(id).expect("it is there");
    association.handle_packet(now, inbound);
}

fn undrained(script: &mut Script) -> &mut Association {
    let id = script.id().expect("there is an association");
    script.host_mut().association_mut(id).expect("it is there")
}

fn packets(script: &mut Script) -> Vec<FromEndpoint> {
    script.act(|_, _| ());
    core::iter::from_fn(|| script.next_answer()).collect()
}

// M → HEARTBEAT, … (A's socket is full); M → INIT, …
/// At most 64 answers wait under the association's tag, and 64 under other tags.
#[test]
fn answers_that_wait_for_a_full_socket() {
    let mut script = with(|_| ());
    let tag = script.endpoint_tag;
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    });
    for _ in 0..1000 {
        send_undrained(&mut script, tag, &heartbeat);
    }
    let answers = packets(&mut script);
    let chunks = answers.iter().flat_map(|answer| &answer.chunks);
    assert_eq!(
        chunks.filter(|chunk| chunk.kind() == kind::HEARTBEAT_ACK).count(),
        64
    );
    let init = Chunk::Init(script.init(Parameters::empty()));
    for _ in 0..1000 {
        send_undrained(&mut script, ZERO, &init);
    }
    assert_eq!(packets(&mut script).len(), 64, "INIT ACKs");
}

// M → ERROR (1,000 bytes), … (the application of A takes no events)
/// At most 64 KiB of causes in events that wait.
#[test]
fn error_events_that_wait() {
    let mut script = with(|_| ());
    let tag = script.endpoint_tag;
    let causes = Causes::from_causes(&[Cause::ProtocolViolation(vec![b'!'; 996].into())]);
    let error = Chunk::Error(ErrorChunk { causes });
    for _ in 0..2 {
        for _ in 0..200 {
            send_undrained(&mut script, tag, &error);
        }
        let association = undrained(&mut script);
        let events = core::iter::from_fn(|| association.poll_event());
        let errors = events.filter(|event| matches!(event, Event::PeerError(_)));
        assert_eq!(errors.count(), 65, "of 1,000 bytes each");
    }
}

/// 15,000 parameters of 4 bytes whose types ask for a report.
fn many_unknown() -> Vec<u8> {
    [0xc0, 0x42, 0, 4].repeat(15_000)
}

// M → INIT (15,000 unknown parameters) → A; A → INIT ACK (some reports) → M
// A → INIT → M; M → INIT ACK (the same) → A; A → COOKIE ECHO, ERROR (some reports) → M
/// At most 512 bytes of reports, in packets that fit the path MTU (§12.4).
#[test]
fn reports_of_unknown_parameters() {
    let len = |answer: &FromEndpoint| {
        let chunks = answer.chunks.iter();
        12 + chunks
            .map(|chunk| chunk.encoded_len().next_multiple_of(4))
            .sum::<usize>()
    };
    let mut script = Script::new(quiet(), 1);
    let init = script.init(Parameters::from_bytes(many_unknown().into()));
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    let answer = script.expect();
    assert!(len(&answer) <= PACKET, "{} bytes", len(&answer));
    let Chunk::InitAck(ack) = answer.only() else {
        panic!("INIT ACK")
    };
    let reports = ack
        .parameters
        .iter()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    let reports = reports.filter(|parameter| matches!(parameter, Ok(Parameter::UnrecognizedParameter(_))));
    assert_eq!(reports.count(), 512 / 8);

    let mut script = Script::new(quiet(), 1);
    script.connect();
    let mut ack = script.init_ack(b"a cookie");
    let parameters = [ack.parameters.as_bytes().as_ref(), &many_unknown()].concat();
    ack.parameters = Parameters::from_bytes(parameters.into());
    script.send(&[Chunk::InitAck(ack)]);
    let answer = script.expect();
    assert!(len(&answer) <= PACKET, "{} bytes", len(&answer));
    assert!(matches!(
        answer.chunks[..],
        [Chunk::CookieEcho(_), Chunk::Error(_)]
    ));
}

// M → every other TSN, one in a packet → A
// A → SACK, at most one for each packet, never larger than the path MTU → M
/// Gap ack blocks: as many as fit one packet of the path MTU.
#[test]
fn acknowledgements_with_many_gaps() {
    let mut script = with(|_| ());
    let first = script.tsn;
    for step in 0..2000 {
        script.tsn = first.plus(1 + 2 * step);
        let data = script.data(0, 0, "x");
        script.send(&[data]);
        let answers = core::iter::from_fn(|| script.next_answer());
        let sizes: Vec<_> = answers.map(|answer| 12 + answer.only().encoded_len()).collect();
        assert!(
            sizes.len() <= 1 && sizes.iter().all(|size| *size <= PACKET),
            "{sizes:?}"
        );
    }
}

fn send_until_full(script: &mut Script) {
    let sent = script.act(|association, now| {
        loop {
            let message = Bytes::from_static(&[7; 1000]);
            match association.send(now, StreamId(0), message, SendOptions::default()) {
                Ok(_) => {}
                Err(error) => break error,
            }
        }
    });
    assert_eq!(sent, SendError::BufferFull);
}

fn buffered(script: &Script) -> usize {
    let stats = script.association().stats();
    stats.queued_bytes + stats.outstanding_bytes
}

// A → DATA, …; M → SACK of the odd ones; M → SACK of the even ones; … (every block sixteen times, backwards)
/// Gap ack blocks from a peer: the outstanding data bounds memory and retransmissions, whatever chunks the peer lists or
/// reneges on.
#[test]
fn gap_blocks_from_a_peer() {
    let mut script = with(|config| {
        config.initial_window = Some(400);
        config.max_burst = 1000;
    });
    send_until_full(&mut script);
    let sent: usize = packets(&mut script)
        .iter()
        .map(|packet| packet.data().count())
        .sum();
    assert!(
        sent >= 90,
        "{sent} chunks outstanding, within a window of 100,000 bytes"
    );
    let blocks = |odd: u16| {
        let starts = (2 + odd..=sent as u16).rev().step_by(2);
        GapAckBlocks::from_blocks(starts.flat_map(|start| [GapAckBlock { start, end: start }; 16]))
    };
    let mut retransmissions = 0;
    for round in 0..200 {
        let mut acknowledgement = sack(Tsn(script.endpoint_tsn.0.wrapping_sub(1)));
        if let Chunk::Sack(sack) = &mut acknowledgement {
            sack.gap_ack_blocks = blocks(round % 2);
        }
        script.send(&[acknowledgement]);
        retransmissions += packets(&mut script)
            .iter()
            .map(|packet| packet.data().count())
            .sum::<usize>();
    }
    assert!(
        (1..=2 * sent).contains(&retransmissions),
        "{retransmissions} retransmissions of {sent} chunks"
    );
    assert_eq!(script.association().state(), State::Established);
}

// A → DATA, … to a peer that acknowledges nothing; to one that acknowledges all at once
/// The send buffer: `buffers.send`, and `buffers.growth` times as much if the peer acknowledges all data.
#[test]
fn the_send_buffer() {
    let mut script = with(|config| {
        config.buffers.send = 20_000;
        config.buffers.growth = 4;
        config.initial_window = Some(1000);
        config.max_burst = 1000;
    });
    // The peer's window is 100,000 bytes: all data leaves at once, and so the buffer grows.
    (0..5).for_each(|_| send_until_full(&mut script));
    assert!(
        (79_000..=81_000).contains(&buffered(&script)),
        "{}",
        buffered(&script)
    );
    for _ in 0..20 {
        let data = packets(&mut script)
            .last()
            .and_then(|packet| packet.data().last().map(|data| data.tsn));
        let Some(tsn) = data else { break };
        script.send(&[sack(tsn)]);
        send_until_full(&mut script);
        assert!(buffered(&script) <= 81_000, "{}", buffered(&script));
    }
    let mut script = with(|config| {
        config.buffers.send = 20_000;
        config.buffers.growth = 4;
    });
    send_until_full(&mut script);
    script.advance(Duration::from_secs(30));
    send_until_full(&mut script);
    assert!(buffered(&script) <= 21_000, "{}", buffered(&script));
}

/// An association whose application may use 65,535 streams to a peer that acknowledges nothing.
fn with_all_streams(change: impl FnOnce(&mut Config)) -> Script {
    let mut config = quiet();
    config.streams.outbound = u16::MAX;
    config.buffers.send = SEND;
    config.buffers.growth = 1;
    config.buffers.stream_shares = true;
    change(&mut config);
    let mut script = Script::new(config, 1);
    script.streams = u16::MAX;
    script.set_up();
    script.events();
    script
}

const SEND: usize = 64 << 10;
/// The least memory that a message of one byte takes.
const ONE_BYTE: usize = 150;

/// The send buffer: twice `buffers.send`, and one message more, however many streams and priority classes are used and however
/// long the messages are. A short message counts more than its user data.
#[test]
fn the_send_buffer_of_many_streams() {
    for classes in [false, true] {
        for len in [1, 1000, 100_000] {
            let mut script = with_all_streams(|config| config.scheduler = SchedulerKind::Priority);
            script.act(|association, now| {
                if classes {
                    association
                        .enable_default_priorities()
                        .expect("there are classes");
                }
                for stream in 0..u16::MAX {
                    let message = Bytes::from(vec![7; len]);
                    let _ = association.send(now, StreamId(stream), message, SendOptions::default());
                }
            });
            let most = (2 * SEND + len).min(len.max(2 * SEND / ONE_BYTE * len));
            let bytes = buffered(&script);
            assert!(
                bytes <= most,
                "{bytes} bytes in messages of {len}, classes: {classes}"
            );
            assert!(bytes >= (SEND / 2).min(most / 4), "{bytes}");
        }
    }
}

// M → DATA on each of 65,535 streams → A; A → DATA (the echoes) → M, which acknowledges none
/// An application that sends each message back: the echoes to a peer that acknowledges none of them are bounded.
#[test]
fn echoes_that_nobody_acknowledges() {
    let mut script = with_all_streams(|_| ());
    let (mut echoed, mut refused) = (0, 0);
    for stream in 0..u16::MAX {
        let data = script.data(stream, 0, vec![1; 1000]);
        script.send(&[data]);
        script.skip_answers();
        for message in script.messages() {
            let payload = message.bytes.clone();
            let sent = script.act(|association, now| {
                association.send(now, message.stream, payload, SendOptions::default())
            });
            match sent {
                Ok(_) => echoed += 1,
                Err(error) => {
                    assert_eq!(error, SendError::BufferFull);
                    refused += 1;
                }
            }
        }
        assert!(buffered(&script) <= 2 * SEND + 1000, "{}", buffered(&script));
    }
    assert!(
        echoed >= 60 && refused >= 65_000,
        "{echoed} echoed, {refused} refused"
    );
}

// M → INIT (65,535 outbound streams) → A … M → DATA on each of them → A
/// `streams.max_inbound`: data on other streams is acknowledged and dropped.
#[test]
fn streams() {
    let mut config = quiet();
    config.streams.max_inbound = 100;
    let mut script = Script::new(config, 1);
    let mut init = script.init(Parameters::empty());
    init.outbound_streams = u16::MAX;
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    let Chunk::InitAck(ack) = script.expect_chunk() else {
        panic!("INIT ACK")
    };
    script.endpoint_tag = ack.initiate_tag;
    let cookie = state_cookie(&ack);
    script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
    script.talker().reading = false;
    for stream in (0..=u16::MAX).step_by(10) {
        let data = script.data(stream, 0, "x");
        script.send(&[data]);
    }
    assert_eq!(unread(&script), 10, "streams 0, 10, … 90");
    assert_eq!(script.association().state(), State::Established);
}

// M → INIT, COOKIE ECHO (a restart), DATA; many times
/// Restarts: one association with its addresses remains, and unread messages still count.
#[test]
fn restarts() {
    let mut script = with(|config| config.buffers.receive = 20_000);
    for restart in 1..=200 {
        script.tag = VerificationTag(0x5000 + restart);
        script.set_up();
        for ssn in 0..3 {
            let data = script.data(0, ssn, vec![1; 500]);
            script.send(&[data]);
        }
        script.skip_answers();
        assert!(unread(&script) <= 2 * 20_000, "{}", unread(&script));
    }
    assert!(dropped(&script) > 0);
    assert_eq!(script.association().counters().restarts, 200);
    assert_eq!(script.association().stats().paths.len(), 1);
    assert_eq!(script.host_mut().endpoint_mut().association_count(), 1);
}

// M → INIT (200 addresses) → A … M → COOKIE ECHO → A
/// `max_paths`: further addresses are ignored.
#[test]
fn addresses() {
    for max_paths in [1, 16, 255] {
        let mut config = quiet();
        config.max_paths = max_paths;
        let mut script = Script::new(config, 1);
        let listed = (0..200).fold(ParametersBuilder::new(), |builder, last| {
            builder.push(&Parameter::Ipv4([10, 9, 0, last].into()))
        });
        script.send_tagged(ZERO, &[Chunk::Init(script.init(listed.finish()))]);
        let Chunk::InitAck(ack) = script.expect_chunk() else {
            panic!("INIT ACK")
        };
        script.endpoint_tag = ack.initiate_tag;
        let cookie = state_cookie(&ack);
        script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
        // At most 64 addresses of one INIT are processed, and its source address is another one.
        let expected = max_paths.min(65);
        assert_eq!(script.association().stats().paths.len(), expected);
    }
}

// M → INIT, from 20,000 ports; M → COOKIE ECHO (made up)
/// Half-open set-ups: no state is kept.
#[test]
fn half_open_set_ups() {
    let mut script = Script::new(quiet(), 1);
    let (now, remote) = (script.now(), script.remote);
    for port in 1..=20_000 {
        script.port = port;
        let init = script.packet(ZERO, &[Chunk::Init(script.init(Parameters::empty()))]);
        let endpoint = script.host_mut().endpoint_mut();
        let handling = endpoint.handle_datagram(now, None, remote, init.into(), EcnCodepoint::NotEct);
        assert!(matches!(handling, Handling::Reply(_)), "{handling:?}");
    }
    let cookie = Bytes::from_static(&[1; 200]);
    script.send_tagged(VerificationTag(9), &[Chunk::CookieEcho(CookieEcho { cookie })]);
    script.expect_silence();
    assert_eq!(script.host_mut().endpoint_mut().association_count(), 0);
    assert_eq!(script.id(), None);
}
