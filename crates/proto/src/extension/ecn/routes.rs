//! Which path a TSN left by, when it was sent first. The chunk may be acknowledged when its mark is reported, and only packets of new
//! data are ECN-capable.

use std::collections::VecDeque;

use crate::path::PathId;
use crate::seq::ExtendedTsn;

/// Runs of TSNs of one path that are remembered. An association with one path has one; with several paths at once a run is what
/// leaves by one path in a row.
const MOST: usize = 256;

/// First TSNs of runs that left by one path, in order.
#[derive(Debug, Default)]
pub(super) struct Routes(VecDeque<(ExtendedTsn, PathId)>);

impl Routes {
    /// TSNs from `first` on left by this path.
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

    /// The path of a TSN that was sent; `None` if it is forgotten.
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
