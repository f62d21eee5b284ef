//! Owns the path on which each TSN was first sent. A chunk may already be acknowledged when its mark is reported, so the chunk's own record
//! may be gone. Only packets of new data are ECN-capable, so first transmissions are enough.

use std::collections::VecDeque;

use crate::path::PathId;
use crate::seq::ExtendedTsn;

/// The most runs of TSNs on one path that are stored. An association with one path has one run. With several paths at once, a run consists
/// of the TSNs sent on one path without interruption.
const MOST: usize = 256;

/// The first TSN of each run and its path, in order.
#[derive(Debug, Default)]
pub(super) struct Routes(VecDeque<(ExtendedTsn, PathId)>);

impl Routes {
    /// TSNs from `first` on are sent on this path.
    #[inline]
    pub(super) fn note(&mut self, first: ExtendedTsn, path: PathId) {
        if self.0.back().is_some_and(|(_, last)| *last == path) {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((first, path));
    }

    /// The path of a TSN that was sent; `None` if it is no longer stored.
    pub(super) fn of(&self, tsn: ExtendedTsn) -> Option<PathId> {
        let behind = self.0.partition_point(|(first, _)| *first <= tsn);
        Some(self.0.get(behind.checked_sub(1)?)?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_and_few() {
        let mut routes = Routes::default();
        assert_eq!(routes.of(5), None);
        for tsn in 0..1000_u64 {
            routes.note(tsn, PathId((tsn / 2 % 2) as u8));
            assert_eq!(routes.of(tsn), Some(PathId((tsn / 2 % 2) as u8)));
        }
        assert_eq!(routes.0.len(), MOST);
        assert_eq!(routes.of(997), Some(PathId(0)));
        assert_eq!(routes.of(998), Some(PathId(1)));
        assert_eq!(routes.of(3), None);
    }
}
