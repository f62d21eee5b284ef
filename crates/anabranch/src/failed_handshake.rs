//! The records of peers whose associations the application never gets.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anabranch_proto::CloseReason;
#[cfg(feature = "tls")]
use anabranch_tls::ShownIdentity;

/// An association that a peer began and that ended before its packets were encrypted.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the handshake with {remote} failed: {reason}")]
#[non_exhaustive]
pub struct FailedHandshake {
    /// The address of the peer, whom nothing has proved.
    pub remote: SocketAddr,
    /// The reason.
    pub reason: CloseReason,
    /// The public key or certificate that the peer showed, if the endpoint's settings do not name it.
    #[cfg(feature = "tls")]
    pub shown: Option<ShownIdentity>,
}

/// Failed handshakes that are kept for the application.
const KEPT: usize = 16;

/// The failed handshakes of an endpoint: their number, and the last of them that the application has not taken.
#[derive(Debug, Default)]
pub(crate) struct FailedHandshakes {
    count: u64,
    last: VecDeque<FailedHandshake>,
}

impl FailedHandshakes {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn note(&mut self, failed: FailedHandshake) {
        self.count += 1;
        if self.last.len() >= KEPT {
            self.last.pop_front();
        }
        self.last.push_back(failed);
    }

    /// Takes the oldest one that is kept.
    pub(crate) fn take(&mut self) -> Option<FailedHandshake> {
        self.last.pop_front()
    }
}
