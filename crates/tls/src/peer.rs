//! Owns the certificate or key that a peer showed.

use core::fmt;

use rustls::pki_types::CertificateDer;

use crate::fingerprint::Fingerprint;
use crate::key_file::PublicKey;

/// A peer showed one of these, and proved that it has the private key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerIdentity {
    /// A certificate, followed by those that the peer sent with it, in DER form.
    Certificate(Vec<Vec<u8>>),
    /// A public key without certificate.
    Key(PublicKey),
}

/// A peer showed one of these. Whether it has the private key is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShownIdentity {
    /// The fingerprint of a certificate.
    Certificate(Fingerprint),
    /// A public key without certificate.
    Key(PublicKey),
}

impl ShownIdentity {
    /// Of the first certificate that TLS received: a public key if it is `raw`.
    pub(crate) fn of(certificate: &CertificateDer<'_>, raw: bool) -> Option<Self> {
        match raw {
            true => PublicKey::from_spki(certificate).map(Self::Key),
            false => Some(Self::Certificate(Fingerprint::of(certificate))),
        }
    }
}

impl fmt::Display for ShownIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(fingerprint) => write!(f, "certificate {fingerprint}"),
            Self::Key(key) => write!(f, "public key {key}"),
        }
    }
}

impl PeerIdentity {
    /// Of the certificates that TLS received: `raw` if the first one is a public key.
    pub(crate) fn of(certificates: &[CertificateDer<'_>], raw: bool) -> Option<Self> {
        let first = certificates.first()?;
        if raw {
            return PublicKey::from_spki(first).map(Self::Key);
        }
        let all = certificates.iter().map(|certificate| certificate.to_vec());
        Some(Self::Certificate(all.collect()))
    }

    /// Whether it is the same peer: the same certificate or key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Certificate(ours), Self::Certificate(theirs)) => ours.first() == theirs.first(),
            (ours, theirs) => ours == theirs,
        }
    }

    /// The fingerprint of the certificate; `None` without one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Self::Certificate(chain) => chain.first().map(|der| Fingerprint::of(der)),
            Self::Key(_) => None,
        }
    }
}
