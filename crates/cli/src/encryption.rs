//! DTLS on the command line: the options, and the words for what is encrypted.

use std::path::{Path, PathBuf};

use anabranch::{Association, Certificate, Config, DtlsConfig, EndpointBuilder, Fingerprint};
use clap::{Args, ValueHint};

use serde_json::{Value, json};

use crate::authentication::warn_if_readable;
use crate::failure::Failure;

const HEADING: &str = "Encryption";

/// Whether an endpoint encrypts, and with whom.
#[derive(Clone, Debug, Args)]
pub(crate) struct Encrypt {
    /// Encrypt everything with DTLS (RFC 8261); the peer needs --dtls too. Without --cert, a certificate is made for this
    /// run
    #[arg(long, help_heading = HEADING)]
    dtls: bool,
    /// With --dtls: this side's certificate, a file in PEM format
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "dtls", requires = "key")]
    cert: Option<PathBuf>,
    /// With --cert: its private key (ECDSA with P-256), a file in PEM format
    #[arg(long, help_heading = HEADING, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    key: Option<PathBuf>,
    /// With --dtls: accept only peers whose certificate has this SHA-256 fingerprint, which the peer prints; may be given
    /// several times [default: any certificate]
    #[arg(long, help_heading = HEADING, value_name = "AB:CD:…", requires = "dtls")]
    fingerprint: Vec<Fingerprint>,
}

/// An endpoint's encryption, with its certificate.
#[derive(Clone, Debug)]
pub(crate) struct Encryption(Option<DtlsConfig>);

impl Encrypt {
    /// Whether the peer's certificate is compared with a fingerprint.
    fn checks(&self) -> bool {
        !self.fingerprint.is_empty()
    }

    /// Reads or makes the certificate.
    pub(crate) fn prepare(&self) -> Result<Encryption, Failure> {
        if !self.dtls {
            return Ok(Encryption(None));
        }
        let certificate = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let [text, secret] = [("--cert", cert), ("--key", key)].map(|(flag, file)| read(flag, file));
                Certificate::from_pem(&text?, &secret?)
                    .map_err(|error| {
                        Failure::new(format!(
                            "--cert {}, --key {}: {error}",
                            cert.display(),
                            key.display()
                        ))
                    })
                    .inspect(|_| warn_if_readable(key))?
            }
            _ => Certificate::generate().map_err(|error| Failure::new(format!("--dtls: {error}")))?,
        };
        let mut config = DtlsConfig::new(certificate);
        if self.checks() {
            config = config.trust(self.fingerprint.clone());
        }
        Ok(Encryption(Some(config)))
    }

    /// The words for an association of this side, and the same facts.
    pub(crate) fn describe(&self, association: &Association) -> (String, Value) {
        match association.peer_fingerprint() {
            None => ("not encrypted".to_owned(), Value::Null),
            Some(peer) => {
                let checked = if self.checks() {
                    "checked"
                } else {
                    "not checked: give it with --fingerprint"
                };
                (
                    format!("encrypted with DTLS; certificate of the peer {peer} ({checked})"),
                    json!({ "protocol": "DTLS", "peer_fingerprint": peer.to_string(), "checked": self.checks() }),
                )
            }
        }
    }
}

impl Encryption {
    /// Removes settings of a listener that DTLS does not carry.
    pub(crate) fn apply_to_server(&self, config: &mut Config) {
        if self.0.is_some() {
            config.dynamic_addresses = None;
        }
    }

    pub(crate) fn build(self, builder: EndpointBuilder) -> EndpointBuilder {
        match self.0 {
            None => builder,
            Some(config) => builder.dtls(config),
        }
    }

    /// The words for a listener, and the same facts.
    pub(crate) fn describe(&self) -> (String, Value) {
        match &self.0 {
            None => ("not encrypted".to_owned(), Value::Null),
            Some(config) => {
                let own = config.certificate.fingerprint();
                (
                    format!("encrypted with DTLS, fingerprint {own}"),
                    json!({ "protocol": "DTLS", "fingerprint": own.to_string() }),
                )
            }
        }
    }
}

fn read(flag: &str, file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        Failure::new(format!(
            "{flag}: cannot read {}: {error}; give a file in PEM format",
            file.display()
        ))
    })
}
