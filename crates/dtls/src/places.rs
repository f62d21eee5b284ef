//! Places in a table that hosts share: the oldest entry of all, and the oldest of a host that has too many.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::key::{PeerKey, host};

/// The entries in the order in which they came. Each has a number.
#[derive(Debug)]
pub(crate) struct Places<K> {
    order: BTreeMap<u64, K>,
    hosts: BTreeSet<(IpAddr, u64)>,
    last: u64,
    /// The number of entries that one host may have.
    share: usize,
}

impl<K: PeerKey> Places<K> {
    pub(crate) fn new(share: usize) -> Self {
        Self {
            order: BTreeMap::new(),
            hosts: BTreeSet::new(),
            last: 0,
            share,
        }
    }

    /// Adds an entry, and returns its number.
    pub(crate) fn add(&mut self, key: K) -> u64 {
        self.last += 1;
        self.order.insert(self.last, key);
        self.hosts.insert((host(key), self.last));
        self.last
    }

    pub(crate) fn remove(&mut self, number: u64) {
        if let Some(key) = self.order.remove(&number) {
            self.hosts.remove(&(host(key), number));
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The oldest entry of all.
    pub(crate) fn oldest(&self) -> Option<K> {
        self.order.first_key_value().map(|(_, key)| *key)
    }

    /// The oldest entry of this key's host, if the host has more than its share.
    pub(crate) fn too_many(&self, key: K) -> Option<K> {
        let host = host(key);
        let mut own = self.hosts.range((host, 0)..=(host, u64::MAX));
        let (_, oldest) = own.clone().next()?;
        own.nth(self.share)?;
        self.order.get(oldest).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, SocketAddr};

    use super::*;

    #[test]
    fn hosts_have_shares() {
        let at = |prefix: u128, rest: u128| SocketAddr::from((Ipv6Addr::from_bits(prefix << 64 | rest), 9));
        let mut places: Places<SocketAddr> = Places::new(3);
        let other = places.add(at(1, 0));
        for rest in 0..=3 {
            assert_eq!(places.too_many(at(2, 99)), None);
            places.add(at(2, rest));
        }
        assert_eq!(places.too_many(at(2, 99)), Some(at(2, 0)));
        assert_eq!(
            (places.too_many(at(1, 99)), places.oldest()),
            (None, Some(at(1, 0)))
        );
        for number in (1..=places.last).filter(|number| *number != other) {
            places.remove(number);
        }
        assert_eq!((places.len(), places.hosts.len()), (1, 1));
    }
}
