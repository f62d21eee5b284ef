//! Owns the hashes by which the sender of an INIT shows that it knows the public key of the receiver, as `mac1` does in WireGuard.

use anabranch_proto::InitGuard;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;

use crate::accepted_keys::AcceptedKeys;
use crate::key_file::PublicKey;

/// Bytes of a hash: HMAC-SHA-256, truncated.
const HASH_LEN: usize = 16;
/// The most hashes in an INIT, so that it fits every path.
const MOST_HASHES: usize = 16;
/// Separates the key of the hash from other uses of the public key.
const LABEL: &[u8] = b"anabranch known key 1";

/// An INIT has a hash for each peer that its sender accepts, and the receiver looks for that under its own public key. A stranger does not
/// know this key and cannot make the hash. The hash does not prove who the sender is, because all peers know the key.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    own: hmac::Key,
    peers: Vec<hmac::Key>,
}

impl KnownKeys {
    pub(crate) fn new(own: PublicKey, peers: &AcceptedKeys) -> Self {
        Self {
            own: hash_key(own),
            peers: peers.first(MOST_HASHES).into_iter().map(hash_key).collect(),
        }
    }
}

fn hash_key(key: PublicKey) -> hmac::Key {
    let mut context = Context::new(&SHA256);
    context.update(LABEL);
    context.update(&key.to_spki());
    hmac::Key::new(hmac::HMAC_SHA256, context.finish().as_ref())
}

fn hash(key: &hmac::Key, init: &[u8]) -> [u8; HASH_LEN] {
    let mut hash = [0; HASH_LEN];
    hash.copy_from_slice(&hmac::sign(key, init).as_ref()[..HASH_LEN]);
    hash
}

impl InitGuard for KnownKeys {
    fn prove(&self, init: &[u8]) -> Vec<u8> {
        self.peers.iter().flat_map(|key| hash(key, init)).collect()
    }

    fn accepts(&self, init: &[u8], proof: &[u8]) -> bool {
        if proof.len() > MOST_HASHES * HASH_LEN {
            return false;
        }
        let own = hash(&self.own, init);
        let mut hashes = proof.chunks_exact(HASH_LEN);
        hashes.any(|hash| verify_slices_are_equal(hash, &own).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_a_known_key_accepts() {
        let key = |byte: u8| PublicKey::from_spki(&[&SPKI[..], &[byte; 32]].concat()).unwrap();
        const SPKI: [u8; 12] = [
            0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00,
        ];
        let client = KnownKeys::new(key(1), &AcceptedKeys::new([key(2), key(3)]));
        let proof = client.prove(b"init");
        assert_eq!(proof.len(), 2 * HASH_LEN);
        for (own, accepts) in [(1, false), (2, true), (3, true), (4, false)] {
            let server = KnownKeys::new(key(own), &AcceptedKeys::default());
            assert_eq!(server.accepts(b"init", &proof), accepts, "{own}");
            assert!(!server.accepts(b"tini", &proof));
            assert!(!server.accepts(b"init", &proof[..HASH_LEN - 1]));
            assert!(!server.accepts(b"init", &[]));
            assert!(!server.accepts(b"init", &proof.repeat(9)), "too many hashes");
        }
        let many: Vec<PublicKey> = (0..=255).map(key).collect();
        assert_eq!(
            KnownKeys::new(key(1), &AcceptedKeys::new(many))
                .prove(b"init")
                .len(),
            256
        );
    }
}
