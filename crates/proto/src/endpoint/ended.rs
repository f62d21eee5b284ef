//! Associations that ended in order, remembered for a while (RFC 9260 §8.4, §9.2).
//!
//! Who completes a shutdown keeps no association, but its peer may still have one, if SHUTDOWN COMPLETE was lost, and packets
//! of either side may be late, on another path above all. An ABORT in answer to one of those would tell a peer that lost
//! nothing that it was cut off. So they are met with silence, and the peer's next SHUTDOWN ACK with SHUTDOWN COMPLETE.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use anabranch_wire::VerificationTag;

use super::table::{Peer, TagHasher};
use crate::time::Timestamp;

/// The most that are remembered: about 2 MB where each peer has an address. Of more, the oldest are forgotten.
const LIMIT: usize = 16_384;

#[derive(Debug)]
struct End {
    peers: Vec<Peer>,
    peer_tag: VerificationTag,
}

/// What is known of them, by the tag that this side had chosen. The map is only ever looked up, never walked.
#[derive(Debug)]
pub(super) struct Ended {
    by_tag: HashMap<VerificationTag, End, BuildHasherDefault<TagHasher>>,
    /// When each is forgotten, the first one first.
    due: VecDeque<(Timestamp, VerificationTag)>,
    lifetime: Duration,
}

impl Ended {
    /// Remembers each for so long.
    pub(super) fn new(lifetime: Duration) -> Self {
        Self {
            by_tag: HashMap::default(),
            due: VecDeque::new(),
            lifetime,
        }
    }

    pub(super) fn insert(
        &mut self,
        now: Timestamp,
        tag: VerificationTag,
        peers: Vec<Peer>,
        peer_tag: VerificationTag,
    ) {
        self.forget(now, LIMIT - 1);
        self.by_tag.insert(tag, End { peers, peer_tag });
        self.due.push_back((now + self.lifetime, tag));
    }

    /// Whether one had this tag.
    pub(super) fn has_tag(&self, tag: VerificationTag) -> bool {
        self.by_tag.contains_key(&tag)
    }

    /// The tag that the peer had chosen, of the one that had this tag and this peer.
    pub(super) fn peer_tag(
        &mut self,
        now: Timestamp,
        tag: VerificationTag,
        peer: &Peer,
    ) -> Option<VerificationTag> {
        self.forget(now, LIMIT);
        let end = self.by_tag.get(&tag)?;
        end.peers.contains(peer).then_some(end.peer_tag)
    }

    /// Forgets what is due, and what is more than so many.
    fn forget(&mut self, now: Timestamp, most: usize) {
        while let Some((due, tag)) = self.due.front()
            && (*due <= now || self.due.len() > most)
        {
            self.by_tag.remove(tag);
            self.due.pop_front();
        }
    }
}
