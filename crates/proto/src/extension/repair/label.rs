//! The field of a repair chunk that says which fragments it repairs.

use super::{MOST_FRAGMENTS, MOST_REPAIRS};

/// In place of the FSN: the number of fragments (8 bits), the number of the repair chunk (8 bits), and the bytes of user data of the last fragment
/// (16 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) fragments: usize,
    pub(crate) number: usize,
    pub(crate) last_len: usize,
}

impl Label {
    pub(crate) fn to_word(self) -> u32 {
        (self.fragments as u32) << 24 | (self.number as u32) << 16 | self.last_len as u32
    }

    /// `None` if a number is out of its range.
    pub(crate) fn of_word(word: u32) -> Option<Self> {
        let label = Self {
            fragments: (word >> 24) as usize,
            number: (word >> 16 & 0xFF) as usize,
            last_len: (word & 0xFFFF) as usize,
        };
        let valid = (2..=MOST_FRAGMENTS).contains(&label.fragments)
            && label.number < MOST_REPAIRS
            && label.last_len > 0;
        valid.then_some(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_words() {
        let label = Label {
            fragments: 64,
            number: 15,
            last_len: 1_000,
        };
        assert_eq!(label.to_word(), 0x400F_03E8);
        assert_eq!(Label::of_word(0x400F_03E8), Some(label));
        for out_of_range in [0x010F_03E8, 0x410F_03E8, 0x4010_03E8, 0x400F_0000] {
            assert_eq!(Label::of_word(out_of_range), None, "{out_of_range:x}");
        }
    }
}
