//! Which association answers to a tag, and which has a peer at an address.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

use anabranch_wire::VerificationTag;

use super::{AssociationId, Inbound};

/// A peer's transport address as seen from one local port (RFC 9260 §1.3): the UDP port is no part of it (RFC 6951 §5).
///
/// But behind an address translator several peers share an address, and some of them a port: those differ in nothing but
/// the UDP port. A packet with a valid tag says whose it is; for a set-up chunk, which has none, the UDP port decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) local_port: u16,
    pub(super) address: IpAddr,
    pub(super) remote_port: u16,
}

impl Peer {
    /// Who sent this packet.
    pub(super) fn of(inbound: &Inbound) -> Self {
        let header = inbound.packet.header;
        Self {
            local_port: header.destination_port,
            address: inbound.remote.ip(),
            remote_port: header.source_port,
        }
    }
}

#[derive(Debug)]
struct Entry {
    id: AssociationId,
    /// The addresses of its peer, with the UDP port each was last heard from; rarely more than one or two.
    peers: Vec<(Peer, u16)>,
}

impl Entry {
    fn udp_port(&self, peer: &Peer) -> Option<u16> {
        let known = self.peers.iter().find(|(known, _)| known == peer);
        known.map(|(_, udp_port)| *udp_port)
    }
}

/// The associations of an endpoint. The maps are only ever looked up, never walked, so their order does not matter.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Most packets carry the tag of their association: this map finds it.
    by_tag: HashMap<VerificationTag, Entry, BuildHasherDefault<TagHasher>>,
    tags: HashMap<AssociationId, VerificationTag>,
    /// For those that do not, and to find out which addresses are taken. Mostly one; never none.
    by_peer: HashMap<Peer, Vec<AssociationId>>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.by_tag.len()
    }

    pub(super) fn has_tag(&self, tag: VerificationTag) -> bool {
        self.by_tag.contains_key(&tag)
    }

    pub(super) fn has_peer(&self, peer: &Peer) -> bool {
        self.by_peer.contains_key(peer)
    }

    /// The association that has this tag and this peer; where the packet came from is where the peer is now (RFC 6951
    /// §5.4).
    pub(super) fn by_tag(
        &mut self,
        tag: VerificationTag,
        peer: &Peer,
        udp_port: u16,
    ) -> Option<AssociationId> {
        let entry = self.by_tag.get_mut(&tag)?;
        let (_, known) = entry.peers.iter_mut().find(|(known, _)| known == peer)?;
        *known = udp_port;
        Some(entry.id)
    }

    /// The association with this peer at this UDP port.
    pub(super) fn by_peer(&self, peer: &Peer, udp_port: u16) -> Option<AssociationId> {
        let mut owners = self.by_peer.get(peer)?.iter();
        owners
            .find(|id| self.entry(**id).and_then(|entry| entry.udp_port(peer)) == Some(udp_port))
            .copied()
    }

    /// The only association with this peer, at whatever UDP port.
    pub(super) fn by_lone_peer(&self, peer: &Peer) -> Option<AssociationId> {
        match self.by_peer.get(peer)?.as_slice() {
            [id] => Some(*id),
            _ => None,
        }
    }

    fn entry(&self, id: AssociationId) -> Option<&Entry> {
        self.by_tag.get(self.tags.get(&id)?)
    }

    pub(super) fn insert(&mut self, id: AssociationId, tag: VerificationTag, peer: Peer, udp_port: u16) {
        self.by_peer.entry(peer).or_default().push(id);
        self.tags.insert(id, tag);
        let peers = vec![(peer, udp_port)];
        self.by_tag.insert(tag, Entry { id, peers });
    }

    pub(super) fn change_tag(&mut self, id: AssociationId, to: VerificationTag) {
        if let Some(from) = self.tags.insert(id, to)
            && let Some(entry) = self.by_tag.remove(&from)
        {
            self.by_tag.insert(to, entry);
        }
    }

    /// An address that another association has already stays with that one.
    pub(super) fn add_address(&mut self, id: AssociationId, address: IpAddr, udp_port: u16) {
        let Some(entry) = self.tags.get(&id).and_then(|tag| self.by_tag.get_mut(tag)) else {
            return;
        };
        let Some((first, _)) = entry.peers.first() else {
            return;
        };
        let peer = Peer { address, ..*first };
        if let MapEntry::Vacant(vacant) = self.by_peer.entry(peer) {
            vacant.insert(vec![id]);
            entry.peers.push((peer, udp_port));
        }
    }

    /// The tag and the peers that it had.
    pub(super) fn remove(&mut self, id: AssociationId) -> Option<(VerificationTag, Vec<Peer>)> {
        let tag = self.tags.remove(&id)?;
        let entry = self.by_tag.remove(&tag)?;
        let peers: Vec<_> = entry.peers.into_iter().map(|(peer, _)| peer).collect();
        for peer in &peers {
            if let MapEntry::Occupied(mut owners) = self.by_peer.entry(*peer) {
                owners.get_mut().retain(|owner| *owner != id);
                if owners.get().is_empty() {
                    owners.remove();
                }
            }
        }
        Some((tag, peers))
    }
}

/// Hashes verification tags. Those in the maps are random and chosen by this side, so that nobody can make them collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        // The map looks at the highest bits too: an odd number with many ones spreads the tag over all.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
