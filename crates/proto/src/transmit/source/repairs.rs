//! Repair chunks (`extension/repair`): how many a message needs, when they leave, and in which packets.

use anabranch_wire::packet::PacketWriter;

use super::super::in_time::{Deadline, chance, chance_alone};
use super::super::{Cx, Sender};
use super::Source;
use crate::extension::deadline::{Chance, Loss, MayBeLate};
use crate::extension::early_copies::spacing;
use crate::extension::repair::{Fates, needed_repairs};
use crate::path::{CopyNeed, Load, PathId};
use crate::trace_event::{Blocked, CopyWait, TraceKind};

/// A message that is late with this probability needs no repair.
const LATE: f64 = 0.5;

impl Sender {
    /// A fragment of a message with a deadline was sent for the first time. Returns whether its message is repaired, instead of copies of its
    /// fragments.
    pub(super) fn plan_repairs(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        index: u64,
        deadline: Deadline,
    ) -> bool {
        let fragment = &self.outstanding.chunk(index).fragment;
        let alone = fragment.beginning && fragment.ending;
        if !self.repairs.is_enabled() || alone || !fragment.unordered {
            return false;
        }
        let Some(mut block) = self.repairs.on_sent(index, fragment, id) else {
            return true;
        };
        let now = cx.now;
        let left = deadline.at.saturating_duration_since(now);
        let several_paths = self.outstanding.identity().is_some();
        let mut of_path = |path: &PathId| {
            let path = cx.paths.path_mut(*path);
            if several_paths {
                chance(now, path, 0)
            } else {
                chance_alone(now, path, 0)
            }
        };
        let chances: Vec<Chance> = block.fragments.iter().map(|(_, path)| of_path(path)).collect();
        let Some(last) = chances.last() else { return true };
        if last.late(left) > LATE {
            return true;
        }
        let count = chances.len();
        let several = block.fragments.iter().any(|(_, path)| *path != id);
        let mean = |of: &dyn Fn(&Chance) -> f64| chances.iter().map(of).sum::<f64>() / count as f64;
        let fates = |of: &dyn Fn(&Chance) -> Loss| {
            let any = mean(&|chance| of(chance).any);
            let next = mean(&|chance| of(chance).next);
            // Fragments on several paths alternate.
            Fates {
                any,
                next: if several { any } else { next.max(any) },
            }
        };
        let of_fragment = fates(&|chance| chance.lost_for_good(left, count as u32));
        let of_repair = fates(&|chance| chance.loss);
        let acceptable = MayBeLate::of_million(cx.config.late_per_million).of_message();
        block.repairs.1 = needed_repairs(count, of_fragment, of_repair, acceptable);
        let (message, stream, repairs) = (block.last.message, block.last.stream, block.repairs.1);
        self.outstanding.journal.note(|| TraceKind::RepairsPlanned {
            message,
            stream,
            fragments: count,
            left,
            failure: of_fragment.any,
            repairs,
        });
        if block.repairs.1 > 0 {
            let slack = left.saturating_sub(last.arrives + 2 * last.varies);
            let wait = spacing(last.round_trip, slack, 1).unwrap_or_default();
            self.repairs.plan(now + wait, block);
            self.present.add(Source::Repairs);
        }
        true
    }

    /// The path of a packet that has only repair chunks: one is due, and no data leaves.
    pub(super) fn repairs_ask(&mut self, cx: &mut Cx<'_>) -> Option<PathId> {
        let (deadline, wire_len) = self.next_repair(cx)?;
        let block = self.repairs.first(cx.now)?;
        let (tsn, stream, len) = (block.tsn, block.last.stream, block.len());
        let id = self.path_of_repair(cx, deadline, wire_len);
        let data_waits = self.outstanding.first_lost().is_some()
            || !self.queue.is_empty() && self.queue.next_class() <= self.queue.class(stream);
        let window = self.window.left(cx.paths.payload_in_flight());
        let path = cx.paths.path_mut(id);
        let admitted = if data_waits {
            Err(CopyWait::Data)
        } else if window < len || !self.outstanding.has_room() {
            Err(CopyWait::of(Blocked::ReceiveWindow))
        } else if let Err(blocked) = path.admits(cx.now, Load::Copies) {
            if matches!(blocked, Blocked::Pacer(_)) {
                self.blocked = blocked;
            }
            Err(CopyWait::of(blocked))
        } else {
            path.has_room_for_copy(cx.now, wire_len, CopyNeed::MayBeLost)
        };
        match admitted {
            Ok(()) => cx.may_send_data().then_some(id),
            Err(wait) => {
                self.note_copy_waits(tsn, id, wait);
                None
            }
        }
    }

    /// The deadline and the length in a packet of the next repair chunk that is due and still of use: its message is not acknowledged. Others are forgotten.
    fn next_repair(&mut self, cx: &Cx<'_>) -> Option<(Deadline, usize)> {
        let format = self.queue.format();
        loop {
            let block = self.repairs.first(cx.now)?;
            let deadline = Deadline::of(block.last.persistence, block.last.haste.copies);
            let fits = block.len() <= cx.paths.smallest_max_data() - format.header_len();
            let wire_len = format.wire_len(block.len());
            let waits = block.tsn >= self.outstanding.base();
            match deadline.filter(|deadline| deadline.at > cx.now && fits && waits) {
                Some(deadline) if !block.is_done() => return Some((deadline, wire_len)),
                _ => self.repairs.forget_first(),
            }
        }
    }

    /// The path on which a repair chunk is in time most probably.
    fn path_of_repair(&self, cx: &mut Cx<'_>, deadline: Deadline, bytes: usize) -> PathId {
        let (now, data_path) = (cx.now, cx.paths.data_path());
        if !cx.paths.spreads() {
            return data_path;
        }
        let left = deadline.at.saturating_duration_since(now);
        let failures = cx.paths.active_mut().map(|path| {
            let failure = chance(now, path, bytes).of_copy(left).probability();
            (failure, path.id)
        });
        let best = failures.min_by(|one, other| one.0.total_cmp(&other.0));
        best.map_or(data_path, |(_, id)| id)
    }

    /// Adds the repair chunks that are due to a packet.
    pub(super) fn push_repairs(&mut self, cx: &mut Cx<'_>, id: PathId, packet: &mut PacketWriter<'_>) {
        let (format, kind) = (self.queue.format(), self.data_kind(cx));
        let mut any = false;
        while self.repairs_ask(cx) == Some(id)
            && let Some(block) = self.repairs.first(cx.now)
            && format.wire_len(block.len()) <= packet.room_for(kind)
        {
            let fragment = block.next(format);
            if !core::mem::replace(&mut any, true) {
                self.begin_data_packet(cx, id);
            }
            let (size, len, stream) = (fragment.wire_len(), fragment.payload.len(), fragment.stream);
            self.buffer.add(stream, self.queue.class(stream), len);
            let path = cx.paths.path_mut(id);
            let index = self.outstanding.push(fragment, path, cx.now);
            path.on_data_sent(cx.now, size, len);
            let sequence = self.outstanding.chunk(index).sequence;
            self.write_data(cx, id, (index, sequence), false, packet);
            cx.counters.data_chunks_sent += 1;
            cx.counters.data_bytes_sent += len as u64;
            cx.counters.repair_chunks += 1;
            cx.counters.redundancy_bytes += size as u64;
        }
        if any {
            let starved = self.was_starved();
            cx.paths.path_mut(id).on_packet_sent(cx.now, starved);
        }
    }
}
