//! Endpoint pair shared keys, and the association shared keys made from them (RFC 4895 §6.1).

use core::cmp::Ordering;

use bytes::Bytes;

use crate::config::{AuthenticationConfig, MOST_KEYS, SharedKey};
use crate::error::AuthenticationKeyError;

/// The endpoint pair shared keys, and which of them signs.
#[derive(Clone, Debug)]
pub(super) struct SharedKeys {
    keys: Vec<SharedKey>,
    active: u16,
}

impl SharedKeys {
    pub(super) fn new(config: &AuthenticationConfig) -> Self {
        let mut keys = config.keys.clone();
        if keys.is_empty() {
            keys.push(SharedKey {
                id: 0,
                secret: Bytes::new(),
            });
        }
        let active = keys[0].id;
        Self { keys, active }
    }

    /// The identifier of the key that signs.
    pub(super) fn active(&self) -> u16 {
        self.active
    }

    /// The secret of a key.
    pub(super) fn secret(&self, id: u16) -> Option<&[u8]> {
        let key = self.keys.iter().find(|key| key.id == id)?;
        Some(&key.secret)
    }

    pub(super) fn activate(&mut self, id: u16) -> Result<(), AuthenticationKeyError> {
        if self.secret(id).is_none() {
            return Err(AuthenticationKeyError::Unknown(id));
        }
        self.active = id;
        Ok(())
    }

    pub(super) fn put(&mut self, key: SharedKey) -> Result<(), AuthenticationKeyError> {
        if !key.fits() {
            return Err(AuthenticationKeyError::TooLong(key.secret.len()));
        }
        let full = self.keys.len() >= MOST_KEYS;
        match self.keys.iter_mut().find(|old| old.id == key.id) {
            Some(old) => *old = key,
            None if full => return Err(AuthenticationKeyError::TooMany),
            None => self.keys.push(key),
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, id: u16) -> Result<(), AuthenticationKeyError> {
        if id == self.active {
            return Err(AuthenticationKeyError::Active(id));
        }
        let before = self.keys.len();
        self.keys.retain(|key| key.id != id);
        if self.keys.len() == before {
            return Err(AuthenticationKeyError::Unknown(id));
        }
        Ok(())
    }
}

/// The two key vectors of an association, in the order in which they follow the endpoint pair shared key.
#[derive(Debug)]
pub(super) struct KeyVectors {
    concatenated: Vec<u8>,
}

impl KeyVectors {
    pub(super) fn new(one: &[u8], other: &[u8]) -> Self {
        let concatenated = match by_number(one, other) {
            Ordering::Less | Ordering::Equal => [one, other].concat(),
            Ordering::Greater => [other, one].concat(),
        };
        Self { concatenated }
    }

    /// The association shared key for an endpoint pair shared key.
    pub(super) fn association_key(&self, secret: &[u8]) -> Vec<u8> {
        [secret, &self.concatenated].concat()
    }
}

/// Compares byte vectors as numbers in network byte order. Equal numbers of different length: the shorter vector comes first.
fn by_number(one: &[u8], other: &[u8]) -> Ordering {
    fn digits(vector: &[u8]) -> &[u8] {
        let zeros = vector.iter().take_while(|byte| **byte == 0).count();
        &vector[zeros..]
    }
    let (first, second) = (digits(one), digits(other));
    let by_digits = first.len().cmp(&second.len()).then_with(|| first.cmp(second));
    by_digits.then(one.len().cmp(&other.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_ordered_as_numbers() {
        // The smaller number first, then the shorter vector.
        let ordered: [(&[u8], &[u8]); 6] = [
            (&[1, 2], &[1, 3]),
            (&[9], &[1, 0]),
            (&[0, 0, 9], &[1, 0]),
            (&[5], &[0, 5]),
            (&[], &[0]),
            (&[1, 255], &[2, 0]),
        ];
        for (less, greater) in ordered {
            let expected = [b"key", less, greater].concat();
            for (one, other) in [(less, greater), (greater, less)] {
                let vectors = KeyVectors::new(one, other);
                assert_eq!(vectors.association_key(b"key"), expected, "{one:?} {other:?}");
            }
        }
        assert_eq!(
            KeyVectors::new(&[4, 2], &[4, 2]).association_key(&[]),
            [4, 2, 4, 2]
        );
    }

    #[test]
    fn keys_are_added_and_removed() {
        let key = |id: u16| SharedKey {
            id,
            secret: Bytes::from(vec![id as u8; 3]),
        };
        let mut keys = SharedKeys::new(&AuthenticationConfig::default());
        assert_eq!((keys.secret(0), keys.secret(1)), (Some(&[][..]), None));
        assert_eq!(keys.activate(1), Err(AuthenticationKeyError::Unknown(1)));
        assert_eq!(keys.put(key(1)), Ok(()));
        assert_eq!(keys.activate(1), Ok(()));
        assert_eq!(keys.remove(1), Err(AuthenticationKeyError::Active(1)));
        assert_eq!(keys.remove(0), Ok(()));
        assert_eq!(keys.remove(0), Err(AuthenticationKeyError::Unknown(0)));
        assert_eq!((keys.active(), keys.secret(1)), (1, Some(&[1, 1, 1][..])));
        let long = SharedKey {
            id: 2,
            secret: vec![0; 2000].into(),
        };
        assert_eq!(keys.put(long), Err(AuthenticationKeyError::TooLong(2000)));
        for id in 2..=MOST_KEYS as u16 {
            assert_eq!(keys.put(key(id)), Ok(()));
        }
        assert_eq!(keys.put(key(0)), Err(AuthenticationKeyError::TooMany));
        assert_eq!(keys.put(key(5)), Ok(()), "in place of the old one");
    }

    #[test]
    fn with_keys_key_0_must_be_listed() {
        let config = AuthenticationConfig {
            keys: vec![SharedKey {
                id: 7,
                secret: Bytes::from_static(b"x"),
            }],
            ..AuthenticationConfig::default()
        };
        assert_eq!(SharedKeys::new(&config).secret(0), None);
    }
}
