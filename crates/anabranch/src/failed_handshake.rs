//! The record of a peer whose association the application never gets.

use std::net::SocketAddr;

use anabranch_proto::CloseReason;

/// An association that a peer began and that ended before its packets were encrypted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedHandshake {
    /// The address of the peer, whom nothing has proved.
    pub remote: SocketAddr,
    /// The reason.
    pub reason: CloseReason,
}
