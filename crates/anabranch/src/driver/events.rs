//! Events that wait for an application, which may never ask for them.

use std::collections::VecDeque;

use anabranch_proto::Event;

/// Beyond it the oldest are dropped.
const MOST: usize = 16_384;
/// Bytes that a peer can put there by what it says in ERROR chunks; each counts as [`EACH`] more.
const MOST_CAUSES: usize = 1 << 16;
/// About what an event takes by itself.
const EACH: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    causes: usize,
}

/// The bytes that count against [`MOST_CAUSES`].
fn weight(event: &Event) -> usize {
    match event {
        Event::PeerError(causes) => causes.as_bytes().len() + EACH,
        _ => 0,
    }
}

impl Events {
    /// Keeps an event, but not one ERROR more than a peer may send to somebody who does not listen.
    pub(crate) fn push(&mut self, event: Event) {
        let weight = weight(&event);
        if self.causes + weight > MOST_CAUSES {
            return;
        }
        if self.waiting.len() >= MOST {
            self.pop();
        }
        self.causes += weight;
        self.waiting.push_back(event);
    }

    /// The oldest.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let event = self.waiting.pop_front()?;
        self.causes -= weight(&event);
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
        assert!(events.waiting.len() > 3, "some are told");
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
