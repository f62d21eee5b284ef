//! Extended FORWARD-TSN (Rajiullah and Brunstrom §IV).

use anabranch_wire::packet::PacketWriter;

use super::super::{Cx, Sender};
use crate::association_state::permit;
use crate::path::PathId;

impl Sender {
    /// Whether an extended FORWARD-TSN is due.
    pub(super) fn extended_due(&self, cx: &Cx<'_>) -> bool {
        let forward = &self.sources.forward;
        self.sources.extended.is_due(&self.outstanding, forward.point())
            && cx.state.may(permit::SEND_DATA)
            && !cx.state.may(permit::SET_UP)
    }

    /// Adds an extended FORWARD-TSN if it is due.
    pub(super) fn push_extended(&mut self, cx: &mut Cx<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        if !self.extended_due(cx) || id != cx.paths.data_path() {
            return;
        }
        let kind = cx.config.chunk_types.extended_forward_tsn;
        let (point, room) = (self.sources.forward.point(), packet.room_for(kind));
        if let Some(forward) = self
            .sources
            .extended
            .build(cx.now, &mut self.outstanding, point, room)
        {
            packet.push_as(kind, &forward);
            cx.counters.extended_forwards_sent += 1;
        }
    }
}
