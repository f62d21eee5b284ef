//! Why an experiment cannot be run on real packets.

use std::io;

use anabranch::{BindError, ConnectError, ListenError};
use anabranch_bed::BedError;

/// Says what is missing, and how to get it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// No bed can be made.
    #[error(transparent)]
    Bed(#[from] BedError),
    /// The program that makes the kernel's TCP send is missing.
    #[error(
        "there is no program `iperf3`, which makes the kernel's TCP send: install it (apt-get install iperf3, or scripts/setup)"
    )]
    NoIperf,
    /// `iperf3` did not do what it should.
    #[error("iperf3 failed: {0}")]
    Iperf(String),
    /// The sender or the receiver got no socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The receiver cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The association was not established.
    #[error("the association was not made: {0}")]
    Connect(#[from] ConnectError),
    /// The association ended before the run did.
    #[error("the association ended: {0}")]
    Ended(String),
    /// The process of a host failed.
    #[error("a host's process failed: {0}")]
    Host(String),
    /// The system refused an ordinary operation.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl TestbedError {
    /// Whether this machine or this user cannot have such runs at all. Then a test has a reason to skip.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Bed(error) => error.is_refusal(),
            Self::NoIperf => true,
            _ => false,
        }
    }
}
