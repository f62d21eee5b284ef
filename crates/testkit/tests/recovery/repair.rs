//! Repair chunks (`crates/proto/src/extension/repair`): large messages with a deadline, over simulated links and with hand-made packets.

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    Config, Counters, Event, MessageId, MultipathMode, RecoveryRules, SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::fixture::{self, Fixture};
use anabranch_testkit::{Setup, Side};
use anabranch_wire::chunk::{Chunk, IData, IForwardTsn, SkippedMessage, experimental_kind, kind};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use anabranch_wire::{Fsn, Mid, Ppid, Tsn};

const MS: Duration = Duration::from_millis(1);

/// Bytes of user data of a full fragment, and of the last one.
const FULL: usize = 100;
const LAST: usize = 30;
const PPID: Ppid = Ppid(0x0102_0304);

/// An endpoint that offers repair, with a peer that offers it too, and the peer's initial TSN.
fn begin() -> (Fixture, Tsn) {
    begin_with(&[Parameter::RepairSupported])
}

fn begin_with(more: &[Parameter]) -> (Fixture, Tsn) {
    let mut config = fixture::config();
    config.interleaving.offer = true;
    config.recovery = RecoveryRules::RACK;
    let kinds = [
        kind::FORWARD_TSN,
        kind::NR_SACK,
        kind::I_DATA,
        kind::I_FORWARD_TSN,
        experimental_kind::SELECTIVE_FORWARD_TSN,
    ];
    let listed = Parameter::SupportedExtensions(kinds.to_vec().into());
    let all = [listed, Parameter::ForwardTsnSupported];
    let parameters: Parameters = all
        .iter()
        .chain(more)
        .fold(ParametersBuilder::new(), |list, one| list.push(one))
        .finish();
    let fixture = Fixture::with_parameters(config, parameters);
    assert_eq!(
        fixture.script.association().stats().extensions.repair,
        !more.is_empty()
    );
    let first = fixture.script.tsn;
    (fixture, first)
}

/// The user data of a fragment of a message of four.
fn fragment(mid: u32, fsn: usize) -> Vec<u8> {
    let len = [FULL - 4, FULL, FULL, LAST][fsn];
    (0..len)
        .map(|at| (at * 7 + fsn * 31 + mid as usize) as u8)
        .collect()
}

fn message(mid: u32) -> Vec<u8> {
    (0..4).flat_map(|fsn| fragment(mid, fsn)).collect()
}

/// A product in the field of 256 elements, slowly.
fn times(one: u8, other: u8) -> u8 {
    let mut sum = 0_u16;
    for bit in 0..8 {
        if other >> bit & 1 == 1 {
            sum ^= u16::from(one) << bit;
        }
    }
    for bit in (8..16).rev() {
        if sum >> bit & 1 == 1 {
            sum ^= 0x11D << (bit - 8);
        }
    }
    sum as u8
}

/// The user data of a repair chunk: the fragments, each divided by the sum of its number and 128 plus that of the repair chunk.
fn repair(mid: u32, number: u8) -> Vec<u8> {
    let mut sum = vec![0; FULL];
    for fsn in 0..4 {
        let mut data = fragment(mid, fsn);
        if fsn == 0 {
            data.extend(mid.to_be_bytes());
        }
        let divisor = (128 + number) ^ fsn as u8;
        let factor = (1..=255)
            .find(|factor| times(*factor, divisor) == 1)
            .expect("an inverse");
        for (sum, byte) in sum.iter_mut().zip(data) {
            *sum ^= times(byte, factor);
        }
    }
    sum
}

/// A chunk of the unordered message with this MID, which is its PPID too: `place` is an FSN, or that of a repair chunk from 4 on.
fn chunk(tsn: Tsn, mid: u32, place: usize) -> IData {
    let number = place.saturating_sub(4) as u8;
    let repairs = place >= 4;
    IData {
        tsn,
        stream: StreamId(0),
        mid: Mid(mid),
        ppid: Ppid(if place == 0 { mid } else { 0 }),
        fsn: Fsn(if repairs {
            4 << 24 | u32::from(number) << 16 | LAST as u32
        } else {
            place as u32
        }),
        unordered: true,
        beginning: place == 0,
        ending: place == 3,
        immediate: false,
        repair: repairs,
        payload: if repairs {
            repair(mid, number)
        } else {
            fragment(mid, place)
        }
        .into(),
    }
}

/// The chunks of a message arrive whose places are in this list, with TSNs from `number` on.
fn arrive(fixture: &mut Fixture, first: Tsn, number: u32, mid: u32, places: &[usize]) {
    for place in places {
        let chunk = chunk(first.plus(number + *place as u32), mid, *place);
        fixture.script.send(&[Chunk::IData(chunk)]);
    }
}

/// The messages delivered: PPID and user data.
fn delivered(fixture: &mut Fixture) -> Vec<(u32, Vec<u8>)> {
    let messages = fixture.script.messages();
    messages
        .into_iter()
        .map(|message| (message.ppid.0, message.bytes.to_vec()))
        .collect()
}

// A ← I-DATA 1 2 3 (0 is lost), R 4;  A ← 0 again
#[test]
fn a_repair_chunk_replaces_a_lost_fragment() {
    for lost in 0..4 {
        let (mut fixture, first) = begin();
        let rest: Vec<usize> = (0..4).filter(|place| *place != lost).collect();
        arrive(&mut fixture, first, 0, 7, &rest);
        assert_eq!(delivered(&mut fixture), []);
        arrive(&mut fixture, first, 0, 7, &[5]);
        assert_eq!(delivered(&mut fixture), [(7, message(7))], "without {lost}");
        assert_eq!(fixture.counters().messages_repaired, 1);
        fixture.script.skip_answers();
        // The second repair chunk and the fragment are of no use any more.
        arrive(&mut fixture, first, 0, 7, &[4, lost]);
        assert_eq!(delivered(&mut fixture), []);
        assert_eq!(fixture.script.association().stats().unread_bytes, 0);
    }
}

#[test]
fn as_many_fragments_as_repair_chunks_may_be_lost() {
    let (mut fixture, first) = begin();
    arrive(&mut fixture, first, 0, 7, &[6, 2, 4, 1]);
    assert_eq!(delivered(&mut fixture), [(7, message(7))]);
}

// A ← I-DATA 0 1, R 4, R 4 again
#[test]
fn a_repair_chunk_counts_once() {
    let (mut fixture, first) = begin();
    arrive(&mut fixture, first, 0, 7, &[0, 1, 4]);
    let again = IData {
        tsn: first.plus(9),
        ..chunk(first, 7, 4)
    };
    fixture.script.send(&[Chunk::IData(again)]);
    assert_eq!(delivered(&mut fixture), []);
    arrive(&mut fixture, first, 0, 7, &[5]);
    assert_eq!(delivered(&mut fixture), [(7, message(7))]);
}

// A ← I-DATA 0 1, R 4, or R 4 alone;  A ← I-FORWARD-TSN 3 (0:u7);  A ← R 5
#[test]
fn an_abandoned_message_is_not_repaired() {
    for places in [&[0, 1, 4][..], &[4]] {
        let (mut fixture, first) = begin();
        let held = |fixture: &Fixture| fixture.script.association().stats().unread_bytes;
        arrive(&mut fixture, first, 0, 7, places);
        assert!(held(&fixture) > 0);
        let skipped = SkippedMessage {
            stream: StreamId(0),
            unordered: true,
            mid: Mid(7),
        };
        let forward = IForwardTsn::new(first.plus(3), [skipped]);
        fixture.script.send(&[Chunk::IForwardTsn(forward)]);
        assert_eq!(held(&fixture), 0);
        arrive(&mut fixture, first, 0, 7, &[5]);
        assert_eq!((delivered(&mut fixture), held(&fixture)), (vec![], 0));
    }
}

/// Sends a message of so many bytes with a deadline.
fn send(fixture: &mut Fixture, len: usize) -> MessageId {
    let options = SendOptions::default().deadline(90 * MS).confirm(true);
    fixture.script.act(|association, now| {
        association
            .send(now, StreamId(0), vec![7; len].into(), options)
            .expect("room")
    })
}

/// A message is followed by repair chunks. All its fragments are acknowledged, and no repair chunk is. Returns how many chunks were sent, and how
/// many of them are repair chunks.
fn repair_chunks_are_lost(fixture: &mut Fixture) -> (u32, u32) {
    // The round-trip time is known.
    send(fixture, 10);
    fixture.script.advance(50 * MS);
    fixture.sack(1, &[]);
    fixture.script.events();
    let message = send(fixture, 4_000);
    fixture.script.advance(40 * MS);
    let (sent, counters) = (fixture.sent(), fixture.counters());
    assert!(counters.repair_chunks > 0, "{sent:?}");
    let (chunks, repairs) = (counters.data_chunks_sent as u32, counters.repair_chunks as u32);
    fixture.sack(chunks - repairs, &[]);
    let acknowledged = fixture.script.events();
    assert!(
        matches!(&acknowledged[..], [Event::Acknowledged(which)] if which.message == message),
        "{acknowledged:?}"
    );
    (chunks, repairs)
}

#[test]
fn an_end_does_not_tell_of_repair_chunks() {
    let (mut fixture, _) = begin();
    repair_chunks_are_lost(&mut fixture);
    fixture
        .script
        .act(|association, now| association.abort(now, "enough".into()));
    let events = fixture.script.events();
    assert!(
        !events.iter().any(|event| matches!(event, Event::Undelivered(_))),
        "{events:?}"
    );
}

/// A repair chunk is lost, abandoned or left over when the association ends, without any event, and I-FORWARD-TSN passes it without its message.
#[test]
fn a_repair_chunk_has_no_events_of_its_own() {
    let (mut fixture, _) = begin();
    let (chunks, repairs) = repair_chunks_are_lost(&mut fixture);
    send(&mut fixture, 10);
    fixture.sack(chunks - repairs, &[(chunks, chunks)]);
    fixture.script.advance(5_000 * MS);
    let forward = format!("I-FORWARD-TSN {} ()", chunks - 1);
    let sent = fixture.sent();
    assert!(sent.iter().any(|packet| packet.contains(&forward)), "{sent:?}");
    let events = fixture.script.events();
    assert!(
        !events.iter().any(|event| matches!(event, Event::Abandoned(_))),
        "{events:?}"
    );
    send(&mut fixture, 4_000);
    fixture.script.advance(40 * MS);
    fixture
        .script
        .act(|association, now| association.abort(now, "enough".into()));
    let undelivered = |event: &Event| matches!(event, Event::Undelivered(_));
    let count = fixture.script.events().into_iter().filter(undelivered).count();
    // The short message, on which the peer may still renege, and the last one.
    assert_eq!(count, 2);
}

#[test]
fn a_repaired_fragment_is_not_acknowledged() {
    let (mut fixture, first) = begin();
    arrive(&mut fixture, first, 0, 7, &[0, 2, 3, 4]);
    assert_eq!(delivered(&mut fixture).len(), 1);
    let mut last = None;
    while let Some(answer) = fixture.script.next_answer() {
        last = answer.chunks.into_iter().rev().find_map(|chunk| match chunk {
            Chunk::NrSack(sack) => Some(sack.cumulative_tsn_ack),
            _ => None,
        });
    }
    assert_eq!(last, Some(first), "1 is missing");
}

#[test]
fn without_negotiation_the_bit_means_nothing() {
    let (mut fixture, first) = begin_with(&[]);
    let whole = IData {
        repair: true,
        ending: true,
        ..chunk(first, 7, 0)
    };
    fixture.script.send(&[Chunk::IData(whole)]);
    assert_eq!(delivered(&mut fixture), [(7, fragment(7, 0))]);
}

/// Lengths, numbers and labels that contradict the fragments repair nothing, and end nothing.
#[test]
fn a_contradiction_repairs_nothing() {
    type Change = fn(&mut IData);
    let changes: [Change; 6] = [
        |chunk| chunk.fsn = Fsn(5 << 24 | LAST as u32),
        |chunk| chunk.fsn = Fsn(4 << 24 | (LAST as u32 - 1)),
        |chunk| chunk.fsn = Fsn(4 << 24 | 16 << 16 | LAST as u32),
        |chunk| chunk.fsn = Fsn(1 << 24 | LAST as u32),
        |chunk| chunk.payload = vec![0; 3].into(),
        |chunk| chunk.unordered = false,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let (mut fixture, first) = begin();
        arrive(&mut fixture, first, 0, 7, &[0, 1, 3]);
        let mut false_one = chunk(first.plus(4), 7, 4);
        change(&mut false_one);
        fixture.script.send(&[Chunk::IData(false_one)]);
        assert_eq!(delivered(&mut fixture), [], "{at}");
        // The message arrives as without repair.
        arrive(&mut fixture, first, 0, 7, &[2]);
        assert_eq!(delivered(&mut fixture), [(7, message(7))], "{at}");
        assert_eq!(fixture.script.association().stats().unread_bytes, 0);
    }
}

/// The peer begins messages with repair chunks and ends none, and repairs messages whose fragments never come.
#[test]
fn few_repair_chunks_are_held() {
    let (mut fixture, first) = begin();
    for mid in 0..1_000 {
        let chunk = chunk(first.plus(mid), mid, 4);
        fixture.script.send(&[Chunk::IData(chunk)]);
        fixture.script.skip_answers();
    }
    let held = fixture.script.association().stats().unread_bytes;
    assert!(held <= 256 * FULL, "{held} bytes");
    let mut tsn = 1_000;
    for mid in 1_000..2_100 {
        for place in [0, 2, 3, 4] {
            fixture
                .script
                .send(&[Chunk::IData(chunk(first.plus(tsn), mid, place))]);
            tsn += 1;
        }
        fixture.script.skip_answers();
    }
    let count = delivered(&mut fixture).len();
    assert_eq!((count, fixture.counters().messages_repaired), (1_024, 1_024));
}

/// A run of 600 video frames of 10 KiB, 30 a second, of use for 200 ms.
struct Run {
    config: Config,
    of_peer: Config,
    links: Vec<&'static str>,
}

impl Run {
    fn over(links: &[&'static str]) -> Self {
        Self {
            config: Config::default(),
            of_peer: Config::default(),
            links: links.to_vec(),
        }
    }

    /// The share in time, and the counters of the sender and the receiver. Each frame has one fate.
    fn run(self) -> (f64, Counters, Counters) {
        let mut setup = Setup::new(1).captured(false).configs(self.config, self.of_peer);
        for link in self.links {
            setup = setup.path(link.parse::<LinkConfig>().expect("a link"));
        }
        let mut pair = setup.connect();
        let options = SendOptions::default().deadline(200 * MS).confirm(true).ppid(PPID);
        let (mut in_time, mut received, mut acknowledged) = (0, 0, 0);
        let mut fates = BTreeMap::new();
        for tick in 0..700_u32 {
            let now = pair.now();
            if tick < 600 {
                let frame = now.0.to_be_bytes().repeat(1_280);
                let association = pair.association_mut(Side::A);
                let message = association.send(now, StreamId(0), frame.into(), options);
                fates.insert(message.expect("there is room"), 0);
            }
            pair.run_ms(33);
            for message in pair.messages(Side::Z) {
                assert_eq!(message.bytes, message.bytes[..8].repeat(1_280));
                assert_eq!(message.ppid, PPID);
                received += 1;
                let stamp = message.bytes[..8].try_into().expect("eight bytes");
                let sent = Timestamp(u64::from_be_bytes(stamp));
                in_time += u32::from(message.at.saturating_duration_since(sent) <= 200 * MS);
            }
            for event in pair.events(Side::A) {
                let message = match event {
                    Event::Acknowledged(which) => {
                        acknowledged += 1;
                        which.message
                    }
                    Event::Abandoned(which) | Event::Undelivered(which) => which.message,
                    _ => continue,
                };
                *fates.get_mut(&message).expect("a frame") += 1;
            }
        }
        assert!(received >= acknowledged, "{received} of {acknowledged}");
        assert!(fates.values().all(|fates| *fates == 1), "each frame has one fate");
        let [a, z] = [Side::A, Side::Z].map(|side| pair.association_mut(side).stats().counters);
        (f64::from(in_time) / 600.0, a, z)
    }
}

#[test]
fn as_many_repair_chunks_as_the_loss_needs() {
    for (link, least, most) in [
        ("rate=10mbit,delay=40ms,queue=100kb,loss=1%", 0.995, 0.2),
        ("rate=10mbit,delay=40ms,queue=100kb,loss=5%", 0.99, 0.5),
        ("rate=10mbit,delay=40ms,queue=100kb,loss=10%", 0.98, 0.8),
        (
            "rate=10mbit,delay=40ms,queue=100kb,loss=burst:0.013158/0.25",
            0.98,
            0.9,
        ),
    ] {
        let (share, sender, receiver) = Run::over(&[link]).run();
        let chunks = (sender.data_chunks_sent - sender.repair_chunks) as f64;
        let repairs = sender.repair_chunks as f64 / chunks;
        println!("{link}: {share:.4} in time, {repairs:.2} repair chunks of a chunk");
        assert!(share >= least && repairs <= most, "{link}: {share}, {repairs}");
        assert_eq!(sender.early_copies, 0);
        assert!(receiver.messages_repaired > 0 && sender.redundancy_bytes >= 1_000 * sender.repair_chunks);
    }
}

#[test]
fn a_path_without_losses_gets_no_repair_chunks() {
    let (share, sender, _) = Run::over(&["rate=10mbit,delay=40ms,queue=100kb"]).run();
    assert!(share > 0.999, "{share}");
    // Before fifty transmissions, losses are assumed.
    assert!(sender.repair_chunks <= 20, "{}", sender.repair_chunks);
}

/// A peer without repair gets copies.
#[test]
fn repair_needs_both_endpoints() {
    let mut run = Run::over(&["rate=10mbit,delay=40ms,queue=100kb,loss=5%"]);
    run.of_peer.interleaving.offer = false;
    let (share, sender, _) = run.run();
    assert!(
        share > 0.97 && sender.repair_chunks == 0 && sender.early_copies > 1_000,
        "{share}"
    );
}

#[test]
fn repair_chunks_take_the_better_path() {
    let links = [
        "rate=10mbit,delay=40ms,queue=100kb,loss=5%",
        "rate=10mbit,delay=45ms,queue=100kb",
    ];
    let mut run = Run::over(&links);
    run.config.multipath.mode = MultipathMode::Eca;
    run.of_peer.multipath.mode = MultipathMode::Eca;
    let (share, sender, _) = run.run();
    assert!(
        share > 0.99 && sender.repair_chunks > 0,
        "{share}, {}",
        sender.repair_chunks
    );
}
