//! Packets that belong to no association (RFC 9260 §8.4).

use anabranch_wire::cause::{Cause, Causes};
use anabranch_wire::chunk::{Abort, Chunk, ShutdownComplete, kind};

use super::{Handling, Inbound, reply};

/// The answer to such a packet: rules 2 to 8. Rule 1 (who sent it) was looked at, and INIT and a COOKIE ECHO for a port
/// that accepts have been dealt with (rules 3 and 4).
pub(super) fn answer(inbound: &Inbound) -> Handling {
    let tag = inbound.packet.header.verification_tag;
    let mut chunks = 0;
    for raw in inbound.packet.chunks().map_while(Result::ok) {
        let first = chunks == 0;
        chunks += 1;
        match raw.kind {
            kind::ABORT | kind::SHUTDOWN_COMPLETE => return Handling::Done,
            kind::SHUTDOWN_ACK if first => {
                return reply(
                    inbound,
                    tag,
                    &[Chunk::ShutdownComplete(ShutdownComplete { reflected_tag: true })],
                );
            }
            // An INIT that came here had a tag, or company: it is no INIT (§8.5.1 A).
            kind::COOKIE_ACK | kind::INIT => return Handling::Done,
            kind::ERROR if is_stale_cookie(&raw) => return Handling::Done,
            _ => {}
        }
    }
    // Nothing readable is answered by nothing; tag 0 names nobody.
    if chunks == 0 || tag.0 == 0 {
        return Handling::Done;
    }
    reply(
        inbound,
        tag,
        &[Chunk::Abort(Abort {
            reflected_tag: true,
            causes: Causes::empty(),
        })],
    )
}

fn is_stale_cookie(raw: &anabranch_wire::chunk::RawChunk) -> bool {
    let Ok(Chunk::Error(error)) = Chunk::decode(raw.clone()) else {
        return false;
    };
    error
        .causes
        .iter()
        .any(|cause| matches!(cause, Ok(Cause::StaleCookie { .. })))
}
