//! Paths that come and go while the association lasts (RFC 5061): removal of an address of the peer, and a change of the local address or
//! of the route below (RFC 8261).
//!
//! A removed path keeps its number, so that what other rooms hold by path number stays valid. A new path takes over the number.

use std::net::{IpAddr, SocketAddr};

use super::local_address::local_address_among;
use super::{Path, PathId, PathState, Paths};
use crate::config::Config;
use crate::time::Timestamp;

impl Path {
    /// Begins anew from another local address, or over another route: nothing that was measured on the old one holds. Nothing is in flight.
    /// The numbers of transmissions continue, and the statistics.
    pub(super) fn move_to(&mut self, local: Option<IpAddr>, config: &Config, now: Timestamp, seed: u64) {
        debug_assert!(self.flight.is_empty());
        let mut moved = Self::new(self.id, local, self.route.remote, config, now, seed);
        moved.flight = core::mem::take(&mut self.flight);
        moved.route = self.route.moved_to(local);
        moved.state = self.state;
        moved.heartbeat = core::mem::take(&mut self.heartbeat);
        moved.keep_settings_of(self, config);
        moved.delivery = self.delivery.moved(now);
        if moved.state != PathState::Unconfirmed {
            moved.state = PathState::Active;
        }
        *self = moved;
    }
}

impl Paths {
    /// Whether there is a path with this number now.
    pub(crate) fn has(&self, id: PathId) -> bool {
        self.contains(id) && !self.path(id).route.removed
    }

    /// The paths that were not removed.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Path> {
        self.iter().filter(|path| !path.route.removed)
    }

    /// Whether there is such a path that was confirmed.
    pub(crate) fn has_confirmed(&self, is_it: impl Fn(&Path) -> bool) -> bool {
        let confirmed = |path: &&Path| path.state != PathState::Unconfirmed;
        self.present().filter(confirmed).any(is_it)
    }

    /// Whether there is no other path than one.
    #[inline]
    pub(crate) fn has_one_path(&self) -> bool {
        self.present().nth(1).is_none()
    }

    /// The number of paths that were not removed.
    pub(crate) fn present_count(&self) -> usize {
        self.present().count()
    }

    /// The addresses of the peer: those with a path, and those without.
    pub(crate) fn peer_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let with_path = self.present().map(|path| path.route.remote.ip());
        with_path.chain(self.unused().iter().copied())
    }

    /// The peer added this address (RFC 5061 §4.2.1): adds a path, unconfirmed. `arrived_at` is the local address at which the request
    /// arrived. `None` if there are too many paths, or no local address can be used with the address.
    pub(crate) fn add_requested(
        &mut self,
        now: Timestamp,
        config: &Config,
        remote: SocketAddr,
        arrived_at: Option<IpAddr>,
    ) -> Option<PathId> {
        let in_use = |local| {
            self.present()
                .filter(|path| path.route.local == Some(local))
                .count()
        };
        let listed = &config.local_addresses;
        let local = config
            .paired_with(remote.ip())
            .or_else(|| local_address_among(listed, remote.ip(), in_use))
            .or_else(|| local_address_among(arrived_at.as_slice(), remote.ip(), |_| 0));
        let room = self.present_count() < config.most_paths();
        local
            .filter(|_| room)
            .and_then(|local| self.add_pair((local, remote), config, now))
    }

    /// The peer deleted an address (RFC 5061 §4.2.2). Returns its paths: the caller withdraws everything in flight there and then calls
    /// [`Paths::remove`].
    pub(crate) fn forget_address(&mut self, address: IpAddr) -> Vec<PathId> {
        self.forget_unused(address);
        let paths = self.present().filter(|path| path.route.remote.ip() == address);
        paths.map(|path| path.id).collect()
    }

    /// The other path to the same address of the peer from this local address, if there is one.
    pub(crate) fn twin(&self, id: PathId, local: IpAddr) -> Option<PathId> {
        let pair = self.pair(local, self.path(id).route.remote);
        pair.filter(|other| *other != id)
    }

    /// Removes a path on which nothing is in flight.
    pub(crate) fn remove(&mut self, id: PathId) {
        let path = self.path_mut(id);
        debug_assert!(path.flight.is_empty());
        path.route.removed = true;
        path.state = PathState::Inactive;
        path.timers.stop();
        path.heartbeat = super::Heartbeat::default();
        path.route.data_arrived = None;
        let address = path.route.remote.ip();
        self.forget_candidate(address);
        self.on_removed(id);
    }

    /// Gives a path this local address, and begins anew on it. Nothing is in flight there.
    pub(crate) fn move_to(&mut self, id: PathId, local: Option<IpAddr>, config: &Config, now: Timestamp) {
        let seed = self.next_seed(id);
        self.forget_group(id);
        self.path_mut(id).move_to(local, config, now, seed);
    }

    /// A path takes over from another one to the same address of the peer, as that one would have moved: it counts as active if that one was
    /// confirmed.
    pub(crate) fn take_over(&mut self, heir: PathId, from: PathId) {
        if self.path(from).state != PathState::Unconfirmed {
            self.path_mut(heir).state = PathState::Active;
            self.on_confirmed(heir);
        }
    }

    /// The path of a packet that leaves from this local address: the one that data takes, if the address reaches it; otherwise another one.
    /// After a transmission on `last`, another active one if there is one. `None` if the address reaches none.
    pub(crate) fn destination_from(&self, local: IpAddr, last: Option<PathId>) -> Option<PathId> {
        let reaches = |path: &&Path| {
            !path.route.removed && local_address_among(&[local], path.route.remote.ip(), |_| 0).is_some()
        };
        let first = last.map_or_else(|| self.data_path(), |last| self.other_than(last));
        let others = self.present().map(|path| path.id);
        let mut candidates = [first].into_iter().chain(others).map(|id| self.path(id));
        candidates.find(reaches).map(|path| path.id)
    }

    /// Of these local addresses, the one for a path: as set-up chooses among the addresses that it lists. `None` if none can be used.
    pub(crate) fn local_among(&self, id: PathId, addresses: &[IpAddr], config: &Config) -> Option<IpAddr> {
        let remote = self.path(id).route.remote.ip();
        let in_use = |local| {
            let others = self.present().filter(|path| path.id != id);
            others.filter(|path| path.route.local == Some(local)).count()
        };
        let paired = config
            .paired_with(remote)
            .filter(|local| addresses.contains(local));
        paired.or_else(|| local_address_among(addresses, remote, in_use))
    }
}
