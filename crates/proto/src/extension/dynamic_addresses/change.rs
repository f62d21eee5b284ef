//! Owns a change of the addresses that this endpoint requests, and its form in an ASCONF (RFC 5061 §4.2).

use std::net::IpAddr;

use anabranch_wire::parameter::{AddressAction, PairAction, Parameter};

/// The most local addresses of an association.
pub(crate) const MOST_LOCAL: usize = 16;

/// A change that one parameter of an ASCONF requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) action: AddressAction,
    pub(super) address: IpAddr,
    /// The pair to be deleted or, with `Add`, to be renewed, if the request names one.
    pub(super) pair: Option<u32>,
    pub(super) correlation: u32,
}

impl Change {
    /// The correlation follows when the request is built.
    pub(super) fn new(action: AddressAction, address: IpAddr) -> Self {
        Self {
            action,
            address,
            pair: None,
            correlation: 0,
        }
    }

    pub(super) fn of_pair(action: AddressAction, address: IpAddr, pair: u32) -> Self {
        Self {
            pair: Some(pair),
            ..Self::new(action, address)
        }
    }

    pub(super) fn renews(&self) -> bool {
        self.action == AddressAction::Add && self.pair.is_some()
    }

    pub(super) fn parameter(self, wildcard: Option<IpAddr>) -> Parameter {
        let Self {
            action,
            address,
            pair,
            correlation,
        } = self;
        let of_pair = match action {
            AddressAction::Add => Some(PairAction::Renew),
            AddressAction::Delete => Some(PairAction::Delete),
            AddressAction::SetPrimary => None,
        };
        match pair.zip(of_pair) {
            Some((pair, action)) => Parameter::Pair {
                action,
                correlation,
                pair,
            },
            None => Parameter::Address {
                action,
                correlation,
                address: wildcard.unwrap_or(address),
            },
        }
    }
}
