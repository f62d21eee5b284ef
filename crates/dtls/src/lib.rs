//! DTLS for SCTP (RFC 8261): certificates, and the connections of an endpoint, without socket or thread.
//!
//! [`Peers`] holds one DTLS connection for each peer, which has an address and a certificate. It takes SCTP packets and DTLS datagrams, and
//! returns both, as [`Effects`]. The library `dimpl` does the work of DTLS 1.2 and 1.3; a panic inside it ends the connection in which it
//! happened. A stranger's ClientHello is answered with a cookie and without state; a connection begins when the cookie comes back.
//!
//! Several threads may call [`Peers`] at the same time: each connection has a lock of its own for its cryptography.
//!
//! Both peers show a certificate. Certificates are not checked against authorities: peers know each other by fingerprints ([`Trust`]), as
//! in WebRTC.

mod certificate;
mod clock;
mod connection;
mod effects;
mod entry;
mod established;
mod front;
mod hello;
mod key;
mod peers;
mod places;
mod reason;
mod settings;
mod table;
mod timeouts;

pub use certificate::{Certificate, CertificateError, Fingerprint, FingerprintError};
pub use connection::DtlsError;
pub use effects::Effects;
pub use key::PeerKey;
pub use peers::{MAX_PACKET, OVERHEAD, Peers};
pub use settings::{Check, DtlsConfig, Trust};
