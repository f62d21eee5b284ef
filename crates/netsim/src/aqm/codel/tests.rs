//! CoDel alone. Packets have 1,000 bytes, and one leaves every millisecond; times are in milliseconds.

use bytes::Bytes;

use super::*;
use crate::ecn::Ecn;
use crate::link::{Fate, LinkStats};
use crate::random::Generator;

const MTU: u64 = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TestPacket(Ecn);

impl LinkPacket for TestPacket {
    fn wire_len(&self) -> usize {
        1000
    }

    fn ecn(&self) -> Ecn {
        self.0
    }

    fn set_ecn(&mut self, ecn: Ecn) {
        self.0 = ecn;
    }

    fn corrupt(&mut self, _: &mut Generator) {}
}

/// A queue in which the test chooses how long packets have waited.
struct Bench {
    config: CoDelConfig,
    codel: CoDel,
    stats: LinkStats,
    ecn: Ecn,
    /// Packets in the queue in addition to those that the test takes.
    behind: usize,
    index: u64,
}

/// The result of taking a packet: the number of packets dropped before it, and whether it was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    dropped: u64,
    marked: u64,
}

const SENT: Taken = Taken {
    dropped: 0,
    marked: 0,
};

impl Bench {
    fn new(ecn: Ecn) -> Self {
        Self {
            config: CoDelConfig::default(),
            codel: CoDel::default(),
            stats: LinkStats::default(),
            ecn,
            behind: 10,
            index: 0,
        }
    }

    /// Takes a packet at `now` from a queue in which every packet has waited for `sojourn`.
    fn take(&mut self, now: f64, sojourn: f64) -> Taken {
        let at = |ms: f64| Timestamp((ms * 1e6) as u64);
        let mut fifo = Fifo::default();
        for _ in 0..=self.behind {
            fifo.push(Waiting {
                packet: TestPacket(self.ecn),
                len: 1000,
                since: at(now - sojourn),
                index: self.index,
                fate: Fate::default(),
                delay: Duration::ZERO,
            });
            self.index += 1;
        }
        let before = self.stats;
        let mut service = Service {
            now: at(now),
            mtu: MTU,
            stats: &mut self.stats,
        };
        let head = self.codel.dequeue(&self.config, &mut fifo, &mut service);
        let taken = Taken {
            dropped: self.stats.lost_aqm - before.lost_aqm,
            marked: self.stats.marked - before.marked,
        };
        let is_marked = head.unwrap().packet.ecn() == Ecn::Ce;
        assert_eq!(is_marked, taken.marked > 0 || self.ecn == Ecn::Ce);
        taken
    }

    /// Takes one packet each millisecond; returns the times at which packets were dropped or marked, with their number.
    fn times(&mut self, from: u32, to: u32, sojourn: f64) -> Vec<(u32, u64)> {
        let take = |ms| {
            let taken = self.take(f64::from(ms), sojourn);
            (ms, taken.dropped + taken.marked)
        };
        (from..to).map(take).filter(|(_, count)| *count > 0).collect()
    }
}

/// Expected drop times. The first drop is one interval after the delay was first above the target. Each further drop follows the previous
/// one after interval / sqrt(count): 100, 100 / sqrt 2, 100 / sqrt 3 ...
fn schedule(first: f64, until: f64) -> Vec<(u32, u64)> {
    let mut times = Vec::new();
    let (mut next, mut count) = (first, 1.0_f64);
    while next < until {
        times.push((next.ceil() as u32, 1));
        next += 100.0 / count.sqrt();
        count += 1.0;
    }
    times
}

#[test]
fn drops_begin_after_an_interval_and_follow_the_square_root() {
    let mut bench = Bench::new(Ecn::NotEct);
    let times = bench.times(1000, 1600, 5.0);
    assert_eq!(times, schedule(1100.0, 1600.0));
    assert_eq!(
        times[..5],
        [(1100, 1), (1200, 1), (1271, 1), (1329, 1), (1379, 1)],
        "100, 70.7, 57.7 and 50 ms apart"
    );
}

#[test]
fn a_delay_below_the_target_never_drops_and_ends_dropping_at_once() {
    let mut bench = Bench::new(Ecn::NotEct);
    assert_eq!(bench.times(0, 5000, 4.999), []);
    // One packet below the target within an interval restarts the interval.
    assert_eq!(bench.times(5000, 5099, 50.0), []);
    assert_eq!(bench.take(5099.0, 4.0), SENT);
    assert_eq!(bench.times(5100, 5200, 50.0), []);
    assert_eq!(bench.times(5200, 5201, 50.0), [(5200, 1)]);
    assert!(bench.codel.dropping);
    assert_eq!(bench.take(5201.0, 4.0), SENT);
    assert!(!bench.codel.dropping);
    assert_eq!(
        bench.times(5202, 5302, 50.0),
        [],
        "a whole interval above it is needed again"
    );
}

#[test]
fn a_queue_of_one_more_packet_is_left_alone() {
    let mut bench = Bench::new(Ecn::NotEct);
    bench.behind = 1;
    assert_eq!(
        bench.times(0, 1000, 500.0),
        [],
        "1,000 bytes are no more than the MTU"
    );
    bench.behind = 2;
    assert_eq!(bench.times(1000, 1101, 500.0), [(1100, 1)]);
}

#[test]
fn capable_packets_are_marked_on_the_same_schedule_and_leave() {
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let mut bench = Bench::new(ecn);
        let times = bench.times(1000, 1600, 5.0);
        assert_eq!(times, schedule(1100.0, 1600.0));
        assert_eq!(bench.stats.lost_aqm, 0);
        assert_eq!(bench.stats.marked, times.len() as u64);
    }
}

#[test]
fn a_queue_that_was_not_served_for_long_drops_what_is_due_but_marks_one() {
    let mut bench = Bench::new(Ecn::NotEct);
    bench.times(1000, 1101, 50.0);
    // Due at 1200, 1270.7, 1328.4 and 1378.4.
    let taken = bench.take(1350.0, 50.0);
    assert_eq!((taken.dropped, taken.marked), (3, 0));
    let mut bench = Bench::new(Ecn::Ect0);
    bench.times(1000, 1101, 50.0);
    let taken = bench.take(1350.0, 50.0);
    assert_eq!((taken.dropped, taken.marked), (0, 1));
}

#[test]
fn dropping_resumes_at_its_rate_if_it_ended_within_16_intervals() {
    // Drops at 1100, 1200, 1271, 1329, 1379: when dropping ends, count is 5, and the next drop would have been at 1423.
    for (pause, gap) in [(200, 50.0), (1500, 50.0), (1550, 100.0)] {
        let mut bench = Bench::new(Ecn::NotEct);
        bench.times(1000, 1400, 50.0);
        assert_eq!(bench.codel.count, 5);
        let begin = 1400 + pause;
        bench.take(f64::from(begin), 1.0);
        let times = bench.times(begin + 1, begin + 400, 50.0);
        let first = begin + 1 + 100;
        assert_eq!(times[0].0, first);
        // With count - lastcount = 4 drops, the next drop follows after 100 / sqrt 4 ms; otherwise after a first interval.
        let next = f64::from(first) + gap;
        assert_eq!(f64::from(times[1].0), next, "after a pause of {pause} ms");
    }
}

#[test]
fn an_empty_queue_ends_dropping() {
    let mut bench = Bench::new(Ecn::NotEct);
    bench.times(1000, 1101, 50.0);
    let mut service = Service {
        now: Timestamp::from_millis(1101),
        mtu: MTU,
        stats: &mut bench.stats,
    };
    let none = bench
        .codel
        .dequeue::<Bytes>(&bench.config, &mut Fifo::default(), &mut service);
    assert!(none.is_none() && !bench.codel.dropping && bench.codel.first_above.is_none());
}

#[test]
fn target_and_interval_are_settings() {
    let mut bench = Bench::new(Ecn::NotEct);
    bench.config = CoDelConfig {
        target: Duration::from_millis(20),
        interval: Duration::from_millis(300),
    };
    assert_eq!(bench.times(0, 1000, 19.0), []);
    assert_eq!(bench.times(1000, 1700, 20.0), [(1300, 1), (1600, 1)]);
}
