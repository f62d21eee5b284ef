//! Owns the certificate or key that an endpoint shows.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::error::IdentityError;
use crate::fingerprint::Fingerprint;
use crate::key_file::{PublicKey, SecretKey};

/// An endpoint shows a certificate of itself, or a public key.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) is_raw: bool,
}

/// The cryptography of TLS: three cipher suites of TLS 1.3, and key exchanges that are forgotten.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    use rustls::crypto::aws_lc_rs::{self, cipher_suite};
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(provider)
}

impl Identity {
    /// A certificate, followed by those of its issuers except the root, and its private key; both as PEM.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, IdentityError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(IdentityError::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| IdentityError::NoKey)?;
        Self::new(chain, key, false)
    }

    /// A key pair of `keygen`, without a certificate (RFC 7250).
    ///
    /// # Errors
    /// The TLS library refuses the key.
    pub fn from_key(key: &SecretKey) -> Result<Self, IdentityError> {
        let spki = CertificateDer::from(key.public().to_spki());
        Self::new(vec![spki], key.to_der(), true)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        is_raw: bool,
    ) -> Result<Self, IdentityError> {
        let refused = |error: rustls::Error| IdentityError::Key(error.to_string());
        let key = provider().key_provider.load_private_key(key).map_err(refused)?;
        let key = CertifiedKey::new(chain, key);
        if !is_raw {
            key.keys_match().map_err(refused)?;
        }
        Ok(Self {
            key: Arc::new(key),
            is_raw,
        })
    }

    /// The fingerprint of the certificate; `None` without one.
    #[must_use]
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let first = self.key.cert.first().filter(|_| !self.is_raw);
        first.map(|certificate| Fingerprint::of(certificate))
    }

    /// The public key; `None` with a certificate.
    #[must_use]
    pub fn public_key(&self) -> Option<PublicKey> {
        let first = self.key.cert.first().filter(|_| self.is_raw);
        first.and_then(|spki| PublicKey::from_spki(spki))
    }
}
