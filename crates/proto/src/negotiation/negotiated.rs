//! The values negotiated at set-up, whichever endpoint began it.

use std::net::IpAddr;

use anabranch_wire::{Tsn, VerificationTag};

use super::capabilities::Capabilities;

/// All values that an association adopts from an INIT ACK or a returned state cookie, with the limits of both endpoints applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Negotiated<'a> {
    pub(crate) peer_tag: VerificationTag,
    /// The peer's advertised receiver window.
    pub(crate) peer_rwnd: u32,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) capabilities: Capabilities,
    /// The addresses of the peer; the address that set-up used may be among them.
    pub(crate) addresses: &'a [IpAddr],
}
