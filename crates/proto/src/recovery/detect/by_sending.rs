//! Missing reports in the order of sending on one path (draft-tuexen-tsvwg-sctp-multipath §3.1, §3.2).
//!
//! Packets of one path arrive in order, so a sending that is missing when a later one arrived was lost, whatever the other paths
//! do. A report counts against everything in flight on the path that was sent before the highest sending which the acknowledgement
//! newly acknowledges. A sending was reported missing n times if the n-th highest report is above it: reports need no counter
//! for each sending, because a retransmission is a sending of its own, above them all.
//!
//! Where acknowledgements name sendings (ECA-SCTP), a report is not an acknowledgement but a later *packet* that arrived: one
//! that was overtaken, with several chunks in it, looks like one.

use crate::path::{Flight, FlightProgress, SendNo};
use crate::seq::ExtendedTsn;

/// Reports that ever make a loss.
const MOST_REPORTS: usize = u8::MAX as usize + Tolerance::MOST as usize;

/// What was reported missing on one path.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// The highest reports so far, as many as make a loss; rising.
    highest: Vec<SendNo>,
    /// What lies below was judged already.
    judged: SendNo,
    tolerance: Tolerance,
}

/// The reordering tolerance of a path: how much longer than by the rules it is waited for, because losses found there were
/// spurious.
#[derive(Clone, Copy, Debug, Default)]
struct Tolerance {
    /// Steps: further reports, and quarters of a round trip.
    steps: u8,
    /// Spurious retransmissions of sendings below this one have had their step: one a window.
    raised: SendNo,
    /// Sendings acknowledged since the last step up or down.
    quiet: u32,
}

impl Tolerance {
    const MOST: u8 = 16;
    /// Sendings acknowledged, none of them retransmitted spuriously, that take a step back.
    const MEMORY: u32 = 1024;

    fn on_acknowledged(&mut self) {
        self.quiet += 1;
        if self.quiet >= Self::MEMORY {
            self.quiet = 0;
            self.steps = self.steps.saturating_sub(1);
        }
    }
}

impl Reports {
    /// A sending is acknowledged.
    pub(crate) fn on_acknowledged(&mut self) {
        self.tolerance.on_acknowledged();
    }

    /// A sending is known to have arrived in the packet that begins with `packet`.
    pub(crate) fn on_packet(&mut self, packet: SendNo) {
        if self.highest.binary_search(&packet).is_err() {
            self.count(packet);
        }
    }

    /// The sending `no` was taken for lost, and had arrived: the tolerance grows, by a step a window.
    pub(crate) fn on_spurious(&mut self, no: SendNo, flight: &Flight) {
        let tolerance = &mut self.tolerance;
        if no >= tolerance.raised {
            tolerance.steps = (tolerance.steps + 1).min(Tolerance::MOST);
            tolerance.raised = flight.next();
        }
        tolerance.quiet = 0;
    }

    /// Steps by which this path is waited for longer than by the rules: each a report, or a quarter of a round trip.
    pub(crate) fn tolerance(&self) -> u8 {
        self.tolerance.steps
    }

    fn count(&mut self, report: SendNo) {
        let at = self.highest.partition_point(|known| *known <= report);
        self.highest.insert(at, report);
        // Until it is known how many make a loss, no more than ever do.
        let spare = self.highest.len().saturating_sub(MOST_REPORTS);
        self.highest.drain(..spare);
    }

    /// Counts the acknowledgement, which makes a loss of what is missing with the others of `needed` reports. If all that it
    /// newly acknowledges went by this path, what was sent before that is missing in each of the `packets` that it answers
    /// (§3.3 of the draft). `None` where sendings are named, and counted already.
    pub(crate) fn note(&mut self, progress: &FlightProgress, needed: u8, packets: Option<u8>) {
        let Some((lowest, highest)) = progress.acknowledged() else {
            return;
        };
        let needed = self.needed(needed);
        if let Some(packets) = packets {
            let further = usize::from(packets).saturating_sub(1).min(needed);
            for report in core::iter::once(highest).chain(core::iter::repeat_n(lowest, further)) {
                self.count(report);
            }
        }
        let spare = self.highest.len().saturating_sub(needed);
        self.highest.drain(..spare);
    }

    /// Reports that make a loss here.
    fn needed(&self, needed: u8) -> usize {
        usize::from(needed) + usize::from(self.tolerance.steps)
    }

    /// The sendings that the acknowledgement at hand reports missing, as far as they were not judged: a loss that was judged is
    /// not abandoned for a report any more.
    pub(crate) fn reported(&self, progress: &FlightProgress) -> core::ops::Range<SendNo> {
        let highest = progress.acknowledged().map_or(0, |(_, highest)| highest);
        self.judged..highest.max(self.judged)
    }

    /// The sendings that have been reported missing `needed` times, once.
    pub(crate) fn take_lost(&mut self, needed: u8) -> core::ops::Range<SendNo> {
        let enough = self.highest.len().checked_sub(self.needed(needed));
        let below = enough.map_or(0, |at| self.highest[at]);
        let from = self.judged;
        self.judged = from.max(below);
        from..self.judged
    }

    /// Sendings before this one were overtaken: a later packet arrived.
    pub(crate) fn overtaken_below(&self) -> SendNo {
        self.highest.last().copied().unwrap_or_default()
    }

    /// The chunk of the earliest sending in flight, if it was overtaken.
    pub(crate) fn overtaken(&self, flight: &Flight) -> Option<ExtendedTsn> {
        let mut open = flight
            .range(flight.earliest())
            .filter(|(_, sending)| sending.is_open());
        let (no, sending) = open.next()?;
        (no < self.overtaken_below()).then_some(sending.tsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Fate;
    use crate::time::Timestamp;

    /// A flight of chunks 0 to `count`, sent once.
    fn flight(count: u64) -> Flight {
        let mut flight = Flight::default();
        for tsn in 0..count {
            assert_eq!(flight.push(tsn, false, Timestamp::ZERO, 1, 1), tsn);
        }
        flight
    }

    /// An acknowledgement of these sendings; answers what is lost by three reports.
    fn ack(reports: &mut Reports, flight: &mut Flight, sendings: &[SendNo], packets: u8) -> Vec<SendNo> {
        flight.begin();
        sendings.iter().for_each(|no| flight.acknowledge(*no, 1, 1));
        reports.note(flight.progress(), 3, Some(packets));
        let open = |no: &SendNo| flight.get(*no).is_some_and(|sending| sending.is_open());
        let lost: Vec<_> = reports.take_lost(3).filter(open).collect();
        for no in &lost {
            flight.close(*no, Fate::Closed, 1, 1);
        }
        flight.settle();
        lost
    }

    #[test]
    fn three_reports_make_a_loss() {
        let (mut reports, mut flight) = (Reports::default(), flight(10));
        assert_eq!(ack(&mut reports, &mut flight, &[1], 1), []);
        assert_eq!(ack(&mut reports, &mut flight, &[4], 1), []);
        assert_eq!(ack(&mut reports, &mut flight, &[5], 1), [0]);
        assert!(flight.earliest_moved());
        // 2 and 3 were reported by 4 and 5, and now by 6.
        assert_eq!(ack(&mut reports, &mut flight, &[6], 1), [2, 3]);
        assert_eq!(flight.earliest(), 7);
    }

    #[test]
    fn a_retransmission_is_judged_by_what_was_sent_after_it() {
        let (mut reports, mut flight) = (Reports::default(), flight(4));
        for no in 1..4 {
            ack(&mut reports, &mut flight, &[no], 1);
        }
        let again = flight.push(0, true, Timestamp::ZERO, 1, 1);
        for tsn in 4..8 {
            flight.push(tsn, false, Timestamp::ZERO, 1, 1);
        }
        assert_eq!(ack(&mut reports, &mut flight, &[again + 1], 1), []);
        assert_eq!(ack(&mut reports, &mut flight, &[again + 2], 1), []);
        assert_eq!(ack(&mut reports, &mut flight, &[again + 3], 1), [again]);
    }

    #[test]
    fn an_acknowledgement_for_three_packets_is_three_reports() {
        let (mut reports, mut six) = (Reports::default(), flight(6));
        assert_eq!(
            ack(&mut reports, &mut six, &[1, 3, 4], 3),
            [0],
            "2 was reported once"
        );
        let mut reports = Reports::default();
        assert_eq!(ack(&mut reports, &mut flight(1), &[0], 3), []);
    }
}
