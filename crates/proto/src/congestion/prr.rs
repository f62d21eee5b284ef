//! Proportional rate reduction (RFC 9937): during recovery the sender sends in proportion to the data that arrives, so that a window
//! reduction is spread over a round trip.

/// One recovery episode on one path; all values in bytes of DATA chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProportionalRateReduction {
    /// Bytes in flight when the episode began (`RecoverFS`).
    recover_flight: usize,
    delivered: usize,
    out: usize,
    /// Bytes that may be in flight.
    window: usize,
}

/// The effects of an acknowledgement during recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecoveryAck {
    /// Bytes delivered for the first time.
    pub(crate) delivered: usize,
    /// Bytes in flight now.
    pub(crate) flight: usize,
    /// The window at the end of recovery (`ssthresh`).
    pub(crate) target: usize,
    /// The cumulative TSN ack point moved, and no further loss was found (`SafeACK`).
    pub(crate) safe: bool,
    /// PMDCS.
    pub(crate) max_data: usize,
}

impl ProportionalRateReduction {
    /// An episode begins with `flight` bytes in flight before the losses were found.
    pub(crate) fn new(flight: usize) -> Self {
        Self {
            recover_flight: flight.max(1),
            delivered: 0,
            out: 0,
            window: 0,
        }
    }

    /// The most bytes in flight until the next acknowledgement.
    pub(crate) fn window(&self) -> usize {
        self.window
    }

    /// A packet of `bytes` left.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.out += bytes;
    }

    /// An acknowledgement, the first of the episode included (RFC 9937 §6).
    pub(crate) fn on_acknowledged(&mut self, ack: &RecoveryAck) {
        self.delivered += ack.delivered;
        let mut send = if ack.flight > ack.target {
            let share = (self.delivered as u128 * ack.target as u128).div_ceil(self.recover_flight as u128);
            usize::try_from(share)
                .unwrap_or(usize::MAX)
                .saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(ack.delivered);
            let limit = limit + if ack.safe { ack.max_data } else { 0 };
            limit.min(ack.target - ack.flight)
        };
        if self.out == 0 {
            // The retransmission that began the episode leaves in any case.
            send = send.max(ack.max_data);
        }
        self.window = ack.flight.saturating_add(send);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1000;

    /// An episode with `flight` packets in flight, of which `lost` are lost at once, and `target` as the window at its end. Returns how
    /// many packets leave for each further acknowledgement of one packet.
    fn episode(flight: usize, lost: usize, target: usize) -> Vec<usize> {
        let mut prr = ProportionalRateReduction::new(flight * PACKET);
        let mut in_flight = (flight - lost) * PACKET;
        let mut left = Vec::new();
        for _ in 0..flight - lost {
            in_flight -= PACKET;
            prr.on_acknowledged(&RecoveryAck {
                delivered: PACKET,
                flight: in_flight,
                target: target * PACKET,
                safe: false,
                max_data: PACKET,
            });
            let mut sent = 0;
            while in_flight < prr.window() {
                prr.on_sent(PACKET);
                in_flight += PACKET;
                sent += 1;
            }
            left.push(sent);
        }
        left
    }

    #[test]
    fn half_as_much_leaves_as_arrives() {
        let left = episode(20, 1, 10);
        let sum: usize = left.iter().sum();
        assert!((9..=11).contains(&sum), "{left:?}");
        assert!(left.iter().all(|sent| *sent <= 1), "{left:?}");
    }

    #[test]
    fn the_first_retransmission_leaves_in_any_case() {
        let mut prr = ProportionalRateReduction::new(20 * PACKET);
        let ack = RecoveryAck {
            delivered: 10,
            flight: 19 * PACKET,
            target: 10 * PACKET,
            safe: false,
            max_data: PACKET,
        };
        prr.on_acknowledged(&ack);
        assert_eq!(prr.window(), 20 * PACKET);
        prr.on_sent(PACKET);
        prr.on_acknowledged(&ack);
        assert_eq!(prr.window(), 19 * PACKET, "once");
    }

    #[test]
    fn after_heavy_losses_as_much_leaves_as_arrives() {
        let left = episode(20, 15, 10);
        assert_eq!(left, [1; 5]);
    }

    #[test]
    fn in_order_progress_makes_up_for_losses() {
        let mut prr = ProportionalRateReduction::new(20 * PACKET);
        prr.on_sent(PACKET);
        let ack = RecoveryAck {
            delivered: PACKET,
            flight: 2 * PACKET,
            target: 10 * PACKET,
            safe: true,
            max_data: PACKET,
        };
        prr.on_acknowledged(&ack);
        assert_eq!(prr.window(), 4 * PACKET);
        prr.on_acknowledged(&RecoveryAck {
            flight: 10 * PACKET,
            ..ack
        });
        assert_eq!(prr.window(), 10 * PACKET, "never beyond the target");
    }
}
