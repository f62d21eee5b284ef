//! Why there is no bed, or no longer one.

use std::io;

/// Told so that the reader knows what is missing and how to get it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BedError {
    /// Too many paths, or none.
    #[error("a bed has 1 to {most} paths, not {0}", most = crate::bed::MOST_PATHS)]
    Paths(usize),
    /// Devices of a path would be smaller than IPv6 allows.
    #[error("the devices of a path carry packets of {least} bytes or more (RFC 8200), not {0}", least = crate::bed::SMALLEST_MTU)]
    Mtu(u16),
    /// The program that makes namespaces is missing.
    #[error("there is no program `ip`, which makes the namespaces: install iproute2")]
    NoIp,
    /// Namespaces are refused.
    #[error(
        "no network namespace can be made here ({told}): it takes root (sudo), or in a container CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Namespace {
        /// What `ip` said.
        told: String,
    },
    /// TUN devices are refused, or the kernel has none.
    #[error(
        "no TUN device can be made here ({0}): it takes /dev/net/tun (`modprobe tun`; for a container --device /dev/net/tun) and CAP_NET_ADMIN"
    )]
    Device(io::Error),
    /// A device or an address could not be set.
    #[error("`{what}` failed: {told}")]
    Settings {
        /// The command.
        what: String,
        /// What it said.
        told: String,
    },
    /// Something that the system always has was refused.
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why it was refused.
        source: io::Error,
    },
    /// A path carries nothing any more.
    #[error("path {path} broke: {told}")]
    Broken {
        /// Its number, from 1.
        path: usize,
        /// Why.
        told: String,
    },
}

impl BedError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// Whether this machine, or whoever runs the program, cannot have a bed at all: a test has a reason to skip.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::NoIp | Self::Namespace { .. } | Self::Device(_))
    }
}
