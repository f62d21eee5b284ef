//! The copies that were sent on a path, until it is known whether a packet was lost.

use std::collections::{BTreeMap, VecDeque};

use crate::extension::deadline::{Loss, PathEstimate};
use crate::path::{Flight, SendNo};
use crate::seq::ExtendedTsn;
use crate::time::Timestamp;

/// After so many copies of which the peer reported none, it is taken for a peer that reports no duplicates. At a loss of a third in both
/// directions, this is wrong less than once in ten thousand times.
const UNREPORTED: u32 = 32;

/// Copies without a report whose TSNs are remembered, because packets and acknowledgements overtake each other: their reports may still come.
const LATE: usize = 256;

/// A copy that was sent.
#[derive(Clone, Copy, Debug)]
struct SentCopy {
    tsn: ExtendedTsn,
    /// A transmission with this number or a later one left in the packet of the copy, or after it.
    after: SendNo,
    sent_at: Timestamp,
    /// Bytes in a packet, with chunk header and padding.
    bytes: usize,
    /// Whether it arrived (ECA-SCTP).
    arrived: bool,
}

/// The copies of one chunk whose fate is open.
#[derive(Clone, Copy, Debug, Default)]
struct OfChunk {
    /// Copies of which the peer reported no duplicate yet.
    open: u32,
    /// Duplicates that the peer reported: so many of the chunk's transmissions arrived besides the first.
    reported: u32,
    /// Copies that count as lost, because the peer had not reported a duplicate in time.
    late: u32,
}

impl OfChunk {
    fn is_over(self) -> bool {
        self.open + self.reported + self.late == 0
    }
}

/// The copies that were sent on a path and whose fate is open, in the order of sending.
#[derive(Debug, Default)]
pub(crate) struct CopiesInFlight {
    copies: VecDeque<SentCopy>,
    /// The same by chunks, so that the cost of a report does not grow with the number of copies.
    chunks: BTreeMap<ExtendedTsn, OfChunk>,
    /// The chunks of the last copies that count as lost, at most [`LATE`].
    late: VecDeque<ExtendedTsn>,
    /// So many of them, the earliest, have left the network since.
    gone: usize,
    bytes: usize,
    /// Bytes of those that arrived since the last acknowledgement and did not bring their chunk (ECA-SCTP).
    arrived: usize,
    /// All transmissions of the path that are known to have arrived have lower numbers.
    reached: SendNo,
    /// Copies of which the peer should have reported a duplicate if nothing was lost, until it reported the first.
    unreported: u32,
    peer_reports: bool,
    /// Since a message with a deadline asked for it first.
    estimate: Option<Box<PathEstimate>>,
}

impl CopiesInFlight {
    /// Bytes of the copies that may still be in the network, chunk headers and padding included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A copy of `tsn` was sent. Later acknowledgements of the transmission `after`, or of a later one, show its fate.
    pub(crate) fn push(&mut self, now: Timestamp, tsn: ExtendedTsn, after: SendNo, bytes: usize) {
        self.bytes += bytes;
        if let Some(estimate) = &mut self.estimate {
            estimate.losses.on_copied();
        }
        self.copies.push_back(SentCopy {
            tsn,
            after,
            sent_at: now,
            bytes,
            arrived: false,
        });
        self.chunks.entry(tsn).or_default().open += 1;
    }

    /// How probable the loss of a transmission is, if so many chunks were sent and so many declared lost.
    pub(crate) fn loss(&mut self, now: Timestamp, sent: u64, lost: u64) -> Loss {
        let estimate = self.estimate.get_or_insert_default();
        estimate.losses.loss(now, sent, lost)
    }

    /// How probable it is that a transmission is lost which follows a lost one, if another path could take it instead.
    pub(crate) fn burst(&self) -> f64 {
        let estimate = self.estimate.as_ref();
        estimate.map_or(0.0, |estimate| estimate.losses.burst())
    }

    /// The transmission `no` is declared lost.
    pub(crate) fn on_lost(&mut self, no: SendNo) {
        if let Some(estimate) = &mut self.estimate {
            estimate.losses.on_lost(no);
        }
    }

    /// So many packets were lost whose chunks are not declared lost: a copy or a tail loss probe arrived.
    pub(crate) fn on_lost_beside(&mut self, packets: u32) {
        if let Some(estimate) = &mut self.estimate {
            estimate.losses.on_lost_beside(packets);
        }
    }

    /// The knowledge of the path that messages with a deadline need, if there were any.
    pub(crate) fn estimate(&mut self) -> Option<&mut PathEstimate> {
        self.estimate.as_deref_mut()
    }

    /// Whether the peer reports duplicates, as far as is known: otherwise each copy would count as a loss.
    pub(crate) fn are_reported(&self) -> bool {
        self.peer_reports || self.unreported < UNREPORTED
    }

    /// The peer reports `tsn` as a duplicate. Returns whether a copy explains that.
    pub(crate) fn on_duplicate(&mut self, tsn: ExtendedTsn) -> bool {
        let Some(chunk) = self.chunks.get_mut(&tsn) else {
            return false;
        };
        if chunk.open > 0 {
            chunk.open -= 1;
            chunk.reported += 1;
        } else if chunk.late > 0 {
            chunk.late -= 1;
        } else {
            return false;
        }
        self.peer_reports = true;
        true
    }

    /// An acknowledgement covers the transmission `acknowledged` of the path, although another one may have brought the chunk.
    pub(crate) fn reach(&mut self, acknowledged: SendNo) {
        self.reached = self.reached.max(acknowledged + 1);
    }

    /// The transmission `acknowledged` of the path arrived, and none later is known to have arrived. Returns how many packets were lost: one for
    /// each copy that left before and was not reported as a duplicate. Also returns the bytes of those that were reported.
    pub(crate) fn settle(&mut self, acknowledged: SendNo) -> (u32, usize) {
        self.reach(acknowledged);
        let (mut lost, mut arrived) = (0, 0);
        while let Some(copy) = self.copies.front().filter(|copy| copy.after <= acknowledged) {
            let copy = *copy;
            match self.gone.checked_sub(1) {
                Some(others) => self.gone = others,
                None => self.bytes -= copy.bytes,
            }
            if self.take_report(copy.tsn) {
                arrived += copy.bytes;
            } else {
                lost += 1;
                self.unreported = self.unreported.saturating_add(1);
            }
            self.copies.pop_front();
        }
        (lost, arrived)
    }

    /// The fate of a copy is known: whether a duplicate was reported for it.
    fn take_report(&mut self, tsn: ExtendedTsn) -> bool {
        let Some(chunk) = self.chunks.get_mut(&tsn) else {
            return false;
        };
        let reported = chunk.reported > 0;
        if reported {
            chunk.reported -= 1;
        } else {
            chunk.open -= 1;
            chunk.late += 1;
            self.late.push_back(tsn);
        }
        if chunk.is_over() {
            self.chunks.remove(&tsn);
        }
        if self.late.len() > LATE {
            self.forget_oldest_late();
        }
        reported
    }

    fn forget_oldest_late(&mut self) {
        let Some(tsn) = self.late.pop_front() else { return };
        if let Some(chunk) = self.chunks.get_mut(&tsn) {
            // The report may have come meanwhile.
            chunk.late = chunk.late.saturating_sub(1);
            if chunk.is_over() {
                self.chunks.remove(&tsn);
            }
        }
    }

    /// Copies that left before `time` are no longer in the network, arrived or lost, although no acknowledgement shows which: otherwise a
    /// few lost acknowledgements would close the window for data.
    pub(crate) fn forget_before(&mut self, time: Timestamp) {
        while let Some(copy) = self.copies.get(self.gone).filter(|copy| copy.sent_at < time) {
            self.bytes -= if copy.arrived { 0 } else { copy.bytes };
            self.gone += 1;
        }
    }

    /// Whether a chunk that is acknowledged now may have arrived by a copy, which left before the transmission `after` or with it.
    pub(crate) fn may_have_arrived(&self, after: SendNo) -> bool {
        after < self.reached
    }

    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        self.chunks.clear();
        self.late.clear();
        self.gone = 0;
        self.bytes = 0;
        self.arrived = 0;
    }
}

/// ECA-SCTP: copies have numbers as other transmissions have, and acknowledgements name them.
impl CopiesInFlight {
    /// A copy with the number `no` was sent.
    pub(crate) fn push_named(&mut self, no: SendNo, now: Timestamp, bytes: usize) {
        if let Some(estimate) = &mut self.estimate {
            estimate.losses.on_copied();
        }
        self.take_over(no, now, bytes);
    }

    /// The transmission `no` is a copy from now on.
    pub(crate) fn take_over(&mut self, no: SendNo, sent_at: Timestamp, bytes: usize) {
        let place = self.copies.partition_point(|copy| copy.after < no);
        if place < self.gone {
            self.gone += 1;
        } else {
            self.bytes += bytes;
        }
        let copy = SentCopy {
            tsn: 0,
            after: no,
            sent_at,
            bytes,
            arrived: false,
        };
        self.copies.insert(place, copy);
    }

    /// The transmission `no` arrived, which may be a copy.
    pub(crate) fn on_named(&mut self, no: SendNo) {
        self.reach(no);
        if let Ok(place) = self.copies.binary_search_by_key(&no, |copy| copy.after) {
            let copy = &mut self.copies[place];
            if !core::mem::replace(&mut copy.arrived, true) {
                self.arrived += copy.bytes;
                self.bytes -= if place < self.gone { 0 } else { copy.bytes };
            }
        }
    }

    /// When the last copy left whose fate is open; the beginning of time if there is none.
    pub(crate) fn last_sent(&self) -> Timestamp {
        self.copies.back().map_or(Timestamp::ZERO, |copy| copy.sent_at)
    }

    /// When the earliest copy left that was neither answered nor overtaken.
    pub(crate) fn unanswered_since(&self) -> Option<Timestamp> {
        self.copies
            .iter()
            .find(|copy| !copy.arrived)
            .map(|copy| copy.sent_at)
    }

    /// One of the copies that arrived brought its chunk of so many bytes, which count as those of the chunk.
    pub(crate) fn on_brought(&mut self, bytes: usize) {
        self.arrived = self.arrived.saturating_sub(bytes);
    }

    /// Copies are lost that were overtaken by a later transmission of the path. Returns how many, and the bytes of those that arrived and did
    /// not bring their chunks.
    pub(crate) fn settle_named(&mut self, flight: &mut Flight) -> (u32, usize) {
        let reached = self.reached;
        let mut lost = 0;
        let is_settled = |copy: &&SentCopy| copy.arrived || copy.after < reached;
        while let Some(copy) = self.copies.front().filter(is_settled).copied() {
            self.copies.pop_front();
            let counts = self.gone == 0;
            self.gone = self.gone.saturating_sub(1);
            if !copy.arrived {
                self.bytes -= if counts { copy.bytes } else { 0 };
                lost += 1;
                flight.on_copy_lost(copy.after);
                self.on_lost(copy.after);
            }
        }
        (lost, core::mem::take(&mut self.arrived))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two copies of chunk 7 and one of chunk 8.
    fn copies() -> CopiesInFlight {
        let mut copies = CopiesInFlight::default();
        let at = Timestamp::from_millis;
        copies.push(at(1), 7, 10, 100);
        copies.push(at(2), 8, 10, 200);
        copies.push(at(3), 7, 12, 100);
        copies
    }

    #[test]
    fn a_copy_without_a_duplicate_is_a_loss() {
        let mut copies = copies();
        assert_eq!(
            (copies.settle(9), copies.bytes()),
            ((0, 0), 400),
            "nothing after them arrived"
        );
        assert!(copies.may_have_arrived(9) && !copies.may_have_arrived(10));
        assert!(copies.on_duplicate(7));
        assert_eq!(
            (copies.settle(11), copies.bytes()),
            ((1, 100), 100),
            "that of chunk 8"
        );
        assert_eq!(
            (copies.settle(12), copies.bytes()),
            ((1, 0), 0),
            "the second one of chunk 7"
        );
    }

    #[test]
    fn each_copy_explains_one_duplicate() {
        let mut copies = copies();
        let explained: Vec<bool> = [7, 7, 7, 8, 9].map(|tsn| copies.on_duplicate(tsn)).into();
        assert_eq!(explained, [true, true, false, true, false]);
        assert_eq!(copies.settle(20), (0, 400));
        assert!(copies.chunks.is_empty());
    }

    #[test]
    fn a_peer_that_reports_nothing_gets_no_more_copies() {
        for reports in [false, true] {
            let mut copies = CopiesInFlight::default();
            for number in 0..40 {
                assert_eq!(copies.are_reported(), reports || number < 32, "{number}");
                copies.push(Timestamp::from_millis(1), number, number, 100);
                assert!(!reports || number > 0 || copies.on_duplicate(number));
                copies.settle(number);
            }
        }
    }

    #[test]
    fn a_late_report_is_still_that_of_the_copy() {
        let mut copies = copies();
        assert_eq!(copies.settle(20), (3, 0), "all count as lost");
        let explained: Vec<bool> = [7, 8, 8, 7, 7].map(|tsn| copies.on_duplicate(tsn)).into();
        assert_eq!(explained, [true, true, false, true, false]);
    }

    #[test]
    fn late_reports_are_awaited_for_few_copies() {
        let mut copies = CopiesInFlight::default();
        for number in 0..2000 {
            copies.push(Timestamp::from_millis(1), number, number, 100);
            copies.settle(number);
            assert!(copies.late.len() <= LATE && copies.chunks.len() <= LATE);
        }
        assert!(!copies.on_duplicate(2000 - 1 - LATE as u64));
        assert!(copies.on_duplicate(2000 - LATE as u64));
    }

    #[test]
    fn old_copies_take_no_room() {
        let mut copies = copies();
        copies.forget_before(Timestamp::from_millis(1));
        assert_eq!(copies.bytes(), 400);
        copies.forget_before(Timestamp::from_millis(3));
        assert_eq!(copies.bytes(), 100);
        assert_eq!(
            (copies.settle(10), copies.bytes()),
            ((2, 0), 100),
            "their fate is still open"
        );
        assert_eq!((copies.settle(12), copies.bytes()), ((1, 0), 0));
    }

    #[test]
    fn cleared_copies_are_gone() {
        let mut copies = copies();
        copies.clear();
        assert_eq!((copies.settle(20), copies.bytes()), ((0, 0), 0));
    }
}
