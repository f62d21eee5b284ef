//! Which path a packet takes when several are used at once (concurrent multipath transfer): the schedulers of new data and the policies
//! of retransmissions (draft-tuexen-tsvwg-sctp-multipath §3, §5, §7).
//!
//! # Earliest delivery first
//!
//! The scheduler considers the paths in the order in which a packet sent now would be acknowledged. The first path takes data while its
//! windows allow it. A later, slower path `s` takes a packet only under two conditions. First, all data that the faster paths send until
//! the packet is acknowledged on `s` must fit the windows:
//!
//! ```text
//! flight(s) + packet + Σ rate(faster) · time(s) ≤ receive window
//! flight(s) + packet + Σ rate(faster) · time(faster) ≤ send buffer
//! ```
//!
//! For the data of the faster paths arrives before the packet and waits for it in the receive buffer; if the receiver may renege, that
//! data also waits in the send buffer. Second, the packet must arrive before the faster paths could have sent everything that is queued.
//! Otherwise the packet waits for a faster path, and the slow path stays empty, so that it never costs more than it gains.

use core::time::Duration;

use super::departure::{Load, Offer};
use super::selection::Paths;
use super::{Path, PathId, PathState};
use crate::config::{PathScheduler, RetransmissionPolicy};
use crate::controller::Controller;
use crate::time::Timestamp;
use crate::trace_event::Blocked;

/// How long the sender remembers that the peer sent data on a path.
const SPREAD_MEMORY: Duration = Duration::from_secs(1);

impl Path {
    /// The smoothed RTT in seconds. A path without a measurement is tried first, so that it gets one.
    fn round_trip(&self) -> f64 {
        self.rtt.smoothed().map_or(0.0, |time| time.as_secs_f64())
    }

    /// Seconds from handing a packet of `size` bytes to this path until it is acknowledged.
    fn time_to_deliver(&self, size: usize) -> f64 {
        let round_trip = self.round_trip();
        let queued = self
            .delivery
            .rate()
            .map_or(0.0, |rate| (self.flight.bytes() + size) as f64 / rate);
        round_trip.max(queued)
    }

    /// As [`Path::time_to_deliver`] for a full packet, plus the time until the congestion window has space.
    fn time_to_retransmit(&self) -> f64 {
        let size = self.pmtu.max_data();
        let excess = if self.may_retransmit() {
            0
        } else {
            (self.flight.bytes() + size).saturating_sub(self.control.window())
        };
        self.time_to_deliver(size) + excess as f64 / self.rate()
    }

    /// The rate of the path in bytes per second: the measured one, or that of its congestion window.
    pub(crate) fn rate(&self) -> f64 {
        let round_trip = self.round_trip();
        let window = self.control.window() as f64 / round_trip.max(1e-6);
        self.delivery.rate().map_or(window, |rate| rate.max(window))
    }
}

impl Paths {
    /// Whether new data takes several paths at once: several are active.
    pub(crate) fn spreads(&self) -> bool {
        self.multipath.is_on() && self.active().nth(1).is_some()
    }

    /// The active paths.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Path> {
        self.iter().filter(|path| path.state == PathState::Active)
    }

    /// The active paths, which may be changed.
    pub(crate) fn active_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.iter_mut().filter(|path| path.state == PathState::Active)
    }

    /// The number of active paths.
    pub(crate) fn active_count(&self) -> usize {
        self.active().count()
    }

    /// Chooses the path of new data: `only` this one, or one of the active paths. The error is the reason why none may send now, or why
    /// one that cannot send yet would still deliver sooner.
    #[inline(always)]
    pub(crate) fn schedule(
        &mut self,
        now: Timestamp,
        only: Option<PathId>,
        offer: &Offer,
    ) -> Result<PathId, Blocked> {
        match only {
            Some(id) => self.path_mut(id).admits(now, Load::New(offer)).map(|()| id),
            None => self.schedule_several(now, offer),
        }
    }

    fn schedule_several(&mut self, now: Timestamp, offer: &Offer) -> Result<PathId, Blocked> {
        let mut refused = Refused(Blocked::State);
        let found = match self.multipath.scheduler {
            PathScheduler::EarliestDeliveryFirst => self.earliest_delivery(now, offer, &mut refused),
            PathScheduler::LowestRttFirst => self.lowest_rtt(now, offer, &mut refused),
            PathScheduler::RoundRobin => self.round_robin(now, offer, &mut refused),
        };
        found.ok_or(refused.0)
    }

    fn round_robin(&mut self, now: Timestamp, offer: &Offer, refused: &mut Refused) -> Option<PathId> {
        let (count, from) = (self.len(), self.turn.index());
        let mut ids = (1..=count).map(|step| PathId(((from + step) % count) as u8));
        ids.find(|id| refused.takes(self.path_mut(*id), now, offer))
    }

    fn lowest_rtt(&mut self, now: Timestamp, offer: &Offer, refused: &mut Refused) -> Option<PathId> {
        let ready = self
            .iter_mut()
            .filter_map(|path| refused.takes(path, now, offer).then_some(&*path));
        ready.min_by_key(|path| path.rtt.smoothed()).map(|path| path.id)
    }

    fn earliest_delivery(&mut self, now: Timestamp, offer: &Offer, refused: &mut Refused) -> Option<PathId> {
        let count = self.len();
        let mut asked = offer.avoid;
        // Rate and bytes in flight of the faster paths.
        let (mut rate, mut flight, mut fastest) = (0.0, 0.0, f64::MAX);
        for _ in 0..count.min(64) {
            let next = self
                .active()
                .filter(|path| asked & bit(path.id) == 0)
                .map(|path| (path.time_to_deliver(offer.size), path.id))
                .min_by(|one, other| one.0.total_cmp(&other.0));
            let (time, id) = next?;
            asked |= bit(id);
            fastest = fastest.min(time);
            let path = self.path_mut(id);
            if refused.takes(path, now, offer) {
                let here = (path.flight.bytes() + offer.size) as f64;
                let alone = rate == 0.0;
                let fits = here + rate * time <= offer.receive_window as f64
                    && here + flight <= offer.send_window as f64;
                let worth = (time - fastest) / 2.0 * rate <= offer.queued as f64;
                if alone || (fits && worth) {
                    return Some(id);
                }
            }
            rate += path.rate();
            flight += path.control.window() as f64;
        }
        None
    }

    /// A packet with DATA arrived on the path of the last arrival; returns whether data arrived on another path within
    /// [`SPREAD_MEMORY`] before.
    pub(crate) fn is_spread_arrival(&mut self, now: Timestamp) -> bool {
        self.multipath.is_on() && self.multipath.delayed_acks && self.note_data_arrival(now)
    }

    fn note_data_arrival(&mut self, now: Timestamp) -> bool {
        let id = self.last_arrival;
        self.path_mut(id).route.data_arrived = Some(now);
        let recent = |at: Timestamp| now.saturating_duration_since(at) <= SPREAD_MEMORY;
        self.iter()
            .any(|path| path.id != id && path.route.data_arrived.is_some_and(recent))
    }

    /// Whether a packet of `size` bytes that left on `path` this long ago would be acknowledged sooner if it were retransmitted now on
    /// another path whose window allows it.
    pub(crate) fn delivers_sooner_elsewhere(&self, path: PathId, size: usize, waited: Duration) -> bool {
        let here = self.path(path).time_to_deliver(0) - waited.as_secs_f64();
        self.active()
            .filter(|other| other.id != path && other.has_cwnd_room())
            .any(|other| other.time_to_deliver(size) < here)
    }

    /// Whether a retransmission waits for its own path while the windows of other paths have space.
    pub(crate) fn retransmits_on_same_path(&self) -> bool {
        self.spreads() && self.multipath.retransmission == RetransmissionPolicy::SamePath
    }

    /// Chooses the path for retransmitting a chunk last sent on `last`: by the policy, among the paths whose windows have space. The path
    /// that lost the chunk is excluded unless the policy wants the same path. If no window has space, among all paths.
    pub(crate) fn retransmission_path(&self, last: PathId) -> PathId {
        let policy = self.multipath.retransmission;
        if policy == RetransmissionPolicy::SamePath && self.path(last).state == PathState::Active {
            return last;
        }
        if policy == RetransmissionPolicy::EarliestDelivery {
            let times = self.active().map(|path| (path.time_to_retransmit(), path.id));
            let first = times.min_by(|one, other| one.0.total_cmp(&other.0));
            return first.map_or(last, |(_, id)| id);
        }
        let best = |wanted: &dyn Fn(&Path) -> bool| {
            let mut best: Option<&Path> = None;
            for path in self.active().filter(|path| wanted(path)) {
                if best.is_none_or(|best| is_better(policy, path, best)) {
                    best = Some(path);
                }
            }
            best.map(|path| path.id)
        };
        let free = Path::may_retransmit;
        best(&|path| path.id != last && free(path))
            .or_else(|| best(&free))
            .or_else(|| best(&|path| path.id != last))
            .or_else(|| best(&|_| true))
            .unwrap_or(last)
    }
}

/// Why no path takes a packet, of the reasons of several paths: what ends first by itself, otherwise what the network limits.
struct Refused(Blocked);

impl Refused {
    /// Whether this active path takes the packet; the reason why not counts.
    fn takes(&mut self, path: &mut Path, now: Timestamp, offer: &Offer) -> bool {
        if path.state != PathState::Active {
            return false;
        }
        let admitted = path.admits(now, Load::New(offer));
        if let Err(reason) = admitted {
            self.0 = match (self.0, reason) {
                (Blocked::Pacer(one), Blocked::Pacer(other)) => Blocked::Pacer(one.min(other)),
                (Blocked::Pacer(_), _) => self.0,
                (_, Blocked::Pacer(_)) => reason,
                (before, _) if before.is_for_network() => before,
                _ => reason,
            };
        }
        admitted.is_ok()
    }
}

fn is_better(policy: RetransmissionPolicy, path: &Path, than: &Path) -> bool {
    match policy {
        RetransmissionPolicy::LargestSsthresh => path.ssthresh() > than.ssthresh(),
        RetransmissionPolicy::LargestCwnd => path.control.window() > than.control.window(),
        RetransmissionPolicy::LowestLoss => path.delivery.loss() < than.delivery.loss(),
        RetransmissionPolicy::SamePath
        | RetransmissionPolicy::SmallestRtt
        | RetransmissionPolicy::EarliestDelivery => path.rtt.smoothed() < than.rtt.smoothed(),
    }
}

/// The bit of a path in [`Offer::avoid`].
pub(crate) fn bit(id: PathId) -> u64 {
    1_u64.checked_shl(id.0.into()).unwrap_or_default()
}
