//! Restart keys (draft-ietf-tsvwg-sctp-dtls-chunk §5.4): kept unused until the peer restarts the association, and then used once.

use anabranch_wire::VerificationTag;
use anabranch_wire::chunk::DtlsHeader;
use anabranch_wire::packet::Packet;

use super::receiving::{Context, Refused};
use super::sending::Sending;

/// The most unused restart keys: those of the present epoch, and those of the epoch before, until the peer has stored the new ones.
const MOST_UNUSED: usize = 2;

/// The restart keys of one epoch, for both directions.
#[derive(Debug)]
pub(super) struct RestartKeys {
    pub(super) receiving: Context,
    pub(super) sending: Sending,
}

/// The restart keys with which the peer may restart the association.
#[derive(Debug, Default)]
pub(super) struct Unused {
    /// The newest epoch last.
    keys: Vec<RestartKeys>,
    /// The tag of each INIT ACK that answers a restart. No packet with another tag is decrypted with the keys, so that an attacker who
    /// does not see the INIT ACK causes no decryption.
    tag: Option<VerificationTag>,
    /// The epoch of the keys that decrypted the present packet.
    opened: Option<u64>,
}

impl Unused {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the keys of an epoch. Those of the epoch before stay: the peer may have lost its state before it stored the new ones.
    pub(super) fn install(&mut self, keys: RestartKeys) {
        if self.keys.len() == MOST_UNUSED {
            self.keys.remove(0);
        }
        self.keys.push(keys);
        self.tag = None;
    }

    pub(super) fn remove(&mut self, epoch: u64) {
        self.keys.retain(|keys| keys.receiving.epoch != epoch);
    }

    /// The tag for the INIT ACK that answers a restart.
    pub(super) fn tag(&mut self, fresh: impl FnOnce() -> VerificationTag) -> VerificationTag {
        *self.tag.get_or_insert_with(fresh)
    }

    /// Whether a packet with this tag may be decrypted with the keys.
    pub(super) fn has_tag(&self, tag: VerificationTag) -> bool {
        !self.is_empty() && self.tag == Some(tag)
    }

    /// Another packet arrived.
    pub(super) fn begin_packet(&mut self) {
        self.opened = None;
    }

    /// Whether the keys decrypted the present packet.
    pub(super) fn opened(&self) -> bool {
        self.opened.is_some()
    }

    /// Decrypts a packet, which has one chunk with this header.
    pub(super) fn open(&mut self, header: DtlsHeader, packet: Packet) -> Result<(Packet, u64), Refused> {
        let mut newest_first = self.keys.iter_mut().rev();
        let keys = newest_first.find(|keys| header.restart && keys.receiving.has_bits(header.epoch));
        let context = &mut keys.ok_or(Refused::NoKey)?.receiving;
        let packet = context.open(header, packet)?;
        self.opened = Some(context.epoch);
        Ok((packet, context.epoch))
    }

    /// The keys that decrypted the present packet. All others are forgotten, because an association is restarted once before it has new keys.
    pub(super) fn take_opened(&mut self) -> Option<RestartKeys> {
        let epoch = self.opened?;
        let used = self.keys.iter().position(|keys| keys.receiving.epoch == epoch)?;
        let keys = self.keys.swap_remove(used);
        *self = Self::default();
        Some(keys)
    }
}
