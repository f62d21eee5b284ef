//! Whether a DATA chunk may leave now, and if not, why (RFC 9260 §6.1, rules A to E; Nagle).

use super::{Cx, Sender};
use crate::negotiation::Capabilities;
use crate::path::{Candidate, Choice, Offer, Path, PathId, PathState};
use crate::recovery::ChunkState;
use crate::time::Timestamp;
use crate::trace_event::{LossRule, SendWait};

impl Sender {
    /// The next turn: a chunk that may leave now, and its path. If there is none, the reason is recorded.
    #[inline]
    pub(super) fn next_turn(&mut self, cx: &mut Cx<'_>) -> Option<DataTurn> {
        match self.data_turn(cx) {
            Ok(turn) => Some(turn),
            Err(wait) => {
                self.wait = wait;
                if cx.paths.samples_rates && !wait.is_for_network() {
                    cx.paths.iter_mut().for_each(Path::on_application_limited);
                }
                None
            }
        }
    }

    /// Whether the application, and not the network, was the limit when the sender was last asked for a packet.
    pub(super) fn was_starved(&self) -> bool {
        !self.wait.is_for_network()
    }

    /// Whether a DATA chunk may leave now, and on which path (§6.1 A to E).
    fn data_turn(&mut self, cx: &mut Cx<'_>) -> Result<DataTurn, Wait> {
        if !cx.may_send_data() {
            return Err(Wait::Phase);
        }
        if self.outstanding.first_lost().is_some() {
            match self.retransmission_turn(cx) {
                Retransmit::Turn(turn) => return Ok(turn),
                Retransmit::Waits(wait) => return Err(wait),
                Retransmit::Nothing => {}
            }
        }
        if cx.config.multipath.reschedule && self.reschedule(cx) {
            return match self.retransmission_turn(cx) {
                Retransmit::Turn(turn) => Ok(turn),
                Retransmit::Waits(wait) => Err(wait),
                Retransmit::Nothing => self.new_turn(cx),
            };
        }
        self.new_turn(cx)
    }

    /// The path on which the earliest lost chunk is retransmitted, if it may leave (§6.1 C).
    fn retransmission_turn(&mut self, cx: &mut Cx<'_>) -> Retransmit {
        let Some(index) = self.next_retransmission(cx) else {
            return Retransmit::Nothing;
        };
        let path = self.retransmission_path(cx, index);
        let on = cx.paths.path(path);
        let wait = match on.paced_until(cx.now).filter(|_| !on.timers.retransmit_now) {
            _ if !on.may_retransmit() => Wait::Window,
            Some(until) => Wait::Pacer(until),
            None => return Retransmit::Turn(DataTurn { path, new: None }),
        };
        if cx.paths.retransmits_on_same_path() {
            Retransmit::Nothing
        } else {
            Retransmit::Waits(wait)
        }
    }

    /// The path of the next new chunk, if it may leave.
    pub(super) fn new_turn(&mut self, cx: &mut Cx<'_>) -> Result<DataTurn, Wait> {
        if self.queue.is_empty() {
            return Err(Wait::Queue);
        }
        let limit = self.payload_limit(cx);
        let new = NewChunk {
            len: self.queue.peek(limit).ok_or(Wait::Queue)?,
            limit,
        };
        if cx.paths.spreads() && self.named_path(cx).is_none() {
            return self.spread_turn(cx, new);
        }
        let id = self.new_path(cx);
        let path = cx.paths.path_mut(id);
        path.decay_when_idle(cx.now);
        path.forget_old_copies(cx.now);
        self.may_begin(cx, id, new.len)?;
        Ok(DataTurn {
            path: id,
            new: Some(new),
        })
    }

    /// The path that the next message names, if it can be used: it is active, and so confirmed.
    #[inline(always)]
    fn named_path(&self, cx: &Cx<'_>) -> Option<PathId> {
        if !self.queue.has_directed() {
            return None;
        }
        let named = self.queue.next_destination();
        named.filter(|path| cx.paths.has(*path) && cx.paths.path(*path).state == PathState::Active)
    }

    /// The path of the next new chunk, if chunks that name none are not spread over several paths.
    #[inline(always)]
    pub(super) fn new_path(&self, cx: &Cx<'_>) -> PathId {
        self.named_path(cx).unwrap_or_else(|| cx.paths.data_path())
    }

    /// Whether the next new chunk takes this path, if some messages name a path.
    pub(super) fn next_goes_to(&self, cx: &Cx<'_>, id: PathId) -> bool {
        match self.named_path(cx) {
            Some(named) => named == id,
            None => cx.paths.spreads() || cx.paths.data_path() == id,
        }
    }

    pub(super) fn retransmission_path(&self, cx: &Cx<'_>, index: u64) -> PathId {
        let chunk = self.outstanding.chunk(index);
        if cx.paths.spreads() {
            return cx.paths.retransmission_path(chunk.path);
        }
        let timed_out = matches!(chunk.state, ChunkState::Lost { timed_out: true });
        cx.paths.choose(Candidate::Retransmission {
            last: chunk.path,
            timed_out,
        })
    }

    /// Bytes of user data of the next new chunk: fragments fit every path (AMDCS).
    pub(super) fn next_payload_len(&mut self, cx: &Cx<'_>) -> Option<usize> {
        let limit = self.payload_limit(cx);
        self.queue.peek(limit)
    }

    /// The most bytes of user data in a chunk that fits every path, together with the notices bundled with data.
    pub(super) fn payload_limit(&self, cx: &Cx<'_>) -> usize {
        let notices = self.sources.notices.reserve();
        let mut auth_len = cx.auth_len(self.data_kind(cx));
        if notices > 0 {
            auth_len = auth_len.max(cx.auth_len(cx.config.chunk_types.selective_forward_tsn));
        }
        cx.paths.smallest_max_data() - self.queue.format().header_len() - notices - auth_len
    }

    /// The type on the wire of chunks with user data.
    pub(super) fn data_kind(&self, cx: &Cx<'_>) -> u8 {
        self.queue.format().kind(cx.config.chunk_types)
    }

    /// Bytes that the first chunk of a turn takes in a packet.
    pub(super) fn wire_len(&self, turn: DataTurn) -> usize {
        match (turn.new, self.outstanding.first_lost()) {
            (Some(new), _) => self.queue.format().wire_len(new.len),
            (None, Some(index)) => self.outstanding.chunk(index).fragment.wire_len(),
            (None, None) => 0,
        }
    }

    /// Rule A of §6.1 (the peer's window) and the delay bound, for a new chunk in a packet with others.
    #[inline(always)]
    pub(super) fn may_join(&mut self, cx: &mut Cx<'_>, id: PathId, len: usize) -> Result<(), Wait> {
        if !self.window_lets(cx, id, len) {
            return Err(Wait::Peer);
        }
        let bounded = cx.paths.path(id).gates.delay_bound.is_some() && self.queue.next_class() > 0;
        if bounded && !cx.paths.path_mut(id).has_room_for_less_urgent(cx.now) {
            return Err(Wait::DelayBound);
        }
        Ok(())
    }

    /// Rules A, B and D of §6.1 and Nagle's algorithm, for the first new chunk of a packet.
    #[inline(always)]
    fn may_begin(&mut self, cx: &mut Cx<'_>, id: PathId, len: usize) -> Result<(), Wait> {
        self.may_join(cx, id, len)?;
        let max_burst = cx.config.max_burst;
        let nagle = self.nagle_waits(cx);
        let path = cx.paths.path_mut(id);
        if nagle {
            return Err(Wait::Nagle);
        }
        if !path.has_cwnd_room() {
            return Err(Wait::Window);
        }
        if let Some(until) = path.paced_until(cx.now) {
            return Err(Wait::Pacer(until));
        }
        if !path.has_burst_room(cx.now, max_burst) {
            return Err(Wait::Burst);
        }
        Ok(())
    }

    /// Rule A of §6.1, and whether a gap ack block could report the next TSN.
    #[inline(always)]
    fn window_lets(&mut self, cx: &mut Cx<'_>, id: PathId, len: usize) -> bool {
        let in_flight = cx.paths.payload_in_flight();
        let window = len <= self.window.left(in_flight) || self.window_is_probed(cx, id, in_flight);
        window && self.outstanding.has_room()
    }

    /// Whether a chunk may leave although the peer's window is too small for it.
    #[inline(never)]
    fn window_is_probed(&mut self, cx: &mut Cx<'_>, id: PathId, in_flight: usize) -> bool {
        let alone = self.outstanding.is_empty();
        let probes = self.window.is_probe_due() || (alone && self.window.probes_at_once());
        if !probes {
            self.note_closed_window(cx, id, in_flight);
        }
        probes
    }

    /// Nagle's algorithm: whether the next chunk waits to be bundled with later messages.
    fn nagle_waits(&self, cx: &Cx<'_>) -> bool {
        !cx.config.no_delay && !self.outstanding.is_empty() && self.queue.bytes() < self.payload_limit(cx)
    }

    /// The peer's window is too small for the next chunk. If nothing is in flight, only a window probe can show that it opened.
    fn note_closed_window(&mut self, cx: &mut Cx<'_>, id: PathId, in_flight: usize) {
        self.note_window_closed(cx);
        if in_flight == 0 && self.window_probe.is_none() && self.outstanding.is_empty() {
            let rto = cx.paths.path(id).rtt.rto();
            let wait = self.window.probe_wait(rto, cx.config.rto.max);
            self.window_probe = Some(cx.now + wait);
        }
    }

    pub(super) fn note_window_closed(&mut self, cx: &mut Cx<'_>) {
        if self.window.note_closed() {
            cx.counters.zero_windows += 1;
        }
    }

    /// The path of a new chunk, if several paths are used at once.
    fn spread_turn(&mut self, cx: &mut Cx<'_>, new: NewChunk) -> Result<DataTurn, Wait> {
        let control = cx.paths.data_path();
        if !self.window_lets(cx, control, new.len) {
            return Err(Wait::Peer);
        }
        if self.nagle_waits(cx) {
            return Err(Wait::Nagle);
        }
        for path in cx.paths.iter_mut() {
            path.decay_when_idle(cx.now);
            path.forget_old_copies(cx.now);
        }
        let offer = self.offer(cx, new.len);
        match cx.paths.schedule(cx.now, &offer) {
            Choice::Send(path) => Ok(DataTurn { path, new: Some(new) }),
            Choice::Wait => {
                let open = cx.paths.iter().filter(|path| path.has_cwnd_room());
                let paced = open.filter_map(|path| path.paced_until(cx.now)).min();
                Err(paced.map_or(Wait::Window, Wait::Pacer))
            }
        }
    }

    fn offer(&self, cx: &Cx<'_>, len: usize) -> Offer {
        let buffers = &cx.config.buffers;
        let multipath = &cx.config.multipath;
        let in_flight = cx.paths.payload_in_flight();
        let peer_takes = self.window.left(in_flight) + in_flight;
        let most = buffers.send.saturating_mul(buffers.growth as usize);
        // If the peer may renege, chunks that wait in its buffer occupy the send buffer as well.
        let held = if cx.capabilities.has(Capabilities::NR_SACK) {
            usize::MAX
        } else {
            most
        };
        let paths = cx.paths.active_count().max(1);
        let share = |split: bool, whole: usize| if split { whole / paths } else { usize::MAX };
        let full = self.buffer.bytes() >= self.buffer.limit() || self.buffer.has_refused();
        Offer {
            size: self.queue.format().wire_len(len),
            queued: if full { usize::MAX } else { self.queue.bytes() },
            send_window: most,
            receive_window: (peer_takes + self.outstanding.held()).min(held),
            share: share(multipath.split_send_buffer, self.buffer.limit())
                .min(share(multipath.split_receive_buffer, peer_takes)),
            max_burst: cx.config.max_burst,
            less_urgent: self.queue.next_class() > 0,
        }
    }

    /// Chunk rescheduling (multipath draft §5.3): if a full buffer keeps a path with an open window from sending, the chunk that blocks the
    /// buffer is removed from its path, to be retransmitted where it arrives sooner. Each chunk at most once, and only chunks that may be
    /// retransmitted, because otherwise the message would be abandoned. Returns whether a chunk was rescheduled.
    fn reschedule(&mut self, cx: &mut Cx<'_>) -> bool {
        if !cx.config.multipath.reschedule || !cx.paths.spreads() || self.outstanding.is_empty() {
            return false;
        }
        let in_flight = cx.paths.payload_in_flight();
        let blocked = match self.next_payload_len(cx) {
            Some(len) => len > self.window.left(in_flight),
            None => self.buffer.has_refused(),
        };
        let index = self.outstanding.base();
        let chunk = self.outstanding.chunk(index);
        if !blocked || chunk.state != ChunkState::InFlight || chunk.transmissions > 1 || chunk.abandoned {
            return false;
        }
        if self.judge(cx).abandons(chunk) {
            return false;
        }
        let (path, size, sent_at) = (chunk.path, chunk.fragment.wire_len(), chunk.sent_at);
        let waited = cx.now.saturating_duration_since(sent_at);
        if !cx.paths.delivers_sooner_elsewhere(path, size, waited) {
            return false;
        }
        self.outstanding
            .reschedule(index, LossRule::Rescheduled, cx.paths);
        self.sources.ecn.on_withdrawn(path, &cx.paths.path(path).flight);
        cx.counters.chunks_rescheduled += 1;
        cx.paths.path_mut(path).settle_t3();
        true
    }
}

/// Whether the earliest lost chunk may be retransmitted now.
enum Retransmit {
    Turn(DataTurn),
    /// There is no lost chunk, or it waits for its own path while other paths may send.
    Nothing,
    /// Rule C of §6.1: new data waits as long as a retransmission waits.
    Waits(Wait),
}

/// Why no DATA leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The state of the association allows no DATA.
    Phase,
    /// No data is queued, or only the beginning of a message that cannot be sent yet.
    Queue,
    /// The peer's receive window, or the range of TSNs that gap ack blocks can name.
    Peer,
    /// The delay bound for less urgent data.
    DelayBound,
    /// Small messages are bundled (RFC 9260 §6.1, Nagle).
    Nagle,
    /// The congestion window.
    Window,
    /// The pacer, until this time.
    Pacer(Timestamp),
    /// `Max.Burst`.
    Burst,
}

impl Wait {
    /// The reason for the trace; `None` if no data waits.
    pub(super) fn traced(self) -> Option<SendWait> {
        Some(match self {
            Self::Phase => SendWait::State,
            Self::Queue => SendWait::Application,
            Self::Peer => SendWait::ReceiveWindow,
            Self::DelayBound => SendWait::DelayBound,
            Self::Nagle => SendWait::Nagle,
            Self::Window => SendWait::CongestionWindow,
            Self::Pacer(until) => SendWait::Pacer(until),
            Self::Burst => SendWait::MaxBurst,
        })
    }

    /// Whether the network limits the sender, and not the application or the peer.
    pub(crate) fn is_for_network(self) -> bool {
        matches!(self, Self::Window | Self::Pacer(_) | Self::Burst)
    }
}

/// A chunk that may leave now, and its path.
#[derive(Clone, Copy)]
pub(super) struct DataTurn {
    pub(super) path: PathId,
    /// A new chunk; `None` for a retransmission.
    pub(super) new: Option<NewChunk>,
}

/// The next chunk to be sent for the first time.
#[derive(Clone, Copy)]
pub(super) struct NewChunk {
    /// Bytes of user data.
    pub(super) len: usize,
    /// The most bytes possible: see [`Sender::payload_limit`].
    pub(super) limit: usize,
}
