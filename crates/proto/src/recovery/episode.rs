//! Fast recovery (RFC 9260 §7.2.4) as recovery episodes: at most one window reduction for all losses and ECN marks (RFC 3168 §6.1.2) among
//! the chunks that were outstanding when the first of them was found.

use crate::path::PathId;

/// The effect of an acknowledgement on a congestion window, apart from the bytes that it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// The window may grow.
    #[default]
    Open,
    /// Fast recovery: the window does not grow.
    Recovering,
    /// The first losses of an episode were found: the window is reduced.
    Reduced,
    /// The first losses of an episode that CE marks began: the marks have reduced the window already.
    ReducedBefore,
}

impl Phase {
    /// Whether fast recovery begins with these losses.
    pub(crate) fn begins_repairs(self) -> bool {
        matches!(self, Self::Reduced | Self::ReducedBefore)
    }
}

/// The recovery episode of one path or of all paths: one at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Episode {
    /// The episode lasts until all of these are acknowledged or lost: an extended TSN, or the number of a transmission of the path.
    exit: Option<u64>,
    /// T3-rtx reduced the window for losses up to here. They reduce the window no further, but the window grows while they are repaired.
    timed_out: Option<u64>,
    /// CE marks began the episode, and no loss was found since: there is nothing to repair.
    for_marks: bool,
    /// The episode lasted already before this acknowledgement.
    before: bool,
}

impl Episode {
    /// Called before an acknowledgement is handled.
    pub(crate) fn begin(&mut self) {
        self.before = self.exit.is_some();
    }

    /// Everything below `settled` is acknowledged or lost.
    fn end(&mut self, settled: u64) {
        self.exit = self.exit.filter(|exit| *exit >= settled);
        self.timed_out = self.timed_out.filter(|last| *last >= settled);
    }

    /// Ends the episode, if one lasts.
    fn clear(&mut self) {
        (self.exit, self.timed_out) = (None, None);
    }

    /// Called after an acknowledgement was handled. `lost`: it found losses. `last`: the newest transmission; `None` if nothing is in
    /// flight or to be retransmitted, so that no episode begins. `holds`: whether an episode prevents the next reduction
    /// ([`crate::RecoveryRules::fast_recovery`]).
    pub(crate) fn finish(&mut self, lost: bool, last: Option<u64>, holds: bool) -> Phase {
        let reduced_before = lost && self.repairs_nothing();
        self.for_marks &= !lost;
        if reduced_before {
            Phase::ReducedBefore
        } else if lost && self.exit.is_none() && self.timed_out.is_none() {
            self.exit = last.filter(|_| holds);
            Phase::Reduced
        } else if self.before && self.exit.is_some() {
            Phase::Recovering
        } else {
            Phase::Open
        }
    }
}

impl Episode {
    /// Packets up to `last` were marked; returns whether an episode begins.
    fn begin_for_marks(&mut self, last: u64) -> bool {
        let begins = self.exit.is_none() && self.timed_out.is_none();
        if begins {
            self.exit = Some(last);
            self.for_marks = true;
        }
        begins
    }

    /// Whether a reduction of the window counts the loss of the transmission `no`.
    fn counts(&self, no: u64) -> bool {
        [self.exit, self.timed_out]
            .into_iter()
            .flatten()
            .any(|last| no <= last)
    }

    /// Whether losses are being repaired (fast recovery).
    fn repairs(&self) -> bool {
        self.exit.is_some() && !self.for_marks
    }

    /// Whether an episode lasts that CE marks alone caused.
    fn repairs_nothing(&self) -> bool {
        self.exit.is_some() && self.for_marks
    }
}

/// The episodes of an association.
#[derive(Debug)]
pub(crate) enum Episodes {
    /// One for all paths, as in RFC 9260: it ends at a TSN.
    Together(Episode),
    /// One for each path (draft-tuexen-tsvwg-sctp-multipath §3.1): it ends at a transmission of the path.
    Apart(Vec<Episode>),
}

impl Episodes {
    pub(crate) fn begin(&mut self) {
        match self {
            Self::Together(episode) => episode.begin(),
            Self::Apart(all) => all.iter_mut().for_each(Episode::begin),
        }
    }

    /// Whether fast recovery lasts, if there is one episode for all paths.
    pub(crate) fn recovers_together(&self) -> bool {
        matches!(self, Self::Together(episode) if episode.repairs())
    }

    /// The cumulative TSN ack point moved to just below `base`.
    pub(crate) fn on_cumulative(&mut self, base: u64) {
        if let Self::Together(episode) = self {
            episode.end(base);
        }
    }

    /// No transmission of `path` before `earliest` is in flight.
    pub(crate) fn on_settled(&mut self, path: PathId, earliest: u64) {
        if let Self::Apart(all) = self
            && let Some(episode) = all.get_mut(path.index())
        {
            episode.end(earliest);
        }
    }

    /// [`Episode::finish`] for a path with an episode of its own.
    pub(crate) fn finish_path(&mut self, path: PathId, lost: bool, last: Option<u64>, holds: bool) -> Phase {
        self.of_path(path)
            .map_or(Phase::Open, |episode| episode.finish(lost, last, holds))
    }

    /// The episode of a path, if each path has its own.
    fn of_path(&mut self, path: PathId) -> Option<&mut Episode> {
        let Self::Apart(all) = self else { return None };
        Some(of_path(all, path))
    }

    /// The peer reports marks of a path on which the newest transmission is `last`; returns whether an episode begins.
    pub(crate) fn begin_for_marks(&mut self, path: PathId, last: u64) -> bool {
        match self {
            Self::Together(episode) => episode.begin_for_marks(last),
            Self::Apart(all) => of_path(all, path).begin_for_marks(last),
        }
    }

    /// As [`Episodes::on_timeout`], if chunks stay in flight, up to the transmission `last` (F-RTO): if they are declared lost later, they
    /// belong to this timeout.
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

    /// T3-rtx expired for a path: ends the episode.
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

    /// Ends the episode of a path, because its reduction was undone or must be possible again.
    pub(crate) fn end(&mut self, path: PathId) {
        self.on_timeout(path);
    }

    fn get(&self, path: PathId) -> Option<&Episode> {
        match self {
            Self::Together(episode) => Some(episode),
            Self::Apart(all) => all.get(path.index()),
        }
    }

    /// Whether fast recovery lasts on a path.
    pub(crate) fn is_recovering(&self, path: PathId) -> bool {
        self.get(path).is_some_and(Episode::repairs)
    }

    /// Whether the loss of the transmission `no` of a path belongs to an episode that lasts, or to the last T3-rtx: the window was
    /// reduced for it already.
    pub(crate) fn counts(&self, path: PathId, no: u64) -> bool {
        self.get(path).is_some_and(|episode| episode.counts(no))
    }

    /// Whether an episode lasts on a path, because of losses or marks.
    pub(crate) fn lasts(&self, path: PathId) -> bool {
        self.get(path).is_some_and(|episode| episode.exit.is_some())
    }
}

fn of_path(all: &mut Vec<Episode>, path: PathId) -> &mut Episode {
    if all.len() <= path.index() {
        all.resize_with(path.index() + 1, Episode::default);
    }
    &mut all[path.index()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_losses_of_one_window_make_one_reduction() {
        let path = PathId(0);
        for mut episodes in [
            Episodes::Together(Episode::default()),
            Episodes::Apart(Vec::new()),
        ] {
            let apart = matches!(episodes, Episodes::Apart(_));
            let settle = |episodes: &mut Episodes, to| {
                episodes.begin();
                episodes.on_cumulative(to);
                episodes.on_settled(path, to);
            };
            let finish = |episodes: &mut Episodes, lost| match episodes {
                Episodes::Together(episode) => episode.finish(lost, Some(20), true),
                Episodes::Apart(_) => episodes.finish_path(path, lost, Some(20), true),
            };
            assert!(episodes.begin_for_marks(path, 10), "{apart}");
            assert!(!episodes.begin_for_marks(path, 12), "one of the same window");
            assert!(episodes.lasts(path) && !episodes.is_recovering(path));
            settle(&mut episodes, 5);
            assert_eq!(finish(&mut episodes, true), Phase::ReducedBefore, "for the marks");
            assert!(episodes.is_recovering(path), "the loss is to be repaired");
            settle(&mut episodes, 11);
            assert!(!episodes.lasts(path));
            assert_eq!(finish(&mut episodes, true), Phase::Reduced);
            assert!(!episodes.begin_for_marks(path, 25), "losses hold off marks");
            settle(&mut episodes, 21);
            assert!(episodes.begin_for_marks(path, 25));
        }
    }

    const PATH: PathId = PathId(0);

    #[test]
    fn the_losses_of_a_timeout_reduce_no_further() {
        let mut episodes = Episodes::Apart(Vec::new());
        assert_eq!(episodes.finish_path(PATH, true, Some(9), true), Phase::Reduced);
        episodes.on_first_timeout(PATH, 12);
        assert!(!episodes.is_recovering(PATH), "the window grows");
        assert_eq!(episodes.finish_path(PATH, true, Some(15), true), Phase::Open);
        episodes.on_settled(PATH, 12);
        assert_eq!(episodes.finish_path(PATH, true, Some(15), true), Phase::Open);
        episodes.on_settled(PATH, 13);
        assert_eq!(episodes.finish_path(PATH, true, Some(15), true), Phase::Reduced);
    }

    #[test]
    fn no_episode_begins_if_nothing_is_left_to_recover() {
        let mut episodes = Episodes::Apart(Vec::new());
        assert_eq!(episodes.finish_path(PATH, true, None, true), Phase::Reduced);
        assert!(!episodes.lasts(PATH));
    }
}
