//! Spurious window reductions (RFC 3708): a reduction is undone once every loss of its episode is disproved by a duplicate TSN.
//!
//! A duplicate proves that a chunk arrived twice, so that its retransmission was spurious. The absence of one proves nothing: a
//! receiver need not report all of them, and the report may be lost.

/// The losses of the last episode of a path that are not disproved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undo {
    /// `None` if there was no episode, or if it was undone already.
    losses: Option<u32>,
}

impl Undo {
    /// The window is reduced for so many losses.
    pub(crate) fn on_reduced(&mut self, losses: u32) {
        self.losses = Some(losses);
    }

    /// Further losses of the same episode.
    pub(crate) fn on_lost(&mut self, losses: u32) {
        if let Some(open) = &mut self.losses {
            *open += losses;
        }
    }

    /// One of the losses is disproved; answers whether all are now.
    pub(crate) fn on_disproved(&mut self) -> bool {
        let Some(open) = &mut self.losses else {
            return false;
        };
        *open = open.saturating_sub(1);
        let all = *open == 0;
        if all {
            self.losses = None;
        }
        all
    }

    /// T3-rtx expired: what reduced the window last is not disproved by duplicates.
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
        assert!(!undo.on_disproved(), "there was no reduction");
        undo.on_reduced(2);
        undo.on_lost(1);
        assert!(!undo.on_disproved() && !undo.on_disproved());
        assert!(undo.on_disproved());
        assert!(!undo.on_disproved(), "once");
        undo.on_reduced(1);
        undo.clear();
        assert!(!undo.on_disproved());
    }
}
