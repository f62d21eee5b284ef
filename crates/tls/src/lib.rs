//! Keys for protected packets: TLS 1.3 handshakes in SCTP user messages (draft-porfiri-tsvwg-sctp-dtls-handshake), and the DTLS 1.3 records
//! of the packets (draft-ietf-tsvwg-sctp-dtls-chunk, RFC 9147), without socket or thread.
//!
//! [`KeyManagement`] is the key management of one association: it takes the messages of the peer and the time, and returns [`Action`]s for
//! the driver, which sends messages and installs keys in the core. `rustls` does the work of TLS, and `aws-lc-rs` that of the records.
//!
//! Both endpoints show who they are: [`Identity`] is a certificate with its key, or a key pair alone (raw public keys, RFC 7250). [`Trust`]
//! says which peers are accepted.

mod accepted_keys;
mod decryptor;
mod error;
mod exporter;
mod fingerprint;
mod identity;
mod key_file;
mod key_log;
mod known_keys;
mod manager;
mod message;
mod peer;
mod record;
mod restart_directory;
mod restart_keys;
mod settings;
mod suite;
mod trust;
mod verifier;

pub use accepted_keys::AcceptedKeys;
pub use decryptor::{Decryptor, Opened};
pub use error::{IdentityError, KeyFileError, KeyLogError, SettingsError};
pub use exporter::{KeyKind, exporter_context, restart_exporter_context};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use identity::Identity;
pub use key_file::{PublicKey, SecretKey, read_public_keys};
pub use key_log::{KeyLog, LoggedKey, read_key_log};
pub use manager::{Action, KeyManagement};
pub use peer::{PeerIdentity, ShownIdentity};
pub use record::DtlsKey;
pub use restart_directory::{RestartDirectory, RestartPlace};
pub use restart_keys::RestartKeys;
pub use settings::TlsSettings;
pub use suite::Suite;
pub use trust::Trust;

/// The identifier of this key management method (draft-porfiri-tsvwg-sctp-dtls-handshake §9.1).
pub const METHOD: u8 = 192;
