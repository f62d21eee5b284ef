//! ECN at the sender (RFC 3168 §6.1, draft-stewart-tsvwg-sctpecn): which packets are ECN-capable, ECNE with acknowledgements, and the
//! reaction to an ECNE of the peer.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Cwr, Ecne, kind};
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
    /// Whether the packet of a turn is ECN-capable, if CWR is its only control chunk: if all its DATA chunks are sent for the first time
    /// (RFC 3168 §6.1.5) and fit the peer's window (§6.1.6).
    pub(super) fn may_mark(&self, cx: &Cx<'_>, id: PathId, turn: Option<DataTurn>) -> bool {
        let Some(new) = turn.filter(|turn| turn.path == id).and_then(|turn| turn.new) else {
            return false;
        };
        self.sources.ecn.may_mark(id) && new.len <= self.window.left(cx.paths.payload_in_flight())
    }

    /// A packet for `id` is complete; returns whether it is ECN-capable: if it `may` be, and contains data.
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

    /// Adds the ECNEs for marked packets. They leave with every acknowledgement until the peer has answered them with CWR.
    pub(super) fn push_echoes(&self, cx: &mut Cx<'_>, packet: &mut PacketWriter<'_>) {
        for echo in self.sources.ecn.echoes() {
            if packet.room_for(kind::ECNE) >= Ecne::LEN {
                packet.push(&echo);
                cx.counters.ecnes_sent += 1;
            }
        }
    }
}

/// Receiving.
impl Sender {
    /// A marked packet arrived: see [`crate::extension::ecn::Ecn::on_ce`].
    pub(crate) fn on_ce(&mut self, path: PathId, tsn: Tsn) -> bool {
        self.sources.ecn.on_ce(path, tsn)
    }

    /// A CWR arrived on a path.
    pub(crate) fn on_cwr(&mut self, path: PathId, cwr: &Cwr) {
        self.sources.ecn.on_cwr(path, cwr);
    }

    /// An ECNE arrived: the window of the path that the marked packet took is reduced, at most once for the chunks that were outstanding.
    /// Returns the CWR, if one is to be sent, and its path, which is the same path, so that the receiver can tell which ECNE is answered.
    /// An ECNE about a packet that was never sent is not answered.
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

    /// Passes the peer's report to the controller of a path; returns whether the window is reduced.
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
            application_limited: !self.blocked.is_for_network(),
            smoothed_rtt: path.rtt.smoothed(),
            min_rtt: path.rtt.min(),
            coupling,
            ..Report::of_nothing(cx.now)
        });
        reduces
    }

    /// The ECN statistics of a path.
    pub(crate) fn ecn_stats(&self, path: PathId) -> EcnPathStats {
        self.sources.ecn.stats(path)
    }
}
