//! Owns the settings of key management, and the TLS configurations that they result in.

use core::time::Duration;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anabranch_proto::InitGuard;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use zeroize::Zeroizing;

use crate::error::SettingsError;
use crate::identity::{Identity, provider};
use crate::key_file::{SecretKey, read_public_keys};
use crate::key_log::KeyLog;
use crate::known_keys::KnownKeys;
use crate::restart_directory::RestartDirectory;
use crate::trust::Trust;
use crate::verifier::PeerVerifier;

/// How an endpoint shows itself, which peers it accepts, and when keys are replaced. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    raw: bool,
    /// Of an endpoint whose peers are known by public keys.
    guard: Option<Arc<KnownKeys>>,
    rekey_after: Duration,
    key_log: Option<Arc<dyn KeyLog>>,
    restarts: bool,
    restart_keys: Option<RestartDirectory>,
}

impl TlsSettings {
    /// Settings of an endpoint that shows `identity` and accepts the peers of `trust`. Keys are replaced after an hour, or after
    /// 6,000,000 records of one direction, which are fewer than 100 GB. The first settings of a process take about a tenth of a second of
    /// processor time, so that no handshake has to.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn new(identity: &Identity, trust: &Trust) -> Result<Self, SettingsError> {
        let raw = trust.is_raw().unwrap_or(identity.is_raw);
        if raw != identity.is_raw {
            return Err(SettingsError::Mixed);
        }
        let provider = provider();
        warm_up(&provider);
        let verifier = Arc::new(PeerVerifier::new(trust, raw, &provider)?);
        let tls = |error: rustls::Error| SettingsError::Tls(error.to_string());
        let key = identity.key.clone();
        let client = ClientConfig::builder_with_provider(provider.clone());
        let client = client.with_protocol_versions(&[&TLS13]).map_err(tls)?;
        let client = client
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone());
        let mut client = if raw {
            client.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key.clone())))
        } else {
            client.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone())))
        };
        // Each handshake proves who the peer is, and the names of the endpoints are not told to strangers.
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        let server = ServerConfig::builder_with_provider(provider);
        let server = server.with_protocol_versions(&[&TLS13]).map_err(tls)?;
        let server = server.with_client_cert_verifier(verifier);
        let mut server = if raw {
            server.with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)))
        } else {
            server.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
        };
        server.send_tls13_tickets = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
            raw,
            guard: identity
                .public_key()
                .zip(trust.keys())
                .map(|(own, peers)| Arc::new(KnownKeys::new(own, peers))),
            rekey_after: Duration::from_secs(3600),
            key_log: None,
            restarts: false,
            restart_keys: None,
        })
    }

    /// Settings from the files of `anabranch keygen`: the private key of this endpoint, and a file with the public keys of the peers that
    /// it accepts, one on each line. Reads both files at once.
    ///
    /// # Errors
    /// [`SettingsError::File`] names the file that cannot be read, or has no such key.
    pub fn from_key_files(own: impl AsRef<Path>, peers: impl AsRef<Path>) -> Result<Self, SettingsError> {
        let (own, peers) = (own.as_ref(), peers.as_ref());
        let read =
            |path: &Path| fs::read_to_string(path).map_err(|error| SettingsError::of_file(path, &error));
        // The text of the private key is wiped as the key itself is.
        let key = SecretKey::from_pem(&Zeroizing::new(read(own)?))
            .map_err(|error| SettingsError::of_file(own, &error))?;
        let identity = Identity::from_key(&key).map_err(|error| SettingsError::of_file(own, &error))?;
        let keys = read_public_keys(&read(peers)?).map_err(|error| SettingsError::of_file(peers, &error))?;
        Self::new(&identity, &Trust::public_keys(keys))
    }

    /// Replaces the keys after this time. Default one hour, the longest that the draft recommends; at least one second.
    #[must_use]
    pub fn rekey_after(mut self, time: Duration) -> Self {
        self.rekey_after = time.max(Duration::from_secs(1));
        self
    }

    /// A guard that proves in each INIT that this endpoint knows the public keys of its peers (the first 16), and that lets pass only INITs
    /// whose sender knows the public key of this endpoint. `None` if the peers are not known by public keys.
    #[must_use]
    pub fn init_guard(&self) -> Option<Arc<dyn InitGuard>> {
        self.guard.clone().map(|guard| guard as _)
    }

    /// Gives the keys of all associations to this log, so that captures can be decrypted ([`crate::Decryptor`]). By default, no key leaves
    /// the memory of the process. Everyone with a key log can read the messages of its associations.
    #[must_use]
    pub fn key_log(self, log: Arc<dyn KeyLog>) -> Self {
        Self {
            key_log: Some(log),
            ..self
        }
    }

    /// Permits peers that lost their state to restart their associations with restart keys (draft-ietf-tsvwg-sctp-dtls-chunk §5.4), instead
    /// of waiting until this endpoint notices the end of the old association. This endpoint keeps its part of the keys in memory. Peers
    /// need this setting too, or [`TlsSettings::keep_restart_keys`]. Default off.
    #[must_use]
    pub fn permit_restarts(mut self) -> Self {
        self.restarts = true;
        self
    }

    /// Stores restart keys in this directory, so that this endpoint can restart its associations after it has lost its state: a program that
    /// connects again from the same addresses, UDP port and SCTP port restarts the association with that peer. Also permits the restarts of
    /// peers, as [`TlsSettings::permit_restarts`] does.
    ///
    /// Each association has a file there, which only the owner can read, and which is gone when
    /// the association has ended or the keys are used. Each endpoint needs a directory of its own. Everyone who can read the files can
    /// take the place of this endpoint in its associations.
    ///
    #[must_use]
    pub fn keep_restart_keys(mut self, directory: RestartDirectory) -> Self {
        self.restart_keys = Some(directory);
        self.permit_restarts()
    }

    /// Whether associations can be restarted with restart keys.
    #[must_use]
    pub fn permits_restarts(&self) -> bool {
        self.restarts
    }

    /// The directory of [`TlsSettings::keep_restart_keys`].
    #[must_use]
    pub fn restart_directory(&self) -> Option<&RestartDirectory> {
        self.restart_keys.as_ref()
    }

    pub(crate) fn log(&self) -> Option<&dyn KeyLog> {
        self.key_log.as_deref()
    }

    /// Logs the secrets of TLS handshakes.
    #[cfg(test)]
    pub(crate) fn with_tls_log(mut self, log: Arc<dyn rustls::KeyLog>) -> Self {
        Arc::make_mut(&mut self.client).key_log = log;
        self
    }

    pub(crate) fn rekey_time(&self) -> Duration {
        self.rekey_after
    }

    /// Whether peers show public keys in place of certificates.
    pub(crate) fn is_raw(&self) -> bool {
        self.raw
    }

    pub(crate) fn connect(&self) -> Result<rustls::Connection, rustls::Error> {
        // The name is not sent; the verifier has the name that the peer must have.
        let name =
            ServerName::try_from("peer.invalid").map_err(|_| rustls::Error::General("a name".to_owned()))?;
        Ok(ClientConnection::new(self.client.clone(), name)?.into())
    }

    pub(crate) fn accept(&self) -> Result<rustls::Connection, rustls::Error> {
        Ok(ServerConnection::new(self.server.clone())?.into())
    }
}

/// The first key exchange of a process takes much longer than the others, because the library tests itself and gathers entropy. It would
/// happen while the peer measures its first round-trip time.
fn warm_up(provider: &CryptoProvider) {
    for group in &provider.kx_groups {
        // An error occurs again in the handshake, which reports it.
        drop(group.start());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file() {
        let directory = std::env::temp_dir().join(format!("anabranch-key-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let [own, peers] = ["own.key", "peers"].map(|name| directory.join(name));
        let key = SecretKey::generate().unwrap();
        let refused = || TlsSettings::from_key_files(&own, &peers).unwrap_err().to_string();
        assert!(refused().contains("own.key"), "{}", refused());
        fs::write(&own, key.to_pem().as_bytes()).unwrap();
        assert!(refused().contains("peers"), "{}", refused());
        fs::write(&peers, key.to_pem().as_bytes()).unwrap();
        assert!(refused().contains("this is a private key"), "{}", refused());
        fs::write(&peers, "# nobody\n").unwrap();
        assert!(refused().contains("there is no public key"), "{}", refused());
        fs::write(&peers, key.public().to_string()).unwrap();
        let settings = TlsSettings::from_key_files(&own, &peers).unwrap();
        assert!(
            settings.init_guard().is_some(),
            "the peers are known by public keys"
        );
        // The files are in the wrong order.
        let swapped = TlsSettings::from_key_files(&peers, &own).unwrap_err();
        assert!(swapped.to_string().contains("no private key"), "{swapped}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
