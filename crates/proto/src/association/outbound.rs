//! Building packets (RFC 9260 §6.1, §6.10). One order: control chunks as they were queued, SACK, repeats, new data.

use std::net::IpAddr;

use anabranch_wire::chunk::{Chunk, EncodeChunk, NrSackWriter, SackWriter, padded};
use anabranch_wire::packet::{COMMON_HEADER_LEN, CommonHeader, PacketWriter};
use anabranch_wire::{Tsn, VerificationTag};

use super::{Association, State, Transmit};
use crate::config::SchedulerKind;
use crate::path::{Candidate, Flight, PathId};
use crate::recovery::ChunkState;
use crate::send::Label;
use crate::time::Timestamp;

/// Bytes of a batch at most: what segmentation offload takes as one datagram, less the headers of IPv6 and UDP.
const MAX_BATCH: usize = 65_535 - 48;

/// Bytes of an acknowledgement at most. On a path of large packets one of their length would tell of 16,000 gaps for each packet of
/// 60 bytes that a peer sends; the first 360 tell a sender all that it can repair at a time.
pub(super) const MOST_ACK: usize = 1456;

/// What the packets of one batch have in common.
#[derive(Clone, Copy)]
struct Batch {
    path: PathId,
    /// No packet may be longer than the first.
    max_len: usize,
}

/// Writes one chunk into a packet of its own, for answers outside an association's tags.
pub(crate) fn write_packet(header: CommonHeader, chunks: &[Chunk]) -> Vec<u8> {
    let len = COMMON_HEADER_LEN
        + chunks
            .iter()
            .map(|chunk| padded(chunk.encoded_len()))
            .sum::<usize>();
    let mut buffer = Vec::with_capacity(len);
    let mut packet = PacketWriter::new(&mut buffer, header, len);
    for chunk in chunks {
        packet.push(chunk);
    }
    let _ = packet.finish();
    buffer
}

impl Association {
    pub(super) fn build_batch(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        if let Some(reply) = self.control.pop_reply() {
            buffer.extend_from_slice(&reply.packet);
            self.counters.packets_sent += 1;
            return Some(Transmit {
                path: self.paths.last_arrival,
                source: reply.source,
                destination: reply.destination,
                len: reply.packet.len(),
                segment_size: None,
                may_fragment: reply.packet.len() > self.paths.path(self.paths.last_arrival).pmtu.max_packet(),
            });
        }
        if self.state.is_closed() {
            return None;
        }
        self.send_due_probes(now);
        if let Some((path, packet)) = self.control.pop_probe() {
            buffer.extend_from_slice(&packet);
            self.counters.packets_sent += 1;
            let to = self.paths.path(path);
            return Some(Transmit {
                path,
                source: to.local,
                destination: to.remote,
                len: packet.len(),
                segment_size: None,
                may_fragment: false,
            });
        }
        let (path, first) = self.build_packet(now, buffer, None)?;
        let mut len = first;
        let mut count = 1;
        // A packet for IP to fragment stays alone: the others are to fit the path.
        let most = if first > self.paths.path(path).pmtu.max_packet() {
            1
        } else {
            max_datagrams
        };
        while count < most && len + first <= MAX_BATCH {
            let Some((_, next)) = self.build_packet(now, buffer, Some(Batch { path, max_len: first })) else {
                break;
            };
            len += next;
            count += 1;
            if next < first {
                break;
            }
        }
        self.counters.packets_sent += count as u64;
        let to = self.paths.path(path);
        let source: Option<IpAddr> = to.local;
        let segment_size = (count > 1).then_some(first);
        Some(Transmit {
            path,
            source,
            destination: to.remote,
            len,
            segment_size,
            may_fragment: first > to.pmtu.max_packet(),
        })
    }

    /// Appends one packet, if anything is to be sent; answers its path and length.
    fn build_packet(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        batch: Option<Batch>,
    ) -> Option<(PathId, usize)> {
        self.drop_expired(now);
        let turn = self.data_turn(now);
        let id = self.next_path(now, turn)?;
        if let Some(batch) = batch {
            // A packet with a notice is longer than one without: a batch of such packets begins with one.
            let longer = batch.max_len < self.paths.path(id).pmtu.max_packet();
            if batch.path != id || self.control_exceeds(batch.max_len) || (longer && self.notice_due(id)) {
                return None;
            }
        }
        self.fill_packet(now, buffer, id, turn, batch)
    }

    /// Appends a packet for `id`, if there is anything for it. By itself, so that it costs little to find nothing to send.
    #[inline(never)]
    fn fill_packet(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        id: PathId,
        turn: Option<DataTurn>,
        batch: Option<Batch>,
    ) -> Option<(PathId, usize)> {
        let max_packet = self.paths.path(id).pmtu.max_packet();
        let max_len = match batch {
            Some(batch) => batch.max_len,
            // A chunk that has its TSN already and no longer fits leaves alone, in a packet for IP to fragment.
            None => self
                .oversized_repeat(id)
                .map_or(max_packet, |size| COMMON_HEADER_LEN + size),
        };
        let header = CommonHeader {
            source_port: self.identity.local_port,
            destination_port: self.identity.remote_port,
            // An INIT leaves alone, under tag 0 (§8.5.1 A).
            verification_tag: match self.control.peek().map(|waiting| &waiting.chunk) {
                Some(Chunk::Init(_)) => VerificationTag(0),
                _ => self.identity.peer_tag,
            },
        };
        let mut packet = PacketWriter::new(buffer, header, max_len);
        let control = self.push_control(id, &mut packet);
        if control != ControlPushed::Alone {
            let may_carry_data = match self.state {
                State::CookieEchoed(_) => control == ControlPushed::WithCookieEcho,
                _ => self.state.sends_data(),
            };
            let turn = turn.filter(|turn| may_carry_data && turn.path == id);
            self.push_sack(now, id, turn.is_some(), &mut packet);
            if self.has_sources() {
                self.push_sources(now, id, turn.map(|turn| self.wire_len(turn)), &mut packet);
            }
            if let Some(turn) = turn {
                self.push_data(now, turn, &mut packet);
                self.paths.path_mut(id).on_packet_sent(now);
                self.queue.on_packet();
            }
        }
        if packet.is_empty() {
            packet.discard();
            return None;
        }
        Some((id, packet.finish()))
    }

    /// The path of the next packet: of the first control chunk, else of a SACK that is due, else of data.
    fn next_path(&mut self, now: Timestamp, turn: Option<DataTurn>) -> Option<PathId> {
        if let Some(waiting) = self.control.peek() {
            return Some(waiting.path);
        }
        if self.receiver.ack_due() && !self.state.is_setting_up() {
            return Some(self.ack_path());
        }
        if let Some(path) = self.receiver.copy_path().or_else(|| self.forward_psn_alone(now)) {
            return Some(path);
        }
        if self.forward_due() {
            return Some(self.paths.data_path());
        }
        if self.state.is_setting_up() {
            return None;
        }
        turn.map(|turn| turn.path).or_else(|| self.notices_alone())
    }

    /// Whether the first control chunk that waits needs a longer packet than this: segmentation offload would cut it up.
    fn control_exceeds(&self, max_len: usize) -> bool {
        let first = self.control.peek();
        first.is_some_and(|waiting| COMMON_HEADER_LEN + padded(waiting.chunk.encoded_len()) > max_len)
    }

    /// Size of the next repeat for this path if it does not fit a packet there.
    fn oversized_repeat(&self, id: PathId) -> Option<usize> {
        let chunk = self.outstanding.chunk(self.outstanding.first_lost()?);
        let size = chunk.fragment.wire_len();
        (size > self.paths.path(id).pmtu.max_data()).then_some(size)
    }

    fn push_control(&mut self, id: PathId, packet: &mut PacketWriter<'_>) -> ControlPushed {
        let mut pushed = ControlPushed::Others;
        while let Some(waiting) = self.control.peek() {
            let fits = padded(waiting.chunk.encoded_len()) <= packet.room() || packet.is_empty();
            let alone = matches!(waiting.chunk, Chunk::Init(_));
            if waiting.path != id || !fits || (alone && !packet.is_empty()) {
                break;
            }
            let Some(waiting) = self.control.pop() else { break };
            packet.push(&waiting.chunk);
            match waiting.chunk {
                Chunk::Init(_) => return ControlPushed::Alone,
                Chunk::CookieEcho(_) => pushed = ControlPushed::WithCookieEcho,
                _ => {}
            }
        }
        pushed
    }

    /// Adds a SACK if it is due, or if it can ride with data on the path it would take anyway (§6.1, §6.2). One that would have to
    /// leave out gap blocks for what else is in the packet waits for the next: to the peer what it leaves out is reneged.
    fn push_sack(&mut self, now: Timestamp, id: PathId, data_follows: bool, packet: &mut PacketWriter<'_>) {
        let wanted = self.receiver.ack_due() || (data_follows && self.receiver.ack_pending());
        let own = wanted && id == self.ack_path();
        let copy = self.receiver.copy_path() == Some(id);
        let room = packet.room().min(MOST_ACK);
        if !(own || copy) || self.state.is_setting_up() || room < NrSackWriter::HEADER_LEN {
            return;
        }
        if self.receiver.names_transmissions() {
            self.push_coop_sack(now, id, own, packet);
            return;
        }
        let whole = NrSackWriter::HEADER_LEN + self.receiver.gap_blocks_len();
        if room < whole.min(self.paths.path(id).pmtu.max_data()) {
            return;
        }
        let blocks = self.receiver.build_ack(room, |ack| {
            let blocks = ack.renegable.len() + ack.nonrenegable.len();
            if ack.is_nr_sack {
                packet.push(&NrSackWriter {
                    cumulative_tsn_ack: ack.cumulative_tsn_ack,
                    a_rwnd: ack.a_rwnd,
                    revocable: ack.renegable,
                    nonrenegable: ack.nonrenegable,
                    duplicate_tsns: ack.duplicate_tsns,
                    packets: ack.packets,
                });
                return blocks;
            }
            packet.push(&SackWriter {
                cumulative_tsn_ack: ack.cumulative_tsn_ack,
                a_rwnd: ack.a_rwnd,
                gap_ack_blocks: ack.renegable,
                duplicate_tsns: ack.duplicate_tsns,
                packets: ack.packets,
            });
            blocks
        });
        self.counters.gap_blocks_sent += blocks as u64;
        self.counters.sacks_sent += 1;
    }

    /// Whether a DATA chunk may leave now, and where it goes (§6.1 A to E).
    fn data_turn(&mut self, now: Timestamp) -> Option<DataTurn> {
        if !self.state.sends_data() {
            return None;
        }
        if self.outstanding.first_lost().is_some()
            && let Some(index) = self.next_repeat(now)
        {
            let id = self.repeat_path(index);
            let path = self.paths.path(id);
            if path.has_repeat_room() {
                return Some(DataTurn { path: id, new: None });
            }
            // Rule C: while a repeat waits, no new data leaves, unless it waits for its own path and others have room.
            if !self.paths.repeats_on_same_path() {
                return None;
            }
        }
        if self.reschedule(now) {
            return self.data_turn(now);
        }
        if self.queue.is_empty() {
            return None;
        }
        let len = self.next_payload_len()?;
        if self.paths.spreads() {
            return self.spread_turn(now, len);
        }
        let id = self.paths.choose(Candidate::New);
        self.paths.path_mut(id).decay_when_idle(now);
        self.may_send_new(now, id, len, true).then_some(DataTurn {
            path: id,
            new: Some(len),
        })
    }

    pub(super) fn repeat_path(&self, index: u64) -> PathId {
        let chunk = self.outstanding.chunk(index);
        if self.paths.spreads() {
            return self.paths.repeat_path(chunk.path);
        }
        let timed_out = matches!(chunk.state, ChunkState::Lost { timed_out: true });
        self.paths.choose(Candidate::Retransmission {
            last: chunk.path,
            timed_out,
        })
    }

    /// Bytes of user data of the next new chunk: fragments fit every path.
    pub(super) fn next_payload_len(&mut self) -> Option<usize> {
        let limit = self.payload_limit();
        self.queue.peek(limit)
    }

    /// Bytes of user data that fit a chunk on every path, beside what rides with data.
    fn payload_limit(&self) -> usize {
        self.paths.smallest_max_data() - self.queue.format().header_len() - self.sources.notices.reserve()
    }

    /// Bytes in a packet of the first chunk of a turn.
    fn wire_len(&self, turn: DataTurn) -> usize {
        match (turn.new, self.outstanding.first_lost()) {
            (Some(len), _) => self.queue.format().wire_len(len),
            (None, Some(index)) => self.outstanding.chunk(index).fragment.wire_len(),
            (None, None) => 0,
        }
    }

    /// Rules A, B and D of §6.1 and Nagle's, for a new chunk; `first` in its packet.
    fn may_send_new(&mut self, now: Timestamp, id: PathId, len: usize, first: bool) -> bool {
        if !self.window_lets(now, id, len) {
            return false;
        }
        let bounded = self.paths.path(id).delay_bound.is_some() && self.queue.next_class() > 0;
        if bounded && !self.paths.path_mut(id).has_room_for_less_urgent(now) {
            return false;
        }
        if !first {
            return true;
        }
        let max_burst = self.config.max_burst;
        let nagle = self.nagle_waits();
        let path = self.paths.path_mut(id);
        !nagle && path.has_cwnd_room() && path.has_burst_room(now, max_burst)
    }

    /// Rule A of §6.1, and whether the next TSN could be acknowledged by a gap block.
    pub(super) fn window_lets(&mut self, now: Timestamp, id: PathId, len: usize) -> bool {
        let in_flight = self.paths.payload_in_flight();
        let alone = self.outstanding.is_empty();
        let window = len <= self.peer_window.left(in_flight)
            || self.peer_window.is_probe_due()
            || (alone && self.peer_window.probes_at_once());
        if !window {
            self.note_closed_window(now, id, in_flight);
        }
        window && self.outstanding.has_room()
    }

    pub(super) fn nagle_waits(&self) -> bool {
        !self.config.no_delay && !self.outstanding.is_empty() && self.queue.bytes() < self.payload_limit()
    }

    /// The window is too small for the next chunk: once nothing is in flight, only a probe can find out that it opened.
    fn note_closed_window(&mut self, now: Timestamp, id: PathId, in_flight: usize) {
        self.note_window_closed();
        if in_flight == 0 && self.timers.window_probe.is_none() && self.outstanding.is_empty() {
            let rto = self.paths.path(id).rto.current();
            let wait = self.peer_window.probe_wait(rto, self.config.rto.max);
            self.timers.window_probe = Some(now + wait);
        }
    }

    fn note_window_closed(&mut self) {
        if self.peer_window.note_closed() {
            self.counters.zero_windows += 1;
        }
    }

    fn push_data(&mut self, now: Timestamp, turn: DataTurn, packet: &mut PacketWriter<'_>) {
        let DataTurn { path: id, new } = turn;
        self.begin_data_packet(now, id);
        if new.is_none() {
            self.push_repeats(now, id, packet);
        }
        let limit = self.limit_beside(id);
        // Beside repeats, new data must be allowed on its own (§6.1).
        let mut next = match new {
            Some(len) => Some(len),
            None if self.queue.scheduler() == SchedulerKind::RoundRobinPerPacket => None,
            None => self.next_beside(now, id, limit),
        };
        let format = self.queue.format();
        while let Some(len) = next.filter(|len| format.wire_len(*len) <= packet.room()) {
            self.push_new(now, id, len, packet);
            if self.peer_window.take_due_probe() {
                return;
            }
            if packet.room() <= format.header_len() && !self.paths.path(id).pmtu.counts_full_packets() {
                return;
            }
            next = self.next_beside(now, id, limit);
        }
        if next.is_some() {
            // It did not fit: larger packets would be of use.
            self.paths.path_mut(id).pmtu.on_full_packet(now);
        }
    }

    /// Bytes of user data that a new chunk may have which shares a packet to `id` with others; `None` if none may.
    fn limit_beside(&self, id: PathId) -> Option<usize> {
        let may = self.outstanding.first_lost().is_none()
            && (self.paths.spreads() || self.paths.choose(Candidate::New) == id);
        may.then(|| self.payload_limit())
    }

    /// The length of the next new chunk, if it may share a packet to `id` with those already in it.
    fn next_beside(&mut self, now: Timestamp, id: PathId, limit: Option<usize>) -> Option<usize> {
        let len = self.queue.peek(limit?)?;
        self.may_send_new(now, id, len, false).then_some(len)
    }

    fn push_repeats(&mut self, now: Timestamp, id: PathId, packet: &mut PacketWriter<'_>) {
        let mut any = false;
        let split = self.config.multipath.is_on();
        while let Some(index) = self.next_repeat(now) {
            let size = self.outstanding.chunk(index).fragment.wire_len();
            let path = self.paths.path(id);
            let allowed = (any && path.flight.has_numbers()) || path.has_repeat_room();
            if !allowed || size > packet.room() || self.repeat_path(index) != id {
                break;
            }
            let chunk = self.outstanding.chunk(index);
            let timed_out = chunk.state == ChunkState::Lost { timed_out: true };
            let payload = chunk.fragment.payload.len();
            let persistence = chunk.fragment.persistence;
            let path = self.paths.path_mut(id);
            let is_lowest = |flight: &Flight| flight.lowest_tsn().is_none_or(|lowest| index < lowest);
            let earliest = path.flight.is_empty() || (!split && is_lowest(&path.flight));
            self.outstanding.on_retransmit(index, path, now);
            path.on_data_sent(now, size, payload);
            path.delivery.on_repeat();
            if earliest {
                path.start_t3(now);
            }
            if timed_out {
                self.counters.retransmissions_timeout += 1;
            } else {
                self.counters.retransmissions_fast += 1;
            }
            let immediate = path.needs_ack_at_once(persistence);
            self.write_data(id, index, immediate, packet);
            let chunk = self.outstanding.chunk(index);
            self.counters.data_chunks_sent += 1;
            self.counters.data_bytes_sent += chunk.fragment.payload.len() as u64;
            self.note_last_transmission(now, index);
            any = true;
        }
        if any {
            self.paths.path_mut(id).repeat_now = false;
        }
    }

    fn push_new(&mut self, now: Timestamp, id: PathId, len: usize, packet: &mut PacketWriter<'_>) {
        let Some(fragment) = self.queue.take(now, len) else {
            return;
        };
        if len > self.peer_window.left(self.paths.payload_in_flight()) {
            self.peer_window.on_probe();
            self.note_window_closed();
        }
        if self.paths.note_current(id) {
            self.counters.failovers += 1;
        }
        let size = fragment.wire_len();
        let path = self.paths.path_mut(id);
        // The peer is asked to answer at once where its delay would hold this side up (RFC 7053 §5.1): one packet in
        // flight, or a shutdown that waits for the last chunk.
        let closing = !matches!(self.state, State::Established) && self.queue.is_empty();
        let immediate = path.needs_ack_at_once(fragment.persistence) || closing;
        let index = self.outstanding.push(fragment, path, now);
        path.on_data_sent(now, size, len);
        self.write_data(id, index, immediate, packet);
        self.counters.data_chunks_sent += 1;
        self.counters.data_bytes_sent += len as u64;
        self.note_last_transmission(now, index);
    }

    /// Writes a chunk that has just been put in flight.
    #[inline(always)]
    fn write_data(&mut self, id: PathId, index: u64, immediate: bool, packet: &mut PacketWriter<'_>) {
        let chunk = self.outstanding.chunk(index);
        let format = self.queue.format();
        let label = Label {
            tsn: Tsn(index as u32),
            immediate,
            named: format
                .numbers_transmissions()
                .then(|| self.name_of(id, chunk.sequence)),
        };
        format.write(&chunk.fragment, &label, packet);
    }
}

/// A DATA chunk that may leave.
#[derive(Clone, Copy)]
pub(super) struct DataTurn {
    pub(super) path: PathId,
    /// Bytes of user data of a new chunk; `None` for a repeat.
    pub(super) new: Option<usize>,
}

/// What control chunks went into a packet, as far as others may follow them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ControlPushed {
    Others,
    /// DATA may follow it though the association is not set up yet (§5.1).
    WithCookieEcho,
    /// Nothing may follow.
    Alone,
}
