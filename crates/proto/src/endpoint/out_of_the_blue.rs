//! Packets that belong to no association (RFC 9260 §8.4).

use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk, RawChunk, ShutdownComplete, kind};

use super::{Handling, Inbound, reply};

/// The answer to such a packet: rules 2 to 8. Rule 1 (who sent it, and to whom) was looked at, and an INIT and a COOKIE
/// ECHO that are as they should be have been dealt with (rules 3 and 4).
pub(crate) fn answer(inbound: &Inbound) -> Handling {
    let tag = inbound.packet.header.verification_tag;
    let contains = |kind| contains(inbound, kind);
    // Tag 0 is for an INIT alone (§8.5.1 A), and an INIT that is not ends the packet (§12.3): nothing is left here that
    // could be answered, as with a first chunk that is cut off.
    let begins_readable = chunks(inbound).next().is_some_and(|raw| raw.kind != kind::INIT);
    if tag.0 == 0 || !begins_readable || contains(kind::ABORT) {
        return Handling::Done;
    }
    if contains(kind::SHUTDOWN_ACK) {
        let complete = ShutdownComplete { reflected_tag: true };
        return reply(inbound, tag, &[Chunk::ShutdownComplete(complete)]);
    }
    let stale_cookie = chunks(inbound).any(is_stale_cookie);
    if contains(kind::SHUTDOWN_COMPLETE) || contains(kind::COOKIE_ACK) || stale_cookie {
        return Handling::Done;
    }
    let abort = Abort {
        reflected_tag: true,
        causes: Causes::empty(),
    };
    reply(inbound, tag, &[Chunk::Abort(abort)])
}

/// The answer to a packet of an association that ended in order, and whose peer has this tag: what brings the peer to its end,
/// and no ABORT instead of rule 8, which would take it there as if it were cut off. SHUTDOWN comes from a peer that none of
/// the SHUTDOWN ACKs reached.
pub(super) fn answer_after_end(inbound: &Inbound, peer_tag: VerificationTag) -> Handling {
    if contains(inbound, kind::SHUTDOWN_ACK) {
        answer(inbound)
    } else if contains(inbound, kind::SHUTDOWN) {
        reply(inbound, peer_tag, &[Chunk::ShutdownAck])
    } else {
        Handling::Done
    }
}

/// Whether a chunk of this type is anywhere in the packet.
pub(crate) fn contains(inbound: &Inbound, kind: u8) -> bool {
    chunks(inbound).any(|raw| raw.kind == kind)
}

fn chunks(inbound: &Inbound) -> impl Iterator<Item = RawChunk<'_>> {
    inbound.packet.chunks().map_while(Result::ok)
}

fn is_stale_cookie(raw: RawChunk<'_>) -> bool {
    if raw.kind != kind::ERROR {
        return false;
    }
    let Ok(Chunk::Error(error)) = Chunk::decode(raw) else {
        return false;
    };
    error
        .causes
        .iter()
        .any(|cause| matches!(cause, Ok(Cause::StaleCookie { .. })))
}
