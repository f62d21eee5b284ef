//! Encrypts packets: the last step of building a packet (draft-ietf-tsvwg-sctp-dtls-chunk §5.2).

use anabranch_wire::chunk::{Dtls, padded};
use anabranch_wire::crc32c;
use anabranch_wire::packet::COMMON_HEADER_LEN;

use super::record_key::{KeyUsage, RecordKey};
use crate::config::PROTECTION_OVERHEAD;

/// The content type of all records: application_data (RFC 8446 §B.1).
pub(super) const APPLICATION_DATA: u8 = 23;

/// The key with which packets are encrypted.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) epoch: u64,
    key: Box<dyn RecordKey>,
    /// The sequence number of the next record, and the number of records so far.
    next: u64,
    /// The R bit of the DTLS chunks.
    pub(super) restart: bool,
}

impl Sending {
    pub(super) fn new(epoch: u64, key: Box<dyn RecordKey>) -> Self {
        Self {
            epoch,
            key,
            next: 0,
            restart: false,
        }
    }

    /// The key of an epoch for a restart.
    pub(super) fn for_restart(epoch: u64, key: Box<dyn RecordKey>) -> Self {
        Self {
            restart: true,
            ..Self::new(epoch, key)
        }
    }

    pub(super) fn usage(&self) -> KeyUsage {
        KeyUsage {
            sealed: self.next,
            ..KeyUsage::default()
        }
    }

    /// Whether no more packets may be encrypted with the key.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next >= self.key.limits().sealed
    }

    /// Leaves room before a packet for the header of its DTLS chunk.
    pub(super) fn begin(buffer: &mut Vec<u8>, packet: usize) {
        buffer.reserve(packet + usize::from(PROTECTION_OVERHEAD));
        buffer.extend_from_slice(&[0; Dtls::HEADER_LEN]);
    }

    /// Encrypts a packet where it is. At `begin` is the room that [`Sending::begin`] left, and after it the packet, to the end of the
    /// buffer. False if the packet cannot be encrypted.
    pub(super) fn seal(&mut self, buffer: &mut Vec<u8>, begin: usize) -> bool {
        if self.is_exhausted() {
            return false;
        }
        let sequence = self.next;
        self.next += 1;
        let header = begin + Dtls::HEADER_LEN;
        buffer.copy_within(header..header + COMMON_HEADER_LEN, begin);
        let content = header + COMMON_HEADER_LEN;
        buffer.push(APPLICATION_DATA);
        let (epoch, number) = (self.epoch as u8, (sequence as u16).to_be_bytes());
        let record = Dtls::record_header(epoch, number);
        let Some(tag) = self.key.seal(sequence, record, &mut buffer[content..]) else {
            return false;
        };
        buffer.extend_from_slice(&tag);
        let sample = buffer[content..].first_chunk().copied();
        let [high, low] = self.key.mask(sample.unwrap_or_default());
        let record = Dtls::record_header(epoch, [number[0] ^ high, number[1] ^ low]);
        let chunk = Dtls::header(self.restart, record, buffer.len() - content);
        buffer[content - Dtls::HEADER_LEN..content].copy_from_slice(&chunk);
        let len = padded(buffer.len() - begin);
        buffer.resize(begin + len, 0);
        buffer[begin + 8..begin + COMMON_HEADER_LEN].fill(0);
        let checksum = crc32c(&buffer[begin..]).to_le_bytes();
        buffer[begin + 8..begin + COMMON_HEADER_LEN].copy_from_slice(&checksum);
        true
    }
}
