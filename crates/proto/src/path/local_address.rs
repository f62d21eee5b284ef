//! Which local address is used with which address of the peer (RFC 9260 §5.1.2, §6.4).

use core::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

use super::{Path, PathId, Paths};
use crate::config::Config;
use crate::inbound::Inbound;
use crate::time::Timestamp;

impl Paths {
    /// The packet that completed set-up arrived at a local address that the peer knows. If this endpoint lists no addresses, that is its
    /// only address.
    pub(crate) fn adopt_local_address(&mut self, config: &Config, inbound: &Inbound) {
        let listed = !config.local_addresses.is_empty();
        for path in self
            .iter_mut()
            .filter(|path| !listed || path.route.local.is_none())
        {
            let local = set_up_address(config, inbound, path.route.remote.ip());
            path.route.local = local.or(path.route.local);
        }
    }

    /// No answer to an INIT arrived: the next one leaves from the next of these addresses of this host, because the network of this one may not
    /// work. Without a choice of addresses the operating system chooses, and nothing changes; nor does it without dynamic addresses, because
    /// then the peer's addresses make the paths, and each has a local address of its own.
    pub(crate) fn try_other_local_address(&mut self, config: &Config) {
        if config.dynamic_addresses.is_none() {
            return;
        }
        let listed = &config.local_addresses;
        let route = &mut self.path_mut(PathId(0)).route;
        let Some(local) = route.local else { return };
        let alike = listed.iter().filter(|one| one.is_ipv4() == local.is_ipv4());
        let mut after = alike.cycle().take(2 * listed.len());
        if after.any(|one| *one == local) {
            route.local = after.next().copied().or(route.local);
        }
    }

    /// An INIT ACK arrived at this of the addresses from which INITs left: the COOKIE ECHO leaves from there too, because the peer's cookie is
    /// for it.
    pub(crate) fn answered_at(&mut self, inbound: &Inbound, config: &Config) {
        let route = &mut self.path_mut(PathId(0)).route;
        let at = inbound
            .local
            .filter(|local| config.local_addresses.contains(local));
        if route.local.is_some() && config.dynamic_addresses.is_some() {
            route.local = at.or(route.local);
        }
    }

    /// Adds a path for each further address of the peer (§5.1.2 C) that some local address can be used with; returns the addresses of
    /// the new paths.
    pub(crate) fn add_peer_addresses(
        &mut self,
        now: Timestamp,
        config: &Config,
        addresses: &[IpAddr],
    ) -> Vec<SocketAddr> {
        let first = self.path(PathId(0));
        let (set_up, first) = (first.route.local, first.route.remote);
        let mut added = Vec::new();
        for address in addresses {
            let in_use = |local| self.iter().filter(|path| path.route.local == Some(local)).count();
            let local = local_address_for(config, *address, set_up, in_use);
            // The UDP port is that of the first path; so is the interface for a link-local address.
            let mut remote = first;
            remote.set_ip(*address);
            if self.add(local, remote, config, now).is_some() {
                added.push(remote);
            }
        }
        added
    }

    /// Adds a path from each of these local addresses that has none, or only doubtful ones: to the address of the peer that
    /// [`Config::path_pairs`] names for it; otherwise to the one that shares most leading bits with it, among equals the one with the fewest
    /// paths. Returns the new paths.
    pub(crate) fn add_pairs(&mut self, now: Timestamp, config: &Config, locals: &[IpAddr]) -> Vec<PathId> {
        let mut added = Vec::new();
        for local in locals {
            let hopeful: Vec<_> = self.present().filter(|path| !path.is_doubtful()).collect();
            if hopeful.iter().any(|path| path.route.local == Some(*local)) {
                continue;
            }
            let to = |remote: IpAddr| {
                let same = |path: &&&Path| path.route.remote.ip() == remote;
                hopeful.iter().filter(same).count()
            };
            let candidates = hopeful.iter().filter_map(|path| {
                let remote = path.route.remote;
                let named = config.names_pair(*local, remote.ip());
                let common = common_bits(*local, remote.ip());
                (named || common.is_some()).then(|| (!named, Reverse(common), to(remote.ip()), remote))
            });
            let best = candidates.min_by_key(|(unnamed, common, paths, _)| (*unnamed, *common, *paths));
            added.extend(best.and_then(|(.., remote)| self.add_pair((*local, remote), config, now)));
        }
        added
    }
}

/// The local address from which packets go to this address of the peer: the one that [`Config::path_pairs`] names for it. Otherwise the
/// listed address that shares most leading bits with it, which is on the same subnet if there is one; among equals, the address with
/// the fewest paths, in the order in which they are listed. If no listed address reaches it, the address that set-up used: the peer
/// knows no other (§5.1.2), and would answer a packet from an unknown address with an ABORT (§8.4).
fn local_address_for(
    config: &Config,
    remote: IpAddr,
    set_up: Option<IpAddr>,
    in_use: impl Fn(IpAddr) -> usize,
) -> Option<IpAddr> {
    if let Some(local) = config.paired_with(remote) {
        return Some(local);
    }
    local_address_among(&config.local_addresses, remote, in_use)
        .or_else(|| set_up.filter(|local| common_bits(*local, remote).is_some()))
}

/// Of these local addresses, the one that shares most leading bits with an address of the peer; among equals, the one that fewest paths
/// use, in this order. `None` if none reaches it.
pub(super) fn local_address_among(
    addresses: &[IpAddr],
    remote: IpAddr,
    in_use: impl Fn(IpAddr) -> usize,
) -> Option<IpAddr> {
    let own = addresses.iter().copied();
    let candidates =
        own.filter_map(|local| Some((local, Reverse(common_bits(local, remote)?), in_use(local))));
    let best = candidates.min_by_key(|(_, common, in_use)| (*common, *in_use));
    best.map(|(local, ..)| local)
}

/// Number of leading bits that two addresses share. `None` if packets cannot go from one to the other: their IP versions differ, or only
/// one of them is link-local (RFC 4007 §9).
fn common_bits(local: IpAddr, remote: IpAddr) -> Option<u32> {
    match (local, remote) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) if a.is_unicast_link_local() == b.is_unicast_link_local() => {
            Some((a.to_bits() ^ b.to_bits()).leading_zeros())
        }
        _ => None,
    }
}

/// The local address of the first path, to `remote`: the address at which `inbound`, the packet that completed set-up, arrived, if it came
/// from `remote`.
pub(crate) fn set_up_address(config: &Config, inbound: &Inbound, remote: IpAddr) -> Option<IpAddr> {
    if remote == inbound.remote.ip() {
        return inbound.local;
    }
    local_address_for(config, remote, inbound.local, |_| 0)
}
