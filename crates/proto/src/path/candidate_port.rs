//! Owns what is known of a UDP port that may replace that of a path: see `ports.rs`.

use std::net::SocketAddr;

use crate::path_id::PathId;
use crate::time::Timestamp;

/// A port from which packets arrive that no path has.
#[derive(Debug)]
pub(super) struct CandidatePort {
    pub(super) remote: SocketAddr,
    /// The same in all heartbeats, so that a late answer counts.
    pub(super) nonce: u64,
    /// When the last heartbeat left.
    pub(super) tested_at: Option<Timestamp>,
    pub(super) since: Timestamp,
    /// A heartbeat was answered.
    pub(super) answered: bool,
    /// The paths that have answered a heartbeat since the last test.
    pub(super) heard: Vec<PathId>,
}

impl CandidatePort {
    pub(super) fn new(remote: SocketAddr, nonce: u64, now: Timestamp) -> Self {
        Self {
            remote,
            nonce,
            tested_at: None,
            since: now,
            answered: false,
            heard: Vec::new(),
        }
    }
}
