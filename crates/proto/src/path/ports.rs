//! Paths that differ by the UDP port of the peer alone. RFC 6951 §5.4 keeps one port for each address; only endpoints that negotiated pairs
//! keep several, for networks whose address translators share a public address.
//!
//! A new port may be that of any path, or of an attacker who replays a packet. It is a *candidate*, which gets heartbeats alone. It replaces the
//! port of a path only after it has answered, and only if this path is silent and all others to the address answer heartbeats.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_wire::chunk::kind;

use super::candidate_port::CandidatePort;
use super::{HeartbeatInfo, Path, PathId, Paths};
use crate::icmp::IcmpMessage;
use crate::inbound::Inbound;
use crate::time::Timestamp;

/// The path number in a heartbeat to a candidate. No path has it: `Config::max_paths` is at most 255.
const CANDIDATE: PathId = PathId(u8::MAX);
/// The shortest time between two heartbeats to a candidate.
const PAUSE: Duration = Duration::from_secs(1);
/// A candidate makes way for another one of its address after this time.
const LIFE: Duration = Duration::from_secs(5);

/// The consequences of a packet for the ports of the peer.
#[derive(Debug, Default)]
pub(crate) struct PortChange {
    /// A heartbeat to the source of the packet.
    pub(crate) heartbeat: Option<HeartbeatInfo>,
    /// Paths that are to be tested too: their silence decides.
    pub(crate) tested: Vec<PathId>,
}

impl Path {
    /// Whether the last question on this path has no answer yet, although its time is over.
    fn is_silent(&self, now: Timestamp) -> bool {
        let overdue = |sent_at| sent_at + self.rtt.rto() <= now;
        self.error_count > 0 || self.heartbeat.pending.is_some_and(|info| overdue(info.sent_at))
    }
}

impl Paths {
    /// Whether paths to one address of the peer may differ by the UDP port.
    pub(crate) fn is_by_port(&self) -> bool {
        self.by_port
    }

    /// Set-up is negotiated.
    pub(crate) fn set_by_port(&mut self, by_port: bool) {
        self.by_port = by_port;
        self.candidates.clear();
    }

    /// The path to this address and port.
    pub(crate) fn to_port(&self, remote: SocketAddr) -> Option<PathId> {
        let mut present = self.present();
        present
            .find(|path| is_same(path.route.remote, remote))
            .map(|path| path.id)
    }

    /// The paths to this address and port: one from each local address that is used with it.
    pub(crate) fn all_to_port(&self, remote: SocketAddr) -> Vec<PathId> {
        let paths = self.present().filter(|path| is_same(path.route.remote, remote));
        paths.map(|path| path.id).collect()
    }

    /// The paths to the address and port with this name, which is the Correlation ID of the request that added it: one from each local
    /// address that is used with it.
    pub(crate) fn named(&self, name: u32) -> Vec<PathId> {
        let named = self.present().filter(|path| path.route.name == Some(name));
        named.map(|path| path.id).collect()
    }

    /// Names the paths to this address and port. Returns whether there are such.
    pub(crate) fn rename(&mut self, remote: SocketAddr, name: Option<u32>) -> bool {
        let paths = self.iter_mut().filter(|path| !path.route.removed);
        let paths = paths.filter(|path| is_same(path.route.remote, remote));
        paths.map(|path| path.route.name = name).count() > 0
    }

    /// The peer says that this path has this port of its address now.
    pub(crate) fn renew_port(&mut self, id: PathId, port: u16) {
        let route = &mut self.path_mut(id).route;
        route.move_to_port(port);
        let address = route.remote.ip();
        self.forget_candidate(address);
    }

    /// Whether the port of this path stays, although a packet arrived from another one.
    pub(super) fn keeps_port(&self, id: PathId, inbound: &Inbound) -> bool {
        self.by_port && self.path(id).route.remote.port() != inbound.remote.port()
    }

    /// Whether a packet came from a port that no path has.
    pub(crate) fn is_from_new_port(&self, inbound: &Inbound) -> bool {
        self.find(inbound.local, inbound.remote)
            .is_some_and(|id| self.keeps_port(id, inbound))
    }

    /// The path of the packet that an ICMP message quotes. `None` if a path to this address had another port then.
    pub(crate) fn quoted(&self, message: &IcmpMessage) -> Option<PathId> {
        let mut remote = message.destination;
        remote.set_ip(remote.ip().to_canonical());
        let local = message.source.map(|local| local.to_canonical());
        let found = self.find(local, remote)?;
        let has_port = !self.by_port || is_same(self.path(found).route.remote, remote);
        has_port.then_some(found)
    }

    /// The paths to this address, at any port.
    fn siblings(&self, remote: SocketAddr) -> impl Iterator<Item = &Path> {
        let is_sibling = move |path: &&Path| path.route.remote.ip() == remote.ip();
        self.present().filter(is_sibling)
    }

    /// The paths to this address changed, so that answers to earlier tests mean nothing.
    pub(super) fn forget_candidate(&mut self, address: IpAddr) {
        self.candidates
            .retain(|candidate| candidate.remote.ip() != address);
    }

    /// A packet of the peer was handled. At most one port of an address is a candidate at a time. `nonce` makes a random number.
    pub(crate) fn on_port(
        &mut self,
        now: Timestamp,
        inbound: &Inbound,
        nonce: impl FnOnce() -> u64,
    ) -> PortChange {
        let mut change = PortChange::default();
        let Some(id) = self.find(inbound.local, inbound.remote) else {
            return change;
        };
        // A request tells itself which pair has the port.
        let is_request = inbound.leading().is_some_and(|first| first.kind == kind::ASCONF);
        if !self.keeps_port(id, inbound) || is_request {
            return change;
        }
        let Some(mut candidate) = self.take_candidate(now, inbound.remote, nonce) else {
            return change;
        };
        if candidate.tested_at.is_none_or(|tested| tested + PAUSE <= now) {
            candidate.tested_at = Some(now);
            candidate.heard.clear();
            change.heartbeat = Some(HeartbeatInfo {
                path: CANDIDATE,
                sent_at: now,
                nonce: candidate.nonce,
            });
            let idle = |path: &&Path| path.heartbeat.pending.is_none();
            let siblings = self.siblings(candidate.remote).filter(idle);
            change.tested = siblings.map(|path| path.id).collect();
        }
        self.candidates.push(candidate);
        change
    }

    /// The path whose port a candidate replaces now: it is silent, and all others to the address answer.
    pub(crate) fn move_port(&mut self, now: Timestamp) -> Option<PathId> {
        let decided = |candidate: &CandidatePort| {
            let is_new = candidate.tested_at.is_some_and(|tested| now <= tested + LIFE);
            let mut unheard = self
                .siblings(candidate.remote)
                .filter(|path| !candidate.heard.contains(&path.id));
            match (candidate.answered && is_new, unheard.next(), unheard.next()) {
                (true, Some(only), None) if only.is_silent(now) => Some((only.id, candidate.remote.port())),
                _ => None,
            }
        };
        let (id, port) = self.candidates.iter().find_map(decided)?;
        self.renew_port(id, port);
        Some(id)
    }

    /// The candidate with this address and port, out of the list. `None` if the address has another one. There are at most as many as addresses
    /// of the peer.
    fn take_candidate(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        nonce: impl FnOnce() -> u64,
    ) -> Option<CandidatePort> {
        let of_address = |candidate: &CandidatePort| candidate.remote.ip() == remote.ip();
        let place = self.candidates.iter().position(of_address);
        match place.map(|place| self.candidates.swap_remove(place)) {
            Some(known) if is_same(known.remote, remote) => Some(known),
            Some(other) if now.saturating_duration_since(other.since) < LIFE => {
                self.candidates.push(other);
                None
            }
            _ => Some(CandidatePort::new(remote, nonce(), now)),
        }
    }

    /// A heartbeat on this path was answered from `remote`. Other packets may be replayed from the port of the path, and the answer may come
    /// from the candidate.
    pub(crate) fn on_heard(&mut self, id: PathId, remote: SocketAddr) {
        if !is_same(self.path(id).route.remote, remote) {
            return;
        }
        for candidate in &mut self.candidates {
            if candidate.remote.ip() == remote.ip() && !candidate.heard.contains(&id) {
                candidate.heard.push(id);
            }
        }
    }

    /// A HEARTBEAT ACK arrived whose information names no path.
    pub(crate) fn on_candidate_answered(&mut self, info: &HeartbeatInfo, remote: SocketAddr) {
        for candidate in &mut self.candidates {
            let is_own = is_same(candidate.remote, remote) && info.path == CANDIDATE;
            candidate.answered |= is_own && info.nonce == candidate.nonce;
        }
    }
}

/// The scope of a link-local address is no part of the comparison.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}
