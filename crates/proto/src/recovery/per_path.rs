//! Acknowledgements accounted for by path (draft-tuexen-tsvwg-sctp-multipath §3.1, §3.2): what each has in flight, and, where
//! acknowledgements name transmissions (ECA-SCTP), which of them arrived.

use super::outstanding::{AckOutcome, Chunk};
use super::path_flight::PathFlight;
use super::transmissions::Transmissions;
use crate::config::{MultipathConfig, RecoveryRules};
use crate::path::PathId;
use crate::seq::Run;

/// The rules of loss detection that need each path accounted for by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerPathRules {
    /// Whether missing reports may declare a retransmission lost again.
    pub(super) fast_again: bool,
    /// Whether a chunk that a later packet of its path overtook is lost after a time, too.
    pub(super) time_rule: bool,
    /// Whether a spurious retransmission raises the reordering tolerance of its path.
    pub(super) backs_off: bool,
}

impl PerPathRules {
    pub(crate) fn new(config: &MultipathConfig) -> Self {
        Self {
            fast_again: config.fast_again,
            time_rule: config.time_rule,
            backs_off: config.backs_off,
        }
    }
}

/// The paths of an association, as their acknowledgements see them.
#[derive(Debug, Default)]
pub(crate) struct PerPath {
    flights: Vec<PathFlight>,
    /// The transmissions that acknowledgements may name, if they name any.
    named: Option<Transmissions>,
}

impl PerPath {
    /// Acknowledgements name transmissions from now on, which are numbered anew. Nothing is in flight.
    pub(crate) fn name_transmissions(&mut self) {
        self.flights.clear();
        self.named = Some(Transmissions::default());
    }

    pub(crate) fn named(&self) -> Option<&Transmissions> {
        self.named.as_ref()
    }

    pub(crate) fn named_mut(&mut self) -> Option<&mut Transmissions> {
        self.named.as_mut()
    }

    /// A packet to `path` begins.
    pub(crate) fn on_packet(&mut self, path: PathId) {
        self.flight(path).on_packet();
    }

    pub(super) fn on_sent(&mut self, path: PathId, index: u64, repeat: bool) -> u64 {
        if let Some(named) = &mut self.named {
            named.on_sent(path, index);
        }
        self.flight(path).on_sent(index, repeat)
    }

    fn flight(&mut self, path: PathId) -> &mut PathFlight {
        if self.flights.len() <= path.index() {
            self.flights.resize_with(path.index() + 1, PathFlight::default);
        }
        &mut self.flights[path.index()]
    }

    pub(super) fn begin(&mut self) {
        self.flights.iter_mut().for_each(PathFlight::begin);
    }

    pub(super) fn on_acked(&mut self, chunk: &Chunk) {
        let flight = &mut self.flights[chunk.path.index()];
        match &self.named {
            None => flight.on_acked(chunk.sequence),
            Some(named) if named.has_arrived(chunk.path, chunk.sequence) => flight.on_named(chunk.sequence),
            // Another transmission brought it: this one is of no interest any more, and tells nothing.
            Some(_) => flight.close(chunk.sequence),
        }
    }

    pub(super) fn arrived_by(&self, chunk: &Chunk, index: u64) -> Option<(PathId, bool)> {
        let named = self.named.as_ref()?;
        if named.has_arrived(chunk.path, chunk.sequence) {
            return Some((chunk.path, true));
        }
        named.late_by(index).map(|path| (path, false))
    }

    pub(super) fn on_dropped(&mut self, chunk: &Chunk) {
        self.flights[chunk.path.index()].close(chunk.sequence);
    }

    pub(super) fn report(&mut self, needed: u8, packets: u8) -> bool {
        let answered = self
            .flights
            .iter()
            .filter(|flight| flight.is_newly_acked())
            .count();
        // Whose packets they were is known only if they went by one path.
        let packets = if answered == 1 { packets } else { 1 };
        let packets = self.named.is_none().then_some(packets);
        self.flights
            .iter_mut()
            .for_each(|flight| flight.report(needed, packets));
        answered > 0
    }

    pub(super) fn each_reported(&self, mut each: impl FnMut(Run)) {
        for flight in &self.flights {
            flight.each_reported(|index| each(Run::of(index)));
        }
    }

    pub(super) fn take_lost(&mut self, needed: u8, mut lost: impl FnMut(Run) -> bool) {
        for flight in &mut self.flights {
            flight.take_lost(needed, |index| lost(Run::of(index)));
        }
    }

    /// The earliest chunk in flight on `path`, if a later packet of the path arrived; and how patient the path is.
    pub(crate) fn overtaken(&self, path: PathId) -> Option<(u64, u8)> {
        let flight = self.flights.get(path.index())?;
        flight.overtaken().map(|index| (index, flight.patience()))
    }

    /// Hands over what later packets of `path` have overtaken, in order, while `lost` takes it for lost.
    pub(crate) fn take_overtaken(&mut self, path: PathId, lost: impl FnMut(u64) -> bool) {
        self.flight(path).take_overtaken(lost);
    }

    /// The transmission `sequence` of `path` was repeated needlessly.
    pub(crate) fn on_needless(&mut self, path: PathId, sequence: u64) {
        self.flight(path).on_needless(sequence);
    }

    pub(super) fn finish(&mut self, rules: &RecoveryRules, outcome: &mut AckOutcome) {
        for (flight, path) in self.flights.iter_mut().zip(&mut outcome.paths) {
            let progress = flight.finish(path.lost > 0, rules.fast_recovery);
            outcome.recoveries += u32::from(progress.cut);
            path.cut = progress.cut;
            path.growth_held = progress.growth_held;
            path.advanced = progress.advanced;
            path.earliest_acked = progress.earliest_moved;
        }
        self.settle_named();
    }

    /// Nothing below what is settled on a path is waited for any more.
    fn settle_named(&mut self) {
        if let Some(named) = &mut self.named {
            for (path, flight) in self.flights.iter_mut().enumerate() {
                named.settle(PathId(path as u8), flight.settled());
            }
        }
    }

    pub(super) fn earliest(&self, path: PathId) -> Option<u64> {
        self.flights.get(path.index()).and_then(PathFlight::earliest)
    }

    pub(super) fn on_timeout(&mut self, path: PathId) {
        self.flight(path).clear();
        self.settle_named();
    }

    pub(super) fn clear(&mut self) {
        self.flights.iter_mut().for_each(PathFlight::clear);
        self.settle_named();
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_recovering(&self, path: PathId) -> bool {
        self.flights
            .get(path.index())
            .is_some_and(PathFlight::is_recovering)
    }
}
