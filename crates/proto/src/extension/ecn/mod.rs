//! Explicit Congestion Notification (RFC 3168; draft-stewart-tsvwg-sctpecn): queues mark packets "congestion experienced" (CE) instead of
//! dropping them, the receiver reports the marks in ECNE chunks, and the sender reduces its window and answers with CWR.
//!
//! The receiver's part: `echo` owns the marks to report. The sender's part: `validation` decides whether packets on a path may be
//! ECN-capable, `routes` owns the path of each TSN, and this file decides whether a report reduces the window of its path.
//! `transmit/congestion_echo.rs` changes the windows and builds the chunks.

mod echo;
mod routes;
#[cfg(test)]
mod tests;
mod validation;

use core::time::Duration;
use std::collections::BTreeSet;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Cwr, Ecne};

use crate::ecn::EcnState;
use crate::path::{Flight, PathId, SendNo};
use crate::seq::ExtendedTsn;
use crate::stats::EcnPathStats;
use crate::time::Timestamp;
use echo::Echo;
use routes::Routes;
use validation::Validation;

/// The effect of an ECNE on the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The path of the marked packet.
    pub(crate) path: PathId,
    /// Marked packets that no earlier ECNE reported.
    pub(crate) news: u32,
    /// Whether the packet was sent after the last window reduction of its path.
    pub(crate) reduces: bool,
}

/// The sender's ECN state for one path.
#[derive(Debug, Default)]
struct Marked {
    validation: Validation,
    sent: u64,
    marked: u64,
    reductions: u64,
    /// The next TSN at the last window reduction. A mark of a packet with a lower TSN is from the same round trip.
    reduced_before: ExtendedTsn,
    /// The newest TSN that the peer reported, and the count in that report.
    last: (ExtendedTsn, u32),
    /// When a CWR was last sent on this path.
    answered: Option<Timestamp>,
    /// The next TSN when the path got its present addresses. Packets with lower TSNs went elsewhere.
    began: ExtendedTsn,
}

impl Marked {
    /// The number of marks in a report that earlier reports did not have. The peer restarts its count when it receives a CWR, and then
    /// reports a later TSN. A report with an earlier TSN is therefore old.
    fn news(&mut self, tsn: ExtendedTsn, count: u32) -> u32 {
        let (last_tsn, last_count) = self.last;
        let news = if tsn < last_tsn {
            return 0;
        } else if count > last_count {
            count - last_count
        } else if tsn > last_tsn {
            count
        } else {
            return 0;
        };
        self.last = (tsn, count);
        news
    }
}

/// The ECN state of an association, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Ecn {
    enabled: bool,
    echo: Echo,
    routes: Routes,
    paths: Vec<Marked>,
}

/// The receiver's part.
impl Ecn {
    /// A marked packet with new data came on a path; `tsn` is the lowest of its new TSNs. Returns whether it is the first since the last
    /// CWR, so that it is reported at once.
    pub(crate) fn on_ce(&mut self, path: PathId, tsn: Tsn) -> bool {
        self.enabled && self.echo.on_marked(path, tsn)
    }

    /// The sender answered a report.
    pub(crate) fn on_cwr(&mut self, path: PathId, cwr: &Cwr) {
        self.echo.on_cwr(path, cwr);
    }

    /// The ECNE chunks to send with each acknowledgement until a CWR answers them.
    pub(crate) fn echoes(&self) -> impl Iterator<Item = Ecne> {
        self.echo.due().map(|(tsn, marked)| Ecne {
            tsn,
            marked: Some(marked),
        })
    }
}

/// The sender's part.
impl Ecn {
    /// Sets whether both endpoints support ECN.
    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    fn path(&mut self, path: PathId) -> &mut Marked {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, Marked::default);
        }
        &mut self.paths[path.index()]
    }

    /// Whether a packet on this path may be ECN-capable, if it has only new data.
    #[inline]
    pub(crate) fn may_mark(&self, path: PathId) -> bool {
        let allows = |marked: &Marked| marked.validation.allows();
        self.enabled && self.paths.get(path.index()).is_none_or(allows)
    }

    /// A packet with new data left: its first TSN, and the first and last sending in it if the packet is ECN-capable.
    pub(crate) fn on_sent(&mut self, path: PathId, first: ExtendedTsn, capable: Option<(SendNo, SendNo)>) {
        if !self.enabled {
            return;
        }
        self.routes.note(first, path);
        if let Some(sendings) = capable {
            let marked = self.path(path);
            marked.sent += 1;
            marked.validation.on_sent(sendings);
        }
    }

    /// Whether the path is still being tested, so that it needs its acknowledgements.
    #[inline]
    pub(crate) fn is_testing(&self, path: PathId) -> bool {
        let marked = self.paths.get(path.index());
        marked.is_some_and(|marked| marked.validation.state() == EcnState::Testing)
    }

    /// An acknowledgement was handled. It does not show the arrival of the sendings in `lost`.
    pub(crate) fn on_acknowledged(
        &mut self,
        path: PathId,
        flight: &Flight,
        lost: impl Iterator<Item = (PathId, SendNo)>,
    ) {
        let lost: BTreeSet<_> = lost.filter(|(on, _)| *on == path).map(|(_, no)| no).collect();
        self.path(path)
            .validation
            .on_acknowledged(flight, |no| lost.contains(&no));
    }

    /// Sendings left the flight of a path, and no acknowledgement showed them lost.
    pub(crate) fn on_withdrawn(&mut self, path: PathId, flight: &Flight) {
        if self.is_testing(path) {
            self.path(path).validation.on_withdrawn(flight);
        }
    }

    /// The addresses of a path change, or it is removed: the verdict, and the counts, are about the former path. `next` is the next TSN.
    pub(crate) fn leave_path(&mut self, path: PathId, next: ExtendedTsn) {
        if self.enabled {
            let former = self.path(path);
            *former = Marked {
                began: next,
                reduced_before: next,
                last: former.last,
                ..Marked::default()
            };
        }
    }

    /// T3-rtx expired for a path; `next` is the next TSN.
    pub(crate) fn on_timeout(&mut self, path: PathId, flight: &Flight, next: ExtendedTsn) {
        if self.enabled {
            let marked = self.path(path);
            marked.reduced_before = next;
            marked.validation.on_timeout(flight);
        }
    }

    /// The window of a path was reduced because of losses, or of marks (`by_marks`); `next` is the next TSN.
    pub(crate) fn on_reduced(&mut self, path: PathId, next: ExtendedTsn, by_marks: bool) {
        if self.enabled {
            let marked = self.path(path);
            marked.reduced_before = next;
            marked.reductions += u64::from(by_marks);
        }
    }

    /// The peer reports marks; `tsn` is the TSN of the newest marked packet. `None` if the path on which that TSN was sent is no longer
    /// known, or has other addresses now.
    pub(crate) fn on_marks(&mut self, tsn: ExtendedTsn, count: u32) -> Option<Marks> {
        let path = self.routes.of(tsn)?;
        let marked = self.path(path);
        let (last_tsn, _) = marked.last;
        let mut news = marked.news(tsn, count.max(1));
        if tsn < marked.began {
            return None;
        }
        if last_tsn < marked.began {
            // The first report about the path with these addresses: the peer's count may include marks of before.
            news = news.min(1);
        }
        marked.marked += u64::from(news);
        if marked.marked > marked.sent {
            marked.validation.fail();
        }
        let counts = marked.validation.state() != EcnState::Failed;
        Some(Marks {
            path,
            news: if counts { news } else { 0 },
            reduces: counts && tsn >= marked.reduced_before,
        })
    }

    /// Whether to answer a report on this path with a CWR now. The peer retransmits the report until the CWR arrives, which takes a round
    /// trip. One CWR is enough for all these reports, unless the window was `reduced` again.
    pub(crate) fn answers(
        &mut self,
        path: PathId,
        reduced: bool,
        now: Timestamp,
        round_trip: Duration,
    ) -> bool {
        let answered = &mut self.path(path).answered;
        let answers = reduced || answered.is_none_or(|at| now >= at + round_trip);
        if answers {
            *answered = Some(now);
        }
        answers
    }

    pub(crate) fn stats(&self, path: PathId) -> EcnPathStats {
        if !self.enabled {
            return EcnPathStats::default();
        }
        let begun = Marked::default();
        let marked = self.paths.get(path.index()).unwrap_or(&begun);
        EcnPathStats {
            state: marked.validation.state(),
            packets_sent: marked.sent,
            packets_marked: marked.marked,
            reductions: marked.reductions,
        }
    }
}
