//! HyStart++ (RFC 9406): ends the first slow start when the round-trip time grows, before packets are lost.
//!
//! If the minimum round-trip time of a round is well above that of the round before, Conservative Slow Start (CSS) begins, which grows a
//! quarter as fast. If the round-trip time falls again, slow start continues. If it does not fall within five rounds, congestion avoidance
//! begins.

use core::time::Duration;
use std::collections::VecDeque;

use anabranch_proto::Timestamp;

/// Bounds of the growth that counts (§4.3), and its part of the round trip.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// Minimum number of measurements in a round.
const N_RTT_SAMPLE: u32 = 8;
/// Divisor of slow start's growth during CSS.
const CSS_GROWTH_DIVISOR: u64 = 4;
/// Number of CSS rounds after which slow start ends.
const CSS_ROUNDS: u32 = 5;
/// The most segments of one acknowledgement that count, without pacing (`L`).
const LIMIT: u64 = 8;

/// Conservative Slow Start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// The minimum round-trip time when CSS began.
    baseline: Duration,
    rounds: u32,
}

/// The state of a sender's first slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    /// The round ends when all data below this sequence number is acknowledged.
    window_end: Option<u64>,
    last_round_min: Option<Duration>,
    current_round_min: Option<Duration>,
    samples: u32,
    css: Option<Css>,
    /// Unacknowledged segments: sequence number of the end, and time of sending.
    sent: VecDeque<(u64, Timestamp)>,
}

impl HyStart {
    /// A segment is sent for the first time; `end` is the sequence number after its last byte.
    pub(super) fn handle_sent(&mut self, now: Timestamp, end: u64) {
        self.sent.push_back((end, now));
    }

    /// The window's growth in bytes.
    pub(super) fn growth(&self, acked: u64, mss: u64) -> u64 {
        let growth = acked.min(LIMIT * mss);
        match self.css {
            Some(_) => growth / CSS_GROWTH_DIVISOR,
            None => growth,
        }
    }

    /// All data below `ack` is acknowledged, and `next` is the next sequence number to send. Returns whether slow start is over.
    pub(super) fn handle_ack(&mut self, now: Timestamp, ack: u64, next: u64) -> bool {
        let mut sent = None;
        while let Some(&(_, at)) = self.sent.front().filter(|(end, _)| *end <= ack) {
            sent = Some(at);
            self.sent.pop_front();
        }
        if let Some(at) = sent {
            let round_trip = now.saturating_duration_since(at);
            let least = self
                .current_round_min
                .map_or(round_trip, |least| least.min(round_trip));
            self.current_round_min = Some(least);
            self.samples += 1;
        }
        self.judge();
        if ack < *self.window_end.get_or_insert(next) {
            return false;
        }
        self.window_end = Some(next);
        self.last_round_min = self.current_round_min.take();
        self.samples = 0;
        match &mut self.css {
            Some(css) => {
                css.rounds += 1;
                css.rounds >= CSS_ROUNDS
            }
            None => false,
        }
    }

    fn judge(&mut self) {
        let Some(current) = self.current_round_min.filter(|_| self.samples >= N_RTT_SAMPLE) else {
            return;
        };
        match (self.css, self.last_round_min) {
            (None, Some(last)) => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + threshold {
                    self.css = Some(Css {
                        baseline: current,
                        rounds: 0,
                    });
                }
            }
            (Some(css), _) if current < css.baseline => self.css = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Rounds of ten segments each, acknowledged one by one.
    #[derive(Default)]
    struct Bench {
        hystart: HyStart,
        round: u64,
    }

    impl Bench {
        /// Runs a round with this round-trip time in milliseconds; returns whether slow start is over after it.
        fn round(&mut self, round_trip: u64) -> bool {
            let start = self.round * 1000;
            let first = self.round * 10;
            self.round += 1;
            for segment in first..first + 10 {
                self.hystart
                    .handle_sent(Timestamp::from_millis(start), (segment + 1) * MSS);
            }
            let mut over = false;
            for segment in first..first + 10 {
                assert!(!over, "only the round's last acknowledgement ends it");
                let now = Timestamp::from_millis(start + round_trip);
                // Before the last acknowledgement of this round comes, the segments of the next round have been sent.
                let next = first + if segment == first + 9 { 20 } else { 10 };
                over = self.hystart.handle_ack(now, (segment + 1) * MSS, next * MSS);
            }
            over
        }

        fn is_css(&self) -> bool {
            self.hystart.growth(4 * MSS, MSS) == MSS
        }
    }

    #[test]
    fn an_eighth_more_in_a_round_begins_css_and_five_rounds_end_slow_start() {
        let mut bench = Bench::default();
        for round_trip in [80, 80, 89] {
            assert!(!bench.round(round_trip) && !bench.is_css());
        }
        // 89 ms plus one eighth of it. The round in which CSS begins counts.
        assert!(!bench.round(101) && bench.is_css());
        for _ in 0..3 {
            assert!(!bench.round(101) && bench.is_css());
        }
        assert!(bench.round(101));
    }

    #[test]
    fn a_round_trip_that_falls_again_resumes_slow_start() {
        let mut bench = Bench::default();
        for round_trip in [80, 95] {
            bench.round(round_trip);
        }
        assert!(bench.is_css());
        assert!(!bench.round(94) && !bench.is_css());
    }

    #[test]
    fn the_threshold_is_4_to_16_milliseconds() {
        for (before, least) in [(10, 14), (64, 72), (400, 416)] {
            for (after, begins) in [(least - 1, false), (least, true)] {
                let mut bench = Bench::default();
                bench.round(before);
                bench.round(after);
                assert_eq!(bench.is_css(), begins, "{before} to {after} ms");
            }
        }
    }

    #[test]
    fn fewer_than_eight_measurements_decide_nothing() {
        let mut hystart = HyStart::default();
        let ms = Timestamp::from_millis;
        for segment in 1..=10 {
            hystart.handle_sent(ms(0), segment * MSS);
        }
        for segment in 1..=10 {
            let next = if segment == 10 { 30 } else { 10 };
            hystart.handle_ack(ms(80), segment * MSS, next * MSS);
        }
        for (count, begins) in [(7, false), (8, true)] {
            let mut hystart = hystart.clone();
            for segment in 11..=30 {
                hystart.handle_sent(ms(1000), segment * MSS);
            }
            for segment in 11..11 + count {
                hystart.handle_ack(ms(1200), segment * MSS, 30 * MSS);
            }
            assert_eq!(hystart.css.is_some(), begins);
        }
    }

    #[test]
    fn an_acknowledgement_counts_for_eight_segments_at_most() {
        let hystart = HyStart::default();
        assert_eq!(hystart.growth(8 * MSS, MSS), 8 * MSS);
        assert_eq!(hystart.growth(20 * MSS, MSS), 8 * MSS);
    }
}
