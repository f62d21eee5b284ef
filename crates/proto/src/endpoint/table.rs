//! Which association answers to a tag, and which has a peer at an address.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::net::IpAddr;

use anabranch_wire::VerificationTag;

use super::AssociationId;

/// A peer's transport address as seen from one local port (RFC 9260 §1.3): the UDP port is no part of it (RFC 6951 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) local_port: u16,
    pub(super) address: IpAddr,
    pub(super) remote_port: u16,
}

#[derive(Debug)]
struct Entry {
    tag: VerificationTag,
    peers: Vec<Peer>,
}

/// The associations of an endpoint. The maps are only ever looked up, never walked, so their order does not matter.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<AssociationId, Entry>,
    by_tag: HashMap<VerificationTag, AssociationId>,
    by_peer: HashMap<Peer, AssociationId>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn by_tag(&self, tag: VerificationTag) -> Option<AssociationId> {
        self.by_tag.get(&tag).copied()
    }

    pub(super) fn by_peer(&self, peer: &Peer) -> Option<AssociationId> {
        self.by_peer.get(peer).copied()
    }

    pub(super) fn insert(&mut self, id: AssociationId, tag: VerificationTag, peer: Peer) {
        self.by_tag.insert(tag, id);
        self.by_peer.insert(peer, id);
        self.entries.insert(
            id,
            Entry {
                tag,
                peers: vec![peer],
            },
        );
    }

    pub(super) fn change_tag(&mut self, id: AssociationId, from: VerificationTag, to: VerificationTag) {
        if let Some(entry) = self.entries.get_mut(&id) {
            self.by_tag.remove(&from);
            self.by_tag.insert(to, id);
            entry.tag = to;
        }
    }

    /// An address that another association has already stays with that one.
    pub(super) fn add_address(&mut self, id: AssociationId, address: IpAddr) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let Some(first) = entry.peers.first() else { return };
        let peer = Peer { address, ..*first };
        if let MapEntry::Vacant(vacant) = self.by_peer.entry(peer) {
            vacant.insert(id);
            entry.peers.push(peer);
        }
    }

    pub(super) fn remove(&mut self, id: AssociationId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.by_tag.remove(&entry.tag);
            for peer in entry.peers {
                self.by_peer.remove(&peer);
            }
        }
    }
}
