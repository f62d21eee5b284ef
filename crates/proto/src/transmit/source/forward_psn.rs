//! FORWARD-PSN (ECA-SCTP): the receiver of a path need not wait for transmissions that were lost or retransmitted elsewhere.

use core::time::Duration;

use anabranch_wire::Psn;
use anabranch_wire::chunk::{ForwardPsn, PathSequence};
use anabranch_wire::packet::PacketWriter;

use super::super::{Cx, Sender};
use crate::association_state::permit;
use crate::path::{Path, PathId, PathState};

impl Sender {
    /// Adds a FORWARD-PSN for the path of this packet, if its receiver waits for transmissions that were lost or retransmitted elsewhere.
    pub(super) fn push_forward_psn(&mut self, cx: &mut Cx<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        if packet.room_for(cx.config.chunk_types.forward_psn) < ForwardPsn::LEN {
            return;
        }
        if let Some(number) = self.forward_psn_due(cx, id)
            && let Some(identity) = self.outstanding.identity_mut()
        {
            identity.on_forward_told(id, cx.now);
            let point = ForwardPsn(PathSequence { path: id.0, number });
            packet.push_as(cx.config.chunk_types.forward_psn, &point);
            cx.counters.forward_psns_sent += 1;
        }
    }

    fn forward_psn_due(&self, cx: &Cx<'_>, id: PathId) -> Option<Psn> {
        let identity = self.outstanding.identity()?;
        let Path { rtt, flight, .. } = cx.paths.path(id);
        // Never at once: the chunk could otherwise take the place of the data in every packet.
        let wait = rtt.smoothed().map_or(rtt.rto(), |srtt| 2 * srtt);
        let wait = wait.max(Duration::from_millis(1));
        identity.forward_due(id, flight, cx.now, wait)
    }

    /// A path that has no numbers left for new transmissions, so that a FORWARD-PSN must leave without data.
    pub(super) fn forward_psn_asks(&self, cx: &Cx<'_>) -> Option<PathId> {
        let stuck = |path: &&Path| !path.flight.has_numbers() && path.state == PathState::Active;
        let mut stuck = cx.paths.iter().filter(stuck).map(|path| path.id);
        let tells = cx.state.may(permit::SEND_DATA);
        stuck.find(|id| tells && self.forward_psn_due(cx, *id).is_some())
    }
}
