//! What acknowledgements tell of losses and of progress (RFC 9260 §6.3.2, §7.2.4): the seam, with the base in it, which takes
//! all paths for one destination, and *split* accounting, for each path by itself (draft-tuexen-tsvwg-sctp-multipath §3.1). The ring of chunks asks it in this order for each acknowledgement:
//! [`AckAccounting::begin`], `on_acked` for each chunk, `end_recovery`, `report`, `take_lost`, `finish`.

use super::loss::Reports;
use super::outstanding::{AckOutcome, Chunk};
use super::per_path::PerPath;
use crate::config::RecoveryRules;
use crate::path::PathId;
use crate::seq::{Run, Runs};

/// The ways to account for acknowledgements; one variant each.
#[derive(Debug)]
pub(crate) enum AckAccounting {
    /// RFC 9260: what is missing between TSNs, and one fast recovery.
    SingleDestination(SingleDestination),
    /// Concurrent multipath transfer: what each path has in flight, and a fast recovery for each.
    PerPath(PerPath),
}

/// RFC 9260 §7.2.4: which path a chunk took makes no difference.
#[derive(Debug, Default)]
pub(crate) struct SingleDestination {
    reports: Reports,
    /// The exit point of fast recovery, while in it.
    recovery_exit: Option<u64>,
    /// Whether it was in fast recovery before this acknowledgement.
    was_recovering: bool,
    /// What this acknowledgement reports missing lies below this index.
    below: u64,
}

impl SingleDestination {
    /// Notes what an acknowledgement reports missing, by the HTNA rule; answers whether that may be anything.
    fn report(&mut self, highest_newly_acked: Option<u64>, cumulative_moved: bool, acked: &Runs) -> bool {
        let highest = acked.last().map(|run| run.last);
        let all = self.recovery_exit.is_some() && cumulative_moved;
        let below = if all { highest } else { highest_newly_acked };
        self.below = below.unwrap_or_default();
        below.is_some() && highest.is_some()
    }

    fn finish(&mut self, last: u64, rules: &RecoveryRules, outcome: &mut AckOutcome) {
        let any = outcome.paths.iter().any(|path| path.lost > 0);
        if any && self.recovery_exit.is_none() {
            outcome.recoveries = 1;
            self.recovery_exit = rules.fast_recovery.then_some(last);
        }
        let entered = outcome.recoveries > 0;
        for path in &mut outcome.paths {
            path.cut = entered && path.lost > 0;
            path.growth_held = self.was_recovering && self.recovery_exit.is_some() && !entered;
            path.advanced = outcome.cumulative_moved;
        }
    }
}

impl AckAccounting {
    /// As RFC 9260 has it.
    pub(crate) fn single_destination() -> Self {
        Self::SingleDestination(SingleDestination::default())
    }

    /// Each path by itself.
    pub(crate) fn per_path() -> Self {
        Self::PerPath(PerPath::default())
    }

    /// Whether paths are told apart: then acknowledgements may return by several, too.
    pub(crate) fn is_per_path(&self) -> bool {
        matches!(self, Self::PerPath(_))
    }

    /// The paths, where they are told apart.
    pub(crate) fn paths(&self) -> Option<&PerPath> {
        match self {
            Self::SingleDestination(_) => None,
            Self::PerPath(paths) => Some(paths),
        }
    }

    /// The same, to be changed.
    pub(crate) fn paths_mut(&mut self) -> Option<&mut PerPath> {
        match self {
            Self::SingleDestination(_) => None,
            Self::PerPath(paths) => Some(paths),
        }
    }

    /// Chunk `index` leaves on a path; answers what that transmission is called there.
    #[inline]
    pub(crate) fn on_sent(&mut self, path: PathId, index: u64, repeat: bool) -> u64 {
        match self {
            Self::SingleDestination(_) => 0,
            Self::PerPath(paths) => paths.on_sent(path, index, repeat),
        }
    }

    /// An acknowledgement begins.
    pub(crate) fn begin(&mut self) {
        match self {
            Self::SingleDestination(single) => single.was_recovering = single.recovery_exit.is_some(),
            Self::PerPath(paths) => paths.begin(),
        }
    }

    /// A chunk in flight was acknowledged; `earliest` is the earliest index that was in flight on its path. Answers whether
    /// that is known now to have been the earliest transmission in flight there.
    #[inline]
    pub(crate) fn on_acked(&mut self, chunk: &Chunk, index: u64, earliest: u64) -> bool {
        match self {
            Self::SingleDestination(_) => index <= earliest,
            Self::PerPath(paths) => {
                paths.on_acked(chunk);
                false
            }
        }
    }

    /// The path by which a chunk that is acknowledged arrived, as far as is known, and whether it was its last transmission
    /// for sure.
    pub(crate) fn arrived_by(&self, chunk: &Chunk, index: u64) -> (PathId, bool) {
        let named = self.paths().and_then(|paths| paths.arrived_by(chunk, index));
        named.unwrap_or((chunk.path, chunk.transmissions == 1))
    }

    /// A chunk in flight is so no more, without an acknowledgement.
    pub(crate) fn on_dropped(&mut self, chunk: &Chunk) {
        if let Self::PerPath(paths) = self {
            paths.on_dropped(chunk);
        }
    }

    /// Everything up to `cumulative` has arrived.
    pub(crate) fn end_recovery(&mut self, cumulative: u64) {
        if let Self::SingleDestination(single) = self
            && single.recovery_exit.is_some_and(|exit| cumulative >= exit)
        {
            single.recovery_exit = None;
        }
    }

    /// Counts the acknowledgement, which answers `packets` packets, as a report of what is missing, of which a loss needs
    /// `needed`; answers whether anything can be missing. `acked` are the chunks acknowledged by gap blocks.
    pub(crate) fn report(
        &mut self,
        highest_newly_acked: Option<u64>,
        cumulative_moved: bool,
        acked: &Runs,
        needed: u8,
        packets: u8,
    ) -> bool {
        match self {
            Self::SingleDestination(single) => single.report(highest_newly_acked, cumulative_moved, acked),
            Self::PerPath(paths) => paths.report(needed, packets),
        }
    }

    /// Hands over what this acknowledgement reports missing and what may still be declared lost.
    pub(crate) fn each_reported(&self, base: u64, acked: &Runs, each: impl FnMut(Run)) {
        match self {
            Self::SingleDestination(single) => single.reports.open(single.below, base, acked).for_each(each),
            Self::PerPath(paths) => paths.each_reported(each),
        }
    }

    /// Hands over what has been reported missing `needed` times, once; `lost` answers whether all of it is taken for lost.
    pub(crate) fn take_lost(
        &mut self,
        needed: u8,
        base: u64,
        acked: &Runs,
        mut lost: impl FnMut(Run) -> bool,
    ) {
        match self {
            Self::SingleDestination(single) => {
                single.reports.count(single.below, needed, base, acked, |run| {
                    lost(run);
                });
            }
            Self::PerPath(paths) => paths.take_lost(needed, lost),
        }
    }

    /// The acknowledgement ends: says for each path whether its window is cut and whether it may grow. `last` is the highest
    /// index that was sent.
    pub(crate) fn finish(&mut self, last: u64, rules: &RecoveryRules, outcome: &mut AckOutcome) {
        match self {
            Self::SingleDestination(single) => single.finish(last, rules, outcome),
            Self::PerPath(paths) => paths.finish(rules, outcome),
        }
    }

    /// The chunk of `path` that is the earliest in flight, where that is known at once.
    pub(crate) fn earliest(&self, path: PathId) -> Option<Option<u64>> {
        self.paths().map(|paths| paths.earliest(path))
    }

    /// T3-rtx expired for a path (§6.3.3): what is sent again is judged anew.
    pub(crate) fn on_timeout(&mut self, path: PathId) {
        match self {
            Self::SingleDestination(single) => {
                single.reports.clear();
                single.recovery_exit = None;
            }
            Self::PerPath(paths) => paths.on_timeout(path),
        }
    }

    /// Nothing is outstanding any more.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::SingleDestination(single) => {
                single.reports.clear();
                single.recovery_exit = None;
            }
            Self::PerPath(paths) => paths.clear(),
        }
    }

    /// Whether losses of a path are being repaired.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn in_fast_recovery(&self, path: PathId) -> bool {
        match self {
            Self::SingleDestination(single) => single.recovery_exit.is_some(),
            Self::PerPath(paths) => paths.is_recovering(path),
        }
    }
}
