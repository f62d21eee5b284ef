//! What is in flight on one path: its transmissions in the order they left (draft-tuexen-tsvwg-sctp-multipath §3.1, §3.2).
//!
//! Every transmission, a repeat too, takes the next *sequence number* of its path; it is in no packet. Packets of one path
//! arrive in order, so what is missing before something that arrived was lost, whatever the other paths do.
//!
//! A report is an acknowledgement; it counts against everything on the path that left before the highest transmission it newly
//! acknowledges. What was reported missing n times is then what lies below the n-th highest of the reports: they need no
//! counter for each transmission and no list of holes, because a repeat has a number of its own, above them all.
//!
//! Where acknowledgements name transmissions (ECA-SCTP), the sequence number is the one on the wire, and a report is not an
//! acknowledgement but a later *packet* that arrived: one that was overtaken, with several chunks in it, looks like one.

use std::collections::VecDeque;

/// Reports that ever make a loss.
const MOST_REPORTS: usize = u8::MAX as usize + Patience::MOST as usize;

/// One transmission of a chunk.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    /// Of the chunk.
    index: u64,
    /// The sequence number of the first transmission in its packet.
    packet: u64,
    repeat: bool,
    /// Neither acknowledged nor taken for lost.
    open: bool,
}

/// The transmissions of one path.
#[derive(Debug, Default)]
pub(crate) struct PathFlight {
    /// The first of them is open.
    sent: VecDeque<Transmission>,
    /// The sequence number of the first.
    base: u64,
    /// The highest reports so far, as many as make a loss; rising.
    reports: Vec<u64>,
    /// What lies below was judged already.
    judged: u64,
    /// The sequence numbers of the earliest first transmission and of the earliest repeat that are open: the *pseudo cumulative
    /// acks* of the draft.
    earliest: [u64; 2],
    /// The path recovers from losses until everything up to here is settled: one cut of its window for all of it.
    recovery_exit: Option<u64>,
    /// The sequence number of the first transmission in the packet that is being filled.
    packet: u64,
    patience: Patience,
    this: ThisAck,
}

/// How much longer than by the rules a path is waited for, because losses found there were none.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    /// Steps: further reports, and quarters of a round trip.
    steps: u8,
    /// Needless repeats of transmissions below this one have had their step: one a window.
    raised: u64,
    /// Transmissions acknowledged since the last step up or down.
    quiet: u32,
}

impl Patience {
    const MOST: u8 = 16;
    /// Transmissions acknowledged, none of them needlessly repeated, that take a step back.
    const MEMORY: u32 = 1024;

    fn on_acked(&mut self) {
        self.quiet += 1;
        if self.quiet >= Self::MEMORY {
            self.quiet = 0;
            self.steps = self.steps.saturating_sub(1);
        }
    }
}

/// What the acknowledgement at hand did.
#[derive(Clone, Copy, Debug, Default)]
struct ThisAck {
    was_recovering: bool,
    /// The lowest and the highest that it newly acknowledged.
    newly: Option<(u64, u64)>,
    /// It acknowledged one of `earliest`.
    advanced: bool,
    /// The first in flight before it.
    base: u64,
}

/// What an acknowledgement did to a path's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The window is to be cut.
    pub(crate) cut: bool,
    /// Losses are being repaired: the window does not grow.
    pub(crate) growth_held: bool,
    /// What arrives in order went on.
    pub(crate) advanced: bool,
    /// The earliest in flight is another one, and the path is known to work.
    pub(crate) earliest_moved: bool,
}

impl PathFlight {
    fn next(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// A packet begins: what leaves from now on is in it.
    pub(crate) fn on_packet(&mut self) {
        self.packet = self.next();
    }

    /// A chunk leaves; answers the sequence number of this transmission.
    pub(crate) fn on_sent(&mut self, index: u64, repeat: bool) -> u64 {
        let sequence = self.next();
        self.sent.push_back(Transmission {
            index,
            packet: self.packet,
            repeat,
            open: true,
        });
        sequence
    }

    pub(crate) fn begin(&mut self) {
        self.settle();
        self.this = ThisAck {
            was_recovering: self.recovery_exit.is_some(),
            newly: None,
            advanced: false,
            base: self.base,
        };
    }

    /// The transmission `sequence` is acknowledged.
    pub(crate) fn on_acked(&mut self, sequence: u64) {
        self.close(sequence);
        let repeat = self.sent[(sequence - self.base) as usize].repeat;
        self.this.advanced |= self.earliest[usize::from(repeat)] == sequence;
        let (lowest, highest) = self.this.newly.unwrap_or((sequence, sequence));
        self.this.newly = Some((lowest.min(sequence), highest.max(sequence)));
        self.patience.on_acked();
    }

    /// The transmission `sequence` is known to have arrived, and with it a report of what left in earlier packets.
    pub(crate) fn on_named(&mut self, sequence: u64) {
        let report = self.sent[(sequence - self.base) as usize].packet;
        if self.reports.binary_search(&report).is_err() {
            self.count(report);
        }
        self.on_acked(sequence);
    }

    /// The transmission `sequence` was taken for lost, and had arrived: the path is waited for longer, by a step a window.
    pub(crate) fn on_needless(&mut self, sequence: u64) {
        let patience = &mut self.patience;
        if sequence >= patience.raised {
            patience.steps = (patience.steps + 1).min(Patience::MOST);
            patience.raised = self.base + self.sent.len() as u64;
        }
        self.patience.quiet = 0;
    }

    /// Steps by which this path is waited for longer than by the rules: each a report, or a quarter of a round trip.
    pub(crate) fn patience(&self) -> u8 {
        self.patience.steps
    }

    /// The transmission `sequence` is of no interest any more.
    pub(crate) fn close(&mut self, sequence: u64) {
        self.sent[(sequence - self.base) as usize].open = false;
    }

    /// Whether the acknowledgement newly acknowledged anything here.
    pub(crate) fn is_newly_acked(&self) -> bool {
        self.this.newly.is_some()
    }

    fn count(&mut self, report: u64) {
        let at = self.reports.partition_point(|known| *known <= report);
        self.reports.insert(at, report);
        // Until it is known how many make a loss, no more than ever do.
        let spare = self.reports.len().saturating_sub(MOST_REPORTS);
        self.reports.drain(..spare);
    }

    /// Counts the acknowledgement, which makes a loss of what is missing with the others of `needed` reports. If all that it
    /// newly acknowledges went by this path, what left before that is missing in each of the `packets` that it answers
    /// (§3.3 of the draft). `None` where transmissions are named, and counted already.
    pub(crate) fn report(&mut self, needed: u8, packets: Option<u8>) {
        let Some((lowest, highest)) = self.this.newly else {
            return;
        };
        self.end_recovery();
        let needed = self.needed(needed);
        if let Some(packets) = packets {
            let further = usize::from(packets).saturating_sub(1).min(needed);
            for report in core::iter::once(highest).chain(core::iter::repeat_n(lowest, further)) {
                self.count(report);
            }
        }
        let spare = self.reports.len().saturating_sub(needed);
        self.reports.drain(..spare);
    }

    /// Reports that make a loss here.
    fn needed(&self, needed: u8) -> usize {
        usize::from(needed) + usize::from(self.patience.steps)
    }

    /// Hands over the chunks that the acknowledgement reports missing.
    pub(crate) fn each_reported(&self, mut each: impl FnMut(u64)) {
        let Some((_, highest)) = self.this.newly else {
            return;
        };
        // What was judged already is not abandoned for a report any more.
        let from = self.judged.max(self.base);
        for sequence in from..highest.max(from) {
            let transmission = self.sent[(sequence - self.base) as usize];
            if transmission.open {
                each(transmission.index);
            }
        }
    }

    /// Hands over the chunks that have been reported missing `needed` times, once; `lost` says whether it takes them for
    /// lost.
    pub(crate) fn take_lost(&mut self, needed: u8, mut lost: impl FnMut(u64) -> bool) {
        let enough = self.reports.len().checked_sub(self.needed(needed));
        let Some(below) = enough.map(|at| self.reports[at]) else {
            return;
        };
        let from = self.judged.max(self.base);
        for sequence in from..below {
            let transmission = &mut self.sent[(sequence - self.base) as usize];
            if transmission.open && lost(transmission.index) {
                transmission.open = false;
            }
        }
        self.judged = self.judged.max(below);
    }

    /// The chunk whose transmission is the earliest in flight, if something that left in a later packet arrived.
    pub(crate) fn overtaken(&self) -> Option<u64> {
        let highest = *self.reports.last()?;
        let first = self.sent.iter().position(|one| one.open)?;
        (self.base + (first as u64) < highest).then(|| self.sent[first].index)
    }

    /// Hands over, in order, what left before something that arrived, while `lost` takes it for lost.
    pub(crate) fn take_overtaken(&mut self, mut lost: impl FnMut(u64) -> bool) {
        self.end_recovery();
        let highest = self.reports.last().copied().unwrap_or_default();
        let before = highest.saturating_sub(self.base) as usize;
        for transmission in self.sent.iter_mut().take(before).filter(|one| one.open) {
            if !lost(transmission.index) {
                return;
            }
            transmission.open = false;
        }
    }

    /// What was outstanding when recovery began is settled: it is over.
    fn end_recovery(&mut self) {
        self.settle();
        if self.recovery_exit.is_some_and(|exit| self.base > exit) {
            self.recovery_exit = None;
        }
    }

    /// The acknowledgement ends; `lost` if anything was taken for lost here. `recovers` says whether a cut holds off the next.
    pub(crate) fn finish(&mut self, lost: bool, recovers: bool) -> Progress {
        let cut = lost && self.recovery_exit.is_none();
        if cut && recovers {
            self.recovery_exit = Some(self.next() - 1);
        }
        self.settle();
        Progress {
            cut,
            growth_held: self.this.was_recovering && self.recovery_exit.is_some() && !cut,
            advanced: self.this.advanced,
            earliest_moved: self.this.newly.is_some() && self.base != self.this.base,
        }
    }

    /// Drops what is settled from the front, and finds the earliest anew.
    fn settle(&mut self) {
        while self.sent.front().is_some_and(|first| !first.open) {
            self.sent.pop_front();
            self.base += 1;
        }
        let next = self.next();
        for (repeat, earliest) in [false, true].into_iter().zip(&mut self.earliest) {
            *earliest = (*earliest).max(self.base);
            let is_it = |at: u64| {
                let transmission = self.sent[(at - self.base) as usize];
                transmission.open && transmission.repeat == repeat
            };
            while *earliest < next && !is_it(*earliest) {
                *earliest += 1;
            }
        }
    }

    /// The chunk whose transmission is the earliest in flight.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.sent.front().map(|transmission| transmission.index)
    }

    /// The sequence number of the earliest in flight, or of the next: everything below is settled.
    pub(crate) fn settled(&mut self) -> u64 {
        self.settle();
        self.base
    }

    /// Nothing is in flight here any more.
    pub(crate) fn clear(&mut self) {
        self.base = self.next();
        self.sent.clear();
        self.earliest = [self.base; 2];
        self.recovery_exit = None;
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery_exit.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends chunks 0 to `count` for the first time.
    fn flight(count: u64) -> PathFlight {
        let mut flight = PathFlight::default();
        for index in 0..count {
            assert_eq!(flight.on_sent(index, false), index);
        }
        flight
    }

    /// An acknowledgement of these transmissions; answers what is lost by three reports, and the progress.
    fn ack(flight: &mut PathFlight, sequences: &[u64], packets: u8) -> (Vec<u64>, Progress) {
        flight.begin();
        sequences.iter().for_each(|sequence| flight.on_acked(*sequence));
        flight.report(3, Some(packets));
        let mut lost = Vec::new();
        flight.take_lost(3, |index| {
            lost.push(index);
            true
        });
        let progress = flight.finish(!lost.is_empty(), true);
        (lost, progress)
    }

    #[test]
    fn three_reports_make_a_loss_and_one_cut() {
        let mut flight = flight(10);
        assert_eq!(ack(&mut flight, &[1], 1).0, []);
        assert_eq!(ack(&mut flight, &[4], 1).0, []);
        let (lost, progress) = ack(&mut flight, &[5], 1);
        assert_eq!((lost, progress.cut), (vec![0], true));
        assert!(progress.earliest_moved);
        // 2 and 3 were reported by 4 and 5, and now by 6: of the same window, so without a second cut.
        let (lost, progress) = ack(&mut flight, &[6], 1);
        assert_eq!((lost, progress.cut), (vec![2, 3], false));
        assert!(progress.growth_held);
        assert_eq!(flight.earliest(), Some(7));
    }

    #[test]
    fn a_repeat_is_judged_by_what_left_after_it() {
        let mut flight = flight(4);
        for sequence in 1..4 {
            ack(&mut flight, &[sequence], 1);
        }
        let repeat = flight.on_sent(0, true);
        for index in 4..8 {
            flight.on_sent(index, false);
        }
        assert_eq!(ack(&mut flight, &[repeat + 1], 1).0, []);
        assert_eq!(ack(&mut flight, &[repeat + 2], 1).0, []);
        let (lost, progress) = ack(&mut flight, &[repeat + 3], 1);
        assert_eq!((lost, progress.cut), (vec![0], true), "of a later window");
    }

    #[test]
    fn first_transmissions_and_repeats_advance_apart() {
        let mut flight = flight(2);
        flight.on_sent(9, true);
        flight.on_sent(2, false);
        assert!(!ack(&mut flight, &[1], 1).1.advanced);
        let (_, progress) = ack(&mut flight, &[2], 1);
        assert!(progress.advanced, "the earliest repeat");
        assert!(!progress.earliest_moved);
        let (_, progress) = ack(&mut flight, &[0], 1);
        assert!(progress.advanced && progress.earliest_moved);
        assert_eq!(flight.earliest(), Some(2));
    }

    #[test]
    fn an_acknowledgement_for_three_packets_is_three_reports() {
        let mut flight = flight(6);
        assert_eq!(ack(&mut flight, &[1, 3, 4], 3).0, [0], "2 was reported once");
        let mut flight = super::PathFlight::default();
        assert_eq!(flight.on_sent(0, false), 0);
        assert_eq!(ack(&mut flight, &[0], 3).0, []);
    }

    #[test]
    fn nothing_is_in_flight_after_a_timeout() {
        let mut flight = flight(3);
        ack(&mut flight, &[1], 1);
        flight.clear();
        assert_eq!(flight.earliest(), None);
        assert_eq!(flight.on_sent(0, true), 3);
        assert!(ack(&mut flight, &[3], 1).1.advanced);
    }
}
