//! Encryption on the command line: DTLS below SCTP, DTLS chunks with keys from TLS 1.3, and the words for what is encrypted.

use std::path::{Path, PathBuf};

use anabranch::{
    AcceptedKeys, Association, Certificate, Config, DtlsConfig, EndpointBuilder, Fingerprint, Identity,
    PeerIdentity, PublicKey, SecretKey, TlsFingerprint, TlsSettings, TlsTrust, read_public_keys,
};
use clap::{Args, ValueHint};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::key_log::log_keys;
use crate::private_file::warn_if_readable;

const HEADING: &str = "Encryption";

/// Whether an endpoint encrypts, and with whom.
#[derive(Clone, Debug, Args)]
pub(crate) struct Encrypt {
    /// Encrypt everything with DTLS (RFC 8261), on one path; the peer needs --dtls too. Without --cert, a certificate is made for
    /// this run
    #[arg(long, help_heading = HEADING, group = "encrypts")]
    dtls: bool,
    /// Encrypt the packets of every path (SCTP DTLS chunk); the peer needs --tls too. This side shows --key alone, of `anabranch
    /// keygen`, and knows its peers by --peer or --allow; or it shows --cert with --key, and knows them by --ca or --fingerprint
    #[arg(long, help_heading = HEADING, group = "encrypts", conflicts_with = "auth_key_file", requires = "key")]
    tls: bool,
    /// With --dtls or --tls: this side's certificate, a file in PEM format
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "encrypts", requires = "key")]
    cert: Option<PathBuf>,
    /// With --cert: its private key in PEM format (for --dtls ECDSA with P-256). With --tls alone: a file of `anabranch keygen`
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "encrypts")]
    key: Option<PathBuf>,
    /// Accept only peers whose certificate has this SHA-256 fingerprint, which the peer prints; may be given several times
    /// [default with --dtls: any certificate]
    #[arg(long, help_heading = HEADING, value_name = "AB:CD:…", requires = "encrypts")]
    fingerprint: Vec<Fingerprint>,
    /// With --tls and --cert: accept only peers with a valid certificate of one of these authorities, a file in PEM format
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls", requires = "cert",
        conflicts_with = "fingerprint")]
    ca: Option<PathBuf>,
    /// With --ca: the host name or IP address that the peer's certificate must be for [default: the HOST that is connected to; for a
    /// listener any]
    #[arg(long, help_heading = HEADING, value_name = "NAME", requires = "ca")]
    name: Option<String>,
    /// With --tls: accept the peer with the public key in this file, which `anabranch keygen` wrote there
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls", conflicts_with = "cert")]
    peer: Vec<PathBuf>,
    /// With --tls: accept peers with the public keys in this file, one on each line
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls", conflicts_with = "cert")]
    allow: Vec<PathBuf>,
    /// With --tls: append the keys to this file, for `anabranch decrypt`. Everyone with the file can read the messages [default: the
    /// file in the environment variable SSLKEYLOGFILE, else none]
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls")]
    key_log: Option<PathBuf>,
}

/// An endpoint's encryption, with its certificate or key.
#[derive(Clone, Debug)]
pub(crate) enum Encryption {
    Off,
    Dtls(DtlsConfig),
    Tls(TlsSettings, Identity),
}

impl Encrypt {
    /// Whether the peer's certificate is compared with a fingerprint.
    fn checks(&self) -> bool {
        self.tls || !self.fingerprint.is_empty()
    }

    /// Reads or makes the certificate or key. `host` is the host that is connected to.
    pub(crate) fn prepare(&self, host: Option<&str>) -> Result<Encryption, Failure> {
        if self.tls {
            return self.prepare_tls(host);
        }
        if !self.dtls {
            return Ok(Encryption::Off);
        }
        let certificate = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let (text, secret) = (read("--cert", cert)?, read("--key", key)?);
                Certificate::from_pem(&text, &secret)
                    .map_err(|error| about_both(cert, key, &error))
                    .inspect(|_| warn_if_readable(key))?
            }
            (None, Some(_)) => {
                return Err(Failure::new(
                    "--key: with --dtls, give its certificate with --cert",
                ));
            }
            _ => Certificate::generate().map_err(|error| Failure::new(format!("--dtls: {error}")))?,
        };
        let mut config = DtlsConfig::new(certificate);
        if self.checks() {
            config = config.trust(self.fingerprint.clone());
        }
        Ok(Encryption::Dtls(config))
    }

    fn prepare_tls(&self, host: Option<&str>) -> Result<Encryption, Failure> {
        let Some(key) = &self.key else {
            return Err(Failure::new("--tls: give this side's key with --key"));
        };
        let secret = read("--key", key)?;
        let identity = match &self.cert {
            Some(cert) => Identity::from_pem(&read("--cert", cert)?, &secret)
                .map_err(|error| about_both(cert, key, &error))?,
            None => of_key(key, &secret)?,
        };
        warn_if_readable(key);
        let settings = TlsSettings::new(&identity, &self.trust(host)?);
        let settings = settings.map_err(|error| Failure::new(format!("--tls: {error}")))?;
        let settings = log_keys(settings, self.key_log.as_deref())?;
        Ok(Encryption::Tls(settings, identity))
    }

    /// Which peers are accepted with `--tls`: never any.
    fn trust(&self, host: Option<&str>) -> Result<TlsTrust, Failure> {
        if let Some(file) = &self.ca {
            let name = self.name.as_deref().or(host);
            return TlsTrust::authorities(&read("--ca", file)?, name)
                .map_err(|error| Failure::new(format!("--ca {}: {error}", file.display())));
        }
        if self.cert.is_some() {
            if self.fingerprint.is_empty() {
                return Err(Failure::new(
                    "--tls with --cert: say which peers to accept, with --ca or --fingerprint",
                ));
            }
            let fingerprints = self.fingerprint.iter();
            let all: Vec<_> = fingerprints
                .map(|one| TlsFingerprint::from(*one.as_bytes()))
                .collect();
            return Ok(TlsTrust::fingerprints(all));
        }
        let files = self.peer.iter().map(|file| ("--peer", file));
        let keys = public_keys(files.chain(self.allow.iter().map(|file| ("--allow", file))))?;
        if keys.is_empty() {
            return Err(Failure::new(
                "--tls: say which peers to accept, with --peer or --allow and the files of their public keys",
            ));
        }
        Ok(TlsTrust::public_keys(keys))
    }

    /// The words for an association of this side, and the same facts.
    pub(crate) fn describe(&self, association: &Association) -> (String, Value) {
        let checked = self.checks();
        let told = if checked {
            "checked"
        } else {
            "not checked: give it with --fingerprint"
        };
        if let Some(identity) = association.peer_identity() {
            return describe_peer(&identity);
        }
        match association.peer_fingerprint() {
            None => ("not encrypted".to_owned(), Value::Null),
            Some(peer) => (
                format!("encrypted with DTLS; certificate of the peer {peer} ({told})"),
                json!({ "protocol": "DTLS", "peer_fingerprint": peer.to_string(), "checked": checked }),
            ),
        }
    }
}

impl Encryption {
    /// That of a side that shows the key in this file of `anabranch keygen`, and accepts the peers with these public keys.
    pub(crate) fn by_keys(key: &Path, peers: AcceptedKeys) -> Result<Self, Failure> {
        let identity = of_key(key, &read("--key", key)?)?;
        warn_if_readable(key);
        let settings = TlsSettings::new(&identity, &TlsTrust::accepted_keys(peers));
        let settings = settings.map_err(|error| Failure::new(format!("--key: {error}")))?;
        Ok(Self::Tls(settings, identity))
    }

    /// Removes settings of a listener that DTLS does not carry.
    pub(crate) fn apply_to_server(&self, config: &mut Config) {
        if matches!(self, Self::Dtls(_)) {
            config.dynamic_addresses = None;
        }
    }

    pub(crate) fn build(self, builder: EndpointBuilder) -> EndpointBuilder {
        match self {
            Self::Off => builder,
            Self::Dtls(config) => builder.dtls(config),
            Self::Tls(settings, _) => builder.secure(settings),
        }
    }

    /// The words for a listener, and the same facts.
    pub(crate) fn describe(&self) -> (String, Value) {
        match self {
            Self::Off => ("not encrypted".to_owned(), Value::Null),
            Self::Dtls(config) => {
                let own = config.certificate.fingerprint();
                (
                    format!("encrypted with DTLS, fingerprint {own}"),
                    json!({ "protocol": "DTLS", "fingerprint": own.to_string() }),
                )
            }
            Self::Tls(_, identity) => match (identity.public_key(), identity.fingerprint()) {
                (Some(key), _) => (
                    format!("encrypted in DTLS chunks, public key {key}"),
                    json!({ "protocol": "DTLS chunk", "public_key": key.to_string() }),
                ),
                (None, own) => {
                    let own = own.map(|own| own.to_string()).unwrap_or_default();
                    (
                        format!("encrypted in DTLS chunks, fingerprint {own}"),
                        json!({ "protocol": "DTLS chunk", "fingerprint": own }),
                    )
                }
            },
        }
    }
}

/// The words for an association in DTLS chunks with this peer, and the same facts.
pub(crate) fn describe_peer(identity: &PeerIdentity) -> (String, Value) {
    match identity {
        PeerIdentity::Key(key) => (
            format!("encrypted in DTLS chunks; public key of the peer {key} (checked)"),
            json!({ "protocol": "DTLS chunk", "peer_key": key.to_string(), "checked": true }),
        ),
        certificate => {
            let print = certificate.fingerprint().map(|print| print.to_string());
            let print = print.unwrap_or_default();
            (
                format!("encrypted in DTLS chunks; certificate of the peer {print} (checked)"),
                json!({ "protocol": "DTLS chunk", "peer_fingerprint": print, "checked": true }),
            )
        }
    }
}

/// The identity of a key that `anabranch keygen` made.
fn of_key(key: &Path, secret: &str) -> Result<Identity, Failure> {
    let identity = SecretKey::from_pem(secret)
        .map_err(|error| error.to_string())
        .and_then(|secret| Identity::from_key(&secret).map_err(|error| error.to_string()));
    identity.map_err(|error| Failure::new(format!("--key {}: {error}", key.display())))
}

/// The public keys in these files, which options name.
pub(crate) fn public_keys<'a>(
    files: impl Iterator<Item = (&'a str, &'a PathBuf)>,
) -> Result<Vec<PublicKey>, Failure> {
    let mut keys = Vec::new();
    for (flag, file) in files {
        let read = read_public_keys(&read(flag, file)?);
        keys.extend(read.map_err(|error| Failure::new(format!("{flag} {}: {error}", file.display())))?);
    }
    Ok(keys)
}

fn about_both(cert: &Path, key: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!(
        "--cert {}, --key {}: {error}",
        cert.display(),
        key.display()
    ))
}

fn read(flag: &str, file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => "check its name and place; anabranch keygen makes a pair of keys",
            std::io::ErrorKind::InvalidData => "give a file of keygen, or one in PEM format",
            _ => "check its permissions",
        };
        Failure::new(format!("{flag}: cannot read {}: {error}; {help}", file.display()))
    })
}
