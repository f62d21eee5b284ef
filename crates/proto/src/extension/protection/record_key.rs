//! The cryptography of one key, which the driver has.

use core::fmt::Debug;

/// Bytes of the tag of every AEAD that DTLS 1.3 recommends.
pub(super) const TAG_LEN: usize = 16;

/// The key material of one direction and one epoch (draft-ietf-tsvwg-sctp-dtls-chunk §7.4): it encrypts and decrypts DTLS 1.3 records
/// (RFC 9147 §4). The driver installs it with [`crate::KeyManager`].
pub trait RecordKey: Debug + Send + Sync {
    /// Encrypts `content` where it is, with the record header as additional data. Returns the tag; `None` if that fails.
    fn seal(&self, sequence: u64, header: [u8; 3], content: &mut [u8]) -> Option<[u8; 16]>;

    /// Decrypts a record where it is. Its last 16 bytes are the tag, and have no meaning afterwards. False if the record is not authentic:
    /// then none of it has a meaning.
    fn open(&self, sequence: u64, header: [u8; 3], record: &mut [u8]) -> bool;

    /// The mask of a sequence number (RFC 9147 §4.2.3), from the first bytes of the encrypted record.
    fn mask(&self, sample: [u8; 16]) -> [u8; 2];

    /// The limits of the cipher suite.
    fn limits(&self) -> KeyLimits;
}

/// How often a key may be used (RFC 9147 §4.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// The most records that may be encrypted.
    pub sealed: u64,
    /// The most records that may fail to be decrypted.
    pub failed: u64,
}

/// How often a key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyUsage {
    /// Records encrypted.
    pub sealed: u64,
    /// Records decrypted.
    pub opened: u64,
    /// Records that were not authentic.
    pub failed: u64,
}
