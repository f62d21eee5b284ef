//! DTLS 1.3 records (RFC 9147 §4, §4.2.3), with `aws-lc-rs`.

use anabranch_proto::{KeyLimits, RecordKey};
use aws_lc_rs::aead::quic::{self, HeaderProtectionKey};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroize;

use crate::suite::Suite;

/// Bytes of an initialization vector and of a nonce.
pub(crate) const IV_LEN: usize = 12;

/// The key material of one direction and one epoch. Secrets are wiped when it is dropped.
pub struct DtlsKey {
    suite: Suite,
    key: LessSafeKey,
    numbers: HeaderProtectionKey,
    iv: [u8; IV_LEN],
}

impl Drop for DtlsKey {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

impl core::fmt::Debug for DtlsKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DtlsKey")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

impl DtlsKey {
    /// The key with this key for records, key for sequence numbers and initialization vector; `None` if a length is wrong.
    #[must_use]
    pub fn new(suite: Suite, key: &[u8], sn_key: &[u8], iv: [u8; IV_LEN]) -> Option<Self> {
        let (records, numbers) = match suite {
            Suite::Aes128Gcm => (&aead::AES_128_GCM, &quic::AES_128),
            Suite::Aes256Gcm => (&aead::AES_256_GCM, &quic::AES_256),
            Suite::ChaCha20Poly1305 => (&aead::CHACHA20_POLY1305, &quic::CHACHA20),
        };
        Some(Self {
            suite,
            key: LessSafeKey::new(UnboundKey::new(records, key).ok()?),
            numbers: HeaderProtectionKey::new(numbers, sn_key).ok()?,
            iv,
        })
    }

    /// The nonce of a record: its sequence number XOR the initialization vector (RFC 8446 §5.3). The epoch is not part of it.
    fn nonce(&self, sequence: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, mask) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= mask;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl RecordKey for DtlsKey {
    fn seal(&self, sequence: u64, header: [u8; 3], content: &mut [u8]) -> Option<[u8; 16]> {
        let nonce = self.nonce(sequence);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), content);
        tag.ok()?.as_ref().try_into().ok()
    }

    fn open(&self, sequence: u64, header: [u8; 3], record: &mut [u8]) -> bool {
        let nonce = self.nonce(sequence);
        self.key.open_in_place(nonce, Aad::from(header), record).is_ok()
    }

    fn mask(&self, sample: [u8; 16]) -> [u8; 2] {
        // The samples of all algorithms have 16 bytes, so that this does not fail.
        let mask = self.numbers.new_mask(&sample).unwrap_or_default();
        [mask[0], mask[1]]
    }

    fn limits(&self) -> KeyLimits {
        self.suite.limits()
    }
}
