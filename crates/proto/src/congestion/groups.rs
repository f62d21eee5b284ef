//! Which paths may share a bottleneck ([`crate::CoupledControl::Grouped`]): those whose delays move together. RFC 8382 groups flows by
//! statistics of their delays; a sender that has all the delays itself can compare them bin by bin.
//!
//! Time is cut into bins of a round trip. In each bin a path has a mean RTT. Two paths share a queue if these means rise and fall
//! together: if their correlation is high over the last bins. Two paths are together until their delays prove the contrary. So paths whose
//! losses are random, without a queue, and paths with a queue each, become independent after some round trips, and paths through one
//! queue stay coupled.

use core::time::Duration;

use crate::path_id::PathId;
use crate::time::Timestamp;

/// The shortest bin: shorter ones would compare single packets.
const SHORTEST_BIN: Duration = Duration::from_millis(50);
/// A bin counts (1 - 1/`MEMORY`) times as much as the next one.
const MEMORY: f64 = 50.0;
/// The bins with data on both paths that a judgement needs.
const ENOUGH: f64 = 20.0;
/// Two paths become independent if the square of their delays' correlation is lower than this, and become a group again if it is
/// higher than `TOGETHER`.
const APART: f64 = 0.35 * 0.35;
const TOGETHER: f64 = 0.6 * 0.6;
/// Independent paths become a group again only if their delays also change in the same direction so much more often than in opposite ones; paths
/// in a group become independent if they do not do so at all. Two queues that a sender fills at the same time for a while have a high
/// correlation, from a few changes, which lasts until it is forgotten.
const AGREED: f64 = 0.35;
/// After so many bins in a row in which one of the paths had no queue, they are independent. A queue that both share delays both. And where no
/// path has a queue, losses are random, as far as delays can tell.
const WITHOUT_QUEUE: u32 = 10;
/// A path has no queue if its mean RTT exceeds the least one by no more than this part of it, and `NOISE` in seconds.
const NEAR_LEAST: f64 = 1.0 / 16.0;
const NOISE: f64 = 1e-3;
/// The paths that are compared, so that a peer with many addresses causes little work. Later paths are in the group of all others.
const MOST_PATHS: usize = 8;

/// Which paths may share a bottleneck.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// When the bin began, and how long it lasts.
    began: Timestamp,
    length: Duration,
    bins: Vec<Bin>,
    /// For each pair of paths, the higher one's pairs after those of lower ones: (1, 0), (2, 0), (2, 1), …
    pairs: Vec<Pair>,
}

/// The RTTs of a path in the present bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    seconds: f64,
    samples: u32,
}

impl Bin {
    fn mean(self) -> Option<f64> {
        (self.samples > 0).then(|| self.seconds / f64::from(self.samples))
    }
}

/// How the delays of two paths move.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    bins: f64,
    means: [f64; 2],
    variances: [f64; 2],
    covariance: f64,
    /// The mean RTTs of the last bin.
    last: Option<[f64; 2]>,
    /// The least mean RTTs.
    least: Option<[f64; 2]>,
    /// Bins in a row in which one of the paths had no queue.
    without_queue: u32,
    /// How much more often both delays changed in the same direction than in opposite ones: from -1 to 1.
    agreement: f64,
    apart: bool,
}

impl Pair {
    /// Takes the mean RTTs of a bin.
    fn add(&mut self, seconds: [f64; 2]) {
        self.bins = (self.bins + 1.0).min(MEMORY);
        let part = 1.0 / self.bins;
        let off = [0, 1].map(|index| seconds[index] - self.means[index]);
        for ((mean, variance), off) in self.means.iter_mut().zip(&mut self.variances).zip(off) {
            *mean += part * off;
            *variance = (1.0 - part) * (*variance + part * off * off);
        }
        self.covariance = (1.0 - part) * (self.covariance + part * off[0] * off[1]);
        if let Some(last) = self.last.replace(seconds) {
            let product = (seconds[0] - last[0]) * (seconds[1] - last[1]);
            let same = f64::from(i8::from(product > 0.0) - i8::from(product < 0.0));
            self.agreement += part * (same - self.agreement);
        }
        self.without_queue = if self.has_queues(seconds) {
            0
        } else {
            self.without_queue.saturating_add(1)
        };
        if self.without_queue >= WITHOUT_QUEUE {
            self.apart = true;
        } else if self.bins >= ENOUGH {
            self.apart = if self.apart {
                !(self.correlates(TOGETHER) && self.agreement > AGREED)
            } else {
                !(self.correlates(APART) && self.agreement > 0.0)
            };
        }
    }

    /// Whether both paths have a queue.
    fn has_queues(&mut self, seconds: [f64; 2]) -> bool {
        let known = self.least.get_or_insert(seconds);
        let least = [0, 1].map(|index| known[index].min(seconds[index]));
        *known = least;
        let has_queue = |index: usize| seconds[index] > least[index] * (1.0 + NEAR_LEAST) + NOISE;
        has_queue(0) && has_queue(1)
    }

    /// Whether the delays move in the same direction, with a correlation whose square is higher than this.
    fn correlates(&self, limit: f64) -> bool {
        let product = self.variances[0] * self.variances[1];
        self.covariance > 0.0 && self.covariance * self.covariance > limit * product
    }
}

impl Groups {
    /// An acknowledgement measured this RTT on a path. `round_trip` finds the longest smoothed RTT of the paths, which a new bin needs.
    pub(crate) fn on_rtt(
        &mut self,
        now: Timestamp,
        id: PathId,
        rtt: Duration,
        round_trip: impl FnOnce() -> Duration,
    ) {
        if id.index() >= MOST_PATHS {
            return;
        }
        if now.saturating_duration_since(self.began) >= self.length {
            self.end_bin();
            self.began = now;
            self.length = round_trip().max(SHORTEST_BIN);
        }
        if self.bins.len() <= id.index() {
            self.bins.resize(id.index() + 1, Bin::default());
        }
        let bin = &mut self.bins[id.index()];
        bin.seconds += rtt.as_secs_f64();
        bin.samples += 1;
    }

    fn end_bin(&mut self) {
        let count = self.bins.len();
        self.pairs
            .resize(count * count.saturating_sub(1) / 2, Pair::default());
        for high in 0..count {
            for low in 0..high {
                if let (Some(first), Some(second)) = (self.bins[low].mean(), self.bins[high].mean()) {
                    self.pairs[place(low, high)].add([first, second]);
                }
            }
        }
        self.bins.fill(Bin::default());
    }

    /// Whether these two paths may share a bottleneck.
    pub(crate) fn may_share(&self, one: PathId, other: PathId) -> bool {
        let (one, other) = (one.index(), other.index());
        one == other || self.pairs.get(place(one, other)).is_none_or(|pair| !pair.apart)
    }

    /// The path now leads elsewhere: nothing is known about it.
    pub(crate) fn forget(&mut self, id: PathId) {
        let others = (0..MOST_PATHS).filter(|other| *other != id.index());
        for other in others {
            if let Some(pair) = self.pairs.get_mut(place(id.index(), other)) {
                *pair = Pair::default();
            }
        }
        if let Some(bin) = self.bins.get_mut(id.index()) {
            *bin = Bin::default();
        }
    }
}

/// The place of a pair of two paths: see [`Groups::pairs`].
fn place(one: usize, other: usize) -> usize {
    let (low, high) = (one.min(other), one.max(other));
    high * high.saturating_sub(1) / 2 + low
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [PathId; 2] = [PathId(0), PathId(1)];

    /// Round trips with these RTTs in milliseconds on each path, five samples each.
    fn round_trips(groups: &mut Groups, from: u64, rtts: impl IntoIterator<Item = [u64; 2]>) -> u64 {
        let mut now = from;
        for rtts in rtts {
            for _ in 0..5 {
                for (path, rtt) in PATHS.into_iter().zip(rtts) {
                    let rtt = Duration::from_millis(rtt);
                    let round_trip = || Duration::from_millis(100);
                    groups.on_rtt(Timestamp::from_millis(now), path, rtt, round_trip);
                }
                now += 20;
            }
        }
        now
    }

    /// A queue that fills for `period` round trips and then loses a packet.
    fn queue(period: u64) -> impl Iterator<Item = u64> + Clone {
        (0..).map(move |round| 40 + 5 * (round % period))
    }

    fn share(groups: &Groups) -> bool {
        let [one, other] = PATHS;
        assert_eq!(groups.may_share(one, other), groups.may_share(other, one));
        groups.may_share(one, other)
    }

    #[test]
    fn paths_share_until_their_delays_prove_the_contrary() {
        let mut groups = Groups::default();
        assert!(share(&groups));
        // The second path is longer.
        let two_queues = queue(9).zip(queue(7)).map(|(one, other)| [one, other + 60]);
        let apart = |rounds| two_queues.clone().take(rounds);
        let now = round_trips(&mut groups, 0, apart(19));
        assert!(share(&groups), "too few round trips");
        let now = round_trips(&mut groups, now, apart(60).skip(19));
        assert!(!share(&groups));
        let one_queue = queue(9).take(120).map(|rtt| [rtt, rtt + 60]);
        let now = round_trips(&mut groups, now, one_queue);
        assert!(share(&groups));
        round_trips(&mut groups, now, apart(150));
        assert!(!share(&groups));
        groups.forget(PATHS[1]);
        assert!(share(&groups), "another path");
    }

    #[test]
    fn a_path_without_a_queue_shares_none() {
        let mut groups = Groups::default();
        round_trips(&mut groups, 0, queue(9).take(30).map(|rtt| [rtt, 50]));
        assert!(!share(&groups));
        let mut groups = Groups::default();
        round_trips(&mut groups, 0, (0..30).map(|_| [40, 50]));
        assert!(!share(&groups), "no queue at all");
    }

    /// The sender has more to send for some time, and both queues grow. Before and after, each has its own small changes.
    #[test]
    fn two_queues_that_fill_at_the_same_time_are_not_one() {
        let two_queues = |round: u64| [40 + 3 * (3 * round % 5), 100 + 3 * (2 * round % 11)];
        let fuller = |round: u64| two_queues(round).map(|rtt| rtt + 60);
        let mut groups = Groups::default();
        let now = round_trips(&mut groups, 0, (0..60).map(two_queues));
        assert!(!share(&groups));
        let now = round_trips(&mut groups, now, (60..80).map(fuller));
        assert!(!share(&groups));
        round_trips(&mut groups, now, (80..100).map(two_queues));
        assert!(!share(&groups));
    }

    /// A sender fills the queues of both paths when it begins. Then none has a queue, so that their losses are random.
    #[test]
    fn queues_of_the_start_do_not_keep_paths_in_a_group() {
        let start =
            (0..12_u64).map(|round| [40 + 20 * round.min(12 - round), 60 + 12 * round.min(12 - round)]);
        let mut groups = Groups::default();
        let now = round_trips(&mut groups, 0, start.chain((0..9).map(|_| [41, 61])));
        assert!(share(&groups), "nine round trips say too little");
        round_trips(&mut groups, now, (0..2).map(|_| [41, 61]));
        assert!(!share(&groups));
    }

    /// A queue that is empty for nine of ten round trips is seen by both.
    #[test]
    fn a_short_queue_of_both_keeps_them_in_a_group() {
        let mut groups = Groups::default();
        let short = |round: u64| if round % 10 == 9 { 20 } else { round % 3 };
        round_trips(
            &mut groups,
            0,
            (0..100).map(|round| [40 + short(round), 60 + short(round)]),
        );
        assert!(share(&groups));
    }

    /// The first bins have a high correlation: a queue that was there at first is gone.
    #[test]
    fn an_old_correlation_proves_nothing() {
        let opposite = |round: u64| [50 + 3 * (round % 2), 113 - 3 * (round % 2)];
        let mut groups = Groups::default();
        let fuller = (0..5).map(|round| if round == 0 { [40, 100] } else { [70, 130] });
        round_trips(&mut groups, 0, fuller.chain((5..25).map(opposite)));
        assert!(!share(&groups));
    }

    /// If one fills while the other drains, they are two queues.
    #[test]
    fn opposite_delays_are_not_related() {
        let mut groups = Groups::default();
        round_trips(&mut groups, 0, queue(9).take(60).map(|rtt| [rtt, 200 - rtt]));
        assert!(!share(&groups));
    }

    #[test]
    fn the_work_is_bounded() {
        let mut groups = Groups::default();
        for round in 0..100 {
            for path in (0..=u8::MAX).map(PathId) {
                let now = Timestamp::from_millis(round * 100);
                groups.on_rtt(now, path, Duration::from_millis(40), || Duration::ZERO);
            }
        }
        assert_eq!((groups.bins.len(), groups.pairs.len()), (8, 28));
        assert!(groups.may_share(PathId(3), PathId(200)));
    }
}
