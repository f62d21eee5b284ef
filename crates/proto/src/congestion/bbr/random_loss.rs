//! Owns the share of packets that a path loses whatever its flows do.

use core::time::Duration;

/// Packets of a period, at least. A share of 20 % is then measured within 4 points in two of three periods.
const PACKETS: f64 = 100.0;
/// Round trips of a period, at least: longer than a probe for bandwidth and the reaction to it.
const ROUNDS: u64 = 8;
/// Periods that are remembered.
const PERIODS: usize = 4;
/// The largest share that counts as random. A probe at 1.25 times the rate of a bottleneck without a queue loses 20 % of what random losses
/// leave: with this share, 40 % of all packets, which is what [`super::loss`] tolerates then.
const MOST: f64 = 0.25;
/// There is no queue if the RTT exceeds the least RTT by no more than the least RTT divided by this, and [`NOISE`].
const NEAR_LEAST: u32 = 16;
/// Timers add this much to the RTT in the mean.
const NOISE: Duration = Duration::from_millis(1);

/// The least share of losses in the last periods without a queue.
///
/// A flow that causes losses reacts to them, as do the flows beside it, so that some period has few losses; and a bottleneck that loses
/// packets without a pause has a full queue, so that its periods say nothing of random losses. A share that all periods without a queue
/// have was not caused by the rate of any flow. Where the queue holds less than a sixteenth of the RTT, the losses of many flows that react
/// to none of them look the same.
#[derive(Clone, Debug, Default)]
pub(super) struct RandomLoss {
    /// Bytes lost and bytes delivered in this period.
    lost: f64,
    delivered: f64,
    /// The sum of the RTTs that were measured in this period, and their number.
    rtts: (Duration, u32),
    /// The round in which the period began.
    began: u64,
    shares: [f64; PERIODS],
    oldest: usize,
}

impl RandomLoss {
    /// The share of the packets that are lost at random, from 0 to [`MOST`]; 0 until all periods are known.
    pub(super) fn share(&self) -> f64 {
        self.shares.iter().copied().fold(MOST, f64::min)
    }

    pub(super) fn on_lost(&mut self, bytes: f64) {
        self.lost += bytes;
    }

    pub(super) fn on_delivered(&mut self, bytes: f64, rtt: Option<Duration>) {
        self.delivered += bytes;
        if let Some(rtt) = rtt {
            self.rtts = (self.rtts.0.saturating_add(rtt), self.rtts.1.saturating_add(1));
        }
    }

    /// Ends the period if it is long enough. `packet` is the size of a packet.
    pub(super) fn end_period(&mut self, round: u64, packet: f64, least_rtt: Option<Duration>) {
        let all = self.lost + self.delivered;
        if all < PACKETS * packet || round < self.began + ROUNDS {
            return;
        }
        let empty = |least: Duration| {
            let mean = self.rtts.0.checked_div(self.rtts.1);
            mean.is_some_and(|mean| mean <= without_queue(least))
        };
        if least_rtt.is_some_and(empty) {
            self.shares[self.oldest] = self.lost / all;
            self.oldest = (self.oldest + 1) % PERIODS;
        }
        (self.lost, self.delivered, self.rtts, self.began) = (0.0, 0.0, Default::default(), round);
    }
}

/// The longest RTT that shows no queue.
pub(super) fn without_queue(least_rtt: Duration) -> Duration {
    least_rtt.saturating_add(least_rtt / NEAR_LEAST + NOISE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(40);

    /// Periods of 100 packets, in which `lost` packets are lost and the RTT is `millis`.
    fn periods(of: &mut RandomLoss, round: &mut u64, lost: &[u32], millis: u64) {
        for lost in lost {
            of.on_lost(f64::from(*lost));
            of.on_delivered(f64::from(100 - lost), Some(Duration::from_millis(millis)));
            *round += ROUNDS - 1;
            of.end_period(*round, 1.0, Some(LEAST));
            *round += 1;
            of.end_period(*round, 1.0, Some(LEAST));
        }
    }

    #[test]
    fn the_least_share_of_four_periods() {
        let (mut loss, mut round) = (RandomLoss::default(), 0);
        periods(&mut loss, &mut round, &[18, 22, 20], 41);
        assert_eq!(loss.share(), 0.0, "three periods are too few");
        periods(&mut loss, &mut round, &[21], 41);
        assert_eq!(loss.share(), 0.18);
        periods(&mut loss, &mut round, &[25], 41);
        assert_eq!(loss.share(), 0.2, "the first period is forgotten");
        periods(&mut loss, &mut round, &[0], 41);
        assert_eq!(loss.share(), 0.0, "losses end");
        periods(&mut loss, &mut round, &[60, 60, 60, 60], 41);
        assert_eq!(loss.share(), MOST);
    }

    #[test]
    fn periods_with_a_queue_say_nothing() {
        let (mut loss, mut round) = (RandomLoss::default(), 0);
        periods(&mut loss, &mut round, &[20, 20, 20], 43);
        periods(&mut loss, &mut round, &[20, 0, 20], 44);
        assert_eq!(loss.share(), 0.0, "44 ms is more than 40 + 40 / 16 + 1");
        periods(&mut loss, &mut round, &[19], 43);
        assert_eq!(loss.share(), 0.19);
    }

    #[test]
    fn a_period_has_eight_round_trips_and_a_hundred_packets() {
        let mut loss = RandomLoss::default();
        let mut round = 0;
        loss.on_lost(1000.0);
        loss.on_delivered(3000.0, Some(LEAST));
        for _ in 0..PERIODS {
            loss.end_period(round + ROUNDS - 1, 1.0, Some(LEAST));
        }
        assert_eq!(loss.share(), 0.0);
        for _ in 0..PERIODS {
            round += ROUNDS;
            loss.on_lost(19.0);
            loss.on_delivered(80.0, Some(LEAST));
            loss.end_period(round, 1.0, Some(LEAST));
        }
        assert_eq!(
            loss.share(),
            0.0,
            "99 packets are too few, except in the first period"
        );
    }
}
