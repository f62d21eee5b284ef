//! Expiry of T3-rtx (RFC 9260 §6.3.3 E1 to E3; window: §7.2.3).

use super::{Cx, Sender};
use crate::association_state::permit;
use crate::controller::{Controller, Reduction, Report};
use crate::path::{Candidate, PathId, Paths, SendNo, Sending};
use crate::trace_event::{LossRule, TraceKind};

impl Sender {
    /// T3-rtx expired for a path: everything in flight there is lost. Returns whether the peer, and not the network, dropped it because its
    /// window is closed (§6.1 A): then no error of the path is counted.
    pub(crate) fn on_t3(&mut self, cx: &mut Cx<'_>, id: PathId) -> bool {
        cx.counters.timeouts += 1;
        let dropped = self.window.dropped_probe(cx.paths.payload_in_flight());
        self.window.on_timeout();
        let coupling = cx.paths.coupling(id);
        let path = cx.paths.path_mut(id);
        path.on_t3();
        // Data sent with a COOKIE ECHO was lost with it: T1-cookie backs off for both.
        if !cx.state.may(permit::SET_UP) {
            path.rtt.back_off();
        }
        let prior_flight = path.flight.bytes();
        let open = path.flight.range(path.flight.earliest());
        let open: Vec<_> = open
            .filter(|(_, sending)| path.rate.is_some() && sending.is_open())
            .map(|(no, sending)| (no, self.outstanding.chunk(sending.tsn).fragment.wire_len()))
            .collect();
        // F-RTO (RFC 5682): the first timeout may be spurious, so only one chunk is declared lost. If data leaves the path now, all chunks
        // in flight there are declared lost.
        let first = path.timers.silent_timeouts == 1 && self.outstanding.uses_rack();
        let waits = first && !dropped && !cx.paths.leave_after_error(id, &cx.config.retransmissions);
        let lost = if waits {
            let judge = self.judge(cx);
            self.outstanding.on_first_timeout(id, &judge, cx.paths)
        } else {
            self.outstanding.on_timeout(id, LossRule::T3Rtx, cx.paths)
        };
        let path = cx.paths.path_mut(id);
        let rto = path.rtt.rto();
        let event = TraceKind::T3Expired { path: id, lost, rto };
        self.outstanding.journal.note(|| event);
        let lost_bytes = prior_flight - path.flight.bytes();
        if !path.flight.is_empty() {
            // The retransmission may take another path, so the timers restart here.
            path.restart_timers(cx.now);
        }
        path.delivery.on_lost(lost);
        path.gates.recovery = None;
        if !dropped {
            let flight = &path.flight;
            let is_open = |no: SendNo| flight.get(no).is_some_and(Sending::is_open);
            let gone: Vec<_> = open.into_iter().filter(|(no, _)| !is_open(*no)).collect();
            path.on_sendings_lost(cx.now, gone.into_iter());
        }
        if !dropped {
            let next = self.outstanding.next_index();
            self.sources.ecn.on_timeout(id, &path.flight, next);
            path.timers.single_packet = true;
            path.control.on_report(&Report {
                now: cx.now,
                prior_flight,
                acked: 0,
                lost: lost_bytes,
                marked: 0,
                reduction: Some(Reduction::Timeout),
                recovering: false,
                advanced: false,
                all_acked: false,
                application_limited: !self.blocked.is_for_network(),
                smoothed_rtt: path.rtt.smoothed(),
                latest_rtt: None,
                min_rtt: path.rtt.min(),
                sample: None,
                coupling,
            });
        }
        self.sources.forward.on_timeout(&self.outstanding);
        dropped
    }

    /// Called after the error of the path was counted: one packet of retransmissions leaves at once, on whatever path (§6.3.3 E3).
    pub(crate) fn after_t3(&mut self, cx: &mut Cx<'_>, id: PathId, dropped: bool) {
        let black_hole = cx.paths.path_mut(id).on_data_timeout(cx.now, dropped);
        cx.counters.mtu_black_holes += u64::from(black_hole);
        let first = self.outstanding.first_lost();
        let to = match first {
            Some(index) if cx.paths.spreads() => self.retransmission_path(cx, index),
            _ => cx.paths.choose(Candidate::Retransmission {
                last: id,
                timed_out: true,
            }),
        };
        let path = cx.paths.path_mut(to);
        path.decay_when_idle(cx.now);
        path.timers.retransmit_now = first.is_some();
    }

    /// Queues all outstanding chunks for retransmission, without the effects of a loss.
    pub(crate) fn requeue_outstanding(&mut self, cx: &mut Cx<'_>) {
        for index in 0..cx.paths.len() {
            self.withdraw_from(cx.paths, PathId(index as u8));
        }
    }

    /// The addresses of a path change, or it is removed: queues its chunks in flight for retransmission, and forgets the measurements of the
    /// path.
    pub(crate) fn leave_path(&mut self, paths: &mut Paths, id: PathId) {
        self.withdraw_from(paths, id);
        self.outstanding.leave_path(id);
        self.sources.ecn.leave_path(id, self.outstanding.next_index());
    }

    /// Queues the chunks in flight on a path for retransmission, without the effects of a loss.
    fn withdraw_from(&mut self, paths: &mut Paths, id: PathId) {
        self.outstanding.on_timeout(id, LossRule::Withdrawn, paths);
        self.sources.ecn.on_withdrawn(id, &paths.path(id).flight);
        self.sources.notices.forget_path(id);
        paths.path_mut(id).timers.stop_t3();
    }
}
