//! SHA-256 fingerprints of certificates (RFC 8122 §5).

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

/// The SHA-256 hash of a certificate in DER form: hexadecimal bytes with colons, as `openssl x509 -fingerprint -sha256` prints them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The text is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-256 fingerprint: 32 hexadecimal bytes with colons, as AB:CD:…")]
pub struct FingerprintError(String);

impl Fingerprint {
    /// The fingerprint of a certificate in DER form.
    #[must_use]
    pub fn of(der: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, der).as_ref());
        Self(hash)
    }

    /// The hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let colon = if place == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || FingerprintError(text.to_owned());
        let mut hash = [0; 32];
        let mut bytes = text.trim().split(':');
        for byte in &mut hash {
            let pair = bytes.next().filter(|pair| pair.len() == 2).ok_or_else(error)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        if bytes.next().is_some() {
            return Err(error());
        }
        Ok(Self(hash))
    }
}
