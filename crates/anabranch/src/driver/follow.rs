//! Following the addresses of the host: when its interfaces or routes change, each association moves to the address from which the system
//! now sends to its peer (RFC 5061).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::hub::{Hub, Shared, stopped};
use crate::interfaces::{Interfaces, host_addresses};
use crate::lock::lock;

/// The longest time between two checks: an IPv6 address may be usable only a while after it was reported.
const CHECK: Duration = Duration::from_secs(1);

impl Hub {
    /// Follows the addresses of the host until the endpoint ends.
    pub(super) async fn watch_interfaces(
        self: Arc<Self>,
        interfaces: Interfaces,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let associations: Vec<_> = lock(&self.registry).associations.values().cloned().collect();
            if !associations.is_empty() {
                match host_addresses() {
                    Ok(addresses) => associations.iter().for_each(|one| self.follow(one, &addresses)),
                    Err(error) => tracing::warn!(%error, "the addresses of this host cannot be read"),
                }
            }
            tokio::select! {
                () = interfaces.changed() => {}
                () = tokio::time::sleep(CHECK) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    /// Tells one association which of its addresses the host still has, and moves it to the address of the route to its peer.
    fn follow(&self, association: &Shared, host: &[IpAddr]) {
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
