//! Owns the public keys of the accepted peers, which may change while an endpoint is open.

use std::sync::{Arc, PoisonError, RwLock};

use crate::key_file::PublicKey;

/// The public keys of the peers that an endpoint accepts ([`crate::Trust::accepted_keys`]). All clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct AcceptedKeys(Arc<RwLock<Vec<PublicKey>>>);

impl AcceptedKeys {
    /// A list of these keys.
    #[must_use]
    pub fn new(keys: impl Into<Vec<PublicKey>>) -> Self {
        Self(Arc::new(RwLock::new(keys.into())))
    }

    /// Accepts these peers alone from now on. A peer that is not among them sets up no association any more, and an association with it ends
    /// when its keys are replaced next, within [`crate::TlsSettings::rekey_after`]; a program may end it before. The endpoint's own INITs still
    /// show that it knows the first list.
    pub fn replace(&self, keys: impl Into<Vec<PublicKey>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys.into();
    }

    /// Whether the peer with this key is accepted.
    #[must_use]
    pub fn contains(&self, key: &PublicKey) -> bool {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.contains(key)
    }

    /// Whether no peer is accepted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first(1).is_empty()
    }

    /// The first keys, at most this number.
    pub(crate) fn first(&self, most: usize) -> Vec<PublicKey> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().take(most).copied().collect()
    }
}
