//! Loss detection: the seam. A detector is told what each acknowledgement did, and answers which chunks in flight are lost.

mod by_sending;
mod by_tsn;
mod rack;

use super::episode::Episodes;
use crate::path::{Path, PathId, Paths, SendNo, Sending};
use crate::seq::{ExtendedTsn, Run, Runs};
use crate::time::Timestamp;

/// How losses are found; one variant each.
#[derive(Debug)]
pub(crate) enum Detector {
    /// Missing reports (RFC 9260 §7.2.4), all paths taken for one destination.
    MissingReports(by_tsn::Reports),
    /// Missing reports for each path by itself, and time once a chunk was overtaken (concurrent multipath transfer, ECA-SCTP).
    MissingReportsByPath(Vec<by_sending::Reports>),
    /// Time since a chunk was overtaken, for each path by itself (RFC 8985).
    Rack(Vec<rack::Rack>),
}

/// How an acknowledgement tells which sending of a chunk arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// It names the sending (ECA-SCTP).
    Named,
    /// It does not, and the last sending of the chunk is taken.
    LastSending,
    /// As before, and an earlier one may as well have arrived late: the last one tells nothing of its path.
    Uncertain,
    /// As [`Evidence::LastSending`], of the packet that was sent because an uncertain one had told nothing.
    Asked,
}

/// What the acknowledgement of a sending tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It arrived, as far as is known.
    Sending,
    /// An earlier transmission of its chunk did: the acknowledgement came sooner than a round trip after it.
    Earlier,
}

/// An acknowledgement, as far as a detector looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    pub(crate) highest_newly_acked: Option<ExtendedTsn>,
    pub(crate) cumulative_moved: bool,
    /// The chunks acknowledged by gap ack blocks.
    pub(crate) acked: &'a Runs,
    /// Packets that it answers.
    pub(crate) packets: u8,
    /// Whether it came while losses were being repaired.
    pub(crate) recovering: bool,
    /// The highest chunk that it would list.
    pub(crate) listed_to: ExtendedTsn,
}

impl Detector {
    /// RFC 9260's.
    pub(crate) fn missing_reports() -> Self {
        Self::MissingReports(by_tsn::Reports::default())
    }

    /// Each path by itself.
    pub(crate) fn missing_reports_by_path() -> Self {
        Self::MissingReportsByPath(Vec::new())
    }

    /// RFC 8985's.
    pub(crate) fn rack() -> Self {
        Self::Rack(Vec::new())
    }

    /// Whether paths are told apart.
    pub(crate) fn is_per_path(&self) -> bool {
        !matches!(self, Self::MissingReports(_))
    }

    /// Whether time makes losses, and probes look for them.
    pub(crate) fn is_rack(&self) -> bool {
        matches!(self, Self::Rack(_))
    }

    fn path(&self, path: PathId) -> Option<&by_sending::Reports> {
        match self {
            Self::MissingReports(_) | Self::Rack(_) => None,
            Self::MissingReportsByPath(all) => all.get(path.index()),
        }
    }

    /// An acknowledgement begins, or the time has come to look for losses.
    #[inline]
    pub(crate) fn begin(&mut self, now: Timestamp, paths: &Paths, episodes: &Episodes) {
        if let Self::Rack(all) = self {
            for path in paths.iter() {
                at(all, path.id).begin(now, path.rtt.min(), episodes.is_recovering(path.id));
            }
        }
    }

    /// The sending `no` of `path` is acknowledged, where paths are told apart.
    pub(crate) fn on_acknowledged(
        &mut self,
        path: PathId,
        no: SendNo,
        sending: &Sending,
        evidence: Evidence,
    ) -> Arrival {
        match self {
            Self::MissingReports(_) => {}
            Self::MissingReportsByPath(all) => {
                let reports = at(all, path);
                if evidence == Evidence::Named {
                    reports.on_packet(sending.packet);
                }
                reports.on_acknowledged();
            }
            Self::Rack(all) => {
                if !at(all, path).on_acknowledged(no, sending, evidence) {
                    return Arrival::Earlier;
                }
            }
        }
        Arrival::Sending
    }

    /// RACK of a path.
    pub(crate) fn rack_of(&mut self, path: PathId) -> Option<&mut rack::Rack> {
        match self {
            Self::Rack(all) => Some(at(all, path)),
            _ => None,
        }
    }

    /// When the earliest chunk in flight on `path` is lost, if later packets have overtaken it and time makes losses.
    pub(crate) fn due(&self, path: PathId, paths: &Paths) -> Option<Timestamp> {
        let Self::Rack(all) = self else { return None };
        let path = paths.path(path);
        all.get(path.id.index())?.due(&path.flight, path.rtt.smoothed())
    }

    /// Counts an acknowledgement as a report of what is missing, of which a loss needs `needed`; answers whether anything can be
    /// missing.
    pub(crate) fn note(&mut self, report: &Report<'_>, needed: u8, paths: &Paths) -> bool {
        match self {
            Self::MissingReports(reports) => {
                let all = report.recovering && report.cumulative_moved;
                reports.note(report.highest_newly_acked, all, report.acked)
            }
            Self::MissingReportsByPath(all) => {
                let newly = |flight: &crate::path::Flight| flight.progress().acknowledged().is_some();
                let answered = paths.iter().filter(|path| newly(&path.flight)).count();
                // Whose packets they were is known only if they went by one path.
                let packets = if answered == 1 { report.packets } else { 1 };
                for (reports, path) in all.iter_mut().zip(paths.iter()) {
                    let packets = (!path.flight.is_named()).then_some(packets);
                    reports.note(path.flight.progress(), needed, packets);
                }
                answered > 0
            }
            Self::Rack(all) => {
                all.iter_mut().for_each(|rack| rack.on_listed(report.listed_to));
                true
            }
        }
    }

    /// Hands over the chunks in flight that the acknowledgement at hand reports missing and that may still be declared lost.
    pub(crate) fn each_reported(
        &self,
        base: ExtendedTsn,
        acked: &Runs,
        paths: &mut Paths,
        mut each: impl FnMut(&mut Paths, Run),
    ) {
        match self {
            Self::MissingReports(reports) => reports.reported(base, acked).for_each(|run| each(paths, run)),
            Self::MissingReportsByPath(all) => {
                for (index, reports) in all.iter().enumerate() {
                    let path = PathId(index as u8);
                    let reported = reports.reported(paths.path(path).flight.progress());
                    for_each_open(paths, path, reported, &mut each);
                }
            }
            Self::Rack(all) => {
                for index in 0..all.len() {
                    let path = PathId(index as u8);
                    let newly = paths.path(path).flight.progress().acknowledged();
                    let below = newly.map_or(0, |(_, highest)| highest);
                    for_each_open(paths, path, 0..below, &mut each);
                }
            }
        }
    }

    /// Hands over the chunks in flight that have been reported missing `needed` times, once.
    pub(crate) fn take_lost(
        &mut self,
        needed: u8,
        base: ExtendedTsn,
        acked: &Runs,
        paths: &mut Paths,
        mut lost: impl FnMut(&mut Paths, Run),
    ) {
        match self {
            Self::MissingReports(reports) => reports.take_lost(needed, base, acked, |run| lost(paths, run)),
            Self::MissingReportsByPath(all) => {
                for (index, reports) in all.iter_mut().enumerate() {
                    for_each_open(paths, PathId(index as u8), reports.take_lost(needed), &mut lost);
                }
            }
            Self::Rack(all) => {
                for (index, rack) in all.iter().enumerate() {
                    rack_lost(paths, PathId(index as u8), rack, &mut lost);
                }
            }
        }
    }

    /// The chunk of the earliest sending in flight on `path`, if a later packet of the path arrived; and how tolerant of
    /// reordering the path is, in steps.
    pub(crate) fn overtaken(&self, path: PathId, paths: &Paths) -> Option<(ExtendedTsn, u8)> {
        let reports = self.path(path)?;
        let tsn = reports.overtaken(&paths.path(path).flight)?;
        Some((tsn, reports.tolerance()))
    }

    /// Sendings of `path` before this one were overtaken.
    pub(crate) fn overtaken_below(&self, path: PathId) -> u64 {
        self.path(path).map_or(0, by_sending::Reports::overtaken_below)
    }

    /// The sending `no` of `path` was taken for lost, and had arrived.
    pub(crate) fn on_spurious(&mut self, path: PathId, no: u64, paths: &Paths) {
        let flight = &paths.path(path).flight;
        match self {
            Self::MissingReports(_) => {}
            Self::MissingReportsByPath(all) => at(all, path).on_spurious(no, flight),
            Self::Rack(all) => at(all, path).on_spurious(no, flight),
        }
    }

    /// T3-rtx expired (§6.3.3), or nothing is outstanding any more: what is sent from now on is judged anew. Where paths are told
    /// apart, that follows from the order of sending.
    pub(crate) fn forget(&mut self) {
        if let Self::MissingReports(reports) = self {
            reports.clear();
        }
    }
}

/// The state of a path, where each has one.
fn at<T: Default>(all: &mut Vec<T>, path: PathId) -> &mut T {
    if all.len() <= path.index() {
        all.resize_with(path.index() + 1, T::default);
    }
    &mut all[path.index()]
}

/// The chunks that RACK finds lost on a path now.
fn rack_lost(paths: &mut Paths, path: PathId, rack: &rack::Rack, lost: &mut impl FnMut(&mut Paths, Run)) {
    let mut from = paths.path(path).flight.earliest();
    loop {
        let Path { flight, rtt, .. } = paths.path(path);
        let Some((no, tsn)) = rack.next_lost(from, flight, rtt.smoothed()) else {
            return;
        };
        lost(paths, Run::of(tsn));
        from = no + 1;
    }
}

/// The chunks of those of these sendings of a path that are in flight.
fn for_each_open(
    paths: &mut Paths,
    path: PathId,
    sendings: core::ops::Range<u64>,
    each: &mut impl FnMut(&mut Paths, Run),
) {
    let from = sendings.start.max(paths.path(path).flight.earliest());
    for no in from..sendings.end {
        let sending = paths.path(path).flight.get(no);
        if let Some(tsn) = sending
            .filter(|sending| sending.is_open())
            .map(|sending| sending.tsn)
        {
            each(paths, Run::of(tsn));
        }
    }
}
