//! The tasks that wait for room in the send buffer: a queue for each stream, because the streams share the buffer fairly
//! (`Config::buffers`) and none waits for another. A task that was served and calls again goes to the end of its queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_proto::StreamId;
use tokio::sync::Notify;

/// A place in the queue of a stream; the smallest place of the stream is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    stream: StreamId,
    arrival: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Senders {
    waiting: BTreeMap<Place, Arc<Notify>>,
    arrivals: u64,
}

impl Senders {
    /// Adds a task to the end of the queue of a stream; the task waits for the returned notice.
    pub(crate) fn enter(&mut self, stream: StreamId) -> (Place, Arc<Notify>) {
        let place = Place {
            stream,
            arrival: self.arrivals,
        };
        self.arrivals += 1;
        let notice = Arc::new(Notify::new());
        self.waiting.insert(place, Arc::clone(&notice));
        (place, notice)
    }

    /// Removes a task. If it was the next of its stream, the task after it is woken.
    pub(crate) fn leave(&mut self, place: Place) {
        let was_next = self.is_next(place);
        self.waiting.remove(&place);
        if was_next {
            self.wake_next(place.stream);
        }
    }

    pub(crate) fn is_next(&self, place: Place) -> bool {
        self.next(place.stream).is_some_and(|(next, _)| *next == place)
    }

    /// Whether a task waits for room on this stream.
    pub(crate) fn has_any(&self, stream: StreamId) -> bool {
        self.next(stream).is_some()
    }

    /// Wakes the next task of a stream: the stream may have room.
    pub(crate) fn wake_next(&self, stream: StreamId) {
        if let Some((_, notice)) = self.next(stream) {
            notice.notify_one();
        }
    }

    /// Wakes all tasks: the association accepts no more messages.
    pub(crate) fn wake_all(&self) {
        self.waiting.values().for_each(|notice| notice.notify_one());
    }

    fn next(&self, stream: StreamId) -> Option<(&Place, &Arc<Notify>)> {
        let place = |arrival| Place { stream, arrival };
        self.waiting.range(place(0)..=place(u64::MAX)).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: StreamId = StreamId(0);
    const CHAT: StreamId = StreamId(7);

    #[test]
    fn the_tasks_of_a_stream_are_served_in_the_order_of_their_calls() {
        let mut senders = Senders::default();
        let (mut first, _) = senders.enter(FILE);
        let (mut second, _) = senders.enter(FILE);
        for _ in 0..3 {
            assert!(senders.is_next(first) && !senders.is_next(second));
            senders.leave(first);
            first = senders.enter(FILE).0;
            assert!(senders.is_next(second) && !senders.is_next(first));
            senders.leave(second);
            second = senders.enter(FILE).0;
        }
    }

    #[test]
    fn a_stream_has_its_own_queue() {
        let mut senders = Senders::default();
        let (file, _) = senders.enter(FILE);
        assert!(senders.has_any(FILE) && !senders.has_any(CHAT));
        let (chat, _) = senders.enter(CHAT);
        assert!(senders.is_next(file) && senders.is_next(chat));
        senders.leave(chat);
        assert!(senders.has_any(FILE) && !senders.has_any(CHAT));
    }

    #[tokio::test]
    async fn the_next_task_is_woken_when_the_task_before_it_leaves() {
        let mut senders = Senders::default();
        let (first, _) = senders.enter(FILE);
        let (second, notice) = senders.enter(FILE);
        let (third, other) = senders.enter(FILE);
        senders.leave(first);
        notice.notified().await;
        // A task that leaves without having been next wakes no other task.
        senders.leave(third);
        assert!(senders.is_next(second));
        drop(other);
        senders.wake_all();
        notice.notified().await;
    }
}
