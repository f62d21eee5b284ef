//! Dynamic address reconfiguration (RFC 5061): this endpoint's requests (`requests`, with
//! `change`, `outstanding`, `own` and `results`), and the answers to those of the peer (`responses`).
//! [`DynamicAddresses`] is the state of an association. The changes of paths themselves are in `path/dynamic.rs`.

mod change;
mod outstanding;
mod own;
mod requests;
mod responses;
mod results;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use anabranch_wire::Tsn;

pub(crate) use change::MOST_LOCAL;
pub(crate) use requests::{AckVerdict, Outcome, Requests, Sending};
pub(crate) use responses::{DeferredDeletion, Known, PairPlace, Responder, Responses};

/// The dynamic addresses of an association, if they were negotiated.
#[derive(Debug, Default)]
pub(crate) struct DynamicAddresses(Option<Box<State>>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) requests: Requests,
    pub(crate) responses: Responses,
}

impl DynamicAddresses {
    /// Set-up negotiated dynamic addresses. The Sequence Numbers begin at the Initial TSNs (RFC 5061 §5.1 A2). `local` are the addresses
    /// that the peer knows, `wildcard` says how requests name addresses.
    pub(crate) fn enable(&mut self, own: Tsn, peer: Tsn, local: Vec<IpAddr>, wildcard: bool) {
        self.0 = Some(Box::new(State {
            requests: Requests::new(own.0, local, wildcard),
            responses: Responses::new(peer.0),
        }));
    }

    /// They were not negotiated.
    pub(crate) fn disable(&mut self) {
        self.0 = None;
    }

    pub(crate) fn state(&self) -> Option<&State> {
        self.0.as_deref()
    }

    pub(crate) fn state_mut(&mut self) -> Option<&mut State> {
        self.0.as_deref_mut()
    }

    pub(crate) fn requests(&self) -> Option<&Requests> {
        self.state().map(|state| &state.requests)
    }

    pub(crate) fn requests_mut(&mut self) -> Option<&mut Requests> {
        self.state_mut().map(|state| &mut state.requests)
    }

    /// Whether this endpoint has no address that it may send from, other than ASCONF (RFC 5061 §5.3 F1, F4).
    pub(crate) fn is_between_addresses(&self) -> bool {
        self.requests().is_some_and(Requests::is_between_addresses)
    }

    /// The source of an ABORT that cannot wait, if this endpoint has no address that the peer knows.
    pub(crate) fn next_source(&self) -> Option<IpAddr> {
        let requests = self
            .requests()
            .filter(|requests| requests.is_between_addresses())?;
        requests.wanted().first().copied()
    }

    /// Whether a packet arrived at an address that this endpoint is deleting: an ABORT there has no effect (RFC 5061 §5.3 F4).
    pub(crate) fn is_leaving(&self, local: Option<IpAddr>) -> bool {
        let leaves = |requests: &Requests| local.is_some_and(|local| requests.is_leaving(local));
        self.requests().is_some_and(leaves)
    }
}
