//! The errors of making and running a bed.

use std::io;

/// Says what is missing, and how to get it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BedError {
    /// Too many paths, or none.
    #[error("a bed has 1 to {most} paths, not {0}", most = crate::bed::MOST_PATHS)]
    Paths(usize),
    /// The devices of a path would have a smaller MTU than IPv6 allows.
    #[error("the devices of a path carry packets of {least} bytes or more (RFC 8200), not {0}", least = crate::bed::SMALLEST_MTU)]
    Mtu(u16),
    /// The program `ip` is missing.
    #[error("there is no program `ip`, which makes the namespaces: install iproute2")]
    NoIp,
    /// The system refuses namespaces.
    #[error(
        "no network namespace can be made here ({told}): it takes root (sudo), or in a container CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Namespace {
        /// The output of `ip`, or the system's error.
        told: String,
    },
    /// The system refuses TUN devices, or the kernel has none.
    #[error(
        "no TUN device can be made here ({0}): it takes /dev/net/tun (`modprobe tun`; for a container --device /dev/net/tun) and CAP_NET_ADMIN"
    )]
    Device(io::Error),
    /// A device or an address could not be set.
    #[error("`{what}` failed: {told}")]
    Settings {
        /// The command.
        what: String,
        /// The command's output.
        told: String,
    },
    /// The system refused an ordinary operation.
    #[error("{what}: {source}")]
    System {
        /// The operation, as text.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The carrier of a path stopped.
    #[error("path {path} broke: {told}")]
    Broken {
        /// Its number, from 1.
        path: usize,
        /// The error that stopped it.
        told: String,
    },
}

impl BedError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// Whether this machine or this user cannot have a bed at all. Then a test has a reason to skip.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NoIp | Self::Namespace { .. } | Self::Device(_))
    }
}
