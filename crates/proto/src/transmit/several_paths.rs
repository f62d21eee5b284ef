//! Several paths at once (concurrent multipath transfer): what the scheduler is told of new data, and chunks that leave their path for another
//! (draft-tuexen-tsvwg-sctp-multipath §5.1, §5.3). The schedulers are in `path/multipath.rs`.

use super::{Cx, Sender};
use crate::negotiation::Capabilities;
use crate::path::Offer;
use crate::recovery::ChunkState;
use crate::trace_event::LossRule;

impl Sender {
    /// A new chunk with `len` bytes of user data, for the choice of its path; with the limits of the buffers only if there are `several`.
    #[inline(always)]
    pub(super) fn offer(&self, cx: &Cx<'_>, len: usize, several: bool) -> Offer {
        let one = Offer {
            size: self.queue.format().wire_len(len),
            queued: usize::MAX,
            send_window: usize::MAX,
            receive_window: usize::MAX,
            share: usize::MAX,
            max_burst: cx.config.max_burst,
            avoid: 0,
            less_urgent: self.next_is_bounded(cx),
        };
        if several { self.offer_several(cx, one) } else { one }
    }

    fn offer_several(&self, cx: &Cx<'_>, one: Offer) -> Offer {
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
            queued: if full { usize::MAX } else { self.queue.bytes() },
            send_window: most,
            receive_window: (peer_takes + self.outstanding.held()).min(held),
            share: share(multipath.split_send_buffer, self.buffer.limit())
                .min(share(multipath.split_receive_buffer, peer_takes)),
            ..one
        }
    }

    /// Chunk rescheduling (multipath draft §5.3): if a full buffer keeps a path with an open window from sending, the chunk that blocks the
    /// buffer is removed from its path, to be retransmitted where it arrives sooner. Each chunk at most once, and only chunks that may be
    /// retransmitted, because otherwise the message would be abandoned. Returns whether a chunk was rescheduled.
    pub(super) fn reschedule(&mut self, cx: &mut Cx<'_>) -> bool {
        if !cx.paths.spreads() || self.outstanding.is_empty() {
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
