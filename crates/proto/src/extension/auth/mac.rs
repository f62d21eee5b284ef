//! HMACs (RFC 2104) with the hash functions of RFC 4895.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::config::HmacAlgorithm;

/// The bytes of one block of SHA-1 and of SHA-256.
const BLOCK: usize = 64;

/// An HMAC whose key has been set: a copy computes one HMAC without hashing the key again.
#[derive(Clone, Debug)]
pub(super) enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl Keyed {
    pub(super) fn new(algorithm: HmacAlgorithm, key: &[u8]) -> Self {
        match algorithm {
            HmacAlgorithm::Sha1 => Self::Sha1(Hmac::new(&block(key, || Sha1::digest(key)).into())),
            HmacAlgorithm::Sha256 => Self::Sha256(Hmac::new(&block(key, || Sha256::digest(key)).into())),
        }
    }

    /// Writes the HMAC of these bytes to `out`, which is as long as the HMAC.
    pub(super) fn write(&self, parts: [&[u8]; 3], out: &mut [u8]) {
        match self.clone() {
            Self::Sha1(mac) => out.copy_from_slice(&over(mac, parts).finalize().into_bytes()),
            Self::Sha256(mac) => out.copy_from_slice(&over(mac, parts).finalize().into_bytes()),
        }
    }

    /// Whether this is the HMAC of these bytes; compared in constant time.
    pub(super) fn verify(&self, parts: [&[u8]; 3], hmac: &[u8]) -> bool {
        match self.clone() {
            Self::Sha1(mac) => over(mac, parts).verify_slice(hmac).is_ok(),
            Self::Sha256(mac) => over(mac, parts).verify_slice(hmac).is_ok(),
        }
    }
}

fn over<M: Mac>(mut mac: M, parts: [&[u8]; 3]) -> M {
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// The key padded with zeros to a block, or if it is longer, its hash (RFC 2104 §2). A key of this length cannot be refused.
fn block<H: AsRef<[u8]>>(key: &[u8], hash: impl FnOnce() -> H) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        let hash = hash();
        block[..hash.as_ref().len()].copy_from_slice(hash.as_ref());
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digit = |index: usize| u8::from_str_radix(&text[index..index + 2], 16).expect("hex");
        (0..text.len()).step_by(2).map(digit).collect()
    }

    /// Test cases 1, 2 and 6 of RFC 2202 §3 (SHA-1) and RFC 4231 §4 (SHA-256); the keys are shorter and longer than a block.
    #[test]
    fn test_cases_of_the_standards() {
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let cases: [(HmacAlgorithm, &[u8], &[u8], &str); 6] = [
            (
                HmacAlgorithm::Sha1,
                &[0x0b; 20],
                b"Hi There",
                "b617318655057264e28bc0b6fb378c8ef146be00",
            ),
            (
                HmacAlgorithm::Sha1,
                b"Jefe",
                b"what do ya want for nothing?",
                "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
            ),
            (
                HmacAlgorithm::Sha1,
                &[0xaa; 80],
                long,
                "aa4ae5e15272d00e95705637ce8a3b55ed402112",
            ),
            (
                HmacAlgorithm::Sha256,
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                HmacAlgorithm::Sha256,
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                HmacAlgorithm::Sha256,
                &[0xaa; 131],
                long,
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ];
        for (algorithm, key, data, expected) in cases {
            let keyed = Keyed::new(algorithm, key);
            let parts = [&data[..3], &[], &data[3..]];
            let mut out = vec![0; algorithm.len()];
            keyed.write(parts, &mut out);
            assert_eq!(out, hex(expected), "{algorithm:?}");
            assert!(keyed.verify(parts, &out));
            assert!(!keyed.verify(parts, &out[1..]));
            out[5] ^= 1;
            assert!(!keyed.verify(parts, &out));
        }
    }
}
