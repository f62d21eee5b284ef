//! The timers of RACK-TLP (RFC 8985): the reordering timer, and the probe timeout, which sends something after a burst whose
//! acknowledgement is missing. T3-rtx is in `timeout`.

use core::time::Duration;

use super::{Cx, Sender};
use crate::path::{PathId, Paths};
use crate::time::Timestamp;

/// The time between two looks at the probe timeouts.
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
        // What kept a probe back may be gone only after its time.
        let due = timeout.max(self.loss_timers_ran + SHORTEST_WAIT);
        self.outstanding.may_probe(path).then_some(due)
    }

    /// The time may have come for one of these timers.
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

    /// The probe timeout expired: a lost chunk leaves that waits for the window, else new data if there is any that the peer has room for,
    /// else the newest chunk again (RFC 8985 §7.3); and if that must not be retransmitted, a FORWARD-TSN asks for the acknowledgement.
    fn on_probe_timeout(&mut self, cx: &mut Cx<'_>, id: PathId) {
        cx.counters.tail_loss_probes += 1;
        cx.paths.path_mut(id).on_probe_timeout();
        self.send_probe(cx, id);
    }

    /// A packet leaves whatever the window is, so that its acknowledgement tells what became of those before.
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

    /// A packet with data left on a path: it may have been a probe.
    #[inline]
    pub(super) fn note_probe(&mut self, cx: &mut Cx<'_>, id: PathId) {
        if cx.paths.path(id).probe_now {
            let path = cx.paths.path_mut(id);
            path.probe_now = false;
            path.wait_for_probe(cx.now);
            self.outstanding.on_probe(id, path.flight.next() - 1);
        }
    }

    /// Window reductions that proved spurious are undone.
    pub(super) fn undo_reductions(&mut self, cx: &mut Cx<'_>) {
        while let Some(path) = self.outstanding.take_undone() {
            cx.counters.reductions_undone += 1;
            cx.paths.path_mut(path).on_spurious_reduction(cx.now);
        }
    }
}
