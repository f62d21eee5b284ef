//! Limits the less urgent data in flight. The send scheduler lets an urgent message overtake data in the send queue, but not data in a
//! router's queue. On a slow link with a long queue, that can be seconds of less urgent data of the same sender. So the sender sends less
//! urgent data only while the bytes in flight on the path would be delivered within the path's lowest round-trip time plus a target:
//!
//! ```text
//! in flight < rate · (lowest round-trip time + target)      the target being at least a packet and a quarter
//! ```
//!
//! The rate is computed from the bytes acknowledged in the last round trip, so it need not be configured. The target is the time that data
//! may spend in queues. As the window of FAST TCP (Jin, Wei and Low, INFOCOM 2004), the limit settles where the queue holds the target. The
//! congestion window stays in force, so the limit can only reduce the data sent. If cross traffic keeps a path's queue full, the
//! measurements look the same, and less urgent data yields to the cross traffic.

use core::time::Duration;

use crate::time::Timestamp;

/// How long a lowest round-trip time stays valid. After that, less urgent data pauses for as long as its queue takes to drain, so that the
/// next measurement does not include the queue.
const LOWEST_COUNTS: Duration = Duration::from_secs(30);
/// Packets that may always be in flight: the receiver may delay an acknowledgement until it has this many.
const LEAST: usize = 2;
/// Quarters of a packet that may always be in the queue. With less, a link that sends one packet in the target time would become idle.
const LEAST_QUEUED: usize = 5;

/// The measurements of one round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Timestamp,
    /// Bytes acknowledged.
    acked: usize,
    /// The size of the largest chunk among them.
    largest: usize,
    /// The lowest round-trip time.
    lowest: Option<Duration>,
    /// Whether the limit held data back.
    bound: bool,
}

/// The limit of one path.
#[derive(Clone, Debug)]
pub(crate) struct DelayBound {
    target: Duration,
    /// The lowest round-trip time since `lowest_since`, and that of the period before.
    lowest: [Option<Duration>; 2],
    lowest_since: Timestamp,
    /// No less urgent data is sent before this time.
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

    /// Whether less urgent data may be sent with `in_flight` bytes in flight. If nothing is in flight, it may, because there is no queue.
    pub(crate) fn allows(&mut self, now: Timestamp, in_flight: usize) -> bool {
        let allows = in_flight == 0 || (now >= self.paused_until && in_flight < self.allowed);
        if let Some(round) = self.round.as_mut().filter(|_| !allows) {
            round.bound = true;
        }
        allows
    }

    /// `bytes` were acknowledged. `size` and the time of sending belong to the largest acknowledged chunk that was transmitted only once;
    /// size 0 means that there is none. `packet` is the size of a full packet.
    pub(crate) fn on_ack(
        &mut self,
        now: Timestamp,
        bytes: usize,
        (size, sent_at): (usize, Timestamp),
        packet: usize,
    ) {
        // On a slow link, a small packet has a shorter round-trip time than the packets that the limit is for.
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
            // The path may carry more than the measured rate, which cannot exceed the sending rate.
            allowed = allowed.saturating_add(allowed / 4);
        }
        // If the application sent less than allowed, the measured rate is low although there is no queue.
        if allowed > self.allowed || round.bound || queue > self.target {
            self.allowed = allowed;
        }
    }
}
