//! A bound on what already left. An urgent message overtakes what waits here, but not what stands in a router's queue
//! before it: on a thin link with a long queue, seconds of less urgent data that this side sent itself. So less urgent data
//! leaves only while what is in flight on the path would be delivered within the path's lowest round-trip time and a little
//! more:
//!
//! ```text
//! in flight < rate · (lowest round-trip time + target)      the target being at least a packet and a quarter
//! ```
//!
//! The rate is what was acknowledged in the last round trip. So the target is the time that data may stand in queues, and
//! nobody need know the rate. As the window of FAST TCP (Jin, Wei and Low, INFOCOM 2004) it comes to rest where the queue
//! holds the target; and as the congestion window stays in force, it can only make a sender send less. A path whose
//! queue others keep full looks the same: there less urgent data gives way to them.

use core::time::Duration;

use crate::time::Timestamp;

/// How long a lowest round-trip time counts. Then less urgent data pauses for as long as its queue takes to drain, so that
/// the next one is measured without it.
const LOWEST_COUNTS: Duration = Duration::from_secs(30);
/// Packets that are always allowed: what the peer may hold back an acknowledgement for.
const LEAST: usize = 2;
/// Quarters of a packet that may always stand in the queue: with less, a link that carries a packet in the time of the target
/// would fall idle.
const LEAST_QUEUED: usize = 5;

/// What came of one round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Timestamp,
    /// Bytes acknowledged.
    acked: usize,
    /// The size of the largest chunk among them.
    largest: usize,
    /// The lowest round-trip time.
    lowest: Option<Duration>,
    /// The bound kept data from leaving.
    bound: bool,
}

/// The bound of one path.
#[derive(Clone, Debug)]
pub(crate) struct DelayBound {
    target: Duration,
    /// The lowest round-trip time since `lowest_since`, and in the time before.
    lowest: [Option<Duration>; 2],
    lowest_since: Timestamp,
    /// Nothing less urgent leaves before.
    paused_until: Timestamp,
    round: Option<Round>,
    /// The size of the largest chunk of the last round.
    usual: usize,
    /// Bytes that may be in flight.
    allowed: usize,
}

impl DelayBound {
    pub(crate) fn new(target: Duration, now: Timestamp) -> Self {
        Self {
            target,
            lowest: [None; 2],
            lowest_since: now,
            paused_until: now,
            round: None,
            usual: 0,
            allowed: usize::MAX,
        }
    }

    /// Whether less urgent data may leave beside what is in flight. With nothing in flight it may: there is no queue.
    pub(crate) fn allows(&mut self, now: Timestamp, in_flight: usize) -> bool {
        let allows = in_flight == 0 || (now >= self.paused_until && in_flight < self.allowed);
        if let Some(round) = self.round.as_mut().filter(|_| !allows) {
            round.bound = true;
        }
        allows
    }

    /// Bytes were acknowledged, of which the largest chunk that was sent once has that size and left at that time; size 0
    /// says that there is none. `packet` is the size of a full one.
    pub(crate) fn on_ack(
        &mut self,
        now: Timestamp,
        bytes: usize,
        (size, sent_at): (usize, Timestamp),
        packet: usize,
    ) {
        // On a thin link a small packet takes less time than those that the bound is for.
        let round_trip = (size > self.usual / 2).then(|| now.saturating_duration_since(sent_at));
        self.lowest[0] = [self.lowest[0], round_trip].into_iter().flatten().min();
        let Some(lowest) = self.lowest.iter().flatten().min().copied() else {
            return;
        };
        let fresh = Round {
            began: now,
            acked: 0,
            largest: 0,
            lowest: None,
            bound: false,
        };
        let round = self.round.get_or_insert(fresh);
        if round.began == now {
            return;
        }
        round.acked += bytes;
        round.largest = round.largest.max(size);
        round.lowest = [round.lowest, round_trip].into_iter().flatten().min();
        let elapsed = now.saturating_duration_since(round.began);
        if elapsed < lowest {
            return;
        }
        let round = core::mem::replace(round, fresh);
        self.usual = round.largest;
        let queue = round
            .lowest
            .map_or(Duration::ZERO, |of_it| of_it.saturating_sub(lowest));
        self.end_round(round, elapsed, lowest, queue, packet);
        if now.saturating_duration_since(self.lowest_since) >= LOWEST_COUNTS {
            self.lowest = [None, self.lowest[0]];
            self.lowest_since = now;
            if self.allowed < usize::MAX {
                self.paused_until = now + queue;
            }
        }
    }

    fn end_round(
        &mut self,
        round: Round,
        elapsed: Duration,
        lowest: Duration,
        queue: Duration,
        packet: usize,
    ) {
        let within = |time: Duration| {
            let bytes = round.acked as u128 * time.as_nanos() / elapsed.as_nanos().max(1);
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let queued = within(self.target).max(LEAST_QUEUED * packet / 4);
        let mut allowed = within(lowest).saturating_add(queued).max(LEAST * packet);
        if queue < self.target / 2 {
            // The rate may be higher than it was asked for.
            allowed = allowed.saturating_add(allowed / 4);
        }
        // An application that sent less than it might shows a low rate, and no queue.
        if allowed > self.allowed || round.bound || queue > self.target {
            self.allowed = allowed;
        }
    }
}
