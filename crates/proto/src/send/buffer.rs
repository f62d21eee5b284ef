//! The send buffer, and how the streams share it: whether a stream accepts another message.
//!
//! While the buffered data of all streams is below the limit, every stream accepts messages. When the limit is reached, a stream that has
//! filled its share waits, and the others go on. The share of a stream is what twice the limit leaves free: two streams that send without
//! end get two thirds of the limit each, ten streams two elevenths. A new stream thus finds room whatever the others have sent.
//!
//! With priority classes, a stream does not count the data of less urgent classes: the most urgent class has the buffer to itself.
//!
//! RFC 9260 has no rule for this; the shares are the dynamic thresholds of Choudhury and Hahne for memory that queues share.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::StreamId;

use crate::paged::Paged;

/// The part of the buffer that one stream uses, in bytes of user data.
#[derive(Debug, Default)]
struct Share {
    class: u16,
    bytes: usize,
    /// The part of `bytes` that other streams must leave room for. A message that is longer than the free room counts half of that room.
    counted: usize,
    /// Whether a message was refused since the stream last had room.
    refused: bool,
}

/// A stream whose message was refused; sorted so that the first of each class is the first that finds room.
type Refused = (u16, usize, StreamId);

/// The send buffer of an association: user data that is queued, or kept for retransmission.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    limit: usize,
    /// Whether streams have shares. Otherwise all wait as soon as the limit is reached.
    shares: bool,
    bytes: usize,
    streams: Paged<Share>,
    /// Counted bytes by class.
    classes: BTreeMap<u16, usize>,
    refused: BTreeSet<Refused>,
}

impl SendBuffer {
    pub(crate) fn new(limit: usize, shares: bool) -> Self {
        Self {
            limit,
            shares,
            bytes: 0,
            streams: Paged::default(),
            classes: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes of user data of all streams.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of user data of this stream.
    pub(crate) fn stream_bytes(&self, stream: StreamId) -> usize {
        self.streams.at(stream).map_or(0, |share| share.bytes)
    }

    /// Whether this stream, of priority `class`, accepts a message of any length.
    pub(crate) fn has_room(&self, stream: StreamId, class: u16) -> bool {
        self.bytes < self.limit || self.shares && self.stream_bytes(stream) < self.room(class).max(1)
    }

    /// The part of twice the limit that is free for a stream of this class.
    fn room(&self, class: u16) -> usize {
        let counted: usize = self.classes.range(..=class).map(|(_, bytes)| bytes).sum();
        (2 * self.limit).saturating_sub(counted)
    }

    /// Bytes of this stream that must leave before its share has room, at most; `None` without shares.
    pub(crate) fn excess(&self, stream: StreamId, class: u16) -> Option<usize> {
        let room = self.room(class).max(1);
        self.shares
            .then(|| (self.stream_bytes(stream) + 1).saturating_sub(room))
    }

    /// A message, or a part of one, was accepted.
    #[inline]
    pub(crate) fn add(&mut self, stream: StreamId, class: u16, bytes: usize) {
        let fits = self.bytes + bytes <= self.limit;
        let room = if fits { usize::MAX } else { self.room(class) };
        self.bytes += bytes;
        let share = self.streams.touch(stream);
        if share.bytes == 0 {
            share.class = class;
        }
        let counted = bytes.min(room.saturating_sub(share.counted) / 2);
        share.bytes += bytes;
        share.counted += counted;
        *self.classes.entry(share.class).or_default() += counted;
    }

    /// Data of a stream was acknowledged or abandoned.
    #[inline]
    pub(crate) fn free(&mut self, stream: StreamId, bytes: usize) {
        self.bytes -= bytes;
        let share = self.streams.touch(stream);
        let before = (share.class, share.bytes, stream);
        share.bytes -= bytes;
        let uncounted = share.counted.saturating_sub(share.bytes);
        share.counted -= uncounted;
        if let Some(counted) = self.classes.get_mut(&share.class) {
            *counted -= uncounted;
        }
        if share.refused && self.refused.remove(&before) {
            self.refused.insert((share.class, share.bytes, stream));
        }
    }

    /// All data is gone: the association has ended, or the peer has restarted.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        self.sort(|share, _| {
            share.bytes = 0;
            share.counted = 0;
        });
    }

    /// The priority classes of the streams have changed.
    pub(crate) fn set_classes(&mut self, class: impl Fn(StreamId) -> u16) {
        self.sort(|share, stream| share.class = class(stream));
    }

    /// Changes the shares, and sorts them again by class.
    fn sort(&mut self, mut change: impl FnMut(&mut Share, StreamId)) {
        self.classes.clear();
        self.refused.clear();
        for (stream, share) in self.streams.iter_mut() {
            change(share, stream);
            if share.counted > 0 {
                *self.classes.entry(share.class).or_default() += share.counted;
            }
            if share.refused {
                self.refused.insert((share.class, share.bytes, stream));
            }
        }
    }

    /// A message of this stream was refused because the stream had no room.
    pub(crate) fn refuse(&mut self, stream: StreamId, class: u16) {
        let share = self.streams.touch(stream);
        if share.bytes == 0 {
            share.class = class;
        }
        if !core::mem::replace(&mut share.refused, true) {
            self.refused.insert((share.class, share.bytes, stream));
        }
    }

    /// Whether a stream that was refused a message still waits for room.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// A stream that was refused a message and has room now. Each is returned once.
    pub(crate) fn take_writable(&mut self) -> Option<StreamId> {
        let mut from = (0, 0, StreamId(0));
        loop {
            let first = *self.refused.range(from..).next()?;
            let (class, _, stream) = first;
            if self.has_room(stream, class) {
                self.refused.remove(&first);
                self.streams.touch(stream).refused = false;
                return Some(stream);
            }
            from = (class.checked_add(1)?, 0, StreamId(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1000;

    /// Adds messages of `size` bytes to a stream until it has no room; returns its bytes.
    fn fill(buffer: &mut SendBuffer, stream: u16, class: u16, size: usize) -> usize {
        let stream = StreamId(stream);
        while buffer.has_room(stream, class) {
            buffer.add(stream, class, size);
        }
        buffer.stream_bytes(stream)
    }

    #[test]
    fn a_single_stream_has_the_whole_limit() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        assert_eq!(fill(&mut buffer, 3, 0, 300), 1200);
        buffer.free(StreamId(3), 200);
        assert!(!buffer.has_room(StreamId(3), 0), "1000 bytes are buffered");
        buffer.free(StreamId(3), 1);
        assert!(buffer.has_room(StreamId(3), 0));
    }

    #[test]
    fn streams_that_drain_and_refill_get_equal_shares() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        for _ in 0..200 {
            for stream in 0..9 {
                let drained = buffer.stream_bytes(StreamId(stream)) / 3;
                buffer.free(StreamId(stream), drained);
                fill(&mut buffer, stream, 0, 1);
            }
        }
        let shares = (0..9).map(|stream| buffer.stream_bytes(StreamId(stream)));
        // Two times the limit is divided by ten: nine streams, and what a new stream would find.
        assert!(
            shares.clone().all(|share| (190..=210).contains(&share)),
            "{:?}",
            shares.collect::<Vec<_>>()
        );
        assert_eq!(fill(&mut buffer, 9, 0, 1) / 50, 100 / 50);
    }

    #[test]
    fn a_message_longer_than_the_buffer_leaves_room_for_other_streams() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        buffer.add(StreamId(0), 0, 1_000_000);
        assert!(!buffer.has_room(StreamId(0), 0));
        assert_eq!(fill(&mut buffer, 1, 0, 1), 500);
        buffer.free(StreamId(0), 1_000_000);
        assert_eq!(fill(&mut buffer, 1, 0, 1), 1000);
    }

    #[test]
    fn the_data_of_less_urgent_classes_takes_no_room() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        for stream in 1..100 {
            fill(&mut buffer, stream, 1, 10);
        }
        assert_eq!(fill(&mut buffer, 0, 0, 1), 1000);
        // A stream of a class that is less urgent still finds room for one message.
        assert_eq!(fill(&mut buffer, 100, 2, 10), 10);
    }

    #[test]
    fn a_changed_class_counts_at_once() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        fill(&mut buffer, 1, 0, 1);
        buffer.add(StreamId(0), 0, 600);
        assert!(!buffer.has_room(StreamId(0), 0));
        buffer.refuse(StreamId(0), 0);
        assert_eq!(buffer.take_writable(), None);
        buffer.set_classes(|stream| stream.0);
        assert!(buffer.has_room(StreamId(0), 0));
        assert_eq!(buffer.take_writable(), Some(StreamId(0)));
    }

    #[test]
    fn a_refused_stream_is_told_once() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        for stream in [0, 1] {
            fill(&mut buffer, stream, 0, 100);
            buffer.refuse(StreamId(stream), 0);
        }
        assert_eq!(buffer.take_writable(), None);
        buffer.free(StreamId(0), 600);
        assert_eq!(buffer.take_writable(), Some(StreamId(0)));
        assert_eq!(
            buffer.take_writable(),
            Some(StreamId(1)),
            "half of the limit is free"
        );
        assert_eq!(buffer.take_writable(), None);
        assert!(!buffer.has_refused());
    }

    #[test]
    fn without_shares_all_streams_wait_for_one_buffer() {
        let mut buffer = SendBuffer::new(LIMIT, false);
        fill(&mut buffer, 0, 0, 10);
        assert!(!buffer.has_room(StreamId(1), 0));
        buffer.refuse(StreamId(1), 0);
        buffer.free(StreamId(0), 1);
        assert_eq!(buffer.take_writable(), Some(StreamId(1)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u16, usize),
        Free(u16, usize),
        Reclass(u16),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..8_u16, 1..400_usize).prop_map(|(stream, size)| Step::Send(stream, size)),
            4 => (0..8_u16, 1..400_usize).prop_map(|(stream, size)| Step::Free(stream, size)),
            1 => (1..4_u16).prop_map(Step::Reclass),
        ]
    }

    proptest! {
        /// The sums are right and bounded in every order of steps, a stream with nothing buffered has room, and each stream that was
        /// refused is told exactly once that it has room.
        #[test]
        fn the_streams_share_the_buffer(steps in prop::collection::vec(step(), 1..200)) {
            let mut buffer = SendBuffer::new(LIMIT, true);
            let mut classes = 1;
            let mut bytes = [0; 8];
            let mut refused = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Send(stream, size) => {
                        let (id, class) = (StreamId(stream), stream % classes);
                        if buffer.has_room(id, class) {
                            buffer.add(id, class, size);
                            bytes[usize::from(stream)] += size;
                        } else {
                            let excess = buffer.excess(id, class).expect("there are shares");
                            prop_assert!(excess > 0 && excess <= bytes[usize::from(stream)]);
                            buffer.refuse(id, class);
                            refused.insert(id);
                        }
                    }
                    Step::Free(stream, size) => {
                        let freed = size.min(bytes[usize::from(stream)]);
                        bytes[usize::from(stream)] -= freed;
                        buffer.free(StreamId(stream), freed);
                    }
                    Step::Reclass(count) => {
                        classes = count;
                        buffer.set_classes(|stream| stream.0 % count);
                    }
                }
                while let Some(stream) = buffer.take_writable() {
                    prop_assert!(refused.remove(&stream), "told twice");
                    prop_assert!(buffer.has_room(stream, stream.0 % classes));
                }
                for stream in 0..8_u16 {
                    let (id, own) = (StreamId(stream), bytes[usize::from(stream)]);
                    prop_assert_eq!(buffer.stream_bytes(id), own);
                    let has_room = buffer.has_room(id, stream % classes);
                    prop_assert!(has_room || own > 0);
                    prop_assert!(!(has_room && refused.contains(&id)), "not told");
                }
                let sum = bytes.iter().sum::<usize>();
                prop_assert_eq!(buffer.bytes(), sum);
                prop_assert_eq!(buffer.has_refused(), !refused.is_empty());
                let counted: usize = buffer.streams.iter().map(|share| share.counted).sum();
                prop_assert_eq!(buffer.classes.values().sum::<usize>(), counted);
                // Three classes were in use at most, and each stream may have a last message of 400 bytes.
                prop_assert!(sum < 3 * 2 * LIMIT + 8 * 400);
            }
        }
    }
}
