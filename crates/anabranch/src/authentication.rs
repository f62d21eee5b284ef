//! Keys for authenticated chunks (RFC 4895), for an association's handle.

use anabranch_proto::{AuthenticationKeyError, SharedKey};

use crate::association::Association;

/// Authenticated chunks (RFC 4895). Both endpoints need `Config::authentication`. `Association::stats` has what was negotiated, and
/// [`crate::Event::Authentication`] tells when the peer begins to use another key.
///
/// To change the key while data flows, give the new key to both endpoints, make it active at both, then remove the old one:
///
/// ```no_run
/// # fn example(association: anabranch::Association) -> Result<(), Box<dyn std::error::Error>> {
/// use anabranch::SharedKey;
///
/// association.put_key(SharedKey {
///     id: 2,
///     secret: "the new secret".into(),
/// })?;
/// // After the peer has done the same:
/// association.activate_key(2)?;
/// // After the event that the peer uses key 2, and the acknowledgement of all that was signed with key 1:
/// association.remove_key(1)?;
/// # Ok(())
/// # }
/// ```
impl Association {
    /// Adds a shared key, or replaces the key with the same identifier (RFC 6458 §8.3.2). The peer needs the same key before
    /// [`Association::activate_key`].
    ///
    /// # Errors
    /// See [`AuthenticationKeyError`]; nothing was changed then.
    pub fn put_key(&self, key: SharedKey) -> Result<(), AuthenticationKeyError> {
        self.shared()
            .with(|state, _| state.core.authentication_keys().put(key))
    }

    /// Signs with this key from now on, retransmissions included (RFC 6458 §8.1.20). If the peer does not have the key, it discards what is
    /// signed with it until it gets the key.
    ///
    /// # Errors
    /// See [`AuthenticationKeyError`]; nothing was changed then.
    pub fn activate_key(&self, id: u16) -> Result<(), AuthenticationKeyError> {
        self.shared()
            .with(|state, _| state.core.authentication_keys().activate(id))
    }

    /// Forgets a key (RFC 6458 §8.3.4): what the peer signs with it is discarded from now on. The key that signs cannot be removed.
    ///
    /// # Errors
    /// See [`AuthenticationKeyError`]; nothing was changed then.
    pub fn remove_key(&self, id: u16) -> Result<(), AuthenticationKeyError> {
        self.shared()
            .with(|state, _| state.core.authentication_keys().remove(id))
    }
}
