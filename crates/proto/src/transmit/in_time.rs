//! Messages with a deadline ([`crate::SendOptions::deadline`]) on several paths: how probable it is that a chunk is in time on each, and the path
//! that new chunks take. `extension/deadline` has the rules, and `source/copies.rs` the copies.

use core::time::Duration;

use super::{Cx, Sender};
use crate::config::Config;
use crate::controller::Controller;
use crate::extension::deadline::Chance;
use crate::message::{Copies, Persistence};
use crate::path::{Load, Offer, Path, PathId, bit};
use crate::time::Timestamp;
use crate::trace_event::Blocked;

/// If a path is better than another by less than this factor, data need not wait for it.
const NEARLY: f64 = 2.0;
/// The variation of the delay on a path that was not measured.
const UNKNOWN: Duration = Duration::from_millis(50);
/// The loss on a path that does not answer in time: it may be interrupted, or the answer may be lost.
const OF_SILENT: f64 = 0.5;
/// A path that fails less often than this is good enough: of several, the fastest takes the data.
const RARELY: f64 = 0.003;
/// A path on which a message is late with this probability is left, although only one path is used at a time.
const LATE: f64 = 0.5;

/// The deadline of a chunk, and how many fragments its message has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Timestamp,
    pub(super) fragments: u32,
}

impl Deadline {
    /// The deadline of a chunk of a message with these properties, if it has one.
    pub(super) fn of(persistence: Persistence, copies: Copies) -> Option<Self> {
        match (persistence, copies) {
            (Persistence::Until(at), Copies::ForDeadline(fragments)) => Some(Self {
                at,
                fragments: u32::from(fragments),
            }),
            _ => None,
        }
    }
}

/// How probable it is that `bytes` more, which leave on this path now, are in time.
pub(super) fn chance(now: Timestamp, path: &mut Path, bytes: usize) -> Chance {
    let mut chance = chance_alone(now, path, bytes);
    chance.loss.next = chance.loss.next.max(path.copies.burst());
    if path.is_overdue(now) {
        chance.loss.any = chance.loss.any.max(OF_SILENT);
        chance.loss.next = chance.loss.next.max(OF_SILENT);
    }
    chance
}

/// The same for the only path that there is: whether it answers is no reason to send more.
pub(super) fn chance_alone(now: Timestamp, path: &mut Path, bytes: usize) -> Chance {
    let (sent, _, lost) = path.delivery.chunks();
    let loss = path.copies.loss(now, sent, lost);
    // A path without a measurement may be fast.
    let smoothed = path.rtt.smoothed().unwrap_or_default();
    let lowest = path.rtt.min().unwrap_or(smoothed);
    let varies = path.rtt.smoothed().map_or(UNKNOWN, |_| path.rtt.rttvar());
    // Data that waits for its answer for longer than the detection of a loss takes shows that the round-trip time is longer by now.
    let lost_by_now = path
        .rtt
        .smoothed()
        .map_or(Duration::ZERO, |_| 2 * path.rtt.unbounded_rto());
    let waits = path.waits(now).filter(|waits| *waits > lost_by_now);
    let round_trip = smoothed.max(waits.unwrap_or_default());
    let rate = path.control.known_rate().unwrap_or_else(|| path.rate()).max(1.0);
    let queued = (path.flight.bytes() + path.copies.bytes() + bytes) as f64 - rate * smoothed.as_secs_f64();
    let queue = Duration::try_from_secs_f64(queued.max(0.0) / rate).unwrap_or(Duration::MAX);
    Chance {
        loss,
        // Acknowledgements meet no queue.
        arrives: round_trip.saturating_sub(lowest / 2).saturating_add(queue),
        varies,
        round_trip: smoothed,
    }
}

/// A path that the next chunk could take.
struct Candidate {
    id: PathId,
    /// The probability that the chunk is lost or late there.
    failure: f64,
    /// The probability that it is late there although it is not lost.
    late: f64,
    arrives: Duration,
}

impl Candidate {
    /// The smaller, the better. Of several paths that are good enough, the fastest is the best.
    fn rank(&self) -> (f64, Duration) {
        (self.failure.max(RARELY), self.arrives)
    }
}

impl Sender {
    /// How long a queue the data without a deadline may make, if it waits to be sent.
    pub(super) fn queue_of_less_urgent(&self, config: &Config) -> Duration {
        let bound = config.low_priority_delay.unwrap_or_default();
        if self.queue.next_class() > 0 {
            // Before the bound takes effect, the queue is longer for a while.
            bound * 2
        } else {
            Duration::ZERO
        }
    }

    /// The path of the next new chunk if its message has a deadline and several paths are active: the one on which it is in time most
    /// probably, and of several that are good enough the fastest. `None` if the deadline is no reason to choose a path.
    #[inline(never)]
    pub(super) fn timely_path(&mut self, cx: &mut Cx<'_>, offer: &Offer) -> Option<Result<PathId, Blocked>> {
        if self.queue.has_directed() || cx.paths.active_count() < 2 {
            return None;
        }
        let deadline = self.queue.next_persistence();
        let deadline = deadline.and_then(|(persistence, copies)| Deadline::of(persistence, copies))?;
        let mut candidates = candidates(cx, deadline, offer.size);
        if !cx.paths.spreads() {
            let data_path = cx.paths.data_path();
            let of_data = candidates.iter().find(|path| path.id == data_path)?;
            if of_data.failure < LATE {
                return None;
            }
            candidates.retain(|path| path.failure < LATE);
        } else if deadline.fragments > 1 {
            return path_of_fragment(cx, &candidates, offer);
        }
        best_path(cx, candidates, offer)
    }
}

/// The active paths, for a chunk of so many bytes with this deadline.
fn candidates(cx: &mut Cx<'_>, deadline: Deadline, bytes: usize) -> Vec<Candidate> {
    let now = cx.now;
    let left = deadline.at.saturating_duration_since(now);
    let of_path = |path: &mut Path| {
        let chance = chance(now, path, bytes);
        Candidate {
            id: path.id,
            failure: chance.of_first(left, deadline.fragments).probability(),
            late: chance.late(left),
            arrives: chance.arrives,
        }
    };
    cx.paths.active_mut().map(of_path).collect()
}

/// The path that delivers first, but none on which the chunk is late: the fragments of a message may take several paths.
fn path_of_fragment(
    cx: &mut Cx<'_>,
    candidates: &[Candidate],
    offer: &Offer,
) -> Option<Result<PathId, Blocked>> {
    let bits = |paths: &mut dyn Iterator<Item = &Candidate>| paths.fold(0, |all, path| all | bit(path.id));
    let all = bits(&mut candidates.iter());
    let avoid = bits(&mut candidates.iter().filter(|path| path.late >= LATE));
    let offer = Offer { avoid, ..*offer };
    (avoid != 0 && avoid != all).then(|| cx.paths.schedule(cx.now, None, &offer))
}

/// The best path that admits the chunk, unless it is better to wait for one that does not yet.
fn best_path(
    cx: &mut Cx<'_>,
    mut candidates: Vec<Candidate>,
    offer: &Offer,
) -> Option<Result<PathId, Blocked>> {
    candidates.sort_by(|one, other| {
        let ((failure, arrives), (its, its_time)) = (one.rank(), other.rank());
        failure.total_cmp(&its).then(arrives.cmp(&its_time))
    });
    let best = candidates.first().filter(|path| path.failure < LATE)?;
    let acceptable = NEARLY * best.failure.max(RARELY);
    let mut refused = None;
    for path in candidates.iter().take_while(|path| path.failure <= acceptable) {
        match cx.paths.path_mut(path.id).admits(cx.now, Load::New(offer)) {
            Ok(()) => return Some(Ok(path.id)),
            Err(blocked) => refused = refused.or(Some(blocked)),
        }
    }
    refused.map(Err)
}
