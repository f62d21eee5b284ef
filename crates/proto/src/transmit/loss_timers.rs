//! The timers of RACK-TLP (RFC 8985): the reordering timer (§6.3), and the probe timeout (§7.2), after which a tail loss probe leaves.
//! T3-rtx is in `timeout`.

use core::time::Duration;

use super::{Cx, Sender};
use crate::path::{PathId, Paths};
use crate::time::Timestamp;

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
        let path = paths.path(path);
        let timeout = path.probe_timeout()?;
        // The obstacle that delayed a probe may have gone after the probe's time.
        let due = timeout.max(self.loss_timers_ran + SHORTEST_WAIT);
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
            let due = |due: Option<Timestamp>| due.is_some_and(|due| due <= cx.now);
            if due(self.outstanding.reordering_due(path, cx.paths)) {
                self.on_reordering_timer(cx, path);
            } else if due(self.probe_due(cx.paths, path)) {
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

    /// The probe timeout expired (RFC 8985 §7.3). In this order: a lost chunk that waits for the congestion window is retransmitted; new
    /// data is sent if the peer's window allows it; the newest chunk is retransmitted. If that chunk must not be retransmitted, a
    /// FORWARD-TSN requests the acknowledgement.
    fn on_probe_timeout(&mut self, cx: &mut Cx<'_>, id: PathId) {
        cx.counters.tail_loss_probes += 1;
        cx.paths.path_mut(id).on_probe_timeout();
        self.send_probe(cx, id);
    }

    /// Allows one packet whatever the congestion window: its acknowledgement shows the fate of the packets before it.
    pub(super) fn send_probe(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let waits = self.next_retransmission(cx).is_some();
        let left = self.window.left(cx.paths.payload_in_flight());
        let judge = self.judge(cx);
        if !waits && cx.phase.sends_data() && self.next_payload_len(cx).is_some_and(|len| len <= left) {
            cx.paths.path_mut(id).probe_now = true;
        } else if waits || self.outstanding.retransmit_as_probe(id, &judge, cx.paths) {
            if !waits {
                self.sources.ecn.on_withdrawn(id, &cx.paths.path(id).flight);
            }
            let to = match self.outstanding.first_lost() {
                Some(index) => self.retransmission_path(cx, index),
                None => id,
            };
            let path = cx.paths.path_mut(to);
            path.probe_now = true;
            path.retransmit_now = true;
        } else if let Some(newest) = cx.paths.path(id).flight.to_probe() {
            self.abandon_message(cx, newest);
            self.advance_forward_point(cx);
            self.sources.forward.on_timeout(&self.outstanding);
        }
    }

    /// A packet with data was sent on a path: it may have been a probe.
    #[inline]
    pub(super) fn note_probe(&mut self, cx: &mut Cx<'_>, id: PathId) {
        if cx.paths.path(id).probe_now {
            let path = cx.paths.path_mut(id);
            path.probe_now = false;
            path.wait_for_probe(cx.now);
            self.outstanding.on_probe(id, path.flight.next() - 1);
        }
    }

    /// Undoes window reductions that proved spurious.
    pub(super) fn undo_reductions(&mut self, cx: &mut Cx<'_>) {
        while let Some(path) = self.outstanding.take_undone() {
            cx.counters.reductions_undone += 1;
            cx.paths.path_mut(path).on_spurious_reduction(cx.now);
        }
    }
}
