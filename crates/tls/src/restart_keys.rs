//! Owns the restart keys of an association (draft-ietf-tsvwg-sctp-dtls-chunk §5.4), and the form in which they are stored.

use core::fmt;

use anabranch_proto::FIRST_EPOCH;
use zeroize::Zeroizing;

use crate::exporter::Material;
use crate::key_file::PublicKey;
use crate::peer::PeerIdentity;
use crate::record::{DtlsKey, IV_LEN};
use crate::suite::Suite;

/// The first bytes of the stored form, with its version.
const MAGIC: &[u8; 8] = b"restart1";

/// The kinds of identities.
const PUBLIC_KEY: u8 = 0;
const CERTIFICATES: u8 = 1;

/// The keys with which an endpoint that lost its state restarts one association: see [`crate::TlsSettings::keep_restart_keys`]. Everyone who
/// has them can restart the association in place of the endpoint. Secrets are wiped when they are dropped.
pub struct RestartKeys {
    epoch: u64,
    receiving: Material,
    sending: Material,
    peer: PeerIdentity,
}

impl fmt::Debug for RestartKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestartKeys")
            .field("epoch", &self.epoch)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl RestartKeys {
    pub(crate) fn new(epoch: u64, receiving: Material, sending: Material, peer: PeerIdentity) -> Self {
        Self {
            epoch,
            receiving,
            sending,
            peer,
        }
    }

    /// The epoch of the keys.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The certificate or key of the peer.
    #[must_use]
    pub fn peer(&self) -> &PeerIdentity {
        &self.peer
    }

    /// The cipher suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.sending.suite
    }

    /// The key for packets of the peer, and the key for packets to it; `None` if the cryptography refuses them.
    #[must_use]
    pub fn keys(&self) -> Option<(DtlsKey, DtlsKey)> {
        self.receiving.key().zip(self.sending.key())
    }

    /// The stored form: version, cipher suite, epoch, the key, key for sequence numbers and initialization vector of each direction, and the
    /// identity of the peer.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let identity = match &self.peer {
            PeerIdentity::Key(key) => [&[PUBLIC_KEY], &key.to_spki()[..]].concat(),
            PeerIdentity::Certificate(chain) => {
                let mut bytes = vec![CERTIFICATES];
                for certificate in chain {
                    bytes.extend_from_slice(&(certificate.len() as u32).to_be_bytes());
                    bytes.extend_from_slice(certificate);
                }
                bytes
            }
        };
        // Growth would leave copies of the secrets that nothing wipes.
        let secrets = 2 * (2 * self.suite().key_len() + IV_LEN);
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAGIC.len() + 9 + secrets + identity.len()));
        bytes.extend_from_slice(MAGIC);
        bytes.push(self.suite() as u8);
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        for material in [&self.receiving, &self.sending] {
            bytes.extend_from_slice(&material.key);
            bytes.extend_from_slice(&material.sn_key);
            bytes.extend_from_slice(&material.iv[..]);
        }
        bytes.extend_from_slice(&identity);
        bytes
    }

    /// Reads the stored form; `None` if it is of another version, or was changed or cut off.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(MAGIC)?;
        let (&suite, bytes) = bytes.split_first()?;
        let suites = [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305];
        let suite = suites.into_iter().find(|known| *known as u8 == suite)?;
        let (epoch, mut bytes) = bytes.split_first_chunk()?;
        let epoch = u64::from_be_bytes(*epoch);
        let mut take = |len| {
            let (taken, rest) = bytes.split_at_checked(len)?;
            bytes = rest;
            Some(taken)
        };
        let mut material = || {
            Some(Material {
                suite,
                key: Zeroizing::new(take(suite.key_len())?.to_vec()),
                sn_key: Zeroizing::new(take(suite.key_len())?.to_vec()),
                iv: Zeroizing::new(take(IV_LEN)?.try_into().ok()?),
            })
        };
        let (receiving, sending) = (material()?, material()?);
        let peer = identity(bytes)?;
        (epoch >= FIRST_EPOCH).then_some(Self::new(epoch, receiving, sending, peer))
    }
}

/// Reads the identity of a peer.
fn identity(bytes: &[u8]) -> Option<PeerIdentity> {
    let (&kind, mut bytes) = bytes.split_first()?;
    match kind {
        PUBLIC_KEY => PublicKey::from_spki(bytes).map(PeerIdentity::Key),
        CERTIFICATES => {
            let mut chain = Vec::new();
            while let Some((len, rest)) = bytes.split_first_chunk() {
                let (certificate, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
                chain.push(certificate.to_vec());
                bytes = rest;
            }
            (bytes.is_empty() && !chain.is_empty()).then_some(PeerIdentity::Certificate(chain))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use anabranch_proto::RecordKey;

    use super::*;

    pub(crate) fn keys(suite: Suite, peer: PeerIdentity) -> RestartKeys {
        let material = |byte| Material {
            suite,
            key: Zeroizing::new(vec![byte; suite.key_len()]),
            sn_key: Zeroizing::new(vec![byte + 1; suite.key_len()]),
            iv: Zeroizing::new([byte + 2; IV_LEN]),
        };
        RestartKeys::new(7, material(1), material(4), peer)
    }

    pub(crate) fn peers() -> [PeerIdentity; 2] {
        let key = crate::SecretKey::generate().unwrap().public();
        let chain = vec![vec![1; 300], vec![2; 70_000]];
        [PeerIdentity::Key(key), PeerIdentity::Certificate(chain)]
    }

    #[test]
    fn stored_keys_are_read_and_nothing_else() {
        for suite in [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
            for peer in peers() {
                let keys = keys(suite, peer);
                let bytes = keys.to_bytes();
                assert_eq!(bytes.len(), bytes.capacity(), "no copy was left behind");
                let read = RestartKeys::from_bytes(&bytes).unwrap();
                assert_eq!((read.epoch(), read.suite(), read.peer()), (7, suite, keys.peer()));
                let (receiving, sending) = (keys.keys().unwrap(), read.keys().unwrap());
                for (ours, theirs) in [(receiving.0, sending.0), (receiving.1, sending.1)] {
                    let (mut one, mut other) = (*b"chunks", *b"chunks");
                    assert_eq!(ours.seal(1, [1; 3], &mut one), theirs.seal(1, [1; 3], &mut other));
                    assert_eq!((one, ours.mask([3; 16])), (other, theirs.mask([3; 16])));
                }
                for len in (0..bytes.len()).filter(|len| *len < 200 || len % 1000 == 0) {
                    assert!(
                        RestartKeys::from_bytes(&bytes[..len]).is_none_or(|read| read.peer() != keys.peer())
                    );
                }
                assert!(RestartKeys::from_bytes(&[&bytes[..], &[0]].concat()).is_none());
            }
        }
    }
}
