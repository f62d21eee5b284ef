//! Whether a packet with data may leave now, on which path, and if not, why (RFC 9260 §6.1, rules A to E; Nagle). Here are the rules that
//! hold for all paths alike; those of one path are in `path/departure.rs`.

use super::{Cx, Sender};
use crate::path::{Candidate, Load, Path, PathId, PathState};
use crate::recovery::ChunkState;
use crate::trace_event::Blocked;

impl Sender {
    /// The next turn: a chunk that may leave now, and its path. If there is none, the reason is recorded.
    #[inline]
    pub(super) fn next_turn(&mut self, cx: &mut Cx<'_>) -> Option<DataTurn> {
        match self.decide(cx) {
            Ok(turn) => Some(turn),
            Err(blocked) => {
                self.blocked = blocked;
                if cx.paths.samples_rates && !blocked.is_for_network() {
                    cx.paths.iter_mut().for_each(Path::on_application_limited);
                }
                None
            }
        }
    }

    /// The one decision: which data leaves now and on which path, or why none does (§6.1 A to E).
    fn decide(&mut self, cx: &mut Cx<'_>) -> Result<DataTurn, Blocked> {
        if !cx.may_send_data() {
            return Err(Blocked::State);
        }
        if self.outstanding.first_lost().is_some()
            && let Some(turn) = self.retransmission_turn(cx)?
        {
            return Ok(turn);
        }
        if cx.config.multipath.reschedule
            && self.reschedule(cx)
            && let Some(turn) = self.retransmission_turn(cx)?
        {
            return Ok(turn);
        }
        self.new_turn(cx)
    }

    /// The retransmission of the earliest lost chunk, if it may leave. Rule C of §6.1: new data waits as long as a retransmission waits; but
    /// not if it waits for its own path while other paths may send (`None`, as without lost chunks).
    fn retransmission_turn(&mut self, cx: &mut Cx<'_>) -> Result<Option<DataTurn>, Blocked> {
        let Some(index) = self.next_retransmission(cx) else {
            return Ok(None);
        };
        let path = self.retransmission_path(cx, index);
        match cx.paths.path_mut(path).admits(cx.now, Load::Retransmission) {
            Ok(()) => Ok(Some(DataTurn { path, new: None })),
            Err(_) if cx.paths.retransmits_on_same_path() => Ok(None),
            Err(blocked) => Err(blocked),
        }
    }

    /// The next new chunk and its path, if it may leave: rule A of §6.1 and Nagle's algorithm for all paths, the other rules for the paths
    /// that may take it, which is one, or with concurrent multipath transfer each.
    #[inline]
    pub(super) fn new_turn(&mut self, cx: &mut Cx<'_>) -> Result<DataTurn, Blocked> {
        if self.queue.is_empty() {
            return Err(Blocked::Application);
        }
        self.turn_of_queue(cx)
    }

    fn turn_of_queue(&mut self, cx: &mut Cx<'_>) -> Result<DataTurn, Blocked> {
        let limit = self.payload_limit(cx);
        let new = NewChunk {
            len: self.queue.peek(limit).ok_or(Blocked::Application)?,
            limit,
        };
        let only = self.only_path(cx);
        let asks = only.unwrap_or_else(|| cx.paths.data_path());
        if !self.window_lets(cx, asks, new.len) {
            return Err(Blocked::ReceiveWindow);
        }
        if self.nagle_waits(cx) {
            return Err(Blocked::Nagle);
        }
        match only {
            Some(id) => cx.paths.path_mut(id).before_new_data(cx.now),
            None => cx.paths.iter_mut().for_each(|path| path.before_new_data(cx.now)),
        }
        let offer = self.offer(cx, new.len, only.is_none());
        let path = if self.serves_deadlines
            && let Some(timely) = self.timely_path(cx, &offer)
        {
            timely?
        } else {
            cx.paths.schedule(cx.now, only, &offer)?
        };
        Ok(DataTurn { path, new: Some(new) })
    }

    /// The only path that the next new chunk may take; `None` if it takes one of several.
    #[inline(always)]
    pub(super) fn only_path(&self, cx: &Cx<'_>) -> Option<PathId> {
        let named = self.named_path(cx);
        named.or_else(|| (!cx.paths.spreads()).then(|| cx.paths.data_path()))
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

    /// Whether the next new chunk may take this path.
    pub(super) fn next_goes_to(&self, cx: &Cx<'_>, id: PathId) -> bool {
        self.only_path(cx).is_none_or(|only| only == id)
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
    pub(super) fn may_join(&mut self, cx: &mut Cx<'_>, id: PathId, len: usize) -> Result<(), Blocked> {
        if !self.window_lets(cx, id, len) {
            return Err(Blocked::ReceiveWindow);
        }
        if self.next_is_bounded(cx) && !cx.paths.path_mut(id).has_room_for_less_urgent(cx.now) {
            return Err(Blocked::DelayBound);
        }
        Ok(())
    }

    /// Whether the delay bound for less urgent data is about the next new chunk: not while urgent data waits for the end of its message.
    #[inline(always)]
    pub(super) fn next_is_bounded(&self, cx: &Cx<'_>) -> bool {
        cx.config.low_priority_delay.is_some() && self.queue.most_urgent_class() > 0
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
