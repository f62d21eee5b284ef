//! The order of classes while packets are lost, messages expire and classes change (RFC 8260 §3.4): checked on the packets
//! sent, for many seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_netsim::{Generator, LinkConfig, LossModel, QueueLimit};
use anabranch_proto::wire::chunk::{Chunk, Data, kind};
use anabranch_proto::wire::packet::Packet as SctpPacket;
use anabranch_proto::{Reliability, SchedulerKind, StreamId, Timestamp};
use anabranch_testkit::{Ledger, Pair, Setup, Side, Violation};

const STREAMS: u16 = 6;
const CLASSES: u64 = 3;
const MESSAGES: u32 = 120;

/// A message that was given to `send`.
struct Waiting {
    at: Timestamp,
    stream: StreamId,
    /// The message is abandoned in the queue after this time.
    until: Option<Timestamp>,
}

/// The times at which the streams' classes changed.
type Classes = BTreeMap<StreamId, Vec<(Timestamp, u16)>>;

/// The class of a stream at a time; `None` at the moment of a change.
fn class_at(classes: &Classes, stream: StreamId, at: Timestamp) -> Option<u16> {
    let changes = &classes[&stream];
    let changing = changes.iter().any(|(when, _)| *when == at);
    let last = changes.iter().rev().find(|(when, _)| *when < at)?;
    (!changing).then_some(last.1)
}

/// A message that began to leave before a more urgent one that was waiting.
fn overtaken(pair: &Pair, waiting: &[Waiting], classes: &Classes) -> Option<String> {
    let z = pair.addresses(Side::Z)[0];
    let mut begun = vec![false; waiting.len()];
    for record in pair.network.records() {
        if record.packet.destination.ip() != z {
            continue;
        }
        let packet =
            SctpPacket::parse(record.packet.payload.clone().into_sctp()).expect("a packet of the core");
        for raw in packet.chunks().map_while(Result::ok) {
            if raw.kind != kind::DATA {
                continue;
            }
            let Ok(Chunk::Data(Data { ppid, beginning, .. })) = Chunk::decode(raw) else {
                panic!("DATA of the core")
            };
            let number = Ledger::number(ppid) as usize;
            if !beginning || begun[number] {
                continue;
            }
            begun[number] = true;
            let at = record.at;
            let Some(class) = class_at(classes, waiting[number].stream, at) else {
                continue;
            };
            // The first waiting message of each stream. A message that expires about now may have been dropped.
            let other = waiting.iter().enumerate().find(|(other, message)| {
                let waits = !begun[*other] && message.at < at;
                waits
                    && message.until.is_none_or(|until| at < until)
                    && class_at(classes, message.stream, at).is_some_and(|urgent| urgent < class)
            });
            if let Some((other, message)) = other {
                return Some(format!(
                    "message {number} of class {class} began at {at:?}, before {other} of stream {:?}",
                    message.stream
                ));
            }
        }
    }
    None
}

fn run(seed: u64) {
    let mut random = Generator::of_process(seed, "priorities");
    let link = LinkConfig::default()
        .with_delay(Duration::from_millis(5 + random.below(60)))
        .with_rate(500_000 + random.below(3_000_000))
        .with_queue(QueueLimit::Bytes(20_000))
        .with_loss(LossModel::bernoulli(random.fraction() * 0.1));
    let setup = Setup::new(seed)
        .path(link)
        .captured(seed < 3)
        .adjust_both(|config| {
            config.scheduler = SchedulerKind::Priority;
            config.buffers.send = 8 << 20;
            config.retransmissions.association_max_retrans = 1000;
        });
    let mut pair = setup.connect();
    pair.network.keep_records(1 << 20);
    let mut ledger = Ledger::new(seed);
    let (mut waiting, mut classes) = (Vec::new(), Classes::new());
    for number in 0..MESSAGES {
        let now = pair.now();
        for stream in (0..STREAMS).map(StreamId) {
            let first = number == 0;
            if first || random.below(60) == 0 {
                let class = random.below(CLASSES) as u16;
                let association = pair.association_mut(Side::A);
                association
                    .set_stream_priority(stream, class)
                    .expect("there is the stream");
                classes.entry(stream).or_default().push((now, class));
            }
        }
        let stream = random.below(STREAMS.into()) as u16;
        let len = [72, 900, 4_000, 9_000][random.below(4) as usize];
        let unordered = random.below(4) == 0;
        let mut parcel = ledger.parcel(stream, len, unordered);
        let mut until = None;
        if random.below(3) == 0 {
            let lifetime = Duration::from_millis(50 + random.below(2_000));
            until = Some(now + lifetime);
            parcel = ledger.expend(parcel, Reliability::Lifetime(lifetime));
        }
        pair.association_mut(Side::A)
            .send(now, parcel.stream, parcel.bytes, parcel.options)
            .expect("there is room");
        waiting.push(Waiting {
            at: now,
            stream: StreamId(stream),
            until,
        });
        if random.below(3) == 0 {
            pair.run_for(Duration::from_micros(random.below(40_000)));
        }
    }
    let limit = pair.now() + Duration::from_secs(300);
    let complete = |pair: &mut Pair| {
        for message in pair.messages(Side::Z) {
            if let Err(violation) = ledger.check(&message) {
                panic!("seed {seed}: {violation}");
            }
        }
        !matches!(ledger.check_complete(), Err(Violation::Missing { .. }))
    };
    assert!(pair.run_to(limit, complete), "seed {seed}: it does not end");
    if let Some(overtaken) = overtaken(&pair, &waiting, &classes) {
        panic!("seed {seed}: {overtaken}");
    }
}

/// With any losses, expiries and changes, no message of a class begins while a message of a more urgent class waits. Each
/// stream keeps its order, no reliable message is lost, and the run ends.
#[test]
fn classes_are_strict_under_loss() {
    (0..150).for_each(run);
}
