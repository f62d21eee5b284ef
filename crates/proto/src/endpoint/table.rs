//! The associations of an endpoint, by verification tag and by address of the peer (RFC 9260 §8.5).

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};

use anabranch_wire::VerificationTag;

use super::association_id::AssociationId;
use crate::inbound::Inbound;

/// A peer's transport address as seen from one local port (RFC 9260 §1.3). The UDP port is not part of it (RFC 6951 §5).
///
/// But behind an address translator several peers share an address, and some of them an SCTP port: only the UDP port distinguishes them. A
/// packet with a valid tag is identified by its tag. A set-up chunk has none, so its UDP port decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer {
    pub(super) local_port: u16,
    pub(super) address: IpAddr,
    pub(super) remote_port: u16,
}

impl Peer {
    /// The source of this packet.
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
    /// The addresses of its peer, each with the UDP port of its last packet; rarely more than two. With port pairs, an address has the port
    /// of each of its paths.
    peers: Vec<(Peer, u16)>,
    /// Whether paths may differ by the UDP port alone: ports then change with the paths, and not with each packet.
    is_by_port: bool,
    /// Whether its packets may arrive with a zero checksum (RFC 9653).
    zero_checksum: bool,
}

/// The associations of an endpoint. The maps are only ever looked up, never walked, so their order does not matter.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By tag: most packets have the tag of their association.
    by_tag: HashMap<VerificationTag, Entry, BuildHasherDefault<TagHasher>>,
    tags: HashMap<AssociationId, VerificationTag>,
    /// By address, for packets without such a tag, and to find out which addresses are in use. The keys include UDP ports, because
    /// thousands of peers may share an address.
    by_peer: Owners,
}

/// Addresses with their UDP ports, and the associations that have them.
type Owners = BTreeSet<(Peer, u16, AssociationId)>;

/// The association that has this address and UDP port.
fn owner(owners: &Owners, (peer, udp_port): (Peer, u16)) -> Option<AssociationId> {
    let ends = [0, u64::MAX].map(|id| (peer, udp_port, AssociationId(id)));
    let [first, last] = ends;
    owners.range(first..=last).next().map(|(_, _, id)| *id)
}

/// The peer of an association lists this address. If another association has the address, set-up chunks from there remain with that one: a
/// host that lists the addresses of others would otherwise receive their INITs into its association.
fn claim(owners: &mut Owners, place: (Peer, u16), id: AssociationId) {
    if owner(owners, place).is_none() {
        owners.insert((place.0, place.1, id));
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.by_tag.len()
    }

    pub(super) fn has_tag(&self, tag: VerificationTag) -> bool {
        self.by_tag.contains_key(&tag)
    }

    /// Whether the association with this tag accepts packets with a zero checksum; `None` if there is no such association.
    pub(super) fn accepts_zero_checksum(&self, tag: VerificationTag) -> Option<bool> {
        self.by_tag.get(&tag).map(|entry| entry.zero_checksum)
    }

    /// Whether an association has this tag at these ports, whatever the addresses of its peer are.
    pub(super) fn has_tag_at_ports(&self, tag: VerificationTag, peer: &Peer) -> bool {
        self.by_tag_at_ports(tag, peer).is_some()
    }

    /// The association that has this tag at these ports, whatever the addresses of its peer are.
    pub(super) fn by_tag_at_ports(&self, tag: VerificationTag, peer: &Peer) -> Option<AssociationId> {
        let entry = self.by_tag.get(&tag)?;
        let (first, _) = entry.peers.first()?;
        let address = first.address;
        (*first == Peer { address, ..*peer }).then_some(entry.id)
    }

    /// Packets from this address do not belong to the association any more.
    pub(super) fn remove_address(&mut self, id: AssociationId, address: IpAddr) {
        let Some(entry) = self.tags.get(&id).and_then(|tag| self.by_tag.get_mut(tag)) else {
            return;
        };
        let gone = |entry: &Entry| entry.peers.iter().position(|(peer, _)| peer.address == address);
        while let Some(gone) = gone(entry).filter(|_| entry.peers.len() > 1) {
            let (peer, udp_port) = entry.peers.remove(gone);
            self.by_peer.remove(&(peer, udp_port, id));
        }
    }

    /// The association has port pairs, and its paths lead to these addresses and ports of the peer.
    pub(super) fn set_ports(&mut self, id: AssociationId, remotes: &[SocketAddr]) {
        let Some(entry) = self.tags.get(&id).and_then(|tag| self.by_tag.get_mut(tag)) else {
            return;
        };
        entry.is_by_port = true;
        let Some((first, _)) = entry.peers.first().copied() else {
            return;
        };
        let has_path = |peer: &Peer| remotes.iter().any(|remote| remote.ip() == peer.address);
        let is_at = |peer: &Peer, port| remotes.contains(&SocketAddr::new(peer.address, port));
        let gone = |(peer, port): &mut (Peer, u16)| has_path(peer) && !is_at(peer, *port);
        for (peer, port) in entry.peers.extract_if(.., gone) {
            self.by_peer.remove(&(peer, port, id));
        }
        for remote in remotes {
            let address = remote.ip();
            let place = (Peer { address, ..first }, remote.port());
            if !entry.peers.contains(&place) {
                entry.peers.push(place);
                claim(&mut self.by_peer, place, id);
            }
        }
    }

    pub(super) fn has_peer(&self, peer: &Peer) -> bool {
        self.owners(peer).next().is_some()
    }

    /// The associations with this peer, at any UDP port.
    fn owners(&self, peer: &Peer) -> impl Iterator<Item = AssociationId> {
        let ends = [(0, 0), (u16::MAX, u64::MAX)].map(|(port, id)| (*peer, port, AssociationId(id)));
        let [first, last] = ends;
        self.by_peer.range(first..=last).map(|(_, _, id)| *id)
    }

    /// The association that has this tag and this peer. Records the source of the packet as the peer's current UDP port (RFC 6951
    /// §5.4), unless `keeps_port`.
    pub(super) fn by_tag(
        &mut self,
        tag: VerificationTag,
        peer: &Peer,
        udp_port: u16,
        keeps_port: impl FnOnce() -> bool,
    ) -> Option<AssociationId> {
        let entry = self.by_tag.get_mut(&tag)?;
        let (_, known) = entry.peers.iter_mut().find(|(known, _)| known == peer)?;
        if *known != udp_port && !entry.is_by_port && !keeps_port() {
            // The entry does not exist if the address was released.
            if self.by_peer.remove(&(*peer, *known, entry.id)) {
                self.by_peer.insert((*peer, udp_port, entry.id));
            }
            *known = udp_port;
        }
        Some(entry.id)
    }

    /// The association with this peer at this UDP port.
    pub(super) fn by_peer(&self, peer: &Peer, udp_port: u16) -> Option<AssociationId> {
        owner(&self.by_peer, (*peer, udp_port))
    }

    /// The only association with this peer, at any UDP port; `None` if there are several.
    pub(super) fn by_lone_peer(&self, peer: &Peer) -> Option<AssociationId> {
        let mut owners = self.owners(peer);
        let first = owners.next()?;
        owners.all(|other| other == first).then_some(first)
    }

    /// Adds an association with a peer at this UDP port.
    pub(super) fn insert(
        &mut self,
        id: AssociationId,
        tag: VerificationTag,
        (peer, udp_port): (Peer, u16),
        zero_checksum: bool,
    ) {
        self.by_peer.insert((peer, udp_port, id));
        self.tags.insert(id, tag);
        let entry = Entry {
            id,
            peers: vec![(peer, udp_port)],
            is_by_port: false,
            zero_checksum,
        };
        self.by_tag.insert(tag, entry);
    }

    /// The peer restarted: its association has another tag, and keeps only this address. Addresses that the peer no longer lists may belong
    /// to other hosts. Returns the former tag.
    pub(super) fn restart(
        &mut self,
        id: AssociationId,
        tag: VerificationTag,
        address: IpAddr,
        udp_port: u16,
    ) -> Option<VerificationTag> {
        let before = *self.tags.get(&id)?;
        let zero_checksum = self.accepts_zero_checksum(before);
        let (_, peers) = self.remove(id)?;
        let peer = (
            Peer {
                address,
                ..*peers.first()?
            },
            udp_port,
        );
        self.insert(id, tag, peer, zero_checksum.unwrap_or_default());
        Some(before)
    }

    /// Packets from this address with the tag of the association now belong to it, even if another association listed the address
    /// before. Packets without such a tag belong to the association that had the address first.
    pub(super) fn add_address(&mut self, id: AssociationId, address: IpAddr, udp_port: u16) {
        let Some(entry) = self.tags.get(&id).and_then(|tag| self.by_tag.get_mut(tag)) else {
            return;
        };
        let Some((first, _)) = entry.peers.first() else {
            return;
        };
        let peer = Peer { address, ..*first };
        if entry.peers.iter().all(|(known, _)| *known != peer) {
            entry.peers.push((peer, udp_port));
            claim(&mut self.by_peer, (peer, udp_port), id);
        }
    }

    /// Removes an association; returns its tag and its peers.
    pub(super) fn remove(&mut self, id: AssociationId) -> Option<(VerificationTag, Vec<Peer>)> {
        let tag = self.tags.remove(&id)?;
        let entry = self.by_tag.remove(&tag)?;
        for (peer, udp_port) in &entry.peers {
            self.by_peer.remove(&(*peer, *udp_port, id));
        }
        let peers = entry.peers.into_iter().map(|(peer, _)| peer).collect();
        Some((tag, peers))
    }

    /// From now on packets from this address belong to this association only if they have its tag.
    pub(super) fn release_address(&mut self, id: AssociationId, address: IpAddr) {
        let entry = self.tags.get(&id).and_then(|tag| self.by_tag.get(tag));
        let peers = entry.map_or(&[][..], |entry| &entry.peers);
        for (peer, udp_port) in peers.iter().filter(|(peer, _)| peer.address == address) {
            self.by_peer.remove(&(*peer, *udp_port, id));
        }
    }
}

/// Hashes verification tags. Those in the maps are random and chosen by this endpoint, so that nobody can cause collisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        // The map uses the highest bits too: an odd factor with many ones spreads the tag over all bits.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
