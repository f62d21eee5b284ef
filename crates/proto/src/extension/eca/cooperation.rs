//! Owns the data sender's choice of paths for the peer's acknowledgements, and finds the newest COOP-SACK.

use core::time::Duration;

use anabranch_wire::chunk::AckPolicy;

use super::receiver_clock::ReceiverClock;
use crate::config::AckRouting;
use crate::path::PathId;
use crate::time::Timestamp;

/// The number of ranks; the E-DATA flags have no bits for more.
const RANKS: u8 = 3;

/// Up to this window, in full packets, a path asks for an acknowledgement of each packet. With larger windows, waiting for a second packet
/// costs less than 3 % of a round trip.
const FEW_PACKETS: usize = 16;

/// If a larger share of the data sent on a path is lost, the path counts as bad.
const BAD: f64 = 0.1;

/// The measurements that determine the rank of an active path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathView {
    pub(crate) id: PathId,
    pub(crate) round_trip: Option<Duration>,
    /// The lost share of the data sent on the path.
    pub(crate) loss: f64,
}

/// The data sender's state for acknowledgements on several paths.
#[derive(Debug)]
pub(crate) struct Cooperation {
    routing: AckRouting,
    /// The policy that data carries on each path.
    policies: Vec<AckPolicy>,
    /// When to compute the ranks again.
    next: Timestamp,
    /// The newest timestamp of a received COOP-SACK, in milliseconds.
    newest: Option<u32>,
    clock: ReceiverClock,
}

impl Cooperation {
    pub(crate) fn new(routing: AckRouting) -> Self {
        Self {
            routing,
            policies: Vec::new(),
            next: Timestamp::ZERO,
            newest: None,
            clock: ReceiverClock::default(),
        }
    }

    /// A COOP-SACK with this timestamp came. Returns whether a newer one came before.
    pub(crate) fn is_overtaken(&mut self, timestamp_ms: u32) -> bool {
        let overtaken = self
            .newest
            .is_some_and(|newest| (timestamp_ms.wrapping_sub(newest) as i32) < 0);
        if !overtaken {
            self.newest = Some(timestamp_ms);
        }
        overtaken
    }

    /// A COOP-SACK with this timestamp came: when it would have come by the fastest way back.
    pub(crate) fn earliest(&mut self, now: Timestamp, timestamp_ms: u32) -> Timestamp {
        self.clock.earliest(now, timestamp_ms)
    }

    /// The acknowledgement policy for data on `path`.
    pub(crate) fn policy(&self, path: PathId) -> AckPolicy {
        match self.routing {
            AckRouting::LastArrival => AckPolicy::LastArrival,
            AckRouting::EveryPath => AckPolicy::EveryPath,
            AckRouting::Unranked => AckPolicy::Unranked,
            AckRouting::Measured | AckRouting::Ranked => {
                self.policies.get(path.index()).copied().unwrap_or_default()
            }
        }
    }

    /// Whether data on a path with a window of this many full packets asks for an acknowledgement at once (the I bit, RFC 7053 §5.1).
    ///
    /// The receiver acknowledges every second packet, because reordering between paths makes no gap. The first of two packets then waits
    /// for the next one, which lengthens the round trip of a window of n packets by 1/2n of it, and the window grows more slowly.
    ///
    /// Paths in a group take together as much as one flow, whose packets are acknowledged in pairs. If their packets are acknowledged one by
    /// one, they also leave one by one. A full queue drops fewer of them than of pairs, and the group takes a fifth more.
    pub(crate) fn asks_at_once(&self, packets: usize, in_group: impl FnOnce() -> bool) -> bool {
        self.routing == AckRouting::Measured && packets <= FEW_PACKETS && !in_group()
    }

    /// Whether to compute the ranks again: once per round-trip time of the slowest path.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        matches!(self.routing, AckRouting::Measured | AckRouting::Ranked) && now >= self.next
    }

    /// Ranks the active paths by their round-trip times, and paths with equal times by their loss.
    ///
    /// The paper reports the gaps of the first path on the second. By measurement they are reported on the first: any other path is slower,
    /// and the acknowledgements of the path that carries most data would wait for it.
    pub(crate) fn rank(&mut self, now: Timestamp, mut paths: Vec<PathView>) {
        let bad = paths.iter().filter(|path| path.loss > BAD).count();
        let everywhere = self.routing == AckRouting::Measured && bad > 0 && 2 * bad >= paths.len();
        let key = |path: &PathView| path.round_trip.unwrap_or(Duration::MAX);
        paths.sort_by(|one, other| {
            let by_time = key(one).cmp(&key(other));
            by_time
                .then(one.loss.total_cmp(&other.loss))
                .then(one.id.cmp(&other.id))
        });
        let count = paths.iter().map(|path| path.id.index() + 1).max().unwrap_or(0);
        self.policies.clear();
        self.policies.resize(count, AckPolicy::Unranked);
        for (rank, path) in (1..).zip(&paths) {
            self.policies[path.id.index()] = match rank {
                _ if everywhere => AckPolicy::EveryPath,
                1 if self.routing == AckRouting::Measured => AckPolicy::LastArrival,
                1..=RANKS => AckPolicy::Ranked(rank),
                _ => AckPolicy::Unranked,
            };
        }
        let slowest = paths.iter().filter_map(|path| path.round_trip).max();
        self.next = now + slowest.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn view(id: u8, millis: u32, loss: f64) -> PathView {
        PathView {
            id: PathId(id),
            round_trip: Some(millis * MS),
            loss,
        }
    }

    fn ranked(routing: AckRouting, paths: &[PathView]) -> Vec<AckPolicy> {
        let mut cooperation = Cooperation::new(routing);
        cooperation.rank(Timestamp::ZERO, paths.to_vec());
        paths.iter().map(|path| cooperation.policy(path.id)).collect()
    }

    #[test]
    fn the_three_shortest_have_ranks() {
        let paths = [
            view(0, 90, 0.0),
            view(1, 20, 0.05),
            view(2, 20, 0.01),
            view(3, 300, 0.0),
        ];
        let [first, second, third] = [1, 2, 3].map(AckPolicy::Ranked);
        let policies = [third, second, first, AckPolicy::Unranked];
        assert_eq!(ranked(AckRouting::Ranked, &paths), policies);
        let measured = [third, second, AckPolicy::LastArrival, AckPolicy::Unranked];
        assert_eq!(
            ranked(AckRouting::Measured, &paths),
            measured,
            "the fastest reports its own gaps"
        );
        assert_eq!(ranked(AckRouting::Unranked, &paths), [AckPolicy::Unranked; 4]);
        assert_eq!(
            ranked(AckRouting::LastArrival, &paths),
            [AckPolicy::LastArrival; 4]
        );
    }

    #[test]
    fn everywhere_if_half_of_the_paths_are_bad() {
        let one_of_three = [view(0, 10, 0.0), view(1, 20, 0.0), view(2, 30, 0.2)];
        assert_eq!(
            ranked(AckRouting::Measured, &one_of_three)[1],
            AckPolicy::Ranked(2)
        );
        let one_of_two = [view(0, 10, 0.0), view(1, 20, 0.2)];
        assert_eq!(
            ranked(AckRouting::Measured, &one_of_two),
            [AckPolicy::EveryPath; 2]
        );
        assert_eq!(ranked(AckRouting::Ranked, &one_of_two)[0], AckPolicy::Ranked(1));
    }

    #[test]
    fn thought_over_once_a_round_trip_of_the_slowest() {
        let mut cooperation = Cooperation::new(AckRouting::Measured);
        assert!(cooperation.is_due(Timestamp::ZERO));
        cooperation.rank(
            Timestamp::from_millis(5),
            vec![view(0, 10, 0.0), view(1, 100, 0.0)],
        );
        assert!(!cooperation.is_due(Timestamp::from_millis(104)));
        assert!(cooperation.is_due(Timestamp::from_millis(105)));
    }

    #[test]
    fn older_than_the_newest() {
        let mut cooperation = Cooperation::new(AckRouting::Measured);
        assert!(!cooperation.is_overtaken(u32::MAX - 1));
        assert!(!cooperation.is_overtaken(3), "later, across the wrap");
        assert!(cooperation.is_overtaken(u32::MAX));
        assert!(!cooperation.is_overtaken(3), "as new as the newest");
    }
}
