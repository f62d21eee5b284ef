//! ICMP messages about packets of this endpoint (RFC 9260 §10; RFC 6951 §5.5): what they say, and what of the packet
//! they quote.
//!
//! Anybody can send an ICMP message. One counts only if the quoted packet shows the verification tag of an association,
//! which nobody off the path knows: see [`crate::Association::handle_icmp`].

use std::net::SocketAddr;

use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::kind;
use anabranch_wire::packet::{CommonHeader, Packet};
use bytes::Bytes;

/// Where the Initiate Tag stands in a packet that begins with an INIT chunk (§3.1, §3.3.2).
const INITIATE_TAG: core::ops::Range<usize> = 16..20;

/// An ICMP or ICMPv6 message about a packet that this side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpMessage {
    /// What it says.
    pub kind: IcmpKind,
    /// Where the quoted packet was sent: address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// The beginning of the quoted SCTP packet, without the IP and UDP headers before it.
    pub quote: Bytes,
}

/// What an ICMP message says. Other types and codes are not for this crate (ICMP1 to ICMP4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IcmpKind {
    /// *Destination Unreachable*, code *Port Unreachable* (ICMPv4 type 3 code 3, ICMPv6 type 1 code 4). It counts only if
    /// UDP carries the packets.
    PortUnreachable,
    /// *Destination Unreachable*, code *Protocol Unreachable* (ICMPv4 type 3 code 2), or *Parameter Problem*, code
    /// *Unrecognized Next Header Type* (ICMPv6 type 4 code 1).
    ProtocolUnreachable,
    /// *Fragmentation Needed* (ICMPv4 type 3 code 4) or *Packet Too Big* (ICMPv6 type 2): the largest IP packet in bytes that
    /// may pass, if the message tells it.
    TooLarge(Option<u16>),
}

impl IcmpMessage {
    /// The common header of the quoted packet; `None` if the quote is too short for one.
    pub(crate) fn header(&self) -> Option<CommonHeader> {
        // The checksum covers the whole packet, of which the quote need not be all.
        Some(Packet::parse_unchecked(self.quote.clone()).ok()?.header)
    }

    /// The Initiate Tag of the INIT chunk that the quoted packet begins with, if the quote is long enough to show both.
    pub(crate) fn initiate_tag(&self) -> Option<VerificationTag> {
        let tag = self.quote.get(INITIATE_TAG)?;
        let is_init = self.quote.get(anabranch_wire::packet::COMMON_HEADER_LEN) == Some(&kind::INIT);
        let tag = <[u8; 4]>::try_from(tag).ok()?;
        is_init.then(|| VerificationTag(u32::from_be_bytes(tag)))
    }
}
