//! What set-up has settled, whichever side began it.

use std::net::IpAddr;

use anabranch_wire::{Tsn, VerificationTag};

use super::capabilities::Capabilities;

/// What an INIT ACK or a returned state cookie says, after both sides' limits: all that an association adopts of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Negotiated<'a> {
    pub(crate) peer_tag: VerificationTag,
    /// The peer's advertised receiver window.
    pub(crate) peer_rwnd: u32,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) capabilities: Capabilities,
    /// Addresses of the peer; the one that set-up used may be among them.
    pub(crate) addresses: &'a [IpAddr],
}
