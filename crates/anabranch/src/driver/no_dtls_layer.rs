//! DTLS in a build without the feature `dtls`: there are no connections and no certificates.

use std::convert::Infallible;
use std::net::SocketAddr;

pub(super) type DtlsLayer = Infallible;

/// The certificate with which a packet came: there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin(());

/// The bond of an association with a certificate: there is none.
#[derive(Debug)]
pub(crate) struct Bond;

#[allow(clippy::unused_self, reason = "the signatures are those with the feature")]
impl Bond {
    pub(super) fn new(_remote: SocketAddr, _origin: Origin) -> Self {
        Self
    }

    pub(super) fn accepts(&self, _origin: Origin) -> bool {
        true
    }

    pub(super) fn origin(&self) -> Origin {
        Origin(())
    }
}
