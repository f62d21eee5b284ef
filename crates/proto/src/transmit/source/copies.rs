//! Early copies: which chunks are sent again before their loss can be known, when, and in which packets (`extension/early_copies`).

use core::time::Duration;

use anabranch_wire::packet::PacketWriter;

use super::super::{Cx, Sender};
use super::Source;
use crate::extension::deadline::needed_copies;
use crate::extension::early_copies::{PlannedCopy, spacing};
use crate::message::{Copies, Persistence};
use crate::path::{Load, PathId};
use crate::recovery::ChunkState;
use crate::time::Timestamp;

impl Sender {
    /// The chunk `index` was sent for the first time, on a path: its message may ask for copies.
    #[inline]
    pub(super) fn plan_copies(&mut self, cx: &mut Cx<'_>, id: PathId, index: u64) {
        let copies = self.outstanding.chunk(index).fragment.haste.copies;
        if copies != Copies::Fixed(0)
            && self.outstanding.uses_rack()
            && self.outstanding.identity().is_none()
            && cx.paths.path(id).copies.are_reported()
        {
            let left = match copies {
                Copies::Fixed(count) => count,
                Copies::ForDeadline(fragments) => self.copies_for_deadline(cx, id, index, fragments),
            };
            if left > 0 {
                self.plan_copy(cx, id, index, left);
            }
        }
    }

    /// How many copies the chunk needs, whose message has so many fragments.
    fn copies_for_deadline(&self, cx: &mut Cx<'_>, id: PathId, index: u64, fragments: u8) -> u8 {
        let path = cx.paths.path_mut(id);
        let round_trip = path.rtt.smoothed_or_rto();
        let left = match self.outstanding.chunk(index).fragment.persistence {
            Persistence::Until(deadline) => deadline.saturating_duration_since(cx.now + round_trip / 2),
            _ => Duration::MAX,
        };
        let (sent, _, lost) = path.delivery.chunks();
        needed_copies(
            path.copies.loss(cx.now, sent, lost),
            left,
            round_trip,
            u32::from(fragments),
        )
    }

    fn plan_copy(&mut self, cx: &Cx<'_>, id: PathId, index: u64, left: u8) {
        let rtt = &cx.paths.path(id).rtt;
        // Before the first RTT was measured, nothing says when a copy is of use.
        let (Some(smoothed), Some(lowest)) = (rtt.smoothed(), rtt.min()) else {
            return;
        };
        let fragment = &self.outstanding.chunk(index).fragment;
        let left_until =
            |deadline: Timestamp, travels: Duration| deadline.saturating_duration_since(cx.now + travels);
        let useful = match (fragment.persistence, fragment.haste.copies) {
            // All copies should arrive in time although the queues of the network vary, as far as there is time for that.
            (Persistence::Until(deadline), Copies::ForDeadline(_)) => {
                let slow = left_until(deadline, smoothed / 2 + 2 * rtt.rttvar());
                slow.max(left_until(deadline, lowest / 2) / 4)
            }
            (Persistence::Until(deadline), Copies::Fixed(_)) => left_until(deadline, lowest / 2),
            _ => Duration::MAX,
        };
        if let Some(spacing) = spacing(smoothed, useful, left) {
            self.present.add(Source::Copies);
            self.copies.add(PlannedCopy {
                due: cx.now + spacing,
                tsn: index,
                left,
            });
        }
    }

    /// Whether a copy leaves before the data whose turn it is: it is due, and the data is less urgent.
    #[inline]
    pub(in super::super) fn copy_goes_first(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.copies.is_empty() || self.outstanding.first_lost().is_some() {
            return false;
        }
        let copy = self.next_copy(cx);
        copy.is_some_and(|copy| self.class_of(copy) < self.queue.next_class() && self.may_copy(cx, copy))
    }

    fn class_of(&self, copy: PlannedCopy) -> u16 {
        self.queue.class(self.outstanding.chunk(copy.tsn).fragment.stream)
    }

    /// Whether a copy may leave: copies take what the congestion window leaves, but not from data that is as urgent.
    fn may_copy(&self, cx: &mut Cx<'_>, copy: PlannedCopy) -> bool {
        let id = self.outstanding.chunk(copy.tsn).path;
        let data_waits = self.outstanding.first_lost().is_some()
            || !self.queue.is_empty() && self.queue.next_class() <= self.class_of(copy);
        !data_waits && cx.may_send_data() && cx.paths.path_mut(id).admits(cx.now, Load::Copies).is_ok()
    }

    /// The path of a packet that has only copies: a copy is due, and no data leaves.
    pub(super) fn copies_ask(&mut self, cx: &mut Cx<'_>) -> Option<PathId> {
        if self.copies.is_empty() {
            return None;
        }
        let copy = self.next_copy(cx)?;
        let may = self.may_copy(cx, copy);
        may.then(|| self.outstanding.chunk(copy.tsn).path)
    }

    /// Adds the copies that are due to a packet, after its `data`.
    pub(super) fn push_copies(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        data: bool,
        packet: &mut PacketWriter<'_>,
    ) {
        if self.copies.is_empty() {
            return;
        }
        let kind = self.data_kind(cx);
        while let Some(copy) = self.next_copy(cx) {
            let chunk = self.outstanding.chunk(copy.tsn);
            let size = chunk.fragment.wire_len();
            let fits = size <= packet.room_for(kind);
            if chunk.path != id || !self.may_copy(cx, copy) || !(fits || packet.is_empty()) {
                return;
            }
            self.copies.remove(&copy);
            if !fits {
                // The path MTU has become smaller.
                continue;
            }
            self.write_data(cx, id, copy.tsn, false, packet);
            let after = cx.paths.path_mut(id).on_copy_sent(cx.now, copy.tsn, size, data);
            self.outstanding.on_copied(copy.tsn, after);
            cx.counters.early_copies += 1;
            cx.counters.redundancy_bytes += size as u64;
            if copy.left > 1 {
                self.plan_copy(cx, id, copy.tsn, copy.left - 1);
            }
        }
    }

    /// The first copy that is due and still of use: its chunk is in flight by its first transmission. Others are forgotten.
    fn next_copy(&mut self, cx: &Cx<'_>) -> Option<PlannedCopy> {
        while let Some(copy) = self.copies.first(cx.now) {
            if copy.tsn >= self.outstanding.base() && copy.tsn < self.outstanding.next_index() {
                let chunk = self.outstanding.chunk(copy.tsn);
                let in_flight = chunk.state == ChunkState::InFlight && chunk.transmissions == 1;
                if in_flight && !chunk.abandoned && !self.judge(cx).abandons(chunk) {
                    return Some(copy);
                }
            }
            self.copies.remove(&copy);
        }
        None
    }
}
