//! The order in which streams send, for each scheduler of RFC 8260 §3.

use core::time::Duration;

use anabranch_proto::SchedulerKind::{
    FairBandwidth, FirstComeFirstServed, Priority, RoundRobin, RoundRobinPerPacket, WeightedFairQueueing,
};
use anabranch_proto::{Association, Reliability, SchedulerKind, SchedulingError, StreamId};

use crate::fixture::{FULL, Fixture, config};

const MS: Duration = Duration::from_millis(1);

/// The streams of the messages that left, one for each chunk.
fn streams(packets: &[String]) -> Vec<u16> {
    let chunks = packets.iter().flat_map(|packet| packet.split(' '));
    let stream = |chunk: &str| chunk.split(':').next().and_then(|number| number.parse().ok());
    chunks.map(|chunk| stream(chunk).expect("DATA")).collect()
}

// A → 1:0, 1:1, 2:0, 1:2 → Z
/// RFC 8260 §3.1: messages leave in the order in which they were sent to the queue.
#[test]
fn first_come_first_served() {
    let mut fixture = Fixture::of(FirstComeFirstServed);
    fixture.act(|line| line.send(&[1, 1, 2, 1], FULL));
    assert_eq!(fixture.sent(), ["1:0", "1:1", "2:0", "1:2"]);
}

// (2, 1, 2, 1, 2 wait, and the first message of 1 is abandoned)  A → 2:0, 2:1, 1:0, 2:2 → Z
/// An abandoned message loses its own place in the order and no other message's.
#[test]
fn an_abandoned_message_loses_only_its_own_place() {
    let mut fixture = Fixture::new(config(FirstComeFirstServed, 2));
    fixture.act(|line| line.send(&[0, 0], FULL));
    assert_eq!(fixture.sent().len(), 2);
    fixture.act(|line| {
        line.send(&[2], FULL);
        line.send_with(1, FULL, Reliability::Lifetime(MS));
        line.send(&[2, 1, 2], FULL);
    });
    fixture.script.advance(5 * MS);
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["2:0", "2:1", "1:0"]);
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["2:2"]);
}

// A → 1:0, 2:0, 3:0, 1:1, 2:1, 1:2 → Z
/// RFC 8260 §3.2: the streams take turns, one message each, across packets.
#[test]
fn round_robin() {
    let mut fixture = Fixture::of(RoundRobin);
    fixture.act(|line| line.send(&[1, 1, 1, 2, 2, 3], FULL));
    assert_eq!(fixture.sent(), ["1:0", "2:0", "3:0", "1:1", "2:1", "1:2"]);
}

// A → (1:0 1:1), (2:0 2:1), (1:2 1:3), (2:2) → Z
/// RFC 8260 §3.3: the stream changes with the packet, and a packet has messages of one stream.
#[test]
fn round_robin_per_packet() {
    let mut fixture = Fixture::of(RoundRobinPerPacket);
    fixture.act(|line| {
        line.send(&[1; 4], FULL / 2 - 8);
        line.send(&[2; 3], FULL / 2 - 8);
    });
    assert_eq!(fixture.sent(), ["1:0 1:1", "2:0 2:1", "1:2 1:3", "2:2"]);
    // A short message of another stream waits for the next packet.
    fixture.act(|line| line.send(&[3, 4], 10));
    assert_eq!(fixture.sent(), ["3:0", "4:0"]);
}

// A → 1:0 ( - ) , then the rest of that packet is filled with 1:1, and 2:0 begins the next
/// RFC 8260 §3.3: a message of several packets is finished first, and its last packet has only messages of its stream.
#[test]
fn round_robin_per_packet_of_long_messages() {
    let mut fixture = Fixture::of(RoundRobinPerPacket);
    fixture.act(|line| {
        line.send(&[1], 2 * FULL + 100);
        line.send(&[2, 1], 100);
    });
    assert_eq!(fixture.sent(), ["1:0(", "1:0-", "1:0) 1:1", "2:0"]);
}

// A → 2:0, 2:1, 1:0, 1:1 → Z
/// RFC 8260 §3.4: a more urgent message goes first, whatever waits before it.
#[test]
fn the_most_urgent_first() {
    let mut fixture = Fixture::of(Priority);
    fixture.act(|line| {
        line.prioritise(&[(1, 7)]);
        line.send(&[1, 1, 2, 2], FULL);
    });
    assert_eq!(fixture.sent(), ["2:0", "2:1", "1:0", "1:1"]);
}

// (classes 0, 5, 5)  A → 0:0; then 1 and 2 in turn, a packet each
/// Faults 3 and 5 of the thesis' algorithm: the first stream of class 5 starves the second, and the turns start again with each
/// packet.
#[test]
fn equals_take_turns_across_packets() {
    let mut fixture = Fixture::new(config(Priority, 2));
    fixture.act(|line| {
        line.prioritise(&[(1, 5), (2, 5)]);
        line.send(&[1, 1, 1, 1, 2, 2, 2, 2, 0], FULL);
    });
    let mut sent = fixture.sent();
    while sent.len() < 9 {
        fixture.acknowledge();
        sent.extend(fixture.sent());
    }
    assert_eq!(streams(&sent), [0, 1, 2, 1, 2, 1, 2, 1, 2]);
}

// (all of class 0, the default)  A → 1:0, 2:0, 1:1, 2:1 → Z
/// Fault 2 of the thesis' algorithm: with equal priorities it made one pass and left the array.
#[test]
fn equal_priorities_everywhere() {
    let mut fixture = Fixture::of(Priority);
    fixture.act(|line| line.send(&[1, 1, 2, 2], FULL));
    assert_eq!(fixture.sent(), ["1:0", "2:0", "1:1", "2:1"]);
}

// A → 1:0( 1:0-;  2:0 comes;  A → 1:0- 1:0), 2:0, 1:1 → Z
/// RFC 9260 §6.9: a message that has begun is finished, even if a more urgent one waits.
#[test]
fn a_message_that_is_begun_is_finished() {
    let mut fixture = Fixture::new(config(Priority, 2));
    fixture.act(|line| {
        line.prioritise(&[(1, 1)]);
        line.send(&[1], 4 * FULL);
        line.send(&[1], FULL);
    });
    assert_eq!(fixture.sent(), ["1:0(", "1:0-"]);
    fixture.act(|line| line.send(&[2], FULL));
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["1:0-", "1:0)", "2:0"]);
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["1:1"]);
}

// A → 1:0( 1:0-;  1 is moved behind 2;  A → 1:0), 2:0, 1:1 → Z
/// A stream that is sending a message changes its class when the message ends.
#[test]
fn a_priority_changed_in_the_middle_of_a_message() {
    let mut fixture = Fixture::new(config(Priority, 2));
    fixture.act(|line| {
        line.prioritise(&[(1, 1), (2, 2)]);
        line.send(&[1], 3 * FULL);
        line.send(&[1, 2], FULL);
    });
    assert_eq!(fixture.sent(), ["1:0(", "1:0-"]);
    fixture.act(|line| line.prioritise(&[(1, 3)]));
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["1:0)", "2:0", "1:1"]);
}

// (1, 2, 3 wait)  3 is made the most urgent  A → 3:0, 1:0, 2:0 → Z
/// A priority applies to messages that already wait.
#[test]
fn a_priority_changed_while_messages_wait() {
    let mut fixture = Fixture::of(Priority);
    fixture.act(|line| {
        line.prioritise(&[(1, 4), (2, 4), (3, 4)]);
        line.send(&[1, 2, 3], FULL);
        line.prioritise(&[(3, 0)]);
    });
    assert_eq!(fixture.sent(), ["3:0", "1:0", "2:0"]);
}

/// The three calls of the thesis: the default order, a range of equal priorities, and no priorities.
#[test]
fn the_interface_of_the_thesis() {
    let mut fixture = Fixture::of(Priority);
    let waiting = [4, 4, 3, 3, 2, 2, 1, 1, 0];
    fixture.act(|line| {
        line.send(&waiting, FULL);
        line.association
            .enable_default_priorities()
            .expect("a scheduler with priorities");
    });
    assert_eq!(streams(&fixture.sent()), [0, 1, 1, 2, 2, 3, 3, 4, 4]);
    fixture.act(|line| {
        line.send(&waiting, FULL);
        let equals = StreamId(2)..=StreamId(4);
        line.association.set_equal_priorities(equals).expect("streams");
    });
    assert_eq!(
        streams(&fixture.sent()),
        [0, 1, 1, 4, 2, 3, 4, 2, 3].map(|stream| match stream {
            // The streams that moved kept the order of their numbers.
            4 => 2,
            2 => 3,
            3 => 4,
            other => other,
        })
    );
    fixture.act(|line| {
        line.send(&waiting, FULL);
        line.association
            .disable_priorities()
            .expect("a scheduler with priorities");
        assert_eq!(line.association.stream_priority(StreamId(4)), 0);
    });
    assert_eq!(streams(&fixture.sent()), [4, 3, 2, 1, 0, 4, 3, 2, 1]);
}

/// The thesis, §4: the streams behind the range of equals follow it.
#[test]
fn streams_behind_equals_are_renumbered() {
    let mut fixture = Fixture::of(Priority);
    fixture.act(|line| {
        let association = &mut *line.association;
        association.enable_default_priorities().expect("priorities");
        let classes = |association: &Association| {
            [0, 1, 2, 3, 4].map(|stream| association.stream_priority(StreamId(stream)))
        };
        association
            .set_equal_priorities(StreamId(1)..=StreamId(2))
            .expect("streams");
        assert_eq!(classes(association), [0, 1, 1, 2, 3]);
        // Twice changes nothing, and an empty range neither.
        for equals in [StreamId(1)..=StreamId(2), StreamId(3)..=StreamId(1)] {
            association.set_equal_priorities(equals).expect("streams");
            assert_eq!(classes(association), [0, 1, 1, 2, 3]);
        }
        association
            .set_stream_priority(StreamId(0), u16::MAX - 1)
            .expect("a stream");
        association
            .set_equal_priorities(StreamId(0)..=StreamId(1))
            .expect("streams");
        let (first, last) = (u16::MAX - 1, u16::MAX);
        assert_eq!(classes(association), [first, first, last, last, last]);
    });
}

/// A setting that the scheduler would ignore is refused, and so is one for a stream that does not exist.
#[test]
fn settings_without_effect_are_refused() {
    let mut fixture = Fixture::of(FirstComeFirstServed);
    fixture.act(|line| {
        let association = &mut *line.association;
        let stream = StreamId(1);
        let none = Err(SchedulingError::NoPriorities(FirstComeFirstServed));
        assert_eq!(association.set_stream_priority(stream, 3), none);
        assert_eq!(association.enable_default_priorities(), none);
        assert_eq!(association.disable_priorities(), none);
        assert_eq!(association.set_equal_priorities(stream..=stream), none);
        let none = Err(SchedulingError::NoWeights(FirstComeFirstServed));
        assert_eq!(association.set_stream_weight(stream, 3), none);
        association.set_scheduler(WeightedFairQueueing);
        assert_eq!(
            association.set_stream_weight(stream, 0),
            Err(SchedulingError::ZeroWeight)
        );
        assert_eq!(association.set_stream_weight(stream, 3), Ok(()));
        assert_eq!(association.stream_weight(stream), 3);
        association.set_scheduler(Priority);
        let streams = association.outbound_streams();
        let beyond = StreamId(streams);
        let unknown = Err(SchedulingError::InvalidStream {
            stream: beyond,
            streams,
        });
        assert_eq!(association.set_stream_priority(beyond, 0), unknown);
        assert_eq!(association.set_equal_priorities(stream..=beyond), unknown);
    });
}

/// A scheduler that is chosen while messages wait applies to them.
#[test]
fn another_scheduler_at_run_time() {
    let mut fixture = Fixture::of(FirstComeFirstServed);
    fixture.act(|line| {
        line.send(&[1, 1, 2, 2, 3], FULL);
        line.association.set_scheduler(Priority);
        assert_eq!(line.association.scheduler(), Priority);
        line.prioritise(&[(1, 1)]);
    });
    assert_eq!(streams(&fixture.sent()), [2, 3, 2, 1, 1]);
    fixture.act(|line| {
        line.send(&[1, 1, 2, 2, 3], FULL);
        line.association.set_scheduler(FirstComeFirstServed);
    });
    assert_eq!(streams(&fixture.sent()), [1, 1, 2, 2, 3]);
}

// (1, urgent, outlives its lifetime while it waits)  A → 2:0, 1:0 → Z
/// An expired message keeps no place in its class.
#[test]
fn an_expired_message_delays_no_other() {
    let mut fixture = Fixture::new(config(Priority, 2));
    fixture.act(|line| {
        line.prioritise(&[(2, 1)]);
        line.send(&[0, 0], FULL);
    });
    assert_eq!(fixture.sent().len(), 2);
    fixture.act(|line| {
        line.send_with(1, FULL, Reliability::Lifetime(MS));
        line.send(&[2], FULL);
    });
    fixture.script.advance(5 * MS);
    fixture.act(|line| line.send(&[1], FULL));
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["1:0", "2:0"]);
    assert_eq!(fixture.abandoned().len(), 1);
}

// A → 1:0( 1:0-;  its lifetime ends;  A → 2:0 → Z
/// A half-sent message that is abandoned does not block other streams.
#[test]
fn a_half_sent_message_blocks_no_stream_when_abandoned() {
    let mut fixture = Fixture::new(config(Priority, 2));
    fixture.act(|line| {
        line.send_with(1, 5 * FULL, Reliability::Lifetime(MS));
        line.send(&[2], FULL);
    });
    assert_eq!(fixture.sent(), ["1:0(", "1:0-"]);
    fixture.script.advance(5 * MS);
    fixture.acknowledge();
    let sent = fixture.sent();
    assert!(sent.iter().any(|packet| packet.ends_with("2:0")), "{sent:?}");
    assert!(!sent.iter().any(|packet| packet.contains("1:0")), "{sent:?}");
}

// A → 1:0 (lost), 1:1, 1:2, 1:3;  0:0 comes;  A → 1:0, 0:0 → Z
/// RFC 9260 §6.1 C: a retransmission goes before new data, however urgent the new data is.
#[test]
fn retransmissions_go_first() {
    let mut fixture = Fixture::new(config(Priority, 2));
    fixture.act(|line| {
        line.prioritise(&[(1, 1)]);
        line.send(&[1, 1], FULL);
    });
    assert_eq!(fixture.sent(), ["1:0", "1:1"]);
    fixture.act(|line| line.send(&[0], FULL));
    fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["1:0"]);
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["0:0"]);
}

// 1 sends the beginning of a message  A → 2:0 → Z  1 sends the rest  A → 1:0 → Z
/// A message whose next part the application has not sent yet blocks no other stream.
#[test]
fn a_message_that_waits_for_its_parts() {
    for scheduler in [
        RoundRobin,
        RoundRobinPerPacket,
        Priority,
        FairBandwidth,
        WeightedFairQueueing,
    ] {
        let mut fixture = Fixture::of(scheduler);
        fixture.act(|line| {
            line.send_part(1, 100, false);
            line.send(&[2], 100);
        });
        assert_eq!(fixture.sent(), ["2:0"], "{scheduler:?}");
        fixture.act(|line| line.send_part(1, FULL - 100, true));
        // A fragment ends at the end of a part.
        assert_eq!(fixture.sent(), ["1:0(", "1:0)"], "{scheduler:?}");
    }
}

// A → 1:0( 1:0-;  2:0 comes;  A → 2:0 1:0- 1:0) → Z
/// RFC 8260 §3.4: with interleaving an urgent message does not wait for a long message.
#[test]
fn interleaved_an_urgent_message_waits_for_none() {
    let mut fixture = Fixture::interleaving(Priority, 2);
    fixture.act(|line| {
        line.prioritise(&[(1, 1)]);
        line.send(&[1], 3 * FULL);
    });
    assert_eq!(fixture.sent(), ["1:0(", "1:0-"]);
    fixture.act(|line| line.send(&[2], 100));
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["2:0 1:0-", "1:0)"]);
}

// A → 1:0( 2:0( 1:0- 2:0- … → Z
/// RFC 8260 §3.2, §3.4: with interleaving a stream's turn is one chunk. §3.1: first come, first served does not change.
#[test]
fn interleaved_turns_are_chunks() {
    for scheduler in [
        RoundRobin,
        RoundRobinPerPacket,
        Priority,
        FairBandwidth,
        WeightedFairQueueing,
    ] {
        let mut fixture = Fixture::interleaving(scheduler, 400);
        fixture.act(|line| line.send(&[1, 2, 1], 3 * FULL - 100));
        let sent = streams(&fixture.sent());
        assert_eq!(sent, [1, 2, 1, 2, 1, 2, 1, 1, 1], "{scheduler:?}");
    }
    let mut fixture = Fixture::interleaving(FirstComeFirstServed, 400);
    fixture.act(|line| line.send(&[1, 2, 1], 3 * FULL - 100));
    assert_eq!(streams(&fixture.sent()), [1, 1, 1, 2, 2, 2, 1, 1, 1]);
}

// A → 1:0( 1:0-;  1 is moved behind 2;  A → 2:0 1:0- … → Z
/// With interleaving a priority that changes during a message applies at once.
#[test]
fn interleaved_a_priority_changes_at_once() {
    let mut fixture = Fixture::interleaving(Priority, 2);
    fixture.act(|line| {
        line.prioritise(&[(1, 1), (2, 2)]);
        line.send(&[1], 4 * FULL);
        line.send(&[2], FULL - 100);
    });
    assert_eq!(fixture.sent(), ["1:0(", "1:0-"]);
    fixture.act(|line| line.prioritise(&[(1, 3)]));
    fixture.acknowledge();
    assert_eq!(fixture.sent()[0], "2:0");
}

/// Bytes of each of two streams among the first `window` packets, while both have more to send.
fn shares(scheduler: SchedulerKind, weights: [u16; 2], sizes: [usize; 2], window: u32) -> [f64; 2] {
    let mut config = config(scheduler, window);
    config.buffers.send = 10_000_000;
    let mut fixture = Fixture::new(config);
    fixture.act(|line| {
        for (stream, weight) in [1, 2].into_iter().zip(weights) {
            if scheduler == WeightedFairQueueing {
                line.association
                    .set_stream_weight(StreamId(stream), weight)
                    .expect("a weight");
            }
        }
        for (stream, size) in [1, 2].into_iter().zip(sizes) {
            line.send(&vec![stream; 1_500_000 / size], size);
        }
    });
    let streams = streams(&fixture.sent());
    let stats = |stream| fixture.script.association().stream_stats(StreamId(stream));
    assert!(
        stats(1).queued_messages > 0 && stats(2).queued_messages > 0,
        "both have more"
    );
    let bytes = |which: u16| {
        let messages = streams.iter().filter(|stream| **stream == which).count();
        (messages * sizes[usize::from(which) - 1]) as f64
    };
    [bytes(1), bytes(2)]
}

/// RFC 8260 §3.5, §3.6: bytes in proportion to the weights, within 2 %, for messages of any size. If turns count messages,
/// bytes are in proportion to the sizes of the messages.
#[test]
fn shares_match_weights() {
    let ratio = |[a, b]: [f64; 2]| a / b;
    for sizes in [[1000, 1000], [1200, 300], [100, 1200]] {
        let fair = ratio(shares(FairBandwidth, [1, 1], sizes, 1000));
        assert!((0.98..1.02).contains(&fair), "{sizes:?}: {fair}");
        for weights in [[1, 1], [2, 1], [1, 3], [256, 64]] {
            let asked = f64::from(weights[0]) / f64::from(weights[1]);
            let got = ratio(shares(WeightedFairQueueing, weights, sizes, 1000)) / asked;
            assert!(
                (0.98..1.02).contains(&got),
                "{sizes:?}, {weights:?}: {got} of what was asked"
            );
        }
        let turns = ratio(shares(RoundRobin, [1, 1], sizes, 300)) * sizes[1] as f64 / sizes[0] as f64;
        assert!((0.98..1.02).contains(&turns), "{sizes:?}: {turns}");
    }
}

/// A stream that had nothing to send while another had does not catch up later.
#[test]
fn an_idle_stream_does_not_catch_up() {
    for scheduler in [FairBandwidth, WeightedFairQueueing] {
        let mut fixture = Fixture::new(config(scheduler, 20));
        fixture.act(|line| line.send(&[1; 15], FULL));
        assert_eq!(fixture.sent().len(), 15);
        fixture.acknowledge();
        fixture.act(|line| {
            line.send(&[1; 30], FULL);
            line.send(&[2; 30], FULL);
        });
        let of_2 = streams(&fixture.sent())
            .into_iter()
            .filter(|stream| *stream == 2)
            .count();
        assert!((9..=11).contains(&of_2), "{scheduler:?}: {of_2} of 20");
    }
}

/// Strict priorities starve less urgent streams, as intended. The other schedulers starve no stream.
#[test]
fn only_strict_priorities_starve() {
    for scheduler in [
        RoundRobin,
        RoundRobinPerPacket,
        Priority,
        FairBandwidth,
        WeightedFairQueueing,
    ] {
        let mut fixture = Fixture::new(config(scheduler, 40));
        fixture.act(|line| {
            if scheduler == Priority {
                line.prioritise(&[(2, 1)]);
            }
            line.send(&[1; 100], FULL);
            line.send(&[2; 100], FULL);
        });
        let of_2 = streams(&fixture.sent())
            .into_iter()
            .filter(|stream| *stream == 2)
            .count();
        assert_eq!(of_2, if scheduler == Priority { 0 } else { 20 }, "{scheduler:?}");
    }
}
