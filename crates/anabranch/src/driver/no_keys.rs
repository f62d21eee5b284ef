//! Key management in a build without the feature `tls`: there is none.

use std::convert::Infallible;

use anabranch_proto::{Association, Timestamp};

pub(crate) type TlsSettings = Infallible;

/// The key management of one association: there is none.
#[derive(Debug)]
pub(crate) struct Keys(Infallible);

impl Keys {
    pub(crate) fn new(settings: &TlsSettings) -> Self {
        match *settings {}
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        match self.0 {}
    }

    pub(crate) fn work(&mut self, _core: &mut Association, _now: Timestamp) {
        match self.0 {}
    }
}
