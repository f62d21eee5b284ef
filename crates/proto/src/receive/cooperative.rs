//! Acknowledgements that name transmissions (ECA-SCTP's COOP-SACK), by the path that the sender of the data asked for.

use anabranch_wire::chunk::{AckPolicy, CoopSackWriter, GapAckBlock, PathReportWriter, PathSequence};

use super::ack_timing::Urgency;
use super::acknowledgement::Acknowledger;
use super::receive_window::ReceiveWindow;
use super::renege::Renegable;
use super::tsn_tracker::TsnTracker;
use super::{Fragment, Receiver, Verdict};
use crate::path::PathId;
use crate::time::Timestamp;

impl Receiver {
    /// Whether acknowledgements name transmissions.
    pub(crate) fn names_transmissions(&self) -> bool {
        self.acks.arrivals().is_some()
    }

    /// A chunk of user data came in by the path `came_by`, in this transmission. A duplicate is judged by its TSN: a
    /// transmission that CumPSN has passed may still bring what is missing.
    pub(crate) fn on_transmission(
        &mut self,
        transmission: PathSequence,
        policy: AckPolicy,
        came_by: PathId,
        fragment: Fragment,
    ) -> Verdict {
        let arrivals = self.acks.arrivals_mut();
        let Some(place) = arrivals.and_then(|all| all.place(transmission, policy, came_by)) else {
            self.acks.timing.note(Urgency::AtOnce);
            return Verdict::OutOfRange;
        };
        let verdict = self.on_fragment(fragment);
        let taken = !matches!(verdict, Verdict::NoRoom | Verdict::OutOfRange);
        if let Some(arrivals) = self.acks.arrivals_mut().filter(|_| taken)
            && arrivals.record(place, verdict == Verdict::Duplicate)
        {
            self.acks.timing.note(Urgency::AtOnce);
        }
        verdict
    }

    /// Transmissions of a path up to there are not waited for.
    pub(crate) fn on_forward_psn(&mut self, point: PathSequence) {
        if let Some(arrivals) = self.acks.arrivals_mut() {
            arrivals.on_forward(point);
        }
    }

    /// The path by which a gap that is to be reported now should be, of those that `may` be used; `None` for where the last
    /// packet came from.
    pub(crate) fn gap_report_path(&self, may: impl Fn(PathId) -> bool) -> Option<PathId> {
        self.acks.arrivals()?.gap_report_path(may)
    }

    /// The next path to which the last acknowledgement is to be copied.
    pub(crate) fn copy_path(&self) -> Option<PathId> {
        self.acks.arrivals()?.next_copy()
    }

    /// A copy goes by this path; and if that is an acknowledgement of its own and copies are wanted, others by the `others`.
    pub(crate) fn on_copied(&mut self, path: PathId, others: impl Iterator<Item = PathId>) {
        if let Some(arrivals) = self.acks.arrivals_mut() {
            arrivals.on_copied(path, others);
        }
    }

    /// Hands an acknowledgement that fits `room` bytes to `write`; answers how many gap blocks it has. `room` is at least that
    /// of a chunk that names no path.
    pub(crate) fn build_coop_ack(
        &mut self,
        now: Timestamp,
        room: usize,
        write: impl FnOnce(&CoopSackWriter<'_>),
    ) -> usize {
        self.acks.build_coop(
            now,
            room,
            &mut self.tracker,
            &self.renegable,
            &mut self.window,
            write,
        )
    }
}

impl Acknowledger {
    /// As [`Receiver::build_coop_ack`].
    fn build_coop(
        &mut self,
        now: Timestamp,
        room: usize,
        tracker: &mut TsnTracker,
        renegable: &Renegable,
        window: &mut ReceiveWindow,
        write: impl FnOnce(&CoopSackWriter<'_>),
    ) -> usize {
        let rest = room.saturating_sub(CoopSackWriter::HEADER_LEN);
        // A list that is cut would promise what is not held for good: one that takes half of the room is left out, and nothing is
        // promised.
        let least = CoopSackWriter::LIST_LEN + PathReportWriter::HEADER_LEN;
        let most = (rest / 2).checked_sub(least).map(|bytes| bytes / 4);
        let listed = most
            .filter(|_| self.lists_renegable())
            .and_then(|most| renegable_blocks(tracker, renegable, most, &mut self.blocks));
        let listed = listed.as_deref();
        let list = listed.map_or(0, |blocks| CoopSackWriter::LIST_LEN + 4 * blocks.len());
        let rest = rest - list;
        self.duplicates.clear();
        tracker.take_duplicates(usize::MAX, &mut self.duplicates);
        self.timing.on_sent();
        window.on_advertised();
        let a_rwnd = window.a_rwnd();
        let Some(arrivals) = self.arrivals_mut() else {
            return 0;
        };
        arrivals.on_told();
        let (blocks, ()) = arrivals.report(rest, a_rwnd, |paths, duplicates| {
            write(&CoopSackWriter {
                timestamp_ms: (now.0 / 1_000_000) as u32,
                cumulative_tsn_ack: tracker.cumulative_tsn(),
                a_rwnd,
                paths,
                duplicates,
                renegable: listed,
            });
        });
        blocks
    }
}

/// What above the cumulative TSN is not held for good, if it takes no more than `most` blocks: what is missing too, because it
/// may have been acknowledged and taken back.
fn renegable_blocks(
    tracker: &TsnTracker,
    renegable: &Renegable,
    most: usize,
    blocks: &mut Vec<GapAckBlock>,
) -> Option<Vec<GapAckBlock>> {
    if !renegable.enabled {
        return Some(Vec::new());
    }
    blocks.clear();
    // As many gaps make at least as many blocks.
    tracker.gap_blocks(most + 1, blocks);
    if blocks.len() > most {
        return None;
    }
    let mut list = Vec::new();
    let mut next = 1;
    for kept in renegable.kept_blocks(tracker.cumulative(), most + 1, blocks) {
        if next < kept.start {
            list.push(GapAckBlock {
                start: next,
                end: kept.start - 1,
            });
        }
        next = kept.end.saturating_add(1);
    }
    list.push(GapAckBlock {
        start: next,
        end: u16::MAX,
    });
    Some(list).filter(|list| list.len() <= most)
}
