//! Reset of streams with pion (RFC 6525), as data channels use it (RFC 8831 §6.7): the side whose incoming stream was reset resets its
//! outgoing stream of this number in answer, and then both use the number again. In each round one stream is reset while messages of the
//! other streams flow in both directions. No step waits for a time: each round begins when the previous round is complete at both ends.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch::{
    Association, Event, ReconfigurationEvent, ReconfigurationRequest, ReconfigurationResult, ResetDirection,
    SendOptions, StreamSelection,
};
use tokio::sync::watch;

use crate::Exchange;
use crate::captured::Captured;
use crate::peer_messages::{Inbox, STREAMS, Sizes, receive_all, send_all};

/// Resets of a stream in each direction.
const ROUNDS: u64 = 16;
/// Messages of each direction in a round.
const ROUND: u64 = 300;
/// Messages of each direction: after the last reset, there is another round of messages.
pub(crate) const MESSAGES: u64 = (ROUNDS + 1) * ROUND;

/// The side that resets a stream first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Us,
    Pion,
    /// Each side sends its request before it has the request of the other.
    Both,
}

/// The arguments of pion's program (interop/README.md).
pub(crate) fn arguments(first: First) -> impl Iterator<Item = String> {
    let by = match first {
        First::Us => "peer",
        First::Pion => "self",
        First::Both => "both",
    };
    // Where both reset at once, pion does not wait for our first message, but uses the stream as soon as both resets are done.
    let opens = (first == First::Both).then_some("--open-first");
    let rounds = ROUNDS.to_string();
    let all = ["--resets", &rounds, "--resets-by", by];
    all.map(String::from).into_iter().chain(opens.map(String::from))
}

/// The report of pion's program: the streams that ended, the streams that it reset, and the streams that it used again.
pub(crate) fn verdict() -> String {
    format!(r#""ended":{ROUNDS},"reset":{ROUNDS},"reused":{ROUNDS}"#)
}

/// The stream of a round.
fn stream(round: u64) -> StreamSelection {
    StreamSelection::listed([(round % STREAMS) as u16])
}

/// The rounds whose resets are complete.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    answered: u64,
    inbound: u64,
}

/// Sends all messages but the last one. In the middle of a round, a stream is reset if this side begins.
pub(crate) async fn send_in_rounds(association: &Association, own: u64, first: First) {
    let (done, mut seen) = watch::channel(Done::default());
    let events = tokio::spawn(follow(association.clone(), first, done));
    for round in 0..=ROUNDS {
        let begin = round * ROUND;
        let middle = begin + ROUND / 2;
        let end = (begin + ROUND).min(MESSAGES - 1);
        send(association, own, begin..middle).await;
        let is_reset = round < ROUNDS;
        if is_reset && first != First::Pion {
            // A message of pion's round has arrived: pion uses all streams of the earlier rounds again.
            while association.stats().counters.messages_received <= begin {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            association
                .reset_streams(stream(round), ResetDirection::Outgoing)
                .expect("the request before was answered");
        }
        send(association, own, middle..end).await;
        if is_reset {
            let complete = |done: &Done| done.answered.min(done.inbound) > round;
            seen.wait_for(complete).await.expect("no event failed the test");
        }
    }
    events.await.expect("the expected events");
}

async fn send(association: &Association, own: u64, indexes: std::ops::Range<u64>) {
    let options = |_, _| SendOptions::default();
    send_all(association, Sizes::Mixed, own, indexes, options).await;
}

/// Checks the events of all rounds, and resets our stream in answer if pion begins.
async fn follow(association: Association, first: First, done: watch::Sender<Done>) {
    let mut rounds = Done::default();
    while rounds.answered.min(rounds.inbound) < ROUNDS {
        let Event::Reconfiguration(event) = association.next_event().await.expect("the association lives")
        else {
            continue;
        };
        match event {
            ReconfigurationEvent::InboundReset { streams, .. } => {
                assert_eq!(streams, stream(rounds.inbound));
                if first == First::Pion {
                    let asked = association.reset_streams(streams, ResetDirection::Outgoing);
                    asked.expect("the request before was answered");
                }
                rounds.inbound += 1;
            }
            ReconfigurationEvent::Answered { request, result } => {
                assert_eq!(request, ReconfigurationRequest::ResetOutgoing);
                assert_eq!(result, ReconfigurationResult::Performed);
                rounds.answered += 1;
            }
            other => panic!("{other:?} was not asked for"),
        }
        done.send_replace(rounds);
    }
}

const DATA: u8 = 0;
const RE_CONFIG: u8 = 130;
const OUTGOING_RESET: u16 = 13;
const RESPONSE: u16 = 16;
const PERFORMED: u32 = 1;
const IN_PROGRESS: u32 = 6;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

/// An Outgoing SSN Reset Request.
#[derive(Debug)]
struct Request {
    /// The place of its first chunk in the capture, and that of the first answer that the reset was performed.
    sent: usize,
    performed: Option<usize>,
    last_tsn: u32,
    streams: Vec<u16>,
}

/// The requests of one side by their sequence numbers, and how many answers said that the reset is in progress.
fn requests(chunks: &[Captured], is_sender: impl Fn(&Captured) -> bool) -> (BTreeMap<u32, Request>, usize) {
    let (mut found, mut in_progress) = (BTreeMap::new(), 0);
    for (place, chunk) in chunks
        .iter()
        .enumerate()
        .filter(|(_, chunk)| chunk.kind == RE_CONFIG)
    {
        let mut rest = &chunk.value[..];
        while rest.len() >= 4 {
            let (kind, len) = (half(rest, 0), usize::from(half(rest, 2)));
            let value = &rest[4..len];
            match kind {
                OUTGOING_RESET if is_sender(chunk) => {
                    let request = || Request {
                        sent: place,
                        performed: None,
                        last_tsn: word(value, 8),
                        streams: value[12..].chunks_exact(2).map(|id| half(id, 0)).collect(),
                    };
                    found.entry(word(value, 0)).or_insert_with(request);
                }
                RESPONSE if !is_sender(chunk) && word(value, 4) == PERFORMED => {
                    let request: &mut Request =
                        found.get_mut(&word(value, 0)).expect("an answer to a request");
                    request.performed.get_or_insert(place);
                }
                RESPONSE if !is_sender(chunk) => {
                    assert_eq!(word(value, 4), IN_PROGRESS);
                    in_progress += 1;
                }
                _ => {}
            }
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
    }
    (found, in_progress)
}

/// Checks that the messages of one side have the SSNs that its resets demand: 0 for the first ordered message of a stream after the last
/// TSN before the reset, then one more for each.
fn check_numbers(
    chunks: &[Captured],
    is_sender: impl Fn(&Captured) -> bool,
    requests: &BTreeMap<u32, Request>,
) {
    let own = chunks
        .iter()
        .filter(|chunk| chunk.kind == DATA && is_sender(chunk));
    let mut initial = None;
    let data: BTreeMap<u32, &Captured> = own
        .map(|chunk| {
            let tsn = word(&chunk.value, 0);
            (tsn.wrapping_sub(*initial.get_or_insert(tsn)), chunk)
        })
        .collect();
    let initial = initial.expect("data");
    let mut resets = requests.values().peekable();
    let (mut expected, mut begins_again) = ([0; STREAMS as usize], [false; STREAMS as usize]);
    let mut used_again = 0;
    for (tsn, chunk) in data {
        while let Some(reset) = resets.next_if(|reset| reset.last_tsn.wrapping_sub(initial) < tsn) {
            for stream in reset.streams.iter().map(|id| usize::from(*id)) {
                assert!(expected[stream] > 0, "the reset changes the SSN: {reset:?}");
                (expected[stream], begins_again[stream]) = (0, true);
            }
        }
        let (ends, begins, unordered) = (chunk.flags & 1, chunk.flags & 2, chunk.flags & 4);
        if unordered != 0 {
            continue;
        }
        let stream = usize::from(half(&chunk.value, 4));
        assert_eq!(half(&chunk.value, 6), expected[stream], "stream {stream}");
        if begins != 0 {
            used_again += u64::from(std::mem::take(&mut begins_again[stream]));
        }
        expected[stream] += u16::from(ends);
    }
    assert_eq!(used_again, ROUNDS, "each stream is used again after each reset");
}

/// Checks the order and the numbers in the packets of both sides.
pub(crate) fn check(chunks: &[Captured], port: u16, first: First, lossless: bool) {
    let by_us = |chunk: &Captured| chunk.source.port() == port;
    let by_pion = |chunk: &Captured| chunk.source.port() != port;
    let (ours, pion_in_progress) = requests(chunks, by_us);
    let (pions, our_in_progress) = requests(chunks, by_pion);
    println!("answers \"in progress\": {pion_in_progress} of pion, {our_in_progress} of ours");
    assert_eq!((ours.len() as u64, pions.len() as u64), (ROUNDS, ROUNDS));
    check_numbers(chunks, by_us, &ours);
    check_numbers(chunks, by_pion, &pions);
    for (round, (our, pion)) in ours.values().zip(pions.values()).enumerate() {
        let expected = StreamSelection::listed(our.streams.iter().copied());
        assert_eq!(our.streams, pion.streams);
        assert_eq!(expected, stream(round as u64));
        let answered = our.performed.zip(pion.performed).expect("both are performed");
        // With loss, the capture does not tell when pion sent an answer: it shows the first answer that arrived.
        let in_order = match first {
            First::Us => answered.0 < pion.sent || !lossless,
            First::Pion => pion.sent < our.sent && (answered.1 <= our.sent || !lossless),
            First::Both => our.sent < pion.sent && pion.sent < answered.0,
        };
        assert!(in_order, "round {round}: {our:?}, {pion:?}");
    }
}

/// Asks pion to reset its streams, which it cannot: it drops the packet. The request is retransmitted, and the association goes on.
pub(crate) async fn asked_in_vain(exchange: Exchange) {
    let endpoint = exchange.open().await;
    let (child, association) = exchange.meet(&endpoint).await;
    association
        .reset_streams(stream(0), ResetDirection::Incoming)
        .expect("no other request");
    while association.stats().counters.reconfigs_sent < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let own = u64::from(!exchange.peer_listens);
    send(&association, own, 0..exchange.messages).await;
    let mut inbox = Inbox::new(Sizes::Mixed, 1 - own, exchange.messages);
    receive_all(&association, &mut inbox, |_| true, |_| ()).await;
    association.drained().await.expect("all is acknowledged");
    assert_eq!(association.stats().counters.reconfigs_received, 0);
    association.shutdown().await.expect("an orderly end");
    endpoint.close().await;
    let (success, verdict) = crate::verdict(child).await;
    assert!(success, "{verdict}");
}
