//! Why an experiment cannot be run on real packets.

use std::io;

use anabranch::{BindError, ConnectError, ListenError};
use anabranch_bed::BedError;

/// Told so that the reader knows what is missing and how to get it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// There is no bed.
    #[error(transparent)]
    Bed(#[from] BedError),
    /// The program that makes the kernel's TCP send is missing.
    #[error(
        "there is no program `iperf3`, which makes the kernel's TCP send: install it (apt-get install iperf3, or scripts/setup)"
    )]
    NoIperf,
    /// It did not do what it was to.
    #[error("iperf3 failed: {0}")]
    Iperf(String),
    /// The sender or the receiver has no socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The receiver cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is no association.
    #[error("the association was not made: {0}")]
    Connect(#[from] ConnectError),
    /// It did not last.
    #[error("the association ended: {0}")]
    Ended(String),
    /// Something that the system always has was refused.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl FieldError {
    /// Whether this machine, or whoever runs the program, cannot have such runs at all: a test has a reason to skip.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Bed(error) => error.is_refusal(),
            Self::NoIperf => true,
            _ => false,
        }
    }
}
