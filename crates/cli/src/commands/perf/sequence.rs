//! The received message numbers of a stream: whether messages are missing, duplicated or late.

use std::collections::BTreeSet;

/// Limit of stored numbers above a gap, of all streams together. A receive window of the smallest messages holds far fewer. A peer that
/// never fills a gap must not fill the memory.
pub(super) const MAX_AHEAD: usize = 1 << 20;
/// The same limit if messages may be abandoned, so that gaps can remain: more messages than can be outstanding.
const MAX_AHEAD_OF_LOST: usize = 1 << 16;
/// With many streams, each may store this many numbers beyond gaps that remain.
const LEAST_AHEAD_OF_LOST: usize = 16;

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// New, and no higher number arrived before.
    New,
    /// New, but a higher number arrived before.
    Late,
    /// The number arrived before.
    Doubled,
    /// Not stored: too many numbers above a gap are already stored.
    TooFar,
}

/// The numbers of one stream, from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// The first number that is missing; lower numbers arrived, or count as lost.
    next: u64,
    /// One more than the highest number that arrived.
    end: u64,
    /// The numbers above `next` that arrived.
    ahead: BTreeSet<u64>,
    /// Numbers below `next` that never arrived and are not expected any more.
    lost: u64,
    /// If gaps may stay open: the limit of `ahead`.
    partial: Option<usize>,
}

impl Sequence {
    /// One of so many streams. With `partial`, messages may be abandoned.
    pub(super) fn new(partial: bool, streams: u16) -> Self {
        let most = MAX_AHEAD_OF_LOST / usize::from(streams.max(1));
        Self {
            partial: partial.then_some(most.max(LEAST_AHEAD_OF_LOST)),
            ..Self::default()
        }
    }

    /// How many numbers above a gap are stored.
    pub(super) fn stored(&self) -> usize {
        self.ahead.len()
    }

    /// Records a number.
    pub(super) fn take(&mut self, number: u64) -> Verdict {
        if number == self.next && self.ahead.is_empty() {
            self.next += 1;
            self.end = self.next;
            return Verdict::New;
        }
        if number < self.next || self.ahead.contains(&number) {
            return Verdict::Doubled;
        }
        if number != self.next && self.ahead.len() >= MAX_AHEAD {
            return Verdict::TooFar;
        }
        self.ahead.insert(number);
        if self.partial.is_some_and(|most| self.ahead.len() > most)
            && let Some(&first) = self.ahead.first()
        {
            self.lost += first - self.next;
            self.next = first;
        }
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
        if number >= self.end {
            self.end = number.saturating_add(1);
            Verdict::New
        } else {
            Verdict::Late
        }
    }

    /// The count of the first `sent` numbers that did not arrive, and the count of arrived numbers that were never sent.
    pub(super) fn compare(&self, sent: u64) -> (u64, u64) {
        let below = self.next.min(sent).saturating_sub(self.lost) + self.ahead.range(..sent).count() as u64;
        let all = self.next - self.lost + self.ahead.len() as u64;
        (sent - below, all - below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_gaps_and_duplicates_are_distinguished() {
        let mut sequence = Sequence::default();
        let verdicts = [0, 1, 4, 2, 4, 0, 3, 5].map(|number| sequence.take(number));
        use Verdict::{Doubled, Late, New};
        assert_eq!(verdicts, [New, New, New, Late, Doubled, Doubled, Late, New]);
        assert_eq!(sequence.compare(6), (0, 0));
        assert!(sequence.ahead.is_empty());
        assert_eq!(sequence.compare(8), (2, 0));
        assert_eq!(sequence.compare(4), (0, 2));
    }

    #[test]
    fn numbers_above_a_gap_count() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.take(2), Verdict::New);
        assert_eq!(sequence.take(9), Verdict::New);
        assert_eq!(sequence.compare(3), (2, 1));
        assert_eq!(sequence.take(u64::MAX), Verdict::New);
        assert_eq!(sequence.compare(10), (8, 1));
    }

    #[test]
    fn gaps_that_stay_open_take_no_memory() {
        let mut sequence = Sequence::new(true, 1);
        let sent = 10 * MAX_AHEAD_OF_LOST as u64;
        // Every fourth message is lost.
        let arrived = (0..sent).filter(|number| number % 4 != 1);
        for number in arrived {
            assert_eq!(sequence.take(number), Verdict::New);
            assert!(sequence.ahead.len() <= MAX_AHEAD_OF_LOST);
        }
        assert_eq!(sequence.compare(sent), (sent / 4, 0));
        assert_eq!(sequence.compare(sent + 5), (sent / 4 + 5, 0));
        assert_eq!(sequence.take(sent - 5), Verdict::Doubled);
    }

    #[test]
    fn memory_is_bounded() {
        let mut sequence = Sequence::default();
        for number in 1..=MAX_AHEAD as u64 {
            assert_eq!(sequence.take(number), Verdict::New);
        }
        assert_eq!(sequence.take(MAX_AHEAD as u64 + 1), Verdict::TooFar);
        assert_eq!(sequence.take(0), Verdict::Late);
        assert_eq!(sequence.next, MAX_AHEAD as u64 + 1);
    }
}
