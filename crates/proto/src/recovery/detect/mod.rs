//! Loss detection: the seam. A detector is told what each acknowledgement did, and answers which chunks in flight are lost.

mod by_sending;
mod by_tsn;

use crate::path::{PathId, Paths};
use crate::seq::{ExtendedTsn, Run, Runs};

/// How losses are found; one variant each.
#[derive(Debug)]
pub(crate) enum Detector {
    /// Missing reports (RFC 9260 §7.2.4), all paths taken for one destination.
    MissingReports(by_tsn::Reports),
    /// Missing reports for each path by itself, and time once a chunk was overtaken (concurrent multipath transfer, ECA-SCTP).
    MissingReportsByPath(Vec<by_sending::Reports>),
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

    /// Whether paths are told apart: then acknowledgements may return by several, too.
    pub(crate) fn is_per_path(&self) -> bool {
        matches!(self, Self::MissingReportsByPath(_))
    }

    fn path_mut(&mut self, path: PathId) -> Option<&mut by_sending::Reports> {
        let Self::MissingReportsByPath(all) = self else {
            return None;
        };
        if all.len() <= path.index() {
            all.resize_with(path.index() + 1, by_sending::Reports::default);
        }
        all.get_mut(path.index())
    }

    fn path(&self, path: PathId) -> Option<&by_sending::Reports> {
        match self {
            Self::MissingReports(_) => None,
            Self::MissingReportsByPath(all) => all.get(path.index()),
        }
    }

    /// A sending of `path` is acknowledged; if acknowledgements name sendings, `packet` is the first sending of its packet.
    #[inline(always)]
    pub(crate) fn on_acknowledged(&mut self, path: PathId, packet: Option<u64>) {
        if self.is_per_path() {
            self.on_acknowledged_there(path, packet);
        }
    }

    fn on_acknowledged_there(&mut self, path: PathId, packet: Option<u64>) {
        if let Some(reports) = self.path_mut(path) {
            if let Some(packet) = packet {
                reports.on_packet(packet);
            }
            reports.on_acknowledged();
        }
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
        if let Some(reports) = self.path_mut(path) {
            reports.on_spurious(no, &paths.path(path).flight);
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
