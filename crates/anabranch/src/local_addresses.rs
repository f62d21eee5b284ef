//! Paths and dynamic addresses (RFC 5061), for an association's handle.

use std::net::IpAddr;

use anabranch_proto::{AddressError, PathStats};

use crate::association::Association;
use crate::path_source::{PathSource, PathSourceError};

/// Paths while the association lasts.
impl Association {
    /// Adds paths that begin at an address of this host or at a network interface, and follows it: if an address appears, it has a path one
    /// round trip later; if the host loses it, its paths are removed at once. The endpoint opens a socket on each address, bound to the
    /// interface where the system can. The paths that the association has stay, and are followed too.
    ///
    /// Both endpoints need `Config::dynamic_addresses`. [`crate::Event::Addresses`] and [`crate::Event::PathChanged`] report the results.
    ///
    /// ```no_run
    /// # async fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
    /// association.add_path("wwan0")?;
    /// for path in association.paths() {
    ///     println!("{:?} to {}: {:?}", path.local, path.remote, path.state);
    /// }
    /// association.remove_path("wwan0")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`PathSourceError`]; nothing was changed then.
    pub fn add_path(&self, source: impl Into<PathSource>) -> Result<(), PathSourceError> {
        self.shared().add_source(source.into())
    }

    /// Removes the paths that begin there, except those that another source of the association has too.
    ///
    /// # Errors
    /// See [`PathSourceError`]: above all, an association keeps one local address.
    pub fn remove_path(&self, source: impl Into<PathSource>) -> Result<(), PathSourceError> {
        self.shared().remove_source(&source.into())
    }

    /// The name of the network interface at which the paths with this local address begin, while they last. `None` for paths that
    /// [`EndpointBuilder::bind_paths`](crate::EndpointBuilder::bind_paths) and [`Association::add_path`] did not make.
    #[must_use]
    pub fn interface(&self, local: IpAddr) -> Option<String> {
        self.shared().hub.sockets.interface_of(local)
    }

    /// The paths that the association has now, with their state and counters: those of [`Association::stats`].
    #[must_use]
    pub fn paths(&self) -> Vec<PathStats> {
        self.stats().paths
    }
}

/// Local addresses. Both endpoints need `Config::dynamic_addresses`. [`crate::Event::Addresses`] reports the results.
///
/// The endpoint must be bound to an unspecified address, or to each of the addresses. With
/// [`crate::EndpointBuilder::watch_interfaces`] the endpoint follows the addresses of the host by itself.
impl Association {
    /// The addresses that this endpoint has, as far as the association knows. Empty if dynamic addresses were not negotiated.
    #[must_use]
    pub fn local_addresses(&self) -> Vec<IpAddr> {
        self.shared().with(|state, _| state.core.local_addresses().list())
    }

    /// Sets the addresses that this endpoint has now, and tells the peer of the differences. If the peer knows none of them, only the
    /// request leaves until the peer has answered.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn set_local_addresses(&self, addresses: &[IpAddr]) -> Result<(), AddressError> {
        self.shared()
            .with(|state, now| state.core.local_addresses().set(now, addresses))
    }

    /// Adds an address of this endpoint, which then has a path to the peer (`docs/PATHS.md`).
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn add_local_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.shared()
            .with(|state, now| state.core.local_addresses().add(now, address))
    }

    /// Deletes an address of this endpoint.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn remove_local_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.shared()
            .with(|state, now| state.core.local_addresses().remove(now, address))
    }

    /// Replaces all addresses by this one. The others stay in use until the peer knows it and has tested it with a HEARTBEAT (make before
    /// break).
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn move_to(&self, address: IpAddr) -> Result<(), AddressError> {
        self.shared()
            .with(|state, now| state.core.local_addresses().move_to(now, address))
    }

    /// Asks the peer to send to this address while it is reachable. It is advice.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn ask_primary_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.shared()
            .with(|state, now| state.core.local_addresses().ask_primary(now, address))
    }
}
