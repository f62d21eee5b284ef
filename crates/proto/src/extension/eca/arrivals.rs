//! Owns the transmissions that arrived on each of the sender's paths, and selects the path on which to report them.

use anabranch_wire::chunk::{AckPolicy, PathReportWriter, PathSequence};
use anabranch_wire::{Psn, Tsn};

use crate::path::PathId;
use crate::receive::{Arrival, TsnTracker};
use crate::seq::extend_psn;

/// The most paths that the receiver tracks. A sender has one path number for each pair of addresses and never uses a number again for
/// another pair. The receiver drops data on further paths.
const MOST_PATHS: usize = 64;

/// The most runs of transmissions that the receiver stores, for all paths together. A sender closes gaps with FORWARD-PSN. If a
/// transmission would open a further gap, the receiver accepts its data but does not report that it arrived.
const MOST_RUNS: usize = 8192;

/// The most duplicates that the receiver stores for the next acknowledgement.
const MOST_DUPLICATES: usize = 64;

/// A path carries reports of gaps if it brought one of so many last transmissions. With fewer, paths with small windows would report their own
/// gaps, and their acknowledgements be lost as often as their data.
const LATELY: u64 = 16;

/// One of the sender's paths.
#[derive(Debug)]
struct Inbound {
    /// PID.
    number: u8,
    /// The local path on which its data arrived last.
    came_by: PathId,
    policy: AckPolicy,
    /// Extended PSNs.
    tracker: TsnTracker,
    /// How many transmissions had arrived on all paths when the last one arrived here.
    arrived: u64,
}

impl Inbound {
    fn cumulative(&self) -> Psn {
        Psn::new(self.tracker.cumulative() as u32)
    }

    /// The extended PSN of a PSN near CumPSN.
    fn extend(&self, number: Psn) -> Option<u64> {
        extend_psn(number, self.tracker.cumulative())
    }
}

/// The position of a transmission among those of its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    transmission: PathSequence,
    /// The extended PSN, if this transmission has not arrived before.
    psn: Option<u64>,
}

/// The transmissions that arrived, on all paths.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    paths: Vec<Inbound>,
    duplicates: Vec<PathSequence>,
    /// How many transmissions arrived, on all paths.
    arrived: u64,
    /// The position in `paths` of the path of the last transmission.
    last: usize,
    /// Whether the next acknowledgement reports a gap.
    reports_gap: bool,
    /// The paths on which copies of the last acknowledgement are still to be sent.
    copies: Vec<PathId>,
}

impl Arrivals {
    /// A transmission arrives on the path `came_by`. Returns `None` if no acknowledgement could report it.
    pub(crate) fn place(
        &mut self,
        transmission: PathSequence,
        policy: AckPolicy,
        came_by: PathId,
    ) -> Option<Place> {
        let at = match self.position(transmission.path) {
            Some(at) => at,
            None if self.paths.len() >= MOST_PATHS => return None,
            None => {
                self.paths.push(Inbound {
                    number: transmission.path,
                    came_by,
                    policy,
                    tracker: TsnTracker::new(Tsn(0)),
                    arrived: 0,
                });
                self.paths.len() - 1
            }
        };
        self.last = at;
        self.arrived += 1;
        let path = &mut self.paths[at];
        path.arrived = self.arrived;
        path.came_by = came_by;
        path.policy = policy;
        let psn = match path.tracker.place(path.extend(transmission.number)?) {
            Arrival::New(psn) => Some(psn),
            Arrival::Duplicate => None,
            Arrival::OutOfRange => return None,
        };
        Some(Place {
            at,
            transmission,
            psn,
        })
    }

    fn position(&self, number: u8) -> Option<usize> {
        self.paths.iter().position(|path| path.number == number)
    }

    /// The receiver accepted a transmission; `duplicate` if its TSN had arrived before. Returns whether to acknowledge it at once, because
    /// its path has or had a gap.
    pub(crate) fn record(&mut self, place: Place, duplicate: bool) -> bool {
        if duplicate && self.duplicates.len() < MOST_DUPLICATES {
            self.duplicates.push(place.transmission);
        }
        let runs: usize = self.paths.iter().map(|path| path.tracker.runs()).sum();
        let tracker = &mut self.paths[place.at].tracker;
        let before = tracker.has_gaps();
        if let Some(psn) = place.psn
            && (runs < MOST_RUNS || tracker.touches(psn))
        {
            tracker.record(psn);
        }
        let gap = tracker.has_gaps();
        self.reports_gap |= gap;
        before || gap
    }

    /// FORWARD-PSN: the receiver stops waiting for transmissions on the path up to this one. A number that is behind CumPSN or too far
    /// ahead has no effect.
    pub(crate) fn on_forward(&mut self, point: PathSequence) {
        let Some(at) = self.position(point.path) else {
            return;
        };
        let path = &mut self.paths[at];
        let Some(point) = path.extend(point.number) else {
            return;
        };
        if matches!(path.tracker.place(point), Arrival::OutOfRange) {
            return;
        }
        path.tracker.skip_to(point);
    }

    /// The next path on which to send a copy of the last acknowledgement.
    pub(crate) fn next_copy(&self) -> Option<PathId> {
        self.copies.last().copied()
    }

    /// No copy leaves on this path.
    pub(crate) fn forget_copy(&mut self, path: PathId) {
        self.copies.retain(|copy| *copy != path);
    }

    /// An acknowledgement leaves on this path. If the sender wants copies, further ones are due on the `others`; there are none if this
    /// acknowledgement is a copy itself.
    pub(crate) fn on_copied(&mut self, path: PathId, others: impl Iterator<Item = PathId>) {
        self.copies.retain(|copy| *copy != path);
        let last = self.paths.get(self.last);
        if last.is_some_and(|path| path.policy == AckPolicy::EveryPath) {
            self.copies.extend(others);
        }
    }

    /// The path on which the sender wants reports of gaps, among those that `may` be used. This is the path with the best rank among those
    /// without gaps. If all have gaps, it is the path with the best rank. `None` means the path of the last packet. A path that has brought
    /// nothing lately may have failed: the acknowledgements of all paths would be lost there.
    pub(crate) fn gap_report_path(&self, may: impl Fn(PathId) -> bool) -> Option<PathId> {
        let last = self.paths.get(self.last)?;
        let specific = matches!(last.policy, AckPolicy::Unranked | AckPolicy::Ranked(_));
        if !specific || !self.reports_gap {
            return None;
        }
        let rank = |path: &Inbound| match path.policy {
            AckPolicy::Ranked(rank) => rank,
            _ => u8::MAX,
        };
        let lately = |path: &Inbound| self.arrived - path.arrived < LATELY;
        let usable = self.paths.iter().filter(|path| may(path.came_by) && lately(path));
        let best = usable.min_by_key(|path| {
            let tie = path.number != last.number;
            (path.tracker.has_gaps(), rank(path), tie, path.number)
        });
        best.map(|path| path.came_by)
    }

    /// An acknowledgement leaves.
    pub(crate) fn on_told(&mut self) {
        self.reports_gap = false;
    }

    /// Passes the reports and duplicates that fit `room` bytes to `write`. The reports' windows add up to `rwnd` bytes. There is one report
    /// for each path, as far as they fit. The paths share the remaining space for gap ack blocks equally, low blocks first; duplicates come
    /// last and are reported once. Returns the number of gap ack blocks.
    pub(crate) fn report<R>(
        &mut self,
        room: usize,
        rwnd: u32,
        write: impl FnOnce(&[PathReportWriter<'_>], &[PathSequence]) -> R,
    ) -> (usize, R) {
        let count = self.paths.len().min(room / PathReportWriter::HEADER_LEN);
        // The report of the path on which data arrived last is never left out.
        let from = (self.last + 1)
            .saturating_sub(count)
            .min(self.paths.len() - count);
        let paths = &self.paths[from..from + count];
        let mut entries = (room - count * PathReportWriter::HEADER_LEN) / 4;
        let mut blocks = Vec::new();
        let mut ends = Vec::with_capacity(count);
        for (done, path) in paths.iter().enumerate() {
            let share = entries / (count - done);
            let before = blocks.len();
            path.tracker.gap_blocks(share, &mut blocks);
            entries -= blocks.len() - before;
            ends.push(blocks.len());
        }
        let starts = core::iter::once(0).chain(ends.iter().copied());
        let reports: Vec<_> = paths
            .iter()
            .zip(starts.zip(&ends))
            .map(|(path, (start, end))| PathReportWriter {
                cumulative: PathSequence {
                    path: path.number,
                    number: path.cumulative(),
                },
                rwnd: rwnd / count as u32,
                gap_ack_blocks: &blocks[start..*end],
            })
            .collect();
        let told = self.duplicates.len().min(entries);
        let written = write(&reports, &self.duplicates[..told]);
        self.duplicates.clear();
        (blocks.len(), written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u32) -> PathSequence {
        PathSequence {
            path: 3,
            number: Psn::new(number),
        }
    }

    fn arrive(arrivals: &mut Arrivals, number: u32) -> bool {
        let place = arrivals.place(at(number), AckPolicy::LastArrival, PathId(0));
        place.is_some_and(|place| {
            arrivals.record(place, false);
            place.psn.is_some()
        })
    }

    fn report(arrivals: &mut Arrivals) -> (u32, Vec<(u16, u16)>) {
        let (_, told) = arrivals.report(1000, 0, |paths, _| {
            let blocks = paths[0].gap_ack_blocks.iter();
            let blocks = blocks.map(|block| (block.start, block.end));
            (paths[0].cumulative.number.get(), blocks.collect())
        });
        told
    }

    /// Transmission `number` of a path arrives, with the rank of the path.
    fn arrive_on(arrivals: &mut Arrivals, path: u8, number: u32) {
        let transmission = PathSequence {
            path,
            number: Psn::new(number),
        };
        let place = arrivals.place(transmission, AckPolicy::Ranked(path), PathId(path));
        arrivals.record(place.expect("a place"), false);
    }

    #[test]
    fn a_path_that_brings_nothing_reports_no_gap() {
        let mut arrivals = Arrivals::default();
        arrive_on(&mut arrivals, 1, 0);
        arrive_on(&mut arrivals, 2, 0);
        assert_eq!(arrivals.gap_report_path(|_| true), None, "no gap");
        for number in 2..=15 {
            arrive_on(&mut arrivals, 2, number);
            let best = arrivals.gap_report_path(|_| true);
            assert_eq!(best, Some(PathId(1)), "the path with the best rank");
        }
        arrive_on(&mut arrivals, 2, 16);
        assert_eq!(arrivals.gap_report_path(|_| true), Some(PathId(2)));
        arrive_on(&mut arrivals, 1, 1);
        assert_eq!(arrivals.gap_report_path(|_| true), Some(PathId(1)));
    }

    #[test]
    fn numbers_wrap_at_24_bits() {
        let mut arrivals = Arrivals::default();
        assert!(arrive(&mut arrivals, 0));
        let last = (1 << Psn::BITS) - 1;
        assert!(!arrive(&mut arrivals, last), "that is behind the first");
        for step in 1..=last / 65_535 {
            arrivals.on_forward(at(step * 65_535));
        }
        arrivals.on_forward(at(last - 1));
        assert_eq!(report(&mut arrivals), (last - 1, vec![]));
        assert!(arrive(&mut arrivals, 1));
        assert_eq!(report(&mut arrivals), (last - 1, vec![(3, 3)]));
        assert!(arrive(&mut arrivals, last) && !arrive(&mut arrivals, last - 9));
        assert_eq!(report(&mut arrivals), (last, vec![(2, 2)]));
        arrivals.on_forward(at(1));
        assert_eq!(report(&mut arrivals), (1, vec![]), "over what has arrived too");
        assert!(arrive(&mut arrivals, 2));
        assert_eq!(report(&mut arrivals), (2, vec![]));
    }
}
