//! Owns the rule by which peers are accepted.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::accepted_keys::AcceptedKeys;
use crate::error::SettingsError;
use crate::fingerprint::Fingerprint;
use crate::key_file::PublicKey;

/// Which peers are accepted. Every peer proves that it has the private key of what it shows.
#[derive(Clone, Debug)]
pub struct Trust(pub(crate) Rule);

#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Authorities {
        roots: Vec<CertificateDer<'static>>,
        name: Option<String>,
    },
    Fingerprints(Vec<Fingerprint>),
    Keys(AcceptedKeys),
    Anybody,
}

impl Trust {
    /// Peers with a certificate that one of these authorities (PEM) issued and that is valid now. With a name, the certificate must be for
    /// this host name or IP address, whichever endpoint began the association.
    ///
    /// # Errors
    /// The text has no certificate.
    pub fn authorities(pem: &str, name: Option<&str>) -> Result<Self, SettingsError> {
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let roots = roots.map_err(|error| SettingsError::Authorities(error.to_string()))?;
        if roots.is_empty() {
            return Err(SettingsError::Authorities("there is none in the text".to_owned()));
        }
        Ok(Self(Rule::Authorities {
            roots,
            name: name.map(str::to_owned),
        }))
    }

    /// Peers with a certificate that has one of these fingerprints. Its names and dates are not checked.
    #[must_use]
    pub fn fingerprints(fingerprints: impl Into<Vec<Fingerprint>>) -> Self {
        Self(Rule::Fingerprints(fingerprints.into()))
    }

    /// Peers with one of these public keys.
    #[must_use]
    pub fn public_keys(keys: impl Into<Vec<PublicKey>>) -> Self {
        Self::accepted_keys(AcceptedKeys::new(keys))
    }

    /// Peers whose public keys are in this list at the time of a handshake.
    #[must_use]
    pub fn accepted_keys(keys: AcceptedKeys) -> Self {
        Self(Rule::Keys(keys))
    }

    /// Any peer: an attacker on the path can be one, and read and change everything. For tests.
    #[must_use]
    pub fn accept_anybody_even_an_attacker() -> Self {
        Self(Rule::Anybody)
    }

    /// The public keys of the peers, if they are known by public keys.
    pub(crate) fn keys(&self) -> Option<&AcceptedKeys> {
        match &self.0 {
            Rule::Keys(keys) => Some(keys),
            Rule::Authorities { .. } | Rule::Fingerprints(_) | Rule::Anybody => None,
        }
    }

    /// Whether peers show public keys in place of certificates; `None` if they may show what this endpoint shows.
    pub(crate) fn is_raw(&self) -> Option<bool> {
        match &self.0 {
            Rule::Authorities { .. } | Rule::Fingerprints(_) => Some(false),
            Rule::Keys(_) => Some(true),
            Rule::Anybody => None,
        }
    }
}
