//! CUBIC (RFC 9438): how the congestion window grows in congestion avoidance, and how far a loss reduces it.
//!
//! The names are those of RFC 9438 §4.1. Here windows are in segments of the maximum segment size, and times in seconds.

use core::time::Duration;

use anabranch_proto::Timestamp;

use super::config::TcpConfig;

/// `C` (§5): segments per second cubed.
const C: f64 = 0.4;
/// Factor by which a loss multiplies the window (β_cubic, §4.6).
const BETA: f64 = 0.7;
/// Additive increase per round-trip time with which the Reno-friendly window equals Reno's on average (α_cubic, §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The largest factor by which the window grows in one round-trip time (§4.2).
const MOST_GROWTH: f64 = 1.5;
/// The smallest slow start threshold in segments (§4.6).
const LEAST_SSTHRESH: f64 = 2.0;

/// A congestion avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Start of the stage, moved later by the times in which the window was not used.
    began: Timestamp,
    /// The time from the start until the cubic function reaches `w_max`.
    k: f64,
    /// The window at which the cubic function has its plateau.
    w_max: f64,
    /// The window that Reno would have.
    w_est: f64,
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) now: Timestamp,
    /// Segments newly acknowledged.
    pub(super) segments: f64,
    /// The smoothed round-trip time.
    pub(super) round_trip: Duration,
    /// Whether growth counts acknowledged segments instead of acknowledgements. The Reno-friendly window always counts segments.
    pub(super) counts_segments: bool,
}

/// The state of a sender's CUBIC.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    fast_convergence: bool,
    /// Whether the Reno-friendly window grows as Reno does once it is above `cwnd_prior`.
    reno_increase: bool,
    /// `W_max` of the latest loss; `None` before the first loss and after a timeout.
    w_max: Option<f64>,
    /// The window before the latest loss or timeout; before any, the window at the end of slow start.
    cwnd_prior: Option<f64>,
    /// `None` until congestion avoidance begins.
    epoch: Option<Epoch>,
    /// When the latest acknowledgement came.
    last_ack: Timestamp,
}

impl Cubic {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            fast_convergence: config.fast_convergence,
            reno_increase: config.reno_increase,
            w_max: None,
            cwnd_prior: None,
            epoch: None,
            last_ack: Timestamp::ZERO,
        }
    }

    /// The new window after an acknowledgement in congestion avoidance, if the window is used.
    pub(super) fn grow(&mut self, cwnd: f64, acked: Acked) -> f64 {
        self.last_ack = acked.now;
        // If no loss ended slow start, there is no earlier window to return to (§4.10).
        let cwnd_prior = *self.cwnd_prior.get_or_insert(cwnd);
        let w_max = self.w_max;
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::begin(acked.now, cwnd, w_max));
        let is_back = epoch.w_est >= cwnd_prior;
        let alpha = if is_back && self.reno_increase { 1.0 } else { ALPHA };
        epoch.w_est += alpha * acked.segments / cwnd;
        let elapsed = acked.now.saturating_duration_since(epoch.began).as_secs_f64();
        if epoch.w_cubic(elapsed) < epoch.w_est {
            return cwnd.max(epoch.w_est);
        }
        let target = epoch
            .w_cubic(elapsed + acked.round_trip.as_secs_f64())
            .clamp(cwnd, MOST_GROWTH * cwnd);
        let weight = if acked.counts_segments {
            acked.segments
        } else {
            1.0
        };
        cwnd + (target - cwnd) / cwnd * weight
    }

    /// An acknowledgement comes, or data is sent, after a time in which the window was not used. That time does not count for the cubic
    /// function (§4.2, §5.8).
    pub(super) fn pause(&mut self, now: Timestamp) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began += now.saturating_duration_since(self.last_ack);
        }
        self.last_ack = now;
    }

    /// Handles a loss with `flight` segments in flight; returns the new slow start threshold.
    pub(super) fn lose(&mut self, cwnd: f64, flight: f64) -> f64 {
        let shrinks = self.w_max.is_some_and(|w_max| cwnd < w_max);
        self.w_max = Some(if shrinks && self.fast_convergence {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        });
        self.cwnd_prior = Some(cwnd);
        self.epoch = None;
        (flight * BETA).max(LEAST_SSTHRESH)
    }

    /// The retransmission timer expired: the next stage has no earlier window to return to (§4.8).
    pub(super) fn time_out(&mut self) {
        self.w_max = None;
        self.epoch = None;
    }

    /// Slow start begins again after an idle time, and a new congestion avoidance stage follows.
    pub(super) fn restart(&mut self) {
        self.epoch = None;
    }
}

impl Epoch {
    fn begin(now: Timestamp, cwnd: f64, w_max: Option<f64>) -> Self {
        let w_max = w_max.map_or(cwnd, |w_max| w_max.max(cwnd));
        Self {
            began: now,
            k: ((w_max - cwnd) / C).cbrt(),
            w_max,
            w_est: cwnd,
        }
    }

    /// `W_cubic(t)` (equation 1).
    fn w_cubic(&self, elapsed: f64) -> f64 {
        C * (elapsed - self.k).powi(3) + self.w_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow whose whole window is acknowledged once in each round-trip time, in equal parts.
    struct Flow {
        cubic: Cubic,
        cwnd: f64,
        /// Seconds.
        now: f64,
        round_trip: f64,
    }

    impl Flow {
        fn new(cwnd: f64, round_trip: f64) -> Self {
            let cubic = Cubic::new(&TcpConfig::default());
            Self {
                cubic,
                cwnd,
                now: 10.0,
                round_trip,
            }
        }

        fn lose(&mut self) {
            self.cwnd = self.cubic.lose(self.cwnd, self.cwnd);
        }

        fn acked(&self, segments: f64) -> Acked {
            Acked {
                now: Timestamp((self.now * 1e9) as u64),
                segments,
                round_trip: Duration::from_secs_f64(self.round_trip),
                counts_segments: true,
            }
        }

        fn run(&mut self, seconds: f64) -> f64 {
            let end = self.now + seconds;
            while self.now < end - 1e-9 {
                // One acknowledgement for each segment, but at most 50.
                let acks = self.cwnd.ceil().min(50.0);
                for _ in 0..acks as u32 {
                    self.now += self.round_trip / acks;
                    self.cwnd = self.cubic.grow(self.cwnd, self.acked(self.cwnd / acks));
                }
            }
            self.cwnd
        }
    }

    fn near(value: f64, expected: f64, margin: f64) -> bool {
        (value - expected).abs() <= margin
    }

    #[test]
    fn the_cubic_function_is_concave_to_w_max_at_k_and_convex_beyond() {
        let epoch = Epoch::begin(Timestamp::ZERO, 70.0, Some(100.0));
        // The cube root of (100 - 70) / 0.4.
        assert!(near(epoch.k, 4.217_163, 1e-6), "{}", epoch.k);
        for (t, window) in [
            (0.0, 70.0),
            (1.0, 86.681),
            (2.0, 95.640),
            (epoch.k, 100.0),
            (6.0, 102.267),
            (2.0 * epoch.k, 130.0),
        ] {
            assert!(near(epoch.w_cubic(t), window, 0.001), "{t}: {}", epoch.w_cubic(t));
        }
    }

    #[test]
    fn a_loss_leaves_seven_tenths_and_the_window_follows_the_function() {
        let mut flow = Flow::new(1000.0, 0.1);
        flow.lose();
        assert!(near(flow.cwnd, 700.0, 1e-9));
        // K is the cube root of 300 / 0.4 = 9.086 s.
        for (at, window) in [(2.0, 857.6), (5.0, 972.7), (9.086, 1000.0), (14.0, 1047.5)] {
            let passed = flow.now - 10.0;
            let cwnd = flow.run(at - passed);
            // The target is one round-trip time ahead, and the window lags behind it by about as much.
            assert!(near(cwnd, window, 9.0), "after {at} s: {cwnd}");
        }
    }

    #[test]
    fn a_loss_below_the_last_w_max_makes_it_smaller_still() {
        let mut flow = Flow::new(100.0, 0.1);
        flow.lose();
        assert_eq!(flow.cubic.w_max, Some(100.0));
        flow.cwnd = 90.0;
        flow.lose();
        assert_eq!(flow.cubic.w_max, Some(90.0 * 0.85));
        // 80 is above 76.5: no other flow has taken bandwidth since.
        flow.cwnd = 80.0;
        flow.lose();
        assert_eq!(flow.cubic.w_max, Some(80.0));
        let mut without = Flow::new(100.0, 0.1);
        without.cubic.fast_convergence = false;
        without.lose();
        without.cwnd = 90.0;
        without.lose();
        assert_eq!(without.cubic.w_max, Some(90.0));
    }

    #[test]
    fn a_small_window_grows_as_renos_would() {
        // 20 segments and 20 ms: the cubic function returns to 20 after 2.47 s, the Reno-friendly window after 0.23 s.
        let mut flow = Flow::new(20.0, 0.02);
        flow.lose();
        assert!(near(flow.cwnd, 14.0, 1e-9));
        let ten_rounds = flow.run(0.2);
        assert!(near(ten_rounds, 14.0 + 10.0 * 9.0 / 17.0, 0.1), "{ten_rounds}");
        // From cwnd_prior on, it grows by one segment per round-trip time.
        flow.run(0.06);
        let before = flow.cwnd;
        assert!(before > 20.0);
        let grown = flow.run(0.2) - before;
        assert!(near(grown, 10.0, 0.2), "{grown}");
        // Unless `reno_increase` is off.
        flow.cubic.reno_increase = false;
        let before = flow.cwnd;
        let grown = flow.run(0.2) - before;
        assert!(near(grown, 10.0 * 9.0 / 17.0, 0.2), "{grown}");
    }

    #[test]
    fn a_round_trip_makes_the_window_half_as_large_again_at_most() {
        let mut flow = Flow::new(1000.0, 1.0);
        flow.lose();
        flow.run(60.0);
        let before = flow.cwnd;
        flow.cwnd = 100.0;
        let grown = flow.cubic.grow(100.0, flow.acked(1.0));
        // The target is 1.5 windows. If Reno's window is no larger, one of a hundred segments moves the window a hundredth of the way to
        // the target.
        flow.cubic.epoch.as_mut().unwrap().w_est = 0.0;
        assert!(before > 5000.0);
        let alone = flow.cubic.grow(100.0, flow.acked(1.0));
        assert!(near(alone, 100.5, 1e-9) && grown >= alone, "{alone}");
    }

    #[test]
    fn a_target_below_the_window_leaves_it() {
        let mut flow = Flow::new(100.0, 0.1);
        flow.lose();
        flow.run(0.1);
        let epoch = flow.cubic.epoch.as_mut().unwrap();
        epoch.w_est = 0.0;
        let later = Acked {
            segments: 10.0,
            ..flow.acked(0.0)
        };
        assert_eq!(flow.cubic.grow(95.0, later), 95.0);
    }

    #[test]
    fn without_a_window_to_come_back_to_growth_begins_convex() {
        let mut fresh = Flow::new(200.0, 0.1);
        fresh.run(3.0);
        let epoch = fresh.cubic.epoch.unwrap();
        assert_eq!((epoch.k, epoch.w_max), (0.0, 200.0));
        let mut flow = Flow::new(1000.0, 0.1);
        flow.lose();
        flow.cubic.time_out();
        flow.cwnd = 400.0;
        flow.run(5.0);
        let epoch = flow.cubic.epoch.unwrap();
        assert_eq!((epoch.k, epoch.w_max), (0.0, 400.0));
        assert!(near(flow.cwnd, 400.0 + 0.4 * 125.0, 6.0), "{}", flow.cwnd);
    }

    #[test]
    fn time_in_which_the_window_is_not_used_does_not_count() {
        let mut flow = Flow::new(1000.0, 0.1);
        flow.lose();
        flow.run(2.0);
        let before = flow.cwnd;
        flow.now += 100.0;
        flow.cubic.pause(Timestamp((flow.now * 1e9) as u64));
        let after = flow.run(0.1);
        // Growth is 34 segments a second after two seconds.
        assert!(near(after - before, 6.0, 1.5), "{}", after - before);
    }

    #[test]
    fn growth_may_count_acknowledgements() {
        let mut flow = Flow::new(1000.0, 0.1);
        flow.lose();
        let cwnd = flow.run(1.0);
        let mut by_acks = flow.acked(2.0);
        by_acks.counts_segments = false;
        let one = flow.cubic.clone().grow(cwnd, by_acks) - cwnd;
        let two = flow.cubic.grow(cwnd, flow.acked(2.0)) - cwnd;
        assert!(near(two, 2.0 * one, 1e-9));
    }
}
