//! FORWARD-TSN and I-FORWARD-TSN (RFC 3758 §3.5, RFC 8260 §2.3).

use anabranch_wire::chunk::kind;
use anabranch_wire::packet::PacketWriter;

use super::super::{Cx, Sender};
use crate::association_state::permit;
use crate::path::PathId;

impl Sender {
    /// Whether a FORWARD-TSN is due.
    pub(super) fn forward_due(&self, cx: &Cx<'_>) -> bool {
        self.sources.forward.is_due(&self.outstanding)
            && cx.state.may(permit::SEND_DATA)
            && !cx.state.may(permit::SET_UP)
    }

    /// Adds a FORWARD-TSN if it is due, before any data (RFC 3758 §3.5 F2).
    pub(super) fn push_forward_tsn(&mut self, cx: &mut Cx<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        let forward_kind = if self.queue.format().interleaves() {
            kind::I_FORWARD_TSN
        } else {
            kind::FORWARD_TSN
        };
        if self.forward_due(cx)
            && id == cx.paths.data_path()
            && let Some(forward) =
                self.sources
                    .forward
                    .build(cx.now, &self.outstanding, packet.room_for(forward_kind))
        {
            packet.push(&forward);
            self.outstanding
                .on_forward_sent(self.sources.forward.told(), cx.now);
            cx.counters.forward_tsns_sent += 1;
            self.keep_timer(cx);
        }
    }
}
