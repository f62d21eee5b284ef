//! Associations that have ended, remembered for a while.
//!
//! The cookie of an association may be valid when the association has ended. If the COOKIE ECHO arrived again, the association would begin
//! again with the same tags, and with old data that an attacker replays. RFC 9260 §5.3.1 demands a new tag. So the endpoint remembers the tag of
//! each ended association while such a cookie is valid.
//!
//! More is remembered after a graceful shutdown (§8.4, §9.2).
//! An endpoint that completes a shutdown deletes the association. If the SHUTDOWN COMPLETE was lost, the peer still has the association.
//! Packets of either endpoint may be late too, above all on another path. An ABORT in answer would report a failure to a peer that has
//! lost no data. Therefore a SHUTDOWN ACK is answered with SHUTDOWN COMPLETE, and other late packets are not answered.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use anabranch_wire::VerificationTag;

use super::table::{Peer, TagHasher};
use crate::time::Timestamp;

/// The most associations remembered: about 2 MB if each peer has one address. When more end, the oldest are forgotten.
const LIMIT: usize = 16_384;

/// The end of a graceful shutdown.
#[derive(Debug)]
struct Shutdown {
    peers: Vec<Peer>,
    peer_tag: VerificationTag,
}

/// The ended associations by this endpoint's verification tag; `None` if they did not end by a graceful shutdown. The map is never iterated.
#[derive(Debug)]
pub(super) struct Ended {
    by_tag: HashMap<VerificationTag, Option<Shutdown>, BuildHasherDefault<TagHasher>>,
    /// When each association is forgotten, the earliest first.
    due: VecDeque<(Timestamp, VerificationTag)>,
    lifetime: Duration,
}

impl Ended {
    /// Remembers each association for this long.
    pub(super) fn new(lifetime: Duration) -> Self {
        Self {
            by_tag: HashMap::default(),
            due: VecDeque::new(),
            lifetime,
        }
    }

    /// The association with this tag ended by a graceful shutdown.
    pub(super) fn on_shutdown(
        &mut self,
        now: Timestamp,
        tag: VerificationTag,
        peers: Vec<Peer>,
        peer_tag: VerificationTag,
    ) {
        self.insert(now, tag, Some(Shutdown { peers, peer_tag }));
    }

    /// The association with this tag ended in another way, or has another tag since its peer restarted.
    pub(super) fn retire(&mut self, now: Timestamp, tag: VerificationTag) {
        self.insert(now, tag, None);
    }

    fn insert(&mut self, now: Timestamp, tag: VerificationTag, end: Option<Shutdown>) {
        self.forget(now, LIMIT - 1);
        self.by_tag.insert(tag, end);
        self.due.push_back((now + self.lifetime, tag));
    }

    /// Whether an ended association had this tag.
    pub(super) fn has_tag(&self, tag: VerificationTag) -> bool {
        self.by_tag.contains_key(&tag)
    }

    /// Whether an association with this tag ended by a graceful shutdown.
    pub(super) fn was_shut_down(&self, tag: VerificationTag) -> bool {
        self.by_tag.get(&tag).is_some_and(Option::is_some)
    }

    /// The verification tag of the peer, of the association with this tag and this peer that ended by a graceful shutdown.
    pub(super) fn peer_tag(
        &mut self,
        now: Timestamp,
        tag: VerificationTag,
        peer: &Peer,
    ) -> Option<VerificationTag> {
        self.forget(now, LIMIT);
        let end = self.by_tag.get(&tag)?.as_ref()?;
        end.peers.contains(peer).then_some(end.peer_tag)
    }

    /// Forgets the associations that are due, and the oldest if there are more than `most`.
    fn forget(&mut self, now: Timestamp, most: usize) {
        while let Some((due, tag)) = self.due.front()
            && (*due <= now || self.due.len() > most)
        {
            self.by_tag.remove(tag);
            self.due.pop_front();
        }
    }
}
