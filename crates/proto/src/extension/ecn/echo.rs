//! Owns the marks to report to the sender: one ECNE for each path, sent with every acknowledgement until a CWR answers it.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::Cwr;

use crate::path::PathId;
use crate::seq::extend_tsn;

/// Whether `tsn` is not before `other`, by serial number arithmetic.
fn reaches(tsn: Tsn, other: Tsn) -> bool {
    /// Far from zero, so that TSNs before and after it can be extended.
    const MIDDLE: u64 = 1 << 40;
    let other = extend_tsn(other, MIDDLE);
    extend_tsn(tsn, other) >= other
}

/// The lowest TSN of the newest marked packet, and the number of marked packets since the last CWR.
type Record = (Tsn, u32);

/// The pending report of each path, by path number.
#[derive(Debug, Default)]
pub(super) struct Echo(Vec<Option<Record>>);

impl Echo {
    /// A marked packet with new data came; `tsn` is the lowest of its new TSNs. Returns whether the path had no pending report.
    ///
    /// The report names the newest marked packet, as in FreeBSD and Linux. If it named the oldest one and the CWR was lost, the sender
    /// would attribute marks of later round trips to the window reduction that it already made.
    pub(super) fn on_marked(&mut self, path: PathId, tsn: Tsn) -> bool {
        if self.0.len() <= path.index() {
            self.0.resize(path.index() + 1, None);
        }
        match &mut self.0[path.index()] {
            Some((newest, marked)) => {
                *marked = marked.saturating_add(1);
                if reaches(tsn, *newest) {
                    *newest = tsn;
                }
                false
            }
            none => {
                *none = Some((tsn, 1));
                true
            }
        }
    }

    /// A CWR came on a path. It answers the report of this path. If its R flag is set, or if only one report is pending, it answers all
    /// reports.
    pub(super) fn on_cwr(&mut self, path: PathId, cwr: &Cwr) {
        let any = cwr.overrides || self.due().count() == 1;
        for (index, echo) in self.0.iter_mut().enumerate() {
            if any || index == path.index() {
                echo.take_if(|(newest, _)| reaches(cwr.tsn, *newest));
            }
        }
    }

    pub(super) fn due(&self) -> impl Iterator<Item = Record> {
        self.0.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cwr(tsn: u32, overrides: bool) -> Cwr {
        Cwr {
            tsn: Tsn(tsn),
            overrides,
            same_window: false,
        }
    }

    fn due(echo: &Echo) -> Vec<(u32, u32)> {
        echo.due().map(|(tsn, marked)| (tsn.0, marked)).collect()
    }

    #[test]
    fn the_newest_packet_and_the_count_are_reported_until_a_cwr_covers_them() {
        let mut echo = Echo::default();
        let path = PathId(1);
        assert!(echo.on_marked(path, Tsn(u32::MAX)));
        assert!(!echo.on_marked(path, Tsn(3)));
        assert!(!echo.on_marked(path, Tsn(u32::MAX - 4)), "late");
        assert_eq!(due(&echo), [(3, 3)]);
        echo.on_cwr(path, &cwr(u32::MAX, false));
        assert_eq!(due(&echo), [(3, 3)], "an answer to an earlier report");
        echo.on_cwr(path, &cwr(3, false));
        assert_eq!(due(&echo), []);
        assert!(echo.on_marked(path, Tsn(9)));
        assert_eq!(due(&echo), [(9, 1)]);
    }

    #[test]
    fn a_cwr_answers_its_own_path_unless_it_overrides() {
        let mut echo = Echo::default();
        echo.on_marked(PathId(0), Tsn(5));
        echo.on_marked(PathId(2), Tsn(6));
        echo.on_cwr(PathId(0), &cwr(9, false));
        assert_eq!(due(&echo), [(6, 1)]);
        echo.on_marked(PathId(0), Tsn(7));
        echo.on_cwr(PathId(1), &cwr(9, false));
        assert_eq!(due(&echo), [(7, 1), (6, 1)]);
        echo.on_cwr(PathId(1), &cwr(9, true));
        assert_eq!(due(&echo), []);
        echo.on_marked(PathId(0), Tsn(10));
        echo.on_cwr(PathId(1), &cwr(10, false));
        assert_eq!(due(&echo), [], "the only one");
    }
}
