//! Builds acknowledgements of transmissions (ECA-SCTP's COOP-SACK), on the path that the data sender requests.

use anabranch_wire::chunk::{AckPolicy, CoopSackWriter, GapAckBlock, PathReportWriter, PathSequence};

use super::ack_timing::Urgency;
use super::acknowledgement::Acknowledger;
use super::renegable::Renegable;
use super::tsn_tracker::TsnTracker;
use super::{Fragment, Receiver, Verdict};
use crate::path::PathId;
use crate::time::Timestamp;

impl Receiver {
    /// Whether acknowledgements are about transmissions (COOP-SACK).
    pub(crate) fn names_transmissions(&self) -> bool {
        self.acks.arrivals().is_some()
    }

    /// A chunk of user data arrived on the path `came_by` with this transmission number. The TSN decides whether the chunk is a duplicate:
    /// a transmission up to CumPSN may still bring a missing TSN.
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
        let taken = !matches!(verdict, Verdict::WindowFull | Verdict::OutOfRange);
        if let Some(arrivals) = self.acks.arrivals_mut().filter(|_| taken)
            && arrivals.record(place, verdict == Verdict::Duplicate)
        {
            self.acks.timing.note(Urgency::AtOnce);
        }
        verdict
    }

    /// FORWARD-PSN: the receiver stops waiting for transmissions of a path up to this one.
    pub(crate) fn on_forward_psn(&mut self, point: PathSequence) {
        if let Some(arrivals) = self.acks.arrivals_mut() {
            arrivals.on_forward(point);
        }
    }

    /// The path, among those that `may` be used, on which the next acknowledgement reports a gap. `None` means the path of the last packet.
    pub(crate) fn gap_report_path(&self, may: impl Fn(PathId) -> bool) -> Option<PathId> {
        self.acks.arrivals()?.gap_report_path(may)
    }

    /// The next path on which a copy of the last acknowledgement is to be sent.
    pub(crate) fn copy_path(&self) -> Option<PathId> {
        self.acks.arrivals()?.next_copy()
    }

    /// A path no longer exists: no copy of an acknowledgement leaves there.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        if let Some(arrivals) = self.acks.arrivals_mut() {
            arrivals.forget_copy(path);
        }
    }

    /// An acknowledgement leaves on this path. If the sender wants copies, further ones are due on the `others`; there are none if this
    /// acknowledgement is a copy itself.
    pub(crate) fn on_copied(&mut self, path: PathId, others: impl Iterator<Item = PathId>) {
        if let Some(arrivals) = self.acks.arrivals_mut() {
            arrivals.on_copied(path, others);
        }
    }

    /// Passes a COOP-SACK that fits `room` bytes to `write`; returns the number of its gap ack blocks. `room` must be enough for a chunk
    /// without paths.
    pub(crate) fn build_coop_ack(
        &mut self,
        now: Timestamp,
        room: usize,
        write: impl FnOnce(&CoopSackWriter<'_>),
    ) -> usize {
        let a_rwnd = self.advertise();
        self.acks
            .build_coop(now, room, &mut self.tracker, &self.renegable, a_rwnd, write)
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
        a_rwnd: u32,
        write: impl FnOnce(&CoopSackWriter<'_>),
    ) -> usize {
        let rest = room.saturating_sub(CoopSackWriter::HEADER_LEN);
        // A truncated list would declare renegable data non-renegable. If the list takes more than half of the chunk, it is left out, and
        // then all data is renegable.
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

/// The ranges of TSNs above the cumulative TSN ack that are not non-renegable, if they need at most `most` blocks. They include missing
/// TSNs, because these may have been acknowledged and reneged.
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
    // More gap ack blocks than `most` leave more gaps than `most`.
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
