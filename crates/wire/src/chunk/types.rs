//! A set of chunk types.

/// A set of chunk types, such as those that a peer requires to be authenticated (RFC 4895 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChunkTypes([u64; 4]);

impl ChunkTypes {
    /// Whether this type is in the set.
    #[must_use]
    pub const fn contains(self, kind: u8) -> bool {
        self.0[(kind >> 6) as usize] & (1 << (kind & 63)) != 0
    }

    /// Adds a type.
    pub const fn insert(&mut self, kind: u8) {
        self.0[(kind >> 6) as usize] |= 1 << (kind & 63);
    }

    /// Whether the set has no type.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }

    /// The types, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |kind| self.contains(*kind))
    }
}

impl FromIterator<u8> for ChunkTypes {
    fn from_iter<I: IntoIterator<Item = u8>>(kinds: I) -> Self {
        let mut set = Self::default();
        kinds.into_iter().for_each(|kind| set.insert(kind));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_inserted() {
        assert!(ChunkTypes::default().is_empty());
        let some = [0, 63, 64, 127, 128, 193, 255];
        let set: ChunkTypes = some.into_iter().rev().collect();
        assert!(!set.is_empty() && set.iter().eq(some));
        assert!((0..=u8::MAX).all(|kind| set.contains(kind) == some.contains(&kind)));
    }
}
