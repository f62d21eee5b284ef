//! Verifies what a peer shows in a TLS handshake: by authorities, fingerprints or public keys. The same rules for clients and servers.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};

use crate::accepted_keys::AcceptedKeys;
use crate::error::SettingsError;
use crate::fingerprint::Fingerprint;
use crate::key_file::PublicKey;
use crate::peer::ShownIdentity;
use crate::trust::{Rule, Trust};

/// Verifies peers in either TLS role.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    known: Known,
    raw: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Known {
    Issued {
        roots: RootCertStore,
        clients: Arc<dyn ClientCertVerifier>,
        name: Option<ServerName<'static>>,
    },
    Fingerprints(Vec<Fingerprint>),
    Keys(AcceptedKeys),
    Anybody,
}

/// The settings do not name the peer, which showed this.
#[derive(Debug, thiserror::Error)]
#[error("its public key or certificate is not among the accepted ones")]
pub(crate) struct NotAccepted(pub(crate) Option<ShownIdentity>);

impl PeerVerifier {
    /// The verifier of this trust; `raw` if peers show public keys.
    pub(crate) fn new(
        trust: &Trust,
        raw: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SettingsError> {
        let known = match &trust.0 {
            Rule::Authorities { roots, name } => {
                let mut store = RootCertStore::empty();
                for root in roots {
                    let refused = |error: Error| SettingsError::Authorities(error.to_string());
                    store.add(root.clone()).map_err(refused)?;
                }
                let builder =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(store.clone()), provider.clone());
                let clients = builder.build();
                let clients = clients.map_err(|error| SettingsError::Authorities(error.to_string()))?;
                let parse = |name: &String| {
                    ServerName::try_from(name.clone()).map_err(|_| SettingsError::Name(name.clone()))
                };
                Known::Issued {
                    roots: store,
                    clients,
                    name: name.as_ref().map(parse).transpose()?,
                }
            }
            Rule::Fingerprints(fingerprints) => Known::Fingerprints(fingerprints.clone()),
            Rule::Keys(keys) => Known::Keys(keys.clone()),
            Rule::Anybody => Known::Anybody,
        };
        Ok(Self {
            known,
            raw,
            algorithms: provider.signature_verification_algorithms,
        })
    }

    /// Verifies by other means than authorities.
    fn is_known(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let known = match &self.known {
            Known::Fingerprints(fingerprints) => fingerprints.contains(&Fingerprint::of(shown)),
            Known::Keys(keys) => PublicKey::from_spki(shown).is_some_and(|key| keys.contains(&key)),
            Known::Anybody => true,
            Known::Issued { .. } => false,
        };
        if known {
            return Ok(());
        }
        let not_accepted = NotAccepted(ShownIdentity::of(shown, self.raw));
        Err(CertificateError::Other(OtherError(Arc::new(not_accepted))).into())
    }

    fn verify_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.raw {
            let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
            return verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms);
        }
        verify_tls13_signature(message, shown, signature, &self.algorithms)
    }
}

/// TLS 1.2 is not offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not used".to_owned()))
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Known::Issued { roots, name, .. } = &self.known {
            let certificate = ParsedCertificate::try_from(shown)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
            if let Some(name) = name {
                verify_server_name(&certificate, name)?;
            }
        } else {
            self.is_known(shown)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Known::Issued { clients, name, .. } = &self.known {
            clients.verify_client_cert(shown, intermediates, now)?;
            if let Some(name) = name {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            }
        } else {
            self.is_known(shown)?;
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw
    }
}
