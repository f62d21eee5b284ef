//! Owns the fragments of a message that are behind a gap, by FSN. A peer may begin very many messages, so few fragments take little memory.

use std::collections::BTreeMap;

use super::held_fragment::HeldFragment;

/// Up to so many fragments are in a list.
const FEW: usize = 8;

#[derive(Debug)]
pub(super) enum Beyond {
    /// In the order of their FSNs.
    Few(Vec<(u64, HeldFragment)>),
    Many(BTreeMap<u64, HeldFragment>),
}

impl Default for Beyond {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Beyond {
    pub(super) fn contains(&self, fsn: u64) -> bool {
        match self {
            Self::Few(list) => list.iter().any(|(one, _)| *one == fsn),
            Self::Many(map) => map.contains_key(&fsn),
        }
    }

    pub(super) fn get(&self, fsn: u64) -> Option<&HeldFragment> {
        match self {
            Self::Few(list) => list.iter().find(|(one, _)| *one == fsn).map(|(_, held)| held),
            Self::Many(map) => map.get(&fsn),
        }
    }

    pub(super) fn highest(&self) -> Option<u64> {
        match self {
            Self::Few(list) => list.last().map(|(fsn, _)| *fsn),
            Self::Many(map) => map.last_key_value().map(|(fsn, _)| *fsn),
        }
    }

    /// Adds a fragment whose FSN is not there.
    pub(super) fn insert(&mut self, fsn: u64, held: HeldFragment) {
        match self {
            Self::Few(list) if list.len() < FEW => {
                if list.len() == list.capacity() {
                    // The list doubles from one entry on, where `Vec` would begin with four.
                    list.reserve_exact(list.len().max(1));
                }
                let at = list.partition_point(|(one, _)| *one < fsn);
                list.insert(at, (fsn, held));
            }
            Self::Few(list) => {
                let mut map: BTreeMap<_, _> = core::mem::take(list).into_iter().collect();
                map.insert(fsn, held);
                *self = Self::Many(map);
            }
            Self::Many(map) => {
                map.insert(fsn, held);
            }
        }
    }

    pub(super) fn remove(&mut self, fsn: u64) -> Option<HeldFragment> {
        match self {
            Self::Few(list) => {
                let at = list.iter().position(|(one, _)| *one == fsn)?;
                let (_, held) = list.remove(at);
                self.free();
                Some(held)
            }
            Self::Many(map) => {
                let held = map.remove(&fsn);
                self.free();
                held
            }
        }
    }

    /// Removes the first fragment if it has this FSN.
    pub(super) fn take_first(&mut self, fsn: u64) -> Option<HeldFragment> {
        let first = match self {
            Self::Few(list) => list.first().map(|(fsn, _)| *fsn),
            Self::Many(map) => map.first_key_value().map(|(fsn, _)| *fsn),
        };
        first
            .filter(|first| *first == fsn)
            .and_then(|fsn| self.remove(fsn))
    }

    /// Frees the memory if there are no fragments any more.
    fn free(&mut self) {
        let is_empty = match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(map) => map.is_empty(),
        };
        if is_empty {
            *self = Self::default();
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &HeldFragment> {
        let (list, map) = match self {
            Self::Few(list) => (Some(list), None),
            Self::Many(map) => (None, Some(map)),
        };
        let list = list.into_iter().flatten().map(|(_, held)| held);
        list.chain(map.into_iter().flat_map(BTreeMap::values))
    }
}
