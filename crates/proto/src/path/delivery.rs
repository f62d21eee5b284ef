//! Counts of the data that a path carried, and the measured delivery rate and loss, from which path schedulers estimate when a packet would arrive
//! (draft-tuexen-tsvwg-sctp-multipath).

use core::time::Duration;

use crate::time::Timestamp;

/// The number of round trips whose rates are kept.
const ROUNDS: usize = 8;

/// Delivery rates and loss of a path, measured by acknowledgements.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// When DATA last left, and whether the idle decay of §7.2.1 has begun since.
    pub(super) idle: Idle,
    pub(crate) timeouts: u64,
    pub(crate) fast_recoveries: u64,
    pub(super) data_bytes_sent: u64,
    pub(super) copy_bytes_sent: u64,
    pub(super) data_bytes_received: u64,
    /// Bytes acknowledged since this measurement began.
    acked: usize,
    begun: Option<Timestamp>,
    /// The rates of the last measurements, in bytes per second.
    rates: [f64; ROUNDS],
    round: usize,
    sent: u64,
    retransmitted: u64,
    lost: u64,
}

/// The time since which a path has carried no DATA (§7.2.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) since: Timestamp,
    pub(super) decayed: bool,
}

impl Delivery {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            idle: Idle {
                since: now,
                decayed: false,
            },
            timeouts: 0,
            fast_recoveries: 0,
            data_bytes_sent: 0,
            copy_bytes_sent: 0,
            data_bytes_received: 0,
            acked: 0,
            begun: None,
            rates: [0.0; ROUNDS],
            round: 0,
            sent: 0,
            retransmitted: 0,
            lost: 0,
        }
    }

    /// The same counts and rates on another route, which has carried nothing since `now`.
    pub(super) fn moved(&self, now: Timestamp) -> Self {
        Self {
            idle: Self::new(now).idle,
            ..self.clone()
        }
    }

    /// A DATA chunk left with this many bytes of user data.
    pub(super) fn on_sent(&mut self, now: Timestamp, payload: usize) {
        self.idle = Idle {
            since: now,
            decayed: false,
        };
        self.sent += 1;
        self.data_bytes_sent += payload as u64;
    }

    /// An early copy left with this many bytes of user data.
    pub(crate) fn on_copied(&mut self, payload: usize) {
        self.copy_bytes_sent += payload as u64;
    }

    /// A DATA chunk arrived with this many bytes of user data.
    pub(crate) fn on_received(&mut self, payload: usize) {
        self.data_bytes_received += payload as u64;
    }

    /// One of the chunks that were sent is a retransmission.
    pub(crate) fn on_retransmission(&mut self) {
        self.retransmitted += 1;
    }

    pub(crate) fn on_lost(&mut self, chunks: u32) {
        self.lost += u64::from(chunks);
    }

    /// Bytes were acknowledged; `round_trip` is the length of a measurement. `idle`: nothing is in flight any more, and the next
    /// measurement begins with the next packet.
    pub(crate) fn on_acked(&mut self, now: Timestamp, bytes: usize, round_trip: Duration, idle: bool) {
        self.acked += bytes;
        let begun = *self.begun.get_or_insert(now);
        let elapsed = now.saturating_duration_since(begun);
        if elapsed >= round_trip.max(Duration::from_millis(1)) {
            self.rates[self.round % ROUNDS] = self.acked as f64 / elapsed.as_secs_f64();
            self.round += 1;
            self.acked = 0;
            self.begun = Some(now);
        }
        if idle {
            self.acked = 0;
            self.begun = None;
        }
    }

    /// The highest of the last rates in bytes per second, once measured.
    pub(crate) fn rate(&self) -> Option<f64> {
        let highest = self.rates.iter().copied().fold(0.0, f64::max);
        (highest > 0.0).then_some(highest)
    }

    /// DATA chunks sent, retransmissions included; the retransmissions among them; those declared lost.
    pub(crate) fn chunks(&self) -> (u64, u64, u64) {
        (self.sent, self.retransmitted, self.lost)
    }

    /// The share of the chunks sent that was lost.
    pub(crate) fn loss(&self) -> f64 {
        // As if a hundred more had been sent with a loss of one in a thousand: a path that was hardly used is neither the best nor the
        // worst.
        (self.lost as f64 + 0.1) / (self.sent as f64 + 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_of_the_last_rounds() {
        let mut delivery = Delivery::new(Timestamp::ZERO);
        let trip = Duration::from_millis(100);
        assert_eq!(delivery.rate(), None);
        for step in 0..=10 {
            delivery.on_acked(Timestamp::from_millis(10 * step), 1000, trip, false);
        }
        assert_eq!(delivery.rate(), Some(110_000.0));
        for step in 11..=200 {
            delivery.on_acked(Timestamp::from_millis(10 * step), 500, trip, false);
        }
        assert_eq!(delivery.rate(), Some(50_000.0));
    }

    #[test]
    fn a_path_without_history_is_in_the_middle() {
        let (fresh, mut good, mut bad) = (
            Delivery::new(Timestamp::ZERO),
            Delivery::new(Timestamp::ZERO),
            Delivery::new(Timestamp::ZERO),
        );
        for _ in 0..1000 {
            good.on_sent(Timestamp::ZERO, 0);
            bad.on_sent(Timestamp::ZERO, 0);
        }
        bad.on_lost(50);
        assert!(good.loss() < fresh.loss() && fresh.loss() < bad.loss());
    }
}
