//! The settings of an endpoint's DTLS.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::certificate::{Certificate, Fingerprint};

/// The settings of DTLS: this endpoint's certificate, and the peers that it accepts. Both peers of a connection show a certificate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DtlsConfig {
    /// The certificate and key of this endpoint.
    pub certificate: Certificate,
    /// The peers that this endpoint accepts.
    pub trust: Trust,
    /// Limit of handshakes that peers began and that are not complete, at least 1. Beyond it, one is dropped: the oldest of the new one's
    /// host (an IPv4 address, or the first 64 bits of an IPv6 address) if the host has more than a quarter of them, else the oldest of all.
    /// A handshake begins when the peer has returned a cookie. Default 1,024.
    pub max_handshakes: usize,
    /// Limit of complete connections, at least 1. Beyond it, the oldest one without an association is closed, or, if there is none, new
    /// handshakes are refused. A host may have a 256th of them without an association, and at least 8. Default 65,536.
    pub max_connections: usize,
    /// A connection without traffic for this time is closed, also if it has an association. Longer than the interval of heartbeats, by default five minutes.
    pub idle_timeout: Duration,
}

impl DtlsConfig {
    /// The defaults with this certificate. Every peer is accepted until [`DtlsConfig::trust`] is set.
    #[must_use]
    pub fn new(certificate: Certificate) -> Self {
        Self {
            certificate,
            trust: Trust::Anybody,
            max_handshakes: 1024,
            max_connections: 65_536,
            idle_timeout: Duration::from_secs(300),
        }
    }

    /// Sets the peers that this endpoint accepts.
    #[must_use]
    pub fn trust(mut self, trust: impl Into<Trust>) -> Self {
        self.trust = trust.into();
        self
    }

    /// Sets the limit of handshakes that are not complete.
    #[must_use]
    pub fn max_handshakes(mut self, handshakes: usize) -> Self {
        self.max_handshakes = handshakes;
        self
    }

    /// Sets the limit of complete connections.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets the time after which a connection without traffic is closed.
    #[must_use]
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle_timeout = time;
        self
    }
}

/// The peers that an endpoint accepts, by their certificates.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Trust {
    /// Every peer: its messages are encrypted, but somebody between the peers can pretend to be each of them.
    #[default]
    Anybody,
    /// Peers with a certificate of one of these fingerprints.
    Fingerprints(Vec<Fingerprint>),
    /// Peers whose certificate (DER) the function accepts. It runs during the handshake, under
    /// the lock of the connection and in the thread that received the datagram: it should not wait, and must not call the endpoint.
    Check(Check),
}

/// A function that decides about a certificate (DER).
pub type Check = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

impl Trust {
    /// Whether a peer with this certificate is accepted.
    #[must_use]
    pub fn accepts(&self, certificate: &[u8]) -> bool {
        match self {
            Self::Anybody => true,
            Self::Fingerprints(list) => list.contains(&Fingerprint::of(certificate)),
            Self::Check(check) => check(certificate),
        }
    }
}

impl From<Fingerprint> for Trust {
    fn from(fingerprint: Fingerprint) -> Self {
        Self::Fingerprints(vec![fingerprint])
    }
}

impl From<Vec<Fingerprint>> for Trust {
    fn from(fingerprints: Vec<Fingerprint>) -> Self {
        Self::Fingerprints(fingerprints)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anybody => f.write_str("Anybody"),
            Self::Fingerprints(list) => f.debug_tuple("Fingerprints").field(list).finish(),
            Self::Check(_) => f.write_str("Check"),
        }
    }
}
