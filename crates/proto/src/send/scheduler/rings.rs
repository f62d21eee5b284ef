//! Streams that have data, in rings: the ring with the lowest key sends first, and the streams of a ring send in turn.

use std::collections::BTreeMap;

use anabranch_wire::StreamId;

use crate::paged::Paged;

/// The sorting key of a ring.
pub(super) type Key = u128;

/// A list of streams, linked in their slots.
#[derive(Clone, Copy, Debug)]
struct Ring {
    head: StreamId,
    tail: StreamId,
}

/// The place of a stream.
#[derive(Debug, Default)]
struct Slot {
    /// The key of its ring, if it is in one.
    key: Option<Key>,
    before: Option<StreamId>,
    behind: Option<StreamId>,
}

/// The rings. Every operation is O(log rings); with a single ring, O(1) and without allocation.
#[derive(Debug, Default)]
pub(super) struct Rings {
    slots: Paged<Slot>,
    /// The ring with the lowest key, outside the map.
    front: Option<(Key, Ring)>,
    /// The other rings.
    others: BTreeMap<Key, Ring>,
}

impl Rings {
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// The first stream of the first ring.
    pub(super) fn front(&self) -> Option<StreamId> {
        self.front.map(|(_, ring)| ring.head)
    }

    /// The ring of a stream.
    pub(super) fn key(&self, stream: StreamId) -> Option<Key> {
        self.slots.at(stream)?.key
    }

    /// Whether no other stream is in the ring of this one.
    pub(super) fn is_alone(&self, stream: StreamId) -> bool {
        let slot = self.slots.at(stream);
        slot.is_some_and(|slot| slot.before.is_none() && slot.behind.is_none())
    }

    /// Adds a stream that is in no ring at the end of a ring.
    pub(super) fn push_back(&mut self, stream: StreamId, key: Key) {
        let last = self.append(stream, key);
        *self.slots.touch(stream) = Slot {
            key: Some(key),
            before: last,
            behind: None,
        };
        if let Some(last) = last {
            self.slots.touch(last).behind = Some(stream);
        }
    }

    /// Makes the stream the last of its ring; returns the former last stream.
    fn append(&mut self, stream: StreamId, key: Key) -> Option<StreamId> {
        let alone = Ring {
            head: stream,
            tail: stream,
        };
        let ring = match &mut self.front {
            Some((first, ring)) if *first == key => ring,
            Some((first, _)) if *first < key => match self.others.get_mut(&key) {
                Some(ring) => ring,
                None => {
                    self.others.insert(key, alone);
                    return None;
                }
            },
            front => {
                if let Some((first, ring)) = front.replace((key, alone)) {
                    self.others.insert(first, ring);
                }
                return None;
            }
        };
        Some(core::mem::replace(&mut ring.tail, stream))
    }

    /// Removes a stream from its ring, wherever it is there.
    pub(super) fn remove(&mut self, stream: StreamId) {
        let Some(slot) = self.slots.at_mut(stream) else {
            return;
        };
        let Slot {
            key: Some(key),
            before,
            behind,
        } = core::mem::take(slot)
        else {
            return;
        };
        if let Some(before) = before {
            self.slots.touch(before).behind = behind;
        }
        if let Some(behind) = behind {
            self.slots.touch(behind).before = before;
        }
        let in_front = self.front.is_some_and(|(first, _)| first == key);
        if before.is_none() && behind.is_none() {
            if in_front {
                self.front = self.others.pop_first();
            } else {
                self.others.remove(&key);
            }
            return;
        }
        let ring = match &mut self.front {
            Some((_, ring)) if in_front => Some(ring),
            _ => self.others.get_mut(&key),
        };
        if let Some(ring) = ring {
            ring.head = if before.is_none() {
                behind.unwrap_or(ring.head)
            } else {
                ring.head
            };
            ring.tail = if behind.is_none() {
                before.unwrap_or(ring.tail)
            } else {
                ring.tail
            };
        }
    }
}
