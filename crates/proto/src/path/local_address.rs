//! Which local address goes with an address of the peer (RFC 9260 §5.1.2, §6.4).

use core::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

use super::{PathId, Paths};
use crate::config::Config;
use crate::inbound::Inbound;
use crate::time::Timestamp;

impl Paths {
    /// The packet that completed set-up came to an address that the peer knows. If this endpoint lists no addresses, it is the
    /// only one.
    pub(crate) fn adopt_local_address(&mut self, config: &Config, inbound: &Inbound) {
        let listed = !config.local_addresses.is_empty();
        for path in self.iter_mut().filter(|path| !listed || path.local.is_none()) {
            let local = set_up_address(config, inbound, path.remote.ip());
            path.local = local.or(path.local);
        }
    }

    /// Adds a path for each further address of the peer (§5.1.2 C) that a local address goes with; returns the addresses of
    /// the new paths.
    pub(crate) fn add_peer_addresses(
        &mut self,
        now: Timestamp,
        config: &Config,
        addresses: &[IpAddr],
    ) -> Vec<SocketAddr> {
        let first = self.path(PathId(0));
        let (set_up, first) = (first.local, first.remote);
        let mut added = Vec::new();
        for address in addresses {
            let in_use = |local| self.iter().filter(|path| path.local == Some(local)).count();
            let local = local_address_for(config, *address, set_up, in_use);
            // The UDP port is that of the first path, and the interface too, for a link-local address.
            let mut remote = first;
            remote.set_ip(*address);
            if self.add(local, remote, config, now).is_some() {
                added.push(remote);
            }
        }
        added
    }
}

/// The local address from which packets go to this address of the peer's: the one that is told to be for it; else the listed
/// one that shares most leading bits with it, on the same subnet if there is one; of several, the one with the fewest paths,
/// in the order in which they are listed. If none that is listed reaches it, the one that set-up used: the peer knows no other
/// (§5.1.2), and would answer whatever came from another with an ABORT (§8.4).
fn local_address_for(
    config: &Config,
    remote: IpAddr,
    set_up: Option<IpAddr>,
    in_use: impl Fn(IpAddr) -> usize,
) -> Option<IpAddr> {
    if let Some(local) = config.paired_with(remote) {
        return Some(local);
    }
    let own = config.local_addresses.iter().copied();
    let candidates =
        own.filter_map(|local| Some((local, Reverse(common_bits(local, remote)?), in_use(local))));
    let best = candidates.min_by_key(|(_, common, in_use)| (*common, *in_use));
    best.map(|(local, ..)| local)
        .or_else(|| set_up.filter(|local| common_bits(*local, remote).is_some()))
}

/// Leading bits that two addresses share; `None` if packets cannot go from one to the other: they are of two versions of IP,
/// or one of them alone is link-local (RFC 4007 §9).
fn common_bits(local: IpAddr, remote: IpAddr) -> Option<u32> {
    match (local, remote) {
        (IpAddr::V4(a), IpAddr::V4(b)) => Some((a.to_bits() ^ b.to_bits()).leading_zeros()),
        (IpAddr::V6(a), IpAddr::V6(b)) if a.is_unicast_link_local() == b.is_unicast_link_local() => {
            Some((a.to_bits() ^ b.to_bits()).leading_zeros())
        }
        _ => None,
    }
}

/// The local address of the first path, to `remote`, where the packet that completed set-up is `inbound`: the one it came to,
/// if it came from there.
pub(crate) fn set_up_address(config: &Config, inbound: &Inbound, remote: IpAddr) -> Option<IpAddr> {
    if remote == inbound.remote.ip() {
        return inbound.local;
    }
    local_address_for(config, remote, inbound.local, |_| 0)
}
