//! The streams of an association that tasks read by handle, and the tasks that wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_proto::StreamId;
use tokio::sync::Notify;

/// A stream that is read by handle.
#[derive(Debug, Default)]
struct Reading {
    /// Handles that read it.
    handles: usize,
    readable: Arc<Notify>,
}

/// A task that waits until the buffered amount of a stream is low.
#[derive(Debug)]
struct LowWaiter {
    threshold: usize,
    notice: Arc<Notify>,
}

/// Readers of single streams, and tasks that wait for the buffered amount of a stream.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    streams: BTreeMap<StreamId, Reading>,
    /// Streams that the peer opened and nobody has accepted.
    opened: VecDeque<StreamId>,
    /// The same streams, by number.
    opened_set: BTreeSet<StreamId>,
    low: BTreeMap<StreamId, Vec<LowWaiter>>,
}

impl Readers {
    /// A handle reads this stream from now on. Returns whether it is the first one, and the notice that the stream can be read.
    pub(crate) fn enter(&mut self, stream: StreamId) -> (bool, Arc<Notify>) {
        let reading = self.streams.entry(stream).or_default();
        reading.handles += 1;
        (reading.handles == 1, Arc::clone(&reading.readable))
    }

    /// A handle no longer reads this stream. Returns whether it was the last one.
    pub(crate) fn leave(&mut self, stream: StreamId) -> bool {
        let Some(reading) = self.streams.get_mut(&stream) else {
            return false;
        };
        reading.handles -= 1;
        let last = reading.handles == 0;
        if last {
            self.streams.remove(&stream);
        }
        last
    }

    /// The peer opened this stream.
    pub(crate) fn on_opened(&mut self, stream: StreamId) {
        if self.opened_set.insert(stream) {
            self.opened.push_back(stream);
        }
    }

    /// The next stream that the peer opened and no handle reads.
    pub(crate) fn take_opened(&mut self) -> Option<StreamId> {
        loop {
            let stream = self.opened.pop_front()?;
            self.opened_set.remove(&stream);
            if !self.streams.contains_key(&stream) {
                return Some(stream);
            }
        }
    }

    /// This stream can be read.
    pub(crate) fn wake(&self, stream: StreamId) {
        if let Some(reading) = self.streams.get(&stream) {
            reading.readable.notify_waiters();
        }
    }

    /// Every task must look again: the association has ended.
    pub(crate) fn wake_all(&mut self) {
        for reading in self.streams.values() {
            reading.readable.notify_waiters();
        }
        for waiter in std::mem::take(&mut self.low).into_values().flatten() {
            waiter.notice.notify_one();
        }
    }

    /// A task waits until the buffered amount of this stream is at most `threshold`. Returns the highest threshold of the stream's tasks.
    pub(crate) fn await_low(&mut self, stream: StreamId, threshold: usize) -> (usize, Arc<Notify>) {
        let waiters = self.low.entry(stream).or_default();
        // A task that was cancelled has dropped its notice.
        waiters.retain(|waiter| Arc::strong_count(&waiter.notice) > 1);
        let notice = Arc::new(Notify::new());
        waiters.push(LowWaiter {
            threshold,
            notice: Arc::clone(&notice),
        });
        let highest = waiters.iter().map(|waiter| waiter.threshold).max();
        (highest.unwrap_or(threshold), notice)
    }

    /// The buffered amount of this stream fell to the highest threshold: its tasks look again.
    pub(crate) fn on_low(&mut self, stream: StreamId) {
        for waiter in self.low.remove(&stream).into_iter().flatten() {
            waiter.notice.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_tasks_leave_nothing() {
        let mut readers = Readers::default();
        let stream = StreamId(7);
        let (_, kept) = readers.await_low(stream, 10);
        for threshold in 20..100 {
            let (highest, cancelled) = readers.await_low(stream, threshold);
            assert_eq!(highest, threshold);
            drop(cancelled);
        }
        let (highest, _) = readers.await_low(stream, 5);
        assert_eq!((highest, readers.low[&stream].len()), (10, 2));
        drop(kept);
    }
}
