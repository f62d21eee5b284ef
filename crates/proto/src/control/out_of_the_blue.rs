//! Out-of-the-blue packets, which belong to no association (RFC 9260 §8.4).

use anabranch_wire::VerificationTag;
use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk, RawChunk, ShutdownComplete, kind};

use super::reply;
use crate::event::Reply;
use crate::inbound::Inbound;

/// The answer to such a packet by rules 2 to 8. The caller has verified the addresses (rule 1), and handled a valid INIT and a
/// valid COOKIE ECHO (rules 3 and 4).
pub(crate) fn answer(inbound: &Inbound) -> Option<Reply> {
    let tag = inbound.packet.header.verification_tag;
    let contains = |kind| inbound.contains(kind);
    // Tag 0 is allowed for an INIT alone (§8.5.1 A), and an INIT with other chunks ends the packet (§12.3): such a packet gets no answer,
    // nor does a packet whose first chunk is truncated.
    let begins_readable = inbound.leading().is_some_and(|raw| raw.kind != kind::INIT);
    if tag.0 == 0 || !begins_readable || contains(kind::ABORT) {
        return None;
    }
    if contains(kind::SHUTDOWN_ACK) {
        let complete = ShutdownComplete { reflected_tag: true };
        return Some(reply(inbound, tag, &[Chunk::ShutdownComplete(complete)]));
    }
    let stale_cookie = inbound.chunks().any(is_stale_cookie);
    if contains(kind::SHUTDOWN_COMPLETE) || contains(kind::COOKIE_ACK) || stale_cookie {
        return None;
    }
    let abort = Abort {
        reflected_tag: true,
        causes: Causes::empty(),
    };
    Some(reply(inbound, tag, &[Chunk::Abort(abort)]))
}

/// The answer to a packet of an association that has completed its shutdown, and whose peer has this tag. It lets the peer
/// complete the shutdown too, instead of the ABORT of rule 8. A SHUTDOWN comes from a peer that received none of the
/// SHUTDOWN ACKs.
pub(crate) fn answer_after_end(inbound: &Inbound, peer_tag: VerificationTag) -> Option<Reply> {
    if inbound.contains(kind::SHUTDOWN_ACK) {
        answer(inbound)
    } else if inbound.contains(kind::SHUTDOWN) {
        Some(reply(inbound, peer_tag, &[Chunk::ShutdownAck]))
    } else {
        None
    }
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
