//! The memory of an association: a hostile peer against the core. The settings are those of the example in docs/LIMITS.md, unless the row
//! says otherwise.

use anabranch_proto::{
    AuthenticationConfig, Config, DynamicAddressConfig, EcnCodepoint, MultipathMode, SendOptions, SharedKey,
    StreamId, TraceLevel,
};
use anabranch_testkit::victim::{Victim, chunk, data, encoded, i_data, list, outgoing, reconfig};
use anabranch_testkit::{Script, quiet};
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{
    Abort, AckPolicy, Asconf, Chunk, Data, EData, ErrorChunk, MessageNumber, PathSequence,
    SelectiveForwardTsn, experimental_kind, kind,
};
use anabranch_wire::parameter::{AddressAction, Parameter, Parameters, ParametersBuilder, StreamList};
use anabranch_wire::{Mid, Ppid, Psn, Ssn, VerificationTag};
use bytes::Bytes;

use crate::Scenario;
use crate::attack::Attack;

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("complete messages that the application has not read", unread),
    (
        "ordered messages that wait for earlier ones, and fragments",
        out_of_order,
    ),
    ("growth of the receive window", growth),
    (
        "datagrams that are kept because a payload is a slice of them",
        large_datagrams,
    ),
    ("incomplete messages with interleaving", interleaved),
    (
        "ordered messages that notices of selective forward TSN announced as abandoned",
        notices,
    ),
    ("TSNs received above a gap", gaps),
    ("duplicate TSNs to be reported", duplicates),
    (
        "streams from the peer, those that it adds later (RFC 6525) included",
        streams,
    ),
    ("data that waits for a reset of its stream (RFC 6525)", reset_data),
    (
        "requests of the peer for resets and streams that wait for a request of this endpoint",
        waiting_requests,
    ),
    ("streams that the peer makes this endpoint add", added_streams),
    ("events of resets and added streams", reset_events),
    ("data that is not acknowledged or not sent yet", send_buffer),
    ("outbound streams that the application used", echoed_streams),
    (
        "early copies that are to be sent, and copies whose fate is open; copies that count as lost and may still be reported",
        early_copies,
    ),
    (
        "trace events that the driver has not polled, if tracing is on",
        trace_events,
    ),
    ("gap ack blocks of a received SACK, and lost chunks", gap_blocks),
    ("paths of a sender with ECA-SCTP", eca_paths),
    ("gaps between transmissions (ECA-SCTP)", eca_gaps),
    ("addresses of the peer", addresses),
    ("answers to ASCONFs, kept for retransmitted ones", asconf_answers),
    ("requests of an ASCONF", asconf_requests),
    ("answers that wait for the socket", waiting_answers),
    ("ERROR chunks for the application", errors),
    ("ECN-marked packets that the endpoint will report", marked),
    ("paths that TSNs took (ECN)", ecn_sender),
    ("ECN-capable packets that test a path", ecn_sender),
    ("data and addresses kept over restarts of the peer", restarts),
    (
        "a peer's state cookie, and reports of its unknown parameters",
        cookies,
    ),
    ("causes of an ABORT", aborts),
];

/// One-byte chunks in a packet.
const CHUNKS: u32 = 58;
/// Bytes of a large datagram.
const LARGE: usize = 60_000;

/// The settings of the example, with every extension that the row needs.
pub(crate) fn config() -> Config {
    let mut config = quiet();
    config.buffers.receive = 64 << 10;
    config.buffers.send = 64 << 10;
    config.streams.max_inbound = u16::MAX;
    config.streams.outbound = u16::MAX;
    config.partial_reliability.offer = true;
    config
}

fn with(change: impl FnOnce(&mut Config), more: &[u8]) -> Victim {
    let mut config = config();
    change(&mut config);
    let mut victim = Victim::set_up(config, more, &[], u16::MAX, None);
    victim.drain();
    victim
}

/// The planned number of packets, each with [`CHUNKS`] chunks, by the number of the chunk.
fn bundles(attack: &mut Attack, victim: &mut Victim, chunk: impl Fn(&Victim, u32) -> Vec<u8>) {
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let chunks: Vec<u8> = (0..CHUNKS)
            .flat_map(|place| chunk(victim, number * CHUNKS + place))
            .collect();
        attack.hand(victim, &chunks);
    }
}

/// One-byte messages: first on one stream, then one on each of many.
fn unread(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    let half = attack.planned() as u32 / 2 * CHUNKS;
    bundles(attack, &mut victim, |victim, number| {
        match number.checked_sub(half) {
            None => data(victim.tsn(number), 0, number as u16, 3, b"x"),
            Some(number) => data(victim.tsn(half + number), 1 + number as u16, 0, 3, b"x"),
        }
    });
}

/// One byte each: ordered messages without the first one, beginnings, and middles, with a gap before each.
fn out_of_order(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    bundles(attack, &mut victim, |victim, number| {
        let tsn = victim.tsn(1 + 2 * number);
        match number % 3 {
            0 => data(tsn, 1, 1 + (number / 3) as u16, 3, b"x"),
            1 => data(tsn, number as u16, 0, 2, b"x"),
            _ => data(tsn, 2, 0, 0, b"x"),
        }
    });
}

/// The application reads, so that the window grows; then it stops, and the peer fills the window with messages of one byte.
fn growth(attack: &mut Attack) {
    let mut victim = with(|config| config.buffers.growth = 16, &[]);
    victim.reads = true;
    attack.begins();
    let mut next = 0;
    for number in 0..attack.planned() {
        victim.reads = number < attack.planned() / 4;
        let packet = if victim.reads {
            next += 1;
            data(victim.tsn(next - 1), 0, (next - 1) as u16, 3, &[7; 1100])
        } else {
            let first = next;
            next += CHUNKS;
            (first..next)
                .flat_map(|tsn| data(victim.tsn(tsn), 0, tsn as u16, 3, b"x"))
                .collect()
        };
        attack.hand(&mut victim, &packet);
    }
}

/// 300 bytes in each datagram of 60,000.
fn large_datagrams(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let mut chunks = data(victim.tsn(number), 0, number as u16, 3, &[7; 300]);
        chunks.extend(chunk(kind::PAD, 0, &[&vec![0; LARGE]]));
        attack.hand(&mut victim, &chunks);
    }
}

/// Middles of one byte, each of another message; then beginnings; all ordered or unordered.
fn interleaved(attack: &mut Attack) {
    let mut victim = with(|config| config.interleaving.offer = true, &[]);
    assert!(victim.association().stats().extensions.interleaving);
    bundles(attack, &mut victim, |victim, number| {
        let flags = [0, 2, 4, 6][number as usize % 4];
        let fsn = u32::from(flags & 2 == 0);
        i_data(
            victim.tsn(1 + number),
            (number % 7) as u16,
            1 + number,
            fsn,
            flags,
        )
    });
}

fn notices(attack: &mut Attack) {
    let mut victim = with(
        |config| {
            config.interleaving.offer = true;
            config.partial_reliability.selective_forward_tsn = Some(1);
        },
        &[],
    );
    bundles(attack, &mut victim, |victim, number| {
        let notice = SelectiveForwardTsn {
            tsn: victim.tsn(1 + number % 60_000),
            stream: StreamId((number % 7) as u16),
            number: MessageNumber::Mid(Mid(1 + number)),
        };
        encoded(&Chunk::SelectiveForwardTsn(notice))
    });
}

/// Every other TSN, in unordered messages that the application reads at once.
fn gaps(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    victim.reads = true;
    bundles(attack, &mut victim, |victim, number| {
        data(victim.tsn(1 + 2 * number), 0, 0, 7, b"x")
    });
}

fn duplicates(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    bundles(attack, &mut victim, |victim, number| {
        data(victim.tsn(number % 100), 0, (number % 100) as u16, 3, b"x")
    });
}

/// Each stream in turn, again and again; the application reads.
fn streams(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    victim.reads = true;
    bundles(attack, &mut victim, |victim, number| {
        let stream = (number % u32::from(u16::MAX)) as u16;
        let ssn = (number / u32::from(u16::MAX)) as u16;
        data(victim.tsn(number), stream, ssn, 3, b"x")
    });
}

/// A message that is not read defers the reset; the data behind the reset waits.
fn reset_data(attack: &mut Attack) {
    let mut victim = with(|config| config.reconfiguration.offer = true, &[kind::RE_CONFIG]);
    victim.play(vec![data(victim.tsn(1), 1, 1, 3, b"x")]);
    let request = outgoing(&victim, 0, victim.tsn(2), StreamList::from_streams([StreamId(1)]));
    victim.play(vec![reconfig(&[request])]);
    bundles(attack, &mut victim, |victim, number| {
        data(victim.tsn(2 + number), 1, number as u16, 3, b"x")
    });
}

/// Long lists of streams to be reset, in requests that this endpoint cannot perform yet.
fn waiting_requests(attack: &mut Attack) {
    let mut victim = with(|config| config.reconfiguration.offer = true, &[kind::RE_CONFIG]);
    let now = victim.script.now();
    for stream in 0..400 {
        let association = victim.association_mut();
        let sent = association.send(
            now,
            StreamId(stream),
            Bytes::from_static(b"x"),
            SendOptions::default(),
        );
        sent.expect("the buffer has room");
    }
    victim.drain();
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let request = Parameter::IncomingReset {
            request: victim.tsn(number).0,
            streams: StreamList::from_streams((0..590).map(StreamId)),
        };
        attack.hand(&mut victim, &reconfig(&[request]));
    }
}

fn added_streams(attack: &mut Attack) {
    let mut victim = with(
        |config| {
            config.reconfiguration.offer = true;
            config.streams.outbound = 10;
        },
        &[kind::RE_CONFIG],
    );
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let request = Parameter::AddIncoming {
            request: victim.tsn(number).0,
            count: 1000,
        };
        let answer = Parameter::ReConfigResponse {
            sequence: victim.script.endpoint_tsn.plus(number).0,
            result: 1,
            next_tsns: None,
        };
        let chunks = [reconfig(&[request]), reconfig(&[answer])].concat();
        let padding = chunk(kind::PAD, 0, &[&[0; 1000]]);
        attack.hand(&mut victim, &[chunks, padding].concat());
    }
}

/// Resets of many streams, whose events nobody takes.
fn reset_events(attack: &mut Attack) {
    let mut victim = with(|config| config.reconfiguration.offer = true, &[kind::RE_CONFIG]);
    victim.polls = false;
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let listed =
            StreamList::from_streams((0..590).map(|place| StreamId((number * 590 + place) as u16 >> 1)));
        let request = outgoing(&victim, number, victim.tsn(0), listed);
        attack.hand(&mut victim, &reconfig(&[request]));
    }
}

/// The application echoes each message of one byte on its stream; the peer acknowledges nothing.
fn send_buffer(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    victim.reads = true;
    attack.begins();
    let now = victim.script.now();
    for number in 0..attack.planned() as u32 {
        let chunks = (0..CHUNKS).flat_map(|place| {
            let at = number * CHUNKS + place;
            data(victim.tsn(at), at as u16, 0, 3, b"x")
        });
        let chunks: Vec<u8> = chunks.collect();
        attack.hand(&mut victim, &chunks);
        for place in 0..CHUNKS {
            let stream = StreamId((number * CHUNKS + place) as u16);
            let message = Bytes::from_static(b"x");
            let _ = victim
                .association_mut()
                .send(now, stream, message, SendOptions::default());
        }
    }
    attack.measure();
}

/// The application echoes each message of one byte on its stream; the peer acknowledges all.
fn echoed_streams(attack: &mut Attack) {
    let mut victim = with(|config| config.max_burst = 1000, &[]);
    victim.reads = true;
    attack.begins();
    let now = victim.script.now();
    for number in 0..attack.planned() as u32 {
        let mut chunks = victim.sack(number * CHUNKS, &[]);
        let first = number * CHUNKS;
        chunks.extend((first..first + CHUNKS).flat_map(|at| {
            let (stream, round) = (at % 65_535, at / 65_535);
            data(victim.tsn(at), stream as u16, round as u16, 3, b"x")
        }));
        attack.hand(&mut victim, &chunks);
        for at in first..first + CHUNKS {
            let (stream, message) = (StreamId((at % 65_535) as u16), Bytes::from_static(b"x"));
            let association = victim.association_mut();
            let sent = association.send(now, stream, message, SendOptions::default());
            sent.expect("the peer acknowledges all");
        }
        victim.drain();
    }
    // Each stream is used four times; for ever, each use would take what the first one does.
    attack.would_take(attack.planned() * u64::from(CHUNKS) * 512);
}

/// Urgent messages with copies to a peer that acknowledges nothing.
fn early_copies(attack: &mut Attack) {
    let mut victim = with(|config| config.recovery = Config::default().recovery, &[]);
    attack.begins();
    for _ in 0..attack.planned() {
        let now = victim.script.now();
        let options = SendOptions::default().early_copies(3).unordered(true);
        for stream in 0..20 {
            let message = Bytes::from_static(&[7; 50]);
            let _ = victim
                .association_mut()
                .send(now, StreamId(stream), message, options);
        }
        victim.script.advance(core::time::Duration::from_millis(20));
        victim.script.skip_answers();
        let heartbeat = chunk(kind::HEARTBEAT, 0, &[&[0, 1, 1, 0], &[7; 252]]);
        attack.hand(&mut victim, &heartbeat.repeat(4));
    }
}

fn trace_events(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    victim.reads = true;
    victim.association_mut().set_tracing(TraceLevel::Packets);
    bundles(attack, &mut victim, |victim, number| {
        data(victim.tsn(number), 0, number as u16, 3, b"x")
    });
}

/// SACKs with as many gap ack blocks as fit a packet.
fn gap_blocks(attack: &mut Attack) {
    let mut victim = with(
        |config| {
            config.initial_window = Some(1000);
            config.max_burst = 1000;
        },
        &[],
    );
    victim.send(40, 1000);
    attack.begins();
    for number in 0..attack.planned() as u16 {
        let blocks: Vec<_> = (0..280)
            .map(|block| 2 + (number + block) % 39)
            .map(|at| (at, at))
            .collect();
        let sack = victim.sack(0, &blocks);
        attack.hand(&mut victim, &sack);
    }
}

/// An E-DATA chunk of one byte in this transmission.
fn e_data(victim: &Victim, number: u32, path: u8, transmission: u32) -> Vec<u8> {
    encoded(&Chunk::EData(EData {
        data: Data {
            tsn: victim.tsn(number),
            stream: StreamId((number % 7) as u16),
            ssn: Ssn(0),
            ppid: Ppid(0),
            unordered: true,
            beginning: true,
            ending: true,
            immediate: false,
            payload: Bytes::from_static(b"x"),
        },
        transmission: PathSequence {
            path,
            number: Psn::new(transmission),
        },
        policy: AckPolicy::LastArrival,
    }))
}

fn eca() -> Victim {
    let kinds = [
        experimental_kind::E_DATA,
        experimental_kind::COOP_SACK,
        experimental_kind::FORWARD_PSN,
    ];
    let mut config = config();
    config.multipath.mode = MultipathMode::Eca;
    let mut victim = Victim::set_up(config, &kinds, &[[10, 0, 1, 2]], u16::MAX, None);
    victim.reads = true;
    victim
}

fn eca_paths(attack: &mut Attack) {
    let mut victim = eca();
    bundles(attack, &mut victim, |victim, number| {
        e_data(victim, number, number as u8, number / 256)
    });
}

/// Every other transmission.
fn eca_gaps(attack: &mut Attack) {
    let mut victim = eca();
    bundles(attack, &mut victim, |victim, number| {
        e_data(victim, number, (number % 8) as u8, 2 * (number / 8) + 1)
    });
}

/// A set-up with 300 addresses, and then INITs that list others.
fn addresses(attack: &mut Attack) {
    let mut script = Script::new(config(), 1).without_log();
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let listed = (0..300_u32).fold(ParametersBuilder::new(), |builder, place| {
            builder.push(&Parameter::Ipv4((0x0a40_0000 + number * 300 + place).into()))
        });
        let parameters = listed.finish();
        attack.sent(12 + 20 + parameters.as_bytes().len());
        if number == 0 {
            script.set_up_with(parameters);
        } else {
            script.send_tagged(VerificationTag(0), &[Chunk::Init(script.init(parameters))]);
        }
        script.skip_answers();
        script.events();
    }
}

const SECRET: [u8; 64] = [5; 64];

fn signed() -> Victim {
    let mut config = config();
    config.local_addresses = vec![[10, 0, 0, 1].into()];
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    let mut authentication = AuthenticationConfig::default();
    authentication.keys = vec![SharedKey {
        id: 1,
        secret: Bytes::from_static(&SECRET),
    }];
    config.authentication = Some(authentication);
    Victim::with_family(config, &[], &[], (1, &SECRET))
}

fn asconf(victim: &Victim, number: u32, requests: usize) -> Vec<u8> {
    // Each of them is refused, and its answer has a copy of it.
    let requests = (0..requests as u32).map(|correlation| Parameter::Address {
        action: AddressAction::Add,
        correlation,
        address: [224, 0, 0, 1].into(),
    });
    let own = Parameter::Ipv4([10, 0, 0, 2].into());
    let parameters: Vec<_> = core::iter::once(own).chain(requests).collect();
    encoded(&Chunk::Asconf(Asconf {
        serial: victim.tsn(number).0,
        parameters: list(&parameters),
    }))
}

fn asconf_answers(attack: &mut Attack) {
    let mut victim = signed();
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let asconf = asconf(&victim, number, 60);
        attack.hand(&mut victim, &asconf);
    }
}

fn asconf_requests(attack: &mut Attack) {
    let mut victim = signed();
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let asconf = asconf(&victim, number, 3600);
        attack.hand(&mut victim, &asconf);
    }
}

/// HEARTBEATs of 60,000 bytes while the socket takes nothing.
fn waiting_answers(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    let info = [&[0, 1][..], &(LARGE as u16).to_be_bytes(), &[7; LARGE - 4]];
    let heartbeat = chunk(kind::HEARTBEAT, 0, &info);
    attack.begins();
    for _ in 0..attack.planned() {
        let packet = victim.packet(&heartbeat);
        let len = packet.len();
        victim.handle(packet);
        attack.sent(len);
    }
}

/// Causes of 1,000 bytes, in events that nobody takes.
fn errors(attack: &mut Attack) {
    let mut victim = with(|_| (), &[]);
    victim.polls = false;
    let causes = Causes::from_causes(&[Cause::ProtocolViolation(vec![b'!'; 996].into())]);
    let error = encoded(&Chunk::Error(ErrorChunk { causes }));
    attack.begins();
    for _ in 0..attack.planned() {
        attack.hand(&mut victim, &error);
    }
}

/// Marked packets; no CWR.
fn marked(attack: &mut Attack) {
    let mut victim = ecn();
    victim.reads = true;
    victim.ecn = EcnCodepoint::Ce;
    bundles(attack, &mut victim, |victim, number| {
        data(victim.tsn(number), 0, number as u16, 3, b"x")
    });
}

fn ecn() -> Victim {
    let mut config = config();
    config.ecn = true;
    let parameters = ParametersBuilder::new().push(&Parameter::EcnCapable).finish();
    Victim::with_parameters(config, u16::MAX, parameters)
}

/// The endpoint sends a message for each SACK, in ECN-capable packets.
fn ecn_sender(attack: &mut Attack) {
    let mut victim = ecn();
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let now = victim.script.now();
        let message = Bytes::from_static(b"x");
        let _ = victim
            .association_mut()
            .send(now, StreamId(0), message, SendOptions::default());
        victim.drain();
        let mut chunks = victim.sack(number + 1, &[]);
        chunks.extend(chunk(kind::PAD, 0, &[&[0; 1000]]));
        attack.hand(&mut victim, &chunks);
    }
}

/// Each restart is followed by data that nobody reads.
fn restarts(attack: &mut Attack) {
    let mut script = Script::new(config(), 1).without_log();
    script.set_up();
    script.talker().reading = false;
    attack.begins();
    for number in 0..attack.planned() {
        script.tag = VerificationTag(0x5000 + number as u32);
        script.skip_answers();
        script.set_up();
        let chunks: Vec<_> = (0..CHUNKS as u16)
            .map(|ssn| script.data(0, ssn, vec![1; 20]))
            .collect();
        script.send(&chunks);
        script.skip_answers();
        script.events();
        attack.sent(CHUNKS as usize * 36);
    }
}

/// INIT ACKs with cookies and unknown parameters of 30,000 bytes each, for a client.
fn cookies(attack: &mut Attack) {
    let mut script = Script::new(config(), 1).without_log();
    script.connect();
    let mut ack = script.init_ack(b"a cookie");
    let cookie = ParametersBuilder::new().push(&Parameter::StateCookie(vec![7; 30_000].into()));
    let unknown = [0xc0, 0x42, 0, 4].repeat(7_500);
    let parameters = [cookie.finish().as_bytes().as_ref(), &unknown].concat();
    ack.parameters = Parameters::from_bytes(parameters.into());
    attack.begins();
    for _ in 0..attack.planned() {
        script.send(&[Chunk::InitAck(ack.clone())]);
        script.skip_answers();
        attack.sent(LARGE);
    }
}

/// Each ABORT of 60,000 bytes ends an association.
fn aborts(attack: &mut Attack) {
    let mut script = Script::new(config(), 1).without_log();
    let causes = Causes::from_causes(&[Cause::UserInitiatedAbort(vec![b'!'; LARGE].into())]);
    attack.begins();
    for number in 0..attack.planned() {
        script.tag = VerificationTag(0x5000 + number as u32);
        script.port = 7000 + number as u16;
        script.set_up();
        let abort = Chunk::Abort(Abort {
            reflected_tag: false,
            causes: causes.clone(),
        });
        script.send(&[abort]);
        script.skip_answers();
        script.events();
        let id = script.id().expect("it was set up");
        script.host_mut().forget(id);
        attack.sent(LARGE);
    }
}
