//! Abandoning messages (RFC 3758 §3.5): when the sender applies the abandon policy, `Advanced.Peer.Ack.Point`, and the timer of
//! FORWARD-TSN.

use anabranch_wire::StreamId;

use super::{Cx, Sender};
use crate::config::Config;
use crate::event::Undelivered;
use crate::message::{AbandonPolicy, Persistence, UnsentMessage};
use crate::path::PathId;
use crate::recovery::Judge;
use crate::time::Timestamp;
use crate::trace_event::{AbandonReason, TraceKind};

impl Sender {
    pub(super) fn judge(&self, cx: &Cx<'_>) -> Judge {
        Judge {
            policy: self.policy,
            now: cx.now,
        }
    }

    /// When the next queued message expires: the first moment after its lifetime.
    pub(super) fn expiry(&self, config: &Config) -> Option<Timestamp> {
        let deadline = self.queue.next_deadline();
        deadline
            .filter(|_| config.partial_reliability.discard_unsent)
            .map(|deadline| Timestamp(deadline.0 + 1))
    }

    /// Whether a queued message is abandoned although a part of it was sent: the peer must learn of it.
    fn drops_half_sent(&self) -> bool {
        !matches!(self.policy, AbandonPolicy::Never)
    }

    /// Abandons the queued messages whose lifetime is over.
    pub(crate) fn drop_expired(&mut self, cx: &mut Cx<'_>) {
        if self.expiry(cx.config).is_none_or(|expiry| expiry > cx.now) {
            return;
        }
        while let Some(unsent) = self.queue.take_expired(cx.now, self.drops_half_sent()) {
            self.on_dropped(cx, unsent, AbandonReason::Lifetime);
        }
    }

    /// Abandons the messages at the head of the queue that cannot arrive within their lifetime.
    pub(super) fn drop_hopeless(&mut self, cx: &mut Cx<'_>) {
        if !cx.config.partial_reliability.discard_hopeless {
            return;
        }
        while let Some(head) = self.queue.head() {
            let Persistence::Until(deadline) = head.persistence else {
                return;
            };
            let arrives = match self.only_path(cx) {
                Some(path) => cx.paths.path(path).arrival(cx.now, head.bytes),
                None => cx.paths.arrival(cx.now, head.bytes),
            };
            if arrives.is_none_or(|at| at <= deadline) || (head.begun && !self.drops_half_sent()) {
                return;
            }
            if let Some(unsent) = self.queue.drop_message(head.stream, head.message) {
                self.on_dropped(cx, unsent, AbandonReason::Hopeless);
            }
        }
    }

    /// Frees send buffer for a message by abandoning less important ones.
    pub(super) fn make_room(
        &mut self,
        cx: &mut Cx<'_>,
        stream: StreamId,
        len: usize,
        persistence: Persistence,
    ) -> bool {
        let class = self.queue.class(stream);
        let shortage = |own| self.buffer.shortage(stream, class, len, own);
        let shortages = [shortage(true), shortage(false)];
        for unsent in self.queue.make_room(shortages, stream, persistence) {
            self.on_dropped(cx, unsent, AbandonReason::Priority);
        }
        self.count_items();
        self.has_room(stream, len)
    }

    /// A message was removed from the queue. If a part of it was sent, its rest takes one TSN that is never sent, so that the next message
    /// does not follow a middle fragment.
    fn on_dropped(&mut self, cx: &mut Cx<'_>, unsent: UnsentMessage, reason: AbandonReason) {
        self.buffer.free(unsent.stream, unsent.size);
        if unsent.begun {
            self.outstanding.abandon_open(unsent.stream, unsent.message);
            let path = cx.paths.data_path();
            self.outstanding
                .push_abandoned(self.queue.end_of(unsent), path, cx.now);
        }
        self.tell_abandoned(cx, unsent.undelivered(), reason);
    }

    fn tell_abandoned(&mut self, cx: &mut Cx<'_>, undelivered: Undelivered, reason: AbandonReason) {
        let event = TraceKind::MessageAbandoned {
            message: undelivered.message,
            stream: undelivered.stream,
            sent: undelivered.sent,
            reason,
        };
        self.outstanding.journal.note(|| event);
        if undelivered.sent {
            cx.counters.abandoned_sent += 1;
        } else {
            cx.counters.abandoned_unsent += 1;
        }
        self.confirmations.forget(undelivered.message);
        self.happened.abandoned.push(undelivered);
    }

    /// Abandons the whole message of a chunk that was sent, its unsent rest included (RFC 3758 §3.5 A3).
    pub(super) fn abandon_message(&mut self, cx: &mut Cx<'_>, index: u64) {
        let fragment = &self.outstanding.chunk(index).fragment;
        if fragment.repair {
            self.outstanding.abandon(index);
            return;
        }
        let undelivered = fragment.undelivered();
        let reason = match fragment.persistence {
            Persistence::Retransmissions(_) => AbandonReason::Retransmissions,
            _ => AbandonReason::Lifetime,
        };
        let Some(abandoned) = self.outstanding.abandon(index) else {
            return;
        };
        let rest =
            (!abandoned.complete).then(|| self.queue.drop_message(undelivered.stream, abandoned.message));
        if let Some(unsent) = rest.flatten() {
            self.buffer.free(unsent.stream, unsent.size);
            let path = self.outstanding.chunk(index).path;
            self.outstanding
                .push_abandoned(self.queue.end_of(unsent), path, cx.now);
        }
        self.tell_abandoned(cx, undelivered, reason);
    }

    /// The earliest chunk to be retransmitted. Messages whose lost chunks must not be retransmitted any more are abandoned first.
    pub(super) fn next_retransmission(&mut self, cx: &mut Cx<'_>) -> Option<u64> {
        let judge = self.judge(cx);
        loop {
            let index = self.outstanding.first_lost()?;
            if !judge.abandons(self.outstanding.chunk(index)) {
                return Some(index);
            }
            self.abandon_message(cx, index);
        }
    }

    /// Called after an acknowledgement was handled that made the sender abandon the chunks `abandoned`.
    pub(super) fn after_acknowledgement(&mut self, cx: &mut Cx<'_>, abandoned: &[u64]) {
        for index in abandoned {
            self.abandon_message(cx, *index);
        }
        if !self.outstanding.has_abandoned() {
            return;
        }
        let srtt = cx.paths.path(cx.paths.data_path()).rtt.smoothed();
        let wait = srtt.filter(|_| cx.config.recovery.forward_waits);
        self.sources
            .forward
            .on_ack(cx.now, wait.unwrap_or_default(), &self.outstanding);
        self.sources.extended.on_ack(cx.now, wait.unwrap_or_default());
        self.keep_timer(cx);
    }

    /// Moves `Advanced.Peer.Ack.Point` (§3.5 C2). Called before each packet, after lost chunks that must not be retransmitted were abandoned:
    /// chunks leave the flight for many reasons, so no other step needs to think of the point.
    #[inline]
    pub(super) fn advance_forward_point(&mut self) {
        if self.outstanding.has_abandoned() {
            self.sources.forward.advance(&self.outstanding);
        }
    }

    /// While the receiver has not acknowledged `Advanced.Peer.Ack.Point`, a timer runs (§3.5 C5).
    pub(super) fn keep_timer(&mut self, cx: &mut Cx<'_>) {
        let at = cx.now + cx.paths.path(cx.paths.data_path()).rtt.rto();
        let t3_runs = cx.paths.t3_runs();
        self.sources.forward.keep_timer(at, t3_runs, &self.outstanding);
    }

    /// Returns the path that did not answer if the timer of a FORWARD-TSN has expired. No data was lost, so no window is reduced. The error
    /// counter of the path is incremented as for any chunk that is not answered (RFC 9260 §8.2).
    pub(crate) fn on_forward_timer(&mut self, cx: &mut Cx<'_>) -> Option<PathId> {
        let due = self.sources.forward.timer(&self.outstanding)?;
        if due > cx.now {
            return None;
        }
        let silent = !cx.paths.t3_runs();
        let path = cx.paths.data_path();
        if silent {
            self.sources.forward.on_timeout(&self.outstanding);
            cx.paths.path_mut(path).rtt.back_off();
        }
        self.keep_timer(cx);
        silent.then_some(path)
    }
}
