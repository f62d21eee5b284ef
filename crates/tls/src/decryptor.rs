//! Decrypts the packets of a capture with the keys of a key log. Unlike the receiver of an association, it accepts what was captured twice,
//! and finds out which key belongs to which packets: a key belongs to a direction of an association if it decrypts a packet of it.

use std::collections::HashMap;

use anabranch_proto::RecordKey;
use anabranch_proto::wire::chunk::{Dtls, kind};
use anabranch_proto::wire::crc32c;
use anabranch_proto::wire::packet::{COMMON_HEADER_LEN, Packet};
use bytes::Bytes;

use crate::key_log::LoggedKey;
use crate::record::DtlsKey;

/// The content type of all records: application_data (RFC 8446 §B.1).
const APPLICATION_DATA: u8 = 23;

/// Bytes of the tag of every cipher suite.
const TAG_LEN: usize = 16;

/// A record has the low 16 bits of its sequence number. If a capture begins late, so many values of the higher bits are tried: a key with
/// AES-GCM encrypts 2^24 records at most, and this stack replaces every key earlier.
const LATE: u64 = 1 << 8;

/// If so many packets of a direction were tried without success, only every [`SELDOM`]th further one is tried: a log with the keys of
/// thousands of other associations must not take hours.
const TRIES: u64 = 16;

/// See [`TRIES`].
const SELDOM: u64 = 256;

/// The result of decrypting a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// The packet has no DTLS chunk.
    Clear,
    /// The packet with the chunks that were encrypted, and a new checksum.
    Decrypted(Vec<u8>),
    /// No key of the log belongs to the packet.
    NoKey,
    /// A key belongs to the packet's direction and epoch, but the packet is not authentic: it was changed, or more than 32,768 packets before
    /// it are missing.
    Failed,
}

/// A key of the log.
#[derive(Debug)]
struct Candidate {
    epoch: u64,
    key: DtlsKey,
    taken: bool,
}

/// Source port, destination port and verification tag of packets: one direction of an association.
type Direction = [u8; 8];

/// The keys of a direction.
#[derive(Debug, Default)]
struct Found {
    /// Places of keys, each with the sequence number that is expected next; the newest last.
    keys: Vec<(usize, u64)>,
    /// Packets since the last one that was decrypted.
    failures: u64,
}

/// Decrypts packets with these keys: see the beginning of this file.
#[derive(Debug, Default)]
pub struct Decryptor {
    keys: Vec<Candidate>,
    directions: HashMap<Direction, Found>,
}

impl Decryptor {
    /// A decryptor with the keys of a log ([`crate::read_key_log`]).
    #[must_use]
    pub fn new(keys: &[LoggedKey]) -> Self {
        let candidate = |logged: &LoggedKey| {
            Some(Candidate {
                epoch: logged.epoch(),
                key: logged.key()?,
                taken: false,
            })
        };
        Self {
            keys: keys.iter().filter_map(candidate).collect(),
            directions: HashMap::new(),
        }
    }

    /// Decrypts an SCTP packet, from its common header on. Its checksum is not verified: captures of a sending host may have packets whose
    /// checksum the network card adds.
    #[must_use]
    pub fn open(&mut self, packet: &[u8]) -> Opened {
        let Ok(parsed) = Packet::parse_unchecked(Bytes::copy_from_slice(packet)) else {
            return Opened::Clear;
        };
        let mut chunks = parsed.chunks();
        let (Some(Ok(raw)), None) = (chunks.next(), chunks.next()) else {
            return Opened::Clear;
        };
        if raw.kind != kind::DTLS {
            return Opened::Clear;
        }
        let (Ok(chunk), Some(direction)) = (Dtls::decode(&raw), packet.first_chunk::<8>()) else {
            return Opened::Failed;
        };
        let found = self.directions.entry(*direction).or_default();
        match found.open(&mut self.keys, &chunk) {
            Ok(content) => {
                found.failures = 0;
                Opened::Decrypted(rebuilt(*direction, &content))
            }
            Err(refused) => {
                found.failures += 1;
                refused
            }
        }
    }
}

impl Found {
    fn open(&mut self, keys: &mut [Candidate], chunk: &Dtls) -> Result<Vec<u8>, Opened> {
        let mut refused = Opened::NoKey;
        for (place, next) in self.keys.iter_mut().rev() {
            let candidate = &keys[*place];
            if !candidate.has_bits(chunk) {
                continue;
            }
            refused = Opened::Failed;
            let sequence = nearest(*next, candidate.number(chunk));
            if let Some(content) = candidate.open(chunk, sequence) {
                *next = (*next).max(sequence + 1);
                return Ok(content);
            }
        }
        if self.failures >= TRIES && !self.failures.is_multiple_of(SELDOM) {
            return Err(refused);
        }
        let free = keys
            .iter_mut()
            .enumerate()
            .filter(|(_, candidate)| !candidate.taken && candidate.has_bits(chunk));
        for (place, candidate) in free {
            let low = u64::from(candidate.number(chunk));
            let opened = (0..LATE).find_map(|high| {
                let sequence = high << 16 | low;
                Some((sequence, candidate.open(chunk, sequence)?))
            });
            if let Some((sequence, content)) = opened {
                candidate.taken = true;
                self.keys.push((place, sequence + 1));
                return Ok(content);
            }
        }
        Err(refused)
    }
}

impl Candidate {
    fn has_bits(&self, chunk: &Dtls) -> bool {
        self.epoch as u8 & 3 == chunk.epoch
    }

    /// The low bits of the sequence number of a record of this key (RFC 9147 §4.2.3).
    fn number(&self, chunk: &Dtls) -> u16 {
        let sample = chunk.encrypted.first_chunk().copied().unwrap_or_default();
        let [high, low] = self.key.mask(sample);
        u16::from_be_bytes([chunk.sequence[0] ^ high, chunk.sequence[1] ^ low])
    }

    /// The chunks of a record.
    fn open(&self, chunk: &Dtls, sequence: u64) -> Option<Vec<u8>> {
        let mut content = chunk.encrypted.to_vec();
        let header = Dtls::record_header(chunk.epoch, (sequence as u16).to_be_bytes());
        let authentic = self.key.open(sequence, header, &mut content);
        content.truncate(content.len().checked_sub(TAG_LEN)?);
        // The content type is the last byte that is not zero: a sender may pad the record (RFC 8446 §5.4).
        let end = content.iter().rposition(|byte| *byte != 0)?;
        let valid = authentic && content[end] == APPLICATION_DATA;
        content.truncate(end);
        valid.then_some(content)
    }
}

/// The sequence number with these low bits that is nearest to `next`.
fn nearest(next: u64, low: u16) -> u64 {
    let ahead = low.wrapping_sub(next as u16);
    let after = next + u64::from(ahead);
    if ahead <= 1 << 15 {
        after
    } else {
        after.checked_sub(1 << 16).unwrap_or(after)
    }
}

/// The packet with these chunks.
fn rebuilt(direction: Direction, chunks: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(COMMON_HEADER_LEN + chunks.len());
    packet.extend_from_slice(&direction);
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(chunks);
    let checksum = crc32c(&packet).to_le_bytes();
    packet[8..COMMON_HEADER_LEN].copy_from_slice(&checksum);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_log::read_key_log;

    const CHUNKS: [u8; 4] = [11, 0, 0, 4];

    /// The lines of two directions and of a later epoch.
    fn keys() -> Vec<LoggedKey> {
        let line = |sender: &str, epoch: u32, byte: &str| {
            let (key, iv) = (byte.repeat(16), byte.repeat(12));
            format!(
                "SCTP_DTLS_CHUNK 0000000000000000 {sender} {epoch} TLS_AES_128_GCM_SHA256 {key} {key} {iv}\n"
            )
        };
        let text = line("client", 3, "01") + &line("server", 3, "02") + &line("client", 7, "03");
        read_key_log(&text).unwrap()
    }

    fn sealed(key: &LoggedKey, tag: u32, sequence: u64) -> Vec<u8> {
        let (epoch, key) = (key.epoch() as u8, key.key().unwrap());
        let mut content = CHUNKS.to_vec();
        content.extend_from_slice(&[APPLICATION_DATA, 0, 0]);
        let number = (sequence as u16).to_be_bytes();
        let sealed = key.seal(sequence, Dtls::record_header(epoch, number), &mut content);
        content.extend_from_slice(&sealed.unwrap());
        let [high, low] = key.mask(*content.first_chunk().unwrap());
        let record = Dtls::record_header(epoch, [number[0] ^ high, number[1] ^ low]);
        let mut direction = [0, 1, 0, 2, 0, 0, 0, 0];
        direction[4..].copy_from_slice(&tag.to_be_bytes());
        rebuilt(
            direction,
            &[&Dtls::header(false, record, content.len())[..], &content].concat(),
        )
    }

    #[test]
    fn keys_are_found_for_directions_epochs_and_late_beginnings() {
        let keys = keys();
        let mut decryptor = Decryptor::new(&keys);
        for (key, tag, sequence) in [
            // The capture begins after 300,000 packets.
            (0, 5, 300_000),
            (1, 6, 0),
            (0, 5, 299_998),
            (0, 5, 300_000),
            (0, 5, 332_000),
            // Epoch 7 has the bits of epoch 3.
            (2, 5, 0),
            (0, 5, 332_001),
            (2, 5, 1),
        ] {
            let packet = sealed(&keys[key], tag, sequence);
            let Opened::Decrypted(opened) = decryptor.open(&packet) else {
                panic!("{key} {tag} {sequence}");
            };
            assert_eq!(opened[..8], packet[..8]);
            assert_eq!(opened[COMMON_HEADER_LEN..], CHUNKS);
            assert!(Packet::parse(opened.into()).is_ok(), "the checksum is right");
        }
    }

    #[test]
    fn nothing_is_decrypted_without_the_key() {
        let keys = keys();
        let packet = sealed(&keys[1], 6, 0);
        assert_eq!(Decryptor::new(&keys[..1]).open(&packet), Opened::NoKey);
        let mut decryptor = Decryptor::new(&keys);
        let clear = rebuilt([0, 1, 0, 2, 0, 0, 0, 0], &CHUNKS);
        assert_eq!(decryptor.open(&clear), Opened::Clear);
        assert_eq!(decryptor.open(b"short"), Opened::Clear);
        assert!(matches!(decryptor.open(&packet), Opened::Decrypted(_)));
        let mut changed = sealed(&keys[1], 6, 1);
        changed[21] ^= 1;
        assert_eq!(decryptor.open(&changed), Opened::Failed);
    }
}
