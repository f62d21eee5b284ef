//! The application's decision about associations that peers set up, before they cost memory.

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// An association that a peer is about to set up. The peer has proven its address: it returned the state cookie (RFC 9260 §5.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The peer's address and UDP port (0 without encapsulation).
    pub remote: SocketAddr,
    /// The peer's SCTP port.
    pub remote_port: u16,
    /// The local SCTP port.
    pub local_port: u16,
    /// Associations of the endpoint now.
    pub associations: usize,
}

impl Candidate {
    pub(super) fn new(remote: SocketAddr, remote_port: u16, local_port: u16, associations: usize) -> Self {
        Self {
            remote,
            remote_port,
            local_port,
            associations,
        }
    }
}

/// The decision about a [`Candidate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Admission {
    /// The association begins.
    #[default]
    Accept,
    /// The peer is told at once: ABORT with the cause Out of Resource (RFC 9260 §3.3.10.4).
    Refuse,
    /// The peer gets no answer, and tries again until its `Max.Init.Retransmits`.
    Ignore,
}

/// The application's function; see [`crate::Endpoint::set_accept_filter`].
#[derive(Clone)]
pub(super) struct AcceptFilter(Arc<dyn Fn(&Candidate) -> Admission + Send + Sync>);

impl AcceptFilter {
    pub(super) fn new(filter: impl Fn(&Candidate) -> Admission + Send + Sync + 'static) -> Self {
        Self(Arc::new(filter))
    }

    pub(super) fn admits(&self, candidate: &Candidate) -> Admission {
        (self.0)(candidate)
    }
}

impl fmt::Debug for AcceptFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptFilter")
    }
}
