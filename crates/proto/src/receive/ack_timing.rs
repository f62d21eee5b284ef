//! When an acknowledgement is due (RFC 9260 §5.1, §6.2, §6.7).

use core::time::Duration;

use crate::config::SackConfig;
use crate::time::Timestamp;

/// How soon to acknowledge a packet. If a packet has several chunks, the most urgent one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// After some packets or some time (§6.2).
    Usual,
    /// The packet leaves a gap or closed one: acknowledge at once (§6.7). If the sender uses several paths at once, packets are reordered
    /// without loss, and this urgency has no effect (draft-tuexen-tsvwg-sctp-multipath §3.3).
    Gap,
    /// At once: the first DATA of the association (§5.1), a duplicate, a dropped chunk, a closed receive window, the I bit
    /// (RFC 7053).
    AtOnce,
}

/// Whether and when to send an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is nothing to acknowledge.
    Idle,
    /// An acknowledgement is due at this time; before, it may be bundled with data.
    Delayed(Timestamp),
    Due,
}

/// Counts packets, and keeps the delay timer.
#[derive(Debug)]
pub(super) struct AckTiming {
    delay: Duration,
    frequency: u32,
    /// Packets with DATA since the last acknowledgement.
    packets: u32,
    state: State,
    /// Urgency of the packet that is being handled.
    urgency: Urgency,
    /// The sender of the last packet used several paths at once.
    several_paths: bool,
}

impl AckTiming {
    pub(super) fn new(config: &SackConfig) -> Self {
        Self {
            delay: config.delay,
            frequency: config.frequency,
            packets: 0,
            state: State::Idle,
            urgency: Urgency::AtOnce,
            several_paths: false,
        }
    }

    /// Delays the next acknowledgements for at most this time.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// A chunk of the packet that is being handled requires this urgency.
    pub(super) fn note(&mut self, urgency: Urgency) {
        self.urgency = self.urgency.max(urgency);
    }

    /// Called after the last chunk of a packet with DATA.
    pub(super) fn on_packet(&mut self, now: Timestamp, several_paths: bool) {
        self.packets += 1;
        self.several_paths = several_paths;
        let at_once = match core::mem::replace(&mut self.urgency, Urgency::Usual) {
            Urgency::Usual => false,
            Urgency::Gap => !several_paths,
            Urgency::AtOnce => true,
        };
        if at_once || self.packets >= self.frequency {
            self.state = State::Due;
        } else if self.state == State::Idle {
            self.state = State::Delayed(now + self.delay);
        }
    }

    /// Number of packets since the last acknowledgement, if acknowledgements report it; otherwise 0.
    pub(super) fn packets_answered(&self) -> u8 {
        if self.several_paths {
            self.packets.min(255) as u8
        } else {
            0
        }
    }

    pub(super) fn force(&mut self) {
        self.state = State::Due;
    }

    pub(super) fn is_due(&self) -> bool {
        self.state == State::Due
    }

    pub(super) fn is_pending(&self) -> bool {
        self.state != State::Idle
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match self.state {
            State::Delayed(deadline) => Some(deadline),
            State::Idle | State::Due => None,
        }
    }

    pub(super) fn on_timer(&mut self, now: Timestamp) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.state = State::Due;
        }
    }

    /// An acknowledgement leaves.
    pub(super) fn on_sent(&mut self) {
        self.packets = 0;
        self.state = State::Idle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing() -> AckTiming {
        let mut timing = AckTiming::new(&SackConfig {
            delay: Duration::from_millis(200),
            frequency: 2,
        });
        timing.on_packet(Timestamp::ZERO, false);
        assert!(timing.is_due(), "the first of all");
        timing.on_sent();
        timing
    }

    #[test]
    fn every_second_packet_or_after_the_delay() {
        let mut timing = timing();
        timing.on_packet(Timestamp::from_millis(10), false);
        assert!(!timing.is_due() && timing.is_pending());
        assert_eq!(timing.deadline(), Some(Timestamp::from_millis(210)));
        timing.on_timer(Timestamp::from_millis(209));
        assert!(!timing.is_due());
        timing.on_timer(Timestamp::from_millis(210));
        assert!(timing.is_due());
        timing.on_sent();
        timing.on_packet(Timestamp::from_millis(300), false);
        timing.on_packet(Timestamp::from_millis(310), false);
        assert!(timing.is_due() && timing.deadline().is_none());
    }

    #[test]
    fn at_once_when_the_sender_waits_for_news() {
        let mut timing = timing();
        timing.note(Urgency::AtOnce);
        timing.on_packet(Timestamp::ZERO, false);
        assert!(timing.is_due());
    }

    #[test]
    fn a_gap_is_urgent_unless_packets_come_by_several_paths() {
        let mut timing = timing();
        timing.note(Urgency::Gap);
        timing.on_packet(Timestamp::ZERO, true);
        assert!(!timing.is_due());
        assert_eq!(timing.packets_answered(), 1);
        timing.on_sent();
        timing.note(Urgency::AtOnce);
        timing.note(Urgency::Gap);
        timing.on_packet(Timestamp::ZERO, true);
        assert!(timing.is_due(), "a gap does not make the packet less urgent");
        timing.on_sent();
        timing.note(Urgency::Gap);
        timing.on_packet(Timestamp::ZERO, false);
        assert!(timing.is_due());
        assert_eq!(timing.packets_answered(), 0);
        timing.on_sent();
        timing.on_packet(Timestamp::ZERO, false);
        assert!(!timing.is_due(), "the urgency was that of the packet before");
    }
}
