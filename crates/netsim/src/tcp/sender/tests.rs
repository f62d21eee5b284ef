//! Tests of the sender alone, with acknowledgements made by hand. Segments have 1,000 bytes and are numbered from 0.

use super::super::segment::SackBlocks;
use super::*;

const MSS: u64 = 1000;
const MS: u64 = 1_000_000;
const ROUND_TRIP: u64 = 100;

struct Bench {
    sender: Sender,
    now: u64,
}

impl Bench {
    /// A connection with `window` segments outstanding, in congestion avoidance.
    fn new(recovery: Recovery, window: u16) -> Self {
        Self::with(
            TcpConfig {
                mss: MSS as u16,
                recovery,
                initial_window: window,
                initial_ssthresh: u64::from(window) * MSS,
                ..TcpConfig::default()
            },
            u64::MAX,
        )
    }

    fn with(config: TcpConfig, bytes: u64) -> Self {
        let mut sender = Sender::new(config);
        sender.open();
        sender.write(bytes);
        assert!(sender.poll_transmit(Timestamp::ZERO).unwrap().syn.is_some());
        let answer = Segment {
            acknowledgement: Some(1),
            syn: Some(SynOptions {
                mss: MSS as u16,
                sack_permitted: true,
            }),
            window: 1 << 20,
            ..Segment::default()
        };
        sender.handle_segment(Timestamp(ROUND_TRIP * MS), &answer);
        Self {
            sender,
            now: ROUND_TRIP,
        }
    }

    /// The segments that are sent now.
    fn sent(&mut self) -> Vec<u64> {
        let now = Timestamp(self.now * MS);
        std::iter::from_fn(|| self.sender.poll_transmit(now))
            .map(|segment| (segment.sequence - 1) / MSS)
            .collect()
    }

    /// All data before segment `next` is acknowledged, and the segments in `blocks` are SACKed. Returns the segments that are sent then.
    fn ack(&mut self, next: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
        let blocks = blocks
            .iter()
            .map(|(first, after)| (1 + first * MSS, 1 + after * MSS));
        let segment = Segment {
            acknowledgement: Some(1 + next * MSS),
            window: 1 << 20,
            sack: SackBlocks::new(blocks, 4),
            ..Segment::default()
        };
        self.sender.handle_segment(Timestamp(self.now * MS), &segment);
        self.sent()
    }

    /// Waits until the retransmission timer expires; returns the time and the segments that are sent then.
    fn time_out(&mut self) -> (u64, Vec<u64>) {
        let before = self.sender.stats.timeouts;
        while self.sender.stats.timeouts == before {
            let wake = self.sender.poll_timeout().expect("the timer runs");
            self.sender.handle_timeout(wake);
            self.now = wake.0 / MS;
        }
        (self.now, self.sent())
    }

    /// When the retransmission timer expires.
    fn deadline(&self) -> u64 {
        self.sender.timer.deadline().expect("the timer runs").0 / MS
    }

    fn window(&self) -> (u64, u64) {
        (self.sender.window.size / MSS, self.sender.window.ssthresh / MSS)
    }
}

fn range(from: u64, to: u64) -> Vec<u64> {
    (from..to).collect()
}

const NONE: [u64; 0] = [];

#[test]
fn the_third_duplicate_retransmits_and_further_ones_allow_new_segments() {
    for recovery in [Recovery::Reno, Recovery::NewReno] {
        let mut bench = Bench::new(recovery, 10);
        assert_eq!(bench.sent(), range(0, 10));
        // Limited transmit: each of the first two duplicates allows a new segment.
        assert_eq!(bench.ack(0, &[]), [10]);
        assert_eq!(bench.ack(0, &[]), [11]);
        // Half of the ten segments, not of the twelve, plus the three that have left the network.
        assert_eq!(bench.ack(0, &[]), [0]);
        assert_eq!(bench.window(), (8, 5));
        for _ in 0..4 {
            assert_eq!(bench.ack(0, &[]), NONE);
        }
        assert_eq!(bench.window(), (12, 5));
        assert_eq!(bench.ack(0, &[]), [12]);
        let after = bench.ack(12, &[]);
        assert!(!bench.sender.repair.recovering);
        if recovery == Recovery::Reno {
            assert_eq!((after, bench.window()), (range(13, 17), (5, 5)));
        } else {
            // One segment is outstanding: the window is this one plus one.
            assert_eq!((after, bench.window()), (vec![13], (2, 5)));
        }
    }
}

#[test]
fn a_partial_acknowledgement_retransmits_the_next_hole_and_deflates() {
    let mut bench = Bench::new(Recovery::NewReno, 10);
    bench.sent();
    for _ in 0..2 {
        bench.ack(0, &[]);
    }
    assert_eq!(bench.ack(0, &[]), [0]);
    let begun = bench.deadline();
    bench.now += ROUND_TRIP;
    // 0 and 4 were lost: four segments are acknowledged, and one of them is added back.
    assert_eq!(bench.ack(4, &[]), [4]);
    assert_eq!(bench.window(), (8 - 4 + 1, 5));
    assert_eq!(bench.deadline(), begun + ROUND_TRIP);
    bench.now += ROUND_TRIP;
    assert_eq!(bench.ack(6, &[]), [6]);
    // Only the first partial acknowledgement restarts the timer.
    assert_eq!(bench.deadline(), begun + ROUND_TRIP);
    assert_eq!(bench.sender.stats.fast_recoveries, 1);
    bench.ack(12, &[]);
    assert!(!bench.sender.repair.recovering);
    assert_eq!(bench.sender.stats.fast_recoveries, 1);
}

#[test]
fn sack_retransmits_all_holes_within_the_window() {
    let mut bench = Bench::new(Recovery::Sack, 12);
    assert_eq!(bench.sent(), range(0, 12));
    // 0, 2 and 4 are lost.
    assert_eq!(bench.ack(0, &[(1, 2)]), [12]);
    assert_eq!(bench.ack(0, &[(3, 4), (1, 2)]), [13]);
    assert_eq!(bench.ack(0, &[(5, 6), (3, 4), (1, 2)]), [0]);
    assert_eq!(bench.window(), (6, 6));
    // In flight: 6 to 13; 2 and 4, above which there are too few SACK blocks yet; and the retransmitted 0.
    assert_eq!(bench.sender.repair.scoreboard.pipe / MSS, 8 + 2 + 1);
    let mut retransmitted = Vec::new();
    for received in 6..14 {
        retransmitted.extend(bench.ack(0, &[(5, received + 1), (3, 4), (1, 2)]));
    }
    assert_eq!(retransmitted[..2], [2, 4]);
    assert_eq!(retransmitted[2], 14, "then new ones");
    assert_eq!(bench.sender.stats.timeouts, 0);
    assert_eq!(bench.sender.stats.retransmitted, 3);
    bench.ack(14, &[]);
    assert!(!bench.sender.repair.recovering);
    assert_eq!(bench.window(), (6, 6));
}

#[test]
fn a_retransmission_in_recovery_with_sack_starts_the_timer_anew() {
    let mut bench = Bench::new(Recovery::Sack, 12);
    bench.sent();
    bench.ack(0, &[(1, 2)]);
    bench.ack(0, &[(1, 3)]);
    assert_eq!(bench.ack(0, &[(1, 4)]), [0]);
    let begun = bench.deadline();
    // 8 is lost too, which shows only later.
    bench.ack(0, &[(1, 8)]);
    bench.now += 50;
    assert_eq!(bench.ack(0, &[(9, 10), (1, 8)]), NONE);
    assert_eq!(bench.deadline(), begun);
    assert_eq!(bench.ack(0, &[(9, 12), (1, 8)])[0], 8);
    assert_eq!(bench.deadline(), begun + 50);
}

#[test]
fn a_timeout_in_recovery_halves_what_recovery_left() {
    let mut bench = Bench::new(Recovery::NewReno, 20);
    bench.sent();
    for _ in 0..10 {
        bench.ack(0, &[]);
    }
    assert_eq!(bench.window(), (20, 10));
    bench.time_out();
    // Half of the outstanding segments (the 20 and two of limited transmit) would be 11.
    assert_eq!(bench.window(), (1, 5));
}

#[test]
fn a_lost_segment_at_the_end_is_rescued_once_there_is_nothing_else() {
    let config = TcpConfig {
        mss: MSS as u16,
        recovery: Recovery::Sack,
        initial_window: 10,
        ..TcpConfig::default()
    };
    let mut bench = Bench::with(config, 10 * MSS);
    assert_eq!(bench.sent(), range(0, 10));
    // 0 and 9 are lost.
    bench.ack(0, &[(1, 2)]);
    bench.ack(0, &[(1, 3)]);
    assert_eq!(bench.ack(0, &[(1, 4)]), [0]);
    assert_eq!(bench.ack(0, &[(1, 9)]), NONE, "0 may still come");
    assert_eq!(bench.ack(9, &[]), [9]);
    assert_eq!(bench.ack(9, &[]), NONE);
    bench.ack(10, &[]);
    assert!(bench.sender.all_acknowledged());
    assert_eq!(bench.sender.stats.timeouts, 0);
}

#[test]
fn timeouts_double_and_hold_the_threshold() {
    let mut bench = Bench::new(Recovery::NewReno, 8);
    bench.sent();
    let (first, sent) = bench.time_out();
    assert_eq!((first, sent), (ROUND_TRIP + 1000, vec![0]));
    assert_eq!(bench.window(), (1, 4));
    let (second, sent) = bench.time_out();
    assert_eq!((second - first, sent), (2000, vec![0]));
    let (third, _) = bench.time_out();
    assert_eq!(third - second, 4000);
    assert_eq!(bench.window(), (1, 4), "the same segment again");
    bench.now += ROUND_TRIP;
    assert_eq!(bench.ack(1, &[]), [1, 2], "slow start");
    // The segments acknowledged now were retransmitted: they give no RTT measurement, and the backoff stays.
    assert_eq!(bench.sender.rto.timeout(), Duration::from_secs(8));
    assert_eq!(bench.ack(8, &[]), range(8, 11));
    bench.now += ROUND_TRIP;
    bench.ack(11, &[]);
    assert_eq!(bench.sender.rto.timeout(), Duration::from_secs(1));
}

#[test]
fn duplicates_of_what_a_timeout_retransmitted_begin_no_recovery() {
    let mut bench = Bench::new(Recovery::NewReno, 8);
    bench.sent();
    bench.time_out();
    bench.ack(1, &[]);
    for _ in 0..5 {
        bench.ack(1, &[]);
    }
    assert_eq!(bench.sender.stats.fast_recoveries, 0);
    bench.ack(8, &[]);
    bench.ack(9, &[]);
    for _ in 0..3 {
        bench.ack(9, &[]);
    }
    assert_eq!(
        bench.sender.stats.fast_recoveries, 1,
        "all that was sent then is acknowledged"
    );
}

#[test]
fn after_a_timeout_what_is_reported_is_not_retransmitted() {
    let mut bench = Bench::new(Recovery::Sack, 8);
    bench.sent();
    let (_, sent) = bench.time_out();
    assert_eq!(sent, [0]);
    assert_eq!(bench.ack(1, &[(2, 4)]), [1, 4]);
    assert_eq!(bench.ack(4, &[(5, 6)]), [6, 7]);
    assert_eq!(bench.sender.stats.fast_recoveries, 0);
}

#[test]
fn a_window_that_is_not_used_does_not_grow_and_shrinks_when_idle() {
    let config = TcpConfig {
        mss: MSS as u16,
        initial_window: 4,
        ..TcpConfig::default()
    };
    let mut bench = Bench::with(config, 2 * MSS);
    assert_eq!(bench.sent(), [0, 1]);
    bench.now += ROUND_TRIP;
    assert_eq!(bench.ack(2, &[]), NONE);
    assert_eq!(bench.window().0, 4, "two of four were used");
    bench.sender.write(8 * MSS);
    assert_eq!(bench.sent(), range(2, 6));
    bench.now += ROUND_TRIP;
    bench.ack(4, &[]);
    bench.ack(6, &[]);
    bench.ack(10, &[]);
    assert_eq!(bench.window().0, 6);
    bench.now += 2000;
    bench.sender.write(8 * MSS);
    assert_eq!(bench.sent(), range(10, 14), "as at the beginning");
}

#[test]
fn timestamps_measure_what_was_retransmitted_too() {
    let config = TcpConfig {
        initial_window: 2,
        ..TcpConfig::default()
    }
    .with_timestamps();
    let mut bench = Bench::with(config, u64::MAX);
    assert_eq!(bench.sender.config.mss, 1448);
    bench.sent();
    bench.time_out();
    assert_eq!(bench.sender.rto.timeout(), Duration::from_secs(2));
    let answer = Segment {
        acknowledgement: Some(1 + 1448),
        window: 1 << 20,
        timestamps: Some((0, bench.now as u32)),
        ..Segment::default()
    };
    bench.now += ROUND_TRIP;
    bench.sender.handle_segment(Timestamp(bench.now * MS), &answer);
    assert_eq!(bench.sender.rto.timeout(), Duration::from_secs(1), "measured");
}
