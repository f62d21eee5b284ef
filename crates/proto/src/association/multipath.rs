//! Sending on several paths at once (draft-tuexen-tsvwg-sctp-multipath): what the schedulers of `path/multipath.rs` are told of
//! the association.

use super::outbound::DataTurn;
use super::{Association, Capabilities};
use crate::path::{Choice, Offer};
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
        let in_flight = self.outstanding.in_flight();
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
        }
    }
}
