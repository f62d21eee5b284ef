//! Giving messages up (RFC 3758 §3.5): when the association asks its policy, and what follows from the answer.

use anabranch_wire::StreamId;
use anabranch_wire::packet::PacketWriter;

use super::Association;
use crate::controller::Controller;
use crate::event::{Event, Undelivered};
use crate::message::DiscardNotice;
use crate::message::{AbandonPolicy, Persistence, UnsentMessage};
use crate::path::{PathId, PathState};
use crate::recovery::{ChunkState, Judge};
use crate::time::Timestamp;

impl Association {
    pub(super) fn judge(&self, now: Timestamp) -> Judge {
        Judge {
            policy: self.abandon_policy,
            now,
        }
    }

    /// When the next message that waits expires: the first moment after its lifetime.
    pub(super) fn expiry(&self) -> Option<Timestamp> {
        let deadline = self.queue.next_deadline();
        deadline
            .filter(|_| self.config.partial_reliability.discard_unsent)
            .map(|deadline| Timestamp(deadline.0 + 1))
    }

    /// Drops the messages that waited for longer than their lifetime.
    pub(super) fn drop_expired(&mut self, now: Timestamp) {
        if self.expiry().is_none_or(|expiry| expiry > now) {
            return;
        }
        let half_sent = !matches!(self.abandon_policy, AbandonPolicy::Never);
        while let Some(unsent) = self.queue.take_expired(now, half_sent) {
            self.on_dropped(now, unsent);
        }
    }

    /// Makes room in the send buffer for a message, at the cost of less important ones.
    pub(super) fn make_room(&mut self, now: Timestamp, stream: StreamId, persistence: Persistence) -> bool {
        let excess = (self.buffered_bytes() + 1).saturating_sub(self.send_limit);
        for unsent in self.queue.make_room(excess, stream, persistence) {
            self.on_dropped(now, unsent);
        }
        self.buffered_bytes() < self.send_limit
    }

    /// A message was taken out of the queue. If a part of it had left, the rest ends in a TSN that is never sent, so that
    /// the next message does not follow a middle fragment.
    fn on_dropped(&mut self, now: Timestamp, unsent: UnsentMessage) {
        if unsent.begun {
            self.outstanding.abandon_open(unsent.stream, unsent.message);
            let path = self.paths.data_path();
            self.outstanding
                .push_given_up(self.queue.end_of(unsent), path, now);
            self.advance_forward_point(now);
        }
        self.tell_abandoned(unsent.undelivered());
    }

    fn tell_abandoned(&mut self, undelivered: Undelivered) {
        if undelivered.sent {
            self.counters.abandoned_sent += 1;
        } else {
            self.counters.abandoned_unsent += 1;
        }
        self.notices.tell(Event::Abandoned(undelivered));
    }

    /// Gives up the message of a chunk that was sent, whole, its unsent rest included.
    pub(super) fn give_up(&mut self, now: Timestamp, index: u64) {
        let undelivered = self.outstanding.chunk(index).fragment.undelivered();
        let Some(given_up) = self.outstanding.abandon(index) else {
            return;
        };
        let rest =
            (!given_up.complete).then(|| self.queue.drop_message(undelivered.stream, given_up.message));
        if let Some(unsent) = rest.flatten() {
            let path = self.outstanding.chunk(index).path;
            self.outstanding
                .push_given_up(self.queue.end_of(unsent), path, now);
        }
        self.tell_abandoned(undelivered);
    }

    /// The earliest chunk that is to be sent again; those that must not be any more are given up on the way.
    pub(super) fn next_repeat(&mut self, now: Timestamp) -> Option<u64> {
        let mut any = false;
        let judge = self.judge(now);
        let next = loop {
            let Some(index) = self.outstanding.first_lost() else {
                break None;
            };
            if !judge.gives_up(self.outstanding.chunk(index)) {
                break Some(index);
            }
            self.give_up(now, index);
            any = true;
        };
        if any {
            self.advance_forward_point(now);
        }
        next
    }

    /// An acknowledgement was handled, and chunks `given_up` by it.
    pub(super) fn after_acknowledgement(&mut self, now: Timestamp, given_up: &[u64]) {
        for index in given_up {
            self.give_up(now, *index);
        }
        if !self.outstanding.has_abandoned() {
            return;
        }
        self.advance_forward_point(now);
        let srtt = self.paths.path(self.paths.data_path()).rto.srtt();
        let wait = srtt.filter(|_| self.config.recovery.forward_waits);
        self.sources
            .forward
            .on_ack(now, wait.unwrap_or_default(), &self.outstanding);
        self.keep_timer(now);
    }

    /// Moves `Advanced.Peer.Ack.Point`, over what waits to be repeated and must not be any more too.
    pub(super) fn advance_forward_point(&mut self, now: Timestamp) {
        let judge = self.judge(now);
        loop {
            let next = self.sources.forward.advance(&self.outstanding);
            if next >= self.outstanding.next_index() {
                break;
            }
            let chunk = self.outstanding.chunk(next);
            let lost = matches!(chunk.state, ChunkState::Lost { .. });
            if !lost || !judge.gives_up(chunk) {
                break;
            }
            self.give_up(now, next);
        }
        self.sources.forward.on_advance(&self.outstanding);
    }

    /// While the receiver does not know the point, a timer runs (§3.5 C5).
    fn keep_timer(&mut self, now: Timestamp) {
        let at = now + self.paths.path(self.paths.data_path()).rto.current();
        let t3_runs = self.paths.t3_runs();
        self.sources.forward.keep_timer(at, t3_runs, &self.outstanding);
    }

    /// A FORWARD-TSN was not answered. No data was lost, so no window is reduced; the path is counted an error as for any
    /// chunk that is not answered (RFC 9260 §8.2).
    pub(super) fn on_forward_timer(&mut self, now: Timestamp) {
        if !self.paths.t3_runs() {
            self.sources.forward.on_timeout(&self.outstanding);
            let path = self.paths.data_path();
            self.paths.path_mut(path).rto.back_off();
            self.on_path_error(now, path, true);
        }
        self.keep_timer(now);
    }

    /// Whether a FORWARD-TSN must leave.
    pub(super) fn forward_due(&self) -> bool {
        self.sources.forward.is_due(&self.outstanding)
            && self.state.sends_data()
            && !self.state.is_setting_up()
    }

    /// Whether anything may have to leave beside control chunks and data.
    pub(super) fn has_sources(&self) -> bool {
        self.forward_due() || self.outstanding.identity().is_some() || self.sources.notices.is_enabled()
    }

    /// Adds what is due beside control chunks: a FORWARD-TSN, before any data (§3.5 F2), and notices of messages that left
    /// before, as far as they leave room for `data` bytes.
    pub(super) fn push_sources(
        &mut self,
        now: Timestamp,
        id: PathId,
        data: Option<usize>,
        packet: &mut PacketWriter<'_>,
    ) {
        if self.forward_due()
            && id == self.paths.data_path()
            && let Some(forward) = self.sources.forward.build(now, &self.outstanding, packet.room())
        {
            packet.push(&forward);
            self.outstanding.on_forward_sent(self.sources.forward.told());
            self.counters.forward_tsns_sent += 1;
            self.keep_timer(now);
        }
        self.push_forward_psn(now, id, packet);
        if self.sources.notices.is_enabled()
            && let Some(data) = data.or_else(|| self.wants_notices_alone(id).then_some(0))
        {
            self.push_notices(id, data, packet);
        }
    }

    /// The path of a packet with notices and no data: one whose congestion window lets no data out, with messages that ask for
    /// it.
    pub(super) fn notices_alone(&mut self) -> Option<PathId> {
        if !self.sources.notices.is_enabled() {
            return None;
        }
        let mut ids = (0..self.paths.len()).map(|index| PathId(index as u8));
        ids.find(|id| self.wants_notices_alone(*id))
    }

    fn wants_notices_alone(&mut self, id: PathId) -> bool {
        let path = self.paths.path(id);
        let closed = path.state == PathState::Active && !path.has_cwnd_room();
        closed && self.state.sends_data() && self.sources.notices.wants_packet(id, &self.outstanding)
    }

    /// Whether a notice is to leave with the next packet for a path.
    pub(super) fn notice_due(&mut self, id: PathId) -> bool {
        if !self.sources.notices.is_enabled() {
            return false;
        }
        let path = self.paths.path(id);
        let full = path.pmtu.max_data();
        let window = path.control.window() / full;
        let closes = path.single_packet || path.flight.bytes() + full >= path.control.window();
        self.sources.notices.is_due(id, &self.outstanding, window, closes)
    }

    /// Adds notices of chunks that left before on this path, as far as they leave room for `data` bytes.
    fn push_notices(&mut self, id: PathId, data: usize, packet: &mut PacketWriter<'_>) {
        let least = data + self.sources.notices.reserve();
        while packet.room() >= least
            && self.notice_due(id)
            && let Some(notice) = self.sources.notices.take(id)
        {
            packet.push_as(self.config.chunk_types.selective_forward_tsn, &notice);
            self.counters.selective_notices_sent += 1;
        }
        self.sources.notices.on_packet(id);
    }

    /// A chunk left as `index`: if it will not be sent again, a later packet says so.
    #[inline]
    pub(super) fn note_last_transmission(&mut self, now: Timestamp, index: u64) {
        if self.sources.notices.is_enabled() {
            self.note_if_last(now, index);
        }
    }

    fn note_if_last(&mut self, now: Timestamp, index: u64) {
        let chunk = self.outstanding.chunk(index);
        if chunk.fragment.unordered || chunk.fragment.haste.notice == DiscardNotice::Never {
            return;
        }
        let round_trip = self.paths.path(chunk.path).rto.srtt().unwrap_or_default();
        let last = match chunk.fragment.persistence {
            Persistence::Retransmissions(count) => chunk.transmissions > count,
            // Its loss cannot be known before the lifetime is over.
            Persistence::Until(deadline) => now + round_trip > deadline,
            Persistence::Reliable | Persistence::Priority(_) => false,
        };
        if last {
            self.sources.notices.on_last_sent(index, chunk);
        }
    }
}
