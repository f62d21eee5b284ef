//! Spurious window reductions (RFC 3708): a reduction is undone once every loss of its episode is disproved by a duplicate TSN.
//!
//! A duplicate proves that a chunk arrived twice, so that its retransmission was spurious. The absence of one proves nothing: a
//! receiver need not report all of them, and the report may be lost.

use crate::path::SendNo;

/// The losses of a path's last recovery episode that are not disproved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    /// `None` if there was no episode, or if its reduction was undone already.
    losses: Option<u32>,
    /// Transmissions below this number were lost in earlier episodes.
    from: SendNo,
}

impl Undo {
    /// The window is reduced for `losses` losses, of the transmission `from` and later ones.
    pub(crate) fn on_reduced(&mut self, losses: u32, from: SendNo) {
        *self = Self {
            losses: Some(losses),
            from,
        };
    }

    /// The same episode had further losses.
    pub(crate) fn on_lost(&mut self, losses: u32) {
        if let Some(open) = &mut self.losses {
            *open += losses;
        }
    }

    /// The loss of the transmission `no` is disproved; returns whether all losses of the episode are disproved now.
    pub(crate) fn on_disproved(&mut self, no: SendNo) -> bool {
        let Some(open) = self.losses.as_mut().filter(|_| no >= self.from) else {
            return false;
        };
        *open = open.saturating_sub(1);
        let all = *open == 0;
        if all {
            self.losses = None;
        }
        all
    }

    /// T3-rtx expired: duplicates do not disprove what reduced the window last.
    pub(crate) fn clear(&mut self) {
        self.losses = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_of_the_episode_must_be_disproved_once() {
        let mut undo = Undo::default();
        assert!(!undo.on_disproved(0), "there was no reduction");
        undo.on_reduced(2, 0);
        undo.on_lost(1);
        assert!(!undo.on_disproved(0) && !undo.on_disproved(1));
        assert!(undo.on_disproved(2));
        assert!(!undo.on_disproved(2), "once");
        undo.on_reduced(1, 0);
        undo.clear();
        assert!(!undo.on_disproved(0));
    }

    #[test]
    fn a_loss_of_an_earlier_episode_disproves_nothing() {
        let mut undo = Undo::default();
        undo.on_reduced(1, 5);
        undo.on_reduced(1, 9);
        assert!(!undo.on_disproved(5));
        assert!(undo.on_disproved(9));
    }
}
