//! The queue of events for the application. Its size is limited, because the application may never read them.

use std::collections::VecDeque;

use anabranch_proto::{Event, ReconfigurationEvent, StreamSelection};

/// Limit of waiting events. At the limit, the oldest event is dropped.
const MOST: usize = 16_384;
/// Limit of the bytes of the peer's ERROR chunks in the queue. Each ERROR counts as its causes plus [`EACH`] bytes.
const MOST_CAUSES: usize = 1 << 16;
/// Limit of the streams that the events in the queue list. At the limit, the oldest events are dropped.
const MOST_STREAMS: usize = 1 << 18;
/// Approximate memory of an event without its causes, in bytes.
const EACH: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    causes: usize,
    /// Streams that the events list.
    streams: usize,
}

/// The streams that count against [`MOST_STREAMS`].
fn streams(event: &Event) -> usize {
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

impl Events {
    /// Adds an event. An ERROR that would exceed [`MOST_CAUSES`] is dropped.
    pub(crate) fn push(&mut self, event: Event) {
        let weight = weight(&event);
        if self.causes + weight > MOST_CAUSES {
            return;
        }
        self.streams += streams(&event);
        while self.waiting.len() >= MOST || (self.streams > MOST_STREAMS && !self.waiting.is_empty()) {
            self.pop();
        }
        self.causes += weight;
        self.waiting.push_back(event);
    }

    /// Removes and returns the oldest event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.waiting.pop_front()?;
        self.causes -= weight(&event);
        self.streams -= streams(&event);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::wire::cause::{Cause, Causes};

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
        assert!(events.causes <= MOST_CAUSES && events.waiting.len() <= 1 + MOST_CAUSES / EACH);
        assert!(events.waiting.len() > 3, "some ERRORs are kept");
        assert_eq!(events.pop(), Some(Event::Restarted));
        while events.pop().is_some() {}
        assert_eq!(events.causes, 0);
        events.push(error(60_000));
        assert_eq!(events.pop(), Some(error(60_000)), "there is room again");
    }

    #[test]
    fn the_oldest_make_room() {
        let mut events = Events::default();
        for _ in 0..MOST {
            events.push(Event::Restarted);
        }
        events.push(Event::PeerShutdown);
        assert_eq!(events.waiting.len(), MOST);
        assert_eq!(events.waiting.back(), Some(&Event::PeerShutdown));
    }
}
