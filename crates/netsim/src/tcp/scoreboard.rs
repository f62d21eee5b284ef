//! What the receiver has beyond the cumulative acknowledgement, and what that says of the rest (RFC 6675 §3, §4).

/// Segments beyond a hole before the hole counts as lost (`DupThresh`).
pub(super) const DUP_THRESH: usize = 3;

/// The scoreboard of a sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// What was reported, as first sequence number and the one after the last: ascending, disjoint, none touching.
    ranges: Vec<(u64, u64)>,
    /// Bytes in them.
    bytes: u64,
    /// What is below this and not reported is lost (`IsLost`).
    lost_below: u64,
    /// The end of what was repeated in this recovery (`HighRxt`).
    pub(super) high_rxt: u64,
    /// The recovery whose last resort was used, by its end (`RescueRxt`).
    rescued: Option<u64>,
    /// Bytes taken to be in the network.
    pub(super) pipe: u64,
}

impl Scoreboard {
    /// Forgets all, as after a timeout (RFC 2018 §8).
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes the blocks of an acknowledgement of all below `una`, of what was sent below `high`. Whether they told
    /// anything new.
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

    /// `IsLost` grows downwards: it holds for all that is not reported below where it holds.
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

    /// Whether the byte at `una`, which is not reported, counts as lost.
    pub(super) fn is_lost(&self, una: u64) -> bool {
        una < self.lost_below
    }

    /// Bytes from `from` up to `to` that are not reported.
    pub(super) fn missing(&self, from: u64, to: u64) -> u64 {
        if from >= to || self.ranges.is_empty() {
            return to.saturating_sub(from);
        }
        let overlap = |range: &(u64, u64)| range.1.min(to).saturating_sub(range.0.max(from));
        to - from - self.ranges.iter().map(overlap).sum::<u64>()
    }

    /// Counts what is in the network (`SetPipe`).
    pub(super) fn set_pipe(&mut self, una: u64, high: u64) {
        self.pipe = self.missing(self.lost_below.max(una), high) + self.missing(una, self.high_rxt);
    }

    /// The first sequence number at or after `from` that is not reported, and where what is reported begins again.
    pub(super) fn skip(&self, from: u64) -> (u64, Option<u64>) {
        let next = self.ranges.partition_point(|range| range.1 <= from);
        match self.ranges[next..] {
            [(first, after), ref rest @ ..] if first <= from => (after, rest.first().map(|range| range.0)),
            [(first, _), ..] => (from, Some(first)),
            [] => (from, None),
        }
    }

    /// What to repeat next, as its beginning and length: what is lost (rule 1 of `NextSeg`) or, with `any`, what is
    /// merely missing (rule 3).
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

    /// The last resort (rule 4 of `NextSeg`), once in a recovery that ends at `recover`: the end of what is missing.
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

    /// Begins a recovery in which `una..repeated` is repeated first (§5 step 4.3).
    pub(super) fn begin(&mut self, repeated: u64) {
        self.high_rxt = repeated;
        self.rescued = Some(repeated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 10 bytes, of which 20 were sent.
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
        // Not lost: 30..40, 50..60, 70..100; repeated: 0..10.
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
    fn the_last_resort_is_used_once_and_repeats_the_end() {
        let mut board = reported(&[(20, 30)]);
        board.begin(10);
        assert_eq!(
            board.rescue(5, 100, 10, 100),
            None,
            "the first repeat is not acknowledged yet"
        );
        assert_eq!(board.rescue(20, 100, 10, 100), Some((90, 10)));
        assert_eq!(board.rescue(30, 100, 10, 100), None);
        let mut whole = reported(&[(20, 30), (34, 100)]);
        assert_eq!(whole.rescue(0, 100, 10, 100), Some((30, 4)));
    }
}
