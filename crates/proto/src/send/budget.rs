//! The bound on the memory of the send buffer: what all streams together may hold, and the part that each priority class keeps.
//!
//! The bound is twice the limit. It counts memory: the user data, and [`CHUNK_MEMORY`] for each queued message and each outstanding chunk.
//! A message that is longer than the free memory, and than an eighth of the limit, is accepted all the same if the buffer holds no other
//! such message. An empty buffer accepts every message. So the buffer holds the bound, and one message more. The long message counts half
//! of the memory that it found free, so that other messages still find some.
//!
//! Half of the bound is for all classes. Of the other half, each class in use keeps an equal share, which other classes leave free. If more
//! than eight classes are in use, the least urgent ones keep the last share together.

use anabranch_wire::StreamId;

use crate::recovery::CHUNK_MEMORY;

/// The most classes that keep memory for themselves.
pub(super) const CLASSES: usize = 8;

/// The memory in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    limit: usize,
    /// The number of classes that keep memory: those in use, at most [`CLASSES`].
    classes: usize,
    /// Bytes of user data of each class, the most urgent first, without `beyond`.
    bytes: [usize; CLASSES],
    /// Their sum.
    all_bytes: usize,
    /// Queued messages, or their parts, and outstanding chunks.
    items: usize,
    /// Bytes of the one long message that are beyond the bound, and its stream.
    beyond: usize,
    long: StreamId,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            classes: 0,
            bytes: [0; CLASSES],
            all_bytes: 0,
            items: 0,
            beyond: 0,
            long: StreamId(0),
        }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) fn set_items(&mut self, items: usize) {
        self.items = items;
    }

    /// Memory in use, without `beyond`.
    fn used(&self) -> usize {
        self.all_bytes + self.items * CHUNK_MEMORY
    }

    /// Free memory for a class.
    fn free_for(&self, class: usize) -> usize {
        let share = self.limit / self.classes.max(1);
        let others = (0..self.classes).filter(|other| *other != class);
        let kept: usize = others.map(|other| share.saturating_sub(self.bytes[other])).sum();
        (2 * self.limit).saturating_sub(self.used() + kept)
    }

    /// Whether there is memory for `len` more bytes whatever is kept for other classes, which is less than the limit: the quick answer
    /// while the buffer is at most half full.
    fn fits_all_shares(&self, len: usize) -> bool {
        self.used().saturating_add(len).saturating_add(CHUNK_MEMORY) <= self.limit
    }

    /// Whether there is memory for a message of `len` bytes, or for a part of a message.
    #[inline]
    pub(super) fn takes(&self, class: usize, len: usize) -> bool {
        self.fits_all_shares(len) || self.takes_beyond_shares(class, len)
    }

    fn takes_beyond_shares(&self, class: usize, len: usize) -> bool {
        let free = self.free_for(class);
        let fits = self.used() == 0 || len.saturating_add(CHUNK_MEMORY) <= free;
        fits || free > 0 && self.beyond == 0 && len > self.limit / 8
    }

    /// A message, or a part of one, was accepted.
    #[inline]
    pub(super) fn add(&mut self, stream: StreamId, class: usize, len: usize) {
        let counted = if self.beyond > 0 || self.fits_all_shares(len) {
            len
        } else {
            self.admit(stream, class, len)
        };
        self.bytes[class] += counted;
        self.all_bytes += counted;
        self.items += 1;
    }

    /// Accepts a message of `len` bytes, which becomes the one long message if there is too little memory for it. Returns how many of its bytes
    /// count.
    fn admit(&mut self, stream: StreamId, class: usize, len: usize) -> usize {
        let free = self.free_for(class);
        if len.saturating_add(CHUNK_MEMORY) > free {
            self.beyond = len - len.min(free / 2);
            self.long = stream;
        }
        len - self.beyond
    }

    /// Data left the buffer.
    pub(super) fn free(&mut self, stream: StreamId, class: usize, len: usize) {
        let mut counted = len;
        if stream == self.long {
            let beyond = self.beyond.min(len);
            self.beyond -= beyond;
            counted -= beyond;
        }
        self.bytes[class] -= counted;
        self.all_bytes -= counted;
    }

    /// A message that was queued left the buffer whole.
    pub(super) fn drop_message(&mut self, stream: StreamId, class: usize, len: usize) {
        self.free(stream, class, len);
        self.items -= 1;
    }

    /// Counts the classes anew: `bytes` are those of each stream with its class.
    pub(super) fn sort(&mut self, classes: usize, bytes: impl Iterator<Item = (StreamId, usize, usize)>) {
        self.classes = classes;
        self.bytes = [0; CLASSES];
        self.all_bytes = 0;
        let mut beyond = 0;
        for (stream, class, bytes) in bytes {
            let over = if stream == self.long {
                self.beyond.min(bytes)
            } else {
                0
            };
            self.bytes[class] += bytes - over;
            self.all_bytes += bytes - over;
            beyond += over;
        }
        self.beyond = beyond;
    }
}
