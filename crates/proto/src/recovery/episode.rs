//! Recovery episodes (RFC 9260 §7.2.4): at most one window reduction for the losses among what was outstanding when the first of
//! them was found.

use crate::path::PathId;

/// What an acknowledgement means for a congestion window, beside what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// The window may grow.
    #[default]
    Open,
    /// Losses are being repaired: the window does not grow.
    Recovering,
    /// The first losses of an episode were found: the window is reduced.
    Reduced,
}

/// One episode at a time, of one path or of all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    /// The episode lasts until everything up to here is settled: an extended TSN, or a sending of the path.
    exit: Option<u64>,
    /// T3-rtx reduced the window for the losses up to here. They reduce it no further, but it grows while they are repaired.
    timed_out: Option<u64>,
    /// It lasted already before the acknowledgement at hand.
    before: bool,
}

impl Episode {
    /// An acknowledgement begins.
    pub(crate) fn begin(&mut self) {
        self.before = self.exit.is_some();
    }

    /// Everything below `settled` is settled.
    fn end(&mut self, settled: u64) {
        self.exit = self.exit.filter(|exit| *exit >= settled);
        self.timed_out = self.timed_out.filter(|last| *last >= settled);
    }

    /// No episode lasts.
    fn clear(&mut self) {
        (self.exit, self.timed_out) = (None, None);
    }

    /// The acknowledgement ends, by which chunks were found lost or not; `last` is the newest that was sent. `holds` says
    /// whether an episode holds off the next reduction.
    pub(crate) fn finish(&mut self, lost: bool, last: u64, holds: bool) -> Phase {
        if lost && self.exit.is_none() && self.timed_out.is_none() {
            self.exit = holds.then_some(last);
            Phase::Reduced
        } else if self.before && self.exit.is_some() {
            Phase::Recovering
        } else {
            Phase::Open
        }
    }
}

/// The episodes of an association.
#[derive(Debug)]
pub(crate) enum Episodes {
    /// One for all paths, as RFC 9260 has it: its exit is a TSN.
    Together(Episode),
    /// One for each path (draft-tuexen-tsvwg-sctp-multipath §3.1): its exit is a sending of the path.
    Apart(Vec<Episode>),
}

impl Episodes {
    pub(crate) fn begin(&mut self) {
        match self {
            Self::Together(episode) => episode.begin(),
            Self::Apart(all) => all.iter_mut().for_each(Episode::begin),
        }
    }

    /// Whether losses of any path are being repaired, where there is one episode for all.
    pub(crate) fn recovers_together(&self) -> bool {
        matches!(self, Self::Together(episode) if episode.exit.is_some())
    }

    /// The cumulative TSN ack point is below `base`.
    pub(crate) fn on_cumulative(&mut self, base: u64) {
        if let Self::Together(episode) = self {
            episode.end(base);
        }
    }

    /// No sending of `path` before `earliest` is in flight.
    pub(crate) fn on_settled(&mut self, path: PathId, earliest: u64) {
        if let Self::Apart(all) = self
            && let Some(episode) = all.get_mut(path.index())
        {
            episode.end(earliest);
        }
    }

    /// The episode of a path of several: see [`Episode::finish`].
    pub(crate) fn finish_path(&mut self, path: PathId, lost: bool, last: u64, holds: bool) -> Phase {
        self.of_path(path)
            .map_or(Phase::Open, |episode| episode.finish(lost, last, holds))
    }

    /// The episode of a path of several.
    fn of_path(&mut self, path: PathId) -> Option<&mut Episode> {
        let Self::Apart(all) = self else { return None };
        if all.len() <= path.index() {
            all.resize_with(path.index() + 1, Episode::default);
        }
        Some(&mut all[path.index()])
    }

    /// As [`Episodes::on_timeout`], but chunks stay in flight, up to the sending `last`: if they are found lost, the timeout was for them too.
    pub(crate) fn on_first_timeout(&mut self, path: PathId, last: u64) {
        self.on_timeout(path);
        if let Some(episode) = self.of_path(path) {
            episode.timed_out = Some(last);
        }
    }

    /// Whether the losses of a path belong to a timeout.
    pub(crate) fn is_timed_out(&self, path: PathId) -> bool {
        let Self::Apart(all) = self else { return false };
        all.get(path.index())
            .is_some_and(|episode| episode.timed_out.is_some())
    }

    /// T3-rtx expired for a path: what is sent from now on is judged anew.
    pub(crate) fn on_timeout(&mut self, path: PathId) {
        match self {
            Self::Together(episode) => episode.clear(),
            Self::Apart(all) => {
                if let Some(episode) = all.get_mut(path.index()) {
                    episode.clear();
                }
            }
        }
    }

    /// Nothing is outstanding any more.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Together(episode) => episode.clear(),
            Self::Apart(all) => all.iter_mut().for_each(Episode::clear),
        }
    }

    /// The last reduction for a path was undone, or is to be made again: no episode lasts.
    pub(crate) fn end(&mut self, path: PathId) {
        self.on_timeout(path);
    }

    /// Whether an episode lasts for a path.
    pub(crate) fn is_recovering(&self, path: PathId) -> bool {
        match self {
            Self::Together(episode) => episode.exit.is_some(),
            Self::Apart(all) => all
                .get(path.index())
                .is_some_and(|episode| episode.exit.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId(0);

    #[test]
    fn the_losses_of_a_timeout_reduce_no_further() {
        let mut episodes = Episodes::Apart(Vec::new());
        assert_eq!(episodes.finish_path(PATH, true, 9, true), Phase::Reduced);
        episodes.on_first_timeout(PATH, 12);
        assert!(!episodes.is_recovering(PATH), "the window grows");
        assert_eq!(episodes.finish_path(PATH, true, 15, true), Phase::Open);
        episodes.on_settled(PATH, 12);
        assert_eq!(episodes.finish_path(PATH, true, 15, true), Phase::Open);
        episodes.on_settled(PATH, 13);
        assert_eq!(episodes.finish_path(PATH, true, 15, true), Phase::Reduced);
    }
}
