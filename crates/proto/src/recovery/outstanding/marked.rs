//! Reductions of a window for marked packets (RFC 3168 §6.1.2).

use super::Outstanding;
use crate::path::{PathId, Paths};

impl Outstanding {
    /// The peer reports marks of a path. Returns whether the marks reduce its window: not while an episode lasts, because losses and marks
    /// of one window of data cause one reduction. If they do, an episode begins, and the reduction is never undone.
    pub(crate) fn on_marked(&mut self, path: PathId, paths: &Paths) -> bool {
        let last = if self.detector.is_per_path() {
            paths.path(path).flight.next().saturating_sub(1)
        } else {
            self.next_index() - 1
        };
        let begins = self.episodes.begin_for_marks(path, last);
        if begins && let Some((tail, undo)) = self.tails.get_mut(path.index()) {
            tail.on_marked();
            undo.clear();
        }
        begins
    }

    /// Whether losses of a path are being repaired.
    pub(crate) fn is_recovering(&self, path: PathId) -> bool {
        self.episodes.is_recovering(path)
    }
}
