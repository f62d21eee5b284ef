//! The queues of events for the application: one of the association, and one of each stream whose events a handle reads. Their size is
//! limited, because the application may never read them.

use std::collections::{BTreeMap, VecDeque};

use anabranch_proto::{Event, ReconfigurationEvent, StreamId, StreamSelection};

/// Limit of waiting events of all queues, and one more for each queue. At the limit, the oldest event of the queue makes room.
const MOST: usize = 16_384;
/// Limit of the bytes of the peer's ERROR chunks in the queue. Each ERROR counts as its causes plus [`EACH`] bytes.
const MOST_CAUSES: usize = 1 << 16;
/// Limit of the streams that the events in the queue list. At the limit, the oldest events are dropped.
const MOST_STREAMS: usize = 1 << 18;
/// Approximate memory of an event without its causes, in bytes.
const EACH: usize = 64;

/// A queue that counts the events which it dropped.
#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    missed: u64,
}

/// The queue of a stream.
#[derive(Debug, Default)]
struct Reading {
    /// Handles that read it.
    handles: usize,
    queue: Queue,
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    association: Queue,
    streams: BTreeMap<StreamId, Reading>,
    waiting: usize,
    causes: usize,
    /// Streams that the events list.
    listed: usize,
}

/// The streams that count against [`MOST_STREAMS`].
fn listed(event: &Event) -> usize {
    match event {
        Event::Reconfiguration(
            ReconfigurationEvent::InboundReset {
                streams: StreamSelection::Listed(streams),
                ..
            }
            | ReconfigurationEvent::OutboundReset {
                streams: StreamSelection::Listed(streams),
            },
        ) => streams.len(),
        _ => 0,
    }
}

/// The bytes that count against [`MOST_CAUSES`].
fn weight(event: &Event) -> usize {
    match event {
        Event::PeerError(causes) => causes.as_bytes().len() + EACH,
        _ => 0,
    }
}

/// The stream of the message that the event concerns.
fn stream_of(event: &Event) -> Option<StreamId> {
    match event {
        Event::Acknowledged(message) => Some(message.stream),
        Event::Abandoned(message) | Event::Undelivered(message) => Some(message.stream),
        _ => None,
    }
}

impl Events {
    /// Adds an event. An ERROR that would exceed [`MOST_CAUSES`] is dropped.
    pub(crate) fn push(&mut self, event: Event) {
        let reading = stream_of(&event).and_then(|stream| self.streams.get_mut(&stream));
        let queue = reading.map_or(&mut self.association, |reading| &mut reading.queue);
        let weight = weight(&event);
        if self.causes + weight > MOST_CAUSES {
            queue.missed += 1;
            return;
        }
        self.listed += listed(&event);
        while self.waiting >= MOST || self.listed > MOST_STREAMS {
            let Some(oldest) = queue.events.pop_front() else {
                break;
            };
            queue.missed += 1;
            self.waiting -= 1;
            self.causes -= self::weight(&oldest);
            self.listed -= listed(&oldest);
        }
        self.waiting += 1;
        self.causes += weight;
        queue.events.push_back(event);
    }

    /// Removes and returns the oldest event of the association, or of a stream whose events a handle reads.
    pub(crate) fn pop(&mut self, stream: Option<StreamId>) -> Option<Event> {
        let queue = match stream {
            None => &mut self.association,
            Some(stream) => &mut self.streams.get_mut(&stream)?.queue,
        };
        if queue.missed > 0 {
            return Some(Event::Missed(std::mem::take(&mut queue.missed)));
        }
        let event = queue.events.pop_front()?;
        self.waiting -= 1;
        self.causes -= weight(&event);
        self.listed -= listed(&event);
        Some(event)
    }

    /// A handle reads the events of this stream from now on, with those that wait.
    pub(crate) fn enter(&mut self, stream: StreamId) {
        let reading = self.streams.entry(stream).or_default();
        reading.handles += 1;
        if reading.handles == 1 {
            let is_own = |event: &Event| stream_of(event) == Some(stream);
            let waiting = std::mem::take(&mut self.association.events);
            (reading.queue.events, self.association.events) = waiting.into_iter().partition(is_own);
        }
    }

    /// A handle reads the events of this stream no longer. After the last one, they are the association's again.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        let Some(reading) = self.streams.get_mut(&stream) else {
            return;
        };
        reading.handles -= 1;
        if reading.handles == 0
            && let Some(Reading { queue, .. }) = self.streams.remove(&stream)
        {
            self.association.events.extend(queue.events);
            self.association.missed += queue.missed;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::wire::cause::{Cause, Causes};
    use anabranch_proto::{MessageId, Undelivered};

    use super::*;

    fn error(len: usize) -> Event {
        Event::PeerError(Causes::from_causes(&[Cause::ProtocolViolation(
            vec![1; len].into(),
        )]))
    }

    #[test]
    fn a_peer_that_complains_fills_no_memory_and_pushes_nothing_out() {
        let mut events = Events::default();
        events.push(Event::Restarted);
        for len in [0, 4, 60_000].into_iter().cycle().take(100_000) {
            events.push(error(len));
        }
        assert!(events.causes <= MOST_CAUSES && events.waiting <= 1 + MOST_CAUSES / EACH);
        assert!(events.waiting > 3, "some ERRORs are kept");
        assert!(matches!(events.pop(None), Some(Event::Missed(_))), "it says so");
        assert_eq!(events.pop(None), Some(Event::Restarted));
        while events.pop(None).is_some() {}
        assert_eq!((events.causes, events.waiting), (0, 0));
        events.push(error(60_000));
        assert_eq!(events.pop(None), Some(error(60_000)), "there is room again");
    }

    #[test]
    fn the_oldest_make_room() {
        let mut events = Events::default();
        for _ in 0..MOST {
            events.push(Event::Restarted);
        }
        events.push(Event::PeerShutdown);
        assert_eq!(events.waiting, MOST);
        assert_eq!(events.association.events.back(), Some(&Event::PeerShutdown));
        assert_eq!(events.pop(None), Some(Event::Missed(1)));
    }

    #[test]
    fn the_events_of_a_stream_are_its_readers() {
        let abandoned = |stream, context| {
            Event::Abandoned(Undelivered {
                message: MessageId(context),
                stream: StreamId(stream),
                context,
                sent: false,
            })
        };
        let mut events = Events::default();
        events.push(abandoned(1, 1));
        events.push(abandoned(2, 2));
        events.enter(StreamId(1));
        events.enter(StreamId(1));
        for _ in 0..2 * MOST {
            events.push(abandoned(2, 3));
        }
        events.push(abandoned(1, 4));
        assert_eq!(
            events.pop(Some(StreamId(2))),
            None,
            "nobody reads its events apart"
        );
        events.leave(StreamId(1));
        assert_eq!(events.pop(Some(StreamId(1))), Some(Event::Missed(1)));
        assert_eq!(events.pop(Some(StreamId(1))), Some(abandoned(1, 4)));
        assert_eq!(events.pop(Some(StreamId(1))), None);
        assert!(matches!(events.pop(None), Some(Event::Missed(_))));
        events.push(abandoned(1, 5));
        events.leave(StreamId(1));
        assert_eq!(events.association.events.back(), Some(&abandoned(1, 5)));
        while events.pop(None).is_some() {}
        assert_eq!((events.waiting, events.streams.len()), (0, 0));
    }
}
