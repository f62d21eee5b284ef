//! The next timeout of each peer.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_proto::Timestamp;

/// The next timeout of each peer. It may be early: a connection that was used meanwhile is noted again.
#[derive(Debug)]
pub(crate) struct Timeouts<K> {
    by_time: BTreeSet<(Timestamp, K)>,
    by_key: BTreeMap<K, Timestamp>,
}

impl<K> Default for Timeouts<K> {
    fn default() -> Self {
        Self {
            by_time: BTreeSet::new(),
            by_key: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Ord> Timeouts<K> {
    pub(crate) fn note(&mut self, at: Timestamp, key: K) {
        if let Some(former) = self.by_key.get(&key).copied() {
            if former <= at {
                return;
            }
            self.by_time.remove(&(former, key));
        }
        self.by_key.insert(key, at);
        self.by_time.insert((at, key));
    }

    /// A peer has no connection any more.
    pub(crate) fn forget(&mut self, key: K) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<K> {
        let (at, key) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.by_time.remove(&(at, key));
        self.by_key.remove(&key);
        Some(key)
    }
}
