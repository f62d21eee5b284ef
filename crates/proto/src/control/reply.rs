//! A packet that answers a packet, under a verification tag that need not be that of an association (RFC 9260 §8.4, §8.5.1).

use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk};
use anabranch_wire::packet::CommonHeader;

use crate::event::Reply;
use crate::inbound::Inbound;
use crate::transmit::write_packet;

/// A packet with these chunks, to the source address and ports of `inbound`.
pub(crate) fn reply(inbound: &Inbound, tag: VerificationTag, chunks: &[Chunk]) -> Reply {
    let header = CommonHeader {
        source_port: inbound.packet.header.destination_port,
        destination_port: inbound.packet.header.source_port,
        verification_tag: tag,
    };
    Reply {
        source: inbound.local,
        destination: inbound.remote,
        packet: write_packet(header, chunks, None).into(),
    }
}

/// The ABORT to a peer whose INIT or COOKIE ECHO is refused; its tag is known (RFC 9260 §5.1, §8.4 rule 3).
pub(crate) fn refuse(inbound: &Inbound, tag: VerificationTag, causes: &[Cause]) -> Reply {
    let abort = Abort {
        reflected_tag: false,
        causes: Causes::from_causes(causes),
    };
    reply(inbound, tag, &[Chunk::Abort(abort)])
}
