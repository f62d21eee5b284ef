//! Verification tags and ports of an association, and the verification of received packets by them (RFC 9260 §8.5, §8.5.1).

use anabranch_wire::chunk::{Chunk, RawChunk, kind};
use anabranch_wire::packet::CommonHeader;
use anabranch_wire::{Tsn, VerificationTag};

use crate::event::Reply;
use crate::extension::auth::Signer;
use crate::inbound::Inbound;
use crate::negotiation::TieTags;
use crate::path::Path;
use crate::transmit::write_packet;

/// Ports, verification tags, and the Tie-Tags that represent the verification tags in cookies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) local_tag: VerificationTag,
    /// 0 before it is known.
    pub(crate) peer_tag: VerificationTag,
    /// Represent the verification tags in cookies (§5.2.2).
    pub(crate) tie_tags: TieTags,
    pub(crate) local_initial_tsn: Tsn,
}

impl Identity {
    /// Whether the peer's tag is known. Without it no packet can be sent to the peer.
    pub(super) fn knows_peer(&self) -> bool {
        self.peer_tag.0 != 0
    }

    /// Whether a packet has this endpoint's tag: then the peer sent it, or an attacker that reads the peer's packets.
    pub(super) fn is_proven(&self, inbound: &Inbound) -> bool {
        inbound.packet.header.verification_tag == self.local_tag
    }

    /// Whether a packet that begins with this chunk has the tag that it must have. COOKIE ECHO is verified by its cookie.
    pub(super) fn accepts(&self, inbound: &Inbound, first: &RawChunk<'_>) -> bool {
        match first.kind {
            kind::INIT => inbound.is_lone_init(),
            kind::COOKIE_ECHO => true,
            kind::ABORT | kind::SHUTDOWN_COMPLETE => self.accepts_last(inbound, first.flags & 1 != 0),
            _ => self.is_proven(inbound),
        }
    }

    /// §8.5.1 B and C, for an ABORT or a SHUTDOWN COMPLETE: with the T bit, the packet has the tag of the packet that it answers.
    pub(super) fn accepts_last(&self, inbound: &Inbound, reflected: bool) -> bool {
        let tag = inbound.packet.header.verification_tag;
        let expected = if reflected { self.peer_tag } else { self.local_tag };
        tag == expected && tag.0 != 0
    }

    /// The common header of a packet to the peer.
    pub(super) fn header(&self) -> CommonHeader {
        CommonHeader {
            source_port: self.local_port,
            destination_port: self.remote_port,
            verification_tag: self.peer_tag,
        }
    }

    /// A packet with one chunk, which may be sent after the association has ended.
    pub(super) fn last_packet(&self, path: &Path, chunk: Chunk, signer: Option<&Signer>) -> Reply {
        Reply {
            source: path.route.local,
            destination: path.route.remote,
            packet: write_packet(self.header(), &[chunk], signer).into(),
        }
    }
}
