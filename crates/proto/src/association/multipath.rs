//! Sending on several paths at once (draft-tuexen-tsvwg-sctp-multipath): what the schedulers of `path/multipath.rs` are told of
//! the association.

use super::outbound::DataTurn;
use super::{Association, Capabilities};
use crate::path::{Choice, Offer};
use crate::recovery::ChunkState;
use crate::time::Timestamp;

impl Association {
    /// Where a new chunk of `len` bytes of user data may leave now, of several paths.
    pub(super) fn spread_turn(&mut self, now: Timestamp, len: usize) -> Option<DataTurn> {
        let control = self.paths.data_path();
        if !self.window_lets(now, control, len) || self.nagle_waits() {
            return None;
        }
        for path in self.paths.iter_mut() {
            path.decay_when_idle(now);
        }
        let offer = self.offer(len);
        match self.paths.schedule(now, &offer) {
            Choice::Send(path) => Some(DataTurn { path, new: Some(len) }),
            Choice::Wait => None,
        }
    }

    fn offer(&self, len: usize) -> Offer {
        let buffers = &self.config.buffers;
        let multipath = &self.config.multipath;
        let in_flight = self.paths.payload_in_flight();
        let peer_takes = self.peer_window.left(in_flight) + in_flight;
        let most = buffers.send.saturating_mul(buffers.growth as usize);
        // What the peer may take back holds the send buffer as what it waits for holds its own.
        let held = if self.capabilities.has(Capabilities::NR_SACK) {
            usize::MAX
        } else {
            most
        };
        let paths = self.paths.active_count().max(1);
        let share = |split: bool, whole: usize| if split { whole / paths } else { usize::MAX };
        let full = self.buffered_bytes() >= self.send_limit || self.notices.wants_writable();
        Offer {
            size: self.queue.format().wire_len(len),
            queued: if full { usize::MAX } else { self.queue.bytes() },
            send_window: most,
            receive_window: (peer_takes + self.outstanding.held()).min(held),
            share: share(multipath.split_send_buffer, self.send_limit)
                .min(share(multipath.split_receive_buffer, peer_takes)),
            max_burst: self.config.max_burst,
            less_urgent: self.queue.next_class() > 0,
        }
    }

    /// A packet with DATA came, by the path of the last arrival; answers whether the peer sends on several paths at once and
    /// such data is acknowledged with delay.
    pub(super) fn note_data_arrival(&mut self, now: Timestamp) -> bool {
        let multipath = &self.config.multipath;
        multipath.is_on() && multipath.delayed_acks && self.paths.note_data_arrival(now)
    }

    /// Chunk rescheduling (§5.3): where a full buffer keeps a path with room from sending, the chunk that holds the buffer up is
    /// taken off its path, to be sent again where it arrives sooner. Each chunk once, and none that must not be retransmitted:
    /// that would abandon its message. Answers whether one was.
    pub(super) fn reschedule(&mut self, now: Timestamp) -> bool {
        if !self.config.multipath.reschedule || !self.paths.spreads() || self.outstanding.is_empty() {
            return false;
        }
        let in_flight = self.paths.payload_in_flight();
        let blocked = match self.next_payload_len() {
            Some(len) => len > self.peer_window.left(in_flight),
            None => self.notices.wants_writable(),
        };
        let index = self.outstanding.base();
        let chunk = self.outstanding.chunk(index);
        if !blocked || chunk.state != ChunkState::InFlight || chunk.transmissions > 1 || chunk.abandoned {
            return false;
        }
        if self.judge(now).gives_up(chunk) {
            return false;
        }
        let (path, size, sent_at) = (chunk.path, chunk.fragment.wire_len(), chunk.sent_at);
        let waited = now.saturating_duration_since(sent_at);
        if !self.paths.delivers_sooner_elsewhere(path, size, waited) {
            return false;
        }
        self.outstanding.reschedule(index, &mut self.paths);
        self.counters.chunks_rescheduled += 1;
        let path = self.paths.path_mut(path);
        if path.flight.is_empty() {
            path.t3 = None;
        }
        true
    }
}
