//! Key management in a build without the feature `tls`: there is none.

use std::convert::Infallible;

use anabranch_proto::{Association, ProtectionConfig, Timestamp};

pub(crate) type TlsSettings = Infallible;

/// The settings of the core for packets that are encrypted: there are none.
pub(crate) fn protection(settings: &TlsSettings) -> ProtectionConfig {
    match *settings {}
}

/// The key management of one association: there is none.
#[derive(Debug)]
pub(crate) struct Keys(Infallible);

impl Keys {
    pub(crate) fn new(settings: &TlsSettings, _core: &mut Association) -> Self {
        match *settings {}
    }

    pub(crate) fn end(&mut self) {
        match self.0 {}
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        match self.0 {}
    }

    pub(crate) fn are_due(&self, _core: &mut Association) -> bool {
        match self.0 {}
    }

    pub(crate) fn work(&mut self, _core: &mut Association, _now: Timestamp) {
        match self.0 {}
    }
}
