//! The values negotiated at set-up, whichever endpoint began it.

use std::net::IpAddr;

use anabranch_wire::{Tsn, VerificationTag};

use super::capabilities::Capabilities;
use crate::extension::auth::KeyExchange;
use crate::extension::protection::KeyParameters;

/// The most addresses of one peer that are considered; further ones are ignored.
pub(super) const MOST_ADDRESSES: usize = 64;

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
    /// The parameters of authentication, if both endpoints sent them.
    pub(crate) authentication: Option<KeyExchange<'a>>,
    /// The parameters of key management, if packets are to be protected.
    pub(crate) protection: Option<KeyParameters<'a>>,
    /// The Adaptation Code Point of the peer (RFC 5061 §4.2.6).
    pub(crate) adaptation_layer: Option<u32>,
    /// The addresses of the peer; the address that set-up used may be among them.
    pub(crate) addresses: &'a [IpAddr],
}
