//! The errors of keys, certificates and settings.

use std::fmt::Display;
use std::path::Path;

/// Why a certificate with its key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The text has no certificate in PEM form.
    #[error("no certificate (PEM: BEGIN CERTIFICATE) is in the text")]
    NoCertificate,
    /// The text has no private key in PEM form.
    #[error("no private key (PEM: BEGIN PRIVATE KEY) is in the text")]
    NoKey,
    /// The key is not of a supported kind, or does not belong to the certificate.
    #[error("the key cannot be used with the certificate: {0}")]
    Key(String),
}

/// Why a file of keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The text is no private key of `keygen`.
    #[error("this is no private key that `anabranch keygen` wrote")]
    NotAKey,
    /// A line is no public key.
    #[error("line {line} is no public key: `anabranch keygen` writes 44 characters of base64")]
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The text is a private key, where public ones belong.
    #[error(
        "this is a private key: give the public key, the file with `.pub` at the end that `anabranch keygen` wrote beside it"
    )]
    Private,
    /// There are no keys in the text.
    #[error("there is no public key in the file")]
    Empty,
    /// The system gave no random numbers.
    #[error("no key could be made")]
    Random,
}

/// Why a key log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyLogError {
    /// A line of a key is malformed.
    #[error("line {line} is no key: the line was changed or cut off")]
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
    /// There are no keys in the text.
    #[error("there is no key (a line that begins with SCTP_DTLS_CHUNK) in the file")]
    Empty,
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Certificates of authorities cannot be used.
    #[error("the certificates of the authorities cannot be used: {0}")]
    Authorities(String),
    /// The name of the peer is no name.
    #[error("{0:?} is no name of a host")]
    Name(String),
    /// A peer with a certificate cannot be known by a public key, nor the reverse.
    #[error(
        "public keys of peers need a key pair of `keygen` here, and certificates of peers need a certificate"
    )]
    Mixed,
    /// A file of keys cannot be used.
    #[error("{path}: {reason}")]
    File {
        /// The name of the file.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// The TLS library refuses the settings.
    #[error("TLS: {0}")]
    Tls(String),
}

impl SettingsError {
    pub(crate) fn of_file(path: &Path, reason: &dyn Display) -> Self {
        Self::File {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }
}
