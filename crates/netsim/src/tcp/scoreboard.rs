//! The SACKed data above the cumulative acknowledgement, and which other data counts as lost (RFC 6675 §3, §4).

/// SACKed segments above a hole after which the hole counts as lost (`DupThresh`).
pub(super) const DUP_THRESH: usize = 3;

/// The scoreboard of a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// SACKed ranges, as first sequence number and the one after the last: ascending, disjoint and not adjacent.
    ranges: Vec<(u64, u64)>,
    /// Bytes in `ranges`.
    bytes: u64,
    /// Unsacked data below this sequence number is lost (`IsLost`).
    lost_below: u64,
    /// The end of the data retransmitted in this recovery (`HighRxt`).
    pub(super) high_rxt: u64,
    /// The end (`recover`) of the recovery in which the rescue retransmission was used (`RescueRxt`).
    rescued: Option<u64>,
    /// Estimated bytes in flight (`pipe`).
    pub(super) pipe: u64,
}

impl Scoreboard {
    /// Clears the scoreboard, as after a timeout (RFC 2018 §8).
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds the SACK blocks of an acknowledgement. All data below `una` is acknowledged, and data below `high` has been sent. Returns
    /// whether the blocks had new information.
    pub(super) fn update(&mut self, blocks: &[(u64, u64)], una: u64, high: u64, mss: u64) -> bool {
        if blocks.is_empty() && self.ranges.is_empty() {
            return false;
        }
        self.advance(una);
        let before = self.bytes;
        for &(first, after) in blocks {
            if una <= first && first < after && after <= high {
                self.insert(first, after);
            }
        }
        let news = self.bytes != before;
        self.lost_below = self.find_lost(mss);
        news
    }

    fn advance(&mut self, una: u64) {
        let over = self.ranges.partition_point(|range| range.1 <= una);
        self.bytes -= self
            .ranges
            .drain(..over)
            .map(|(first, after)| after - first)
            .sum::<u64>();
        if let Some(range) = self.ranges.first_mut()
            && range.0 < una
        {
            self.bytes -= una - range.0;
            range.0 = una;
        }
    }

    fn insert(&mut self, mut first: u64, mut after: u64) {
        let from = self.ranges.partition_point(|range| range.1 < first);
        let to = self.ranges.partition_point(|range| range.0 <= after);
        if from < to {
            first = first.min(self.ranges[from].0);
            after = after.max(self.ranges[to - 1].1);
        }
        let merged = self.ranges.splice(from..to, [(first, after)]);
        let old: u64 = merged.map(|(first, after)| after - first).sum();
        self.bytes += after - first - old;
    }

    /// The sequence number below which `IsLost` holds for all unsacked data. (If `IsLost` holds for some data, it holds for all unsacked
    /// data below.)
    fn find_lost(&self, mss: u64) -> u64 {
        let mut bytes = 0;
        for (above, &(first, after)) in self.ranges.iter().rev().enumerate() {
            bytes += after - first;
            if above + 1 >= DUP_THRESH || bytes > (DUP_THRESH as u64 - 1) * mss {
                return first;
            }
        }
        0
    }

    /// Whether the unsacked byte at `una` counts as lost.
    pub(super) fn is_lost(&self, una: u64) -> bool {
        una < self.lost_below
    }

    /// Unsacked bytes from `from` up to `to`.
    pub(super) fn missing(&self, from: u64, to: u64) -> u64 {
        if from >= to || self.ranges.is_empty() {
            return to.saturating_sub(from);
        }
        let overlap = |range: &(u64, u64)| range.1.min(to).saturating_sub(range.0.max(from));
        to - from - self.ranges.iter().map(overlap).sum::<u64>()
    }

    /// Computes the bytes in flight (`SetPipe`).
    pub(super) fn set_pipe(&mut self, una: u64, high: u64) {
        self.pipe = self.missing(self.lost_below.max(una), high) + self.missing(una, self.high_rxt);
    }

    /// The first unsacked sequence number at or after `from`, and the next SACKed one above it.
    pub(super) fn skip(&self, from: u64) -> (u64, Option<u64>) {
        let next = self.ranges.partition_point(|range| range.1 <= from);
        match self.ranges[next..] {
            [(first, after), ref rest @ ..] if first <= from => (after, rest.first().map(|range| range.0)),
            [(first, _), ..] => (from, Some(first)),
            [] => (from, None),
        }
    }

    /// Beginning and length of the next retransmission: lost data (rule 1 of `NextSeg`) or, with `any`, any unsacked data (rule 3).
    pub(super) fn next_hole(&mut self, una: u64, mss: u64, any: bool) -> Option<(u64, u64)> {
        let (first, end) = self.skip(una.max(self.high_rxt));
        let end = end?;
        if !any && first >= self.lost_below {
            return None;
        }
        let len = (end - first).min(mss);
        self.high_rxt = first + len;
        Some((first, len))
    }

    /// The rescue retransmission (rule 4 of `NextSeg`), once in a recovery that ends at `recover`: the end of the unsacked data.
    pub(super) fn rescue(&mut self, una: u64, high: u64, mss: u64, recover: u64) -> Option<(u64, u64)> {
        if self.rescued.is_some_and(|rescued| una <= rescued) {
            return None;
        }
        let (begin, end) = match *self.ranges.as_slice() {
            [.., (_, after)] if after < high => (after, high),
            [.., (_, after), (first, _)] => (after, first),
            [(first, _)] => (una, first),
            [] => (una, high),
        };
        if begin >= end {
            return None;
        }
        self.rescued = Some(recover);
        let first = begin.max(end.saturating_sub(mss));
        Some((first, end - first))
    }

    /// Begins a recovery whose first retransmission is the data from `una` to `end` (§5 step 4.3).
    pub(super) fn begin(&mut self, end: u64) {
        self.high_rxt = end;
        self.rescued = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scoreboard with these SACKed segments. Segments have 10 bytes, and 20 segments were sent.
    fn reported(blocks: &[(u64, u64)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        assert!(board.update(blocks, 0, 200, 10));
        board
    }

    #[test]
    fn blocks_join_and_leave_below_the_acknowledgement() {
        let mut board = reported(&[(50, 60), (20, 30), (70, 80)]);
        assert_eq!(board.bytes, 30);
        assert!(board.update(&[(60, 70)], 0, 200, 10));
        assert_eq!(board.ranges, [(20, 30), (50, 80)]);
        assert!(!board.update(&[(55, 75)], 25, 200, 10), "nothing new");
        assert_eq!(
            (board.ranges.as_slice(), board.bytes),
            (&[(25, 30), (50, 80)][..], 35)
        );
        assert!(
            !board.update(&[(190, 210), (40, 30), (10, 20)], 25, 200, 10),
            "impossible blocks"
        );
        assert!(!board.update(&[], 80, 200, 10));
        assert_eq!((board.ranges.len(), board.bytes), (0, 0));
    }

    #[test]
    fn three_blocks_or_more_than_two_segments_above_make_a_loss() {
        let two = reported(&[(20, 30), (40, 50)]);
        assert!(!two.is_lost(0));
        let three = reported(&[(20, 30), (40, 50), (60, 70)]);
        assert!(three.is_lost(19) && !three.is_lost(30));
        let bytes = reported(&[(20, 30), (50, 71)]);
        assert!(bytes.is_lost(30) && !bytes.is_lost(71));
        assert!(!reported(&[(50, 70)]).is_lost(0));
    }

    #[test]
    fn the_pipe_is_what_is_neither_reported_nor_lost_and_what_was_retransmitted() {
        let mut board = reported(&[(20, 30), (40, 50), (60, 70)]);
        board.begin(10);
        board.set_pipe(0, 100);
        // Not lost: 30..40, 50..60, 70..100; retransmitted: 0..10.
        assert_eq!(board.pipe, 60);
        assert_eq!(board.next_hole(0, 10, false), Some((10, 10)));
        board.set_pipe(0, 100);
        assert_eq!(board.pipe, 70);
        assert_eq!(
            board.next_hole(0, 10, false),
            None,
            "the other holes may still come"
        );
        assert_eq!(board.next_hole(0, 10, true), Some((30, 10)));
    }

    #[test]
    fn the_rescue_retransmission_is_used_once_and_sends_the_end() {
        let mut board = reported(&[(20, 30)]);
        board.begin(10);
        assert_eq!(
            board.rescue(5, 100, 10, 100),
            None,
            "the first retransmission is not acknowledged yet"
        );
        assert_eq!(board.rescue(20, 100, 10, 100), Some((90, 10)));
        assert_eq!(board.rescue(30, 100, 10, 100), None);
        let mut whole = reported(&[(20, 30), (34, 100)]);
        assert_eq!(whole.rescue(0, 100, 10, 100), Some((30, 4)));
    }
}
