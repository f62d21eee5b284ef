//! Decrypts packets: the first step of reading one (draft-ietf-tsvwg-sctp-dtls-chunk §5.2).

use anabranch_wire::chunk::{Dtls, DtlsHeader};
use anabranch_wire::packet::{COMMON_HEADER_LEN, Packet};
use bytes::{Buf, BytesMut};

use super::record_key::{KeyUsage, RecordKey, TAG_LEN};
use super::replay::ReplayWindow;
use super::sending::APPLICATION_DATA;
use crate::config::MOST_RECORD;

/// The bytes of a packet before the record of its first chunk.
const RECORD: usize = COMMON_HEADER_LEN + Dtls::HEADER_LEN;

/// The place of the checksum in the common header.
const CHECKSUM: usize = 8;

/// The most keys: that of the present epoch, the one before, and the one to come.
const MOST_KEYS: usize = 3;

/// A key with which packets of the peer are decrypted.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) epoch: u64,
    key: Box<dyn RecordKey>,
    window: ReplayWindow,
    usage: KeyUsage,
}

/// Why a packet was not decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no key for the epoch, or it was used too often.
    NoKey,
    /// The packet arrived before, or is too old.
    Replayed,
    /// The packet is not authentic, or not the record that the draft permits.
    NotAuthentic,
}

/// The keys of the peer.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// The primary keys, the newest epoch last.
    primary: Vec<Context>,
    /// The restart key with which the association was restarted.
    restart: Option<Context>,
}

impl Receiving {
    /// The keys of an association that is restarted with this key.
    pub(super) fn restarted(key: Context) -> Self {
        Self {
            primary: Vec::new(),
            restart: Some(key),
        }
    }

    /// The newest epoch of the primary keys.
    pub(super) fn newest(&self) -> Option<u64> {
        self.primary.last().map(|context| context.epoch)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.primary.is_empty() && self.restart.is_none()
    }

    /// Forgets the restart key.
    pub(super) fn end_restart(&mut self) {
        self.restart = None;
    }

    /// Adds the key of the next epoch. The oldest one is forgotten if there are more than three.
    pub(super) fn install(&mut self, epoch: u64, key: Box<dyn RecordKey>, window: u16) {
        if self.primary.len() == MOST_KEYS {
            self.primary.remove(0);
        }
        self.primary.push(Context::new(epoch, key, window));
    }

    pub(super) fn remove(&mut self, epoch: u64) {
        self.primary.retain(|context| context.epoch != epoch);
    }

    pub(super) fn usage(&self, epoch: u64) -> KeyUsage {
        let context = self.primary.iter().find(|context| context.epoch == epoch);
        context.map_or(KeyUsage::default(), |context| context.usage)
    }

    /// Decrypts a packet, which has one chunk with this header. Returns the packet with the chunks that were encrypted, and the epoch.
    pub(super) fn open(&mut self, header: DtlsHeader, packet: Packet) -> Result<(Packet, u64), Refused> {
        // The newest epoch with these bits (RFC 9147 §4.2.2).
        let has_bits = |context: &&mut Context| context.has_bits(header.epoch);
        let context = if header.restart {
            self.restart.as_mut().filter(has_bits)
        } else {
            self.primary.iter_mut().rev().find(has_bits)
        };
        let context = context.ok_or(Refused::NoKey)?;
        context.open(header, packet).map(|packet| (packet, context.epoch))
    }
}

impl Context {
    pub(super) fn new(epoch: u64, key: Box<dyn RecordKey>, window: u16) -> Self {
        Self {
            epoch,
            key,
            window: ReplayWindow::new(window),
            usage: KeyUsage::default(),
        }
    }

    /// Whether these are the two lowest bits of the epoch.
    pub(super) fn has_bits(&self, epoch: u8) -> bool {
        self.epoch as u8 & 3 == epoch
    }

    pub(super) fn open(&mut self, header: DtlsHeader, packet: Packet) -> Result<Packet, Refused> {
        let packet = packet.into_bytes();
        let record = RECORD..RECORD + header.len;
        let encrypted = packet.get(record.clone()).ok_or(Refused::NotAuthentic)?;
        let len = header.len.checked_sub(TAG_LEN).ok_or(Refused::NotAuthentic)?;
        let sample = encrypted.first_chunk().ok_or(Refused::NotAuthentic)?;
        if len > usize::from(MOST_RECORD) + 1 {
            return Err(Refused::NotAuthentic);
        }
        if self.usage.failed >= self.key.limits().failed {
            return Err(Refused::NoKey);
        }
        let [high, low] = self.key.mask(*sample);
        let number = [header.sequence[0] ^ high, header.sequence[1] ^ low];
        let sequence = self.window.reconstruct(u16::from_be_bytes(number));
        // Before the decryption: a replayed packet costs no more than its mask.
        if !self.window.admits(sequence) {
            return Err(Refused::Replayed);
        }
        // The driver gives each packet as bytes of its own, if they are not part of a large datagram.
        let mut packet = packet
            .try_into_mut()
            .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let record_header = Dtls::record_header(header.epoch, number);
        if !self.key.open(sequence, record_header, &mut packet[record]) {
            self.usage.failed += 1;
            return Err(Refused::NotAuthentic);
        }
        self.usage.opened += 1;
        self.window.note(sequence);
        // The content type is the last byte that is not zero: a sender may pad the record (RFC 8446 §5.4).
        let content = &packet[RECORD..RECORD + len];
        let end = content
            .iter()
            .rposition(|byte| *byte != 0)
            .ok_or(Refused::NotAuthentic)?;
        if content[end] != APPLICATION_DATA {
            return Err(Refused::NotAuthentic);
        }
        packet.truncate(RECORD + end);
        // The common header, without its checksum, stands before the chunks.
        packet.copy_within(..CHECKSUM, Dtls::HEADER_LEN);
        packet[Dtls::HEADER_LEN + CHECKSUM..RECORD].fill(0);
        packet.advance(Dtls::HEADER_LEN);
        Packet::parse_unchecked(packet.freeze()).map_err(|_| Refused::NotAuthentic)
    }
}
