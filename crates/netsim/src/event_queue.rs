//! Determines which part of the network wakes next. Each part (a link or a node) has at most one pending wake. The heap therefore has at
//! most as many entries as the network has parts, however many packets are in transit, and stays in the processor's cache.

use anabranch_proto::Timestamp;

/// Place of a part that has no entry in the heap.
const ABSENT: u32 = u32::MAX;

/// A wake: its time in the high half and its sequence number in the low half, so that one comparison orders both.
#[derive(Clone, Copy)]
struct Entry {
    key: u128,
    part: u32,
}

/// The pending wakes of a network: a binary heap with at most one entry for each part. A part's entry can be moved.
///
/// **Order of equal times**: the wake that was set first fires first. Setting a wake again to the same time keeps its place. Setting
/// another time puts the wake behind all others with that time.
#[derive(Default)]
pub struct EventQueue {
    heap: Vec<Entry>,
    /// For each part, the place of its entry in the heap.
    places: Vec<u32>,
    turn: u64,
}

impl EventQueue {
    /// A queue without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part without a pending wake and returns its number, counted from 0.
    pub fn add_part(&mut self) -> u32 {
        self.places.push(ABSENT);
        (self.places.len() - 1) as u32
    }

    /// Time and part of the earliest pending wake.
    #[must_use]
    pub fn peek(&self) -> Option<(Timestamp, u32)> {
        self.heap.first().map(|entry| (time_of(entry.key), entry.part))
    }

    /// Sets, moves or (with `None`) removes the wake of `part`.
    pub fn set(&mut self, part: u32, time: Option<Timestamp>) {
        let place = self.places[part as usize];
        match (time, place) {
            (None, ABSENT) => {}
            (None, place) => self.remove(place as usize),
            (Some(time), ABSENT) => {
                let key = self.next_key(time);
                self.heap.push(Entry { key, part });
                self.sift_up(self.heap.len() - 1);
            }
            (Some(time), place) => {
                let place = place as usize;
                let old = self.heap[place].key;
                if time_of(old) == time {
                    return;
                }
                self.heap[place].key = self.next_key(time);
                if self.heap[place].key < old {
                    self.sift_up(place);
                } else {
                    self.sift_down(place);
                }
            }
        }
    }

    fn next_key(&mut self, time: Timestamp) -> u128 {
        self.turn += 1;
        (u128::from(time.0) << 64) | u128::from(self.turn)
    }

    fn remove(&mut self, place: usize) {
        self.places[self.heap[place].part as usize] = ABSENT;
        let Some(last) = self.heap.pop() else { return };
        if place == self.heap.len() {
            return;
        }
        let old = core::mem::replace(&mut self.heap[place], last);
        if last.key < old.key {
            self.sift_up(place);
        } else {
            self.sift_down(place);
        }
    }

    fn sift_up(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].key <= entry.key {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sift_down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            if left >= self.heap.len() {
                break;
            }
            let right = left + 1;
            let right_is_less = right < self.heap.len() && self.heap[right].key < self.heap[left].key;
            let child = if right_is_less { right } else { left };
            if entry.key <= self.heap[child].key {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.places[entry.part as usize] = place as u32;
        self.heap[place] = entry;
    }
}

fn time_of(key: u128) -> Timestamp {
    Timestamp((key >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Generator;

    impl EventQueue {
        fn pop_until(&mut self, end: Timestamp) -> Option<(Timestamp, u32)> {
            let (time, part) = self.peek().filter(|&(time, _)| time <= end)?;
            self.set(part, None);
            Some((time, part))
        }
    }

    #[test]
    fn equal_times_fire_in_the_order_they_were_set() {
        let mut queue = EventQueue::new();
        for _ in 0..4 {
            queue.add_part();
        }
        let at = Some(Timestamp(5));
        queue.set(2, at);
        queue.set(0, at);
        queue.set(3, Some(Timestamp(9)));
        queue.set(1, at);
        queue.set(2, at); // The same time again: the entry keeps its place.
        queue.set(3, at); // Another time: the entry moves behind the others.
        let order: Vec<_> = core::iter::from_fn(|| queue.pop_until(Timestamp(5)))
            .map(|(_, part)| part)
            .collect();
        assert_eq!(order, [2, 0, 1, 3]);
    }

    #[test]
    fn nothing_fires_after_the_end_or_once_removed() {
        let mut queue = EventQueue::new();
        let (a, b) = (queue.add_part(), queue.add_part());
        queue.set(a, Some(Timestamp(10)));
        queue.set(b, Some(Timestamp(11)));
        assert_eq!(queue.pop_until(Timestamp(9)), None);
        queue.set(a, None);
        assert_eq!(queue.pop_until(Timestamp(11)), Some((Timestamp(11), b)));
        assert_eq!(queue.peek(), None);
    }

    /// Compares the queue with a model: a plain list, searched for its least entry.
    #[test]
    fn agrees_with_a_list_under_random_operations() {
        let mut random = Generator::of_process(1, "event queue");
        let mut queue = EventQueue::new();
        let mut model: Vec<Option<(u64, u64)>> = Vec::new();
        for _ in 0..17 {
            queue.add_part();
            model.push(None);
        }
        for turn in 0..20_000 {
            let part = random.below(17) as usize;
            match random.below(4) {
                0 => {
                    queue.set(part as u32, None);
                    model[part] = None;
                }
                1 => {
                    let least = model
                        .iter()
                        .enumerate()
                        .filter_map(|(i, wake)| wake.map(|wake| (wake, i)))
                        .min();
                    let popped = queue.pop_until(Timestamp(u64::MAX));
                    assert_eq!(popped, least.map(|((time, _), i)| (Timestamp(time), i as u32)));
                    if let Some((_, i)) = least {
                        model[i] = None;
                    }
                }
                _ => {
                    let time = random.below(50);
                    queue.set(part as u32, Some(Timestamp(time)));
                    if model[part].is_none_or(|(old, _)| old != time) {
                        model[part] = Some((time, turn));
                    }
                }
            }
        }
    }
}
