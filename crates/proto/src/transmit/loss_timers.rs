//! The timers of RACK-TLP (RFC 8985): the reordering timer (§6.3), and the probe timeout (§7.2), after which a tail loss probe leaves.
//! T3-rtx is in `timeout`.

use core::time::Duration;

use super::{Cx, Sender};
use crate::association_state::permit;
use crate::path::{PathId, Paths};
use crate::time::Timestamp;
use crate::trace_event::TraceKind;

/// The minimum time between two checks of the probe timeouts.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

impl Sender {
    /// When the next of these timers of a path expires.
    pub(crate) fn loss_timer_due(&self, paths: &Paths, path: PathId) -> Option<Timestamp> {
        if !self.outstanding.uses_rack() {
            return self.time_rule_due(paths, path);
        }
        let reordering = self.outstanding.reordering_due(path, paths);
        reordering.or_else(|| self.probe_due(paths, path))
    }

    /// When a tail loss probe is due on a path (RFC 8985 §7.2).
    fn probe_due(&self, paths: &Paths, path: PathId) -> Option<Timestamp> {
        let alone = paths.has_one_path();
        let path = paths.path(path);
        let timeout = path.probe_timeout(alone)?;
        // The obstacle that delayed a probe may have gone after the probe's time.
        let due = if timeout > self.loss_timers_ran {
            timeout
        } else {
            self.loss_timers_ran + SHORTEST_WAIT
        };
        self.outstanding.may_probe(path).then_some(due)
    }

    /// Called when one of these timers may have expired.
    pub(crate) fn on_loss_timers(&mut self, cx: &mut Cx<'_>) {
        if !self.outstanding.uses_rack() {
            self.on_time_rule_timer(cx);
            return;
        }
        for index in 0..cx.paths.len() {
            let path = PathId(index as u8);
            let reordering = self.outstanding.reordering_due(path, cx.paths);
            if reordering.is_some_and(|due| due <= cx.now) {
                self.on_reordering_timer(cx, path);
            } else if reordering.is_none() && self.probe_due(cx.paths, path).is_some_and(|due| due <= cx.now)
            {
                self.on_probe_timeout(cx, path);
            }
        }
        self.loss_timers_ran = cx.now;
    }

    fn on_reordering_timer(&mut self, cx: &mut Cx<'_>, path: PathId) {
        let mut outcome = core::mem::take(&mut self.outcome);
        outcome.begin(cx.paths.len());
        let judge = self.judge(cx);
        self.outstanding
            .on_reordering_timer(path, &judge, cx.paths, &mut outcome);
        cx.counters.losses_by_time += u64::from(outcome.paths[path.index()].lost);
        self.apply_outcome(cx, &outcome);
        self.after_acknowledgement(cx, &outcome.abandoned);
        self.outcome = outcome;
    }

    /// The probe timeout of a path expired (RFC 8985 §7.3).
    fn on_probe_timeout(&mut self, cx: &mut Cx<'_>, id: PathId) {
        cx.counters.tail_loss_probes += 1;
        let event = TraceKind::ProbeTimeout { path: id };
        self.outstanding.journal.note(|| event);
        let alone = cx.paths.has_one_path();
        cx.paths.path_mut(id).on_probe_timeout(cx.now, alone);
        self.send_probe(cx, id);
    }

    /// Allows one packet whatever the congestion window: its acknowledgement shows the fate of the packets before it. In this order: a lost
    /// chunk that waits for the congestion window is retransmitted; new data is sent if only the congestion window and the pacer hold it
    /// up; the newest chunk that may be retransmitted is. If there is none, a FORWARD-TSN requests the acknowledgement.
    pub(super) fn send_probe(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let judge = self.judge(cx);
        if self.next_retransmission(cx).is_none() {
            if self.new_data_probes(cx, id) {
                return;
            }
            if !self.outstanding.retransmit_as_probe(id, &judge, cx.paths) {
                self.discard_tail(cx, id);
                return;
            }
            self.sources.ecn.on_withdrawn(id, &cx.paths.path(id).flight);
        }
        let to = match self.outstanding.first_lost() {
            Some(index) => self.retransmission_path(cx, index),
            None => id,
        };
        let path = cx.paths.path_mut(to);
        path.timers.probe_now = true;
        path.timers.retransmit_now = true;
    }

    /// Lets new data leave on a path as a probe, if nothing but the congestion window and the pacer holds it up.
    fn new_data_probes(&mut self, cx: &mut Cx<'_>, id: PathId) -> bool {
        cx.paths.path_mut(id).timers.probe_now = true;
        let turn = cx.state.may(permit::SEND_DATA).then(|| self.new_turn(cx));
        let probes = turn.is_some_and(|turn| turn.is_ok_and(|turn| turn.path == id));
        cx.paths.path_mut(id).timers.probe_now = probes;
        probes
    }

    /// No chunk in flight on a path may be retransmitted: they are declared lost, and a FORWARD-TSN passes them.
    fn discard_tail(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let mut outcome = core::mem::take(&mut self.outcome);
        outcome.begin(cx.paths.len());
        let judge = self.judge(cx);
        self.outstanding.discard_tail(id, &judge, cx.paths, &mut outcome);
        self.apply_outcome(cx, &outcome);
        self.after_acknowledgement(cx, &outcome.abandoned);
        self.sources.forward.on_timeout(&self.outstanding);
        self.outcome = outcome;
    }

    /// A packet was sent on a path: if it has data, it may have been a probe.
    #[inline]
    pub(super) fn note_probe(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let path = cx.paths.path(id);
        if path.timers.probe_now && path.flight.bytes_of_packet() > 0 {
            let alone = cx.paths.has_one_path();
            let path = cx.paths.path_mut(id);
            path.timers.probe_now = false;
            path.on_probe_sent(cx.now, alone);
            self.outstanding.on_probe(path);
        }
    }

    /// Undoes window reductions that proved spurious.
    pub(super) fn undo_reductions(&mut self, cx: &mut Cx<'_>) {
        while let Some(path) = self.outstanding.take_undone() {
            cx.counters.reductions_undone += 1;
            self.outstanding
                .journal
                .note(|| TraceKind::ReductionUndone { path });
            cx.paths.path_mut(path).on_spurious_reduction(cx.now);
        }
    }
}
