//! The complete connections of an endpoint, by the address of the peer. Peers with different certificates may use one address: a program
//! that restarted with a new certificate, the next host behind an address translator, or somebody who wants the place of the first peer.
//! Each certificate has a connection of its own, so that no peer takes the packets of another, or ends its connection.

use std::collections::BTreeMap;

use crate::certificate::Fingerprint;
use crate::connection::{Connection, DtlsError, State};

/// Limit of the connections of one address.
const MOST: usize = 2;

#[derive(Debug)]
pub(crate) struct Established<K> {
    /// The connections of each address, at least one, with different certificates. The first peer stays first until its connection ends; the
    /// others take the second place from each other.
    by_key: BTreeMap<K, Vec<Connection>>,
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
    pub(crate) fn of(&self, key: K) -> &[Connection] {
        self.by_key.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn of_mut(&mut self, key: K) -> &mut [Connection] {
        self.by_key.get_mut(&key).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The connection of this certificate; without a certificate, the one whose handshake was completed last.
    pub(crate) fn find(&self, key: K, certificate: Option<Fingerprint>) -> Option<&Connection> {
        let wanted = |connection: &&Connection| certificate.is_none_or(|own| connection.is_of(own));
        self.of(key)
            .iter()
            .filter(wanted)
            .max_by_key(|connection| connection.completed)
    }

    pub(crate) fn find_mut(&mut self, key: K, certificate: Option<Fingerprint>) -> Option<&mut Connection> {
        let wanted = |connection: &&mut Connection| certificate.is_none_or(|own| connection.is_of(own));
        self.of_mut(key)
            .iter_mut()
            .filter(wanted)
            .max_by_key(|connection| connection.completed)
    }

    /// Adds a connection that has just been completed. It replaces that of the same certificate, because the peer restarted or moved, or, if
    /// the address has too many, one of another certificate. Returns the former connection, and whether it is of another certificate.
    pub(crate) fn insert(&mut self, key: K, connection: Connection) -> Option<(Connection, bool)> {
        let connections = self.by_key.entry(key).or_default();
        let own = connection.certificate();
        if let Some(former) = connections.iter_mut().find(|former| former.certificate() == own) {
            return Some((core::mem::replace(former, connection), false));
        }
        let displaced = if connections.len() >= MOST {
            connections.pop()
        } else {
            None
        };
        self.count -= usize::from(displaced.is_some());
        connections.push(connection);
        self.count += 1;
        displaced.map(|former| (former, true))
    }

    /// Removes connections of this address that have ended, and returns them with the reasons.
    pub(crate) fn take_ended(&mut self, key: K) -> Vec<(Connection, DtlsError)> {
        let Some(connections) = self.by_key.get_mut(&key) else {
            return Vec::new();
        };
        let mut ended = Vec::new();
        for at in (0..connections.len()).rev() {
            if let State::Ended(reason) = &connections[at].state {
                let reason = reason.clone();
                ended.push((connections.remove(at), reason));
            }
        }
        self.count -= ended.len();
        if connections.is_empty() {
            self.by_key.remove(&key);
        }
        ended
    }
}
