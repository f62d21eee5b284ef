//! The replay window of one key (RFC 9147 §4.5.1): which sequence numbers have arrived.

/// The sequence numbers that arrived, back to the size of the window before the highest one.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    /// One more than the highest sequence number that arrived.
    next: u64,
    /// A bit for each sequence number of the window, at its remainder by the number of bits.
    bits: Box<[u64]>,
    size: u64,
}

impl ReplayWindow {
    pub(super) fn new(size: u16) -> Self {
        let size = u64::from(size);
        Self {
            next: 0,
            bits: vec![0; size.div_ceil(64) as usize].into(),
            size,
        }
    }

    /// The whole sequence number of which these are the low 16 bits: the one nearest to the next one (RFC 9147 §4.2.2).
    pub(super) fn reconstruct(&self, low: u16) -> u64 {
        let ahead = low.wrapping_sub(self.next as u16);
        if ahead <= 1 << 15 {
            return self.next + u64::from(ahead);
        }
        let behind = u64::from(ahead.wrapping_neg());
        self.next
            .checked_sub(behind)
            .unwrap_or(self.next + u64::from(ahead))
    }

    fn place(&self, sequence: u64) -> (usize, u64) {
        let bit = sequence % (64 * self.bits.len() as u64);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    /// Whether a packet with this sequence number may be new: it did not arrive before, and is not too old.
    pub(super) fn admits(&self, sequence: u64) -> bool {
        if sequence >= self.next {
            return true;
        }
        let (word, bit) = self.place(sequence);
        self.next - sequence <= self.size && self.bits[word] & bit == 0
    }

    /// An authentic packet with this sequence number arrived.
    pub(super) fn note(&mut self, sequence: u64) {
        if sequence >= self.next {
            self.clear(self.next, sequence - self.next);
            self.next = sequence + 1;
        }
        let (word, bit) = self.place(sequence);
        self.bits[word] |= bit;
    }

    /// Clears the bits of so many sequence numbers.
    fn clear(&mut self, first: u64, count: u64) {
        let all = 64 * self.bits.len() as u64;
        if count >= all {
            self.bits.fill(0);
            return;
        }
        for sequence in first..=first + count {
            let (word, bit) = self.place(sequence);
            self.bits[word] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequence_numbers_are_reconstructed_near_the_next_one() {
        let mut window = ReplayWindow::new(64);
        assert_eq!(window.reconstruct(0), 0);
        assert_eq!(
            window.reconstruct(0xFFFF),
            0xFFFF,
            "nothing is before the first one"
        );
        for sequence in [40_000, 65_535, 65_536, 98_000, 130_000] {
            assert_eq!(window.reconstruct(sequence as u16), sequence);
            window.note(sequence);
        }
        assert_eq!(window.reconstruct(130_000_u64 as u16), 130_000);
        assert_eq!(
            window.reconstruct((130_001_u64 - 32_767) as u16),
            130_001 - 32_767
        );
        assert_eq!(
            window.reconstruct((130_001_u64 + 32_768) as u16),
            130_001 + 32_768
        );
    }

    proptest! {
        /// The window admits each sequence number once, unless it is too old.
        #[test]
        fn each_is_admitted_once(steps in proptest::collection::vec((0_u64..200, any::<bool>()), 1..300)) {
            let mut window = ReplayWindow::new(100);
            let (mut seen, mut highest) = (BTreeSet::new(), 0_u64);
            for (distance, ahead) in steps {
                let sequence = if ahead { highest + distance } else { highest.saturating_sub(distance) };
                let old = !seen.is_empty() && highest + 1 - sequence.min(highest) > 100;
                prop_assert_eq!(window.admits(sequence), !seen.contains(&sequence) && !old);
                if window.admits(sequence) {
                    window.note(sequence);
                    seen.insert(sequence);
                    highest = highest.max(sequence);
                }
            }
        }
    }
}
