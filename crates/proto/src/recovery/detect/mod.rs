//! Loss detection: the interface of the detectors. Fast retransmit by missing reports (RFC 9260 §7.2.4): `by_tsn`, and `by_sending` for
//! several paths; RACK (RFC 8985 §6): `rack`. A detector is given each acknowledgement and returns the chunks in flight that are lost.

mod by_sending;
mod by_tsn;
mod evidence;
mod rack;

use super::episode::Episodes;
use crate::path::{Path, PathId, Paths, SendNo, Sending};
use crate::seq::{ExtendedTsn, Run, Runs};
use crate::time::Timestamp;
pub(crate) use evidence::Evidence;

/// The detectors.
#[derive(Debug)]
pub(crate) enum Detector {
    /// Missing reports (RFC 9260 §7.2.4), over all paths.
    MissingReports(by_tsn::Reports),
    /// Missing reports for each path by itself, and the time rule (concurrent multipath transfer, ECA-SCTP).
    MissingReportsByPath(Vec<by_sending::Reports>),
    /// RACK (RFC 8985), for each path by itself.
    Rack(Vec<rack::Rack>),
}

/// Which transmission arrived, when the chunk of a transmission is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// This transmission, as far as is known.
    Sending,
    /// An earlier transmission of the chunk: the acknowledgement came less than a round-trip time after this transmission.
    Earlier,
}

/// The facts of an acknowledgement that a detector uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    pub(crate) highest_newly_acked: Option<ExtendedTsn>,
    pub(crate) cumulative_moved: bool,
    /// The chunks acknowledged by gap ack blocks.
    pub(crate) acked: &'a Runs,
    /// Number of packets that the acknowledgement answers.
    pub(crate) packets: u8,
    /// Whether the acknowledgement came during fast recovery.
    pub(crate) recovering: bool,
    /// The highest chunk that the acknowledgement would list if it had arrived.
    pub(crate) listed_to: ExtendedTsn,
}

impl Detector {
    /// The detector of RFC 9260 §7.2.4.
    pub(crate) fn missing_reports() -> Self {
        Self::MissingReports(by_tsn::Reports::default())
    }

    /// The detector of RFC 9260 §7.2.4, for each path by itself.
    pub(crate) fn missing_reports_by_path() -> Self {
        Self::MissingReportsByPath(Vec::new())
    }

    /// The detector of RFC 8985.
    pub(crate) fn rack() -> Self {
        Self::Rack(Vec::new())
    }

    /// Whether losses are detected for each path by itself.
    pub(crate) fn is_per_path(&self) -> bool {
        !matches!(self, Self::MissingReports(_))
    }

    /// Whether RACK-TLP detects losses.
    pub(crate) fn is_rack(&self) -> bool {
        matches!(self, Self::Rack(_))
    }

    fn path(&self, path: PathId) -> Option<&by_sending::Reports> {
        match self {
            Self::MissingReports(_) | Self::Rack(_) => None,
            Self::MissingReportsByPath(all) => all.get(path.index()),
        }
    }

    /// Called before an acknowledgement, or a timer of loss detection, is handled.
    #[inline]
    pub(crate) fn begin(&mut self, now: Timestamp, paths: &Paths, episodes: &Episodes) {
        if let Self::Rack(all) = self {
            for path in paths.iter() {
                at(all, path.id).begin(now, path.rtt.min(), episodes.is_recovering(path.id));
            }
        }
    }

    /// The transmission `no` of `path` is acknowledged. Only if losses are detected for each path by itself.
    #[inline]
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

    /// The RACK state of a path.
    pub(crate) fn rack_of(&mut self, path: PathId) -> Option<&mut rack::Rack> {
        match self {
            Self::Rack(all) => Some(at(all, path)),
            _ => None,
        }
    }

    /// When the earliest overtaken chunk in flight on `path` is lost, with RACK.
    pub(crate) fn due(&self, path: PathId, paths: &Paths) -> Option<Timestamp> {
        let Self::Rack(all) = self else { return None };
        let path = paths.path(path);
        all.get(path.id.index())?.due(&path.flight, path.rtt.smoothed())
    }

    /// Counts an acknowledgement as a missing report, of which a loss needs `needed`; returns false if no chunk can be missing.
    pub(crate) fn note(&mut self, report: &Report<'_>, needed: u8, paths: &Paths) -> bool {
        match self {
            Self::MissingReports(reports) => {
                let all = report.recovering && report.cumulative_moved;
                reports.note(report.highest_newly_acked, all, report.acked)
            }
            Self::MissingReportsByPath(all) => {
                let newly = |flight: &crate::path::Flight| flight.progress().acknowledged().is_some();
                let answered = paths.iter().filter(|path| newly(&path.flight)).count();
                // Only if all of them took one path it is known which packets they were.
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

    /// Passes on the chunks in flight that this acknowledgement reports missing and that may still be declared lost.
    pub(crate) fn each_reported(
        &self,
        base: ExtendedTsn,
        acked: &Runs,
        paths: &mut Paths,
        mut each: impl FnMut(&mut Paths, Run),
    ) {
        match self {
            Self::MissingReports(reports) => {
                reports.reported(base, acked).for_each(|run| each(paths, run));
                for index in 0..paths.len() {
                    let overtaken = paths.path(PathId(index as u8)).flight.overtaken_retransmissions();
                    overtaken.into_iter().for_each(|tsn| each(paths, Run::of(tsn)));
                }
            }
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

    /// Passes on the chunks in flight that are lost now: those with `needed` missing reports, or those that RACK declares lost. Each is
    /// passed once.
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

    /// The chunk of the earliest transmission in flight on `path`, if a later packet of the path arrived; and the path's reordering
    /// tolerance in steps.
    pub(crate) fn overtaken(&self, path: PathId, paths: &Paths) -> Option<(ExtendedTsn, u8)> {
        let reports = self.path(path)?;
        let tsn = reports.overtaken(&paths.path(path).flight)?;
        Some((tsn, reports.tolerance()))
    }

    /// Transmissions of `path` below this number were overtaken.
    pub(crate) fn overtaken_below(&self, path: PathId) -> u64 {
        self.path(path).map_or(0, by_sending::Reports::overtaken_below)
    }

    /// The transmission `no` of `path` was declared lost, and had arrived.
    pub(crate) fn on_spurious(&mut self, path: PathId, no: u64, paths: &Paths) {
        let flight = &paths.path(path).flight;
        match self {
            Self::MissingReports(_) => {}
            Self::MissingReportsByPath(all) => at(all, path).on_spurious(no, flight),
            Self::Rack(all) => at(all, path).on_spurious(no, flight),
        }
    }

    /// The addresses of a path change: it may reorder packets differently. The numbers of its transmissions continue.
    pub(crate) fn leave_path(&mut self, path: PathId) {
        match self {
            Self::MissingReports(_) => {}
            Self::MissingReportsByPath(all) => at(all, path).forget_reordering(),
            Self::Rack(all) => at(all, path).forget_reordering(),
        }
    }

    /// T3-rtx expired (§6.3.3), or nothing is outstanding any more: forgets all missing reports. With a detector for each path nothing
    /// needs to be forgotten, because later transmissions have higher numbers.
    pub(crate) fn forget(&mut self) {
        if let Self::MissingReports(reports) = self {
            reports.clear();
        }
    }
}

/// The state of a path, created if necessary.
#[inline]
fn at<T: Default>(all: &mut Vec<T>, path: PathId) -> &mut T {
    if all.len() <= path.index() {
        all.resize_with(path.index() + 1, T::default);
    }
    &mut all[path.index()]
}

/// Passes on the chunks that RACK finds lost on a path now.
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

/// Calls `each` with the chunks of these transmissions of a path that are in flight.
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
