//! Owns the losses of BBR's round and recovery episode, and the state before them.

use super::sample::Sample;
use super::state::State;

/// The state before a recovery episode, for an undo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: f64,
    pub(super) inflight_longterm: f64,
}

/// Losses of the round and of the episode of recovery.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// `BBR.is_loss_in_round`.
    pub(super) in_round: bool,
    /// A loss was noted since the last report.
    pub(super) noted: bool,
    /// The loss is the first of its round: the round ends one round trip after the next report.
    pub(super) begins_round: bool,
    /// `BBR.loss_round_delivered`.
    pub(super) round_delivered: u64,
    /// `BBR.loss_round_start`.
    pub(super) round_start: bool,
    /// Reports of the round that found losses or CE marks.
    pub(super) events: u32,
    /// Bytes of the round that were marked.
    pub(super) marked: f64,
    pub(super) in_recovery: bool,
    /// Bytes delivered when recovery began.
    pub(super) recovery_delivered: u64,
    /// Bytes to be delivered until the chunks that T3-rtx declared lost are repaired.
    pub(super) timeout_until: u64,
    /// The state before the losses that the next report contains.
    pub(super) before: Option<Undo>,
    /// The state before the episode.
    pub(super) undo: Option<Undo>,
}

impl Losses {
    /// Whether the round that ends was one of recovery, or CE marks make recovery unnecessary.
    pub(super) fn is_round_in_recovery(&self, sample: &Sample) -> bool {
        let whole = |prior| prior >= self.recovery_delivered;
        self.marked > 0.0 || (self.in_recovery && sample.prior_delivered.is_some_and(whole))
    }

    /// The state of BBR that the episode ended, to which the flow returns if the episode was spurious.
    pub(super) fn set_undo_state(&mut self, state: State) {
        if let Some(undo) = self.before.as_mut().or(self.undo.as_mut()) {
            undo.state = Some(state);
        }
    }
}
