//! ICMP messages about packets of this endpoint (RFC 9260 §10; RFC 6951 §5.5): their meaning, and the part of the packet that they
//! quote.
//!
//! Anybody can send an ICMP message. A message has an effect only if the quoted packet contains the verification tag of an association,
//! which no host off the path knows: see [`crate::Association::handle_icmp`].

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::kind;
use anabranch_wire::packet::{CommonHeader, Packet};
use bytes::Bytes;

/// The position of the Initiate Tag in a packet that begins with an INIT chunk (§3.1, §3.3.2), in bytes.
const INITIATE_TAG: core::ops::Range<usize> = 16..20;

/// An ICMP or ICMPv6 message about a packet that this endpoint sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpMessage {
    /// The meaning of the message.
    pub kind: IcmpKind,
    /// The source of the quoted packet, a local address, if the system tells it: it chooses among paths to one address.
    pub source: Option<IpAddr>,
    /// The destination of the quoted packet: address and UDP port (0 without encapsulation).
    pub destination: SocketAddr,
    /// The beginning of the quoted SCTP packet, without its IP and UDP headers.
    pub quote: Bytes,
}

/// The meaning of an ICMP message. This crate does not use other types and codes (RFC 9260 §10, ICMP1 to ICMP4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IcmpKind {
    /// *Destination Unreachable*, code *Port Unreachable* (ICMPv4 type 3 code 3, ICMPv6 type 1 code 4). It has an effect only if
    /// packets are encapsulated in UDP.
    PortUnreachable,
    /// *Destination Unreachable*, code *Protocol Unreachable* (ICMPv4 type 3 code 2), or *Parameter Problem*, code
    /// *Unrecognized Next Header Type* (ICMPv6 type 4 code 1).
    ProtocolUnreachable,
    /// *Fragmentation Needed* (ICMPv4 type 3 code 4) or *Packet Too Big* (ICMPv6 type 2): the largest IP packet in bytes that may
    /// pass, if the message contains it.
    TooLarge(Option<u16>),
}

impl IcmpMessage {
    /// The common header of the quoted packet; `None` if the quote is too short for one.
    pub(crate) fn header(&self) -> Option<CommonHeader> {
        // The checksum covers the whole packet, but the quote may be shorter.
        Some(Packet::parse_unchecked(self.quote.clone()).ok()?.header)
    }

    /// The Initiate Tag of the INIT chunk that begins the quoted packet, if the quote is long enough.
    pub(crate) fn initiate_tag(&self) -> Option<VerificationTag> {
        let tag = self.quote.get(INITIATE_TAG)?;
        let is_init = self.quote.get(anabranch_wire::packet::COMMON_HEADER_LEN) == Some(&kind::INIT);
        let tag = <[u8; 4]>::try_from(tag).ok()?;
        is_init.then(|| VerificationTag(u32::from_be_bytes(tag)))
    }
}
