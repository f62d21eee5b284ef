//! COOP-SACK (ECA-SCTP): the acknowledgement of transmissions, and its copies on other paths.

use anabranch_wire::chunk::CoopSackWriter;
use anabranch_wire::packet::PacketWriter;

use super::super::{Assembler, Cx};
use crate::path::PathId;

impl Assembler<'_> {
    /// Adds a COOP-SACK to a packet for `id`; `own` is false if it is the copy of one that left on another path.
    pub(super) fn push_coop_sack(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        own: bool,
        room: usize,
        packet: &mut PacketWriter<'_>,
    ) {
        let kind = cx.config.chunk_types.coop_sack;
        let blocks = self
            .receiver
            .build_coop_ack(cx.now, room, |ack: &CoopSackWriter<'_>| {
                packet.push_as(kind, ack);
            });
        cx.counters.gap_blocks_sent += blocks as u64;
        cx.counters.sacks_sent += 1;
        self.sender.push_echoes(cx, packet);
        let active = cx.paths.active().map(|path| path.id);
        let others = active.filter(|other| own && *other != id);
        self.receiver.on_copied(id, others);
    }
}
