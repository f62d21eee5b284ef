//! Early copies: which chunks are sent again before their loss can be known, when, and in which packets (`extension/early_copies`).

use core::time::Duration;

use anabranch_wire::packet::PacketWriter;

use super::super::explain::Estimate;
use super::super::in_time::{Deadline, chance, chance_alone};
use super::super::{Cx, Sender};
use super::Source;
use crate::extension::deadline::{MayBeLate, needed_copies};
use crate::extension::early_copies::{PlannedCopy, spacing};
use crate::message::{Copies, Persistence};
use crate::path::{CopyNeed, Load, Path, PathId, bit};
use crate::recovery::ChunkState;
use crate::time::Timestamp;
use crate::trace_event::CopyWait;

/// A copy of a message without lifetime is in time if it arrives before a retransmission after the initial RTO would leave (RFC 9260 §16).
const ENDURES: Duration = Duration::from_secs(1);
/// The shortest time between two copies that test a path which does not answer.
const TEST_INTERVAL: Duration = Duration::from_millis(50);

impl Sender {
    /// The chunk `index` was sent for the first time, on a path: its message may ask for copies.
    #[inline]
    pub(super) fn plan_copies(&mut self, cx: &mut Cx<'_>, id: PathId, index: u64) {
        let copies = self.outstanding.chunk(index).fragment.haste.copies;
        if copies != Copies::Fixed(0) {
            self.plan_first_copy(cx, id, index, copies);
        }
    }

    #[inline(never)]
    fn plan_first_copy(&mut self, cx: &mut Cx<'_>, id: PathId, index: u64, copies: Copies) {
        if self.outstanding.uses_rack()
            && (self.outstanding.identity().is_some() || cx.paths.path(id).copies.are_reported())
        {
            let left = match (copies, self.deadline_of(index)) {
                (Copies::Fixed(count), _) => count,
                (Copies::ForDeadline(_), Some(deadline)) if self.plan_repairs(cx, id, index, deadline) => 0,
                (Copies::ForDeadline(_), _) => self.copies_for_deadline(cx, id, index),
            };
            if let Some(silent) = self.path_to_test(cx, id, index) {
                self.present.add(Source::Copies);
                self.copies.add(PlannedCopy {
                    tests: Some(silent),
                    ..PlannedCopy::new(cx.now, index, left + 1, id)
                });
            } else if left > 0 {
                self.plan_copy(cx, PlannedCopy::new(cx.now, index, left, id));
            } else {
                self.plan_late_copy(cx, id, index);
            }
        } else {
            self.note_copy_waits(index, id, CopyWait::Unavailable);
        }
    }

    /// If the last transmission of the chunk is not answered when it should be, a copy takes another path, if that is in time. It costs
    /// nothing if the answer comes.
    fn plan_late_copy(&mut self, cx: &mut Cx<'_>, id: PathId, index: u64) {
        let deadline = self.outstanding.identity().and(self.deadline_of(index));
        let Some(deadline) = deadline.filter(|_| cx.paths.active_count() > 1) else {
            return;
        };
        let due = cx.now + cx.paths.path(id).rtt.unbounded_rto();
        if due < deadline.at {
            self.present.add(Source::Copies);
            self.copies.add(PlannedCopy {
                late: true,
                ..PlannedCopy::new(due, index, 1, id)
            });
        }
    }

    /// Another path that has not answered for longer than usual: a copy of the chunk now and then notices at once when it works again.
    fn path_to_test(&self, cx: &mut Cx<'_>, id: PathId, index: u64) -> Option<PathId> {
        self.outstanding.identity().and(self.deadline_of(index))?;
        let now = cx.now;
        let is_silent = |path: &&Path| {
            let sent = now.saturating_duration_since(path.last_sent());
            path.is_overdue(now) && sent >= TEST_INTERVAL
        };
        let mut others = cx.paths.active().filter(|path| path.id != id);
        others.find(is_silent).map(|path| path.id)
    }

    fn deadline_of(&self, index: u64) -> Option<Deadline> {
        let fragment = &self.outstanding.chunk(index).fragment;
        Deadline::of(fragment.persistence, fragment.haste.copies)
    }

    /// How many copies the chunk needs that was sent on this path.
    fn copies_for_deadline(&mut self, cx: &mut Cx<'_>, id: PathId, index: u64) -> u8 {
        let Some(deadline) = self.deadline_of(index) else {
            return 0;
        };
        let (now, bytes) = (cx.now, self.outstanding.chunk(index).fragment.wire_len());
        let left = deadline.at.saturating_duration_since(now);
        let may_be_late = MayBeLate::of_million(cx.config.late_per_million);
        let (here, elsewhere) = if self.outstanding.identity().is_none() {
            (chance_alone(now, cx.paths.path_mut(id), 0), Vec::new())
        } else {
            let here = chance(now, cx.paths.path_mut(id), 0);
            let others = cx.paths.active_mut().filter(|path| path.id != id);
            (here, others.map(|path| chance(now, path, bytes)).collect())
        };
        let fragments = deadline.fragments;
        let copies = needed_copies(&here, &elsewhere, left, fragments, may_be_late);
        let estimate = Estimate {
            path: id,
            chance: here,
            left,
            fragments,
            copies,
        };
        self.note_estimate(index, &estimate);
        copies
    }

    /// The path on which a copy is most probably in time. Only acknowledgements that name transmissions (ECA-SCTP) can tell on which path
    /// one was lost; without them, it is the path of the last transmission.
    fn path_of_copy(&self, cx: &mut Cx<'_>, copy: PlannedCopy) -> PathId {
        if self.outstanding.identity().is_none() {
            return copy.last;
        }
        let fragment = &self.outstanding.chunk(copy.tsn).fragment;
        let left = match fragment.persistence {
            Persistence::Until(at) => at.saturating_duration_since(cx.now),
            _ => ENDURES,
        };
        let (now, bytes) = (cx.now, fragment.wire_len());
        let allowed = cx.paths.active_mut().filter(|path| copy.may_take(path.id));
        let failures = allowed.map(|path| {
            let failure = chance(now, path, bytes).of_copy(left);
            let probability = if copy.has_used(path.id) {
                failure.of_another()
            } else {
                failure.probability()
            };
            (probability, path.id)
        });
        let best = failures.min_by(|one, other| one.0.total_cmp(&other.0));
        best.map_or(copy.last, |(_, id)| id)
    }

    /// Plans a copy that could leave now, if it need not wait until a burst of losses is over.
    fn plan_copy(&mut self, cx: &mut Cx<'_>, copy: PlannedCopy) {
        let index = copy.tsn;
        let id = self.path_of_copy(cx, copy);
        if !copy.has_used(id) {
            self.present.add(Source::Copies);
            return self.copies.add(copy);
        }
        let rtt = &cx.paths.path(id).rtt;
        // Before the first RTT was measured, nothing says when a copy is of use.
        let (Some(smoothed), Some(lowest)) = (rtt.smoothed(), rtt.min()) else {
            return self.note_copy_waits(index, id, CopyWait::Unmeasured);
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
        if let Some(spacing) = spacing(smoothed, useful, copy.left) {
            self.present.add(Source::Copies);
            self.copies.add(PlannedCopy {
                due: cx.now + spacing,
                ..copy
            });
        } else {
            self.note_copy_waits(index, id, CopyWait::TooLate);
        }
    }

    /// Whether a copy leaves before the data whose turn it is: it is due, and the data is less urgent.
    #[inline]
    pub(in super::super) fn copy_goes_first(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.copies.is_empty() || self.outstanding.first_lost().is_some() {
            return false;
        }
        let copy = self.next_copy(cx);
        copy.is_some_and(|copy| {
            self.class_of(copy) < self.queue.next_class() && self.may_copy(cx, copy).is_ok()
        })
    }

    fn class_of(&self, copy: PlannedCopy) -> u16 {
        self.queue.class(self.outstanding.chunk(copy.tsn).fragment.stream)
    }

    /// The path on which a copy may leave, or why it may not: copies take what the congestion window leaves, but not from data that is as urgent.
    fn may_copy(&self, cx: &mut Cx<'_>, copy: PlannedCopy) -> Result<PathId, (PathId, CopyWait)> {
        let data_waits = self.outstanding.first_lost().is_some()
            || !self.queue.is_empty() && self.queue.next_class() <= self.class_of(copy);
        if data_waits {
            return Err((copy.last, CopyWait::Data));
        }
        if !cx.may_send_data() {
            return Err((copy.last, CopyWait::State));
        }
        let id = copy.tests.unwrap_or_else(|| self.path_of_copy(cx, copy));
        let need = match copy.tests {
            Some(_) => CopyNeed::Silent,
            None if !copy.late => CopyNeed::MayBeLost,
            None if cx.paths.path(copy.last).is_overdue(cx.now) => CopyNeed::Silent,
            None => CopyNeed::Overdue,
        };
        let path = cx.paths.path_mut(id);
        let admitted = path.admits(cx.now, Load::Copies);
        admitted.map_err(|blocked| (id, CopyWait::of(blocked)))?;
        let fragment = &self.outstanding.chunk(copy.tsn).fragment;
        let fixed = matches!(fragment.haste.copies, Copies::Fixed(_));
        if !fixed {
            let room = path.has_room_for_copy(cx.now, fragment.wire_len(), need);
            room.map_err(|wait| (id, wait))?;
        }
        Ok(id)
    }

    /// The path of a packet that has only copies: a copy is due, and no data leaves.
    pub(super) fn copies_ask(&mut self, cx: &mut Cx<'_>) -> Option<PathId> {
        if self.copies.is_empty() {
            return None;
        }
        let copy = self.next_copy(cx)?;
        match self.may_copy(cx, copy) {
            Ok(path) => Some(path),
            Err((path, wait)) => {
                self.note_copy_waits(copy.tsn, path, wait);
                None
            }
        }
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
        // A copy alone on its path is answered at once, so that its path stays measured.
        let immediate = self.outstanding.identity().is_some();
        while let Some(copy) = self.next_copy(cx) {
            let chunk = self.outstanding.chunk(copy.tsn);
            let (size, len) = (chunk.fragment.wire_len(), chunk.fragment.payload.len());
            let fits = size <= packet.room_for(kind);
            // A packet that continues a batch is no longer than the first one: a longer copy begins the next batch.
            let fits_path = || cx.auth_len(kind) + size <= cx.paths.path(id).pmtu.max_data();
            if !fits && (!packet.is_empty() || fits_path()) || self.may_copy(cx, copy) != Ok(id) {
                return;
            }
            self.copies.remove(&copy);
            if copy.late {
                self.copies.hurry(cx.now, copy.last);
            }
            if !fits {
                // The path MTU has become smaller.
                continue;
            }
            let path = cx.paths.path_mut(id);
            let after = path.on_copy_sent(cx.now, copy.tsn, size, data);
            path.delivery.on_copied(len);
            self.write_data(cx, id, (copy.tsn, after), immediate, packet);
            self.outstanding.on_copied(copy.tsn, after);
            cx.counters.early_copies += 1;
            cx.counters.redundancy_bytes += size as u64;
            if let Some(estimate) = cx.paths.path_mut(id).copies.estimate() {
                estimate.room.take(size);
            }
            if copy.left > 1 {
                let last = copy.tests.map_or(id, |_| copy.last);
                let next = PlannedCopy {
                    used: copy.used | bit(id),
                    ..PlannedCopy::new(cx.now, copy.tsn, copy.left - 1, last)
                };
                self.plan_copy(cx, next);
            } else {
                self.plan_late_copy(cx, id, copy.tsn);
            }
        }
    }

    /// The first copy that is due and still of use: its chunk is in flight by its first transmission. Others are forgotten.
    fn next_copy(&mut self, cx: &Cx<'_>) -> Option<PlannedCopy> {
        while let Some(copy) = self.copies.first(cx.now) {
            if copy.tsn >= self.outstanding.base() && copy.tsn < self.outstanding.next_index() {
                let chunk = self.outstanding.chunk(copy.tsn);
                let in_flight = chunk.state == ChunkState::InFlight && chunk.transmissions == 1;
                let leaves = || cx.paths.active().any(|path| copy.may_take(path.id));
                if in_flight && leaves() && !chunk.abandoned && !self.judge(cx).abandons(chunk) {
                    return Some(copy);
                }
            }
            self.copies.remove(&copy);
        }
        None
    }
}
