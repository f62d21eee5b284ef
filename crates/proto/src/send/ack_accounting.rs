//! What acknowledgements tell of losses and of progress (RFC 9260 §6.3.2, §7.2.4): the seam, and the base in it, which takes
//! all paths for one destination. The ring of chunks asks it in this order for each acknowledgement:
//! [`AckAccounting::begin`], `on_acked` for each chunk, `end_recovery`, `report`, `take_lost`, `finish`.

use super::loss::{Holes, Run};
use super::outstanding::AckOutcome;
use super::recovery_rules::RecoveryRules;

/// The ways to account for acknowledgements; one variant each.
#[derive(Debug)]
pub(crate) enum AckAccounting {
    /// RFC 9260: holes between TSNs, and one fast recovery.
    SingleDestination(SingleDestination),
}

/// RFC 9260 §7.2.4: which path a chunk took makes no difference.
#[derive(Debug, Default)]
pub(crate) struct SingleDestination {
    holes: Holes,
    /// The exit point of fast recovery, while in it.
    recovery_exit: Option<u64>,
    /// Whether it was in fast recovery before this acknowledgement.
    was_recovering: bool,
    /// What this acknowledgement reports missing lies below this index.
    below: u64,
}

impl SingleDestination {
    /// Notes what an acknowledgement reports missing, by the HTNA rule; answers whether that may be anything.
    fn report(&mut self, highest_newly_acked: Option<u64>, cumulative_moved: bool) -> bool {
        let all = self.recovery_exit.is_some() && cumulative_moved;
        let below = if all { Some(u64::MAX) } else { highest_newly_acked };
        self.below = below.unwrap_or_default();
        below.is_some() && !self.holes.is_empty()
    }

    fn finish(&mut self, last: u64, rules: &RecoveryRules, outcome: &mut AckOutcome) {
        let any = outcome.paths.iter().any(|path| path.lost > 0);
        if any && self.recovery_exit.is_none() {
            outcome.entered_recovery = true;
            self.recovery_exit = rules.fast_recovery.then_some(last);
        }
        let entered = outcome.entered_recovery;
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

    /// An acknowledgement begins.
    pub(crate) fn begin(&mut self) {
        let Self::SingleDestination(single) = self;
        single.was_recovering = single.recovery_exit.is_some();
    }

    /// A chunk in flight was acknowledged; `earliest` is the earliest index that was in flight on its path. Answers whether
    /// that was the earliest transmission in flight there.
    pub(crate) fn on_acked(&mut self, index: u64, earliest: u64) -> bool {
        index <= earliest
    }

    /// Exactly `acked` is gap-acknowledged above `base`, the first index that is not cumulatively acknowledged.
    pub(crate) fn update(&mut self, base: u64, acked: &[Run]) {
        let Self::SingleDestination(single) = self;
        single.holes.update(base, acked);
    }

    /// Everything up to `cumulative` has arrived.
    pub(crate) fn end_recovery(&mut self, cumulative: u64) {
        let Self::SingleDestination(single) = self;
        if single.recovery_exit.is_some_and(|exit| cumulative >= exit) {
            single.recovery_exit = None;
        }
    }

    /// Counts the acknowledgement as a report of what is missing; answers whether anything can be.
    pub(crate) fn report(&mut self, highest_newly_acked: Option<u64>, cumulative_moved: bool) -> bool {
        let Self::SingleDestination(single) = self;
        single.report(highest_newly_acked, cumulative_moved)
    }

    /// Hands over what this acknowledgement reports missing and what may still be declared lost.
    pub(crate) fn each_reported(&self, each: impl FnMut(Run)) {
        let Self::SingleDestination(single) = self;
        single.holes.each_open(single.below, each);
    }

    /// Hands over what has been reported missing `reports` times, once.
    pub(crate) fn take_lost(&mut self, reports: u8, lost: impl FnMut(Run)) {
        let Self::SingleDestination(single) = self;
        single.holes.count_report(single.below, reports, lost);
    }

    /// The acknowledgement ends: says for each path whether its window is cut and whether it may grow. `last` is the highest
    /// index that was sent.
    pub(crate) fn finish(&mut self, last: u64, rules: &RecoveryRules, outcome: &mut AckOutcome) {
        let Self::SingleDestination(single) = self;
        single.finish(last, rules, outcome);
    }

    /// T3-rtx expired (§6.3.3): what is sent again is judged anew.
    pub(crate) fn on_timeout(&mut self) {
        let Self::SingleDestination(single) = self;
        single.holes.reset_counts();
        single.recovery_exit = None;
    }

    /// Nothing is outstanding any more.
    pub(crate) fn clear(&mut self) {
        let Self::SingleDestination(single) = self;
        single.holes.clear();
        single.recovery_exit = None;
    }

    /// Whether losses are being repaired.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn in_fast_recovery(&self) -> bool {
        let Self::SingleDestination(single) = self;
        single.recovery_exit.is_some()
    }
}
