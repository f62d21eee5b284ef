//! Following the addresses of the host (RFC 5061). An association with named paths has a path from each address that its sources have now.
//! Another one moves, when interfaces or routes change, to the address from which the system now sends to its peer.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anabranch_proto::{AddressError, Timestamp};
use tokio::sync::watch;

use super::hub::{Hub, Shared, stopped};
use super::state::State;
use crate::interfaces::{Interfaces, host_addresses};
use crate::lock::lock;
use crate::path_source::{Host, PathSource, PathSourceError};

/// The longest time between two checks: an IPv6 address may be usable only a while after it was reported.
const CHECK: Duration = Duration::from_secs(1);
/// The most local addresses of an association (RFC 5061 has no limit; the core has this one).
const MOST: usize = 16;

impl Hub {
    pub(super) fn start_following(self: &Arc<Self>, interfaces: Interfaces) {
        if !self.following.has_task.swap(true, Ordering::Relaxed) {
            tokio::spawn(Arc::clone(self).follow_host(interfaces, self.stop.subscribe()));
        }
    }

    /// Follows the addresses of the host until the endpoint ends.
    async fn follow_host(self: Arc<Self>, interfaces: Interfaces, mut stop: watch::Receiver<bool>) {
        loop {
            if let Err(error) = self.follow_now() {
                tracing::warn!(%error, "the addresses of this host cannot be read");
            }
            tokio::select! {
                () = interfaces.changed() => {}
                () = tokio::time::sleep(CHECK) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    fn follow_now(self: &Arc<Self>) -> io::Result<()> {
        let associations: Vec<_> = lock(&self.registry).associations.values().cloned().collect();
        let of = |one: &Arc<Shared>| one.read(|state| state.sources.clone());
        let (named, moving): (Vec<_>, Vec<_>) = associations.iter().partition(|one| !of(one).is_empty());
        if self.following.moves && !moving.is_empty() {
            let addresses = host_addresses()?;
            moving.iter().for_each(|one| self.follow_route(one, &addresses));
        }
        let _turn = lock(&self.following.turn);
        let mut sources: Vec<_> = named.iter().flat_map(|one| of(one)).collect();
        sources.extend_from_slice(self.following.sources());
        if sources.is_empty() {
            return Ok(());
        }
        let host = Host::read(&sources)?;
        for association in named {
            // A panic has ended the association.
            let followed = association.try_with(|state, now| self.follow_sources(state, &host, now));
            if let Ok(Err(error)) = followed {
                tracing::debug!(association = association.id.0, %error, "the paths stay as they are");
            }
        }
        let mut in_use = host.addresses_of_all(self.following.sources(), &self.bound_addresses());
        for association in &associations {
            let local = association.try_with(|state, _| state.core.local_addresses().list());
            in_use.extend(local.unwrap_or_default());
        }
        self.sockets.close_unused(|address| in_use.contains(&address));
        Ok(())
    }

    /// Gives an association a path from each address that its sources have now, and takes those away whose address the host has lost.
    fn follow_sources(
        self: &Arc<Self>,
        state: &mut State,
        host: &Host,
        now: Timestamp,
    ) -> Result<(), AddressError> {
        let known = state.core.local_addresses().list();
        let mut wanted: Vec<_> = known.iter().copied().filter(|one| host.has(*one)).collect();
        for address in host.addresses_of_all(&state.sources, &known) {
            let is_new = !wanted.contains(&address) && wanted.len() < MOST;
            match self.open_for(address, host) {
                Ok(()) if is_new => wanted.push(address),
                Ok(()) => {}
                // An IPv6 address is not usable before the system has checked that no other host has it.
                Err(error) => tracing::debug!(%address, %error, "no socket on an address of this host"),
            }
        }
        // Without any network the addresses stay, and those that come back are found again. An empty list says that the peer cannot
        // be told.
        if known.is_empty() || wanted.is_empty() || same(&known, &wanted) {
            return Ok(());
        }
        tracing::info!(?known, ?wanted, "the addresses of this host changed");
        state.core.local_addresses().set(now, &wanted)
    }

    /// Opens a socket on an address of this host, bound to its interface, unless there is one.
    fn open_for(self: &Arc<Self>, address: IpAddr, host: &Host) -> io::Result<()> {
        let _runtime = self.following.runtime.enter();
        if let Some(socket) = self
            .sockets
            .open(address, host.interface_of(address), self.transport)?
        {
            self.start_receiving(socket);
        }
        Ok(())
    }

    /// The addresses of the sockets, without unspecified ones.
    fn bound_addresses(&self) -> Vec<IpAddr> {
        let sockets = self.sockets.all();
        let addresses = sockets.iter().map(|socket| socket.local().ip());
        addresses.filter(|address| !address.is_unspecified()).collect()
    }

    /// The addresses of the endpoint's sources that have a socket now, in the order of the sources. A new association lists them.
    pub(crate) fn source_addresses(&self) -> Vec<IpAddr> {
        let bound = self.bound_addresses();
        let Ok(host) = Host::read(self.following.sources()) else {
            return bound;
        };
        let mut addresses = host.addresses_of_all(self.following.sources(), &bound);
        addresses.retain(|address| bound.contains(address));
        if addresses.is_empty() { bound } else { addresses }
    }

    /// Tells one association which of its addresses the host still has, and moves it to the address of the route to its peer.
    fn follow_route(&self, association: &Shared, host: &[IpAddr]) {
        let known = association
            .try_with(|state, _| (state.core.local_addresses().list(), state.core.remote_address()));
        let Ok((known, remote)) = known else { return };
        let Some(route) = self.source_towards(remote).filter(|route| host.contains(route)) else {
            return;
        };
        let left: Vec<_> = known
            .iter()
            .copied()
            .filter(|address| host.contains(address))
            .collect();
        if known.is_empty() || (left.contains(&route) && left == known) {
            return;
        }
        let moved = association.try_with(|state, now| {
            let mut addresses = state.core.local_addresses();
            match left.as_slice() {
                [] => addresses.set(now, &[route]),
                left if left != known => addresses
                    .set(now, left)
                    .and_then(|()| addresses.move_to(now, route)),
                _ => addresses.move_to(now, route),
            }
        });
        match moved {
            Ok(Ok(())) => tracing::info!(association = association.id.0, %route, "the association moves"),
            Ok(Err(error)) => tracing::debug!(association = association.id.0, %error, "it does not move"),
            Err(_) => {}
        }
    }
}

fn same(one: &[IpAddr], other: &[IpAddr]) -> bool {
    one.len() == other.len() && one.iter().all(|address| other.contains(address))
}

impl Shared {
    /// Adds a source of paths, and follows it from now on.
    pub(crate) fn add_source(&self, source: PathSource) -> Result<(), PathSourceError> {
        let hub = &self.hub;
        if !hub.following.waits_for_interfaces() {
            source.check()?;
        }
        let _turn = lock(&hub.following.turn);
        self.with(|state, now| {
            let known = state.core.local_addresses().list();
            if known.is_empty() {
                return Err(AddressError::NotNegotiated.into());
            }
            if let PathSource::Address(address) = source
                && known.len() == MOST
                && !known.contains(&address)
            {
                return Err(AddressError::TooMany.into());
            }
            let before = state.sources.clone();
            if before.is_empty() {
                // The paths of set-up stay, and come back if their addresses do.
                state
                    .sources
                    .extend(known.iter().copied().map(PathSource::Address));
            }
            if !state.sources.contains(&source) {
                state.sources.push(source.clone());
            }
            let added = hub.add_now(state, &source, now);
            if added.is_err() {
                state.sources = before;
            }
            added
        })?;
        hub.follow_from_now();
        Ok(())
    }

    /// Removes a source of paths, and the addresses that no other source has.
    pub(crate) fn remove_source(&self, source: &PathSource) -> Result<(), PathSourceError> {
        let _turn = lock(&self.hub.following.turn);
        self.with(|state, now| {
            let known = state.core.local_addresses().list();
            let mut left = state.sources.clone();
            left.retain(|one| one != source);
            let host = match source {
                PathSource::Address(_) if left.iter().all(|one| matches!(one, PathSource::Address(_))) => {
                    Host::default()
                }
                _ => Host::read(&state.sources).map_err(PathSourceError::System)?,
            };
            let begin = match source {
                PathSource::Address(address) => vec![*address],
                _ => host.addresses_of(source, &known),
            };
            let kept = host.addresses_of_all(&left, &known);
            let is_kept =
                |address: &IpAddr| kept.contains(address) || left.contains(&PathSource::Address(*address));
            let wanted: Vec<_> = known
                .iter()
                .copied()
                .filter(|address| !begin.contains(address) || is_kept(address))
                .collect();
            if left.len() == state.sources.len() && wanted.len() == known.len() {
                return Err(PathSourceError::NotUsed(source.clone()));
            }
            if wanted.len() < known.len() {
                state.core.local_addresses().set(now, &wanted)?;
            }
            state.sources = left;
            Ok(())
        })
    }
}

impl Hub {
    /// Adds the addresses that a new source has now.
    fn add_now(
        self: &Arc<Self>,
        state: &mut State,
        source: &PathSource,
        now: Timestamp,
    ) -> Result<(), PathSourceError> {
        let host = match (Host::read(&state.sources), source) {
            (Ok(host), _) => host,
            // Systems that list no interfaces have addresses nevertheless.
            (Err(_), PathSource::Address(address)) => {
                self.open_for(*address, &Host::default())
                    .map_err(|source| PathSourceError::Socket {
                        address: *address,
                        source,
                    })?;
                return Ok(state.core.local_addresses().add(now, *address)?);
            }
            (Err(error), _) => return Err(PathSourceError::System(error)),
        };
        if let PathSource::Address(address) = source
            && host.has(*address)
        {
            self.open_for(*address, &host)
                .map_err(|source| PathSourceError::Socket {
                    address: *address,
                    source,
                })?;
        }
        Ok(self.follow_sources(state, &host, now)?)
    }

    /// Starts the task that follows the host, if the system reports changes.
    fn follow_from_now(self: &Arc<Self>) {
        if self.following.has_task.load(Ordering::Relaxed) {
            return;
        }
        let _runtime = self.following.runtime.enter();
        match Interfaces::open() {
            Ok(interfaces) => self.start_following(interfaces),
            Err(error) => tracing::debug!(%error, "the addresses of this host are not followed"),
        }
    }
}
