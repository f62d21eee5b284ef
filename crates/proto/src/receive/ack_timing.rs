//! When an acknowledgement is due (RFC 9260 §5.1, §6.2, §6.7).

use core::time::Duration;

use crate::config::SackConfig;
use crate::time::Timestamp;

/// Counts packets, and keeps the delay timer.
#[derive(Debug)]
pub(super) struct AckTiming {
    delay: Duration,
    frequency: u32,
    /// Packets with DATA since the last acknowledgement.
    packets: u32,
    deadline: Option<Timestamp>,
    due: bool,
    /// The first DATA of an association is acknowledged at once (§5.1).
    first: bool,
}

impl AckTiming {
    pub(super) fn new(config: &SackConfig) -> Self {
        Self {
            delay: config.delay,
            frequency: config.frequency,
            packets: 0,
            deadline: None,
            due: false,
            first: true,
        }
    }

    /// A packet with DATA came in; `urgent` if the sender waits for news: a gap, a duplicate, no room, the I bit.
    pub(super) fn on_packet(&mut self, now: Timestamp, urgent: bool) {
        self.packets += 1;
        if urgent || self.first || self.packets >= self.frequency {
            self.due = true;
        } else if self.deadline.is_none() {
            self.deadline = Some(now + self.delay);
        }
        self.first = false;
    }

    /// Packets since the last acknowledgement.
    pub(super) fn packets(&self) -> u8 {
        self.packets.min(255) as u8
    }

    pub(super) fn force(&mut self) {
        self.due = true;
    }

    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    pub(super) fn is_pending(&self) -> bool {
        self.due || self.packets > 0
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.deadline.filter(|_| !self.due)
    }

    pub(super) fn on_timer(&mut self, now: Timestamp) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.due = true;
        }
    }

    /// An acknowledgement leaves.
    pub(super) fn on_sent(&mut self) {
        self.packets = 0;
        self.deadline = None;
        self.due = false;
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
        timing.on_packet(Timestamp::ZERO, true);
        assert!(timing.is_due());
    }
}
