//! Notices of selective forward TSN (Basto and Freitas): which chunks they are about, and the packets that carry them.

use anabranch_wire::packet::PacketWriter;

use super::super::eligibility::DataTurn;
use super::super::{Cx, Sender};
use crate::association_state::permit;
use crate::controller::Controller;
use crate::message::{DiscardNotice, Persistence};
use crate::path::{PathId, PathState};

impl Sender {
    /// The path on which notices ask for a packet without data: a path whose congestion window allows no data, and that has notices which
    /// ask for such a packet ([`DiscardNotice::Alone`]).
    pub(super) fn notices_ask(&mut self, cx: &Cx<'_>) -> Option<PathId> {
        let mut ids = (0..cx.paths.len()).map(|index| PathId(index as u8));
        ids.find(|id| self.wants_notices_alone(cx, *id))
    }

    fn wants_notices_alone(&mut self, cx: &Cx<'_>, id: PathId) -> bool {
        let path = cx.paths.path(id);
        let closed = path.state == PathState::Active && !path.has_cwnd_room();
        closed && cx.state.may(permit::SEND_DATA) && self.sources.notices.wants_packet(id, &self.outstanding)
    }

    /// Whether a notice is to leave with the next packet on a path.
    pub(in super::super) fn notice_due(&mut self, cx: &Cx<'_>, id: PathId) -> bool {
        if !self.sources.notices.is_enabled() {
            return false;
        }
        let path = cx.paths.path(id);
        let full = path.pmtu.max_data();
        let window = path.control.window() / full;
        let closes = path.timers.single_packet || path.flight.bytes() + full >= path.control.window();
        self.sources.notices.is_due(id, &self.outstanding, window, closes)
    }

    /// Adds notices of chunks that left before on this path, if they leave room for the data.
    pub(super) fn push_notices(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        data: Option<DataTurn>,
        packet: &mut PacketWriter<'_>,
    ) {
        let data = match data {
            Some(turn) => self.wire_len(turn),
            None if self.wants_notices_alone(cx, id) => 0,
            None => return,
        };
        let kind = cx.config.chunk_types.selective_forward_tsn;
        // One AUTH chunk is enough for the notice and the data after it.
        let mut auth_len = packet.auth_len_before(kind);
        if data > 0 {
            auth_len = auth_len.max(packet.auth_len_before(self.data_kind(cx)));
        }
        let least = data + self.sources.notices.reserve() + auth_len;
        while packet.room() >= least
            && self.notice_due(cx, id)
            && let Some(notice) = self.sources.notices.take(id)
        {
            packet.push_as(kind, &notice);
            cx.counters.selective_notices_sent += 1;
        }
        self.sources.notices.on_packet(id);
    }

    /// The chunk `index` was sent: if it will not be retransmitted, a later packet notifies the receiver.
    #[inline(always)]
    pub(super) fn note_last_transmission(&mut self, cx: &mut Cx<'_>, index: u64) {
        if self.sources.notices.is_enabled() {
            self.note_if_last(cx, index);
        }
    }

    fn note_if_last(&mut self, cx: &mut Cx<'_>, index: u64) {
        let chunk = self.outstanding.chunk(index);
        if chunk.fragment.unordered || chunk.fragment.haste.notice == DiscardNotice::Never {
            return;
        }
        let round_trip = cx.paths.path(chunk.path).rtt.smoothed();
        let last = match chunk.fragment.persistence {
            Persistence::Retransmissions(count) => chunk.transmissions > count,
            // The loss cannot be known before the lifetime is over.
            Persistence::Until(deadline) => round_trip.is_some_and(|time| cx.now + time > deadline),
            Persistence::Reliable | Persistence::Priority(_) => false,
        };
        if last {
            self.sources.notices.on_last_sent(index, chunk);
        }
    }
}
