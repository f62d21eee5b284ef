//! The resident memory of a send buffer beside the bound of docs/LIMITS.md: the peer acknowledges nothing, and the application sends as
//! much as the buffer accepts, in the shapes that take most memory. This file has a single test, because other tests in the same process
//! would be measured too.
#![cfg(target_os = "linux")]

use anabranch_proto::{Association, Config, SchedulerKind, SendOptions, StreamId, Timestamp};
use anabranch_testkit::{Script, quiet, resident};
use bytes::Bytes;

/// `buffers.send`, and the number of times by which the offered data is more than the bound.
const SEND: usize = 4 << 20;
const BOUND: usize = 2 * SEND;
/// Memory of an outbound stream that accepted a message, and of another one that refused a message.
const USED: usize = 400;
const REFUSED: usize = 128;
/// Memory that the allocator takes for itself.
const ALLOCATOR: usize = 256 << 10;
const STREAMS: usize = u16::MAX as usize;

struct Shape {
    name: &'static str,
    len: usize,
    streams: usize,
    /// Whether the peer's window and the congestion window let everything leave, so that all of it is outstanding.
    leaves: bool,
}

/// Offers four times the bound; returns how much the resident memory grew, and how many messages were accepted.
fn fill(script: &mut Script, shape: &Shape) -> (usize, usize) {
    let before = resident("self");
    let offers = (4 * BOUND / shape.len).clamp(2 * shape.streams, 2_000_000);
    let accepted = script.act(|association, now| {
        let mut accepted = 0;
        let mut packets = Vec::new();
        for offer in 0..offers {
            accepted += usize::from(offer_one(association, now, offer, shape));
            if shape.leaves {
                leave(association, now, &mut packets);
            }
        }
        accepted
    });
    (resident("self").saturating_sub(before), accepted)
}

fn offer_one(association: &mut Association, now: Timestamp, offer: usize, shape: &Shape) -> bool {
    let stream = StreamId((offer % shape.streams) as u16);
    if !association.has_room(stream) {
        return false;
    }
    let message = Bytes::from(vec![7; shape.len]);
    association
        .send(now, stream, message, SendOptions::default())
        .is_ok()
}

fn leave(association: &mut Association, now: Timestamp, packets: &mut Vec<u8>) {
    while association.poll_transmit(now, packets, 10).is_some() {
        packets.clear();
    }
}

#[test]
fn the_send_buffer_takes_the_memory_that_it_counts() {
    let shape = |name, len, streams, leaves| Shape {
        name,
        len,
        streams,
        leaves,
    };
    let shapes = [
        shape("one byte, one stream", 1, 1, false),
        shape("one byte, all streams", 1, STREAMS, false),
        shape("one byte, one stream, outstanding", 1, 1, true),
        shape("one byte, all streams, outstanding", 1, STREAMS, true),
        shape("1,000 bytes, one stream", 1000, 1, false),
        shape("1,000 bytes, all streams", 1000, STREAMS, false),
        shape("1,000 bytes, all streams, outstanding", 1000, STREAMS, true),
        shape("1 MiB, 32 streams", 1 << 20, 32, false),
    ];
    // Each association is kept, so that no later one uses its memory again.
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for shape in shapes {
        let mut config: Config = quiet();
        config.streams.outbound = u16::MAX;
        config.scheduler = SchedulerKind::Priority;
        config.buffers.send = SEND;
        config.buffers.growth = 1;
        config.buffers.stream_shares = true;
        config.initial_window = Some(100_000);
        config.max_burst = 1_000_000;
        let mut script = Script::new(config, 1);
        script.streams = u16::MAX;
        script.a_rwnd = if shape.leaves { u32::MAX } else { 1500 };
        script.set_up();
        let (grown, accepted) = fill(&mut script, &shape);
        let used = accepted.min(shape.streams);
        // One message more is in the caller's hands.
        let most = BOUND + 2 * shape.len + ALLOCATOR + used * USED + (shape.streams - used) * REFUSED;
        let line = format!(
            "{}: {accepted} messages, {grown} bytes, {} for each message, {most} allowed",
            shape.name,
            grown / accepted.max(1)
        );
        println!("{line}");
        if grown > most {
            failed.push(line);
        }
        kept.push(script);
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
