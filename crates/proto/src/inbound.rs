//! A received packet with its addresses and ECN codepoint, before an association handles it (RFC 9260 §6.8, §8.5).

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::chunk::{RawChunk, kind};
use anabranch_wire::packet::Packet;

use crate::ecn::EcnCodepoint;

/// A packet for an association: its length, checksum and ports have been verified.
#[derive(Clone, Debug)]
pub struct Inbound {
    pub(crate) packet: Packet,
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    /// The ECN codepoint with which the datagram arrived.
    pub(crate) ecn: EcnCodepoint,
}

impl Inbound {
    /// Length of the SCTP packet in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a packet has a header at least")]
    pub fn len(&self) -> usize {
        self.packet.len()
    }

    /// The chunks, up to the first one that is cut off or has no length (RFC 9260 §6.10).
    pub(crate) fn chunks(&self) -> impl Iterator<Item = RawChunk<'_>> {
        self.packet.chunks().map_while(Result::ok)
    }

    /// The first chunk, without an AUTH chunk before it (RFC 4895 §6.3): it tells which association the packet is for.
    pub(crate) fn leading(&self) -> Option<RawChunk<'_>> {
        let mut chunks = self.chunks();
        let first = chunks.next()?;
        let authenticated = (first.kind == kind::AUTH).then(|| chunks.next()).flatten();
        authenticated.or(Some(first))
    }

    /// Whether the packet begins with a DTLS chunk.
    pub(crate) fn is_dtls(&self) -> bool {
        self.chunks().next().is_some_and(|raw| raw.kind == kind::DTLS)
    }

    /// Whether the packet begins with AUTH and COOKIE ECHO (RFC 4895 §6.3).
    pub(crate) fn has_cookie_echo_after_auth(&self) -> bool {
        let mut kinds = self.chunks().map(|raw| raw.kind);
        kinds.next() == Some(kind::AUTH) && kinds.next() == Some(kind::COOKIE_ECHO)
    }

    /// Whether a chunk of this type is anywhere in the packet.
    pub(crate) fn contains(&self, kind: u8) -> bool {
        self.chunks().any(|raw| raw.kind == kind)
    }

    /// Whether a packet with an INIT is valid: its tag is 0 and the INIT is its only chunk (RFC 9260 §8.5.1 A, §12.3).
    pub(crate) fn is_lone_init(&self) -> bool {
        self.packet.header.verification_tag.0 == 0 && self.packet.chunks().nth(1).is_none()
    }
}
