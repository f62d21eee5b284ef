//! Key pairs without certificates: Ed25519 keys in files, as WireGuard and SSH users know them.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64ct::{Base64, Encoding};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use crate::error::KeyFileError;

/// Bytes of an Ed25519 public key.
const KEY_LEN: usize = 32;

/// The bytes before the public key in its SubjectPublicKeyInfo (RFC 8410 §4).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The public key of a peer: 44 characters of base64 as text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

impl PublicKey {
    /// The SubjectPublicKeyInfo, which TLS sends in place of a certificate (RFC 7250).
    pub(crate) fn to_spki(self) -> Vec<u8> {
        [&SPKI_PREFIX[..], &self.0].concat()
    }

    /// The public key in a SubjectPublicKeyInfo, if it is an Ed25519 key.
    pub(crate) fn from_spki(spki: &[u8]) -> Option<Self> {
        let key = spki.strip_prefix(&SPKI_PREFIX[..])?;
        key.try_into().ok().map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyFileError;

    fn from_str(text: &str) -> Result<Self, KeyFileError> {
        let mut key = [0; KEY_LEN];
        match Base64::decode(text.trim(), &mut key) {
            Ok(bytes) if bytes.len() == KEY_LEN => Ok(Self(key)),
            _ => Err(KeyFileError::Line { line: 1 }),
        }
    }
}

/// The public keys in a file: one at the beginning of each line, then perhaps a comment. Empty lines and lines that begin with `#` are
/// ignored.
///
/// # Errors
/// A line is no public key, there is none, or the text is a private key.
pub fn read_public_keys(text: &str) -> Result<Vec<PublicKey>, KeyFileError> {
    if text.contains("PRIVATE KEY-----") {
        return Err(KeyFileError::Private);
    }
    let mut keys = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let Some(word) = line
            .split_whitespace()
            .next()
            .filter(|word| !word.starts_with('#'))
        else {
            continue;
        };
        let key = word.parse().map_err(|_| KeyFileError::Line { line: place + 1 })?;
        keys.push(key);
    }
    if keys.is_empty() {
        return Err(KeyFileError::Empty);
    }
    Ok(keys)
}

/// A private key with its public key. The secret is wiped when it is dropped.
pub struct SecretKey {
    pkcs8: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl SecretKey {
    /// A new key pair.
    ///
    /// # Errors
    /// The system gave no random numbers.
    pub fn generate() -> Result<Self, KeyFileError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| KeyFileError::Random)?;
        let der: Pkcs8V1Der<'static> = pair.as_der().map_err(|_| KeyFileError::Random)?;
        Self::from_pkcs8(der.as_ref())
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyFileError> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8)
            .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8))
            .map_err(|_| KeyFileError::NotAKey)?;
        let public = pair.public_key().as_ref();
        Ok(Self {
            public: PublicKey(public.try_into().map_err(|_| KeyFileError::NotAKey)?),
            pkcs8: Zeroizing::new(pkcs8.to_vec()),
        })
    }

    /// Reads a private key from the text of a file (PEM).
    ///
    /// # Errors
    /// The text is no private key of this kind.
    pub fn from_pem(text: &str) -> Result<Self, KeyFileError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyFileError::NotAKey)?;
        Self::from_pkcs8(key.secret_pkcs8_der())
    }

    /// The text of a file (PEM). Nobody but its owner must be able to read the file.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let encoded = Zeroizing::new(Base64::encode_string(&self.pkcs8));
        Zeroizing::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            *encoded
        ))
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn to_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.pkcs8.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_files() {
        let key = SecretKey::generate().unwrap();
        let again = SecretKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(key.public(), again.public());
        assert_ne!(key.public(), SecretKey::generate().unwrap().public());
        let text = key.public().to_string();
        assert_eq!(text.len(), 44);
        let file = format!("# peers\n\n{text} alice\n{}\n", again.public());
        assert_eq!(read_public_keys(&file), Ok(vec![key.public(); 2]));
        assert_eq!(PublicKey::from_spki(&key.public().to_spki()), Some(key.public()));
        assert!(!format!("{key:?}").contains("pkcs8"));
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(read_public_keys("# none\n"), Err(KeyFileError::Empty));
        let bad = format!("{}\nAAAA\n", SecretKey::generate().unwrap().public());
        assert_eq!(read_public_keys(&bad), Err(KeyFileError::Line { line: 2 }));
        assert_eq!(SecretKey::from_pem("no key").unwrap_err(), KeyFileError::NotAKey);
    }
}
