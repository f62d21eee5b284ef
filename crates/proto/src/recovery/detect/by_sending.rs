//! Fast retransmit by missing reports, for each path by itself, in the order of transmission (RFC 9260 §7.2.4;
//! draft-tuexen-tsvwg-sctp-multipath §3.1, §3.2).
//!
//! Packets of one path usually arrive in order. A transmission is missing if a later transmission on the same path has arrived; what
//! arrives on other paths does not matter. A missing report counts for every transmission in flight on the path that left before the
//! highest transmission which the acknowledgement newly acknowledges. So a transmission has n missing reports if the n-th highest
//! report is above its number. No counter for each transmission is needed, because a retransmission is a new transmission with a higher
//! number.
//!
//! If acknowledgements name transmissions (ECA-SCTP), a report is a later *packet* that arrived, and not an acknowledgement: an
//! overtaken acknowledgement that names several chunks may report one packet only.

use crate::path::{Flight, FlightProgress, SendNo};
use crate::seq::ExtendedTsn;

/// The most missing reports that may be needed to declare a loss.
const MOST_REPORTS: usize = u8::MAX as usize + Tolerance::MOST as usize;

/// The missing reports of one path.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    /// The highest reports so far, as many as are needed for a loss, in ascending order.
    highest: Vec<SendNo>,
    /// Transmissions below this number were judged before: they are lost, or were abandoned.
    judged: SendNo,
    tolerance: Tolerance,
}

/// The reordering tolerance of a path. It makes loss detection wait longer, because earlier losses found on this path were spurious.
#[derive(Clone, Copy, Debug, Default)]
struct Tolerance {
    /// Steps: each is one more missing report, or a quarter of a round-trip time.
    steps: u8,
    /// Spurious retransmissions of transmissions below this number have raised the tolerance already: once a window.
    raised: SendNo,
    /// Transmissions acknowledged since the last change of the tolerance.
    quiet: u32,
}

impl Tolerance {
    const MOST: u8 = 16;
    /// Transmissions acknowledged without a spurious retransmission that lower the tolerance by a step.
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
    /// A transmission is acknowledged.
    pub(crate) fn on_acknowledged(&mut self) {
        self.tolerance.on_acknowledged();
    }

    /// A transmission is known to have arrived in the packet that begins with `packet`.
    pub(crate) fn on_packet(&mut self, packet: SendNo) {
        if self.highest.binary_search(&packet).is_err() {
            self.count(packet);
        }
    }

    /// The transmission `no` was declared lost, and had arrived: the tolerance rises by a step, once a window.
    pub(crate) fn on_spurious(&mut self, no: SendNo, flight: &Flight) {
        let tolerance = &mut self.tolerance;
        if no >= tolerance.raised {
            tolerance.steps = (tolerance.steps + 1).min(Tolerance::MOST);
            tolerance.raised = flight.next();
        }
        tolerance.quiet = 0;
    }

    /// The path has other addresses: it may reorder packets differently.
    pub(crate) fn forget_reordering(&mut self) {
        self.tolerance = Tolerance::default();
    }

    /// Steps of reordering tolerance: each is one more missing report, or a quarter of a round-trip time.
    pub(crate) fn tolerance(&self) -> u8 {
        self.tolerance.steps
    }

    fn count(&mut self, report: SendNo) {
        let at = self.highest.partition_point(|known| *known <= report);
        self.highest.insert(at, report);
        // The number needed is not known here: keep as many as may ever be needed.
        let spare = self.highest.len().saturating_sub(MOST_REPORTS);
        self.highest.drain(..spare);
    }

    /// Counts the missing report of an acknowledgement. If everything that it newly acknowledges left on this path, transmissions before
    /// the lowest of that count as reported by each of the `packets` that it answers (multipath draft §3.3). `packets` is `None` if
    /// acknowledgements name transmissions, whose packets [`Reports::on_packet`] has counted.
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

    /// Missing reports that declare a loss on this path.
    fn needed(&self, needed: u8) -> usize {
        usize::from(needed) + usize::from(self.tolerance.steps)
    }

    /// The transmissions that this acknowledgement reports missing, without those already judged: a chunk that was declared lost is not
    /// abandoned because of a later report.
    pub(crate) fn reported(&self, progress: &FlightProgress) -> core::ops::Range<SendNo> {
        let highest = progress.acknowledged().map_or(0, |(_, highest)| highest);
        self.judged..highest.max(self.judged)
    }

    /// The transmissions that now have `needed` missing reports. Each is returned once.
    pub(crate) fn take_lost(&mut self, needed: u8) -> core::ops::Range<SendNo> {
        let enough = self.highest.len().checked_sub(self.needed(needed));
        let below = enough.map_or(0, |at| self.highest[at]);
        let from = self.judged;
        self.judged = from.max(below);
        from..self.judged
    }

    /// Transmissions below this number were overtaken: a later packet arrived.
    pub(crate) fn overtaken_below(&self) -> SendNo {
        self.highest.last().copied().unwrap_or_default()
    }

    /// The chunk of the earliest transmission in flight, if it was overtaken.
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

    /// A flight of chunks 0 to `count`, each sent once.
    fn flight(count: u64) -> Flight {
        let mut flight = Flight::default();
        for tsn in 0..count {
            assert_eq!(flight.push(tsn, false, Timestamp::ZERO, 1, 1), tsn);
        }
        flight
    }

    /// An acknowledgement of these transmissions; returns those that three missing reports declare lost.
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
