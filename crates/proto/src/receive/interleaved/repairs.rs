//! Owns the repair chunks of incomplete messages (`extension/repair`), and which fragments of repaired messages still come.

use core::ops::RangeInclusive;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::super::fragment::Fragment;
use super::super::load::Load;
use super::Key;
use super::growing::Growing;
use super::held_fragment::HeldFragment;
use crate::extension::repair::{Label, MOST_REPAIRS, decode};
use crate::message::PPID_LEN;
use crate::seq::ExtendedTsn;

/// The most repair chunks held. They also count in the receive window.
const MOST_HELD: usize = 256;
/// The most messages remembered as delivered, whose repair chunks are of no use any more.
const MOST_DELIVERED: usize = 64;
/// The most repaired messages of which fragments still come. While there are so many, no message is repaired.
const MOST_MISSING: usize = 1024;

/// The repair chunks that arrived of one message. All have the same length, and the same label apart from their numbers.
#[derive(Debug)]
struct Chunks {
    label: Label,
    held: Vec<(usize, HeldFragment)>,
}

impl Chunks {
    fn load(&self) -> Load {
        let mut load = Load::default();
        self.held.iter().for_each(|(_, held)| load += held.load());
        load
    }

    fn len(&self) -> usize {
        self.held.first().map_or(0, |(_, held)| held.payload.len())
    }

    /// The length that a fragment has: the first one is followed by the PPID.
    fn len_of(&self, fragment: usize) -> Option<usize> {
        match fragment {
            0 => self.len().checked_sub(PPID_LEN),
            _ if fragment == self.label.fragments - 1 => Some(self.label.last_len),
            _ => Some(self.len()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Repairs {
    chunks: BTreeMap<Key, Chunks>,
    /// All repair chunks.
    held: usize,
    delivered: VecDeque<Key>,
    /// The fragments of repaired messages that did not arrive, and that the sender may retransmit.
    missing: BTreeMap<Key, usize>,
    /// Messages repaired.
    pub(super) repaired: u64,
}

impl Repairs {
    /// Whether there are repair chunks of any message.
    pub(super) fn has_chunks(&self) -> bool {
        self.held > 0
    }

    /// Whether the fragment is of a message that was repaired without it.
    pub(super) fn takes(&mut self, key: Key) -> bool {
        let Some(missing) = self.missing.get_mut(&key) else {
            return false;
        };
        *missing -= 1;
        if *missing == 0 {
            self.missing.remove(&key);
        }
        true
    }

    /// A repair chunk arrived. Returns the cost of chunks that are dropped: of this one if it is of no use, and of others if too many are held.
    pub(super) fn add(&mut self, key: Key, tsn: ExtendedTsn, fragment: Fragment) -> Load {
        let load = Load::of(&fragment);
        let Some(label) = Label::of_word(fragment.fsn) else {
            return load;
        };
        if !key.unordered || self.missing.contains_key(&key) || self.delivered.contains(&key) {
            return load;
        }
        let chunks = self.chunks.entry(key).or_insert_with(|| Chunks {
            label,
            held: Vec::new(),
        });
        let number = label.number;
        let same = (label.fragments, label.last_len) == (chunks.label.fragments, chunks.label.last_len)
            && (chunks.held.is_empty() || chunks.len() == fragment.payload.len())
            && chunks.held.iter().all(|(one, _)| *one != number);
        if !same || chunks.held.len() == MOST_REPAIRS {
            return load;
        }
        let held = HeldFragment {
            tsn,
            payload: fragment.payload,
            kept: load.kept as u32,
        };
        chunks.held.push((number, held));
        self.held += 1;
        if self.held <= MOST_HELD {
            return Load::default();
        }
        let first = self.chunks.keys().next().copied();
        first.map(|first| self.drop_chunks(first)).unwrap_or_default()
    }

    /// The message will not be repaired any more: it is delivered or dropped. Returns the cost of its repair chunks.
    pub(super) fn finish(&mut self, key: Key) -> Load {
        self.delivered.truncate(MOST_DELIVERED - 1);
        self.delivered.push_front(key);
        self.drop_chunks(key)
    }

    fn drop_chunks(&mut self, key: Key) -> Load {
        let Some(chunks) = self.chunks.remove(&key) else {
            return Load::default();
        };
        self.held -= chunks.held.len();
        chunks.load()
    }

    /// The sender abandoned the messages in this range. Returns the cost of their repair chunks.
    pub(super) fn skip(&mut self, range: RangeInclusive<Key>) -> Load {
        let mut load = Load::default();
        while let Some((key, _)) = self.chunks.range(range.clone()).next() {
            load += self.drop_chunks(*key);
        }
        while let Some((key, _)) = self.missing.range(range.clone()).next() {
            let key = *key;
            self.missing.remove(&key);
        }
        load
    }

    /// Forgets all. Returns the cost of all repair chunks.
    pub(super) fn clear(&mut self) -> Load {
        let mut load = Load::default();
        self.chunks.values().for_each(|chunks| load += chunks.load());
        *self = Self {
            repaired: self.repaired,
            ..Self::default()
        };
        load
    }

    /// The missing fragments of a message that has enough repair chunks, each with its FSN, and the PPID if the first one is missing.
    pub(super) fn repair(&mut self, key: Key, message: &Growing) -> Option<Vec<(u64, Bytes)>> {
        let chunks = self.chunks.get(&key)?;
        let all = chunks.label.fragments;
        if message.chunks() + chunks.held.len() < all || self.missing.len() == MOST_MISSING {
            return None;
        }
        let fits = |at: usize| {
            let piece = message.piece(at as u64);
            piece.is_none_or(|piece| chunks.len_of(at) == Some(piece.len()))
        };
        let (present, missing): (Vec<usize>, Vec<usize>) =
            (0..all).partition(|at| message.piece(*at as u64).is_some());
        let others =
            present.len() != message.chunks() || message.ends_at().is_some_and(|last| last != all as u64 - 1);
        if others || missing.is_empty() || !(0..all).all(fits) || chunks.len() <= PPID_LEN {
            return None;
        }
        let ppid = message.ppid.0.to_be_bytes();
        let pieces = present.iter().filter_map(|at| {
            let after: &[u8] = if *at == 0 { &ppid } else { &[] };
            Some((*at, [&message.piece(*at as u64)?[..], after]))
        });
        let used: Vec<_> = chunks
            .held
            .iter()
            .map(|(number, held)| (*number, &held.payload[..]))
            .take(missing.len())
            .collect();
        let decoded = decode(&missing, &used, pieces);
        let fragments = missing.iter().zip(decoded).map(|(at, mut fragment)| {
            if *at > 0 {
                fragment.truncate(chunks.len_of(*at).unwrap_or_default());
            }
            (*at as u64, Bytes::from(fragment))
        });
        let fragments = fragments.collect();
        self.missing.insert(key, missing.len());
        self.repaired += 1;
        Some(fragments)
    }
}
