//! Path selection with one path at a time: the primary path, and another path if it fails (RFC 9260 §5.4, §6.4, §6.4.1; RFC 7829 §3.2,
//! §4.1).

use std::net::{IpAddr, SocketAddr};

use super::candidate_port::CandidatePort;
use super::gates::Gates;
use super::route::Route;
use super::{Path, PathId, PathState};
use crate::config::{Config, MultipathConfig};
use crate::congestion::Groups;
use crate::controller::Coupling;
use crate::inbound::Inbound;
use crate::time::Timestamp;

/// The properties of the data to be sent on which the choice of a path depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// DATA that is sent for the first time.
    New,
    /// DATA that was last sent on `last` and declared lost there, by T3-rtx or by missing reports.
    Retransmission { last: PathId, timed_out: bool },
}

/// The paths of an association, and the primary one.
#[derive(Debug)]
pub(crate) struct Paths {
    all: Vec<Path>,
    /// Whether the controllers want delivery rates.
    pub(crate) samples_rates: bool,
    /// The seed of the first path's controller; those of the other paths follow.
    seed: u64,
    /// Addresses of the peer without a path, because no local address can be used with them or the limit was reached.
    unused: Vec<IpAddr>,
    primary: PathId,
    /// The path whose address set-up used, unless it was removed.
    set_up: Option<PathId>,
    /// The address of the peer that becomes primary when it is confirmed (RFC 5061 §5.4).
    preferred: Option<PathId>,
    /// Every path with a confirmed address was removed: nothing but heartbeats leaves until another address is confirmed.
    awaits_confirmation: bool,
    /// The path that new data took last, to notice a failover.
    current: PathId,
    /// Whether the potentially failed state is used (RFC 7829). Then the least bad of several inactive paths is chosen by its errors.
    pub(super) quick: bool,
    pub(super) multipath: MultipathConfig,
    /// Which paths may share a bottleneck, if the windows of those alone are coupled.
    pub(super) groups: Option<Box<Groups>>,
    /// The path of the last packet with new data, for round robin.
    pub(super) turn: PathId,
    /// The path on which the last packet arrived.
    pub(crate) last_arrival: PathId,
    /// Whether paths to one address of the peer may differ by the UDP port.
    pub(super) by_port: bool,
    pub(super) candidates: Vec<CandidatePort>,
}

impl Paths {
    /// Creates the one path that set-up uses.
    pub(crate) fn new(
        local: Option<IpAddr>,
        remote: SocketAddr,
        config: &Config,
        now: Timestamp,
        seed: u64,
    ) -> Self {
        let first = PathId(0);
        let mut path = Path::new(first, local, remote, config, now, seed);
        path.route.name = Some(0);
        Self {
            samples_rates: path.rate.is_some(),
            all: vec![path],
            seed,
            unused: Vec::new(),
            primary: first,
            set_up: Some(first),
            preferred: None,
            awaits_confirmation: false,
            current: first,
            quick: config.retransmissions.fails_potentially(),
            multipath: config.multipath,
            groups: config.multipath.is_grouped().then(Box::default),
            turn: first,
            last_arrival: first,
            by_port: false,
            candidates: Vec::new(),
        }
    }

    /// Creates this many paths, each to an address of its own.
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

    /// Adds a path to another address of the peer, unless the address is known, the limit is reached, or no local address can be used with
    /// it; returns the new path. An address without a path is kept, to be known too.
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
        let added = local.and_then(|local| self.add_pair((local, remote), config, now));
        if added.is_none() {
            self.unused.push(remote.ip());
        }
        added
    }

    /// Adds a path from a local address to an address of the peer, unless there is one or the limit is reached.
    pub(super) fn add_pair(
        &mut self,
        (local, remote): (IpAddr, SocketAddr),
        config: &Config,
        now: Timestamp,
    ) -> Option<PathId> {
        if self.pair(local, remote).is_some() {
            return None;
        }
        let id = self.free_number(config)?;
        let mut path = Path::new(id, Some(local), remote, config, now, self.next_seed(id));
        self.forget_group(id);
        let twin = self.to_port(remote);
        path.route.name = twin.and_then(|twin| self.path(twin).route.name);
        if self.all.iter().any(|other| other.flight.is_named()) {
            path.flight.name();
        }
        self.forget_candidate(remote.ip());
        match self.all.get_mut(id.index()) {
            Some(removed) => {
                // The numbers of transmissions continue: acknowledgements may still name the old ones.
                path.flight = core::mem::take(&mut removed.flight);
                *removed = path;
            }
            None => self.all.push(path),
        }
        Some(id)
    }

    /// The number of the next path: that of a path that was removed, or a new one.
    fn free_number(&self, config: &Config) -> Option<PathId> {
        let removed = self
            .all
            .iter()
            .find(|path| path.route.removed)
            .map(|path| path.id);
        let new = || u8::try_from(self.all.len()).ok();
        let new = || {
            new()
                .filter(|id| usize::from(*id) < config.most_paths())
                .map(PathId)
        };
        removed.or_else(new)
    }

    /// Less urgent data may delay other data from now on no longer than the settings say.
    pub(crate) fn bound_delays(&mut self, config: &Config, now: Timestamp) {
        for path in &mut self.all {
            let bound = Gates::new(config, now).delay_bound;
            path.gates.delay_bound = path.gates.delay_bound.take().or(bound);
        }
    }

    /// The settings have another congestion control algorithm now.
    pub(crate) fn change_controllers(&mut self, config: &Config) {
        for index in 0..self.all.len() {
            let seed = self.next_seed(PathId(index as u8));
            self.all[index].change_controller(config, seed);
        }
        self.samples_rates = self.all.iter().any(|path| path.rate.is_some());
    }

    /// The seed of a path's controller.
    pub(super) fn next_seed(&self, id: PathId) -> u64 {
        self.seed.wrapping_add(u64::from(id.0))
    }

    /// The addresses of the peer without a path.
    pub(super) fn unused(&self) -> &[IpAddr] {
        &self.unused
    }

    pub(super) fn forget_unused(&mut self, address: IpAddr) {
        self.unused.retain(|unused| *unused != address);
    }

    /// A path was removed: another one takes its roles. An active one, otherwise one that may become active.
    pub(super) fn on_removed(&mut self, id: PathId) {
        let confirmed = |path: &&Path| !path.route.removed && path.state != PathState::Unconfirmed;
        self.awaits_confirmation = !self.all.iter().any(|path| confirmed(&path));
        self.set_up = self.set_up.filter(|set_up| *set_up != id);
        self.preferred = self.preferred.filter(|preferred| *preferred != id);
        let by_state = |path: &&Path| match path.state {
            PathState::Active => 0,
            PathState::PotentiallyFailed => 1,
            PathState::Inactive => 2,
            PathState::Unconfirmed => 3,
        };
        let present = self.all.iter().filter(|path| !path.route.removed);
        let Some(heir) = present.min_by_key(by_state).map(|path| path.id) else {
            return;
        };
        for role in [
            &mut self.primary,
            &mut self.current,
            &mut self.turn,
            &mut self.last_arrival,
        ] {
            if *role == id {
                *role = heir;
            }
        }
    }

    /// Whether only heartbeats may leave, because no address of the peer is confirmed (RFC 5061 §5.3 F1, F14).
    pub(crate) fn awaits_confirmation(&self) -> bool {
        self.awaits_confirmation
    }

    /// The peer asks for this primary path (RFC 5061 §5.4): from now on, or as soon as its address is confirmed.
    pub(crate) fn prefer(&mut self, id: PathId) {
        self.preferred = Some(id);
        if self.path(id).state != PathState::Unconfirmed {
            self.on_confirmed(id);
        }
    }

    /// The address of this path is confirmed.
    pub(crate) fn on_confirmed(&mut self, id: PathId) {
        self.awaits_confirmation = false;
        if self.preferred.take_if(|preferred| *preferred == id).is_some() || !self.has(self.primary) {
            self.primary = id;
        }
    }

    /// Whether this is an address of the peer, with or without a path.
    pub(crate) fn knows(&self, remote: IpAddr) -> bool {
        let has_path = self.present().any(|path| path.route.remote.ip() == remote);
        has_path || self.unused.contains(&remote)
    }

    /// The path between these addresses; between endpoints that negotiated it, also the UDP port must be the same.
    pub(super) fn pair(&self, local: IpAddr, remote: SocketAddr) -> Option<PathId> {
        let is_remote = |route: &Route| {
            route.remote.ip() == remote.ip() && (!self.by_port || route.remote.port() == remote.port())
        };
        let is_pair = |path: &&Path| path.route.local == Some(local) && is_remote(&path.route);
        self.present().find(is_pair).map(|path| path.id)
    }

    /// Whether the peer only listed the address of this path. The first path has an address that set-up used (§5.4).
    pub(crate) fn is_only_listed(&self, id: PathId) -> bool {
        self.set_up != Some(id) && self.path(id).state == PathState::Unconfirmed
    }

    /// Whether a path to this address and port was confirmed, or used by set-up.
    pub(crate) fn is_confirmed(&self, remote: SocketAddr) -> bool {
        let mut paths = self.present().filter(|path| path.route.remote == remote);
        paths.any(|path| !self.is_only_listed(path.id))
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

    /// The path of a packet from `remote` to `local`: the one with this pair of addresses, otherwise one with the same remote address. The
    /// UDP port decides first if paths may differ by it.
    #[inline]
    pub(crate) fn find(&self, local: Option<IpAddr>, remote: SocketAddr) -> Option<PathId> {
        let mut candidates = self
            .present()
            .filter(|path| path.route.remote.ip() == remote.ip());
        if let [_] = self.all.as_slice() {
            return candidates.next().map(|path| path.id);
        }
        let differs = |path: &&Path| {
            let route = &path.route;
            let port = self.by_port && route.remote.port() != remote.port();
            (port, local.is_none() || route.local != local)
        };
        candidates.min_by_key(differs).map(|path| path.id)
    }

    /// Bytes of user data in flight on all paths.
    pub(crate) fn payload_in_flight(&self) -> usize {
        match self.all.as_slice() {
            [only] => only.flight.payload(),
            all => all.iter().map(|path| path.flight.payload()).sum(),
        }
    }

    /// Records the source of a packet with this endpoint's tag: answers go there, to its UDP port (RFC 6951 §5.4).
    pub(crate) fn on_arrival(&mut self, inbound: &Inbound) {
        if let Some(id) = self.find(inbound.local, inbound.remote)
            && !self.keeps_port(id, inbound)
        {
            self.last_arrival = id;
            self.path_mut(id).route.on_arrival(inbound.remote.port());
        }
    }

    /// Whether T3-rtx runs on any path.
    pub(crate) fn t3_runs(&self) -> bool {
        self.all.iter().any(|path| path.timers.t3().is_some())
    }

    pub(crate) fn primary(&self) -> PathId {
        self.primary
    }

    pub(crate) fn set_primary(&mut self, path: PathId) {
        self.primary = path;
    }

    /// AMDCS: the largest DATA chunk that fits every path (§1.3), so that a chunk can be retransmitted on any path.
    pub(crate) fn smallest_max_data(&self) -> usize {
        self.present().map(|path| path.pmtu.max_data()).min().unwrap_or(0)
    }

    /// Chooses the path (§6.4). New data takes the primary path while that is active, otherwise another active path. A chunk that T3-rtx
    /// declared lost is retransmitted on another active path (§6.4.1), a chunk that missing reports declared lost on its own path. If no
    /// path is active (dormant state), the primary path is used. With RFC 7829 a potentially failed path is preferred to an inactive one,
    /// and among these the path with the fewest errors (§3.2 item 4, §4.1).
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

    /// Among several paths with the fewest errors: for a retransmission the path after the one that lost the data, because it is the most
    /// different path known; for new data the primary path.
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
                .filter(|path| path.state == state && !path.route.removed)
                .min_by_key(|path| path.error_count)
        };
        with(PathState::PotentiallyFailed)
            .or_else(|| with(PathState::Inactive))
            .map_or(self.primary, |path| path.id)
    }

    /// How the congestion window of a path is coupled to those of the other paths that carry data. With several paths at once this visits
    /// every path.
    #[inline]
    pub(crate) fn coupling(&self, id: PathId) -> Coupling {
        if self.multipath.is_on() {
            self.coupling_of_several(id)
        } else {
            Coupling::Uncoupled
        }
    }

    fn coupling_of_several(&self, id: PathId) -> Coupling {
        let groups = self.groups.as_deref();
        let carries = |path: &&Path| {
            path.id == id
                || !path.flight.is_empty() && groups.is_none_or(|groups| groups.may_share(id, path.id))
        };
        let members = self.all.iter().filter(carries).map(Path::member);
        Coupling::new(self.multipath.congestion, self.path(id).member(), members)
    }

    /// The path begins anew: nothing is known about its bottleneck.
    pub(super) fn forget_group(&mut self, id: PathId) {
        if let Some(groups) = &mut self.groups {
            groups.forget(id);
        }
    }

    /// An acknowledgement measured an RTT on a path.
    pub(crate) fn note_rtt(&mut self, now: Timestamp, id: PathId, sent_at: Timestamp) {
        if let Some(groups) = &mut self.groups {
            let rtt = now.saturating_duration_since(sent_at);
            let longest = || self.all.iter().filter_map(|path| path.rtt.smoothed()).max();
            groups.on_rtt(now, id, rtt, || longest().unwrap_or(rtt));
        }
    }

    /// Records the path of new data; returns true if the data left a path because it failed.
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

    /// The path of acknowledgements and other answers: that on which the last packet arrived (§6.4), unless its address may not belong to
    /// the peer (§5.4).
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

    /// The next active path after `last`, in turn, so that successive retransmissions try all paths; `last` if there is no other.
    pub(crate) fn other_than(&self, last: PathId) -> PathId {
        let count = self.all.len();
        (1..count)
            .map(|step| PathId(((last.index() + step) % count) as u8))
            .find(|id| self.is_active(*id))
            .unwrap_or(last)
    }
}
