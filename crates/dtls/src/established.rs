//! The complete connections of an endpoint, by the address of the peer. Peers with different certificates may use one address: a program
//! that restarted with a new certificate, the next host behind an address translator, or somebody who wants the place of the first peer.
//! Each certificate has a connection of its own, so that no peer takes the packets of another, or ends its connection.

use std::collections::BTreeMap;

use crate::certificate::Fingerprint;
use crate::entry::Entry;

/// Limit of the connections of one address.
pub(crate) const MOST: usize = 2;

#[derive(Debug)]
pub(crate) struct Established<K> {
    /// The connections of each address, at least one, with different certificates. The first peer stays first until its connection ends; the
    /// others take the second place from each other.
    by_key: BTreeMap<K, Vec<Entry>>,
    count: usize,
}

impl<K> Default for Established<K> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<K: Copy + Ord> Established<K> {
    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn has(&self, key: K) -> bool {
        self.by_key.contains_key(&key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.by_key.keys().copied()
    }

    /// The connections with an address.
    pub(crate) fn of(&self, key: K) -> &[Entry] {
        self.by_key.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn of_mut(&mut self, key: K) -> &mut [Entry] {
        self.by_key.get_mut(&key).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The connection of this certificate; without a certificate, the one whose handshake was completed last.
    pub(crate) fn find(&self, key: K, certificate: Option<Fingerprint>) -> Option<&Entry> {
        let wanted = |entry: &&Entry| certificate.is_none() || entry.certificate == certificate;
        let of_this = self.of(key).iter().filter(wanted);
        of_this.max_by_key(|entry| entry.completed)
    }

    /// Adds a connection that has just been completed. It replaces that of the same certificate, because the peer restarted or moved, or, if
    /// the address has too many, one of another certificate. Returns the former connection, and whether it is of another certificate.
    pub(crate) fn insert(&mut self, key: K, entry: Entry) -> Option<(Entry, bool)> {
        let connections = self.by_key.entry(key).or_default();
        let own = entry.certificate;
        if let Some(former) = connections.iter_mut().find(|former| former.certificate == own) {
            return Some((core::mem::replace(former, entry), false));
        }
        let displaced = if connections.len() >= MOST {
            connections.pop()
        } else {
            None
        };
        self.count -= usize::from(displaced.is_some());
        connections.push(entry);
        self.count += 1;
        displaced.map(|former| (former, true))
    }

    /// Removes the connections of this address that `wanted` chooses, and returns them.
    pub(crate) fn take(&mut self, key: K, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let Some(connections) = self.by_key.get_mut(&key) else {
            return Vec::new();
        };
        let taken: Vec<_> = connections.extract_if(.., |entry| wanted(entry)).collect();
        self.count -= taken.len();
        if connections.is_empty() {
            self.by_key.remove(&key);
        }
        taken
    }
}
