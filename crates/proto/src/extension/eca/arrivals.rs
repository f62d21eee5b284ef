//! Which transmissions of each of the sender's paths arrived, and by which path that is to be told.

use anabranch_wire::chunk::{AckPolicy, PathReportWriter, PathSequence};
use anabranch_wire::{Psn, Tsn};

use crate::path::PathId;
use crate::receive::{Arrival, TsnTracker};
use crate::seq::extend_psn;

/// Paths that are kept apart. A sender never uses a number of a path again, and has one for each pair of addresses: data of
/// further ones is dropped.
const MOST_PATHS: usize = 64;

/// Runs of transmissions kept for all paths together. A sender closes its gaps by FORWARD-PSN; what would open more of them is
/// taken, but not said to have arrived.
const MOST_RUNS: usize = 8192;

/// Duplicates remembered for the next acknowledgement.
const MOST_DUPLICATES: usize = 64;

/// One of the sender's paths.
#[derive(Debug)]
struct Inbound {
    /// PID.
    number: u8,
    /// The path here by which its data came last.
    came_by: PathId,
    policy: AckPolicy,
    /// Extended PSNs.
    tracker: TsnTracker,
}

impl Inbound {
    fn cumulative(&self) -> Psn {
        Psn::new(self.tracker.cumulative() as u32)
    }

    /// The extended PSN of a number near CumPSN.
    fn extend(&self, number: Psn) -> Option<u64> {
        extend_psn(number, self.tracker.cumulative())
    }
}

/// Where a transmission stands, once it is known which path it is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    transmission: PathSequence,
    /// Its extended PSN, if it is new.
    psn: Option<u64>,
}

/// What arrived by all paths.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    paths: Vec<Inbound>,
    duplicates: Vec<PathSequence>,
    /// The path of the last transmission.
    last: usize,
    /// The next acknowledgement reports a gap.
    reports_gap: bool,
    /// Where copies of the last acknowledgement are still to be sent.
    copies: Vec<PathId>,
}

impl Arrivals {
    /// A transmission arrives, by the path `came_by`; `None` if no acknowledgement could tell of it.
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
                });
                self.paths.len() - 1
            }
        };
        self.last = at;
        let path = &mut self.paths[at];
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

    /// The transmission is taken; `duplicate` if what it brought had arrived before. Answers whether the sender wants to know at
    /// once: a gap of the path is open, or was.
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

    /// FORWARD-PSN: nothing of the path up to there is waited for. What is not ahead, or too far, says nothing.
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

    /// The next path to which the last acknowledgement is to be copied.
    pub(crate) fn next_copy(&self) -> Option<PathId> {
        self.copies.last().copied()
    }

    /// A copy goes by this path; and if that is an acknowledgement of its own and copies are wanted, others by the `others`.
    pub(crate) fn on_copied(&mut self, path: PathId, others: impl Iterator<Item = PathId>) {
        self.copies.retain(|copy| *copy != path);
        let last = self.paths.get(self.last);
        if last.is_some_and(|path| path.policy == AckPolicy::EveryPath) {
            self.copies.extend(others);
        }
    }

    /// The path by which the sender wants to know of a gap, of those that `may` be used: the best ranked without a gap, or
    /// simply the best ranked. `None` to answer where the last packet came from.
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
        let usable = self.paths.iter().filter(|path| may(path.came_by));
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

    /// Hands over what is to be said in `room` bytes, in reports with windows of `rwnd` bytes in all: a report for each path as
    /// far as there is room, low gap blocks before high ones and as many for each path, then duplicates, which are listed once.
    /// Answers how many gap blocks there were.
    pub(crate) fn report<R>(
        &mut self,
        room: usize,
        rwnd: u32,
        write: impl FnOnce(&[PathReportWriter<'_>], &[PathSequence]) -> R,
    ) -> (usize, R) {
        let count = self.paths.len().min(room / PathReportWriter::HEADER_LEN);
        // The path that data came by last is not left out.
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
