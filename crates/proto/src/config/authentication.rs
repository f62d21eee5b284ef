//! The settings of authenticated chunks (RFC 4895).

use anabranch_wire::chunk::kind;
use bytes::Bytes;

use super::error::{ConfigError, check};
use super::settings::settings;

/// The most endpoint pair shared keys of an association.
pub(crate) const MOST_KEYS: usize = 64;
/// The longest endpoint pair shared key in bytes.
const MOST_SECRET: usize = 1024;

settings! {
    /// Authenticated chunks (RFC 4895): the peer must sign chunks of these types with an HMAC, and this endpoint signs the chunks that the
    /// peer asks for.
    ///
    /// Without shared keys the HMAC protects only against attackers who did not see the set-up of the association (RFC 4895 §9).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AuthenticationConfig {
        /// The endpoint pair shared keys, each with its own identifier; at most 64. This endpoint signs with the first one, until the
        /// application activates another one. If the list is empty, the default, key 0 is in use and empty (RFC 4895 §6.2). If the list
        /// is not empty, key 0 is not accepted unless it is listed (RFC 4895 §9).
        pub keys: Vec<SharedKey>,
        /// The chunk types that are accepted only if the peer signed them, as numbers on the wire. INIT (1), INIT ACK (2), SHUTDOWN
        /// COMPLETE (14) and AUTH (15) cannot be signed (RFC 4895 §3.2). If interleaving is offered, DATA (0) in the list means I-DATA too, and
        /// FORWARD-TSN (192) means I-FORWARD-TSN. The experimental chunks with data are types of their own. Default empty.
        ///
        /// A signed ABORT alone ends the association if ABORT (6) is listed: the loss of the peer is then found later. With COOKIE ECHO (10)
        /// in the list, a peer that restarts cannot set up the association again before it has ended here (RFC 4895 §6.3).
        pub chunks: Vec<u8>,
    } experiments {
        /// The HMAC algorithms that the peer may use, in order of preference. SHA-1 must be among them (RFC 4895 §6.1). Default SHA-256,
        /// SHA-1.
        pub hmacs: Vec<HmacAlgorithm>,
        /// Whether set-up fails if the peer does not support authenticated chunks. Default true. If false, an association with such a peer
        /// works without authentication, and `chunks` has no effect there.
        pub required: bool,
    }
}

impl Default for AuthenticationConfig {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            chunks: Vec::new(),
            hmacs: vec![HmacAlgorithm::Sha256, HmacAlgorithm::Sha1],
            required: true,
        }
    }
}

impl AuthenticationConfig {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let never = [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE, kind::AUTH];
        check(&[
            (
                self.keys.len() <= MOST_KEYS,
                "authentication.keys",
                "must have at most 64 keys",
            ),
            (
                self.keys.iter().all(SharedKey::fits),
                "authentication.keys",
                "must have secrets of at most 1,024 bytes",
            ),
            (
                is_set(self.keys.iter().map(|key| key.id)),
                "authentication.keys",
                "must have a different identifier for each key",
            ),
            (
                !self.chunks.iter().any(|kind| never.contains(kind)),
                "authentication.chunks",
                "must not have INIT, INIT ACK, SHUTDOWN COMPLETE or AUTH",
            ),
            (
                is_set(self.chunks.iter().copied()),
                "authentication.chunks",
                "must not have a chunk type twice",
            ),
            (
                self.hmacs.contains(&HmacAlgorithm::Sha1),
                "authentication.hmacs",
                "must have SHA-1",
            ),
            (
                is_set(self.hmacs.iter().map(|hmac| hmac.id())),
                "authentication.hmacs",
                "must not have an algorithm twice",
            ),
        ])
    }
}

/// Whether no number occurs twice.
fn is_set<T: Ord>(numbers: impl Iterator<Item = T>) -> bool {
    let mut sorted: Vec<_> = numbers.collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// An endpoint pair shared key: a secret that both endpoints have (RFC 4895 §6.1).
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey {
    /// The Shared Key Identifier.
    pub id: u16,
    /// The secret, at most 1,024 bytes; it may be empty.
    pub secret: Bytes,
}

impl SharedKey {
    /// Whether the secret is not too long.
    pub(crate) fn fits(&self) -> bool {
        self.secret.len() <= MOST_SECRET
    }
}

/// Shows the identifier alone, so that no log has the secret.
impl core::fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The hash function of an HMAC (RFC 4895 §3.3, table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HmacAlgorithm {
    /// HMAC Identifier 1.
    Sha1,
    /// HMAC Identifier 3.
    Sha256,
}

impl HmacAlgorithm {
    /// The HMAC Identifier.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Self::Sha1 => 1,
            Self::Sha256 => 3,
        }
    }

    /// The algorithm with this HMAC Identifier, if it is supported.
    #[must_use]
    pub const fn from_id(id: u16) -> Option<Self> {
        match id {
            1 => Some(Self::Sha1),
            3 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// Length of the HMAC in bytes.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u16) -> SharedKey {
        SharedKey {
            id,
            secret: Bytes::from_static(b"secret"),
        }
    }

    #[test]
    fn settings_are_checked() {
        let usual = AuthenticationConfig::default;
        let keys = |keys: &[u16]| AuthenticationConfig {
            keys: keys.iter().copied().map(key).collect(),
            ..usual()
        };
        let chunks = |chunks: &[u8]| AuthenticationConfig {
            chunks: chunks.to_vec(),
            ..usual()
        };
        let hmacs = |hmacs: &[HmacAlgorithm]| AuthenticationConfig {
            hmacs: hmacs.to_vec(),
            ..usual()
        };
        for right in [
            usual(),
            keys(&[0, 7]),
            chunks(&[0, 193]),
            hmacs(&[HmacAlgorithm::Sha1]),
        ] {
            assert_eq!(right.validate(), Ok(()), "{right:?}");
        }
        let many: Vec<u16> = (0..65).collect();
        let mut long = keys(&[1]);
        long.keys[0].secret = vec![0; 1025].into();
        for wrong in [
            keys(&[7, 7]),
            keys(&many),
            long,
            chunks(&[1]),
            chunks(&[0, 2]),
            chunks(&[14]),
            chunks(&[15]),
            chunks(&[0, 3, 0]),
            hmacs(&[HmacAlgorithm::Sha256]),
            hmacs(&[HmacAlgorithm::Sha1; 2]),
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(format!("{:?}", key(5)), "SharedKey { id: 5, .. }");
    }
}
