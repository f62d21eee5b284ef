//! A full send buffer, and streams with classes (RFC 7496 §3.2): the class decides first which unsent message is dropped, then
//! the message's own priority.

use anabranch_proto::Reliability::{Lifetime, Priority, Reliable};
use anabranch_proto::{MessageId, SchedulerKind, SendError};

use crate::fixture::{FULL, Fixture, config};

/// A `Fixture` whose buffer has space for four messages after two have left. Streams 0 and 1 have classes 0 and 1.
fn fixture(scheduler: SchedulerKind) -> Fixture {
    let mut config = config(scheduler, 2);
    config.buffers.send = 6 * FULL;
    let mut fixture = Fixture::new(config);
    fixture.act(|line| {
        if scheduler == SchedulerKind::Priority {
            line.prioritise(&[(1, 1)]);
        }
        line.send(&[0, 0], FULL);
    });
    assert_eq!(fixture.sent().len(), 2);
    fixture
}

/// The order of dropping: class 1 before class 0, whatever the messages' priorities; within a class the highest number first,
/// of equal numbers the oldest.
#[test]
fn the_class_first_then_the_message() {
    let mut fixture = fixture(SchedulerKind::Priority);
    let mut waiting = Vec::new();
    fixture.act(|line| {
        for (stream, priority) in [(0, 9), (1, 2), (1, 5), (1, 5)] {
            waiting.push(line.send_with(stream, FULL, Priority(priority)));
        }
    });
    for expected in [2, 3, 1, 0] {
        fixture.act(|line| line.send(&[0], FULL));
        assert_eq!(fixture.abandoned(), [waiting[expected]]);
    }
    fixture.act(|line| assert_eq!(line.offer(0, FULL, Reliable), Err(SendError::BufferFull)));
}

/// No message is dropped for one of a less urgent class, even a reliable one. Within a class, a message is dropped for one that
/// is reliable or has a lower number.
#[test]
fn messages_that_are_dropped_for_another() {
    let mut fixture = fixture(SchedulerKind::Priority);
    let mut offer = |stream, reliability| {
        let mut taken = Ok(MessageId(0));
        fixture.act(|line| taken = line.offer(stream, FULL, reliability));
        (taken.is_ok(), fixture.abandoned().len())
    };
    for _ in 0..4 {
        assert_eq!(offer(0, Priority(7)), (true, 0));
    }
    assert_eq!(
        offer(1, Reliable),
        (false, 0),
        "bulk data does not push the chat out"
    );
    assert_eq!(offer(1, Priority(0)), (false, 0));
    assert_eq!(offer(0, Priority(7)), (false, 0));
    assert_eq!(offer(0, Priority(6)), (true, 1));
    assert_eq!(offer(0, Lifetime(core::time::Duration::from_secs(9))), (true, 1));
    assert_eq!(offer(0, Reliable), (true, 1));
}

/// If a stream changes its class, its unsent messages change too. Without classes only the messages' own numbers count.
#[test]
fn classes_that_change() {
    let mut fixture = fixture(SchedulerKind::Priority);
    let mut waiting = Vec::new();
    fixture.act(|line| {
        waiting.push(line.send_with(1, FULL, Priority(1)));
        waiting.push(line.send_with(2, FULL, Priority(5)));
        waiting.push(line.send_with(1, FULL, Priority(2)));
        waiting.push(line.send_with(3, FULL, Priority(3)));
        line.prioritise(&[(1, 0), (3, 4)]);
        line.send(&[0], FULL);
    });
    assert_eq!(fixture.abandoned(), [waiting[3]], "3 is the least urgent now");
    fixture.act(|line| line.send(&[0], FULL));
    assert_eq!(fixture.abandoned(), [waiting[1]], "1 and 2 are equals now");
    fixture.act(|line| {
        line.association
            .enable_default_priorities()
            .expect("a scheduler with priorities");
        line.send(&[0], FULL);
    });
    assert_eq!(fixture.abandoned(), [waiting[2]]);
    let mut plain = self::fixture(SchedulerKind::FirstComeFirstServed);
    let mut waiting = Vec::new();
    plain.act(|line| {
        for (stream, priority) in [(0, 9), (1, 2), (1, 5), (1, 5)] {
            waiting.push(line.send_with(stream, FULL, Priority(priority)));
        }
        line.send(&[3], FULL);
    });
    assert_eq!(plain.abandoned(), [waiting[0]]);
}
