//! Bundling DATA chunks into a packet (RFC 9260 §6.1, §6.10): retransmissions first, then new chunks.

use anabranch_wire::chunk::PathSequence;
use anabranch_wire::packet::PacketWriter;
use anabranch_wire::{Psn, Tsn};

use super::super::eligibility::DataTurn;
use super::super::{Assembler, Cx, Sender};
use super::Plan;
use crate::association_state::AssociationState;
use crate::config::SchedulerKind;
use crate::ecn::EcnCodepoint;
use crate::extension::eca::PathView;
use crate::negotiation::Capabilities;
use crate::path::{Flight, Path, PathId, SendNo};
use crate::recovery::ChunkState;
use crate::send::{Label, TransmissionName};
use crate::seq::ExtendedTsn;

/// A part of a message fills the rest of a packet if it is at least this share of the longest part. A shorter one is not worth its chunk header.
const LEAST_PART: usize = 8;

impl Assembler<'_> {
    /// Adds the data of this packet, if it has any.
    pub(super) fn push_turn(&mut self, cx: &mut Cx<'_>, plan: &mut Plan, packet: &mut PacketWriter<'_>) {
        let Some(turn) = plan.data else { return };
        if self.sender.push_data(cx, turn, packet) {
            self.probe_due = true;
        }
        if cx.capabilities.has(Capabilities::ECN) && self.sender.note_marking(cx, plan.path, plan.may_mark) {
            plan.ecn = EcnCodepoint::Ect0;
        }
        self.sender.note_probe(cx, plan.path);
        let starved = self.sender.was_starved();
        cx.paths.path_mut(plan.path).on_packet_sent(cx.now, starved);
        self.sender.queue.on_packet();
    }
}

impl Sender {
    /// Whether the application, and not the network, was the limit when the sender was last asked for a packet.
    pub(super) fn was_starved(&self) -> bool {
        !self.blocked.is_for_network()
    }

    /// Adds DATA chunks to a packet. Returns whether a path MTU probe is due because the packet is full.
    fn push_data(&mut self, cx: &mut Cx<'_>, turn: DataTurn, packet: &mut PacketWriter<'_>) -> bool {
        let DataTurn { path: id, new } = turn;
        self.begin_data_packet(cx, id);
        if new.is_none() {
            self.push_retransmissions(cx, id, packet);
        }
        // While messages name paths, each chunk after the first must be for this path too.
        let directed = self.queue.has_directed();
        let limit = self.limit_beside(cx, turn, directed);
        // With retransmissions in the packet, new data must be allowed by its own rules (§6.1). With RACK much may be in flight when T3-rtx
        // releases a retransmission.
        let full = self.outstanding.uses_rack() && !cx.paths.path(id).has_cwnd_room();
        let mut next = match new {
            Some(new) => Some(new.len),
            None if full => None,
            None if self.queue.scheduler() == SchedulerKind::RoundRobinPerPacket => None,
            None => self.next_beside(cx, id, limit, directed),
        };
        let format = self.queue.format();
        let kind = self.data_kind(cx);
        while let Some(len) = next.and_then(|len| self.fitting(len, limit, packet, kind)) {
            self.push_new(cx, id, len, packet);
            if self.window.take_due_probe() {
                return false;
            }
            if packet.room_for(kind) <= format.header_len() && !cx.paths.path(id).pmtu.counts_full_packets() {
                return false;
            }
            next = self.next_beside(cx, id, limit, directed);
        }
        // If the next chunk did not fit, a larger path MTU would be of use.
        next.is_some() && cx.paths.path_mut(id).pmtu.on_full_packet(cx.now)
    }

    /// How much of the next chunk, which has `len` bytes of user data, fits this packet. A message that needs several packets
    /// begins in the room that another one leaves. A message that may be abandoned does not: a loss in more packets is more likely.
    fn fitting(
        &self,
        len: usize,
        limit: Option<usize>,
        packet: &PacketWriter<'_>,
        kind: u8,
    ) -> Option<usize> {
        let room = packet.room_for(kind);
        let format = self.queue.format();
        if format.wire_len(len) <= room {
            return Some(len);
        }
        let limit = limit.filter(|limit| self.queue.next_is_divided(*limit))?;
        let part = room.checked_sub(format.header_len())? & !3;
        // The packets of a batch may be no longer than its first one. An empty packet with less room than others is not used for a part.
        (part >= limit / LEAST_PART && !packet.is_empty()).then_some(part)
    }

    /// The most bytes of user data of a new chunk that shares the packet of this turn; `None` if no new chunk may.
    fn limit_beside(&self, cx: &Cx<'_>, turn: DataTurn, directed: bool) -> Option<usize> {
        if self.outstanding.first_lost().is_some() {
            return None;
        }
        if let Some(new) = turn.new {
            return Some(new.limit);
        }
        let may = directed || cx.paths.spreads() || cx.paths.data_path() == turn.path;
        may.then(|| self.payload_limit(cx))
    }

    /// The length of the next new chunk, if it may share a packet on `id` with the chunks already in it.
    fn next_beside(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        limit: Option<usize>,
        directed: bool,
    ) -> Option<usize> {
        let len = self.queue.peek(limit?)?;
        if directed && !self.next_goes_to(cx, id) {
            return None;
        }
        self.may_join(cx, id, len).is_ok().then_some(len)
    }

    fn push_retransmissions(&mut self, cx: &mut Cx<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        let mut any = false;
        let split = cx.config.multipath.is_on();
        let kind = self.data_kind(cx);
        while let Some(index) = self.next_retransmission(cx) {
            let size = self.outstanding.chunk(index).fragment.wire_len();
            let path = cx.paths.path(id);
            let allowed = (any && path.flight.has_numbers()) || path.may_retransmit();
            if !allowed || size > packet.room_for(kind) || self.retransmission_path(cx, index) != id {
                break;
            }
            let chunk = self.outstanding.chunk(index);
            let timed_out = chunk.state == ChunkState::Lost { timed_out: true };
            let payload = chunk.fragment.payload.len();
            let persistence = chunk.fragment.persistence;
            let path = cx.paths.path_mut(id);
            let is_lowest = |flight: &Flight| flight.lowest_tsn().is_none_or(|lowest| index < lowest);
            let earliest = path.flight.is_empty() || (!split && is_lowest(&path.flight));
            self.outstanding.on_retransmit(index, path, cx.now);
            path.on_data_sent(cx.now, size, payload);
            path.delivery.on_retransmission();
            if earliest && !path.timers.probe_now {
                path.start_t3(cx.now);
            }
            if timed_out {
                cx.counters.retransmissions_timeout += 1;
            } else {
                cx.counters.retransmissions_fast += 1;
            }
            let last = self.outstanding.uses_rack() && self.queue.is_empty();
            let immediate = path.needs_ack_at_once(persistence) || last;
            let sequence = self.outstanding.chunk(index).sequence;
            self.write_data(cx, id, (index, sequence), immediate, packet);
            let chunk = self.outstanding.chunk(index);
            cx.counters.data_chunks_sent += 1;
            cx.counters.data_bytes_sent += chunk.fragment.payload.len() as u64;
            self.note_last_transmission(cx, index);
            any = true;
        }
        if any {
            cx.paths.path_mut(id).timers.retransmit_now = false;
        }
    }

    fn push_new(&mut self, cx: &mut Cx<'_>, id: PathId, len: usize, packet: &mut PacketWriter<'_>) {
        let Some(fragment) = self.queue.take(cx.now, len) else {
            return;
        };
        if len > self.window.left(cx.paths.payload_in_flight()) {
            self.window.on_probe();
            self.note_window_closed(cx);
        }
        if cx.paths.note_current(id) {
            cx.counters.failovers += 1;
        }
        let size = fragment.wire_len();
        let path = cx.paths.path_mut(id);
        // The I bit (RFC 7053 §5.1) asks the peer to acknowledge at once if its delay would hold up this sender: with one packet in
        // flight, with a shutdown that waits for the last chunk, or with a probe timeout (RFC 8985 §7.2) that runs since the last chunk.
        let asks = cx.state != AssociationState::Established || self.outstanding.uses_rack();
        let immediate = path.needs_ack_at_once(fragment.persistence) || (asks && self.queue.is_empty());
        if fragment.confirm {
            self.confirmations.on_sent(&fragment);
        }
        let index = self.outstanding.push(fragment, path, cx.now);
        path.on_data_sent(cx.now, size, len);
        let sequence = self.outstanding.chunk(index).sequence;
        self.write_data(cx, id, (index, sequence), immediate, packet);
        cx.counters.data_chunks_sent += 1;
        cx.counters.data_bytes_sent += len as u64;
        self.note_last_transmission(cx, index);
        self.plan_copies(cx, id, index);
    }

    /// Writes a chunk, with the number of this transmission of it.
    #[inline(always)]
    pub(super) fn write_data(
        &mut self,
        cx: &Cx<'_>,
        id: PathId,
        (index, sequence): (ExtendedTsn, SendNo),
        immediate: bool,
        packet: &mut PacketWriter<'_>,
    ) {
        let chunk = self.outstanding.chunk(index);
        let format = self.queue.format();
        let mut label = Label {
            tsn: Tsn(index as u32),
            immediate,
            named: None,
        };
        if format.numbers_transmissions() {
            let path = cx.paths.path(id);
            let packets = path.window() / path.pmtu.max_data();
            let in_group = || cx.paths.coupling(id).is_in_group();
            label.immediate |= self.sources.cooperation.asks_at_once(packets, in_group);
            label.named = Some(self.name_of(cx, id, sequence));
        }
        format.write(&chunk.fragment, &label, packet);
    }

    /// Begins a packet with data for `id`.
    pub(super) fn begin_data_packet(&mut self, cx: &mut Cx<'_>, id: PathId) {
        cx.paths.path_mut(id).flight.begin_packet();
        if cx.capabilities.has(Capabilities::ECA) && self.sources.cooperation.is_due(cx.now) {
            // Where messages have deadlines, acknowledgements leave a path that does not answer before a timer expires.
            let waits = |path: &Path| path.waits(cx.now).filter(|_| self.serves_deadlines);
            let views = cx.paths.active().map(|path| PathView {
                id: path.id,
                round_trip: path.rtt.smoothed().max(waits(path)),
                loss: path.delivery.loss(),
            });
            self.sources.cooperation.rank(cx.now, views.collect());
        }
    }

    /// The name of the transmission with this number on `id`, if transmissions have names (ECA-SCTP).
    fn name_of(&self, cx: &Cx<'_>, id: PathId, sequence: u64) -> TransmissionName {
        TransmissionName {
            number: PathSequence {
                path: id.0,
                number: Psn::new(sequence as u32),
            },
            policy: self.sources.cooperation.policy(id),
            types: cx.config.chunk_types,
        }
    }
}
