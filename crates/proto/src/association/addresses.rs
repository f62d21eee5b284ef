//! The local addresses (RFC 5061 §5.1): the calls of the application, the requests to the peer, its ASCONF-ACKs, and T4-rto. The requests of the
//! peer are in `peer_addresses.rs`.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{AsconfAck, Chunk};
use bytes::Bytes;

use super::failover::on_paths_added;
use super::{Association, Capabilities};
use crate::association_state::permit;
use crate::close_reason::CloseReason;
use crate::error::AddressError;
use crate::event::{AddressEvent, Event, Reply};
use crate::extension::dynamic_addresses::{AckVerdict, MOST_LOCAL, Outcome, Requests, Sending};
use crate::inbound::Inbound;
use crate::negotiation::{Negotiated, is_unicast};
use crate::path::{Path, PathId, PathState, Paths};
use crate::time::Timestamp;
use crate::transmit::write_packet;

/// How long an address rests at most from which nothing reached the peer, if there is no interval of heartbeats.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// The local addresses of an association (RFC 5061): see [`Association::local_addresses`].
#[derive(Debug)]
pub struct LocalAddresses<'a> {
    association: &'a mut Association,
}

impl LocalAddresses<'_> {
    /// The addresses that this endpoint has, as far as the association knows. Empty if dynamic addresses were not negotiated.
    #[must_use]
    pub fn list(&self) -> Vec<IpAddr> {
        let requests = self.association.addresses.requests();
        requests.map_or(Vec::new(), |requests| requests.wanted().to_vec())
    }

    /// Whether the peer has still to answer a request.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let requests = self.association.addresses.requests();
        requests.is_some_and(|requests| requests.due().is_some())
    }

    /// Sets the addresses that this endpoint has now, and tells the peer of the differences. Packets leave from an address as soon as the
    /// peer knows it, and no more from an address that is not in the list. If the list has none of the addresses that the peer knows,
    /// nothing but the request leaves until the peer has answered. [`AddressEvent`]s report the results.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn set(&mut self, now: Timestamp, addresses: &[IpAddr]) -> Result<(), AddressError> {
        let mut wanted: Vec<IpAddr> = Vec::new();
        for address in addresses.iter().map(IpAddr::to_canonical) {
            if !is_unicast(address) {
                return Err(AddressError::NotUnicast(address));
            }
            if !wanted.contains(&address) {
                wanted.push(address);
            }
        }
        if wanted.is_empty() {
            return Err(AddressError::Last);
        }
        if wanted.len() > MOST_LOCAL {
            return Err(AddressError::TooMany);
        }
        self.requests()?;
        self.request(now, |requests| requests.want(wanted));
        Ok(())
    }

    /// Replaces all addresses by this one, make before break: the others stay in use until the peer knows the new one and has tested it with
    /// a HEARTBEAT.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn move_to(&mut self, now: Timestamp, address: IpAddr) -> Result<(), AddressError> {
        let address = address.to_canonical();
        if !is_unicast(address) {
            return Err(AddressError::NotUnicast(address));
        }
        let requests = self.requests()?;
        if requests.wanted().len() == MOST_LOCAL {
            return Err(AddressError::TooMany);
        }
        self.request(now, |requests| requests.replace_all(address));
        Ok(())
    }

    /// Adds an address of this endpoint.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn add(&mut self, now: Timestamp, address: IpAddr) -> Result<(), AddressError> {
        let wanted = [self.list(), vec![address]].concat();
        self.set(now, &wanted)
    }

    /// Deletes an address of this endpoint.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn remove(&mut self, now: Timestamp, address: IpAddr) -> Result<(), AddressError> {
        let address = address.to_canonical();
        let mut wanted = self.list();
        wanted.retain(|one| *one != address);
        if wanted.len() == self.list().len() {
            return Err(AddressError::Unknown(address));
        }
        self.set(now, &wanted)
    }

    /// Asks the peer to send to this address while it is reachable (RFC 5061 §4.2.4). It is advice.
    ///
    /// # Errors
    /// See [`AddressError`]; nothing was changed then.
    pub fn ask_primary(&mut self, now: Timestamp, address: IpAddr) -> Result<(), AddressError> {
        let address = address.to_canonical();
        let requests = self.requests()?;
        if !requests.wanted().contains(&address) {
            return Err(AddressError::Unknown(address));
        }
        self.request(now, |requests| requests.ask_primary(address));
        Ok(())
    }

    fn requests(&self) -> Result<&Requests, AddressError> {
        if !self.association.state.may(permit::HEARTBEAT) || self.association.protection.is_pending() {
            return Err(AddressError::NotNegotiated);
        }
        match self.association.addresses.requests() {
            Some(requests) if !requests.is_stopped() => Ok(requests),
            _ => Err(AddressError::NotNegotiated),
        }
    }

    fn request(&mut self, now: Timestamp, change: impl FnOnce(&mut Requests)) {
        self.association.step(now, |it| {
            if let Some(requests) = it.addresses.requests_mut() {
                change(requests);
            }
            it.advance_addresses(now);
        });
    }
}

/// Requests of this endpoint (RFC 5061 §5.1).
impl Association {
    /// Set-up is negotiated: Sequence Numbers begin at the Initial TSNs (§5.1 A2).
    pub(super) fn adopt_addresses(&mut self, negotiated: &Negotiated<'_>) {
        let settings = self.config.dynamic_addresses;
        let negotiated_it = negotiated.capabilities.has(Capabilities::DYNAMIC_ADDRESSES);
        let Some(settings) = settings.filter(|_| negotiated_it) else {
            self.addresses.disable();
            return;
        };
        let set_up = &self.paths.path(self.paths.primary()).route;
        let (set_up, port) = (set_up.local, set_up.remote.port());
        let local = match self.config.local_addresses.as_slice() {
            [] => set_up.into_iter().collect(),
            listed => listed.to_vec(),
        };
        let wildcard = settings.form.is_wildcard(port != 0);
        let (own, peer) = (self.identity.local_initial_tsn, negotiated.peer_initial_tsn);
        self.addresses.enable(own, peer, local, wildcard);
        // draft-ietf-tsvwg-sctp-dtls-chunk §3.2: the lookup address is not used.
        if let Some(requests) = self.addresses.requests_mut().filter(|_| self.protection.is_on()) {
            requests.hide_lookup_address();
        }
        // The peer knows the source of the INIT ACK, although this endpoint may list it no longer: it restarted from there.
        if let (Some(requests), Some(set_up)) = (self.addresses.requests_mut(), set_up) {
            requests.on_told(set_up);
        }
        // The endpoint that sent the INIT may be behind translators, and knows the address of the other one.
        if let Some(requests) = self.addresses.requests_mut()
            && self.initiated
            && negotiated.capabilities.has(Capabilities::PORT_PAIRS)
        {
            requests.name_pairs(set_up);
        }
    }

    /// The local addresses, to change them while the association lasts (RFC 5061).
    pub fn local_addresses(&mut self) -> LocalAddresses<'_> {
        LocalAddresses { association: self }
    }

    /// Moves paths away from addresses that this endpoint does not have any more, and sends the next ASCONF.
    pub(super) fn advance_addresses(&mut self, now: Timestamp) {
        let Some(requests) = self.addresses.requests_mut() else {
            return;
        };
        // Nor before both directions are protected.
        let may_request = self.state.may(permit::HEARTBEAT) && !self.protection.is_pending();
        let usable = requests.usable();
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            let stays = |local: IpAddr| usable.is_empty() || usable.contains(&local);
            if !self.paths.has(id) || self.paths.path(id).route.local.is_some_and(stays) {
                continue;
            }
            if let Some(local) = self.paths.local_among(id, &usable, &self.config) {
                leave_local_address(self, now, id, local);
            }
        }
        let paths = &self.paths;
        let reaches = |local| paths.destination_from(local, None).is_some();
        let requests = self.addresses.requests_mut().filter(|_| may_request);
        let works = |local| works(paths, local);
        if let Some(sending) = requests.and_then(|requests| requests.next(reaches, works)) {
            self.send_asconf(now, sending, None);
        }
        pair_addresses(self, now);
    }

    /// A path failed, and no other one works: packets leave from another local address that the peer knows, if there is one.
    pub(super) fn try_other_address(&mut self, now: Timestamp, id: PathId) {
        let Some(requests) = self.addresses.requests() else {
            return;
        };
        let path = self.paths.path(id);
        let works =
            self.paths.active_count() > 0 || !self.paths.has(id) || path.state == PathState::Unconfirmed;
        let mut usable = requests.usable();
        let Some(place) = usable.iter().position(|local| Some(*local) == path.route.local) else {
            return;
        };
        // The next ones first, so that all are tried in turn.
        usable.rotate_left(place);
        let others = usable[1..].iter();
        let next = others
            .filter_map(|local| self.paths.local_among(id, &[*local], &self.config))
            .find(|local| self.paths.twin(id, *local).is_none());
        if let Some(local) = next.filter(|_| !works) {
            self.sender.leave_path(&mut self.paths, id);
            self.paths.move_to(id, Some(local), &self.config, now);
            self.notices.tell_path(self.paths.path(id));
        }
    }

    /// Sends an ASCONF in a packet of its own, because its source may be an address from which no other chunk may leave (§5.3 F1). `last`
    /// is the path of the previous transmission.
    fn send_asconf(&mut self, now: Timestamp, sending: Sending, last: Option<PathId>) {
        let Some(id) = self.paths.destination_from(sending.source, last) else {
            return;
        };
        let path = self.paths.path(id);
        let chunk = Chunk::Asconf(sending.asconf);
        let signer = self.authentication.signer();
        self.control.reply(Reply {
            source: Some(sending.source),
            destination: path.route.remote,
            packet: write_packet(self.identity.header(), &[chunk], signer).into(),
        });
        self.counters.asconfs_sent += 1;
        let rto = path.rtt.rto();
        if let Some(requests) = self.addresses.requests_mut() {
            requests.on_sent(now, id, now + requests.wait(rto));
        }
    }

    /// T4-rto expired (§5.1 B1 to B5).
    pub(super) fn on_asconf_timer(&mut self, now: Timestamp) {
        // A timer that expired at the same time may have ended the association.
        if self.state.is_closed() {
            return;
        }
        let requests = self.addresses.requests_mut();
        if requests.is_some_and(|requests| requests.on_time(now)) {
            self.advance_addresses(now);
        }
        let due = self
            .addresses
            .requests()
            .filter(|requests| requests.due().is_some_and(|due| due <= now));
        let Some(last) = due.and_then(Requests::path) else {
            return;
        };
        // From a new address the request may reach nobody, which says nothing about the paths that work, nor about the association.
        let is_from_new = self.addresses.requests().is_some_and(Requests::is_from_new);
        if !is_from_new {
            self.paths.path_mut(last).rtt.back_off();
            if !self.on_path_error(now, last, true) {
                return;
            }
        }
        let paths = &self.paths;
        let Some(requests) = self.addresses.requests_mut() else {
            return;
        };
        let timer = now + requests.wait(paths.path(last).rtt.rto());
        let reaches = |local| paths.destination_from(local, Some(last)).is_some();
        let sending = requests.again(reaches, |local| works(paths, local));
        requests.on_sent(now, last, timer);
        if let Some(sending) = sending {
            self.send_asconf(now, sending, Some(last));
        }
    }

    /// An ASCONF-ACK arrived (§5.1 A5 to A8, §5.3 F0).
    pub(super) fn on_asconf_ack(&mut self, now: Timestamp, ack: &AsconfAck) {
        let Some(requests) = self
            .addresses
            .requests_mut()
            .filter(|_| self.state.may(permit::COMPLETE_ASCONF))
        else {
            return;
        };
        let longest_rest = self.config.heartbeat.interval.unwrap_or(LONGEST_REST);
        let (outcomes, sample) = match requests.on_ack(ack, now, longest_rest) {
            AckVerdict::Old => return,
            AckVerdict::Illegal => {
                let what = "an ASCONF-ACK answers no ASCONF";
                self.abort_with(
                    Cause::IllegalAsconfAck(Bytes::new()),
                    CloseReason::ProtocolViolation(what),
                );
                return;
            }
            AckVerdict::Answer { outcomes, sample } => (outcomes, sample),
        };
        let answered = sample.map(|(path, _)| path).filter(|path| self.paths.has(*path));
        let usable = requests.usable();
        if !usable.is_empty() {
            self.config = self.config.with_local_addresses(&usable).into();
        }
        let may_share = usable.len() > 1 && requests.is_wildcard() && !requests.names_pairs();
        for outcome in outcomes {
            let event = match outcome {
                Outcome::Added(address) => AddressEvent::LocalAdded(address),
                Outcome::Removed(address) => AddressEvent::LocalRemoved(address),
                Outcome::Refused(address, cause) => AddressEvent::LocalRefused { address, cause },
            };
            self.notices.tell(Event::Addresses(event));
            if let (Outcome::Added(address), true) = (outcome, may_share) {
                let event = AddressEvent::LocalMayShare(address);
                self.notices.tell(Event::Addresses(event));
            }
        }
        self.error_count = 0;
        self.advance_addresses(now);
        if let (Some(path), Some((_, sent_at))) = (answered, sample) {
            self.on_path_answered(path);
            let path = self.paths.path_mut(path);
            path.rtt.on_sample(now.saturating_duration_since(sent_at));
        }
    }

    /// A HEARTBEAT arrived: the peer tests the address that it came to.
    pub(super) fn on_address_tested(&mut self, now: Timestamp, inbound: &Inbound) {
        let requests = self.addresses.requests_mut();
        if requests.is_some_and(|requests| requests.on_heartbeat(inbound.local)) {
            self.advance_addresses(now);
        }
    }

    /// The peer does not recognize ASCONF (§5.1 A9).
    pub(super) fn on_asconf_unrecognized(&mut self) {
        if self.addresses.requests_mut().is_some_and(Requests::stop) {
            self.notices.tell(Event::Addresses(AddressEvent::NotSupported));
        }
    }
}

/// Whether nothing but a request may leave, because the peer knows no address of this endpoint (§5.3 F4): not if no request is outstanding and
/// none may be made any more.
pub(super) fn awaits_address(association: &Association) -> bool {
    let addresses = &association.addresses;
    let may_request = association.state.may(permit::HEARTBEAT);
    let requests = |requests: &Requests| may_request || requests.due().is_some();
    addresses.is_between_addresses() && addresses.requests().is_some_and(requests)
}

fn is_sound(path: &Path) -> bool {
    path.state == PathState::Active && path.error_count == 0
}

/// Whether a path without errors leaves from this address.
fn works(paths: &Paths, local: IpAddr) -> bool {
    let mut paths = paths.present().filter(|path| path.route.local == Some(local));
    paths.any(is_sound)
}

/// Nobody answers on this path, which worked: the address translator before it may have forgotten it.
pub(super) fn on_path_silent(association: &mut Association, now: Timestamp, id: PathId) {
    let path = association.paths.path(id);
    let is_silent = match path.state {
        PathState::Unconfirmed => false,
        PathState::Active => path.error_count > 1,
        PathState::PotentiallyFailed | PathState::Inactive => true,
    };
    let local = path.route.local.filter(|_| is_silent);
    let requests = association.addresses.requests_mut();
    if let (Some(local), Some(requests)) = (local, requests)
        && requests.on_silence(local)
    {
        association.advance_addresses(now);
    }
}

/// Each local address that the peer knows has a path: see [`Paths::add_pairs`].
fn pair_addresses(association: &mut Association, now: Timestamp) {
    let requests = association.addresses.requests();
    let known = requests.map_or_else(|| association.config.local_addresses.clone(), Requests::usable);
    let added = association.paths.add_pairs(now, &association.config, &known);
    on_paths_added(association, now);
    // Requests with wildcards are for networks behind address translators.
    if !added.is_empty()
        && association
            .addresses
            .requests()
            .is_some_and(Requests::is_wildcard)
    {
        let paths = association.paths.iter_mut();
        paths.for_each(|path| path.keep_mapping(now));
    }
    for path in added {
        association.send_heartbeat(now, path);
    }
}

/// Nobody answers on this unconfirmed path, or a host that knows no such association. If the peer is known to be there, it does not know the
/// source of the packets: an address translator stands before an address that this endpoint listed, or the network does not work. Only a
/// wildcard can then name the address. An address of the peer that nobody has reached is asked if no other one has its version of IP,
/// and one of the other version works.
pub(super) fn on_path_doubtful(association: &mut Association, now: Timestamp, id: PathId) {
    let route = &association.paths.path(id).route;
    let (local, remote) = (route.local, route.remote.ip());
    let is_same_version = |path: &Path| path.route.remote.is_ipv4() == remote.is_ipv4();
    let is_peer = association
        .paths
        .has_confirmed(|path| path.route.remote.ip() == remote)
        || association.paths.has_confirmed(|path| !is_same_version(path))
            && !association.paths.has_confirmed(is_same_version);
    let is_own = association.paths.has_confirmed(|path| path.route.local == local);
    let requests = association
        .addresses
        .requests_mut()
        .filter(|_| is_peer && !is_own);
    if let (Some(requests), Some(local)) = (requests, local)
        && requests.on_unknown(local)
    {
        association.advance_addresses(now);
    } else {
        pair_addresses(association, now);
    }
}

/// An ABORT with the T bit arrived at this local address: the peer does not know the public address that a translator gave it (RFC 9260
/// §8.4 rule 8). Returns whether the association continues, because another address works: then this one is added again.
pub(super) fn on_address_unknown(
    association: &mut Association,
    now: Timestamp,
    local: Option<IpAddr>,
) -> bool {
    let paths = &association.paths;
    let works_elsewhere = |path: &Path| path.route.local != local && is_sound(path);
    let other_works = paths.present().any(works_elsewhere);
    let requests = association.addresses.requests_mut();
    let requests = requests.filter(|requests| other_works && requests.is_wildcard());
    let (Some(local), Some(requests)) = (local, requests) else {
        return false;
    };
    let is_own = requests.wanted().contains(&local);
    let is_news = requests.on_unknown(local);
    if is_news {
        association.advance_addresses(now);
    }
    is_own
}

/// A path begins at an address that this endpoint does not have any more: its packets leave from `local`. If another path does that already,
/// it takes over.
fn leave_local_address(association: &mut Association, now: Timestamp, id: PathId, local: IpAddr) {
    association.sender.leave_path(&mut association.paths, id);
    let Some(heir) = association.paths.twin(id, local) else {
        association
            .paths
            .move_to(id, Some(local), &association.config, now);
        return;
    };
    association.paths.take_over(heir, id);
    association.receiver.forget_path(id);
    association.control.forget_path(id);
    association.paths.remove(id);
}
