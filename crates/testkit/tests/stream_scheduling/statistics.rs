//! The statistics of a stream: the time that its messages wait in the send queue, and the time in the network.

use core::time::Duration;

use anabranch_proto::{SchedulerKind, StreamId};

use crate::fixture::{FULL, Fixture, config};

const MS: Duration = Duration::from_millis(1);

// A → 1:0, 1:1;  after 30 ms A ← SACK;  A → 1:2, 2:0;  after 20 ms: T3, A → 1:2;  A ← SACK
/// The queue time ends with the first transmission of a message's end. The network time begins there and ends with the
/// acknowledgement, retransmissions included. Each stream has its own times.
#[test]
fn queue_time_and_network_time() {
    let mut fixture = Fixture::new(config(SchedulerKind::FirstComeFirstServed, 2));
    fixture.act(|line| line.send(&[1, 1, 1, 2], FULL));
    assert_eq!(fixture.sent(), ["1:0", "1:1"]);
    fixture.script.advance(30 * MS);
    fixture.acknowledge();
    assert_eq!(fixture.sent(), ["1:2", "2:0"]);
    let stats = |fixture: &Fixture, stream| fixture.script.association().stream_stats(StreamId(stream));
    let one = stats(&fixture, 1);
    assert_eq!((one.messages_sent, one.queue_delay_total), (3, 30 * MS));
    assert_eq!((one.messages_acknowledged, one.network_delay_total), (2, 60 * MS));
    assert_eq!(
        (one.queue_delay_mean(), one.network_delay_mean()),
        (Some(10 * MS), Some(30 * MS))
    );
    let two = stats(&fixture, 2);
    assert_eq!((two.queue_delay_max, two.messages_acknowledged), (30 * MS, 0));
    assert_eq!(two.network_delay_mean(), None);
    let waited = fixture.script.advance_to_timeout();
    assert_eq!(fixture.sent(), ["1:2"]);
    fixture.script.advance(5 * MS);
    fixture.acknowledge();
    let one = stats(&fixture, 1);
    assert_eq!(one.network_delay_max, waited + 5 * MS);
    assert_eq!(stats(&fixture, 2).network_delay_total, waited + 5 * MS);
    assert_eq!(one.messages_sent, 3, "a retransmission is not another message");
}
