//! The timers of loss detection of one path: T3-rtx (RFC 9260 §6.3.2) and the probe timeout (RFC 8985 §7.2). And what may leave because of
//! them whatever the congestion window is.

use core::time::Duration;

use super::Rtt;
use crate::time::Timestamp;

/// The longest time for which a receiver is expected to delay an acknowledgement. RFC 9260 §6.2 allows 500 ms; the RFC and
/// implementations use 200 ms.
const MOST_ACK_DELAY: Duration = Duration::from_millis(200);

/// The shortest probe timeout. With a shorter one the peer's own timers would decide.
const LEAST_PROBE_TIMEOUT: Duration = Duration::from_millis(5);

/// The most packets that may be lost together at the end of a burst. If more packets are unanswered, a path has rather failed.
const LONGEST_TAIL: usize = 3;

/// The data whose fate a probe finds out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    /// The bytes in flight, without a probe.
    pub(super) flight: usize,
    /// The bytes of a full packet.
    pub(super) packet: usize,
    /// The association has no other path.
    pub(super) alone: bool,
}

impl Unanswered {
    /// Whether T3-rtx can wait for a probe: only a tail may be lost, or no other path can take the data.
    fn can_wait(self) -> bool {
        self.alone || self.flight <= LONGEST_TAIL * self.packet
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LossTimers {
    /// When T3-rtx expires, while it runs (§6.3.2).
    t3: Option<Timestamp>,
    /// T3-rtx expirations since data was last acknowledged on this path. A HEARTBEAT ACK does not reset this counter.
    pub(crate) silent_timeouts: u32,
    /// After T3-rtx: at most one packet in flight until data is acknowledged (§7.2.1).
    pub(crate) single_packet: bool,
    /// The next packet of retransmissions leaves whatever the congestion window and the pacer, after fast retransmit (§7.2.4 step 3) or T3-rtx
    /// (§6.3.3 E3).
    pub(crate) retransmit_now: bool,
    /// The next packet with data leaves whatever the congestion window, as a tail loss probe (RFC 8985 §7.3).
    pub(crate) probe_now: bool,
    /// The probe timeout has expired since data was last acknowledged: the next timer to expire is T3-rtx.
    probed: bool,
    /// When data was last sent, or T3-rtx expired: the probe timeout counts from here.
    probe_from: Timestamp,
    /// When data was last newly acknowledged.
    answered_at: Timestamp,
    /// The peer seems to delay the acknowledgement of a single packet, although the packet has the I bit.
    acks_late: bool,
    /// The last packet with data left while nothing else was in flight.
    lone: bool,
}

impl LossTimers {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            t3: None,
            silent_timeouts: 0,
            single_packet: false,
            retransmit_now: false,
            probe_now: false,
            probed: false,
            probe_from: now,
            answered_at: now,
            acks_late: false,
            lone: false,
        }
    }

    /// When T3-rtx expires, while it runs.
    pub(crate) fn t3(&self) -> Option<Timestamp> {
        self.t3
    }

    /// Starts or restarts T3-rtx.
    pub(super) fn start_t3(&mut self, now: Timestamp, rtt: &Rtt) {
        self.t3 = Some(now + rtt.rto());
    }

    /// T3-rtx runs at least until one RTO after `sent_at`.
    pub(super) fn extend_t3(&mut self, sent_at: Timestamp, rtt: &Rtt) {
        self.t3 = self.t3.map(|t3| t3.max(sent_at + rtt.rto()));
    }

    pub(crate) fn stop_t3(&mut self) {
        self.t3 = None;
    }

    /// Whether T3-rtx has expired; it is stopped then.
    pub(crate) fn take_expired(&mut self, now: Timestamp) -> bool {
        self.t3.take_if(|due| *due <= now).is_some()
    }

    /// The path is removed: no timer runs, and nothing leaves.
    pub(super) fn stop(&mut self) {
        self.t3 = None;
        (self.probe_now, self.retransmit_now) = (false, false);
    }

    /// T3-rtx runs exactly while data is in flight (§6.3.2 R1, R2), or until a probe has left: a probe may take the last chunk out of the
    /// flight, and T3-rtx keeps running then.
    #[inline]
    pub(super) fn settle(&mut self, in_flight: bool) {
        if !in_flight && !self.probe_now {
            self.t3 = None;
        }
        debug_assert!(!in_flight || self.t3.is_some());
    }

    /// When a tail loss probe is due (RFC 8985 §7.2): two RTTs after the last data was sent, and one RTT after the last acknowledgement
    /// (RFC 8985 waits two RTTs after that too). `None` before an RTT was measured, and if the next timer is T3-rtx. If T3-rtx would expire
    /// sooner, the only path of an association is probed then, and T3-rtx waits (RFC 8985 §7.2). With other paths T3-rtx expires, because
    /// data would otherwise leave a failed path one RTO later; also if more than a tail of packets is unanswered, and T3-rtx would expire before
    /// the answer to the probe.
    pub(super) fn probe_timeout(&self, rtt: &Rtt, unanswered: Unanswered) -> Option<Timestamp> {
        let smoothed = rtt.smoothed()?;
        let mut wait = (smoothed * 2).max(LEAST_PROBE_TIMEOUT);
        if unanswered.flight <= unanswered.packet {
            wait += self.ack_delay();
        }
        let due = (self.probe_from + wait).max(self.answered_at + smoothed);
        let t3 = self.t3.filter(|_| !self.probed)?;
        let spare = smoothed * u32::from(!unanswered.can_wait());
        (unanswered.alone || due + spare < t3).then_some(due.min(t3))
    }

    /// How long the peer may delay the acknowledgement of a packet, as far as is known.
    fn ack_delay(&self) -> Duration {
        if self.acks_late {
            MOST_ACK_DELAY
        } else {
            Duration::ZERO
        }
    }

    /// A probe was sent. T3-rtx keeps running, as when other data is sent (RFC 9260 §6.3.2 R1), but expires no sooner than the probe can be
    /// acknowledged. RFC 8985 §7.3 restarts the timer, so that data would leave a failed path later than without probes. If there are other
    /// paths, and more than a tail is unanswered, T3-rtx does not even wait for the probe.
    pub(super) fn wait_for_probe(&mut self, now: Timestamp, rtt: &Rtt, unanswered: Unanswered) {
        if unanswered.can_wait() {
            let answered = now + rtt.unbounded_rto() + self.ack_delay();
            self.t3 = self.t3.map(|t3| t3.max(answered));
        }
    }

    /// The probe timeout expired.
    pub(super) fn on_probe_timeout(&mut self, now: Timestamp, rtt: &Rtt, unanswered: Unanswered) {
        self.probed = true;
        self.wait_for_probe(now, rtt, unanswered);
    }

    /// Data was sent. Returns whether T3-rtx has to start.
    pub(super) fn on_sent(&mut self, now: Timestamp) -> bool {
        self.probe_from = now;
        self.t3.is_none()
    }

    /// A packet with data is complete; `lone` if nothing else is in flight.
    pub(super) fn on_packet_sent(&mut self, lone: bool) {
        self.lone = lone;
    }

    /// T3-rtx expired, or an error of the path counts as its expiry: probes may leave again.
    pub(super) fn on_expired(&mut self) {
        self.silent_timeouts += 1;
        (self.probed, self.probe_now) = (false, false);
    }

    /// T3-rtx expired, and data stays in flight (F-RTO): restarts the timers.
    pub(super) fn restart(&mut self, now: Timestamp, rtt: &Rtt) {
        self.probe_from = now;
        self.start_t3(now, rtt);
    }

    /// Data was newly acknowledged, or its receiver skipped it; `probe_spurious` if a probe was spurious.
    pub(super) fn on_answered(&mut self, now: Timestamp, rtt: &Rtt, probe_spurious: bool) {
        let took = now.saturating_duration_since(self.probe_from);
        let soon = rtt.smoothed().is_some_and(|rtt| took < rtt * 2);
        if self.lone && !self.probed && soon {
            // The acknowledgement that seemed to be delayed was lost.
            self.acks_late = false;
        }
        self.answered_at = now;
        self.probe_now = false;
        self.probed = false;
        self.acks_late |= probe_spurious;
    }
}
