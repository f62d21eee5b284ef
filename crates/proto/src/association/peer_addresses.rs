//! Requests of the peer to change its addresses (RFC 5061 §5.2), and the answers.

use std::net::{IpAddr, SocketAddr};

use anabranch_wire::chunk::{Asconf, Chunk, EncodeChunk, kind, padded};
use anabranch_wire::packet::COMMON_HEADER_LEN;

use super::failover::on_paths_added;
use super::ports::tell_ports;
use super::{Association, ControlQueue, Notices};
use crate::association_state::permit;
use crate::config::Config;
use crate::event::{AddressEvent, EndpointEvent, Event, Reply};
use crate::extension::dynamic_addresses::{DeferredDeletion, Known, PairPlace, Responder};
use crate::inbound::Inbound;
use crate::negotiation::is_unicast;
use crate::path::{PathId, PathState, Paths};
use crate::receive::Receiver;
use crate::time::Timestamp;
use crate::transmit::{Sender, write_packet};

impl Association {
    /// An ASCONF arrived, authenticated. `first` if it is the first one of its packet.
    pub(super) fn on_asconf(&mut self, now: Timestamp, inbound: &Inbound, asconf: &Asconf, first: bool) {
        if !self.state.may(permit::HEARTBEAT) || asconf.address().is_none() {
            return;
        }
        let Some(state) = self.addresses.state_mut() else {
            return;
        };
        if state.responses.on_arrival(asconf.serial, first) == Known::Handled {
            return;
        }
        self.counters.asconfs_received += 1;
        let signer = self.authentication.signer();
        let auth_len = signer.map_or(0, |signer| signer.overhead(kind::ASCONF_ACK));
        let answer_path = self.paths.path(self.paths.answer_path());
        let room = answer_path.pmtu.max_packet() - COMMON_HEADER_LEN - auth_len - 8;
        let mut responder = PeerAddresses {
            now,
            inbound,
            config: &self.config,
            paths: &mut self.paths,
            sender: &mut self.sender,
            receiver: &mut self.receiver,
            control: &mut self.control,
            notices: &mut self.notices,
            tested: Vec::new(),
            waits: self.protection.is_on(),
            deferred: state.responses.deferred.take(),
        };
        let source = inbound.remote.ip();
        state.responses.process(asconf, source, room, &mut responder);
        let tested = responder.tested;
        state.responses.deferred = responder.deferred;
        self.paths.on_arrival(inbound);
        on_paths_added(self, now);
        tell_ports(self);
        for path in tested {
            if self.paths.has(path) {
                self.send_heartbeat(now, path);
            }
        }
    }

    /// All chunks of a packet were handled: sends its ASCONF-ACKs in one packet to its source (§5.2 E6, E7).
    pub(super) fn send_asconf_acks(&mut self, inbound: &Inbound) {
        let Some(state) = self.addresses.state_mut() else {
            return;
        };
        let answers = state.responses.take_answers();
        let signer = self.authentication.signer();
        let auth_len = signer.map_or(0, |signer| signer.overhead(kind::ASCONF_ACK));
        let answer_path = self.paths.path(self.paths.answer_path());
        let mut room = answer_path.pmtu.max_packet() - COMMON_HEADER_LEN - auth_len;
        let mut chunks = Vec::new();
        for ack in answers {
            let len = padded(ack.encoded_len());
            if len > room {
                break;
            }
            room -= len;
            chunks.push(Chunk::AsconfAck(ack));
        }
        if !chunks.is_empty() {
            self.control.reply(Reply {
                source: inbound.local,
                destination: inbound.remote,
                packet: write_packet(self.identity.header(), &chunks, signer).into(),
            });
        }
    }
}

/// A heartbeat confirmed an address of the peer: the deletion that waited for that is performed.
pub(super) fn delete_deferred(it: &mut Association, now: Timestamp, inbound: &Inbound, confirmed: IpAddr) {
    let responses = it.addresses.state_mut().map(|state| &mut state.responses);
    let deferred =
        responses.and_then(|responses| responses.deferred.take_if(|one| one.source == Some(confirmed)));
    let Some(deferred) = deferred else { return };
    let mut responder = PeerAddresses {
        now,
        inbound,
        config: &it.config,
        paths: &mut it.paths,
        sender: &mut it.sender,
        receiver: &mut it.receiver,
        control: &mut it.control,
        notices: &mut it.notices,
        tested: Vec::new(),
        waits: false,
        deferred: None,
    };
    deferred
        .pairs
        .iter()
        .for_each(|pair| responder.delete_pair(*pair));
    for address in deferred.addresses {
        if responder.knows(address) && address != confirmed {
            responder.delete(address);
        }
    }
    tell_ports(it);
}

/// The parts of an association that change with the peer's addresses.
struct PeerAddresses<'a> {
    now: Timestamp,
    inbound: &'a Inbound,
    config: &'a Config,
    paths: &'a mut Paths,
    sender: &'a mut Sender,
    receiver: &'a mut Receiver,
    control: &'a mut ControlQueue,
    notices: &'a mut Notices,
    /// Paths that get a heartbeat when all requests were handled.
    tested: Vec<PathId>,
    /// Whether a deletion that does not name an address waits until a heartbeat has confirmed the source.
    waits: bool,
    /// The deletion that waits.
    deferred: Option<DeferredDeletion>,
}

impl PeerAddresses<'_> {
    fn tell(&mut self, event: AddressEvent) {
        self.notices.tell_if_few(Event::Addresses(event));
    }

    /// An address of the peer with the UDP port that its packets come from.
    fn transport_address(&self, address: IpAddr) -> SocketAddr {
        if address == self.inbound.remote.ip() {
            return self.inbound.remote;
        }
        let mut remote = self.paths.path(self.paths.primary()).route.remote;
        remote.set_ip(address);
        remote
    }

    /// The deletion that waits, if one from the source of this packet must wait. Another one that waits already is added to it.
    fn deferred_here(&mut self) -> Option<&mut DeferredDeletion> {
        let source = self.paths.find(self.inbound.local, self.inbound.remote);
        let is_confirmed =
            source.is_some_and(|source| self.paths.path(source).state != PathState::Unconfirmed);
        if !self.waits || is_confirmed {
            return None;
        }
        let mut deferred = self.deferred.take().unwrap_or_default();
        deferred.source = Some(self.inbound.remote.ip());
        Some(self.deferred.insert(deferred))
    }

    fn leave(&mut self, path: PathId) {
        self.sender.leave_path(self.paths, path);
        self.receiver.forget_path(path);
        self.control.forget_path(path);
        self.paths.remove(path);
    }

    /// Removes a path of the peer. The peer keeps its address if another path has it.
    fn remove(&mut self, path: PathId) {
        let address = self.paths.path(path).route.remote.ip();
        self.leave(path);
        if self.paths.knows(address) {
            self.tell(AddressEvent::PeerPairRemoved { address, path });
        } else {
            self.tell_removed(address);
        }
    }

    fn tell_removed(&mut self, address: IpAddr) {
        self.notices
            .tell_endpoint(EndpointEvent::PeerAddressRemoved(address));
        self.tell(AddressEvent::PeerRemoved(address));
    }
}

impl Responder for PeerAddresses<'_> {
    fn add(&mut self, address: IpAddr, pair: Option<u32>) -> bool {
        if let Some(deferred) = &mut self.deferred {
            deferred.addresses.retain(|one| *one != address);
            deferred.pairs.retain(|one| Some(*one) != pair);
        }
        let remote = self.transport_address(address);
        if pair.is_some() && self.paths.rename(remote, pair) {
            return true;
        }
        let is_pair = self.tells_ports_apart() && pair.is_some();
        if !is_pair && self.paths.knows(address) {
            return true;
        }
        let path = self
            .paths
            .add_requested(self.now, self.config, remote, self.inbound.local);
        let Some(path) = path else {
            return false;
        };
        self.paths.path_mut(path).route.name = pair;
        self.tested.push(path);
        self.notices
            .tell_endpoint(EndpointEvent::PeerAddressAdded(remote));
        self.tell(AddressEvent::PeerAdded { address, path });
        true
    }

    fn has_other_than(&self, address: IpAddr) -> bool {
        self.paths.present().any(|path| path.route.remote.ip() != address)
    }

    fn knows(&self, address: IpAddr) -> bool {
        self.paths.knows(address)
    }

    fn delete(&mut self, address: IpAddr) {
        for path in self.paths.forget_address(address) {
            self.leave(path);
        }
        self.tell_removed(address);
    }

    fn delete_all_but(&mut self, address: IpAddr) {
        let known = self.paths.peer_addresses().collect();
        if let Some(deferred) = self.deferred_here() {
            deferred.addresses = known;
            return;
        }
        let others = |it: &Self| it.paths.peer_addresses().find(|other| *other != address);
        while let Some(other) = others(self) {
            self.delete(other);
        }
    }

    fn prefer(&mut self, address: IpAddr) {
        let remote = self.transport_address(address);
        if let Some(path) = self.paths.find(self.inbound.local, remote) {
            self.paths.prefer(path);
            self.tell(AddressEvent::PeerPrimary { address, path });
        }
    }

    fn is_usable(&self, address: IpAddr) -> bool {
        is_unicast(address)
    }

    fn tells_ports_apart(&self) -> bool {
        self.paths.is_by_port()
    }

    fn pair(&self, pair: u32) -> Option<PairPlace> {
        let named = self.paths.named(pair);
        let remote = self.paths.path(*named.first()?).route.remote;
        Some(if named.len() == self.paths.present_count() {
            PairPlace::Only
        } else if remote == self.inbound.remote {
            PairPlace::Source
        } else {
            PairPlace::Elsewhere
        })
    }

    fn renew(&mut self, pair: u32) -> bool {
        if let Some(deferred) = &mut self.deferred {
            deferred.pairs.retain(|one| *one != pair);
        }
        let source = self.inbound.remote;
        let named = self.paths.named(pair);
        if self
            .paths
            .to_port(source)
            .is_some_and(|path| named.contains(&path))
        {
            return true;
        }
        let former = named.first().map(|path| self.paths.path(*path).route.remote);
        if let Some(former) = former.filter(|former| former.ip() == source.ip()) {
            // If the translator gave the port of another network to this one, the paths of that network take the former port. Nobody answers
            // there, so that their next port replaces it.
            let others = self.paths.all_to_port(source);
            let others = others.into_iter().map(|path| (path, former.port()));
            let moved = named.into_iter().map(|path| (path, source.port()));
            for (path, port) in others.chain(moved) {
                self.paths.renew_port(path, port);
                self.tested.push(path);
            }
            return true;
        }
        for path in self.paths.all_to_port(source) {
            self.remove(path);
        }
        let added = self.add(source.ip(), Some(pair));
        if added {
            named.into_iter().for_each(|path| self.remove(path));
        }
        added
    }

    fn delete_pair(&mut self, pair: u32) {
        if let Some(deferred) = self.deferred_here() {
            deferred.pairs.retain(|one| *one != pair);
            deferred.pairs.push(pair);
            return;
        }
        let named = self.paths.named(pair);
        named.into_iter().for_each(|path| self.remove(path));
    }
}
