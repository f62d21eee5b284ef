//! The send buffer, and how the streams share it: whether a stream accepts another message.
//!
//! While the buffered data of all streams is below the limit, every stream accepts messages. When the limit is reached, a stream that has
//! filled its share waits, and the others go on. The share of a stream is what twice the limit leaves free: two streams that send without
//! end get two thirds of the limit each, ten streams two elevenths. A new stream thus finds room until all streams together have filled
//! twice the limit, which is the bound on the memory of the buffer: see [`Budget`].
//!
//! With priority classes, the share of a stream does not count the data of less urgent classes.
//!
//! RFC 9260 has no rule for this; the shares are the dynamic thresholds of Choudhury and Hahne for memory that queues share.

use std::collections::BTreeSet;

use anabranch_wire::StreamId;

use super::budget::{Budget, CLASSES};
use crate::paged::Paged;

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    /// The stream, which has this many bytes in the buffer, accepted no message at all.
    Share(usize),
    /// The free memory was too little for this message, of so many bytes.
    Length(usize),
}

/// The part of the buffer that one stream uses, in bytes of user data.
#[derive(Debug, Default)]
struct Share {
    /// The index of its class in `SendBuffer::classes`.
    class: usize,
    bytes: usize,
    /// The part of `bytes` that other streams must leave room for. A message that is longer than the free room counts half of that room.
    counted: usize,
    /// Set if a message was refused since the stream last had room.
    refused: Option<Refusal>,
}

/// A stream whose message was refused; sorted so that, of each class and kind of refusal, the first is the first that finds room.
type Refused = (usize, Refusal, StreamId);

/// The send buffer of an association: user data that is queued, or kept for retransmission.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    limit: usize,
    /// Whether streams have shares. Otherwise all wait as soon as the limit is reached.
    shares: bool,
    bytes: usize,
    streams: Paged<Share>,
    /// The classes in use, the most urgent first. Classes that are less urgent than the last one count as the last one.
    classes: Vec<u16>,
    /// Counted bytes by class.
    counted: [usize; CLASSES],
    refused: BTreeSet<Refused>,
    budget: Budget,
}

/// The data that must leave the buffer before the buffer accepts a message.
#[derive(Clone, Debug)]
pub(crate) struct Shortage<'a> {
    buffer: &'a SendBuffer,
    class: usize,
    len: usize,
    /// Bytes of user data that must still leave.
    bytes: usize,
    budget: Budget,
}

impl Shortage<'_> {
    /// Assumes that a queued message of this stream, of `len` bytes, leaves.
    pub(super) fn drop_message(&mut self, stream: StreamId, len: usize) {
        let class = self.buffer.streams.at(stream).map_or(0, |share| share.class);
        self.bytes = self.bytes.saturating_sub(len);
        self.budget.drop_message(stream, class, len);
    }

    /// Whether the buffer accepts the message then.
    pub(super) fn is_over(&self) -> bool {
        self.bytes == 0 && self.budget.takes(self.class, self.len)
    }
}

impl SendBuffer {
    pub(crate) fn new(limit: usize, shares: bool) -> Self {
        Self {
            limit,
            shares,
            bytes: 0,
            streams: Paged::default(),
            classes: vec![0],
            counted: [0; CLASSES],
            refused: BTreeSet::new(),
            budget: Budget::new(limit),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.budget.set_limit(limit);
    }

    /// Tells the number of queued messages, or their parts, and of outstanding chunks.
    #[inline]
    pub(crate) fn set_items(&mut self, items: usize) {
        self.budget.set_items(items);
    }

    /// Bytes of user data of all streams.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of user data of this stream.
    pub(crate) fn stream_bytes(&self, stream: StreamId) -> usize {
        self.streams.at(stream).map_or(0, |share| share.bytes)
    }

    /// The index of a priority class.
    fn index(&self, class: u16) -> usize {
        let index = self.classes.partition_point(|of| *of < class);
        index.min(self.classes.len() - 1)
    }

    /// Whether this stream, of priority `class`, accepts a message of `len` bytes.
    pub(crate) fn has_room(&self, stream: StreamId, class: u16, len: usize) -> bool {
        let class = self.index(class);
        self.has_share(stream, class) && self.budget.takes(class, len)
    }

    /// Whether all streams together are below the limit, or this stream below its share.
    fn has_share(&self, stream: StreamId, class: usize) -> bool {
        self.bytes < self.limit || self.shares && self.stream_bytes(stream) < self.room(class)
    }

    /// The part of twice the limit that is free for a stream of this class.
    fn room(&self, class: usize) -> usize {
        let counted: usize = self.counted[..=class].iter().sum();
        (2 * self.limit).saturating_sub(counted)
    }

    /// The data that must leave before the buffer accepts a message: of any streams or, if `own`, of the stream itself. `None` if `own` and
    /// streams have no shares.
    pub(crate) fn shortage(
        &self,
        stream: StreamId,
        class: u16,
        len: usize,
        own: bool,
    ) -> Option<Shortage<'_>> {
        let class = self.index(class);
        let bytes = if own {
            (self.stream_bytes(stream) + 1).saturating_sub(self.room(class))
        } else if self.has_share(stream, class) {
            0
        } else {
            self.bytes + 1 - self.limit
        };
        (self.shares || !own).then_some(Shortage {
            buffer: self,
            class,
            len,
            bytes,
            budget: self.budget,
        })
    }

    /// A message, or a part of one, was accepted.
    #[inline(always)]
    pub(crate) fn add(&mut self, stream: StreamId, class: u16, bytes: usize) {
        let index = self.index(class);
        let fits = self.bytes + bytes <= self.limit;
        let room = if fits { usize::MAX } else { self.room(index) };
        self.bytes += bytes;
        let share = self.streams.touch(stream);
        if share.bytes == 0 {
            share.class = index;
        }
        let counted = bytes.min(room.saturating_sub(share.counted) / 2);
        share.bytes += bytes;
        share.counted += counted;
        self.counted[share.class] += counted;
        self.budget.add(stream, share.class, bytes);
    }

    /// Data of a stream was acknowledged or abandoned.
    #[inline]
    pub(crate) fn free(&mut self, stream: StreamId, bytes: usize) {
        self.bytes -= bytes;
        let share = self.streams.touch(stream);
        share.bytes -= bytes;
        let uncounted = share.counted.saturating_sub(share.bytes);
        share.counted -= uncounted;
        self.counted[share.class] -= uncounted;
        self.budget.free(stream, share.class, bytes);
        if let Some(before @ Refusal::Share(_)) = share.refused {
            let refusal = Refusal::Share(share.bytes);
            share.refused = Some(refusal);
            self.refused.remove(&(share.class, before, stream));
            self.refused.insert((share.class, refusal, stream));
        }
    }

    /// All data is gone: the association has ended, or the peer has restarted.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        self.budget.set_items(0);
        self.sort(|share, _, _| {
            share.bytes = 0;
            share.counted = 0;
        });
    }

    /// The priority classes of the streams have changed: `classes` are those in use, in order, and `class` is that of a stream.
    pub(crate) fn set_classes(
        &mut self,
        classes: impl IntoIterator<Item = u16>,
        class: impl Fn(StreamId) -> u16,
    ) {
        self.classes.clear();
        self.classes.extend(classes.into_iter().take(CLASSES));
        self.sort(|share, stream, classes| {
            let index = classes.partition_point(|of| *of < class(stream));
            share.class = index.min(classes.len() - 1);
        });
    }

    /// Changes the shares, and sorts them again by class.
    fn sort(&mut self, mut change: impl FnMut(&mut Share, StreamId, &[u16])) {
        self.counted = [0; CLASSES];
        self.refused.clear();
        let mut bytes = Vec::new();
        for (stream, share) in self.streams.iter_mut() {
            change(share, stream, &self.classes);
            self.counted[share.class] += share.counted;
            if let Some(Refusal::Share(of)) = &mut share.refused {
                *of = share.bytes;
            }
            if let Some(refusal) = share.refused {
                self.refused.insert((share.class, refusal, stream));
            }
            bytes.push((stream, share.class, share.bytes));
        }
        let classes = if self.shares { self.classes.len() } else { 0 };
        self.budget.sort(classes, bytes.into_iter());
    }

    /// A message of this stream, of `len` bytes, was refused.
    pub(crate) fn refuse(&mut self, stream: StreamId, class: u16, len: usize) {
        let index = self.index(class);
        let refusal = if self.has_room(stream, class, 1) {
            Refusal::Length(len)
        } else {
            Refusal::Share(self.stream_bytes(stream))
        };
        let share = self.streams.touch(stream);
        if share.bytes == 0 {
            share.class = index;
        }
        if let Some(before) = share.refused.replace(refusal) {
            self.refused.remove(&(share.class, before, stream));
        }
        self.refused.insert((share.class, refusal, stream));
    }

    /// Whether a stream that was refused a message still waits for room.
    pub(crate) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// A stream that was refused a message and has room now. Each is returned once.
    pub(crate) fn take_writable(&mut self) -> Option<StreamId> {
        let kinds = |class| [(class, Refusal::Share(0)), (class, Refusal::Length(0))];
        for (class, from) in (0..self.classes.len()).flat_map(kinds) {
            let mut further = self.refused.range((class, from, StreamId(0))..);
            let first = further.next().copied()?;
            let (of, refusal, stream) = first;
            let len = match refusal {
                Refusal::Share(_) => 1,
                Refusal::Length(len) => len,
            };
            if self.has_share(stream, of) && self.budget.takes(of, len) {
                self.refused.remove(&first);
                self.streams.touch(stream).refused = None;
                return Some(stream);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recovery::CHUNK_MEMORY;

    /// Long messages, beside which their own memory does not matter.
    const KB: usize = 1000;
    const LIMIT: usize = 1000 * KB;

    /// Adds messages of `size` kilobytes to a stream until it has no room; returns its kilobytes.
    fn fill(buffer: &mut SendBuffer, stream: u16, class: u16, size: usize) -> usize {
        let stream = StreamId(stream);
        while buffer.has_room(stream, class, size * KB) {
            buffer.add(stream, class, size * KB);
            buffer.set_items(0);
        }
        buffer.stream_bytes(stream) / KB
    }

    fn free(buffer: &mut SendBuffer, stream: u16, size: usize) {
        buffer.free(StreamId(stream), size * KB);
    }

    fn has_room(buffer: &SendBuffer, stream: u16, class: u16) -> bool {
        buffer.has_room(StreamId(stream), class, 1)
    }

    #[test]
    fn an_empty_buffer_takes_every_message() {
        for limit in [1, 16, CHUNK_MEMORY, 1000, LIMIT] {
            for len in [1, 2, 100, 10 * limit] {
                let mut buffer = SendBuffer::new(limit, true);
                for _ in 0..3 {
                    assert!(buffer.has_room(StreamId(0), 0, len), "{len} in {limit}");
                    buffer.add(StreamId(0), 0, len);
                    buffer.free(StreamId(0), len);
                    buffer.set_items(0);
                }
            }
        }
    }

    #[test]
    fn a_single_stream_has_the_whole_limit() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        assert_eq!(fill(&mut buffer, 3, 0, 300), 1200);
        free(&mut buffer, 3, 200);
        assert!(!has_room(&buffer, 3, 0), "the limit is buffered");
        buffer.free(StreamId(3), 1);
        assert!(has_room(&buffer, 3, 0));
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
        let shares = (0..9).map(|stream| buffer.stream_bytes(StreamId(stream)) / KB);
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
        buffer.add(StreamId(0), 0, 1000 * LIMIT);
        buffer.set_items(0);
        assert!(!has_room(&buffer, 0, 0));
        assert_eq!(fill(&mut buffer, 1, 0, 1), 500);
        buffer.free(StreamId(0), 1000 * LIMIT);
        assert_eq!(fill(&mut buffer, 1, 0, 1), 1000);
    }

    #[test]
    fn the_buffer_holds_one_long_message_beyond_the_bound() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        let long = 3 * LIMIT;
        assert!(buffer.has_room(StreamId(0), 0, long));
        buffer.add(StreamId(0), 0, long);
        for stream in 1..=3 {
            assert!(!buffer.has_room(StreamId(stream), 0, long));
            buffer.refuse(StreamId(stream), 0, long);
            assert!(has_room(&buffer, stream, 0), "a short message fits");
        }
        assert_eq!(buffer.take_writable(), None);
        // The last part of the long message fits.
        buffer.free(StreamId(0), 2 * LIMIT);
        assert_eq!(buffer.take_writable(), Some(StreamId(1)));
        buffer.add(StreamId(1), 0, long);
        assert_eq!(buffer.take_writable(), None);
        assert!(buffer.has_refused());
        assert_eq!(buffer.bytes(), LIMIT + long);
    }

    #[test]
    fn many_streams_together_are_bounded() {
        for classes in [1, 3, 100] {
            let mut buffer = SendBuffer::new(LIMIT, true);
            buffer.set_classes(0..classes, |stream| stream.0 % classes);
            for stream in 0..u16::MAX {
                fill(&mut buffer, stream, stream % classes, 100);
            }
            let bytes = buffer.bytes() / KB;
            assert!((1500..=2100).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn short_messages_count_what_they_take() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        let messages = |buffer: &mut SendBuffer, stream| {
            let mut messages = 0;
            while buffer.has_room(StreamId(stream), 0, 1) {
                buffer.add(StreamId(stream), 0, 1);
                messages += 1;
            }
            messages
        };
        assert_eq!(messages(&mut buffer, 0), 2 * LIMIT / (CHUNK_MEMORY + 1));
        assert_eq!(messages(&mut buffer, 1), 0);
        buffer.refuse(StreamId(1), 0, 1);
        assert_eq!(buffer.take_writable(), None);
        buffer.set_items(0);
        assert_eq!(buffer.take_writable(), Some(StreamId(1)));
    }

    #[test]
    fn a_class_finds_its_share_behind_the_data_of_others() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        buffer.set_classes(0..4, |stream| stream.0.min(3));
        for stream in 3..100 {
            fill(&mut buffer, stream, 3, 10);
        }
        let bulk = buffer.bytes() / KB;
        assert!(
            (1200..=1250).contains(&bulk),
            "{bulk}: a quarter of the limit is left for each class"
        );
        for class in [2, 0, 1] {
            let share = fill(&mut buffer, class, class, 10);
            assert!((240..=260).contains(&share), "{share}");
        }
        assert!(buffer.bytes() / KB >= 1970);
    }

    #[test]
    fn the_share_of_a_stream_does_not_count_less_urgent_classes() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        buffer.set_classes(0..2, |stream| stream.0);
        assert_eq!(fill(&mut buffer, 1, 1, 10), 1000);
        assert_eq!(fill(&mut buffer, 0, 0, 10), 990, "all that is left of the bound");
    }

    #[test]
    fn a_changed_class_counts_at_once() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        fill(&mut buffer, 1, 0, 1);
        buffer.add(StreamId(0), 0, 600 * KB);
        assert!(!has_room(&buffer, 0, 0));
        buffer.refuse(StreamId(0), 0, 1);
        assert_eq!(buffer.take_writable(), None);
        buffer.set_classes(0..2, |stream| stream.0);
        assert!(has_room(&buffer, 0, 0));
        assert_eq!(buffer.take_writable(), Some(StreamId(0)));
    }

    #[test]
    fn a_refused_stream_is_told_once() {
        let mut buffer = SendBuffer::new(LIMIT, true);
        for stream in [0, 1] {
            fill(&mut buffer, stream, 0, 100);
            buffer.refuse(StreamId(stream), 0, 100 * KB);
        }
        assert_eq!(buffer.take_writable(), None);
        free(&mut buffer, 0, 600);
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
        assert!(!has_room(&buffer, 1, 0));
        buffer.refuse(StreamId(1), 0, 1);
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
            6 => (0..8_u16, 1..400_usize).prop_map(|(stream, size)| Step::Send(stream, size * KB)),
            1 => (0..8_u16, 400..4000_usize).prop_map(|(stream, size)| Step::Send(stream, size * KB)),
            5 => (0..8_u16, 1..4000_usize).prop_map(|(stream, size)| Step::Free(stream, size * KB)),
            1 => (1..4_u16).prop_map(Step::Reclass),
        ]
    }

    proptest! {
        /// The sums are right and bounded in every order of steps, a stream has room if nothing is buffered, and each stream that was
        /// refused is told exactly once that it has room.
        #[test]
        fn the_streams_share_the_buffer(steps in prop::collection::vec(step(), 1..200)) {
            let mut buffer = SendBuffer::new(LIMIT, true);
            let mut classes = 1;
            let mut bytes = [0; 8];
            let mut refused = std::collections::BTreeMap::new();
            let (mut items, mut longest) = (0, 0);
            for step in steps {
                match step {
                    Step::Send(stream, size) => {
                        let (id, class) = (StreamId(stream), stream % classes);
                        if buffer.has_room(id, class, size) {
                            buffer.add(id, class, size);
                            bytes[usize::from(stream)] += size;
                            items += 1;
                            longest = longest.max(size);
                        } else {
                            for own in [true, false] {
                                let shortage = buffer.shortage(id, class, size, own).expect("there are shares");
                                prop_assert!(!shortage.is_over() || own);
                            }
                            buffer.refuse(id, class, size);
                            refused.insert(id, size);
                        }
                    }
                    Step::Free(stream, size) => {
                        let freed = size.min(bytes[usize::from(stream)]);
                        bytes[usize::from(stream)] -= freed;
                        buffer.free(StreamId(stream), freed);
                        items = items.min(bytes.iter().filter(|own| **own > 0).count() * items);
                    }
                    Step::Reclass(count) => {
                        classes = count;
                        buffer.set_classes(0..count, |stream| stream.0 % count);
                    }
                }
                buffer.set_items(items);
                while let Some(stream) = buffer.take_writable() {
                    let size = refused.remove(&stream);
                    prop_assert!(size.is_some(), "told twice");
                    // A long message may go beyond the bound where a short one must wait.
                    let takes = |size| buffer.has_room(stream, stream.0 % classes, size);
                    prop_assert!(takes(1) || size.is_some_and(takes));
                }
                let sum = bytes.iter().sum::<usize>();
                for stream in 0..8_u16 {
                    let (id, own) = (StreamId(stream), bytes[usize::from(stream)]);
                    prop_assert_eq!(buffer.stream_bytes(id), own);
                    prop_assert!(sum > 0 || buffer.has_room(id, stream % classes, 4 * LIMIT));
                }
                prop_assert!(sum > 0 || refused.is_empty(), "not told");
                prop_assert_eq!(buffer.bytes(), sum);
                prop_assert_eq!(buffer.has_refused(), !refused.is_empty());
                let counted: usize = buffer.streams.iter().map(|share| share.counted).sum();
                prop_assert_eq!(buffer.counted.iter().sum::<usize>(), counted);
                prop_assert!(sum <= 2 * LIMIT + longest);
            }
        }
    }
}
