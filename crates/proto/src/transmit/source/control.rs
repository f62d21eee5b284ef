//! Control chunks: set-up, shutdown, heartbeats, requests and their answers, in the order in which they were queued.

use anabranch_wire::chunk::{Chunk, EncodeChunk, padded};
use anabranch_wire::packet::PacketWriter;

use super::super::{Assembler, Cx};
use super::Plan;
use crate::association_state::AssociationState;

/// Whether a packet with this chunk needs a checksum, whatever the peer accepts (RFC 9653 §5.2).
pub(in super::super) fn needs_checksum(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_) | Chunk::Asconf(_))
}

impl Assembler<'_> {
    /// Adds the control chunks for this path. Returns whether other chunks may follow: none follow an INIT, and nothing but heartbeats and
    /// ASCONF leaves while no address of the peer is confirmed (RFC 5061 §5.3 F1).
    pub(super) fn write_control(
        &mut self,
        cx: &Cx<'_>,
        plan: &mut Plan,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        let mut cookie_echo = false;
        while let Some(waiting) = self.control.peek() {
            let room = packet.room_for(waiting.chunk.kind());
            let fits = padded(waiting.chunk.encoded_len()) <= room || packet.is_empty();
            let alone = matches!(waiting.chunk, Chunk::Init(_));
            if waiting.path != plan.path || !fits || (alone && !packet.is_empty()) {
                break;
            }
            let Some(waiting) = self.control.pop() else { break };
            packet.push(&waiting.chunk);
            if alone {
                return false;
            }
            cookie_echo |= matches!(waiting.chunk, Chunk::CookieEcho(_));
        }
        // Before set-up is complete, DATA leaves only with a COOKIE ECHO (§5.1).
        if cx.state == AssociationState::CookieEchoed && !cookie_echo {
            plan.data = None;
        }
        !cx.paths.awaits_confirmation()
    }
}
