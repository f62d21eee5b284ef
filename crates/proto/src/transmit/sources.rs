//! Chunks bundled with data: FORWARD-TSN (RFC 3758 §3.5), extended FORWARD-TSN, FORWARD-PSN (ECA-SCTP) and notices of selective forward
//! TSN.

use anabranch_wire::Psn;
use anabranch_wire::chunk::{ForwardPsn, PathSequence, kind};
use anabranch_wire::packet::PacketWriter;
use core::time::Duration;

use super::{Cx, Sender};
use crate::association_state::permit;
use crate::controller::Controller;
use crate::message::{DiscardNotice, Persistence};
use crate::path::{Path, PathId, PathState};

impl Sender {
    /// Whether a FORWARD-TSN is due.
    pub(super) fn forward_due(&self, cx: &Cx<'_>) -> bool {
        self.sources.forward.is_due(&self.outstanding)
            && cx.state.may(permit::SEND_DATA)
            && !cx.state.may(permit::SET_UP)
    }

    /// Whether an extended FORWARD-TSN is due.
    pub(super) fn extended_due(&self, cx: &Cx<'_>) -> bool {
        let forward = &self.sources.forward;
        self.sources.extended.is_due(&self.outstanding, forward.point())
            && cx.state.may(permit::SEND_DATA)
            && !cx.state.may(permit::SET_UP)
    }

    /// Whether any of these chunks may be due.
    pub(super) fn has_sources(&self, cx: &Cx<'_>) -> bool {
        self.forward_due(cx)
            || self.extended_due(cx)
            || self.outstanding.identity().is_some()
            || self.sources.notices.is_enabled()
    }

    /// Adds the chunks that are due: a FORWARD-TSN, before any data (RFC 3758 §3.5 F2), and notices of chunks that left before, if
    /// they leave `data` bytes free.
    pub(super) fn push_sources(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        data: Option<usize>,
        packet: &mut PacketWriter<'_>,
    ) {
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
        if self.extended_due(cx) && id == cx.paths.data_path() {
            self.push_extended(cx, packet);
        }
        self.push_forward_psn(cx, id, packet);
        if self.sources.notices.is_enabled()
            && let Some(data) = data.or_else(|| self.wants_notices_alone(cx, id).then_some(0))
        {
            self.push_notices(cx, id, data, packet);
        }
    }

    /// Adds an extended FORWARD-TSN.
    fn push_extended(&mut self, cx: &mut Cx<'_>, packet: &mut PacketWriter<'_>) {
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

    /// The path of a packet with notices and no data: a path whose congestion window allows no data, and that has notices which ask for
    /// such a packet ([`DiscardNotice::Alone`]).
    pub(super) fn notices_alone(&mut self, cx: &Cx<'_>) -> Option<PathId> {
        if !self.sources.notices.is_enabled() {
            return None;
        }
        let mut ids = (0..cx.paths.len()).map(|index| PathId(index as u8));
        ids.find(|id| self.wants_notices_alone(cx, *id))
    }

    fn wants_notices_alone(&mut self, cx: &Cx<'_>, id: PathId) -> bool {
        let path = cx.paths.path(id);
        let closed = path.state == PathState::Active && !path.has_cwnd_room();
        closed && cx.state.may(permit::SEND_DATA) && self.sources.notices.wants_packet(id, &self.outstanding)
    }

    /// Whether a notice is to leave with the next packet on a path.
    pub(super) fn notice_due(&mut self, cx: &Cx<'_>, id: PathId) -> bool {
        if !self.sources.notices.is_enabled() {
            return false;
        }
        let path = cx.paths.path(id);
        let full = path.pmtu.max_data();
        let window = path.control.window() / full;
        let closes = path.timers.single_packet || path.flight.bytes() + full >= path.control.window();
        self.sources.notices.is_due(id, &self.outstanding, window, closes)
    }

    /// Adds notices of chunks that left before on this path, if they leave `data` bytes free.
    fn push_notices(&mut self, cx: &mut Cx<'_>, id: PathId, data: usize, packet: &mut PacketWriter<'_>) {
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
    #[inline]
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

    /// Adds a FORWARD-PSN for the path of this packet, if its receiver waits for transmissions that were lost or retransmitted elsewhere.
    fn push_forward_psn(&mut self, cx: &mut Cx<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        if !cx.config.multipath.eca.forward_psn
            || packet.room_for(cx.config.chunk_types.forward_psn) < ForwardPsn::LEN
        {
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
    pub(super) fn forward_psn_alone(&self, cx: &Cx<'_>) -> Option<PathId> {
        self.outstanding.identity()?;
        let stuck = |path: &&Path| !path.flight.has_numbers() && path.state == PathState::Active;
        let mut stuck = cx.paths.iter().filter(stuck).map(|path| path.id);
        let tells = cx.config.multipath.eca.forward_psn && cx.state.may(permit::SEND_DATA);
        stuck.find(|id| tells && self.forward_psn_due(cx, *id).is_some())
    }
}
