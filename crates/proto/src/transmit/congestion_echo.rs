//! ECN and the packets that leave (RFC 3168 §6.1, draft-stewart-tsvwg-sctpecn): which of them are ECN-capable, what the receiver
//! reports with its acknowledgements, and what follows from a report of the peer's.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Cwr, Ecne};
use anabranch_wire::packet::PacketWriter;

use super::eligibility::DataTurn;
use super::{Cx, Sender};
use crate::controller::{Controller, Reduction, Report};
use crate::extension::ecn::Marks;
use crate::path::{PathId, PathState};
use crate::seq::extend_tsn;
use crate::stats::EcnPathStats;

/// Sending.
impl Sender {
    /// Whether the packet of a turn is ECN-capable, if no control chunk but CWR is in it: one whose DATA chunks all leave for the
    /// first time (RFC 3168 §6.1.5) and within the peer's window (§6.1.6).
    pub(super) fn may_mark(&self, cx: &Cx<'_>, id: PathId, turn: Option<DataTurn>) -> bool {
        let Some(new) = turn.filter(|turn| turn.path == id).and_then(|turn| turn.new) else {
            return false;
        };
        self.sources.ecn.may_mark(id) && new.len <= self.window.left(cx.paths.payload_in_flight())
    }

    /// A packet for `id` was filled; answers whether it is ECN-capable, as it `may` be if it has data.
    pub(super) fn note_marking(&mut self, cx: &Cx<'_>, id: PathId, may: bool) -> bool {
        let flight = &cx.paths.path(id).flight;
        let sendings = (flight.packet(), flight.next());
        let mut new = flight
            .range(sendings.0)
            .filter(|(_, sending)| !sending.is_retransmission());
        let first = new.next().map(|(_, sending)| sending.tsn);
        if let Some(first) = first {
            let capable = may.then_some((sendings.0, sendings.1 - 1));
            self.sources.ecn.on_sent(id, first, capable);
        }
        may && first.is_some()
    }

    /// Adds the reports of marked packets, which go with every acknowledgement until the peer has answered them.
    pub(super) fn push_echoes(&self, cx: &mut Cx<'_>, packet: &mut PacketWriter<'_>) {
        for echo in self.sources.ecn.echoes() {
            if packet.room() >= Ecne::LEN {
                packet.push(&echo);
                cx.counters.ecnes_sent += 1;
            }
        }
    }
}

/// Receiving.
impl Sender {
    /// A packet came marked: see [`crate::extension::ecn::Ecn::on_ce`].
    pub(crate) fn on_ce(&mut self, path: PathId, tsn: Tsn) -> bool {
        self.sources.ecn.on_ce(path, tsn)
    }

    /// A CWR came by a path.
    pub(crate) fn on_cwr(&mut self, path: PathId, cwr: &Cwr) {
        self.sources.ecn.on_cwr(path, cwr);
    }

    /// An ECNE came: the window of the path that the marked packet took is reduced, at most once for what was outstanding. Answers the
    /// CWR, if one is to leave, and the path that it takes: the same, by which a receiver may tell what is answered. A report of what was
    /// never sent is not answered.
    pub(crate) fn on_ecne(&mut self, cx: &mut Cx<'_>, ecne: &Ecne) -> Option<(PathId, Cwr)> {
        cx.counters.ecnes_received += 1;
        let next = self.outstanding.next_index();
        let tsn = extend_tsn(ecne.tsn, next);
        if tsn >= next {
            return None;
        }
        let marks = self.sources.ecn.on_marks(tsn, ecne.marked.unwrap_or(1));
        let reduced = marks.is_some_and(|marks| self.apply_marks(cx, marks));
        let is_active = |path: &PathId| cx.paths.path(*path).state == PathState::Active;
        let by = marks.map(|marks| marks.path).filter(is_active);
        let to = by.unwrap_or_else(|| cx.paths.answer_path());
        let round_trip = cx.paths.path(to).rtt.smoothed_or_rto();
        if !self.sources.ecn.answers(to, reduced, cx.now, round_trip) {
            return None;
        }
        let cwr = Cwr {
            tsn: ecne.tsn,
            overrides: by.is_none(),
            same_window: !reduced,
        };
        Some((to, cwr))
    }

    /// Tells the controller of a path what the peer reported; answers whether the window is reduced.
    fn apply_marks(&mut self, cx: &mut Cx<'_>, marks: Marks) -> bool {
        let Marks {
            path: id,
            news,
            reduces,
        } = marks;
        let reduces = reduces && self.outstanding.on_marked(id, cx.paths);
        if news == 0 && !reduces {
            return false;
        }
        if reduces {
            self.sources
                .ecn
                .on_reduced(id, self.outstanding.next_index(), true);
        }
        let coupling = cx.paths.coupling(id);
        let path = cx.paths.path_mut(id);
        path.control.on_report(&Report {
            prior_flight: path.flight.bytes(),
            marked: news,
            reduction: reduces.then_some(Reduction::Ecn),
            recovering: !reduces && self.outstanding.is_recovering(id),
            application_limited: !self.wait.is_for_network(),
            smoothed_rtt: path.rtt.smoothed(),
            min_rtt: path.rtt.min(),
            coupling,
            ..Report::of_nothing(cx.now)
        });
        reduces
    }

    /// Readings of a path.
    pub(crate) fn ecn_stats(&self, path: PathId) -> EcnPathStats {
        self.sources.ecn.stats(path)
    }
}
