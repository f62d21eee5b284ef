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
    }

    /// The acknowledgement ends, by which chunks were found lost or not; `last` is the newest that was sent. `holds` says
    /// whether an episode holds off the next reduction.
    pub(crate) fn finish(&mut self, lost: bool, last: u64, holds: bool) -> Phase {
        if lost && self.exit.is_none() {
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
        let Self::Apart(all) = self else {
            return Phase::Open;
        };
        if all.len() <= path.index() {
            all.resize_with(path.index() + 1, Episode::default);
        }
        all[path.index()].finish(lost, last, holds)
    }

    /// T3-rtx expired for a path: what is sent from now on is judged anew.
    pub(crate) fn on_timeout(&mut self, path: PathId) {
        match self {
            Self::Together(episode) => episode.exit = None,
            Self::Apart(all) => {
                if let Some(episode) = all.get_mut(path.index()) {
                    episode.exit = None;
                }
            }
        }
    }

    /// Nothing is outstanding any more.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Together(episode) => episode.exit = None,
            Self::Apart(all) => all.iter_mut().for_each(|episode| episode.exit = None),
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
