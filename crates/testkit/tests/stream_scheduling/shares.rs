//! How the streams share the send buffer (`Config::buffers`): a stream that has filled its share delays no other stream.

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::Reliability::{Priority, Reliable};
use anabranch_proto::{Config, Event, SchedulerKind, SendError, SendOptions, StreamId};
use anabranch_testkit::{Setup, Side};
use bytes::Bytes;

use crate::fixture::{FULL, Fixture, config};

const CHAT: u16 = 0;
const FILE: u16 = 1;

/// A `Fixture` whose streams share a buffer of six messages; two leave at once.
fn sharing(scheduler: SchedulerKind) -> Fixture {
    let mut config = config(scheduler, 2);
    config.buffers.send = 6 * FULL;
    config.buffers.stream_shares = true;
    Fixture::new(config)
}

/// Sends on a stream until it is full; returns how many messages it accepted.
fn fill(fixture: &mut Fixture, stream: u16) -> usize {
    let mut accepted = 0;
    fixture.act(|line| {
        while line.offer(stream, FULL, Reliable).is_ok() {
            accepted += 1;
        }
    });
    accepted
}

/// A single stream has the whole buffer; when it is full, another one has half of as much again, and so on.
#[test]
fn a_full_stream_leaves_room_for_others() {
    let mut fixture = sharing(SchedulerKind::RoundRobin);
    assert_eq!(fill(&mut fixture, 5), 6);
    assert_eq!(fill(&mut fixture, 6), 3);
    assert_eq!(fill(&mut fixture, 7), 2);
    assert_eq!(fill(&mut fixture, 5), 0);
    let mut one_buffer = {
        let mut config = config(SchedulerKind::RoundRobin, 2);
        config.buffers.send = 6 * FULL;
        Fixture::new(config)
    };
    assert_eq!(fill(&mut one_buffer, 5), 6);
    assert_eq!(fill(&mut one_buffer, 6), 0);
}

/// Acknowledged data makes room, in the share of its stream.
#[test]
fn acknowledged_data_makes_room() {
    let mut fixture = sharing(SchedulerKind::RoundRobin);
    fill(&mut fixture, 5);
    fill(&mut fixture, 6);
    assert_eq!(fixture.sent(), ["5:0", "5:1"]);
    fixture.acknowledge();
    // Stream 5 has 4 of 7 messages left, and 12 - 7 = 5 are free: room for one message.
    assert_eq!(fill(&mut fixture, 5), 1);
    assert_eq!(fixture.sent(), ["5:2", "6:0", "5:3"]);
}

/// An urgent stream finds the share of its class, whatever less urgent streams have sent; so does a less urgent one.
#[test]
fn less_urgent_data_takes_no_room() {
    let mut config = config(SchedulerKind::Priority, 2);
    config.buffers.send = 24 * FULL;
    config.buffers.growth = 1;
    config.buffers.stream_shares = true;
    let mut fixture = Fixture::new(config);
    // Three classes: each keeps a third of the buffer.
    fixture.act(|line| line.prioritise(&[(7, 2)]));
    fixture.act(|line| (8..16).for_each(|stream| line.prioritise(&[(stream, 1)])));
    let bulk: usize = (8..16).map(|stream| fill(&mut fixture, stream)).sum();
    // Twice the buffer without two shares; a message also counts what it takes beside its user data.
    assert!((26..=28).contains(&bulk), "{bulk}");
    let urgent = fill(&mut fixture, 0);
    assert!((6..=8).contains(&urgent), "{urgent}");
    assert!(fill(&mut fixture, 7) >= 4);
}

/// All streams together are bounded: a stream with nothing buffered finds no room behind many others of its class.
#[test]
fn many_streams_fill_the_buffer() {
    let mut fixture = sharing(SchedulerKind::RoundRobin);
    let accepted: usize = (0..16).map(|stream| fill(&mut fixture, stream)).sum();
    assert!((9..=12).contains(&accepted), "{accepted}");
}

/// If the stream itself has messages that may be abandoned for a newcomer, no other stream loses any.
#[test]
fn a_full_stream_drops_its_own_messages() {
    let mut fixture = sharing(SchedulerKind::RoundRobin);
    let mut waiting = Vec::new();
    fixture.act(|line| {
        for stream in [5, 5, 5, 6, 6, 5, 5] {
            waiting.push(line.send_with(stream, FULL, Priority(9)));
        }
        assert_eq!(line.offer(5, FULL, Priority(9)), Err(SendError::BufferFull));
        line.send(&[5], FULL);
    });
    assert_eq!(fixture.abandoned(), [waiting[0]]);
}

/// `BufferedAmountLow` is told when the buffered amount falls to the threshold, and not again until it was above.
#[test]
fn a_low_buffered_amount_is_told() {
    let mut fixture = sharing(SchedulerKind::RoundRobin);
    let stream = StreamId(5);
    let amount = |fixture: &mut Fixture| {
        let mut amount = 0;
        fixture.act(|line| amount = line.association.buffered_amount(stream));
        amount
    };
    fixture.act(|line| {
        line.stream(stream)
            .set_buffered_amount_low_threshold(Some(2 * FULL))
            .expect("the stream exists");
        let unknown = line.stream(StreamId(32)).set_buffered_amount_low_threshold(None);
        assert!(matches!(unknown, Err(SendError::InvalidStream { .. })));
    });
    let low = |fixture: &mut Fixture| {
        let events = fixture.script.events();
        let told = events
            .iter()
            .filter(|event| **event == Event::BufferedAmountLow(stream));
        told.count()
    };
    fixture.act(|line| line.send(&[5, 5], FULL));
    assert_eq!(
        (amount(&mut fixture), low(&mut fixture)),
        (0, 0),
        "it was never above"
    );
    fixture.act(|line| line.send(&[5, 5, 5, 5], FULL));
    assert_eq!((amount(&mut fixture), low(&mut fixture)), (4 * FULL, 0));
    fixture.sent();
    fixture.acknowledge();
    fixture.sent();
    assert_eq!((amount(&mut fixture), low(&mut fixture)), (FULL, 1));
    fixture.acknowledge();
    fixture.sent();
    assert_eq!((amount(&mut fixture), low(&mut fixture)), (0, 0));
}

/// A file and a chat for 20 s on 10 Mbit/s. Returns how many of the chat's messages were refused, the longest delay of the others, and the
/// most bytes that were buffered.
fn chat_beside_a_file(shares: bool) -> (usize, Duration, usize) {
    let mut config = Config::default();
    config.buffers.stream_shares = shares;
    config.buffers.growth = 1;
    let link: LinkConfig = "rate=10mbit,delay=20ms,queue=32kib".parse().expect("a link");
    let mut pair = Setup::new(7).path(link).config(config).connect();
    let file = Bytes::from(vec![1; 16 << 10]);
    let (mut refused, mut most) = (0, 0);
    let mut sent_at = Vec::new();
    for step in 0..2000 {
        let now = pair.now();
        let association = pair.association_mut(Side::A);
        while association
            .send(now, StreamId(FILE), file.clone(), SendOptions::default())
            .is_ok()
        {}
        if step % 5 == 0 {
            let chat = Bytes::from(vec![2; 100]);
            match association.send(now, StreamId(CHAT), chat, SendOptions::default()) {
                Ok(_) => sent_at.push(now),
                Err(error) => {
                    assert_eq!(error, SendError::BufferFull);
                    refused += 1;
                }
            }
        }
        let stats = association.stats();
        most = most.max(stats.queued_bytes + stats.outstanding_bytes);
        pair.run_ms(10);
    }
    pair.run_for(Duration::from_secs(10));
    let arrived = pair.messages(Side::Z);
    let chat: Vec<_> = arrived
        .iter()
        .filter(|message| message.stream == StreamId(CHAT))
        .collect();
    assert_eq!(chat.len(), sent_at.len());
    let delays = chat
        .iter()
        .zip(sent_at)
        .map(|(message, sent)| message.at.saturating_duration_since(sent));
    (refused, delays.max().unwrap_or_default(), most)
}

/// A full stream delays neither `send` nor the messages of another stream, and the sum stays within twice the buffer.
#[test]
fn a_file_delays_no_chat() {
    let (refused, longest, most) = chat_beside_a_file(true);
    assert_eq!(refused, 0);
    // One-way delay, a full queue of the link, and losses in it; the file's megabyte in the buffer would take 0.8 s.
    assert!(longest < Duration::from_millis(300), "{longest:?}");
    let buffer = Config::default().buffers.send;
    assert!((buffer..2 * buffer).contains(&most), "{most}");
    let (refused, ..) = chat_beside_a_file(false);
    assert!(refused > 200, "{refused} of 400");
}
