//! Dynamic addresses (RFC 5061), for an association's handle.

use std::net::IpAddr;

use anabranch_proto::AddressError;

use crate::association::Association;

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
