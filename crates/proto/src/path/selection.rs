//! Which path a packet takes (RFC 9260 §5.4, §6.4, §6.4.1; RFC 7829 §3.2, §4.1): the primary one, and another
//! when it fails.

use std::net::{IpAddr, SocketAddr};

use super::{Path, PathId, PathState};
use crate::config::{Config, MultipathConfig};
use crate::controller::Coupling;
use crate::inbound::Inbound;
use crate::time::Timestamp;

/// What is to be sent, as far as the choice of a path depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// DATA for the first time.
    New,
    /// DATA that was last sent on `last`, and lost there by T3-rtx or by missing reports.
    Retransmission { last: PathId, timed_out: bool },
}

/// The paths of an association, and the primary one.
#[derive(Debug)]
pub(crate) struct Paths {
    all: Vec<Path>,
    /// Whether the controllers want delivery rates.
    pub(crate) samples_rates: bool,
    /// Of the first path's controller; those of the others follow.
    seed: u64,
    /// Addresses of the peer that no local one goes with, or for which there was no place: nothing is sent there.
    unused: Vec<IpAddr>,
    primary: PathId,
    /// Where new data went last, to notice a failover.
    current: PathId,
    /// Whether paths can be potentially failed (RFC 7829), and those that are not active are told apart.
    quick: bool,
    pub(super) multipath: MultipathConfig,
    /// Where the last packet with new data went, for turns.
    pub(super) turn: PathId,
    /// The path a packet last came by.
    pub(crate) last_arrival: PathId,
}

impl Paths {
    /// Begins with the one path that set-up uses.
    pub(crate) fn new(
        local: Option<IpAddr>,
        remote: SocketAddr,
        config: &Config,
        now: Timestamp,
        seed: u64,
    ) -> Self {
        let first = PathId(0);
        let path = Path::new(first, local, remote, config, now, seed);
        Self {
            samples_rates: path.rate.is_some(),
            all: vec![path],
            seed,
            unused: Vec::new(),
            primary: first,
            current: first,
            quick: config.retransmissions.potentially_failed_max_retrans.is_some(),
            multipath: config.multipath,
            turn: first,
            last_arrival: first,
        }
    }

    /// So many paths to addresses of their own.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn for_models(count: u8) -> Self {
        let config = Config::default();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut paths = Self::new(
            Some(address(99)),
            SocketAddr::new(address(0), 9899),
            &config,
            Timestamp::ZERO,
            0,
        );
        for last in 1..count {
            let remote = SocketAddr::new(address(last), 9899);
            paths.add(Some(address(99)), remote, &config, Timestamp::ZERO);
        }
        paths
    }

    /// Adds a path to another address of the peer unless it is known, there are enough, or no local address goes with it;
    /// answers the new one.
    pub(crate) fn add(
        &mut self,
        local: Option<IpAddr>,
        remote: SocketAddr,
        config: &Config,
        now: Timestamp,
    ) -> Option<PathId> {
        if self.knows(remote.ip()) {
            return None;
        }
        let id = u8::try_from(self.all.len()).ok();
        let id = id.filter(|id| local.is_some() && usize::from(*id) < config.max_paths);
        let Some(id) = id.map(PathId) else {
            self.unused.push(remote.ip());
            return None;
        };
        let mut path = Path::new(
            id,
            local,
            remote,
            config,
            now,
            self.seed.wrapping_add(u64::from(id.0)),
        );
        if self.all.iter().any(|other| other.flight.is_named()) {
            path.flight.name();
        }
        self.all.push(path);
        Some(id)
    }

    /// Whether this is an address of the peer, used or not.
    pub(crate) fn knows(&self, remote: IpAddr) -> bool {
        self.find(None, remote).is_some() || self.unused.contains(&remote)
    }

    /// Whether the peer only listed the address of this path. The first path is of an address that set-up used (§5.4).
    pub(crate) fn is_only_listed(&self, id: PathId) -> bool {
        id != PathId(0) && self.path(id).state == PathState::Unconfirmed
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Path> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Path> {
        self.all.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn contains(&self, id: PathId) -> bool {
        id.index() < self.all.len()
    }

    pub(crate) fn path(&self, id: PathId) -> &Path {
        &self.all[id.index()]
    }

    pub(crate) fn path_mut(&mut self, id: PathId) -> &mut Path {
        &mut self.all[id.index()]
    }

    /// The path of a packet that came from `remote` to `local`: the same pair, else the same remote address.
    pub(crate) fn find(&self, local: Option<IpAddr>, remote: IpAddr) -> Option<PathId> {
        let same_remote = || self.all.iter().filter(|path| path.remote.ip() == remote);
        same_remote()
            .find(|path| local.is_some() && path.local == local)
            .or_else(|| same_remote().next())
            .map(|path| path.id)
    }

    /// Bytes of user data in flight on all paths.
    pub(crate) fn payload_in_flight(&self) -> usize {
        match self.all.as_slice() {
            [only] => only.flight.payload(),
            all => all.iter().map(|path| path.flight.payload()).sum(),
        }
    }

    /// Remembers where a packet with this side's tag came from: answers go there, to the UDP port it came from (RFC 6951 §5.4).
    pub(crate) fn on_arrival(&mut self, inbound: &Inbound) {
        if let Some(id) = self.find(inbound.local, inbound.remote.ip()) {
            self.last_arrival = id;
            self.path_mut(id).on_arrival(inbound.remote.port());
        }
    }

    /// Whether T3-rtx runs on any path.
    pub(crate) fn t3_runs(&self) -> bool {
        self.all.iter().any(|path| path.t3.is_some())
    }

    pub(crate) fn primary(&self) -> PathId {
        self.primary
    }

    pub(crate) fn set_primary(&mut self, path: PathId) {
        self.primary = path;
    }

    /// AMDCS: the largest DATA chunk that fits every path (§1.6), so that a chunk can be repeated on any.
    pub(crate) fn smallest_max_data(&self) -> usize {
        self.all
            .iter()
            .map(|path| path.pmtu.max_data())
            .min()
            .unwrap_or(0)
    }

    /// Chooses the path (§6.4): new data goes to the primary path while it is active, else to an active one; what
    /// T3-rtx found lost is repeated on another active path (§6.4.1), what reports found lost where it was.
    /// When none is active the primary is tried on (dormant association); under RFC 7829 one that is potentially failed
    /// before one that is inactive, and of those the one with the fewest errors (§3.2 item 4, §4.1).
    pub(crate) fn choose(&self, candidate: Candidate) -> PathId {
        let preferred = match candidate {
            Candidate::New => self.primary,
            Candidate::Retransmission {
                last,
                timed_out: false,
            } => last,
            Candidate::Retransmission {
                last,
                timed_out: true,
            } => self.other_than(last),
        };
        if self.is_active(preferred) {
            preferred
        } else {
            self.first_active().unwrap_or_else(|| self.least_bad(candidate))
        }
    }

    /// Of several paths with as few errors: the next after the one where the data was lost, as that is the most
    /// different that is known; for new data the primary one.
    fn least_bad(&self, candidate: Candidate) -> PathId {
        if !self.quick {
            return self.primary;
        }
        let from = match candidate {
            Candidate::New => self.primary.index(),
            Candidate::Retransmission { last, timed_out } => last.index() + usize::from(timed_out),
        };
        let count = self.all.len();
        let with = |state: PathState| {
            (0..count)
                .map(|step| &self.all[(from + step) % count])
                .filter(|path| path.state == state)
                .min_by_key(|path| path.error_count)
        };
        with(PathState::PotentiallyFailed)
            .or_else(|| with(PathState::Inactive))
            .map_or(self.primary, |path| path.id)
    }

    /// How the window of a path depends on those of the others that carry data.
    #[inline]
    pub(crate) fn coupling(&self, id: PathId) -> Coupling {
        if self.multipath.is_on() {
            self.coupling_of_several(id)
        } else {
            Coupling::Uncoupled
        }
    }

    fn coupling_of_several(&self, id: PathId) -> Coupling {
        let carries = |path: &&Path| path.id == id || !path.flight.is_empty();
        let members = self.all.iter().filter(carries).map(Path::member);
        Coupling::new(self.multipath.congestion, self.path(id).member(), members)
    }

    /// Notes where new data goes; answers true when it had to leave a path that failed.
    pub(crate) fn note_current(&mut self, path: PathId) -> bool {
        self.turn = path;
        let failed_over = path != self.current && !self.is_active(self.current);
        self.current = path;
        failed_over
    }

    /// The path currently used for data transfer (§8.1).
    pub(crate) fn data_path(&self) -> PathId {
        self.choose(Candidate::New)
    }

    /// Where acknowledgements and other answers go: back to where the last packet came from (§6.4), unless that address
    /// may not be the peer's (§5.4).
    pub(crate) fn answer_path(&self) -> PathId {
        if self.path(self.last_arrival).state == PathState::Unconfirmed {
            self.data_path()
        } else {
            self.last_arrival
        }
    }

    fn is_active(&self, id: PathId) -> bool {
        self.path(id).state == PathState::Active
    }

    fn first_active(&self) -> Option<PathId> {
        self.all
            .iter()
            .find(|path| path.state == PathState::Active)
            .map(|path| path.id)
    }

    /// The next active path after `last`, in turn, so that repeats try all; `last` itself if there is no other.
    pub(crate) fn other_than(&self, last: PathId) -> PathId {
        let count = self.all.len();
        (1..count)
            .map(|step| PathId(((last.index() + step) % count) as u8))
            .find(|id| self.is_active(*id))
            .unwrap_or(last)
    }
}
